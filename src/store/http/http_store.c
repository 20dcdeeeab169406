/* Opens and closes handles, refuses the verbs of nodes, and has the table of the verbs.
 *
 * Opening makes no connection: the first verb does, so that a command that needs no answer does not wait for one. Every
 * verb has the deadline of the handle, as with the other drivers. This file knows no route. */
#include "store/http/http_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/filter.h"
#include "store/http/http_verbs.h"

/* The server answers for a store that does not within STORE_DEADLINE_US: that answer, which is exact, must come first. */
#define SERVER_DEADLINE_US (2 * STORE_DEADLINE_US)

/* --- handles --- */

/* Ends the connection, too. */
static void http_close(struct store *store)
{
    remote_client_close(client_of(store));
    free(store);
}

/* `facts`: the common part of the handle. */
static struct http_store *allocate_http_store(const struct store *facts)
{
    struct http_store *http = calloc(1, sizeof *http);
    if (http != NULL) {
        http->store = *facts;
        http->store.driver = &http_store_driver;
    }
    return http;
}

/* The handle of a client that was opened, or of one that failed half-way and is freed. */
static enum weir_status return_handle(struct http_store *http, enum weir_status status, struct store **ret_store)
{
    if (status != WEIR_OK) {
        http_close(&http->store);
        return status;
    }
    *ret_store = &http->store;
    return WEIR_OK;
}

/* Makes no connection, and reads no token. */
static enum weir_status http_open(const struct store_options *options, const char *location, struct store **ret_store,
                                  struct weir_error *error)
{
    (void)location; /* the client reads the whole URL */
    if (options->create) {
        error_set(error, WEIR_INVALID_ARGUMENT, "a server does not make a store");
        error_hint(error, "run it on the server's machine, with the URL of the store itself");
        return WEIR_INVALID_ARGUMENT;
    }
    struct store facts = {.events = options->events,
                          .clock = options->clock != NULL ? options->clock : clock_system(),
                          .uuids = options->uuids,
                          .deadline_us = options->deadline_us > 0 ? options->deadline_us : SERVER_DEADLINE_US};
    store_url_shown(options->url, facts.url, sizeof facts.url);
    struct http_store *http = allocate_http_store(&facts);
    if (http == NULL) {
        return error_out_of_memory(error);
    }
    return return_handle(
        http, remote_client_open(&http->client, options->url, options->token_file, options->ca_file, error), ret_store);
}

/* Shares nothing with the other handle: each is of one thread. */
static enum weir_status http_open_again(const struct store *store, struct store **ret_store, struct weir_error *error)
{
    struct http_store *http = allocate_http_store(store);
    if (http == NULL) {
        return error_out_of_memory(error);
    }
    return return_handle(http, remote_client_open_again(&((const struct http_store *)store)->client, &http->client, error),
                         ret_store);
}

/* --- calls --- */

/* A verb of the command line may have set a deadline of its own; a call that is long by nature has at least its own one. */
static enum weir_status send_call(struct store *store, struct remote_client_call call, json_t **ret_answer,
                                  struct weir_error *error)
{
    call.actor = store_actor(store);
    call.reason = store_reason(store);
    call.deadline_us = call.deadline_us > store->deadline_us ? call.deadline_us : store->deadline_us;
    return remote_client_send(client_of(store), &call, ret_answer, error);
}

/* Reads may be repeated, also by libcurl itself. */
enum weir_status remote_read(struct store *store, json_t **ret_answer, struct weir_error *error)
{
    return send_call(store, (struct remote_client_call){.method = "GET", .effect = CLIENT_READS}, ret_answer, error);
}

enum weir_status http_read_long(struct store *store, json_t **ret_answer, struct weir_error *error)
{
    const struct remote_client_call call = {
        .method = "GET", .effect = CLIENT_READS, .deadline_us = CLIENT_LONG_DEADLINE_US};
    return send_call(store, call, ret_answer, error);
}

