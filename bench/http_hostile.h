/* The delay of ordinary requests beside hostile connections. */
#ifndef WEIR_BENCH_HTTP_HOSTILE_H
#define WEIR_BENCH_HTTP_HOSTILE_H

#include "bench.h"

void bench_http_hostile(struct bench *bench);

#endif
