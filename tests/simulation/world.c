/* The virtual clocks, the lives of the nodes, the scheduler. */
#include "simulation/simulation.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

#define BOOT_START_US (1000 * MICROSECONDS_PER_SECOND)
#define WALL_START_US ((int64_t)1763700000 * MICROSECONDS_PER_SECOND)
#define SECOND_US MICROSECONDS_PER_SECOND
#define CLOCKS_CHANGE_AFTER_US (75 * SECOND_US) /* of fleets with schedules */
/* How long after the last fault everything must have ended: the latest run_at, the longest backoff, the safety net of five
 * minutes looked at each minute, and some handovers of runs that are cut short. */
#define SETTLE_US (3600 * SECOND_US)
#define WALL_ERROR_MOST_US (600 * SECOND_US)
#define CALL_DEADLINE_US (60 * SECOND_US) /* real time: what a call means is tested here, and not how long it takes */

enum { NESTED_STEPS_MOST = 40, CHECK_EVERY = 256, TEN_THOUSAND = 10000, URL_SIZE = 256 };

bool drawn(struct simulation *simulation, int per_ten_thousand)
{
    return (int)random_below(&simulation->random, TEN_THOUSAND) < per_ten_thousand;
}

int64_t draw(struct simulation *simulation, int64_t below)
{
    return (int64_t)random_below(&simulation->random, (uint64_t)below);
}

bool failed(const struct simulation *simulation)
{
    return simulation->result->broken != INVARIANT_NONE;
}

void fail(struct simulation *simulation, enum invariant invariant, const char *format, ...)
{
    if (failed(simulation)) {
        return;
    }
    struct simulation_result *result = simulation->result;
    va_list values;
    va_start(values, format);
    (void)vsnprintf(result->what, sizeof result->what, format, values);
    va_end(values);
    result->broken = invariant;
    result->step = simulation->step;
    say(simulation, "BROKEN %d: %s", invariant, result->what);
}

void say(struct simulation *simulation, const char *format, ...)
{
    if (!simulation->options.verbose) {
        return;
    }
    va_list values;
    va_start(values, format);
    (void)printf("# %6lld %12.6f %s: ", (long long)simulation->step, (double)(simulation->boot_us - BOOT_START_US) / 1e6,
                 simulation->actor == OUTSIDE ? "outside" : simulation->nodes[simulation->actor].name);
    (void)vprintf(format, values);
    (void)putchar('\n');
    va_end(values);
}

/* --- clocks --- */

static int64_t outside_boot(void *context)
{
    return ((struct simulation *)context)->boot_us;
}

static int64_t outside_wall(void *context)
{
    const struct simulation *simulation = context;
    return simulation->wall_start_us + simulation->boot_us + simulation->wall_error_us;
}

static int64_t node_boot(void *context)
{
    return ((struct simulated_node *)context)->simulation->boot_us;
}

static int64_t node_wall(void *context)
{
    const struct simulated_node *node = context;
    return outside_wall(node->simulation) + node->wall_skew_us;
}

static void skew_wall(struct simulation *simulation, struct simulated_node *node)
{
    int64_t hours = (int64_t)random_below(&simulation->skew, 49) - 24;
    node->wall_skew_us = hours * 3600 * SECOND_US + (int64_t)random_below(&simulation->skew, 1000000);
}

static bool on_server(const struct simulation *simulation)
{
    return simulation->options.store == SIMULATED_POSTGRES;
}

static void set_server_clock(const struct simulation *simulation)
{
    if (on_server(simulation)) {
        server_set_clock(simulation->wall_start_us + simulation->boot_us + simulation->server_error_us);
    }
}

static int64_t pass_time_of_engines(struct simulation *simulation)
{
    int64_t next_us = TIME_NEVER;
    for (int place = 0; place < simulation->place_count; place++) {
        int64_t place_us = scripted_world_pass_time(simulation->engines[place]);
        next_us = place_us < next_us ? place_us : next_us;
    }
    return next_us;
}

