/* Rounds of the scheduler on SQLite, called by hand: epochs, staleness, news, heads, promotion, orphans, inboxes, books.
 * The duties of every driver are in tests/conformance. */
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/scene.h"
#include "store/sqlite/facts.h"
#include "store/sqlite/news.h"

enum { HEADS = 20, ASSIGNED_MOST = 100 };

/* A scheduler that has loaded, and the answer to its last round. */
struct caller {
    struct scene *scene;
    struct store *store;
    int64_t node;
    int64_t epoch;
    struct schedule_answer answer;
};

static enum weir_status round_of(struct caller *caller, struct schedule_call call)
{
    call.node_id = caller->node;
    call.epoch = caller->epoch;
    caller->answer = (struct schedule_answer){.assigned = 0};
    return store_schedule(caller->store, &call, &caller->scene->arena, &caller->answer, &caller->scene->error);
}

static void load(struct caller *caller)
{
    scene_ok(caller->scene, take_role(caller->store, caller->node, &caller->epoch, &caller->scene->error));
    scene_ok(caller->scene, round_of(caller, (struct schedule_call){.load = true}));
}

static struct caller caller_of(struct scene *scene)
{
    struct caller caller = {.scene = scene, .store = scene->store, .node = scene->node};
    load(&caller);
    return caller;
}

static size_t count_facts(const struct caller *caller, enum schedule_fact_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < caller->answer.fact_count; i++) {
        count += caller->answer.facts[i].kind == kind;
    }
    return count;
}

static struct schedule_fact fact_of(const struct caller *caller, enum schedule_fact_kind kind)
{
    for (size_t i = 0; i < caller->answer.fact_count; i++) {
        if (caller->answer.facts[i].kind == kind) {
            return caller->answer.facts[i];
        }
    }
    fail_msg("there is no fact of kind %d", (int)kind);
    return (struct schedule_fact){.lane_id = 0};
}

static int64_t lane_of(struct scene *scene, const char *workspace)
{
    return lane_id_of(1, scene_number(scene, "SELECT id FROM workspaces WHERE name = '%s'", workspace));
}

/* The first items of a lane as assignments to `node`. */
static size_t plan(struct caller *caller, int64_t lane_id, int64_t node, size_t most, struct assignment *assignments)
{
    struct lane_read read = {.lane_id = lane_id, .after_rank = INT64_MIN, .most = most};
    scene_ok(caller->scene, round_of(caller, (struct schedule_call){.reads = &read, .read_count = 1}));
    for (size_t i = 0; i < read.count; i++) {
        assignments[i] = (struct assignment){.rank = read.heads[i].rank, .lane_id = lane_id, .node_id = node};
        memcpy(assignments[i].id, read.heads[i].id, SCHEDULER_ID_BYTES);
    }
    return read.count;
}

static enum weir_status assign(struct caller *caller, struct assignment *assignments, size_t count)
{
    return round_of(caller, (struct schedule_call){.assignments = assignments, .assignment_count = count});
}

/* Reads news until none is left; adds up what it says of one lane. */
struct learnt {
    size_t runnable;
    int64_t slots;
    int64_t node_held;
};

static struct learnt learn_all(struct caller *caller, int64_t lane_id)
{
    struct learnt learnt = {0};
    do {
        scene_ok(caller->scene, round_of(caller, (struct schedule_call){.needs = 0}));
        for (size_t i = 0; i < caller->answer.fact_count; i++) {
            const struct schedule_fact *fact = &caller->answer.facts[i];
            if (fact->lane_id == lane_id) {
                learnt.runnable += fact->kind == FACT_RUNNABLE;
                learnt.slots += fact->kind == FACT_HELD ? fact->slots : 0;
                learnt.node_held += fact->kind == FACT_HELD ? fact->node_held : 0;
            }
        }
    } while (caller->answer.more_news);
    return learnt;
}

/* --- the role --- */

static enum weir_status ask_role(struct scene *scene, enum role_act act, int64_t node, int64_t epoch, int64_t gone,
                                 struct role_state *ret_state)
{
    struct role_request request = {
        .act = act, .node_id = node, .epoch = epoch, .lease_us = SECONDS(3), .gone_node_id = gone, .why = "test"};
    return store_role(scene->store, &request, ret_state, &scene->error);
}

static enum weir_status renew(struct scene *scene, int64_t epoch)
{
    struct caller caller = {.scene = scene, .store = scene->store, .node = scene->node, .epoch = epoch};
    return round_of(&caller, (struct schedule_call){.load = true, .lease_us = SECONDS(3)});
}

