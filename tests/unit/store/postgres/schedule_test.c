/* Rounds of the scheduler against other transactions of the same server, each order forced: transactions that stay open,
 * commits while a round waits, takeovers, and lost answers. Rounds without any of these are tested in
 * conformance/schedule_test.c, schedule_news_test.c and inbox_test.c. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "unit/store/postgres/scene.h"

enum { CAP = 1000, URL_SIZE = 256 };

/* --- one that schedules --- */

struct seat {
    struct scene *scene;
    struct store *store;
    int64_t node;
    int64_t epoch;
    struct schedule_answer answer; /* of the last round */
};

static int open_scene(void **state)
{
    return scene_open_with(state, CAP);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, scene_close)

static enum weir_status try_round(struct seat *seat, struct schedule_call call)
{
    call.node_id = seat->node;
    call.epoch = seat->epoch;
    return store_schedule(seat->store, &call, &seat->scene->arena, &seat->answer, &seat->scene->error);
}

static void round_of(struct seat *seat, struct schedule_call call)
{
    struct scene *scene = seat->scene;
    ok(try_round(seat, call));
}

static void take_seat(struct seat *seat, struct scene *scene, struct store *store, int64_t node)
{
    *seat = (struct seat){.scene = scene, .store = store, .node = node};
    ok(take_role(store, node, &seat->epoch, &scene->error));
    round_of(seat, (struct schedule_call){.load = true});
}

static void beat(struct scene *scene, int64_t node)
{
    struct node_beat beat = {.engine_reachable = true, .capacity = 100};
    ok(store_node_beat(scene->store, node, &beat, &scene->error));
}

static void read_news(struct seat *seat)
{
    round_of(seat, (struct schedule_call){.needs = 0});
}

static uint8_t digit(char c)
{
    return (uint8_t)(c >= 'a' ? c - 'a' + 10 : c - '0');
}

static struct assignment assignment_of(const char *id, int64_t node)
{
    struct assignment assignment = {.node_id = node, .lane_id = lane_id_of(1, 1), .outcome = ASSIGNMENT_UNDONE};
    for (size_t i = 0; i < SCHEDULER_ID_BYTES; i++) {
        id += *id == '-';
        assignment.id[i] = (uint8_t)(digit(id[0]) << 4 | digit(id[1]));
        id += 2;
    }
    return assignment;
}

static enum assignment_outcome assign(struct seat *seat, const char *id, int64_t node)
{
    struct assignment assignment = assignment_of(id, node);
    round_of(seat, (struct schedule_call){.assignments = &assignment, .assignment_count = 1});
    return assignment.outcome;
}

/* Sums of all facts of a kind in the last answer. */
static int64_t count_facts(const struct seat *seat, enum schedule_fact_kind kind)
{
    int64_t count = 0;
    for (size_t i = 0; i < seat->answer.fact_count; i++) {
        count += seat->answer.facts[i].kind == kind;
    }
    return count;
}

static int64_t sum_slots(const struct seat *seat)
{
    int64_t sum = 0;
    for (size_t i = 0; i < seat->answer.fact_count; i++) {
        sum += seat->answer.facts[i].kind == FACT_HELD ? seat->answer.facts[i].slots : 0;
    }
    return sum;
}

static int64_t sum_node_held(const struct seat *seat, int64_t node)
{
    int64_t sum = 0;
    for (size_t i = 0; i < seat->answer.fact_count; i++) {
        const struct schedule_fact *fact = &seat->answer.facts[i];
        sum += fact->kind == FACT_HELD && fact->node_id == node ? fact->node_held : 0;
    }
    return sum;
}

static struct store *open_again(struct scene *scene)
{
    struct store *store = NULL;
    ok(store_open_again(scene->store, &store, &scene->error));
    return store;
}

/* From now on a round waits for locked rows as long as run_into() may take to see it. */
static void let_rounds_wait(struct scene *scene)
{
    (void)run(scene->a, "ALTER FUNCTION weir.schedule SET lock_timeout = '60s'");
}

/* --- news of transactions that overlap with rounds --- */