const struct scripted_entry *world_engine_entry(const struct simulation *simulation, const char *id)
{
    const struct scripted_entry *found = NULL;
    for (int place = 0; place < simulation->place_count; place++) {
        const struct scripted_entry *entry = scripted_world_entry(simulation->engines[place], id);
        if (entry != NULL && (found == NULL || entry->runs_begun > 0)) {
            found = entry;
        }
    }
    return found;
}

void world_end_wait(const struct simulation *simulation, const char *id)
{
    for (int place = 0; place < simulation->place_count; place++) {
        scripted_world_end_wait(simulation->engines[place], id);
    }
}

int world_pool(const struct simulated_node *node)
{
    bool on_temporal = node->simulation != NULL && node->simulation->profile.is_mixed && node->place > 0;
    return 2 * node->group + (on_temporal ? 1 : 0);
}

bool world_outlives_nodes(const struct simulation *simulation, const struct model_item *item)
{
    const struct model_lane *lane = observer_lane(simulation, item);
    return simulation->profile.is_mixed ? lane_is_on_temporal(lane->row_id)
                                        : simulation->profile.kinds[lane->group] == SCRIPTED_SHARED;
}

static void pass_time_to(struct simulation *simulation, int64_t boot_us)
{
    simulation->boot_us = boot_us > simulation->boot_us ? boot_us : simulation->boot_us;
    set_server_clock(simulation);
    (void)pass_time_of_engines(simulation);
    for (int i = 0; i < simulation->profile.nodes; i++) {
        struct simulated_node *node = &simulation->nodes[i];
        if (node->life == NODE_ASLEEP && node->wakes_at_us <= simulation->boot_us) {
            node->life = NODE_ALIVE;
            say(simulation, "%s wakes up", node->name);
        }
    }
}

/* --- the lives of nodes --- */

static void hear_event(void *context, const struct event *event)
{
    struct simulated_node *node = context;
    struct simulation *simulation = node->simulation;
    if (event->type != EVENT_STORE_CALLED) {
        say(simulation, "%s: %s id=%s reason=%s code=%s error=%s count=%lld", node->name, event_name(event->type),
            event->execution_id == NULL ? "" : event->execution_id, event->reason == NULL ? "" : event->reason,
            event->code == NULL ? "" : event->code, event->error == NULL ? "" : event->error, (long long)event->count);
    }
    if (event->type == EVENT_LOOP_FAILED) {
        fail(simulation, THE_MODEL_HOLDS, "%s: a loop failed: %s %s", node->name,
             event->reason == NULL ? "" : event->reason, event->error == NULL ? "" : event->error);
    }
    static const char *const never[] = {"misuse", "failed", "store_corrupt", "invalid_argument", "system_error"};
    for (size_t i = 0; event->type == EVENT_STORE_FAILED && event->code != NULL && i < sizeof never / sizeof never[0];
         i++) {
        if (strcmp(event->code, never[i]) == 0) {
            fail(simulation, THE_MODEL_HOLDS, "%s: %s answered %s: %s", node->name,
                 event->reason == NULL ? "?" : event->reason, event->code, event->error == NULL ? "" : event->error);
        }
    }
}

/* The machine can show the death of a process once its keeper is gone as well. */
static void end_life(const struct simulated_node *node, int64_t keeper_us)
{
    struct simulation *simulation = node->simulation;
    for (size_t i = 0; i < simulation->life_count; i++) {
        struct simulated_life *life = &simulation->lives[i];
        if (life->node == node->index && life->generation == node->generation && !life->is_over) {
            life->is_over = true;
            life->keeper_us = keeper_us;
        }
    }
}

static void bury(struct simulated_node *node)
{
    end_life(node, node->simulation->boot_us);
    node_close(node->node);
    store_close(node->store);
    engine_close(node->engine);
    node->node = NULL;
    node->store = NULL;
    node->engine = NULL;
    node->life = NODE_ABSENT;
    node->died = false;
    if (on_server(node->simulation)) {
        server_await_silence(node->simulation, node->index);
    }
}

