/* The life of an execution in the Temporal engine, on a virtual clock and a service in memory: every outcome of a start,
 * every way in which an end is seen, and that nothing is ever started twice. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/temporal/temporal_internal.h"
#include "support/fake_temporal.h"

enum { REPORT_KINDS = REPORT_ENGINE_SOUND + 1 };
#define ID_ONE "019aa000-0000-7000-8000-000000000001"
#define ID_TWO "019aa000-0000-7000-8000-000000000002"
#define SECOND_US MICROSECONDS_PER_SECOND
#define HOUR_US (3600 * SECOND_US)
#define DEFINITION "{\"name\": \"onboard\", \"temporal\": {\"task_queue\": \"q\"}}"

struct bench {
    struct clock clock;
    int64_t now_us;
    struct fake_temporal *service;
    struct engine *engine;
    struct report *last[REPORT_KINDS];
    size_t counts[REPORT_KINDS];
};

static int64_t bench_now(void *context)
{
    return ((struct bench *)context)->now_us;
}

static void hear(void *context, struct report *report)
{
    struct bench *bench = context;
    report_free(bench->last[report->kind]);
    bench->last[report->kind] = report;
    bench->counts[report->kind]++;
}

static void open_bench_with(struct bench *bench, struct temporal_options options)
{
    memset(bench, 0, sizeof *bench);
    bench->now_us = 1000 * SECOND_US;
    bench->clock = (struct clock){.wall_us = bench_now, .boot_us = bench_now, .context = bench};
    bench->service = fake_temporal_open(&bench->clock);
    options.clock = &bench->clock;
    struct temporal_wire wire = fake_temporal_wire(bench->service);
    assert_int_equal(temporal_open_on(&options, &wire, &bench->engine, NULL), WEIR_OK);
    engine_set_sink(bench->engine, (struct report_sink){hear, bench});
}

static void open_bench(struct bench *bench)
{
    open_bench_with(bench, (struct temporal_options){.starts_max = 64});
}

static void close_bench(struct bench *bench)
{
    engine_close(bench->engine);
    assert_true(fake_temporal_starts_are_equal(bench->service));
    fake_temporal_close(bench->service);
    for (size_t i = 0; i < REPORT_KINDS; i++) {
        report_free(bench->last[i]);
    }
}

/* Lets `us` pass, doing everything at its time. */
static void pass(struct bench *bench, int64_t us)
{
    int64_t end_us = bench->now_us + us;
    for (int turns = 0; turns < 1000000; turns++) {
        int64_t next_us = engine_step(bench->engine);
        if (next_us > end_us) {
            break;
        }
        bench->now_us = next_us > bench->now_us ? next_us : bench->now_us;
    }
    bench->now_us = end_us;
    (void)engine_step(bench->engine);
}

static struct engine_start start_of(const char *id)
{
    struct engine_start start = {.workspace = "acme",
                                 .workflow = "onboard",
                                 .version = 1,
                                 .definition_id = 1,
                                 .definition = DEFINITION,
                                 .params = "{\"customer\": 7}",
                                 .params_length = strlen("{\"customer\": 7}"),
                                 .fence = 5,
                                 .attempt = 1};
    memcpy(start.id, id, sizeof start.id);
    return start;
}

static void start_one(struct bench *bench, const char *id)
{
    struct engine_start start = start_of(id);
    assert_int_equal(engine_start(bench->engine, &start, NULL), WEIR_OK);
}

static size_t heard(const struct bench *bench, enum report_kind kind)
{
    return bench->counts[kind];
}

static size_t heard_in_all(const struct bench *bench)
{
    size_t count = 0;
    for (size_t i = 0; i < REPORT_KINDS; i++) {
        count += bench->counts[i];
    }
    return count;
}

/* The last report of the kind; it must be there. */
static const struct report *last(const struct bench *bench, enum report_kind kind)
{
    if (bench->last[kind] == NULL) {
        fail_msg("no report of kind %d", (int)kind);
    }
    return bench->last[kind];
}

static void record_end(struct bench *bench, const char *id)
{
    struct recorded recorded = {.fence = 5, .kind = REPORT_ENDED, .status = WEIR_OK};
    memcpy(recorded.id, id, sizeof recorded.id);
    engine_recorded(bench->engine, &recorded, 1);
    (void)engine_step(bench->engine);
}

static void start_and_follow(struct bench *bench, const char *id)
{
    start_one(bench, id);
    pass(bench, SECOND_US);
    assert_int_equal(heard(bench, REPORT_STARTED), 1);
}

static void assert_idle(struct bench *bench, size_t room)
{
    assert_int_equal(engine_running(bench->engine), 0);
    assert_int_equal(engine_room(bench->engine), room);
}

/* --- starting --- */

static void a_start_is_told_with_its_run(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start_and_follow(&bench, ID_ONE);
    const struct report *step = last(&bench, REPORT_STEP);
    assert_int_equal(step->step.state, STEP_RUNNING);
    assert_non_null(strstr(step->step.variables, "\"workflow_id\":\"execution-" ID_ONE "\""));
    assert_non_null(strstr(step->step.variables, "\"task_queue\":\"q\""));
    assert_int_equal(engine_running(bench.engine), 1);
    assert_int_equal(fake_temporal_chains(bench.service, ID_ONE), 1);
    close_bench(&bench);
}

