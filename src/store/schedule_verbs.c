/* The verbs of schedules, and the names of the overlap policies.
 *
 * Each verb checks its arguments and calls the driver, so that all drivers refuse the same. The first due time is computed
 * here from the store's clock, because no driver knows calendars. The name of a schedule is a part of idempotency keys. The
 * verbs of the duty are no acts, and are not on record, but for the cancels that it requests in the name of a schedule.
 * Runs in the caller's thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "store/call.h"
#include "store/definition_schedules.h"
#include "store/refusal.h"

static const char *const overlap_names[] = {[OVERLAP_SKIP] = "skip",
                                            [OVERLAP_QUEUE_ONE] = "queue_one",
                                            [OVERLAP_QUEUE_ALL] = "queue_all",
                                            [OVERLAP_CANCEL_RUNNING] = "cancel_running"};
enum { OVERLAPS = sizeof overlap_names / sizeof overlap_names[0] };

/* The names are those of flags, JSON and the column. */
const char *schedule_overlap_name(enum schedule_overlap overlap)
{
    INVARIANT((size_t)overlap < OVERLAPS);
    return overlap_names[overlap];
}

bool schedule_overlap_parse(const char *name, enum schedule_overlap *ret_overlap)
{
    INVARIANT(ret_overlap != NULL);
    for (size_t i = 0; name != NULL && i < OVERLAPS; i++) {
        if (strcmp(name, overlap_names[i]) == 0) {
            *ret_overlap = (enum schedule_overlap)i;
            return true;
        }
    }
    return false;
}

/* Refused here, because a schedule may name a workflow that is published later. The slash of a name is reserved. */
static enum weir_status check_word(const char *what, const char *name, size_t most, struct weir_error *error)
{
    enum weir_status status = call_check_name(what, name, most, error);
    if (status != WEIR_OK) {
        return status;
    }
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_");
    if (length == 0 || name[length] != '\0' || name[0] == '-' || name[0] == '_') {
        error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not a name of a %s", name, what);
        error_hint(error,
                   "a name has the characters a-z, 0-9, - and _, begins with a letter or a digit, and is at most %zu "
                   "bytes",
                   most);
        return WEIR_INVALID_ARGUMENT;
    }
    return WEIR_OK;
}

/* The times of schedules have no parts of seconds, so that people can read them. */
static enum weir_status check_duration(const char *what, int64_t duration_us, int64_t least_us, int64_t most_us,
                                       struct weir_error *error)
{
    if (duration_us < least_us || duration_us > most_us || duration_us % MICROSECONDS_PER_SECOND != 0) {
        char least[DURATION_TEXT_MAX];
        char most[DURATION_TEXT_MAX];
        duration_format(least_us, least);
        duration_format(most_us, most);
        error_set(error, WEIR_INVALID_ARGUMENT, "the %s of a schedule is whole seconds, from %s to %s", what, least, most);
        error_hint(error, "for example 5m, or leave it out");
        return WEIR_INVALID_ARGUMENT;
    }
    return WEIR_OK;
}

/* The two members that each firing adds would hide the user's. */
static enum weir_status check_members(const char *params, struct weir_error *error)
{
    json_t *value = NULL;
    enum weir_status status = params == NULL ? WEIR_OK : json_read(params, strlen(params), &value, error);
    const char *const members[] = {SCHEDULE_TIME_MEMBER, SCHEDULE_NAME_MEMBER};
    for (size_t i = 0; i < 2 && status == WEIR_OK; i++) {
        if (json_object_get(value, members[i]) != NULL) {
            status = error_set(error, WEIR_INVALID_PARAMS, "the params of a schedule must not have \"%s\"", members[i]);
            error_hint(error, "each execution gets it from the schedule; give your own member another name");
        }
    }
    json_decref(value);
    return status;
}

/* At most SCHEDULE_WORKSPACES_MOST, each once. */
static enum weir_status check_schedule_workspaces(const char *const *names, size_t count, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    if (count > SCHEDULE_WORKSPACES_MOST) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a schedule names at most %d workspaces", SCHEDULE_WORKSPACES_MOST);
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = call_check_name("workspace", names[i], WORKSPACE_NAME_MAX, error);
        for (size_t j = 0; j < i && status == WEIR_OK; j++) {
            if (strcmp(names[i], names[j]) == 0) {
                status = error_set(error, WEIR_INVALID_ARGUMENT, "workspace \"%s\" is named twice", names[i]);
            }
        }
    }
    return status;
}

