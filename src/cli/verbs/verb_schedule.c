/* `weir schedule set`, `list`, `show`, `pause`, `resume`, `delete`, `trigger` and `next`.
 *
 * `next` with --cron or --every computes times without a store, so that an expression can be tried. Otherwise each verb is
 * one verb of the store. One thread.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "calendar/recurrence.h"
#include "cli/arguments/input.h"
#include "cli/output/json_fields.h"
#include "cli/output/table.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/verb.h"

/* --- list and show --- */

/* "30 4 * * mon-fri Europe/Berlin", "every 15m". */
static const char *times_text(struct output *output, const json_t *schedule)
{
    char every[DURATION_TEXT_MAX];
    char text[CRON_TEXT_MAX + TIME_ZONE_NAME_MAX + 2];
    const char *cron = field_text(output, schedule, "cron");
    if (cron != NULL) {
        (void)snprintf(text, sizeof text, "%s %s", cron, field_text(output, schedule, "zone"));
    } else {
        duration_format(field_number(schedule, "every_us", 0), every);
        (void)snprintf(text, sizeof text, "every %s", every);
    }
    return output_safe(output, text);
}

/* The workspaces with commas, also those that were deleted, or "plan NAME". */
static const char *schedule_workspaces_text(struct output *output, const json_t *schedule)
{
    const char *plan = field_text(output, schedule, "plan");
    struct text text = {.max = SCHEDULE_WORKSPACES_MOST * (WORKSPACE_NAME_MAX + sizeof ", (deleted)")};
    size_t i;
    size_t count = json_array_size(json_object_get(schedule, "workspaces"));
    const json_t *name;
    enum weir_status status = plan == NULL ? WEIR_OK : text_format(&text, "plan %s", plan);
    json_array_foreach(json_object_get(schedule, "workspaces"), i, name)
    {
        status = status == WEIR_OK ? text_format(&text, "%s%s", i == 0 ? "" : ",", json_string_value(name)) : status;
    }
    json_array_foreach(json_object_get(schedule, "workspaces_deleted"), i, name)
    {
        status = status == WEIR_OK
                     ? text_format(&text, "%s%s (deleted)", i + count == 0 ? "" : ",", json_string_value(name))
                     : status;
    }
    const char *safe = output_safe(output, text.data);
    text_close(&text);
    return safe;
}

static void print_schedules(struct output *output, const json_t *page, int64_t now_us)
{
    static const struct column columns[] = {{.title = "SCHEDULE", .least = 8},
                                            {.title = "STATE"},
                                            {.title = "TIMES", .least = 10},
                                            {.title = "WORKFLOW", .least = 8},
                                            {.title = "WORKSPACES", .least = 9},
                                            {.title = "DEFINITION", .least = 8},
                                            {.title = "NEXT"},
                                            {.title = "LAST"},
                                            {.title = "EXECUTION", .least = ID_COLUMNS_LEAST},
                                            {.title = "STATUS"},
                                            {.title = "WAITING", .align = COLUMN_RIGHT},
                                            {.title = "REFUSED", .align = COLUMN_RIGHT},
                                            {.title = "ERROR", .least = 10}};
    struct table table;
    size_t i;
    json_t *item;
    table_open(&table, output, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(json_object_get(page, "items"), i, item)
    {
        const char *next = field_text(output, item, "next_at");
        bool is_paused = field_is_true(item, "paused");
        bool is_refused = field_is_true(item, "is_refused");
        table_cell(&table, field_text(output, item, "name"));
        table_cell_sign(&table,
                        is_paused    ? SIGN_PAUSED
                        : is_refused ? SIGN_WARN
                                     : SIGN_FINE,
                        is_paused      ? "paused"
                        : is_refused   ? "refused"
                        : next == NULL ? "over"
                                       : "open");
        table_cell(&table, times_text(output, item));
        table_cell(&table, field_text(output, item, "workflow"));
        table_cell(&table, schedule_workspaces_text(output, item));
        table_cell(&table, field_text(output, item, "definition_name"));
        table_cell(&table, next == NULL ? NULL : output_ago(output, next, now_us));
        const char *last = field_text(output, item, "last_at");
        table_cell(&table, last == NULL ? NULL : output_ago(output, last, now_us));
        table_cell(&table, field_text(output, item, "last_execution_id"));
        const char *status = field_text(output, item, "last_status");
        if (status == NULL) {
            table_cell(&table, NULL);
        } else {
            table_cell_sign(&table, output_state_sign(status), status);
        }
        table_cell(&table, field_text(output, item, "waiting"));
        table_cell(&table, field_text(output, item, "refused"));
        table_cell(&table, is_refused ? field_text(output, item, "error") : NULL);
    }
    table_close(&table);
}

static enum weir_status list_schedules(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    static const struct list_view view = {
        .kind = LIST_SCHEDULES, .print = print_schedules, .empty = "there is no schedule; `weir schedule set` makes one"};
    return verb_print_list(invocation, store, &view, error);
}

enum weir_status verb_schedule_list(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_READ, list_schedules, error);
}