void world_kill(struct simulation *simulation, struct simulated_node *node)
{
    if (node->died || node->engine == NULL) {
        return;
    }
    say(simulation, "%s dies%s", node->name, node->depth > 0 ? " in a call" : "");
    simulation->last_death_us = simulation->boot_us;
    simulation->result->crashes++;
    node->died = true;
    bool keeper_is_frozen = drawn(simulation, TEN_THOUSAND / 2);
    end_life(node, simulation->boot_us + (keeper_is_frozen ? simulation->profile.lease_us : 0));
    scripted_crash(node->engine, keeper_is_frozen);
    if (node->depth == 0) {
        bury(node);
    }
}

static void name_store(const struct simulation *simulation, int node, char url[URL_SIZE])
{
    if (on_server(simulation)) {
        server_url(simulation, node, url, URL_SIZE);
    } else {
        (void)snprintf(url, URL_SIZE, "sqlite:%s", simulation->path);
    }
}

static bool open_node(struct simulation *simulation, struct simulated_node *node, struct weir_error *error)
{
    const struct profile *profile = &simulation->profile;
    char url[URL_SIZE];
    name_store(simulation, node->index, url);
    struct store_options options = {
        .url = url, .clock = &node->clock, .events = &node->events, .uuids = &node->uuids, .deadline_us = CALL_DEADLINE_US};
    if (scripted_open(simulation->engines[node->place], profile->room, &node->engine, error) != WEIR_OK ||
        store_open(&options, &node->store, error) != WEIR_OK) {
        return false;
    }
    faulty_store_wrap(simulation, node->store);
    handlers_open_engine(node);
    size_t claim_batch = (size_t)draw(simulation, profile->batch_most + 1);
    uint64_t seed = random_next(&simulation->random) | 1;
    struct node_settings settings = {
        .name = node->name,
        .group = group_names[node->group],
        .lease_us = profile->lease_us,
        .retention_us = profile->retention_us,
        .starts_max = profile->starts_max,
        .exclusive = profile->exclusive,
        .handlers = node->handlers_text,
        .batch_size = claim_batch,
        .seed = seed,
        .clock = &node->clock,
    };
    return node_open(node->store, node->engine, &node->events, &settings, &node->node, error) == WEIR_OK;
}

/* Where a node of a mixed fleet runs executions: at the last each place has one. */
static int home_of(const struct simulated_node *node)
{
    return node->index % PLACES_MOST;
}

static int draw_place(struct simulation *simulation, const struct simulated_node *node)
{
    if (simulation->profile.is_mixed) {
        bool has_moved = !simulation->calm && drawn(simulation, 4000);
        return has_moved ? (int)draw(simulation, PLACES_MOST) : home_of(node);
    }
    return simulation->place_count > 1 ? node->group : 0;
}

static void start_node(struct simulation *simulation, struct simulated_node *node)
{
    struct weir_error error;
    node->simulation = simulation;
    node->index = (int)(node - simulation->nodes);
    node->generation++;
    node->group = node->index % simulation->profile.groups;
    node->place = draw_place(simulation, node);
    handlers_begin_node(simulation, node);
    node->machine = on_server(simulation) ? (int)draw(simulation, simulation->profile.machines) : 0;
    (void)snprintf(node->name, sizeof node->name, "n%d.%d", node->index, node->generation);
    node->clock =
        (struct clock){.wall_us = node_wall, .boot_us = node_boot, .context = node, .boot_id = simulation->clock.boot_id};
    /* A node that starts alone takes its wall clock for the store's, on purpose: run_at is wall time. So clocks are right
     * at that moment, and wrong from then on. */
    node->wall_skew_us = 0;
    node->desired_state = NODE_RUN;
    node->woken = 0;
    node->uuids = (struct uuid_source){.random_state = random_next(&simulation->random), .seeded = true};
    memset(&node->events, 0, sizeof node->events);
    (void)event_subscribe(&node->events, hear_event, node);
    simulation->actor = node->index;
    node->depth++;
    bool opened = open_node(simulation, node, &error);
    node->depth--;
    say(simulation, "starts: %s", opened ? "ok" : error.message);
    skew_wall(simulation, node);
    observe(simulation);
    simulation->actor = OUTSIDE;
    if (!opened || node->died) {
        if (node->engine != NULL && !node->died) {
            scripted_crash(node->engine, false);
        }
        node->died = true; /* its later calls do not reach the store */
        bury(node);
        return;
    }
    node->life = NODE_ALIVE;
    for (int i = 0; i < LOOP_COUNT; i++) {
        node->due_us[i] = simulation->boot_us;
    }
}