static void the_role_has_one_holder_and_each_takeover_an_epoch(void **state)
{
    struct scene *scene = *state;
    struct role_state role;
    struct role_state other;
    int64_t second = scene_add_node(scene, "node-2", "default");
    scene_ok(scene, ask_role(scene, ROLE_TAKE, scene->node, 0, 0, &role));
    assert_int_equal(role.node_id, scene->node);
    assert_string_equal(role.node, "node-1");
    assert_false(role.is_free);
    assert_int_equal(role.expires_us, role.now_us + SECONDS(3));
    assert_int_equal(ask_role(scene, ROLE_TAKE, second, 0, 0, &other), WEIR_CONFLICT);
    scene_pass(scene, SECONDS(2));
    scene_ok(scene, renew(scene, role.epoch));
    scene_pass(scene, SECONDS(2));
    assert_int_equal(ask_role(scene, ROLE_TAKE, second, 0, 0, &other), WEIR_CONFLICT);
    scene_pass(scene, SECONDS(1));
    scene_ok(scene, ask_role(scene, ROLE_TAKE, second, 0, 0, &other));
    assert_int_equal(other.epoch, role.epoch + 1);
    assert_int_equal(other.since_us, other.now_us);
    assert_int_equal(renew(scene, role.epoch), WEIR_STALE_FENCE);
    scene_ok(scene, ask_role(scene, ROLE_LEAVE, scene->node, role.epoch, 0, &role)); /* changes nothing */
    assert_int_equal(role.node_id, second);
    scene_ok(scene, ask_role(scene, ROLE_LEAVE, second, other.epoch, 0, &role));
    assert_true(role.is_free);
    assert_int_equal(role.node_id, 0);
    assert_true(role.takeovers_hour >= 2);
}

static void the_role_of_a_dead_stopped_or_gone_node_is_free_at_once(void **state)
{
    struct scene *scene = *state;
    struct role_state role;
    int64_t second = scene_add_node(scene, "node-2", "default");
    int64_t third = scene_add_node(scene, "node-3", "default");
    scene_ok(scene, ask_role(scene, ROLE_TAKE, second, 0, scene->node, &role));
    scene_ok(scene, store_node_stop(scene->store, second, true, &scene->error));
    scene_ok(scene, ask_role(scene, ROLE_READ, 0, 0, 0, &role));
    assert_true(role.is_free);
    assert_int_equal(ask_role(scene, ROLE_TAKE, second, 0, 0, &role), WEIR_STALE_FENCE);
    scene_ok(scene, ask_role(scene, ROLE_TAKE, third, 0, 0, &role));
    assert_int_equal(ask_role(scene, ROLE_TAKE, scene->node, 0, second, &role), WEIR_CONFLICT);
    scene_ok(scene, ask_role(scene, ROLE_TAKE, scene->node, 0, third, &role));
    assert_int_equal(role.node_id, scene->node);
}

static void a_stale_epoch_changes_nothing(void **state)
{
    struct scene *scene = *state;
    struct assignment assignments[HEADS];
    bool more = false;
    scene_enqueue_many(scene, "pro-co", 3);
    struct caller caller = caller_of(scene);
    size_t count = plan(&caller, lane_of(scene, "pro-co"), scene->node, HEADS, assignments);
    assert_int_equal(count, 3);
    struct caller other = caller_of(scene);
    assert_int_equal(assign(&caller, assignments, count), WEIR_STALE_FENCE);
    assert_int_equal(round_of(&caller, (struct schedule_call){.needs = NEED_DUE}), WEIR_STALE_FENCE);
    assert_int_equal(store_publish_books(scene->store, scene->node, caller.epoch, NULL, 0, &more, &scene->error),
                     WEIR_STALE_FENCE);
    assert_int_equal(scene_held(scene, "pro-co"), 0);
    scene_ok(scene, assign(&other, assignments, count));
    assert_int_equal(other.answer.assigned, 3);
}

/* --- assignments --- */

static void what_is_assigned_comes_back_in_the_order_of_the_assignments(void **state)
{
    struct scene *scene = *state;
    struct assignment assignments[HEADS];
    char ids[3][UUID_TEXT_MAX];
    for (int i = 0; i < 3; i++) {
        (void)snprintf(ids[i], UUID_TEXT_MAX, "%s", scene_enqueue(scene, "pro-co"));
    }
    struct caller caller = caller_of(scene);
    assert_int_equal(plan(&caller, lane_of(scene, "pro-co"), scene->node, HEADS, assignments), 3);
    struct assignment first = assignments[0];
    assignments[0] = assignments[2];
    assignments[2] = first;
    assignments[1].others_wait = true;
    scene_ok(scene, assign(&caller, assignments, 3));
    const struct claim_result *claimed = &caller.answer.claimed;
    assert_int_equal(claimed->count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(assignments[i].outcome, ASSIGNMENT_TAKEN);
        assert_string_equal(claimed->items[i].id, ids[2 - i]);
        assert_int_equal(claimed->items[i].fence, claimed->items[0].fence);
        assert_int_equal(claimed->items[i].others_wait, i == 1);
    }
}

static void an_item_that_was_taken_or_ended_is_gone(void **state)
{
    struct scene *scene = *state;
    struct assignment assignments[HEADS];
    scene_enqueue_many(scene, "pro-co", 2);
    struct caller caller = caller_of(scene);
    assert_int_equal(plan(&caller, lane_of(scene, "pro-co"), scene->node, HEADS, assignments), 2);
    struct bulk_result cancelled;
    struct execution_filter filter = {.id = scene_text(scene, "SELECT min(id) FROM executions")};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 1, &cancelled, &scene->error));
    assignments[2] = assignments[1];
    scene_ok(scene, assign(&caller, assignments, 3));
    assert_int_equal(caller.answer.assigned, 1);
    assert_int_equal(assignments[0].outcome + assignments[1].outcome + assignments[2].outcome,
                     ASSIGNMENT_TAKEN + 2 * ASSIGNMENT_GONE);
    assert_int_equal(assignments[2].outcome, ASSIGNMENT_GONE);
}

