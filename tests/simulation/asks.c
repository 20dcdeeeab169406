/* Steps of ordinary executions that wait for a signal beside their time, and the callers that send it.
 *
 * In fleets with workflows with states some steps that wait for their next attempt also wait for the signal ASKED
 * (scripted_world_ask()). The engine itself ends no wait by it: a claim that finds the step WAITING begins its next
 * attempt. So the store alone decides, and each call is compared with what the rows allowed before it:
 *
 *   1. A parked execution with nothing due, one step that waits and no older signal: the step is COMPLETED, the signal is
 *      consumed by it, and the execution is runnable.
 *   2. Any other execution: no step has changed, and the signal is kept.
 *   3. Each consumed signal belongs to a COMPLETED step, and each step has consumed at most one.
 *
 * That a node runs no step again which a signal has ended is a rule of the ledger. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "simulation/simulation.h"

struct ask {
    bool is_living;
    int phase;
    int64_t due_us;
    int64_t waits; /* steps */
    int64_t kept;  /* signals that no step has consumed */
    char step[STEP_ID_MAX + 1];
};

static struct ask read_ask(struct simulation *simulation, const char *id)
{
    struct ask ask = {.is_living = false};
    struct question *question = question_prepare(
        simulation, "SELECT q.phase, coalesce(q.due_at, 0), (SELECT count(*) FROM workflow_node_executions s"
                    "  WHERE s.execution_id = q.id AND s.status = 'WAITING' AND s.signal = '" ASKED "'),"
                    " (SELECT min(s.step) FROM workflow_node_executions s"
                    "  WHERE s.execution_id = q.id AND s.status = 'WAITING' AND s.signal = '" ASKED "'),"
                    " (SELECT count(*) FROM signals g WHERE g.execution_id = q.id AND g.name = '" ASKED "'"
                    "  AND g.consumed_at IS NULL) FROM workflow_execution_queue q WHERE q.id = $1");
    question_ask_text(question, id);
    if (question_next(question)) {
        ask.is_living = true;
        ask.phase = (int)question_number(question, 0);
        ask.due_us = question_number(question, 1);
        ask.waits = question_number(question, 2);
        text_copy(ask.step, sizeof ask.step, question_is_null(question, 3) ? "" : question_text(question, 3));
        ask.kept = question_number(question, 4);
    }
    question_close(question);
    return ask;
}

static bool is_completed(struct simulation *simulation, const char *id, const char *step)
{
    bool is_found = false;
    struct question *question = question_prepare(
        simulation, "SELECT s.step FROM workflow_node_executions s JOIN signals g ON g.execution_id = s.execution_id"
                    " WHERE s.execution_id = $1 AND s.status = 'COMPLETED' AND g.step = s.step AND g.name = '" ASKED "'"
                    " AND g.consumed_at = s.finished_at AND s.signal IS NULL AND s.due_at IS NULL");
    question_ask_text(question, id);
    while (question_next(question)) {
        is_found = is_found || strcmp(question_text(question, 0), step) == 0;
    }
    question_close(question);
    return is_found;
}

static int64_t count_broken(struct simulation *simulation)
{
    struct question *question = question_prepare(
        simulation, "SELECT count(*) FROM signals g WHERE g.name = '" ASKED "' AND g.consumed_at IS NOT NULL AND"
                    " (NOT EXISTS (SELECT 1 FROM workflow_node_executions s WHERE s.execution_id = g.execution_id"
                    "              AND s.step = g.step AND s.status = 'COMPLETED')"
                    "  OR EXISTS (SELECT 1 FROM signals o WHERE o.execution_id = g.execution_id AND o.step = g.step"
                    "             AND o.seq <> g.seq))");
    question_ask(question);
    int64_t count = question_next(question) ? question_number(question, 0) : 0;
    question_close(question);
    return count;
}

/* A parked one is drawn more often, because only there the signal ends the wait. */
static struct model_item *draw_item(struct simulation *simulation)
{
    struct model_item *drawn_item = NULL;
    for (size_t i = 0; i < simulation->item_count; i++) {
        struct model_item *item = &simulation->items[i];
        bool is_parked = item->state == ITEM_WAITING;
        bool may_ask = item->place == PLACE_LIVE && !item->machine.is_known;
        if (may_ask && drawn(simulation, is_parked ? 5000 : 300) && (drawn_item == NULL || is_parked)) {
            drawn_item = item;
        }
    }
    return drawn_item;
}

static void check_ask(struct simulation *simulation, const char *id, const struct ask *before)
{
    const struct ask after = read_ask(simulation, id);
    bool is_due = before->due_us <= observer_store_time(simulation);
    bool ends = before->phase == 3 && before->waits == 1 && before->kept == 0 && !is_due;
    bool is_ended = before->waits == 1 && is_completed(simulation, id, before->step);
    int64_t broken = count_broken(simulation);
    if (ends && (!is_ended || after.phase != 0 || after.kept != 0 || after.waits != 0)) {
        fail(simulation, A_WAIT_ENDS_ONCE, "the wait of %s of %s has not ended with its signal", before->step, id);
    } else if (!ends && (is_ended || after.kept != before->kept + 1 || after.waits != before->waits)) {
        fail(simulation, A_WAIT_ENDS_ONCE, "a signal to %s has ended a wait in phase %d: %lld steps, %lld signals before",
             id, before->phase, (long long)before->waits, (long long)before->kept);
    } else if (broken != 0) {
        fail(simulation, A_WAIT_ENDS_ONCE, "%lld signals are consumed, and not each by one step that has ended",
             (long long)broken);
    }
    simulation->result->asks += ends;
}

void asks_act(struct simulation *simulation)
{
    struct weir_error error = {.status = WEIR_OK};
    struct sent_signal sent;
    struct model_item *item = draw_item(simulation);
    if (item == NULL) {
        return;
    }
    char id[UUID_TEXT_MAX];
    text_copy(id, sizeof id, item->id);
    const struct signal_request request = {.id = id, .name = ASKED, .data = "{\"by\":\"outside\"}"};
    const struct ask before = read_ask(simulation, id);
    item->wake_asked = true;
    enum weir_status status = store_signal(simulation->outside, &request, &sent, &error);
    say(simulation, "signal %s to %s in phase %d with %lld waits: %s", ASKED, id, before.phase, (long long)before.waits,
        weir_status_name(status));
    if (status == WEIR_OK && before.is_living && simulation->profile.clock_step == 0) {
        check_ask(simulation, id, &before);
    }
    world_wake_nodes(simulation);
}
