/* A whole node before a service that is away for ten minutes, and before one that holds ten thousand of its executions:
 * real SQLite store, Temporal engine, service in memory, virtual clock. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "dispatch/node.h"
#include "engine/temporal/temporal_internal.h"
#include "support/fake_temporal.h"

#define SECOND_US MICROSECONDS_PER_SECOND
#define OUTAGE_US (600 * SECOND_US)
#define SHORT_OUTAGE_US (60 * SECOND_US) /* longer than anything that grows with an outage goes on growing */
#define RESUME_US (2 * SECOND_US)
#define DEFINITION "{\"name\":\"outside\",\"temporal\":{\"task_queue\":\"q\"}}"

enum { EXECUTIONS = 60, SLOTS = 20, OPEN = 10000 };

struct scene {
    struct clock clock;
    int64_t now_us;
    char folder[64];
    struct store *store;
    struct fake_temporal *service;
    struct engine *engine;
    struct node *node;
    struct event_bus events;
    size_t dispatched;
    size_t failed;
    char ids[EXECUTIONS][UUID_TEXT_MAX];
};

static int64_t boot_now(void *context)
{
    return ((struct scene *)context)->now_us;
}

static int64_t wall_now(void *context)
{
    return 1800000000 * SECOND_US + ((struct scene *)context)->now_us;
}

static void hear(void *context, const struct event *event)
{
    struct scene *scene = context;
    scene->dispatched += event->type == EVENT_EXECUTION_DISPATCHED;
    scene->failed += event->type == EVENT_EXECUTION_FAILED || event->type == EVENT_DISPATCH_FAILED ||
                     event->type == EVENT_EXECUTION_RETRYING;
}

