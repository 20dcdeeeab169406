/* The verbs of the queue: opening, schema, enqueue, scheduling, inbox, nodes, recovery, wake-ups. Each stands here once,
 * for all drivers.
 *
 * A verb does four things: check the arguments that a program can get wrong, begin a call (call.h), call the driver, and
 * emit the events of the outcome. Outputs are written only on success, so that a caller never sees a half of an answer.
 * The driver of a URL is found by its scheme. A text without a scheme is the path of a SQLite file, unless it looks
 * like another thing that may hold a password.
 *
 * It never looks into a database and never repeats a call: the caller knows whether a repetition is safe. Records, settings
 * and reading have files of their own (record_verb.c, settings_verbs.c, reading_verbs.c). Runs in the thread of the handle.
 */
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "observe/event.h"
#include "store/call.h"

/* --- names --- */

static const char *const record_kind_names[] = {
#define RECORD_KIND_NAME(id, name) [id] = name,
    RECORD_KIND_LIST(RECORD_KIND_NAME)
#undef RECORD_KIND_NAME
};

const char *record_kind_name(enum record_kind kind)
{
    INVARIANT((unsigned)kind < RECORD_KIND_COUNT);
    return record_kind_names[kind];
}

const char *desired_state_name(enum desired_state desired_state)
{
    static const char *const names[] = {"run", "pause", "drain", "stop"};
    INVARIANT((unsigned)desired_state < sizeof names / sizeof names[0]);
    return names[desired_state];
}

const char *not_accepting_name(enum not_accepting not_accepting)
{
    static const char *const names[] = {NULL, "paused", "stopping"};
    INVARIANT((unsigned)not_accepting < sizeof names / sizeof names[0]);
    return names[not_accepting];
}

const char *bulk_act_name(enum bulk_act act)
{
    static const char *const names[] = {"cancel", "retry", "release", "wake", "dismiss", "purge", "signal", "migrate"};
    INVARIANT((unsigned)act < sizeof names / sizeof names[0]);
    return names[act];
}

/* --- opening --- */

/* Whether the URL begins with the scheme. */
static bool is_scheme(const char *scheme, const char *url, size_t length)
{
    return scheme != NULL && strlen(scheme) == length && strncmp(url, scheme, length) == 0;
}

/* The driver of a URL, and the part behind the scheme; NULL sets the error. */
static const struct store_driver *driver_of(const char *url, const char **ret_location, struct weir_error *error)
{
    const char *colon = strchr(url, ':');
    size_t length = colon == NULL ? 0 : (size_t)(colon - url);
    for (size_t i = 0; store_drivers[i] != NULL; i++) {
        const struct store_driver *driver = store_drivers[i];
        if (is_scheme(driver->scheme, url, length) || is_scheme(driver->other_schemes[0], url, length) ||
            is_scheme(driver->other_schemes[1], url, length)) {
            *ret_location = colon + 1;
            return driver;
        }
    }
    if (store_url_is_no_path(url)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the store is neither a URL nor the path of a file");
        error_hint(error, "for example postgres://user@host:5432/database; a file whose name looks like this one's is "
                          "given as sqlite:PATH");
        return NULL;
    }
    if (colon == NULL || strchr(url, '/') == NULL || strchr(url, '/') < colon || colon == url) {
        *ret_location = url;
        return store_drivers[0];
    }
    error_set(error, WEIR_INVALID_ARGUMENT, "the store's URL begins with \"%.*s:\", which this build does not know",
              (int)length, url);
    error_hint(error, "for example sqlite:./weir.db, postgres://user@host/database or http://host:7717");
    return NULL;
}

enum weir_status store_open(const struct store_options *options, struct store **ret_store, struct weir_error *error)
{
    const char *location = NULL;
    if (options == NULL || options->url == NULL || ret_store == NULL) {
        return error_set(error, WEIR_MISUSE, "store_open needs a URL");
    }
    struct weir_error own = {.status = WEIR_OK};
    const struct store_driver *driver = driver_of(options->url, &location, &own);
    enum weir_status status = driver == NULL ? own.status : driver->open(options, location, ret_store, &own);
    if (status != WEIR_OK && error != NULL) {
        *error = own;
    }
    return status;
}

enum weir_status store_open_again(const struct store *store, struct store **ret_store, struct weir_error *error)
{
    INVARIANT(store != NULL && ret_store != NULL);
    struct weir_error own = {.status = WEIR_OK};
    enum weir_status status = store->driver->open_again(store, ret_store, &own);
    if (status != WEIR_OK && error != NULL) {
        *error = own;
    }
    return status;
}

void store_close(struct store *store)
{
    if (store != NULL) {
        store->driver->close(store);
    }
}

