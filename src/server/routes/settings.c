/* The settings of the queue: workspaces, plans, workflows, pauses, nodes, locks, and acts that a client records.
 *
 * A change answers with the setting before and after it, as the record of acts has it. A member that the body leaves out
 * stays as it is. Each handler makes one call of the store, whose refusals are those of the command line. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "definition/definition.h"
#include "server/own_workspaces.h"
#include "server/routes/body.h"
#include "server/routes/routes.h"

void respond_outcome(struct http_request *request, struct http_answer *answer, enum weir_status status,
                     const struct weir_error *error, json_t *value)
{
    if (status == WEIR_OK) {
        respond_json(answer, 200, value);
    } else {
        json_decref(value);
        respond_error(request, answer, error, NULL);
    }
}

/* {"name": ..., "before": ..., "after": ...} of the last change of the handle. */
static void respond_change(struct http_request *request, struct store *store, struct http_answer *answer, const char *name,
                           enum weir_status status, const struct weir_error *error)
{
    json_t *before = NULL;
    json_t *after = NULL;
    if (status == WEIR_OK) {
        store_last_change(store, &before, &after);
    }
    json_t *value =
        status != WEIR_OK ? NULL : json_pack("{s:s, s:o?, s:o?}", "name", name, "before", before, "after", after);
    respond_outcome(request, answer, status, error, value);
}

/* {"name": NAME, KEY: VALUE}: of an act that has changed one thing. */
static json_t *changed_thing(const char *name, const char *key, const char *value)
{
    return json_pack("{s:s?, s:s}", "name", name, key, value);
}

/* --- plans --- */

/* 0 in the body is no limit. null is that of the plan again, and for a plan no change. */
static int64_t pending_change(const json_t *body, int64_t most)
{
    const json_t *value = json_object_get(body, "max_pending");
    return json_is_integer(value) && most == 0 ? PENDING_UNLIMITED : most;
}

/* A plan that is new needs max_concurrent; the store refuses it without. */
void answer_set_plan(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    struct plan_change change = {.name = request_value(request, "plan")};
    int64_t weight = 0;
    const struct body_member members[] = {
        {.name = "max_concurrent",
         .kind = BODY_NUMBER,
         .to = &change.max_concurrent,
         .least = 1,
         .most = MAX_CONCURRENT_MOST},
        {.name = "weight", .kind = BODY_NUMBER, .to = &weight, .least = 1, .most = WEIGHT_MOST},
        {.name = "max_pending", .kind = BODY_NUMBER, .to = &change.max_pending, .least = 0, .most = MAX_PENDING_MOST}};
    const char *pointer = NULL;
    json_t *body = NULL;
    if (body_read(request, members, sizeof members / sizeof members[0], &body, &pointer, &error) != WEIR_OK) {
        respond_error(request, answer, &error, pointer);
        return;
    }
    change.weight = (int)weight;
    change.max_pending = pending_change(body, change.max_pending);
    respond_change(request, store, answer, change.name, store_set_plan(store, &change, &error), &error);
    json_decref(body);
}

/* --- workspaces --- */

/* An act that a token of some workspaces may not do to its own ones either. */
static void refuse_own_workspace(const struct http_request *request, struct http_answer *answer, const char *detail,
                                 const char *pointer)
{
    respond_problem(request, answer, 403, "not_permitted", detail, "use a token of all workspaces", pointer);
}

/* A customer's token does not raise the limits of the customer. null for a limit: that of the plan again. */
static void respond_workspace_change(struct store *store, struct http_request *request, struct http_answer *answer,
                                     bool creates)
{
    struct weir_error error = {.status = WEIR_OK};
    struct workspace_change change = {.name = request_value(request, "workspace"), .paused = -1, .create = creates};
    const struct body_member members[] = {
        {.name = "plan", .kind = BODY_TEXT, .to = &change.plan},
        {.name = "max_concurrent",
         .kind = BODY_NUMBER,
         .to = &change.max_concurrent,
         .least = 1,
         .most = MAX_CONCURRENT_MOST},
        {.name = "max_pending", .kind = BODY_NUMBER, .to = &change.max_pending, .least = 0, .most = MAX_PENDING_MOST},
        {.name = "paused", .kind = BODY_SWITCH, .to = &change.paused}};
    const char *pointer = NULL;
    json_t *body = NULL;
    if (body_read(request, members, sizeof members / sizeof members[0], &body, &pointer, &error) != WEIR_OK) {
        respond_error(request, answer, &error, pointer);
        return;
    }
    const json_t *limit = json_object_get(body, "max_concurrent");
    if (json_is_null(limit)) {
        change.max_concurrent = -1;
    }
    const json_t *pending = json_object_get(body, "max_pending");
    change.max_pending = json_is_null(pending) ? PENDING_OF_PLAN : pending_change(body, change.max_pending);
    if (!access_has_all_workspaces(request->principal) && (limit != NULL || pending != NULL || change.plan != NULL)) {
        refuse_own_workspace(request, answer, "plan and limits of a workspace are changed with a token of all workspaces",
                             limit != NULL     ? "/max_concurrent"
                             : pending != NULL ? "/max_pending"
                                               : "/plan");
    } else {
        respond_change(request, store, answer, change.name, store_set_workspace(store, &change, &error), &error);
    }
    json_decref(body);
}

