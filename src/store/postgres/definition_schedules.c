/* The schedules of a definition as the argument of publish_with_schedules(), which sets them in the transaction of the
 * version. One text in the place of a dozen arrays: a definition has few of them. Runs in the caller's thread.
 */
#include "store/postgres/definition_schedules.h"

#include "base/error.h"

static json_t *write_names(const struct schedule_request *request)
{
    json_t *names = json_array();
    bool is_fine = names != NULL;
    for (size_t i = 0; i < request->workspace_count && is_fine; i++) {
        is_fine = json_array_append_new(names, json_string(request->workspaces[i])) == 0;
    }
    if (!is_fine) {
        json_decref(names);
        return NULL;
    }
    return names;
}

/* A cron expression without a zone is in UTC, as for store_schedule_set(). */
static json_t *write_schedule(const struct owned_schedule *schedule)
{
    const struct schedule_request *request = &schedule->request;
    const struct recurrence_text *when = &request->when;
    const char *zone = when->zone == NULL && when->cron != NULL ? "UTC" : when->zone;
    return json_pack("{s:s, s:s?, s:s?, s:I, s:I, s:I, s:I, s:s, s:o, s:s?, s:s, s:I, s:I}", "name", request->name, "cron",
                     when->cron, "zone", zone, "every_us", (json_int_t)when->every_us, "jitter_us",
                     (json_int_t)request->jitter_us, "from_us", (json_int_t)when->from_us, "until_us",
                     (json_int_t)when->until_us, "params", request->params, "workspaces", write_names(request), "plan",
                     request->plan, "overlap", schedule_overlap_name(request->overlap), "catch_up_us",
                     (json_int_t)request->catch_up_us, "due_us", (json_int_t)schedule->due_us);
}

enum weir_status definition_schedules_write(const struct definition_schedules *schedules, char **ret_text,
                                            struct weir_error *error)
{
    INVARIANT(schedules != NULL && ret_text != NULL);
    json_t *all = json_array();
    bool is_fine = all != NULL;
    for (size_t i = 0; i < schedules->count && is_fine; i++) {
        is_fine = json_array_append_new(all, write_schedule(&schedules->items[i])) == 0;
    }
    char *text = is_fine ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    if (text == NULL) {
        return error_out_of_memory(error);
    }
    *ret_text = text;
    return WEIR_OK;
}
