/* The choice of the next item: stride among workspaces, caps, full and paused ones, slots that come free. */
#include "conformance/scene.h"

enum { WORKSPACES = 30 };

static void set_weight(struct scene *scene, const char *plan, int64_t max_concurrent, int weight)
{
    struct plan_change change = {.name = plan, .max_concurrent = max_concurrent, .weight = weight};
    scene_ok(scene, store_set_plan(scene->store, &change, &scene->error));
}

/* Claims `rounds` times one batch and ends it; counts the turns of up to three workspaces. */
static void take_turns(struct scene *scene, int rounds, size_t batch, const char *const names[3], size_t turns[3])
{
    memset(turns, 0, 3 * sizeof *turns);
    for (int i = 0; i < rounds; i++) {
        struct claim_result claim = scene_claim(scene, batch);
        assert_int_equal(claim.count, batch);
        for (int k = 0; k < 3; k++) {
            turns[k] += scene_count_of(&claim, names[k]);
        }
        scene_complete(scene, &claim);
    }
}

static void a_full_workspace_is_not_claimed_and_blocks_nobody(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "free-co", 2000);
    assert_int_equal(scene_claim(scene, 10).count, 1);
    json_t *before = scene_rows(scene, "SELECT * FROM workflow_execution_queue ORDER BY id");
    for (int i = 0; i < 10; i++) {
        assert_int_equal(scene_claim(scene, 10).count, 0);
    }
    json_t *after = scene_rows(scene, "SELECT * FROM workflow_execution_queue ORDER BY id");
    assert_true(json_equal(before, after)); /* no write, no attempt, no deferral */
    json_decref(before);
    json_decref(after);
    scene_enqueue(scene, "pro-co");
    assert_string_equal(scene_claim_one(scene).workspace, "pro-co");
    assert_int_equal(scene_number(scene, "SELECT max(starts_refused + deferrals) FROM executions"), 0);
}

static void equal_workspaces_take_equal_turns(void **state)
{
    struct scene *scene = *state;
    static const char *const names[3] = {"a-co", "b-co", "c-co"};
    size_t turns[3];
    for (int i = 0; i < 3; i++) {
        scene_workspace(scene, names[i], "enterprise");
        scene_enqueue_many(scene, names[i], i == 0 ? 500 : 60);
    }
    take_turns(scene, 50, 3, names, turns);
    assert_int_equal(turns[0], 50);
    assert_int_equal(turns[1], 50);
    assert_int_equal(turns[2], 50);
}

static void turns_follow_the_weights_exactly(void **state)
{
    struct scene *scene = *state;
    static const char *const names[3] = {"a-co", "b-co", "c-co"};
    size_t turns[3];
    set_weight(scene, "one", 1000, 1);
    set_weight(scene, "two", 1000, 2);
    set_weight(scene, "four", 1000, 4);
    scene_workspace(scene, "a-co", "one");
    scene_workspace(scene, "b-co", "two");
    scene_workspace(scene, "c-co", "four");
    for (int i = 0; i < 3; i++) {
        scene_enqueue_many(scene, names[i], 400);
    }
    take_turns(scene, 10, 7, names, turns);
    assert_int_equal(turns[0], 10);
    assert_int_equal(turns[1], 20);
    assert_int_equal(turns[2], 40);
    take_turns(scene, 70, 1, names, turns);
    assert_int_equal(turns[0], 10);
    assert_int_equal(turns[1], 20);
    assert_int_equal(turns[2], 40);
}

/* A large set may take more turns of a lane than heads of it were read. The lane has its turns in the next sets, because
 * its pass stays behind, and its reads grow. */
static void turns_of_large_sets_follow_the_weights_over_some_sets(void **state)
{
    struct scene *scene = *state;
    static const char *const names[3] = {"a-co", "b-co", "c-co"};
    size_t turns[3];
    scene->keeps_claimers = true;
    set_weight(scene, "one", 1000, 1);
    set_weight(scene, "two", 1000, 2);
    set_weight(scene, "four", 1000, 4);
    scene_workspace(scene, "a-co", "one");
    scene_workspace(scene, "b-co", "two");
    scene_workspace(scene, "c-co", "four");
    for (int i = 0; i < 3; i++) {
        scene_enqueue_many(scene, names[i], 600);
    }
    take_turns(scene, 10, 70, names, turns);
    assert_in_range(turns[0], 95, 105);
    assert_in_range(turns[1], 195, 205);
    assert_in_range(turns[2], 395, 405);
}

