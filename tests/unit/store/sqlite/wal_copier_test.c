/* The log is copied by a thread of its own; commits copy only the rest of it, or when the thread cannot. The thread syncs
 * what it copies. */
#include "store/sqlite/wal_copier.h"

#include <unistd.h>

#include "conformance/scene.h"

enum { ROWS = 200, PAGE_ROWS = 300, LATE_ROWS = 150, UNSYNCED_MOST = 64 };

struct logged {
    char path[300];
    sqlite3 *database;
    struct wal_guard *guard;
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
    logged->guard = wal_guard_new(logged->path);
    assert_non_null(logged->guard);
    logged->copier = wal_copier_new(logged->guard);
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
    wal_guard_close(logged->guard);
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
    wal_guard_close(logged.guard);
    (void)snprintf(logged.path, sizeof logged.path, "%s/no/such.db", scene->driver.place);
    logged.guard = wal_guard_new(logged.path);
    assert_non_null(logged.guard);
    logged.copier = wal_copier_new(logged.guard);
    assert_non_null(logged.copier);
    assert_false(wal_copier_note(logged.copier, COPY_PAGES));
    assert_true(wal_copier_note(logged.copier, LOG_PAGES));
    assert_false(wal_copier_note(logged.copier, 1));
    close_log(&logged);
}

/* --- writes and syncs of the database, and commits beside a copy --- */

struct watched {
    int unsynced; /* writes to the database since its last sync */
    int unsynced_most;
    int syncs;
    sqlite3
        *writer; /* adds rows at the next write to the database, so that the copy is not of the whole log. NULL = none */
    int late_rows;
};

static struct watched watched;
static sqlite3_vfs watching_vfs;
static sqlite3_vfs *real_vfs;
static sqlite3_io_methods watching_methods;
static const sqlite3_io_methods *real_methods;

static void add_page_rows(sqlite3 *database, int count)
{
    for (int i = 0; i < count; i++) {
        run(database, "INSERT INTO t VALUES (randomblob(3500))");
    }
}

static int write_watched(sqlite3_file *file, const void *bytes, int length, sqlite3_int64 at)
{
    sqlite3 *writer = watched.writer;
    watched.writer = NULL;
    if (writer != NULL) {
        add_page_rows(writer, watched.late_rows);
    }
    watched.unsynced++;
    watched.unsynced_most = watched.unsynced > watched.unsynced_most ? watched.unsynced : watched.unsynced_most;
    return real_methods->xWrite(file, bytes, length, at);
}

static int sync_watched(sqlite3_file *file, int flags)
{
    watched.unsynced = 0;
    watched.syncs++;
    return real_methods->xSync(file, flags);
}

static int open_watched(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
    (void)vfs;
    int code = real_vfs->xOpen(real_vfs, name, file, flags, ret_flags);
    if (code == SQLITE_OK && (flags & SQLITE_OPEN_MAIN_DB) != 0) {
        real_methods = file->pMethods;
        watching_methods = *real_methods;
        watching_methods.xWrite = write_watched;
        watching_methods.xSync = sync_watched;
        file->pMethods = &watching_methods;
    }
    return code;
}

static void install_watch(void)
{
    real_vfs = sqlite3_vfs_find(NULL);
    watching_vfs = *real_vfs;
    watching_vfs.zName = "watching";
    watching_vfs.pNext = NULL;
    watching_vfs.xOpen = open_watched;
    assert_int_equal(sqlite3_vfs_register(&watching_vfs, 1), SQLITE_OK);
}

static void remove_watch(void)
{
    assert_int_equal(sqlite3_vfs_unregister(&watching_vfs), SQLITE_OK);
    assert_int_equal(sqlite3_vfs_register(real_vfs, 1), SQLITE_OK);
}

/* A copy of a log of this length, beside which so many rows are added. Waits for its end. */
static void copy_beside_commits(struct logged *logged, const struct scene *scene, int frames, int late_rows)
{
    install_watch();
    make_log(logged, scene);
    add_page_rows(logged->database, PAGE_ROWS);
    watched = (struct watched){.writer = logged->database, .late_rows = late_rows};
    assert_false(wal_copier_note(logged->copier, frames));
    wal_copier_close(logged->copier);
    assert_null(watched.writer);
    wal_guard_close(logged->guard);
}

static void end_copy(struct logged *logged)
{
    assert_int_equal(sqlite3_close(logged->database), SQLITE_OK);
    remove_watch();
}

/* SQLite leaves the sync to the copy that reaches the end of the log. */
static void a_copy_syncs_the_database_after_few_pages_and_at_its_end(void **state)
{
    struct logged logged;
    copy_beside_commits(&logged, *state, COPY_PAGES, 1);
    assert_int_equal(count_copied(&logged, *state), PAGE_ROWS);
    assert_int_equal(watched.unsynced, 0);
    assert_in_range(watched.unsynced_most, 1, UNSYNCED_MOST);
    assert_in_range(watched.syncs, PAGE_ROWS / UNSYNCED_MOST, PAGE_ROWS / UNSYNCED_MOST + 2);
    end_copy(&logged);
}

static void a_full_log_is_copied_until_little_is_left(void **state)
{
    struct logged logged;
    copy_beside_commits(&logged, *state, LOG_PAGES, LATE_ROWS);
    assert_int_equal(count_copied(&logged, *state), PAGE_ROWS + LATE_ROWS);
    end_copy(&logged);
}

static void an_early_copy_leaves_later_frames_to_the_next_one(void **state)
{
    struct logged logged;
    copy_beside_commits(&logged, *state, LOG_PAGES - 1, LATE_ROWS);
    assert_int_equal(count_copied(&logged, *state), PAGE_ROWS);
    end_copy(&logged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_long_log_is_copied_and_commits_copy_the_rest),
        SCENE_TEST(a_log_that_begins_anew_is_copied_again),
        SCENE_TEST(without_a_connection_the_commits_copy),
        SCENE_TEST(a_copy_syncs_the_database_after_few_pages_and_at_its_end),
        SCENE_TEST(a_full_log_is_copied_until_little_is_left),
        SCENE_TEST(an_early_copy_leaves_later_frames_to_the_next_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