/* The page with the schedule of the argument. The caller releases it. */
static enum weir_status read_schedule(struct invocation *invocation, struct store *store, json_t **ret_page,
                                      struct weir_error *error)
{
    const char *name = invocation_argument(invocation, 0);
    enum weir_status status = store_require_name(store, LIST_SCHEDULES, name, WEIR_NOT_FOUND, error);
    return status == WEIR_OK ? page_read(store, LIST_SCHEDULES, name, ret_page, error) : status;
}

/* A duration as --every takes it. */
static const char *show_text(struct output *output, const json_t *schedule, const char *key)
{
    char text[DURATION_TEXT_MAX];
    size_t length = strlen(key);
    if (length < 3 || strcmp(key + length - 3, "_us") != 0 || !json_is_integer(json_object_get(schedule, key))) {
        return field_text(output, schedule, key);
    }
    duration_format(field_number(schedule, key, 0), text);
    return output_safe(output, text);
}

static enum weir_status show_schedule(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    static const struct column columns[] = {{.title = "FIELD"}, {.title = "VALUE", .least = 20}};
    struct output *output = invocation->output;
    json_t *page = NULL;
    enum weir_status status = read_schedule(invocation, store, &page, error);
    if (status == WEIR_OK && !output_object(output, page_first(page))) {
        struct table table;
        const char *key;
        json_t *value;
        table_open(&table, output, columns, sizeof columns / sizeof columns[0]);
        json_object_foreach((json_t *)page_first(page), key, value)
        {
            const char *text = show_text(output, page_first(page), key);
            if (text != NULL) {
                table_cell(&table, key);
                table_cell(&table, text);
            }
        }
        table_close(&table);
    }
    json_decref(page);
    return status;
}

enum weir_status verb_schedule_show(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_READ, show_schedule, error);
}

/* --- set --- */

enum { SET_TIMES = 3, NEXT_TIMES_DEFAULT = 5 };

/* 0 = not given. A given zero becomes a number that the check of the request refuses, because 0 stands for a default. */
static int64_t given_duration(const struct invocation *invocation, const char *flag)
{
    int64_t duration_us = invocation_number(invocation, flag, 0);
    return invocation_has(invocation, flag) && duration_us == 0 ? -1 : duration_us;
}

static struct recurrence_text times_of(const struct invocation *invocation, int64_t now_us)
{
    return (struct recurrence_text){.cron = invocation_text(invocation, "cron"),
                                    .every_us = given_duration(invocation, "every"),
                                    .zone = invocation_text(invocation, "zone"),
                                    .from_us = invocation_time(invocation, "from", now_us, 0),
                                    .until_us = invocation_time(invocation, "until", now_us, 0)};
}

