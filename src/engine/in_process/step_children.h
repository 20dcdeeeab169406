/* Steps that start executions of another workflow, their children, and wait for them. See step_children.c. */
#ifndef WEIR_ENGINE_IN_PROCESS_STEP_CHILDREN_H
#define WEIR_ENGINE_IN_PROCESS_STEP_CHILDREN_H

#include "engine/in_process/step_inputs.h"
#include "engine/in_process/step_signal.h"

/* Whether a child may have this key: 1 to IDEMPOTENCY_KEY_MAX bytes of UTF-8 without a NUL. The store checks it again, and
 * refuses keys of its own. Any thread. */
bool step_children_key_is_fit(const char *key, size_t length);
/* Writes the plan of the children to inputs->input, as far as the answers of the evaluators allow; no text: there are none.
 * A status other than WEIR_OK is one of step_inputs_value(). */
enum weir_status step_children_prepare(struct step_inputs *inputs, const struct step_start *start);
/* The inputs are ready: reports the wait with its plan, or the end of a step without children. */
void step_children_begin(struct step_run *run);
/* The signal of the store ends the step; takes it. False: out of memory, the signal is the caller's. */
bool step_children_end(struct step_run *run, struct kept_signal *kept);
/* The timeout of the step ends the wait. */
void step_children_time_out(struct step_run *run);

#endif
