/* Reading executions, waiting for their end, and reporting an end.
 *
 * Each call borrows a handle for its duration. A wait reads the state, then sleeps until the store signals a change or
 * WAIT_POLL_US has passed. It asks for the signal before it reads, so no change is missed. A busy store does not end a
 * wait.
 *
 * Any thread of the host runs this.
 */
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "base/uuid.h"
#include "library/library.h"
#include "store/complete.h"

/* A waiting call reads the state again after this time, also without a wake-up: PostgreSQL signals no end. Each time is
 * half as long again as the one before, so a short execution is found soon and a long one costs five reads a second. */
#define WAIT_FIRST_US (4 * MICROSECONDS_PER_MS)
#define WAIT_MOST_US (200 * MICROSECONDS_PER_MS)
/* Not sooner, whatever the store signals. */
#define WAIT_PAUSE_US (2 * MICROSECONDS_PER_MS)

static enum weir_status check_id_and_answer(const char *id, const void *answer, struct weir_error *error)
{
    if (id == NULL || answer == NULL) {
        return error_set(error, WEIR_MISUSE, "the call needs an id and a place for its answer");
    }
    return WEIR_OK;
}

enum weir_status weir_show(struct weir *weir, const char *id, char **ret_json, struct weir_error *error)
{
    struct store *handle = NULL;
    json_t *execution = NULL;
    enum weir_status status = check_id_and_answer(id, ret_json, error);
    if (status == WEIR_OK) {
        status = handle_borrow(weir, &handle, error);
    }
    if (status == WEIR_OK) {
        status = store_show(handle, id, &execution, error);
        handle_give_back(weir, handle);
    }
    return status == WEIR_OK ? library_give_json(execution, ret_json, error) : status;
}

enum weir_status weir_why(struct weir *weir, const char *id, char **ret_json, struct weir_error *error)
{
    struct store *handle = NULL;
    json_t *why = NULL;
    enum weir_status status = check_id_and_answer(id, ret_json, error);
    if (status == WEIR_OK) {
        status = handle_borrow(weir, &handle, error);
    }
    if (status == WEIR_OK) {
        status = store_why(handle, id, &why, error);
        handle_give_back(weir, handle);
    }
    return status == WEIR_OK ? library_give_json(why, ret_json, error) : status;
}

/* --- waiting --- */

_Static_assert(WEIR_END_COMPLETED + ITEM_COMPLETED == (int)ITEM_COMPLETED &&
                   (int)ITEM_FAILED == ITEM_COMPLETED + WEIR_END_FAILED &&
                   (int)ITEM_CANCELLED == ITEM_COMPLETED + WEIR_END_CANCELLED,
               "ends are the terminal states, in their order");

/* Finds the whole id for the beginning of one, once: a later execution may have the same beginning. */
static enum weir_status find_execution_id(struct store *handle, const char *id, char whole[UUID_TEXT_MAX],
                                          struct weir_error *error)
{
    json_t *why = NULL;
    if (uuid_is_valid(id) && strspn(id, "0123456789abcdef-") == UUID_TEXT_LENGTH) {
        text_copy(whole, UUID_TEXT_MAX, id);
        return WEIR_OK;
    }
    enum weir_status status = store_why(handle, id, &why, error);
    if (status == WEIR_OK) {
        text_copy(whole, UUID_TEXT_MAX, json_string_value(json_object_get(why, "id")));
        json_decref(why);
    }
    return status;
}

/* By the list, which is cheaper than the whole execution. */
static enum weir_status read_execution_state(struct store *handle, const char *id, enum item_state *ret_state,
                                             struct weir_error *error)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_EXECUTIONS, .filter = {.id = id}, .limit = 1};
    enum weir_status status = store_list(handle, &options, &page, error);
    if (status != WEIR_OK) {
        return status;
    }
    const json_t *row = json_array_get(json_object_get(page, "items"), 0);
    const char *name = json_string_value(json_object_get(row, "status"));
    if (name == NULL || !item_state_parse(name, ret_state)) {
        status = error_set(error, WEIR_EXECUTION_NOT_FOUND, "there is no execution %s", id);
    }
    json_decref(page);
    return status;
}

static void sleep_or_wake(int fd, int64_t duration_us)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    (void)poll(&ready, fd >= 0 ? 1 : 0, time_to_poll_ms(duration_us));
}

