/* Several processes on one file: exact caps, nothing lost; and a writer that is killed at any moment. */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/scene.h"
#include "support/seed.h"

enum { PROCESSES = 4, ITEMS = 2000, KILLS = 30 };

static bool all_have_ended(struct scene *scene)
{
    json_t *status = NULL;
    scene_ok(scene, store_status(scene->store, 1, &status, &scene->error));
    bool all = json_number_at(status, "completed") == ITEMS;
    json_decref(status);
    return all;
}

static void claim_and_complete_until_dry(struct scene *scene, int number)
{
    char name[32];
    struct arena arena;
    int idle = 0;
    int64_t deadline_us = clock_boot(clock_system()) + SECONDS(240);
    scene->store = driver_open(&scene->driver, NULL);
    (void)snprintf(name, sizeof name, "process-%d", number);
    scene->node = scene_add_node(scene, name, "default");
    arena_init(&arena, 1 << 20);
    while (idle == 0 && clock_boot(clock_system()) < deadline_us) {
        struct claim_request request = {.node_id = scene->node, .group = "default", .limit = 5};
        struct claim_result claim = {0};
        arena_reset(&arena);
        if (claim_through_scheduler(scene->store, &request, &arena, &claim, &scene->error) != WEIR_OK) {
            print_error("process %d: claim: %s\n", number, scene->error.message);
            _exit(2);
        }
        if (claim.count == 0) {
            idle = all_have_ended(scene) ? 1 : 0;
            continue;
        }
        scene_complete(scene, &claim);
    }
    store_close(scene->store);
    _exit(0);
}

static void processes_share_a_file_with_exact_caps(void **state)
{
    struct scene *scene = *state;
    pid_t children[PROCESSES];
    scene_cap(scene, "big-co", 7);
    scene_enqueue_many(scene, "big-co", ITEMS / 2);
    scene_enqueue_many(scene, "pro-co", ITEMS / 2);
    driver_guard_caps(&scene->driver);
    store_close(scene->store);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = test_fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            claim_and_complete_until_dry(scene, i);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int how = 0;
        assert_int_equal(waitpid(children[i], &how, 0), children[i]);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    scene->store = driver_open(&scene->driver, NULL);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE status = 'COMPLETED'"), ITEMS);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM execution_events WHERE event = 'complete'"), ITEMS);
    scene_check(scene);
}

/* The rows that a writer has acknowledged, shared with the test that kills it. */
struct promises {
    _Atomic int enqueued;
    _Atomic int completed;
};

static void write_until_killed(struct scene *scene, struct promises *promises)
{
    struct arena arena;
    arena_init(&arena, 1 << 20);
    scene->store = driver_open(&scene->driver, NULL);
    scene->node = scene_add_node(scene, "writer", "default");
    for (;;) {
        struct enqueue_request requests[3];
        struct enqueue_result results[3];
        for (int i = 0; i < 3; i++) {
            requests[i] = (struct enqueue_request){
                .workspace = "big-co", .workflow = "hello", .params = "{\"a\":1}", .params_length = 7};
        }
        scene_ok(scene, store_enqueue(scene->store, requests, 3, results, &scene->error));
        promises->enqueued += 3;
        struct claim_request request = {.node_id = scene->node, .group = "default", .limit = 4};
        struct claim_result claim = {0};
        arena_reset(&arena);
        scene_ok(scene, claim_through_scheduler(scene->store, &request, &arena, &claim, &scene->error));
        if (claim.count > 0) {
            scene_complete(scene, &claim);
            promises->completed += (int)claim.count;
        }
    }
}

static void recover_all(struct scene *scene)
{
    struct recover_options options = {.node_id = scene->node, .group = "default", .limit = 100};
    struct recover_result result = {0};
    scene_pass(scene, SCENE_LEASE_US + 1);
    scene->node = scene_add_node(scene, "recoverer", "default");
    options.node_id = scene->node;
    do {
        scene_ok(scene, store_recover(scene->store, &options, &result, &scene->error));
    } while (result.more);
    struct claim_result claim = scene_claim(scene, 100);
    scene_complete(scene, &claim);
}

/* Until the writer has acknowledged `more` executions, and a little beyond: somewhere in the middle of its next ones. */
static void await_work(const struct promises *promises, int more, int64_t beyond_us)
{
    int target = promises->enqueued + more;
    int64_t deadline_us = clock_boot(clock_system()) + SECONDS(240);
    while (promises->enqueued < target && clock_boot(clock_system()) < deadline_us) {
        (void)sched_yield();
    }
    assert_true(promises->enqueued >= target);
    int64_t end_us = clock_boot(clock_system()) + beyond_us;
    while (clock_boot(clock_system()) < end_us) {
        (void)sched_yield();
    }
}

static void a_writer_killed_at_any_moment_leaves_a_whole_file(void **state)
{
    struct scene *scene = *state;
    struct random random;
    struct promises *promises = mmap(NULL, sizeof *promises, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(promises, MAP_FAILED);
    test_seed(&random, "kill -9 of a writer");
    for (int i = 0; i < KILLS; i++) {
        store_close(scene->store);
        pid_t child = test_fork();
        assert_true(child >= 0);
        if (child == 0) {
            write_until_killed(scene, promises);
        }
        await_work(promises, 3 + (int)random_below(&random, 60), (int64_t)random_below(&random, 2000));
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        scene->store = driver_open(&scene->driver, NULL);
        scene_check(scene);
        assert_true(scene_number(scene, "SELECT count(*) FROM executions") >= promises->enqueued);
        assert_true(scene_number(scene, "SELECT count(*) FROM executions WHERE status = 'COMPLETED'") >=
                    promises->completed);
        recover_all(scene);
        assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE status IN ('CLAIMED', 'DISPATCHED')"),
                         0);
    }
    assert_true(promises->enqueued > KILLS);
    (void)munmap(promises, sizeof *promises);
}

static enum weir_status open_in_child(const struct scene *scene, struct weir_error *error)
{
    struct store_options options = {.url = scene->driver.url, .clock = &scene->driver.time.clock};
    struct store *store = NULL;
    enum weir_status status = store_open(&options, &store, error);
    store_close(store);
    return status;
}

/* SQLite would take the parent's locks for the child's: it would write a log that others believe to be nobody's. */
static void a_child_does_not_open_what_its_parent_had_open_at_the_fork(void **state)
{
    struct scene *scene = *state;
    for (int is_grandchild = 0; is_grandchild < 2; is_grandchild++) {
        pid_t child = test_fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (is_grandchild == 1) {
                pid_t grandchild = test_fork();
                int how = 0;
                if (grandchild != 0) {
                    bool is_fine = waitpid(grandchild, &how, 0) == grandchild && WIFEXITED(how) && WEXITSTATUS(how) == 0;
                    _exit(is_fine ? 0 : 1);
                }
            }
            enum weir_status status = open_in_child(scene, &scene->error);
            _exit(status == WEIR_MISUSE && strstr(scene->error.hint, "fork") != NULL ? 0 : 1);
        }
        int how = 0;
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    store_close(scene->store);
    pid_t later = test_fork();
    if (later == 0) {
        _exit(open_in_child(scene, &scene->error) == WEIR_OK ? 0 : 1);
    }
    int how = 0;
    assert_int_equal(waitpid(later, &how, 0), later);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    scene->store = driver_open(&scene->driver, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(processes_share_a_file_with_exact_caps),
        SCENE_TEST(a_child_does_not_open_what_its_parent_had_open_at_the_fork),
        SCENE_TEST(a_writer_killed_at_any_moment_leaves_a_whole_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
