/* max_pending: the limit of PENDING executions of a workspace, by its plan or of its own. */
#include <pthread.h>

#include "conformance/scene.h"
#include "store/reading.h"

enum { RACERS = 4, RACED_SET = 100, RACED_MOST = 2000 };

static void limit_plan(struct scene *scene, const char *plan, int64_t most)
{
    struct plan_change change = {.name = plan, .max_pending = most};
    scene_ok(scene, store_set_plan(scene->store, &change, &scene->error));
}

static void limit_workspace(struct scene *scene, const char *workspace, int64_t most)
{
    struct workspace_change change = {.name = workspace, .max_pending = most, .paused = -1};
    scene_ok(scene, store_set_workspace(scene->store, &change, &scene->error));
}

static struct enqueue_result try_hello(struct scene *scene, const char *workspace)
{
    struct enqueue_request request = {.workspace = workspace, .workflow = "hello"};
    return scene_try(scene, &request);
}

static void assert_full(struct scene *scene, const char *workspace)
{
    struct enqueue_result result = try_hello(scene, workspace);
    assert_int_equal(result.status, WEIR_QUEUE_FULL);
    assert_string_equal(result.id, "");
}

static int64_t pending_of(struct scene *scene, const char *workspace)
{
    return scene_number(scene, "SELECT count(*) FROM executions WHERE workspace = '%s' AND status = 'PENDING'", workspace);
}

/* Members of the answer about a workspace; -1 = null. */
static int64_t usage_of(struct scene *scene, const char *workspace, const char *key)
{
    json_t *row = NULL;
    scene_ok(scene, store_usage(scene->store, workspace, &row, &scene->error));
    const json_t *value = json_object_get(row, key);
    assert_non_null(value);
    int64_t number = json_is_null(value) ? -1 : json_integer_value(value);
    json_decref(row);
    return number;
}

/* In seconds; below 0: it has none. */
static int64_t oldest_of(struct scene *scene, const char *workspace)
{
    int64_t age_us = usage_of(scene, workspace, "oldest_pending_age_us");
    return age_us < 0 ? age_us : age_us / SECONDS(1);
}

static void usage_has_the_age_of_the_oldest_that_could_run(void **state)
{
    struct scene *scene = *state;
    scene_group(scene, "batch");
    assert_int_equal(oldest_of(scene, "pro-co"), -1);
    (void)scene_enqueue(scene, "free-co");
    (void)scene_claim_one(scene);
    assert_int_equal(oldest_of(scene, "free-co"), -1); /* a held one is not pending */
    const struct enqueue_request later = {
        .workspace = "big-co", .workflow = "hello", .run_at_us = scene_now(scene) + SECONDS(9)};
    (void)scene_enqueue_request(scene, &later);
    assert_int_equal(oldest_of(scene, "big-co"), -1); /* it could not run yet */
    scene_enqueue_many(scene, "pro-co", 2);
    scene_pass(scene, SECONDS(5));
    (void)scene_enqueue_request(scene,
                                &(struct enqueue_request){.workspace = "pro-co", .workflow = "hello", .group = "batch"});
    scene_pass(scene, SECONDS(3));
    assert_int_equal(oldest_of(scene, "pro-co"), 8); /* of two lanes the older one counts */
    json_t *page = NULL;
    const struct list_options options = {.kind = LIST_WORKSPACES};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    size_t behind = 0;
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(page, "items"), i, row)
    {
        behind += json_is_integer(json_object_get(row, "oldest_pending_age_us"));
    }
    assert_int_equal(behind, 1);
    json_decref(page);
}

static void a_workspace_takes_as_many_as_its_plan_allows(void **state)
{
    struct scene *scene = *state;
    limit_plan(scene, "free", 3);
    scene_enqueue_many(scene, "free-co", 3);
    struct enqueue_result refused = try_hello(scene, "free-co");
    assert_int_equal(refused.status, WEIR_QUEUE_FULL);
    assert_string_equal(refused.error.message, "workspace \"free-co\" has 3 pending executions, as many as it may have");
    assert_string_equal(refused.error.hint,
                        "repeat it later, or raise the limit: weir workspace set free-co --max-pending N");
    scene_enqueue_many(scene, "pro-co", 9); /* of another plan */
    assert_int_equal(pending_of(scene, "free-co"), 3);
    scene_cap(scene, "pro-co", 1);
    assert_int_equal(scene_claim(scene, 2).count, 2); /* a claimed one is not pending */
    (void)scene_enqueue(scene, "free-co");
    assert_full(scene, "free-co");
}

static void a_new_store_has_no_limit(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(scene_number(scene, "SELECT sum(max_pending) FROM plans"), 0);
    assert_int_equal(usage_of(scene, "free-co", "pending_max"), 0);
    assert_int_equal(usage_of(scene, "free-co", "max_pending"), -1);
}

