/* Schedules. They start executions in any workspace, so only a token of all workspaces makes and deletes one. A token of
 * some workspaces reads, pauses, resumes and triggers the schedules that start in its own workspaces alone. The list
 * leaves all further ones out, and api_admit() has checked the schedule of a path. */
#include <stdlib.h>

#include "base/error.h"
#include "base/json.h"
#include "server/own_workspaces.h"
#include "server/routes/body.h"
#include "server/routes/routes.h"

/* --- reads --- */

struct own_schedules {
    const struct principal *principal;
    json_t *items;
    size_t limit;
    bool has_more;
    bool has_failed; /* out of memory */
};

/* A visitor of store_list_each(). */
static bool take_own_schedule(void *context, const json_t *row)
{
    struct own_schedules *own = context;
    if (own_workspaces_has_schedule(own->principal, row)) {
        own->has_more = json_array_size(own->items) == own->limit;
        if (!own->has_more) {
            own->has_failed = json_array_append_new(own->items, json_deep_copy(row)) != 0;
        }
    }
    return !own->has_more && !own->has_failed;
}

/* A page of the schedules that the token may see. A cursor is the name of the last one of a page, so that it shows no name
 * of others. */
void answer_list_schedules(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    int64_t limit = 0;
    if (request_number(request, "limit", 1, LIST_LIMIT_MOST, LIST_LIMIT_DEFAULT, &limit, &error) != WEIR_OK) {
        respond_error(request, answer, &error, "limit");
        return;
    }
    const char *cursor = request_argument(request, "cursor");
    struct own_schedules own = {.principal = request->principal, .items = json_array(), .limit = (size_t)limit};
    const struct list_options options = {
        .kind = LIST_SCHEDULES, .name = request_argument(request, "name"), .cursor = cursor, .limit = (size_t)limit};
    enum weir_status status = store_list_each(store, &options, take_own_schedule, &own, &error);
    size_t count = json_array_size(own.items);
    const json_t *last = own.has_more ? json_object_get(json_array_get(own.items, count - 1), "name") : NULL;
    json_t *page = json_pack("{s:O, s:s?, s:I, s:b}", "items", own.items, "next_cursor", json_string_value(last), "count",
                             (json_int_t)count, "count_is_exact", !own.has_more && cursor == NULL);
    json_decref(own.items);
    if (status == WEIR_OK && (page == NULL || own.has_failed)) {
        status = error_out_of_memory(&error);
    }
    if (status == WEIR_OK) {
        respond_page(request, answer, page);
    } else {
        json_decref(page);
        respond_error(request, answer, &error, NULL);
    }
}

enum { SHOWN_TIMES = 5 };

/* A time zone that this machine cannot read leaves the list of times empty: the schedule shows the error. */
static enum weir_status add_next_times(struct store *store, json_t *row, struct weir_error *error)
{
    int64_t now_us = 0;
    json_t *times = NULL;
    struct recurrence_text when = schedule_row_times(row);
    enum weir_status status = store_time(store, &now_us, error);
    if (status == WEIR_OK) {
        status = schedule_next_times(&when, now_us, SHOWN_TIMES, &times, error);
    }
    if (status == WEIR_FAILED) {
        times = json_array();
        status = WEIR_OK;
    }
    if (status == WEIR_OK && json_object_set_new(row, "times", times) != 0) {
        status = error_out_of_memory(error);
    }
    return status;
}

void answer_show_schedule(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    json_t *page = NULL;
    json_t *row = NULL;
    const char *name = request_value(request, "schedule");
    const struct list_options options = {.kind = LIST_SCHEDULES, .name = name, .limit = 1};
    enum weir_status status = store_require_name(store, LIST_SCHEDULES, name, WEIR_NOT_FOUND, &error);
    if (status == WEIR_OK) {
        status = store_list(store, &options, &page, &error);
    }
    if (status == WEIR_OK) {
        row = json_incref(json_array_get(json_object_get(page, "items"), 0));
        status = row == NULL ? error_set(&error, WEIR_NOT_FOUND, "there is no schedule \"%s\"", name)
                             : add_next_times(store, row, &error);
    }
    json_decref(page);
    respond_outcome(request, answer, status, &error, row);
}

/* --- acts --- */

