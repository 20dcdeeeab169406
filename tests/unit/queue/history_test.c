#include "queue/history.h"

#include <stdlib.h>
#include <string.h>

#include "store/history.h"
#include "support/seed.h"
#include "support/test.h"

#define SECOND MICROSECONDS_PER_SECOND

static struct arena arena;

static int open_arena(void **state)
{
    (void)state;
    arena_init(&arena, 64 * 1024 * 1024);
    return 0;
}

static int close_arena(void **state)
{
    (void)state;
    arena_close(&arena);
    return 0;
}

static struct history_point copy_by_bytes(const struct history_point *point)
{
    struct text facts = {.max = HISTORY_FACTS_MAX};
    struct history_point copy = {.at_us = point->at_us, .span_us = point->span_us};
    assert_int_equal(history_encode(point, &facts), WEIR_OK);
    assert_true(history_decode(facts.data, facts.length, &arena, &copy));
    text_close(&facts);
    return copy;
}

static void waits_fall_into_buckets_with_fixed_bounds(void **state)
{
    (void)state;
    assert_int_equal(history_bucket(-1), 0);
    assert_int_equal(history_bucket(0), 0);
    assert_int_equal(history_bucket(1000), 0);
    assert_int_equal(history_bucket(1001), 1);
    assert_int_equal(history_bucket(1414), 1);
    assert_int_equal(history_bucket(1415), 2);
    assert_int_equal(history_bucket(2000), 2);
    assert_int_equal(history_bucket(2001), 3);
    assert_int_equal(history_bucket(INT64_MAX), HISTORY_BUCKETS - 1);
}

/* Each wait of a uniform distribution, and the true percentile beside it. */
static void a_percentile_lies_between_the_bounds_of_its_bucket(void **state)
{
    (void)state;
    uint32_t waits[HISTORY_BUCKETS] = {0};
    assert_int_equal(history_percentile(waits, 500), -1);
    for (int64_t ms = 1; ms <= 1000; ms++) {
        waits[history_bucket(ms * 1000)]++;
    }
    assert_in_range(history_percentile(waits, 500), 480000, 520000);
    assert_in_range(history_percentile(waits, 950), 900000, 1024000);
    assert_in_range(history_percentile(waits, 1000), 1000000, 1024000);
}

static void a_point_survives_its_bytes(void **state)
{
    (void)state;
    struct history_workspace workspaces[] = {{.id = 3, .slots_used = 2, .slots_max = 5, .pending = 127},
                                             {.id = 4, .slots_used = 0, .slots_max = 5, .pending = 1000},
                                             {.id = 70000, .slots_used = 300, .slots_max = 400, .pending = 0}};
    struct history_point point = {.at_us = 9 * SECOND,
                                  .span_us = 3 * SECOND,
                                  .starts = 7,
                                  .completed = 300,
                                  .failed = 1,
                                  .cancelled = INT64_C(1) << 40,
                                  .workspaces = workspaces,
                                  .workspace_count = 3};
    point.waits[HISTORY_WAIT][0] = 4;
    point.waits[HISTORY_WAIT][HISTORY_BUCKETS - 1] = UINT32_MAX;
    point.waits[HISTORY_DISPATCH][10] = 7;
    struct history_point copy = copy_by_bytes(&point);
    assert_int_equal(copy.at_us, point.at_us);
    assert_int_equal(copy.span_us, point.span_us);
    assert_int_equal(copy.starts, 7);
    assert_int_equal(copy.completed, 300);
    assert_int_equal(copy.failed, 1);
    assert_int_equal(copy.cancelled, INT64_C(1) << 40);
    assert_memory_equal(copy.waits, point.waits, sizeof point.waits);
    assert_int_equal(copy.workspace_count, 3);
    assert_int_equal(copy.workspaces[0].slots_used, 2);
    assert_int_equal(copy.workspaces[0].pending, 127);
    assert_int_equal(copy.workspaces[1].id, 4);
    assert_int_equal(copy.workspaces[1].slots_max, 5);
    assert_in_range(copy.workspaces[1].pending, 875, 1000); /* a class above 127 loses up to an eighth */
    assert_int_equal(copy.workspaces[2].id, 70000);
    assert_int_equal(copy.workspaces[2].slots_used, 300);
    assert_int_equal(copy.workspaces[2].slots_max, 400);
}

