/* The end of a node: executions that run are awaited, then interrupted, then left to other nodes, each with a deadline.
 *
 *   1. Begin. The node gives up the scheduler's role, so that another node schedules while this one waits. The engine
 *      accepts no start any more, the capacity of this node is 0, and its inbox is not read: step 5 hands over items in it.
 *   2. Await. Running executions have stop_grace_us to end. The recorder goes on, because their ends must be on record.
 *      Once a second their cancels are passed on, because a cancelled execution would use up the time otherwise.
 *   3. Interrupt, at the deadline or at once for NODE_STOP_INTERRUPT. The engine kills steps and reports each execution
 *      as given back.
 *   4. Give up waiting, STOP_LAST_US after the interrupt, or as soon as every execution only waits for a store that has
 *      taken no record for STOP_AWAY_US. A longer wait would only make the stop longer: when the lease ends, recovery has
 *      the same effect as these records.
 *      A function of the host that ignores its cancellation goes on. Nothing can end it but the end of the process. So
 *      its execution stays with the lease of this node, and no other node begins it while the process may be alive.
 *   5. Leave. The engine abandons all it still holds. Then `leaves` becomes true, so that the heartbeat loop does not
 *      take the removed row for a lost lease and register again. store_node_stop() hands over the rest at once.
 *   6. End. If step 5 could not reach the store, it is repeated until the lease or the deadline is over. The count of
 *      executions that remain is reported; they are handed over when the lease ends.
 *
 * A stop never waits without a deadline, and never puts an item back that the engine may still run. shutdown_step() runs
 * in the dispatch loop; the functions of node.h in any thread.
 */
#include "dispatch/shutdown.h"

#include "base/error.h"
#include "dispatch/inbox.h"
#include "dispatch/loop.h"
#include "dispatch/node_internal.h"
#include "dispatch/recorder.h"
#include "dispatch/scheduling.h"
#include "dispatch/shedlock.h"
#include "dispatch/wake_up.h"

#define STOP_LAST_US ((int64_t)10000000) /* after the interrupt */
#define STOP_AWAY_US ((int64_t)3000000)

/* Nothing runs, nothing is held, and every report is on record. */
static bool is_idle(struct node *node)
{
    pthread_mutex_lock(&node->shared.lock);
    bool idle = node->shared.in_flight.count == 0;
    pthread_mutex_unlock(&node->shared.lock);
    return idle && recorder_is_empty(node) && engine_running(node->engine) == 0;
}

static void begin_shutdown(struct node *node, int64_t now_us)
{
    struct event event = {.type = EVENT_NODE_STOPPING, .node = node->name, .count = (int64_t)engine_running(node->engine)};
    node->shutdown.began_boot_us = now_us;
    event_emit(node->events, &event);
    scheduling_leave(node);
    engine_stop(node->engine, false);
}

static void interrupt_executions(struct node *node, int64_t now_us)
{
    INVARIANT(node->shutdown.interrupt_boot_us == 0);
    node->shutdown.interrupt_boot_us = now_us;
    if (engine_running(node->engine) > 0) {
        atomic_store(&node->shutdown.interrupted, true);
    }
    engine_stop(node->engine, true);
}

static void find_running(void *context, struct in_flight *entry)
{
    bool *is_running = context;
    *is_running = *is_running || entry->unrecorded_reports == 0;
}

/* Without a store the stop goes on and asks less often; the interrupt has its own time. */
static void pass_cancels_while_waiting(struct node *node, int64_t now_us)
{
    struct weir_error error;
    if (now_us < node->shutdown.next_cancels_us) {
        return;
    }
    inbox_note_requests(node, true);
    enum weir_status status = inbox_pass_requests(node, &error);
    node->shutdown.next_cancels_us = time_add(now_us, status == WEIR_OK ? SCHEDULER_WATCH_US : STOP_AWAY_US);
}

/* True when the engine has reported no end of an execution. */
static bool is_running(struct node *node)
{
    bool found = false;
    pthread_mutex_lock(&node->shared.lock);
    in_flight_each(&node->shared.in_flight, find_running, &found);
    pthread_mutex_unlock(&node->shared.lock);
    return found && engine_running(node->engine) > 0;
}

/* True when each execution that is left waits for the record of a report, and the store has taken no record for a while. */
static bool store_is_away(struct node *node, int64_t now_us)
{
    int64_t since_us = recorder_failing_since_us(node);
    return since_us != 0 && now_us - since_us >= STOP_AWAY_US && !is_running(node);
}

/* Under register_lock: the heartbeat loop is not in the middle of a registration. */
static void forbid_registration(struct node *node)
{
    pthread_mutex_lock(&node->shared.register_lock);
    atomic_store(&node->shared.leaves, true);
    pthread_mutex_unlock(&node->shared.register_lock);
}

static void end_shutdown(struct node *node, bool graceful, bool is_recorded)
{
    struct event event = {.type = EVENT_NODE_STOPPED, .node = node->name, .reason = graceful ? "graceful" : "interrupted"};
    if (!is_recorded) {
        pthread_mutex_lock(&node->shared.lock);
        event.count = (int64_t)node->shared.in_flight.count;
        pthread_mutex_unlock(&node->shared.lock);
        event.reason = atomic_load(&node->shutdown.goes_on) ? "functions_run" : "store_away";
        event.error = "its executions are handed over when its lease ends";
        atomic_store(&node->shutdown.left_behind, (size_t)event.count);
    }
    event_emit(node->events, &event);
    atomic_store(&node->shared.stopped, true);
    for (int loop = 0; loop < LOOP_COUNT; loop++) {
        loop_wake(node, (enum loop)loop);
    }
}

