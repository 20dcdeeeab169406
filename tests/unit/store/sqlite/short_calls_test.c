/* A long set of records keeps the one writer of the file. While a short call waits for it, the set is written in parts, and
 * the call goes between two of them. A set that waits lets other calls go first, also the round that follows an enqueue.
 * The times in its records are those of the call. */
#include <pthread.h>
#include <sched.h>

#include "conformance/rounds.h"
#include "store/sqlite/news.h"
#include "store/sqlite/sqlite_store.h"

enum { ITEMS = 200, PART = 64 };

static int64_t sets_of_ends(struct scene *scene)
{
    return scene_number(scene, "SELECT count(*) FROM news WHERE kind = %d", NEWS_ENDED);
}

static struct claim_result claim_all(struct scene *scene)
{
    scene_cap(scene, "big-co", ITEMS);
    scene_enqueue_many(scene, "big-co", ITEMS);
    struct claim_result claim = scene_claim(scene, ITEMS);
    assert_int_equal(claim.count, ITEMS);
    return claim;
}

static void a_long_set_is_one_transaction(void **state)
{
    struct scene *scene = *state;
    struct claim_result claim = claim_all(scene);
    scene_complete(scene, &claim);
    assert_int_equal(sets_of_ends(scene), 1);
}

static void a_long_set_ends_a_part_while_a_short_call_waits(void **state)
{
    struct scene *scene = *state;
    struct claim_result claim = claim_all(scene);
    write_announce(sqlite_of(scene->store)->file, true);
    scene_complete(scene, &claim); /* each record has its outcome */
    write_announce(sqlite_of(scene->store)->file, false);
    assert_int_equal(sets_of_ends(scene), (ITEMS + PART - 1) / PART);
    assert_int_equal(scene_held(scene, "big-co"), 0);
}

/* The database refuses the rows of one item in the middle: what is on record stays, and the rest is to be repeated. */
static void a_part_that_fails_leaves_the_rest_to_be_repeated(void **state)
{
    struct scene *scene = *state;
    struct claim_result claim = claim_all(scene);
    struct record records[ITEMS];
    struct record_summary summary = {0};
    for (size_t i = 0; i < ITEMS; i++) {
        records[i] = scene_record_of(RECORD_COMPLETED, &claim.items[i]);
    }
    driver_refuse(&scene->driver, claim.items[3 * PART + 1].id);
    write_announce(sqlite_of(scene->store)->file, true);
    scene_ok(scene, store_record(scene->store, scene->node, records, ITEMS, &summary, &scene->error));
    assert_int_equal(summary.changed, 3 * PART);
    assert_int_equal(summary.slots_freed, 3 * PART);
    for (size_t i = 0; i < ITEMS; i++) {
        assert_int_equal(records[i].status, i < 3 * PART ? WEIR_OK : WEIR_STORE_BUSY);
    }
    size_t left = ITEMS - 3 * PART;
    scene_ok(scene, store_record(scene->store, scene->node, records + 3 * PART, left, &summary, &scene->error));
    assert_int_equal(summary.changed, left - 1);
    assert_int_equal(records[3 * PART + 1].status, WEIR_FAILED);
    write_announce(sqlite_of(scene->store)->file, false);
}

struct caller {
    struct scene *scene;
    size_t count;
};

static void *enqueue_set(void *argument)
{
    const struct caller *caller = argument;
    scene_enqueue_many(caller->scene, "free-co", caller->count);
    return NULL;
}

/* Whether an enqueue of so many counts as a short call, while it waits for the writer. */
static bool is_announced(struct scene *scene, size_t count)
{
    struct sqlite_file *file = sqlite_of(scene->store)->file;
    struct caller caller = {.scene = scene, .count = count};
    struct connection *writer = NULL;
    pthread_t thread;
    scene_ok(scene, write_reserve(file, STORE_DEADLINE_US, &writer, &scene->error));
    assert_int_equal(pthread_create(&thread, NULL, enqueue_set, &caller), 0);
    while (!write_is_awaited(file) && count <= WRITE_SHORT_MOST) {
        (void)sched_yield();
    }
    bool is_awaited = write_is_awaited(file);
    write_cancel(file);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(write_is_awaited(file));
    return is_awaited;
}

static void a_short_enqueue_is_announced_while_it_waits(void **state)
{
    struct scene *scene = *state;
    assert_true(is_announced(scene, 1));
    assert_true(is_announced(scene, WRITE_SHORT_MOST));
    assert_false(is_announced(scene, WRITE_SHORT_MOST + 1));
}

/* --- a set that waits --- */

struct order_of_calls {
    struct scene *scene;
    struct claim_result claim; /* to be recorded */
    int64_t held_at_round;     /* when the round had the writer */
};

