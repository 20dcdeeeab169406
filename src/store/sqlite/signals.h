/* The signals of executions, for the other files of the driver. Threads: those of the transaction. */
#ifndef WEIR_STORE_SQLITE_SIGNALS_H
#define WEIR_STORE_SQLITE_SIGNALS_H

#include "store/sqlite/sqlite_store.h"

/* A WAITING item of the queue becomes PENDING and runnable, with its rank. */
struct waking {
    const char *id;
    int64_t lane_id;
    int64_t rank;
    int64_t fence;     /* of the claim that was parked */
    const char *actor; /* of an act; NULL = none */
    const char *reason;
};
enum weir_status item_wake(struct write *write, const struct waking *waking, struct weir_error *error);
/* Ends the waits of the steps of an item as an act (BULK_WAKE): each gets a wake signal, and an item that is WAITING wakes.
 * *ret_refusal: why no wait was ended (REFUSAL_WAKE_...), or NULL. The caller has found that the item has not ended. */
struct wake_target {
    struct waking waking;
    int phase;
    const char *waits_for; /* as in struct act_order */
};
enum weir_status steps_wake(struct write *write, const struct wake_target *target, const char **ret_refusal,
                            struct weir_error *error);
/* Sends the living execution a signal of the store itself, as children.c does: no limit, no event, no act. */
enum weir_status signal_put(struct write *write, const char *id, const char *name, const char *data,
                            struct weir_error *error);
/* Sends a signal within the transaction to the execution `request->id`, which is a whole id: the errors of store_signal().
 * A refusal has changed nothing. It is an event of the execution and no act on record. */
enum weir_status signal_send(struct write *write, const struct signal_request *request, struct sent_signal *ret_sent,
                             struct weir_error *error);
/* Marks the signal that the step of the record names as consumed. Does nothing when it names none. */
enum weir_status signal_consume(struct write *write, const struct record *record, struct weir_error *error);
/* The signals of the execution that no step has consumed, in the order of their numbers. */
enum weir_status signals_read(struct connection *connection, const char *id, struct arena *arena,
                              const struct signal_record **ret_signals, size_t *ret_count, struct weir_error *error);

#endif
