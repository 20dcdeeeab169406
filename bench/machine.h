/* The facts that a figure cannot be read without: the machine, its disk, the settings of the store. */
#ifndef WEIR_BENCH_MACHINE_H
#define WEIR_BENCH_MACHINE_H

#include <jansson.h>

#include "bench.h"

/* Syncs of the disk of the run's folder, one at a time: 4 KiB in a place that the file has already, then fdatasync(). */
struct sync_probe {
    int file;
    size_t count;
};
void sync_probe_open(struct sync_probe *probe, const struct bench *bench);
/* Microseconds. */
double sync_probe_once(struct sync_probe *probe);
void sync_probe_close(struct sync_probe *probe);

/* The median of syncs in a row, in microseconds: the least that the disk takes, as nothing sleeps in between. */
double machine_fsync_us(const struct bench *bench);
/* {"cpu", "cores", "kernel", "file_system", "sqlite", "settings", "fsync_p50_us"}; the caller releases it. */
json_t *machine_describe(const struct bench *bench);

#endif