static void *record_set(void *argument)
{
    const struct order_of_calls *calls = argument;
    struct record records[ITEMS];
    struct record_summary summary = {0};
    struct weir_error error;
    struct store *store = NULL;
    for (size_t i = 0; i < calls->claim.count; i++) {
        records[i] = scene_record_of(RECORD_COMPLETED, &calls->claim.items[i]);
    }
    assert_int_equal(store_open_again(calls->scene->store, &store, &error), WEIR_OK);
    assert_int_equal(store_record(store, calls->scene->node, records, calls->claim.count, &summary, &error), WEIR_OK);
    assert_int_equal(summary.changed, calls->claim.count);
    store_close(store);
    return NULL;
}

/* The transaction of a round, which notes what is committed before it. */
static void *run_empty_round(void *argument)
{
    struct order_of_calls *calls = argument;
    struct write write;
    struct weir_error error;
    struct store *store = NULL;
    assert_int_equal(store_open_again(calls->scene->store, &store, &error), WEIR_OK);
    assert_int_equal(write_open_short(store, &write, &error), WEIR_OK);
    calls->held_at_round = scene_held(calls->scene, "big-co");
    write_undo(&write);
    store_close(store);
    return NULL;
}

static pthread_t start_call(struct order_of_calls *calls, void *(*call)(void *))
{
    struct sqlite_file *file = sqlite_of(calls->scene->store)->file;
    pthread_t thread;
    size_t before = write_waiting(file);
    assert_int_equal(pthread_create(&thread, NULL, call, calls), 0);
    while (write_waiting(file) == before) {
        (void)sched_yield();
    }
    return thread;
}

static void a_round_goes_before_a_set_that_waits_longer(void **state)
{
    struct scene *scene = *state;
    struct order_of_calls calls = {.scene = scene, .claim = claim_all(scene)};
    struct sqlite_file *file = sqlite_of(scene->store)->file;
    struct connection *writer = NULL;
    scene_ok(scene, write_reserve(file, STORE_DEADLINE_US, &writer, &scene->error));
    pthread_t threads[] = {start_call(&calls, record_set), start_call(&calls, run_empty_round)};
    write_cancel(file);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(calls.held_at_round, ITEMS);
    assert_int_equal(scene_held(scene, "big-co"), 0);
}

/* --- a wait that begins before its record has the writer --- */

#define NAP SECONDS(10)

/* Parks all of the claim for NAP. All but the first report the beginning of their sleep with the park. */
static void *park_set(void *argument)
{
    const struct order_of_calls *calls = argument;
    static const struct step_record nap = {
        .step = "nap", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = NAP};
    struct record records[ITEMS];
    struct record_summary summary = {0};
    struct weir_error error;
    struct store *store = NULL;
    for (size_t i = 0; i < calls->claim.count; i++) {
        records[i] = scene_record_of(i == 0 ? RECORD_STEP : RECORD_PARKED, &calls->claim.items[i]);
        records[i].dispatched_first = true;
        records[i].delay_us = i == 0 ? 0 : NAP;
        records[i].waiting_for = WAIT_SLEEP;
        records[i].step = &nap;
    }
    assert_int_equal(store_open_again(calls->scene->store, &store, &error), WEIR_OK);
    assert_int_equal(store_record(store, calls->scene->node, records, calls->claim.count, &summary, &error), WEIR_OK);
    assert_int_equal(summary.changed, calls->claim.count);
    store_close(store);
    return NULL;
}

/* The delay of a park begins with its report. A writer that is busy for long makes no wait longer. */
static void a_sleep_ends_in_time_though_its_record_waits(void **state)
{
    struct scene *scene = *state;
    struct order_of_calls calls = {.scene = scene, .claim = claim_all(scene)};
    struct sqlite_file *file = sqlite_of(scene->store)->file;
    struct connection *writer = NULL;
    int64_t asked_us = scene_now(scene);
    scene_ok(scene, write_reserve(file, STORE_DEADLINE_US, &writer, &scene->error));
    pthread_t thread = start_call(&calls, park_set);
    scene_pass(scene, SECONDS(3));
    write_cancel(file);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_queue WHERE status = 'WAITING'"),
                     ITEMS - 1);
    assert_int_equal(
        scene_number(scene, "SELECT min(due_at) FROM workflow_execution_queue WHERE status = 'WAITING'") - asked_us, NAP);
    assert_int_equal(
        scene_number(scene, "SELECT max(due_at) FROM workflow_execution_queue WHERE status = 'WAITING'") - asked_us, NAP);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_node_executions WHERE due_at IS NOT NULL"), ITEMS);
    assert_int_equal(scene_number(scene, "SELECT min(due_at) FROM workflow_node_executions") - asked_us, NAP);
    assert_int_equal(scene_number(scene, "SELECT max(due_at) FROM workflow_node_executions") - asked_us, NAP);
}

/* --- the writer is reserved for the round that follows --- */

