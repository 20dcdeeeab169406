/* A long set of records keeps the one writer of the file. While a short call waits for it, the set is written in parts, and
 * the call goes between two of them. */
#include <pthread.h>
#include <sched.h>

#include "conformance/scene.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_long_set_is_one_transaction),
        SCENE_TEST(a_long_set_ends_a_part_while_a_short_call_waits),
        SCENE_TEST(a_part_that_fails_leaves_the_rest_to_be_repeated),
        SCENE_TEST(a_short_enqueue_is_announced_while_it_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
