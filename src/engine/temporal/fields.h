/* The fields of a start that may differ from one execution to the next: the section `temporal` of its definition, evaluated
 * over its params.
 *
 * The values depend on nothing but the version of the definition, the params, the execution's id and its workspace. All of
 * these are on record before the execution is assigned, and none of them changes. So every node gives the same workflow id,
 * before the first byte of a start leaves and after each takeover. Only the types of search attributes come from the
 * service: they change the spelling of a value, and what the service compares of a start is its request id.
 *
 * Pure. Any thread. The caller of fields_evaluate() closes the fields.
 */
#ifndef WEIR_ENGINE_TEMPORAL_FIELDS_H
#define WEIR_ENGINE_TEMPORAL_FIELDS_H

#include "definition/definition.h"
#include "engine/engine.h"
#include "engine/temporal/encode.h"

enum { ARGUMENTS_BYTES_MAX = 2 * 1024 * 1024 }; /* of all arguments together, as JSON: the service's own limit */

/* Codes of executions that fail for good because a value does not fit. */
#define WORKFLOW_ID_INVALID "workflow_id_invalid"
#define FIELD_INVALID "temporal_field_invalid"

/* The `temporal` section of `definition` for the execution of `start`. `queue` is the node's own task queue, "" = none.
 * `types`: see start_message. WEIR_OK; WEIR_OUT_OF_MEMORY; WEIR_FAILED with the message and *ret_code, one of the two
 * above or EXPRESSION_ERROR_CODE. After a failure *ret_fields holds the part that was evaluated, and is closed like any
 * other. */
WEIR_MUST_CHECK enum weir_status fields_evaluate(const struct definition *definition, const struct engine_start *start,
                                                 const char *queue, const json_t *types, struct start_fields *ret_fields,
                                                 const char **ret_code, struct weir_error *error);
void fields_close(struct start_fields *fields);
/* Writes the default workflow id: "execution-<id>". `to` holds WORKFLOW_ID_MAX bytes. Returns it. */
const char *fields_default_id(const char *id, char *to);

#endif