static void after_loop(struct simulation *simulation, struct simulated_node *node)
{
    struct weir_error error = {.status = WEIR_OK};
    if (node->depth > 0) {
        return; /* other threads of it are inside a call */
    }
    if (node->died) {
        bury(node);
    } else if (node_is_stopped(node->node)) { /* begun here, or wished by an operator */
        say(simulation, "%s has stopped", node->name);
        node_close(node->node);
        node->node = NULL;
        bury(node);
    } else if (!node_is_healthy(node->node, &error)) {
        say(simulation, "%s is not healthy: %s", node->name, error.message);
        world_kill(simulation, node);
    }
}

/* It has no threads, and its host calls node_step(). */
static bool is_hosted(const struct simulated_node *node)
{
    return node->simulation != NULL && node->simulation->profile.is_hosted && node->index % 2 == 1;
}

static void step_hosted(struct simulation *simulation, struct simulated_node *node)
{
    int actor = simulation->actor;
    simulation->actor = node->index;
    node->depth++;
    memset(node->busy, true, sizeof node->busy);
    int64_t due_us = node_step(node->node);
    memset(node->busy, false, sizeof node->busy);
    node->depth--;
    observe(simulation);
    for (int loop = 0; loop < LOOP_COUNT; loop++) {
        node->due_us[loop] = due_us;
    }
    check_engine(simulation);
    after_loop(simulation, node);
    simulation->actor = actor;
}

static void step_loop(struct simulation *simulation, struct simulated_node *node, enum node_loop loop)
{
    if (is_hosted(node)) {
        step_hosted(simulation, node);
        return;
    }
    int64_t (*const steps[])(struct node *) = {
        [LOOP_DISPATCH] = node_dispatch_step,
        [LOOP_RECORD] = node_record_step,
        [LOOP_HEARTBEAT] = node_heartbeat_step,
        [LOOP_MAINTENANCE] = node_maintenance_step,
    };
    int actor = simulation->actor;
    simulation->actor = node->index;
    node->depth++;
    node->busy[loop] = true;
    int64_t due_us = loop == LOOP_ENGINE ? engine_step(node->engine) : steps[loop](node->node);
    node->busy[loop] = false;
    node->depth--;
    observe(simulation);
    node->due_us[loop] = due_us;
    check_engine(simulation);
    after_loop(simulation, node);
    simulation->actor = actor;
}

void world_wake_nodes(struct simulation *simulation)
{
    for (int i = 0; i < simulation->profile.nodes; i++) {
        struct simulated_node *node = &simulation->nodes[i];
        if (node->life == NODE_ALIVE && !node->died && drawn(simulation, 7000)) {
            node_wake(node->node);
            node->due_us[LOOP_DISPATCH] = simulation->boot_us;
        }
    }
}

/* --- the scheduler --- */

static bool may_step(const struct simulated_node *node, int loop)
{
    return (node->life == NODE_ALIVE || node->life == NODE_LEAVING) && !node->died && !node->frozen && !node->busy[loop];
}