static void news_of_a_long_transaction_is_read_once_after_its_commit(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    (void)run(scene->a, "BEGIN; SELECT weir.enqueue('acme', 'hello')");
    take_seat(&seat, scene, scene->store, scene->node);
    assert_int_equal(count_facts(&seat, FACT_RUNNABLE), 0);
    for (int i = 0; i < 3; i++) {
        (void)enqueue_for(scene, "beta", NULL);
        (void)run(scene->a, "SELECT weir.enqueue('acme', 'hello')");
        read_news(&seat);
        assert_int_equal(count_facts(&seat, FACT_RUNNABLE), 1); /* of beta */
    }
    (void)run(scene->a, "COMMIT");
    read_news(&seat);
    assert_int_equal(count_facts(&seat, FACT_RUNNABLE), 1); /* of acme */
    assert_int_equal(seat.answer.facts[0].lane_id, lane_id_of(1, 1));
    read_news(&seat);
    assert_int_equal(seat.answer.fact_count, 0);
}

/* Transactions that begin before the load and end after it, in every order of begin, write, load and commit. */
static void the_load_and_the_news_neither_overlap_nor_leave_a_gap(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    for (int i = 0; i < 3; i++) {
        (void)enqueue_for(scene, "acme", NULL);
    }
    struct claim_result held = claim(scene, 3);
    assert_int_equal(held.count, 3);
    long long node = (long long)scene->node;
    (void)run(scene->a, "BEGIN; SELECT pg_current_xact_id()"); /* it has an id, and writes after the load */
    (void)run(scene->b, "BEGIN");
    (void)run(scene->b, COMPLETE_SQL, node, held.items[0].id, (long long)held.items[0].fence); /* it has written */
    assert_int_equal(record(scene, RECORD_COMPLETED, &held.items[1]), WEIR_OK);                /* it is committed */
    take_seat(&seat, scene, scene->store, scene->node);
    assert_int_equal(sum_slots(&seat), 2);
    assert_int_equal(sum_node_held(&seat, scene->node), 2);
    (void)run(scene->a, COMPLETE_SQL, node, held.items[2].id, (long long)held.items[2].fence);
    read_news(&seat);
    assert_int_equal(seat.answer.fact_count, 0);
    (void)run(scene->a, "COMMIT");
    read_news(&seat);
    assert_int_equal(sum_slots(&seat), -1);
    (void)run(scene->b, "COMMIT");
    read_news(&seat);
    assert_int_equal(sum_slots(&seat), -1);
    assert_int_equal(sum_node_held(&seat, scene->node), -1);
    read_news(&seat);
    assert_int_equal(seat.answer.fact_count, 0);
}

static void a_transaction_that_is_undone_leaves_no_news(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    (void)run(scene->a, "BEGIN; SELECT weir.enqueue('acme', 'hello')");
    take_seat(&seat, scene, scene->store, scene->node);
    (void)run(scene->a, "ROLLBACK");
    read_news(&seat);
    assert_int_equal(seat.answer.fact_count, 0);
}

static void news_of_a_prepared_transaction_is_read_after_its_commit(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    (void)run(scene->a, "BEGIN; SET LOCAL weir.notify = 'off'; SELECT weir.enqueue('acme', 'hello')");
    (void)run(scene->a, "PREPARE TRANSACTION 'enqueue'");
    take_seat(&seat, scene, scene->store, scene->node);
    read_news(&seat);
    assert_int_equal(seat.answer.fact_count, 0);
    (void)run(scene->a, "COMMIT PREPARED 'enqueue'");
    read_news(&seat);
    assert_int_equal(count_facts(&seat, FACT_RUNNABLE), 1);
}

/* More transactions run than a snapshot of a fixed size could name; half of them commit. */
static void many_open_transactions_delay_their_own_news_only(void **state)
{
    enum { MANY = 60 };
    struct scene *scene = *state;
    struct seat seat;
    PGconn *many[MANY];
    for (int i = 0; i < MANY; i++) {
        many[i] = postgres_server_connect(&server);
        (void)run(many[i], "BEGIN; SELECT weir.enqueue('acme', 'hello')");
    }
    take_seat(&seat, scene, scene->store, scene->node);
    for (int i = 0; i < MANY; i += 2) {
        (void)run(many[i], "COMMIT");
        read_news(&seat);
        assert_int_equal(count_facts(&seat, FACT_RUNNABLE), 1);
        read_news(&seat);
        assert_int_equal(seat.answer.fact_count, 0);
    }
    for (int i = 0; i < MANY; i++) {
        PQfinish(many[i]);
    }
}

/* --- acts --- */

