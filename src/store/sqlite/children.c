/* Children on SQLite: the tables child_steps, children, and the outbox child_notes.
 * A call of sqlite_advance_children() is one write transaction:
 *
 *   1. Take the oldest notes.
 *   2. Look at each step that they name. Count its ended children. Read its plan if it is new. Enqueue up to `max_parallel`
 *      children, or cancel those of an ended parent. End the wait when it is over.
 *   3. A step with more to do than a transaction may do gets a note again. Delete the notes that were taken.
 *   4. A step whose parent was purged loses its rows when they are not needed any more.
 *   5. A step with rows that another program has altered undoes the transaction. Another one does all of it again, with a
 *      savepoint for each step. There such a step is undone alone, and its notes are put back for a later call. In a
 *      savepoint an enqueue takes three times as long.
 *
 * The wait ends by a signal of the store to the parent, which is kept, passed on and consumed as those of people are. A
 * write transaction is alone, so parent and children do not change meanwhile. Runs in the caller's thread.
 */
#include "store/sqlite/children.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "queue/signal.h"
#include "store/sqlite/child_adoption.h"
#include "store/sqlite/child_plan.h"
#include "store/sqlite/enqueue.h"
#include "store/sqlite/signals.h"

enum { ADVANCE_ARENA_BYTES = 16 * 1024 * 1024 }; /* for one step at a time */

struct note {
    char parent[UUID_TEXT_MAX];
    char step[STEP_ID_MAX + 1];
    int64_t position; /* of the child that has ended; -1 = none */
};

/* One call. */
struct advance {
    struct write write;
    struct enqueue_context context;
    struct arena arena;
    struct note notes[CHILD_STARTS_BATCH];
    struct parameter_row ends[CHILD_STARTS_BATCH];
    size_t note_count;
    bool is_full; /* there may be more notes */
    int64_t last_note;
    int64_t starts_left;
    int64_t cancels_left;
    int64_t plan_left;  /* of CHILD_PLAN_BATCH */
    int64_t bytes_left; /* of params that are enqueued */
    struct children_advance result;
    size_t notes_left; /* put back, of steps with a fault */
    bool is_apart;     /* each step in a savepoint */
    bool has_fault;    /* of a step, without savepoints */
    struct news kept_news;
    struct children_advance kept_result; /* both: before the step that is worked on */
};

/* A row of child_steps. */
struct child_step {
    const struct note *note;
    const char *workflow;
    const char *group;
    const char *default_group;
    const char *workspace; /* NULL: it was deleted */
    int priority;
    bool is_single;
    bool waits_for_all;
    bool leaves;
    bool is_settled;
    bool parent_lives;
    bool parent_is_kept; /* in the history */
    int64_t wanted;
    int64_t max_parallel;
    int64_t count; /* -1: the plan was not read */
    int64_t started;
    int64_t ended;
    int64_t completed;
    int64_t cancelled_to;
    const char *problem;     /* of the plan: a code */
    bool is_unawaited;       /* an action brought its plan, and no state waits for it */
    bool is_elsewhere;       /* the plan names the workspace */
    const char *traceparent; /* of the parent; NULL = none */
};

/* --- notes --- */

enum weir_status children_plan(struct write *write, const struct record *record, struct weir_error *error)
{
    INVARIANT(write != NULL && record != NULL);
    const struct step_record *step = record->step;
    int64_t inserted = 0;
    if (step == NULL || step->state != STEP_WAITING || !signal_is_of_children(step->signal) ||
        strcmp(step->signal + sizeof CHILDREN_SIGNAL - 1, step->step) != 0) {
        return WEIR_OK; /* a state waits for the children of its action, whose plans states_record() has written */
    }
    enum weir_status status =
        connection_run(write->connection, error, &inserted, QUERY_INSERT_CHILD_STEP, "tt", record->id, step->step);
    if (status == WEIR_OK && inserted > 0) {
        news_state(&write->news); /* the record alone brings no news, and the duty looks after news */
        status = connection_run(write->connection, error, NULL, QUERY_INSERT_CHILD_NOTE, "tt", record->id, step->step);
    }
    return status;
}