/* The members of the body that are no text or number yet. */
struct schedule_values {
    const json_t *workspaces;
    const json_t *params;
    const char *starts_at;
    const char *ends_at;
    const char *overlap;
    const char *names[SCHEDULE_WORKSPACES_MOST];
    char *params_text; /* of the allocator */
};

/* names: SCHEDULE_WORKSPACES_MOST of them. `workspaces` may be NULL. */
static enum weir_status read_schedule_names(const json_t *workspaces, const char **names, struct weir_error *error)
{
    size_t i;
    const json_t *name;
    size_t count = json_array_size(workspaces);
    bool is_fine = workspaces == NULL || (json_is_array(workspaces) && count > 0 && count <= SCHEDULE_WORKSPACES_MOST);
    json_array_foreach(is_fine ? workspaces : NULL, i, name)
    {
        is_fine = is_fine && json_is_string(name) && !json_string_has_nul(name); /* a NUL would cut the name */
        names[i] = json_string_value(name);
    }
    if (!is_fine) {
        error_set(error, WEIR_INVALID_ARGUMENT, "\"workspaces\" is no list of 1 to %d names", SCHEDULE_WORKSPACES_MOST);
        error_hint(error, "[\"acme\"], or leave it out and give a plan");
        return WEIR_INVALID_ARGUMENT;
    }
    return WEIR_OK;
}

/* A duration counts from now, as on the command line. */
static enum weir_status read_schedule_time(struct store *store, const char *name, const char *text, int64_t *ret_time_us,
                                           struct weir_error *error)
{
    int64_t now_us = 0;
    enum weir_status status = text == NULL ? WEIR_OK : store_time(store, &now_us, error);
    if (status == WEIR_OK && text != NULL) {
        status = time_parse(text, now_us, ret_time_us, error);
    }
    if (status != WEIR_OK) {
        error_prefix(error, "%s", name);
    }
    return status;
}

/* *ret_pointer: the member at fault. */
static enum weir_status read_schedule_values(struct store *store, struct schedule_values *values,
                                             struct schedule_request *schedule, const char **ret_pointer,
                                             struct weir_error *error)
{
    *ret_pointer = "/workspaces";
    enum weir_status status = read_schedule_names(values->workspaces, values->names, error);
    schedule->workspaces = values->names;
    schedule->workspace_count = status == WEIR_OK ? json_array_size(values->workspaces) : 0;
    if (status == WEIR_OK) {
        *ret_pointer = "/starts_at";
        status = read_schedule_time(store, "starts_at", values->starts_at, &schedule->when.from_us, error);
    }
    if (status == WEIR_OK) {
        *ret_pointer = "/ends_at";
        status = read_schedule_time(store, "ends_at", values->ends_at, &schedule->when.until_us, error);
    }
    if (status == WEIR_OK && values->overlap != NULL && !schedule_overlap_parse(values->overlap, &schedule->overlap)) {
        *ret_pointer = "/overlap";
        status = error_set(error, WEIR_INVALID_ARGUMENT, "\"%.64s\" is no overlap policy", values->overlap);
        error_hint(error, "skip, queue_one, queue_all or cancel_running");
    }
    if (status == WEIR_OK && values->params != NULL) {
        values->params_text = json_make_text(values->params, JSON_COMPACT);
        schedule->params = values->params_text;
        status = schedule->params == NULL ? error_out_of_memory(error) : WEIR_OK;
    }
    *ret_pointer = status == WEIR_OK ? NULL : *ret_pointer;
    return status;
}

