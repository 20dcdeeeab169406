/* How the scheduler shares turns and memory among lanes. */
#include <stdio.h>

#include "scheduler_fixture.h"

/* --- fairness --- */

static void turns_follow_the_weights(void **state)
{
    struct fixture *f = *state;
    int64_t turns[4] = {0};
    for (int64_t id = 1; id <= 3; id++) {
        f->limits[id].weight = id == 3 ? 4 : (int)id;
        enqueue(f, lane(id), 500);
    }
    for (int round = 0; round < 70; round++) {
        read_all(f);
        assert_int_equal(assign(f, 7), 7);
        for (size_t i = 0; i < 7; i++) {
            turns[lane_workspace_id(f->set[i].lane_id)]++;
        }
        settle(f, ASSIGNMENT_TAKEN);
        for (size_t i = 0; i < 7; i++) {
            learn_end(f, f->set[i].lane_id, NODE);
        }
        int64_t dealt = 7 * (round + 1);
        assert_in_range(turns[1], dealt / 7 - 1, dealt / 7 + 1);
        assert_in_range(turns[2], dealt * 2 / 7 - 1, dealt * 2 / 7 + 1);
        assert_in_range(turns[3], dealt * 4 / 7 - 1, dealt * 4 / 7 + 1);
    }
}

static void a_lane_that_rested_neither_saves_up_turns_nor_waits_for_others(void **state)
{
    struct fixture *f = *state;
    enqueue(f, lane(1), 50);
    assert_int_equal(take(f, 4), 4);
    for (int i = 0; i < 20; i++) {
        (void)take(f, 1);
    }
    enqueue(f, lane(2), 50);
    read_all(f);
    assert_int_equal(assign(f, 8), 8);
    size_t of_second = 0;
    for (size_t i = 0; i < 8; i++) {
        of_second += f->set[i].lane_id == lane(2) ? 1 : 0;
    }
    assert_int_equal(of_second, 4);
    settle(f, ASSIGNMENT_TAKEN);
}

static void a_turn_does_not_return_by_being_idle(void **state)
{
    struct fixture *f = *state;
    enqueue(f, lane(1), 40);
    enqueue(f, lane(2), 1);
    size_t of_second = 0;
    for (int i = 0; i < 40; i++) {
        assert_int_equal(take(f, 1), 1);
        if (f->set[0].lane_id == lane(2)) {
            of_second++;
            enqueue(f, lane(2), 1); /* never more than one */
        }
    }
    assert_in_range(of_second, 19, 21);
}

static void a_full_lane_comes_back_at_the_current_pass(void **state)
{
    struct fixture *f = *state;
    f->limits[1].slots_max = 1;
    enqueue(f, lane(1), 20);
    enqueue(f, lane(2), 100);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(take(f, 1), 1);
    }
    f->limits[1].slots_max = 100;
    learn_limits(f, 1);
    size_t of_first = 0;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(take(f, 1), 1);
        of_first += f->set[0].lane_id == lane(1) ? 1 : 0;
    }
    assert_in_range(of_first, 4, 6);
}

static void passes_survive_a_takeover(void **state)
{
    struct fixture *f = *state;
    struct lane_pass passes[10];
    f->limits[1].weight = 2;
    for (int64_t id = 1; id <= 3; id++) {
        enqueue(f, lane(id), 100);
    }
    for (int i = 0; i < 11; i++) {
        assert_int_equal(take(f, 1), 1);
    }
    read_all(f);
    assert_int_equal(scheduler_take_passes(f->scheduler, passes, 2), 2);
    assert_int_equal(scheduler_take_passes(f->scheduler, passes + 2, 8), 1);
    assert_int_equal(scheduler_take_passes(f->scheduler, passes + 3, 7), 0);

    scheduler_clear(f->scheduler);
    learn_node(f, NODE, GROUP, 1000);
    for (size_t i = 0; i < 3; i++) {
        learn(f, (struct schedule_fact){.kind = FACT_PASS, .lane_id = passes[i].lane_id, .pass = passes[i].pass});
        learn_runnable(f, passes[i].lane_id, INT64_MIN);
    }
    for (int turn = 0; turn < 12; turn++) {
        struct lane_pass *next = &passes[0];
        for (size_t i = 1; i < 3; i++) {
            bool ties = passes[i].pass == next->pass && passes[i].lane_id < next->lane_id;
            next = passes[i].pass < next->pass || ties ? &passes[i] : next;
        }
        assert_int_equal(take(f, 1), 1);
        assert_int_equal(f->set[0].lane_id, next->lane_id);
        next->pass += STRIDE_ONE / f->limits[lane_workspace_id(next->lane_id)].weight;
    }
}

