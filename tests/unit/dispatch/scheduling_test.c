/* The scheduler's role among nodes, its rounds, and the inboxes of the nodes that do not schedule. */
#include "dispatch/node_internal.h"

#include "support/claiming.h"
#include "unit/dispatch/bench.h"

enum { LOG_SIZE = 256 };

/* The dispatcher's verbs since the last look at them, as "inbox role inbox schedule ". */
static char asked[LOG_SIZE];

static void note_verb(void *context, const struct event *event)
{
    static const char *const verbs[] = {"inbox", "role", "schedule", "publish_books"};
    (void)context;
    size_t length = strlen(asked);
    for (size_t i = 0; event->type == EVENT_STORE_CALLED && i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(event->reason, verbs[i]) == 0) {
            (void)snprintf(asked + length, sizeof asked - length, "%s ", event->reason);
        }
    }
}

/* Another node of the same store, with an engine and events of its own. */
struct second {
    struct engine *engine;
    struct node *node;
    struct event_bus events;
    int counts[EVENT_TYPE_COUNT];
};

static void count_second(void *context, const struct event *event)
{
    ((struct second *)context)->counts[event->type]++;
}

static void start_second(struct bench *bench, struct second *second)
{
    struct node_settings settings = bench->settings;
    *second = (struct second){.node = NULL};
    settings.name = "second";
    assert_true(event_subscribe(&second->events, count_second, second));
    assert_int_equal(scripted_open(bench->world, ROOM, &second->engine, NULL), WEIR_OK);
    assert_int_equal(node_open(bench->store, second->engine, &second->events, &settings, &second->node, NULL), WEIR_OK);
}

static void close_second(struct second *second)
{
    node_close(second->node);
    engine_close(second->engine);
}

/* Both nodes as they want to be called, at least each tenth of a second. */
static void pass_both(struct bench *bench, struct second *second, int64_t us)
{
    for (int64_t end_us = bench->now_us + us; bench->now_us < end_us; bench->now_us += SECOND / 10) {
        (void)scripted_world_pass_time(bench->world);
        if (bench->node != NULL) {
            (void)node_step(bench->node);
        }
        (void)node_step(second->node);
    }
}

static bool schedules(struct node *node)
{
    json_t *status = node_status(node);
    assert_non_null(status);
    bool answer = json_is_true(json_object_get(status, "schedules"));
    json_decref(status);
    return answer;
}

static void start_noting_node(struct bench *bench)
{
    assert_true(event_subscribe(&bench->events, note_verb, NULL));
    bench->store->events = &bench->events; /* the handles of the node's loops are copies */
    start_node(bench);
    asked[0] = '\0';
}

static struct role_state role_of(struct bench *bench)
{
    struct role_request request = {.act = ROLE_READ};
    struct role_state role;
    assert_int_equal(store_role(bench->store, &request, &role, NULL), WEIR_OK);
    return role;
}

/* --- the role --- */

static void a_node_that_finds_the_role_free_takes_it_and_loads(void **state)
{
    struct bench *bench = *state;
    start_noting_node(bench);
    assert_true(role_of(bench).is_free);
    (void)node_dispatch_step(bench->node);
    assert_true(strncmp(asked, "role inbox role inbox schedule ", strlen("role inbox role inbox schedule ")) == 0 ||
                strncmp(asked, "inbox role inbox schedule ", strlen("inbox role inbox schedule ")) == 0);
    assert_true(schedules(bench->node));
    assert_int_equal(role_of(bench).node_id, node_id(bench->node));
    assert_int_equal(bench->counts[EVENT_SCHEDULER_TAKEN], 1);
}

static void the_second_node_leaves_the_role_to_the_first(void **state)
{
    struct bench *bench = *state;
    struct second second;
    start_node(bench);
    (void)node_step(bench->node);
    start_second(bench, &second);
    pass_both(bench, &second, 20 * SECOND);
    assert_true(schedules(bench->node));
    assert_false(schedules(second.node));
    assert_int_equal(role_of(bench).epoch, 1);
    close_second(&second);
}

