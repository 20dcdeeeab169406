/* Requests of one tenant while the token of another one sends far more than its rate allows. */
#ifndef WEIR_BENCH_HTTP_FLOOD_H
#define WEIR_BENCH_HTTP_FLOOD_H

#include "bench.h"

void bench_http_flood(struct bench *bench);
/* Left out, with a reason, where the server's programs are missing. */
void bench_postgres_http_flood(struct bench *bench);

#endif
