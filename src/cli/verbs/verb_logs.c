/* `weir logs`: what the steps of an execution wrote.
 *
 * Without -f: each step with its earlier attempts before it, then the attempts that run and are not on record yet. An
 * attempt without a log (its handler wrote none, or the log's retention is over) shows its result. With -f: lines as they
 * come, until the execution has ended; the node writes them about once a second, so polling twice a second loses no time.
 *
 * --raw prints the bytes of the programs alone. Else each line has its time and stream. In a pipe the bytes of a line
 * stay as they were written. On a terminal each line is made safe first, because a step may write escape codes. One
 * thread.
 */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/output/json_fields.h"
#include "cli/signals.h"
#include "cli/verbs/log_reader.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/verb.h"
#include "store/bulk_act.h"

#define FOLLOW_POLL_US (500 * MICROSECONDS_PER_MS)

enum { STEPS_NAMED_MAX = 200, TIME_COLUMNS = 23 };

struct logs {
    struct invocation *invocation;
    struct output *output;
    struct store *store;
    const char *step; /* NULL = all */
    int attempt;      /* 0 = all */
    bool is_raw;
    bool follows;
    char id[UUID_TEXT_MAX];
    struct log_reader reader;
    json_t *lines;                   /* of one attempt, for JSON */
    struct text text;                /* of one line */
    size_t printed;                  /* lines or pieces of the attempt */
    char last_step[STEP_ID_MAX + 1]; /* -f: of the last line */
    int last_attempt;
};

/* --- lines --- */

/* A copy that may be changed, until the next one is made; NULL when out of memory. The arena of the output would grow with
 * each line. */
static char *copy_line(struct logs *logs, const char *bytes, size_t length)
{
    text_clear(&logs->text);
    logs->text.max = SIZE_MAX / 2;
    return text_add(&logs->text, bytes, length) == WEIR_OK ? logs->text.data : NULL;
}

/* The text with '?' for bytes that JSON cannot hold. */
static json_t *line_text(struct logs *logs, const struct log_line *line)
{
    char *copy = copy_line(logs, line->bytes, line->length);
    if (copy != NULL && !text_is_utf8(copy, line->length)) {
        for (size_t i = 0; i < line->length; i++) {
            copy[i] = (unsigned char)copy[i] >= 0x80 ? '?' : copy[i];
        }
    }
    return copy == NULL ? NULL : json_stringn(copy, line->length);
}

/* A line as an object; NULL when out of memory. */
static json_t *line_object(struct logs *logs, const struct log_line *line)
{
    char at[TIME_TEXT_MAX];
    if (line->left_out > 0) {
        return json_pack("{s:I}", "bytes_left_out", (json_int_t)line->left_out);
    }
    time_format(line->at_us, at);
    return json_pack("{s:s, s:s, s:o}", "at", at, "stream", log_stream_name(line->stream), "text", line_text(logs, line));
}

/* Prints a text of a step, without its newline. On a terminal, without control characters. */
static void print_text(struct logs *logs, const char *text, size_t length)
{
    struct output *output = logs->output;
    if (!output->out_is_terminal) {
        output_bytes(output, text, length);
        return;
    }
    char *line = copy_line(logs, text, length);
    if (line != NULL) {
        for (char *nul = line; (nul = memchr(nul, '\0', length - (size_t)(nul - line))) != NULL;) {
            *nul = '\1'; /* made safe like any other control character */
        }
        text_make_safe(line);
        output_print(output, "%s", line);
    }
}

/* -f: names the attempt when another one goes on. */
static void print_change(struct logs *logs, const struct log_line *line)
{
    if (logs->last_attempt != line->attempt || strcmp(logs->last_step, line->step) != 0) {
        text_copy(logs->last_step, sizeof logs->last_step, line->step);
        logs->last_attempt = line->attempt;
        output_print(logs->output, "== %s, attempt %d\n", output_safe(logs->output, line->step), line->attempt);
    }
}

