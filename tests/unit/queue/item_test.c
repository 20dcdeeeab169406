#include "queue/item.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "queue/limits.h"
#include "support/seed.h"
#include "support/test.h"

static void the_states_have_the_documented_names_and_order(void **state)
{
    (void)state;
    static const char *const names[] = {"PENDING", "CLAIMED", "DISPATCHED", "WAITING", "COMPLETED", "FAILED", "CANCELLED"};
    assert_int_equal(ITEM_STATE_COUNT, sizeof names / sizeof names[0]);
    for (int i = 0; i < ITEM_STATE_COUNT; i++) {
        assert_string_equal(item_state_name((enum item_state)i), names[i]);
        assert_int_equal(item_is_terminal((enum item_state)i), i >= ITEM_COMPLETED);
    }
}

static void no_move_leads_out_of_a_terminal_state(void **state)
{
    (void)state;
    size_t count = 0;
    const struct item_move *moves = item_moves(&count);
    for (size_t i = 0; i < count; i++) {
        assert_false(item_is_terminal(moves[i].from));
    }
    for (int from = ITEM_COMPLETED; from < ITEM_STATE_COUNT; from++) {
        for (int to = 0; to < ITEM_STATE_COUNT; to++) {
            assert_false(item_may_move((enum item_state)from, (enum item_state)to));
        }
    }
}

/* The whole square, written out by hand: a move that slips into the table by mistake is seen here. */
static void only_the_known_pairs_of_states_are_legal(void **state)
{
    (void)state;
    static const char legal[ITEM_STATE_COUNT][ITEM_STATE_COUNT + 1] = {
        /* PENDING    */ ".C....X",
        /* CLAIMED    */ "RCDWEFX",
        /* DISPATCHED */ ".C.WEFX",
        /* WAITING    */ "P.....X",
        /* COMPLETED  */ ".......",
        /* FAILED     */ ".......",
        /* CANCELLED  */ ".......",
    };
    for (int from = 0; from < ITEM_STATE_COUNT; from++) {
        for (int to = 0; to < ITEM_STATE_COUNT; to++) {
            assert_int_equal(item_may_move((enum item_state)from, (enum item_state)to), legal[from][to] != '.');
        }
    }
}

static void each_cause_is_there_once_per_state(void **state)
{
    (void)state;
    size_t count = 0;
    const struct item_move *moves = item_moves(&count);
    for (size_t i = 0; i < count; i++) {
        assert_true(item_may_move(moves[i].from, moves[i].to));
        for (size_t k = 0; k < i; k++) {
            assert_false(moves[k].from == moves[i].from && strcmp(moves[k].because, moves[i].because) == 0);
        }
    }
}

static void only_a_refused_start_spends_an_attempt(void **state)
{
    (void)state;
    size_t count = 0;
    const struct item_move *moves = item_moves(&count);
    for (size_t i = 0; i < count; i++) {
        const char *because = moves[i].because;
        enum item_counter expected = COUNTS_NOTHING;
        if (strcmp(because, "retry") == 0 || strcmp(because, "refuse") == 0) {
            expected = COUNTS_ATTEMPT;
        } else if (strcmp(because, "defer") == 0) {
            expected = COUNTS_DEFERRAL;
        } else if (strcmp(because, "hand_over") == 0 || strcmp(because, "poison") == 0) {
            expected = COUNTS_HANDOVER;
        }
        assert_int_equal(moves[i].counter, expected);
    }
}

static void a_state_is_read_in_any_case_and_nothing_else_is(void **state)
{
    (void)state;
    enum item_state read = ITEM_FAILED;
    assert_true(item_state_parse("pending", &read));
    assert_int_equal(read, ITEM_PENDING);
    assert_true(item_state_parse("Dispatched", &read));
    assert_int_equal(read, ITEM_DISPATCHED);
    static const char *const wrong[] = {"", "PEND", "PENDINGS", " PENDING", "RUNNING", "PENDING\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        read = ITEM_CLAIMED;
        assert_false(item_state_parse(wrong[i], &read));
        assert_int_equal(read, ITEM_CLAIMED);
    }
}

static void every_pending_reason_has_a_name_and_a_meaning(void **state)
{
    (void)state;
    assert_int_equal(PENDING_REASON_COUNT, 14);
    for (int i = 0; i < PENDING_REASON_COUNT; i++) {
        const char *name = pending_reason_name((enum pending_reason)i);
        assert_true(strlen(name) > 0);
        assert_true(strspn(name, "abcdefghijklmnopqrstuvwxyz_") == strlen(name));
        assert_true(strlen(pending_reason_meaning((enum pending_reason)i)) > strlen(name));
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(name, pending_reason_name((enum pending_reason)j));
        }
    }
}

static void a_higher_priority_goes_first_and_an_earlier_time_goes_first(void **state)
{
    (void)state;
    struct random random;
    test_seed(&random, "item_rank");
    for (int i = 0; i < 10000; i++) {
        int64_t run_at_us = (int64_t)random_below(&random, 4000000000000000);
        int priority = PRIORITY_LEAST + (int)random_below(&random, PRIORITY_MOST - PRIORITY_LEAST);
        int64_t later_us = 1 + (int64_t)random_below(&random, 86400 * MICROSECONDS_PER_SECOND);
        assert_true(item_rank(run_at_us, priority + 1) < item_rank(run_at_us, priority));
        assert_true(item_rank(run_at_us, priority) < item_rank(run_at_us + later_us, priority));
    }
}

/* nFlow's strict order starves low priority for ever; here an hour of waiting outweighs one level. */
static void a_low_priority_is_not_starved(void **state)
{
    (void)state;
    int64_t old_us = 1763700000000000;
    for (int level = 1; level <= PRIORITY_MOST; level++) {
        int64_t bound_us = level * PRIORITY_AGEING_US;
        assert_true(item_rank(old_us, 0) > item_rank(old_us + bound_us - 1, level));
        assert_true(item_rank(old_us, 0) < item_rank(old_us + bound_us + 1, level));
    }
}

static void a_rank_never_overflows(void **state)
{
    (void)state;
    assert_true(item_rank(INT64_MAX - 1, PRIORITY_LEAST) > 0);
    assert_true(item_rank(INT64_MIN + 1, PRIORITY_MOST) < 0);
    assert_int_equal(item_rank(TIME_NEVER, PRIORITY_MOST), TIME_NEVER);
}

static void a_state_that_does_not_exist_aborts(void **state)
{
    (void)state;
    pid_t child = test_fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stderr);
        (void)signal(SIGABRT, SIG_DFL);
        _exit(item_is_terminal(ITEM_STATE_COUNT));
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_states_have_the_documented_names_and_order),
        cmocka_unit_test(no_move_leads_out_of_a_terminal_state),
        cmocka_unit_test(only_the_known_pairs_of_states_are_legal),
        cmocka_unit_test(each_cause_is_there_once_per_state),
        cmocka_unit_test(only_a_refused_start_spends_an_attempt),
        cmocka_unit_test(a_state_is_read_in_any_case_and_nothing_else_is),
        cmocka_unit_test(every_pending_reason_has_a_name_and_a_meaning),
        cmocka_unit_test(a_higher_priority_goes_first_and_an_earlier_time_goes_first),
        cmocka_unit_test(a_low_priority_is_not_starved),
        cmocka_unit_test(a_rank_never_overflows),
        cmocka_unit_test(a_state_that_does_not_exist_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