static void one_batch_interleaves_its_workspaces(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "big-co", 10);
    scene_enqueue_many(scene, "pro-co", 3);
    struct claim_result claim = scene_claim(scene, 6);
    assert_int_equal(claim.count, 6);
    for (size_t i = 1; i < 6; i++) {
        assert_string_not_equal(claim.items[i].workspace, claim.items[i - 1].workspace);
    }
}

static void a_workspace_that_rested_has_saved_up_no_turns(void **state)
{
    struct scene *scene = *state;
    static const char *const names[3] = {"big-co", "late-co", ""};
    size_t turns[3];
    scene_workspace(scene, "late-co", "enterprise");
    scene_enqueue(scene, "late-co");
    struct claim_result first = scene_claim(scene, 1);
    scene_complete(scene, &first);
    scene_enqueue_many(scene, "big-co", 300);
    take_turns(scene, 20, 10, names, turns);
    assert_int_equal(turns[0], 200);
    scene_enqueue_many(scene, "late-co", 60);
    take_turns(scene, 10, 2, names, turns);
    assert_in_range(turns[0], 9, 11);
    assert_in_range(turns[1], 9, 11);
}

static void every_ready_workspace_is_served_within_one_round(void **state)
{
    struct scene *scene = *state;
    char names[WORKSPACES][32];
    bool served[WORKSPACES] = {false};
    scene_enqueue_many(scene, "big-co", 500);
    for (int i = 0; i < WORKSPACES; i++) {
        (void)snprintf(names[i], sizeof names[i], "small-%d", i);
        scene_workspace(scene, names[i], "free");
        scene_enqueue_many(scene, names[i], 3);
    }
    for (int round = 0; round < (WORKSPACES + 1 + 9) / 10; round++) {
        struct claim_result claim = scene_claim(scene, 10);
        for (int i = 0; i < WORKSPACES; i++) {
            served[i] = served[i] || scene_count_of(&claim, names[i]) > 0;
        }
        scene_complete(scene, &claim);
    }
    for (int i = 0; i < WORKSPACES; i++) {
        assert_true(served[i]);
    }
}

static void the_default_plans_have_their_caps(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "free-co", 30);
    scene_enqueue_many(scene, "pro-co", 30);
    scene_enqueue_many(scene, "big-co", 30);
    struct claim_result claim = scene_claim(scene, 100);
    assert_int_equal(claim.count, 26);
    assert_int_equal(scene_count_of(&claim, "free-co"), 1);
    assert_int_equal(scene_count_of(&claim, "pro-co"), 5);
    assert_int_equal(scene_count_of(&claim, "big-co"), 20);
    assert_false(scene_look(scene).ready);
}

static void a_freed_slot_reopens_its_lane_at_once(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "free-co", 3);
    static const enum record_kind ends[] = {RECORD_COMPLETED, RECORD_FAILED, RECORD_CANCELLED};
    for (int i = 0; i < 3; i++) {
        struct claimed_item item = scene_claim_one(scene);
        assert_int_equal(scene_claim(scene, 10).count, 0);
        struct record record = scene_record_of(ends[i], &item);
        struct record_summary summary = {0};
        scene_ok(scene, store_record(scene->store, scene->node, &record, 1, &summary, &scene->error));
        assert_int_equal(summary.slots_freed, 1);
        assert_int_equal(summary.changed, 1);
        assert_int_equal(scene_look(scene).ready, i < 2);
    }
}

static void a_raised_cap_starts_more_at_once(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "pro-co", 20);
    assert_int_equal(scene_claim(scene, 100).count, 5);
    set_weight(scene, "pro", 8, 0);
    assert_int_equal(scene_claim(scene, 100).count, 3);
    scene_cap(scene, "pro-co", 12);
    assert_int_equal(scene_claim(scene, 100).count, 4);
}