static void an_answer_that_was_lost_is_asked_for_with_the_same_bytes(void **state)
{
    static const enum fake_fault faults[] = {FAKE_LOSE_ANSWER, FAKE_LOSE_REQUEST, FAKE_TIME_OUT, FAKE_UNAVAILABLE,
                                             FAKE_GARBAGE};
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct bench bench;
        open_bench(&bench);
        fake_temporal_push(bench.service, faults[i]);
        fake_temporal_push(bench.service, faults[i]);
        start_one(&bench, ID_ONE);
        pass(&bench, 30 * SECOND_US);
        assert_int_equal(heard(&bench, REPORT_UNKNOWN), 2);
        assert_int_equal(heard(&bench, REPORT_STARTED), 1);
        assert_int_equal(heard(&bench, REPORT_UNREACHABLE), 0);
        assert_int_equal(fake_temporal_calls(bench.service, FAKE_START), 3);
        assert_int_equal(fake_temporal_chains(bench.service, ID_ONE), 1);
        close_bench(&bench);
    }
}

static void what_never_left_is_let_go(void **state)
{
    static const enum fake_fault faults[] = {FAKE_NOT_SENT, FAKE_NAMESPACE, FAKE_DENIED};
    static const char *const codes[] = {"engine_unreachable", "namespace_not_found", "permission_denied"};
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct bench bench;
        open_bench(&bench);
        fake_temporal_push(bench.service, faults[i]);
        start_one(&bench, ID_ONE);
        pass(&bench, 30 * SECOND_US);
        assert_int_equal(heard_in_all(&bench), 1);
        assert_false(last(&bench, REPORT_UNREACHABLE)->may_run);
        assert_string_equal(last(&bench, REPORT_UNREACHABLE)->error_code, codes[i]);
        assert_int_equal(fake_temporal_chains(bench.service, ID_ONE), 0);
        assert_idle(&bench, 64);
        close_bench(&bench);
    }
}

static void an_unreachable_service_after_a_lost_answer_keeps_the_slot(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    fake_temporal_push(bench.service, FAKE_LOSE_ANSWER);
    fake_temporal_push(bench.service, FAKE_NOT_SENT);
    start_one(&bench, ID_ONE);
    pass(&bench, 10 * SECOND_US);
    assert_true(last(&bench, REPORT_UNREACHABLE)->may_run);
    assert_int_equal(heard(&bench, REPORT_STARTED), 1);
    assert_int_equal(fake_temporal_chains(bench.service, ID_ONE), 1);
    close_bench(&bench);
}

static void what_the_service_will_never_take_is_refused_for_good(void **state)
{
    static const enum fake_fault faults[] = {FAKE_INVALID, FAKE_TOO_LARGE};
    static const char *const codes[] = {"start_refused", "input_too_large"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct bench bench;
        open_bench(&bench);
        fake_temporal_push(bench.service, faults[i]);
        start_one(&bench, ID_ONE);
        pass(&bench, SECOND_US);
        assert_true(last(&bench, REPORT_REFUSED)->permanent);
        assert_true(last(&bench, REPORT_REFUSED)->spends_attempt);
        assert_string_equal(last(&bench, REPORT_REFUSED)->error_code, codes[i]);
        assert_idle(&bench, 64);
        close_bench(&bench);
    }
}

static void a_refusal_after_a_lost_answer_is_believed_only_when_nothing_runs(void **state)
{
    for (int arrived = 0; arrived < 2; arrived++) {
        struct bench bench;
        (void)state;
        open_bench(&bench);
        fake_temporal_push(bench.service, arrived ? FAKE_LOSE_ANSWER : FAKE_LOSE_REQUEST);
        fake_temporal_push(bench.service, FAKE_INVALID);
        start_one(&bench, ID_ONE);
        pass(&bench, 10 * SECOND_US);
        assert_int_equal(heard(&bench, REPORT_STARTED), arrived ? 1 : 0);
        assert_int_equal(heard(&bench, REPORT_REFUSED), arrived ? 0 : 1);
        close_bench(&bench);
    }
}

static void throttling_spends_nothing(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    for (int i = 0; i < 5; i++) {
        fake_temporal_push(bench.service, FAKE_THROTTLE);
    }
    start_one(&bench, ID_ONE);
    pass(&bench, 60 * SECOND_US);
    assert_int_equal(heard(&bench, REPORT_STARTED), 1);
    assert_int_equal(heard_in_all(&bench), 2);
    close_bench(&bench);
}

