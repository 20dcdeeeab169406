/* The stream: what is written and when, its order, its positions, and what ends them. event_history_test.c compares its
 * changes with the events of executions. */
#include "conformance/scene.h"

static struct stream_batch read_behind(struct scene *scene, const struct stream_position *after, size_t most)
{
    struct stream_batch batch = {.count = 0};
    scene_ok(scene, store_read_stream(scene->store, after, most, &scene->arena, &batch, &scene->error));
    return batch;
}

/* A reader that begins: the end of the stream. */
static struct stream_position begin(struct scene *scene)
{
    struct stream_batch batch = read_behind(scene, &(struct stream_position){.since_us = 0}, STREAM_READ_MOST);
    assert_true(batch.is_reset);
    assert_int_equal(batch.count, 0);
    assert_true(batch.position.since_us > 0);
    return batch.position;
}

static int64_t count_rows(struct scene *scene)
{
    return scene_number(scene, "SELECT count(*) FROM stream_entries");
}

static void act(struct scene *scene, enum bulk_act act, const char *id)
{
    struct bulk_result result = {0};
    struct execution_filter filter = {.id = id};
    scene_ok(scene, store_bulk(scene->store, act, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
}

static void assert_entry(const struct stream_entry *entry, const char *id, const char *kind, const char *state)
{
    assert_string_equal(entry->id, id);
    assert_string_equal(stream_kind_name(entry->kind), kind);
    assert_string_equal(item_state_name(stream_kind_state(entry->kind)), state);
    assert_string_equal(entry->workspace, "pro-co");
    assert_true(entry->workspace_id > 0);
    assert_string_equal(entry->workflow, "hello");
}

static void without_a_reader_nothing_is_written(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "pro-co", 3);
    struct claim_result claim = scene_claim(scene, 3);
    scene_complete(scene, &claim);
    assert_int_equal(count_rows(scene), 0);
}

static void a_reader_gets_the_changes_behind_its_position_in_order(void **state)
{
    struct scene *scene = *state;
    scene_enqueue(scene, "pro-co"); /* before the reader */
    struct stream_position position = begin(scene);
    (void)scene_claim_one(scene);
    scene_pass(scene, SECONDS(1));
    const char *first = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    struct record end = scene_record_of(RECORD_COMPLETED, &item);
    end.dispatched_first = true; /* its start is on record already, and is no change again */
    assert_int_equal(scene_record_full(scene, scene->node, end), WEIR_OK);
    const char *later = scene_enqueue_request(
        scene,
        &(struct enqueue_request){.workspace = "pro-co", .workflow = "hello", .run_at_us = scene_now(scene) + SECONDS(60)});
    act(scene, BULK_RELEASE, later);
    act(scene, BULK_CANCEL, later);
    act(scene, BULK_RETRY, later);
    struct stream_batch batch = read_behind(scene, &position, STREAM_READ_MOST);
    assert_false(batch.is_reset);
    assert_false(batch.more);
    assert_int_equal(batch.count, 9);
    assert_string_equal(stream_kind_name(batch.entries[0].kind), "claim");
    assert_entry(&batch.entries[1], first, "enqueue", "PENDING");
    assert_entry(&batch.entries[2], first, "claim", "CLAIMED");
    assert_entry(&batch.entries[3], first, "dispatch", "DISPATCHED");
    assert_entry(&batch.entries[4], first, "complete", "COMPLETED");
    assert_entry(&batch.entries[5], later, "enqueue", "PENDING");
    assert_entry(&batch.entries[6], later, "release", "PENDING");
    assert_entry(&batch.entries[7], later, "cancelled", "CANCELLED");
    assert_string_equal(stream_kind_name(batch.entries[8].kind), "enqueue");
    assert_string_equal(scene_text(scene, "SELECT retry_of FROM executions WHERE id = '%s'", batch.entries[8].id), later);
    for (size_t i = 1; i < batch.count; i++) {
        assert_true(batch.entries[i].number > batch.entries[i - 1].number);
        assert_int_equal(batch.entries[i].at_us, scene_now(scene));
    }
    assert_int_equal(batch.position.number, batch.entries[8].number);
    assert_int_equal(read_behind(scene, &batch.position, 1).count, 0);
}

static void a_position_goes_on_on_another_handle_and_in_pages(void **state)
{
    struct scene *scene = *state;
    struct stream_position position = begin(scene);
    scene_enqueue_many(scene, "pro-co", 7);
    struct stream_batch all = read_behind(scene, &position, STREAM_READ_MOST);
    assert_int_equal(all.count, 7);
    struct store *other = driver_open(&scene->driver, NULL);
    for (size_t read = 0; read < 7;) {
        struct stream_batch page = {.count = 0};
        scene_ok(scene, store_read_stream(other, &position, 3, &scene->arena, &page, &scene->error));
        assert_int_equal(page.count, read < 6 ? 3 : 1);
        assert_int_equal(page.more, read < 6);
        for (size_t i = 0; i < page.count; i++) {
            assert_string_equal(page.entries[i].id, all.entries[read].id);
            assert_int_equal(page.entries[i].number, all.entries[read++].number);
        }
        position = page.position;
    }
    store_close(other);
}

static void a_position_ends_when_the_stream_was_not_read_for_long(void **state)
{
    struct scene *scene = *state;
    struct stream_position position = begin(scene);
    scene_pass(scene, STREAM_KEEP_US - SECONDS(1));
    scene_enqueue(scene, "pro-co");
    struct stream_batch batch = read_behind(scene, &position, STREAM_READ_MOST);
    assert_int_equal(batch.count, 1);
    scene_pass(scene, STREAM_KEEP_US - SECONDS(1)); /* the read has renewed it */
    batch = read_behind(scene, &batch.position, STREAM_READ_MOST);
    assert_false(batch.is_reset);
    scene_pass(scene, STREAM_KEEP_US + STREAM_MARGIN_US);
    scene_enqueue(scene, "pro-co");
    assert_int_equal(count_rows(scene), 1);
    struct stream_batch ended = read_behind(scene, &batch.position, STREAM_READ_MOST);
    assert_true(ended.is_reset);
    assert_true(ended.position.since_us > batch.position.since_us);
    scene_enqueue(scene, "pro-co");
    assert_int_equal(read_behind(scene, &ended.position, STREAM_READ_MOST).count, 1);
}

static void a_position_of_another_stream_is_a_reset(void **state)
{
    struct scene *scene = *state;
    struct stream_position position = begin(scene);
    struct stream_position ahead = {.since_us = position.since_us, .number = position.number + 1};
    struct stream_position other = {.since_us = position.since_us - 1, .number = position.number};
    assert_true(read_behind(scene, &ahead, 10).is_reset);
    assert_true(read_behind(scene, &other, 10).is_reset);
    assert_false(read_behind(scene, &position, 10).is_reset);
}

static void a_purge_keeps_what_is_young_and_resets_readers_of_the_rest(void **state)
{
    struct scene *scene = *state;
    int64_t removed = -1;
    struct stream_position first = begin(scene);
    scene_enqueue_many(scene, "pro-co", 3);
    scene_pass(scene, STREAM_KEEP_US / 2);
    struct stream_position second = read_behind(scene, &first, STREAM_READ_MOST).position;
    scene_ok(scene, store_purge_stream(scene->store, STREAM_PURGE_MOST, &removed, &scene->error));
    assert_int_equal(removed, 0);
    scene_pass(scene, STREAM_KEEP_US / 2);
    scene_enqueue(scene, "pro-co");
    assert_int_equal(read_behind(scene, &first, STREAM_READ_MOST).count, 4);
    scene_ok(scene, store_purge_stream(scene->store, STREAM_PURGE_MOST, &removed, &scene->error));
    assert_int_equal(removed, 0); /* the oldest has exactly the age */
    scene_pass(scene, SECONDS(1));
    scene_ok(scene, store_purge_stream(scene->store, STREAM_PURGE_MOST, &removed, &scene->error));
    assert_true(removed > 0);
    assert_int_equal(count_rows(scene), 1);
    assert_true(read_behind(scene, &first, STREAM_READ_MOST).is_reset);
    assert_int_equal(read_behind(scene, &second, STREAM_READ_MOST).count, 1);
}

static void a_purged_execution_stays_in_the_stream(void **state)
{
    struct scene *scene = *state;
    struct stream_position position = begin(scene);
    const char *id = scene_enqueue(scene, "pro-co");
    act(scene, BULK_CANCEL, id);
    act(scene, BULK_PURGE, id);
    struct stream_batch batch = read_behind(scene, &position, STREAM_READ_MOST);
    assert_int_equal(batch.count, 2);
    assert_string_equal(batch.entries[0].workspace, "pro-co");
    assert_null(batch.entries[0].workflow);
}

/* As a later version may write it. */
static void a_change_of_an_unknown_kind_is_passed(void **state)
{
    struct scene *scene = *state;
    struct stream_position position = begin(scene);
    scene_enqueue(scene, "pro-co");
    json_decref(scene_rows(scene, "UPDATE stream_entries SET kind = 'later' RETURNING kind"));
    struct stream_batch batch = read_behind(scene, &position, 1);
    assert_int_equal(batch.count, 0);
    assert_true(batch.position.number > position.number);
}

static void a_call_has_bounds(void **state)
{
    struct scene *scene = *state;
    struct stream_position position = begin(scene);
    struct stream_batch batch;
    int64_t removed;
    assert_int_equal(store_read_stream(scene->store, &position, 0, &scene->arena, &batch, &scene->error), WEIR_MISUSE);
    assert_int_equal(store_read_stream(scene->store, &position, STREAM_READ_MOST + 1, &scene->arena, &batch, &scene->error),
                     WEIR_MISUSE);
    assert_int_equal(store_purge_stream(scene->store, 0, &removed, &scene->error), WEIR_MISUSE);
    assert_int_equal(store_purge_stream(scene->store, STREAM_PURGE_MOST + 1, &removed, &scene->error), WEIR_MISUSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(without_a_reader_nothing_is_written),
        SCENE_TEST(a_reader_gets_the_changes_behind_its_position_in_order),
        SCENE_TEST(a_position_goes_on_on_another_handle_and_in_pages),
        SCENE_TEST(a_position_ends_when_the_stream_was_not_read_for_long),
        SCENE_TEST(a_position_of_another_stream_is_a_reset),
        SCENE_TEST(a_purge_keeps_what_is_young_and_resets_readers_of_the_rest),
        SCENE_TEST(a_purged_execution_stays_in_the_stream),
        SCENE_TEST(a_change_of_an_unknown_kind_is_passed),
        SCENE_TEST(a_call_has_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
