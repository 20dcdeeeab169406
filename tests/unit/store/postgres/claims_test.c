/* The sets of items that nodes hold (table claims): every way into and out of a set leaves `claims` and `news` together
 * equal to the rows, a set without items disappears with the next fold, and an old set with few items left is shortened. */
#include "unit/store/postgres/scene.h"

enum { ITEMS = 20 };
#define CHECK_SQL "SELECT count(*) FROM weir.held_items q WHERE q.claim_node = %lld"

static void enqueue_items(struct scene *scene, size_t count)
{
    add_workspace(scene, "wide", ITEMS);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(enqueue_for(scene, "wide", NULL));
    }
}

static long long held_by(struct scene *scene, int64_t node)
{
    return strtoll(run(scene->a, CHECK_SQL, (long long)node), NULL, 10);
}

static void record_all(struct scene *scene, enum record_kind kind, const struct claimed_item *items, size_t count)
{
    struct record records[ITEMS];
    struct record_summary summary;
    struct weir_error error;
    for (size_t i = 0; i < count; i++) {
        records[i] = record_of(kind, &items[i]);
    }
    assert_int_equal(store_record(scene->store, scene->node, records, count, &summary, &error), WEIR_OK);
    assert_int_equal(summary.changed, count);
}

/* Folds all news under a new epoch. */
static void fold(struct scene *scene)
{
    const char *epoch = run(scene->a, "UPDATE weir.scheduler SET epoch = epoch + 1, node_id = %lld RETURNING epoch",
                            (long long)scene->node);
    (void)run(scene->a,
              "SELECT has_epoch FROM weir.publish_books(%lld, %s, NULL, pg_current_snapshot()::text, '0', 0, 10000, "
              "'{}', '{}')",
              (long long)scene->node, epoch);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.news"), "0");
}

static void a_set_is_there_while_one_of_its_items_is_held(void **state)
{
    struct scene *scene = *state;
    enqueue_items(scene, ITEMS);
    struct claim_result held = claim(scene, ITEMS);
    assert_int_equal(held.count, ITEMS);
    assert_int_equal(held_by(scene, scene->node), ITEMS);
    record_all(scene, RECORD_COMPLETED, held.items, ITEMS - 1);
    fold(scene);
    assert_int_equal(held_by(scene, scene->node), 1);
    assert_string_equal(run(scene->a, "SELECT sum(held) FROM weir.claims"), "1");
    record_all(scene, RECORD_COMPLETED, &held.items[ITEMS - 1], 1);
    fold(scene);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.claims"), "0");
}

static void an_item_that_is_put_back_given_back_or_handed_over_leaves_its_set(void **state)
{
    struct scene *scene = *state;
    enqueue_items(scene, 6);
    struct claim_result held = claim(scene, 6);
    assert_int_equal(held.count, 6);
    record_all(scene, RECORD_PUT_BACK, &held.items[0], 2);
    record_all(scene, RECORD_GIVEN_BACK, &held.items[2], 2);
    fold(scene);
    assert_int_equal(held_by(scene, scene->node), 2);
    assert_int_equal(held_by(scene, 0), 2);
    end_lease(scene);
    assert_int_equal(recover(scene).handed_over, 2);
    fold(scene);
    assert_int_equal(held_by(scene, 0), 4);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.claims WHERE node_id <> 0"), "0");
}

static void an_item_that_was_handed_over_is_held_by_its_next_node_alone(void **state)
{
    struct scene *scene = *state;
    enqueue_items(scene, 3);
    assert_int_equal(claim(scene, 3).count, 3);
    end_lease(scene);
    assert_int_equal(recover(scene).handed_over, 3);
    int64_t next = add_node(scene, "next", "default");
    assert_int_equal(claim_as(scene, next, "default", 10).count, 3);
    fold(scene);
    assert_int_equal(held_by(scene, 0), 0);
    assert_int_equal(held_by(scene, next), 3);
    assert_string_equal(run(scene->a, "SELECT count(*) FROM weir.claims"), "1");
}

static void an_old_set_keeps_the_ids_of_held_items(void **state)
{
    struct scene *scene = *state;
    enqueue_items(scene, ITEMS);
    struct claim_result held = claim(scene, ITEMS);
    assert_int_equal(held.count, ITEMS);
    record_all(scene, RECORD_COMPLETED, held.items, ITEMS - 2);
    fold(scene);
    (void)run(scene->a, "SELECT weir.shorten_claims(weir.store_time())");
    assert_string_equal(run(scene->a, "SELECT min(size) > 8 FROM weir.claims"), "t"); /* it is young */
    (void)run(scene->a, "SELECT weir.shorten_claims(weir.store_time() + 61000000)");
    assert_string_equal(run(scene->a, "SELECT size || ' ' || cardinality(ids) FROM weir.claims"), "2 2");
    assert_int_equal(held_by(scene, scene->node), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_set_is_there_while_one_of_its_items_is_held),
        SCENE_TEST(an_item_that_is_put_back_given_back_or_handed_over_leaves_its_set),
        SCENE_TEST(an_item_that_was_handed_over_is_held_by_its_next_node_alone),
        SCENE_TEST(an_old_set_keeps_the_ids_of_held_items),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
