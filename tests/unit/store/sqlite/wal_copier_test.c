/* The log is copied by a thread of its own; commits copy only the rest of it, or when the thread cannot. */
#include "store/sqlite/wal_copier.h"

#include <unistd.h>

#include "conformance/scene.h"

enum { ROWS = 200 };

struct logged {
    char path[300];
    sqlite3 *database;
    struct wal_copier *copier;
};

static void run(sqlite3 *database, const char *sql)
{
    assert_int_equal(sqlite3_exec(database, sql, NULL, NULL, NULL), SQLITE_OK);
}

/* A database with rows in its log alone. */
static void make_log(struct logged *logged, const struct scene *scene)
{
    (void)snprintf(logged->path, sizeof logged->path, "%s/logged.db", scene->driver.place);
    assert_int_equal(sqlite3_open(logged->path, &logged->database), SQLITE_OK);
    run(logged->database, "PRAGMA journal_mode=wal; PRAGMA wal_autocheckpoint=0; CREATE TABLE t (a)");
    logged->copier = wal_copier_new(logged->path);
    assert_non_null(logged->copier);
}

static void add_rows(const struct logged *logged)
{
    for (int i = 0; i < ROWS; i++) {
        run(logged->database, "INSERT INTO t VALUES (randomblob(100))");
    }
}

static void close_log(struct logged *logged)
{
    wal_copier_close(logged->copier);
    assert_int_equal(sqlite3_close(logged->database), SQLITE_OK);
}

/* The rows of the database file without its log. */
static int count_copied(const struct logged *logged, const struct scene *scene)
{
    char path[300];
    char bytes[4096];
    int count = -1; /* without the table */
    size_t length;
    sqlite3 *copy = NULL;
    sqlite3_stmt *statement = NULL;
    (void)snprintf(path, sizeof path, "%s/copy.db", scene->driver.place);
    FILE *from = fopen(logged->path, "rb");
    FILE *to = fopen(path, "wb");
    assert_true(from != NULL && to != NULL);
    while ((length = fread(bytes, 1, sizeof bytes, from)) > 0) {
        assert_int_equal(fwrite(bytes, 1, length, to), length);
    }
    (void)fclose(from);
    (void)fclose(to);
    assert_int_equal(sqlite3_open(path, &copy), SQLITE_OK);
    if (sqlite3_prepare_v2(copy, "SELECT count(*) FROM t", -1, &statement, NULL) == SQLITE_OK) {
        assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
        count = sqlite3_column_int(statement, 0);
    }
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(copy);
    return count;
}

static void a_long_log_is_copied_and_commits_copy_the_rest(void **state)
{
    struct logged logged;
    const struct scene *scene = *state;
    make_log(&logged, scene);
    add_rows(&logged);
    assert_false(wal_copier_note(logged.copier, COPY_PAGES - 1));
    assert_true(count_copied(&logged, scene) <= 0);
    assert_false(wal_copier_note(logged.copier, COPY_PAGES));     /* a first copy, long before the log is full */
    assert_false(wal_copier_note(logged.copier, LOG_PAGES_MOST)); /* waits for it, and begins that of the full log */
    assert_int_equal(count_copied(&logged, scene), ROWS);
    add_rows(&logged);
    assert_true(wal_copier_note(logged.copier, LOG_PAGES_MOST));
    assert_true(wal_copier_note(logged.copier, LOG_PAGES_MOST + 1)); /* a reader was in the way */
    close_log(&logged);
}

static void a_log_that_begins_anew_is_copied_again(void **state)
{
    struct logged logged;
    const struct scene *scene = *state;
    make_log(&logged, scene);
    add_rows(&logged);
    assert_false(wal_copier_note(logged.copier, LOG_PAGES));
    assert_true(wal_copier_note(logged.copier, LOG_PAGES_MOST));
    assert_int_equal(count_copied(&logged, scene), ROWS);
    add_rows(&logged);
    assert_false(wal_copier_note(logged.copier, 1));
    assert_int_equal(count_copied(&logged, scene), ROWS);
    assert_false(wal_copier_note(logged.copier, LOG_PAGES));
    assert_true(wal_copier_note(logged.copier, LOG_PAGES_MOST));
    assert_int_equal(count_copied(&logged, scene), 2 * ROWS);
    close_log(&logged);
}

static void without_a_connection_the_commits_copy(void **state)
{
    struct logged logged;
    const struct scene *scene = *state;
    make_log(&logged, scene);
    wal_copier_close(logged.copier);
    (void)snprintf(logged.path, sizeof logged.path, "%s/no/such.db", scene->driver.place);
    logged.copier = wal_copier_new(logged.path);
    assert_non_null(logged.copier);
    assert_false(wal_copier_note(logged.copier, COPY_PAGES));
    assert_true(wal_copier_note(logged.copier, LOG_PAGES));
    assert_false(wal_copier_note(logged.copier, 1));
    close_log(&logged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_long_log_is_copied_and_commits_copy_the_rest),
        SCENE_TEST(a_log_that_begins_anew_is_copied_again),
        SCENE_TEST(without_a_connection_the_commits_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