static bool enqueue_reserves(struct scene *scene, bool has_scheduler)
{
    struct sqlite_file *file = sqlite_of(scene->store)->file;
    write_set_scheduler(file, has_scheduler);
    int64_t before_us = write_reserved_until_us(file);
    (void)scene_enqueue(scene, "free-co");
    return write_reserved_until_us(file) != before_us;
}

static void an_enqueue_reserves_the_writer_for_the_scheduler_of_this_process(void **state)
{
    assert_false(enqueue_reserves(*state, false));
    assert_true(enqueue_reserves(*state, true));
}

/* Of a round that assigns an item, and may read the news of another one. */
static bool round_reserves(struct scene *scene, bool has_news)
{
    struct seat seat;
    struct sqlite_file *file = sqlite_of(scene->store)->file;
    const char *id = scene_enqueue(scene, "free-co");
    seat_take(&seat, scene, scene->node);
    struct assignment assignment = assignment_of(scene, id, scene->node);
    if (has_news) {
        (void)scene_enqueue(scene, "free-co");
    }
    write_set_scheduler(file, true);
    int64_t before_us = write_reserved_until_us(file);
    (void)seat_round(&seat, (struct schedule_call){.assignments = &assignment, .assignment_count = 1});
    assert_int_equal(assignment.outcome, ASSIGNMENT_TAKEN);
    return write_reserved_until_us(file) != before_us;
}

/* The next round assigns the item of the news. */
static void a_round_with_news_reserves_the_writer(void **state)
{
    assert_true(round_reserves(*state, true));
}

static void a_round_without_news_reserves_nothing(void **state)
{
    assert_false(round_reserves(*state, false));
}

/* --- heads that come with news --- */

static void a_new_item_brings_the_heads_of_its_lane(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    seat_take(&seat, scene, scene->node);
    const char *id = scene_enqueue(scene, "free-co");
    const struct schedule_answer *answer = seat_round(&seat, (struct schedule_call){.needs = 0});
    assert_int_equal(answer->news_read_count, 1);
    struct assignment assignment = assignment_of(scene, id, scene->node);
    const struct lane_read *read = &answer->news_reads[0];
    assert_int_equal(read->lane_id, assignment.lane_id);
    assert_true(read->after_rank <= assignment.rank);
    assert_int_equal(read->count, 1);
    assert_true(read->is_all && read->workspace_exists);
    assert_int_equal(read->heads[0].rank, assignment.rank);
    assert_memory_equal(read->heads[0].id, assignment.id, sizeof assignment.id);
    answer = seat_round(&seat, (struct schedule_call){.needs = 0});
    assert_int_equal(answer->news_read_count, 0);
}

/* A round with assignments reads news, too, and its heads are those behind its assignments. */
static void a_round_that_assigns_brings_the_heads_of_new_items(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    seat_take(&seat, scene, scene->node);
    const char *first = scene_enqueue(scene, "free-co");
    const char *second = scene_enqueue(scene, "free-co");
    struct assignment assignment = assignment_of(scene, first, scene->node);
    const struct schedule_answer *answer =
        seat_round(&seat, (struct schedule_call){.assignments = &assignment, .assignment_count = 1});
    assert_int_equal(assignment.outcome, ASSIGNMENT_TAKEN);
    struct assignment next = assignment_of(scene, second, scene->node);
    assert_true(answer->news_read_count >= 1);
    for (size_t i = 0; i < answer->news_read_count; i++) {
        assert_int_equal(answer->news_reads[i].count, 1);
        assert_memory_equal(answer->news_reads[i].heads[0].id, next.id, sizeof next.id);
    }
}

/* The rest is read in an order that the scheduler decides. */
static void many_new_items_bring_no_heads(void **state)
{
    struct scene *scene = *state;
    struct seat seat;
    seat_take(&seat, scene, scene->node);
    for (int i = 0; i < 9; i++) {
        (void)scene_enqueue(scene, "free-co");
    }
    const struct schedule_answer *answer = seat_round(&seat, (struct schedule_call){.needs = 0});
    assert_int_equal(count_facts(answer, FACT_RUNNABLE), 9);
    assert_int_equal(answer->news_read_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_long_set_is_one_transaction),
        SCENE_TEST(a_long_set_ends_a_part_while_a_short_call_waits),
        SCENE_TEST(a_part_that_fails_leaves_the_rest_to_be_repeated),
        SCENE_TEST(a_short_enqueue_is_announced_while_it_waits),
        SCENE_TEST(a_round_goes_before_a_set_that_waits_longer),
        SCENE_TEST(a_sleep_ends_in_time_though_its_record_waits),
        SCENE_TEST(an_enqueue_reserves_the_writer_for_the_scheduler_of_this_process),
        SCENE_TEST(a_round_with_news_reserves_the_writer),
        SCENE_TEST(a_round_without_news_reserves_nothing),
        SCENE_TEST(a_new_item_brings_the_heads_of_its_lane),
        SCENE_TEST(a_round_that_assigns_brings_the_heads_of_new_items),
        SCENE_TEST(many_new_items_bring_no_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