/* 200 also for a new one: "before" is null then. */
void answer_put_workspace(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    respond_workspace_change(store, request, answer, true);
}

void answer_patch_workspace(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    respond_workspace_change(store, request, answer, false);
}

/* A workspace that is paused already stays so, and the act goes on record. */
static void respond_workspace_pause(struct store *store, struct http_request *request, struct http_answer *answer,
                                    bool paused)
{
    struct weir_error error = {.status = WEIR_OK};
    const struct workspace_change change = {.name = request_value(request, "workspace"), .paused = paused};
    respond_change(request, store, answer, change.name, store_set_workspace(store, &change, &error), &error);
}

void answer_pause_workspace(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    respond_workspace_pause(store, request, answer, true);
}

void answer_resume_workspace(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    respond_workspace_pause(store, request, answer, false);
}

/* In transactions of DELETION_BATCH executions: a client that gives up leaves a paused workspace, and may repeat the call.
 * An erasure goes by the name, so it also removes the history of earlier workspaces of the name, which may have been those
 * of another customer. */
void answer_delete_workspace(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    struct workspace_deletion deletion = {.name = request_value(request, "workspace")};
    struct deletion_result result = {0};
    const char *at_fault = "fail_waiting";
    enum weir_status status = request_switch(request, "fail_waiting", &deletion.fails_waiting, &error);
    if (status == WEIR_OK) {
        at_fault = "erase";
        status = request_switch(request, "erase", &deletion.erases, &error);
    }
    if (status != WEIR_OK) {
        respond_error(request, answer, &error, at_fault);
        return;
    }
    if (deletion.erases && !access_has_all_workspaces(request->principal)) {
        refuse_own_workspace(request, answer, "a history is erased with a token of all workspaces", "erase");
        return;
    }
    status = store_delete_workspace(store, &deletion, &result, &error);
    respond_outcome(request, answer, status, &error,
                    json_pack("{s:s, s:I, s:I}", "name", deletion.name, "failed", (json_int_t)result.failed, "erased",
                              (json_int_t)result.erased));
}

/* A token of some workspaces is refused before: the refusal of a name that is taken would show those of others. */
void answer_rename_workspace(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    const char *new_name = NULL;
    const struct body_member members[] = {{.name = "name", .kind = BODY_TEXT, .to = &new_name, .is_required = true}};
    const char *pointer = NULL;
    json_t *body = NULL;
    if (body_read(request, members, 1, &body, &pointer, &error) != WEIR_OK) {
        respond_error(request, answer, &error, pointer);
        return;
    }
    enum weir_status status = store_rename_workspace(store, request_value(request, "workspace"), new_name, &error);
    respond_change(request, store, answer, new_name, status, &error);
    json_decref(body);
}

/* The second half of a deletion that erases, for a client that makes the two in turn. */
void answer_erase_workspace(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    const char *name = request_value(request, "workspace");
    size_t erased = 0;
    enum weir_status status = store_erase_workspace(store, name, &erased, &error);
    respond_outcome(request, answer, status, &error, json_pack("{s:s, s:I}", "name", name, "erased", (json_int_t)erased));
}

/* --- workflows --- */

/* 1. The body is read and checked as a file is by `weir workflow apply`; messages name its lines. 2. What the query names
 * must be what the definition names. 3. The canonical text is published with the source, if that was YAML. */