struct late_round {
    struct seat *seat;
    struct assignment assignments[2];
    size_t count;
    enum weir_status status;
    pthread_t thread;
};

static void *run_late_round(void *context)
{
    struct late_round *late = context;
    late->status =
        try_round(late->seat, (struct schedule_call){.assignments = late->assignments, .assignment_count = late->count});
    return NULL;
}

static void start_round(struct late_round *late, struct seat *seat, const char *first, const char *second)
{
    const char *waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    int64_t end_us = clock_boot(clock_system()) + WAIT_US;
    *late = (struct late_round){.seat = seat, .count = second == NULL ? 1 : 2};
    late->assignments[0] = assignment_of(first, seat->node);
    if (second != NULL) {
        late->assignments[1] = assignment_of(second, seat->node);
    }
    assert_int_equal(pthread_create(&late->thread, NULL, run_late_round, late), 0);
    while (number(run(seat->scene->b, "%s", waits)) == 0) {
        assert_true(clock_boot(clock_system()) < end_us);
    }
}

static void end_round(struct late_round *late)
{
    assert_int_equal(pthread_join(late->thread, NULL), 0);
}

/* The round has read the news and waits for a row; the pause is committed then. */
static void a_pause_that_is_committed_during_a_round_undoes_it(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    struct late_round late;
    const char *first = enqueue_for(scene, "acme", NULL);
    const char *second = enqueue_for(scene, "acme", NULL);
    let_rounds_wait(scene);
    take_seat(&seat, scene, scene->store, scene->node);
    (void)run(scene->a, "BEGIN; SELECT 1 FROM weir.workflow_execution_queue WHERE id = '%s' FOR UPDATE", second);
    start_round(&late, &seat, first, second);
    (void)run(scene->b, "SELECT weir.pause_workspace('acme')");
    (void)run(scene->a, "COMMIT");
    end_round(&late);
    assert_int_equal(late.status, WEIR_OK);
    assert_true(seat.answer.is_stale);
    assert_int_equal(seat.answer.assigned, 0);
    assert_int_equal(late.assignments[0].outcome, ASSIGNMENT_UNDONE);
    assert_int_equal(late.assignments[1].outcome, ASSIGNMENT_UNDONE);
    assert_int_equal(count_facts(&seat, FACT_WORKSPACE), 1);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.workflow_execution_queue WHERE phase = 2"), "0");
    assert_int_equal(assign(&seat, first, seat.node), ASSIGNMENT_TAKEN); /* the pause is known now: the caller decides */
}

/* --- locked rows --- */

static void a_row_that_a_caller_holds_is_left_out_after_a_moment(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    const char *first = enqueue_for(scene, "acme", NULL);
    const char *second = enqueue_for(scene, "acme", NULL);
    struct assignment assignments[2] = {assignment_of(first, scene->node), assignment_of(second, scene->node)};
    take_seat(&seat, scene, scene->store, scene->node);
    (void)run(scene->a, "BEGIN; SELECT weir.cancel('%s')", first);
    for (int skip = 0; skip < 2; skip++) {
        round_of(&seat, (struct schedule_call){
                            .assignments = assignments, .assignment_count = skip == 0 ? 2 : 1, .skip_locked = skip == 1});
        assert_int_equal(assignments[0].outcome, ASSIGNMENT_LOCKED);
    }
    assert_int_equal(assignments[1].outcome, ASSIGNMENT_TAKEN);
    (void)run(scene->a, "COMMIT");
    assert_int_equal(assign(&seat, first, seat.node), ASSIGNMENT_GONE);
}

