#include "powercuts/disk.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const endings[DISK_FILES] = {"", "-wal"};

static _Noreturn void give_up(const char *what)
{
    perror(what);
    exit(2);
}

static void *checked(void *memory)
{
    if (memory == NULL) {
        give_up("memory");
    }
    return memory;
}

/* --- the trace --- */

void disk_trace_add(struct disk_trace *trace, enum disk_op_kind kind, int file, const void *bytes, size_t length,
                    int64_t at)
{
    if (trace->count == trace->room) {
        trace->room = trace->room == 0 ? 256 : trace->room * 2;
        trace->ops = checked(realloc(trace->ops, trace->room * sizeof trace->ops[0]));
    }
    struct disk_op *op = &trace->ops[trace->count++];
    *op = (struct disk_op){.kind = kind, .file = file, .at = at, .length = length};
    if (length > 0) {
        op->bytes = checked(malloc(length));
        memcpy(op->bytes, bytes, length);
    }
}

void disk_trace_free(struct disk_trace *trace)
{
    for (size_t i = 0; i < trace->count; i++) {
        free(trace->ops[i].bytes);
    }
    free(trace->ops);
    *trace = (struct disk_trace){.ops = NULL};
}

/* --- images --- */

static void set_size(struct disk_image *image, int file, size_t size)
{
    size_t old = image->files[file].size;
    if (size > image->files[file].room) {
        image->files[file].room = size + size / 2;
        image->files[file].bytes = checked(realloc(image->files[file].bytes, image->files[file].room));
    }
    if (size > old) {
        memset(image->files[file].bytes + old, 0, size - old);
    }
    image->files[file].size = size;
}

void disk_image_read(struct disk_image *image, const char *database_path)
{
    for (int i = 0; i < DISK_FILES; i++) {
        char path[512];
        struct stat facts;
        (void)snprintf(path, sizeof path, "%s%s", database_path, endings[i]);
        int file = open(path, O_RDONLY);
        size_t size = file >= 0 && fstat(file, &facts) == 0 ? (size_t)facts.st_size : 0;
        set_size(image, i, size);
        if (size > 0 && read(file, image->files[i].bytes, size) != (ssize_t)size) {
            give_up(path);
        }
        if (file >= 0) {
            (void)close(file);
        }
    }
}

void disk_image_write(const struct disk_image *image, const char *database_path)
{
    for (int i = 0; i < DISK_FILES; i++) {
        char path[512];
        size_t size = image->files[i].size;
        (void)snprintf(path, sizeof path, "%s%s", database_path, endings[i]);
        int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        if (file < 0 || (size > 0 && write(file, image->files[i].bytes, size) != (ssize_t)size)) {
            give_up(path);
        }
        (void)close(file);
    }
}

void disk_image_copy(struct disk_image *to, const struct disk_image *from)
{
    for (int i = 0; i < DISK_FILES; i++) {
        to->files[i].size = 0;
        set_size(to, i, from->files[i].size);
        if (from->files[i].size > 0) {
            memcpy(to->files[i].bytes, from->files[i].bytes, from->files[i].size);
        }
    }
}

void disk_image_free(struct disk_image *image)
{
    for (int i = 0; i < DISK_FILES; i++) {
        free(image->files[i].bytes);
    }
    *image = (struct disk_image){.files = {{.bytes = NULL}}};
}

/* --- changes --- */

static void apply_bytes(struct disk_image *image, const struct disk_op *op, size_t from, size_t length)
{
    size_t end = (size_t)op->at + from + length;
    if (end > image->files[op->file].size) {
        set_size(image, op->file, end);
    }
    memcpy(image->files[op->file].bytes + op->at + from, op->bytes + from, length);
}

static void apply(struct disk_image *image, const struct disk_op *op)
{
    if (op->kind == DISK_WRITE) {
        apply_bytes(image, op, 0, op->length);
    } else if (op->kind == DISK_TRUNCATE) {
        set_size(image, op->file, (size_t)op->at);
    } else if (op->kind == DISK_REMOVE) {
        set_size(image, op->file, 0);
    }
}

/* Each sector for itself. */
static void apply_torn(struct disk_image *image, const struct disk_op *op, struct random *random)
{
    size_t from = 0;
    while (from < op->length) {
        size_t length = SECTOR_BYTES - ((size_t)op->at + from) % SECTOR_BYTES;
        length = length < op->length - from ? length : op->length - from;
        if (random_below(random, 2) == 0) {
            apply_bytes(image, op, from, length);
        }
        from += length;
    }
}

/* --- the disk --- */

void disk_open(struct disk *disk, const struct disk_trace *trace, const struct disk_image *begin)
{
    *disk = (struct disk){.trace = trace};
    disk_image_copy(&disk->durable, begin);
}

void disk_close(struct disk *disk)
{
    disk_image_free(&disk->durable);
}

void disk_advance(struct disk *disk, struct random *random)
{
    const struct disk_op *op = &disk->trace->ops[disk->place++];
    bool fails = op->kind == DISK_FAILED_SYNC;
    if (disk->ignores_syncs || (op->kind != DISK_SYNC && !fails)) {
        return;
    }
    for (size_t i = disk->synced[op->file]; i < disk->place; i++) {
        const struct disk_op *earlier = &disk->trace->ops[i];
        if (earlier->file == op->file && (!fails || random_below(random, 2) == 0)) {
            apply(&disk->durable, earlier);
        }
    }
    disk->synced[op->file] = disk->place;
}

void disk_cut(const struct disk *disk, struct random *random, struct disk_image *ret_image)
{
    enum { NOTHING, EVERYTHING, WHOLE_CHANGES, TORN, MODES };
    uint64_t mode = random_below(random, MODES);
    disk_image_copy(ret_image, &disk->durable);
    for (size_t i = 0; i < disk->place && mode != NOTHING; i++) {
        const struct disk_op *op = &disk->trace->ops[i];
        if (i < disk->synced[op->file]) {
            continue;
        }
        if (mode == TORN && op->kind == DISK_WRITE) {
            apply_torn(ret_image, op, random);
        } else if (mode == EVERYTHING || random_below(random, 2) == 0) {
            apply(ret_image, op);
        }
    }
}