/* A workflow may be published later, so a name without one is a warning. False: it was given. */
static bool warn_of_workflow(struct output *output, struct store *store, const struct schedule_request *request)
{
    struct weir_error error = {.status = WEIR_OK};
    const char *in = NULL;
    enum weir_status status = WEIR_OK;
    if (request->plan != NULL) {
        status = store_require_name(store, LIST_WORKFLOWS, request->workflow, WEIR_WORKFLOW_NOT_FOUND, &error);
    }
    for (size_t i = 0; i < request->workspace_count && status == WEIR_OK; i++) {
        in = request->workspaces[i];
        status = store_require_workflow(store, in, request->workflow, &error);
    }
    if (status == WEIR_WORKFLOW_NOT_FOUND) {
        output_report_sign(output, SIGN_WARN, "%s%s%s, so each time is refused until it is published; %s",
                           in == NULL ? "" : output_safe(output, in), in == NULL ? "" : ": ",
                           output_safe(output, error.message), output_safe(output, error.hint));
    }
    return status != WEIR_WORKFLOW_NOT_FOUND;
}

/* The names must exist, as in the act itself. */
static enum weir_status check_schedule_names(struct store *store, const struct schedule_request *request,
                                             struct weir_error *error)
{
    enum weir_status status =
        request->plan == NULL ? WEIR_OK : store_require_name(store, LIST_PLANS, request->plan, WEIR_PLAN_NOT_FOUND, error);
    for (size_t i = 0; i < request->workspace_count && status == WEIR_OK; i++) {
        status = store_require_name(store, LIST_WORKSPACES, request->workspaces[i], WEIR_WORKSPACE_NOT_FOUND, error);
    }
    return status;
}

/* The request of a command, and what it keeps of the schedule. */
struct schedule_change {
    json_t *page;      /* of the schedule; texts of the request lie in it */
    const json_t *row; /* NULL: it is new */
    struct text params;
    char *kept_params; /* of the allocator */
    const char *names[SCHEDULE_WORKSPACES_MOST];
    struct schedule_request request;
};

static void close_change(struct schedule_change *change)
{
    text_close(&change->params);
    free(change->kept_params);
    json_decref(change->page);
}

/* The next times, as the strongest check that a user has of an expression. They are left out where this machine cannot
 * read the zone: then a server has accepted it. */
static void report_next(struct output *output, const struct schedule_request *request, const json_t *times)
{
    const char *local[SET_TIMES] = {"", "", ""};
    size_t i;
    const json_t *time;
    json_array_foreach(times, i, time)
    {
        local[i] = json_string_value(json_object_get(time, "local_at"));
    }
    if (json_array_size(times) > 0) {
        output_report(output, "  next: %s%s%s%s%s %s", local[0], local[1][0] == '\0' ? "" : ", ", local[1],
                      local[2][0] == '\0' ? "" : ", ", local[2],
                      request->when.zone == NULL ? "UTC" : output_safe(output, request->when.zone));
    }
}

static enum weir_status report_schedule_change(struct invocation *invocation, struct store *store,
                                               const struct schedule_change *change, int64_t now_us,
                                               struct weir_error *error)
{
    struct output *output = invocation->output;
    struct weir_error unread = {.status = WEIR_OK};
    json_t *times = NULL;
    const struct schedule_request *request = &change->request;
    bool is_paused = change->row != NULL && field_is_true(change->row, "paused");
    output_report_sign(output, is_paused ? SIGN_PAUSED : SIGN_FINE, "schedule %s %s; it starts %s%s",
                       output_safe(output, request->name),
                       invocation_is_dry_run(invocation) ? "would be set"
                       : change->row == NULL             ? "is made"
                                                         : "is changed",
                       output_safe(output, request->workflow), is_paused ? ", and stays paused" : "");
    if (schedule_next_times(&request->when, now_us, SET_TIMES, &times, &unread) == WEIR_OUT_OF_MEMORY) {
        return error_out_of_memory(error);
    }
    if (!is_paused) {
        report_next(output, request, times);
    }
    bool is_published = warn_of_workflow(output, store, request);
    return verb_print_act(invocation,
                          json_pack("{s:s, s:b, s:s, s:b, s:b, s:o}", "name", request->name, "is_new", change->row == NULL,
                                    "workflow", request->workflow, "workflow_is_published", is_published, "paused",
                                    is_paused, "times", times == NULL ? json_array() : times),
                          error);
}

