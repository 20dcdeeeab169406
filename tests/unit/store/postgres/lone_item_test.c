/* Rounds with an offer for a lone item (struct lone_offer in queue/scheduler.h): when the store makes use of it, and what
 * it checks before. What the scheduler offers is in unit/queue/scheduler_lone_test.c. */
#include <pthread.h>

#include "store/postgres/postgres_store.h"
#include "unit/store/postgres/scene.h"

enum { CAP = 2 };

/* --- one that schedules --- */

struct seat {
    struct scene *scene;
    int64_t epoch;
    struct lone_offer offer;
    struct assignment assignments[1];
    struct schedule_call call;     /* of the last round */
    struct schedule_answer answer; /* likewise */
};

static int open_scene(void **state)
{
    return scene_open_with(state, CAP);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, scene_close)

static enum weir_status try_round(struct seat *seat, struct schedule_call call)
{
    seat->call = call;
    seat->call.node_id = seat->scene->node;
    seat->call.epoch = seat->epoch;
    seat->call.assignments = seat->assignments;
    return store_schedule(seat->scene->store, &seat->call, &seat->scene->arena, &seat->answer, &seat->scene->error);
}

/* An offer of lanes without handlers to the scene's own node. */
static void take_seat(struct seat *seat, struct scene *scene)
{
    *seat = (struct seat){.scene = scene};
    seat->offer =
        (struct lone_offer){.node_id = scene->node, .kinds = {lane_id_of(1, 1) >> LANE_DEMAND_BIT}, .kind_count = 1};
    ok(take_role(scene->store, scene->node, &seat->epoch, &scene->error));
    ok(try_round(seat, (struct schedule_call){.load = true}));
}

/* Whether the round made use of the offer. */
static bool offer(struct seat *seat)
{
    struct scene *scene = seat->scene;
    ok(try_round(seat, (struct schedule_call){.lone = &seat->offer}));
    assert_int_equal(seat->answer.assigned, seat->call.assignment_count);
    return seat->call.assignment_count == 1;
}

static const char *state_of(const struct scene *scene, const char *id)
{
    return run(scene->a, "SELECT phase || ' ' || status FROM weir.workflow_execution_queue WHERE id = '%s'", id);
}

/* The round brought the item as news with its heads, as rounds without an offer do, and left it as it was. */
static void assert_left(const struct seat *seat, const char *id)
{
    assert_int_equal(seat->answer.claimed.count, 0);
    assert_int_equal(seat->answer.fact_count, 1);
    assert_int_equal(seat->answer.facts[0].kind, FACT_RUNNABLE);
    assert_string_equal(state_of(seat->scene, id), "0 PENDING");
}

/* --- the offer is used --- */

static void a_lone_item_is_assigned_by_the_call_that_reads_its_news(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    take_seat(&seat, scene);
    for (int i = 0; i < 2; i++) { /* the second round goes on from the first one's snapshot */
        const char *id = run(scene->a, "SELECT weir.enqueue('acme', 'hello', '{\"a\": 1}', priority => 3)");
        char kept[UUID_TEXT_MAX];
        text_copy(kept, sizeof kept, id);
        assert_true(offer(&seat));
        assert_int_equal(seat.assignments[0].outcome, ASSIGNMENT_TAKEN);
        assert_int_equal(seat.assignments[0].lane_id, lane_id_of(1, 1));
        assert_int_equal(seat.assignments[0].node_id, scene->node);
        assert_int_equal(seat.answer.claimed.count, 1);
        const struct claimed_item *item = &seat.answer.claimed.items[0];
        assert_string_equal(item->id, kept);
        assert_string_equal(item->workspace, "acme");
        assert_string_equal(item->workflow, "hello");
        assert_string_equal(item->params, "{\"a\": 1}");
        assert_int_equal(item->priority, 3);
        assert_true(item->fence > 0 && !item->assigned_before);
        assert_string_equal(state_of(scene, kept), "2 CLAIMED");
        assert_int_equal(seat.answer.fact_count, 1);
        assert_int_equal(seat.answer.facts[0].kind, FACT_RUNNABLE);
        assert_int_equal(seat.answer.news_read_count, 1);
        assert_memory_equal(seat.answer.news_reads[0].heads[0].id, seat.assignments[0].id, SCHEDULER_ID_BYTES);
        assert_true(seat.answer.news_reads[0].is_all && seat.answer.news_reads[0].slots_max == CAP);
        assert_int_equal(number(run(scene->a, "SELECT held FROM weir.claims WHERE fence = %lld", (long long)item->fence)),
                         1);
    }
    assert_false(offer(&seat)); /* its news was read, and so was that of the assignment */
    assert_int_equal(seat.answer.fact_count, 0);
}

