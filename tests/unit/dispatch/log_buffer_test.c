/* Output on its way to the store: order, bounds, failures of the store, without ever failing its attempt. */
#include "dispatch/log_buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/driver.h"
#include "support/test.h"

#define ID "01a20f13-9a93-7000-97fe-9fb254035fba"

enum { CHUNKS_MOST = 4096 };

/* A store that keeps chunks in memory, or refuses them. */
struct bench {
    struct store store; /* first */
    struct log_buffer buffer;
    enum weir_status answer;
    size_t calls;
    size_t count;
    struct log_chunk chunks[CHUNKS_MOST];
    struct arena arena;
};

static bool has_chunk(const struct bench *bench, const struct log_chunk *chunk)
{
    for (size_t i = 0; i < bench->count; i++) {
        if (bench->chunks[i].attempt == chunk->attempt && bench->chunks[i].position == chunk->position) {
            return true;
        }
    }
    return false;
}

static enum weir_status write_logs(struct store *store, const struct log_chunk *chunks, size_t count,
                                   struct weir_error *error)
{
    struct bench *bench = (struct bench *)(void *)store;
    bench->calls++;
    if (bench->answer != WEIR_OK && bench->answer != WEIR_COMMIT_UNKNOWN) {
        return error_set(error, bench->answer, "refused");
    }
    for (size_t i = 0; i < count; i++) {
        if (has_chunk(bench, &chunks[i])) {
            continue;
        }
        struct log_chunk *kept = &bench->chunks[bench->count++];
        assert_true(bench->count <= CHUNKS_MOST);
        *kept = chunks[i];
        kept->lines = arena_copy(&bench->arena, chunks[i].lines == NULL ? "" : chunks[i].lines, chunks[i].length);
        for (size_t k = 0; k + 1 < bench->count; k++) {
            struct log_chunk *old = &bench->chunks[k];
            if (old->attempt == chunks[i].attempt && old->position >= chunks[i].cut_from &&
                old->position < chunks[i].cut_to) {
                old->length = 0;
                old->output_bytes = 0;
            }
        }
    }
    return bench->answer == WEIR_OK ? WEIR_OK : error_set(error, bench->answer, "no answer");
}

static const struct store_driver driver = {.scheme = "memory", .write_logs = write_logs};

static int open_bench(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    bench->store.driver = &driver;
    bench->store.clock = clock_system();
    log_buffer_init(&bench->buffer);
    arena_init(&bench->arena, 64 * 1024 * 1024);
    *state = bench;
    return 0;
}

static int close_bench(void **state)
{
    struct bench *bench = *state;
    log_buffer_close(&bench->buffer);
    arena_close(&bench->arena);
    free(bench);
    return 0;
}

static void add(struct bench *bench, int attempt, int64_t at_us, const char *bytes, size_t length)
{
    struct engine_output output = {.execution_id = ID,
                                   .step = "only",
                                   .attempt = attempt,
                                   .at_us = at_us,
                                   .stream = LOG_STDOUT,
                                   .bytes = bytes,
                                   .length = length};
    (void)log_buffer_add(&bench->buffer, &output);
}

static void write_all(struct bench *bench, bool ended_only)
{
    struct weir_error error = {0};
    bool more = true;
    while (more) {
        assert_int_equal(log_buffer_write(&bench->buffer, &bench->store, ended_only, &more, &error), WEIR_OK);
    }
}

static void output_within_a_millisecond_is_one_piece(void **state)
{
    struct bench *bench = *state;
    struct log_piece piece;
    size_t at = 0;
    add(bench, 1, 1000, "a", 1);
    add(bench, 1, 1999, "b\n", 2);
    add(bench, 1, 2000, "c", 1);
    write_all(bench, false);
    assert_int_equal(bench->count, 1);
    assert_true(log_piece_read(bench->chunks[0].lines, bench->chunks[0].length, &at, &piece));
    assert_int_equal(piece.length, 3);
    assert_memory_equal(piece.bytes, "ab\n", 3);
    assert_true(log_piece_read(bench->chunks[0].lines, bench->chunks[0].length, &at, &piece));
    assert_int_equal(piece.at_us, 2000);
    assert_false(log_piece_read(bench->chunks[0].lines, bench->chunks[0].length, &at, &piece));
    assert_false(log_buffer_has_pending(&bench->buffer));
}

