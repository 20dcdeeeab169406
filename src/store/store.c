/* Each verb once: check the arguments, measure, emit, call the driver. */
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/json.h"
#include "observe/event.h"
#include "store/driver.h"

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
    static const char *const names[] = {NULL, "paused", "stopping", "no_dispatch"};
    INVARIANT((unsigned)not_accepting < sizeof names / sizeof names[0]);
    return names[not_accepting];
}

const char *bulk_act_name(enum bulk_act act)
{
    static const char *const names[] = {"cancel", "retry", "release", "purge"};
    INVARIANT((unsigned)act < sizeof names / sizeof names[0]);
    return names[act];
}

/* --- measuring --- */

struct call {
    struct store *store;
    const char *verb;
    int64_t began_us;
    struct weir_error own; /* drivers rely on having one */
    struct weir_error *error;
    struct weir_error *callers;
};

static struct call begin(struct store *store, const char *verb, struct weir_error *error)
{
    struct call call = {.store = store, .verb = verb, .began_us = clock_boot(clock_system()), .callers = error};
    return call;
}

/* A refusal that is an answer (busy lock, unknown name) is not a failure of the store. A missing right is one: a node that
 * tries again and again must say so. */
static bool is_store_failure(enum weir_status status)
{
    return (weir_status_exit(status) == 6 && status != WEIR_ENGINE_UNREACHABLE) || status == WEIR_FAILED ||
           status == WEIR_OUT_OF_MEMORY || status == WEIR_SYSTEM || status == WEIR_NOT_PERMITTED;
}

static enum weir_status end(struct call *call, enum weir_status status)
{
    struct event event = {
        .type = EVENT_STORE_CALLED, .reason = call->verb, .duration_us = clock_boot(clock_system()) - call->began_us};
    event_emit(call->store->events, &event);
    if (status != WEIR_OK) {
        if (is_store_failure(status)) {
            event.type = EVENT_STORE_FAILED;
            event.code = weir_status_name(status);
            event.error = call->own.message;
            event_emit(call->store->events, &event);
        }
        if (call->callers != NULL) {
            *call->callers = call->own;
        }
    }
    return status;
}

#define CALL(store, verb, error, invocation)                                                                               \
    do {                                                                                                                   \
        struct call call = begin((store), (verb), (error));                                                                \
        struct weir_error *detail = &call.own;                                                                             \
        enum weir_status outcome = (invocation);                                                                           \
        return end(&call, outcome);                                                                                        \
    } while (0)

/* --- opening --- */

static bool is_scheme(const char *scheme, const char *url, size_t length)
{
    return scheme != NULL && strlen(scheme) == length && strncmp(url, scheme, length) == 0;
}