/* A flag wins, then the schedule as it is. An interval has no zone. */
static void choose_times(const struct invocation *invocation, const json_t *row, int64_t now_us,
                         struct recurrence_text *when)
{
    struct recurrence_text given = times_of(invocation, now_us);
    struct recurrence_text kept = row == NULL ? (struct recurrence_text){.cron = NULL} : schedule_row_times(row);
    bool has_times = invocation_has(invocation, "cron") || invocation_has(invocation, "every");
    when->cron = has_times ? given.cron : kept.cron;
    when->every_us = has_times ? given.every_us : kept.every_us;
    when->zone = invocation_has(invocation, "zone") ? given.zone : when->cron == NULL ? NULL : kept.zone;
    when->from_us =
        invocation_has(invocation, "from") || invocation_has(invocation, "no-from") ? given.from_us : kept.from_us;
    when->until_us =
        invocation_has(invocation, "until") || invocation_has(invocation, "no-until") ? given.until_us : kept.until_us;
}

/* Workspaces and a plan exclude each other. */
static void name_workspaces(const struct invocation *invocation, struct schedule_change *change)
{
    struct schedule_request *request = &change->request;
    size_t i;
    const json_t *name;
    request->plan = invocation_text(invocation, "plan");
    request->workspaces = invocation_texts(invocation, "workspace", &request->workspace_count);
    if (request->plan != NULL || request->workspace_count > 0) {
        return;
    }
    request->plan = json_string_value(json_object_get(change->row, "plan"));
    request->workspaces = change->names;
    json_array_foreach(json_object_get(change->row, "workspaces"), i, name)
    {
        if (request->workspace_count < SCHEDULE_WORKSPACES_MOST) {
            change->names[request->workspace_count++] = json_string_value(name);
        }
    }
}

static enum weir_status choose_params(const struct invocation *invocation, struct schedule_change *change,
                                      struct weir_error *error)
{
    const char *given = invocation_text(invocation, "params");
    const json_t *kept = json_object_get(change->row, "params");
    enum weir_status status = WEIR_OK;
    if (given != NULL) {
        status = input_read_value(given, &change->params, error);
    } else if (kept != NULL) {
        change->kept_params = json_make_text(kept, JSON_COMPACT);
        status = change->kept_params == NULL ? error_out_of_memory(error) : WEIR_OK;
    }
    change->request.params = given != NULL ? change->params.data : change->kept_params;
    return status;
}

static enum weir_status choose_change(const struct invocation *invocation, struct schedule_change *change, int64_t now_us,
                                      struct weir_error *error)
{
    struct schedule_request *request = &change->request;
    const json_t *row = change->row;
    const char *overlap = invocation_text(invocation, "overlap");
    overlap = overlap == NULL && row != NULL ? json_string_value(json_object_get(row, "overlap")) : overlap;
    const char *workflow = invocation_text(invocation, "workflow");
    request->workflow = workflow == NULL ? json_string_value(json_object_get(row, "workflow")) : workflow;
    request->jitter_us = invocation_number(invocation, "jitter", field_number(row, "jitter_us", 0));
    request->catch_up_us = invocation_has(invocation, "catch-up") ? given_duration(invocation, "catch-up")
                                                                  : field_number(row, "catch_up_us", 0);
    bool is_policy = overlap == NULL || schedule_overlap_parse(overlap, &request->overlap);
    INVARIANT(is_policy); /* the table of flags names the choices, and the store has no other */
    choose_times(invocation, row, now_us, &request->when);
    name_workspaces(invocation, change);
    return choose_params(invocation, change, error);
}

