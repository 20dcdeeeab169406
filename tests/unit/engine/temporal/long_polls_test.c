/* The runs that get a long poll: those of workspaces with a need for slots. On a virtual clock, with a service in memory:
 * first the engine alone, which is ordered to, then a whole node on a real SQLite store, which must detect the need. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "dispatch/node.h"
#include "engine/temporal/temporal_internal.h"
#include "support/fake_temporal.h"

#define SECOND_US MICROSECONDS_PER_SECOND
#define MS_US MICROSECONDS_PER_MS
#define DEFINITION "{\"name\": \"outside\", \"temporal\": {\"task_queue\": \"q\"}}"

enum { PLACES = 10, EACH = 10, WORKSPACES = 10 };

/* --- the engine --- */

struct bench {
    struct clock clock;
    int64_t now_us;
    struct fake_temporal *service;
    struct engine *engine;
    size_t ended;
    size_t impaired; /* reports of each kind */
    size_t sound;
    size_t down;
    char impairment[200];
};

static int64_t bench_now(void *context)
{
    return ((struct bench *)context)->now_us;
}

static void hear(void *context, struct report *report)
{
    struct bench *bench = context;
    if (report->kind == REPORT_ENDED) {
        struct recorded recorded = {.fence = report->fence, .kind = REPORT_ENDED, .status = WEIR_OK};
        memcpy(recorded.id, report->id, sizeof recorded.id);
        bench->ended++;
        engine_recorded(bench->engine, &recorded, 1);
    } else if (report->kind == REPORT_ENGINE_IMPAIRED) {
        bench->impaired++;
        text_copy(bench->impairment, sizeof bench->impairment, report->error);
    } else if (report->kind == REPORT_ENGINE_SOUND) {
        bench->sound++;
    } else if (report->kind == REPORT_ENGINE_DOWN) {
        bench->down++;
    }
    report_free(report);
}

static void pass(struct bench *bench, int64_t us)
{
    int64_t end_us = bench->now_us + us;
    while (bench->now_us < end_us) {
        int64_t next_us = engine_step(bench->engine);
        next_us = next_us < end_us ? next_us : end_us;
        bench->now_us = next_us > bench->now_us ? next_us : bench->now_us + 10;
    }
    (void)engine_step(bench->engine);
}

static const char *id_of(int workspace, int i, char *to)
{
    (void)snprintf(to, UUID_TEXT_MAX, "019aa000-0000-7000-8000-%012d", workspace * EACH + i);
    return to;
}

static const char *name_of(int workspace, char *to)
{
    (void)snprintf(to, 16, "w%d", workspace);
    return to;
}

static void open_service(struct bench *bench, size_t polls_max)
{
    memset(bench, 0, sizeof *bench);
    bench->now_us = 1000 * SECOND_US;
    bench->clock = (struct clock){.wall_us = bench_now, .boot_us = bench_now, .context = bench};
    bench->service = fake_temporal_open(&bench->clock);
    struct temporal_wire wire = fake_temporal_wire(bench->service);
    struct temporal_options options = {.clock = &bench->clock, .polls_max = polls_max, .starts_max = 1000};
    assert_int_equal(temporal_open_on(&options, &wire, &bench->engine, NULL), WEIR_OK);
    engine_set_sink(bench->engine, (struct report_sink){.report = hear, .context = bench});
}

static void start_one(struct bench *bench, int workspace, int i)
{
    char name[16];
    struct engine_start start = {.workspace = name_of(workspace, name),
                                 .workflow = "outside",
                                 .version = 1,
                                 .definition_id = 1,
                                 .definition = DEFINITION,
                                 .params = "{}",
                                 .params_length = 2,
                                 .fence = 5,
                                 .start_number = 1};
    (void)id_of(workspace, i, start.id);
    assert_int_equal(engine_start(bench->engine, &start, NULL), WEIR_OK);
}

/* EACH executions of each of so many workspaces, followed. */
static void open_bench_of(struct bench *bench, size_t polls_max, int workspaces)
{
    open_service(bench, polls_max);
    for (int workspace = 0; workspace < workspaces; workspace++) {
        for (int i = 0; i < EACH; i++) {
            start_one(bench, workspace, i);
        }
    }
    pass(bench, 2 * SECOND_US);
    assert_int_equal(engine_running(bench->engine), workspaces * EACH);
}

