/* What a figure cannot be read without: the machine, its disk, the settings of the store. */
#ifndef WEIR_BENCH_MACHINE_H
#define WEIR_BENCH_MACHINE_H

#include <jansson.h>

#include "bench.h"

/* Measures the disk of the run's folder: median time of an append with fdatasync(), in microseconds. */
double machine_fsync_us(const struct bench *bench);
/* {"cpu", "cores", "kernel", "file_system", "sqlite", "settings", "fsync_p50_us"}; the caller releases it. */
json_t *machine_describe(const struct bench *bench);

#endif
