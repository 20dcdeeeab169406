/* Items that become runnable one by one, and the heads of their lane that the scheduler has read. */
#include "scheduler_fixture.h"

/* A row that waited is runnable, and its fact names it. */
static void wake_at(struct fixture *f, int64_t lane_id, int64_t rank)
{
    struct row *row = &f->rows[f->row_count++];
    *row = (struct row){.lane_id = lane_id, .head = {.rank = rank}};
    set_id(row->head.id, f->row_count);
    struct schedule_fact fact = {.kind = FACT_RUNNABLE, .lane_id = lane_id, .rank = rank};
    set_id(fact.id, f->row_count);
    learn(f, fact);
    learn(f, fact); /* a fact may come twice */
}

static void a_named_item_of_a_read_lane_is_not_read(void **state)
{
    struct fixture *f = *state;
    enqueue_at(f, lane(1), 100);
    enqueue_at(f, lane(1), 300);
    read_all(f);
    wake_at(f, lane(1), 100);
    wake_at(f, lane(1), 400);
    wake_at(f, lane(1), 50);
    assert_int_equal(want(f), 0);
    assert_int_equal(assign(f, 10), 5);
    assert_set(f, 5, 1, 3, 2, 4);
    settle(f, ASSIGNMENT_TAKEN);
    wake_at(f, lane(1), 20); /* before all that were taken */
    assert_int_equal(want(f), 0);
    assert_int_equal(assign(f, 10), 1);
    assert_set(f, 6);
    settle(f, ASSIGNMENT_TAKEN);
}

static void a_named_item_behind_the_window_waits_for_its_read(void **state)
{
    struct fixture *f = *state;
    enqueue(f, lane(1), 9);
    assert_int_equal(want(f), 1);
    struct lane_read read = f->reads[0];
    wake_at(f, lane(1), 2); /* while the read is under way */
    f->rows[9].state = ROW_GONE;
    answer(f, read);
    f->rows[9].state = ROW_RUNNABLE;
    read_all(f);
    wake_at(f, lane(1), 100);
    read_all(f);
    assert_int_equal(assign(f, 3), 3);
    assert_set(f, 1, 2, 10);
    settle(f, ASSIGNMENT_TAKEN);
    while (take(f, 4) > 0) {
    }
    assert_int_equal(f->rows[10].state, ROW_HELD);
}

/* Heads that came with the news begin at the new item. */
static struct lane_read read_from(int64_t lane_id, int64_t rank)
{
    return (struct lane_read){.lane_id = lane_id, .after_rank = rank, .most = 4};
}

static void a_lane_that_was_read_to_its_end_is_read_from_its_next_item_on(void **state)
{
    struct fixture *f = *state;
    enqueue_at(f, lane(1), 100);
    read_all(f);
    assert_int_equal(take(f, 1), 1);
    enqueue_at(f, lane(1), 300);
    answer(f, read_from(lane(1), 300));
    assert_int_equal(want(f), 0);
    enqueue_at(f, lane(1), 200); /* committed later, though it is before the other one */
    answer(f, read_from(lane(1), 200));
    assert_int_equal(want(f), 0);
    assert_int_equal(assign(f, 10), 2);
    assert_set(f, 3, 2);
    settle(f, ASSIGNMENT_TAKEN);
}

static void heads_behind_unread_items_are_not_taken(void **state)
{
    struct fixture *f = *state;
    enqueue_at(f, lane(1), 100);
    enqueue_at(f, lane(1), 300);
    answer(f, read_from(lane(1), 300));
    assert_int_equal(assign(f, 10), 0);
    read_all(f);
    assert_int_equal(assign(f, 10), 2);
    assert_set(f, 1, 2);
    settle(f, ASSIGNMENT_TAKEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rule(a_named_item_of_a_read_lane_is_not_read),
        rule(a_named_item_behind_the_window_waits_for_its_read),
        rule(a_lane_that_was_read_to_its_end_is_read_from_its_next_item_on),
        rule(heads_behind_unread_items_are_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
