/* Schedules of a fleet, and the acts of operators on them. schedule_checks.c judges their effect.
 *
 * The workflow of the schedules is one that no client starts, so that it can be disabled. The schedules differ in times,
 * overlap policy, workspaces and jitter. When all is calm they go on for some minutes, and are paused then, so that the run
 * has an end. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "simulation/simulation.h"

#define SECOND_US MICROSECONDS_PER_SECOND
#define CALM_US (200 * SECOND_US)

static void expect_ok(struct simulation *simulation, const char *act, enum weir_status status,
                      const struct weir_error *error)
{
    if (status != WEIR_OK) {
        fail(simulation, THE_MODEL_HOLDS, "%s answered %s: %s", act, weir_status_name(status), error->message);
    }
}

static void set_schedule(struct simulation *simulation, struct model_schedule *schedule, enum schedule_overlap overlap)
{
    const char *names[WORKSPACES_MOST];
    size_t count = 0;
    struct weir_error error = {.status = WEIR_OK};
    for (int i = 0; i < simulation->profile.workspaces && schedule->plan < 0; i++) {
        if ((schedule->workspaces & 1U << i) != 0) {
            names[count++] = simulation->workspaces[i].name;
        }
    }
    struct schedule_request request = {.name = schedule->name,
                                       .jitter_us = schedule->jitter_us,
                                       .workflow = "timed",
                                       .workspaces = names,
                                       .workspace_count = count,
                                       .plan = schedule->plan < 0 ? NULL : plan_names[schedule->plan],
                                       .overlap = overlap,
                                       .catch_up_us = schedule->catch_up_us};
    request.when.every_us = schedule->every_us;
    if (schedule->every_us == 0) {
        request.when.cron = expression_text(schedule->expression);
        request.when.zone = "Europe/Berlin";
    }
    bool is_new;
    schedule->overlap = overlap;
    simulation->verb = "schedule_set";
    schedules_begin_act(simulation, schedule);
    enum weir_status status = store_schedule_set(simulation->outside, &request, &is_new, &error);
    observe(simulation);
    expect_ok(simulation, "schedule_set", status, &error);
    schedules_check_set(simulation, schedule);
}

void schedules_prepare(struct simulation *simulation)
{
    static const char definition[] = "{\"name\":\"timed\",\"steps\":{\"work\":{\"handler\":\"work\"}}}";
    struct weir_error error = {.status = WEIR_OK};
    struct published published;
    if (!simulation->profile.is_scheduled) {
        return;
    }
    simulation->verb = "publish";
    expect_ok(simulation, "publish",
              store_publish(simulation->outside, "timed", NULL, definition, NULL, &published, &error), &error);
    for (int i = 0; i < SCHEDULES_SIMULATED; i++) {
        struct model_schedule *schedule = &simulation->schedules[i];
        *schedule = (struct model_schedule){.plan = -1, .is_paused = false};
        (void)snprintf(schedule->name, sizeof schedule->name, "timer-%d", i);
        int64_t every_us = (2 + draw(simulation, 15)) * SECOND_US;
        int expression = (int)draw(simulation, EXPRESSIONS);
        int plan = (int)draw(simulation, 4);
        schedule->workspaces = (unsigned)draw(simulation, (1 << simulation->profile.workspaces) - 1) + 1;
        schedule->catch_up_us = (10 + draw(simulation, 60)) * SECOND_US;
        schedule->every_us = i < 2 ? every_us : 0;
        schedule->expression = i == 2 ? 0 : expression;
        schedule->plan = i == 1 ? plan : -1;
        schedule->jitter_us = i == 0 ? draw(simulation, every_us / SECOND_US) * SECOND_US : 0;
        set_schedule(simulation, schedule, (enum schedule_overlap)draw(simulation, 4));
    }
}

static void pause_schedule(struct simulation *simulation, struct model_schedule *schedule, bool paused)
{
    struct weir_error error = {.status = WEIR_OK};
    simulation->verb = "schedule_pause";
    schedules_begin_act(simulation, schedule);
    enum weir_status status = store_schedule_pause(simulation->outside, schedule->name, paused, &error);
    observe(simulation);
    expect_ok(simulation, "schedule_pause", status, &error);
    schedules_check_pause(simulation, schedule, paused);
}

static void trigger_schedule(struct simulation *simulation, struct model_schedule *schedule)
{
    struct weir_error error = {.status = WEIR_OK};
    struct schedule_counts counts = {0};
    struct schedule_trigger trigger = {.name = schedule->name};
    simulation->verb = "schedule_trigger";
    schedules_begin_act(simulation, schedule);
    schedules_expect_trigger(simulation, schedule);
    enum weir_status status = store_schedule_trigger(simulation->outside, &trigger, &counts, &error);
    observe(simulation);
    expect_ok(simulation, "schedule_trigger", status, &error);
    schedules_check(simulation, status);
}

static void set_state(struct simulation *simulation, bool is_disabled)
{
    struct weir_error error = {.status = WEIR_OK};
    simulation->verb = "set_workflow_state";
    enum weir_status status = store_set_workflow_state(simulation->outside, "timed", NULL,
                                                       is_disabled ? WORKFLOW_DISABLED : WORKFLOW_PUBLISHED, &error);
    observe(simulation);
    expect_ok(simulation, "set_workflow_state", status, &error);
    simulation->timed_is_disabled = is_disabled;
    for (size_t i = 0; i < simulation->firing_count && is_disabled; i++) {
        simulation->firings[i].was_disabled |= simulation->firings[i].is_waiting;
    }
}

void schedules_act(struct simulation *simulation)
{
    struct model_schedule *schedule = &simulation->schedules[draw(simulation, SCHEDULES_SIMULATED)];
    switch (draw(simulation, 6)) {
    case 0:
        pause_schedule(simulation, schedule, true);
        break;
    case 1:
        set_state(simulation, drawn(simulation, 4000));
        break;
    case 2:
        set_schedule(simulation, schedule, (enum schedule_overlap)draw(simulation, 4));
        break;
    case 3:
        trigger_schedule(simulation, schedule);
        break;
    default:
        pause_schedule(simulation, schedule, false);
    }
    say(simulation, "act on %s: paused %d, overlap %s", schedule->name, schedule->is_paused,
        schedule_overlap_name(schedule->overlap));
    world_wake_nodes(simulation);
}

bool schedules_go_on(const struct simulation *simulation)
{
    return simulation->profile.is_scheduled && !simulation->schedules_are_over;
}

void schedules_settle(struct simulation *simulation)
{
    if (!schedules_go_on(simulation)) {
        return;
    }
    bool is_over = simulation->boot_us - simulation->calm_since_us > CALM_US;
    for (int i = 0; i < SCHEDULES_SIMULATED; i++) {
        if (simulation->schedules[i].is_paused != is_over) {
            pause_schedule(simulation, &simulation->schedules[i], is_over);
        }
    }
    if (simulation->timed_is_disabled) {
        set_state(simulation, false);
    }
    simulation->schedules_are_over = is_over;
}
