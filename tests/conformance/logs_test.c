/* The logs of attempts: order, bounds, repetition, retention, and their end with the execution. */
#include "conformance/scene.h"

static struct log_chunk chunk_of(const char *id, int attempt, int64_t position, const char *text)
{
    return (struct log_chunk){.execution_id = id,
                              .step = "only",
                              .attempt = attempt,
                              .position = position,
                              .offset = position,
                              .output_bytes = (int64_t)strlen(text),
                              .lines = text,
                              .length = strlen(text)};
}

static void put(struct scene *scene, struct log_chunk chunk)
{
    scene_ok(scene, store_write_logs(scene->store, &chunk, 1, &scene->error));
}

static size_t count_behind(struct scene *scene, const char *id, int attempt, int64_t after, struct log_chunk **ret_chunks)
{
    size_t count = 0;
    scene_ok(scene,
             store_read_log(scene->store, id, "only", attempt, after, &scene->arena, ret_chunks, &count, &scene->error));
    return count;
}

static void chunks_come_back_in_order_with_their_bytes(void **state)
{
    struct scene *scene = *state;
    struct log_chunk *chunks = NULL;
    const char *id = scene_enqueue(scene, "pro-co");
    struct log_chunk odd = chunk_of(id, 1, 700, "x");
    odd.lines = "a\0\xff\n";
    odd.length = 4;
    put(scene, odd);
    put(scene, chunk_of(id, 1, 30, "second"));
    put(scene, chunk_of(id, 1, 0, "first"));
    put(scene, chunk_of(id, 2, 0, "another attempt"));
    assert_int_equal(count_behind(scene, id, 1, -1, &chunks), 3);
    assert_memory_equal(chunks[0].lines, "first", 5);
    assert_int_equal(chunks[1].position, 30);
    assert_int_equal(chunks[1].offset, 30);
    assert_int_equal(chunks[1].output_bytes, 6);
    assert_int_equal(chunks[2].length, 4);
    assert_memory_equal(chunks[2].lines, "a\0\xff\n", 4);
    assert_int_equal(count_behind(scene, id, 1, 30, &chunks), 1);
    assert_int_equal(count_behind(scene, id, 3, -1, &chunks), 0);
}

static void attempts_are_listed_with_their_last_chunk(void **state)
{
    struct scene *scene = *state;
    struct log_attempt *attempts = NULL;
    size_t count = 9;
    const char *id = scene_enqueue(scene, "pro-co");
    scene_ok(scene, store_list_logs(scene->store, id, &scene->arena, &attempts, &count, &scene->error));
    assert_int_equal(count, 0);
    for (int attempt = 200; attempt > 0; attempt--) {
        put(scene, chunk_of(id, attempt, 0, "a"));
    }
    put(scene, chunk_of(id, 2, 90, "b"));
    scene_ok(scene, store_list_logs(scene->store, id, &scene->arena, &attempts, &count, &scene->error));
    assert_int_equal(count, 200);
    assert_string_equal(attempts[0].step, "only");
    assert_int_equal(attempts[0].attempt, 1);
    assert_int_equal(attempts[0].last_position, 0);
    assert_int_equal(attempts[1].last_position, 90);
    assert_int_equal(attempts[199].attempt, 200);
}

static void a_repeated_chunk_changes_nothing(void **state)
{
    struct scene *scene = *state;
    struct log_chunk *chunks = NULL;
    const char *id = scene_enqueue(scene, "pro-co");
    put(scene, chunk_of(id, 1, 0, "first"));
    put(scene, chunk_of(id, 1, 0, "again"));
    assert_int_equal(count_behind(scene, id, 1, -1, &chunks), 1);
    assert_memory_equal(chunks[0].lines, "first", 5);
}

static void a_cut_removes_the_middle_of_one_attempt(void **state)
{
    struct scene *scene = *state;
    struct log_chunk *chunks = NULL;
    const char *id = scene_enqueue(scene, "pro-co");
    for (int64_t position = 0; position < 50; position += 10) {
        put(scene, chunk_of(id, 1, position, "0123456789"));
        put(scene, chunk_of(id, 2, position, "0123456789"));
    }
    struct log_chunk last = chunk_of(id, 1, 50, "end");
    last.cut_from = 20;
    last.cut_to = 40;
    put(scene, last);
    assert_int_equal(count_behind(scene, id, 1, -1, &chunks), 4);
    assert_int_equal(chunks[1].position, 10);
    assert_int_equal(chunks[2].position, 40);
    assert_int_equal(count_behind(scene, id, 2, -1, &chunks), 5);
}