static void print_line(void *context, const struct log_line *line)
{
    struct logs *logs = context;
    struct output *output = logs->output;
    char at[TIME_TEXT_MAX];
    logs->printed++;
    if (output->format != OUTPUT_TABLE) {
        json_t *object = line_object(logs, line);
        if (logs->follows && object != NULL) {
            (void)json_object_set_new(object, "step", json_string(line->step));
            (void)json_object_set_new(object, "attempt", json_integer(line->attempt));
            output_json(output, object);
            json_decref(object);
        } else {
            (void)json_array_append_new(logs->lines, object);
        }
        return;
    }
    if (logs->is_raw && line->left_out == 0) {
        output_bytes(output, line->bytes, line->length);
        return;
    }
    if (logs->is_raw) {
        output_report(output, "%s, attempt %d: %lld bytes are left out here", output_safe(output, line->step),
                      line->attempt, (long long)line->left_out);
        return;
    }
    if (logs->follows) {
        print_change(logs, line);
    }
    if (line->left_out > 0) {
        output_print(output, "... %lld bytes are left out here ...\n", (long long)line->left_out);
        return;
    }
    time_format(line->at_us, at);
    output_print(output, "%.*sZ %-6s ", TIME_COLUMNS, at, log_stream_name(line->stream));
    print_text(logs, line->bytes, line->length);
    output_print(output, "\n");
}

/* --- attempts --- */

/* The result of an attempt without a log. */
static void print_attempt_result(struct logs *logs, const json_t *step)
{
    struct output *output = logs->output;
    const json_t *value = json_object_get(step, "output");
    if (!json_is_string(value)) {
        if (value != NULL && !json_is_null(value)) {
            output_json(output, value);
        }
        return;
    }
    const char *text = json_string_value(value);
    size_t length = json_string_length(value);
    while (length > 0) {
        const char *end = memchr(text, '\n', length);
        size_t size = end == NULL ? length : (size_t)(end - text);
        print_text(logs, text, size);
        output_print(output, "\n");
        size += end != NULL;
        text += size;
        length -= size;
    }
}

static void print_error(struct output *output, const json_t *step)
{
    const char *code = field_text(output, step, "error_code");
    const char *error = field_text(output, step, "error");
    if (code != NULL || error != NULL) {
        output_print(output, "%s%s%s\n", code != NULL ? code : "", code != NULL && error != NULL ? ": " : "",
                     error != NULL ? error : "");
    }
}

/* One attempt: its head, its log or its result, its error. For JSON, its row with the lines. */
static enum weir_status print_attempt(struct logs *logs, json_t *row, struct weir_error *error)
{
    struct output *output = logs->output;
    const char *step = json_string_value(json_object_get(row, "step"));
    const char *exit_code = field_text(output, row, "exit_code");
    bool is_table = output->format == OUTPUT_TABLE;
    logs->printed = 0;
    logs->lines = json_array();
    if (is_table && !logs->is_raw) {
        output_print(output, "== %s, attempt %s, %s%s%s\n", output_safe(output, step), field_text(output, row, "attempt"),
                     field_text(output, row, "status"), exit_code != NULL ? ", exit code " : "",
                     exit_code != NULL ? exit_code : "");
    }
    enum weir_status status =
        step == NULL ? WEIR_OK : log_reader_read_attempt(&logs->reader, step, (int)field_number(row, "attempt", 0), error);
    log_reader_finish(&logs->reader);
    if (is_table && logs->printed == 0) {
        print_attempt_result(logs, row);
    }
    if (is_table && !logs->is_raw) {
        print_error(output, row);
    }
    (void)json_object_set_new(row, "lines", logs->lines);
    logs->lines = NULL;
    return status;
}

/* Names the nearest step that has begun. */
static enum weir_status refuse_unknown_step(struct logs *logs, const json_t *steps, struct weir_error *error)
{
    const char *names[STEPS_NAMED_MAX];
    size_t count = 0;
    size_t i;
    json_t *step;
    json_array_foreach(steps, i, step)
    {
        const char *name = field_text(logs->output, step, "step");
        if (name != NULL && logs->step != NULL && strcmp(name, logs->step) == 0) {
            error_set(error, WEIR_NOT_FOUND, "step \"%s\" has no attempt %d", logs->step, logs->attempt);
            error_hint(error, "its last attempt is %s", field_text(logs->output, step, "attempt"));
            return WEIR_NOT_FOUND;
        }
        if (count < STEPS_NAMED_MAX && name != NULL) {
            names[count++] = name;
        }
    }
    if (logs->step == NULL) {
        return error_set(error, WEIR_NOT_FOUND, "no step has an attempt %d", logs->attempt);
    }
    const char *nearest = text_nearest(logs->step, names, count);
    error_set(error, WEIR_NOT_FOUND, "no step \"%s\" has begun", logs->step);
    if (nearest != NULL) {
        error_hint(error, "did you mean %s?", nearest);
    }
    return WEIR_NOT_FOUND;
}

