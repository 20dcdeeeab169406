/* Steps that start other executions and wait for them, as the script runs them (docs/design/children.md).
 *
 *                          on record                    the signal of the store, or its time
 *   plan --> WAITS_RESULT -----------> WAITS_PARK --> SLEEPS ------------------------> WAITS_RESULT, or the end
 *                                                    +--> parked, unless the claim is that of a suspect
 *
 * A definition with `start` steps runs START_STEPS of them, one after the other. The test gives the plan of each
 * (scripted_world_plan()), and the report WAITING brings it to the store. A later claim finds the wait on record, and plans
 * nothing. The rules are those of the engine of steps (engine/in_process/step_children.c): the signal is named by the
 * report that ends the wait, a failure in it ends the execution, and a time that is over fails the step. Nothing here knows
 * a child. One thread; reports leave only from inside of engine_step().
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "support/scripted_engine/scripted_internal.h"

enum { START_STEPS = 2, KEPT_MOST = 64, LOOK_AGAIN_US = 1000 * 1000, TIMEOUT_MOST_US = 30 * 1000 * 1000 };

struct kept_end {
    int64_t seq;
    char name[SIGNAL_KEPT_NAME_MAX + 1];
    char *data;
};

struct starter {
    int waiting_step; /* whose wait is on record; -1 = none */
    int64_t due_us;   /* boot clock */
    struct kept_end kept[KEPT_MOST];
    size_t kept_count;
    int64_t seen;
    /* Of the report under way. */
    int64_t signal_seq;
    char *output;
    char code[ERROR_CODE_MAX + 1];
};

struct starter *starter_new(const struct scripted_world *world, const struct engine_start *start)
{
    if (start->definition == NULL || strstr(start->definition, "\"start\":") == NULL || world->planner == NULL) {
        return NULL;
    }
    struct starter *starter = calloc(1, sizeof *starter);
    INVARIANT(starter != NULL);
    starter->waiting_step = -1;
    for (size_t i = 0; i < start->step_count; i++) {
        const struct step_record *step = &start->steps[i];
        if (step->state == STEP_WAITING) {
            starter->waiting_step = (int)strtol(step->step + strlen("step-"), NULL, 10);
            starter->due_us = time_add(scripted_now(world), step->due_in_us);
        }
    }
    for (size_t i = 0; i < start->signal_count; i++) {
        (void)starter_keep_signal(starter, &start->signals[i]);
    }
    starter->seen = start->signals_seen > starter->seen ? start->signals_seen : starter->seen;
    return starter;
}

void starter_free(struct starter *starter)
{
    if (starter != NULL) {
        for (size_t i = 0; i < starter->kept_count; i++) {
            free(starter->kept[i].data);
        }
        free(starter->output);
        free(starter);
    }
}

int starter_steps(void)
{
    return START_STEPS;
}

bool starter_keep_signal(struct starter *starter, const struct signal_record *signal)
{
    if (signal->seq <= starter->seen) {
        return false;
    }
    INVARIANT(starter->kept_count < KEPT_MOST);
    struct kept_end *kept = &starter->kept[starter->kept_count++];
    kept->seq = signal->seq;
    kept->data = strndup(signal->data, signal->data_length);
    INVARIANT(kept->data != NULL);
    text_copy(kept->name, sizeof kept->name, signal->name);
    starter->seen = signal->seq;
    return true;
}

int64_t starter_signals_seen(const struct starter *starter)
{
    return starter->seen;
}

/* --- reports --- */

void starter_fill_report(struct run *run, struct report *report, enum step_state state)
{
    struct starter *starter = run->starter;
    struct step_record *step = &report->step;
    report->has_step = true;
    report->step_index = run->step;
    step->state = state;
    step->attempt = run->attempts[run->step];
    step->failures = state == STEP_FAILED;
    step->exit_code = -1;
    step->signal_seq = state == STEP_CANCELLED ? 0 : starter->signal_seq;
    (void)snprintf(step->step, sizeof step->step, "step-%d", run->step);
    if (state == STEP_COMPLETED) {
        step->output = starter->output;
        step->output_length = starter->output == NULL ? 0 : strlen(starter->output);
        starter->output = NULL;
    } else if (state == STEP_FAILED) {
        text_copy(step->error_code, sizeof step->error_code, starter->code);
    } else if (state == STEP_WAITING) {
        (void)snprintf(step->signal, sizeof step->signal, CHILDREN_SIGNAL "step-%d", run->step);
    }
    starter->signal_seq = 0;
}

static void report_step(struct run *run, enum step_state state, int64_t delay_us, char *plan)
{
    struct report *report = report_new(REPORT_STEP, run->id, run->fence);
    INVARIANT(report != NULL && run->handle != NULL);
    starter_fill_report(run, report, state);
    report->step.due_in_us = delay_us;
    report->step.variables = plan;
    engine_report(&run->handle->base, report);
}