/* Rows are found by their number, which is used again; another lane's item must not be taken for the old one. */
static void a_number_that_is_used_again_is_not_taken_for_the_old_item(void **state)
{
    struct scene *scene = *state;
    struct assignment assignments[HEADS];
    (void)scene_enqueue(scene, "pro-co");
    struct caller caller = caller_of(scene);
    assert_int_equal(plan(&caller, lane_of(scene, "pro-co"), scene->node, HEADS, assignments), 1);
    struct bulk_result cancelled;
    struct execution_filter filter = {.workspace = "pro-co"};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 1, &cancelled, &scene->error));
    int64_t number = facts_read_id(assignments[0].id);
    (void)scene_enqueue(scene, "big-co");
    assert_int_equal(scene_number(scene, "SELECT number FROM workflow_execution_queue"), number);
    scene_ok(scene, assign(&caller, assignments, 1));
    assert_int_equal(assignments[0].outcome, ASSIGNMENT_GONE);
}

static void a_node_that_takes_nothing_gets_nothing(void **state)
{
    struct scene *scene = *state;
    struct assignment assignments[HEADS];
    int64_t second = scene_add_node(scene, "node-2", "default");
    scene_enqueue_many(scene, "pro-co", 2);
    struct caller caller = caller_of(scene);
    assert_int_equal(plan(&caller, lane_of(scene, "pro-co"), second, HEADS, assignments), 2);
    assignments[1].node_id = scene->node;
    json_decref(scene_rows(scene, "UPDATE nodes SET stopped_at = 1, recovered_at = 1 WHERE name = 'node-2'")); /* no news */
    scene_ok(scene, assign(&caller, assignments, 2));
    assert_int_equal(assignments[0].outcome, ASSIGNMENT_NO_NODE);
    assert_int_equal(assignments[1].outcome, ASSIGNMENT_BEHIND);
    scene_ok(scene, assign(&caller, &assignments[1], 1));
    assert_int_equal(assignments[1].outcome, ASSIGNMENT_TAKEN);
}

/* --- staleness --- */

static void an_act_that_was_not_read_makes_the_round_stale(void **state)
{
    struct scene *scene = *state;
    struct assignment assignments[HEADS];
    scene_enqueue_many(scene, "pro-co", 2);
    struct caller caller = caller_of(scene);
    size_t count = plan(&caller, lane_of(scene, "pro-co"), scene->node, HEADS, assignments);
    scene_pause_workspace(scene, "pro-co", true);
    scene_ok(scene, assign(&caller, assignments, count));
    assert_true(caller.answer.is_stale);
    assert_int_equal(caller.answer.assigned, 0);
    assert_int_equal(assignments[0].outcome, ASSIGNMENT_UNDONE);
    assert_int_equal(assignments[1].outcome, ASSIGNMENT_UNDONE);
    struct schedule_fact fact = fact_of(&caller, FACT_WORKSPACE);
    assert_true(fact.exists && fact.paused);
    assert_true((fact_of(&caller, FACT_NEWS).flags & NEED_STATE) != 0);
    assert_int_equal(scene_held(scene, "pro-co"), 0);
    scene_ok(scene, assign(&caller, assignments, count)); /* it was read: the caller's decision counts */
    assert_false(caller.answer.is_stale);
    assert_int_equal(caller.answer.assigned, 2);
}

static void an_act_behind_more_news_than_one_round_reads_counts_as_well(void **state)
{
    struct scene *scene = *state;
    struct assignment assignments[HEADS];
    scene_enqueue_many(scene, "pro-co", 2);
    struct caller caller = caller_of(scene);
    size_t count = plan(&caller, lane_of(scene, "pro-co"), scene->node, HEADS, assignments);
    for (int i = 0; i < NEWS_BATCH_MOST + 5; i++) {
        (void)scene_enqueue(scene, "big-co");
    }
    struct plan_change change = {.name = "pro", .max_concurrent = 1};
    scene_ok(scene, store_set_plan(scene->store, &change, &scene->error));
    scene_ok(scene, assign(&caller, assignments, count));
    assert_true(caller.answer.is_stale && caller.answer.more_news);
    assert_int_equal(count_facts(&caller, FACT_WORKSPACES), 0);
    scene_ok(scene, assign(&caller, assignments, count));
    assert_true(caller.answer.is_stale);
    assert_int_equal(count_facts(&caller, FACT_WORKSPACES), 1);
    assert_int_equal(scene_held(scene, "pro-co"), 0);
}