static void an_own_limit_comes_before_that_of_the_plan(void **state)
{
    struct scene *scene = *state;
    limit_plan(scene, "free", 2);
    limit_workspace(scene, "free-co", 1);
    assert_int_equal(usage_of(scene, "free-co", "pending_max"), 1);
    assert_int_equal(usage_of(scene, "free-co", "max_pending"), 1);
    scene_enqueue_many(scene, "free-co", 1);
    assert_full(scene, "free-co");
    limit_workspace(scene, "free-co", PENDING_OF_PLAN);
    assert_int_equal(usage_of(scene, "free-co", "pending_max"), 2);
    assert_int_equal(usage_of(scene, "free-co", "max_pending"), -1);
    scene_enqueue_many(scene, "free-co", 1);
    assert_full(scene, "free-co");
    limit_workspace(scene, "free-co", PENDING_UNLIMITED);
    assert_int_equal(usage_of(scene, "free-co", "pending_max"), 0);
    assert_int_equal(usage_of(scene, "free-co", "max_pending"), 0);
    scene_enqueue_many(scene, "free-co", 5);
    limit_plan(scene, "free", 1);
    scene_enqueue_many(scene, "free-co", 1); /* its own stays */
    limit_workspace(scene, "free-co", PENDING_OF_PLAN);
    assert_full(scene, "free-co");
    limit_plan(scene, "free", PENDING_UNLIMITED);
    scene_enqueue_many(scene, "free-co", 1);
    assert_int_equal(pending_of(scene, "free-co"), 9);
}

static void another_plan_brings_its_limit(void **state)
{
    struct scene *scene = *state;
    struct workspace_change change = {.name = "free-co", .plan = "pro", .paused = -1};
    struct workspace_change new_one = {.name = "new-co", .plan = "pro", .max_pending = 4, .paused = -1, .create = true};
    struct plan_change tiny = {.name = "tiny", .max_concurrent = 1, .max_pending = 6};
    limit_plan(scene, "pro", 7);
    scene_ok(scene, store_set_workspace(scene->store, &change, &scene->error));
    scene_ok(scene, store_set_workspace(scene->store, &new_one, &scene->error));
    scene_ok(scene, store_set_plan(scene->store, &tiny, &scene->error));
    scene_workspace(scene, "tiny-co", "tiny");
    assert_int_equal(usage_of(scene, "free-co", "pending_max"), 7);
    assert_int_equal(usage_of(scene, "new-co", "pending_max"), 4);
    assert_int_equal(usage_of(scene, "tiny-co", "pending_max"), 6);
    tiny = (struct plan_change){.name = "tiny", .weight = 3};
    scene_ok(scene, store_set_plan(scene->store, &tiny, &scene->error));
    assert_int_equal(usage_of(scene, "tiny-co", "pending_max"), 6);
    struct plan_change wrong[] = {{.name = "tiny", .max_pending = -1},
                                  {.name = "tiny", .max_pending = -3},
                                  {.name = "tiny", .max_pending = (int64_t)MAX_PENDING_MOST + 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(store_set_plan(scene->store, &wrong[i], &scene->error), WEIR_INVALID_ARGUMENT);
    }
    change = (struct workspace_change){.name = "free-co", .max_pending = -3, .paused = -1};
    assert_int_equal(store_set_workspace(scene->store, &change, &scene->error), WEIR_INVALID_ARGUMENT);
}

static void of_a_set_the_first_ones_are_taken(void **state)
{
    struct scene *scene = *state;
    struct enqueue_result results[6];
    struct enqueue_request requests[6];
    limit_plan(scene, "free", 3);
    for (size_t i = 0; i < 6; i++) {
        requests[i] = (struct enqueue_request){.workspace = i == 4 ? "pro-co" : "free-co", .workflow = "hello"};
    }
    requests[1].workflow = "unknown"; /* takes no place */
    scene_ok(scene, store_enqueue(scene->store, requests, 6, results, &scene->error));
    static const enum weir_status expected[] = {WEIR_OK, WEIR_WORKFLOW_NOT_FOUND, WEIR_OK, WEIR_OK,
                                                WEIR_OK, WEIR_QUEUE_FULL};
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(results[i].status, expected[i]);
    }
    assert_int_equal(pending_of(scene, "free-co"), 3);
    assert_int_equal(pending_of(scene, "pro-co"), 1);
}