static int64_t due_of(const struct simulated_node *node, enum node_loop loop)
{
    return loop == LOOP_ENGINE ? scripted_next(node->engine) : node->due_us[loop];
}

/* A message between the loops of a node and its engine is never lost; the time until it is read is chance. */
static void hear_wakes(struct simulation *simulation)
{
    for (int i = 0; i < simulation->profile.nodes; i++) {
        struct simulated_node *node = &simulation->nodes[i];
        node->woken |= node->node == NULL || node->died ? 0 : node_take_wakes(node->node);
        for (int loop = LOOP_DISPATCH; loop <= LOOP_MAINTENANCE; loop++) {
            unsigned bit = 1U << loop;
            if ((node->woken & bit) != 0 && !node->busy[loop]) {
                node->due_us[loop] = simulation->boot_us;
                node->woken &= ~bit;
            }
        }
    }
}

/* One of the loops that are due, all with the same chance; with `any`, one of all. False when there is none. */
static bool pick_loop(struct simulation *simulation, bool any, int *ret_node, enum node_loop *ret_loop)
{
    int found = 0;
    for (int i = 0; i < simulation->profile.nodes; i++) {
        for (int loop = 0; loop < LOOP_COUNT; loop++) {
            if (!may_step(&simulation->nodes[i], loop)) {
                continue;
            }
            if (!any && due_of(&simulation->nodes[i], (enum node_loop)loop) > simulation->boot_us) {
                continue;
            }
            found++;
            if (draw(simulation, found) == 0) {
                *ret_node = i;
                *ret_loop = (enum node_loop)loop;
            }
        }
    }
    return found > 0;
}

static int64_t next_due(struct simulation *simulation)
{
    int64_t next_us = pass_time_of_engines(simulation);
    for (int i = 0; i < simulation->profile.nodes; i++) {
        const struct simulated_node *node = &simulation->nodes[i];
        if (node->life == NODE_ASLEEP && node->wakes_at_us < next_us) {
            next_us = node->wakes_at_us;
        }
        for (int loop = 0; loop < LOOP_COUNT; loop++) {
            int64_t due_us = may_step(node, loop) ? due_of(node, (enum node_loop)loop) : TIME_NEVER;
            next_us = due_us < next_us ? due_us : next_us;
        }
    }
    return next_us;
}

void world_step(struct simulation *simulation)
{
    int index = 0;
    enum node_loop loop = LOOP_DISPATCH;
    if (drawn(simulation, 500)) {
        pass_time_to(simulation, simulation->boot_us + draw(simulation, 200000));
    }
    hear_wakes(simulation);
    if (pick_loop(simulation, drawn(simulation, simulation->calm ? 20 : 1000), &index, &loop)) {
        step_loop(simulation, &simulation->nodes[index], loop);
        return;
    }
    int64_t latest_us = simulation->boot_us + (simulation->depth > 0 ? 1 : 5) * SECOND_US;
    int64_t next_us = next_due(simulation);
    next_us = next_us < latest_us ? next_us : latest_us;
    next_us = next_us > simulation->boot_us ? next_us : simulation->boot_us;
    pass_time_to(simulation, next_us + draw(simulation, drawn(simulation, 1000) ? 50000 : 500));
}

/* --- faults of nodes --- */

static struct simulated_node *pick_node(struct simulation *simulation, enum node_life life)
{
    struct simulated_node *node = &simulation->nodes[draw(simulation, simulation->profile.nodes)];
    return node->life == life && node->depth == 0 ? node : NULL;
}

/* The machine starts anew: every process dies at once, and the wall clock may come back wrong (no battery, a correction).
 * Not how far its clock since boot goes back: the store only ever uses it together with the boot's name. */
