/* Expressions of cron and files of time zones: any bytes are refused or give times in order. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "calendar/cron.h"
#include "calendar/zone_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TIMES = 8 };

static void try_cron(const uint8_t *data, size_t size)
{
    struct cron cron;
    struct time_zone *zone = NULL;
    char text[CRON_TEXT_MAX + 2];
    size_t length = size < sizeof text ? size : sizeof text - 1;
    memcpy(text, data, length);
    text[length] = '\0';
    INVARIANT(time_zone_open(size % 2 == 0 ? "UTC" : "Australia/Lord_Howe", &zone, NULL) == WEIR_OK);
    enum weir_status status = cron_read(text, &cron, NULL);
    INVARIANT(status == WEIR_OK || status == WEIR_INVALID_ARGUMENT);
    int64_t at_us = size > 8 ? (int64_t)data[0] << 48 : 0;
    for (int i = 0; i < TIMES && status == WEIR_OK && at_us < TIME_NEVER; i++) {
        int64_t next_us = cron_next(&cron, zone, at_us);
        INVARIANT(next_us > at_us &&
                  (next_us == TIME_NEVER || next_us % (60 * MICROSECONDS_PER_SECOND) == 0 || size % 2 == 1));
        at_us = next_us;
    }
    time_zone_close(zone);
}

static void try_zone(const uint8_t *data, size_t size)
{
    struct zone_table table;
    if (zone_file_read(data, size, &table) != NULL) {
        INVARIANT(table.changes == NULL);
        return;
    }
    int64_t at = 0;
    for (int i = 0; i < TIMES && table.has_rule && at < INT64_MAX; i++) {
        int64_t next = posix_zone_next_change(&table.rule, at);
        int32_t offset = posix_zone_offset(&table.rule, at);
        INVARIANT(next > at && (offset == table.rule.standard || offset == table.rule.summer));
        at = next;
    }
    free(table.changes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_cron(data, size);
    try_zone(data, size);
    return 0;
}
