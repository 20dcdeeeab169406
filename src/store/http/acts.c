/* Acts on executions, nodes, pauses and locks. The server checks and records them; a chunk of a bulk act is one request, as
 * it is one transaction with the other drivers. One thread. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "store/complete.h"
#include "store/http/http_verbs.h"

/* A number of executions; 0 for anything else. */
static size_t answer_count(const json_t *answer, const char *key)
{
    json_int_t number = json_integer_value(json_object_get(answer, key));
    return number > 0 ? (size_t)number : 0;
}

/* "" when there is none. */
static void copy_answer_id(const json_t *answer, const char *key, char to[UUID_TEXT_MAX])
{
    const char *id = json_string_value(json_object_get(answer, key));
    text_copy(to, UUID_TEXT_MAX, id == NULL ? "" : id);
}

/* {"name", "key", "data"} of a signal to many; NULL: no memory, or the data is no JSON, which the caller has checked. */
static json_t *signal_member(const struct act_order *order)
{
    json_t *member = json_pack("{s:s, s:s*}", "name", order->signal_name, "key", order->signal_key);
    if (member != NULL && order->signal_data != NULL &&
        json_object_set_new(member, "data", json_load_text(order->signal_data, JSON_DECODE_ANY)) != 0) {
        json_decref(member);
        return NULL;
    }
    return member;
}

/* Adds the members that only one act has. False: no memory. */
static bool add_order(json_t *body, const struct act_order *order)
{
    return (!order->keeps_finished || json_object_set_new(body, "keep_finished", json_true()) == 0) &&
           (order->signal_name == NULL || json_object_set_new(body, "signal", signal_member(order)) == 0);
}

/* A dry run of a migration reads the steps of each execution, so the server does it. Both members are of this act alone:
 * the route refuses them beside another one. False: no memory. */
static bool add_migration(json_t *body, const struct act_order *order)
{
    return json_object_set_new(body, "to_version", json_integer(order->to_version)) == 0 &&
           json_object_set_new(body, "dry_run", json_boolean(order->only_checks)) == 0;
}

enum weir_status http_bulk(struct store *store, enum bulk_act act, const struct act_order *order,
                           const struct execution_filter *filter, const char *after, size_t limit,
                           struct bulk_result *ret_result, struct weir_error *error)
{
    INVARIANT(store != NULL && filter != NULL && ret_result != NULL);
    struct remote_client *client = client_of(store);
    json_t *answer = NULL;
    remote_client_target(client, "/v1/executions:act", NULL);
    http_add_filter(client, filter);
    json_t *body = json_pack("{s:s, s:s, s:I, s:s*, s:s*}", "action", bulk_act_name(act), "after", after, "limit",
                             (json_int_t)limit, "from_step", order->from, "waiting_for", order->waits_for);
    if (!add_order(body, order) || (act == BULK_MIGRATE && !add_migration(body, order))) {
        json_decref(body);
        body = NULL;
    }
    remote_client_body(client, body);
    enum weir_status status = remote_change(store, "POST", &answer, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct bulk_result result = {.matched = answer_count(answer, "matched"),
                                 .changed = answer_count(answer, "changed"),
                                 .requested = answer_count(answer, "requested"),
                                 .refused = answer_count(answer, "refused"),
                                 .more = json_is_true(json_object_get(answer, "more"))};
    copy_answer_id(answer, "last_id", result.last_id);
    copy_answer_id(answer, "new_id", result.new_id);
    result.first_refusal = remote_client_read_refusal(json_object_get(answer, "first_refusal"), &result.refusal);
    json_decref(answer);
    *ret_result = result;
    return WEIR_OK;
}

/* The result is sent as it was written. The same end may be reported twice, so a lost answer needs no second look. */
enum weir_status http_complete(struct store *store, const struct completion *completion, struct weir_error *error)
{
    INVARIANT(store != NULL && completion != NULL);
    struct remote_client *client = client_of(store);
    const enum item_state states[] = {
        [RECORD_COMPLETED] = ITEM_COMPLETED, [RECORD_FAILED] = ITEM_FAILED, [RECORD_CANCELLED] = ITEM_CANCELLED};
    const char *const texts[][2] = {
        {"error_code", completion->error_code}, {"error", completion->error}, {"run_id", completion->run_id}};
    remote_client_target(client, "/v1/executions/{}/complete", (const char *const[]){completion->id});
    remote_client_add_body(client, "{\"status\":", strlen("{\"status\":"));
    remote_client_add_body_text(client, item_state_name(states[completion->kind]));
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        remote_client_add_member(client, texts[i][0], texts[i][1]);
    }
    if (completion->fence != 0) {
        char fence[40];
        int length = snprintf(fence, sizeof fence, ",\"fence\":%lld", (long long)completion->fence);
        remote_client_add_body(client, fence, (size_t)length);
    }
    remote_client_add_json(client, "result", completion->result);
    remote_client_add_body(client, "}", 1);
    return remote_change_as(store, "POST", "application/json", NULL, error);
}