const char *store_url(const struct store *store)
{
    INVARIANT(store != NULL);
    return store->url;
}

unsigned store_features(const struct store *store)
{
    INVARIANT(store != NULL);
    return store->driver->features;
}

enum weir_status store_require_schema(struct store *store, struct weir_error *error)
{
    CALL(store, "require_schema", error, store->driver->require_schema(store, detail));
}

enum weir_status store_plan(struct store *store, struct arena *arena, const struct store_migration **ret_migrations,
                            size_t *ret_count, struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_migrations != NULL && ret_count != NULL);
    CALL(store, "plan", error, store->driver->plan(store, arena, ret_migrations, ret_count, detail));
}

void store_set_progress(struct store *store, store_progress *progress, void *context)
{
    INVARIANT(store != NULL);
    store->progress = progress;
    store->progress_context = context;
}

void store_limit_enqueue_wait(struct store *store, int64_t most_us)
{
    INVARIANT(store != NULL && most_us >= MICROSECONDS_PER_MS);
    store->enqueue_wait_us = most_us;
}

void store_limit_lock_wait(struct store *store, int64_t most_us)
{
    INVARIANT(store != NULL && most_us >= MICROSECONDS_PER_MS);
    store->lock_wait_us = most_us;
}

enum weir_status store_report_progress(const struct store *store, int64_t done, int64_t total, struct weir_error *error)
{
    INVARIANT(total >= 0);
    if (store->progress != NULL) {
        FAILPOINT("in_progress");
        if (!store->progress(store->progress_context, done, total)) {
            return error_set(error, WEIR_INTERRUPTED, "interrupted: nothing was changed");
        }
    }
    return WEIR_OK;
}

void store_report_migrated(const struct store *store, int64_t done, int64_t total)
{
    (void)(store_report_progress(store, done, total, NULL) == WEIR_OK); /* a migration goes on to its end */
}

enum weir_status store_migrate(struct store *store, int *ret_applied, struct weir_error *error)
{
    CALL(store, "migrate", error, store->driver->migrate(store, ret_applied, detail));
}

enum weir_status store_check(struct store *store, json_t **ret_problems, struct weir_error *error)
{
    INVARIANT(ret_problems != NULL);
    CALL(store, "check", error, store->driver->check(store, ret_problems, detail));
}

enum weir_status store_backup(struct store *store, const char *path, struct weir_error *error)
{
    CALL(store, "backup", error, store->driver->backup(store, path, detail));
}

enum weir_status store_time(struct store *store, int64_t *ret_now_us, struct weir_error *error)
{
    INVARIANT(ret_now_us != NULL);
    CALL(store, "time", error, store->driver->time(store, ret_now_us, detail));
}

/* --- the queue --- */

/* One event for the set; with the names when it is a single request. */
static void report_enqueued(const struct store *store, const struct enqueue_request *requests, size_t count,
                            const struct enqueue_result *results)
{
    struct event event = {.type = EVENT_EXECUTION_ENQUEUED};
    for (size_t i = 0; i < count; i++) {
        event.count += results[i].status == WEIR_OK && !results[i].duplicate;
    }
    if (count == 1) {
        event.execution_id = results[0].id;
        event.workspace = requests[0].workspace;
        event.workflow = requests[0].workflow;
    }
    if (event.count > 0) {
        event_emit(store->events, &event);
    }
}

/* The first refusal of a set of which nothing was enqueued. */
static enum weir_status refuse_set(const struct enqueue_result *results, size_t count, struct weir_error *error)
{
    for (size_t i = 0; i < count; i++) {
        if (results[i].status != WEIR_OK) {
            *error = results[i].error;
            error->status = results[i].status;
            error_prefix(error, "request %zu of %zu, nothing was enqueued", i + 1, count);
            return error->status;
        }
    }
    return WEIR_OK;
}

/* A malformed request refuses a whole set before the driver is asked. `all_or_none` is a member of the handle for the time
 * of the call, so that drivers without sets of their own need no further argument. */