/* Else the scheduler would ask again and again, as long as the transaction of the caller is open. */
static void a_due_row_that_a_caller_holds_is_due_again_later(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    const struct enqueue_request later = {
        .workspace = "acme", .workflow = "hello", .run_at_us = 4000000000 * MICROSECONDS_PER_SECOND};
    const struct enqueue_request requests[] = {later, later};
    struct enqueue_result results[2];
    ok(store_enqueue(scene->store, requests, 2, results, &scene->error));
    const char *other = results[1].id;
    take_seat(&seat, scene, scene->store, scene->node);
    (void)run(scene->a, "UPDATE weir.workflow_execution_queue SET due_at = 1");
    (void)run(scene->a, "BEGIN; SELECT 1 FROM weir.workflow_execution_queue WHERE id = '%s' FOR UPDATE", results[0].id);
    round_of(&seat, (struct schedule_call){.needs = NEED_DUE});
    assert_true(seat.answer.next_due_us > seat.answer.now_us);
    assert_true(seat.answer.next_due_us <= seat.answer.now_us + MICROSECONDS_PER_SECOND);
    assert_string_equal(run(scene->b, "SELECT phase FROM weir.workflow_execution_queue WHERE id = '%s'", other), "0");
    assert_int_equal(count_facts(&seat, FACT_RUNNABLE), 1); /* it names the item, so its lane is not read again */
    assert_memory_equal(seat.answer.facts[0].id, assignment_of(other, 0).id, SCHEDULER_ID_BYTES);
    (void)run(scene->a, "COMMIT");
    round_of(&seat, (struct schedule_call){.needs = NEED_DUE});
    assert_true(seat.answer.next_due_us == TIME_NEVER);
}

static void a_cancel_that_waited_for_the_assignment_is_passed_on(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    struct node_request *requests = NULL;
    size_t count = 0;
    bool more = false;
    const char *id = enqueue_for(scene, "acme", NULL);
    take_seat(&seat, scene, scene->store, scene->node);
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, ASSIGN_SQL, (long long)seat.node, (long long)seat.epoch, id, (long long)seat.node),
                        "1");
    run_into(scene->b, "SELECT weir.cancel('%s')", id);
    (void)run(scene->a, "COMMIT");
    (void)answer(scene->b);
    read_news(&seat);
    assert_true(seat.answer.requests);
    ok(store_take_requests(scene->store, seat.node, &scene->arena, &requests, &count, &more, &scene->error));
    assert_int_equal(count, 1);
    assert_string_equal(requests[0].id, id);
}

static void a_node_that_recovery_holds_gets_nothing(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    const char *id = enqueue_for(scene, "acme", NULL);
    int64_t other = add_node(scene, "node-2", "default");
    take_seat(&seat, scene, scene->store, scene->node);
    (void)run(scene->a, "BEGIN; SELECT 1 FROM weir.nodes WHERE id = %lld FOR UPDATE", (long long)other);
    assert_int_equal(assign(&seat, id, other), ASSIGNMENT_NO_NODE);
    (void)run(scene->a, "UPDATE weir.nodes SET dead_at = 1 WHERE id = %lld; COMMIT", (long long)other);
    assert_int_equal(assign(&seat, id, other), ASSIGNMENT_NO_NODE);
    assert_int_equal(assign(&seat, id, seat.node), ASSIGNMENT_TAKEN);
}

static void a_heartbeat_goes_on_during_an_assignment(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    struct store *other = open_again(scene);
    struct node_beat beat = {.engine_reachable = true, .capacity = 7};
    const char *id = enqueue_for(scene, "acme", NULL);
    take_seat(&seat, scene, scene->store, scene->node);
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, ASSIGN_SQL, (long long)seat.node, (long long)seat.epoch, id, (long long)seat.node),
                        "1");
    ok(store_node_beat(other, seat.node, &beat, &scene->error));
    (void)run(scene->a, "COMMIT");
    store_close(other);
}

/* --- takeovers --- */

static void a_former_scheduler_changes_nothing(void **state)
{
    struct scene *scene = *state;
    struct seat former;
    struct seat next;
    struct store *other = open_again(scene);
    int64_t second = add_node(scene, "node-2", "default");
    const char *id = enqueue_for(scene, "acme", NULL);
    struct assignment assignment = assignment_of(id, scene->node);
    bool more = false;
    take_seat(&former, scene, scene->store, scene->node);
    take_seat(&next, scene, other, second);
    assert_int_equal(try_round(&former, (struct schedule_call){.assignments = &assignment, .assignment_count = 1}),
                     WEIR_STALE_FENCE);
    assert_int_equal(try_round(&former, (struct schedule_call){.load = true}), WEIR_STALE_FENCE);
    assert_int_equal(store_publish_books(scene->store, scene->node, former.epoch,
                                         &(struct lane_pass){.lane_id = lane_id_of(1, 1), .pass = 5}, 1, &more,
                                         &scene->error),
                     WEIR_STALE_FENCE);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.books"), "0");
    assert_int_equal(assign(&next, id, second), ASSIGNMENT_TAKEN);
    store_close(other);
}