static void a_pass_from_long_ago_is_no_credit(void **state)
{
    struct fixture *f = *state;
    enqueue(f, lane(1), 50);
    enqueue(f, lane(2), 50);
    enqueue(f, lane(3), 50);
    learn(f, (struct schedule_fact){.kind = FACT_PASS, .lane_id = lane(1), .pass = 5 * STRIDE_ONE});
    learn(f, (struct schedule_fact){.kind = FACT_PASS, .lane_id = lane(2), .pass = 1000 * STRIDE_ONE});
    size_t turns[4] = {0};
    for (int i = 0; i < 30; i++) {
        assert_int_equal(take(f, 1), 1);
        turns[lane_workspace_id(f->set[0].lane_id)]++;
    }
    assert_in_range(turns[1], 10, 11);
    assert_in_range(turns[2], 9, 10);
    assert_in_range(turns[3], 10, 11);
}

static void full_nodes_let_only_the_next_lanes_be_read(void **state)
{
    struct fixture *f = *state;
    learn_node(f, NODE, GROUP, 2);
    for (int64_t id = 1; id <= 9; id++) {
        enqueue(f, lane(id), 10);
    }
    assert_int_equal(scheduler_request_reads(f->scheduler, 0, f->reads, 3), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(f->reads[i].lane_id, lane((int64_t)i + 1));
        answer(f, f->reads[i]);
    }
    assert_int_equal(assign(f, 10), 2);
    settle(f, ASSIGNMENT_TAKEN);
    /* Lane 3 has the next turn. Two turns were served, so two more lanes are read ahead. */
    assert_int_equal(want(f), 2);
    assert_int_equal(f->reads[0].lane_id, lane(4));
    assert_int_equal(f->reads[1].lane_id, lane(5));
    answer(f, f->reads[0]);
    answer(f, f->reads[1]);
    assert_int_equal(want(f), 0);
    assert_false(scheduler_has_work(f->scheduler, 0));
}

static void groups_take_turns_when_a_set_is_small(void **state)
{
    struct fixture *f = *state;
    size_t turns[3] = {0};
    learn_node(f, NODE + 5, OTHER_GROUP, 100);
    enqueue(f, lane(1), 40);
    enqueue(f, lane_id_of(OTHER_GROUP, 2), 40);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(take(f, 1), 1);
        turns[lane_group_id(f->set[0].lane_id)]++;
    }
    assert_int_equal(turns[1], 10);
    assert_int_equal(turns[2], 10);
}

/* --- workspaces that do not exist --- */

static void lanes_without_workspace_are_reported_until_they_are_empty(void **state)
{
    struct fixture *f = *state;
    int64_t orphans[4];
    enqueue(f, lane(1), 3);
    f->limits[1].is_missing = true;
    assert_int_equal(scheduler_orphans(f->scheduler, orphans, 4), 0); /* not known yet */
    assert_int_equal(want(f), 1);
    answer(f, f->reads[0]);
    assert_int_equal(assign(f, 10), 0);
    assert_int_equal(scheduler_orphans(f->scheduler, orphans, 4), 1);
    assert_int_equal(orphans[0], lane(1));
    assert_true(scheduler_has_work(f->scheduler, 0));
    f->rows[0].state = ROW_GONE;
    f->rows[1].state = ROW_GONE;
    assert_int_equal(want(f), 1);
    answer(f, f->reads[0]);
    assert_int_equal(scheduler_orphans(f->scheduler, orphans, 4), 1);
    f->rows[2].state = ROW_GONE;
    assert_int_equal(want(f), 1);
    answer(f, f->reads[0]);
    assert_int_equal(scheduler_orphans(f->scheduler, orphans, 4), 0);
    assert_false(scheduler_has_work(f->scheduler, 0));
}