/* Steps 5 and 6. `keeps_lease`: nothing is written, and the executions stay with this node until its lease ends. */
static int64_t leave_fleet(struct node *node, int64_t now_us, bool keeps_lease)
{
    struct weir_error error;
    bool graceful = !atomic_load(&node->shutdown.interrupted);
    enum weir_status status = WEIR_STORE_UNREACHABLE;
    engine_abandon(node->engine, NULL, 0);
    forbid_registration(node);
    if (!keeps_lease) {
        shedlock_drop(node->stores[LOOP_DISPATCH], &node->dispatcher.exclusive);
        status = store_node_stop(node->stores[LOOP_DISPATCH], atomic_load(&node->shared.id), graceful, &error);
    }
    if (status != WEIR_OK && !keeps_lease && lease_is_valid(node) &&
        now_us - node->shutdown.began_boot_us < node->tuning.stop_grace_us + STOP_LAST_US) {
        return loop_failed(node, LOOP_DISPATCH, now_us, status, &error);
    }
    end_shutdown(node, graceful, status == WEIR_OK);
    return TIME_NEVER;
}

int64_t shutdown_step(struct node *node, int64_t now_us, enum node_stop_kind kind)
{
    INVARIANT(node != NULL && atomic_load(&node->shared.stop_kind) != 0);
    struct shutdown *shutdown = &node->shutdown;
    if (atomic_load(&node->shared.stopped)) {
        return TIME_NEVER;
    }
    if (shutdown->began_boot_us == 0) {
        begin_shutdown(node, now_us);
    }
    int64_t interrupt_at_us =
        kind == NODE_STOP_INTERRUPT ? now_us : time_add(shutdown->began_boot_us, node->tuning.stop_grace_us);
    if (now_us >= interrupt_at_us && shutdown->interrupt_boot_us == 0) {
        interrupt_executions(node, now_us);
    }
    bool has_interrupted = shutdown->interrupt_boot_us != 0;
    if (!has_interrupted && !is_idle(node)) {
        pass_cancels_while_waiting(node, now_us);
    }
    int64_t last_us = has_interrupted ? time_add(shutdown->interrupt_boot_us, STOP_LAST_US) : TIME_NEVER;
    bool is_away = has_interrupted && store_is_away(node, now_us);
    if (now_us >= last_us && !is_away && !atomic_load(&shutdown->goes_on) && is_running(node)) {
        atomic_store(&shutdown->goes_on, true); /* before the engine forgets it in step 5 */
    }
    if (is_idle(node) || now_us >= last_us || is_away) {
        return leave_fleet(node, now_us, is_away || atomic_load(&shutdown->goes_on));
    }
    return earlier(has_interrupted ? last_us : interrupt_at_us, time_add(now_us, LOOP_RETRY_FIRST_US));
}

/* --- any thread --- */

void node_begin_stop(struct node *node, enum node_stop_kind kind)
{
    INVARIANT(node != NULL && (kind == NODE_STOP_GRACEFUL || kind == NODE_STOP_INTERRUPT));
    int wanted = 1 + (int)kind;
    int none = 0;
    /* A graceful stop may become an interrupt, never the other way round. */
    if (!atomic_compare_exchange_strong(&node->shared.stop_kind, &none, wanted) && kind == NODE_STOP_INTERRUPT) {
        atomic_store(&node->shared.stop_kind, wanted);
    }
    loop_wake(node, LOOP_DISPATCH);
    loop_wake(node, LOOP_HEARTBEAT);
}

bool node_is_stopped(struct node *node)
{
    INVARIANT(node != NULL);
    return atomic_load(&node->shared.stopped);
}

enum weir_status node_await_stop(struct node *node, int64_t deadline_us, bool *ret_graceful, struct weir_error *error)
{
    INVARIANT(node != NULL);
    int64_t end_us = time_add(node_now(node), deadline_us);
    while (!node_is_stopped(node)) {
        if (node_now(node) >= end_us) {
            return error_set(error, WEIR_TIMED_OUT, "the node is still stopping; running executions: %zu",
                             engine_running(node->engine));
        }
        struct timespec pause = {.tv_sec = 0, .tv_nsec = 5000000};
        (void)nanosleep(&pause, NULL);
    }
    if (atomic_load(&node->shutdown.goes_on)) {
        (void)error_set(error, WEIR_TIMED_OUT, "%zu functions go on after their cancellation", node_left_behind(node));
        error_hint(error, "end the process: other nodes begin their executions when it is gone, or when its lease ends");
        return WEIR_TIMED_OUT;
    }
    if (ret_graceful != NULL) {
        *ret_graceful = !atomic_load(&node->shutdown.interrupted);
    }
    return WEIR_OK;
}

size_t node_left_behind(struct node *node)
{
    INVARIANT(node != NULL);
    return atomic_load(&node->shutdown.left_behind);
}