static void open_store(struct scene *scene)
{
    char url[96];
    struct published published;
    struct plan_change plan = {.name = "narrow", .max_concurrent = SLOTS};
    struct workspace_change workspace = {.name = "acme", .plan = "narrow", .paused = -1, .create = true};
    (void)snprintf(scene->folder, sizeof scene->folder, "%s/weir-outage-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(scene->folder));
    (void)snprintf(url, sizeof url, "sqlite:%s/weir.db", scene->folder);
    struct store_options options = {.url = url, .create = true, .clock = &scene->clock};
    assert_int_equal(store_open(&options, &scene->store, NULL), WEIR_OK);
    assert_int_equal(store_migrate(scene->store, NULL, NULL), WEIR_OK);
    assert_int_equal(store_set_plan(scene->store, &plan, NULL), WEIR_OK);
    assert_int_equal(store_set_workspace(scene->store, &workspace, NULL), WEIR_OK);
    assert_int_equal(store_publish(scene->store, "outside", NULL, DEFINITION, NULL, &published, NULL), WEIR_OK);
}

static void open_scene(struct scene *scene)
{
    memset(scene, 0, sizeof *scene);
    scene->now_us = 60 * SECOND_US;
    scene->clock = (struct clock){.wall_us = wall_now, .boot_us = boot_now, .context = scene};
    open_store(scene);
    scene->service = fake_temporal_open(&scene->clock);
    struct temporal_wire wire = fake_temporal_wire(scene->service);
    struct temporal_options options = {.clock = &scene->clock};
    assert_int_equal(temporal_open_on(&options, &wire, &scene->engine, NULL), WEIR_OK);
    engine_want_slots(scene->engine, "acme", true); /* ends are seen at once */
    assert_true(event_subscribe(&scene->events, hear, scene));
    struct node_settings settings = {.name = "node", .seed = 7, .clock = &scene->clock};
    assert_int_equal(node_open(scene->store, scene->engine, &scene->events, &settings, &scene->node, NULL), WEIR_OK);
    for (int i = 0; i < EXECUTIONS; i++) {
        struct enqueue_request request = {.workspace = "acme", .workflow = "outside"};
        struct enqueue_result result;
        assert_int_equal(store_enqueue(scene->store, &request, 1, &result, NULL), WEIR_OK);
        assert_int_equal(result.status, WEIR_OK);
        memcpy(scene->ids[i], result.id, sizeof scene->ids[i]);
    }
}

static void close_scene(struct scene *scene)
{
    static const char *const endings[] = {"", "-wal", "-shm"};
    char path[128];
    node_close(scene->node);
    engine_close(scene->engine);
    assert_true(fake_temporal_starts_are_equal(scene->service));
    fake_temporal_close(scene->service);
    store_close(scene->store);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/weir.db%s", scene->folder, endings[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(scene->folder), 0);
}

static void pass(struct scene *scene, int64_t us)
{
    int64_t end_us = scene->now_us + us;
    while (scene->now_us < end_us) {
        int64_t next_us = node_step(scene->node);
        next_us = next_us < end_us ? next_us : end_us;
        scene->now_us = next_us > scene->now_us ? next_us : scene->now_us + 10;
    }
    (void)node_step(scene->node);
}

/* Ends each workflow that is open in the service and on record as running. */
static void end_what_runs(struct scene *scene, size_t most)
{
    for (size_t i = 0; i < EXECUTIONS && most > 0; i++) {
        json_t *why = NULL;
        assert_int_equal(store_why(scene->store, scene->ids[i], &why, NULL), WEIR_OK);
        const char *status = json_string_value(json_object_get(why, "status"));
        if (strcmp(status, "DISPATCHED") == 0) {
            fake_temporal_end(scene->service, scene->ids[i], RUN_STATUS_COMPLETED, "1");
            most--;
        }
        json_decref(why);
    }
}

/* Everything ends, each with one chain and without a failure. */
static void finish(struct scene *scene)
{
    json_t *status = NULL;
    json_int_t completed = 0;
    for (int rounds = 0; rounds < 100 && completed < EXECUTIONS; rounds++) {
        end_what_runs(scene, EXECUTIONS);
        pass(scene, 40 * SECOND_US);
        assert_int_equal(store_status(scene->store, 10, &status, NULL), WEIR_OK);
        completed = json_integer_value(json_object_get(status, "completed"));
        json_decref(status);
    }
    assert_int_equal(completed, EXECUTIONS);
    assert_int_equal(scene->failed, 0);
    for (size_t i = 0; i < EXECUTIONS; i++) {
        json_t *execution = NULL;
        assert_int_equal(fake_temporal_chains(scene->service, scene->ids[i]), 1);
        assert_int_equal(store_show(scene->store, scene->ids[i], &execution, NULL), WEIR_OK);
        assert_int_equal(json_integer_value(json_object_get(execution, "starts_refused")), 0);
        json_decref(execution);
    }
}

/* Half of the runs end during the outage; waiting items get their slots once the service is back. */
static void be_away(enum fake_fault fault, int64_t outage_us)
{
    struct scene scene;
    open_scene(&scene);
    pass(&scene, 2 * SECOND_US);
    assert_int_equal(scene.dispatched, SLOTS);
    end_what_runs(&scene, 1);
    fake_temporal_set_fault(scene.service, fault); /* the freed slot's start meets it */
    pass(&scene, SECOND_US);
    end_what_runs(&scene, SLOTS / 2);
    pass(&scene, outage_us);
    fake_temporal_set_fault(scene.service, FAKE_FINE);
    size_t before = scene.dispatched;
    pass(&scene, RESUME_US);
    assert_true(scene.dispatched > before);
    finish(&scene);
    close_scene(&scene);
}

static void work_resumes_within_two_seconds_of_a_long_outage(void **state)
{
    static const enum fake_fault faults[] = {FAKE_NOT_SENT, FAKE_LOSE_REQUEST, FAKE_LOSE_ANSWER, FAKE_UNAVAILABLE,
                                             FAKE_NAMESPACE};
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        print_message("# fault %d\n", (int)faults[i]);
        for (int64_t later_us = 0; later_us < 2 * SECOND_US; later_us += SECOND_US * 7 / 10) {
            /* Whichever call was to be tried again when. */
            be_away(faults[i], (later_us == 0 ? OUTAGE_US : SHORT_OUTAGE_US) + later_us);
        }
    }
}

/* Starts that have no answer hold their slots, and the room for others: they must not sit out a pause that the outage made
 * long. */
static void starts_under_way_resume_within_two_seconds(void **state)
{
    static const enum fake_fault faults[] = {FAKE_LOSE_REQUEST, FAKE_LOSE_ANSWER, FAKE_UNAVAILABLE};
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct scene scene;
        print_message("# fault %d\n", (int)faults[i]);
        open_scene(&scene);
        fake_temporal_set_fault(scene.service, faults[i]);
        pass(&scene, OUTAGE_US);
        assert_int_equal(scene.dispatched, 0);
        fake_temporal_set_fault(scene.service, FAKE_FINE);
        pass(&scene, RESUME_US);
        assert_int_equal(scene.dispatched, SLOTS);
        finish(&scene);
        close_scene(&scene);
    }
}

/* --- many open ones --- */

struct many {
    struct clock clock;
    int64_t now_us;
    size_t started;
};

