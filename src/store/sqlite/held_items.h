/* Reports about items that nodes hold: their rows in the queue, found for a whole set, and the rows of their steps.
 *
 * A set collects reports of different items (record.c). held_find() finds the rows of all of them with one statement, and
 * held_write_steps() writes the steps of all of them with another one. Threads: within a write transaction, by its holder.
 */
#ifndef WEIR_STORE_SQLITE_HELD_ITEMS_H
#define WEIR_STORE_SQLITE_HELD_ITEMS_H

#include "store/sqlite/parameter_rows.h"
#include "store/sqlite/sqlite_store.h"

struct held_item {
    struct record *record; /* RECORD_STEP or RECORD_PARKED */
    /* Filled by held_find(): */
    int64_t number; /* 0 = nobody holds the item under the fence of the record */
    int64_t lane_id;
    int64_t node_id;
    int64_t rank;
    int64_t claimed_us;    /* 0 = not known */
    int64_t dispatched_us; /* the first start of the execution; 0 = not on record */
    int64_t signals;       /* so far */
    int64_t first_step_us; /* PARKED: the first start of a step on record under this claim; TIME_NEVER = none */
    bool is_claimed;       /* its start is not on record */
    bool cancel_requested;
    bool was_interrupted;    /* it had an earlier claim */
    bool has_dispatch_event; /* PARKED: the start under this claim is an event already */
    bool has_wake;           /* PARKED: its row alone has the end of its last wait */
    /* PARKED, filled by parks_move(): */
    int64_t started_us; /* the start under this claim; 0 = an event has it */
    int64_t due_us;
    char until[TIME_TEXT_MAX];
};

struct held_items {
    struct held_item *items;
    struct parameter_row *rows; /* for the statements */
    size_t count;
    size_t capacity;
};

/* Room for `capacity` items, which is made with the first one. held_close() takes a zeroed struct. */
void held_close(struct held_items *held);
/* The record must stay until the items were written. */
enum weir_status held_add(struct held_items *held, struct record *record, size_t capacity, struct weir_error *error);
enum weir_status held_find(struct held_items *held, struct write *write, struct weir_error *error);
/* Writes the steps that the records of found items carry, with what they plan, end and consume. No two of the items are the
 * same. */
enum weir_status held_write_steps(struct held_items *held, struct write *write, int64_t node_id, struct weir_error *error);

#endif