static enum weir_status enqueue_set(struct store *store, const struct enqueue_request *requests, size_t count,
                                    bool all_or_none, struct enqueue_result *results, struct weir_error *error)
{
    if (count > 0 && (requests == NULL || results == NULL)) {
        return error_set(error, WEIR_MISUSE, "enqueue needs requests and room for results");
    }
    struct call call = call_begin(store, "enqueue", error);
    size_t valid = 0;
    enum weir_status status = enqueue_requests_check(requests, count, results, &valid, &call.own);
    if (status == WEIR_OK && (all_or_none ? valid == count && count > 0 : valid > 0)) {
        struct event event = {.type = EVENT_EXECUTION_ENQUEUEING, .count = (int64_t)valid};
        event.workspace = count == 1 ? requests[0].workspace : NULL;
        event.workflow = count == 1 ? requests[0].workflow : NULL;
        event_emit(store->events, &event);
        store->all_or_none = all_or_none;
        status = store->driver->enqueue(store, requests, count, results, &call.own);
        store->all_or_none = false;
    }
    if (status == WEIR_OK && all_or_none) {
        status = refuse_set(results, count, &call.own);
    }
    if (status == WEIR_OK) {
        report_enqueued(store, requests, count, results);
    }
    return call_end(&call, status);
}

enum weir_status store_enqueue(struct store *store, const struct enqueue_request *requests, size_t count,
                               struct enqueue_result *results, struct weir_error *error)
{
    return enqueue_set(store, requests, count, false, results, error);
}

enum weir_status store_enqueue_all(struct store *store, const struct enqueue_request *requests, size_t count,
                                   struct enqueue_result *results, struct weir_error *error)
{
    return enqueue_set(store, requests, count, true, results, error);
}

enum weir_status store_role(struct store *store, const struct role_request *request, struct role_state *ret_state,
                            struct weir_error *error)
{
    INVARIANT(store != NULL);
    if (request == NULL || ret_state == NULL || (request->act != ROLE_READ && request->node_id <= 0) ||
        (request->act != ROLE_READ && request->act != ROLE_LEAVE && request->lease_us <= 0)) {
        return error_set(error, WEIR_MISUSE, "the scheduler's role needs a node and a lease");
    }
    struct role_state state = {0};
    struct call call = call_begin(store, "role", error);
    enum weir_status status = store->driver->role(store, request, &state, &call.own);
    if (status == WEIR_OK) {
        *ret_state = state;
    }
    return call_end(&call, status);
}

enum weir_status store_schedule(struct store *store, struct schedule_call *request, struct arena *arena,
                                struct schedule_answer *ret_answer, struct weir_error *error)
{
    INVARIANT(request != NULL && arena != NULL && ret_answer != NULL);
    if (request->node_id <= 0 || request->epoch <= 0 || request->assignment_count > CLAIM_BATCH_MOST ||
        request->read_count > SCHEDULER_READS_MOST || (request->load && request->assignment_count > 0)) {
        return error_set(error, WEIR_MISUSE, "a round of the scheduler needs a node, an epoch and at most %d assignments",
                         CLAIM_BATCH_MOST);
    }
    struct schedule_answer answer = {.next_due_us = TIME_NEVER};
    struct call call = call_begin(store, "schedule", error);
    enum weir_status status = store->driver->schedule(store, request, arena, &answer, &call.own);
    if (status == WEIR_OK) {
        *ret_answer = answer;
        call_emit_claimed(&call, &answer.claimed);
    }
    return call_end(&call, status);
}

enum weir_status store_publish_books(struct store *store, int64_t node_id, int64_t epoch, const struct lane_pass *passes,
                                     size_t count, bool *ret_more, struct weir_error *error)
{
    CALL(store, "publish_books", error,
         store->driver->publish_books(store, node_id, epoch, passes, count, ret_more, detail));
}

enum weir_status store_inbox(struct store *store, int64_t node_id, struct inbox_position *position, size_t limit,
                             struct arena *arena, struct inbox *ret_inbox, struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_inbox != NULL);
    if (node_id <= 0 || position == NULL || limit > CLAIM_BATCH_MOST) {
        return error_set(error, WEIR_MISUSE, "an inbox needs a node, a position and a limit of at most %d",
                         CLAIM_BATCH_MOST);
    }
    struct inbox inbox = {0};
    struct inbox_position moved = *position;
    struct call call = call_begin(store, "inbox", error);
    enum weir_status status = store->driver->inbox(store, node_id, &moved, limit, arena, &inbox, &call.own);
    if (status == WEIR_OK) {
        *ret_inbox = inbox;
        *position = moved;
        call_emit_claimed(&call, &inbox.claimed);
    }
    return call_end(&call, status);
}

enum weir_status store_read_definition(struct store *store, int64_t definition_id, struct arena *arena,
                                       struct definition_text *ret_definition, struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_definition != NULL);
    CALL(store, "read_definition", error,
         store->driver->read_definition(store, definition_id, arena, ret_definition, detail));
}

/* --- nodes --- */

