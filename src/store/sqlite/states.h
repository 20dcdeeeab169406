/* States of workflows on SQLite: the actions that records end, and updates by people. */
#ifndef WEIR_STORE_SQLITE_STATES_H
#define WEIR_STORE_SQLITE_STATES_H

#include "store/sqlite/sqlite_store.h"

/* Writes the action that a record ends, and the plans of its children, in the transaction of the record; nothing without an
 * action. */
WEIR_MUST_CHECK enum weir_status states_record(struct write *write, int64_t node_id, const struct record *record,
                                               struct weir_error *error);
/* Moves an execution that no node holds to another state, and sets variables. `item` has its whole id. */
WEIR_MUST_CHECK enum weir_status states_update(struct write *write, const char *id, const struct state_update *update,
                                               struct updated_state *ret_updated, struct weir_error *error);

#endif