/* Its answer may be lost after it took effect: then WEIR_COMMIT_UNKNOWN. */
enum weir_status remote_change(struct store *store, const char *method, json_t **ret_answer, struct weir_error *error)
{
    return send_call(store, (struct remote_client_call){.method = method, .effect = CLIENT_CHANGES}, ret_answer, error);
}

/* A member that is left out has its default at the server. */
bool remote_add_text(json_t *body, const char *key, const char *text)
{
    return text == NULL || json_object_set_new(body, key, json_string(text)) == 0;
}

/* Makes or replaces an object. A repetition leaves the same object, and only the act goes on record again. The answer of
 * the first one may be lost, so a repetition by the caller may find that the object is not new. */
enum weir_status remote_put(struct store *store, json_t *body, bool *ret_is_new, struct weir_error *error)
{
    INVARIANT(store != NULL && ret_is_new != NULL);
    json_t *answer = NULL;
    remote_client_body(client_of(store), body);
    enum weir_status status = remote_change(store, "PUT", &answer, error);
    if (status == WEIR_OK) {
        *ret_is_new = json_is_true(json_object_get(answer, "is_new"));
    }
    json_decref(answer);
    return status;
}

enum weir_status http_change_long(struct store *store, const char *method, json_t **ret_answer, struct weir_error *error)
{
    const struct remote_client_call call = {
        .method = method, .effect = CLIENT_CHANGES, .deadline_us = CLIENT_LONG_DEADLINE_US};
    return send_call(store, call, ret_answer, error);
}

enum weir_status remote_change_as(struct store *store, const char *method, const char *type, json_t **ret_answer,
                                  struct weir_error *error)
{
    const struct remote_client_call call = {.method = method, .effect = CLIENT_CHANGES_ONCE, .body_type = type};
    return send_call(store, call, ret_answer, error);
}

/* A proxy, or a server of another version. */
enum weir_status http_refuse_answer(const char *member, struct weir_error *error)
{
    error_set(error, WEIR_STORE_NOT_WEIR, "the answer of the server has no \"%s\"", member);
    error_hint(error, "check that it is a weir server of a version near to %s", WEIR_VERSION);
    return WEIR_STORE_NOT_WEIR;
}

/* Each key of a filter is an argument of the query. */
static void add_filter_argument(void *client, const char *key, const char *value)
{
    remote_client_argument(client, key, value);
}

/* Adds an argument to the request for each condition of the filter. */
void http_add_filter(struct remote_client *client, const struct execution_filter *filter)
{
    INVARIANT(client != NULL && filter != NULL);
    filter_each(filter, add_filter_argument, client);
}

/* --- verbs that a server has not ---
 *
 * Each refuses at once, without a request. The arguments have been checked by the verb of store.h; none of them is used. */

/* Reached by `weir serve`, by a worker and by programs that embed a node: their first verb is node_start. */
static enum weir_status refuse_node_verb(struct weir_error *error)
{
    error_set(error, WEIR_INVALID_ARGUMENT, "a node needs the store itself, and not a server before it");
    error_hint(error, "give the node --store sqlite:PATH or --store postgres://...");
    return WEIR_INVALID_ARGUMENT;
}

/* The schema and the files belong to the operators of the store. */
static enum weir_status refuse_on_server(const char *command, struct weir_error *error)
{
    error_set(error, WEIR_INVALID_ARGUMENT, "`weir %s` does not work through a server", command);
    error_hint(error, "run it on the server's machine, with the URL of the store itself");
    return WEIR_INVALID_ARGUMENT;
}

static enum weir_status http_migrate(struct store *store, int *ret_applied, struct weir_error *error)
{
    (void)store, (void)ret_applied;
    return refuse_on_server("store migrate", error);
}

static enum weir_status http_backup(struct store *store, const char *path, struct weir_error *error)
{
    (void)store, (void)path;
    return refuse_on_server("store backup", error);
}

/* A token is made where the store is, so that a stolen token of an admin makes no others. */
static enum weir_status http_token_create(struct store *store, const struct token_request *request, int64_t *ret_id,
                                          struct weir_error *error)
{
    (void)store, (void)request, (void)ret_id;
    return refuse_on_server("token create", error);
}