enum weir_status children_note_ends(struct write *write, struct weir_error *error)
{
    INVARIANT(write != NULL && write->connection != NULL);
    int64_t any = 0;
    enum weir_status status = connection_read_integer(write->connection, error, &any, QUERY_HAS_CHILD_STEPS, "");
    if (status == WEIR_OK && any != 0) {
        status = connection_run(write->connection, error, NULL, QUERY_NOTE_CHILD_ENDS, "");
    }
    return status == WEIR_OK && any != 0 ? connection_run(write->connection, error, NULL, QUERY_NOTE_PARENT_ENDS, "")
                                         : status;
}

static int compare_notes(const void *a, const void *b)
{
    const struct note *x = a;
    const struct note *y = b;
    int order = strcmp(x->parent, y->parent);
    return order != 0 ? order : strcmp(x->step, y->step);
}

/* Ends of children of one step mostly follow each other, and cost little together. */
static enum weir_status take_notes(struct advance *advance, struct weir_error *error)
{
    size_t steps = 0;
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement =
        connection_bind(advance->write.connection, error, QUERY_READ_CHILD_NOTES, "i", (int64_t)CHILD_STARTS_BATCH);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (steps < CHILD_WORK_BATCH && connection_step(advance->write.connection, statement, &status, error)) {
        struct note *note = &advance->notes[advance->note_count];
        advance->last_note = sqlite3_column_int64(statement, 0);
        text_copy(note->parent, sizeof note->parent, column_text(statement, 1));
        text_copy(note->step, sizeof note->step, column_text(statement, 2));
        note->position = sqlite3_column_type(statement, 3) == SQLITE_NULL ? -1 : sqlite3_column_int64(statement, 3);
        steps += advance->note_count == 0 || compare_notes(note - 1, note) != 0;
        advance->note_count++;
    }
    (void)sqlite3_reset(statement);
    advance->is_full = steps == CHILD_WORK_BATCH || advance->note_count == CHILD_STARTS_BATCH;
    return status;
}

/* The step is looked at again by the next call. */
static enum weir_status note_again(struct advance *advance, const struct note *note, struct weir_error *error)
{
    advance->result.again = true;
    return connection_run(advance->write.connection, error, NULL, QUERY_INSERT_CHILD_NOTE, "tt", note->parent, note->step);
}

/* Ends the children in `parameter_rows`. Counts the ends that were not counted before. */
static enum weir_status end_children(struct advance *advance, const struct note *of_step, int64_t *ret_ended,
                                     int64_t *ret_completed, struct weir_error *error)
{
    struct connection *connection = advance->write.connection;
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *s = connection_bind(connection, error, QUERY_END_CHILDREN, "tt", of_step->parent, of_step->step);
    if (s == NULL) {
        return statement_failure(error);
    }
    while (connection_step(connection, s, &status, error)) {
        *ret_ended += 1;
        *ret_completed += strcmp(column_text(s, 0), "COMPLETED") == 0;
    }
    return status;
}

/* Counts the ends in the notes of one step. */
static enum weir_status count_ends(struct advance *advance, const struct note *notes, size_t count,
                                   struct weir_error *error)
{
    struct connection *connection = advance->write.connection;
    size_t ends = 0;
    int64_t ended = 0;
    int64_t completed = 0;
    for (size_t i = 0; i < count; i++) {
        if (notes[i].position >= 0) {
            advance->ends[ends++] = (struct parameter_row){.number = notes[i].position};
        }
    }
    if (ends == 0) {
        return WEIR_OK;
    }
    connection->parameter_rows = (struct parameter_rows){.rows = advance->ends, .count = ends};
    enum weir_status status = end_children(advance, notes, &ended, &completed, error);
    connection->parameter_rows = (struct parameter_rows){.count = 0};
    return status == WEIR_OK && ended > 0 ? connection_run(connection, error, NULL, QUERY_COUNT_CHILD_ENDS, "ttii",
                                                           notes->parent, notes->step, ended, completed)
                                          : status;
}