static void a_workspace_that_comes_back_is_served(void **state)
{
    struct fixture *f = *state;
    int64_t orphans[4];
    enqueue(f, lane(1), 3);
    assert_int_equal(take(f, 1), 1);
    f->limits[1].is_missing = true;
    learn_limits(f, 1);
    assert_int_equal(scheduler_orphans(f->scheduler, orphans, 4), 1);
    assert_int_equal(assign(f, 10), 0);
    f->limits[1].is_missing = false;
    learn_limits(f, 1);
    assert_int_equal(scheduler_orphans(f->scheduler, orphans, 4), 0);
    assert_int_equal(take(f, 10), 2);
    assert_set(f, 2, 3);
}

/* --- bounds --- */

static void heads_that_do_not_fit_are_read_again(void **state)
{
    struct fixture *f = *state;
    f->scheduler->heads_most = 10;
    for (int64_t id = 1; id <= 9; id++) {
        enqueue(f, lane(id), 6);
    }
    size_t taken = 0;
    int64_t last[WORKSPACES_MOST] = {0};
    for (int round = 0; round < 300 && taken < 54; round++) {
        (void)want(f);
        for (size_t i = 0; i < f->read_count; i++) {
            answer(f, f->reads[i]);
            assert_true(f->scheduler->heads <= f->scheduler->heads_most);
        }
        (void)assign(f, 3);
        for (size_t i = 0; i < f->set_count; i++) {
            int64_t *before = &last[lane_workspace_id(f->set[i].lane_id)];
            assert_true(number_of(f->set[i].id) > *before);
            *before = number_of(f->set[i].id);
        }
        settle(f, ASSIGNMENT_TAKEN);
        taken += f->set_count;
    }
    assert_int_equal(taken, 54);
}

/* Answers a read without rows: `count` heads behind the position, and more behind them if `is_all` is false. */
static void answer_with(struct fixture *f, struct lane_read read, size_t count, bool is_all)
{
    static struct schedule_head heads[SCHEDULER_LANE_HEADS_MOST];
    for (size_t i = 0; i < count; i++) {
        int64_t after = read.after_rank < 0 ? 0 : read.after_rank;
        heads[i] = (struct schedule_head){.rank = after + 1 + (int64_t)i};
        set_id(heads[i].id, (uint64_t)heads[i].rank);
    }
    read.heads = heads;
    read.count = count;
    read.is_all = is_all;
    read.workspace_exists = true;
    read.slots_max = 1000000;
    read.weight = 1;
    assert_int_equal(scheduler_take_heads(f->scheduler, &read), WEIR_OK);
}

static void learn_fast(struct fixture *f, struct schedule_fact fact)
{
    assert_int_equal(scheduler_learn(f->scheduler, &fact), WEIR_OK);
}

static void many_lanes_and_long_lanes_fit_into_little_memory(void **state)
{
    enum { MANY = 100000, LONG = 10, BYTES_MOST = 64 * 1024 * 1024 };
    struct fixture *f = *state;
    struct scheduler_figures figures;
    learn_node(f, NODE, GROUP, 10 * MANY);
    for (int64_t id = 1; id <= MANY + LONG; id++) {
        learn_fast(f, (struct schedule_fact){.kind = FACT_RUNNABLE, .lane_id = lane(id), .rank = INT64_MIN});
    }
    size_t taken = 0;
    for (int round = 0; round < 2000 && taken < MANY; round++) {
        f->read_count = scheduler_request_reads(f->scheduler, 0, f->reads, SCHEDULER_READS_MOST);
        for (size_t i = 0; i < f->read_count; i++) {
            bool is_long = lane_workspace_id(f->reads[i].lane_id) > MANY;
            answer_with(f, f->reads[i], is_long ? f->reads[i].most : 1, !is_long);
        }
        if (round < 400) {
            continue; /* first everything is read */
        }
        scheduler_figures(f->scheduler, &figures);
        assert_in_range(figures.bytes, 1, BYTES_MOST);
        f->set_count = scheduler_assign(f->scheduler, 0, 0, 0, f->set, 500);
        for (size_t i = f->set_count; i-- > 0;) {
            f->set[i].outcome = ASSIGNMENT_TAKEN;
            scheduler_settle(f->scheduler, 0, &f->set[i]);
        }
        taken += f->set_count;
    }
    assert_in_range(taken, MANY, MANY + 500);
    scheduler_figures(f->scheduler, &figures);
    (void)fprintf(stderr, "# %d lanes: %zu heads, %zu bytes\n", MANY + LONG, figures.heads, figures.bytes);
    check(f);
}