static void a_stop_hands_the_role_over_at_once(void **state)
{
    struct bench *bench = *state;
    struct second second;
    char id[UUID_TEXT_MAX];
    push(bench, (struct scripted_outcome){.run_us = 10 * SECOND});
    start_node(bench);
    enqueue(bench, "many", id);
    pass(bench, SECOND);
    assert_int_equal(runs_begun(bench, id), 1);
    start_second(bench, &second);
    pass_both(bench, &second, SECOND);
    node_begin_stop(bench->node, NODE_STOP_GRACEFUL);
    pass_both(bench, &second, 2 * SECOND);
    assert_int_equal(bench->counts[EVENT_SCHEDULER_LEFT], 1);
    assert_int_equal(bench->counts[EVENT_SCHEDULER_LOST], 0);
    assert_false(node_is_stopped(bench->node)); /* it awaits what runs */
    assert_true(schedules(second.node));
    enqueue_at(bench, "many", "plain", 0, id);
    node_wake(second.node);
    pass_both(bench, &second, SECOND);
    assert_int_equal(runs_begun(bench, id), 1);
    close_second(&second);
}

static void the_role_of_a_silent_node_is_taken_when_its_lease_is_over(void **state)
{
    struct bench *bench = *state;
    struct second second;
    start_node(bench);
    (void)node_step(bench->node);
    start_second(bench, &second);
    pass_both(bench, &second, SECOND);
    struct node *silent = bench->node;
    bench->node = NULL;
    pass_both(bench, &second, SCHEDULER_LEASE_US + 2 * SCHEDULER_WATCH_US);
    bench->node = silent;
    assert_true(schedules(second.node));
    assert_int_equal(role_of(bench).node_id, node_id(second.node));
    (void)node_dispatch_step(bench->node); /* it still believes to schedule, and finds out with its next call */
    assert_false(schedules(bench->node));
    assert_int_equal(bench->counts[EVENT_SCHEDULER_LOST], 1);
    close_second(&second);
}

/* --- rounds --- */

static void an_item_is_started_by_the_step_that_follows_its_enqueue(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    (void)node_dispatch_step(bench->node);
    enqueue_at(bench, "many", "plain", 0, id);
    (void)node_dispatch_step(bench->node);
    assert_string_equal(text_of(bench, id, "status"), "CLAIMED");
}

static const struct store_driver *driver_without_heads;
static size_t reads_asked;
static size_t rounds_run;

/* As a store that adds the heads of a lane from its new item on to the answer. */
static enum weir_status schedule_with_heads(struct store *store, struct schedule_call *call, struct arena *arena,
                                            struct schedule_answer *ret_answer, struct weir_error *error)
{
    enum weir_status status = driver_without_heads->schedule(store, call, arena, ret_answer, error);
    reads_asked += call->read_count;
    rounds_run++;
    for (size_t i = 0; i < ret_answer->fact_count && status == WEIR_OK && !call->load; i++) {
        if (ret_answer->facts[i].kind == FACT_RUNNABLE) {
            struct lane_read *read = arena_allocate(arena, sizeof *read);
            struct schedule_call look = {.node_id = call->node_id, .epoch = call->epoch, .reads = read, .read_count = 1};
            struct schedule_answer of_look = {.assigned = 0};
            assert_non_null(read);
            *read = (struct lane_read){
                .lane_id = ret_answer->facts[i].lane_id, .after_rank = ret_answer->facts[i].rank, .most = 2};
            status = driver_without_heads->schedule(store, &look, arena, &of_look, error);
            ret_answer->news_reads = read;
            ret_answer->news_read_count = 1;
        }
    }
    return status;
}