/* Lowered below what runs: nothing is killed, nothing is started until below the cap. */
static void a_lowered_cap_starts_nothing_until_below(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "pro-co", 20);
    struct claim_result running = scene_claim(scene, 100);
    assert_int_equal(running.count, 5);
    scene_cap(scene, "pro-co", 2);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE status = 'CLAIMED'"), 5);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(scene_record(scene, RECORD_COMPLETED, &running.items[i]), WEIR_OK);
        assert_int_equal(scene_claim(scene, 100).count, 0);
    }
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &running.items[3]), WEIR_OK);
    assert_int_equal(scene_claim(scene, 100).count, 1);
    scene_cap(scene, "pro-co", -1);
    assert_int_equal(scene_claim(scene, 100).count, 3);
}

static void an_override_outlives_a_change_of_the_plan(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "pro-co", 20);
    scene_cap(scene, "pro-co", 2);
    set_weight(scene, "pro", 10, 0);
    assert_int_equal(scene_claim(scene, 100).count, 2);
    scene_cap(scene, "pro-co", -1);
    assert_int_equal(scene_claim(scene, 100).count, 8);
}

static void a_workspace_that_changes_its_plan_gets_the_plans_slots(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "free-co", 30);
    assert_int_equal(scene_claim(scene, 100).count, 1);
    scene_workspace(scene, "free-co", "enterprise");
    assert_int_equal(scene_claim(scene, 100).count, 19);
}

static void a_paused_workspace_starts_nothing_and_blocks_nobody(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "big-co", 5);
    scene_enqueue_many(scene, "pro-co", 5);
    scene_pause_workspace(scene, "big-co", true);
    struct claim_result claim = scene_claim(scene, 100);
    assert_int_equal(claim.count, 5);
    assert_int_equal(scene_count_of(&claim, "big-co"), 0);
    const char *later = scene_enqueue(scene, "big-co");
    assert_string_equal(scene_reason_of(scene, later), "workspace_paused");
    assert_int_equal(scene_claim(scene, 100).count, 0);
    scene_pause_workspace(scene, "big-co", false);
    assert_int_equal(scene_claim(scene, 100).count, 6);
}

static void what_runs_goes_on_while_its_workspace_is_paused(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "free-co", 2);
    struct claimed_item item = scene_claim_one(scene);
    scene_pause_workspace(scene, "free-co", true);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    assert_int_equal(scene_claim(scene, 100).count, 0);
    scene_pause_workspace(scene, "free-co", false);
    assert_int_equal(scene_claim(scene, 100).count, 1);
}

static void a_paused_queue_starts_nothing_at_all(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "big-co");
    scene_ok(scene, store_set_paused(scene->store, NULL, true, &scene->error));
    assert_int_equal(scene_claim(scene, 100).count, 0);
    assert_false(scene_look(scene).ready);
    assert_string_equal(scene_reason_of(scene, id), "queue_paused");
    scene_ok(scene, store_set_paused(scene->store, NULL, false, &scene->error));
    assert_int_equal(scene_claim(scene, 100).count, 1);
}

static void a_paused_group_stops_only_itself(void **state)
{
    struct scene *scene = *state;
    int64_t other = scene_add_node(scene, "node-2", "batch");
    scene_enqueue(scene, "big-co");
    const char *id = scene_enqueue_request(
        scene, &(struct enqueue_request){.workspace = "big-co", .workflow = "hello", .group = "batch"});
    scene_ok(scene, store_set_paused(scene->store, "batch", true, &scene->error));
    assert_int_equal(scene_claim_as(scene, other, "batch", 10).count, 0);
    assert_int_equal(scene_claim(scene, 10).count, 1);
    assert_string_equal(scene_reason_of(scene, id), "queue_paused");
    scene_ok(scene, store_set_paused(scene->store, "batch", false, &scene->error));
    assert_int_equal(scene_claim_as(scene, other, "batch", 10).count, 1);
}

/* A hundred waits for a slot and one refused start: one attempt, no deferral. */
static void waiting_for_a_slot_never_counts_as_an_attempt(void **state)
{
    struct scene *scene = *state;
    scene_enqueue(scene, "free-co");
    const char *waiting = scene_enqueue(scene, "free-co");
    struct claimed_item first = scene_claim_one(scene);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(scene_claim(scene, 10).count, 0);
    }
    assert_string_equal(scene_reason_of(scene, waiting), "workspace_at_capacity");
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &first), WEIR_OK);
    struct claimed_item second = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_RETRY, &second), WEIR_OK);
    assert_string_equal(scene_status_of(scene, waiting), "PENDING");
    assert_int_equal(scene_number(scene, "SELECT starts_refused FROM executions WHERE id = '%s'", waiting), 1);
    assert_int_equal(scene_number(scene, "SELECT deferrals FROM executions WHERE id = '%s'", waiting), 0);
}