/* WEIR_NOT_FOUND: the step has no row any more. */
static enum weir_status read_child_step(struct advance *advance, struct child_step *step, struct weir_error *error)
{
    bool failed = false;
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *s = connection_bind(advance->write.connection, error, QUERY_READ_CHILD_STEP, "tt", step->note->parent,
                                      step->note->step);
    if (s == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(advance->write.connection, s, &status, error)) {
        return status == WEIR_OK ? WEIR_NOT_FOUND : status;
    }
    step->workflow = column_copy(s, 0, &advance->arena, &failed);
    step->group = column_copy(s, 1, &advance->arena, &failed);
    step->default_group = column_copy(s, 2, &advance->arena, &failed);
    step->priority = sqlite3_column_int(s, 3);
    step->is_single = sqlite3_column_int(s, 4) != 0;
    step->waits_for_all = sqlite3_column_int(s, 5) != 0;
    step->wanted = sqlite3_column_int64(s, 6);
    step->max_parallel = sqlite3_column_int64(s, 7);
    step->leaves = sqlite3_column_int(s, 8) != 0;
    step->count = sqlite3_column_type(s, 9) == SQLITE_NULL ? -1 : sqlite3_column_int64(s, 9);
    step->started = sqlite3_column_int64(s, 10);
    step->ended = sqlite3_column_int64(s, 11);
    step->completed = sqlite3_column_int64(s, 12);
    step->cancelled_to = sqlite3_column_int64(s, 13);
    step->is_settled = sqlite3_column_int(s, 14) != 0;
    step->workspace = column_copy(s, 15, &advance->arena, &failed);
    step->parent_lives = sqlite3_column_int(s, 16) != 0;
    step->parent_is_kept = sqlite3_column_int(s, 17) != 0;
    step->problem = column_copy(s, 18, &advance->arena, &failed);
    step->is_unawaited = sqlite3_column_int(s, 19) != 0;
    step->is_elsewhere = sqlite3_column_int(s, 20) != 0;
    step->traceparent = column_copy(s, 21, &advance->arena, &failed);
    (void)sqlite3_reset(s);
    return failed ? error_out_of_memory(error) : WEIR_OK;
}

/* --- starts --- */

struct next_child {
    int64_t position;
    char id[UUID_TEXT_MAX];
    const char *params;
    size_t params_length;
    const char *key; /* NULL: none */
};

static enum weir_status read_next_children(struct advance *advance, const struct child_step *step, int64_t most,
                                           struct next_child *next, size_t *ret_count, struct weir_error *error)
{
    bool failed = false;
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *s = connection_bind(advance->write.connection, error, QUERY_NEXT_CHILDREN, "ttii", step->note->parent,
                                      step->note->step, step->started, most);
    if (s == NULL) {
        return statement_failure(error);
    }
    while (connection_step(advance->write.connection, s, &status, error)) {
        struct next_child *child = &next[(*ret_count)++];
        child->position = sqlite3_column_int64(s, 0);
        text_copy(child->id, sizeof child->id, column_text(s, 1));
        child->params_length = (size_t)sqlite3_column_bytes(s, 2);
        child->params = column_copy(s, 2, &advance->arena, &failed);
        child->key = column_copy(s, 3, &advance->arena, &failed);
    }
    return failed ? error_out_of_memory(error) : status;
}

/* A refusal of the request, as for a workflow that does not exist, is the end of the child. So is a known key whose
 * execution has ended. */
