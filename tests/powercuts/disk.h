/* A disk that loses its power: what was synchronised is there, of the rest any part, in any order, with torn sectors.
 *
 * The model: sectors of SECTOR_BYTES are written whole or not at all. A sync makes all earlier changes of its file durable.
 * Of the changes since then each sector may or may not be there. A sync that fails gives up: each change before it is on
 * disk, or is lost for good and no later sync brings it back (Linux marks such pages clean). */
#ifndef WEIR_TESTS_POWERCUTS_DISK_H
#define WEIR_TESTS_POWERCUTS_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"

enum { SECTOR_BYTES = 512 };
enum disk_file { DISK_DATABASE, DISK_LOG, DISK_FILES };
enum disk_op_kind { DISK_WRITE, DISK_TRUNCATE, DISK_REMOVE, DISK_SYNC, DISK_FAILED_SYNC };

struct disk_op {
    enum disk_op_kind kind;
    int file;
    int64_t at; /* of a truncation: the new size */
    size_t length;
    uint8_t *bytes;
};

struct disk_trace {
    struct disk_op *ops;
    size_t count;
    size_t room;
};

/* Copies the bytes. */
void disk_trace_add(struct disk_trace *trace, enum disk_op_kind kind, int file, const void *bytes, size_t length,
                    int64_t at);
void disk_trace_free(struct disk_trace *trace);

struct disk_image {
    struct {
        uint8_t *bytes;
        size_t size;
        size_t room;
    } files[DISK_FILES];
};

/* The files as they are at this moment; one that is not there is empty. */
void disk_image_read(struct disk_image *image, const char *database_path);
void disk_image_write(const struct disk_image *image, const char *database_path);
void disk_image_copy(struct disk_image *to, const struct disk_image *from);
void disk_image_free(struct disk_image *image);

/* A disk that follows a trace up to a place in it. */
struct disk {
    const struct disk_trace *trace;
    size_t place;              /* ops before it have happened */
    size_t synced[DISK_FILES]; /* ops of the file before it are durable, or lost for good */
    struct disk_image durable;
    bool ignores_syncs; /* as with synchronous=OFF: then nothing is durable but by luck */
};

void disk_open(struct disk *disk, const struct disk_trace *trace, const struct disk_image *begin);
void disk_close(struct disk *disk);
/* One op further; `random` decides what a failed sync loses. */
void disk_advance(struct disk *disk, struct random *random);
/* The content after a power cut at this moment. */
void disk_cut(const struct disk *disk, struct random *random, struct disk_image *ret_image);

#endif