static void pauses_and_nodes_with_less_room_are_acts_and_more_room_is_state(void **state)
{
    struct scene *scene = *state;
    struct node_beat full = {.engine_reachable = true, .capacity = SCENE_CAPACITY};
    struct node_beat away = {.engine_reachable = false, .capacity = SCENE_CAPACITY};
    struct node_beat small = {.engine_reachable = true, .capacity = 3};
    int64_t seq = scene_number(scene, "SELECT max(seq) FROM news");
    struct {
        int kind;
        enum weir_status status;
    } acts[] = {
        {NEWS_ACT, store_set_paused(scene->store, NULL, true, &scene->error)},
        {NEWS_STATE, store_set_paused(scene->store, NULL, false, &scene->error)},
        {NEWS_ACT, store_set_paused(scene->store, "default", true, &scene->error)},
        {NEWS_STATE, store_set_paused(scene->store, "default", false, &scene->error)},
        {NEWS_ACT, store_set_desired_state(scene->store, "node-1", NODE_PAUSE, &scene->error)},
        {NEWS_STATE, store_set_desired_state(scene->store, "node-1", NODE_RUN, &scene->error)},
        {NEWS_ACT, store_node_beat(scene->store, scene->node, &away, &scene->error)},
        {NEWS_STATE, store_node_beat(scene->store, scene->node, &full, &scene->error)},
        {NEWS_ACT, store_node_beat(scene->store, scene->node, &small, &scene->error)},
        {NEWS_STATE, store_node_beat(scene->store, scene->node, &full, &scene->error)},
    };
    size_t count = sizeof acts / sizeof acts[0];
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(acts[i].status, WEIR_OK);
        assert_int_equal(scene_number(scene, "SELECT kind FROM news WHERE seq = %lld", (long long)seq + 1 + (long long)i),
                         acts[i].kind);
    }
    scene_beat(scene, scene->node); /* as before: no news */
    assert_int_equal(scene_number(scene, "SELECT max(seq) FROM news"), seq + (int64_t)count);
}

/* --- news --- */

static void news_of_ends_and_put_backs_return_slots_once(void **state)
{
    struct scene *scene = *state;
    struct assignment assignments[HEADS];
    int64_t lane_id = lane_of(scene, "pro-co");
    scene_enqueue_many(scene, "pro-co", 4);
    struct caller caller = caller_of(scene);
    scene_ok(scene, assign(&caller, assignments, plan(&caller, lane_id, scene->node, HEADS, assignments)));
    struct claim_result claimed = caller.answer.claimed;
    assert_int_equal(claimed.count, 4);
    struct learnt learnt = learn_all(&caller, lane_id); /* of its own assignments: nothing */
    assert_int_equal(learnt.slots, 0);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &claimed.items[0]), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_PUT_BACK, &claimed.items[1]), WEIR_OK);
    struct record later = scene_record_of(RECORD_RETRY, &claimed.items[2]);
    later.delay_us = SECONDS(7);
    assert_int_equal(scene_record_full(scene, scene->node, later), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &claimed.items[3]), WEIR_OK);
    learnt = learn_all(&caller, lane_id);
    assert_int_equal(learnt.slots, -3); /* of the one that is given back the slot stays taken */
    assert_int_equal(learnt.node_held, -4);
    assert_int_equal(learnt.runnable, 1);
    learnt = learn_all(&caller, lane_id);
    assert_int_equal(learnt.slots + learnt.node_held + (int64_t)learnt.runnable, 0);
}

static void news_of_one_set_is_one_row(void **state)
{
    struct scene *scene = *state;
    scene_cap(scene, "big-co", 1000);
    scene_enqueue_many(scene, "big-co", 50);
    scene_enqueue_many(scene, "pro-co", 5);
    struct claim_result claimed = scene_claim(scene, 55);
    assert_int_equal(claimed.count, 55);
    int64_t before = scene_number(scene, "SELECT max(seq) FROM news");
    scene_complete(scene, &claimed);
    assert_int_equal(scene_number(scene, "SELECT max(seq) FROM news"), before + 1);
}

static void a_set_of_more_lanes_than_one_row_holds_loses_none(void **state)
{
    struct scene *scene = *state;
    enum { WORKSPACES = 2 * NEWS_ENTRIES_MOST + 10 };
    struct enqueue_request *requests = calloc(WORKSPACES, sizeof *requests);
    struct enqueue_result *results = calloc(WORKSPACES, sizeof *results);
    char(*names)[32] = calloc(WORKSPACES, sizeof *names);
    assert_true(requests != NULL && results != NULL && names != NULL);
    for (int i = 0; i < WORKSPACES; i++) {
        (void)snprintf(names[i], sizeof names[i], "many-%d", i);
        scene_workspace(scene, names[i], "free");
        requests[i] = (struct enqueue_request){.workspace = names[i], .workflow = "hello"};
    }
    struct caller caller = caller_of(scene);
    scene_ok(scene, store_enqueue(scene->store, requests, WORKSPACES, results, &scene->error));
    scene_ok(scene, round_of(&caller, (struct schedule_call){.needs = 0}));
    assert_int_equal(count_facts(&caller, FACT_RUNNABLE), WORKSPACES);
    scene_check(scene);
    bool more = true;
    scene_ok(scene, store_publish_books(scene->store, scene->node, caller.epoch, NULL, 0, &more, &scene->error));
    assert_int_equal(scene_number(scene, "SELECT sum(runnable) FROM books"), WORKSPACES);
    free(requests);
    free(results);
    free(names);
}