/* By the service's own limit, which lists, looks and questions share, and on its clock: no machine's speed takes part. */
static void starts_settle_within_a_fifth_of_the_services_limit(void **state)
{
    enum { LIMIT = 50, SETTLES_S = 30, COUNTED_S = 60 };
    struct bench bench;
    char id[UUID_TEXT_MAX];
    int sent = 0;
    size_t before = 0;
    (void)state;
    open_bench(&bench);
    fake_temporal_set_limit(bench.service, LIMIT);
    for (int ms = 0; ms < (SETTLES_S + COUNTED_S) * 1000; ms += 10) {
        for (size_t room = engine_room(bench.engine); room > 0; room--) {
            (void)snprintf(id, sizeof id, "019aa000-0000-7000-8000-%012d", sent++);
            start_one(&bench, id);
        }
        pass(&bench, 10 * MICROSECONDS_PER_MS);
        before = ms < SETTLES_S * 1000 ? heard(&bench, REPORT_STARTED) : before;
    }
    assert_in_range(heard(&bench, REPORT_STARTED) - before, COUNTED_S * LIMIT * 8 / 10, COUNTED_S * LIMIT * 12 / 10);
    assert_in_range(fake_temporal_throttled(bench.service), 1, (SETTLES_S + COUNTED_S) * LIMIT / 10);
    assert_int_equal(heard(&bench, REPORT_REFUSED), 0);
    assert_int_equal(heard(&bench, REPORT_ENGINE_DOWN), 0);
    close_bench(&bench);
}

static void an_id_that_is_taken_by_our_own_start_is_ours(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    fake_temporal_push(bench.service, FAKE_LOSE_ANSWER);
    start_one(&bench, ID_ONE);
    pass(&bench, 10 * MICROSECONDS_PER_MS);
    fake_temporal_go_on(bench.service, ID_ONE, RUN_STATUS_CONTINUED_AS_NEW); /* the new run has another request id */
    pass(&bench, 10 * SECOND_US);
    assert_int_equal(heard(&bench, REPORT_STARTED), 1);
    assert_int_equal(heard(&bench, REPORT_REFUSED), 0);
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass(&bench, SECOND_US);
    assert_int_equal(last(&bench, REPORT_ENDED)->end_state, END_COMPLETED);
    close_bench(&bench);
}

static void a_chain_that_went_on_with_a_memo_of_its_own_is_ours_by_its_first_run(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    fake_temporal_push(bench.service, FAKE_LOSE_ANSWER);
    start_one(&bench, ID_ONE);
    pass(&bench, 10 * MICROSECONDS_PER_MS);
    fake_temporal_renew(bench.service, ID_ONE);
    fake_temporal_renew(bench.service, ID_ONE);
    pass(&bench, 10 * SECOND_US);
    assert_int_equal(heard(&bench, REPORT_REFUSED), 0);
    assert_int_equal(heard(&bench, REPORT_STARTED), 1);
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass(&bench, SECOND_US);
    assert_int_equal(last(&bench, REPORT_ENDED)->end_state, END_COMPLETED);
    assert_int_equal(fake_temporal_chains(bench.service, ID_ONE), 1);
    close_bench(&bench);
}

static void a_chain_that_somebody_else_began_is_not_ours(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    fake_temporal_take_id(bench.service, ID_ONE);
    fake_temporal_go_on(bench.service, ID_ONE, RUN_STATUS_CONTINUED_AS_NEW);
    start_one(&bench, ID_ONE);
    pass(&bench, 10 * SECOND_US);
    assert_string_equal(last(&bench, REPORT_REFUSED)->error_code, "workflow_id_taken");
    close_bench(&bench);
}

static void an_id_that_somebody_else_took_fails_with_its_own_code(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    fake_temporal_take_id(bench.service, ID_ONE);
    start_one(&bench, ID_ONE);
    pass(&bench, 10 * SECOND_US);
    assert_string_equal(last(&bench, REPORT_REFUSED)->error_code, "workflow_id_taken");
    assert_true(last(&bench, REPORT_REFUSED)->permanent);
    assert_int_equal(heard(&bench, REPORT_STARTED), 0);
    close_bench(&bench);
}

static void steps_are_put_back_for_nodes_that_run_steps(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    struct engine_start start = start_of(ID_ONE);
    start.definition = "{\"name\": \"a\", \"steps\": {\"s\": {\"sleep\": \"1s\"}}}";
    assert_int_equal(engine_start(bench.engine, &start, NULL), WEIR_OK);
    pass(&bench, SECOND_US);
    const struct report *report = last(&bench, REPORT_REFUSED);
    assert_false(report->permanent);
    assert_false(report->spends_attempt);
    assert_true(report->delay_us > 0);
    assert_string_equal(report->error_code, "wrong_engine");
    assert_int_equal(fake_temporal_calls(bench.service, FAKE_START), 0);
    close_bench(&bench);
}

/* --- after a node's death --- */

static void what_was_claimed_by_a_dead_node_is_started_with_the_same_bytes(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    fake_temporal_push(bench.service, FAKE_LOSE_ANSWER);
    start_one(&bench, ID_ONE);
    pass(&bench, 10 * MICROSECONDS_PER_MS);
    engine_abandon(bench.engine, NULL, 0);
    (void)engine_step(bench.engine);
    struct engine_start again = start_of(ID_ONE);
    again.interruptions = 1;
    again.fence = 6;
    again.age_us = 20 * 60 * SECOND_US;
    assert_int_equal(engine_start(bench.engine, &again, NULL), WEIR_OK);
    pass(&bench, SECOND_US);
    assert_int_equal(last(&bench, REPORT_STARTED)->fence, 6);
    assert_int_equal(fake_temporal_chains(bench.service, ID_ONE), 1);
    close_bench(&bench);
}