static enum weir_status enqueue_child(struct advance *advance, struct child_step *step, const struct next_child *child,
                                      struct weir_error *error)
{
    struct enqueue_result result = {.status = WEIR_OK};
    struct adopted adopted = {.has_ended = false};
    size_t valid = 0;
    struct enqueue_request request = {.workspace = step->workspace == NULL ? "" : step->workspace,
                                      .workflow = step->workflow,
                                      .id = child->id,
                                      .params = child->params,
                                      .params_length = child->params_length,
                                      .idempotency_key = child->key,
                                      .group = step->group,
                                      .default_group = step->default_group,
                                      .is_unbounded = true,
                                      .is_of_all = step->is_elsewhere,
                                      .traceparent = step->traceparent,
                                      .priority = step->priority};
    enum weir_status status = enqueue_requests_check(&request, 1, &result, &valid, error);
    if (status == WEIR_OK && result.status == WEIR_OK) {
        status = enqueue_request(&advance->context, &request, &result, error);
    }
    bool is_known = child->key != NULL && (result.duplicate || result.status == WEIR_IDEMPOTENCY_KEY_REUSED);
    if (status == WEIR_OK && is_known) {
        const struct adoption adoption = {.parent = step->note->parent,
                                          .workspace = request.workspace,
                                          .workflow = step->workflow,
                                          .key = child->key,
                                          .is_elsewhere = step->is_elsewhere};
        status = child_adopt(&advance->write, &adoption, &adopted, &result, error);
    }
    step->started++;
    advance->bytes_left -= (int64_t)child->params_length;
    bool is_refused = status == WEIR_OK && result.status != WEIR_OK;
    bool is_ordinary = !is_refused && !is_known; /* drop_child_params() changes its row, if it has to */
    bool has_ended = is_refused || adopted.has_ended;
    advance->result.started += status == WEIR_OK && !has_ended;
    step->ended += has_ended;
    step->completed += !is_refused && adopted.is_completed;
    return status == WEIR_OK && !is_ordinary
               ? connection_run(advance->write.connection, error, NULL, QUERY_START_CHILD, "ttittt", step->note->parent,
                                step->note->step, child->position, is_refused ? weir_status_name(result.status) : NULL,
                                is_refused ? result.error.message : NULL, is_known && !is_refused ? adopted.id : NULL)
               : status;
}

/* The executions of ordinary children alone have their params and keys from here on. */
static enum weir_status drop_child_params(struct advance *advance, const struct child_step *step,
                                          const struct next_child *next, size_t count, struct weir_error *error)
{
    for (size_t i = 0; i < count; i++) {
        if (next[i].params != NULL || next[i].key != NULL) {
            return connection_run(advance->write.connection, error, NULL, QUERY_DROP_CHILD_PARAMS, "ttii",
                                  step->note->parent, step->note->step, next[i].position, next[count - 1].position);
        }
    }
    return WEIR_OK;
}

/* Enqueues the next children, as far as max_parallel and the transaction allow. *ret_again: refused ones have left room. */
static enum weir_status start_part(struct advance *advance, struct child_step *step, bool *ret_again,
                                   struct weir_error *error)
{
    int64_t wanted = step->max_parallel - (step->started - step->ended);
    int64_t left = step->count - step->started;
    int64_t most = wanted < left ? wanted : left;
    size_t count = 0;
    *ret_again = false;
    if (most <= 0) {
        return WEIR_OK;
    }
    bool is_cut = most > advance->starts_left;
    most = is_cut ? advance->starts_left : most;
    struct next_child *next = arena_allocate(&advance->arena, ((size_t)most + 1) * sizeof *next);
    if (next == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = read_next_children(advance, step, most, next, &count, error);
    int64_t ended = step->ended;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = enqueue_child(advance, step, &next[i], error);
    }
    status = status == WEIR_OK ? drop_child_params(advance, step, next, count, error) : status;
    advance->starts_left = advance->bytes_left <= 0 ? 0 : advance->starts_left - (int64_t)count;
    *ret_again = step->ended > ended && step->started < step->count && advance->starts_left > 0;
    bool is_left = is_cut || (step->ended > ended && step->started < step->count && advance->starts_left <= 0);
    return status == WEIR_OK && is_left ? note_again(advance, step->note, error) : status;
}

static enum weir_status start_children(struct advance *advance, struct child_step *step, struct weir_error *error)
{
    bool again = true;
    enum weir_status status = WEIR_OK;
    while (again && status == WEIR_OK) {
        status = start_part(advance, step, &again, error);
    }
    return status;
}

/* --- the end of the parent --- */