static void open_bench(struct bench *bench)
{
    open_bench_of(bench, PLACES, WORKSPACES);
}

/* All calls but starts. */
static size_t calls_of(const struct bench *bench)
{
    size_t calls = 0;
    for (int method = 0; method < FAKE_METHODS; method++) {
        calls += method == FAKE_START ? 0 : fake_temporal_calls(bench->service, (enum fake_method)method);
    }
    return calls;
}

static void close_bench(struct bench *bench)
{
    engine_close(bench->engine);
    fake_temporal_close(bench->service);
}

static void want(struct bench *bench, int workspace, bool wanted)
{
    char name[16];
    engine_want_slots(bench->engine, name_of(workspace, name), wanted);
}

static int waited_for(const struct bench *bench, int workspace)
{
    char id[UUID_TEXT_MAX];
    int count = 0;
    for (int i = 0; i < EACH; i++) {
        count += fake_temporal_is_waited_for(bench->service, id_of(workspace, i, id));
    }
    return count;
}

static void a_workspace_without_need_for_slots_gets_no_long_poll(void **state)
{
    struct bench bench;
    char id[UUID_TEXT_MAX];
    (void)state;
    open_bench(&bench);
    pass(&bench, 30 * SECOND_US);
    assert_int_equal(fake_temporal_calls(bench.service, FAKE_POLL), 0);
    fake_temporal_end(bench.service, id_of(3, 0, id), RUN_STATUS_COMPLETED, "1"); /* the list sees it */
    pass(&bench, 5 * SECOND_US);
    assert_int_equal(bench.ended, 1);
    close_bench(&bench);
}

static void long_polls_follow_the_need_for_slots(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    want(&bench, 3, true);
    want(&bench, 7, true);
    pass(&bench, SECOND_US);
    for (int workspace = 0; workspace < WORKSPACES; workspace++) {
        int waits = waited_for(&bench, workspace);
        assert_true(workspace == 3 || workspace == 7 ? waits >= 1 : waits == 0);
    }
    assert_int_equal(fake_temporal_polls_waiting(bench.service), PLACES / 2); /* the other half is for newcomers */
    want(&bench, 3, false);
    want(&bench, 5, true);
    pass(&bench, SECOND_US);
    assert_true(waited_for(&bench, 5) >= 1);
    pass(&bench, 25 * SECOND_US); /* the calls of before are answered after 20 s */
    assert_int_equal(waited_for(&bench, 3), 0);
    assert_true(waited_for(&bench, 5) >= 1 && waited_for(&bench, 7) >= 1);
    engine_abandon(bench.engine, NULL, 0);
    pass(&bench, SECOND_US);
    assert_int_equal(fake_temporal_polls_waiting(bench.service), 0);
    close_bench(&bench);
}

static void each_workspace_gets_one_long_poll_first(void **state)
{
    struct bench bench;
    char id[UUID_TEXT_MAX];
    (void)state;
    open_bench(&bench);
    for (int workspace = 0; workspace < WORKSPACES; workspace++) {
        want(&bench, workspace, true);
    }
    pass(&bench, SECOND_US);
    for (int workspace = 0; workspace < WORKSPACES; workspace++) {
        assert_int_equal(waited_for(&bench, workspace), 1);
        for (int i = 0; i < EACH; i++) {
            if (fake_temporal_is_waited_for(bench.service, id_of(workspace, i, id))) {
                fake_temporal_end(bench.service, id, RUN_STATUS_COMPLETED, "1");
            }
        }
    }
    fake_temporal_break_lists(bench.service, true);
    pass(&bench, 50 * MS_US);
    assert_int_equal(bench.ended, WORKSPACES);
    assert_int_equal(fake_temporal_polls_waiting(bench.service), PLACES); /* the next of each */
    close_bench(&bench);
}

static void refused_long_polls_leave_the_list_working(void **state)
{
    struct bench bench;
    char id[UUID_TEXT_MAX];
    (void)state;
    open_bench(&bench);
    fake_temporal_refuse_polls(bench.service, true);
    want(&bench, 3, true);
    pass(&bench, 10 * SECOND_US);
    assert_in_range(fake_temporal_calls(bench.service, FAKE_POLL), 1, 20);
    fake_temporal_end(bench.service, id_of(3, 0, id), RUN_STATUS_COMPLETED, "1");
    pass(&bench, 5 * SECOND_US);
    assert_int_equal(bench.ended, 1);
    fake_temporal_refuse_polls(bench.service, false);
    pass(&bench, 61 * SECOND_US);
    assert_true(waited_for(&bench, 3) >= 1);
    close_bench(&bench);
}

