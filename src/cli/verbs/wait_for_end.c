/* Waits for the end of an execution: `weir wait` and `weir enqueue --wait`.
 *
 * It polls the row by its id. The pauses begin at 2 ms, so that a short execution is reported at once, and grow to 100
 * ms, so that a long one costs little. A busy store is polled again until the time is over. A signal ends the wait
 * between two reads; the execution itself is never touched. One thread.
 */
#include "cli/verbs/wait_for_end.h"

#include <string.h>

#include "base/error.h"
#include "cli/output/json_fields.h"
#include "cli/output/output.h"
#include "cli/signals.h"
#include "cli/verbs/store_pages.h"
#include "store/store.h"

/* The pauses between two reads: short at first, so that the end of a short execution is reported at once. */
#define AWAIT_FIRST_US (2 * MICROSECONDS_PER_MS)
#define AWAIT_MOST_US (100 * MICROSECONDS_PER_MS)

/* Reads the row of the execution. */
static enum weir_status read_awaited_item(struct store *store, const char *id, json_t **ret_page, struct weir_error *error)
{
    struct list_options options = {.kind = LIST_EXECUTIONS, .filter = {.id = id}, .limit = 1};
    enum weir_status status = store_list(store, &options, ret_page, error);
    if (status == WEIR_OK && page_size(*ret_page) == 0) {
        json_decref(*ret_page);
        *ret_page = NULL;
        status = error_set(error, WEIR_EXECUTION_NOT_FOUND, "there is no execution %s", id);
        error_hint(error, "`weir list` shows the newest");
    }
    return status;
}

static bool is_item_ended(const json_t *item)
{
    enum item_state state;
    const char *status = json_string_value(json_object_get(item, "status"));
    return status != NULL && item_state_parse(status, &state) && item_is_terminal(state);
}

/* Prints the end. An end that is not COMPLETED is a failure with the error of the execution. */
static enum weir_status report_execution_end(struct output *output, const json_t *item, bool print_end,
                                             struct weir_error *error)
{
    const char *id = field_text(output, item, "id");
    const char *state = field_text(output, item, "status");
    const char *code = field_text(output, item, "error_code");
    const char *why = field_text(output, item, "error");
    bool is_fine = strcmp(state, "COMPLETED") == 0;
    if (print_end && !output_object(output, item)) {
        output_print(output, "%s %s %s\n", output_sign_coloured(output, output_state_sign(state)), id, state);
    } else if (!print_end && is_fine) {
        output_report_sign(output, SIGN_FINE, "%s", state);
    }
    if (is_fine) {
        return WEIR_OK;
    }
    error_set(error, WEIR_FAILED, "%s ended %s%s%s%s%s", id, state, code != NULL ? ", " : "", code != NULL ? code : "",
              why != NULL ? ": " : "", why != NULL ? why : "");
    error_hint(error, "`weir show %s` shows its events, `weir logs %s` the output of its steps", id, id);
    return WEIR_FAILED;
}

/* The message for the end of --timeout. */
static enum weir_status report_still_waiting(struct output *output, const json_t *item, struct weir_error *error)
{
    const char *id = field_text(output, item, "id");
    const char *state = field_text(output, item, "status");
    const char *reason = field_text(output, item, "pending_reason");
    error_set(error, WEIR_TIMED_OUT, "%s is still %s%s%s%s", id, state, reason != NULL ? " (" : "",
              reason != NULL ? reason : "", reason != NULL ? ")" : "");
    error_hint(error, "the execution continues; `weir why %s` explains its state", id);
    return WEIR_TIMED_OUT;
}

/* Polls until the end, the end of the time, or a signal. */
static enum weir_status poll_until_end(const struct invocation *invocation, struct store *store, const char *id,
                                       int64_t timeout_us, bool print_end, struct weir_error *error)
{
    const struct clock *clock = clock_system();
    int64_t until_us = timeout_us >= 0 ? time_add(clock_boot(clock), timeout_us) : TIME_NEVER;
    int64_t pause_us = AWAIT_FIRST_US;
    signals_catch();
    for (;;) {
        json_t *page = NULL;
        int64_t left_us = until_us - clock_boot(clock);
        enum weir_status status = read_awaited_item(store, id, &page, error);
        if (status == WEIR_STORE_BUSY && left_us > 0 && signals_count() == 0) {
            signals_sleep(AWAIT_MOST_US);
            continue;
        }
        if (status != WEIR_OK) {
            return status;
        }
        const json_t *item = page_first(page);
        if (is_item_ended(item)) {
            status = report_execution_end(invocation->output, item, print_end, error);
        } else if (signals_count() > 0) {
            status = error_set(error, WEIR_INTERRUPTED, "interrupted; execution %s continues", id);
        } else if (left_us <= 0) {
            status = report_still_waiting(invocation->output, item, error);
        } else {
            json_decref(page);
            signals_sleep(pause_us < left_us ? pause_us : left_us);
            pause_us = pause_us * 3 / 2 < AWAIT_MOST_US ? pause_us * 3 / 2 : AWAIT_MOST_US;
            continue;
        }
        json_decref(page);
        return status;
    }
}

enum weir_status wait_for_execution_end(const struct invocation *invocation, struct store *store, const char *id,
                                        int64_t timeout_us, bool print_end, struct weir_error *error)
{
    char whole[UUID_TEXT_MAX];
    enum weir_status status = execution_complete_id(store, id, whole, error);
    return status == WEIR_OK ? poll_until_end(invocation, store, whole, timeout_us, print_end, error) : status;
}
