/* The sweep behind the demo's proof: how many executions held a slot at once. */
#include "cli/verbs/cap_audit.h"

#include "support/test.h"

static void without_a_claim_the_peak_is_zero(void **state)
{
    (void)state;
    int64_t none[1] = {0};
    assert_int_equal(cap_audit_peak(none, 0, none, 0), 0);
}

static void runs_one_after_the_other_count_once(void **state)
{
    (void)state;
    int64_t claims[] = {30, 10, 20};
    int64_t ends[] = {20, 40, 30}; /* each begins when the one before ends: the slot was free by then */
    assert_int_equal(cap_audit_peak(claims, 3, ends, 3), 1);
}

static void runs_that_overlap_by_a_microsecond_count_twice(void **state)
{
    (void)state;
    int64_t claims[] = {10, 19};
    int64_t ends[] = {20, 30};
    assert_int_equal(cap_audit_peak(claims, 2, ends, 2), 2);
}

static void a_running_execution_holds_its_slot(void **state)
{
    (void)state;
    int64_t claims[] = {10, 20, 30};
    int64_t ends[] = {15};
    assert_int_equal(cap_audit_peak(claims, 3, ends, 1), 2);
}

static void a_passed_limit_is_found_at_any_time(void **state)
{
    (void)state;
    enum { RUNS = 1000, SLOTS = 5 };
    static int64_t claims[RUNS];
    static int64_t ends[RUNS];
    for (int i = 0; i < RUNS; i++) {
        claims[i] = i / SLOTS * 100;
        ends[i] = claims[i] + 100;
    }
    assert_int_equal(cap_audit_peak(claims, RUNS, ends, RUNS), SLOTS);
    claims[500] = 49 * 100 + 50; /* one that started before its turn */
    assert_int_equal(cap_audit_peak(claims, RUNS, ends, RUNS), SLOTS + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_claim_the_peak_is_zero),
        cmocka_unit_test(runs_one_after_the_other_count_once),
        cmocka_unit_test(runs_that_overlap_by_a_microsecond_count_twice),
        cmocka_unit_test(a_running_execution_holds_its_slot),
        cmocka_unit_test(a_passed_limit_is_found_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
