/* The engine and its connection run out of memory at each of their own allocations in turn: they never end their process,
 * and an engine that gives up all claims after a lost answer gets every execution to its end, each started once. The
 * service in memory answers behind a real HTTP/2 server; the clock is virtual, and goes on when no message is left to send.
 */
#include "support/test.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/temporal/temporal_internal.h"
#include "support/failing_memory.h"
#include "support/fake_temporal.h"
#include "support/frontend.h"

enum { FAILURES_IN_A_ROW = 25, ALLOCATIONS_MOST = 100000, TURNS_MOST = 20000, STARTS_MAX = 8 };
#define SECOND_US MICROSECONDS_PER_SECOND
#define SEND_AGAIN_US (15 * SECOND_US)
#define DEFINITION                                                                                                         \
    "{\"name\": \"onboard\", \"temporal\": {\"task_queue\": \"q\", \"memo\": {\"team\": \"billing\"}, \"workflow_id\": "   \
    "\"one-${.execution.id}\", \"args\": [\"${.input}\", 7], \"run_timeout\": \"${.input.limit}\"}}"

/* One completes, one fails, one is cancelled, and one goes on when the node stops. */
enum { COMPLETES, FAILS, IS_CANCELLED, GOES_ON, EXECUTIONS };

struct execution {
    char id[UUID_TEXT_MAX];
    int64_t fence;
    int64_t again_us;
    bool was_started; /* on record, over all claims */
    bool is_told;     /* its end, or that it was given back, under the present claim */
    bool is_over;     /* and that is on record */
    bool is_acted;    /* its outcome is set at the service */
    enum report_kind how;
    enum end_state end_state;
    char *output;
    char *error;
};

struct scene {
    struct clock clock;
    int64_t now_us;
    struct fake_temporal *service;
    struct temporal_wire wire;
    struct frontend *frontend;
    struct engine *engine;
    struct execution executions[EXECUTIONS];
    bool is_cancelled; /* in the service */
    bool stops;
};

static int64_t scene_now(void *context)
{
    return ((struct scene *)context)->now_us;
}

/* --- the service, behind its server --- */

struct held {
    struct scene *scene;
    uint64_t token;
};

static void answer_held(void *context, const struct grpc_result *result)
{
    struct held *held = context;
    struct frontend_answer answer = {.fate = FATE_ANSWER,
                                     .code = result->code,
                                     .message = result->message,
                                     .response = result->response,
                                     .response_length = result->response_length};
    (void)frontend_answer(held->scene->frontend, held->token, &answer); /* false: the client has given the call up */
    free(held);
}

static void handle(void *context, const struct frontend_call *call, struct frontend_answer *answer)
{
    struct scene *scene = context;
    struct held *held = malloc(sizeof *held);
    grpc_call_id id;
    assert_non_null(held);
    *held = (struct held){scene, call->token};
    struct grpc_request request = {.path = call->path,
                                   .message = call->message,
                                   .message_length = call->message_length,
                                   .timeout_us = 60 * SECOND_US,
                                   .done = answer_held,
                                   .context = held};
    answer->fate = FATE_HOLD;
    assert_int_equal(scene->wire.call(scene->wire.context, &request, &id, NULL), WEIR_OK);
}

/* --- the part of the node --- */

static struct execution *find(struct scene *scene, const char *id)
{
    for (int i = 0; i < EXECUTIONS; i++) {
        if (strcmp(scene->executions[i].id, id) == 0) {
            return &scene->executions[i];
        }
    }
    return NULL;
}

static void note(const struct scene *scene, struct execution *execution, struct report *report)
{
    bool is_last = report->kind == REPORT_ENDED || report->kind == REPORT_GIVEN_BACK || report->kind == REPORT_REFUSED;
    execution->was_started = execution->was_started || report->kind == REPORT_STARTED;
    if (report->kind == REPORT_UNREACHABLE && !report->may_run) {
        execution->again_us = scene->now_us + SECOND_US; /* it is put back, and claimed again */
    }
    if (is_last) {
        execution->is_told = true;
        execution->how = report->kind;
        execution->end_state = report->end_state;
        free(execution->output);
        free(execution->error);
        execution->output = report->step.output;
        execution->error = report->error;
        report->step.output = report->error = NULL;
    }
}

static void hear(void *context, struct report *report)
{
    bool was_armed = failing_memory.armed;
    failing_memory.armed = false;
    struct scene *scene = context;
    struct execution *execution = find(scene, report->id);
    if (execution != NULL && execution->fence == report->fence) {
        note(scene, execution, report);
    }
    report_free(report);
    failing_memory.armed = was_armed;
}