static void ended_attempts_are_written_alone_when_asked(void **state)
{
    struct bench *bench = *state;
    add(bench, 1, 1, "first", 5);
    add(bench, 2, 1, "second", 6);
    log_buffer_end(&bench->buffer, ID, "only", 2);
    log_buffer_end(&bench->buffer, ID, "only", 2);
    log_buffer_end(&bench->buffer, ID, "only", 3);
    assert_true(log_buffer_has_ended(&bench->buffer));
    write_all(bench, true);
    assert_int_equal(bench->count, 1);
    assert_int_equal(bench->chunks[0].attempt, 2);
    assert_false(log_buffer_has_ended(&bench->buffer));
    assert_true(log_buffer_has_pending(&bench->buffer));
}

static void the_middle_is_cut_out_and_every_byte_is_accounted_for(void **state)
{
    struct bench *bench = *state;
    char block[10000];
    int64_t kept = 0;
    int64_t stored = 0;
    memset(block, 'x', sizeof block);
    atomic_store(&bench->buffer.bytes_max, 400000);
    for (int i = 0; i < 500; i++) {
        add(bench, 1, i * 10000, block, sizeof block);
        if (i % 7 == 0) {
            write_all(bench, false);
        }
    }
    add(bench, 1, 9000000, "the end", 7);
    log_buffer_end(&bench->buffer, ID, "only", 1);
    write_all(bench, false);
    const struct log_chunk *last = &bench->chunks[bench->count - 1];
    for (size_t i = 0; i < bench->count; i++) {
        kept += bench->chunks[i].output_bytes;
        stored += (int64_t)bench->chunks[i].length;
    }
    assert_int_equal(bench->chunks[0].offset, 0);
    assert_int_equal(last->offset + last->output_bytes, 500 * 10000 + 7);
    assert_memory_equal(last->lines + last->length - 7, "the end", 7);
    assert_in_range(kept, 200000, 600000);
    assert_in_range(stored, 200000, 600000);
    assert_int_equal(log_buffer_take_lost(&bench->buffer), 0);
}

static void a_store_that_is_away_loses_nothing(void **state)
{
    struct bench *bench = *state;
    struct weir_error error = {0};
    bool more = false;
    add(bench, 1, 1, "first", 5);
    bench->answer = WEIR_STORE_UNREACHABLE;
    assert_int_equal(log_buffer_write(&bench->buffer, &bench->store, false, &more, &error), WEIR_STORE_UNREACHABLE);
    add(bench, 1, 5000, "second", 6);
    log_buffer_end(&bench->buffer, ID, "only", 1);
    bench->answer = WEIR_OK;
    write_all(bench, true);
    assert_int_equal(log_buffer_take_lost(&bench->buffer), 0);
    assert_int_equal(bench->chunks[bench->count - 1].offset + bench->chunks[bench->count - 1].output_bytes, 11);
}

static void output_after_a_write_without_an_answer_is_kept(void **state)
{
    struct bench *bench = *state;
    struct weir_error error = {0};
    bool more = false;
    int64_t kept = 0;
    add(bench, 1, 1, "first", 5);
    bench->answer = WEIR_COMMIT_UNKNOWN; /* the store has it */
    assert_int_equal(log_buffer_write(&bench->buffer, &bench->store, false, &more, &error), WEIR_COMMIT_UNKNOWN);
    add(bench, 1, 2, "second", 6);
    bench->answer = WEIR_OK;
    write_all(bench, false);
    for (size_t i = 0; i < bench->count; i++) {
        kept += bench->chunks[i].output_bytes;
    }
    assert_int_equal(kept, 11);
    assert_int_equal(bench->chunks[bench->count - 1].offset + bench->chunks[bench->count - 1].output_bytes, 11);
}