static void after_an_outage_all_long_polls_are_sent_again(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    want(&bench, 3, true);
    pass(&bench, SECOND_US);
    size_t waits = fake_temporal_polls_waiting(bench.service);
    assert_true(waits >= 1);
    fake_temporal_set_fault(bench.service, FAKE_LOSE_REQUEST);
    pass(&bench, 10 * SECOND_US); /* shorter than the calls that wait */
    assert_int_equal(fake_temporal_polls_waiting(bench.service), waits);
    size_t before = fake_temporal_calls(bench.service, FAKE_POLL);
    fake_temporal_set_fault(bench.service, FAKE_FINE);
    pass(&bench, SECOND_US / 2);
    assert_int_equal(fake_temporal_calls(bench.service, FAKE_POLL), before + waits);
    assert_int_equal(fake_temporal_polls_waiting(bench.service), waits);
    close_bench(&bench);
}

/* --- few that run, and many --- */

/* Nobody wants its slot, and no list shows it. */
static void the_end_of_a_lone_execution_is_found_at_once(void **state)
{
    struct bench bench;
    char id[UUID_TEXT_MAX];
    (void)state;
    open_service(&bench, PLACES);
    fake_temporal_break_lists(bench.service, true);
    start_one(&bench, 0, 0);
    pass(&bench, 300 * MS_US);
    fake_temporal_end(bench.service, id_of(0, 0, id), RUN_STATUS_COMPLETED, "1");
    pass(&bench, 10 * MS_US);
    assert_int_equal(bench.ended, 1);
    close_bench(&bench);
}

static void a_lone_execution_costs_two_calls(void **state)
{
    enum { MANY = 400 };
    struct bench bench;
    char id[UUID_TEXT_MAX];
    (void)state;
    open_service(&bench, PLACES);
    for (int i = 0; i < MANY; i++) {
        start_one(&bench, 0, i);
        pass(&bench, 300 * MS_US);
        fake_temporal_end(bench.service, id_of(0, i, id), RUN_STATUS_COMPLETED, "1");
        pass(&bench, SECOND_US);
        assert_int_equal(bench.ended, i + 1);
    }
    assert_int_equal(fake_temporal_calls(bench.service, FAKE_START), MANY);
    assert_in_range(MANY + calls_of(&bench), 2 * MANY, 23 * MANY / 10);
    assert_int_equal(fake_temporal_calls(bench.service, FAKE_DESCRIBE), 0);
    close_bench(&bench);
}

/* Of 2,000 open ones all slots are wanted; the default number of places. */
static void two_thousand_open_ones_cost_at_most_600_calls_a_minute(void **state)
{
    enum { MANY = 200 };
    struct bench bench;
    char id[UUID_TEXT_MAX];
    (void)state;
    open_bench_of(&bench, 0, MANY);
    for (int wanted = 0; wanted <= MANY; wanted += MANY / 2) {
        for (int i = 0; i < wanted; i++) {
            want(&bench, i, true);
        }
        pass(&bench, 60 * SECOND_US);
        for (int minute = 0; minute < 10; minute++) {
            size_t before = calls_of(&bench);
            pass(&bench, 60 * SECOND_US);
            assert_in_range(calls_of(&bench) - before, 60, 600);
        }
    }
    fake_temporal_end(bench.service, id_of(MANY - 1, EACH - 1, id), RUN_STATUS_COMPLETED, "1");
    pass(&bench, 3 * SECOND_US);
    assert_int_equal(bench.ended, 1);
    close_bench(&bench);
}

