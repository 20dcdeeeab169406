/* The engine over its real connection, before a scripted server that takes each start and then fails in many ways: every
 * start is reported once, none is released while it runs, and all requests of an execution are equal. */
#include "support/test.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "engine/temporal/temporal.h"
#include "engine/temporal/temporal.pb-c.h"
#include "support/frontend.h"
#include "support/seed.h"

enum { STARTS = 200 };
#define DEFINITION "{\"name\": \"onboard\", \"temporal\": {\"task_queue\": \"q\"}}"
#define DEADLINE_US (60 * MICROSECONDS_PER_SECOND)

struct started {
    char workflow_id[64];
    uint8_t *bytes;
    size_t length;
    int requests;
    bool runs;
    bool differs;
};

struct scene {
    struct random random;
    struct frontend *frontend;
    struct engine *engine;
    struct started starts[STARTS];
    size_t start_count;
    int per_mille; /* of starts that meet a fault */
    int told[STARTS];
    int let_go; /* reports that give the slot back although it runs */
    size_t faults;
};

static struct started *find(struct scene *scene, const char *workflow_id)
{
    for (size_t i = 0; i < scene->start_count; i++) {
        if (strcmp(scene->starts[i].workflow_id, workflow_id) == 0) {
            return &scene->starts[i];
        }
    }
    assert_true(scene->start_count < STARTS);
    struct started *started = &scene->starts[scene->start_count++];
    (void)snprintf(started->workflow_id, sizeof started->workflow_id, "%s", workflow_id);
    return started;
}

static void take_start(struct scene *scene, const struct frontend_call *call, struct frontend_answer *answer)
{
    static const enum fate fates[] = {FATE_RESET,        FATE_HEADERS_THEN_RESET, FATE_CUT,         FATE_CLOSE,
                                      FATE_GOAWAY_BELOW, FATE_GOAWAY_THEN_ANSWER, FATE_NO_TRAILERS, FATE_HEADERS_ONLY};
    static uint8_t bytes[256];
    TemporalApi__StartWorkflowExecutionRequest *asked =
        temporal_api__start_workflow_execution_request__unpack(NULL, call->message_length, call->message);
    assert_non_null(asked);
    struct started *started = find(scene, asked->workflow_id);
    temporal_api__start_workflow_execution_request__free_unpacked(asked, NULL);
    if (started->requests++ == 0) {
        started->bytes = malloc(call->message_length);
        assert_non_null(started->bytes);
        memcpy(started->bytes, call->message, call->message_length);
        started->length = call->message_length;
    } else if (started->length != call->message_length ||
               memcmp(started->bytes, call->message, call->message_length) != 0) {
        started->differs = true;
    }
    answer->fate = FATE_ANSWER;
    if ((int)random_below(&scene->random, 1000) < scene->per_mille) {
        answer->fate = fates[random_below(&scene->random, sizeof fates / sizeof fates[0])];
        answer->reset_code = answer->fate == FATE_GOAWAY_BELOW || answer->fate == FATE_GOAWAY_THEN_ANSWER ? 0 : 2;
        scene->faults++;
    }
    started->runs = started->runs || answer->fate != FATE_GOAWAY_BELOW;
    TemporalApi__StartWorkflowExecutionResponse reply = TEMPORAL_API__START_WORKFLOW_EXECUTION_RESPONSE__INIT;
    reply.run_id = (char *)(uintptr_t) "00000000-0000-4000-8000-000000000001";
    reply.started = 1;
    reply.status = 1;
    answer->response_length = temporal_api__start_workflow_execution_response__pack(&reply, bytes);
    answer->response = bytes;
}

static void handle(void *context, const struct frontend_call *call, struct frontend_answer *answer)
{
    if (strstr(call->path, "/StartWorkflowExecution") != NULL) {
        take_start(context, call, answer);
    } else if (strstr(call->path, "/GetWorkflowExecutionHistory") != NULL) {
        answer->fate = FATE_HOLD;
    } else {
        answer->fate = FATE_ANSWER;
        answer->code = 14;
        answer->message = "not now";
    }
}

