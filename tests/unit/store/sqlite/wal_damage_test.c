/* A changed byte anywhere in the write-ahead log is reported when acknowledged commits are lost by it, and never for a log
 * that is whole or whose last commit was torn. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conformance/scene.h"
#include "observe/event.h"
#include "store/sqlite/wal_damage.h"
#include "support/seed.h"

enum { COMMITS = 60, FLIPS = 400, HEADER_BYTES = 32, FRAME_BYTES = 24 + 4096 };

struct log {
    uint8_t *bytes;
    size_t size; /* whole commits alone, without the room behind them */
};

static size_t reports;
static int64_t reported;

static void note(void *context, const struct event *event)
{
    (void)context;
    if (event->type == EVENT_STORE_LOG_DAMAGED) {
        reports++;
        reported = event->count;
        assert_non_null(event->error);
    }
}

static void read_whole(const char *place, const char *name, uint8_t **ret_bytes, size_t *ret_size)
{
    char path[300];
    struct stat facts;
    (void)snprintf(path, sizeof path, "%s/%s", place, name);
    int file = open(path, O_RDONLY);
    assert_true(file >= 0 && fstat(file, &facts) == 0);
    *ret_size = (size_t)facts.st_size;
    *ret_bytes = malloc(*ret_size);
    assert_non_null(*ret_bytes);
    assert_int_equal(read(file, *ret_bytes, *ret_size), *ret_size);
    (void)close(file);
}

static void write_whole(const char *place, const char *name, const uint8_t *bytes, size_t size)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/%s", place, name);
    int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), size);
    (void)close(file);
}

/* Copies of the damaged log in the folder; they are removed. */
static size_t take_copies(const char *place, size_t *ret_bytes)
{
    size_t copies = 0;
    DIR *folder = opendir(place);
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (strstr(entry->d_name, "-wal.damaged-") != NULL) {
            struct stat facts;
            copies++;
            assert_int_equal(fstatat(dirfd(folder), entry->d_name, &facts, 0), 0);
            *ret_bytes = (size_t)facts.st_size;
            assert_int_equal(facts.st_mode & 0777, 0600);
            assert_int_equal(unlinkat(dirfd(folder), entry->d_name, 0), 0);
        }
    }
    (void)closedir(folder);
    return copies;
}

struct crash {
    uint8_t *database;
    size_t database_size;
    struct log log;
    size_t last_commit; /* the frame with which the commit before the last one ends */
};

