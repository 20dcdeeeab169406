#include "cli/verbs/role.h"

#include "base/text.h"
#include "cli/verbs/wait_reason.h"
#include "support/test.h"

static struct arena arena;
static struct output output;
static int64_t now_us;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 1024 * 1024);
    output_open(&output, stdout, stderr, &arena);
    assert_int_equal(time_parse("2026-11-21T10:00:00Z", 0, &now_us, NULL), WEIR_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_close(&arena);
    return 0;
}

/* `node` NULL: the role is without a holder. */
static json_t *role(const char *node, const char *since, const char *expires, bool is_free, int64_t epoch, int64_t lag_us,
                    int64_t takeovers)
{
    json_t *scheduler =
        json_pack("{s:s?, s:i, s:I, s:s?, s:s?, s:b, s:I, s:I, s:s}", "node", node, "node_id", node != NULL ? 7 : 0,
                  "epoch", (json_int_t)epoch, "taken_at", since, "expires_at", expires, "is_free", is_free, "lag_us",
                  (json_int_t)lag_us, "takeovers_hour", (json_int_t)takeovers, "why", "nobody had the role");
    assert_non_null(scheduler);
    return scheduler;
}

static void assert_role(json_t *scheduler, enum role_health health, int64_t free_us, const char *text)
{
    assert_int_equal(role_health(scheduler), health);
    assert_true(role_free_us(scheduler, now_us) == free_us);
    assert_string_equal(role_text(&output, scheduler, now_us), text);
    json_decref(scheduler);
}

static void a_held_role_names_node_age_epoch_and_lag(void **state)
{
    (void)state;
    assert_role(role("node-1", "2026-11-21T09:56:48Z", "2026-11-21T10:00:02Z", false, 12, 0, 1), ROLE_IS_FINE, 0,
                "node-1 for 3m12s, epoch 12, books current");
    assert_role(role("node-1", "2026-11-21T09:59:55Z", "2026-11-21T10:00:02Z", false, 12, 400000, 6), ROLE_IS_FINE, 0,
                "node-1 for 5.0s, epoch 12, books 400ms behind");
}

static void late_books_and_many_takeovers_are_found(void **state)
{
    (void)state;
    assert_role(role("a", "2026-11-21T09:00:00Z", "2026-11-21T10:00:02Z", false, 3, ROLE_BEHIND_US, 0), ROLE_IS_FINE, 0,
                "a for 1h00m, epoch 3, books 5.0s behind");
    assert_role(role("a", "2026-11-21T09:00:00Z", "2026-11-21T10:00:02Z", false, 3, ROLE_BEHIND_US + 1, 0), ROLE_IS_BEHIND,
                0, "a for 1h00m, epoch 3, books 5.0s behind");
    assert_role(role("a", "2026-11-21T09:59:59Z", "2026-11-21T10:00:02Z", false, 9, 60000000, ROLE_MOVES_HOUR + 1),
                ROLE_MOVES, 0, "a for 1.0s, epoch 9, books 1m00s behind");
}

static void a_free_role_is_shown_with_its_time_and_cause(void **state)
{
    (void)state;
    assert_role(role(NULL, NULL, NULL, true, 0, 0, 0), ROLE_IS_FREE, 0, "none yet");
    assert_role(role(NULL, "2026-11-21T09:59:48Z", NULL, true, 4, 0, 0), ROLE_IS_FREE, 12 * MICROSECONDS_PER_SECOND,
                "none for 12s: the last scheduler has left the role");
    assert_role(role("node-1", "2026-11-21T09:00:00Z", "2026-11-21T09:59:56Z", true, 4, 0, 9), ROLE_IS_FREE,
                4 * MICROSECONDS_PER_SECOND, "none for 4.0s: the lease of node-1 is over");
    /* Its session has ended, or its node is dead, before its lease is over. */
    assert_role(role("node-1", "2026-11-21T09:00:00Z", "2026-11-21T10:00:02Z", true, 4, 0, 0), ROLE_IS_FREE, 0,
                "none: node-1 has ended or is dead");
}

/* The failure of a round is named before late books and takeovers, which are its consequence. */
static void a_role_whose_rounds_fail_is_shown_with_since_when_and_why(void **state)
{
    (void)state;
    json_t *fails = role("a", "2026-11-21T09:59:59Z", "2026-11-21T10:00:02Z", false, 9, 60000000, ROLE_MOVES_HOUR + 1);
    json_t *lost = role("a", "2026-11-21T09:00:00Z", "2026-11-21T09:59:56Z", true, 4, 0, 9);
    json_t *failure = json_pack("{s:s, s:s}", "failing_since", "2026-11-21T09:59:52Z", "error", "denied (store_failed)");
    assert_int_equal(json_object_update(fails, failure), 0);
    assert_int_equal(json_object_update(lost, failure), 0);
    json_decref(failure);
    assert_role(fails, ROLE_FAILS, 0, "a has the role, and its rounds have failed for 8.0s: denied (store_failed)");
    assert_role(lost, ROLE_IS_FREE, 4 * MICROSECONDS_PER_SECOND,
                "none for 4.0s: the lease of a is over; a live node has failed to take it for 8.0s: denied (store_failed)");
}

static void names_are_made_safe(void **state)
{
    (void)state;
    assert_role(role("a\033[2Jb", "2026-11-21T09:59:59Z", "2026-11-21T10:00:02Z", false, 1, 0, 0), ROLE_IS_FINE, 0,
                "a?[2Jb for 1.0s, epoch 1, books current");
}

static const char *reason_of(bool is_free, int nodes, int used, int engine)
{
    static char kept[64];
    json_t *workspace = json_pack("{s:i, s:i, s:i, s:i}", "pending", 3, "delayed", 0, "slots_used", used, "slots_max", 1);
    json_t *status =
        json_pack("{s:i, s:b, s:{s:b}}", "nodes", nodes, "engine_reachable", engine, "scheduler", "is_free", is_free);
    text_copy(kept, sizeof kept, wait_reason_of_workspace(status, workspace));
    json_decref(workspace);
    json_decref(status);
    return kept;
}

static void without_a_scheduler_nothing_is_called_ready(void **state)
{
    (void)state;
    assert_string_equal(reason_of(false, 1, 0, 1), "ready");
    assert_string_equal(reason_of(false, 1, 1, 1), "workspace_at_capacity");
    assert_string_equal(reason_of(true, 1, 0, 1), "no_scheduler");
    assert_string_equal(reason_of(true, 1, 1, 1), "no_scheduler");
    assert_string_equal(reason_of(true, 0, 0, 1), "no_node_in_group");
    assert_string_equal(reason_of(true, 1, 0, 0), "engine_unreachable");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_held_role_names_node_age_epoch_and_lag, set_up, tear_down),
        cmocka_unit_test_setup_teardown(late_books_and_many_takeovers_are_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_free_role_is_shown_with_its_time_and_cause, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_role_whose_rounds_fail_is_shown_with_since_when_and_why, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_are_made_safe, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_scheduler_nothing_is_called_ready, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