static void a_lone_item_of_another_node_is_found_in_its_inbox(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    struct inbox_position position = {.fence = 0};
    struct inbox inbox;
    take_seat(&seat, scene);
    int64_t other = add_node(scene, "node-2", "default");
    (void)offer(&seat); /* the news of the node */
    (void)run(scene->a, "LISTEN weir");
    seat.offer.node_id = other;
    const char *id = enqueue_for(scene, "acme", NULL);
    assert_true(offer(&seat));
    assert_int_equal(seat.answer.claimed.count, 0);
    ok(store_inbox(scene->store, other, &position, 10, &scene->arena, &inbox, &scene->error));
    assert_int_equal(inbox.claimed.count, 1);
    assert_string_equal(inbox.claimed.items[0].id, id);
    bool is_notified = false;
    (void)run(scene->a, "SELECT 1"); /* reads what has come */
    for (PGnotify *notice = PQnotifies(scene->a); notice != NULL; notice = PQnotifies(scene->a)) {
        is_notified = is_notified || strncmp(notice->extra, "node:", 5) == 0;
        PQfreemem(notice);
    }
    assert_true(is_notified);
}

static void the_change_is_in_the_stream(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    take_seat(&seat, scene);
    (void)run(scene->a, "SELECT setval('weir.stream_written_until', weir.store_time() + 3600000000)");
    (void)enqueue_for(scene, "acme", NULL);
    assert_true(offer(&seat));
    assert_string_equal(run(scene->a, "SELECT string_agg(kind, ' ' ORDER BY at) FROM weir.stream_entries"),
                        "enqueue claim");
}

/* --- an item that was parked --- */

static void *run_offer(void *context)
{
    struct seat *seat = context;
    (void)offer(seat);
    return NULL;
}

static const struct step_record asks = {
    .step = "ask", .signal = "go", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = TIME_NEVER};

/* An execution whose step waits for a signal, parked. `id` gets its id. */
static void park_lone_item(struct seat *seat, char id[UUID_TEXT_MAX])
{
    struct scene *scene = seat->scene;
    struct record_summary summary;
    text_copy(id, UUID_TEXT_MAX, run(scene->a, "SELECT weir.enqueue('acme', 'hello', '{\"a\": 1}', priority => 3)"));
    assert_true(offer(seat));
    struct record parked = record_of(RECORD_PARKED, &seat->answer.claimed.items[0]);
    parked.dispatched_first = true;
    parked.step = &asks;
    parked.waiting_for = WAIT_SIGNAL;
    parked.delay_us = TIME_NEVER;
    ok(store_record(scene->store, scene->node, &parked, 1, &summary, &scene->error));
    assert_int_equal(parked.status, WEIR_OK);
    (void)offer(seat); /* the news of the park */
    assert_int_equal(seat->answer.claimed.count, 0);
}

static void a_signal_starts_a_lone_item_in_the_call_that_reads_its_news(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    char id[UUID_TEXT_MAX];
    take_seat(&seat, scene);
    park_lone_item(&seat, id);
    (void)run(scene->a, "SELECT weir.signal('%s', 'go', '{\"b\": 2}')", id);
    assert_true(offer(&seat));
    assert_int_equal(seat.assignments[0].outcome, ASSIGNMENT_TAKEN);
    assert_int_equal(seat.assignments[0].since_us, 0); /* not its first assignment */
    assert_int_equal(seat.answer.claimed.count, 1);
    const struct claimed_item *item = &seat.answer.claimed.items[0];
    assert_string_equal(item->id, id);
    assert_string_equal(item->workflow, "hello");
    assert_string_equal(item->params, "{\"a\": 1}");
    assert_int_equal(item->priority, 3);
    assert_int_equal(item->interruptions, 1);
    assert_int_equal(item->interruptions_at_park, 1);
    assert_int_equal(item->signals_seen, 1);
    assert_true(item->assigned_before && !item->lost_a_node && !item->is_suspect);
    assert_true(item->created_at_us > 0 && item->run_at_us == item->created_at_us && item->woken_at_us > item->run_at_us);
    assert_true(item->claimed_at_us >= item->woken_at_us && item->running_for_us > 0);
    assert_int_equal(item->step_count, 1);
    assert_int_equal(item->steps[0].state, STEP_COMPLETED); /* the signal has ended the wait */
    assert_true(item->keeps_no_signal);
    assert_int_equal(item->signal_count, 0);
    assert_string_equal(state_of(scene, id), "2 CLAIMED");
    assert_int_equal(number(run(scene->a, "SELECT held FROM weir.claims WHERE fence = %lld", (long long)item->fence)), 1);
}

