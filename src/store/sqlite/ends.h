/* Ends of a set: rows of the queue move to the history, all of them with one INSERT and one DELETE.
 *
 * A batch collects the ends of a set that follow each other. ends_move() finds their rows, moves those that may end, and
 * gives each record its outcome, as if they had been ended one by one in their order. Data beside the row (steps
 * with rows of their own, events) is written per item.
 */
#ifndef WEIR_STORE_SQLITE_ENDS_H
#define WEIR_STORE_SQLITE_ENDS_H

#include "store/sqlite/parameter_rows.h"
#include "store/sqlite/sqlite_store.h"

/* The state that a row must have to be ended. */
enum must_be { MUST_BE_PENDING, MUST_BE_HELD, MUST_BE_CLAIMED };

struct end {
    struct record *record;
    enum item_state state;
    enum must_be must_be;
    /* Filled by ends_move(): */
    int64_t number; /* 0 = no such row, or it may not end so */
    int64_t lane_id;
    int64_t node_id;
    int phase;
    bool is_claimed; /* it had not been dispatched */
    bool was_interrupted;
    int64_t claimed_us;    /* 0 = never */
    int64_t dispatched_us; /* 0 = no start is on record */
    bool has_steps;        /* a step of it was recorded before */
    bool step_has_row;     /* and that is the step that ends with it */
    int64_t first_step_us; /* the first start of a step under the fence; 0 = none */
};

struct ends {
    struct end *items;
    struct parameter_row *rows;
    size_t count;
    size_t capacity;
};

/* Room for `capacity` ends. ends_close() takes a zeroed struct. */
enum weir_status ends_open(struct ends *ends, size_t capacity, struct weir_error *error);
void ends_close(struct ends *ends);
/* The record must stay until the flush. */
void ends_add(struct ends *ends, struct record *record, enum item_state state, enum must_be must_be);
/* Moves the rows of all ends and notes the news. Afterwards the moved ones of ends->items have a number > 0; the caller
 * writes their further data, and sets ends->count to 0. */
enum weir_status ends_move(struct ends *ends, struct write *write, struct weir_error *error);
/* Whether the step of the end is kept in its history row. */
bool ends_keeps_step(const struct end *end);

#endif
