/* Requests for executions of another workspace beside requests for ids that no execution has. */
#ifndef WEIR_BENCH_HTTP_FOREIGN_H
#define WEIR_BENCH_HTTP_FOREIGN_H

#include "bench.h"

void bench_http_foreign(struct bench *bench);

#endif