static const struct store_driver *driver_of(const char *url, const char **ret_location, struct weir_error *error)
{
    const char *colon = strchr(url, ':');
    size_t length = colon == NULL ? 0 : (size_t)(colon - url);
    for (size_t i = 0; store_drivers[i] != NULL; i++) {
        if (is_scheme(store_drivers[i]->scheme, url, length) || is_scheme(store_drivers[i]->other_scheme, url, length)) {
            *ret_location = colon + 1;
            return store_drivers[i];
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
    error_hint(error, "for example sqlite:./weir.db or postgres://user@host/database");
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
    return store->url;
}

unsigned store_features(const struct store *store)
{
    return store->driver->features;
}

enum weir_status store_require_schema(struct store *store, struct weir_error *error)
{
    CALL(store, "require_schema", error, store->driver->require_schema(store, detail));
}

enum weir_status store_plan(struct store *store, struct arena *arena, const struct store_migration **ret_migrations,
                            size_t *ret_count, struct weir_error *error)
{
    CALL(store, "plan", error, store->driver->plan(store, arena, ret_migrations, ret_count, detail));
}

void store_set_progress(struct store *store, store_progress *progress, void *context)
{
    store->progress = progress;
    store->progress_context = context;
}

enum weir_status store_tell_progress(const struct store *store, int64_t done, int64_t total, struct weir_error *error)
{
    if (store->progress != NULL) {
        FAILPOINT("in_progress");
        if (!store->progress(store->progress_context, done, total)) {
            return error_set(error, WEIR_INTERRUPTED, "interrupted: nothing was changed");
        }
    }
    return WEIR_OK;
}

void store_tell_migrated(const struct store *store, int64_t done, int64_t total)
{
    (void)(store_tell_progress(store, done, total, NULL) == WEIR_OK); /* a migration goes on to its end */
}

enum weir_status store_migrate(struct store *store, int *ret_applied, struct weir_error *error)
{
    CALL(store, "migrate", error, store->driver->migrate(store, ret_applied, detail));
}

enum weir_status store_check(struct store *store, json_t **ret_problems, struct weir_error *error)
{
    CALL(store, "check", error, store->driver->check(store, ret_problems, detail));
}

enum weir_status store_backup(struct store *store, const char *path, struct weir_error *error)
{
    CALL(store, "backup", error, store->driver->backup(store, path, detail));
}

enum weir_status store_time(struct store *store, int64_t *ret_now_us, struct weir_error *error)
{
    CALL(store, "time", error, store->driver->time(store, ret_now_us, detail));
}

/* --- the queue --- */

enum weir_status store_enqueue(struct store *store, const struct enqueue_request *requests, size_t count,
                               struct enqueue_result *results, struct weir_error *error)
{
    if (count > 0 && (requests == NULL || results == NULL)) {
        return error_set(error, WEIR_MISUSE, "enqueue needs requests and room for results");
    }
    struct call call = begin(store, "enqueue", error);
    enum weir_status status = count == 0 ? WEIR_OK : store->driver->enqueue(store, requests, count, results, &call.own);
    if (status == WEIR_OK) {
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
    return end(&call, status);
}

enum weir_status store_role(struct store *store, const struct role_request *request, struct role_state *ret_state,
                            struct weir_error *error)
{
    if (request == NULL || ret_state == NULL || (request->act != ROLE_LOOK && request->node_id <= 0) ||
        (request->act != ROLE_LOOK && request->act != ROLE_LEAVE && request->lease_us <= 0)) {
        return error_set(error, WEIR_MISUSE, "the scheduler's role needs a node and a lease");
    }
    struct role_state state = {0};
    struct call call = begin(store, "role", error);
    enum weir_status status = store->driver->role(store, request, &state, &call.own);
    if (status == WEIR_OK) {
        *ret_state = state;
    }
    return end(&call, status);
}

static void emit_claimed(const struct store *store, const struct call *call, size_t count)
{
    if (count > 0) {
        struct event event = {.type = EVENT_BATCH_CLAIMED,
                              .count = (int64_t)count,
                              .duration_us = clock_boot(clock_system()) - call->began_us};
        event_emit(store->events, &event);
    }
}

enum weir_status store_schedule(struct store *store, struct schedule_call *request, struct arena *arena,
                                struct schedule_answer *ret_answer, struct weir_error *error)
{
    if (request->node_id <= 0 || request->epoch <= 0 || request->assignment_count > CLAIM_BATCH_MOST ||
        request->read_count > SCHEDULER_READS_MOST || (request->load && request->assignment_count > 0)) {
        return error_set(error, WEIR_MISUSE, "a round of the scheduler needs a node, an epoch and at most %d assignments",
                         CLAIM_BATCH_MOST);
    }
    struct schedule_answer answer = {.next_due_us = TIME_NEVER};
    struct call call = begin(store, "schedule", error);
    enum weir_status status = store->driver->schedule(store, request, arena, &answer, &call.own);
    if (status == WEIR_OK) {
        *ret_answer = answer;
        emit_claimed(store, &call, answer.claimed.count);
    }
    return end(&call, status);
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
    if (node_id <= 0 || position == NULL || limit > CLAIM_BATCH_MOST) {
        return error_set(error, WEIR_MISUSE, "an inbox needs a node, a position and a limit of at most %d",
                         CLAIM_BATCH_MOST);
    }
    struct inbox inbox = {0};
    struct inbox_position moved = *position;
    struct call call = begin(store, "inbox", error);
    enum weir_status status = store->driver->inbox(store, node_id, &moved, limit, arena, &inbox, &call.own);
    if (status == WEIR_OK) {
        *ret_inbox = inbox;
        *position = moved;
        emit_claimed(store, &call, inbox.claimed.count);
    }
    return end(&call, status);
}

enum weir_status store_read_definition(struct store *store, int64_t definition_id, struct arena *arena,
                                       struct definition_text *ret_definition, struct weir_error *error)
{
    CALL(store, "read_definition", error,
         store->driver->read_definition(store, definition_id, arena, ret_definition, detail));
}

/* A set that fails for a reason that lies in one of its values is split until the bad record is alone. */
static enum weir_status record_split(struct store *store, int64_t node_id, struct record *records, size_t count,
                                     struct record_summary *summary, struct weir_error *error)
{
    struct record_summary part = {0};
    enum weir_status status = store->driver->record(store, node_id, records, count, &part, error);
    if (status == WEIR_OK) {
        summary->changed += part.changed;
        summary->slots_freed += part.slots_freed;
        summary->poisoned += part.poisoned;
        summary->work_waits = summary->work_waits || part.work_waits;
        return WEIR_OK;
    }
    if (status != WEIR_INVALID_ARGUMENT) {
        return status;
    }
    if (count == 1) {
        records[0].status = WEIR_INVALID_ARGUMENT;
        return WEIR_OK;
    }
    status = record_split(store, node_id, records, count / 2, summary, error);
    return status == WEIR_OK ? record_split(store, node_id, records + count / 2, count - count / 2, summary, error)
                             : status;
}

/* The stored text of an error is bounded: at most ERROR_TEXT_MAX bytes, cut between two characters. */
static bool is_too_long(const char *error)
{
    return error != NULL && strnlen(error, ERROR_TEXT_MAX + 1) > ERROR_TEXT_MAX;
}

static char *cut_error(const char *error)
{
    size_t length = ERROR_TEXT_MAX;
    while (length > 0 && ((unsigned char)error[length] & 0xC0) == 0x80) {
        length--;
    }
    return strndup(error, length);
}

/* The copies that stand in for records with long errors, while the driver works. */
struct shortened {
    struct record *records;
    struct step_record *steps;
    char **texts;
    size_t text_count;
};

static void shortened_close(struct shortened *shortened)
{
    for (size_t i = 0; i < shortened->text_count; i++) {
        free(shortened->texts[i]);
    }
    free(shortened->texts);
    free(shortened->steps);
    free(shortened->records);
}

static bool shorten(struct shortened *shortened, const struct record *records, size_t count)
{
    shortened->records = calloc(count, sizeof *shortened->records);
    shortened->steps = calloc(count, sizeof *shortened->steps);
    shortened->texts = calloc(2 * count, sizeof *shortened->texts);
    bool fine = shortened->records != NULL && shortened->steps != NULL && shortened->texts != NULL;
    for (size_t i = 0; i < count && fine; i++) {
        struct record *record = &shortened->records[i];
        *record = records[i];
        if (is_too_long(record->error)) {
            record->error = shortened->texts[shortened->text_count++] = cut_error(record->error);
            fine = record->error != NULL;
        }
        if (fine && record->step != NULL && is_too_long(record->step->error)) {
            shortened->steps[i] = *record->step;
            shortened->steps[i].error = shortened->texts[shortened->text_count++] = cut_error(record->step->error);
            record->step = &shortened->steps[i];
            fine = record->step->error != NULL;
        }
    }
    return fine;
}

static void emit_poisoned(struct store *store, size_t count)
{
    if (count > 0) {
        struct event poisoned = {.type = EVENT_EXECUTION_POISONED, .count = (int64_t)count};
        event_emit(store->events, &poisoned);
    }
}

/* Records as they are, or with their errors cut. */
static enum weir_status record_bounded(struct store *store, int64_t node_id, struct record *records, size_t count,
                                       struct record_summary *summary, struct weir_error *error)
{
    bool too_long = false;
    for (size_t i = 0; i < count; i++) {
        too_long =
            too_long || is_too_long(records[i].error) || (records[i].step != NULL && is_too_long(records[i].step->error));
    }
    if (!too_long) {
        return record_split(store, node_id, records, count, summary, error);
    }
    struct shortened shortened = {0};
    enum weir_status status = shorten(&shortened, records, count)
                                  ? record_split(store, node_id, shortened.records, count, summary, error)
                                  : error_out_of_memory(error);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        records[i].status = shortened.records[i].status;
    }
    shortened_close(&shortened);
    return status;
}

enum weir_status store_record(struct store *store, int64_t node_id, struct record *records, size_t count,
                              struct record_summary *ret_summary, struct weir_error *error)
{
    if (count > RECORD_BATCH_MOST || (count > 0 && records == NULL)) {
        return error_set(error, WEIR_MISUSE, "a set has at most %d records", RECORD_BATCH_MOST);
    }
    for (size_t i = 0; i < count; i++) {
        if ((records[i].kind == RECORD_STEP && records[i].step == NULL) || (unsigned)records[i].kind >= RECORD_KIND_COUNT) {
            return error_set(error, WEIR_MISUSE, "record %zu is not whole", i);
        }
    }
    struct call call = begin(store, "record", error);
    struct record_summary summary = {0};
    enum weir_status status = count == 0 ? WEIR_OK : record_bounded(store, node_id, records, count, &summary, &call.own);
    if (status == WEIR_OK) {
        *ret_summary = summary;
        emit_poisoned(store, summary.poisoned);
    }
    return end(&call, status);
}

/* --- nodes --- */

static enum weir_status refuse_blank(const char *what, struct weir_error *error)
{
    error_set(error, WEIR_INVALID_ARGUMENT, "the %s's name is nothing but blanks", what);
    error_hint(error, "give it a name that can be seen");
    return WEIR_INVALID_ARGUMENT;
}

enum weir_status store_node_start(struct store *store, const struct node_options *options, int64_t *ret_node_id,
                                  struct weir_error *error)
{
    if (options->name == NULL || options->group == NULL || options->lease_us <= 0 ||
        strlen(options->name) > NODE_NAME_MAX || strlen(options->group) > GROUP_NAME_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a node needs a name, a group and a lease");
    }
    if (text_is_blank(options->name)) {
        return refuse_blank("node", error);
    }
    CALL(store, "node_start", error, store->driver->node_start(store, options, ret_node_id, detail));
}

enum weir_status store_node_target(struct store *store, int64_t node_id, const struct engine_target *target,
                                   struct weir_error *error)
{
    INVARIANT(target != NULL && target->engine[0] != '\0');
    CALL(store, "node_target", error, store->driver->node_target(store, node_id, target, detail));
}

enum weir_status store_node_beat(struct store *store, int64_t node_id, struct node_beat *beat, struct weir_error *error)
{
    CALL(store, "node_beat", error, store->driver->node_beat(store, node_id, beat, detail));
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

enum weir_status store_recover(struct store *store, const struct recover_options *options,
                               struct recover_result *ret_result, struct weir_error *error)
{
    if (options->limit == 0 || options->limit > RECOVER_BATCH || options->handovers_max <= 0) {
        return error_set(error, WEIR_MISUSE, "recover takes 1 to %d items and a handovers_max", RECOVER_BATCH);
    }
    struct call call = begin(store, "recover", error);
    struct recover_result result = {0};
    enum weir_status status = store->driver->recover(store, options, &result, &call.own);
    if (status == WEIR_OK) {
        *ret_result = result;
        if (result.nodes > 0) {
            struct event dead = {.type = EVENT_NODE_DEAD, .count = (int64_t)result.nodes};
            event_emit(store->events, &dead);
        }
        if (result.handed_over + result.poisoned > 0) {
            struct event recovered = {.type = EVENT_ITEMS_RECOVERED,
                                      .count = (int64_t)(result.handed_over + result.poisoned)};
            event_emit(store->events, &recovered);
        }
        emit_poisoned(store, result.poisoned);
    }
    return end(&call, status);
}

enum weir_status store_take_requests(struct store *store, int64_t node_id, struct arena *arena,
                                     struct node_request **ret_requests, size_t *ret_count, struct weir_error *error)
{
    CALL(store, "take_requests", error,
         store->driver->take_requests(store, node_id, arena, ret_requests, ret_count, detail));
}

/* --- operators --- */

enum weir_status store_bulk(struct store *store, enum bulk_act act, const struct execution_filter *filter,
                            const char *after, size_t limit, const char *actor, const char *why,
                            struct bulk_result *ret_result, struct weir_error *error)
{
    if (limit == 0 || limit > LIST_LIMIT_MOST || filter == NULL || after == NULL) {
        return error_set(error, WEIR_MISUSE, "a bulk act takes 1 to %d executions at a time", LIST_LIMIT_MOST);
    }
    if (why != NULL && strlen(why) > REASON_MAX) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the reason is too long");
        error_hint(error, "at most %d bytes", REASON_MAX);
        return WEIR_INVALID_ARGUMENT;
    }
    CALL(store, bulk_act_name(act), error,
         store->driver->bulk(store, act, filter, after, limit, actor, why, ret_result, detail));
}

static enum weir_status check_name(const char *what, const char *name, size_t most, struct weir_error *error)
{
    size_t length = name == NULL ? 0 : strlen(name);
    if (length == 0 || length > most || !text_is_utf8(name, length)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the %s's name must have 1 to %zu bytes of UTF-8", what, most);
    }
    char safe[WORKSPACE_NAME_MAX + 1];
    text_copy(safe, sizeof safe, name);
    text_make_safe(safe);
    if (strcmp(safe, name) != 0) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the %s's name has control characters", what);
    }
    return WEIR_OK;
}

enum weir_status store_set_plan(struct store *store, const struct plan_change *change, struct weir_error *error)
{
    enum weir_status status = check_name("plan", change->name, PLAN_NAME_MAX, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (text_is_blank(change->name)) {
        return refuse_blank("plan", error);
    }
    if (change->max_concurrent < 0 || change->max_concurrent > MAX_CONCURRENT_MOST) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "max_concurrent must be 1 to %d", MAX_CONCURRENT_MOST);
    }
    if (change->weight < 0 || change->weight > WEIGHT_MOST) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "weight must be 1 to %d", WEIGHT_MOST);
    }
    CALL(store, "set_plan", error, store->driver->set_plan(store, change, detail));
}

