/* Prints times for comparisons with other implementations: from each line of the input "ZONE SECONDS" the offset of the
 * zone at that time, and from "ZONE SECONDS COUNT EXPRESSION" that many times of the expression behind it. Seconds since
 * 1970-01-01 UTC; an expression or a zone that is refused prints "refused". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "calendar/cron.h"

enum { LINE_MAX_BYTES = 1024 };

static void print_times(const struct time_zone *zone, int64_t after, long count, const char *expression)
{
    struct cron cron;
    if (cron_read(expression, &cron, NULL) != WEIR_OK) {
        (void)printf("refused\n");
        return;
    }
    int64_t at_us = after * MICROSECONDS_PER_SECOND;
    for (long i = 0; i < count; i++) {
        at_us = cron_next(&cron, zone, at_us);
        (void)printf("%s%" PRId64, i == 0 ? "" : " ", at_us / MICROSECONDS_PER_SECOND);
    }
    (void)printf("\n");
}

int main(void)
{
    char line[LINE_MAX_BYTES];
    char zone_name[LINE_MAX_BYTES] = "";
    struct time_zone *zone = NULL;
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *rest = line;
        line[strcspn(line, "\n")] = '\0';
        const char *name = strsep(&rest, " ");
        if (strcmp(zone_name, name) != 0) {
            time_zone_close(zone);
            zone = NULL;
            (void)snprintf(zone_name, sizeof zone_name, "%s", name);
            if (time_zone_open(name, &zone, NULL) != WEIR_OK) {
                zone_name[0] = '\0';
                (void)printf("refused\n");
                continue;
            }
        }
        int64_t after = rest == NULL ? 0 : strtoll(rest, &rest, 10);
        if (rest == NULL || *rest == '\0') {
            (void)printf("%d\n", time_zone_offset(zone, after));
            continue;
        }
        long count = strtol(rest, &rest, 10);
        print_times(zone, after, count, rest + strspn(rest, " "));
    }
    time_zone_close(zone);
    return 0;
}
