/* `weir enqueue -`: requests as JSON lines on stdin.
 *
 * 1. Read what stdin offers, and take every whole line of it.
 * 2. A line that cannot be read is refused with its number; the other lines go on.
 * 3. A line becomes a request of the open set, with an id that is made here. A full set, or an input that pauses, is sent
 *    as one transaction.
 * 4. The ids of the set are printed in the order of the lines and flushed: a reader may rely on each id that it sees.
 * 5. At the end, or after a signal or an error, the message names the last line with a known outcome.
 *
 * A set is sent once. The driver alone repeats a call with an unknown commit; the ids make that safe. One thread.
 */
#include "cli/verbs/enqueue_stream.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/output/progress.h"
#include "cli/signals.h"
#include "cli/verbs/dry_run.h"
#include "cli/verbs/verb.h"
#include "store/json_line.h"

/* The memory of a set: its texts and the parsed lines. */
enum { SET_ARENA_BYTES = 2 * ENQUEUE_SET_BYTES + 4 * JSON_LINE_BYTES_MAX, READ_BYTES = 256 * 1024 };

struct intake {
    struct invocation *invocation;
    struct store *store;
    const struct enqueue_request *defaults;
    int64_t now_us;
    bool is_dry_run;
    struct dry_run *dry_run;
    struct arena arena; /* of the open set */
    struct enqueue_request requests[ENQUEUE_SET];
    struct enqueue_result results[ENQUEUE_SET];
    int64_t lines[ENQUEUE_SET]; /* number of the line of each request */
    size_t count;
    int64_t line;     /* number of the last line read */
    int64_t enqueued; /* accepted, duplicates included */
    int64_t duplicates;
    int64_t refused;
    int64_t settled_line; /* all lines up to here are enqueued or refused for good */
    bool has_items;       /* -o json: the list has begun */
    /* The reader: bytes [from, to) of `buffer` are not yet taken. */
    char *buffer;
    size_t capacity;
    size_t from;
    size_t to;
    bool is_skipping; /* inside a line that is too long */
    bool at_end;
};

/* --- results --- */

static void refuse_line(struct intake *intake, int64_t line, enum weir_status status, const struct weir_error *error)
{
    struct output *output = intake->invocation->output;
    intake->refused++;
    if (output->format != OUTPUT_TABLE) {
        const char *hint = error->hint[0] != '\0' ? error->hint : NULL;
        json_t *body = json_pack("{s:I, s:{s:s, s:s, s:s*}}", "line", (json_int_t)line, "error", "code",
                                 weir_status_name(status), "message", error->message, "hint", hint);
        char *text = body == NULL ? NULL : json_dumps(body, JSON_COMPACT);
        output_progress_end(output);
        (void)fprintf(output->messages, "%s\n", text != NULL ? text : "{}");
        free(text);
        json_decref(body);
        return;
    }
    output_progress_end(output);
    (void)fprintf(output->messages, "line %" PRId64 ": %s (%s)%s%s\n", line, error->message, weir_status_name(status),
                  error->hint[0] != '\0' ? "; " : "", error->hint);
}

/* Prints the id of one line: as text, as an item of the list, or as a line of JSON. */
static void print_id(struct intake *intake, int64_t line, const struct enqueue_result *result)
{
    struct output *output = intake->invocation->output;
    if (output->format == OUTPUT_TABLE) {
        output_print(output, "%s\n", result->id);
        return;
    }
    const char *lead = output->format == OUTPUT_JSONL ? "" : intake->has_items ? "," : "{\"items\":[";
    output_print(output, "%s{\"line\":%" PRId64 ",\"id\":\"%s\",\"duplicate\":%s,\"replaced\":%s}%s", lead, line,
                 result->id, result->duplicate ? "true" : "false", result->replaced ? "true" : "false",
                 output->format == OUTPUT_JSONL ? "\n" : "");
    intake->has_items = true;
}

/* Prints the ids of the set in the order of the lines. */
static void report_results(struct intake *intake)
{
    for (size_t i = 0; i < intake->count; i++) {
        const struct enqueue_result *result = &intake->results[i];
        if (result->status == WEIR_OK) {
            intake->enqueued++;
            intake->duplicates += result->duplicate;
            print_id(intake, intake->lines[i], result);
        } else {
            refuse_line(intake, intake->lines[i], result->status, &result->error);
        }
    }
}

/* --dry-run: counts the requests that the store would refuse now. Stops only when the store fails. */
static enum weir_status check_set_dry(struct intake *intake, struct weir_error *error)
{
    for (size_t i = 0; i < intake->count; i++) {
        enum weir_status status = dry_run_enqueue(intake->dry_run, intake->store, &intake->requests[i], error);
        if (status != WEIR_OK && !dry_run_is_refusal(status)) {
            return status;
        }
        if (status == WEIR_OK) {
            intake->enqueued++;
        } else {
            refuse_line(intake, intake->lines[i], status, error);
        }
    }
    return WEIR_OK;
}