/* One process enqueues and ends, the other one schedules: what it learns must add up. */
static void news_of_another_process_is_neither_lost_nor_doubled(void **state)
{
    enum { ITEMS = 400 };
    struct scene *scene = *state;
    int64_t lane_id = lane_of(scene, "big-co");
    scene_cap(scene, "big-co", ITEMS);
    store_close(scene->store);
    pid_t child = test_fork();
    assert_true(child >= 0);
    scene->store = driver_open(&scene->driver, NULL);
    if (child == 0) {
        for (int i = 0; i < ITEMS; i++) {
            struct enqueue_request request = {.workspace = "big-co", .workflow = "hello"};
            struct enqueue_result result;
            if (store_enqueue(scene->store, &request, 1, &result, &scene->error) != WEIR_OK) {
                _exit(1);
            }
        }
        store_close(scene->store);
        _exit(0);
    }
    size_t before = (size_t)scene_number(scene, "SELECT count(*) FROM workflow_execution_queue");
    struct caller caller = caller_of(scene);
    size_t after = (size_t)scene_number(scene, "SELECT count(*) FROM workflow_execution_queue");
    size_t learnt = 0;
    struct assignment assignments[HEADS];
    size_t assigned = 0;
    int64_t deadline_us = clock_boot(clock_system()) + SECONDS(240);
    while (assigned < ITEMS && clock_boot(clock_system()) < deadline_us) {
        learnt += learn_all(&caller, lane_id).runnable;
        size_t count = plan(&caller, lane_id, scene->node, HEADS, assignments);
        learnt += count_facts(&caller, FACT_RUNNABLE); /* every round returns news */
        scene_ok(scene, assign(&caller, assignments, count));
        learnt += count_facts(&caller, FACT_RUNNABLE);
        assigned += caller.answer.assigned;
        struct claim_result claimed = caller.answer.claimed;
        scene_complete(scene, &claimed);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    learnt += learn_all(&caller, lane_id).runnable;
    assert_int_equal(assigned, ITEMS);
    assert_in_range(learnt, ITEMS - after, ITEMS - before); /* what was not there at the load is news once */
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_executions"), ITEMS);
}

/* --- heads, due items, load --- */

static void heads_come_by_rank_then_in_the_order_of_enqueueing(void **state)
{
    struct scene *scene = *state;
    struct lane_read read = {.lane_id = lane_of(scene, "pro-co"), .after_rank = INT64_MIN, .most = 4};
    scene_enqueue_many(scene, "pro-co", 9); /* one rank */
    (void)scene_enqueue_request(scene,
                                &(struct enqueue_request){.workspace = "pro-co", .workflow = "hello", .priority = 1});
    struct caller caller = caller_of(scene);
    int64_t last = 0;
    size_t total = 0;
    for (int i = 0; i < 3; i++) {
        scene_ok(scene, round_of(&caller, (struct schedule_call){.reads = &read, .read_count = 1}));
        assert_int_equal(read.is_all, i == 2);
        for (size_t k = 0; k < read.count; k++) {
            int64_t number = facts_read_id(read.heads[k].id);
            assert_true(total == 0 ? number == 10 : number > last || total == 1); /* the one of high priority is first */
            last = number;
            total++;
        }
        assert_true(read.workspace_exists && !read.workspace_paused);
        assert_int_equal(read.slots_max, 5);
        read.after_rank = read.heads[read.count - 1].rank;
        memcpy(read.after_id, read.heads[read.count - 1].id, SCHEDULER_ID_BYTES);
    }
    assert_int_equal(total, 10);
}

static void due_items_become_runnable_and_the_next_due_time_is_told(void **state)
{
    struct scene *scene = *state;
    int64_t now_us = scene_now(scene);
    struct enqueue_request request = {.workspace = "pro-co", .workflow = "hello", .run_at_us = now_us + SECONDS(5)};
    struct caller caller = caller_of(scene);
    assert_int_equal(caller.answer.next_due_us, TIME_NEVER);
    (void)scene_enqueue_request(scene, &request);
    request.run_at_us = now_us + SECONDS(9);
    (void)scene_enqueue_request(scene, &request);
    scene_ok(scene, round_of(&caller, (struct schedule_call){.needs = 0}));
    struct schedule_fact news = fact_of(&caller, FACT_NEWS);
    assert_int_equal(news.flags, NEED_DUE);
    assert_int_equal(news.due_us, now_us + SECONDS(5));
    scene_ok(scene, round_of(&caller, (struct schedule_call){.needs = NEED_DUE}));
    assert_int_equal(caller.answer.next_due_us, now_us + SECONDS(5));
    scene_pass(scene, SECONDS(6));
    scene_ok(scene, round_of(&caller, (struct schedule_call){.needs = NEED_DUE}));
    assert_int_equal(caller.answer.next_due_us, now_us + SECONDS(9));
    assert_int_equal(count_facts(&caller, FACT_RUNNABLE), 1);
    assert_int_equal(fact_of(&caller, FACT_RUNNABLE).lane_id, lane_of(scene, "pro-co"));
    scene_pass(scene, SECONDS(6));
    load(&caller); /* a load promotes as well */
    assert_int_equal(caller.answer.next_due_us, TIME_NEVER);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_queue WHERE phase = 0"), 2);
}

static void a_load_brings_everything(void **state)
{
    struct scene *scene = *state;
    struct assignment assignments[HEADS];
    int64_t second = scene_add_node(scene, "node-2", "other");
    scene_enqueue_many(scene, "pro-co", 4);
    scene_enqueue_many(scene, "big-co", 3);
    struct caller caller = caller_of(scene);
    scene_ok(scene, assign(&caller, assignments, plan(&caller, lane_of(scene, "pro-co"), scene->node, 2, assignments)));
    struct claimed_item given_back = caller.answer.claimed.items[0];
    assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &given_back), WEIR_OK);
    struct lane_pass pass = {.lane_id = lane_of(scene, "big-co"), .pass = 77};
    bool more = false;
    scene_ok(scene, store_publish_books(scene->store, scene->node, caller.epoch, &pass, 1, &more, &scene->error));
    scene_ok(scene, store_set_paused(scene->store, "other", true, &scene->error));
    load(&caller);
    assert_int_equal(count_facts(&caller, FACT_QUEUE), 1);
    assert_int_equal(count_facts(&caller, FACT_GROUP), 2);
    assert_int_equal(count_facts(&caller, FACT_NODE), 2);
    assert_int_equal(count_facts(&caller, FACT_HELD), 2); /* by the node, and by nobody */
    assert_int_equal(count_facts(&caller, FACT_RUNNABLE), 2);
    assert_int_equal(fact_of(&caller, FACT_RUNNABLE).rank, INT64_MIN);
    assert_int_equal(fact_of(&caller, FACT_PASS).pass, 77);
    assert_int_equal(fact_of(&caller, FACT_HANDED_OVER).lane_id, lane_of(scene, "pro-co"));
    int64_t held = 0;
    int64_t slots = 0;
    for (size_t i = 0; i < caller.answer.fact_count; i++) {
        const struct schedule_fact *fact = &caller.answer.facts[i];
        slots += fact->kind == FACT_HELD ? fact->slots : 0;
        held += fact->kind == FACT_HELD && fact->node_id == scene->node ? fact->node_held : 0;
        if (fact->kind == FACT_NODE && fact->node_id == second) {
            assert_true(fact->accepts);
            assert_int_equal(fact->capacity, SCENE_CAPACITY);
        }
        if (fact->kind == FACT_GROUP) {
            assert_int_equal(fact->paused, fact->group_id != 1);
        }
    }
    assert_int_equal(slots, 2);
    assert_int_equal(held, 1);
    scene_ok(scene, round_of(&caller, (struct schedule_call){.needs = 0}));
    assert_int_equal(caller.answer.fact_count, 0); /* what was loaded is no news */
}