/* One of an older version goes on; no more are made. */
static enum weir_status change_blank_workspace(struct store *store, const struct workspace_change *change,
                                               struct weir_error *error)
{
    struct workspace_change only_change = *change;
    only_change.create = false;
    struct call call = begin(store, "set_workspace", error);
    enum weir_status status = end(&call, store->driver->set_workspace(store, &only_change, &call.own));
    return status == WEIR_WORKSPACE_NOT_FOUND && change->create ? refuse_blank("workspace", error) : status;
}

enum weir_status store_set_workspace(struct store *store, const struct workspace_change *change, struct weir_error *error)
{
    enum weir_status status = check_name("workspace", change->name, WORKSPACE_NAME_MAX, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (change->max_concurrent < -1 || change->max_concurrent > MAX_CONCURRENT_MOST) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "max_concurrent must be 1 to %d", MAX_CONCURRENT_MOST);
    }
    if (text_is_blank(change->name)) {
        return change_blank_workspace(store, change, error);
    }
    CALL(store, "set_workspace", error, store->driver->set_workspace(store, change, detail));
}

enum weir_status store_set_paused(struct store *store, const char *group, bool paused, struct weir_error *error)
{
    CALL(store, paused ? "pause" : "resume", error, store->driver->set_paused(store, group, paused, detail));
}