/* The second item comes while the first one runs, so its lane is in memory and was read to its end. */
static void an_item_whose_head_comes_with_the_news_takes_two_rounds(void **state)
{
    struct bench *bench = *state;
    struct store_driver with_heads = *bench->store->driver;
    char id[UUID_TEXT_MAX];
    driver_without_heads = bench->store->driver;
    with_heads.schedule = schedule_with_heads;
    bench->store->driver = &with_heads;
    reads_asked = 0;
    start_node(bench);
    (void)node_dispatch_step(bench->node);
    for (int i = 0; i < 3; i++) {
        enqueue_at(bench, "many", "plain", 0, id);
        rounds_run = 0;
        (void)node_dispatch_step(bench->node);
        assert_string_equal(text_of(bench, id, "status"), "CLAIMED");
        assert_int_equal(rounds_run, 2);
    }
    assert_int_equal(reads_asked, 0);
    node_close(bench->node);
    bench->node = NULL;
    bench->store->driver = driver_without_heads;
}

static bool hides_heads;
static size_t offers_used;

/* As a store that makes use of an offer. The inner one does it in three calls. */
static enum weir_status schedule_with_offer(struct store *store, struct schedule_call *call, struct arena *arena,
                                            struct schedule_answer *ret_answer, struct weir_error *error)
{
    const struct lone_offer *lone = call->lone;
    call->lone = NULL;
    enum weir_status status = driver_without_heads->schedule(store, call, arena, ret_answer, error);
    rounds_run++;
    if (status != WEIR_OK || lone == NULL || ret_answer->fact_count != 1 || ret_answer->facts[0].kind != FACT_RUNNABLE) {
        return status;
    }
    struct lane_read *read = arena_allocate(arena, sizeof *read);
    struct schedule_call look = {.node_id = call->node_id, .epoch = call->epoch, .reads = read, .read_count = 1};
    struct schedule_call make = {
        .node_id = call->node_id, .epoch = call->epoch, .assignments = call->assignments, .assignment_count = 1};
    struct schedule_answer answer = {.assigned = 0};
    assert_non_null(read);
    *read = (struct lane_read){.lane_id = ret_answer->facts[0].lane_id, .after_rank = ret_answer->facts[0].rank, .most = 2};
    assert_int_equal(driver_without_heads->schedule(store, &look, arena, &answer, error), WEIR_OK);
    assert_int_equal(lone->kinds[0], read->lane_id >> LANE_DEMAND_BIT);
    make.assignments[0] =
        (struct assignment){.rank = read->heads[0].rank, .lane_id = read->lane_id, .node_id = lone->node_id};
    memcpy(make.assignments[0].id, read->heads[0].id, SCHEDULER_ID_BYTES);
    assert_int_equal(driver_without_heads->schedule(store, &make, arena, &answer, error), WEIR_OK);
    assert_int_equal(make.assignments[0].outcome, ASSIGNMENT_TAKEN);
    call->lone = lone;
    call->assignment_count = 1;
    read->count = hides_heads ? 0 : read->count;
    ret_answer->claimed = answer.claimed;
    ret_answer->assigned = 1;
    ret_answer->news_reads = read;
    ret_answer->news_read_count = 1;
    offers_used++;
    return WEIR_OK;
}

static void use_offers(struct bench *bench, struct store_driver *driver)
{
    *driver = *bench->store->driver;
    driver_without_heads = bench->store->driver;
    driver->schedule = schedule_with_offer;
    bench->store->driver = driver;
    hides_heads = false;
    offers_used = 0;
}

static void leave_offers(struct bench *bench)
{
    node_close(bench->node);
    bench->node = NULL;
    bench->store->driver = driver_without_heads;
}