static enum weir_status http_tokens_read(struct store *store, struct arena *arena, struct token_set *ret_set,
                                         struct weir_error *error)
{
    (void)store, (void)arena, (void)ret_set;
    return refuse_on_server("serve", error);
}

static enum weir_status http_tokens_used(struct store *store, const int64_t *ids, size_t count, struct weir_error *error)
{
    (void)store, (void)ids, (void)count;
    return refuse_on_server("serve", error);
}

/* For the import of another queue, which runs where the store is. */
static enum weir_status http_find_living(struct store *store, const char *const *ids, size_t count, bool *ret_is_living,
                                         struct weir_error *error)
{
    (void)store, (void)ids, (void)count, (void)ret_is_living;
    return refuse_on_server("serve", error);
}

static enum weir_status http_find_in_workspaces(struct store *store, const char *id, const char *const *workspaces,
                                                size_t count, bool *ret_is_there, struct weir_error *error)
{
    (void)store, (void)id, (void)workspaces, (void)count, (void)ret_is_there;
    return refuse_on_server("serve", error);
}

static enum weir_status http_role(struct store *store, const struct role_request *request, struct role_state *ret_state,
                                  struct weir_error *error)
{
    (void)store, (void)request, (void)ret_state;
    return refuse_node_verb(error);
}

static enum weir_status http_schedule(struct store *store, struct schedule_call *call, struct arena *arena,
                                      struct schedule_answer *ret_answer, struct weir_error *error)
{
    (void)store, (void)call, (void)arena, (void)ret_answer;
    return refuse_node_verb(error);
}

static enum weir_status http_publish_books(struct store *store, int64_t node_id, int64_t epoch,
                                           const struct lane_pass *passes, size_t count, bool *ret_more,
                                           struct weir_error *error)
{
    (void)store, (void)node_id, (void)epoch, (void)passes, (void)count, (void)ret_more;
    return refuse_node_verb(error);
}

static enum weir_status http_inbox(struct store *store, int64_t node_id, struct inbox_position *position, size_t limit,
                                   struct arena *arena, struct inbox *ret_inbox, struct weir_error *error)
{
    (void)store, (void)node_id, (void)position, (void)limit, (void)arena, (void)ret_inbox;
    return refuse_node_verb(error);
}

static enum weir_status http_record(struct store *store, int64_t node_id, struct record *records, size_t count,
                                    struct record_summary *ret_summary, struct weir_error *error)
{
    (void)store, (void)node_id, (void)records, (void)count, (void)ret_summary;
    return refuse_node_verb(error);
}

static enum weir_status http_node_start(struct store *store, const struct node_options *options, int64_t *ret_node_id,
                                        struct weir_error *error)
{
    (void)store, (void)options, (void)ret_node_id;
    return refuse_node_verb(error);
}

static enum weir_status http_node_target(struct store *store, int64_t node_id, const struct engine_target *target,
                                         struct weir_error *error)
{
    (void)store, (void)node_id, (void)target;
    return refuse_node_verb(error);
}

static enum weir_status http_node_handlers(struct store *store, int64_t node_id, const struct node_handlers *handlers,
                                           bool *ret_more, struct weir_error *error)
{
    (void)store, (void)node_id, (void)handlers, (void)ret_more;
    return refuse_node_verb(error);
}

static enum weir_status http_node_beat(struct store *store, int64_t node_id, struct node_beat *beat,
                                       struct weir_error *error)
{
    (void)store, (void)node_id, (void)beat;
    return refuse_node_verb(error);
}

static enum weir_status http_mark_stuck(struct store *store, const struct stuck_mark *marks, size_t count,
                                        struct weir_error *error)
{
    (void)store, (void)marks, (void)count;
    return refuse_node_verb(error);
}

static enum weir_status http_node_stop(struct store *store, int64_t node_id, bool graceful, struct weir_error *error)
{
    (void)store, (void)node_id, (void)graceful;
    return refuse_node_verb(error);
}

static enum weir_status http_recover(struct store *store, const struct recover_options *options,
                                     struct recover_result *ret_result, struct weir_error *error)
{
    (void)store, (void)options, (void)ret_result;
    return refuse_node_verb(error);
}