static void a_page_of_chunks_has_a_limit(void **state)
{
    struct scene *scene = *state;
    struct log_chunk *chunks = NULL;
    const char *id = scene_enqueue(scene, "pro-co");
    struct log_chunk set[LOG_READ_MOST + 3];
    for (int i = 0; i < LOG_READ_MOST + 3; i++) {
        set[i] = chunk_of(id, 1, i, "x");
    }
    scene_ok(scene, store_write_logs(scene->store, set, LOG_READ_MOST + 3, &scene->error));
    assert_int_equal(count_behind(scene, id, 1, -1, &chunks), LOG_READ_MOST);
    assert_int_equal(count_behind(scene, id, 1, LOG_READ_MOST - 1, &chunks), 3);
}

static void the_log_goes_on_after_the_end_and_goes_with_the_execution(void **state)
{
    struct scene *scene = *state;
    struct log_chunk *chunks = NULL;
    const char *id = scene_enqueue(scene, "pro-co");
    struct claim_result claim = scene_claim(scene, 1);
    put(scene, chunk_of(id, 1, 0, "before"));
    scene_complete(scene, &claim);
    put(scene, chunk_of(id, 1, 10, "behind"));
    assert_int_equal(count_behind(scene, id, 1, -1, &chunks), 2);
    struct execution_filter filter = {.id = id};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_PURGE, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    put(scene, chunk_of(id, 1, 20, "too late"));
    assert_int_equal(count_behind(scene, id, 1, -1, &chunks), 0);
}

static void retention_removes_old_chunks_alone(void **state)
{
    struct scene *scene = *state;
    struct log_chunk *chunks = NULL;
    int64_t removed = -1;
    const char *id = scene_enqueue(scene, "pro-co");
    put(scene, chunk_of(id, 1, 0, "old"));
    put(scene, chunk_of(id, 1, 5, "old"));
    int64_t before_us = scene_now(scene) + 1;
    scene_pass(scene, SECONDS(1));
    put(scene, chunk_of(id, 1, 10, "young"));
    scene_ok(scene, store_purge_logs(scene->store, before_us, 1, &removed, &scene->error));
    assert_int_equal(removed, 1);
    scene_ok(scene, store_purge_logs(scene->store, before_us, 100, &removed, &scene->error));
    assert_int_equal(removed, 1);
    scene_ok(scene, store_purge_logs(scene->store, before_us, 100, &removed, &scene->error));
    assert_int_equal(removed, 0);
    assert_int_equal(count_behind(scene, id, 1, -1, &chunks), 1);
    assert_string_equal(scene_status_of(scene, id), "PENDING");
}

static void wrong_chunks_are_refused_whole(void **state)
{
    struct scene *scene = *state;
    struct log_chunk *chunks = NULL;
    const char *id = scene_enqueue(scene, "pro-co");
    struct log_chunk set[] = {chunk_of(id, 1, 0, "right"), chunk_of(id, 0, 10, "no attempt")};
    assert_int_equal(store_write_logs(scene->store, set, 2, &scene->error), WEIR_MISUSE);
    set[1] = chunk_of("no id", 1, 0, "x");
    assert_int_equal(store_write_logs(scene->store, set, 2, &scene->error), WEIR_MISUSE);
    set[1] = chunk_of(id, 1, 10, "x");
    set[1].length = LOG_CHUNK_BYTES_MAX + 1;
    assert_int_equal(store_write_logs(scene->store, set, 2, &scene->error), WEIR_MISUSE);
    assert_int_equal(count_behind(scene, id, 1, -1, &chunks), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(chunks_come_back_in_order_with_their_bytes),
        SCENE_TEST(attempts_are_listed_with_their_last_chunk),
        SCENE_TEST(a_repeated_chunk_changes_nothing),
        SCENE_TEST(a_cut_removes_the_middle_of_one_attempt),
        SCENE_TEST(a_page_of_chunks_has_a_limit),
        SCENE_TEST(the_log_goes_on_after_the_end_and_goes_with_the_execution),
        SCENE_TEST(retention_removes_old_chunks_alone),
        SCENE_TEST(wrong_chunks_are_refused_whole),
    };
    return cmocka_run_group_tests_name("logs", tests, NULL, NULL);
}