/* More runs than places: runs of workspaces without need for slots lose their long polls at once. */
static void a_wanted_slot_takes_the_place_of_an_unwanted_one(void **state)
{
    struct bench bench;
    (void)state;
    open_service(&bench, PLACES);
    for (int i = 0; i < PLACES; i++) {
        start_one(&bench, 0, i);
    }
    pass(&bench, SECOND_US);
    assert_int_equal(waited_for(&bench, 0), PLACES);
    start_one(&bench, 1, 0);
    pass(&bench, SECOND_US);
    assert_int_equal(waited_for(&bench, 1), 0);
    want(&bench, 1, true);
    pass(&bench, 50 * MS_US);
    assert_int_equal(waited_for(&bench, 1), 1);
    assert_int_equal(fake_temporal_polls_waiting(bench.service), PLACES);
    pass(&bench, 45 * SECOND_US); /* the other long polls are not renewed */
    assert_int_equal(waited_for(&bench, 0), 0);
    assert_int_equal(waited_for(&bench, 1), 1);
    close_bench(&bench);
}

/* --- a list that fails --- */

static void end_workspace(struct bench *bench, int workspace)
{
    char id[UUID_TEXT_MAX];
    for (int i = 0; i < EACH; i++) {
        fake_temporal_end(bench->service, id_of(workspace, i, id), RUN_STATUS_COMPLETED, "1");
    }
}

static void end_all(struct bench *bench, int workspaces)
{
    for (int workspace = 0; workspace < workspaces; workspace++) {
        end_workspace(bench, workspace);
    }
}

static void a_list_that_fails_is_reported_and_ends_are_found_without_it(void **state)
{
    static const enum fake_fault faults[] = {FAKE_DENIED, FAKE_THROTTLE, FAKE_UNAVAILABLE, FAKE_GARBAGE, FAKE_TIME_OUT};
    enum { MANY = 200 };
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct bench bench;
        open_service(&bench, PLACES);
        fake_temporal_fail_lists(bench.service, faults[i]);
        for (int j = 0; j < MANY * EACH; j++) {
            start_one(&bench, j / EACH, j % EACH);
        }
        bool hangs = faults[i] == FAKE_TIME_OUT;
        pass(&bench, (hangs ? 25 : 10) * SECOND_US);
        assert_true(bench.impaired >= 1);
        assert_int_equal(bench.down, 0);
        assert_true(bench.impairment[0] != '\0');
        /* Few ends among many that stay open: long polls wait for the open ones. */
        end_workspace(&bench, MANY - 1);
        pass(&bench, 5 * SECOND_US);
        assert_int_equal(bench.ended, EACH);
        end_all(&bench, MANY - 1);
        pass(&bench, 5 * SECOND_US);
        assert_int_equal(bench.ended, MANY * EACH);
        /* It is asked again until it answers, also while nothing runs. */
        assert_int_equal(bench.sound, 0);
        fake_temporal_fail_lists(bench.service, FAKE_FINE);
        pass(&bench, (hangs ? 15 : 5) * SECOND_US);
        assert_int_equal(bench.sound, 1);
        size_t impaired = bench.impaired;
        pass(&bench, 30 * SECOND_US);
        assert_int_equal(bench.impaired, impaired);
        close_bench(&bench);
    }
}

/* It answers and shows nothing: an end that a waiting call saw does not appear. */
static void a_list_that_stands_still_is_reported(void **state)
{
    struct bench bench;
    char id[UUID_TEXT_MAX];
    (void)state;
    open_bench(&bench);
    pass(&bench, 60 * SECOND_US);
    assert_int_equal(bench.impaired, 0);
    want(&bench, 0, true);
    pass(&bench, SECOND_US);
    fake_temporal_break_lists(bench.service, true);
    end_all(&bench, 1);
    fake_temporal_end(bench.service, id_of(5, 0, id), RUN_STATUS_COMPLETED, "1"); /* it has no long poll */
    pass(&bench, 30 * SECOND_US);
    assert_int_equal(bench.ended, EACH + 1);
    assert_true(bench.impaired >= 1);
    fake_temporal_break_lists(bench.service, false);
    pass(&bench, 5 * SECOND_US);
    assert_int_equal(bench.sound, 1);
    close_bench(&bench);
}

/* The whole service is down: the engine reports the outage, and no impaired list. */
static void an_outage_does_not_impair_the_list(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    fake_temporal_set_fault(bench.service, FAKE_NOT_SENT);
    pass(&bench, 30 * SECOND_US);
    assert_true(bench.down >= 1);
    fake_temporal_set_fault(bench.service, FAKE_FINE);
    pass(&bench, 10 * SECOND_US);
    assert_int_equal(bench.impaired, 0);
    close_bench(&bench);
}