/* The first one makes the demand known. */
static void an_item_on_an_idle_node_takes_one_round(void **state)
{
    struct bench *bench = *state;
    struct store_driver driver;
    char id[UUID_TEXT_MAX];
    use_offers(bench, &driver);
    start_node(bench);
    (void)node_dispatch_step(bench->node);
    for (int i = 0; i < 4; i++) {
        enqueue_at(bench, "many", "plain", 0, id);
        rounds_run = 0;
        (void)node_dispatch_step(bench->node);
        assert_string_equal(text_of(bench, id, "status"), "CLAIMED");
        assert_int_equal(rounds_run, i == 0 ? 2 : 1);
    }
    assert_int_equal(offers_used, 3);
    assert_int_equal(bench->counts[EVENT_SCHEDULER_LOST], 0);
    leave_offers(bench);
}

/* The lease is renewed and the nodes are read although each round has an offer. */
static void offers_do_not_keep_an_idle_scheduler_from_its_lease(void **state)
{
    struct bench *bench = *state;
    struct store_driver driver;
    char id[UUID_TEXT_MAX];
    use_offers(bench, &driver);
    start_node(bench);
    pass(bench, SECOND);
    for (int i = 0; i < 30; i++) {
        enqueue_at(bench, "many", "plain", 0, id);
        node_wake(bench->node);
        pass(bench, SECOND / 4);
        assert_int_equal(runs_begun(bench, id), 1);
        assert_false(role_of(bench).is_free);
    }
    assert_true(offers_used > 15);
    assert_int_equal(role_of(bench).epoch, 1);
    leave_offers(bench);
}

/* The memory has no such item, so all facts are loaded again; the item is in the node's inbox. */
static void a_memory_that_decides_otherwise_is_given_up(void **state)
{
    struct bench *bench = *state;
    struct store_driver driver;
    char id[UUID_TEXT_MAX];
    use_offers(bench, &driver);
    start_node(bench);
    (void)node_dispatch_step(bench->node);
    enqueue_at(bench, "many", "plain", 0, id);
    (void)node_dispatch_step(bench->node);
    hides_heads = true;
    enqueue_at(bench, "many", "plain", 0, id);
    (void)node_dispatch_step(bench->node);
    assert_int_equal(offers_used, 1);
    assert_int_equal(bench->counts[EVENT_SCHEDULER_LOST], 1);
    pass(bench, SECOND);
    assert_true(schedules(bench->node));
    assert_int_equal(role_of(bench).epoch, 2);
    assert_int_equal(runs_begun(bench, id), 1);
    leave_offers(bench);
}

static void items_from_before_the_node_are_started_by_its_first_step(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    enqueue_at(bench, "many", "plain", 0, id);
    start_node(bench);
    (void)node_dispatch_step(bench->node);
    assert_string_equal(text_of(bench, id, "status"), "CLAIMED");
}

static void a_waiting_item_is_started_when_it_becomes_due(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    pass(bench, SECOND);
    enqueue_at(bench, "many", "plain", START_WALL_US + bench->now_us + 30 * SECOND, id);
    node_wake(bench->node);
    pass(bench, 29 * SECOND);
    assert_int_equal(runs_begun(bench, id), 0);
    pass(bench, 2 * SECOND);
    assert_int_equal(runs_begun(bench, id), 1);
}

/* Nothing but its time wakes the node then. */
static void the_time_at_which_an_item_becomes_due_is_the_next_step(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    pass(bench, 10 * SECOND);
    int64_t due_us = bench->now_us + SCHEDULER_IDLE_US / 8;
    enqueue_at(bench, "many", "plain", START_WALL_US + due_us, id);
    (void)node_dispatch_step(bench->node); /* it reads the news */
    assert_int_equal(node_dispatch_step(bench->node), due_us);
    bench->now_us = due_us;
    (void)node_dispatch_step(bench->node);
    assert_string_equal(text_of(bench, id, "status"), "CLAIMED");
}

static void an_idle_scheduler_only_renews_its_lease_and_reads_news(void **state)
{
    struct bench *bench = *state;
    start_noting_node(bench);
    pass(bench, 10 * SECOND);
    asked[0] = '\0';
    (void)node_dispatch_step(bench->node);
    assert_string_equal(asked, "schedule ");
    int64_t next_us = node_dispatch_step(bench->node);
    assert_true(next_us > bench->now_us && next_us <= bench->now_us + SCHEDULER_IDLE_US);
}