static void give_up_claims(struct scene *scene)
{
    failing_memory.armed = true;
    engine_abandon(scene->engine, NULL, 0);
    failing_memory.armed = false;
    for (int i = 0; i < EXECUTIONS; i++) {
        struct execution *execution = &scene->executions[i];
        execution->fence++;
        execution->again_us = 0;
        execution->is_told = false;
    }
}

static void claim(struct scene *scene, struct execution *execution)
{
    struct engine_start start = {.workspace = "acme",
                                 .workflow = "onboard",
                                 .version = 1,
                                 .definition_id = 1,
                                 .definition = DEFINITION,
                                 .params = "{}",
                                 .params_length = 2,
                                 .fence = execution->fence,
                                 .start_number = 1,
                                 .interruptions = (int)execution->fence - 1,
                                 .running_for_us = execution->was_started ? SECOND_US : 0,
                                 .age_us = SECOND_US,
                                 .cancel_requested = execution == &scene->executions[IS_CANCELLED] && execution->is_acted};
    struct weir_error error;
    memcpy(start.id, execution->id, sizeof start.id);
    failing_memory.armed = true;
    enum weir_status status = engine_start(scene->engine, &start, &error);
    failing_memory.armed = false;
    assert_true(status == WEIR_OK || status == WEIR_OUT_OF_MEMORY);
    execution->again_us = status == WEIR_OK ? scene->now_us + SEND_AGAIN_US : scene->now_us;
}

static void record_last(struct scene *scene, struct execution *execution)
{
    struct recorded recorded = {.fence = execution->fence, .kind = execution->how, .status = WEIR_OK};
    memcpy(recorded.id, execution->id, sizeof recorded.id);
    execution->is_over = true;
    failing_memory.armed = true;
    engine_recorded(scene->engine, &recorded, 1);
    failing_memory.armed = false;
}

static void act(struct scene *scene)
{
    struct execution *executions = scene->executions;
    if (executions[COMPLETES].was_started && !executions[COMPLETES].is_acted) {
        executions[COMPLETES].is_acted = true;
        fake_temporal_end(scene->service, executions[COMPLETES].id, RUN_STATUS_COMPLETED, "\"done\"");
    }
    if (executions[FAILS].was_started && !executions[FAILS].is_acted) {
        executions[FAILS].is_acted = true;
        fake_temporal_end(scene->service, executions[FAILS].id, RUN_STATUS_FAILED, "no luck");
    }
    struct execution *cancelled = &executions[IS_CANCELLED];
    if (cancelled->was_started && !cancelled->is_acted) {
        cancelled->is_acted = true;
        failing_memory.armed = true;
        engine_cancel(scene->engine, cancelled->id, cancelled->fence);
        failing_memory.armed = false;
    }
    if (cancelled->is_acted && !scene->is_cancelled && fake_temporal_cancel_was_asked(scene->service, cancelled->id)) {
        scene->is_cancelled = true;
        fake_temporal_end(scene->service, cancelled->id, RUN_STATUS_CANCELED, NULL);
    }
    bool others_are_over = executions[COMPLETES].is_over && executions[FAILS].is_over && cancelled->is_over;
    if (others_are_over && executions[GOES_ON].was_started && !scene->stops) {
        scene->stops = true;
        failing_memory.armed = true;
        engine_stop(scene->engine, false);
        failing_memory.armed = false;
    }
}

/* Does all that can be done now, and lets time pass until the next thing is due. */
static void turn(struct scene *scene)
{
    failing_memory.armed = true;
    int64_t next_us = engine_step(scene->engine);
    failing_memory.armed = false;
    frontend_step(scene->frontend, 0);
    frontend_step(scene->frontend, 0);
    int64_t service_us = scene->wire.step(scene->wire.context);
    frontend_step(scene->frontend, 0);
    struct pollfd engine = {.fd = engine_fd(scene->engine), .events = POLLIN};
    if (poll(&engine, 1, 0) > 0) {
        return;
    }
    next_us = service_us < next_us ? service_us : next_us;
    for (int i = 0; i < EXECUTIONS; i++) {
        bool waits = !scene->executions[i].is_over && scene->executions[i].again_us < next_us;
        next_us = waits ? scene->executions[i].again_us : next_us;
    }
    if (next_us != TIME_NEVER && next_us > scene->now_us) {
        scene->now_us = next_us;
    }
}

