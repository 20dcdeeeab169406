/* A call of the handler of a state: its state, its variables, the signal that it got, and its answer.
 *
 * The loop makes it from the machine of the step (step_states.h) and takes the answer from it. Between the two the thread
 * that has the call owns it: variables are a copy, so that nothing is shared. The functions of weir/handler.h for states
 * are in call_states.c.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_CALL_STATES_H
#define WEIR_ENGINE_IN_PROCESS_CALL_STATES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "definition/definition.h"
#include "queue/limits.h"
#include "queue/signal.h"

struct weir_call;

/* Children of one workflow that the handler has named, either all with a key or none. */
struct call_plan {
    struct call_plan *next;
    char workflow[WORKFLOW_NAME_MAX + 1];
    bool leaves;      /* enqueued: no child of the execution ends with it */
    json_t *children; /* their params */
    json_t *keys;     /* of them; NULL = they have none */
};

struct call_states {
    const struct definition_states *definition; /* lives as long as the call */
    const char *state;
    json_t *variables;                  /* an object; owned */
    json_t *changed;                    /* the names that were set, an object with true; owned */
    json_t *texts;                      /* of the values that were read, by name; owned */
    char *signal;                       /* the data of the signal; NULL = none; owned */
    char failed_state[STEP_ID_MAX + 1]; /* "" = no failure has led to this state */
    char failure_code[ERROR_CODE_MAX + 1];
    char *failure;           /* owned; NULL = none */
    struct call_plan *plans; /* in the order of the calls */
    size_t child_count;
    size_t child_bytes; /* of their params */
    /* The answer CALL_NEXT. */
    char next[STEP_ID_MAX + 2]; /* as the handler has named it; a longer one is cut, and still longer than any state's */
    int64_t delay_us;           /* or the timeout of a wait; TIME_NEVER = none */
    bool is_immediate;
    bool awaits_children;
    char awaits[SIGNAL_NAME_MAX + 1]; /* the signal; "" = none */
};

/* `variables` is copied. NULL when out of memory. */
struct call_states *call_states_new(const struct definition_states *definition, const char *state, const json_t *variables);
/* Takes NULL. */
void call_states_free(struct call_states *states);

#endif