static enum weir_status cancel_child(struct advance *advance, const char *id, struct weir_error *error)
{
    struct write *write = &advance->write;
    struct ending ending = {.id = id, .state = ITEM_CANCELLED};
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *s = connection_bind(write->connection, error, QUERY_FIND_ITEM, "t", id);
    if (s == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(write->connection, s, &status, error)) {
        return status; /* it has ended, and its note is on its way */
    }
    bool is_held = sqlite3_column_int(s, 4) == 2;
    bool was_asked = sqlite3_column_type(s, 5) != SQLITE_NULL;
    bool has_run = sqlite3_column_int(s, 8) > 0;
    (void)sqlite3_reset(s);
    if (is_held && was_asked) {
        return WEIR_OK;
    }
    advance->result.cancelled++;
    status = event_history_add(write->connection, id, write->now_us, "cancel", 0, 0, NULL, "its parent has ended",
                               is_held   ? "passed on to its engine"
                               : has_run ? "it was waiting"
                                         : "it had not started",
                               error);
    if (status != WEIR_OK) {
        return status;
    }
    return is_held ? connection_run(write->connection, error, NULL, QUERY_ASK_CANCEL, "ti", id, write->now_us)
                   : item_end(write, &ending, error);
}

/* Cancels the children that have begun, in parts. The others are never enqueued. */
static enum weir_status cancel_children(struct advance *advance, struct child_step *step, struct weir_error *error)
{
    int64_t most = advance->cancels_left;
    size_t count = 0;
    struct next_child *living = arena_allocate(&advance->arena, ((size_t)most + 1) * sizeof *living);
    enum weir_status status = WEIR_OK;
    if (living == NULL) {
        return error_out_of_memory(error);
    }
    sqlite3_stmt *s = connection_bind(advance->write.connection, error, QUERY_LIVING_CHILDREN, "ttiii", step->note->parent,
                                      step->note->step, step->cancelled_to, step->started, most);
    if (s == NULL) {
        return statement_failure(error);
    }
    while (connection_step(advance->write.connection, s, &status, error)) {
        living[count].position = sqlite3_column_int64(s, 0);
        text_copy(living[count].id, sizeof living[count].id, column_text(s, 1));
        count++;
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = cancel_child(advance, living[i].id, error);
        step->cancelled_to = living[i].position + 1;
    }
    advance->cancels_left -= (int64_t)count;
    if (status == WEIR_OK && (int64_t)count == most) {
        return note_again(advance, step->note, error);
    }
    step->cancelled_to = step->started;
    return status;
}

/* --- the end of the wait --- */

/* Adds "id" and "status", and the output while they fit. */
static enum weir_status add_outcome(struct text *text, sqlite3_stmt *s, bool has_outputs)
{
    const char *state = column_text(s, 1);
    enum weir_status status =
        text_format(text, "{\"id\":\"%s\",\"status\":\"%s\"", column_text(s, 0), state == NULL ? "OPEN" : state);
    const char *output = has_outputs ? (const char *)sqlite3_column_blob(s, 2) : NULL;
    if (status == WEIR_OK && output != NULL) {
        status = text_add_string(text, ",\"output\":");
        status = status == WEIR_OK ? text_add(text, output, (size_t)sqlite3_column_bytes(s, 2)) : status;
    } else if (status == WEIR_OK && has_outputs) {
        status = text_add_string(text, ",\"output\":null");
    }
    return status == WEIR_OK ? text_add_string(text, "}") : status;
}

/* Writes the output of the step. WEIR_INVALID_ARGUMENT or another permanent status: it is too long. */
static enum weir_status write_outcomes(struct advance *advance, const struct child_step *step, bool has_outputs,
                                       struct text *text, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    enum weir_status written = text_add_string(text, step->is_single ? "{\"output\":" : "{\"output\":[");
    bool is_first = true;
    sqlite3_stmt *s =
        connection_bind(advance->write.connection, error, QUERY_CHILD_OUTCOMES, "tt", step->note->parent, step->note->step);
    if (s == NULL) {
        return statement_failure(error);
    }
    while (written == WEIR_OK && connection_step(advance->write.connection, s, &status, error)) {
        written = is_first ? WEIR_OK : text_add_string(text, ",");
        written = written == WEIR_OK ? add_outcome(text, s, has_outputs) : written;
        is_first = false;
    }
    (void)sqlite3_reset(s);
    if (status == WEIR_OK && written == WEIR_OK) {
        written = text_add_string(text, step->is_single ? "}" : "]}");
    }
    return status == WEIR_OK ? written : status;
}

