/* The scripted engine follows its script, and its ledger finds each violation of its rules. */
#include "support/test.h"

#include <stdlib.h>

#include "base/random.h"
#include "support/scripted_engine/ledger.h"
#include "support/scripted_engine/scripted.h"

enum { HEARD_MOST = 64 };
#define ID_ONE "019aa000-0000-7000-8000-000000000001"
#define SECOND_US MICROSECONDS_PER_SECOND

struct bench {
    struct clock clock;
    int64_t now_us;
    struct scripted_world *world;
    struct engine *engine;
    struct engine *other;
    struct report *heard[HEARD_MOST]; /* by both */
    size_t count;
};

static int64_t bench_now(void *context)
{
    return ((struct bench *)context)->now_us;
}

static void hear(void *context, struct report *report)
{
    struct bench *bench = context;
    assert_true(bench->count < HEARD_MOST);
    bench->heard[bench->count++] = report;
}

static void open_bench(struct bench *bench, enum scripted_kind kind)
{
    memset(bench, 0, sizeof *bench);
    bench->now_us = SECOND_US;
    bench->clock = (struct clock){.wall_us = bench_now, .boot_us = bench_now, .context = bench};
    bench->world = scripted_world_open(kind, &bench->clock, NULL, 1);
    assert_non_null(bench->world);
    assert_int_equal(scripted_open(bench->world, 4, &bench->engine, NULL), WEIR_OK);
    assert_int_equal(scripted_open(bench->world, 4, &bench->other, NULL), WEIR_OK);
    engine_set_sink(bench->engine, (struct report_sink){.report = hear, .context = bench});
    engine_set_sink(bench->other, (struct report_sink){.report = hear, .context = bench});
}

static void close_bench(struct bench *bench)
{
    for (size_t i = 0; i < bench->count; i++) {
        report_free(bench->heard[i]);
    }
    engine_close(bench->engine);
    engine_close(bench->other);
    scripted_world_close(bench->world);
}

static void pass(struct bench *bench, int64_t us)
{
    bench->now_us += us;
    (void)scripted_world_pass_time(bench->world);
    (void)engine_step(bench->engine);
    (void)engine_step(bench->other);
}

static void start(struct engine *engine, int64_t fence, const struct step_record *steps, size_t step_count)
{
    struct engine_start request = {.workspace = "acme",
                                   .workflow = "flow",
                                   .definition = "{}",
                                   .params = "{}",
                                   .fence = fence,
                                   .start_number = 1,
                                   .steps = steps,
                                   .step_count = step_count};
    memcpy(request.id, ID_ONE, sizeof ID_ONE);
    assert_int_equal(engine_start(engine, &request, NULL), WEIR_OK);
}

static void say_recorded(struct engine *engine, const struct report *report, enum weir_status status)
{
    struct recorded recorded = {
        .fence = report->fence, .kind = report->kind, .step_index = report->step_index, .status = status};
    memcpy(recorded.id, report->id, sizeof recorded.id);
    engine_recorded(engine, &recorded, 1);
}

static const struct report *heard(const struct bench *bench, size_t index, enum report_kind kind)
{
    assert_true(index < bench->count);
    assert_int_equal(bench->heard[index]->kind, kind);
    return bench->heard[index];
}

static void accepts_and_ends(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, SCRIPTED_IN_NODE);
    start(bench.engine, 7, NULL, 0);
    assert_int_equal(bench.count, 0); /* the call itself reports nothing */
    pass(&bench, 0);
    assert_int_equal(heard(&bench, 0, REPORT_STARTED)->fence, 7);
    say_recorded(bench.engine, heard(&bench, 1, REPORT_ENDED), WEIR_OK);
    assert_true(scripted_world_entry(bench.world, ID_ONE)->ended_durably);
    assert_int_equal(engine_running(bench.engine), 0);
    assert_int_equal(engine_free_capacity(bench.engine), 4);
    assert_null(scripted_world_broken(bench.world));
    close_bench(&bench);
}