/* A second decision is refused, so a lost answer shows itself. */
static enum weir_status decide_on_server(struct store *store, const struct signal_request *request,
                                         struct sent_signal *ret_sent, struct weir_error *error)
{
    struct remote_client *client = client_of(store);
    const struct approval *approval = request->approval;
    json_t *answer = NULL;
    remote_client_target(client, approval->approved ? "/v1/executions/{}/approve" : "/v1/executions/{}/reject",
                         (const char *const[]){request->id});
    remote_client_body(client, json_pack("{s:s*, s:s*}", "step", approval->step, "comment", approval->comment));
    enum weir_status status = remote_change(store, "POST", &answer, error);
    if (status == WEIR_OK) {
        *ret_sent = (struct sent_signal){.seq = 0};
        copy_answer_id(answer, "id", ret_sent->id);
        const char *step = json_string_value(json_object_get(answer, "step"));
        text_copy(ret_sent->step, sizeof ret_sent->step, step == NULL ? "" : step);
        json_decref(answer);
    }
    return status;
}

/* The report of a function. The same report again is no failure, so a lost answer needs no second look. */
static enum weir_status report_to_server(struct store *store, const struct callback *report, struct sent_signal *ret_sent,
                                         struct weir_error *error)
{
    struct remote_client *client = client_of(store);
    json_t *answer = NULL;
    bool has_failed = report->error_code != NULL;
    remote_client_target(client, has_failed ? "/v1/callbacks:fail" : "/v1/callbacks:complete", NULL);
    remote_client_add_body(client, "{\"callback\":", strlen("{\"callback\":"));
    remote_client_add_body_text(client, report->token);
    remote_client_add_member(client, "error_code", report->error_code);
    remote_client_add_member(client, "error", has_failed ? report->error : NULL);
    if (has_failed && report->is_final) {
        remote_client_add_body(client, ",\"retry\":false", strlen(",\"retry\":false"));
    }
    remote_client_add_json(client, "output", has_failed ? NULL : report->output);
    remote_client_add_body(client, "}", 1);
    enum weir_status status = remote_change_as(store, "POST", "application/json", &answer, error);
    if (status == WEIR_OK) {
        *ret_sent = (struct sent_signal){.duplicate = json_is_true(json_object_get(answer, "duplicate"))};
        copy_answer_id(answer, "id", ret_sent->id);
        json_decref(answer);
    }
    return status;
}

/* A second update is another action, so a lost answer must not be repeated. The variables are JSON already, and go into the
 * body as they are. */
static enum weir_status update_on_server(struct store *store, const struct signal_request *request,
                                         struct sent_signal *ret_sent, struct weir_error *error)
{
    struct remote_client *client = client_of(store);
    const struct state_update *update = request->update;
    json_t *answer = NULL;
    remote_client_target(client, "/v1/executions/{}/update", (const char *const[]){request->id});
    remote_client_add_body(client, "{", 1);
    remote_client_add_member(client, "state", update->state);
    remote_client_add_member(client, "if_state", update->if_state);
    remote_client_add_json(client, "variables", update->variables);
    remote_client_add_body(client, "}", 1);
    enum weir_status status = remote_change_as(store, "POST", "application/json", &answer, error);
    if (status == WEIR_OK) {
        const char *state = json_string_value(json_object_get(answer, "state"));
        *ret_sent = (struct sent_signal){.seq = json_integer_value(json_object_get(answer, "seq"))};
        copy_answer_id(answer, "id", ret_sent->id);
        text_copy(ret_sent->step, sizeof ret_sent->step, state == NULL ? "" : state);
        json_decref(answer);
    }
    return status;
}