/* The workflow and its workspaces. The params are checked as those of an enqueue, which they become. */
static enum weir_status check_target(const struct schedule_request *request, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    struct enqueue_request sample = {.workspace = "any",
                                     .workflow = request->workflow,
                                     .params = request->params,
                                     .params_length = request->params == NULL ? 0 : strlen(request->params)};
    if ((request->plan == NULL) == (request->workspace_count == 0) || request->workspace_count > SCHEDULE_WORKSPACES_MOST) {
        error_set(error, WEIR_INVALID_ARGUMENT, "a schedule is for a list of at most %d workspaces, or for those of a plan",
                  SCHEDULE_WORKSPACES_MOST);
        error_hint(error, "name workspaces, or one plan");
        return WEIR_INVALID_ARGUMENT;
    }
    if (request->plan != NULL) {
        status = call_check_name("plan", request->plan, PLAN_NAME_MAX, error);
    }
    if (status == WEIR_OK) {
        status = check_schedule_workspaces(request->workspaces, request->workspace_count, error);
    }
    if (status == WEIR_OK && sample.params_length > SCHEDULE_PARAMS_BYTES_MAX) {
        status = error_set(error, WEIR_PARAMS_TOO_LARGE, "params are %zu bytes, the limit of a schedule is %d",
                           sample.params_length, SCHEDULE_PARAMS_BYTES_MAX);
    }
    if (status == WEIR_OK) {
        status = enqueue_request_check(&sample, error);
    }
    if (status == WEIR_OK) {
        status = check_word("workflow", request->workflow, WORKFLOW_NAME_MAX, error);
    }
    return status == WEIR_OK ? check_members(request->params, error) : status;
}

/* An execution that waits for its jitter counts as one that has not ended, so a longer one would skip times. All times
 * count, not the next ones alone: the same schedule is refused or accepted at any time of day. */
static enum weir_status check_jitter(const struct schedule_request *request, const struct recurrence *recurrence,
                                     struct weir_error *error)
{
    if (request->jitter_us == 0 || request->jitter_us < recurrence_least_gap(recurrence)) {
        return WEIR_OK;
    }
    error_set(error, WEIR_INVALID_ARGUMENT, "the jitter of a schedule is shorter than the time between two of its times");
    error_hint(error, "give a jitter that is shorter than the least of these, also over midnight; or fewer times");
    return WEIR_INVALID_ARGUMENT;
}

/* Checks the request. *ret_request: with defaults instead of zeros. */
static enum weir_status check_schedule(const struct schedule_request *request, struct schedule_request *ret_request,
                                       struct recurrence *ret_recurrence, struct weir_error *error)
{
    *ret_request = *request;
    ret_request->catch_up_us = request->catch_up_us == 0 ? SCHEDULE_CATCH_UP_DEFAULT_US : request->catch_up_us;
    ret_request->params = request->params == NULL ? "{}" : request->params;
    enum weir_status status = check_word("schedule", request->name, SCHEDULE_NAME_MAX, error);
    if (status == WEIR_OK) {
        status = check_target(request, error);
    }
    if (status == WEIR_OK) {
        status = check_duration("jitter", request->jitter_us, 0, SCHEDULE_JITTER_MOST_US, error);
    }
    if (status == WEIR_OK) {
        status = check_duration("catch-up", ret_request->catch_up_us, SCHEDULE_CATCH_UP_LEAST_US, SCHEDULE_CATCH_UP_MOST_US,
                                error);
    }
    if (status == WEIR_OK) {
        status = recurrence_open(&request->when, ret_recurrence, error);
    }
    return status == WEIR_OK ? check_jitter(request, ret_recurrence, error) : status;
}

/* A server has time zones that this machine may lack, and computes the times itself. */
static bool leaves_times(const struct store *store, enum weir_status status)
{
    return status == WEIR_FAILED && (store_features(store) & STORE_IS_SERVER) != 0;
}