enum weir_status store_publish(struct store *store, const char *name, const char *workspace, const char *text,
                               struct published *ret_published, struct weir_error *error)
{
    enum weir_status status = check_name("workflow", name, WORKFLOW_NAME_MAX, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-")] != '\0' || name[0] == '_' || name[0] == '-') {
        error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not the name of a workflow", name);
        error_hint(error, "a name has small letters, digits, _ and -, and begins with a letter or digit");
        return WEIR_INVALID_ARGUMENT;
    }
    CALL(store, "publish", error, store->driver->publish(store, name, workspace, text, ret_published, detail));
}

/* --- locks --- */

static enum weir_status check_lock(const struct lock_request *request, bool needs_holder, struct weir_error *error)
{
    size_t length = request->name == NULL ? 0 : strlen(request->name);
    if (length == 0 || length > LOCK_NAME_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a lock's name has 1 to %d bytes", LOCK_NAME_MAX);
    }
    if (needs_holder && (request->holder == NULL || request->holder[0] == '\0' || strlen(request->holder) > 255)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a lock needs a holder of at most 255 bytes");
    }
    if (request->at_most_us < 0 || request->at_least_us < 0 ||
        (needs_holder && request->at_least_us > request->at_most_us)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the at-least time of a lock must not exceed its at-most time");
    }
    return WEIR_OK;
}

