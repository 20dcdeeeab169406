/* Named points between two steps of the life of an execution, at which a test may end or stop the process.
 *
 * WEIR_FAILPOINT=name:action[:n] in the environment arms one point. At its n-th pass (default the first) the process
 * does `kill` (SIGKILL to itself), `stop` (SIGSTOP to itself) or `exit` (_exit(70)). Builds with -Dfailpoints=false
 * have none. The names are listed in failpoint.c; an unknown name in the variable ends the process at once, so that a
 * test cannot pass by a spelling mistake.
 */
#ifndef WEIR_BASE_FAILPOINT_H
#define WEIR_BASE_FAILPOINT_H

#include <stddef.h>

#ifdef WEIR_FAILPOINTS
#define FAILPOINT(name) failpoint_pass(name)
/* Runs the action of WEIR_FAILPOINT at this point (failpoint.c has the names); else nothing. Any thread. */
void failpoint_pass(const char *name);
#else
#define FAILPOINT(name) ((void)0)
#endif

#endif