static void damaged_bytes_are_refused(void **state)
{
    (void)state;
    struct history_workspace workspace = {.id = 3, .slots_used = 2, .slots_max = 5};
    struct history_point point = {.starts = 300, .workspaces = &workspace, .workspace_count = 1};
    struct text facts = {.max = HISTORY_FACTS_MAX};
    struct random random;
    point.waits[HISTORY_WAIT][5] = 300;
    assert_int_equal(history_encode(&point, &facts), WEIR_OK);
    for (size_t length = 0; length < facts.length; length++) { /* cut */
        struct history_point copy = {.at_us = 1};
        assert_false(history_decode(facts.data, length, &arena, &copy));
        assert_int_equal(copy.at_us, 1);
    }
    test_seed(&random, "damaged_bytes_are_refused");
    for (int i = 0; i < 2000; i++) { /* altered: whatever is read stays within its bounds */
        char bytes[64];
        struct history_point copy = {.at_us = 1};
        assert_true(facts.length <= sizeof bytes);
        memcpy(bytes, facts.data, facts.length);
        bytes[random_below(&random, facts.length)] = (char)random_below(&random, 256);
        if (history_decode(bytes, facts.length, &arena, &copy)) {
            assert_true(copy.workspace_count <= HISTORY_WORKSPACES_MOST);
        }
    }
    text_close(&facts);
}

static void a_sum_adds_counts_and_keeps_the_highest_slots(void **state)
{
    (void)state;
    struct history_workspace early[] = {{.id = 1, .slots_used = 3, .slots_max = 5, .pending = 1},
                                        {.id = 2, .slots_used = 4, .slots_max = 5}};
    struct history_workspace late[] = {{.id = 2, .slots_used = 1, .slots_max = 6, .pending = 9},
                                       {.id = 7, .slots_used = 1}};
    struct history_point sum = {
        .at_us = 60, .span_us = 60, .starts = 1, .slots_used = 20, .pending = 1, .workspaces = early, .workspace_count = 2};
    struct history_point later = {.at_us = 180,
                                  .span_us = 60,
                                  .starts = 2,
                                  .failed = 1,
                                  .slots_used = 6,
                                  .pending = 9,
                                  .workspaces = late,
                                  .workspace_count = 2};
    sum.waits[HISTORY_PAUSE][3] = 1;
    later.waits[HISTORY_PAUSE][3] = UINT32_MAX;
    sum.waits[HISTORY_WAIT][5] = 3;
    later.waits[HISTORY_WAIT][5] = 4;
    assert_true(history_merge(&sum, &later, &arena));
    assert_int_equal(sum.at_us, 180);
    assert_int_equal(sum.span_us, 120);
    assert_int_equal(sum.starts, 3);
    assert_int_equal(sum.failed, 1);
    assert_int_equal(sum.waits[HISTORY_PAUSE][3], UINT32_MAX);
    assert_int_equal(sum.waits[HISTORY_WAIT][5], 7);
    assert_int_equal(sum.slots_used, 20); /* not the sum of the highest of each */
    assert_int_equal(sum.pending, 9);
    assert_int_equal(sum.workspace_count, 3);
    assert_int_equal(sum.workspaces[0].id, 1);
    assert_int_equal(sum.workspaces[0].slots_used, 3);
    assert_int_equal(sum.workspaces[1].slots_used, 4);
    assert_int_equal(sum.workspaces[1].slots_max, 6);
    assert_int_equal(sum.workspaces[1].pending, 9);
    assert_int_equal(sum.workspaces[2].id, 7);
}

/* Every workspace is busy in every row, the limits of neighbours differ, and all waits occur in all phases. */
static void a_day_of_a_thousand_busy_workspaces_takes_less_than_a_mebibyte(void **state)
{
    (void)state;
    enum { WORKSPACES = 1000 };
    struct history_workspace *workspaces = calloc(WORKSPACES, sizeof *workspaces);
    struct history_point point = {.starts = 1000000, .completed = 1000000, .failed = 100000, .cancelled = 100000};
    struct text facts = {.max = HISTORY_FACTS_MAX};
    assert_non_null(workspaces);
    for (int64_t i = 0; i < WORKSPACES; i++) {
        workspaces[i] =
            (struct history_workspace){.id = 3 * i + 1, .slots_used = 100, .slots_max = 100 + i % 2, .pending = 100000};
    }
    for (size_t i = 0; i < HISTORY_PHASES * HISTORY_BUCKETS; i++) {
        point.waits[i / HISTORY_BUCKETS][i % HISTORY_BUCKETS] = 10000;
    }
    point.workspaces = workspaces;
    point.workspace_count = WORKSPACES;
    assert_int_equal(history_encode(&point, &facts), WEIR_OK);
    print_message("# a row of 1000 busy workspaces has %zu bytes, a day of them %zu\n", facts.length,
                  facts.length * HISTORY_ROWS_MOST);
    assert_true(facts.length * HISTORY_ROWS_MOST <= 1024 * 1024);
    text_close(&facts);
    free(workspaces);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_arena, close_arena)
    const struct CMUnitTest tests[] = {
        TEST(waits_fall_into_buckets_with_fixed_bounds),
        TEST(a_percentile_lies_between_the_bounds_of_its_bucket),
        TEST(a_point_survives_its_bytes),
        TEST(damaged_bytes_are_refused),
        TEST(a_sum_adds_counts_and_keeps_the_highest_slots),
        TEST(a_day_of_a_thousand_busy_workspaces_takes_less_than_a_mebibyte),
    };
#undef TEST
    return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
