/* The memory of idle connections. */
#ifndef WEIR_BENCH_HTTP_IDLE_H
#define WEIR_BENCH_HTTP_IDLE_H

#include "bench.h"

void bench_http_idle(struct bench *bench);

#endif