static enum weir_status http_take_requests(struct store *store, int64_t node_id, struct arena *arena,
                                           struct node_request **ret_requests, size_t *ret_count, bool *ret_more,
                                           struct weir_error *error)
{
    (void)store, (void)node_id, (void)arena, (void)ret_requests, (void)ret_count, (void)ret_more;
    return refuse_node_verb(error);
}

static enum weir_status http_write_logs(struct store *store, const struct log_chunk *chunks, size_t count,
                                        struct weir_error *error)
{
    (void)store, (void)chunks, (void)count;
    return refuse_node_verb(error);
}

static enum weir_status http_write_progress(struct store *store, const struct progress_record *records, size_t count,
                                            struct weir_error *error)
{
    (void)store, (void)records, (void)count;
    return refuse_node_verb(error);
}

/* Of logs and of acts. */
static enum weir_status http_purge(struct store *store, int64_t before_us, size_t limit, int64_t *ret_removed,
                                   struct weir_error *error)
{
    (void)store, (void)before_us, (void)limit, (void)ret_removed;
    return refuse_node_verb(error);
}

static enum weir_status http_archive(struct store *store, const struct archive_order *order, const char *below,
                                     struct archive_result *ret_result, struct weir_error *error)
{
    (void)store, (void)order, (void)below, (void)ret_result;
    return refuse_node_verb(error);
}

/* A client opens GET /v1/stream instead. */
static enum weir_status http_read_stream(struct store *store, const struct stream_position *after, size_t most,
                                         struct arena *arena, struct stream_batch *ret_batch, struct weir_error *error)
{
    (void)store, (void)after, (void)most, (void)arena, (void)ret_batch;
    return refuse_node_verb(error);
}

static enum weir_status http_purge_stream(struct store *store, size_t limit, int64_t *ret_removed, struct weir_error *error)
{
    (void)store, (void)limit, (void)ret_removed;
    return refuse_node_verb(error);
}

static enum weir_status http_sample_history(struct store *store, struct arena *arena, struct history_sample *ret_sample,
                                            struct weir_error *error)
{
    (void)store, (void)arena, (void)ret_sample;
    return refuse_node_verb(error);
}

static enum weir_status http_write_history(struct store *store, const struct history_row *row, int64_t folds_from_us,
                                           struct weir_error *error)
{
    (void)store, (void)row, (void)folds_from_us;
    return refuse_node_verb(error);
}

/* A client asks GET /v1/history instead. */
static enum weir_status http_read_history(struct store *store, const struct history_query *query, struct arena *arena,
                                          struct history_rows *ret_rows, struct weir_error *error)
{
    (void)store, (void)query, (void)arena, (void)ret_rows;
    return refuse_node_verb(error);
}

static enum weir_status http_read_hook_events(struct store *store, struct arena *arena, struct hook_events *ret_events,
                                              struct weir_error *error)
{
    (void)store, (void)arena, (void)ret_events;
    return refuse_node_verb(error);
}

static enum weir_status http_settle_hook_events(struct store *store, const struct hook_outcome *outcomes, size_t count,
                                                struct weir_error *error)
{
    (void)store, (void)outcomes, (void)count;
    return refuse_node_verb(error);
}

static enum weir_status http_trim_hook_events(struct store *store, int64_t *ret_removed, struct weir_error *error)
{
    (void)store, (void)ret_removed;
    return refuse_node_verb(error);
}

/* A duty of the node that schedules, which has the store itself. */
static enum weir_status http_advance_children(struct store *store, struct children_advance *ret_advance,
                                              struct weir_error *error)
{
    (void)store, (void)ret_advance;
    return refuse_node_verb(error);
}

static enum weir_status http_read_due_schedules(struct store *store, struct arena *arena, struct due_schedules *ret_due,
                                                struct weir_error *error)
{
    (void)store, (void)arena, (void)ret_due;
    return refuse_node_verb(error);
}

static enum weir_status http_advance_schedule(struct store *store, struct schedule_advance *advance,
                                              struct weir_error *error)
{
    (void)store, (void)advance;
    return refuse_node_verb(error);
}