static void windows_of_many_deep_lanes_stay_within_the_bound(void **state)
{
    enum { MANY = 100000, BYTES_MOST = 64 * 1024 * 1024 };
    struct fixture *f = *state;
    struct scheduler_figures figures;
    learn_node(f, NODE, GROUP, 100 * MANY);
    for (int64_t id = 1; id <= MANY; id++) {
        learn_fast(f, (struct schedule_fact){.kind = FACT_RUNNABLE, .lane_id = lane(id), .rank = INT64_MIN});
    }
    for (int round = 0; round < 3000; round++) {
        f->read_count = scheduler_request_reads(f->scheduler, 0, f->reads, SCHEDULER_READS_MOST);
        for (size_t i = 0; i < f->read_count; i++) {
            answer_with(f, f->reads[i], f->reads[i].most, false);
        }
        f->set_count = scheduler_assign(f->scheduler, 0, 0, 0, f->set, 500);
        for (size_t i = f->set_count; i-- > 0;) {
            f->set[i].outcome = ASSIGNMENT_TAKEN;
            scheduler_settle(f->scheduler, 0, &f->set[i]);
        }
        scheduler_figures(f->scheduler, &figures);
        assert_in_range(figures.bytes, 1, BYTES_MOST);
        assert_in_range(figures.heads, 0, SCHEDULER_HEADS_MOST);
    }
    (void)fprintf(stderr, "# %zu lanes: %zu heads, %zu bytes\n", figures.lanes, figures.heads, figures.bytes);
    check(f);
}

static void idle_lanes_are_forgotten(void **state)
{
    struct fixture *f = *state;
    struct scheduler_figures figures;
    for (int i = 0; i < 40; i++) {
        for (int64_t id = 1; id <= 9; id++) {
            enqueue(f, lane(id), 1);
            if (i > 0 && id % 2 == 0) {
                break;
            }
        }
        assert_true(take(f, 100) > 0);
    }
    (void)want(f);
    scheduler_figures(f->scheduler, &figures);
    assert_in_range(figures.lanes, 1, 2);
    assert_int_equal(figures.held, held(f));
}

static void clearing_forgets_everything(void **state)
{
    struct fixture *f = *state;
    struct scheduler_figures figures;
    enqueue(f, lane(1), 5);
    learn_handed_over(f, lane(1), 70);
    (void)take(f, 2);
    scheduler_clear(f->scheduler);
    scheduler_figures(f->scheduler, &figures);
    assert_int_equal(figures.lanes + figures.heads + figures.nodes + (size_t)figures.held, 0);
    assert_int_equal(figures.bytes, sizeof(struct scheduler));
    assert_false(scheduler_has_work(f->scheduler, INT64_MAX - 1));
    assert_int_equal(assign(f, 10), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rule(turns_follow_the_weights),
        rule(a_lane_that_rested_neither_saves_up_turns_nor_waits_for_others),
        rule(a_turn_does_not_return_by_being_idle),
        rule(a_full_lane_comes_back_at_the_current_pass),
        rule(passes_survive_a_takeover),
        rule(a_pass_from_long_ago_is_no_credit),
        rule(full_nodes_let_only_the_next_lanes_be_read),
        rule(groups_take_turns_when_a_set_is_small),
        rule(lanes_without_workspace_are_reported_until_they_are_empty),
        rule(a_workspace_that_comes_back_is_served),
        rule(heads_that_do_not_fit_are_read_again),
        rule(many_lanes_and_long_lanes_fit_into_little_memory),
        rule(windows_of_many_deep_lanes_stay_within_the_bound),
        rule(idle_lanes_are_forgotten),
        rule(clearing_forgets_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
