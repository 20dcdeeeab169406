/* Room at the end of the write-ahead log: commits find it, a crash leaves a whole store, and the log is used again. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conformance/scene.h"
#include "store/sqlite/wal_copier.h"
#include "store/sqlite/wal_preallocate.h"

enum { COMMITS = 300, LARGE_BYTES = 1000 * 1000, LARGE_COUNT = 100, COPY_BYTES = 65536 };

static int64_t size_of_log(const struct scene *scene)
{
    char path[300];
    struct stat facts;
    (void)snprintf(path, sizeof path, "%s/weir.db-wal", scene->driver.place);
    assert_int_equal(stat(path, &facts), 0);
    return facts.st_size;
}

static void few_commits_make_the_log_longer(void **state)
{
    struct scene *scene = *state;
    int longer = 0;
    for (int i = 0; i < COMMITS; i++) {
        int64_t before = size_of_log(scene);
        (void)scene_enqueue(scene, "pro-co");
        longer += size_of_log(scene) > before;
    }
    print_message("# %d of %d commits made the log longer\n", longer, (int)COMMITS);
    assert_in_range(longer, 1, COMMITS / 10);
}

static void copy_file(const char *from_place, const char *to_place, const char *name)
{
    char path[300];
    static char buffer[COPY_BYTES];
    ssize_t length;
    (void)snprintf(path, sizeof path, "%s/%s", from_place, name);
    int from = open(path, O_RDONLY);
    (void)snprintf(path, sizeof path, "%s/%s", to_place, name);
    int to = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    assert_true(from >= 0 && to >= 0);
    while ((length = read(from, buffer, sizeof buffer)) > 0) {
        assert_int_equal(write(to, buffer, (size_t)length), length);
    }
    (void)close(from);
    (void)close(to);
}

static bool ends_with_zeros(const struct driver_under_test *driver)
{
    char path[300];
    char end[PREALLOCATE_LEAST / 2];
    static const char zeros[sizeof end];
    (void)snprintf(path, sizeof path, "%s/weir.db-wal", driver->place);
    int file = open(path, O_RDONLY);
    assert_true(file >= 0 && lseek(file, -(off_t)sizeof end, SEEK_END) > 0);
    assert_int_equal(read(file, end, sizeof end), sizeof end);
    (void)close(file);
    return memcmp(end, zeros, sizeof end) == 0;
}

/* The files as they are at this moment are what a crash leaves; the room is no part of what is read then. */
static void a_log_with_room_is_whole_after_a_crash(void **state)
{
    struct scene *scene = *state;
    struct driver_under_test crashed;
    struct weir_error error = {0};
    json_t *problems = NULL;
    scene_enqueue_many(scene, "pro-co", 50);
    (void)scene_claim(scene, 3);
    for (int i = 0; i < 50; i++) {
        (void)scene_enqueue(scene, "big-co");
    }
    driver_make(&crashed);
    copy_file(scene->driver.place, crashed.place, "weir.db");
    copy_file(scene->driver.place, crashed.place, "weir.db-wal");
    assert_true(ends_with_zeros(&crashed));
    struct store *store = driver_open(&crashed, NULL);
    assert_int_equal(store_check(store, &problems, &error), WEIR_OK);
    assert_int_equal(json_array_size(problems), 0);
    json_decref(problems);
    json_t *rows = driver_rows(&crashed, "SELECT count(*) AS n, sum(status = 'CLAIMED') AS c FROM executions");
    assert_int_equal(json_number_at(json_array_get(rows, 0), "n"), 100);
    assert_int_equal(json_number_at(json_array_get(rows, 0), "c"), 3);
    json_decref(rows);
    store_close(store);
    driver_remove(&crashed);
}

/* The note of where the log ends has taken the place of SQLite's automatic checkpoint, and must do its work. */
static void the_log_is_used_again_from_its_beginning(void **state)
{
    struct scene *scene = *state;
    char *params = malloc(LARGE_BYTES + 1);
    assert_non_null(params);
    memset(params, ' ', LARGE_BYTES);
    memcpy(params, "{}", 2);
    for (int i = 0; i < LARGE_COUNT; i++) {
        struct enqueue_request request = {
            .workspace = "big-co", .workflow = "hello", .params = params, .params_length = LARGE_BYTES};
        (void)scene_enqueue_request(scene, &request);
    }
    free(params);
    /* In all twice and a half as much was written. The schema and the commit that reached the limit are behind it. Commits
     * go on while the log is copied, until it has LOG_PAGES_MOST. */
    assert_in_range(size_of_log(scene), (int64_t)LOG_PAGES * 4096, (int64_t)LOG_PAGES_MOST * 4120 + 3 * LARGE_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(few_commits_make_the_log_longer),
        SCENE_TEST(a_log_with_room_is_whole_after_a_crash),
        SCENE_TEST(the_log_is_used_again_from_its_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