/* Which flag of a new schedule is missing; NULL = none. */
static const char *missing_flag(const struct invocation *invocation)
{
    bool has_times = invocation_has(invocation, "cron") || invocation_has(invocation, "every");
    bool has_place = invocation_has(invocation, "workspace") || invocation_has(invocation, "plan");
    return !has_times                                ? "--cron or --every"
           : !invocation_has(invocation, "workflow") ? "--workflow"
           : !has_place                              ? "--workspace or --plan"
                                                     : NULL;
}

/* A command without any of these flags means a schedule that exists. */
static enum weir_status refuse_incomplete(struct invocation *invocation, struct store *store, const char *missing,
                                          struct weir_error *error)
{
    static const char *const flags[] = {"cron", "every", "workflow", "workspace", "plan"};
    bool has_any = false;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        has_any = has_any || invocation_has(invocation, flags[i]);
    }
    const char *name = invocation_argument(invocation, 0);
    return has_any ? invocation_usage_error(invocation, error, "a new schedule needs %s", missing)
                   : store_require_name(store, LIST_SCHEDULES, name, WEIR_NOT_FOUND, error);
}

static enum weir_status apply_change(struct invocation *invocation, struct store *store, struct schedule_change *change,
                                     int64_t now_us, struct weir_error *error)
{
    const char *missing = change->row == NULL ? missing_flag(invocation) : NULL;
    if (missing != NULL) {
        return refuse_incomplete(invocation, store, missing, error);
    }
    enum weir_status status = choose_change(invocation, change, now_us, error);
    if (status == WEIR_OK && invocation_is_dry_run(invocation)) {
        status = store_schedule_check(store, &change->request, error);
        status = status == WEIR_OK ? check_schedule_names(store, &change->request, error) : status;
    } else if (status == WEIR_OK) {
        status = store_schedule_set(store, &change->request, NULL, error);
    }
    return status == WEIR_OK ? report_schedule_change(invocation, store, change, now_us, error) : status;
}

/* A change keeps what the command leaves out, as `weir webhook set` and `weir plan set` do. */
static enum weir_status set_schedule(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    int64_t now_us = 0;
    const char *name = invocation_argument(invocation, 0);
    struct schedule_change change = {.params = {.max = PARAMS_BYTES_MAX}, .request.name = name};
    enum weir_status status = store_time(store, &now_us, error);
    if (status == WEIR_OK) {
        status = page_read(store, LIST_SCHEDULES, name, &change.page, error);
    }
    if (status == WEIR_OK) {
        change.row = page_first(change.page);
        status = apply_change(invocation, store, &change, now_us, error);
    }
    close_change(&change);
    return status;
}

enum weir_status verb_schedule_set(struct invocation *invocation, struct weir_error *error)
{
    static const char *const pairs[][2] = {
        {"cron", "every"}, {"workspace", "plan"}, {"from", "no-from"}, {"until", "no-until"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (invocation_has(invocation, pairs[i][0]) && invocation_has(invocation, pairs[i][1])) {
            return invocation_usage_error(invocation, error, "`weir schedule set` takes --%s or --%s, not both",
                                          pairs[i][0], pairs[i][1]);
        }
    }
    return verb_with_store(invocation, STORE_CHANGE, set_schedule, error);
}

/* --- pause, resume, delete, trigger --- */

static enum weir_status set_schedule_paused(struct invocation *invocation, struct store *store, bool paused,
                                            struct weir_error *error)
{
    struct output *output = invocation->output;
    const char *name = invocation_argument(invocation, 0);
    bool is_dry_run = invocation_is_dry_run(invocation);
    enum weir_status status = is_dry_run ? store_require_name(store, LIST_SCHEDULES, name, WEIR_NOT_FOUND, error)
                                         : store_schedule_pause(store, name, paused, error);
    if (status == WEIR_OK) {
        output_report_sign(output, paused ? SIGN_PAUSED : SIGN_FINE, "schedule %s %s%s", output_safe(output, name),
                           is_dry_run ? "would be " : "is ", paused ? "paused; it does not fire" : "resumed");
        status = verb_print_act(invocation, json_pack("{s:s, s:b}", "name", name, "paused", paused), error);
    }
    return status;
}

static enum weir_status pause_schedule(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    return set_schedule_paused(invocation, store, true, error);
}

static enum weir_status resume_schedule(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    return set_schedule_paused(invocation, store, false, error);
}

enum weir_status verb_schedule_pause(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, pause_schedule, error);
}