enum weir_status store_node_start(struct store *store, const struct node_options *options, int64_t *ret_node_id,
                                  struct weir_error *error)
{
    INVARIANT(store != NULL && options != NULL && ret_node_id != NULL);
    if (options->name == NULL || options->group == NULL || options->lease_us <= 0 ||
        strlen(options->name) > NODE_NAME_MAX || strlen(options->group) > GROUP_NAME_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a node needs a name, a group and a lease");
    }
    if (call_is_unfit_name(options->name)) {
        return call_refuse_unfit("node", options->name, error);
    }
    CALL(store, "node_start", error, store->driver->node_start(store, options, ret_node_id, detail));
}

enum weir_status store_node_target(struct store *store, int64_t node_id, const struct engine_target *target,
                                   struct weir_error *error)
{
    INVARIANT(target != NULL && target->engine[0] != '\0');
    CALL(store, "node_target", error, store->driver->node_target(store, node_id, target, detail));
}

enum weir_status store_node_handlers(struct store *store, int64_t node_id, const struct node_handlers *handlers,
                                     bool *ret_more, struct weir_error *error)
{
    INVARIANT(handlers != NULL && handlers->names != NULL && ret_more != NULL);
    CALL(store, "node_handlers", error, store->driver->node_handlers(store, node_id, handlers, ret_more, detail));
}

enum weir_status store_node_beat(struct store *store, int64_t node_id, struct node_beat *beat, struct weir_error *error)
{
    INVARIANT(beat != NULL);
    CALL(store, "node_beat", error, store->driver->node_beat(store, node_id, beat, detail));
}

enum weir_status store_mark_stuck(struct store *store, const struct stuck_mark *marks, size_t count,
                                  struct weir_error *error)
{
    INVARIANT(store != NULL && (marks != NULL || count == 0));
    if (count > STUCK_MARKS_MOST) {
        return error_set(error, WEIR_MISUSE, "a call marks at most %d stuck executions", STUCK_MARKS_MOST);
    }
    if (count == 0) {
        return WEIR_OK;
    }
    CALL(store, "mark_stuck", error, store->driver->mark_stuck(store, marks, count, detail));
}

enum weir_status store_node_stop(struct store *store, int64_t node_id, bool graceful, struct weir_error *error)
{
    CALL(store, "node_stop", error, store->driver->node_stop(store, node_id, graceful, detail));
}

enum weir_status store_set_desired_state(struct store *store, const char *name, enum desired_state desired_state,
                                         struct weir_error *error)
{
    CALL(store, "desired_state", error, store->driver->desired_state(store, name, desired_state, detail));
}

/* Nodes beyond RECOVER_NAMES_MOST have one event together, without a name. */
static void emit_recovery(struct store *store, const struct recover_options *options, const struct recover_result *result)
{
    size_t named = result->nodes < RECOVER_NAMES_MOST ? result->nodes : RECOVER_NAMES_MOST;
    for (size_t i = 0; i < named; i++) {
        event_emit(store->events, &(struct event){.type = EVENT_NODE_DEAD, .node = result->dead[i], .count = 1});
    }
    if (result->nodes > named) {
        event_emit(store->events, &(struct event){.type = EVENT_NODE_DEAD, .count = (int64_t)(result->nodes - named)});
    }
    struct event event = {.type = EVENT_ITEMS_RECOVERING, .count = (int64_t)(result->handed_over + result->poisoned)};
    if (event.count > 0) {
        event.age_us = options->stale_claim_us;
        event_emit(store->events, &event);
        event.type = EVENT_ITEMS_RECOVERED;
        event_emit(store->events, &event);
    }
}

enum weir_status store_recover(struct store *store, const struct recover_options *options,
                               struct recover_result *ret_result, struct weir_error *error)
{
    INVARIANT(options != NULL && ret_result != NULL);
    if (options->limit == 0 || options->limit > RECOVER_BATCH) {
        return error_set(error, WEIR_MISUSE, "recover takes 1 to %d items", RECOVER_BATCH);
    }
    struct call call = call_begin(store, "recover", error);
    struct recover_result result = {0};
    enum weir_status status = store->driver->recover(store, options, &result, &call.own);
    if (status == WEIR_OK) {
        *ret_result = result;
        emit_recovery(store, options, &result);
        call_emit_poisoned(&call, result.poisoned);
    }
    return call_end(&call, status);
}

/* --- wake-ups --- */

int store_wake_fd(struct store *store)
{
    INVARIANT(store != NULL);
    return store->driver->wake_fd(store);
}

void store_wake_for(struct store *store, int64_t node_id, bool schedules)
{
    if (store->driver->wake_for != NULL) {
        store->driver->wake_for(store, node_id, schedules);
    }
}

bool store_wake_drain(struct store *store, int64_t *ret_again_us)
{
    INVARIANT(store != NULL && ret_again_us != NULL);
    return store->driver->wake_drain(store, ret_again_us);
}