static void a_failed_round_is_followed_by_a_new_epoch(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    char path[128];
    sqlite3 *other = NULL;
    bench->store->deadline_us = SECOND / 50;
    start_node(bench);
    (void)node_dispatch_step(bench->node);
    int64_t epoch = role_of(bench).epoch;
    enqueue_at(bench, "many", "plain", 0, id);
    (void)snprintf(path, sizeof path, "%s/weir.db", bench->folder);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    (void)node_dispatch_step(bench->node);
    assert_false(schedules(bench->node));
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    pass(bench, 2 * SECOND);
    assert_true(schedules(bench->node));
    assert_true(role_of(bench).epoch > epoch);
    assert_int_equal(runs_begun(bench, id), 1);
}

static const struct store_driver *real_driver;
static struct store_driver late_driver;
static struct bench *late; /* the bench of the next takeover */

static void assign_one(struct bench *bench, int64_t to_node_id)
{
    struct claim_request claim = {.node_id = to_node_id, .group = "default", .limit = 1};
    struct claim_result result;
    struct arena arena;
    arena_init(&arena, 1024 * 1024);
    assert_int_equal(claim_through_scheduler(bench->store, &claim, &arena, &result, NULL), WEIR_OK);
    assert_int_equal(result.count, 1);
    arena_close(&arena);
}

/* A round of the former epoch, whose answer was lost, is committed at the last moment: a takeover waits for it. */
static enum weir_status take_behind_a_late_round(struct store *store, const struct role_request *request,
                                                 struct role_state *ret_state, struct weir_error *error)
{
    struct bench *bench = late;
    if (bench != NULL && request->act == ROLE_TAKE) {
        late = NULL;
        assign_one(bench, request->node_id);
    }
    return real_driver->role(store, request, ret_state, error);
}

static void start_node_with_late_rounds(struct bench *bench)
{
    real_driver = bench->store->driver;
    late_driver = *real_driver;
    late_driver.role = take_behind_a_late_round;
    bench->store->driver = &late_driver;
    start_node(bench);
}

static void assignments_of_a_round_without_an_answer_are_started(void **state)
{
    struct bench *bench = *state;
    char ids[2][UUID_TEXT_MAX];
    start_node_with_late_rounds(bench);
    enqueue(bench, "many", ids[0]);
    enqueue(bench, "many", ids[1]);
    late = bench;
    pass(bench, 5 * SECOND);
    assert_null(late);
    assert_int_equal(runs_begun(bench, ids[0]), 1);
    assert_int_equal(runs_begun(bench, ids[1]), 1);
}

static int64_t waits_before_us;
static int64_t waits_after_us;

/* As behind a writer that holds the file, and before a slow disk. */
static enum weir_status schedule_slowly(struct store *store, struct schedule_call *call, struct arena *arena,
                                        struct schedule_answer *ret_answer, struct weir_error *error)
{
    late->now_us += waits_before_us;
    enum weir_status status = real_driver->schedule(store, call, arena, ret_answer, error);
    late->now_us += waits_after_us;
    return status;
}

/* Sleeps until a time would end before it. */
static void a_round_that_waits_does_not_put_the_time_of_the_store_forward(void **state)
{
    static const struct {
        int64_t known_us; /* the distance that the node assumes, above the true one */
        int64_t before_us;
        int64_t after_us;
        int64_t learnt_us;
    } rounds[] = {
        {SECOND, 50000, 20000, -20000}, {-20000, 50000, 30000, -20000}, {-20000, 50000, 0, 0}, {0, 50000, 30000, 0}};
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    real_driver = bench->store->driver;
    late_driver = *real_driver;
    late_driver.schedule = schedule_slowly;
    late = bench;
    bench->store->driver = &late_driver;
    start_node(bench);
    (void)node_dispatch_step(bench->node);
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
        waits_before_us = rounds[i].before_us;
        waits_after_us = rounds[i].after_us;
        bench->node->dispatcher.store_ahead_us = START_WALL_US + rounds[i].known_us;
        enqueue(bench, "many", id);
        (void)node_dispatch_step(bench->node);
        assert_string_equal(text_of(bench, id, "status"), "CLAIMED");
        assert_int_equal(bench->node->dispatcher.store_ahead_us - START_WALL_US, rounds[i].learnt_us);
    }
    late = NULL;
}

