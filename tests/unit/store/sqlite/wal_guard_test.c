/* A copy of the log loses nothing beside a writer that would begin the log anew at its start (SQLite's WAL-reset bug). The
 * thread that copies and the writer of a store are guarded, too. A layer under all connections stops a copy at the place of
 * the race. */
#include "store/sqlite/wal_guard.h"

#include "conformance/scene.h"
#include "store/sqlite/wal_copier.h"

enum { COPIED_ROWS = 100, LATER_ROWS = 30, ROWS = 200, ENQUEUES = 100 };

struct guarded {
    char path[300];
    sqlite3 *writer;
    sqlite3 *copier;
    struct wal_guard *guard;
};

static void run(sqlite3 *database, const char *sql)
{
    assert_int_equal(sqlite3_exec(database, sql, NULL, NULL, NULL), SQLITE_OK);
}

static void add_rows(sqlite3 *database, int count)
{
    for (int i = 0; i < count; i++) {
        run(database, "INSERT INTO t VALUES (randomblob(3500))");
    }
}

static void open_guarded(struct guarded *guarded, const struct scene *scene)
{
    (void)snprintf(guarded->path, sizeof guarded->path, "%s/guarded.db", scene->driver.place);
    assert_int_equal(sqlite3_open(guarded->path, &guarded->writer), SQLITE_OK);
    run(guarded->writer, "PRAGMA journal_mode=wal; PRAGMA wal_autocheckpoint=0; CREATE TABLE t (a)");
    assert_int_equal(sqlite3_open(guarded->path, &guarded->copier), SQLITE_OK);
    run(guarded->copier, "PRAGMA schema_version");
    guarded->guard = wal_guard_new(guarded->path);
    assert_non_null(guarded->guard);
    assert_true(wal_guard_open(guarded->guard));
}

