/* Tasks of workers over HTTP, beside a handler in C. */
#ifndef WEIR_BENCH_HTTP_TASKS_H
#define WEIR_BENCH_HTTP_TASKS_H

#include "bench.h"

void bench_http_tasks(struct bench *bench);

#endif
