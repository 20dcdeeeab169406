/* States of workflows: a person moves an execution on, or sets its variables (docs/design/states.md).
 *
 * The store has the present state and the variables in the row of the step STATES_STEP. It changes them itself, under the
 * lock of the item, while no node holds the execution. store/store.h includes this file.
 */
#ifndef WEIR_STORE_STATES_H
#define WEIR_STORE_STATES_H

#include <stddef.h>

#include "base/uuid.h"
#include "queue/limits.h"
#include "weir/status.h"

struct store;

struct state_update {
    const char *state;     /* that follows now; NULL: the execution stays as it is, but for the variables */
    const char *variables; /* a JSON object of values, which replace those of the same names; NULL = none */
    const char *if_state;  /* the update is of the execution in this state alone; NULL = any */
};

struct updated_state {
    char id[UUID_TEXT_MAX];
    char state[STEP_ID_MAX + 1]; /* the present one */
    int action;                  /* the number of the update in the history of actions */
};

/* Sets the state and variables of an execution that no node holds. An act on record, an event of the execution and an
 * action in its history. A parked execution with a new state is runnable at once, or parked again by a `manual` one.
 * Errors:
 *   - WEIR_EXECUTION_NOT_FOUND
 *   - WEIR_ILLEGAL_STATE: it has ended, or its workflow has no states
 *   - WEIR_CONFLICT: a node holds it; once it is parked or put back the update may be repeated. Or it is in another state
 * than `if_state`
 *   - WEIR_INVALID_ARGUMENT: the definition does not have the state or a variable, a value has another type, or the
 * variables are too long */
WEIR_MUST_CHECK enum weir_status store_update_state(struct store *store, const char *id, const struct state_update *update,
                                                    struct updated_state *ret_updated, struct weir_error *error);

/* The checks that need no store. *ret_compact (may be NULL): the variables as an engine writes them, because the limits are
 * those of that text; malloc'ed, NULL without any. WEIR_INVALID_ARGUMENT. */
WEIR_MUST_CHECK enum weir_status state_update_check(const struct state_update *update, char **ret_compact,
                                                    struct weir_error *error);

/* --- for the drivers, and for the recorder --- */

/* A part of the text of an action (struct step_record) that starts or enqueues executions. */
#define ACTION_PLANS "\"plans\":"

/* The row of an execution that is to be updated. Texts are borrowed. */
struct machine_row {
    const char *definition; /* JSON */
    const char *machine;    /* JSON of the step, or NULL: it is in its initial state */
};
/* The machine after an update. The texts are malloc'ed. */
struct updated_machine {
    char from[STEP_ID_MAX + 1];
    char state[STEP_ID_MAX + 1];
    char *machine;
    char *changes; /* NULL = none */
    bool is_manual;
    bool has_timeout; /* the execution, so the time until which it is parked is known to a node alone */
};
/* `outcome` of a refusal: "no_states", "unknown_state", "other_state", "unknown_variable", "wrong_type" or "too_large",
 * with the name that it is about; "" = the update is applied. WEIR_OUT_OF_MEMORY. */
struct update_refusal {
    const char *outcome;
    char name[STATE_VARIABLE_NAME_MAX + 1];
    char names[512]; /* those that the definition has, or the type */
};
WEIR_MUST_CHECK enum weir_status state_update_apply(const struct machine_row *row, const struct state_update *update,
                                                    struct updated_machine *ret_updated, struct update_refusal *ret_refusal,
                                                    struct weir_error *error);
void updated_machine_close(struct updated_machine *updated);

#endif
