/* The plan of a step that starts children. Threads: those of the transaction. */
#ifndef WEIR_STORE_SQLITE_CHILD_PLAN_H
#define WEIR_STORE_SQLITE_CHILD_PLAN_H

#include "store/sqlite/sqlite_store.h"

/* Reads the plan of the step, fills its row and makes those of its children. Takes the work from *plan_left: one for each
 * child, and one for each 4 KiB of the plan. WEIR_NOT_FOUND: the step has no plan. */
WEIR_MUST_CHECK enum weir_status child_plan_read(struct write *write, const char *parent, const char *step,
                                                 int64_t *plan_left, struct weir_error *error);
/* The message of a step whose plan made no children, by the code in its row. */
const char *child_plan_problem_text(const char *problem);

#endif
