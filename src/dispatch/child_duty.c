/* The duty of children.
 *
 * The scheduler reads news of each end of a child or a parent. The duty then reads the store. If children are known to
 * exist, the news wakes the maintenance loop at once, because a parent waits. Without children news wakes no loop, and the
 * duty reads the store as rarely as that of hooks. It also reads the store every CHILD_LOOK_US: a note may outlive the node
 * that read its news. Rows that another transaction has locked are tried again after CHILD_LOCKED_US.
 */
#include "dispatch/child_duty.h"

#include "base/error.h"
#include "base/failpoint.h"
#include "dispatch/wake_up.h"

#define CHILD_LOOK_US (60 * MICROSECONDS_PER_SECOND)
#define CHILD_FAULT_US (60 * MICROSECONDS_PER_SECOND) /* between two reports of steps with a fault */
#define CHILD_LOCKED_US (1 * MICROSECONDS_PER_SECOND)
enum { CHILDREN_NONE, CHILDREN_EXIST, CHILDREN_EXPECTED }; /* EXPECTED: recorded by this node since the last read */
enum { ADVANCES_MOST = 8 };                                /* of one step: the other duties have their turn */

void child_duty_expect(struct node *node)
{
    INVARIANT(node != NULL);
    atomic_store(&node->shared.children_exist, CHILDREN_EXPECTED);
    if (atomic_load(&node->shared.children_due)) { /* the news was read before this */
        loop_wake(node, LOOP_MAINTENANCE);
    }
}

void child_duty_news(struct node *node)
{
    INVARIANT(node != NULL);
    atomic_store(&node->shared.children_due, true);
    if (atomic_load(&node->shared.children_exist) != CHILDREN_NONE) {
        loop_wake(node, LOOP_MAINTENANCE);
    }
}

/* A step that was left out stays so until its rows are mended, and each call finds it. */
static void report_faults(struct node *node, const struct children_advance *advance, int64_t now_us)
{
    struct event event = {.type = EVENT_STORE_FAILED,
                          .reason = "advance_children",
                          .count = (int64_t)advance->faults,
                          .code = weir_status_name(WEIR_STORE_CORRUPT),
                          .error = advance->fault};
    if (advance->faults > 0 && now_us >= node->maintenance.next_child_fault_us) {
        node->maintenance.next_child_fault_us = time_add(now_us, CHILD_FAULT_US);
        event_emit(node->events, &event);
    }
}

/* A plan that was recorded since the store was read stays expected. */
static void note_existence(struct node *node, bool exist)
{
    int seen = exist ? CHILDREN_NONE : CHILDREN_EXIST;
    (void)atomic_compare_exchange_strong(&node->shared.children_exist, &seen, exist ? CHILDREN_EXIST : CHILDREN_NONE);
}

enum weir_status child_duty_step(struct node *node, int64_t now_us, struct weir_error *error)
{
    INVARIANT(node != NULL);
    struct maintenance *m = &node->maintenance;
    if (!atomic_load(&node->shared.schedules)) {
        m->next_children_us = TIME_NEVER; /* a takeover counts as news */
        return WEIR_OK;
    }
    bool had_news = atomic_exchange(&node->shared.children_due, false); /* before the read: later news asks again */
    if (!had_news && now_us < m->next_children_us) {
        return WEIR_OK;
    }
    enum weir_status status = WEIR_OK;
    struct children_advance advance = {.again = true};
    m->next_children_us = time_add(now_us, CHILD_LOCKED_US); /* of a failure */
    for (size_t i = 0; i < ADVANCES_MOST && status == WEIR_OK && advance.again; i++) {
        FAILPOINT("before_children");
        int expected = CHILDREN_EXPECTED; /* before the read, which finds their rows */
        (void)atomic_compare_exchange_strong(&node->shared.children_exist, &expected, CHILDREN_EXIST);
        status = store_advance_children(node->stores[LOOP_MAINTENANCE], &advance, error);
        report_faults(node, &advance, now_us);
        if (status == WEIR_OK && advance.started + advance.cancelled + advance.settled > 0) {
            FAILPOINT("after_children");
            loop_wake(node, LOOP_DISPATCH);
        }
    }
    if (status == WEIR_OK) {
        note_existence(node, advance.exist);
        m->next_children_us = time_add(now_us, advance.again ? 0 : advance.waits ? CHILD_LOCKED_US : CHILD_LOOK_US);
    }
    return status;
}