/* The step of the takeover reads the inbox twice. Both reads bring an item, and a paused node starts neither. */
static void a_paused_node_that_takes_the_role_gives_the_items_of_both_reads_back(void **state)
{
    struct bench *bench = *state;
    char ids[2][UUID_TEXT_MAX];
    start_node_with_late_rounds(bench);
    enqueue(bench, "many", ids[0]);
    enqueue(bench, "many", ids[1]);
    assign_one(bench, node_id(bench->node));
    late = bench;
    node_pause(bench->node);
    (void)node_dispatch_step(bench->node);
    assert_null(late);
    assert_true(schedules(bench->node));
    assert_string_equal(text_of(bench, ids[0], "status"), "PENDING");
    assert_string_equal(text_of(bench, ids[1], "status"), "PENDING");
    assert_int_equal(bench->counts[EVENT_EXECUTION_DEFERRED], 2);
    node_resume(bench->node);
    pass(bench, 5 * SECOND);
    assert_int_equal(runs_begun(bench, ids[0]), 1);
    assert_int_equal(runs_begun(bench, ids[1]), 1);
}

static void an_epoch_of_a_damaged_row_makes_the_node_unhealthy(void **state)
{
    struct bench *bench = *state;
    struct weir_error error = {.status = WEIR_OK};
    char path[128];
    sqlite3 *other = NULL;
    start_node(bench);
    (void)snprintf(path, sizeof path, "%s/weir.db", bench->folder);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "UPDATE scheduler SET epoch = -1", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    (void)node_dispatch_step(bench->node);
    assert_false(schedules(bench->node));
    assert_false(node_is_healthy(bench->node, &error));
    assert_int_equal(error.status, WEIR_STORE_CORRUPT);
}

/* --- the inbox --- */

static void items_beyond_the_capacity_of_the_scheduler_go_to_the_other_node(void **state)
{
    struct bench *bench = *state;
    struct second second;
    char ids[ROOM + 2][UUID_TEXT_MAX];
    start_node(bench);
    (void)node_step(bench->node);
    start_second(bench, &second);
    pass_both(bench, &second, 3 * SECOND);
    for (int i = 0; i < ROOM + 2; i++) {
        push(bench, (struct scripted_outcome){.run_us = 10 * MINUTE});
        enqueue(bench, "many", ids[i]);
    }
    pass_both(bench, &second, 5 * SECOND);
    for (int i = 0; i < ROOM + 2; i++) {
        assert_int_equal(runs_begun(bench, ids[i]), 1);
    }
    assert_int_equal(engine_running(bench->engine), ROOM);
    assert_int_equal(engine_running(second.engine), 2);
    close_second(&second);
}

static void a_paused_scheduler_schedules_for_the_others(void **state)
{
    struct bench *bench = *state;
    struct second second;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    (void)node_step(bench->node);
    start_second(bench, &second);
    pass_both(bench, &second, 3 * SECOND);
    node_pause(bench->node);
    push(bench, (struct scripted_outcome){.run_us = 10 * MINUTE});
    enqueue(bench, "many", id);
    pass_both(bench, &second, 3 * SECOND);
    assert_true(schedules(bench->node));
    assert_int_equal(engine_running(second.engine), 1);
    close_second(&second);
}

enum { LOST_ITEMS = 12 };

