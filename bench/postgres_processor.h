/* How much processor a PostgreSQL server has used: all its processes, those that have ended included. */
#ifndef WEIR_BENCH_POSTGRES_PROCESSOR_H
#define WEIR_BENCH_POSTGRES_PROCESSOR_H

#include "support/postgres_server.h"

/* Microseconds of a core, in ticks of the kernel (usually 10 ms). */
double postgres_processor_us(const struct postgres_server *server);

#endif
