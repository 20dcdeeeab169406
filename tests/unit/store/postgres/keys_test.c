/* Keys with a mode beside claims, open transactions and other sets, each order forced. */
#include <pthread.h>

#include "unit/store/postgres/scene.h"

#define REPLACE_SQL "SELECT weir.enqueue('acme', 'hello', idempotency_key => 'k', key_mode => 'replace')"
#define ACTIVE_SQL "SELECT weir.enqueue('acme', 'hello', idempotency_key => 'k', key_mode => 'one_active')"
#define STATUS_SQL "SELECT status FROM weir.executions WHERE id = '%s'"

static void keep(char *id, const char *text)
{
    assert_int_equal(strlen(text), UUID_TEXT_LENGTH);
    memcpy(id, text, UUID_TEXT_MAX);
}

static struct enqueue_request replace_of(const char *key)
{
    return (struct enqueue_request){
        .workspace = "acme", .workflow = "hello", .idempotency_key = key, .key_mode = KEY_REPLACE};
}

/* --- beside a claim --- */

static void a_replace_that_meets_a_claim_leaves_its_execution(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    int64_t epoch = 0;
    keep(id, run(scene->a, REPLACE_SQL));
    ok(take_role(scene->store, scene->node, &epoch, &scene->error));
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, ASSIGN_SQL, (long long)scene->node, (long long)epoch, id, (long long)scene->node),
                        "1");
    run_into(scene->b, REPLACE_SQL);
    (void)run(scene->a, "COMMIT");
    assert_string_not_equal(answer(scene->b), id);
    assert_string_equal(run(scene->a, STATUS_SQL, id), "CLAIMED");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.executions WHERE status = 'PENDING'"), "1");
}

static void a_claim_that_meets_a_replace_takes_nothing(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    int64_t epoch = 0;
    keep(id, run(scene->a, REPLACE_SQL));
    ok(take_role(scene->store, scene->node, &epoch, &scene->error));
    (void)run(scene->b, "ALTER FUNCTION weir.schedule SET lock_timeout = '60s'");
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, REPLACE_SQL);
    run_into(scene->b, ASSIGN_SQL, (long long)scene->node, (long long)epoch, id, (long long)scene->node);
    (void)run(scene->a, "COMMIT");
    assert_string_equal(answer(scene->b), "0");
    assert_string_equal(run(scene->a, STATUS_SQL, id), "CANCELLED");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.execution_events WHERE event = 'claim'"), "0");
}

/* --- beside open transactions --- */

static void the_second_caller_sees_the_work_of_the_first(void **state)
{
    struct scene *scene = *state;
    char first[UUID_TEXT_MAX];
    char second[UUID_TEXT_MAX];
    keep(first, run(scene->a, REPLACE_SQL));
    for (int commits = 0; commits < 2; commits++) {
        (void)run(scene->a, "BEGIN");
        keep(second, run(scene->a, REPLACE_SQL));
        run_into(scene->b, ACTIVE_SQL);
        (void)run(scene->a, commits != 0 ? "COMMIT" : "ROLLBACK");
        assert_string_equal(answer(scene->b), commits != 0 ? second : first);
    }
    assert_string_equal(run(scene->a, STATUS_SQL, first), "CANCELLED");
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.executions"), "2");
}

/* It would answer with the id of one that has ended, and the work would be lost. */
static void one_active_needs_a_new_snapshot(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    keep(id, run(scene->a, ACTIVE_SQL));
    (void)run(scene->b, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    (void)run(scene->b, "SELECT 1 FROM weir.executions");
    (void)run(scene->a, "SELECT weir.cancel('%s')", id);
    assert_string_equal(refusal(scene->b, ACTIVE_SQL), "WR014");
    (void)run(scene->b, "ROLLBACK");
    assert_string_not_equal(run(scene->b, ACTIVE_SQL), id);
}

static void an_old_snapshot_replaces_nothing_that_has_started(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    keep(id, run(scene->a, REPLACE_SQL));
    (void)run(scene->b, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    (void)run(scene->b, "SELECT 1 FROM weir.executions");
    (void)claim_one(scene, id);
    assert_string_equal(refusal(scene->b, REPLACE_SQL), "40001");
    (void)run(scene->b, "ROLLBACK");
    assert_string_equal(run(scene->a, STATUS_SQL, id), "CLAIMED");
}

/* A program that enqueues in a long transaction must not delay the assignments of all. */
static void a_refused_request_leaves_no_lock(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    keep(id, run(scene->a, REPLACE_SQL));
    (void)run(scene->a, "BEGIN");
    assert_string_equal(run(scene->a, "SELECT code FROM weir.try_enqueue('acme', 'hello', idempotency_key => 'k',"
                                      " key_mode => 'replace', executor_group => 'missing')"),
                        "not_found");
    assert_string_equal(run(scene->b, "SELECT count(*) FROM (SELECT 1 FROM weir.workflow_execution_queue q,"
                                      " weir.idempotency_keys k FOR UPDATE NOWAIT) l"),
                        "1");
    (void)run(scene->a, "ROLLBACK");
}

/* --- sets --- */

struct call {
    struct scene *scene;
    struct enqueue_request requests[2];
    struct enqueue_result results[2];
    enum weir_status status;
};

static void *send_set(void *context)
{
    struct call *call = context;
    call->status = store_enqueue(call->scene->store, call->requests, 2, call->results, &call->scene->error);
    return NULL;
}

/* While it waits for the first of its keys it holds none of the others, whatever their order in the set. Else two sets
 * would end each other. */
static void a_set_locks_its_keys_in_one_order(void **state)
{
    struct scene *scene = *state;
    struct call call = {.scene = scene, .requests = {replace_of("a"), replace_of("b")}};
    (void)send_set(&call);
    ok(call.status);
    (void)run(scene->a, "BEGIN");
    (void)run(scene->a, "SELECT 1 FROM weir.idempotency_keys WHERE key = 'a' FOR UPDATE");
    call = (struct call){.scene = scene, .requests = {replace_of("b"), replace_of("a")}};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, send_set, &call), 0);
    int64_t until_us = clock_boot(clock_system()) + WAIT_US;
    while (strcmp(run(scene->b, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"), "1") != 0) {
        assert_true(clock_boot(clock_system()) < until_us);
    }
    const char *code = refusal(scene->b, "SELECT 1 FROM weir.idempotency_keys WHERE key = 'b' FOR UPDATE NOWAIT");
    (void)run(scene->a, "COMMIT");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(code, "");
    ok(call.status);
    assert_true(call.results[0].replaced && call.results[1].replaced);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_replace_that_meets_a_claim_leaves_its_execution),
        SCENE_TEST(a_claim_that_meets_a_replace_takes_nothing),
        SCENE_TEST(the_second_caller_sees_the_work_of_the_first),
        SCENE_TEST(one_active_needs_a_new_snapshot),
        SCENE_TEST(an_old_snapshot_replaces_nothing_that_has_started),
        SCENE_TEST(a_refused_request_leaves_no_lock),
        SCENE_TEST(a_set_locks_its_keys_in_one_order),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