static enum weir_status http_read_schedule_firings(struct store *store, struct arena *arena,
                                                   struct schedule_firings *ret_firings, struct weir_error *error)
{
    (void)store, (void)arena, (void)ret_firings;
    return refuse_node_verb(error);
}

static enum weir_status http_settle_schedule_firings(struct store *store, struct schedule_outcome *outcomes, size_t count,
                                                     struct weir_error *error)
{
    (void)store, (void)outcomes, (void)count;
    return refuse_node_verb(error);
}

/* A client polls. */
static int http_wake_fd(struct store *store)
{
    (void)store;
    return -1;
}

static bool http_wake_drain(struct store *store, int64_t *ret_again_us)
{
    (void)store;
    *ret_again_us = TIME_NEVER;
    return false;
}

/* STORE_SHARED: other machines may change the store. No wake-ups, so its callers poll. */
const struct store_driver http_store_driver = {
    .scheme = "http",
    .other_schemes = {"https", "unix"},
    .features = STORE_SHARED | STORE_IS_SERVER,
    .open = http_open,
    .open_again = http_open_again,
    .close = http_close,
    .require_schema = http_require_schema,
    .plan = http_plan,
    .migrate = http_migrate,
    .check = http_check,
    .backup = http_backup,
    .time = http_time,
    .enqueue = http_enqueue,
    .role = http_role,
    .find_living = http_find_living,
    .find_in_workspaces = http_find_in_workspaces,
    .token_create = http_token_create,
    .token_revoke = http_token_revoke,
    .tokens_read = http_tokens_read,
    .tokens_used = http_tokens_used,
    .schedule = http_schedule,
    .publish_books = http_publish_books,
    .inbox = http_inbox,
    .read_definition = http_read_definition,
    .record = http_record,
    .complete = http_complete,
    .node_start = http_node_start,
    .node_target = http_node_target,
    .node_handlers = http_node_handlers,
    .node_beat = http_node_beat,
    .mark_stuck = http_mark_stuck,
    .node_stop = http_node_stop,
    .desired_state = http_set_desired_state,
    .recover = http_recover,
    .take_requests = http_take_requests,
    .signal = http_signal,
    .bulk = http_bulk,
    .set_plan = http_set_plan,
    .set_workspace = http_set_workspace,
    .rename_workspace = http_rename_workspace,
    .delete_workspace = http_delete_workspace,
    .erase_workspace = http_erase_workspace,
    .set_workflow_state = http_set_workflow_state,
    .set_paused = http_set_paused,
    .publish = http_publish,
    .lock = http_lock,
    .lock_extend = http_lock_extend,
    .unlock = http_unlock,
    .list = http_list,
    .show = http_show,
    .why = http_why,
    .status = http_status,
    .write_logs = http_write_logs,
    .list_logs = http_list_logs,
    .read_log = http_read_log,
    .archive = http_archive,
    .purge_logs = http_purge,
    .write_progress = http_write_progress,
    .note_act = http_note_act,
    .purge_audit = http_purge,
    .hook_set = http_hook_set,
    .hook_pause = http_hook_pause,
    .hook_delete = http_hook_delete,
    .read_hook_events = http_read_hook_events,
    .settle_hook_events = http_settle_hook_events,
    .trim_hook_events = http_trim_hook_events,
    .advance_children = http_advance_children,
    .schedule_set = http_schedule_set,
    .schedule_pause = http_schedule_pause,
    .schedule_delete = http_schedule_delete,
    .schedule_trigger = http_schedule_trigger,
    .read_due_schedules = http_read_due_schedules,
    .advance_schedule = http_advance_schedule,
    .read_schedule_firings = http_read_schedule_firings,
    .settle_schedule_firings = http_settle_schedule_firings,
    .read_stream = http_read_stream,
    .purge_stream = http_purge_stream,
    .sample_history = http_sample_history,
    .write_history = http_write_history,
    .read_history = http_read_history,
    .wake_fd = http_wake_fd,
    .wake_drain = http_wake_drain,
};
