/* Steps that wait for a signal, and the signals that an execution has not consumed yet.
 *
 * Threads: the loop's; the signals of a new execution also that of its maker.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_STEP_SIGNAL_H
#define WEIR_ENGINE_IN_PROCESS_STEP_SIGNAL_H

#include "engine/in_process/execution_state.h"

struct kept_signal {
    struct kept_signal *next;
    int64_t seq;
    char name[SIGNAL_KEPT_NAME_MAX + 1];
    char *data; /* JSON text; owned */
    size_t data_length;
};

/* A copy; NULL when out of memory. kept_signal_free() takes NULL. */
struct kept_signal *kept_signal_new(const struct signal_record *signal);
void kept_signal_free(struct kept_signal *kept);
/* Keeps a signal for the steps of the execution, in the order of the numbers; takes ownership. One that the execution has
 * got before is dropped. The execution may be one that is not admitted yet. */
void execution_keep_signal(struct execution *execution, struct kept_signal *kept);
/* A signal of an admitted execution: keeps it, and gives it to the first step that waits for its name. The caller settles
 * the execution. */
void execution_signal(struct execution *execution, struct kept_signal *kept);
void execution_drop_signals(struct execution *execution);

/* The name of the signal that the step waits for; NULL: none. */
const char *step_run_awaits(const struct step_run *run);
/* The oldest kept signal of the name ends the step. False: there is none. */
bool step_signal_consume(struct step_run *run);
/* How long the step waits; TIME_NEVER = until a signal comes. */
int64_t step_signal_timeout(const struct step_run *run);
/* An act of an operator ends the wait of the step before its time: takes the wake of this attempt from the kept signals.
 * The timer of the step is then due now. False: there is none. */
bool step_wake_take(struct step_run *run);
/* The end of a sleep; its output shows whether it was woken. */
void step_sleep_end(struct step_run *run);
/* The timeout ends the step. */
void step_signal_time_out(struct step_run *run);

#endif