/* Sends the open set. */
static enum weir_status send_open_set(struct intake *intake, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    if (intake->count > 0 && !intake->is_dry_run) {
        memset(intake->results, 0, intake->count * sizeof intake->results[0]);
        status = store_enqueue(intake->store, intake->requests, intake->count, intake->results, error);
        if (status != WEIR_OK) {
            return status;
        }
        report_results(intake);
        output_flush(intake->invocation->output); /* a reader may rely on each id that it gets */
    } else if (intake->is_dry_run) {
        status = check_set_dry(intake, error);
        if (status != WEIR_OK) {
            return status;
        }
    }
    intake->settled_line = intake->line;
    intake->count = 0;
    arena_reset(&intake->arena);
    output_progress(intake->invocation->output, "enqueued", intake->enqueued, 0);
    return store_time(intake->store, &intake->now_us, error);
}

/* --- lines --- */

static enum weir_status add_id(struct intake *intake, struct enqueue_request *request, struct weir_error *error)
{
    char id[UUID_TEXT_MAX];
    uuid_make(intake->now_us, id);
    request->id = arena_copy_string(&intake->arena, id);
    request->id_is_new = true;
    return request->id != NULL ? WEIR_OK : error_out_of_memory(error);
}

/* Reads a line into the open set, and sends the set when it is full. Blank lines count but are ignored. */
static enum weir_status take_request_line(struct intake *intake, const char *line, size_t length, struct weir_error *error)
{
    struct weir_error refusal = {.status = WEIR_OK};
    struct enqueue_request *request = &intake->requests[intake->count];
    size_t blank = 0;
    intake->line++;
    while (blank < length && strchr(" \t\r", line[blank]) != NULL && line[blank] != '\0') {
        blank++;
    }
    if (blank == length) {
        return WEIR_OK;
    }
    *request = *intake->defaults;
    enum weir_status status = json_line_read(line, length, intake->now_us, &intake->arena, request, NULL, &refusal);
    if (status == WEIR_OK && request->id == NULL) {
        status = add_id(intake, request, &refusal);
    }
    if (status == WEIR_OUT_OF_MEMORY) {
        *error = refusal;
        return status;
    }
    if (status != WEIR_OK) {
        refuse_line(intake, intake->line, status, &refusal);
        return WEIR_OK;
    }
    intake->lines[intake->count++] = intake->line;
    bool is_full = intake->count == ENQUEUE_SET || intake->arena.used_bytes >= ENQUEUE_SET_BYTES;
    return is_full ? send_open_set(intake, error) : WEIR_OK;
}

/* Refuses a line that is longer than the buffer allows. */
static enum weir_status refuse_long_line(struct intake *intake, struct weir_error *error)
{
    struct weir_error refusal;
    intake->line++;
    error_set(&refusal, WEIR_PARAMS_TOO_LARGE, "the line is longer than %d bytes", JSON_LINE_BYTES_MAX);
    refuse_line(intake, intake->line, WEIR_PARAMS_TOO_LARGE, &refusal);
    (void)error;
    return WEIR_OK;
}

/* Takes every whole line of the buffer. */
static enum weir_status take_whole_lines(struct intake *intake, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    while (status == WEIR_OK && intake->from < intake->to && signals_count() == 0) {
        char *line = intake->buffer + intake->from;
        size_t left = intake->to - intake->from;
        char *end = memchr(line, '\n', left);
        if (end == NULL && !intake->at_end) {
            if (left > JSON_LINE_BYTES_MAX) {
                intake->is_skipping = true;
                intake->from = intake->to;
            }
            return WEIR_OK;
        }
        size_t length = end != NULL ? (size_t)(end - line) : left;
        intake->from += length + (end != NULL);
        bool is_too_long = intake->is_skipping || length > JSON_LINE_BYTES_MAX;
        intake->is_skipping = false;
        status = is_too_long ? refuse_long_line(intake, error) : take_request_line(intake, line, length, error);
    }
    return status;
}

/* --- reading --- */

static bool input_is_ready(int timeout_ms)
{
    struct pollfd waits[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = signals_fd(), .events = POLLIN}};
    return poll(waits, 2, timeout_ms) > 0 && waits[0].revents != 0;
}

/* Moves the open line to the start of the buffer and reads behind it. */
static enum weir_status read_more_input(struct intake *intake, struct weir_error *error)
{
    if (intake->from > 0) {
        memmove(intake->buffer, intake->buffer + intake->from, intake->to - intake->from);
        intake->to -= intake->from;
        intake->from = 0;
    }
    ssize_t got = read(STDIN_FILENO, intake->buffer + intake->to, intake->capacity - intake->to);
    if (got < 0 && errno != EINTR && errno != EAGAIN) {
        return error_set_native(error, WEIR_SYSTEM, errno, "cannot read stdin: %s", strerror(errno));
    }
    intake->at_end = got == 0;
    intake->to += got > 0 ? (size_t)got : 0;
    return WEIR_OK;
}