/* Returns when the store has changed, after `pause_us`, or at `until_us`. */
static void await_change(struct store *handle, int64_t pause_us, int64_t until_us)
{
    const struct clock *clock = clock_system();
    int64_t poll_us = clock_boot(clock) + pause_us;
    int64_t again_us = TIME_NEVER;
    int fd = store_wake_fd(handle);
    sleep_or_wake(-1, WAIT_PAUSE_US);
    while (fd < 0 || !store_wake_drain(handle, &again_us)) { /* without a descriptor the store cannot name a change */
        int64_t left_us = (poll_us < until_us ? poll_us : until_us) - clock_boot(clock);
        if (left_us <= 0) {
            return;
        }
        sleep_or_wake(fd, again_us < left_us ? again_us : left_us);
        fd = store_wake_fd(handle); /* after a lost connection it is another one */
    }
}

static enum weir_status await_execution_end(struct store *handle, const char *id, int64_t timeout_us,
                                            enum item_state *ret_state, struct weir_error *error)
{
    int64_t until_us = timeout_us < 0 ? TIME_NEVER : time_add(clock_boot(clock_system()), timeout_us);
    int64_t pause_us = WAIT_FIRST_US;
    (void)store_wake_fd(handle); /* asks for signals before the first read, so that no change is missed */
    for (;;) {
        enum weir_status status = read_execution_state(handle, id, ret_state, error);
        /* Another process may lock the file for long; the wait goes on. */
        if (status != WEIR_STORE_BUSY && (status != WEIR_OK || item_is_terminal(*ret_state))) {
            return status;
        }
        if (clock_boot(clock_system()) >= until_us) {
            return error_set(error, WEIR_TIMED_OUT, "execution %s has not ended yet, it goes on", id);
        }
        await_change(handle, pause_us, until_us);
        pause_us = pause_us * 3 / 2 < WAIT_MOST_US ? pause_us * 3 / 2 : WAIT_MOST_US;
    }
}

enum weir_status weir_wait(struct weir *weir, const char *id, int64_t timeout_us, enum weir_end *ret_end, char **ret_json,
                           struct weir_error *error)
{
    struct store *handle = NULL;
    enum item_state state = ITEM_PENDING;
    char whole[UUID_TEXT_MAX];
    enum weir_status status = check_id_and_answer(id, "", error);
    if (status == WEIR_OK) {
        status = handle_borrow(weir, &handle, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    status = find_execution_id(handle, id, whole, error);
    if (status == WEIR_OK) {
        status = await_execution_end(handle, whole, timeout_us, &state, error);
    }
    handle_give_back(weir, handle);
    if (status == WEIR_OK && ret_json != NULL) {
        status = weir_show(weir, whole, ret_json, error);
    }
    if (status == WEIR_OK && ret_end != NULL) {
        *ret_end = (enum weir_end)(state - ITEM_COMPLETED);
    }
    return status;
}

/* --- reporting an end --- */

enum weir_status weir_complete(struct weir *weir, const char *id, const struct weir_outcome *outcome,
                               struct weir_error *error)
{
    static const enum record_kind kinds[] = {[WEIR_END_COMPLETED] = RECORD_COMPLETED,
                                             [WEIR_END_FAILED] = RECORD_FAILED,
                                             [WEIR_END_CANCELLED] = RECORD_CANCELLED};
    struct store *handle = NULL;
    struct completion completion = {.id = id, .kind = RECORD_COMPLETED};
    enum weir_status status = check_id_and_answer(id, "", error);
    if (status == WEIR_OK && outcome != NULL && (unsigned)outcome->end >= sizeof kinds / sizeof kinds[0]) {
        status = error_set(error, WEIR_INVALID_ARGUMENT, "%d is no end", (int)outcome->end);
    }
    if (status == WEIR_OK && outcome != NULL) {
        completion.kind = kinds[outcome->end];
        completion.result = outcome->result;
        completion.error_code = outcome->error_code;
        completion.error = outcome->error;
        completion.run_id = outcome->run_id;
        completion.fence = outcome->fence;
    }
    if (status == WEIR_OK) {
        status = handle_borrow_to_act(weir, NULL, &handle, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    status = store_complete(handle, &completion, error);
    handle_give_back(weir, handle);
    library_wake_nodes(weir);
    return status;
}
