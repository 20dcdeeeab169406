/* The rule of a time zone in the form of POSIX: "CET-1CEST,M3.5.0,M10.5.0/3". A zone file ends with one, for all times
 * after its last change (RFC 8536, 3.3).
 *
 * Times are seconds since 1970-01-01 UTC. Threads: any, the functions are pure.
 */
#ifndef WEIR_CALENDAR_POSIX_ZONE_H
#define WEIR_CALENDAR_POSIX_ZONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum posix_day_kind {
    POSIX_DAY_OF_YEAR_WITHOUT_LEAP, /* Jn: 1 to 365, 29 February is never counted */
    POSIX_DAY_OF_YEAR,              /* n: 0 to 365 */
    POSIX_DAY_OF_WEEK               /* Mm.w.d: day d (0 = Sunday) of week w (5 = the last one) of month m */
};

struct posix_change {
    enum posix_day_kind kind;
    int month;
    int week;
    int day;
    int32_t time; /* seconds after the local midnight that begins the day, -167 to 167 hours */
};

struct posix_zone {
    int32_t standard; /* seconds east of UTC */
    int32_t summer;
    bool has_summer;
    struct posix_change summer_begins; /* in standard time */
    struct posix_change summer_ends;   /* in summer time */
};

/* False: the text is no such rule. */
bool posix_zone_read(const char *text, size_t length, struct posix_zone *ret_zone);
int32_t posix_zone_offset(const struct posix_zone *zone, int64_t time);
/* The first change after `time`, or INT64_MAX without summer time. */
int64_t posix_zone_next_change(const struct posix_zone *zone, int64_t time);

#endif
