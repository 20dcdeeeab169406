/* The content of a time zone file: TZif, version 2 or later (RFC 8536). */
#ifndef WEIR_CALENDAR_ZONE_FILE_H
#define WEIR_CALENDAR_ZONE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calendar/posix_zone.h"

enum { ZONE_FILE_MAX = 1024 * 1024 };

struct zone_change {
    int64_t at;     /* seconds since 1970-01-01 UTC */
    int32_t offset; /* from then on, seconds east of UTC */
};

struct zone_table {
    int32_t first_offset; /* before the first change */
    struct zone_change *changes;
    size_t count;
    bool has_rule; /* for all times after the last change */
    struct posix_zone rule;
};

/* NULL, or the reason why the bytes are refused. free() ret_table->changes. Any thread. */
const char *zone_file_read(const unsigned char *bytes, size_t length, struct zone_table *ret_table);

#endif
