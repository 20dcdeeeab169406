#include "base/uuid.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

enum { THREADS = 4, IDS_PER_THREAD = 5000 };

static uint64_t milliseconds_of(const char *id)
{
    char hex[13];
    memcpy(hex, id, 8);
    memcpy(hex + 8, id + 9, 4);
    hex[12] = '\0';
    return strtoull(hex, NULL, 16);
}

static void an_id_is_a_uuid_of_version_seven_with_its_time_in_front(void **state)
{
    (void)state;
    char id[UUID_TEXT_MAX];
    struct uuid_source source = {.seeded = true, .random_state = 1};
    uuid_make_from(&source, 1763700000123456, id);
    assert_true(uuid_is_valid(id));
    assert_int_equal(id[14], '7');
    assert_non_null(strchr("89ab", id[19]));
    assert_int_equal(milliseconds_of(id), 1763700000123);
}

/* A request that came while the wall clock was ahead must not take the ids of later executions with it. */
static void ids_beside_the_executions_leave_theirs_alone(void **state)
{
    (void)state;
    char id[UUID_TEXT_MAX];
    char beside[UUID_TEXT_MAX];
    uuid_make_beside(INT64_C(2763700000123456), beside);
    uuid_make(INT64_C(1763700000123456), id);
    assert_int_equal(milliseconds_of(beside), 2763700000123);
    assert_int_equal(milliseconds_of(id), 1763700000123);
    assert_true(uuid_is_valid_v7(beside));
}

static void ids_grow_within_a_millisecond_and_when_the_clock_goes_back(void **state)
{
    (void)state;
    struct uuid_source source = {0};
    char last[UUID_TEXT_MAX] = "";
    for (int i = 0; i < 20000; i++) {
        char id[UUID_TEXT_MAX];
        int64_t wall_us = i % 3 == 0 ? 1763700000000000 : 1763700000000000 - (int64_t)i * 1000000;
        uuid_make_from(&source, wall_us, id);
        assert_true(strcmp(last, id) < 0);
        memcpy(last, id, sizeof last);
    }
    char id[UUID_TEXT_MAX];
    uuid_make_from(&source, -5, id);
    assert_true(strcmp(last, id) < 0);
}

static void the_same_seed_gives_the_same_ids(void **state)
{
    (void)state;
    struct uuid_source a = {.seeded = true, .random_state = 42};
    struct uuid_source b = {.seeded = true, .random_state = 42};
    for (int i = 0; i < 100; i++) {
        char from_a[UUID_TEXT_MAX];
        char from_b[UUID_TEXT_MAX];
        uuid_make_from(&a, i, from_a);
        uuid_make_from(&b, i, from_b);
        assert_string_equal(from_a, from_b);
    }
}

static void *make_ids(void *context)
{
    char(*ids)[UUID_TEXT_MAX] = context;
    for (int i = 0; i < IDS_PER_THREAD; i++) {
        uuid_make(1763700000000000, ids[i]);
    }
    return NULL;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void threads_of_a_process_never_make_the_same_id(void **state)
{
    (void)state;
    char(*ids)[UUID_TEXT_MAX] = calloc(THREADS * IDS_PER_THREAD, UUID_TEXT_MAX);
    pthread_t threads[THREADS];
    assert_non_null(ids);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, make_ids, ids + (ptrdiff_t)i * IDS_PER_THREAD), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    qsort(ids, THREADS * IDS_PER_THREAD, UUID_TEXT_MAX, compare_ids);
    for (int i = 1; i < THREADS * IDS_PER_THREAD; i++) {
        assert_true(strcmp(ids[i - 1], ids[i]) < 0);
    }
    free(ids);
}

static void a_text_that_is_no_id_is_refused(void **state)
{
    (void)state;
    assert_true(uuid_is_valid("0190B4C2-0000-7000-8000-00000000000F"));
    static const char *const wrong[] = {"",
                                        "0190b4c2-0000-7000-8000-00000000000",
                                        "0190b4c2-0000-7000-8000-0000000000000",
                                        "0190b4c200007000800000000000000000000",
                                        "0190b4c2-0000-7000-8000-00000000000g",
                                        "0190b4c2_0000-7000-8000-000000000000",
                                        "{190b4c2-0000-7000-8000-000000000000",
                                        "' OR 1=1 --"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(uuid_is_valid(wrong[i]));
    }
}

/* A server that forks its workers after the first enqueue: their ids of one millisecond must differ. */
static void a_child_of_fork_never_makes_an_id_of_its_parent(void **state)
{
    (void)state;
    const int64_t wall_us = 1763700000123456;
    char own[UUID_TEXT_MAX];
    char other[UUID_TEXT_MAX];
    int ends[2];
    uuid_make(wall_us, own);
    assert_int_equal(pipe(ends), 0);
    pid_t child = test_fork();
    assert_true(child >= 0);
    if (child == 0) {
        uuid_make(wall_us, other);
        _exit(write(ends[1], other, sizeof other) == (ssize_t)sizeof other ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(read(ends[0], other, sizeof other), sizeof other);
    uuid_make(wall_us, own);
    assert_string_not_equal(own, other);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(close(ends[1]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_is_a_uuid_of_version_seven_with_its_time_in_front),
        cmocka_unit_test(ids_beside_the_executions_leave_theirs_alone),
        cmocka_unit_test(ids_grow_within_a_millisecond_and_when_the_clock_goes_back),
        cmocka_unit_test(the_same_seed_gives_the_same_ids),
        cmocka_unit_test(threads_of_a_process_never_make_the_same_id),
        cmocka_unit_test(a_child_of_fork_never_makes_an_id_of_its_parent),
        cmocka_unit_test(a_text_that_is_no_id_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
