/* The children of executions, for the other files of the driver. Threads: those of the transaction. */
#ifndef WEIR_STORE_SQLITE_CHILDREN_H
#define WEIR_STORE_SQLITE_CHILDREN_H

#include "store/sqlite/sqlite_store.h"

/* A record of a step: one that begins to wait for its children gets a row. Does nothing for any other. */
enum weir_status children_plan(struct write *write, const struct record *record, struct weir_error *error);
/* Notes the ends of a set, before the deletion of their rows; `parameter_rows` has their numbers. */
enum weir_status children_note_ends(struct write *write, struct weir_error *error);

#endif