static void reboot(struct simulation *simulation)
{
    for (int i = 0; i < simulation->profile.nodes; i++) {
        if (simulation->nodes[i].depth > 0) {
            return;
        }
    }
    simulation->actor = OUTSIDE;
    for (int i = 0; i < simulation->profile.nodes; i++) {
        struct simulated_node *node = &simulation->nodes[i];
        if (node->life != NODE_ABSENT) {
            simulation->result->crashes++;
            node->died = true;
            scripted_crash(node->engine, false);
            bury(node);
        }
    }
    scripted_world_reboot(simulation->engines[0]);
    pass_time_to(simulation, simulation->boot_us + draw(simulation, 20 * SECOND_US));
    if (drawn(simulation, 5000)) {
        simulation->wall_error_us += draw(simulation, 2 * WALL_ERROR_MOST_US) - WALL_ERROR_MOST_US;
    }
    (void)snprintf(simulation->boot_id, sizeof simulation->boot_id, "boot-%d", ++simulation->boots + 1);
    say(simulation, "the machine starts anew as %s, its wall clock %lld us wrong", simulation->boot_id,
        (long long)simulation->wall_error_us);
}

/* One machine of several; the server is on none of them. */
static void reboot_machine(struct simulation *simulation)
{
    int machine = (int)draw(simulation, simulation->profile.machines);
    for (int i = 0; i < simulation->profile.nodes; i++) {
        if (simulation->nodes[i].depth > 0) {
            return;
        }
    }
    say(simulation, "machine %d starts anew", machine);
    for (int i = 0; i < simulation->profile.nodes; i++) {
        struct simulated_node *node = &simulation->nodes[i];
        if (node->life != NODE_ABSENT && node->machine == machine) {
            simulation->result->crashes++;
            simulation->last_death_us = simulation->boot_us;
            node->died = true;
            scripted_crash(node->engine, false);
            bury(node);
        }
    }
}

static void fault_of_server(struct simulation *simulation, struct simulated_node *alive)
{
    if (drawn(simulation, simulation->profile.clock_step)) {
        /* Back or forward, mostly by much more than a lease. */
        simulation->server_error_us = -draw(simulation, WALL_ERROR_MOST_US);
        set_server_clock(simulation);
        say(simulation, "the server's clock is %lld us behind", -(long long)simulation->server_error_us);
    }
    if (alive != NULL && drawn(simulation, simulation->profile.hang_up)) {
        say(simulation, "the server hangs up on %s", alive->name);
        server_hang_up(simulation, alive->index);
    }
}

static void maybe_fault(struct simulation *simulation)
{
    const struct profile *profile = &simulation->profile;
    struct simulated_node *alive = pick_node(simulation, NODE_ALIVE);
    struct simulated_node *absent = pick_node(simulation, NODE_ABSENT);
    struct simulated_node *leaving = pick_node(simulation, NODE_LEAVING);
    if (alive != NULL && drawn(simulation, profile->crash)) {
        world_kill(simulation, alive);
    } else if (alive != NULL && drawn(simulation, profile->pause)) {
        alive->life = NODE_ASLEEP;
        alive->wakes_at_us = simulation->boot_us + draw(simulation, profile->pause_most_us);
        say(simulation, "%s falls asleep for %lld us", alive->name, (long long)(alive->wakes_at_us - simulation->boot_us));
    } else if (alive != NULL && drawn(simulation, profile->stop)) {
        bool graceful = drawn(simulation, 6000);
        alive->life = NODE_LEAVING;
        node_begin_stop(alive->node, graceful ? NODE_STOP_GRACEFUL : NODE_STOP_INTERRUPT);
        say(simulation, "%s is told to stop %s", alive->name, graceful ? "gracefully" : "at once");
        for (int i = 0; i < LOOP_COUNT; i++) {
            alive->due_us[i] = simulation->boot_us;
        }
    } else if (leaving != NULL && drawn(simulation, profile->crash)) {
        world_kill(simulation, leaving);
    } else if (alive != NULL && drawn(simulation, profile->cut)) {
        scripted_cut(alive->engine, simulation->boot_us + draw(simulation, 60 * SECOND_US));
    } else if (drawn(simulation, profile->cut / 4)) {
        int64_t until_us = simulation->boot_us + draw(simulation, 30 * SECOND_US);
        for (int place = 0; place < simulation->place_count; place++) {
            scripted_world_cut(simulation->engines[place], until_us);
        }
    } else if (alive != NULL && drawn(simulation, profile->jump)) {
        skew_wall(simulation, alive);
    } else if (absent != NULL && drawn(simulation, 200)) {
        start_node(simulation, absent);
    } else if (drawn(simulation, profile->reboot)) {
        if (on_server(simulation)) {
            reboot_machine(simulation);
        } else {
            reboot(simulation);
        }
    } else if (on_server(simulation)) {
        fault_of_server(simulation, alive);
    }
}