static void what_ran_already_is_asked_for_and_never_sent(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start_and_follow(&bench, ID_ONE);
    engine_abandon(bench.engine, NULL, 0);
    pass(&bench, SECOND_US);
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "{\"ok\":true}");
    size_t starts = fake_temporal_calls(bench.service, FAKE_START);
    struct engine_start again = start_of(ID_ONE);
    again.interruptions = 1;
    again.fence = 6;
    again.running_for_us = SECOND_US;
    assert_int_equal(engine_start(bench.engine, &again, NULL), WEIR_OK);
    pass(&bench, SECOND_US);
    assert_int_equal(last(&bench, REPORT_ENDED)->end_state, END_COMPLETED);
    assert_string_equal(last(&bench, REPORT_ENDED)->step.output, "{\"ok\":true}");
    assert_int_equal(fake_temporal_calls(bench.service, FAKE_START), starts);
    close_bench(&bench);
}

static void what_the_service_has_forgotten_is_an_end_and_not_a_start(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start_and_follow(&bench, ID_ONE);
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    engine_abandon(bench.engine, NULL, 0);
    fake_temporal_forget(bench.service, ID_ONE);
    struct engine_start again = start_of(ID_ONE);
    again.interruptions = 1;
    again.fence = 6;
    again.running_for_us = 48 * HOUR_US;
    assert_int_equal(engine_start(bench.engine, &again, NULL), WEIR_OK);
    pass(&bench, 10 * SECOND_US);
    assert_string_equal(last(&bench, REPORT_ENDED)->error_code, "workflow_gone");
    assert_int_equal(last(&bench, REPORT_ENDED)->end_state, END_FAILED);
    assert_int_equal(fake_temporal_chains(bench.service, ID_ONE), 1);
    close_bench(&bench);
}

static void a_start_older_than_the_retention_is_never_sent_again(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start_and_follow(&bench, ID_TWO); /* so that the namespace's retention of 24 h is known */
    struct engine_start again = start_of(ID_ONE);
    again.interruptions = 1;
    again.age_us = 23 * HOUR_US;
    size_t starts = fake_temporal_calls(bench.service, FAKE_START);
    assert_int_equal(engine_start(bench.engine, &again, NULL), WEIR_OK);
    pass(&bench, 10 * SECOND_US);
    assert_string_equal(last(&bench, REPORT_REFUSED)->error_code, "start_forgotten");
    assert_int_equal(fake_temporal_calls(bench.service, FAKE_START), starts);
    assert_int_equal(fake_temporal_chains(bench.service, ID_ONE), 0);
    close_bench(&bench);
}

static void a_fresh_node_learns_the_retention_before_it_gives_up_a_start(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    struct engine_start again = start_of(ID_ONE);
    again.interruptions = 1;
    again.age_us = 2 * HOUR_US; /* more than the least retention, less than this one's */
    assert_int_equal(engine_start(bench.engine, &again, NULL), WEIR_OK);
    pass(&bench, 10 * SECOND_US);
    assert_int_equal(heard(&bench, REPORT_STARTED), 1);
    assert_int_equal(heard(&bench, REPORT_REFUSED), 0);
    close_bench(&bench);
}

static void a_start_that_stays_unanswered_is_given_up_before_the_retention_ends(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start_and_follow(&bench, ID_TWO);
    fake_temporal_push(bench.service, FAKE_LOSE_ANSWER);
    start_one(&bench, ID_ONE);
    pass(&bench, 10 * MICROSECONDS_PER_MS);
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    fake_temporal_set_fault(bench.service, FAKE_NOT_SENT);
    pass(&bench, 22 * HOUR_US);
    fake_temporal_forget(bench.service, ID_ONE);
    fake_temporal_set_fault(bench.service, FAKE_FINE);
    pass(&bench, 60 * SECOND_US);
    assert_int_equal(fake_temporal_chains(bench.service, ID_ONE), 1);
    assert_string_equal(last(&bench, REPORT_REFUSED)->error_code, "start_forgotten");
    close_bench(&bench);
}

/* --- the end --- */

static void an_end_is_told_with_its_result(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start_and_follow(&bench, ID_ONE);
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "{\"n\": 1.50}");
    pass(&bench, 50 * MICROSECONDS_PER_MS); /* it is waited for */
    const struct report *report = last(&bench, REPORT_ENDED);
    assert_int_equal(report->end_state, END_COMPLETED);
    assert_string_equal(report->step.output, "{\"n\": 1.50}");
    assert_int_equal(report->step.state, STEP_COMPLETED);
    record_end(&bench, ID_ONE);
    assert_idle(&bench, 64);
    pass(&bench, 60 * SECOND_US);
    assert_int_equal(heard(&bench, REPORT_ENDED), 1);
    close_bench(&bench);
}