/* The second signal has no step that waits for it. It comes with the claim. */
static void a_lone_item_brings_the_signals_that_it_keeps(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    char id[UUID_TEXT_MAX];
    take_seat(&seat, scene);
    park_lone_item(&seat, id);
    (void)run(scene->a, "SELECT weir.signal('%s', 'go', '1')", id);
    (void)run(scene->a, "SELECT weir.signal('%s', 'go', '2')", id);
    assert_true(offer(&seat));
    const struct claimed_item *item = &seat.answer.claimed.items[0];
    assert_false(item->keeps_no_signal);
    assert_int_equal(item->signals_seen, 2);
    assert_int_equal(item->signal_count, 1);
    assert_int_equal(item->signals[0].seq, 2);
}

/* Another transaction sends a signal while the round waits for the row. The round has read the signals before. */
static void a_lone_item_brings_a_signal_of_the_transaction_that_held_its_row(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    pthread_t thread;
    char id[UUID_TEXT_MAX];
    int64_t end_us = clock_boot(clock_system()) + WAIT_US;
    (void)run(scene->a, "ALTER FUNCTION weir.schedule_lone SET lock_timeout = '60s'");
    take_seat(&seat, scene);
    park_lone_item(&seat, id);
    (void)run(scene->a, "SELECT weir.signal('%s', 'go', '1')", id);
    (void)run(scene->a, "BEGIN; SELECT weir.signal('%s', 'go', '2')", id);
    assert_int_equal(pthread_create(&thread, NULL, run_offer, &seat), 0);
    while (number(run(scene->b, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")) == 0) {
        assert_true(clock_boot(clock_system()) < end_us);
    }
    (void)run(scene->a, "COMMIT");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(seat.answer.claimed.count, 1);
    assert_int_equal(seat.answer.claimed.items[0].signals_seen, 2);
    assert_int_equal(seat.answer.claimed.items[0].signal_count, 1);
}

/* The look for an execution is a statement of its own. A signal needs it for a part of an id, or for a refusal. */
static void a_signal_with_a_whole_id_is_one_statement(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    char id[UUID_TEXT_MAX];
    struct sent_signal sent;
    struct signal_request request = {.id = id, .name = "go", .data = "1"};
    const bool *is_prepared = &link_of(scene->store)->prepared[QUERY_IDS_THAT_BEGIN];
    take_seat(&seat, scene);
    park_lone_item(&seat, id);
    ok(store_signal(scene->store, &request, &sent, &scene->error));
    assert_string_equal(sent.id, id);
    assert_int_equal(sent.seq, 1);
    assert_false(*is_prepared);
    request.id = "01900000-0000-7000-8000-000000000000";
    assert_int_equal(store_signal(scene->store, &request, &sent, &scene->error), WEIR_EXECUTION_NOT_FOUND);
    assert_true(*is_prepared);
    char part[UUID_TEXT_MAX];
    (void)snprintf(part, sizeof part, "%.30s", id);
    request.id = part;
    ok(store_signal(scene->store, &request, &sent, &scene->error));
    assert_string_equal(sent.id, id);
    assert_int_equal(sent.seq, 2);
}

static void a_parked_item_that_lost_a_node_goes_its_way(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    char id[UUID_TEXT_MAX];
    take_seat(&seat, scene);
    park_lone_item(&seat, id);
    (void)run(scene->a,
              "UPDATE weir.workflow_execution_queue SET handovers = 1, interruptions = 2, interruptions_at_park = 2");
    (void)run(scene->a, "SELECT weir.signal('%s', 'go', '1')", id);
    assert_false(offer(&seat));
    assert_left(&seat, id);
}

/* --- the offer is not used --- */

static void a_workspace_without_a_free_slot_gets_nothing(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    take_seat(&seat, scene);
    seat.offer.workspaces[0] = 1;
    seat.offer.held[0] = CAP;
    seat.offer.workspace_count = 1;
    const char *id = enqueue_for(scene, "acme", NULL);
    assert_false(offer(&seat));
    assert_left(&seat, id);
    assert_int_equal(seat.answer.news_read_count, 1);
    seat.offer.held[0] = CAP - 1;
    (void)enqueue_for(scene, "acme", NULL);
    assert_true(offer(&seat));
}

/* The limits that count are those of now, not those of the offer. */
static void a_workspace_that_is_paused_gets_nothing(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    take_seat(&seat, scene);
    (void)run(scene->a, "SELECT weir.pause_workspace('acme')");
    (void)offer(&seat); /* the news of the pause */
    const char *id = enqueue_for(scene, "acme", NULL);
    assert_false(offer(&seat));
    assert_left(&seat, id);
}

static void news_of_anything_else_goes_its_way(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    char id[UUID_TEXT_MAX];
    take_seat(&seat, scene);
    (void)enqueue_for(scene, "acme", NULL);
    text_copy(id, sizeof id, enqueue_for(scene, "acme", NULL));
    assert_false(offer(&seat)); /* two items: their order is the scheduler's */
    (void)run(scene->a, "SELECT weir.enqueue('acme', 'hello', run_at => now() + interval '1 hour')");
    assert_false(offer(&seat));
    assert_int_equal(seat.answer.facts[0].kind, FACT_NEWS);
    (void)run(scene->a, "SELECT weir.enqueue('acme', 'hello')");
    (void)run(scene->a, "SELECT weir.pause_workspace('beta')");
    assert_false(offer(&seat)); /* an act */
    seat.offer.kinds[0]++;
    (void)run(scene->a, "SELECT weir.enqueue('acme', 'hello')");
    assert_false(offer(&seat)); /* a lane that the offer does not allow */
    assert_string_equal(state_of(scene, id), "0 PENDING");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.claims"), "0");
}

static void a_node_that_takes_nothing_gets_nothing(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    take_seat(&seat, scene);
    int64_t other = add_node(scene, "node-2", "default");
    ok(store_set_desired_state(scene->store, "node-2", NODE_PAUSE, &scene->error));
    (void)offer(&seat); /* the news of the node */
    seat.offer.node_id = other;
    const char *id = enqueue_for(scene, "acme", NULL);
    assert_false(offer(&seat));
    assert_left(&seat, id);
}

static void a_former_scheduler_assigns_nothing(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    take_seat(&seat, scene);
    const char *id = enqueue_for(scene, "acme", NULL);
    (void)run(scene->a, "UPDATE weir.scheduler SET epoch = epoch + 1");
    assert_int_equal(try_round(&seat, (struct schedule_call){.lone = &seat.offer}), WEIR_STALE_FENCE);
    assert_string_equal(state_of(scene, id), "0 PENDING");
}

/* --- other transactions --- */

static void an_item_that_a_caller_holds_is_left(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    take_seat(&seat, scene);
    const char *id = enqueue_for(scene, "acme", NULL);
    (void)run(scene->a, "BEGIN; SELECT 1 FROM weir.workflow_execution_queue WHERE id = '%s' FOR UPDATE", id);
    assert_false(offer(&seat));
    assert_false(seat.answer.is_stale);
    assert_left(&seat, id);
    (void)run(scene->a, "COMMIT");
}

/* The round has read the news and waits for the row of the item; the pause is committed then. */
static void a_pause_that_is_committed_during_the_round_undoes_it(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    pthread_t thread;
    char id[UUID_TEXT_MAX];
    int64_t end_us = clock_boot(clock_system()) + WAIT_US;
    (void)run(scene->a, "ALTER FUNCTION weir.schedule_lone SET lock_timeout = '60s'");
    take_seat(&seat, scene);
    text_copy(id, sizeof id, enqueue_for(scene, "acme", NULL));
    (void)run(scene->a, "BEGIN; SELECT 1 FROM weir.workflow_execution_queue WHERE id = '%s' FOR UPDATE", id);
    assert_int_equal(pthread_create(&thread, NULL, run_offer, &seat), 0);
    while (number(run(scene->b, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")) == 0) {
        assert_true(clock_boot(clock_system()) < end_us);
    }
    (void)run(scene->b, "SELECT weir.pause_workspace('acme')");
    (void)run(scene->a, "COMMIT");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(seat.answer.is_stale);
    assert_int_equal(seat.call.assignment_count, 0);
    assert_int_equal(seat.answer.claimed.count, 0);
    assert_string_equal(state_of(scene, id), "0 PENDING");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lone_item_is_assigned_by_the_call_that_reads_its_news),
        TEST(a_lone_item_of_another_node_is_found_in_its_inbox),
        TEST(the_change_is_in_the_stream),
        TEST(a_signal_starts_a_lone_item_in_the_call_that_reads_its_news),
        TEST(a_lone_item_brings_the_signals_that_it_keeps),
        TEST(a_lone_item_brings_a_signal_of_the_transaction_that_held_its_row),
        TEST(a_signal_with_a_whole_id_is_one_statement),
        TEST(a_parked_item_that_lost_a_node_goes_its_way),
        TEST(a_workspace_without_a_free_slot_gets_nothing),
        TEST(a_workspace_that_is_paused_gets_nothing),
        TEST(news_of_anything_else_goes_its_way),
        TEST(a_node_that_takes_nothing_gets_nothing),
        TEST(a_former_scheduler_assigns_nothing),
        TEST(an_item_that_a_caller_holds_is_left),
        TEST(a_pause_that_is_committed_during_the_round_undoes_it),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