/* The first time counts from the clock of the store, so that a wrong clock of the caller has no effect. */
enum weir_status schedule_prepare(struct store *store, const struct schedule_request *request, bool may_be_over,
                                  struct schedule_request *ret_request, int64_t *ret_due_us, struct weir_error *error)
{
    INVARIANT(store != NULL && request != NULL && ret_request != NULL && ret_due_us != NULL);
    int64_t now_us = 0;
    struct recurrence recurrence = {.zone = NULL};
    *ret_due_us = 0;
    enum weir_status status = check_schedule(request, ret_request, &recurrence, error);
    if (leaves_times(store, status)) {
        return WEIR_OK;
    }
    if (status == WEIR_OK) {
        status = store_time(store, &now_us, error);
    }
    if (status == WEIR_OK) {
        *ret_due_us = recurrence_next(&recurrence, now_us);
    }
    bool has_none = status == WEIR_OK && *ret_due_us == TIME_NEVER;
    bool is_over = has_none && may_be_over && recurrence_next(&recurrence, 0) != TIME_NEVER;
    recurrence_close(&recurrence);
    if (has_none && !is_over) { /* a mistake, most likely in the year */
        error_set(error, WEIR_INVALID_ARGUMENT, "schedule \"%s\" would have no time in the future", request->name);
        error_hint(error, may_be_over ? "write a later \"until\", or none" : "give a later end, or none: --no-until");
        return WEIR_INVALID_ARGUMENT;
    }
    return status;
}

/* Reads the row as a list does, so it works for each kind of store. The act itself checks again within its transaction. */
enum weir_status store_schedule_check_owner(struct store *store, const char *name, struct weir_error *error)
{
    INVARIANT(store != NULL && name != NULL);
    json_t *page = NULL;
    const struct list_options options = {.kind = LIST_SCHEDULES, .name = name, .limit = 1};
    enum weir_status status = store_list(store, &options, &page, error);
    const json_t *row = status == WEIR_OK ? json_array_get(json_object_get(page, "items"), 0) : NULL;
    const char *definition = json_string_value(json_object_get(row, "definition_name"));
    status = definition != NULL ? refusal_schedule_of_definition(name, definition, error) : status;
    json_decref(page);
    return status;
}

enum weir_status store_schedule_check(struct store *store, const struct schedule_request *request, struct weir_error *error)
{
    INVARIANT(store != NULL && request != NULL);
    struct schedule_request checked;
    int64_t due_us = 0;
    enum weir_status status = schedule_prepare(store, request, false, &checked, &due_us, error);
    return status == WEIR_OK ? store_schedule_check_owner(store, request->name, error) : status;
}

/* The driver gets the first time, because no driver knows calendars. */
enum weir_status store_schedule_set(struct store *store, const struct schedule_request *request, bool *ret_is_new,
                                    struct weir_error *error)
{
    INVARIANT(store != NULL && request != NULL);
    bool is_new = false;
    bool *is_made = ret_is_new == NULL ? &is_new : ret_is_new;
    int64_t due_us = 0;
    struct schedule_request checked;
    enum weir_status status = schedule_prepare(store, request, false, &checked, &due_us, error);
    if (status != WEIR_OK) {
        return status;
    }
    CALL(store, "schedule_set", error, store->driver->schedule_set(store, &checked, due_us, is_made, detail));
}

/* The driver moves the due time of a resumed schedule to the present: it need not be one of the times. */
enum weir_status store_schedule_pause(struct store *store, const char *name, bool paused, struct weir_error *error)
{
    INVARIANT(store != NULL);
    enum weir_status status = call_check_name("schedule", name, SCHEDULE_NAME_MAX, error);
    if (status != WEIR_OK) {
        return status;
    }
    CALL(store, "schedule_pause", error, store->driver->schedule_pause(store, name, paused, detail));
}

/* The executions of a deleted schedule stay, and so do their keys: one that is made again fires no time twice. */
enum weir_status store_schedule_delete(struct store *store, const char *name, struct weir_error *error)
{
    INVARIANT(store != NULL);
    enum weir_status status = call_check_name("schedule", name, SCHEDULE_NAME_MAX, error);
    if (status != WEIR_OK) {
        return status;
    }
    CALL(store, "schedule_delete", error, store->driver->schedule_delete(store, name, detail));
}

