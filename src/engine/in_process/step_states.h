/* The step that runs the states of a workflow (docs/design/states.md): its machine, and what follows from each answer.
 *
 * The machine is the present state with its variables, as the store has it. It is read from the record of the step and
 * written with each report of it. An attempt of the step is a run of the handler of the present state.
 *
 * Threads: the loop's. Owner: the step, until step_states_close().
 */
#ifndef WEIR_ENGINE_IN_PROCESS_STEP_STATES_H
#define WEIR_ENGINE_IN_PROCESS_STEP_STATES_H

#include "engine/in_process/execution_state.h"
#include "engine/in_process/step_report.h"

struct kept_signal;

struct state_machine {
    char state[STEP_ID_MAX + 1]; /* the name on record; the definition may lack it */
    json_t *variables;           /* an object; owned */
    int in_a_row;                /* next states without a delay since the last delay */
    /* The signal that the handler of the state gets; "" = none. */
    char signal[SIGNAL_KEPT_NAME_MAX + 1];
    bool waits;                  /* SLEEPING or on record as WAITING for it */
    bool is_retry;               /* SLEEPING until the next attempt of the state */
    struct kept_signal *arrived; /* the signal, until the answer is on record; owned */
    /* The last failure that has led to a state; an empty state = none. */
    char failed_state[STEP_ID_MAX + 1];
    char failure_code[ERROR_CODE_MAX + 1];
    char *failure;
    int answers_since; /* the failure: next states that handlers have named; ANSWERS_RECOVERED = so many or more */
    char *action;      /* JSON text of the action that the next report brings, or NULL; owned */
    int64_t began_us;  /* boot clock: the handler that runs */
};

/* Makes the machine of the step from its record; NULL: it begins in the initial state. WEIR_FAILED: the record cannot be
 * read. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status step_states_open(struct step_run *run, const struct step_record *record);
/* Takes a step without a machine. */
void step_states_close(struct step_run *run);

/* Begins an attempt. True: the handler of the state is to be called. */
bool step_states_begin(struct step_run *run);
/* The handler of the present state; the step has begun an attempt. */
const struct weir_handler *step_states_handler(const struct step_run *run);
/* Gives the call the state and its variables. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status step_states_fill_call(struct step_run *run, struct weir_call *call);
int64_t step_states_timeout(const struct step_run *run);
/* The record of the wait is durable, or was read: takes the signal if it is there. The caller sets the timer. */
void step_states_sleep(struct step_run *run);
/* The name of the signal that the step waits for, or NULL. */
const char *step_states_awaits(const struct step_run *run);
/* A kept signal ends the wait: the state is due. */
bool step_states_take_signal(struct step_run *run);
/* Takes the answer of a handler. False: it is none of a state, and the rules of all handlers apply. */
bool step_states_take_answer(struct step_run *run, struct weir_call *call);
/* The attempt has failed; `failures` of the step counts it. Decides: another attempt, another state, or the end. */
void step_states_fail(struct step_run *run, struct step_outcome *outcome);
/* Writes state, variables and the ended action into the report. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status step_states_fill_report(struct step_run *run, struct report *report);

#endif