static void hear(void *context, struct report *report)
{
    struct scene *scene = context;
    char workflow_id[64];
    if (report->id[0] == '\0') {
        report_free(report); /* of no start */
        return;
    }
    (void)snprintf(workflow_id, sizeof workflow_id, "execution-%s", report->id);
    const struct started *started = find(scene, workflow_id);
    bool gives_back = report->kind == REPORT_REFUSED || (report->kind == REPORT_UNREACHABLE && !report->may_run);
    if (report->kind == REPORT_STARTED) {
        scene->told[started - scene->starts]++;
    }
    scene->let_go += gives_back && started->runs;
    report_free(report);
}

static struct engine_start start_of(int number)
{
    struct engine_start start = {.workspace = "acme",
                                 .workflow = "onboard",
                                 .version = 1,
                                 .definition_id = 1,
                                 .definition = DEFINITION,
                                 .params = "{}",
                                 .params_length = 2,
                                 .fence = 1,
                                 .start_number = 1};
    (void)snprintf(start.id, sizeof start.id, "019aa000-0000-7000-8000-%012d", number);
    return start;
}

static void open_scene(struct scene *scene, int per_mille)
{
    memset(scene, 0, sizeof *scene);
    test_seed(&scene->random, "faults_test");
    scene->per_mille = per_mille;
    scene->frontend = frontend_open(&(struct frontend_options){.handler = handle, .context = scene});
    assert_non_null(scene->frontend);
    struct temporal_options options = {.address = frontend_address(scene->frontend)};
    assert_int_equal(temporal_open(&options, &scene->engine, NULL), WEIR_OK);
    engine_set_sink(scene->engine, (struct report_sink){.report = hear, .context = scene});
}

static void close_scene(struct scene *scene)
{
    engine_close(scene->engine);
    frontend_close(scene->frontend);
    for (size_t i = 0; i < scene->start_count; i++) {
        free(scene->starts[i].bytes);
    }
}

static int told(const struct scene *scene)
{
    int count = 0;
    for (int i = 0; i < STARTS; i++) {
        count += scene->told[i] > 0;
    }
    return count;
}

/* An execution that was given back comes again as a new claim, as the dispatcher would do. */
static void drive(struct scene *scene, int wanted)
{
    int64_t end_us = clock_boot(clock_system()) + DEADLINE_US;
    int next = 0;
    while (told(scene) < wanted && clock_boot(clock_system()) < end_us) {
        for (size_t room = engine_free_capacity(scene->engine); room > 0; room--) {
            struct engine_start start = start_of(next++ % STARTS);
            char workflow_id[64];
            (void)snprintf(workflow_id, sizeof workflow_id, "execution-%s", start.id);
            if (scene->told[find(scene, workflow_id) - scene->starts] == 0) {
                assert_int_equal(engine_start(scene->engine, &start, NULL), WEIR_OK);
            }
        }
        int64_t next_us = engine_step(scene->engine);
        frontend_step(scene->frontend, next_us > clock_boot(clock_system()) ? 1 : 0);
    }
    assert_int_equal(told(scene), wanted);
}

static void check(const struct scene *scene)
{
    for (size_t i = 0; i < scene->start_count; i++) {
        assert_int_equal(scene->told[i], 1);
        assert_true(scene->starts[i].runs);
        assert_false(scene->starts[i].differs);
    }
    assert_int_equal(scene->let_go, 0);
}

static void starts_on_a_healthy_server_are_sent_once(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, 0);
    drive(&scene, STARTS);
    check(&scene);
    for (size_t i = 0; i < scene.start_count; i++) {
        assert_int_equal(scene.starts[i].requests, 1);
    }
    close_scene(&scene);
}

static void no_fault_of_the_wire_loses_doubles_or_releases_a_start(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, 330);
    drive(&scene, STARTS);
    check(&scene);
    assert_true(scene.faults > STARTS / 10);
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_on_a_healthy_server_are_sent_once),
        cmocka_unit_test(no_fault_of_the_wire_loses_doubles_or_releases_a_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