static void each_step_waits_for_its_record(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, SCRIPTED_IN_NODE);
    scripted_world_push(bench.world, &(struct scripted_outcome){.steps = 2, .run_us = 20});
    start(bench.engine, 7, NULL, 0);
    pass(&bench, SECOND_US);
    assert_int_equal(bench.count, 2);
    assert_int_equal(heard(&bench, 1, REPORT_STEP)->step.state, STEP_RUNNING);
    assert_int_equal(scripted_world_entry(bench.world, ID_ONE)->step[0].begun, 0);
    say_recorded(bench.engine, bench.heard[1], WEIR_OK);
    assert_int_equal(scripted_world_entry(bench.world, ID_ONE)->step[0].begun, 1);
    pass(&bench, SECOND_US);
    assert_int_equal(heard(&bench, 2, REPORT_STEP)->step.state, STEP_COMPLETED);
    pass(&bench, SECOND_US);
    assert_int_equal(bench.count, 3);
    say_recorded(bench.engine, bench.heard[2], WEIR_OK);
    pass(&bench, SECOND_US);
    assert_string_equal(heard(&bench, 3, REPORT_STEP)->step.step, "step-1");
    close_bench(&bench);
}

static void takes_over_at_the_step_that_was_not_finished(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, SCRIPTED_IN_NODE);
    scripted_world_push(bench.world, &(struct scripted_outcome){.steps = 2, .run_us = 20});
    start(bench.engine, 7, NULL, 0);
    for (int i = 0; i < 2; i++) {
        pass(&bench, SECOND_US);
        say_recorded(bench.engine, bench.heard[bench.count - 1], WEIR_OK);
    }
    scripted_crash(bench.engine, false);
    struct step_record done = {.step = "step-0", .state = STEP_COMPLETED, .attempt = 1};
    start(bench.other, 8, &done, 1);
    pass(&bench, SECOND_US);
    const struct report *last = heard(&bench, bench.count - 1, REPORT_STEP);
    assert_string_equal(last->step.step, "step-1");
    assert_int_equal(last->step.state, STEP_RUNNING);
    assert_null(scripted_world_broken(bench.world));
    close_bench(&bench);
}

static void the_keeper_kills_at_the_end_of_the_lease(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, SCRIPTED_IN_NODE);
    scripted_world_push(bench.world, &(struct scripted_outcome){.never_ends = true});
    engine_lease(bench.engine, bench.now_us + SECOND_US);
    start(bench.engine, 7, NULL, 0);
    pass(&bench, 0);
    assert_int_equal(scripted_world_open_runs(bench.world, "acme"), 1);
    pass(&bench, SECOND_US);
    assert_int_equal(scripted_world_open_runs(bench.world, NULL), 0);
    engine_lease(bench.engine, bench.now_us + SECOND_US);
    pass(&bench, 0);
    assert_int_equal(heard(&bench, bench.count - 1, REPORT_GIVEN_BACK)->fence, 7);
    close_bench(&bench);
}

static void two_runs_at_once_break_the_ledger(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, SCRIPTED_IN_NODE);
    scripted_world_push(bench.world, &(struct scripted_outcome){.never_ends = true});
    start(bench.engine, 7, NULL, 0);
    pass(&bench, 0);
    start(bench.other, 8, NULL, 0);
    pass(&bench, 0);
    assert_non_null(scripted_world_broken(bench.world));
    close_bench(&bench);
}

static void a_shared_world_runs_an_id_once(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, SCRIPTED_SHARED);
    scripted_world_push(bench.world, &(struct scripted_outcome){.answer = SCRIPTED_LOSE_ANSWER, .run_us = 10 * SECOND_US});
    start(bench.engine, 7, NULL, 0);
    pass(&bench, SECOND_US);
    assert_int_equal(bench.count, 0);
    scripted_crash(bench.engine, false);
    start(bench.other, 8, NULL, 0);
    pass(&bench, SECOND_US);
    assert_int_equal(heard(&bench, 0, REPORT_STARTED)->fence, 8);
    pass(&bench, 10 * SECOND_US);
    pass(&bench, SECOND_US);
    assert_int_equal(heard(&bench, 1, REPORT_ENDED)->fence, 8);
    start(bench.other, 9, NULL, 0); /* also after its end */
    pass(&bench, SECOND_US);
    pass(&bench, SECOND_US);
    assert_int_equal(heard(&bench, bench.count - 1, REPORT_ENDED)->fence, 9);
    assert_int_equal(scripted_world_entry(bench.world, ID_ONE)->runs_begun, 1);
    assert_null(scripted_world_broken(bench.world));
    close_bench(&bench);
}