static void each_kind_of_end_has_its_state_and_words(void **state)
{
    static const struct {
        int status;
        const char *text;
        enum end_state end;
        const char *code;
        const char *error;
    } ends[] = {
        {RUN_STATUS_FAILED, "no money", END_FAILED, "Broken", "Broken: no money"},
        {RUN_STATUS_TIMED_OUT, NULL, END_FAILED, "timed_out", NULL},
        {RUN_STATUS_CANCELED, NULL, END_CANCELLED, "", NULL},
        {RUN_STATUS_TERMINATED, "by an operator", END_FAILED, "terminated", "terminated: by an operator"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct bench bench;
        open_bench(&bench);
        start_and_follow(&bench, ID_ONE);
        fake_temporal_end(bench.service, ID_ONE, ends[i].status, ends[i].text);
        pass(&bench, SECOND_US);
        const struct report *report = last(&bench, REPORT_ENDED);
        assert_int_equal(report->end_state, ends[i].end);
        assert_string_equal(report->error_code, ends[i].code);
        if (ends[i].error != NULL) {
            assert_string_equal(report->error, ends[i].error);
        }
        close_bench(&bench);
    }
}

/* With each of the three ways alone. */
static void an_end_is_seen_whatever_else_is_out_of_order(void **state)
{
    static const int64_t within_us[] = {SECOND_US / 10, 3 * SECOND_US, 60 * SECOND_US};
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct bench bench;
        open_bench_with(&bench, (struct temporal_options){.polls_max = way == 0 ? 10 : SIZE_MAX});
        fake_temporal_break_lists(bench.service, way != 1);
        engine_want_slots(bench.engine, "acme", true);
        start_and_follow(&bench, ID_ONE);
        pass(&bench, 100 * SECOND_US);
        fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
        pass(&bench, within_us[way]);
        assert_int_equal(heard(&bench, REPORT_ENDED), 1);
        close_bench(&bench);
    }
}

static void a_chain_is_followed_to_its_real_end(void **state)
{
    static const int links[] = {RUN_STATUS_CONTINUED_AS_NEW, RUN_STATUS_FAILED, RUN_STATUS_COMPLETED, RUN_STATUS_TIMED_OUT};
    (void)state;
    for (int with_polls = 0; with_polls < 2; with_polls++) {
        struct bench bench;
        open_bench_with(&bench, (struct temporal_options){.polls_max = with_polls ? 10 : SIZE_MAX});
        start_and_follow(&bench, ID_ONE);
        for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
            fake_temporal_go_on(bench.service, ID_ONE, links[i]);
            pass(&bench, 5 * SECOND_US);
            assert_int_equal(heard(&bench, REPORT_ENDED), 0);
        }
        fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "\"end\"");
        pass(&bench, 5 * SECOND_US);
        assert_string_equal(last(&bench, REPORT_ENDED)->step.output, "\"end\"");
        assert_int_equal(heard(&bench, REPORT_ENDED), 1);
        close_bench(&bench);
    }
}

static void a_workflow_that_was_reset_is_followed_on(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start_and_follow(&bench, ID_ONE);
    fake_temporal_reset(bench.service, ID_ONE);
    pass(&bench, 5 * SECOND_US);
    assert_int_equal(heard(&bench, REPORT_ENDED), 0);
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "2");
    pass(&bench, 5 * SECOND_US);
    assert_int_equal(last(&bench, REPORT_ENDED)->end_state, END_COMPLETED);
    close_bench(&bench);
}

/* A description has told of the next run already: the call that waited for the one before it says nothing new, neither that
 * the workflow was terminated, nor that the end of the next run was read. */
static void a_waiting_call_that_is_late_says_nothing_of_the_next_run(void **state)
{
    (void)state;
    for (int was_reset = 0; was_reset < 2; was_reset++) {
        struct bench bench;
        open_bench(&bench);
        engine_want_slots(bench.engine, "acme", true);
        start_and_follow(&bench, ID_ONE);
        assert_int_equal(fake_temporal_polls_waiting(bench.service), 1);
        fake_temporal_delay_polls(bench.service, 3 * SECOND_US);
        if (was_reset) {
            fake_temporal_break_lists(bench.service, true);
            fake_temporal_reset(bench.service, ID_ONE);
        } else {
            fake_temporal_go_on(bench.service, ID_ONE, RUN_STATUS_CONTINUED_AS_NEW);
        }
        engine_describe(bench.engine, ID_ONE, 5);
        pass(&bench, 4 * SECOND_US);
        assert_int_equal(heard(&bench, REPORT_ENDED), 0);
        fake_temporal_break_lists(bench.service, false);
        fake_temporal_delay_polls(bench.service, 30 * SECOND_US); /* the list alone */
        fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "2");
        pass(&bench, 4 * SECOND_US);
        assert_int_equal(last(&bench, REPORT_ENDED)->end_state, END_COMPLETED);
        close_bench(&bench);
    }
}

static void a_workflow_that_is_deleted_does_not_hold_its_slot(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start_and_follow(&bench, ID_ONE);
    fake_temporal_forget(bench.service, ID_ONE);
    pass(&bench, 60 * SECOND_US);
    assert_string_equal(last(&bench, REPORT_ENDED)->error_code, "workflow_gone");
    close_bench(&bench);
}