static void copy_log_back(struct scene *scene)
{
    sqlite3 *database = NULL;
    assert_int_equal(sqlite3_open(scene->driver.url + strlen("sqlite:"), &database), SQLITE_OK);
    /* A read opens the log; before that there is nothing to copy back. */
    assert_int_equal(sqlite3_exec(database, "SELECT 1 FROM sqlite_schema", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_wal_checkpoint_v2(database, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(database);
}

/* The files of a node that was killed after COMMITS acknowledged enqueues. The schema is in the database already. */
static void crash_make(struct scene *scene, struct crash *crash)
{
    copy_log_back(scene);
    for (int i = 0; i < COMMITS; i++) {
        (void)scene_enqueue(scene, "pro-co");
    }
    read_whole(scene->driver.place, "weir.db", &crash->database, &crash->database_size);
    read_whole(scene->driver.place, "weir.db-wal", &crash->log.bytes, &crash->log.size);
    size_t frames = (crash->log.size - HEADER_BYTES) / FRAME_BYTES;
    size_t end = 0;
    crash->last_commit = 0;
    for (size_t i = 0; i < frames; i++) {
        const uint8_t *frame = crash->log.bytes + HEADER_BYTES + i * FRAME_BYTES;
        if (memcmp(frame + 8, crash->log.bytes + 16, 8) == 0 && memcmp(frame + 4, "\0\0\0\0", 4) != 0) {
            crash->last_commit = end;
            end = i + 1;
        }
    }
    assert_true(end > COMMITS && crash->last_commit > 0);
    crash->log.size = HEADER_BYTES + end * FRAME_BYTES;
}

static void crash_free(struct crash *crash)
{
    free(crash->database);
    free(crash->log.bytes);
}

static int64_t count_items(struct driver_under_test *driver)
{
    json_t *rows = driver_rows(driver, "SELECT count(*) AS n FROM executions");
    int64_t count = json_number_at(json_array_get(rows, 0), "n");
    json_decref(rows);
    return count;
}

/* Opens the crashed store; returns how many of the acknowledged items are there. */
static int64_t open_crashed(const struct crash *crash, size_t log_size, bool *ret_check_complains, size_t *ret_copies)
{
    struct driver_under_test driver;
    struct event_bus bus = {.count = 0};
    struct weir_error error = {0};
    json_t *problems = NULL;
    size_t copied = 0;
    reports = 0;
    assert_true(event_subscribe(&bus, note, NULL));
    driver_make(&driver);
    write_whole(driver.place, "weir.db", crash->database, crash->database_size);
    write_whole(driver.place, "weir.db-wal", crash->log.bytes, log_size);
    struct store *store = driver_open(&driver, &bus);
    *ret_check_complains = false;
    int64_t there = -1;
    if (store_check(store, &problems, &error) == WEIR_OK) {
        size_t i;
        json_t *problem;
        json_array_foreach(problems, i, problem)
        {
            *ret_check_complains |= strstr(json_string_value(problem), "write-ahead log") != NULL;
        }
        json_decref(problems);
        there = count_items(&driver);
    }
    store_close(store);
    size_t first_reports = reports;
    store = driver_open(&driver, &bus); /* the second time there is nothing new to report */
    store_close(store);
    assert_int_equal(reports, first_reports);
    *ret_copies = take_copies(driver.place, &copied);
    if (*ret_copies > 0) {
        assert_int_equal(copied, log_size);
    }
    driver_remove(&driver);
    return there;
}

static void expect_report(const struct crash *crash, size_t at)
{
    bool complains = false;
    size_t copies = 0;
    int64_t there = open_crashed(crash, crash->log.size, &complains, &copies);
    /* A changed bit may have taken away the mark of one commit, which then does not count. */
    if (there < COMMITS - 2 && (reports != 1 || !complains || copies != 1)) {
        fail_msg("a changed byte at %zu: %lld of %d items are there, %zu events, %zu copies, the check %s", at,
                 (long long)there, (int)COMMITS, reports, copies, complains ? "complains" : "is content");
    }
    if (there == COMMITS && reports != 0) {
        fail_msg("a changed byte at %zu: nothing is lost, and %lld commits are reported", at, (long long)reported);
    }
}

static void every_changed_byte_that_loses_commits_is_reported(void **state)
{
    struct crash crash;
    struct random random;
    test_seed(&random, "log_damage");
    crash_make(*state, &crash);
    for (int i = 0; i < FLIPS; i++) {
        /* the headers in turn, then anywhere */
        size_t frame = random_below(&random, (crash.log.size - HEADER_BYTES) / FRAME_BYTES);
        size_t at = i < HEADER_BYTES ? (size_t)i
                    : i < 200        ? HEADER_BYTES + frame * FRAME_BYTES + (size_t)i % 24
                                     : random_below(&random, crash.log.size);
        uint8_t flip = (uint8_t)(1U << random_below(&random, 8));
        crash.log.bytes[at] ^= flip;
        expect_report(&crash, at);
        crash.log.bytes[at] ^= flip;
    }
    crash_free(&crash);
}

static void a_whole_or_torn_log_is_not_reported(void **state)
{
    struct crash crash;
    bool complains = false;
    size_t copies = 0;
    crash_make(*state, &crash);
    assert_int_equal(open_crashed(&crash, crash.log.size, &complains, &copies), COMMITS);
    assert_int_equal(reports + copies, 0);
    assert_false(complains);
    size_t last = HEADER_BYTES + crash.last_commit * FRAME_BYTES;
    for (size_t cut = last + 1; cut < crash.log.size; cut += 1500) {
        assert_int_equal(open_crashed(&crash, cut, &complains, &copies), COMMITS - 1);
        assert_int_equal(reports + copies, 0);
    }
    memset(crash.log.bytes + last, 0, FRAME_BYTES / 2); /* its first sectors did not reach the disk, the others did */
    assert_int_equal(open_crashed(&crash, crash.log.size, &complains, &copies), COMMITS - 1);
    assert_int_equal(reports + copies, 0);
    crash_free(&crash);
}

/* The log of a store that runs is read while it grows, and nothing of it is touched. */
static void a_store_in_use_is_left_alone(void **state)
{
    struct scene *scene = *state;
    char path[300];
    (void)snprintf(path, sizeof path, "%s/weir.db", scene->driver.place);
    assert_true(wal_is_in_use(path));
    store_close(scene->store);
    scene->store = NULL;
    assert_false(wal_is_in_use(path));
    scene->store = driver_open(&scene->driver, NULL);
    assert_true(wal_is_in_use(path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(every_changed_byte_that_loses_commits_is_reported),
        SCENE_TEST(a_whole_or_torn_log_is_not_reported),
        SCENE_TEST(a_store_in_use_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