/* A take by a node that has seen the holder silent. The node */
#define TAKE_SQL                                                                                                           \
    "SELECT r.outcome FROM weir.scheduler s, LATERAL weir.role('take', %lld, 0, 60000000, 0, 'test', true, s.epoch, "      \
    "s.renewals, '', 0) r"

/* The assignment has its epoch's row; the takeover waits for its commit and counts the row that it assigned. */
static void a_takeover_waits_for_an_assignment_and_counts_it(void **state)
{
    struct scene *scene = *state;
    struct seat former;
    struct seat next;
    struct store *other = open_again(scene);
    int64_t second = add_node(scene, "node-2", "default");
    const char *id = enqueue_for(scene, "acme", NULL);
    take_seat(&former, scene, scene->store, scene->node);
    (void)run(scene->a, "BEGIN");
    assert_string_equal(
        run(scene->a, ASSIGN_SQL, (long long)former.node, (long long)former.epoch, id, (long long)former.node), "1");
    run_into(scene->b, TAKE_SQL, (long long)second);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "ok");
    next = (struct seat){.scene = scene, .store = other, .node = second, .epoch = former.epoch + 1};
    round_of(&next, (struct schedule_call){.load = true});
    assert_int_equal(sum_slots(&next), 1);
    assert_int_equal(assign(&next, id, second), ASSIGNMENT_GONE);
    store_close(other);
}

/* The other order: the assignment waits for the takeover, and finds another epoch. */
static void an_assignment_that_waited_for_a_takeover_changes_nothing(void **state)
{
    struct scene *scene = *state;
    struct seat former;
    int64_t second = add_node(scene, "node-2", "default");
    const char *id = enqueue_for(scene, "acme", NULL);
    let_rounds_wait(scene);
    take_seat(&former, scene, scene->store, scene->node);
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, TAKE_SQL, (long long)second), "ok");
    run_into(scene->b, ASSIGN_SQL, (long long)former.node, (long long)former.epoch, id, (long long)former.node);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "0");
    assert_string_equal(run(scene->a, "SELECT phase FROM weir.workflow_execution_queue"), "0");
}

/* A session that holds the epoch's row without end, as that of a client that was frozen while it received rows. */
static void a_session_that_blocks_the_role_is_ended_once_its_lease_is_over(void **state)
{
    struct scene *scene = *state;
    int64_t second = add_node(scene, "node-2", "default");
    PGconn *frozen = postgres_server_connect(&server);
    assert_string_equal(run(frozen,
                            "SELECT outcome FROM weir.role('take', %lld, 0, 60000000, 0, 'test', false, 0, 0, '', 0)",
                            (long long)scene->node),
                        "ok");
    (void)run(frozen, "BEGIN; SELECT weir.has_epoch(%lld, 1, true)", (long long)scene->node);
    assert_string_equal(run(scene->a,
                            "SELECT outcome FROM weir.role('take', %lld, 0, 60000000, 0, 'test', false, 0, 0, '', 0)",
                            (long long)second),
                        "conflict");
    assert_string_equal(run(scene->a, TAKE_SQL, (long long)second), "conflict"); /* and it has ended that session */
    int64_t end_us = clock_boot(clock_system()) + WAIT_US;
    while (strcmp(run(scene->a, TAKE_SQL, (long long)second), "ok") != 0) {
        assert_true(clock_boot(clock_system()) < end_us);
    }
    PQfinish(frozen);
}

static void the_role_is_free_once_the_session_that_took_it_has_ended(void **state)
{
    struct scene *scene = *state;
    struct role_state role;
    struct store *other = open_again(scene);
    int64_t epoch = 0;
    ok(take_role(other, scene->node, &epoch, &scene->error));
    ok(store_role(scene->store, &(struct role_request){.act = ROLE_READ}, &role, &scene->error));
    assert_false(role.is_free);
    store_close(other);
    int64_t end_us = clock_boot(clock_system()) + WAIT_US;
    while (!role.is_free) {
        assert_true(clock_boot(clock_system()) < end_us);
        ok(store_role(scene->store, &(struct role_request){.act = ROLE_READ}, &role, &scene->error));
    }
}

/* --- lost connections --- */