/* --- a node --- */

enum { BACKLOG = 12, WIDE = 8 };

struct scene {
    struct bench bench;
    char folder[64];
    struct store *store;
    struct node *node;
    struct event_bus events;
    char full[BACKLOG][UUID_TEXT_MAX];
    char wide[WIDE][UUID_TEXT_MAX];
};

static void pass_node(struct scene *scene, int64_t us)
{
    struct bench *bench = &scene->bench;
    int64_t end_us = bench->now_us + us;
    while (bench->now_us < end_us) {
        int64_t next_us = node_step(scene->node);
        next_us = next_us < end_us ? next_us : end_us;
        bench->now_us = next_us > bench->now_us ? next_us : bench->now_us + 10;
    }
    (void)node_step(scene->node);
}

static void enqueue(struct scene *scene, const char *workspace, char (*ids)[UUID_TEXT_MAX], int count)
{
    for (int i = 0; i < count; i++) {
        struct enqueue_request request = {.workspace = workspace, .workflow = "outside"};
        struct enqueue_result result;
        assert_int_equal(store_enqueue(scene->store, &request, 1, &result, NULL), WEIR_OK);
        assert_int_equal(result.status, WEIR_OK);
        memcpy(ids[i], result.id, sizeof ids[i]);
        node_wake(scene->node);
        pass_node(scene, MS_US);
    }
}