static void a_fast_program_does_not_keep_the_output_of_others_from_the_store(void **state)
{
    enum { SLOW = 50, FAST = 1000, ROUNDS = 2 * SLOW, BLOCK = 3 * LOG_WRITE_BYTES_MAX / 2 };
    struct bench *bench = *state;
    struct weir_error error = {0};
    bool more = false;
    size_t slow = 0;
    char *block = calloc(1, BLOCK);
    atomic_store(&bench->buffer.bytes_max, 16 * 1024 * 1024);
    for (int attempt = 1; attempt <= SLOW; attempt++) {
        add(bench, attempt, 1, "slow", 4);
    }
    for (int i = 0; i < ROUNDS; i++) {
        add(bench, FAST, 1 + i, block, BLOCK);
        bench->count = 0; /* memory of the bench */
        arena_reset(&bench->arena);
        assert_int_equal(log_buffer_write(&bench->buffer, &bench->store, false, &more, &error), WEIR_OK);
        for (size_t k = 0; k < bench->count; k++) {
            slow += bench->chunks[k].attempt <= SLOW;
        }
    }
    assert_true(more); /* the fast one has filled every write */
    assert_int_equal(slow, SLOW);
    free(block);
}

static void a_small_bound_is_kept(void **state)
{
    struct bench *bench = *state;
    int64_t kept = 0;
    char block[1000];
    memset(block, 'x', sizeof block);
    atomic_store(&bench->buffer.bytes_max, 8000);
    for (int i = 0; i < 200; i++) {
        add(bench, 1, i * 10000, block, sizeof block);
    }
    log_buffer_end(&bench->buffer, ID, "only", 1);
    write_all(bench, true);
    for (size_t i = 0; i < bench->count; i++) {
        kept += bench->chunks[i].output_bytes;
    }
    assert_in_range(kept, 4000, 11000);
}

static void refused_output_is_counted_and_shows_as_a_gap(void **state)
{
    struct bench *bench = *state;
    struct weir_error error = {0};
    bool more = false;
    add(bench, 1, 1, "first", 5);
    bench->answer = WEIR_SYSTEM;
    assert_int_equal(log_buffer_write(&bench->buffer, &bench->store, false, &more, &error), WEIR_SYSTEM);
    assert_int_equal(log_buffer_take_lost(&bench->buffer), 5);
    bench->answer = WEIR_OK;
    log_buffer_end(&bench->buffer, ID, "only", 1);
    write_all(bench, true);
    assert_int_equal(bench->count, 1);
    assert_int_equal(bench->chunks[0].offset, 5);
    assert_int_equal(bench->chunks[0].output_bytes, 0);
    assert_false(log_buffer_has_pending(&bench->buffer));
}

static void the_memory_of_all_attempts_is_bounded(void **state)
{
    struct bench *bench = *state;
    size_t size = 1024 * 1024;
    char *block = calloc(1, size);
    for (int attempt = 1; attempt <= 64; attempt++) {
        add(bench, attempt, 1, block, size / 2);
    }
    assert_true(bench->buffer.pending_bytes <= LOG_PENDING_BYTES_MAX);
    int64_t lost = log_buffer_take_lost(&bench->buffer);
    assert_true(lost > 0);
    for (int attempt = 1; attempt <= 64; attempt++) {
        log_buffer_end(&bench->buffer, ID, "only", attempt);
    }
    write_all(bench, false);
    int64_t kept = 0;
    for (size_t i = 0; i < bench->count; i++) {
        kept += bench->chunks[i].output_bytes;
    }
    assert_int_equal(kept + lost, 64 * (int64_t)(size / 2));
    assert_int_equal(bench->buffer.pending_bytes, 0);
    free(block);
}

#define BENCH_TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(output_within_a_millisecond_is_one_piece),
        BENCH_TEST(ended_attempts_are_written_alone_when_asked),
        BENCH_TEST(the_middle_is_cut_out_and_every_byte_is_accounted_for),
        BENCH_TEST(a_store_that_is_away_loses_nothing),
        BENCH_TEST(output_after_a_write_without_an_answer_is_kept),
        BENCH_TEST(a_fast_program_does_not_keep_the_output_of_others_from_the_store),
        BENCH_TEST(a_small_bound_is_kept),
        BENCH_TEST(refused_output_is_counted_and_shows_as_a_gap),
        BENCH_TEST(the_memory_of_all_attempts_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
