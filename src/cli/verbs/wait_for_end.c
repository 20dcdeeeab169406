/* Waits for the end of an execution: `weir wait` and `weir enqueue --wait`.
 *
 * It polls the row by its id. The pauses begin at 2 ms, so that a short execution is reported at once, and grow to 100
 * ms, so that a long one costs little. A busy store is polled again until the time is over. A signal ends the wait
 * between two reads; the execution itself is never touched. At the end the result is read once. Nothing is printed here.
 * One thread.
 */
#include "cli/verbs/wait_for_end.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/output/json_fields.h"
#include "cli/output/output.h"
#include "cli/signals.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/temporal_service.h"
#include "store/bulk_act.h"
#include "store/store.h"

/* The pauses between two reads: short at first, so that the end of a short execution is reported at once. */
#define AWAIT_FIRST_US (2 * MICROSECONDS_PER_MS)
#define AWAIT_MOST_US (100 * MICROSECONDS_PER_MS)

enum { RESULT_SHOWN_MAX = 4096 };

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

bool end_is_reached(const json_t *item)
{
    enum item_state state;
    const char *status = json_string_value(json_object_get(item, "status"));
    return status != NULL && item_state_parse(status, &state) && item_is_terminal(state);
}

/* Adds "result" to the row of an ended execution: null unless it completed. */
static enum weir_status add_end_result(const struct invocation *invocation, struct store *store, json_t *item,
                                       struct weir_error *error)
{
    json_t *execution = NULL;
    const json_t *result = NULL;
    enum weir_status status = store_show(store, json_string_value(json_object_get(item, "id")), &execution, error);
    if (status == WEIR_EXECUTION_NOT_FOUND) { /* removed between the two reads */
        error_clear(error);
        status = WEIR_OK;
    } else if (status == WEIR_OK) {
        temporal_service_decode_or_warn(invocation, execution);
        result = store_execution_result(execution);
    }
    if (status == WEIR_OK &&
        json_object_set_new(item, "result", result == NULL ? json_null() : json_deep_copy(result)) != 0) {
        status = error_out_of_memory(error);
    }
    json_decref(execution);
    return status;
}

/* An end that is not COMPLETED is a failure with the error of the execution. */
static enum weir_status status_of_end(struct output *output, const json_t *item, struct weir_error *error)
{
    const char *id = field_text(output, item, "id");
    const char *state = field_text(output, item, "status");
    const char *code = field_text(output, item, "error_code");
    const char *why = field_text(output, item, "error");
    if (strcmp(state, item_state_name(ITEM_COMPLETED)) == 0) {
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
    reason = reason == NULL ? field_text(output, item, "waiting_for") : reason;
    error_set(error, WEIR_TIMED_OUT, "%s is still %s%s%s%s", id, state, reason != NULL ? " (" : "",
              reason != NULL ? reason : "", reason != NULL ? ")" : "");
    error_hint(error, "the execution continues; `weir why %s` explains its state", id);
    return WEIR_TIMED_OUT;
}

/* Polls until the end, the end of the time, or a signal. */
static enum weir_status poll_until_end(const struct invocation *invocation, struct store *store, const char *id,
                                       int64_t timeout_us, json_t **ret_item, struct weir_error *error)
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
        json_t *item = json_array_get(json_object_get(page, "items"), 0);
        if (end_is_reached(item)) {
            status = add_end_result(invocation, store, item, error);
            status = status == WEIR_OK ? status_of_end(invocation->output, item, error) : status;
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
        *ret_item = json_incref(item);
        json_decref(page);
        return status;
    }
}

enum weir_status wait_for_execution_end(const struct invocation *invocation, struct store *store, const char *id,
                                        json_t **ret_item, struct weir_error *error)
{
    char whole[UUID_TEXT_MAX];
    enum weir_status status = execution_complete_id(store, id, whole, error);
    *ret_item = NULL;
    return status == WEIR_OK
               ? poll_until_end(invocation, store, whole, invocation_number(invocation, "timeout", -1), ret_item, error)
               : status;
}

const char *end_result_text(struct output *output, const json_t *item)
{
    char note[128];
    const char *text = field_text(output, item, "result");
    if (text == NULL || strlen(text) <= RESULT_SHOWN_MAX) {
        return text;
    }
    (void)snprintf(note, sizeof note, "%zu bytes; --json prints them", strlen(text));
    return output_safe(output, note);
}