/* Also of an execution on Temporal: the server passes that on. With a key a lost answer needs no second look. */
enum weir_status http_signal(struct store *store, const struct signal_request *request, struct sent_signal *ret_sent,
                             struct weir_error *error)
{
    INVARIANT(store != NULL && request != NULL && ret_sent != NULL);
    INVARIANT((request->callback == NULL) == (request->report == NULL));
    struct remote_client *client = client_of(store);
    json_t *answer = NULL;
    if (request->report != NULL) {
        return report_to_server(store, request->report, ret_sent, error);
    }
    if (request->approval != NULL) {
        return decide_on_server(store, request, ret_sent, error);
    }
    if (request->update != NULL) {
        return update_on_server(store, request, ret_sent, error);
    }
    remote_client_target(client, "/v1/executions/{}/signal", (const char *const[]){request->id});
    remote_client_add_body(client, "{\"name\":", strlen("{\"name\":"));
    remote_client_add_body_text(client, request->name);
    remote_client_add_member(client, "key", request->key);
    remote_client_add_json(client, "data", request->data);
    remote_client_add_body(client, "}", 1);
    enum weir_status status = remote_change_as(store, "POST", "application/json", &answer, error);
    if (status == WEIR_OK) {
        *ret_sent = (struct sent_signal){.seq = json_integer_value(json_object_get(answer, "seq")),
                                         .duplicate = json_is_true(json_object_get(answer, "duplicate"))};
        copy_answer_id(answer, "id", ret_sent->id);
        json_decref(answer);
    }
    return status;
}

enum weir_status http_note_act(struct store *store, const char *act, const char *subject, const char *detail,
                               struct weir_error *error)
{
    remote_client_target(client_of(store), "/v1/audit", NULL);
    remote_client_body(client_of(store), json_pack("{s:s, s:s, s:s*}", "act", act, "subject", subject, "detail", detail));
    return remote_change(store, "POST", NULL, error);
}

/* The server has no path that stops a node: only its own machine does. */
enum weir_status http_set_desired_state(struct store *store, const char *name, enum desired_state desired_state,
                                        struct weir_error *error)
{
    const char *word = desired_state == NODE_RUN ? "resume" : desired_state_name(desired_state);
    remote_client_target(client_of(store), "/v1/nodes/{}/{}", (const char *const[]){name, word});
    return remote_change(store, "POST", NULL, error);
}

enum weir_status http_set_paused(struct store *store, const char *group, bool paused, struct weir_error *error)
{
    remote_client_target(client_of(store), paused ? "/v1/pause" : "/v1/resume", NULL);
    remote_client_argument(client_of(store), "executor_group", group);
    return remote_change(store, "POST", NULL, error);
}

/* --- locks --- */

/* The holder makes a repetition harmless: a lock that is held by the caller is taken again. */
static enum weir_status change_lock_of_server(struct store *store, const char *method, const struct lock_request *request,
                                              struct weir_error *error)
{
    remote_client_target(client_of(store), "/v1/locks/{}", (const char *const[]){request->name});
    remote_client_body(client_of(store),
                       json_pack("{s:s*, s:I, s:I}", "holder", request->holder, "at_most_us",
                                 (json_int_t)request->at_most_us, "at_least_us", (json_int_t)request->at_least_us));
    return remote_change(store, method, NULL, error);
}

enum weir_status http_lock(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    return change_lock_of_server(store, "POST", request, error);
}

enum weir_status http_lock_extend(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    return change_lock_of_server(store, "PATCH", request, error);
}

/* A request of DELETE has no body, so its facts are arguments. */
enum weir_status http_unlock(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    struct remote_client *client = client_of(store);
    remote_client_target(client, "/v1/locks/{}", (const char *const[]){request->name});
    remote_client_argument(client, "holder", request->holder);
    remote_client_argument(client, "force", request->is_forced ? "true" : NULL);
    remote_client_number(client, "at_least_us", request->at_least_us);
    return remote_change(store, "DELETE", NULL, error);
}