static void an_outage_while_runs_are_followed_ends_none(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start_and_follow(&bench, ID_ONE);
    fake_temporal_set_fault(bench.service, FAKE_NOT_SENT);
    pass(&bench, 600 * SECOND_US);
    assert_int_equal(heard(&bench, REPORT_ENDED), 0);
    fake_temporal_set_fault(bench.service, FAKE_FINE);
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_COMPLETED, "1");
    pass(&bench, 7 * SECOND_US);
    assert_int_equal(heard(&bench, REPORT_ENDED), 1);
    close_bench(&bench);
}

/* --- cancel, stop --- */

static void an_outage_is_told_though_nothing_is_started(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    pass(&bench, HOUR_US);
    assert_int_equal(heard_in_all(&bench), 0);
    fake_temporal_set_fault(bench.service, FAKE_NOT_SENT);
    pass(&bench, 12 * SECOND_US);
    assert_true(heard(&bench, REPORT_ENGINE_DOWN) > 1); /* again and again */
    assert_string_equal(last(&bench, REPORT_ENGINE_DOWN)->id, "");
    assert_string_equal(last(&bench, REPORT_ENGINE_DOWN)->error_code, "engine_unreachable");
    assert_non_null(last(&bench, REPORT_ENGINE_DOWN)->error);
    assert_int_equal(heard(&bench, REPORT_ENGINE_UP), 0);
    fake_temporal_set_fault(bench.service, FAKE_FINE);
    pass(&bench, SECOND_US / 2);
    assert_int_equal(heard(&bench, REPORT_ENGINE_UP), 1);
    pass(&bench, HOUR_US);
    assert_int_equal(heard(&bench, REPORT_ENGINE_UP), 1);
    close_bench(&bench);
}

static void an_outage_is_told_soon_by_what_is_followed(void **state)
{
    static const enum fake_fault faults[] = {FAKE_NOT_SENT, FAKE_UNAVAILABLE, FAKE_LOSE_REQUEST, FAKE_NAMESPACE};
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct bench bench;
        open_bench(&bench);
        start_and_follow(&bench, ID_ONE);
        pass(&bench, 5 * SECOND_US);
        fake_temporal_set_fault(bench.service, faults[i]);
        pass(&bench, 3 * SECOND_US);
        assert_true(heard(&bench, REPORT_ENGINE_DOWN) > 0);
        fake_temporal_set_fault(bench.service, FAKE_FINE);
        pass(&bench, SECOND_US / 2);
        assert_int_equal(heard(&bench, REPORT_ENGINE_UP), 1);
        close_bench(&bench);
    }
}

/* Its calls' own deadlines are ten seconds away. */
static void a_frozen_service_is_told_of_within_eight_seconds(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start_and_follow(&bench, ID_ONE);
    pass(&bench, 5 * SECOND_US);
    fake_temporal_set_fault(bench.service, FAKE_FROZEN);
    pass(&bench, 3 * SECOND_US);
    assert_int_equal(heard(&bench, REPORT_ENGINE_DOWN), 0);
    pass(&bench, 5 * SECOND_US);
    assert_true(heard(&bench, REPORT_ENGINE_DOWN) > 0);
    fake_temporal_set_fault(bench.service, FAKE_FINE);
    pass(&bench, 2 * SECOND_US);
    assert_int_equal(heard(&bench, REPORT_ENGINE_UP), 1);
    assert_int_equal(heard(&bench, REPORT_ENDED), 0);
    close_bench(&bench);
}

static void a_service_that_is_slow_or_still_for_a_moment_is_no_outage(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start_and_follow(&bench, ID_ONE);
    pass(&bench, 5 * SECOND_US);
    fake_temporal_set_fault(bench.service, FAKE_SLOW);
    pass(&bench, 300 * SECOND_US);
    for (int i = 0; i < 20; i++) {
        fake_temporal_set_fault(bench.service, FAKE_FINE);
        pass(&bench, 10 * SECOND_US);
        fake_temporal_set_fault(bench.service, FAKE_FROZEN);
        pass(&bench, 4 * SECOND_US);
    }
    assert_int_equal(heard(&bench, REPORT_ENGINE_DOWN), 0);
    close_bench(&bench);
}

/* The service answers, and only starts are of no use: nothing but the starts themselves finds out when that is over. */
static void starts_that_go_wrong_are_tried_again_each_second(void **state)
{
    enum { FEW = 5, TURN_US = 10 * MICROSECONDS_PER_MS };
    struct bench bench;
    char id[UUID_TEXT_MAX];
    (void)state;
    open_bench(&bench);
    for (int i = 0; i < 400; i++) {
        fake_temporal_push(bench.service, FAKE_LOSE_REQUEST);
    }
    for (int i = 0; i < FEW; i++) {
        (void)snprintf(id, sizeof id, "019aa000-0000-7000-8000-%012d", i);
        start_one(&bench, id);
    }
    size_t before = 0;
    int64_t last_us = bench.now_us;
    for (int64_t end_us = bench.now_us + 60 * SECOND_US; bench.now_us < end_us;) {
        pass(&bench, TURN_US);
        size_t calls = fake_temporal_calls(bench.service, FAKE_START);
        last_us = calls >= before + 1 ? bench.now_us : last_us;
        before = calls;
        assert_true(bench.now_us - last_us <= SECOND_US + 2 * TURN_US);
    }
    assert_int_equal(heard(&bench, REPORT_STARTED), 0);
    assert_in_range(before, FEW * 55, FEW * 90);
    close_bench(&bench);
}