/* The code and the text of the failure. `code` NULL: of the first child that did not complete. */
static enum weir_status write_failure(struct advance *advance, const struct child_step *step, struct text *text,
                                      struct weir_error *error)
{
    struct connection *connection = advance->write.connection;
    const char *code = step->problem;
    char message[ERROR_TEXT_MAX] = "";
    enum weir_status status = WEIR_OK;
    text_copy(message, sizeof message, code == NULL ? "" : child_plan_problem_text(code));
    if (code == NULL) {
        sqlite3_stmt *s =
            connection_bind(connection, error, QUERY_FIRST_FAILED_CHILD, "tt", step->note->parent, step->note->step);
        if (s == NULL) {
            return statement_failure(error);
        }
        if (connection_step(connection, s, &status, error)) {
            const char *state = column_text(s, 1);
            const char *its_code = column_text(s, 2);
            const char *its_error = column_text(s, 3);
            code = strcmp(state, "REFUSED") == 0 ? "child_refused"
                   : strcmp(state, "LOST") == 0  ? "child_lost"
                                                 : "child_failed";
            (void)snprintf(message, sizeof message, "child %s is %s%s%s%s%s", column_text(s, 0), state,
                           its_code == NULL ? "" : ": ", its_code == NULL ? "" : its_code, its_error == NULL ? "" : ": ",
                           its_error == NULL ? "" : its_error);
            (void)sqlite3_reset(s);
        }
    }
    text_make_safe(message);
    json_t *failure = json_pack("{s:s, s:s}", "code", code == NULL ? "child_failed" : code, "error", message);
    status = status == WEIR_OK ? failure == NULL ? error_out_of_memory(error) : json_write(failure, text, error) : status;
    json_decref(failure);
    return status;
}

/* Ends the wait: the parent gets the signal that its step waits for. */
static enum weir_status settle(struct advance *advance, struct child_step *step, bool is_completed,
                               struct weir_error *error)
{
    struct text text = {.max = STEP_OUTPUT_BYTES_MAX};
    char name[SIGNAL_KEPT_NAME_MAX + 1];
    (void)snprintf(name, sizeof name, CHILDREN_SIGNAL "%s", step->note->step);
    step->is_settled = true;
    if (!step->parent_lives || step->is_unawaited) {
        return WEIR_OK; /* the signal would stay for ever */
    }
    enum weir_status status =
        is_completed ? write_outcomes(advance, step, true, &text, error) : write_failure(advance, step, &text, error);
    if (is_completed && status != WEIR_OK && weir_status_kind(status) == WEIR_KIND_PERMANENT) {
        text_clear(&text);
        status = write_outcomes(advance, step, false, &text, error);
    }
    if (status == WEIR_OK) {
        status = signal_put(&advance->write, step->note->parent, name, text.data, error);
        advance->result.settled += status == WEIR_OK;
    }
    text_close(&text);
    return status;
}

/* Whether the wait is over, and how. */
static bool wait_is_over(const struct child_step *step, bool *ret_is_completed)
{
    int64_t failed = step->ended - step->completed;
    *ret_is_completed = false;
    if (step->problem != NULL) {
        return true;
    }
    if (step->waits_for_all) {
        *ret_is_completed = failed == 0;
        return step->ended == step->count;
    }
    if (step->wanted == 0) { /* what was refused at once is a mistake of the definition */
        *ret_is_completed = failed == 0;
        return true;
    }
    *ret_is_completed = step->completed >= step->wanted;
    return *ret_is_completed || failed > step->count - step->wanted;
}

/* --- all of it --- */

