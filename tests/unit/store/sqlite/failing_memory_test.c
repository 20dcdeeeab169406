/* SQLite runs out of memory at one of its allocations: an answer each time, and afterwards the handle works and holds no
 * lock. */
#include <sqlite3.h>

#include "conformance/scene.h"

/* The first of them fail each in turn, later ones further and further apart. */
enum { ALLOCATIONS_MOST = 1000000, CLOSE_TOGETHER = 40 };

static sqlite3_mem_methods real;
static bool armed;
static int calls;
static int failing_call;

/* From the chosen one on all fail, until there is memory again. */
static bool must_fail(void)
{
    return armed && ++calls >= failing_call;
}

static void *failing_malloc(int size)
{
    return must_fail() ? NULL : real.xMalloc(size);
}

static void *failing_realloc(void *memory, int size)
{
    return must_fail() ? NULL : real.xRealloc(memory, size);
}

static void install(void)
{
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real), SQLITE_OK);
    sqlite3_mem_methods failing = real;
    failing.xMalloc = failing_malloc;
    failing.xRealloc = failing_realloc;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &failing), SQLITE_OK);
}

static void arm(int call)
{
    armed = call > 0;
    calls = 0;
    failing_call = call;
}

typedef enum weir_status verb(struct scene *scene, struct weir_error *error);

static enum weir_status enqueue(struct scene *scene, struct weir_error *error)
{
    struct enqueue_request request = {
        .workspace = "pro-co", .workflow = "hello", .params = "{\"a\":1}", .params_length = 7};
    struct enqueue_result result;
    enum weir_status status = store_enqueue(scene->store, &request, 1, &result, error);
    return status == WEIR_OK ? result.status : status;
}

static enum weir_status show_all(struct scene *scene, struct weir_error *error)
{
    json_t *page = NULL;
    json_t *execution = NULL;
    json_t *numbers = NULL;
    struct list_options options = {.kind = LIST_EXECUTIONS, .limit = 10, .count = true};
    enum weir_status status = store_list(scene->store, &options, &page, error);
    if (status == WEIR_OK) {
        const json_t *first = json_array_get(json_object_get(page, "items"), 0);
        status = store_show(scene->store, json_string_value(json_object_get(first, "id")), &execution, error);
    }
    status = status == WEIR_OK ? store_status(scene->store, 10, &numbers, error) : status;
    json_decref(page);
    json_decref(execution);
    json_decref(numbers);
    return status;
}

static enum weir_status claim(struct scene *scene, struct weir_error *error)
{
    struct arena arena;
    struct claim_result result = {0};
    struct claim_request request = {.node_id = scene->node, .group = "default", .limit = 2};
    arena_init(&arena, 1 << 20);
    enum weir_status status = claim_through_scheduler(scene->store, &request, &arena, &result, error);
    arena_close(&arena);
    return status;
}

static enum weir_status check(struct scene *scene, struct weir_error *error)
{
    json_t *problems = NULL;
    enum weir_status status = store_check(scene->store, &problems, error);
    json_decref(problems);
    return status;
}

/* As another program would find it. */
static void assert_nothing_is_locked(struct scene *scene)
{
    sqlite3 *other = NULL;
    char *message = NULL;
    assert_int_equal(sqlite3_open(scene->driver.url + strlen("sqlite:"), &other), SQLITE_OK);
    if (sqlite3_exec(other, "BEGIN IMMEDIATE; ROLLBACK", NULL, NULL, &message) != SQLITE_OK) {
        fail_msg("allocation %d: %s", failing_call, message);
    }
    (void)sqlite3_close(other);
}

static void sweep(struct scene *scene, verb *act)
{
    enum weir_status status = WEIR_FAILED;
    struct weir_error error = {0};
    int failures = 0;
    for (int call = 1; status != WEIR_OK && call < ALLOCATIONS_MOST; call += 1 + call / CLOSE_TOGETHER) {
        store_close(scene->store); /* nothing is prepared yet */
        scene->store = driver_open(&scene->driver, NULL);
        arm(call);
        status = act(scene, &error);
        int made = calls;
        arm(0);
        failing_call = call;
        if (status == WEIR_OK && made >= call) {
            status = WEIR_FAILED; /* SQLite did without that one: the next may matter */
        } else if (status != WEIR_OK) {
            failures++;
            assert_string_not_equal(error.message, "");
        }
        assert_nothing_is_locked(scene);
        struct weir_error after = {0};
        if (act(scene, &after) != WEIR_OK) {
            fail_msg("after allocation %d had failed (%s): %s", call, error.message, after.message);
        }
    }
    assert_int_equal(status, WEIR_OK);
    assert_true(failures > 10);
}

static void an_enqueue_without_memory_leaves_nothing_open(void **state)
{
    sweep(*state, enqueue);
}

static void a_look_without_memory_leaves_nothing_open(void **state)
{
    (void)scene_enqueue(*state, "pro-co");
    sweep(*state, show_all);
}

static void a_claim_without_memory_leaves_nothing_open(void **state)
{
    struct scene *scene = *state;
    scene_cap(scene, "big-co", 100000);
    scene_enqueue_many(scene, "big-co", 2000);
    sweep(scene, claim);
}

static void a_check_without_memory_leaves_nothing_open(void **state)
{
    sweep(*state, check);
}

int main(void)
{
    install();
    const struct CMUnitTest tests[] = {
        SCENE_TEST(an_enqueue_without_memory_leaves_nothing_open),
        SCENE_TEST(a_look_without_memory_leaves_nothing_open),
        SCENE_TEST(a_claim_without_memory_leaves_nothing_open),
        SCENE_TEST(a_check_without_memory_leaves_nothing_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