static void a_round_with_nothing_to_write_writes_nothing(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "pro-co", 1);
    struct caller caller = caller_of(scene);
    struct lane_read read = {.lane_id = lane_of(scene, "pro-co"), .after_rank = INT64_MIN, .most = 4};
    int64_t version = scene_number(scene, "PRAGMA data_version");
    for (int i = 0; i < 10; i++) {
        scene_ok(scene, round_of(&caller, (struct schedule_call){
                                              .reads = &read,
                                              .read_count = 1,
                                              .needs = NEED_STATE | NEED_DUE | NEED_HANDED_OVER,
                                          }));
        assert_int_equal(read.count, 1);
    }
    struct stat facts[2];
    char path[300];
    (void)snprintf(path, sizeof path, "%s/weir.db-wal", scene->driver.place);
    assert_int_equal(stat(path, &facts[0]), 0);
    scene_ok(scene, round_of(&caller, (struct schedule_call){.needs = NEED_STATE | NEED_DUE}));
    assert_int_equal(stat(path, &facts[1]), 0);
    assert_int_equal(facts[0].st_mtim.tv_nsec, facts[1].st_mtim.tv_nsec);
    assert_int_equal(scene_number(scene, "PRAGMA data_version"), version);
}

/* --- handovers and orphans --- */

static void a_handed_over_item_keeps_its_slot_and_goes_to_the_node_that_is_named(void **state)
{
    struct scene *scene = *state;
    struct assignment assignments[HEADS];
    int64_t lane_id = lane_of(scene, "pro-co");
    int64_t second = scene_add_node(scene, "node-2", "default");
    (void)scene_enqueue(scene, "pro-co");
    struct caller caller = caller_of(scene);
    scene_ok(scene, assign(&caller, assignments, plan(&caller, lane_id, second, 1, assignments)));
    assert_int_equal(caller.answer.claimed.count, 0);
    scene_ok(scene, store_node_stop(scene->store, second, false, &scene->error));
    scene_ok(scene, round_of(&caller, (struct schedule_call){.needs = NEED_HANDED_OVER}));
    struct schedule_fact held = fact_of(&caller, FACT_HELD);
    assert_int_equal(held.slots, 0);
    assert_int_equal(held.node_held, -1);
    assert_int_equal(held.node_id, second);
    struct schedule_fact waits = fact_of(&caller, FACT_HANDED_OVER);
    struct assignment again = {.lane_id = waits.lane_id, .node_id = scene->node, .handed_over = true};
    memcpy(again.id, waits.id, SCHEDULER_ID_BYTES);
    scene_ok(scene, assign(&caller, &again, 1));
    assert_int_equal(again.outcome, ASSIGNMENT_TAKEN);
    assert_int_equal(caller.answer.claimed.count, 1);
    assert_int_equal(caller.answer.claimed.handed_over, 1);
    assert_true(caller.answer.claimed.items[0].handed_over);
    assert_int_equal(caller.answer.claimed.items[0].interruptions, 1);
    scene_ok(scene, assign(&caller, &again, 1));
    assert_int_equal(again.outcome, ASSIGNMENT_GONE);
    assert_int_equal(scene_held(scene, "pro-co"), 1);
}