/* Step 2 of the file comment. */
static enum weir_status work_on_step(struct advance *advance, struct child_step *step, struct weir_error *error)
{
    bool is_completed = false;
    enum weir_status status = WEIR_OK;
    bool is_closed = !step->parent_lives && !step->leaves;
    if (is_closed) {
        status = cancel_children(advance, step, error);
    } else {
        status = start_children(advance, step, error);
    }
    if (status == WEIR_OK && !step->is_settled && wait_is_over(step, &is_completed)) {
        status = settle(advance, step, is_completed, error);
    }
    bool is_done = is_closed ? step->cancelled_to >= step->started : step->ended >= step->count;
    if (status == WEIR_OK && !step->parent_lives && !step->parent_is_kept && is_done) {
        status = connection_run(advance->write.connection, error, NULL, QUERY_DELETE_CHILDREN, "tt", step->note->parent,
                                step->note->step);
        return status == WEIR_OK ? connection_run(advance->write.connection, error, NULL, QUERY_DELETE_CHILD_STEP, "tt",
                                                  step->note->parent, step->note->step)
                                 : status;
    }
    return status == WEIR_OK ? connection_run(advance->write.connection, error, NULL, QUERY_MOVE_CHILD_STEP, "ttiiiii",
                                              step->note->parent, step->note->step, step->started, step->ended,
                                              step->cancelled_to, (int64_t)step->is_settled, step->completed)
                             : status;
}

static enum weir_status look_at_step(struct advance *advance, const struct note *note, struct weir_error *error)
{
    struct child_step step = {.note = note};
    enum weir_status status = read_child_step(advance, &step, error);
    if (status == WEIR_OK && step.count < 0 && advance->plan_left <= 0) {
        return note_again(advance, note, error);
    }
    if (status == WEIR_OK && step.count < 0) {
        status = child_plan_read(&advance->write, note->parent, note->step, &advance->plan_left, error);
        if (status == WEIR_NOT_FOUND) { /* the parent was purged before */
            return connection_run(advance->write.connection, error, NULL, QUERY_DELETE_CHILD_STEP, "tt", note->parent,
                                  note->step);
        }
        status = status == WEIR_OK ? read_child_step(advance, &step, error) : status;
    }
    if (status == WEIR_NOT_FOUND) {
        return WEIR_OK;
    }
    return status == WEIR_OK ? work_on_step(advance, &step, error) : status;
}

/* The rows of one step are at fault, and not the file or the machine: the other steps can be worked on. */
static bool is_fault_of_step(enum weir_status status, const struct weir_error *error)
{
    int code = error->native & 0xFF;
    bool is_of_row = code == 0 || code == SQLITE_CONSTRAINT || code == SQLITE_MISMATCH || code == SQLITE_TOOBIG;
    return weir_status_kind(status) == WEIR_KIND_PERMANENT && is_of_row;
}

static void reset_context(struct advance *advance)
{
    struct write *write = &advance->write;
    advance->context = (struct enqueue_context){.connection = write->connection,
                                                .news = &write->news,
                                                .uuids = write->store->store.uuids,
                                                .now_us = write->now_us,
                                                .wall_us = write->now_us};
}

/* Undoes the work on a step, and keeps its notes. */
static enum weir_status leave_step(struct advance *advance, const struct note *notes, size_t count,
                                   const struct weir_error *fault, struct weir_error *error)
{
    struct connection *connection = advance->write.connection;
    size_t faults = advance->kept_result.faults + 1;
    enum weir_status status = connection_execute(connection, "ROLLBACK TO child_step", error);
    advance->write.news = advance->kept_news;
    advance->result = advance->kept_result;
    advance->result.faults = faults;
    (void)snprintf(advance->result.fault, sizeof advance->result.fault, "step %s of execution %s: %.300s", notes->step,
                   notes->parent, fault->message);
    reset_context(advance); /* its caches may have rows that were undone */
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = connection_run(connection, error, NULL, QUERY_PUT_BACK_CHILD_NOTE, "tti", notes[i].parent, notes[i].step,
                                notes[i].position);
    }
    return status;
}

/* Step 2, for the notes of one step. */
static enum weir_status work_on_notes_of_step(struct advance *advance, const struct note *notes, size_t count,
                                              struct weir_error *error)
{
    enum weir_status status = count_ends(advance, notes, count, error);
    if (status == WEIR_OK) {
        status = look_at_step(advance, &notes[0], error);
    }
    arena_reset(&advance->arena);
    return status;
}

