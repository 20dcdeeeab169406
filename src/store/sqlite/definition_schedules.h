/* The schedules that definitions own, within the transaction that changes the definition. */
#ifndef WEIR_STORE_SQLITE_DEFINITION_SCHEDULES_H
#define WEIR_STORE_SQLITE_DEFINITION_SCHEDULES_H

#include "store/sqlite/sqlite_store.h"

/* In the place of the workspace of a definition: a user has set the schedule. */
#define SCHEDULE_OF_NO_DEFINITION (-1)

/* Inserts or changes the row of a schedule; *ret_changed false: it has all of this already, and was not written. id: 0 = a
 * new one. owner: the workspace of the definition that sets it, 0 = the
 * definition is of all workspaces. Checks the names of workspaces and of the plan, and the number of schedules. */
enum weir_status schedule_write(struct write *write, const struct schedule_request *request, int64_t due_us, int64_t owner,
                                int64_t id, bool *ret_changed, struct weir_error *error);
/* Removes the row with its firings and refusals. */
enum weir_status schedule_remove(struct write *write, int64_t id, struct weir_error *error);
/* WEIR_ILLEGAL_STATE: a definition sets the schedule, so that users do not. */
enum weir_status schedule_refuse_owned(struct write *write, const char *name, struct weir_error *error);

/* Sets the schedules of a publication and removes the others of the definition; each change is on record as an act.
 * `owner`: its workspace, 0 = none. The names go to `published`. WEIR_CONFLICT: one of the names is taken. */
enum weir_status definition_set_schedules(struct write *write, const struct publication *publication, int64_t owner,
                                          struct published *published, struct weir_error *error);
/* Removes the schedules of a definition that goes, or of all definitions of a workspace (workflow NULL). */
enum weir_status definition_remove_schedules(struct write *write, const char *workflow, int64_t owner,
                                             struct weir_error *error);

#endif