/* The time is part of the key, so it has one spelling. */
void schedule_key(const char *schedule, int64_t due_us, char ret_key[SCHEDULE_KEY_MAX])
{
    char time[TIME_TEXT_MAX];
    time_format(due_us, time);
    (void)snprintf(ret_key, SCHEDULE_KEY_MAX, SCHEDULE_KEY_PREFIX "%s/%s", schedule, time);
}

/* A time in the future fires by itself, if it is one of the schedule. */
static enum weir_status check_trigger(struct store *store, const struct schedule_trigger *trigger, struct weir_error *error)
{
    int64_t now_us = 0;
    enum weir_status status = call_check_name("schedule", trigger->name, SCHEDULE_NAME_MAX, error);
    if (status == WEIR_OK) {
        status = check_schedule_workspaces(trigger->workspaces, trigger->workspace_count, error);
    }
    if (status == WEIR_OK && trigger->at_us != 0) {
        status = store_time(store, &now_us, error);
    }
    if (status == WEIR_OK && (trigger->at_us < 0 || trigger->at_us > now_us)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "a schedule is triggered for a time that has passed, or for now");
        error_hint(error, "give the time of a refusal: weir schedule show %s", trigger->name);
        return WEIR_INVALID_ARGUMENT;
    }
    return status;
}

/* A list has its names, a plan those of its workspaces. */
static enum weir_status check_trigger_workspace(struct store *store, const json_t *row, const char *schedule,
                                                const char *workspace, struct weir_error *error)
{
    size_t i;
    const json_t *name;
    json_t *page = NULL;
    const json_t *plan = json_object_get(row, "plan");
    const struct list_options options = {.kind = LIST_WORKSPACES, .name = workspace, .limit = 1};
    enum weir_status status = store_require_name(store, LIST_WORKSPACES, workspace, WEIR_WORKSPACE_NOT_FOUND, error);
    if (status == WEIR_OK) {
        status = store_list(store, &options, &page, error);
    }
    const json_t *found = json_array_get(json_object_get(page, "items"), 0);
    bool is_its_own = json_is_string(plan) && json_equal(json_object_get(found, "plan"), plan);
    json_array_foreach(json_object_get(row, "workspaces"), i, name)
    {
        is_its_own = is_its_own || strcmp(json_string_value(name), workspace) == 0;
    }
    json_decref(page);
    return status != WEIR_OK || is_its_own ? status : refusal_workspace_of_schedule(schedule, workspace, error);
}

enum weir_status store_schedule_trigger_check(struct store *store, const struct schedule_trigger *trigger,
                                              struct weir_error *error)
{
    INVARIANT(store != NULL && trigger != NULL);
    json_t *page = NULL;
    const struct list_options options = {.kind = LIST_SCHEDULES, .name = trigger->name, .limit = 1};
    enum weir_status status = check_trigger(store, trigger, error);
    if (status == WEIR_OK) {
        status = store_require_name(store, LIST_SCHEDULES, trigger->name, WEIR_NOT_FOUND, error);
    }
    if (status == WEIR_OK) {
        status = store_list(store, &options, &page, error);
    }
    const json_t *row = json_array_get(json_object_get(page, "items"), 0);
    for (size_t i = 0; i < trigger->workspace_count && status == WEIR_OK; i++) {
        status = check_trigger_workspace(store, row, trigger->name, trigger->workspaces[i], error);
    }
    json_decref(page);
    return status;
}

/* The arguments of a trigger for its record, of the allocator. A list that is too long for a record is a number. NULL text:
 * there are none. */