static enum weir_status publish_body(struct store *store, struct http_request *request, struct text *canonical,
                                     bool *ret_is_dry_run, struct definition **ret_definition, struct published *published,
                                     struct weir_error *error)
{
    const char *name = request_argument(request, "name");
    const char *workspace = request_argument(request, "workspace");
    const char *bytes = request->body.data == NULL ? "" : request->body.data;
    struct definition *definition = NULL;
    enum weir_status status = request_switch(request, "dry_run", ret_is_dry_run, error);
    if (status == WEIR_OK) {
        status = definition_read(bytes, request->body.length, "body", &definition, error);
    }
    *ret_definition = definition;
    if (status == WEIR_OK && name != NULL && strcmp(name, definition->name) != 0) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "the definition names the workflow \"%s\", and the query \"%s\"",
                           definition->name, name);
    }
    bool is_owner = status != WEIR_OK || workspace == NULL ||
                    (definition->workspace != NULL && strcmp(workspace, definition->workspace) == 0);
    if (!is_owner) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "the definition and the query name different workspaces");
        error_hint(error, "workspace: %s in the definition makes it the owner", workspace);
    }
    if (status == WEIR_OK && definition->schedule_count > 0 && !access_has_all_workspaces(request->principal)) {
        status = error_set(error, WEIR_NOT_PERMITTED, "a token of some workspaces publishes no definition with schedules");
        error_hint(error, "publish it with a token of all workspaces");
    }
    if (status == WEIR_OK) {
        status = own_workspaces_check_change(store, request->principal, definition->workspace, definition->name, error);
    }
    if (status == WEIR_OK) {
        status = definition_write(definition, canonical, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    return (*ret_is_dry_run ? store_try_publish : store_publish)(store, definition->name, definition->workspace,
                                                                 canonical->data, definition->source, published, error);
}

static json_t *write_published(const struct definition *definition, const struct published *published)
{
    json_t *answer =
        json_pack("{s:s, s:s?, s:i, s:b, s:i, s:I}", "name", definition->name, "workspace", definition->workspace,
                  "version", published->version, "unchanged", published->unchanged, "earlier_version",
                  published->earlier_version, "definition_id", (json_int_t)published->definition_id);
    if (answer != NULL && !published_put_schedules(published, answer)) {
        json_decref(answer);
        return NULL;
    }
    return answer;
}

/* 201: a new version. 200: the newest version has this text already, or a dry run. */
void answer_publish_workflow(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    struct published published = {.version = 0};
    struct text canonical = {.max = DEFINITION_MEMORY_BYTES_MAX};
    struct definition *definition = NULL;
    bool is_dry_run = false;
    if (publish_body(store, request, &canonical, &is_dry_run, &definition, &published, &error) == WEIR_OK) {
        respond_json(answer, published.unchanged || is_dry_run ? 200 : 201, write_published(definition, &published));
    } else {
        respond_error(request, answer, &error, NULL);
    }
    definition_close(definition);
    text_close(&canonical);
}

/* `word`: the state as the command line names it. */
static void set_workflow_state(struct store *store, struct http_request *request, struct http_answer *answer,
                               enum workflow_state state, const char *word)
{
    struct weir_error error = {.status = WEIR_OK};
    const char *name = request_value(request, "workflow");
    enum weir_status status = store_set_workflow_state(store, name, request_argument(request, "workspace"), state, &error);
    respond_outcome(request, answer, status, &error, changed_thing(name, "state", word));
}

void answer_enable_workflow(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    set_workflow_state(store, request, answer, WORKFLOW_PUBLISHED, "enabled");
}

void answer_disable_workflow(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    set_workflow_state(store, request, answer, WORKFLOW_DISABLED, "disabled");
}

void answer_delete_workflow(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    if (own_workspaces_check_change(store, request->principal, request_argument(request, "workspace"),
                                    request_value(request, "workflow"), &error) != WEIR_OK) {
        respond_error(request, answer, &error, NULL);
        return;
    }
    set_workflow_state(store, request, answer, WORKFLOW_DELETED, "deleted");
}

/* --- pauses, nodes --- */

/* Without a group the whole queue. Both pauses are kept apart: a group that was paused by itself stays so when the queue is
 * resumed. */
static void set_queue_paused(struct store *store, struct http_request *request, struct http_answer *answer, bool paused)
{
    struct weir_error error = {.status = WEIR_OK};
    const char *group = request_argument(request, "executor_group");
    enum weir_status status = store_set_paused(store, group, paused, &error);
    respond_outcome(request, answer, status, &error, json_pack("{s:s?, s:b}", "executor_group", group, "paused", paused));
}

void answer_pause_queue(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    set_queue_paused(store, request, answer, true);
}

void answer_resume_queue(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    set_queue_paused(store, request, answer, false);
}

/* The last segment of the path is the order. It is kept in the row of the node, and the answer does not wait for the node:
 * `GET /v1/nodes` shows its state. */
void answer_order_node(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    const char *node = request_value(request, "node");
    const char *word = strrchr(request->route->path, '/') + 1;
    enum desired_state state = strcmp(word, "pause") == 0 ? NODE_PAUSE : strcmp(word, "drain") == 0 ? NODE_DRAIN : NODE_RUN;
    enum weir_status status = store_set_desired_state(store, node, state, &error);
    respond_outcome(request, answer, status, &error, changed_thing(node, "desired_state", desired_state_name(state)));
}

/* --- locks --- */

/* The time counts in the store, from this call on. */
static void hold_lock(struct store *store, struct http_request *request, struct http_answer *answer, bool extends)
{
    struct weir_error error = {.status = WEIR_OK};
    struct lock_request lock = {.name = request_value(request, "lock")};
    const struct body_member members[] = {
        {.name = "holder", .kind = BODY_TEXT, .to = &lock.holder, .is_required = true},
        {.name = "at_most_us", .kind = BODY_NUMBER, .to = &lock.at_most_us, .most = LOCK_HELD_MOST_US, .is_required = true},
        {.name = "at_least_us", .kind = BODY_NUMBER, .to = &lock.at_least_us, .most = LOCK_HELD_MOST_US}};
    const char *pointer = NULL;
    json_t *body = NULL;
    if (body_read(request, members, sizeof members / sizeof members[0], &body, &pointer, &error) != WEIR_OK) {
        respond_error(request, answer, &error, pointer);
        return;
    }
    enum weir_status status = extends ? store_lock_extend(store, &lock, &error) : store_lock(store, &lock, &error);
    respond_outcome(request, answer, status, &error, changed_thing(lock.name, "holder", lock.holder));
    json_decref(body);
}

void answer_take_lock(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    hold_lock(store, request, answer, false);
}

void answer_extend_lock(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    hold_lock(store, request, answer, true);
}

/* Without a holder anybody's lock is released: the command line asks a person first. */
void answer_release_lock(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    struct lock_request lock = {.name = request_value(request, "lock"),
                                .holder = request_argument(request, "holder"),
                                .at_most_us = LOCK_HELD_MOST_US};
    const char *at_fault = "force";
    enum weir_status status = request_switch(request, "force", &lock.is_forced, &error);
    if (status == WEIR_OK) {
        at_fault = "at_least_us";
        status = request_number(request, "at_least_us", 0, LOCK_HELD_MOST_US, 0, &lock.at_least_us, &error);
    }
    if (status != WEIR_OK) {
        respond_error(request, answer, &error, at_fault);
        return;
    }
    status = store_unlock(store, &lock, &error);
    respond_outcome(request, answer, status, &error, json_pack("{s:s, s:n}", "name", lock.name, "holder"));
}

/* --- acts --- */

/* For acts that a client does elsewhere, like a signal to a workflow on Temporal. */
void answer_note_act(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    const char *act = NULL;
    const char *subject = NULL;
    const char *detail = NULL;
    const struct body_member members[] = {{.name = "act", .kind = BODY_TEXT, .to = &act, .is_required = true},
                                          {.name = "subject", .kind = BODY_TEXT, .to = &subject, .is_required = true},
                                          {.name = "detail", .kind = BODY_TEXT, .to = &detail}};
    const char *pointer = NULL;
    json_t *body = NULL;
    if (body_read(request, members, sizeof members / sizeof members[0], &body, &pointer, &error) != WEIR_OK) {
        respond_error(request, answer, &error, pointer);
        return;
    }
    enum weir_status status = store_note_act(store, act, subject, detail, &error);
    respond_outcome(request, answer, status, &error, json_pack("{s:s, s:s}", "act", act, "subject", subject));
    json_decref(body);
}

/* A server that has read the token refuses it within a second. The command line takes an id, too; here the path names a
 * token, as everywhere, and no name is a number. */
void answer_revoke_token(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    const char *name = request_value(request, "token");
    enum weir_status status = WEIR_NOT_FOUND;
    if (strspn(name, "0123456789") == strlen(name)) {
        error_set(&error, WEIR_NOT_FOUND, "there is no token \"%s\"", name);
        error_hint(&error, "GET /v1/tokens has the names; a token is not named by its id here");
    } else {
        status = store_token_revoke(store, name, &error);
    }
    respond_outcome(request, answer, status, &error, json_pack("{s:s}", "name", name));
}
