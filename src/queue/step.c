/* Names of the states of a step, and the facts that follow from a record of a step.
 *
 * One table holds the names; a store writes them, and a reader accepts them in any case of letters. Pure functions of
 * their arguments, callable in any thread. They allocate nothing: step_record_close() releases texts that an engine or
 * a store has allocated.
 */
#include "queue/step.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"

static const char *const step_state_names[] = {
#define STEP_STATE_NAME(id, name) [id] = name,
    STEP_STATE_LIST(STEP_STATE_NAME)
#undef STEP_STATE_NAME
};

const char *step_state_name(enum step_state state)
{
    INVARIANT((unsigned)state < STEP_STATE_COUNT);
    return step_state_names[state];
}

bool step_state_parse(const char *name, enum step_state *ret_state)
{
    INVARIANT(name != NULL && ret_state != NULL);
    for (size_t i = 0; i < STEP_STATE_COUNT; i++) {
        if (strcasecmp(name, step_state_names[i]) == 0) {
            *ret_state = (enum step_state)i;
            return true;
        }
    }
    return false;
}

bool step_state_is_final(enum step_state state)
{
    INVARIANT((unsigned)state < STEP_STATE_COUNT);
    return state != STEP_RUNNING && state != STEP_WAITING;
}

void step_record_close(struct step_record *record)
{
    if (record != NULL) {
        free(record->output);
        free(record->variables);
        free(record->action);
        free(record->error);
        record->output = NULL;
        record->variables = NULL;
        record->action = NULL;
        record->error = NULL;
    }
}

bool step_code_is_of_node(const char *code)
{
    return strcmp(code, STEP_NODE_SHORT) == 0 || strcmp(code, STEP_SECRET_MISSING) == 0;
}

const char *step_record_lost_attempt(const struct step_record *record)
{
    INVARIANT(record != NULL);
    if (record->state != STEP_WAITING || record->error_code[0] == '\0') {
        return NULL;
    }
    bool is_no_failure = strcmp(record->error_code, STEP_INTERRUPTED) == 0 ||
                         strcmp(record->error_code, STEP_NO_WORKER) == 0 || step_code_is_of_node(record->error_code);
    return is_no_failure ? "INTERRUPTED" : "FAILED";
}