static void end_sessions(struct scene *scene)
{
    (void)run(scene->b, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'weir'");
    int64_t end_us = clock_boot(clock_system()) + WAIT_US;
    while (strcmp(run(scene->b, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'weir'"), "0") != 0) {
        assert_true(clock_boot(clock_system()) < end_us);
    }
}

static void after_a_lost_connection_only_a_load_goes_on(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    const char *id = enqueue_for(scene, "acme", NULL);
    struct assignment assignment = assignment_of(id, scene->node);
    take_seat(&seat, scene, scene->store, scene->node);
    end_sessions(scene);
    for (int i = 0; i < 3; i++) {
        enum weir_status status =
            try_round(&seat, (struct schedule_call){.assignments = &assignment, .assignment_count = 1});
        assert_true(status != WEIR_OK);
    }
    assert_string_equal(run(scene->a, "SELECT phase FROM weir.workflow_execution_queue"), "0");
    take_seat(&seat, scene, scene->store, scene->node);
    assert_int_equal(assign(&seat, id, seat.node), ASSIGNMENT_TAKEN);
}

/* The connection is used for something else between two rounds, and is another one by then. */
static void a_round_does_not_move_to_another_connection(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    int64_t now_us = 0;
    take_seat(&seat, scene, scene->store, scene->node);
    end_sessions(scene);
    ok(store_time(scene->store, &now_us, &scene->error));
    assert_int_equal(try_round(&seat, (struct schedule_call){.needs = 0}), WEIR_STORE_UNREACHABLE);
}

static void a_round_that_was_lost_under_way_is_found_in_the_inbox(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    struct late_round late;
    struct inbox inbox = {0};
    struct inbox_position position = {0};
    const char *id = enqueue_for(scene, "acme", NULL);
    let_rounds_wait(scene);
    take_seat(&seat, scene, scene->store, scene->node);
    (void)run(scene->a, "BEGIN; SELECT 1 FROM weir.workflow_execution_queue FOR UPDATE");
    start_round(&late, &seat, id, NULL);
    (void)run(scene->b, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
    end_round(&late);
    assert_int_equal(late.status, WEIR_COMMIT_UNKNOWN);
    (void)run(scene->a, "COMMIT");
    /* The effect that the lost round might have had. */
    assert_string_equal(run(scene->a, ASSIGN_SQL, (long long)seat.node, (long long)seat.epoch, id, (long long)seat.node),
                        "1");
    ok(store_inbox(scene->store, seat.node, &position, 10, &scene->arena, &inbox, &scene->error));
    assert_int_equal(inbox.claimed.count, 1);
    assert_string_equal(inbox.claimed.items[0].id, id);
    assert_string_equal(inbox.claimed.items[0].workspace, "acme");
    take_seat(&seat, scene, scene->store, scene->node);
    assert_int_equal(sum_slots(&seat), 1);
}

static void another_timeline_makes_the_memory_void(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    take_seat(&seat, scene, scene->store, scene->node);
    (void)run(scene->a, "CREATE OR REPLACE FUNCTION weir.timeline() RETURNS text LANGUAGE sql STABLE AS $$ SELECT '7' $$");
    assert_int_equal(try_round(&seat, (struct schedule_call){.needs = 0}), WEIR_STALE_FENCE);
    assert_int_equal(take_role(scene->store, scene->node, &seat.epoch, &scene->error), WEIR_CONFLICT);
    beat(scene, scene->node);
    take_seat(&seat, scene, scene->store, scene->node);
    read_news(&seat);
}

/* It may run items that the rows do not show. */
static void after_a_restore_every_node_sends_a_heartbeat_before_an_assignment(void **state)
{
    struct scene *scene = *state;
    int64_t epoch = 0;
    int64_t silent = add_node(scene, "silent", "default");
    struct seat seat;
    take_seat(&seat, scene, scene->store, scene->node);
    (void)run(scene->a, "CREATE OR REPLACE FUNCTION weir.timeline() RETURNS text LANGUAGE sql STABLE AS $$ SELECT '7' $$");
    assert_int_equal(take_role(scene->store, scene->node, &epoch, &scene->error), WEIR_CONFLICT);
    beat(scene, scene->node);
    assert_int_equal(take_role(scene->store, scene->node, &epoch, &scene->error), WEIR_CONFLICT);
    assert_non_null(strstr(scene->error.message, "heartbeat"));
    beat(scene, silent);
    ok(take_role(scene->store, scene->node, &epoch, &scene->error));
    assert_true(epoch > seat.epoch);
}

/* Its claims may be lost with the backup. The caller has known the server long enough, by its own clock, or has not. */
static void after_a_restore_a_silent_node_is_awaited_for_its_lease(void **state)
{
    struct scene *scene = *state;
    static const char take[] = "SELECT outcome FROM weir.role('take', %lld, 0, 60000000, 0, 'test', true, 0, 0, %s, %d)";
    enum { AWAITED_MOST = 10000000 };
    int64_t epoch = 0;
    struct seat seat;
    int64_t silent = add_node(scene, "silent", "default");
    take_seat(&seat, scene, scene->store, scene->node);
    (void)run(scene->a, "CREATE OR REPLACE FUNCTION weir.timeline() RETURNS text LANGUAGE sql STABLE AS $$ SELECT '7' $$");
    beat(scene, scene->node);
    (void)run(scene->a, "UPDATE weir.nodes SET active_at = weir.store_time() + 3600000000 WHERE id = %lld",
              (long long)silent);
    assert_int_equal(take_role(scene->store, scene->node, &epoch, &scene->error), WEIR_CONFLICT);
    long long node = (long long)scene->node;
    assert_string_equal(run(scene->a, take, node, "'another'", AWAITED_MOST), "unheard");
    assert_string_equal(run(scene->a, take, node, "weir.server_identity()", AWAITED_MOST - 1), "unheard");
    assert_string_equal(run(scene->a, take, node, "weir.server_identity()", AWAITED_MOST), "ok");
}

/* --- everything at once --- */

enum { WRITERS = 3, WRITES = 150 };

struct writer {
    struct scene *scene;
    struct store *store;
    pthread_t thread;
    const struct claimed_item *items;
    size_t count;
    bool failed;
};

/* Enqueues and ends, at its own pace. */
static void *run_writer(void *context)
{
    struct writer *writer = context;
    struct weir_error error = {0};
    for (size_t i = 0; i < writer->count && !writer->failed; i++) {
        struct enqueue_request request = {.workspace = "acme", .workflow = "hello"};
        struct enqueue_result result;
        struct record record = record_of(RECORD_COMPLETED, &writer->items[i]);
        struct record_summary summary;
        writer->failed = store_enqueue(writer->store, &request, 1, &result, &error) != WEIR_OK ||
                         store_record(writer->store, writer->scene->node, &record, 1, &summary, &error) != WEIR_OK ||
                         record.status != WEIR_OK;
    }
    return NULL;
}

static void start_writers(struct scene *scene, struct writer *writers)
{
    for (int i = 0; i < WRITERS * WRITES; i++) {
        (void)enqueue_for(scene, "acme", NULL);
    }
    struct claim_result held = claim(scene, WRITERS * WRITES);
    assert_int_equal(held.count, WRITERS * WRITES);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){
            .scene = scene, .store = open_again(scene), .items = held.items + (size_t)i * WRITES, .count = WRITES};
        assert_int_equal(pthread_create(&writers[i].thread, NULL, run_writer, &writers[i]), 0);
    }
}

static void end_writers(struct writer *writers)
{
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_join(writers[i].thread, NULL), 0);
        assert_false(writers[i].failed);
        store_close(writers[i].store);
    }
}