/* A node with places for all takes the items and dies. Their runs die with it. */
static void lose_a_node_with_items(struct bench *bench, struct scripted_world *world)
{
    struct second lost = {.node = NULL};
    char id[UUID_TEXT_MAX];
    struct node_settings settings = bench->settings;
    settings.name = "lost";
    assert_int_equal(scripted_open(world, LOST_ITEMS, &lost.engine, NULL), WEIR_OK);
    assert_int_equal(node_open(bench->store, lost.engine, &lost.events, &settings, &lost.node, NULL), WEIR_OK);
    for (int i = 0; i < LOST_ITEMS; i++) {
        scripted_world_push(world, &(struct scripted_outcome){.run_us = MINUTE});
        enqueue(bench, "many", id);
    }
    for (int i = 0; i < 10; i++) {
        (void)node_step(lost.node);
    }
    assert_int_equal(engine_running(lost.engine), LOST_ITEMS);
    scripted_crash(lost.engine, false);
    close_second(&lost);
}

enum { LOOPS = 4 };

/* A node whose loops are called when they want to be or have been woken by the node itself, and never before. */
struct driven {
    struct node *node;
    struct engine *engine;
    int64_t due_us[LOOPS + 1]; /* the last one: of the engine */
};

static int64_t step_driven(const struct bench *bench, struct driven *driven)
{
    static int64_t (*const steps[LOOPS])(struct node *) = {node_dispatch_step, node_record_step, node_heartbeat_step,
                                                           node_maintenance_step};
    int64_t next_us = TIME_NEVER;
    for (int i = 0; i <= LOOPS; i++) {
        if (driven->due_us[i] <= bench->now_us) {
            driven->due_us[i] = i == LOOPS ? engine_step(driven->engine) : steps[i](driven->node);
        }
    }
    unsigned woken = node_take_wakes(driven->node);
    for (int i = 0; i <= LOOPS; i++) {
        driven->due_us[i] = (woken & (1U << i)) != 0 ? bench->now_us : driven->due_us[i];
        next_us = driven->due_us[i] < next_us ? driven->due_us[i] : next_us;
    }
    int64_t run_us = scripted_next(driven->engine);
    driven->due_us[LOOPS] = run_us;
    return run_us < next_us ? run_us : next_us;
}

/* No commit wakes the loops of the other node. */
static void pass_when_due(struct bench *bench, struct driven *first, struct driven *second)
{
    int64_t first_us = step_driven(bench, first);
    int64_t next_us = step_driven(bench, second);
    next_us = first_us < next_us ? first_us : next_us;
    bench->now_us = next_us > bench->now_us ? next_us : bench->now_us + 10;
}

/* One place serves the items of a lost node one by one. The last of them waits long, and each follows the one before it
 * with the next round of the scheduler. */
static void handed_over_items_follow_each_other_without_a_wake(void **state)
{
    struct bench *bench = *state;
    struct second second = {.node = NULL};
    struct node_settings settings = bench->settings;
    int64_t first_us = 0;
    int64_t last_us = 0;
    int64_t longest_us = 0;
    struct scripted_world *world = scripted_world_open(SCRIPTED_IN_NODE, &bench->clock, NULL, 1);
    assert_non_null(world);
    lose_a_node_with_items(bench, world);
    for (int i = 0; i < LOST_ITEMS; i++) {
        scripted_world_push(world, &(struct scripted_outcome){.run_us = SECOND / 10});
    }
    bench->settings.group = "other";
    start_node(bench);
    for (int i = 0; i < 200 && !schedules(bench->node); i++, bench->now_us += SECOND / 10) {
        (void)node_step(bench->node);
    }
    settings.name = "second";
    assert_true(event_subscribe(&second.events, count_second, &second));
    assert_int_equal(scripted_open(world, 1, &second.engine, NULL), WEIR_OK);
    assert_int_equal(node_open(bench->store, second.engine, &second.events, &settings, &second.node, NULL), WEIR_OK);
    struct driven scheduling = {.node = bench->node, .engine = bench->engine};
    struct driven taking = {.node = second.node, .engine = second.engine};
    for (int ended = 0, steps = 0; ended < LOST_ITEMS; steps++) {
        assert_true(steps < 10000);
        pass_when_due(bench, &scheduling, &taking);
        if (second.counts[EVENT_EXECUTION_COMPLETED] > ended) {
            first_us = ended == 0 ? bench->now_us : first_us;
            longest_us = ended > 0 && bench->now_us - last_us > longest_us ? bench->now_us - last_us : longest_us;
            last_us = bench->now_us;
            ended = second.counts[EVENT_EXECUTION_COMPLETED];
        }
    }
    assert_in_range(last_us - first_us, 20 * SECOND, 60 * SECOND);
    assert_in_range(longest_us, 1, SCHEDULER_IDLE_US + 2 * SCHEDULER_WATCH_US);
    close_second(&second);
    scripted_world_close(world);
}

