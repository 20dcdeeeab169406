/* The next times of a schedule as JSON.
 *
 * A row has the members that `weir schedule show` prints; an interval has no zone, as in the request that made it. Times
 * are computed from the expression alone: what the overlap policy will leave out is not known before they come. Runs in the
 * caller's thread.
 */
#include "base/error.h"
#include "store/schedules.h"

/* 0 = none. A row has only times that a store wrote. */
static int64_t row_time(const json_t *row, const char *key)
{
    int64_t time_us = 0;
    const char *text = json_string_value(json_object_get(row, key));
    enum weir_status status = text == NULL ? WEIR_OK : time_parse(text, 0, &time_us, NULL);
    return status == WEIR_OK ? time_us : 0;
}

struct recurrence_text schedule_row_times(const json_t *row)
{
    INVARIANT(row != NULL);
    return (struct recurrence_text){.cron = json_string_value(json_object_get(row, "cron")),
                                    .zone = json_string_value(json_object_get(row, "zone")),
                                    .every_us = json_integer_value(json_object_get(row, "every_us")),
                                    .from_us = row_time(row, "starts_at"),
                                    .until_us = row_time(row, "ends_at")};
}

enum weir_status schedule_next_times(const struct recurrence_text *when, int64_t after_us, int64_t count,
                                     json_t **ret_times, struct weir_error *error)
{
    INVARIANT(when != NULL && count >= 0 && ret_times != NULL);
    struct recurrence recurrence = {.zone = NULL};
    json_t *times = NULL;
    *ret_times = NULL;
    enum weir_status status = recurrence_open(when, &recurrence, error);
    if (status == WEIR_OK && (times = json_array()) == NULL) {
        status = error_out_of_memory(error);
    }
    for (int64_t i = 0; status == WEIR_OK && i < count; i++) {
        char at[TIME_TEXT_MAX];
        char local[TIME_TEXT_MAX];
        after_us = recurrence_next(&recurrence, after_us);
        if (after_us == TIME_NEVER) {
            break;
        }
        time_format(after_us, at);
        recurrence_format_local(&recurrence, after_us, local);
        if (json_array_append_new(times, json_pack("{s:s, s:s}", "at", at, "local_at", local)) != 0) {
            status = error_out_of_memory(error);
        }
    }
    recurrence_close(&recurrence);
    if (status != WEIR_OK) {
        json_decref(times);
        return status;
    }
    *ret_times = times;
    return WEIR_OK;
}