enum weir_status store_lock(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    enum weir_status status = check_lock(request, true, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct call call = begin(store, "lock", error);
    status = store->driver->lock(store, request, &call.own);
    struct event event = {.type = status == WEIR_OK ? EVENT_LOCK_ACQUIRED : EVENT_LOCK_BUSY, .reason = request->name};
    if (status == WEIR_OK || status == WEIR_CONFLICT) {
        event_emit(store->events, &event);
    }
    return end(&call, status);
}

enum weir_status store_lock_extend(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    enum weir_status status = check_lock(request, true, error);
    if (status != WEIR_OK) {
        return status;
    }
    CALL(store, "lock_extend", error, store->driver->lock_extend(store, request, detail));
}

enum weir_status store_unlock(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    enum weir_status status = check_lock(request, false, error);
    if (status != WEIR_OK) {
        return status;
    }
    CALL(store, "unlock", error, store->driver->unlock(store, request, detail));
}

/* --- reading --- */

/* Drivers give the output of a step as the JSON text that they keep; people and programs get the value. */
static void open_value(json_t *step, const char *key)
{
    const json_t *text = json_object_get(step, key);
    json_t *value = NULL;
    if (json_is_string(text) && json_read(json_string_value(text), json_string_length(text), &value, NULL) == WEIR_OK) {
        (void)json_object_set_new(step, key, value);
    }
}

static void open_outputs(json_t *steps)
{
    size_t i;
    json_t *step;
    json_array_foreach(steps, i, step)
    {
        open_value(step, "output");
        open_value(step, "variables");
    }
}

enum weir_status store_list(struct store *store, const struct list_options *options, json_t **ret_page,
                            struct weir_error *error)
{
    if (options->limit > LIST_LIMIT_MOST) {
        error_set(error, WEIR_INVALID_ARGUMENT, "a page has at most %d items", LIST_LIMIT_MOST);
        error_hint(error, "go on with the cursor of the page before");
        return WEIR_INVALID_ARGUMENT;
    }
    struct call call = begin(store, "list", error);
    enum weir_status status = store->driver->list(store, options, ret_page, &call.own);
    if (status == WEIR_OK && options->kind == LIST_STEPS) {
        open_outputs(json_object_get(*ret_page, "items"));
    }
    return end(&call, status);
}

enum weir_status store_list_each(struct store *store, const struct list_options *options,
                                 bool (*visit)(void *context, const json_t *row), void *context, struct weir_error *error)
{
    struct list_options page_options = *options;
    enum weir_status status;
    json_t *page = NULL;
    bool goes_on = true;
    do {
        json_t *next = NULL;
        const json_t *row;
        size_t i;
        status = store_list(store, &page_options, &next, error);
        json_decref(page); /* the cursor was its text */
        page = next;
        json_array_foreach(json_object_get(page, "items"), i, row)
        {
            goes_on = goes_on && visit(context, row);
        }
        page_options.cursor = json_string_value(json_object_get(page, "next_cursor"));
    } while (goes_on && page_options.cursor != NULL);
    json_decref(page);
    return status;
}

/* A workflow id of Temporal names its execution as well. */
static const char *id_of_workflow(const char *id)
{
    static const char prefix[] = "execution-";
    return strncmp(id, prefix, sizeof prefix - 1) == 0 ? id + sizeof prefix - 1 : id;
}

enum weir_status store_show(struct store *store, const char *id, json_t **ret_execution, struct weir_error *error)
{
    struct call call = begin(store, "show", error);
    enum weir_status status = store->driver->show(store, id_of_workflow(id), ret_execution, &call.own);
    if (status == WEIR_OK) {
        open_outputs(json_object_get(*ret_execution, "steps"));
    }
    return end(&call, status);
}

/* Nodes with dispatch.exclusive start nothing while another program holds the lock; only the nodes know which of them have
 * the setting. The verbs for locks report a table that cannot be read. */
static void add_lock(struct store *store, json_t *why)
{
    const char *reason = json_string_value(json_object_get(why, "pending_reason"));
    struct list_options options = {.kind = LIST_LOCKS, .name = "processExecutionQueue", .limit = 1};
    struct weir_error ignored = {.status = WEIR_OK};
    json_t *page = NULL;
    bool waits_for_node = reason != NULL && (strcmp(reason, "ready") == 0 || strcmp(reason, "no_scheduler") == 0);
    if (!waits_for_node || store->driver->list(store, &options, &page, &ignored) != WEIR_OK) {
        return;
    }
    const json_t *lock = json_array_get(json_object_get(page, "items"), 0);
    if (json_is_true(json_object_get(lock, "held"))) {
        (void)json_object_set(why, "lock_holder", json_object_get(lock, "holder"));
        (void)json_object_set(why, "lock_until", json_object_get(lock, "lock_until"));
    }
    json_decref(page);
}

/* A held item is not due: that time was of the wait before its claim. */
static void drop_past_wait(json_t *why)
{
    if (item_state_is_held(json_string_value(json_object_get(why, "status")))) {
        (void)json_object_set_new(why, "due_at", json_null());
    }
}

enum weir_status store_why(struct store *store, const char *id, json_t **ret_why, struct weir_error *error)
{
    struct call call = begin(store, "why", error);
    enum weir_status status = store->driver->why(store, id_of_workflow(id), ret_why, &call.own);
    if (status == WEIR_OK) {
        add_lock(store, *ret_why);
        drop_past_wait(*ret_why);
    }
    return end(&call, status);
}

enum weir_status store_status(struct store *store, size_t workspaces_max, json_t **ret_status, struct weir_error *error)
{
    CALL(store, "status", error, store->driver->status(store, workspaces_max, ret_status, detail));
}

int store_wake_fd(struct store *store)
{
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
    return store->driver->wake_drain(store, ret_again_us);
}