static void a_request_outlives_its_sender_in_a_shared_world(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, SCRIPTED_SHARED);
    scripted_world_push(bench.world, &(struct scripted_outcome){.arrive_us = SECOND_US, .never_ends = true});
    start(bench.engine, 7, NULL, 0);
    scripted_crash(bench.engine, false);
    pass(&bench, 2 * SECOND_US);
    assert_int_equal(scripted_world_open_runs(bench.world, NULL), 1);
    close_bench(&bench);
}

static void refuses_in_every_way(void **state)
{
    (void)state;
    static const struct {
        enum scripted_answer answer;
        enum report_kind kind;
        bool permanent;
        bool spends;
    } ways[] = {{SCRIPTED_REFUSE, REPORT_REFUSED, false, true},
                {SCRIPTED_DEFER, REPORT_REFUSED, false, false},
                {SCRIPTED_REFUSE_FOR_GOOD, REPORT_REFUSED, true, true},
                {SCRIPTED_UNREACHABLE, REPORT_UNREACHABLE, false, false}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct bench bench;
        open_bench(&bench, i % 2 == 0 ? SCRIPTED_IN_NODE : SCRIPTED_SHARED);
        scripted_world_push(bench.world, &(struct scripted_outcome){.answer = ways[i].answer});
        start(bench.engine, 7, NULL, 0);
        pass(&bench, SECOND_US);
        const struct report *report = heard(&bench, 0, ways[i].kind);
        assert_int_equal(report->permanent, ways[i].permanent);
        assert_int_equal(report->spends_start, ways[i].spends);
        assert_int_equal(engine_free_capacity(bench.engine), 4);
        close_bench(&bench);
    }
}

static void loses_says_twice_and_ends_before_the_answer(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, SCRIPTED_IN_NODE);
    scripted_world_push(bench.world, &(struct scripted_outcome){.answer = SCRIPTED_LOSE_REQUEST});
    scripted_world_push(bench.world, &(struct scripted_outcome){.answer = SCRIPTED_LOSE_REQUEST, .says_unknown = true});
    scripted_world_push(bench.world,
                        &(struct scripted_outcome){.answers_twice = true, .ends_twice = true, .ends_before_answer = true});
    start(bench.engine, 7, NULL, 0);
    pass(&bench, SECOND_US);
    assert_int_equal(bench.count, 0);
    start(bench.engine, 7, NULL, 0);
    pass(&bench, SECOND_US);
    (void)heard(&bench, 0, REPORT_UNKNOWN);
    start(bench.engine, 7, NULL, 0);
    pass(&bench, SECOND_US);
    pass(&bench, SECOND_US);
    (void)heard(&bench, 1, REPORT_ENDED);
    int started = 0;
    int ended = 0;
    for (size_t i = 0; i < bench.count; i++) {
        started += bench.heard[i]->kind == REPORT_STARTED;
        ended += bench.heard[i]->kind == REPORT_ENDED;
    }
    assert_int_equal(started, 2);
    assert_int_equal(ended, 2);
    assert_int_equal(scripted_world_entry(bench.world, ID_ONE)->runs_begun, 1);
    close_bench(&bench);
}

static void cancels_late_or_when_calmed(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, SCRIPTED_IN_NODE);
    scripted_world_push(bench.world, &(struct scripted_outcome){.never_ends = true, .cancel_us = SECOND_US});
    start(bench.engine, 7, NULL, 0);
    engine_cancel(bench.engine, ID_ONE, 7); /* overtakes the start */
    pass(&bench, 0);
    assert_int_equal(bench.count, 1);
    pass(&bench, SECOND_US);
    assert_int_equal(heard(&bench, 1, REPORT_ENDED)->end_state, END_CANCELLED);
    close_bench(&bench);

    open_bench(&bench, SCRIPTED_IN_NODE);
    scripted_world_push(bench.world, &(struct scripted_outcome){.never_ends = true, .cancel_us = TIME_NEVER});
    start(bench.engine, 7, NULL, 0);
    pass(&bench, 0);
    engine_cancel(bench.engine, ID_ONE, 7);
    pass(&bench, 1000 * SECOND_US);
    assert_int_equal(bench.count, 1);
    scripted_world_calm(bench.world);
    pass(&bench, SECOND_US);
    assert_int_equal(heard(&bench, 1, REPORT_ENDED)->end_state, END_COMPLETED);
    close_bench(&bench);
}

