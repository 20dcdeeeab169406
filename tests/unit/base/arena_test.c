#include "base/arena.h"

#include <stdalign.h>

#include "base/pool.h"
#include "support/seed.h"
#include "support/test.h"

static void memory_is_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    struct random random;
    test_seed(&random, "arena");
    struct arena arena;
    arena_init(&arena, 1 << 20);
    for (int round = 0; round < 50; round++) {
        unsigned char *last = NULL;
        size_t last_size = 0;
        for (int i = 0; i < 50; i++) {
            size_t size = random_below(&random, round % 10 == 0 ? 20000 : 200);
            unsigned char *memory = arena_allocate(&arena, size);
            assert_non_null(memory);
            assert_int_equal((uintptr_t)memory % alignof(max_align_t), 0);
            for (size_t k = 0; k < size; k++) {
                assert_int_equal(memory[k], 0);
            }
            memset(memory, 0xA5, size);
            for (size_t k = 0; k < last_size; k++) {
                assert_int_equal(last[k], 0xA5);
            }
            last = memory;
            last_size = size;
        }
        arena_reset(&arena);
        assert_int_equal(arena.used_bytes, 0);
    }
    arena_close(&arena);
}

/* Beside an object of the pool, the pages of a closed arena come back with what was written in them. */
static void memory_of_used_pages_is_zeroed(void **state)
{
    (void)state;
    enum { LARGE = 100000, SMALL = 1000, COUNT = 200 };
    void *stays = pool_allocate(1);
    struct arena arena;
    assert_non_null(stays);
    for (int round = 0; round < 4; round++) {
        arena_init(&arena, 1 << 20);
        for (int i = 0; i < COUNT; i++) {
            size_t size = i % 50 == 0 ? LARGE : SMALL;
            unsigned char *memory = arena_allocate(&arena, size);
            assert_non_null(memory);
            for (size_t k = 0; k < size; k++) {
                assert_int_equal(memory[k], 0);
            }
            memset(memory, 0xA5, size);
        }
        size_t mapped = pool_mapped_bytes();
        arena_close(&arena);
        assert_int_equal(pool_mapped_bytes(), mapped); /* they are spares */
    }
    pool_free(stays, 1);
}

static void the_ceiling_holds_and_a_reset_gives_all_of_it_back(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 1000);
    assert_null(arena_allocate(&arena, 1001));
    assert_null(arena_allocate(&arena, SIZE_MAX));
    assert_non_null(arena_allocate(&arena, 600));
    assert_null(arena_allocate(&arena, 401));
    assert_non_null(arena_allocate(&arena, 400));
    assert_null(arena_allocate(&arena, 1));
    arena_reset(&arena);
    assert_non_null(arena_allocate(&arena, 1000));
    arena_close(&arena);
}

/* The ceiling counts requested bytes, so rounding up must not wrap where the ceiling is the largest number there is. */
static void an_arena_without_a_ceiling_refuses_an_impossible_size(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, SIZE_MAX);
    assert_null(arena_allocate(&arena, SIZE_MAX));
    assert_null(arena_allocate(&arena, SIZE_MAX - 8));
    assert_null(arena_copy(&arena, "", SIZE_MAX));
    arena_close(&arena);
}

static void copies_are_terminated_and_may_hold_nuls(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 1000);
    char *copy = arena_copy(&arena, "a\0b", 3);
    assert_memory_equal(copy, "a\0b", 4);
    assert_string_equal(arena_copy_string(&arena, "text"), "text");
    assert_string_equal(arena_copy(&arena, NULL, 0), "");
    arena_close(&arena);
    arena_close(&arena);
    arena_close(NULL);
}

static void a_text_that_is_kept_is_a_copy_and_null_stays(void **state)
{
    char own[] = "text";
    const char *kept = own;
    const char *none = NULL;
    const char *too_long = own;
    (void)state;
    struct arena arena;
    arena_init(&arena, 8);
    assert_true(arena_keep_text(&arena, &kept));
    own[0] = 'n';
    assert_string_equal(kept, "text");
    assert_true(arena_keep_text(&arena, &none));
    assert_null(none);
    assert_false(arena_keep_text(&arena, &too_long));
    arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_aligned_and_apart),
        cmocka_unit_test(memory_of_used_pages_is_zeroed),
        cmocka_unit_test(the_ceiling_holds_and_a_reset_gives_all_of_it_back),
        cmocka_unit_test(an_arena_without_a_ceiling_refuses_an_impossible_size),
        cmocka_unit_test(copies_are_terminated_and_may_hold_nuls),
        cmocka_unit_test(a_text_that_is_kept_is_a_copy_and_null_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