static enum weir_status write_trigger_arguments(const struct schedule_trigger *trigger, char **ret_text,
                                                struct weir_error *error)
{
    char time[TIME_TEXT_MAX];
    json_t *arguments = json_object();
    json_t *names = json_array();
    size_t length = 0;
    bool is_fine = arguments != NULL && names != NULL;
    for (size_t i = 0; i < trigger->workspace_count && is_fine; i++) {
        is_fine = json_array_append_new(names, json_string(trigger->workspaces[i])) == 0;
        length += strlen(trigger->workspaces[i]) + sizeof "\"\",";
    }
    time_format(trigger->at_us, time);
    is_fine = is_fine && (trigger->at_us == 0 || json_object_set_new(arguments, "at", json_string(time)) == 0);
    if (is_fine && length > ACT_SETTING_MAX / 2) {
        is_fine =
            json_object_set_new(arguments, "workspace_count", json_integer((json_int_t)trigger->workspace_count)) == 0;
    } else if (is_fine && length > 0) {
        is_fine = json_object_set(arguments, "workspaces", names) == 0;
    }
    *ret_text = is_fine && json_object_size(arguments) > 0 ? json_dumps(arguments, JSON_COMPACT) : NULL;
    is_fine = is_fine && (*ret_text != NULL || json_object_size(arguments) == 0);
    json_decref(names);
    json_decref(arguments);
    return is_fine ? WEIR_OK : error_out_of_memory(error);
}

/* Without a time it is the store time, so two triggers have different keys. */
static enum weir_status call_trigger(struct store *store, const struct schedule_trigger *trigger, const char *arguments,
                                     struct schedule_counts *ret_counts, struct weir_error *error)
{
    char key[SCHEDULE_KEY_MAX];
    const char *key_of_time = trigger->at_us == 0 ? NULL : key;
    schedule_key(trigger->name, trigger->at_us, key);
    CALL(store, "schedule_trigger", error,
         store->driver->schedule_trigger(store, trigger, key_of_time, arguments, ret_counts, detail));
}

enum weir_status store_schedule_trigger(struct store *store, const struct schedule_trigger *trigger,
                                        struct schedule_counts *ret_counts, struct weir_error *error)
{
    INVARIANT(store != NULL && trigger != NULL && ret_counts != NULL);
    char *arguments = NULL;
    enum weir_status status = check_trigger(store, trigger, error);
    if (status == WEIR_OK) {
        status = write_trigger_arguments(trigger, &arguments, error);
    }
    if (status == WEIR_OK) {
        status = call_trigger(store, trigger, arguments, ret_counts, error);
    }
    free(arguments);
    return status;
}

/* Reads without a lock: the update of an advance names the due time that was read here. */
enum weir_status store_read_due_schedules(struct store *store, struct arena *arena, struct due_schedules *ret_due,
                                          struct weir_error *error)
{
    INVARIANT(store != NULL && arena != NULL && ret_due != NULL);
    CALL(store, "read_due_schedules", error, store->driver->read_due_schedules(store, arena, ret_due, detail));
}

/* The times go up, so that those which are left for later begin with the next due time. */
enum weir_status store_advance_schedule(struct store *store, struct schedule_advance *advance, struct weir_error *error)
{
    INVARIANT(store != NULL && advance != NULL && advance->fire_count <= SCHEDULE_FIRINGS_MOST);
    for (size_t i = 1; i < advance->fire_count; i++) {
        INVARIANT(advance->fires_us[i - 1] < advance->fires_us[i]);
    }
    CALL(store, "advance_schedule", error, store->driver->advance_schedule(store, advance, detail));
}

/* Each firing has the params of its schedule, which bounds what a call may read. */
enum weir_status store_read_schedule_firings(struct store *store, struct arena *arena, struct schedule_firings *ret_firings,
                                             struct weir_error *error)
{
    INVARIANT(store != NULL && arena != NULL && ret_firings != NULL);
    CALL(store, "read_schedule_firings", error, store->driver->read_schedule_firings(store, arena, ret_firings, detail));
}

enum weir_status store_settle_schedule_firings(struct store *store, struct schedule_outcome *outcomes, size_t count,
                                               struct weir_error *error)
{
    INVARIANT(store != NULL && (outcomes != NULL || count == 0));
    if (count > SCHEDULE_FIRINGS_READ_MOST) {
        return error_set(error, WEIR_MISUSE, "a call settles at most %d firings", SCHEDULE_FIRINGS_READ_MOST);
    }
    if (count == 0) {
        return WEIR_OK;
    }
    CALL(store, "settle_schedule_firings", error, store->driver->settle_schedule_firings(store, outcomes, count, detail));
}
