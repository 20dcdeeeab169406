/* Which workflow of the Temporal service an execution is: its own id, or one that its definition makes of the params. */
#ifndef WEIR_CLI_VERBS_TEMPORAL_WORKFLOW_H
#define WEIR_CLI_VERBS_TEMPORAL_WORKFLOW_H

#include <jansson.h>

#include "assemble.h"

struct temporal_workflow {
    struct temporal_execution execution; /* its texts are in here, and in the answer of the store */
    char workflow_id[ASSEMBLE_WORKFLOW_ID_MAX];
};

/* `execution`: the answer of store_show(). Takes the workflow id that is on record. Before a node has recorded one it is
 * evaluated as the node evaluates it. WEIR_OK also for an execution that does not run on Temporal; errors of the store. */
WEIR_MUST_CHECK enum weir_status temporal_workflow_of(struct store *store, const json_t *execution,
                                                      struct temporal_workflow *ret_workflow, struct weir_error *error);

#endif
