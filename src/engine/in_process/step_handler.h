/* Steps that call a handler of the host's program: the call, and what it said. Threads: the loop's.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_STEP_HANDLER_H
#define WEIR_ENGINE_IN_PROCESS_STEP_HANDLER_H

#include "engine/in_process/execution.h"

/* Its input is prepared: gives the call to the handler pool. */
void step_call_start(struct step_run *run);
/* A call came back from the handler pool; frees it, and settles the execution. */
void step_call_finished(struct weir_call *call);

#endif