/* --- one run --- */

static void open_engines(struct simulation *simulation)
{
    const struct profile *profile = &simulation->profile;
    simulation->place_count = profile->is_mixed ? PLACES_MOST : profile->kinds[1] == profile->kinds[0] ? 1 : 2;
    for (int place = 0; place < simulation->place_count; place++) {
        bool is_abroad = profile->is_mixed && place > 0;
        enum scripted_kind kind = is_abroad ? SCRIPTED_SHARED : profile->kinds[place];
        struct scripted_world *engine =
            scripted_world_open(kind, &simulation->clock, &profile->plan, random_next(&simulation->random));
        INVARIANT(engine != NULL);
        if (is_abroad) {
            struct engine_target target = {.engine = "temporal", .service = "one", .address = "here"};
            (void)snprintf(target.namespace_name, sizeof target.namespace_name, "namespace-%d", place);
            scripted_world_locate(engine, &target);
        }
        if (profile->has_children && kind == SCRIPTED_IN_NODE) {
            scripted_world_plan(engine, children_draw_plan, simulation);
        }
        if (profile->has_states && kind == SCRIPTED_IN_NODE) {
            scripted_world_ask(engine, ASKED);
        }
        simulation->engines[place] = engine;
    }
}

static void open_world(struct simulation *simulation)
{
    struct weir_error error;
    char url[URL_SIZE];
    (void)snprintf(simulation->boot_id, sizeof simulation->boot_id, "boot-1");
    simulation->clock = (struct clock){
        .wall_us = outside_wall, .boot_us = outside_boot, .context = simulation, .boot_id = simulation->boot_id};
    simulation->uuids = (struct uuid_source){.random_state = random_next(&simulation->random), .seeded = true};
    if (on_server(simulation)) {
        server_make(simulation);
        set_server_clock(simulation);
    } else {
        file_make(simulation);
    }
    name_store(simulation, OUTSIDE, url);
    struct store_options options = {
        .url = url, .clock = &simulation->clock, .uuids = &simulation->uuids, .deadline_us = CALL_DEADLINE_US};
    if (store_open(&options, &simulation->outside, &error) != WEIR_OK ||
        store_act_as(simulation->outside, "tester", "drawn", &error) != WEIR_OK) {
        (void)fprintf(stderr, "simulation: %s\n", error.message);
        abort();
    }
    faulty_store_wrap(simulation, simulation->outside);
    open_engines(simulation);
    observer_open(simulation);
}

static void close_world(struct simulation *simulation)
{
    for (int i = 0; i < NODES_MOST; i++) {
        struct simulated_node *node = &simulation->nodes[i];
        if (node->life != NODE_ABSENT) {
            scripted_crash(node->engine, false);
            node->died = true;
            bury(node);
        }
    }
    for (int place = 0; place < simulation->place_count; place++) {
        scripted_world_close(simulation->engines[place]);
    }
    observer_close(simulation);
    store_close(simulation->outside);
    faulty_store_forget();
    if (on_server(simulation)) {
        server_remove(simulation);
    } else {
        file_remove(simulation);
    }
}

