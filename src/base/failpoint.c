/* Failpoints: the variable WEIR_FAILPOINT ends or stops the process at a named place, for tests of crashes. Only in builds
 * with failpoints; others contain no trace of them. Any thread; the variable is read once.
 *
 * The list of names is complete: a name that is not in it ends the process at once, so that a test with a misspelt name
 * fails.
 */
#include "base/failpoint.h"

#ifdef WEIR_FAILPOINTS

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {
    "before_commit",          /* any write transaction of the store, written and not committed */
    "after_commit",           /* any write transaction of the store, just committed */
    "after_archive_commit",   /* content is in the archive, and the store does not say so yet */
    "after_claim",            /* items are CLAIMED, nothing was started */
    "before_start",           /* one item is about to be started */
    "after_start",            /* the engine has it */
    "before_record",          /* reports are taken from the queue, nothing is written */
    "after_record",           /* reports are durable, the engine does not know it yet */
    "before_children",        /* before a part of the duty of children */
    "after_children",         /* after one that has started, cancelled or settled */
    "before_park",            /* before a set of records with a park */
    "after_park",             /* it is durable, and the node still has the execution in flight */
    "after_beat",             /* the lease was renewed */
    "before_start_call",      /* a start is about to be handed to the connection */
    "after_start_answer",     /* the service has answered a start, and no report was made yet */
    "before_process_start",   /* the attempt of an exec step is durable, its process is not started */
    "before_step_report",     /* a step has ended, and no report was made yet */
    "after_hook_enqueue",     /* the executions of hooks are durable, their events still wait */
    "after_schedule_advance", /* the firings are durable, their executions are not enqueued */
    "after_schedule_enqueue", /* the executions are durable, their firings still wait */
    "store_created",          /* the file of a new store is there, and has no schema */
    "store_awaited",          /* another process makes the store that this one opens */
    "in_progress",            /* a migration, check or backup reports its progress */
};

enum { NAME_MAX_BYTES = 64 };

static char armed_name[NAME_MAX_BYTES];
static char armed_action[16];
static atomic_int passes_left;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void arm(void)
{
    const char *text = getenv("WEIR_FAILPOINT");
    int passes = 1;
    if (text == NULL || text[0] == '\0') {
        return;
    }
    if (sscanf(text, "%63[a-z_]:%15[a-z]:%d", armed_name, armed_action, &passes) < 2) {
        fprintf(stderr, "weir: WEIR_FAILPOINT is name:action[:n]\n");
        _exit(70);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], armed_name) == 0) {
            atomic_store(&passes_left, passes);
            return;
        }
    }
    fprintf(stderr, "weir: there is no failpoint %s\n", armed_name);
    _exit(70);
}

void failpoint_pass(const char *name)
{
    (void)pthread_once(&once, arm);
    if (armed_name[0] == '\0' || strcmp(name, armed_name) != 0 || atomic_fetch_sub(&passes_left, 1) != 1) {
        return;
    }
    if (strcmp(armed_action, "kill") == 0) {
        (void)kill(getpid(), SIGKILL);
        (void)pause();
    } else if (strcmp(armed_action, "stop") == 0) {
        /* To this thread: a signal to the process may reach another thread first, and this one would go on until then. */
        (void)raise(SIGSTOP);
    } else {
        _exit(70);
    }
}

#endif