static void a_stop_gives_back(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, SCRIPTED_IN_NODE);
    scripted_world_push(bench.world, &(struct scripted_outcome){.never_ends = true});
    start(bench.engine, 7, NULL, 0);
    pass(&bench, SECOND_US);
    (void)heard(&bench, 0, REPORT_STARTED);
    engine_stop(bench.engine, false);
    assert_int_equal(engine_free_capacity(bench.engine), 0);
    engine_stop(bench.engine, true);
    pass(&bench, 0);
    (void)heard(&bench, 1, REPORT_GIVEN_BACK);
    assert_int_equal(scripted_world_open_runs(bench.world, NULL), 0);
    close_bench(&bench);
}

/* Its step waits on record before it is parked; the next claim goes on with the next attempt. */
static void parks_when_its_wait_is_on_record(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, SCRIPTED_IN_NODE);
    scripted_world_push(bench.world, &(struct scripted_outcome){.steps = 1, .parks = true, .park_us = 9 * SECOND_US});
    start(bench.engine, 7, NULL, 0);
    pass(&bench, SECOND_US);
    say_recorded(bench.engine, heard(&bench, 1, REPORT_STEP), WEIR_OK);
    pass(&bench, SECOND_US);
    assert_int_equal(heard(&bench, 2, REPORT_STEP)->step.state, STEP_WAITING);
    pass(&bench, SECOND_US);
    assert_int_equal(bench.count, 3);
    assert_int_equal(scripted_world_open_runs(bench.world, NULL), 1);
    say_recorded(bench.engine, bench.heard[2], WEIR_OK);
    pass(&bench, 0);
    assert_int_equal(heard(&bench, 3, REPORT_PARKED)->delay_us, 9 * SECOND_US);
    assert_int_equal(bench.heard[3]->waiting_for, WAIT_RETRY);
    assert_int_equal(scripted_world_open_runs(bench.world, NULL), 0);
    assert_int_equal(engine_running(bench.engine), 1);
    say_recorded(bench.engine, bench.heard[3], WEIR_OK);
    assert_int_equal(engine_running(bench.engine), 0);
    struct step_record waits = {.step = "step-0", .state = STEP_WAITING, .attempt = 1};
    start(bench.other, 8, &waits, 1);
    pass(&bench, SECOND_US);
    assert_int_equal(heard(&bench, bench.count - 1, REPORT_STEP)->step.attempt, 2);
    assert_true(scripted_world_entry(bench.world, ID_ONE)->began_while_waiting); /* the test was too early */
    assert_null(scripted_world_broken(bench.world));
    close_bench(&bench);
}

static void the_ledger_names_the_broken_rule(void **state)
{
    (void)state;
    struct ledger ledger;
    ledger_init(&ledger, false);
    struct scripted_entry *entry = ledger_enter(&ledger, ID_ONE, "acme");
    ledger_begin_run(&ledger, entry, 1, 1);
    ledger_begin_step(&ledger, entry, 0, 1, 1);
    ledger_end_step(&ledger, entry, 0, 2);
    ledger_step_is_durable(&ledger, entry, 0);
    assert_string_equal(ledger.broken, "");
    ledger_begin_step(&ledger, entry, 0, 2, 3);
    assert_non_null(strstr(ledger.broken, "a finished step ran again"));
    ledger_end_run(&ledger, entry, 4);
    assert_int_equal(entry->step[0].open, 0);
    ledger_close(&ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_and_ends),
        cmocka_unit_test(each_step_waits_for_its_record),
        cmocka_unit_test(takes_over_at_the_step_that_was_not_finished),
        cmocka_unit_test(the_keeper_kills_at_the_end_of_the_lease),
        cmocka_unit_test(two_runs_at_once_break_the_ledger),
        cmocka_unit_test(a_shared_world_runs_an_id_once),
        cmocka_unit_test(a_request_outlives_its_sender_in_a_shared_world),
        cmocka_unit_test(refuses_in_every_way),
        cmocka_unit_test(loses_says_twice_and_ends_before_the_answer),
        cmocka_unit_test(cancels_late_or_when_calmed),
        cmocka_unit_test(a_stop_gives_back),
        cmocka_unit_test(parks_when_its_wait_is_on_record),
        cmocka_unit_test(the_ledger_names_the_broken_rule),
    };
    return cmocka_run_group_tests_name("support/scripted", tests, NULL, NULL);
}