static void a_known_request_is_answered_by_a_full_workspace(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request keyed = {.workspace = "free-co", .workflow = "hello", .idempotency_key = "first"};
    struct enqueue_request named = {
        .workspace = "free-co", .workflow = "hello", .id = "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79"};
    limit_plan(scene, "free", 2);
    (void)scene_enqueue_request(scene, &keyed);
    (void)scene_enqueue_request(scene, &named);
    assert_true(scene_try(scene, &keyed).duplicate);
    assert_true(scene_try(scene, &named).duplicate);
    keyed.idempotency_key = "second";
    named.id = "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a80";
    assert_int_equal(scene_try(scene, &keyed).status, WEIR_QUEUE_FULL);
    assert_int_equal(scene_try(scene, &named).status, WEIR_QUEUE_FULL);
    struct enqueue_request twice[] = {keyed, keyed, named, named};
    struct enqueue_result results[4];
    scene_ok(scene, store_enqueue(scene->store, twice, 4, results, &scene->error));
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(results[i].status, WEIR_QUEUE_FULL);
    }
    limit_plan(scene, "free", 4);
    assert_false(scene_try(scene, &keyed).duplicate); /* the refusal has not used the key */
    assert_false(scene_try(scene, &named).duplicate);
}

static void a_replacement_takes_no_room(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = {
        .workspace = "free-co", .workflow = "hello", .idempotency_key = "doc", .key_mode = KEY_REPLACE};
    limit_plan(scene, "free", 1);
    (void)scene_enqueue_request(scene, &request);
    assert_true(scene_try(scene, &request).replaced);
    request.key_mode = KEY_DEBOUNCE;
    request.debounce_us = SECONDS(10);
    assert_true(scene_try(scene, &request).replaced);
    request.idempotency_key = "other";
    assert_int_equal(scene_try(scene, &request).status, WEIR_QUEUE_FULL);
    request.key_mode = KEY_ONE_ACTIVE;
    request.debounce_us = 0;
    assert_int_equal(scene_try(scene, &request).status, WEIR_QUEUE_FULL);
    request.idempotency_key = "doc";
    assert_true(scene_try(scene, &request).duplicate);
    assert_int_equal(pending_of(scene, "free-co"), 1);
}

static void a_later_start_counts_and_a_parked_one_does_not(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request later = {.workspace = "free-co", .workflow = "hello"};
    later.run_at_us = scene_now(scene) + SECONDS(3600);
    limit_plan(scene, "free", 1);
    (void)scene_enqueue(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    struct step_record step = {
        .step = "nap", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = SECONDS(3600)};
    struct record records[] = {scene_record_of(RECORD_DISPATCHED, &item), scene_record_of(RECORD_STEP, &item),
                               scene_record_of(RECORD_PARKED, &item)};
    struct record_summary summary;
    records[1].step = &step;
    records[2].delay_us = SECONDS(3600);
    records[2].waiting_for = WAIT_SLEEP;
    scene_ok(scene, store_record(scene->store, scene->node, records, 3, &summary, &scene->error));
    assert_string_equal(scene_status_of(scene, item.id), "WAITING");
    (void)scene_enqueue_request(scene, &later);
    assert_full(scene, "free-co");
}

static void a_retry_is_not_refused(void **state)
{
    struct scene *scene = *state;
    limit_plan(scene, "free", 1);
    const char *id = scene_enqueue(scene, "free-co");
    struct execution_filter filter = {.id = id};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 1, &result, &scene->error));
    (void)scene_enqueue(scene, "free-co");
    scene_ok(scene, store_bulk(scene->store, BULK_RETRY, &filter, "", 1, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    assert_int_equal(pending_of(scene, "free-co"), 2);
    assert_full(scene, "free-co");
}

static void a_cancel_makes_room(void **state)
{
    struct scene *scene = *state;
    struct bulk_result result = {0};
    limit_plan(scene, "free", 2);
    (void)scene_enqueue(scene, "free-co");
    const char *id = scene_enqueue(scene, "free-co");
    struct execution_filter filter = {.id = id};
    assert_full(scene, "free-co");
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 1, &result, &scene->error));
    (void)scene_enqueue(scene, "free-co");
    assert_full(scene, "free-co");
    limit_plan(scene, "free", 1); /* what is there stays */
    assert_full(scene, "free-co");
    assert_int_equal(pending_of(scene, "free-co"), 2);
}

/* --- several handles --- */

struct racer {
    struct store *store;
    pthread_t thread;
    size_t accepted;
    enum weir_status failure;
};

/* Enqueues until the workspace is full, or far beyond its limit. */
static void *run_racer(void *context)
{
    struct racer *racer = context;
    while (racer->accepted < RACED_MOST) {
        struct enqueue_request request = {.workspace = "free-co", .workflow = "hello"};
        struct enqueue_result result = {.status = WEIR_OK};
        struct weir_error error;
        enum weir_status status = store_enqueue(racer->store, &request, 1, &result, &error);
        if (status == WEIR_STORE_BUSY) {
            continue;
        }
        if (status != WEIR_OK || result.status != WEIR_OK) {
            racer->failure = status != WEIR_OK ? status : result.status;
            return NULL;
        }
        racer->accepted++;
    }
    return NULL;
}