static void open_scene(struct scene *scene)
{
    static const struct {
        const char *name;
        int slots;
    } workspaces[] = {{"full", 1}, {"wide", 2 * WIDE}};
    char url[96];
    struct published published;
    memset(scene, 0, sizeof *scene);
    struct bench *bench = &scene->bench;
    bench->now_us = 1000 * SECOND_US;
    bench->clock = (struct clock){.wall_us = bench_now, .boot_us = bench_now, .context = bench};
    (void)snprintf(scene->folder, sizeof scene->folder, "%s/weir-waits-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(scene->folder));
    (void)snprintf(url, sizeof url, "sqlite:%s/weir.db", scene->folder);
    struct store_options store_options = {.url = url, .create = true, .clock = &bench->clock};
    assert_int_equal(store_open(&store_options, &scene->store, NULL), WEIR_OK);
    assert_int_equal(store_migrate(scene->store, NULL, NULL), WEIR_OK);
    for (size_t i = 0; i < sizeof workspaces / sizeof workspaces[0]; i++) {
        struct workspace_change change = {
            .name = workspaces[i].name, .paused = -1, .create = true, .max_concurrent = workspaces[i].slots};
        assert_int_equal(store_set_workspace(scene->store, &change, NULL), WEIR_OK);
    }
    assert_int_equal(store_publish(scene->store, "outside", NULL, DEFINITION, NULL, &published, NULL), WEIR_OK);
    bench->service = fake_temporal_open(&bench->clock);
    struct temporal_wire wire = fake_temporal_wire(bench->service);
    struct temporal_options options = {.clock = &bench->clock, .polls_max = WIDE / 2}; /* fewer than the runs */
    assert_int_equal(temporal_open_on(&options, &wire, &bench->engine, NULL), WEIR_OK);
    struct node_settings settings = {.name = "node", .seed = 7, .clock = &bench->clock};
    assert_int_equal(node_open(scene->store, bench->engine, &scene->events, &settings, &scene->node, NULL), WEIR_OK);
    pass_node(scene, 5 * SECOND_US); /* the node knows its target, and gets the items */
    enqueue(scene, "full", scene->full, BACKLOG);
    enqueue(scene, "wide", scene->wide, WIDE);
    pass_node(scene, 25 * SECOND_US); /* the first ones had calls, while few ran: these are not made again */
}

static void close_scene(struct scene *scene)
{
    static const char *const endings[] = {"", "-wal", "-shm"};
    char path[128];
    node_close(scene->node);
    close_bench(&scene->bench);
    store_close(scene->store);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/weir.db%s", scene->folder, endings[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(scene->folder), 0);
}

static void expect_none_waited_for(const struct scene *scene)
{
    for (int i = 0; i < WIDE; i++) {
        assert_int_equal(fake_temporal_chains(scene->bench.service, scene->wide[i]), 1);
        assert_false(fake_temporal_is_waited_for(scene->bench.service, scene->wide[i]));
    }
}

/* One slot and a backlog, and beside it a workspace with room for all that it has. */
static void a_node_polls_for_full_workspaces_alone(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    struct fake_temporal *service = scene.bench.service;
    assert_int_equal(fake_temporal_polls_waiting(service), 0); /* nothing has waited for a slot yet */
    fake_temporal_end(service, scene.full[0], RUN_STATUS_COMPLETED, "1");
    pass_node(&scene, 5 * SECOND_US);
    fake_temporal_break_lists(service, true);
    for (int i = 1; i < BACKLOG - 1; i++) {
        assert_true(fake_temporal_is_waited_for(service, scene.full[i]));
        expect_none_waited_for(&scene);
        fake_temporal_end(service, scene.full[i], RUN_STATUS_COMPLETED, "1");
        pass_node(&scene, 100 * MS_US); /* from the end to the next start */
        assert_int_equal(fake_temporal_chains(service, scene.full[i + 1]), 1);
        pass_node(&scene, 500 * MS_US);
    }
    /* The last one, and then one that need not wait. */
    fake_temporal_break_lists(service, false);
    fake_temporal_end(service, scene.full[BACKLOG - 1], RUN_STATUS_COMPLETED, "1");
    pass_node(&scene, 15 * SECOND_US);
    size_t polls = fake_temporal_calls(service, FAKE_POLL);
    enqueue(&scene, "full", scene.full, 1);
    pass_node(&scene, 30 * SECOND_US);
    assert_int_equal(fake_temporal_chains(service, scene.full[0]), 1);
    assert_false(fake_temporal_is_waited_for(service, scene.full[0]));
    expect_none_waited_for(&scene);
    assert_true(fake_temporal_calls(service, FAKE_POLL) <= polls + 1);
    close_scene(&scene);
}

/* The waiting items that the claim itself has seen (SQLite). */
static void the_first_run_of_a_backlog_gets_a_long_poll_at_once(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    for (int i = 0; i < BACKLOG; i++) {
        fake_temporal_end(scene.bench.service, scene.full[i], RUN_STATUS_COMPLETED, "1");
        pass_node(&scene, 5 * SECOND_US);
    }
    pass_node(&scene, 30 * SECOND_US);
    node_pause(scene.node);
    enqueue(&scene, "full", scene.full, 3);
    node_resume(scene.node);
    pass_node(&scene, 50 * MS_US);
    assert_true(fake_temporal_is_waited_for(scene.bench.service, scene.full[0]));
    expect_none_waited_for(&scene);
    close_scene(&scene);
}

/* No claim since the items wait: the poll of the workspaces, once a minute, detects the need. */
static void a_long_run_gets_a_long_poll_within_two_minutes(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene);
    assert_false(fake_temporal_is_waited_for(scene.bench.service, scene.full[0]));
    pass_node(&scene, 120 * SECOND_US);
    assert_true(fake_temporal_is_waited_for(scene.bench.service, scene.full[0]));
    expect_none_waited_for(&scene);
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_workspace_without_need_for_slots_gets_no_long_poll),
        cmocka_unit_test(long_polls_follow_the_need_for_slots),
        cmocka_unit_test(each_workspace_gets_one_long_poll_first),
        cmocka_unit_test(refused_long_polls_leave_the_list_working),
        cmocka_unit_test(after_an_outage_all_long_polls_are_sent_again),
        cmocka_unit_test(the_end_of_a_lone_execution_is_found_at_once),
        cmocka_unit_test(a_lone_execution_costs_two_calls),
        cmocka_unit_test(two_thousand_open_ones_cost_at_most_600_calls_a_minute),
        cmocka_unit_test(a_wanted_slot_takes_the_place_of_an_unwanted_one),
        cmocka_unit_test(a_list_that_fails_is_reported_and_ends_are_found_without_it),
        cmocka_unit_test(a_list_that_stands_still_is_reported),
        cmocka_unit_test(an_outage_does_not_impair_the_list),
        cmocka_unit_test(a_node_polls_for_full_workspaces_alone),
        cmocka_unit_test(the_first_run_of_a_backlog_gets_a_long_poll_at_once),
        cmocka_unit_test(a_long_run_gets_a_long_poll_within_two_minutes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