/* Answers that only say no come from a service that is there. */
static void a_failed_call_or_a_refusal_is_no_outage(void **state)
{
    static const enum fake_fault faults[] = {FAKE_THROTTLE, FAKE_DENIED, FAKE_INVALID};
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start_and_follow(&bench, ID_ONE);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        fake_temporal_set_fault(bench.service, faults[i]);
        pass(&bench, 30 * SECOND_US);
    }
    fake_temporal_set_fault(bench.service, FAKE_FINE);
    for (int i = 0; i < 20; i++) {
        pass(&bench, 10 * SECOND_US);
        fake_temporal_set_fault(bench.service, FAKE_NOT_SENT);
        pass(&bench, REACH_PROBE_INTERVAL_US - 1); /* too short for three failures */
        fake_temporal_set_fault(bench.service, FAKE_FINE);
    }
    assert_int_equal(heard(&bench, REPORT_ENGINE_DOWN), 0);
    assert_int_equal(heard(&bench, REPORT_ENGINE_UP), 0);
    close_bench(&bench);
}

static void a_cancel_is_passed_on_once(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start_and_follow(&bench, ID_ONE);
    engine_cancel(bench.engine, ID_ONE, 5);
    pass(&bench, 100 * SECOND_US);
    assert_true(fake_temporal_cancel_was_asked(bench.service, ID_ONE));
    assert_int_equal(fake_temporal_calls(bench.service, FAKE_CANCEL), 1);
    fake_temporal_end(bench.service, ID_ONE, RUN_STATUS_CANCELED, NULL);
    pass(&bench, SECOND_US);
    assert_int_equal(last(&bench, REPORT_ENDED)->end_state, END_CANCELLED);
    close_bench(&bench);
}

static void a_termination_through_weir_is_a_cancel_though_the_node_has_not_heard_of_it(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start_and_follow(&bench, ID_ONE);
    fake_temporal_terminate_by_weir(bench.service, ID_ONE, "enough");
    pass(&bench, 5 * SECOND_US);
    assert_int_equal(last(&bench, REPORT_ENDED)->end_state, END_CANCELLED);
    assert_string_equal(last(&bench, REPORT_ENDED)->error, "terminated by weir: enough");
    close_bench(&bench);
}

static void a_cancel_that_overtakes_its_start_is_not_lost(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    fake_temporal_push(bench.service, FAKE_LOSE_ANSWER);
    start_one(&bench, ID_ONE);
    pass(&bench, 10 * MICROSECONDS_PER_MS);
    engine_cancel(bench.engine, ID_ONE, 5);
    pass(&bench, 10 * SECOND_US);
    assert_true(fake_temporal_cancel_was_asked(bench.service, ID_ONE));
    close_bench(&bench);
}

static void a_stop_hands_over_at_once_what_runs(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start_and_follow(&bench, ID_ONE);
    engine_stop(bench.engine, false);
    (void)engine_step(bench.engine);
    assert_int_equal(heard(&bench, REPORT_GIVEN_BACK), 1);
    assert_int_equal(engine_room(bench.engine), 0);
    struct recorded recorded = {.id = ID_ONE, .fence = 5, .kind = REPORT_GIVEN_BACK, .status = WEIR_OK};
    engine_recorded(bench.engine, &recorded, 1);
    (void)engine_step(bench.engine);
    assert_int_equal(engine_running(bench.engine), 0);
    close_bench(&bench);
}

static void a_stop_waits_for_nothing_but_answers(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    fake_temporal_push(bench.service, FAKE_LOSE_ANSWER);
    start_one(&bench, ID_ONE);
    pass(&bench, 10 * MICROSECONDS_PER_MS); /* its outcome is not known */
    start_one(&bench, ID_TWO);
    (void)engine_step(bench.engine); /* this one is under way */
    engine_stop(bench.engine, false);
    (void)engine_step(bench.engine);
    assert_int_equal(heard(&bench, REPORT_GIVEN_BACK), 1);
    assert_string_equal(last(&bench, REPORT_GIVEN_BACK)->id, ID_ONE);
    pass(&bench, SECOND_US);
    assert_int_equal(heard(&bench, REPORT_STARTED), 1);
    assert_int_equal(heard(&bench, REPORT_GIVEN_BACK), 2);
    close_bench(&bench);
}

static void a_start_that_never_left_goes_back_into_the_queue_at_a_stop(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    engine_stop(bench.engine, false);
    start_one(&bench, ID_ONE);
    pass(&bench, SECOND_US);
    assert_int_equal(heard_in_all(&bench), 1);
    assert_false(last(&bench, REPORT_REFUSED)->spends_attempt);
    assert_int_equal(last(&bench, REPORT_REFUSED)->delay_us, 0);
    assert_int_equal(fake_temporal_calls(bench.service, FAKE_START), 0);
    close_bench(&bench);
}

