/* One call of a verb of the store: its duration, its failure and its events. Only the files of src/store/ that hold verbs
 * include this.
 *
 * A verb checks its arguments, begins a call, calls the driver with `own` as the error, and ends the call. Drivers rely on
 * having an error of their own; the caller's error is written at the end, and only on a failure.
 */
#ifndef WEIR_STORE_CALL_H
#define WEIR_STORE_CALL_H

#include "store/driver.h"

struct call {
    struct store *store;
    const char *verb;
    int64_t began_us;
    struct weir_error own; /* drivers rely on having one */
    struct weir_error *error;
    struct weir_error *callers;
};

struct call call_begin(struct store *store, const char *verb, struct weir_error *error);
/* Emits EVENT_STORE_CALLED, and EVENT_STORE_FAILED for a failure of the store itself. Returns `status`. */
enum weir_status call_end(struct call *call, enum weir_status status);
/* For the assignments to the caller's node that the call has made or read. */
void call_emit_claimed(const struct call *call, const struct claim_result *claimed);
/* For items that ended as poison. */
void call_emit_poisoned(const struct call *call, size_t count);
/* Whether nothing new may get the name: it consists of blanks, or is "." or "..". Clients and proxies take such a segment
 * out of a path, so a thing of that name would have no address. */
bool call_is_unfit_name(const char *name);
/* WEIR_INVALID_ARGUMENT: the name of a new thing of a `kind` is unfit. */
enum weir_status call_refuse_unfit(const char *kind, const char *name, struct weir_error *error);

/* WEIR_INVALID_ARGUMENT: the name of a `kind` of thing is empty, longer than `most` bytes (at most WORKSPACE_NAME_MAX), no
 * UTF-8, or has control characters. */
enum weir_status call_check_name(const char *kind, const char *name, size_t most, struct weir_error *error);

/* A verb that does nothing but call the driver; `invocation` names the error `detail`. */
#define CALL(store, verb, error, invocation)                                                                               \
    do {                                                                                                                   \
        struct call call = call_begin((store), (verb), (error));                                                           \
        struct weir_error *detail = &call.own;                                                                             \
        enum weir_status outcome = (invocation);                                                                           \
        return call_end(&call, outcome);                                                                                   \
    } while (0)

#endif
