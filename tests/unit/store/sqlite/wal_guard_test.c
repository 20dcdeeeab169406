/* A copy of the log loses nothing beside a writer that would begin the log anew at its start. */
#include "store/sqlite/wal_guard.h"

#include "conformance/scene.h"

enum { COPIED_ROWS = 100, LATER_ROWS = 30 };

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

static void assert_whole(const struct guarded *guarded, int rows)
{
    sqlite3 *reader = NULL;
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_open(guarded->path, &reader), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(reader,
                                        "SELECT count(*), (SELECT integrity_check FROM pragma_integrity_check) FROM t", -1,
                                        &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(statement, 0), rows);
    assert_string_equal(sqlite3_column_text(statement, 1), "ok");
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(reader);
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

static sqlite3 *late_writer; /* adds a row when the next copy has read the length of the log. NULL = none */
static sqlite3_io_methods watching_methods;
static const sqlite3_io_methods *real_methods;

/* SQLite gives all mapped pages back when it has found that the log has changed, and before it looks how much is copied. */
static int unfetch_watched(sqlite3_file *file, sqlite3_int64 at, void *page)
{
    sqlite3 *writer = late_writer;
    late_writer = NULL;
    if (writer != NULL) {
        add_rows(writer, 1);
    }
    return real_methods->xUnfetch(file, at, page);
}

static sqlite3_file *watch_copies(sqlite3 *copier)
{
    sqlite3_file *file = NULL;
    assert_int_equal(sqlite3_file_control(copier, "main", SQLITE_FCNTL_FILE_POINTER, &file), SQLITE_OK);
    real_methods = file->pMethods;
    assert_true(real_methods->iVersion >= 3);
    watching_methods = *real_methods;
    watching_methods.xUnfetch = unfetch_watched;
    file->pMethods = &watching_methods;
    return file;
}

static void a_log_that_begins_anew_at_the_start_of_a_copy_loses_nothing(void **state)
{
    struct guarded guarded;
    open_guarded(&guarded, *state);
    add_rows(guarded.writer, COPIED_ROWS);
    run(guarded.writer, "PRAGMA wal_checkpoint(PASSIVE)");
    sqlite3_file *file = watch_copies(guarded.copier);
    late_writer = guarded.writer;
    (void)wal_guard_copy(guarded.guard, guarded.copier);
    assert_null(late_writer);
    file->pMethods = real_methods;
    add_rows(guarded.writer, LATER_ROWS);
    run(guarded.writer, "PRAGMA wal_checkpoint(TRUNCATE)");
    assert_whole(&guarded, COPIED_ROWS + 1 + LATER_ROWS);
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
    sqlite3_file *file = watch_copies(guarded.copier);
    late_writer = guarded.writer;
    assert_int_equal(sqlite3_wal_checkpoint_v2(guarded.copier, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL), SQLITE_OK);
    assert_null(late_writer);
    file->pMethods = real_methods;
    run(guarded.writer, "PRAGMA wal_checkpoint(PASSIVE)");
    add_rows(guarded.writer, LATER_ROWS); /* nobody copies: the log begins anew */
    assert_int_equal(sqlite3_wal_checkpoint_v2(guarded.copier, "main", SQLITE_CHECKPOINT_PASSIVE, &frames, NULL),
                     SQLITE_OK);
    assert_in_range(frames, LATER_ROWS, COPIED_ROWS);
    assert_int_equal(sqlite3_wal_checkpoint_v2(guarded.writer, "main", SQLITE_CHECKPOINT_TRUNCATE, &frames, NULL),
                     SQLITE_OK);
    assert_int_equal(frames, 0);
    assert_whole(&guarded, COPIED_ROWS + 1 + LATER_ROWS);
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
    assert_whole(&guarded, LATER_ROWS + 1);
    close_guarded(&guarded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(copies_count_the_frames_of_the_log),
        SCENE_TEST(without_a_connection_there_is_no_copy),
        SCENE_TEST(a_log_that_begins_anew_at_the_start_of_a_copy_loses_nothing),
        SCENE_TEST(a_guarded_commit_does_not_begin_the_log_anew_beside_a_copy),
        SCENE_TEST(a_guarded_commit_goes_on_behind_a_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