/* Held slots at a load that happens among ends, and the news since then, add up to the slots that are held in the end. */
static void loads_among_ends_count_every_slot_once(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    struct writer writers[WRITERS];
    start_writers(scene, writers);
    int64_t held = -1;
    for (int i = 0; i < 40 && held != 0; i++) {
        take_seat(&seat, scene, scene->store, scene->node);
        held = sum_slots(&seat);
        int64_t node_held = sum_node_held(&seat, seat.node);
        for (int k = 0; k < 5; k++) {
            read_news(&seat);
            held += sum_slots(&seat);
            node_held += sum_node_held(&seat, seat.node);
            assert_true(held >= 0);
        }
        assert_int_equal(held, node_held);
    }
    end_writers(writers);
    do {
        read_news(&seat);
        held += sum_slots(&seat);
    } while (seat.answer.more_news);
    assert_int_equal(held, 0);
}

static const char *const unequal_sql =
    "SELECT count(*) FROM (SELECT sum(x.runnable) AS runnable, sum(x.held) AS held, sum(x.completed) AS completed FROM "
    "(SELECT runnable, held, completed FROM weir.books UNION ALL "
    " SELECT l.* FROM weir.news n, LATERAL (SELECT coalesce(sum(r), 0), coalesce(sum(h), 0), coalesce(sum(c), 0) "
    "  FROM unnest(n.runnable, n.held, n.completed) u (r, h, c)) l) x) b "
    "WHERE b.runnable <> (SELECT count(*) FROM weir.workflow_execution_queue WHERE phase = 0) "
    "OR b.held <> (SELECT count(*) FROM weir.workflow_execution_queue WHERE phase = 2) "
    "OR b.completed <> (SELECT count(*) FROM weir.workflow_executions)";