static void close_guarded(struct guarded *guarded)
{
    wal_guard_close(guarded->guard);
    assert_int_equal(sqlite3_close(guarded->copier), SQLITE_OK);
    assert_int_equal(sqlite3_close(guarded->writer), SQLITE_OK);
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

static void assert_rows(const struct guarded *guarded, int rows)
{
    expect_whole(guarded->path, "SELECT count(*) FROM t", rows);
}

static void copies_count_the_frames_of_the_log(void **state)
{
    struct guarded guarded;
    open_guarded(&guarded, *state);
    add_rows(guarded.writer, LATER_ROWS);
    int copied = wal_guard_copy(guarded.guard, guarded.copier);
    assert_true(copied > LATER_ROWS);
    add_rows(guarded.writer, 1); /* in a log that begins anew */
    assert_in_range(wal_guard_copy(guarded.guard, guarded.copier), 1, copied - 1);
    close_guarded(&guarded);
}

static void without_a_connection_there_is_no_copy(void **state)
{
    (void)state;
    struct wal_guard *guard = wal_guard_new("/no/such/folder/guarded.db");
    assert_non_null(guard);
    assert_false(wal_guard_open(guard));
    assert_false(wal_guard_open(guard));
    wal_guard_close(guard);
}

/* --- a writer at the start of a copy --- */

static sqlite3_vfs stopping_vfs;
static sqlite3_vfs *real_vfs;
static sqlite3_io_methods methods;
static const sqlite3_io_methods *real;
static void (*at_header)(void *); /* runs once */
static void *at_header_argument;

/* SQLite gives all mapped pages back when it has found that the log has changed, and before it looks how much is copied. */
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
        assert_true(real->iVersion >= 3);
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

static void add_row(void *database)
{
    add_rows(database, 1);
}

/* The next copy of any connection does this when it has read the length of the log. */
static void await_header(void (*now)(void *), void *argument)
{
    at_header_argument = argument;
    at_header = now;
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

static void a_log_that_begins_anew_at_the_start_of_a_copy_loses_nothing(void **state)
{
    struct guarded guarded;
    open_guarded(&guarded, *state);
    add_rows(guarded.writer, COPIED_ROWS);
    run(guarded.writer, "PRAGMA wal_checkpoint(PASSIVE)");
    await_header(add_row, guarded.writer);
    (void)wal_guard_copy(guarded.guard, guarded.copier);
    assert_null(at_header);
    add_rows(guarded.writer, LATER_ROWS);
    run(guarded.writer, "PRAGMA wal_checkpoint(TRUNCATE)");
    assert_rows(&guarded, COPIED_ROWS + 1 + LATER_ROWS);
    close_guarded(&guarded);
}

/* The copy is that of a program of others. */
static void a_guarded_commit_does_not_begin_the_log_anew_beside_a_copy(void **state)
{
    int frames = 0;
    struct guarded guarded;
    open_guarded(&guarded, *state);
    wal_guard_commits(guarded.guard, guarded.writer);
    add_rows(guarded.writer, COPIED_ROWS);
    run(guarded.writer, "PRAGMA wal_checkpoint(PASSIVE)");
    await_header(add_row, guarded.writer);
    assert_int_equal(sqlite3_wal_checkpoint_v2(guarded.copier, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL), SQLITE_OK);
    assert_null(at_header);
    run(guarded.writer, "PRAGMA wal_checkpoint(PASSIVE)");
    add_rows(guarded.writer, LATER_ROWS); /* nobody copies: the log begins anew */
    assert_int_equal(sqlite3_wal_checkpoint_v2(guarded.copier, "main", SQLITE_CHECKPOINT_PASSIVE, &frames, NULL),
                     SQLITE_OK);
    assert_in_range(frames, LATER_ROWS, COPIED_ROWS);
    assert_int_equal(sqlite3_wal_checkpoint_v2(guarded.writer, "main", SQLITE_CHECKPOINT_TRUNCATE, &frames, NULL),
                     SQLITE_OK);
    assert_int_equal(frames, 0);
    assert_rows(&guarded, COPIED_ROWS + 1 + LATER_ROWS);
    close_guarded(&guarded);
}

/* A reader in the way leaves no lock behind. */
static void a_guarded_commit_goes_on_behind_a_reader(void **state)
{
    int frames = 0;
    struct guarded guarded;
    sqlite3 *reader = NULL;
    open_guarded(&guarded, *state);
    wal_guard_commits(guarded.guard, guarded.writer);
    assert_int_equal(sqlite3_open(guarded.path, &reader), SQLITE_OK);
    add_rows(guarded.writer, LATER_ROWS);
    run(reader, "BEGIN; SELECT count(*) FROM t");
    run(guarded.copier, "PRAGMA wal_checkpoint(PASSIVE)");
    add_rows(guarded.writer, 1);
    assert_int_equal(sqlite3_wal_checkpoint_v2(guarded.copier, "main", SQLITE_CHECKPOINT_PASSIVE, &frames, NULL),
                     SQLITE_OK);
    assert_true(frames > LATER_ROWS);
    assert_int_equal(sqlite3_close(reader), SQLITE_OK);
    assert_rows(&guarded, LATER_ROWS + 1);
    close_guarded(&guarded);
}

/* --- the copier and a store --- */

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
    struct wal_copier *copier = wal_copier_new(guard);
    assert_non_null(copier);
    add_rows(writer, ROWS);
    assert_false(wal_copier_note(copier, COPY_PAGES));
    add_rows(writer, ROWS);
    copy_whole_log(writer);
    await_header(add_row, writer);
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
    await_header(enqueue_one, scene);
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
        SCENE_TEST(copies_count_the_frames_of_the_log),
        SCENE_TEST(without_a_connection_there_is_no_copy),
        SCENE_TEST(a_log_that_begins_anew_at_the_start_of_a_copy_loses_nothing),
        SCENE_TEST(a_guarded_commit_does_not_begin_the_log_anew_beside_a_copy),
        SCENE_TEST(a_guarded_commit_goes_on_behind_a_reader),
        SCENE_TEST(a_copy_that_meets_a_new_log_loses_nothing),
        SCENE_TEST(a_commit_beside_a_foreign_copy_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