static bool is_wanted(const struct logs *logs, const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "step"));
    return name != NULL && (logs->step == NULL || strcmp(name, logs->step) == 0) &&
           (logs->attempt == 0 || field_number(row, "attempt", 0) == logs->attempt);
}

static bool is_picked(const json_t *picked, const struct log_source *source)
{
    size_t i;
    json_t *row;
    json_array_foreach(picked, i, row)
    {
        const char *name = json_string_value(json_object_get(row, "step"));
        if (name != NULL && strcmp(name, source->step) == 0 && field_number(row, "attempt", 0) == source->attempt) {
            return true;
        }
    }
    return false;
}

/* The actions of a workflow with states as attempts, as their logs are named; NULL: it has steps. */
static json_t *attempts_of_states(const json_t *execution)
{
    const json_t *actions = json_object_get(execution, "actions");
    json_t *rows = actions == NULL ? NULL : json_array();
    size_t i;
    json_t *action;
    json_array_foreach(actions, i, action)
    {
        const char *outcome = json_string_value(json_object_get(action, "outcome"));
        const char *code = json_string_value(json_object_get(action, "error_code"));
        if (outcome != NULL && strcmp(outcome, "update") != 0) {
            (void)json_array_append_new(
                rows,
                json_pack("{s:O?, s:O?, s:s, s:O?, s:O?}", "step", json_object_get(action, "state"), "attempt",
                          json_object_get(action, "seq"), "status", code == NULL ? "COMPLETED" : "FAILED", "error_code",
                          json_object_get(action, "error_code"), "error", json_object_get(action, "error")));
        }
    }
    return rows;
}

/* Whether an attempt without a row is an old action, which the execution is shown without. */
static bool is_before_actions(const json_t *execution, const struct log_source *source)
{
    const json_t *first = json_array_get(json_object_get(execution, "actions"), 0);
    return first != NULL && source->attempt < field_number(first, "seq", 0);
}

/* Picks the wanted attempts: those of a step together, the earlier ones first; then those that are not on record yet. */
static json_t *pick_attempts(struct logs *logs, const json_t *execution, const json_t *steps)
{
    const json_t *earlier = json_object_get(execution, "earlier_attempts");
    json_t *picked = json_array();
    size_t i;
    size_t k;
    json_t *step;
    json_t *attempt;
    json_array_foreach(steps, i, step)
    {
        json_array_foreach(earlier, k, attempt)
        {
            if (json_equal(json_object_get(attempt, "step"), json_object_get(step, "step")) && is_wanted(logs, attempt)) {
                (void)json_array_append(picked, attempt);
            }
        }
        if (is_wanted(logs, step)) {
            (void)json_array_append(picked, step);
        }
    }
    for (struct log_source *source = logs->reader.sources; source != NULL; source = source->next) {
        if (!is_picked(picked, source)) {
            (void)json_array_append_new(picked,
                                        json_pack("{s:s, s:i, s:s}", "step", source->step, "attempt", source->attempt,
                                                  "status", is_before_actions(execution, source) ? "ENDED" : "RUNNING"));
        }
    }
    return picked;
}

/* Prints the wanted attempts, or the whole page as JSON. */
static enum weir_status print_logs(struct logs *logs, const json_t *execution, struct weir_error *error)
{
    enum weir_status status = log_reader_find(&logs->reader, error);
    if (status != WEIR_OK) {
        return status;
    }
    size_t i;
    json_t *row;
    json_t *actions = attempts_of_states(execution);
    const json_t *steps = actions != NULL ? actions : json_object_get(execution, "steps");
    json_t *picked = pick_attempts(logs, execution, steps);
    size_t shown = json_array_size(picked);
    if ((logs->step != NULL || logs->attempt != 0) && shown == 0) {
        status = refuse_unknown_step(logs, steps, error);
        json_decref(actions);
        json_decref(picked);
        return status;
    }
    json_array_foreach(picked, i, row)
    {
        status = status == WEIR_OK ? print_attempt(logs, row, error) : status;
    }
    json_t *page = json_pack("{s:O, s:O, s:o, s:I, s:b}", "items", picked, "id", json_object_get(execution, "id"),
                             "next_cursor", json_null(), "count", (json_int_t)shown, "count_is_exact", 1);
    if (status == WEIR_OK && !output_page(logs->output, page) && shown == 0) {
        output_report(logs->output, "no step has begun; `weir why %s` explains why", logs->id);
    }
    json_decref(page);
    json_decref(picked);
    json_decref(actions);
    return status;
}

/* --- following --- */

