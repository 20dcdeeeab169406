/* GET /v1/stream with many readers. */
#ifndef WEIR_BENCH_HTTP_STREAMS_H
#define WEIR_BENCH_HTTP_STREAMS_H

#include "bench.h"
#include "daemon.h"

/* `store`: that of the daemon, with a paused queue. */
void bench_http_streams(struct bench *bench, struct store *store, int port, struct daemon *daemon);

#endif
