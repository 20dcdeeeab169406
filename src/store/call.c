/* The measure and the events of one call of a verb.
 *
 * Every verb of store.h passes through here, so that all drivers are measured, logged and counted alike. A refusal that
 * answers a question (a busy lock, an unknown name) is not a failure of the store and is not logged as one: the caller
 * handles it. Runs in the caller's thread, and never blocks beyond the listeners of the event bus.
 */
#include "store/call.h"

#include <string.h>

#include "base/error.h"
#include "observe/event.h"

struct call call_begin(struct store *store, const char *verb, struct weir_error *error)
{
    INVARIANT(store != NULL && store->driver != NULL);
    struct call call = {.store = store, .verb = verb, .began_us = clock_boot(clock_system()), .callers = error};
    return call;
}

/* A refusal that is an answer (busy lock, unknown name) is not a failure of the store. A missing right is one: a
 * node that tries again and again must log it. */
static bool is_store_failure(enum weir_status status)
{
    return (weir_status_exit(status) == 6 && status != WEIR_ENGINE_UNREACHABLE) || status == WEIR_FAILED ||
           status == WEIR_OUT_OF_MEMORY || status == WEIR_SYSTEM || status == WEIR_NOT_PERMITTED;
}

enum weir_status call_end(struct call *call, enum weir_status status)
{
    INVARIANT(call->store != NULL && call->verb != NULL);
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

void call_emit_claimed(const struct call *call, const struct claim_result *claimed)
{
    INVARIANT(call != NULL && claimed != NULL);
    if (claimed->count > 0) {
        struct event event = {.type = EVENT_BATCH_CLAIMED,
                              .count = (int64_t)claimed->count,
                              .fence = claimed->items[0].fence,
                              .duration_us = clock_boot(clock_system()) - call->began_us};
        event_emit(call->store->events, &event);
    }
}

void call_emit_poisoned(const struct call *call, size_t count)
{
    if (count > 0) {
        struct event poisoned = {.type = EVENT_EXECUTION_POISONED, .count = (int64_t)count};
        event_emit(call->store->events, &poisoned);
    }
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

bool call_is_unfit_name(const char *name)
{
    INVARIANT(name != NULL);
    return text_is_blank(name) || is_dots(name);
}

enum weir_status call_refuse_unfit(const char *kind, const char *name, struct weir_error *error)
{
    INVARIANT(kind != NULL && call_is_unfit_name(name));
    if (is_dots(name)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the %s's name must not be \"%s\"", kind, name);
        error_hint(error, "it would have no address over HTTP; give it another name");
    } else {
        error_set(error, WEIR_INVALID_ARGUMENT, "the %s's name is nothing but blanks", kind);
        error_hint(error, "give it a name that can be seen");
    }
    return WEIR_INVALID_ARGUMENT;
}

enum weir_status call_check_name(const char *kind, const char *name, size_t most, struct weir_error *error)
{
    INVARIANT(kind != NULL && most > 0);
    size_t length = name == NULL ? 0 : strlen(name);
    if (length == 0 || length > most || !text_is_utf8(name, length)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the %s's name must have 1 to %zu bytes of UTF-8", kind, most);
    }
    char safe[WORKSPACE_NAME_MAX + 1];
    text_copy(safe, sizeof safe, name);
    text_make_safe(safe);
    if (strcmp(safe, name) != 0) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the %s's name has control characters", kind);
    }
    return WEIR_OK;
}