static void items_without_a_workspace_end_with_an_event(void **state)
{
    struct scene *scene = *state;
    int64_t lane_id = lane_of(scene, "pro-co");
    scene_enqueue_many(scene, "pro-co", 3);
    struct caller caller = caller_of(scene);
    scene_ok(scene, round_of(&caller, (struct schedule_call){.orphans = &lane_id, .orphan_count = 1}));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_executions"), 0); /* it has one */
    json_decref(scene_rows(scene, "DELETE FROM workspaces WHERE name = 'pro-co'"));
    struct lane_read read = {.lane_id = lane_id, .after_rank = INT64_MIN, .most = 4};
    scene_ok(scene, round_of(&caller, (struct schedule_call){
                                          .reads = &read, .read_count = 1, .orphans = &lane_id, .orphan_count = 1}));
    assert_false(read.workspace_exists);
    assert_int_equal(read.count, 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE status = 'FAILED' AND"
                                         " error_code = 'workspace_not_found' AND workspace IS NULL"),
                     3);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM execution_events WHERE event = 'refuse' AND"
                                         " reason = 'workspace_not_found'"),
                     3);
    scene_ok(scene, round_of(&caller, (struct schedule_call){.needs = 0}));
    scene_workspace(scene, "made-again", "pro");
    json_decref(scene_rows(scene, "UPDATE workspaces SET id = (SELECT max(workspace_id) FROM workflow_executions)"
                                  " WHERE name = 'made-again'")); /* for the check at the end */
}

/* --- inbox --- */

static void an_inbox_brings_each_assignment_once_in_the_order_of_the_fences(void **state)
{
    struct scene *scene = *state;
    struct assignment assignments[HEADS];
    struct inbox_position position = {0};
    struct inbox inbox;
    int64_t lane_id = lane_of(scene, "big-co");
    int64_t second = scene_add_node(scene, "node-2", "default");
    scene_enqueue_many(scene, "big-co", 9);
    struct caller caller = caller_of(scene);
    for (int i = 0; i < 3; i++) {
        scene_ok(scene, assign(&caller, assignments, plan(&caller, lane_id, second, 3, assignments)));
        assert_int_equal(caller.answer.assigned, 3);
        assert_int_equal(caller.answer.claimed.count, 0);
    }
    size_t total = 0;
    int64_t fence = 0;
    bool more = true;
    while (more) {
        scene_ok(scene, store_inbox(scene->store, second, &position, 2, &scene->arena, &inbox, &scene->error));
        for (size_t i = 0; i < inbox.claimed.count; i++) {
            assert_true(inbox.claimed.items[i].fence >= fence);
            fence = inbox.claimed.items[i].fence;
            assert_string_equal(inbox.claimed.items[i].workspace, "big-co");
        }
        total += inbox.claimed.count;
        more = inbox.more;
    }
    assert_int_equal(total, 9);
    assert_int_equal(inbox.role.node_id, scene->node);
    scene_ok(scene, store_inbox(scene->store, second, &position, 100, &scene->arena, &inbox, &scene->error));
    assert_int_equal(inbox.claimed.count, 0);
    position = (struct inbox_position){0};
    scene_ok(scene, store_inbox(scene->store, scene->node, &position, 100, &scene->arena, &inbox, &scene->error));
    assert_int_equal(inbox.claimed.count, 0);
    assert_false(inbox.requests);
}

/* --- books --- */

static void books_and_news_add_up_however_they_are_folded(void **state)
{
    struct scene *scene = *state;
    struct caller caller = caller_of(scene);
    bool more = true;
    for (int i = 0; i < 5; i++) {
        scene_enqueue_many(scene, "big-co", 7);
        scene_ok(scene, round_of(&caller, (struct schedule_call){.needs = 0}));
        scene_enqueue_many(scene, "pro-co", 3); /* behind the position: it stays news */
        scene_ok(scene, store_publish_books(scene->store, scene->node, caller.epoch, NULL, 0, &more, &scene->error));
        assert_false(more);
        assert_true(scene_number(scene, "SELECT count(*) FROM news") >= 1);
        assert_int_equal(scene_number(scene, "SELECT sum(runnable) FROM books"), (i + 1) * 7 + i * 3);
        scene_check(scene);
    }
    struct learnt learnt = learn_all(&caller, lane_of(scene, "pro-co"));
    assert_int_equal(learnt.runnable, 1);
}

static void only_the_handle_that_has_loaded_may_fold(void **state)
{
    struct scene *scene = *state;
    struct caller caller = caller_of(scene);
    struct store *other = driver_open(&scene->driver, NULL);
    bool more = false;
    assert_int_equal(store_publish_books(other, scene->node, caller.epoch, NULL, 0, &more, &scene->error), WEIR_MISUSE);
    caller.store = other;
    assert_int_equal(round_of(&caller, (struct schedule_call){.needs = 0}), WEIR_MISUSE);
    store_close(other);
}

