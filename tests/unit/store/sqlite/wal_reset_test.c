/* A copy of the log that meets a new beginning of the log: SQLite's WAL-reset bug. The thread that copies and the writer of
 * a store are guarded against it (wal_guard.h). A layer under their connections stops a copy at the place of the race,
 * after the copy has read the header of the log. */
#include "conformance/scene.h"
#include "store/sqlite/wal_copier.h"
#include "store/sqlite/wal_guard.h"

enum { ROWS = 200, ENQUEUES = 100 };

static sqlite3_vfs stopping_vfs;
static sqlite3_vfs *real_vfs;
static sqlite3_io_methods methods;
static const sqlite3_io_methods *real;
static void (*at_header)(void *); /* runs once */
static void *at_header_argument;

/* SQLite calls it within a copy when the header of the log has changed, right after it has read it. */
static int stop_at_header(sqlite3_file *file, sqlite3_int64 at, void *page)
{
    void (*now)(void *) = page == NULL ? at_header : NULL;
    if (now != NULL) {
        at_header = NULL;
        now(at_header_argument);
    }
    return real->xUnfetch(file, at, page);
}

static int open_stopping(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
    (void)vfs;
    int code = real_vfs->xOpen(real_vfs, name, file, flags, ret_flags);
    if (code == SQLITE_OK && (flags & SQLITE_OPEN_MAIN_DB) != 0) {
        real = file->pMethods;
        methods = *real;
        methods.xUnfetch = stop_at_header;
        file->pMethods = &methods;
    }
    return code;
}

static void install_vfs(void)
{
    real_vfs = sqlite3_vfs_find(NULL);
    stopping_vfs = *real_vfs;
    stopping_vfs.zName = "stopping";
    stopping_vfs.xOpen = open_stopping;
    assert_int_equal(sqlite3_vfs_register(&stopping_vfs, 1), SQLITE_OK);
}

static void run(sqlite3 *database, const char *sql)
{
    assert_int_equal(sqlite3_exec(database, sql, NULL, NULL, NULL), SQLITE_OK);
}

static void add_row(void *database)
{
    run(database, "INSERT INTO t VALUES (randomblob(100))");
}

static void add_rows(sqlite3 *database, int count)
{
    for (int i = 0; i < count; i++) {
        add_row(database);
    }
}

/* SQLite refuses it while another connection copies. */
static void copy_whole_log(sqlite3 *database)
{
    int frames = 1;
    int copied = 0;
    for (int code = SQLITE_BUSY; code == SQLITE_BUSY || copied < frames;) {
        code = sqlite3_wal_checkpoint_v2(database, "main", SQLITE_CHECKPOINT_PASSIVE, &frames, &copied);
        assert_true(code == SQLITE_OK || code == SQLITE_BUSY);
    }
}

/* By a new connection, which has no pages in its memory. */
static void expect_whole(const char *path, const char *count_sql, int count)
{
    sqlite3 *database;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(database, "PRAGMA integrity_check", -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_string_equal(sqlite3_column_text(statement, 0), "ok");
    (void)sqlite3_finalize(statement);
    assert_int_equal(sqlite3_prepare_v2(database, count_sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(statement, 0), count);
    (void)sqlite3_finalize(statement);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
}

/* A commit of a connection without a guard begins the log anew while the copier copies. */
static void a_copy_that_meets_a_new_log_loses_nothing(void **state)
{
    const struct scene *scene = *state;
    char path[300];
    sqlite3 *writer;
    (void)snprintf(path, sizeof path, "%s/logged.db", scene->driver.place);
    assert_int_equal(sqlite3_open_v2(path, &writer, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "unix"), SQLITE_OK);
    run(writer, "PRAGMA journal_mode=wal; PRAGMA wal_autocheckpoint=0; CREATE TABLE t (a)");
    struct wal_guard *guard = wal_guard_new(path);
    assert_non_null(guard);
    struct wal_copier *copier = wal_copier_new(path, guard);
    assert_non_null(copier);
    add_rows(writer, ROWS);
    assert_false(wal_copier_note(copier, COPY_PAGES));
    add_rows(writer, ROWS);
    copy_whole_log(writer);
    at_header_argument = writer;
    at_header = add_row;
    assert_false(wal_copier_note(copier, LOG_PAGES_MOST)); /* a second copy, of a log that is copied already */
    wal_copier_close(copier);
    wal_guard_close(guard);
    assert_null(at_header);
    add_rows(writer, 3 * ROWS);
    copy_whole_log(writer);
    add_row(writer);
    expect_whole(path, "SELECT count(*) FROM t", 5 * ROWS + 2);
    assert_int_equal(sqlite3_close(writer), SQLITE_OK);
}

static void enqueue_one(void *scene)
{
    (void)scene_enqueue(scene, "free-co");
}

/* Each by a commit. */
static void enqueue_many(struct scene *scene, int count)
{
    for (int i = 0; i < count; i++) {
        enqueue_one(scene);
    }
}

/* The store would begin the log anew, while the connection of another program copies it without a guard. */
static void a_commit_beside_a_foreign_copy_loses_nothing(void **state)
{
    struct scene *scene = *state;
    const char *path = scene->driver.url + strlen("sqlite:");
    sqlite3 *foreign;
    assert_int_equal(sqlite3_open(path, &foreign), SQLITE_OK);
    run(foreign, "PRAGMA wal_autocheckpoint=0; PRAGMA schema_version");
    enqueue_many(scene, ENQUEUES);
    copy_whole_log(foreign);
    at_header_argument = scene;
    at_header = enqueue_one;
    copy_whole_log(foreign);
    assert_null(at_header);
    enqueue_many(scene, 3 * ENQUEUES);
    copy_whole_log(foreign);
    enqueue_one(scene);
    expect_whole(path, "SELECT count(*) FROM executions", 4 * ENQUEUES + 2);
    assert_int_equal(sqlite3_close(foreign), SQLITE_OK);
}

int main(void)
{
    install_vfs();
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_copy_that_meets_a_new_log_loses_nothing),
        SCENE_TEST(a_commit_beside_a_foreign_copy_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