enum weir_status verb_schedule_resume(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, resume_schedule, error);
}

static enum weir_status delete_schedule(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    struct output *output = invocation->output;
    const char *name = invocation_argument(invocation, 0);
    bool is_dry_run = invocation_is_dry_run(invocation);
    enum weir_status status = is_dry_run ? store_require_name(store, LIST_SCHEDULES, name, WEIR_NOT_FOUND, error)
                                         : store_schedule_delete(store, name, error);
    status = status == WEIR_OK && is_dry_run ? store_schedule_check_owner(store, name, error) : status;
    if (status == WEIR_OK) {
        output_report_sign(output, SIGN_FINE, "schedule %s %s", output_safe(output, name),
                           is_dry_run ? "would be deleted" : "is deleted");
        status = verb_print_act(invocation, json_pack("{s:s}", "name", name), error);
    }
    return status;
}

enum weir_status verb_schedule_delete(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, delete_schedule, error);
}

/* "7 to start, 2 skipped by its overlap policy, 9991 had this time already". */
static void report_trigger(struct output *output, const struct schedule_trigger *trigger,
                           const struct schedule_counts *counts)
{
    char existing[64] = "";
    char rest[64] = "";
    char time[TIME_TEXT_MAX] = "now";
    if (trigger->at_us != 0) {
        time_format(trigger->at_us, time);
    }
    if (counts->existing > 0) {
        (void)snprintf(existing, sizeof existing, ", %" PRId64 " had this time already", counts->existing);
    }
    if (counts->rest > 0) {
        (void)snprintf(rest, sizeof rest, ", %" PRId64 " follow", counts->rest);
    }
    if (trigger->at_us != 0 && trigger->workspace_count == 0 && counts->firings + counts->skipped + counts->existing == 0) {
        output_report_sign(output, SIGN_WARN, "schedule %s: no workspace was refused at %s; name those to start in with -w",
                           output_safe(output, trigger->name), time);
        return;
    }
    output_report_sign(output, counts->skipped > 0 ? SIGN_WARN : SIGN_FINE,
                       "schedule %s fires %s%s: %" PRId64 " to start, %" PRId64 " skipped by its overlap policy%s%s",
                       output_safe(output, trigger->name), trigger->at_us == 0 ? "" : "for ", time, counts->firings,
                       counts->skipped, existing, rest);
}