static void a_paused_node_gives_back_what_it_had_not_started(void **state)
{
    struct bench *bench = *state;
    struct second second;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    (void)node_step(bench->node);
    start_second(bench, &second);
    pass_both(bench, &second, 3 * SECOND);
    node_pause(bench->node);
    (void)node_step(bench->node);
    enqueue_at(bench, "many", "plain", 0, id);
    node_wake(bench->node);
    (void)node_step(bench->node); /* assigned to the second node, which is paused before it reads its inbox */
    assert_string_equal(text_of(bench, id, "status"), "CLAIMED");
    node_pause(second.node);
    (void)node_step(second.node);
    assert_string_equal(text_of(bench, id, "status"), "PENDING");
    assert_int_equal(runs_begun(bench, id), 0);
    assert_int_equal(second.counts[EVENT_EXECUTION_DEFERRED], 1);
    close_second(&second);
}

static void a_paused_node_alone_starts_nothing(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_node(bench);
    (void)node_dispatch_step(bench->node);
    node_pause(bench->node);
    enqueue(bench, "many", id);
    (void)node_dispatch_step(bench->node);
    assert_string_equal(text_of(bench, id, "status"), "PENDING");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_node_that_finds_the_role_free_takes_it_and_loads),
        TEST(the_second_node_leaves_the_role_to_the_first),
        TEST(a_stop_hands_the_role_over_at_once),
        TEST(the_role_of_a_silent_node_is_taken_when_its_lease_is_over),
        TEST(an_item_is_started_by_the_step_that_follows_its_enqueue),
        TEST(an_item_whose_head_comes_with_the_news_takes_two_rounds),
        TEST(an_item_on_an_idle_node_takes_one_round),
        TEST(offers_do_not_keep_an_idle_scheduler_from_its_lease),
        TEST(a_memory_that_decides_otherwise_is_given_up),
        TEST(items_from_before_the_node_are_started_by_its_first_step),
        TEST(a_waiting_item_is_started_when_it_becomes_due),
        TEST(the_time_at_which_an_item_becomes_due_is_the_next_step),
        TEST(an_idle_scheduler_only_renews_its_lease_and_reads_news),
        TEST(a_round_that_waits_does_not_put_the_time_of_the_store_forward),
        TEST(a_failed_round_is_followed_by_a_new_epoch),
        TEST(assignments_of_a_round_without_an_answer_are_started),
        TEST(a_paused_node_that_takes_the_role_gives_the_items_of_both_reads_back),
        TEST(an_epoch_of_a_damaged_row_makes_the_node_unhealthy),
        TEST(items_beyond_the_capacity_of_the_scheduler_go_to_the_other_node),
        TEST(a_paused_scheduler_schedules_for_the_others),
        TEST(handed_over_items_follow_each_other_without_a_wake),
        TEST(a_paused_node_gives_back_what_it_had_not_started),
        TEST(a_paused_node_alone_starts_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
