/* The reason that holds a workspace back, from a row of store_status(): for tables with one reason for each workspace. */
#ifndef WEIR_CLI_VERBS_WAIT_REASON_H
#define WEIR_CLI_VERBS_WAIT_REASON_H

#include <jansson.h>

#include "base/arena.h"
#include "cli/output/output.h"

/* The pending_reason of waiting executions of the workspace (of its executions that are due, when there are any); NULL when
 * nothing waits. `status` is the whole answer, `workspace` one of its rows. */
const char *wait_reason_of_workspace(const json_t *status, const json_t *workspace);

enum { SLOT_BAR_CELLS = 10 };
/* "█████ 5/20" as a cell: at most SLOT_BAR_CELLS cells, in proportion when the limit is higher. In the output's arena. */
const char *wait_reason_slot_bar(struct output *output, const json_t *workspace);

#endif