static void a_damaged_row_of_the_news_is_reported(void **state)
{
    static const char *const texts[] = {
        "[[1,2]", "[[1]]", "nonsense", "[[4294967297,1,x]]", "[[-1,1]]", "[[1,1,1,1,1,1,1,1,1,1,1]]"};
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "pro-co");
    const char *kept = scene_text(scene, "SELECT lanes FROM news ORDER BY seq DESC LIMIT 1");
    char sql[300];
    struct lane_delta delta;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *at = texts[i];
        bool bad = false;
        while (news_next_lane(&at, &delta, &bad)) {
        }
        assert_true(bad);
    }
    struct caller caller = caller_of(scene);
    (void)scene_enqueue(scene, "pro-co");
    json_decref(scene_rows(scene, "UPDATE news SET lanes = 'nonsense' WHERE seq = (SELECT max(seq) FROM news)"));
    assert_int_equal(round_of(&caller, (struct schedule_call){.needs = 0}), WEIR_STORE_CORRUPT);
    (void)snprintf(sql, sizeof sql, "UPDATE news SET lanes = '%s' WHERE seq = (SELECT max(seq) FROM news)", kept);
    json_decref(scene_rows(scene, sql));
}

/* By SQLite's own backup into the open file, as `sqlite3 weir.db ".restore FILE"` does. */
static void load_backup(const char *from, const char *to)
{
    sqlite3 *source = NULL;
    sqlite3 *target = NULL;
    assert_int_equal(sqlite3_open_v2(from, &source, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_open_v2(to, &target, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_backup *backup = sqlite3_backup_init(target, "main", source, "main");
    assert_non_null(backup);
    assert_int_equal(sqlite3_backup_step(backup, -1), SQLITE_DONE);
    assert_int_equal(sqlite3_backup_finish(backup), SQLITE_OK);
    assert_int_equal(sqlite3_close(target), SQLITE_OK);
    assert_int_equal(sqlite3_close(source), SQLITE_OK);
}

static void a_restored_backup_makes_the_memory_void(void **state)
{
    struct scene *scene = *state;
    char backup[300];
    char sql[400];
    bool more = false;
    struct caller caller = caller_of(scene); /* the epoch is in the backup */
    (void)snprintf(backup, sizeof backup, "%s/backup.db", scene->driver.place);
    (void)snprintf(sql, sizeof sql, "VACUUM INTO '%s'", backup);
    json_decref(scene_rows(scene, sql));
    (void)scene_enqueue(scene, "pro-co");
    scene_ok(scene, round_of(&caller, (struct schedule_call){.needs = 0}));
    load_backup(backup, scene->driver.url + strlen("sqlite:"));
    assert_int_equal(store_publish_books(caller.store, caller.node, caller.epoch, NULL, 0, &more, &scene->error),
                     WEIR_STALE_FENCE);
    assert_int_equal(round_of(&caller, (struct schedule_call){.needs = 0}), WEIR_STALE_FENCE);
    load(&caller);
    scene_ok(scene, round_of(&caller, (struct schedule_call){.needs = 0}));
    (void)unlink(backup);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(the_role_has_one_holder_and_each_takeover_an_epoch),
        SCENE_TEST(the_role_of_a_dead_stopped_or_gone_node_is_free_at_once),
        SCENE_TEST(a_stale_epoch_changes_nothing),
        SCENE_TEST(what_is_assigned_comes_back_in_the_order_of_the_assignments),
        SCENE_TEST(an_item_that_was_taken_or_ended_is_gone),
        SCENE_TEST(a_number_that_is_used_again_is_not_taken_for_the_old_item),
        SCENE_TEST(a_node_that_takes_nothing_gets_nothing),
        SCENE_TEST(an_act_that_was_not_read_makes_the_round_stale),
        SCENE_TEST(an_act_behind_more_news_than_one_round_reads_counts_as_well),
        SCENE_TEST(pauses_and_nodes_with_less_room_are_acts_and_more_room_is_state),
        SCENE_TEST(news_of_ends_and_put_backs_return_slots_once),
        SCENE_TEST(news_of_one_set_is_one_row),
        SCENE_TEST(a_set_of_more_lanes_than_one_row_holds_loses_none),
        SCENE_TEST(news_of_another_process_is_neither_lost_nor_doubled),
        SCENE_TEST(heads_come_by_rank_then_in_the_order_of_enqueueing),
        SCENE_TEST(due_items_become_runnable_and_the_next_due_time_is_told),
        SCENE_TEST(a_load_brings_everything),
        SCENE_TEST(a_round_with_nothing_to_write_writes_nothing),
        SCENE_TEST(a_handed_over_item_keeps_its_slot_and_goes_to_the_node_that_is_named),
        SCENE_TEST(items_without_a_workspace_end_with_an_event),
        SCENE_TEST(an_inbox_brings_each_assignment_once_in_the_order_of_the_fences),
        SCENE_TEST(books_and_news_add_up_however_they_are_folded),
        SCENE_TEST(only_the_handle_that_has_loaded_may_fold),
        SCENE_TEST(a_damaged_row_of_the_news_is_reported),
        SCENE_TEST(a_restored_backup_makes_the_memory_void),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