/* Its state, read before its logs: at the end the logs are whole. */
static enum weir_status read_followed_state(struct logs *logs, bool *ret_ended, char *state, size_t size,
                                            struct weir_error *error)
{
    struct list_options options = {.kind = LIST_EXECUTIONS, .filter = {.id = logs->id}, .limit = 1};
    json_t *page = NULL;
    enum item_state parsed;
    enum weir_status status = store_list(logs->store, &options, &page, error);
    if (status == WEIR_OK && page_size(page) == 0) {
        status = error_set(error, WEIR_EXECUTION_NOT_FOUND, "execution %s was removed", logs->id);
    }
    const char *name = status == WEIR_OK ? json_string_value(json_object_get(page_first(page), "status")) : NULL;
    text_copy(state, size, name != NULL ? name : "");
    *ret_ended = name != NULL && item_state_parse(name, &parsed) && item_is_terminal(parsed);
    json_decref(page);
    return status;
}

static enum weir_status follow(struct logs *logs, struct weir_error *error)
{
    bool has_ended = false;
    char state[32] = "";
    signals_catch();
    for (;;) {
        enum weir_status status = read_followed_state(logs, &has_ended, state, sizeof state, error);
        if (status == WEIR_OK) {
            logs->reader.has_ended = has_ended;
            status = log_reader_read(&logs->reader, error);
        }
        if (status == WEIR_STORE_BUSY && signals_count() == 0) {
            signals_sleep(FOLLOW_POLL_US);
            continue;
        }
        if (status != WEIR_OK) {
            return status;
        }
        output_flush(logs->output);
        if (logs->output->write_errno != 0) {
            return WEIR_OK; /* output_finish() reports it */
        }
        if (has_ended || signals_count() > 0) {
            break;
        }
        signals_sleep(FOLLOW_POLL_US);
    }
    log_reader_finish(&logs->reader);
    if (has_ended) {
        output_report_sign(logs->output, output_state_sign(state), "%s", state);
    }
    return has_ended ? WEIR_OK : error_set(error, WEIR_INTERRUPTED, "interrupted; execution %s continues", logs->id);
}

/* --- the verb --- */

/* The id of --last or of the argument. */
static enum weir_status find_execution(struct logs *logs, struct weir_error *error)
{
    const char *named = invocation_argument(logs->invocation, 0);
    bool wants_last = invocation_has(logs->invocation, "last");
    if (wants_last == (named != NULL)) {
        return invocation_usage_error(logs->invocation, error,
                                      wants_last ? "--last names the execution, so there can be no ID"
                                                 : "name an execution by its ID, or the newest one by --last");
    }
    if (named != NULL) {
        return execution_complete_id(logs->store, named, logs->id, error);
    }
    struct list_options options = {.kind = LIST_EXECUTIONS, .limit = 1};
    json_t *page = NULL;
    enum weir_status status = store_list(logs->store, &options, &page, error);
    if (status == WEIR_OK && page_size(page) == 0) {
        status = error_set(error, WEIR_EXECUTION_NOT_FOUND, "there is no execution");
        error_hint(error, "`weir enqueue` makes one");
    } else if (status == WEIR_OK) {
        text_copy(logs->id, sizeof logs->id, json_string_value(json_object_get(page_first(page), "id")));
        output_report(logs->output, "execution %s", logs->id);
    }
    json_decref(page);
    return status;
}

static enum weir_status run_logs(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    struct logs logs = {.invocation = invocation,
                        .output = invocation->output,
                        .store = store,
                        .step = invocation_text(invocation, "step"),
                        .attempt = (int)invocation_number(invocation, "attempt", 0),
                        .is_raw = invocation_has(invocation, "raw"),
                        .follows = invocation_has(invocation, "follow")};
    json_t *execution = NULL;
    enum weir_status status = find_execution(&logs, error);
    if (status == WEIR_OK && !logs.follows) {
        status = store_show(store, logs.id, &execution, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    logs.reader = (struct log_reader){.store = store,
                                      .id = logs.id,
                                      .step = logs.step,
                                      .attempt = logs.attempt,
                                      .by_pieces = logs.is_raw && invocation->output->format == OUTPUT_TABLE,
                                      .print = print_line,
                                      .context = &logs};
    log_reader_open(&logs.reader);
    status = logs.follows ? follow(&logs, error) : print_logs(&logs, execution, error);
    log_reader_close(&logs.reader);
    text_close(&logs.text);
    json_decref(execution);
    return status;
}

enum weir_status verb_logs(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_READ, run_logs, error);
}