static void tamper(struct simulation *simulation)
{
    const struct mutant *mutant = simulation->options.mutant;
    if (mutant == NULL || mutant->tamper == NULL || simulation->result->tampered || simulation->depth > 0) {
        return;
    }
    sqlite3 *database;
    INVARIANT(!on_server(simulation));
    INVARIANT(sqlite3_open(simulation->path, &database) == SQLITE_OK);
    simulation->result->tampered = mutant->tamper(simulation, database);
    (void)sqlite3_close(database);
    observe(simulation);
}

static size_t count_live(const struct simulation *simulation)
{
    size_t live = 0;
    for (size_t i = 0; i < simulation->item_count; i++) {
        live += simulation->items[i].place == PLACE_LIVE;
    }
    return live;
}

static void run_with_faults(struct simulation *simulation)
{
    while (simulation->step < simulation->options.steps && !failed(simulation)) {
        simulation->step++;
        simulation->actor = OUTSIDE;
        tamper(simulation);
        maybe_fault(simulation);
        workload_step(simulation);
        world_step(simulation);
        if (simulation->step % CHECK_EVERY == 0) {
            check_store(simulation);
        }
    }
}

/* No fault any more: everything must come to its end. */
static void run_to_the_end(struct simulation *simulation)
{
    simulation->actor = OUTSIDE;
    simulation->calm = true;
    simulation->calm_since_us = simulation->boot_us;
    promptness_begin(simulation);
    for (int place = 0; place < simulation->place_count; place++) {
        scripted_world_calm(simulation->engines[place]);
    }
    for (int i = 0; i < simulation->profile.nodes && simulation->profile.is_mixed; i++) {
        if (simulation->nodes[i].place != home_of(&simulation->nodes[i])) {
            world_kill(simulation, &simulation->nodes[i]); /* what was started elsewhere needs a node there */
        }
    }
    say(simulation, "all is calm from here");
    int64_t end_us = simulation->boot_us + SETTLE_US;
    while (!failed(simulation) && simulation->boot_us < end_us &&
           (count_live(simulation) > 0 || schedules_go_on(simulation))) {
        if (simulation->step % 64 == 0) {
            for (int i = 0; i < simulation->profile.nodes && !failed(simulation); i++) {
                if (simulation->nodes[i].life == NODE_ABSENT) {
                    start_node(simulation, &simulation->nodes[i]);
                }
            }
            workload_settle(simulation);
        }
        simulation->step++;
        world_step(simulation);
        check_promptness(simulation);
        schedules_check_promptness(simulation);
        children_check_promptness(simulation);
    }
    if (!failed(simulation)) {
        check_everything_ended(simulation);
        check_store(simulation);
        check_times(simulation);
        check_story(simulation);
        check_actions(simulation);
    }
}

void simulation_run(const struct simulation_options *options, struct simulation_result *ret_result)
{
    struct simulation *simulation = calloc(1, sizeof *simulation);
    INVARIANT(simulation != NULL);
    memset(ret_result, 0, sizeof *ret_result);
    simulation->options = *options;
    simulation->result = ret_result;
    simulation->boot_us = BOOT_START_US;
    simulation->actor = OUTSIDE;
    random_seed(&simulation->random, options->seed);
    random_seed(&simulation->skew, options->skew);
    profile_draw(simulation);
    simulation->wall_start_us = simulation->season == SEASON_NONE
                                    ? WALL_START_US
                                    : season_change_us(simulation->season) - BOOT_START_US - CLOCKS_CHANGE_AFTER_US;
    open_world(simulation);
    workload_prepare(simulation);
    for (int i = 0; i < simulation->profile.nodes; i++) {
        start_node(simulation, &simulation->nodes[i]);
    }
    run_with_faults(simulation);
    if (!failed(simulation)) {
        run_to_the_end(simulation);
    }
    ret_result->items = simulation->item_count;
    close_world(simulation);
    free(simulation);
}
