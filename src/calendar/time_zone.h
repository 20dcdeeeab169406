/* Time zones of the system's database ("Europe/Berlin"). Times are seconds since 1970-01-01 UTC.
 *
 * The C library has one zone for the whole process (TZ), which a library must not set, so the files are read here.
 *
 * Threads: any; a zone does not change. Owner: the caller closes it. A change of the database is seen by the next open.
 */
#ifndef WEIR_CALENDAR_TIME_ZONE_H
#define WEIR_CALENDAR_TIME_ZONE_H

#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

struct time_zone;

enum { TIME_ZONE_NAME_MAX = 64 };

/* "UTC" needs no file. WEIR_INVALID_ARGUMENT: no such zone; WEIR_FAILED: the database is missing or damaged. */
WEIR_MUST_CHECK enum weir_status time_zone_open(const char *name, struct time_zone **ret_zone, struct weir_error *error);
/* Takes NULL. */
void time_zone_close(struct time_zone *zone);

/* Seconds east of UTC. */
int32_t time_zone_offset(const struct time_zone *zone, int64_t time);
/* The first change of the offset after `time`; INT64_MAX = none. The offset may be the same as before. */
int64_t time_zone_next_change(const struct time_zone *zone, int64_t time);

#endif