/* Replaces the schedule, so a member that is left out has its default. */
void answer_set_schedule(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    struct schedule_request schedule = {.name = request_value(request, "schedule")};
    struct schedule_values values = {.params_text = NULL};
    const struct body_member members[] = {
        {.name = "cron", .kind = BODY_TEXT, .to = &schedule.when.cron},
        {.name = "zone", .kind = BODY_TEXT, .to = &schedule.when.zone},
        {.name = "every_us",
         .kind = BODY_NUMBER,
         .to = &schedule.when.every_us,
         .least = RECURRENCE_EVERY_LEAST_US,
         .most = RECURRENCE_EVERY_MOST_US},
        {.name = "jitter_us", .kind = BODY_NUMBER, .to = &schedule.jitter_us, .most = SCHEDULE_JITTER_MOST_US},
        {.name = "starts_at", .kind = BODY_TEXT, .to = &values.starts_at},
        {.name = "ends_at", .kind = BODY_TEXT, .to = &values.ends_at},
        {.name = "workflow", .kind = BODY_TEXT, .to = &schedule.workflow, .is_required = true},
        {.name = "params", .kind = BODY_VALUE, .to = &values.params},
        {.name = "workspaces", .kind = BODY_VALUE, .to = &values.workspaces},
        {.name = "plan", .kind = BODY_TEXT, .to = &schedule.plan},
        {.name = "overlap", .kind = BODY_TEXT, .to = &values.overlap},
        {.name = "catch_up_us",
         .kind = BODY_NUMBER,
         .to = &schedule.catch_up_us,
         .least = SCHEDULE_CATCH_UP_LEAST_US,
         .most = SCHEDULE_CATCH_UP_MOST_US}};
    const char *pointer = NULL;
    json_t *body = NULL;
    bool is_new = false;
    enum weir_status status = body_read(request, members, sizeof members / sizeof members[0], &body, &pointer, &error);
    if (status == WEIR_OK) {
        status = read_schedule_values(store, &values, &schedule, &pointer, &error);
    }
    if (status != WEIR_OK) {
        respond_error(request, answer, &error, pointer);
    } else {
        status = store_schedule_set(store, &schedule, &is_new, &error);
        respond_outcome(request, answer, status, &error, json_pack("{s:s, s:b}", "name", schedule.name, "is_new", is_new));
    }
    free(values.params_text);
    json_decref(body);
}

static void respond_schedule_pause(struct store *store, struct http_request *request, struct http_answer *answer,
                                   bool paused)
{
    struct weir_error error = {.status = WEIR_OK};
    const char *name = request_value(request, "schedule");
    enum weir_status status = store_schedule_pause(store, name, paused, &error);
    respond_outcome(request, answer, status, &error, json_pack("{s:s, s:b}", "name", name, "paused", paused));
}

void answer_pause_schedule(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    respond_schedule_pause(store, request, answer, true);
}

void answer_resume_schedule(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    respond_schedule_pause(store, request, answer, false);
}

/* Without "at" each request fires once more. */
void answer_trigger_schedule(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    struct schedule_counts counts = {0};
    const char *names[SCHEDULE_WORKSPACES_MOST];
    const json_t *workspaces = NULL;
    const char *at = NULL;
    const struct body_member members[] = {{.name = "workspaces", .kind = BODY_VALUE, .to = &workspaces},
                                          {.name = "at", .kind = BODY_TEXT, .to = &at}};
    struct schedule_trigger trigger = {.name = request_value(request, "schedule"), .workspaces = names};
    const char *pointer = NULL;
    json_t *body = NULL;
    enum weir_status status =
        request_refuse_key(request, "leave it out, and name the time of the firing with `at`: it fires once", &error);
    if (status == WEIR_OK) {
        status = body_read(request, members, sizeof members / sizeof members[0], &body, &pointer, &error);
    }
    if (status == WEIR_OK) {
        status = read_schedule_names(workspaces, names, &error);
        pointer = status == WEIR_OK ? NULL : "/workspaces";
    }
    for (size_t i = 0; status == WEIR_OK && i < json_array_size(workspaces); i++) {
        status = own_workspaces_check(request->principal, names[i], &error); /* the store names the nearest of all */
        pointer = status == WEIR_OK ? NULL : "/workspaces";
    }
    if (status == WEIR_OK) {
        trigger.workspace_count = json_array_size(workspaces);
        status = read_schedule_time(store, "at", at, &trigger.at_us, &error);
        pointer = status == WEIR_OK ? NULL : "/at";
    }
    if (status != WEIR_OK) {
        respond_error(request, answer, &error, pointer);
    } else {
        status = store_schedule_trigger(store, &trigger, &counts, &error);
        respond_outcome(request, answer, status, &error,
                        json_pack("{s:s, s:I, s:I, s:I, s:I}", "name", trigger.name, "firings", (json_int_t)counts.firings,
                                  "skipped", (json_int_t)counts.skipped, "existing", (json_int_t)counts.existing, "rest",
                                  (json_int_t)counts.rest));
    }
    json_decref(body);
}

void answer_delete_schedule(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    const char *name = request_value(request, "schedule");
    enum weir_status status = store_schedule_delete(store, name, &error);
    respond_outcome(request, answer, status, &error, json_pack("{s:s}", "name", name));
}
