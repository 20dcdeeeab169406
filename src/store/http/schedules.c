/* Schedules: the acts alone. The duty of a node fires their times. No node runs on a server as its store, so the verbs
 * of the duty are refused (http_store.c). One thread. */
#include "base/error.h"
#include "base/json.h"
#include "store/http/http_verbs.h"

/* A time of 0 is none. */
static bool schedule_add_time(json_t *body, const char *key, int64_t time_us)
{
    char text[TIME_TEXT_MAX];
    time_format(time_us, text);
    return time_us == 0 || json_object_set_new(body, key, json_string(text)) == 0;
}

/* A duration of 0 is left to the server. */
static bool schedule_add_duration(json_t *body, const char *key, int64_t duration_us)
{
    return duration_us == 0 || json_object_set_new(body, key, json_integer(duration_us)) == 0;
}

static bool schedule_add_workspaces(json_t *body, const char *const *workspaces, size_t count)
{
    json_t *names = json_array();
    bool is_fine = names != NULL;
    for (size_t i = 0; i < count && is_fine; i++) {
        is_fine = json_array_append_new(names, json_string(workspaces[i])) == 0;
    }
    is_fine = is_fine && (count == 0 || json_object_set(body, "workspaces", names) == 0);
    json_decref(names);
    return is_fine;
}

/* PUT makes the schedule, or replaces it. The server computes the due time by its own clock. */
enum weir_status http_schedule_set(struct store *store, const struct schedule_request *request, int64_t due_us,
                                   bool *ret_is_new, struct weir_error *error)
{
    INVARIANT(store != NULL && request != NULL && ret_is_new != NULL);
    (void)due_us;
    json_t *body = json_object();
    const struct recurrence_text *when = &request->when;
    remote_client_target(client_of(store), "/v1/schedules/{}", (const char *const[]){request->name});
    json_t *params = json_load_text(request->params, JSON_ALLOW_NUL); /* it was checked */
    bool is_fine = body != NULL && params != NULL && json_object_set(body, "params", params) == 0 &&
                   remote_add_text(body, "cron", when->cron) && remote_add_text(body, "zone", when->zone) &&
                   schedule_add_duration(body, "every_us", when->every_us) &&
                   schedule_add_time(body, "starts_at", when->from_us) &&
                   schedule_add_time(body, "ends_at", when->until_us) &&
                   schedule_add_duration(body, "jitter_us", request->jitter_us) &&
                   remote_add_text(body, "workflow", request->workflow) &&
                   schedule_add_workspaces(body, request->workspaces, request->workspace_count) &&
                   remote_add_text(body, "plan", request->plan) &&
                   remote_add_text(body, "overlap", schedule_overlap_name(request->overlap)) &&
                   schedule_add_duration(body, "catch_up_us", request->catch_up_us);
    json_decref(params);
    if (!is_fine) {
        json_decref(body);
        return error_out_of_memory(error);
    }
    return remote_put(store, body, ret_is_new, error);
}

/* A schedule that is paused already stays so, and the act goes on record. */
enum weir_status http_schedule_pause(struct store *store, const char *name, bool paused, struct weir_error *error)
{
    remote_client_target(client_of(store), paused ? "/v1/schedules/{}/pause" : "/v1/schedules/{}/resume",
                         (const char *const[]){name});
    return remote_change(store, "POST", NULL, error);
}

/* The server removes the waiting firings as well. */
enum weir_status http_schedule_delete(struct store *store, const char *name, struct weir_error *error)
{
    remote_client_target(client_of(store), "/v1/schedules/{}", (const char *const[]){name});
    return remote_change(store, "DELETE", NULL, error);
}

/* Without a time each request fires once more, so the client repeats none that may have been done. The server makes the
 * key and the record. */
enum weir_status http_schedule_trigger(struct store *store, const struct schedule_trigger *trigger, const char *key,
                                       const char *arguments, struct schedule_counts *ret_counts, struct weir_error *error)
{
    INVARIANT(store != NULL && trigger != NULL && ret_counts != NULL);
    (void)key;
    (void)arguments;
    json_t *answer = NULL;
    json_t *body = json_object();
    remote_client_target(client_of(store), "/v1/schedules/{}/trigger", (const char *const[]){trigger->name});
    if (body == NULL || !schedule_add_workspaces(body, trigger->workspaces, trigger->workspace_count) ||
        !schedule_add_time(body, "at", trigger->at_us)) {
        json_decref(body);
        return error_out_of_memory(error);
    }
    remote_client_body(client_of(store), body);
    enum weir_status status = remote_change(store, "POST", &answer, error);
    if (status == WEIR_OK) {
        *ret_counts = (struct schedule_counts){.firings = json_integer_value(json_object_get(answer, "firings")),
                                               .skipped = json_integer_value(json_object_get(answer, "skipped")),
                                               .existing = json_integer_value(json_object_get(answer, "existing")),
                                               .rest = json_integer_value(json_object_get(answer, "rest"))};
    }
    json_decref(answer);
    return status;
}