/* The plan goes with the wait; a list without items has nothing to wait for. */
static void begin_step(struct scripted_world *world, struct run *run)
{
    struct starter *starter = run->starter;
    char *plan = world->planner(world->planner_context, run->id, NULL);
    run->attempts[run->step]++;
    run->state = RUN_WAITS_RESULT;
    if (plan == NULL) {
        starter->output = strdup("[]");
        report_step(run, STEP_COMPLETED, 0, NULL);
        return;
    }
    bool is_bounded = random_below(&world->random, 5) == 0;
    int64_t delay_us = is_bounded ? 1 + (int64_t)random_below(&world->random, TIMEOUT_MOST_US) : TIME_NEVER;
    starter->waiting_step = run->step;
    starter->due_us = time_add(scripted_now(world), delay_us);
    report_step(run, STEP_WAITING, delay_us, plan);
}

/* --- waits --- */

static void fail_step(struct scripted_world *world, struct run *run, const char *code)
{
    text_copy(run->starter->code, sizeof run->starter->code, code);
    run->starter->waiting_step = -1;
    scripted_end_run(world, run, END_FAILED, true);
}

static bool take_end(struct run *run, char **ret_data)
{
    struct starter *starter = run->starter;
    char name[SIGNAL_KEPT_NAME_MAX + 1];
    size_t at = 0;
    (void)snprintf(name, sizeof name, CHILDREN_SIGNAL "step-%d", run->step);
    while (at < starter->kept_count && strcmp(starter->kept[at].name, name) != 0) {
        at++;
    }
    if (at == starter->kept_count) {
        return false;
    }
    starter->signal_seq = starter->kept[at].seq;
    *ret_data = starter->kept[at].data;
    starter->kept_count--;
    memmove(&starter->kept[at], &starter->kept[at + 1], (starter->kept_count - at) * sizeof starter->kept[0]);
    return true;
}

static void end_wait(struct scripted_world *world, struct run *run, const char *data)
{
    json_t *root = json_loads(data, 0, NULL);
    const char *code = json_string_value(json_object_get(root, "code"));
    if (root == NULL) {
        ledger_note_broken(&world->ledger, run->id, "the end of its children is no JSON; step", run->step);
    }
    if (code != NULL || root == NULL) {
        fail_step(world, run, code == NULL ? "children_invalid" : code);
    } else {
        run->starter->output = json_dumps(json_object_get(root, "output"), JSON_COMPACT);
        run->starter->waiting_step = -1;
        run->is_suspect = false; /* the end of a step is progress */
        run->state = RUN_WAITS_RESULT;
        report_step(run, STEP_COMPLETED, 0, NULL);
    }
    json_decref(root);
}

static void sleep_step(struct scripted_world *world, struct run *run)
{
    struct starter *starter = run->starter;
    int64_t now_us = scripted_now(world);
    char *data = NULL;
    run->state = RUN_SLEEPS;
    if (take_end(run, &data)) {
        end_wait(world, run, data);
        free(data);
    } else if (starter->due_us <= now_us) {
        fail_step(world, run, "children_timeout");
    } else if (scripted_may_park(run, WAIT_CHILD) && (world->calm || random_below(&world->random, 4) > 0)) {
        scripted_park_run(world, run, starter->due_us == TIME_NEVER ? TIME_NEVER : starter->due_us - now_us, WAIT_CHILD);
    } else {
        int64_t again_us = now_us + LOOK_AGAIN_US;
        scripted_later(world, run, EVENT_WAKE, starter->due_us < again_us ? starter->due_us : again_us);
    }
}

bool starter_is_under_way(const struct run *run)
{
    bool waits = run->starter->waiting_step == run->step;
    return run->step < START_STEPS && waits && run->attempts[run->step] > 0;
}

bool starter_go_on(struct scripted_world *world, struct run *run)
{
    while (run->step < START_STEPS && run->done[run->step]) {
        run->step++;
    }
    if (run->step == START_STEPS) {
        return false;
    }
    bool is_due = run->state == RUN_BEGINS || run->state == RUN_SLEEPS || run->state == RUN_WAITS_PARK;
    if (is_due && run->starter->waiting_step == run->step) {
        sleep_step(world, run);
    } else if (is_due) {
        begin_step(world, run);
    }
    return true;
}

void starter_recorded(struct scripted_world *world, struct run *run)
{
    if (run->state == RUN_WAITS_RESULT) {
        bool waits = run->starter->waiting_step == run->step;
        run->done[run->step] = !waits;
        run->state = waits ? RUN_WAITS_PARK : RUN_BEGINS;
        scripted_later(world, run, EVENT_NEXT, scripted_now(world));
    }
}
