/* Where a claim may begin: beyond what was served, never beyond what somebody is still opening. Time and snapshots are
 * given. */
#include "store/postgres/first_pass.h"
#include "support/test.h"

/* A claim that finds its group at `pass`; transactions from `below` on began later. */
static int64_t note(struct first_pass *first, int64_t pass, uint64_t below, const char *seen, int64_t now_us)
{
    first_pass_note(first, (struct pass_mark){.pass = pass, .below = below}, seen, now_us);
    return first->pass;
}

static void it_follows_the_claims_while_nobody_else_runs(void **state)
{
    struct first_pass first;
    (void)state;
    first_pass_forget(&first);
    assert_int_equal(note(&first, 10, 100, "100:100:", 0), INT64_MIN);
    assert_int_equal(note(&first, 20, 110, "105:105:", 1), 10); /* the mark of the claim before */
    assert_int_equal(note(&first, 30, 120, "115:115:", 2), 20);
    assert_int_equal(note(&first, 25, 130, "125:125:", 3), 25); /* what is ready there */
}

static void it_waits_for_who_began_before(void **state)
{
    struct first_pass first;
    (void)state;
    first_pass_forget(&first);
    (void)note(&first, 10, 100, "100:100:", 0);
    (void)note(&first, 20, 110, "105:105:", 1);
    assert_int_equal(note(&first, 30, 120, "107:115:107", 2), 10); /* 107 may have looked when the group stood at 10 */
    assert_int_equal(note(&first, 40, 130, "107:125:107,121", 3), 10);
    assert_int_equal(note(&first, 50, 140, "121:135:121", 4), 30); /* it has ended */
    assert_int_equal(note(&first, 60, 150, "145:145:", 5), 50);
}

static void a_snapshot_of_before_the_mark_says_nothing_about_it(void **state)
{
    struct first_pass first;
    (void)state;
    first_pass_forget(&first);
    (void)note(&first, 10, 100, "100:100:", 0);
    (void)note(&first, 20, 110, "105:105:", 1);
    assert_int_equal(note(&first, 30, 120, "105:105:", 2), 10); /* nothing was folded anew */
    assert_int_equal(note(&first, 40, 130, "101:101:", 3), 10); /* cut short: 101 runs, and others */
    assert_int_equal(note(&first, 50, 140, "0", 4), INT64_MIN); /* not known */
    assert_int_equal(note(&first, 60, 150, "145:150:x", 5), INT64_MIN);
    assert_int_equal(note(&first, 70, 160, "145", 6), INT64_MIN);
}

static void one_that_stays_is_not_waited_for_for_ever(void **state)
{
    struct first_pass first;
    int64_t now_us = 0;
    (void)state;
    first_pass_forget(&first);
    assert_int_equal(note(&first, 10, 100, "50:100:50", now_us), INT64_MIN);
    assert_int_equal(note(&first, 20, 110, "50:105:50", now_us += PASS_MARK_AGES_US - 1), INT64_MIN);
    assert_int_equal(note(&first, 30, 120, "50:115:50", now_us += 1), 20); /* the one at 10 has aged */
    assert_int_equal(note(&first, 40, 130, "50:125:50,115", now_us += 1), 20);
    assert_int_equal(note(&first, 50, 140, "50:135:50,105", now_us += 1), 10);
    assert_int_equal(note(&first, 60, 150, "50:145:50", now_us += 1), 50);
}

/* With very many claims at once nothing is kept of before, but the aged one. */
static void it_keeps_what_it_has_room_for(void **state)
{
    struct first_pass first;
    (void)state;
    first_pass_forget(&first);
    (void)note(&first, 1, 101, "100:100:", 0);
    (void)note(&first, 2, 102, "101:101:", PASS_MARK_AGES_US);
    for (uint64_t i = 3; i < 3 + 2 * PASS_MARKS; i++) {
        assert_int_equal(note(&first, (int64_t)i, 100 + i, "102:200:102", PASS_MARK_AGES_US), i <= 2 + PASS_MARKS ? 2 : 1);
    }
}

static void what_stands_lower_is_believed(void **state)
{
    struct first_pass first;
    (void)state;
    first_pass_forget(&first);
    (void)note(&first, 100, 100, "50:100:50", 0);
    (void)note(&first, 110, 110, "50:105:50", PASS_MARK_AGES_US);
    assert_int_equal(note(&first, 120, 120, "50:115:50", PASS_MARK_AGES_US), 110);
    assert_int_equal(note(&first, 7, 130, "50:125:50", PASS_MARK_AGES_US), 7);
    assert_int_equal(note(&first, 130, 140, "50:135:50", PASS_MARK_AGES_US), 7);
}

/* claim_fresh() does not tell who began later. */
static void a_mark_of_nobody_is_used_when_it_has_aged(void **state)
{
    struct first_pass first;
    (void)state;
    first_pass_forget(&first);
    assert_int_equal(note(&first, 10, 0, "100:100:", 0), INT64_MIN);
    assert_int_equal(note(&first, 20, 0, "100:100:", PASS_MARK_AGES_US), 10);
    assert_int_equal(note(&first, 30, 0, "100:100:", 2 * PASS_MARK_AGES_US), 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_follows_the_claims_while_nobody_else_runs),
        cmocka_unit_test(it_waits_for_who_began_before),
        cmocka_unit_test(a_snapshot_of_before_the_mark_says_nothing_about_it),
        cmocka_unit_test(one_that_stays_is_not_waited_for_for_ever),
        cmocka_unit_test(it_keeps_what_it_has_room_for),
        cmocka_unit_test(what_stands_lower_is_believed),
        cmocka_unit_test(a_mark_of_nobody_is_used_when_it_has_aged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