/* True when every execution is over, and nothing of any is left. */
static bool drive(struct scene *scene)
{
    bool are_over = true;
    if (engine_take_lost_report(scene->engine)) {
        give_up_claims(scene);
    }
    act(scene);
    for (int i = 0; i < EXECUTIONS; i++) {
        struct execution *execution = &scene->executions[i];
        if (!execution->is_over && execution->is_told) {
            record_last(scene, execution);
        } else if (!execution->is_over && scene->now_us >= execution->again_us) {
            claim(scene, execution);
        }
        are_over = are_over && execution->is_over;
    }
    turn(scene);
    return are_over && engine_running(scene->engine) == 0 && !engine_take_lost_report(scene->engine);
}

static void open_scene(struct scene *scene)
{
    *scene = (struct scene){.now_us = 1000 * SECOND_US};
    scene->clock = (struct clock){.wall_us = scene_now, .boot_us = scene_now, .context = scene};
    scene->service = fake_temporal_open(&scene->clock);
    scene->wire = fake_temporal_wire(scene->service);
    scene->frontend = frontend_open(&(struct frontend_options){.handler = handle, .context = scene});
    assert_non_null(scene->frontend);
    for (int i = 0; i < EXECUTIONS; i++) {
        scene->executions[i].fence = 1;
        (void)snprintf(scene->executions[i].id, UUID_TEXT_MAX, "019aa000-0000-7000-8000-%012d", i);
    }
}

static void open_engine(struct scene *scene)
{
    struct temporal_options options = {
        .address = frontend_address(scene->frontend), .starts_max = STARTS_MAX, .max_running = 4, .clock = &scene->clock};
    enum weir_status status = WEIR_FAILED;
    while (status != WEIR_OK) {
        failing_memory.armed = true;
        status = temporal_open(&options, &scene->engine, NULL);
        failing_memory.armed = false;
        assert_true(status == WEIR_OK || status == WEIR_OUT_OF_MEMORY);
    }
    engine_set_sink(scene->engine, (struct report_sink){.report = hear, .context = scene});
    failing_memory.armed = true;
    engine_want_slots(scene->engine, "acme", true);
    failing_memory.armed = false;
}

static void check(const struct scene *scene, int first)
{
    static const enum end_state ends[] = {
        [COMPLETES] = END_COMPLETED, [FAILS] = END_FAILED, [IS_CANCELLED] = END_CANCELLED};
    for (int i = 0; i < EXECUTIONS; i++) {
        const struct execution *execution = &scene->executions[i];
        enum report_kind how = i == GOES_ON ? REPORT_GIVEN_BACK : REPORT_ENDED;
        size_t chains = fake_temporal_chains(scene->service, execution->id);
        if (execution->how != how || chains != 1 || (i != GOES_ON && execution->end_state != ends[i])) {
            fail_msg("allocation %d, execution %d: %zu chains, report %d, end %d: %s", first, i, chains,
                     (int)execution->how, (int)execution->end_state, execution->error != NULL ? execution->error : "");
        }
    }
    assert_string_equal(scene->executions[COMPLETES].output, "\"done\"");
    assert_string_equal(scene->executions[FAILS].error, "Broken: no luck");
    assert_true(fake_temporal_starts_are_equal(scene->service));
}

static void close_scene(struct scene *scene)
{
    engine_close(scene->engine);
    scene->wire.close(scene->wire.context);
    frontend_close(scene->frontend);
    fake_temporal_close(scene->service);
    for (int i = 0; i < EXECUTIONS; i++) {
        free(scene->executions[i].output);
        free(scene->executions[i].error);
    }
}

/* The number of allocations that were made. */
static int run_with_failures(int first, int count)
{
    struct scene scene;
    failing_memory_aim(first, count);
    open_scene(&scene);
    open_engine(&scene);
    int turns = 0;
    while (!drive(&scene)) {
        if (++turns == TURNS_MOST) {
            fail_msg("allocation %d: no end after %d turns", first, turns);
        }
    }
    check(&scene, first);
    close_scene(&scene);
    return failing_memory.calls;
}

static void sweep(int count)
{
    int first = 1;
    while (first < ALLOCATIONS_MOST && run_with_failures(first, count) >= first) {
        first += 1;
    }
    print_message("# %d allocations failed in turn\n", first - 1);
    assert_in_range(first, 100, ALLOCATIONS_MOST - 1);
}

static void an_engine_without_memory_for_a_moment_goes_on(void **state)
{
    (void)state;
    sweep(1);
}

static void an_engine_without_memory_for_a_while_goes_on(void **state)
{
    (void)state;
    sweep(FAILURES_IN_A_ROW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_engine_without_memory_for_a_moment_goes_on),
        cmocka_unit_test(an_engine_without_memory_for_a_while_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