/* Reads until the end or a signal. When the input pauses, the open set is sent, so that a slow producer gets its ids. */
static enum weir_status run_intake(struct intake *intake, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    while (status == WEIR_OK && !intake->at_end && signals_count() == 0) {
        if (!input_is_ready(0)) {
            status = send_open_set(intake, error);
            (void)(status == WEIR_OK && input_is_ready(-1));
            continue;
        }
        status = read_more_input(intake, error);
        if (status == WEIR_OK) {
            status = take_whole_lines(intake, error);
        }
    }
    /* A last line without newline was taken with at_end set; one that only was too long was not. */
    if (status == WEIR_OK && intake->at_end && intake->is_skipping) {
        status = refuse_long_line(intake, error);
    }
    return status == WEIR_OK ? send_open_set(intake, error) : status;
}

/* --- the end --- */

/* Where the next command begins. */
static void hint_at_next_line(const struct intake *intake, enum weir_status status, struct weir_error *error)
{
    int64_t next = intake->settled_line + 1;
    if (status != WEIR_COMMIT_UNKNOWN) {
        error_hint(error, "no line after %" PRId64 " is enqueued; continue with: tail -n +%" PRId64, next - 1, next);
    } else {
        error_hint(error,
                   "`weir show %s` shows whether lines %" PRId64 " to %" PRId64
                   " are enqueued, all of them or none; continue with: tail -n +%" PRId64 " if they are, else +%" PRId64,
                   intake->requests[0].id, next, intake->line, intake->line + 1, next);
    }
}

/* Prints the totals, or the place from which another call continues. */
static enum weir_status report_stream_end(struct intake *intake, enum weir_status status, struct weir_error *error)
{
    struct output *output = intake->invocation->output;
    if (output->format == OUTPUT_JSON) {
        output_print(output, "%s],\"enqueued\":%" PRId64 ",\"duplicates\":%" PRId64 ",\"refused\":%" PRId64 "}\n",
                     intake->has_items ? "" : "{\"items\":[", intake->enqueued, intake->duplicates, intake->refused);
    }
    if (status != WEIR_OK) {
        error_prefix(error, "lines up to %" PRId64 " are done (%" PRId64 " enqueued, %" PRId64 " refused)",
                     intake->settled_line, intake->enqueued, intake->refused);
        hint_at_next_line(intake, status, error);
        return status;
    }
    if (signals_count() > 0) {
        error_set(error, WEIR_INTERRUPTED, "interrupted after line %" PRId64 ": %" PRId64 " enqueued, %" PRId64 " refused",
                  intake->settled_line, intake->enqueued, intake->refused);
        error_hint(error, "continue with: tail -n +%" PRId64, intake->settled_line + 1);
        return WEIR_INTERRUPTED;
    }
    const char *would = intake->is_dry_run ? " would be" : "";
    if (intake->refused > 0) {
        return error_set(error, WEIR_FAILED, "%" PRId64 " of %" PRId64 " executions%s refused, %" PRId64 "%s enqueued",
                         intake->refused, intake->refused + intake->enqueued, intake->is_dry_run ? " would be" : " were",
                         intake->enqueued, would);
    }
    output_report_sign(output, SIGN_FINE,
                       "%" PRId64 "%s enqueued (%" PRId64 " of them enqueued earlier under the same key)", intake->enqueued,
                       would, intake->duplicates);
    return WEIR_OK;
}

enum weir_status enqueue_stream(struct invocation *invocation, struct store *store, const struct enqueue_request *defaults,
                                struct weir_error *error)
{
    struct intake *intake = calloc(1, sizeof *intake);
    if (intake == NULL) {
        return error_out_of_memory(error);
    }
    intake->invocation = invocation;
    intake->store = store;
    intake->defaults = defaults;
    intake->is_dry_run = invocation_is_dry_run(invocation);
    intake->capacity = JSON_LINE_BYTES_MAX + READ_BYTES;
    intake->buffer = malloc(intake->capacity);
    intake->dry_run = dry_run_open();
    arena_init(&intake->arena, SET_ARENA_BYTES);
    signals_catch();
    enum weir_status status = intake->buffer == NULL || intake->dry_run == NULL ? error_out_of_memory(error)
                                                                                : store_time(store, &intake->now_us, error);
    if (status == WEIR_OK) {
        status = run_intake(intake, error);
        status = report_stream_end(intake, status, error);
    }
    arena_close(&intake->arena);
    dry_run_close(intake->dry_run);
    free(intake->buffer);
    free(intake);
    return status;
}