/* The number of executions that all racers together have enqueued. */
static size_t race(struct scene *scene, void *(*run)(void *), int64_t most)
{
    struct racer racers[RACERS];
    size_t accepted = 0;
    limit_plan(scene, "free", most);
    for (size_t i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){.store = driver_open(&scene->driver, NULL)};
        assert_int_equal(pthread_create(&racers[i].thread, NULL, run, &racers[i]), 0);
    }
    for (size_t i = 0; i < RACERS; i++) {
        assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
        assert_int_equal(racers[i].failure, WEIR_QUEUE_FULL);
        accepted += racers[i].accepted;
        store_close(racers[i].store);
    }
    assert_int_equal(pending_of(scene, "free-co"), accepted);
    return accepted;
}

/* Each handle may pass the limit by a 64th of it, and by the request whose transaction is open. */
static void racing_handles_stay_near_the_limit(void **state)
{
    enum { MOST = 640 };
    assert_in_range(race(*state, run_racer, MOST), MOST, MOST + RACERS * (MOST / 64 + 1));
}

/* Enqueues sets until the workspace has no room for a whole one, or far beyond its limit. */
static void *run_set_racer(void *context)
{
    struct racer *racer = context;
    struct enqueue_request requests[RACED_SET];
    struct enqueue_result results[RACED_SET];
    for (size_t i = 0; i < RACED_SET; i++) {
        requests[i] = (struct enqueue_request){.workspace = "free-co", .workflow = "hello"};
    }
    while (racer->failure == WEIR_OK && racer->accepted < RACED_MOST) {
        struct weir_error error;
        memset(results, 0, sizeof results);
        enum weir_status status = store_enqueue(racer->store, requests, RACED_SET, results, &error);
        racer->failure = status == WEIR_STORE_BUSY ? WEIR_OK : status;
        for (size_t i = 0; i < RACED_SET && status == WEIR_OK; i++) {
            racer->accepted += results[i].status == WEIR_OK;
            racer->failure = results[i].status != WEIR_OK ? results[i].status : racer->failure;
        }
    }
    return NULL;
}

/* A set is large here, so it waits for the others, and none of them passes the limit. */
static void racing_sets_do_not_pass_the_limit(void **state)
{
    enum { MOST = 640 };
    assert_int_equal(race(*state, run_set_racer, MOST), MOST);
}

/* A handle that has places left of an earlier count gives them up with another limit, and after about a second. */
static void places_of_an_earlier_count_are_given_up(void **state)
{
    struct scene *scene = *state;
    struct store *other = driver_open(&scene->driver, NULL);
    limit_plan(scene, "free", 640);
    (void)scene_enqueue(scene, "free-co");
    struct enqueue_request requests[1000];
    struct enqueue_result results[1000];
    for (size_t i = 0; i < 1000; i++) {
        requests[i] = (struct enqueue_request){.workspace = "free-co", .workflow = "hello"};
    }
    scene_ok(scene, store_enqueue(other, requests, 1000, results, &scene->error));
    assert_int_equal(pending_of(scene, "free-co"), 640);
    (void)scene_enqueue(scene, "free-co"); /* of the kept places */
    scene_pass(scene, SECONDS(2));
    assert_full(scene, "free-co");
    limit_plan(scene, "free", 639);
    assert_full(scene, "free-co");
    limit_plan(scene, "free", 640);
    assert_full(scene, "free-co");
    store_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(usage_has_the_age_of_the_oldest_that_could_run),
        SCENE_TEST(a_workspace_takes_as_many_as_its_plan_allows),
        SCENE_TEST(a_new_store_has_no_limit),
        SCENE_TEST(an_own_limit_comes_before_that_of_the_plan),
        SCENE_TEST(another_plan_brings_its_limit),
        SCENE_TEST(of_a_set_the_first_ones_are_taken),
        SCENE_TEST(a_known_request_is_answered_by_a_full_workspace),
        SCENE_TEST(a_replacement_takes_no_room),
        SCENE_TEST(a_later_start_counts_and_a_parked_one_does_not),
        SCENE_TEST(a_retry_is_not_refused),
        SCENE_TEST(a_cancel_makes_room),
        SCENE_TEST(racing_handles_stay_near_the_limit),
        SCENE_TEST(racing_sets_do_not_pass_the_limit),
        SCENE_TEST(places_of_an_earlier_count_are_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