static void a_lane_cut_off_by_the_limit_stays_ready(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < WORKSPACES; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "small-%d", i);
        scene_workspace(scene, name, "pro");
        scene_enqueue_many(scene, name, 4);
    }
    size_t claimed = 0;
    for (int i = 0; i < 4 * WORKSPACES / 7 + 1; i++) {
        claimed += scene_claim(scene, 7).count;
        scene_check(scene);
    }
    assert_int_equal(claimed, 4 * WORKSPACES);
}

/* The claim has an item of the workspace, and one of them fills it while more of its lane waits. */
static bool others_wait(const struct claim_result *claim, const char *workspace)
{
    bool waits = false;
    assert_true(scene_count_of(claim, workspace) > 0);
    for (size_t i = 0; i < claim->count; i++) {
        waits = waits || (strcmp(claim->items[i].workspace, workspace) == 0 && claim->items[i].others_wait);
    }
    return waits;
}

static void a_claim_marks_the_items_behind_which_others_wait(void **state)
{
    struct scene *scene = *state;
    scene_workspace(scene, "exact-co", "pro");
    scene_enqueue_many(scene, "pro-co", 7);
    scene_enqueue_many(scene, "exact-co", 5);
    scene_enqueue_many(scene, "big-co", 3);
    struct claim_result claim = scene_claim(scene, 70);
    assert_int_equal(claim.count, 13);
    assert_true(others_wait(&claim, "pro-co"));    /* full, and two are left */
    assert_false(others_wait(&claim, "exact-co")); /* full, and nothing is left */
    assert_false(others_wait(&claim, "big-co"));   /* neither */
    scene_complete(scene, &claim);
    claim = scene_claim(scene, 70);
    assert_int_equal(claim.count, 2);
    assert_false(others_wait(&claim, "pro-co"));
    /* A claim that stops at its limit leaves more that could run, and slots for it. */
    scene_enqueue_many(scene, "big-co", 10);
    claim = scene_claim(scene, 4);
    assert_int_equal(claim.count, 4);
    assert_false(others_wait(&claim, "big-co"));
    /* One at a time: told with the item that takes the last slot, as long as any is left behind it. */
    for (int left = 3; left > 0; left--) {
        scene_enqueue(scene, "free-co");
    }
    for (int left = 3; left > 0; left--) {
        do {
            claim = scene_claim(scene, 1);
            assert_int_equal(claim.count, 1);
        } while (strcmp(claim.items[0].workspace, "free-co") != 0);
        assert_int_equal(others_wait(&claim, "free-co"), left > 1);
        scene_complete(scene, &claim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_full_workspace_is_not_claimed_and_blocks_nobody),
        SCENE_TEST(equal_workspaces_take_equal_turns),
        SCENE_TEST(turns_follow_the_weights_exactly),
        SCENE_TEST(turns_of_large_sets_follow_the_weights_over_some_sets),
        SCENE_TEST(one_batch_interleaves_its_workspaces),
        SCENE_TEST(a_workspace_that_rested_has_saved_up_no_turns),
        SCENE_TEST(every_ready_workspace_is_served_within_one_round),
        SCENE_TEST(the_default_plans_have_their_caps),
        SCENE_TEST(a_freed_slot_reopens_its_lane_at_once),
        SCENE_TEST(a_raised_cap_starts_more_at_once),
        SCENE_TEST(a_lowered_cap_starts_nothing_until_below),
        SCENE_TEST(an_override_outlives_a_change_of_the_plan),
        SCENE_TEST(a_workspace_that_changes_its_plan_gets_the_plans_slots),
        SCENE_TEST(a_paused_workspace_starts_nothing_and_blocks_nobody),
        SCENE_TEST(what_runs_goes_on_while_its_workspace_is_paused),
        SCENE_TEST(a_paused_queue_starts_nothing_at_all),
        SCENE_TEST(a_paused_group_stops_only_itself),
        SCENE_TEST(waiting_for_a_slot_never_counts_as_an_attempt),
        SCENE_TEST(a_lane_cut_off_by_the_limit_stays_ready),
        SCENE_TEST(a_claim_marks_the_items_behind_which_others_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