static void the_books_and_the_news_are_exact_at_every_moment(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    struct writer writers[WRITERS];
    bool more = false;
    start_writers(scene, writers);
    take_seat(&seat, scene, scene->store, scene->node);
    for (int i = 0; i < 60; i++) {
        read_news(&seat);
        if (i % 2 == 0) {
            ok(store_publish_books(scene->store, seat.node, seat.epoch, NULL, 0, &more, &scene->error));
        }
        assert_string_equal(run(scene->b, "%s", unequal_sql), "0");
    }
    end_writers(writers);
    read_news(&seat);
    ok(store_publish_books(scene->store, seat.node, seat.epoch, NULL, 0, &more, &scene->error));
    assert_string_equal(run(scene->b, "%s", unequal_sql), "0");
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.news"), "0");
}

/* Folding before the news was read would hide it from the scheduler. */
static void unread_news_is_not_folded(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    bool more = true;
    take_seat(&seat, scene, scene->store, scene->node);
    (void)run(scene->a, "BEGIN; SELECT weir.enqueue('acme', 'hello')");
    (void)enqueue_for(scene, "beta", NULL);
    ok(store_publish_books(scene->store, seat.node, seat.epoch, NULL, 0, &more, &scene->error));
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.news WHERE kind = 1"), "1");
    read_news(&seat);
    assert_int_equal(count_facts(&seat, FACT_RUNNABLE), 1);
    (void)run(scene->a, "COMMIT");
    ok(store_publish_books(scene->store, seat.node, seat.epoch, NULL, 0, &more, &scene->error));
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.news WHERE kind = 1"), "1");
    read_news(&seat);
    assert_int_equal(count_facts(&seat, FACT_RUNNABLE), 1);
    ok(store_publish_books(scene->store, seat.node, seat.epoch, NULL, 0, &more, &scene->error));
    assert_string_equal(run(scene->b, "SELECT count(*) FROM weir.news"), "0");
    assert_string_equal(run(scene->b, "SELECT sum(runnable) FROM weir.books"), "2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(news_of_a_long_transaction_is_read_once_after_its_commit),
        TEST(the_load_and_the_news_neither_overlap_nor_leave_a_gap),
        TEST(a_transaction_that_is_undone_leaves_no_news),
        TEST(news_of_a_prepared_transaction_is_read_after_its_commit),
        TEST(many_open_transactions_delay_their_own_news_only),
        TEST(a_pause_that_is_committed_during_a_round_undoes_it),
        TEST(a_row_that_a_caller_holds_is_left_out_after_a_moment),
        TEST(a_due_row_that_a_caller_holds_is_due_again_later),
        TEST(a_cancel_that_waited_for_the_assignment_is_passed_on),
        TEST(a_node_that_recovery_holds_gets_nothing),
        TEST(a_heartbeat_goes_on_during_an_assignment),
        TEST(a_former_scheduler_changes_nothing),
        TEST(a_takeover_waits_for_an_assignment_and_counts_it),
        TEST(an_assignment_that_waited_for_a_takeover_changes_nothing),
        TEST(a_session_that_blocks_the_role_is_ended_once_its_lease_is_over),
        TEST(the_role_is_free_once_the_session_that_took_it_has_ended),
        TEST(after_a_lost_connection_only_a_load_goes_on),
        TEST(a_round_does_not_move_to_another_connection),
        TEST(a_round_that_was_lost_under_way_is_found_in_the_inbox),
        TEST(another_timeline_makes_the_memory_void),
        TEST(after_a_restore_every_node_sends_a_heartbeat_before_an_assignment),
        TEST(after_a_restore_a_silent_node_is_awaited_for_its_lease),
        TEST(loads_among_ends_count_every_slot_once),
        TEST(the_books_and_the_news_are_exact_at_every_moment),
        TEST(unread_news_is_not_folded),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