/* Workspaces that the overlap policy leaves out are named as a warning: the user expects them to start. */
static enum weir_status trigger_schedule(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    struct output *output = invocation->output;
    struct schedule_counts counts = {0};
    struct schedule_trigger trigger = {.name = invocation_argument(invocation, 0)};
    int64_t now_us = 0;
    trigger.workspaces = invocation_texts(invocation, "workspace", &trigger.workspace_count);
    enum weir_status status = store_time(store, &now_us, error);
    if (status == WEIR_OK) {
        trigger.at_us = invocation_time(invocation, "at", now_us, 0);
        status = invocation_is_dry_run(invocation) ? store_schedule_trigger_check(store, &trigger, error)
                                                   : store_schedule_trigger(store, &trigger, &counts, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    if (invocation_is_dry_run(invocation)) {
        output_report_sign(output, SIGN_FINE, "schedule %s would fire", output_safe(output, trigger.name));
    } else {
        report_trigger(output, &trigger, &counts);
    }
    status = verb_print_act(invocation,
                            json_pack("{s:s, s:I, s:I, s:I, s:I}", "name", trigger.name, "firings",
                                      (json_int_t)counts.firings, "skipped", (json_int_t)counts.skipped, "existing",
                                      (json_int_t)counts.existing, "rest", (json_int_t)counts.rest),
                            error);
    bool is_skipped = counts.skipped > 0 && counts.firings + counts.existing + counts.rest == 0;
    return status == WEIR_OK && is_skipped ? WEIR_CONFLICT : status; /* the report is above */
}

enum weir_status verb_schedule_trigger(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, trigger_schedule, error);
}

/* --- next --- */

/* UTC, and beside it the time of the zone where that is another one. */
static enum weir_status print_times(const struct invocation *invocation, const struct recurrence_text *when,
                                    int64_t after_us, struct weir_error *error)
{
    struct output *output = invocation->output;
    json_t *times = NULL;
    int64_t count = invocation_number(invocation, "limit", NEXT_TIMES_DEFAULT);
    enum weir_status status = schedule_next_times(when, after_us, count, &times, error);
    if (status != WEIR_OK) {
        return status;
    }
    bool is_local = when->zone != NULL && strcmp(when->zone, "UTC") != 0;
    size_t i;
    const json_t *time;
    json_t *answer = json_pack("{s:O, s:s}", "times", times, "zone", when->zone == NULL ? "UTC" : when->zone);
    if (answer == NULL) {
        status = error_out_of_memory(error);
    } else if (!output_object(output, answer)) {
        json_array_foreach(times, i, time)
        {
            output_print(output, "%s%s%s\n", json_string_value(json_object_get(time, "at")), is_local ? "  " : "",
                         is_local ? json_string_value(json_object_get(time, "local_at")) : "");
        }
        if (json_array_size(times) == 0) {
            output_report(output, "no time is left");
        }
    }
    json_decref(times);
    json_decref(answer);
    return status;
}

static enum weir_status print_next(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    json_t *page = NULL;
    int64_t now_us = 0;
    enum weir_status status = read_schedule(invocation, store, &page, error);
    if (status == WEIR_OK) {
        status = store_time(store, &now_us, error);
    }
    if (status == WEIR_OK) {
        struct recurrence_text when = schedule_row_times(page_first(page));
        status = print_times(invocation, &when, now_us, error);
    }
    json_decref(page);
    return status;
}

/* An expression in place of a name: the answer is its fault, or the flag for it. */
static enum weir_status refuse_cron_as_name(struct invocation *invocation, const char *cron, struct weir_error *error)
{
    const struct recurrence_text when = {.cron = cron};
    json_t *times = NULL;
    enum weir_status status = schedule_next_times(&when, clock_wall(clock_system()), 1, &times, error);
    json_decref(times);
    return status == WEIR_OK
               ? invocation_usage_error(invocation, error, "\"%s\" is an expression; give it with the flag: --cron '%s'",
                                        cron, cron)
               : status;
}

enum weir_status verb_schedule_next(struct invocation *invocation, struct weir_error *error)
{
    static const char *const of_expression[] = {"zone", "from", "until"};
    bool has_times = invocation_has(invocation, "cron") || invocation_has(invocation, "every");
    const char *name = invocation_argument(invocation, 0);
    if (!has_times && name != NULL && (name[0] == '@' || strchr(name, ' ') != NULL)) {
        return refuse_cron_as_name(invocation, name, error);
    }
    if (has_times == (name != NULL)) {
        return invocation_usage_error(invocation, error, "`weir schedule next` needs a NAME, or --cron or --every");
    }
    if (!has_times) {
        for (size_t i = 0; i < sizeof of_expression / sizeof of_expression[0]; i++) {
            if (invocation_has(invocation, of_expression[i])) {
                return invocation_usage_error(invocation, error, "--%s is for --cron or --every; a schedule has its own",
                                              of_expression[i]);
            }
        }
        return verb_with_store(invocation, STORE_READ, print_next, error);
    }
    int64_t now_us = clock_wall(clock_system());
    struct recurrence_text when = times_of(invocation, now_us);
    return print_times(invocation, &when, now_us, error);
}