static int64_t many_now(void *context)
{
    return ((struct many *)context)->now_us;
}

static void count_started(void *context, struct report *report)
{
    ((struct many *)context)->started += report->kind == REPORT_STARTED;
    report_free(report);
}

static void pass_engine(struct many *many, struct engine *engine, int64_t us)
{
    int64_t end_us = many->now_us + us;
    while (many->now_us < end_us) {
        int64_t next_us = engine_step(engine);
        next_us = next_us < end_us ? next_us : end_us;
        many->now_us = next_us > many->now_us ? next_us : many->now_us + 10;
    }
    (void)engine_step(engine);
}

static void start_many(struct many *many, struct engine *engine)
{
    for (size_t sent = 0; sent < OPEN;) {
        for (size_t room = engine_free_capacity(engine); room > 0 && sent < OPEN; room--, sent++) {
            struct engine_start start = {.workflow = "outside",
                                         .version = 1,
                                         .definition_id = 1,
                                         .definition = DEFINITION,
                                         .params = "{}",
                                         .params_length = 2,
                                         .fence = 1,
                                         .start_number = 1};
            char workspace[32];
            (void)snprintf(workspace, sizeof workspace, "w%zu", sent % 1000);
            start.workspace = workspace;
            (void)snprintf(start.id, sizeof start.id, "019aa000-0000-7000-8000-%012zu", sent);
            assert_int_equal(engine_start(engine, &start, NULL), WEIR_OK);
        }
        pass_engine(many, engine, 10 * MICROSECONDS_PER_MS);
    }
    pass_engine(many, engine, SECOND_US);
    assert_int_equal(many->started, OPEN);
}

/* The service's own limits, per namespace and frontend: ten lists a second, 2,400 calls a second, 1,200 waiting ones. Of
 * lists and calls a tenth is what following may take, in each second: also when all waiting calls end in the same one, and
 * however the times of looks were drawn. */
static void ten_thousand_open_runs_are_followed_within_the_limits(void **state)
{
    enum { LISTS = 1, CALLS = 240, LOOKS = 3, MINUTE = 600, SECONDS = 600 };
    struct many many = {.now_us = 60 * SECOND_US};
    struct engine *engine = NULL;
    size_t minute = 0;
    (void)state;
    many.clock = (struct clock){.wall_us = many_now, .boot_us = many_now, .context = &many};
    struct fake_temporal *service = fake_temporal_open(&many.clock);
    struct temporal_wire wire = fake_temporal_wire(service);
    struct temporal_options options = {.clock = &many.clock, .max_running = OPEN};
    assert_int_equal(temporal_open_on(&options, &wire, &engine, NULL), WEIR_OK);
    engine_set_sink(engine, (struct report_sink){.report = count_started, .context = &many});
    for (int i = 0; i < 1000; i++) {
        char workspace[32];
        (void)snprintf(workspace, sizeof workspace, "w%d", i);
        engine_want_slots(engine, workspace, true);
    }
    start_many(&many, engine);
    size_t lists = fake_temporal_calls(service, FAKE_LIST);
    for (int second = 0; second < SECONDS; second++) {
        size_t before[FAKE_METHODS];
        size_t calls = 0;
        for (int method = 0; method < FAKE_METHODS; method++) {
            before[method] = fake_temporal_calls(service, (enum fake_method)method);
        }
        pass_engine(&many, engine, SECOND_US);
        for (int method = 0; method < FAKE_METHODS; method++) {
            calls += fake_temporal_calls(service, (enum fake_method)method) - before[method];
        }
        assert_in_range(calls, 0, CALLS);
        minute = second % 60 == 0 ? calls : minute + calls;
        assert_in_range(minute, 0, MINUTE);
        assert_in_range(fake_temporal_calls(service, FAKE_DESCRIBE) - before[FAKE_DESCRIBE], 0, LOOKS);
        assert_in_range(fake_temporal_polls_waiting(service), 1, TEMPORAL_POLLS_MAX_DEFAULT);
    }
    assert_in_range(fake_temporal_calls(service, FAKE_LIST) - lists, SECONDS / 2, LISTS * SECONDS + 1);
    assert_true(fake_temporal_calls(service, FAKE_DESCRIBE) >= SECONDS / 4);
    engine_close(engine);
    fake_temporal_close(service);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_resumes_within_two_seconds_of_a_long_outage),
        cmocka_unit_test(starts_under_way_resume_within_two_seconds),
        cmocka_unit_test(ten_thousand_open_runs_are_followed_within_the_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