/* The same in a savepoint: step 5. */
static enum weir_status work_apart(struct advance *advance, const struct note *notes, size_t count,
                                   struct weir_error *error)
{
    struct connection *connection = advance->write.connection;
    struct weir_error own = {.status = WEIR_OK};
    enum weir_status status = connection_execute(connection, "SAVEPOINT child_step", error);
    if (status != WEIR_OK) {
        return status;
    }
    advance->kept_news = advance->write.news;
    advance->kept_result = advance->result;
    status = work_on_notes_of_step(advance, notes, count, &own);
    if (status != WEIR_OK && is_fault_of_step(status, &own)) {
        status = leave_step(advance, notes, count, &own, error);
        advance->notes_left += count;
    } else if (status != WEIR_OK && error != NULL) {
        *error = own;
    }
    return status == WEIR_OK ? connection_execute(connection, "RELEASE child_step", error) : status;
}

/* Steps 1 to 3. */
static enum weir_status work_on_notes(struct advance *advance, struct weir_error *error)
{
    enum weir_status status = take_notes(advance, error);
    if (status == WEIR_OK) {
        status = connection_run(advance->write.connection, error, NULL, QUERY_DELETE_CHILD_NOTES, "i", advance->last_note);
    }
    qsort(advance->notes, advance->note_count, sizeof *advance->notes, compare_notes);
    for (size_t first = 0, end; first < advance->note_count && status == WEIR_OK; first = end) {
        for (end = first + 1; end < advance->note_count; end++) {
            if (compare_notes(&advance->notes[first], &advance->notes[end]) != 0) {
                break;
            }
        }
        status = advance->is_apart ? work_apart(advance, &advance->notes[first], end - first, error)
                                   : work_on_notes_of_step(advance, &advance->notes[first], end - first, error);
        advance->has_fault = !advance->is_apart && status != WEIR_OK && is_fault_of_step(status, error);
    }
    advance->result.again = advance->result.again || (advance->is_full && advance->notes_left < advance->note_count);
    return status;
}

/* One transaction. It begins with an empty struct but for `is_apart`. */
static enum weir_status advance_all(struct store *store, struct advance *advance, struct weir_error *error)
{
    advance->starts_left = CHILD_STARTS_BATCH;
    advance->cancels_left = CHILD_STARTS_BATCH;
    advance->plan_left = CHILD_PLAN_BATCH;
    advance->bytes_left = CHILDREN_PLAN_BYTES_MAX;
    enum weir_status status = write_open(store, &advance->write, error);
    if (status != WEIR_OK) {
        return status;
    }
    arena_init(&advance->arena, ADVANCE_ARENA_BYTES);
    reset_context(advance);
    status = write_end(&advance->write, work_on_notes(advance, error), error);
    arena_close(&advance->arena);
    return status;
}

enum weir_status sqlite_advance_children(struct store *store, struct children_advance *ret_advance,
                                         struct weir_error *error)
{
    INVARIANT(store != NULL && ret_advance != NULL);
    struct connection *reader;
    int64_t exist = 0;
    int64_t any = 0;
    enum weir_status status = store_reader(store, &reader, error);
    if (status == WEIR_OK) {
        status = connection_read_integer(reader, error, &exist, QUERY_HAS_CHILD_STEPS, "");
    }
    if (status == WEIR_OK && exist != 0) {
        status = connection_read_integer(reader, error, &any, QUERY_HAS_CHILD_NOTES, "");
    }
    if (status != WEIR_OK || any == 0) {
        if (status == WEIR_OK) {
            *ret_advance = (struct children_advance){.exist = exist != 0};
        }
        return status;
    }
    struct weir_error own = {.status = WEIR_OK};
    struct advance *advance = calloc(1, sizeof *advance);
    if (advance == NULL) {
        return error_out_of_memory(error);
    }
    status = advance_all(store, advance, &own);
    if (status != WEIR_OK && advance->has_fault) {
        memset(advance, 0, sizeof *advance); /* too large for the stack */
        advance->is_apart = true;
        own = (struct weir_error){.status = WEIR_OK};
        status = advance_all(store, advance, &own);
    }
    advance->result.exist = true;
    if (status == WEIR_OK) {
        *ret_advance = advance->result;
    } else if (error != NULL) {
        *error = own;
    }
    free(advance);
    return status;
}