/* --- many --- */

static void ten_thousand_open_workflows_cost_few_calls(void **state)
{
    struct bench bench;
    char id[UUID_TEXT_MAX];
    int made = 0;
    (void)state;
    open_bench_with(&bench, (struct temporal_options){.starts_max = 1000, .max_running = 10000});
    engine_want_slots(bench.engine, "acme", true);
    while (made < 10000) {
        for (size_t room = engine_room(bench.engine); room > 0; room--, made++) {
            (void)snprintf(id, sizeof id, "019aa000-0000-7000-8000-%012d", made);
            start_one(&bench, id);
        }
        pass(&bench, SECOND_US / 10);
    }
    assert_int_equal(heard(&bench, REPORT_STARTED), 10000);
    size_t lists = fake_temporal_calls(bench.service, FAKE_LIST);
    size_t looks = fake_temporal_calls(bench.service, FAKE_DESCRIBE);
    size_t polls = fake_temporal_calls(bench.service, FAKE_POLL);
    pass(&bench, 100 * SECOND_US);
    assert_in_range(fake_temporal_calls(bench.service, FAKE_LIST) - lists, 50, 105); /* of 10 a second */
    assert_in_range(fake_temporal_calls(bench.service, FAKE_DESCRIBE) - looks, 1, 250);
    assert_in_range(fake_temporal_calls(bench.service, FAKE_POLL) - polls, 80, 1000); /* each waits for 20 s */
    assert_in_range(fake_temporal_polls_waiting(bench.service), 80, 160); /* of one workspace: half of the places */
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_is_told_with_its_run),
        cmocka_unit_test(an_answer_that_was_lost_is_asked_for_with_the_same_bytes),
        cmocka_unit_test(what_never_left_is_let_go),
        cmocka_unit_test(an_unreachable_service_after_a_lost_answer_keeps_the_slot),
        cmocka_unit_test(what_the_service_will_never_take_is_refused_for_good),
        cmocka_unit_test(a_refusal_after_a_lost_answer_is_believed_only_when_nothing_runs),
        cmocka_unit_test(throttling_spends_nothing),
        cmocka_unit_test(starts_settle_within_a_fifth_of_the_services_limit),
        cmocka_unit_test(an_id_that_is_taken_by_our_own_start_is_ours),
        cmocka_unit_test(a_chain_that_went_on_with_a_memo_of_its_own_is_ours_by_its_first_run),
        cmocka_unit_test(a_chain_that_somebody_else_began_is_not_ours),
        cmocka_unit_test(an_id_that_somebody_else_took_fails_with_its_own_code),
        cmocka_unit_test(steps_are_put_back_for_nodes_that_run_steps),
        cmocka_unit_test(what_was_claimed_by_a_dead_node_is_started_with_the_same_bytes),
        cmocka_unit_test(what_ran_already_is_asked_for_and_never_sent),
        cmocka_unit_test(what_the_service_has_forgotten_is_an_end_and_not_a_start),
        cmocka_unit_test(a_start_older_than_the_retention_is_never_sent_again),
        cmocka_unit_test(a_fresh_node_learns_the_retention_before_it_gives_up_a_start),
        cmocka_unit_test(a_start_that_stays_unanswered_is_given_up_before_the_retention_ends),
        cmocka_unit_test(an_end_is_told_with_its_result),
        cmocka_unit_test(each_kind_of_end_has_its_state_and_words),
        cmocka_unit_test(an_end_is_seen_whatever_else_is_out_of_order),
        cmocka_unit_test(a_chain_is_followed_to_its_real_end),
        cmocka_unit_test(a_workflow_that_was_reset_is_followed_on),
        cmocka_unit_test(a_waiting_call_that_is_late_says_nothing_of_the_next_run),
        cmocka_unit_test(a_workflow_that_is_deleted_does_not_hold_its_slot),
        cmocka_unit_test(an_outage_while_runs_are_followed_ends_none),
        cmocka_unit_test(an_outage_is_told_though_nothing_is_started),
        cmocka_unit_test(an_outage_is_told_soon_by_what_is_followed),
        cmocka_unit_test(a_frozen_service_is_told_of_within_eight_seconds),
        cmocka_unit_test(a_service_that_is_slow_or_still_for_a_moment_is_no_outage),
        cmocka_unit_test(starts_that_go_wrong_are_tried_again_each_second),
        cmocka_unit_test(a_failed_call_or_a_refusal_is_no_outage),
        cmocka_unit_test(a_cancel_is_passed_on_once),
        cmocka_unit_test(a_cancel_that_overtakes_its_start_is_not_lost),
        cmocka_unit_test(a_termination_through_weir_is_a_cancel_though_the_node_has_not_heard_of_it),
        cmocka_unit_test(a_stop_hands_over_at_once_what_runs),
        cmocka_unit_test(a_stop_waits_for_nothing_but_answers),
        cmocka_unit_test(a_start_that_never_left_goes_back_into_the_queue_at_a_stop),
        cmocka_unit_test(ten_thousand_open_workflows_cost_few_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
