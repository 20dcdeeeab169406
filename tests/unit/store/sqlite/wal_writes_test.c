/* The writes of a commit to the log are gathered, and on their file before any call that depends on them. */
#include "store/sqlite/wal_writes.h"

#include <string.h>

#include "conformance/scene.h"
#include "store/sqlite/wal_preallocate.h"

enum { PAGE = 4096, HEADER = 24, FRAME = HEADER + PAGE, CALLS_MOST = 32 };

/* A file that notes the calls that reach it. */
struct noting_file {
    sqlite3_file base; /* first */
    char calls[CALLS_MOST][32];
    size_t count;
    int answer;
};

static int note(sqlite3_file *file, const char *call, long long first, long long second)
{
    struct noting_file *self = (struct noting_file *)(void *)file;
    assert_in_range(self->count, 0, CALLS_MOST - 1);
    (void)snprintf(self->calls[self->count++], sizeof self->calls[0], "%s %lld %lld", call, first, second);
    return self->answer;
}

static int note_write(sqlite3_file *file, const void *bytes, int length, sqlite3_int64 at)
{
    (void)bytes;
    return note(file, "write", at, length);
}

static int note_read(sqlite3_file *file, void *bytes, int length, sqlite3_int64 at)
{
    (void)bytes;
    return note(file, "read", at, length);
}

static int note_sync(sqlite3_file *file, int flags)
{
    return note(file, "sync", flags, 0);
}

static int note_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return note(file, "truncate", size, 0);
}

static int note_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
    *ret_size = 0;
    return note(file, "size", 0, 0);
}

static const sqlite3_io_methods noting = {.iVersion = 1,
                                          .xWrite = note_write,
                                          .xRead = note_read,
                                          .xSync = note_sync,
                                          .xTruncate = note_truncate,
                                          .xFileSize = note_size};

struct commit {
    struct noting_file file;
    struct wal_writes *writes;
};

static void begin(struct commit *commit)
{
    *commit = (struct commit){.file = {.base = {.pMethods = &noting}}, .writes = wal_writes_new()};
    assert_non_null(commit->writes);
    wal_writes_begin(commit->writes, &commit->file.base);
}

static void end(struct commit *commit, bool is_committed)
{
    wal_writes_end(commit->writes, is_committed);
    assert_ptr_equal(commit->file.base.pMethods, &noting);
    wal_writes_free(commit->writes);
}

static int write_bytes(struct commit *commit, int length, sqlite3_int64 at)
{
    static const char bytes[LOG_WRITE_BYTES + 1]; /* zeros: the header of no last frame */
    return commit->file.base.pMethods->xWrite(&commit->file.base, bytes, length, at);
}

static void write_frames(struct commit *commit, int count, sqlite3_int64 at)
{
    for (int i = 0; i < count; i++) {
        assert_int_equal(write_bytes(commit, HEADER, at + (sqlite3_int64)i * FRAME), SQLITE_OK);
        assert_int_equal(write_bytes(commit, PAGE, at + (sqlite3_int64)i * FRAME + HEADER), SQLITE_OK);
    }
}

static void assert_calls(const struct commit *commit, size_t count, const char *const *calls)
{
    assert_int_equal(commit->file.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(commit->file.calls[i], calls[i]);
    }
}

static void frames_of_a_commit_are_one_write_before_its_sync(void **state)
{
    struct commit commit;
    (void)state;
    begin(&commit);
    write_frames(&commit, 3, 32);
    assert_int_equal(commit.file.count, 0);
    assert_int_equal(commit.file.base.pMethods->xSync(&commit.file.base, SQLITE_SYNC_NORMAL), SQLITE_OK);
    assert_calls(&commit, 2, (const char *const[]){"write 32 12360", "sync 2 0"});
    end(&commit, true);
    assert_int_equal(commit.file.count, 2);
}

static void a_write_elsewhere_keeps_the_order(void **state)
{
    struct commit commit;
    (void)state;
    begin(&commit);
    write_frames(&commit, 2, 32);
    assert_int_equal(write_bytes(&commit, PAGE, 32 + HEADER), SQLITE_OK); /* the page of the first frame anew */
    write_frames(&commit, 1, 32 + 2 * FRAME);
    assert_int_equal(commit.file.base.pMethods->xSync(&commit.file.base, SQLITE_SYNC_NORMAL), SQLITE_OK);
    assert_calls(&commit, 4, (const char *const[]){"write 32 8240", "write 56 4096", "write 8272 4120", "sync 2 0"});
    end(&commit, true);
}

static void a_full_or_too_small_room_is_written_first(void **state)
{
    struct commit commit;
    (void)state;
    begin(&commit);
    assert_int_equal(write_bytes(&commit, LOG_WRITE_BYTES, 0), SQLITE_OK);
    assert_int_equal(commit.file.count, 0);
    assert_int_equal(write_bytes(&commit, 1, LOG_WRITE_BYTES), SQLITE_OK);
    assert_int_equal(write_bytes(&commit, LOG_WRITE_BYTES + 1, LOG_WRITE_BYTES + 1), SQLITE_OK);
    assert_calls(&commit, 3, (const char *const[]){"write 0 65536", "write 65536 1", "write 65537 65537"});
    end(&commit, true);
}

static void calls_that_depend_on_the_file_find_it_written(void **state)
{
    struct commit commit;
    char bytes[HEADER];
    sqlite3_int64 size;
    (void)state;
    begin(&commit);
    const sqlite3_io_methods *methods = commit.file.base.pMethods;
    assert_int_equal(write_bytes(&commit, 8, 0), SQLITE_OK);
    assert_int_equal(methods->xRead(&commit.file.base, bytes, HEADER, 0), SQLITE_OK);
    assert_int_equal(write_bytes(&commit, 8, 8), SQLITE_OK);
    assert_int_equal(methods->xFileSize(&commit.file.base, &size), SQLITE_OK);
    assert_int_equal(write_bytes(&commit, 8, 16), SQLITE_OK);
    assert_int_equal(methods->xTruncate(&commit.file.base, 20), SQLITE_OK);
    assert_calls(&commit, 6,
                 (const char *const[]){"write 0 8", "read 0 24", "write 8 8", "size 0 0", "write 16 8", "truncate 20 0"});
    end(&commit, true);
}

static void a_failed_write_fails_the_sync(void **state)
{
    struct commit commit;
    (void)state;
    begin(&commit);
    write_frames(&commit, 1, 32);
    commit.file.answer = SQLITE_FULL;
    assert_int_equal(commit.file.base.pMethods->xSync(&commit.file.base, SQLITE_SYNC_NORMAL), SQLITE_FULL);
    assert_calls(&commit, 1, (const char *const[]){"write 32 4120"});
    end(&commit, false);
    assert_int_equal(commit.file.count, 1);
}

static void the_rest_of_a_failed_commit_is_dropped(void **state)
{
    struct commit commit;
    (void)state;
    begin(&commit);
    write_frames(&commit, 1, 32);
    end(&commit, false);
    assert_int_equal(commit.file.count, 0);
}

static void the_last_page_of_a_commit_is_written_with_all_before_it(void **state)
{
    static const char last[HEADER] = {[7] = 9}; /* the database has nine pages */
    struct commit commit;
    (void)state;
    begin(&commit);
    write_frames(&commit, 2, 32);
    assert_int_equal(commit.file.base.pMethods->xWrite(&commit.file.base, last, HEADER, 32 + 2 * FRAME), SQLITE_OK);
    assert_int_equal(commit.file.count, 0);
    assert_int_equal(write_bytes(&commit, PAGE, 32 + 2 * FRAME + HEADER), SQLITE_OK);
    assert_calls(&commit, 1, (const char *const[]){"write 32 12360"});
    write_frames(&commit, 1, 32 + 3 * FRAME);
    assert_int_equal(commit.file.count, 1);
    end(&commit, true);
}

static void what_no_last_page_and_no_sync_has_written_is_at_the_end(void **state)
{
    struct commit commit;
    (void)state;
    begin(&commit);
    write_frames(&commit, 1, 32);
    end(&commit, true);
    assert_calls(&commit, 1, (const char *const[]){"write 32 4120"});
}

/* At the end of a commit SQLite calls this, still within the statement: others see the commit already. */
static int copy_log(void *context, sqlite3 *database, const char *name, int frames)
{
    sqlite3 *other = context;
    (void)database;
    (void)frames;
    return sqlite3_wal_checkpoint_v2(other, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

/* Benches fill their stores so. The copy would bring pages of zeros to the database. */
static void a_copy_beside_a_commit_without_a_sync_finds_all_pages(void **state)
{
    char path[300];
    struct connection writer = {.database = NULL};
    sqlite3 *other = NULL;
    sqlite3_stmt *statement = NULL;
    const struct scene *scene = *state;
    struct wal_writes *writes = wal_writes_new();
    (void)snprintf(path, sizeof path, "%s/unsynced.db", scene->driver.place);
    assert_int_equal(sqlite3_open(path, &writer.database), SQLITE_OK);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(writer.database,
                                  "PRAGMA journal_mode=wal; PRAGMA synchronous=OFF; CREATE TABLE t (a);"
                                  "BEGIN; INSERT INTO t VALUES (randomblob(20000))",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "PRAGMA schema_version", NULL, NULL, NULL), SQLITE_OK); /* opens the log */
    (void)sqlite3_wal_hook(writer.database, copy_log, other);
    wal_writes_begin(writes, wal_log_of(&writer));
    assert_int_equal(sqlite3_exec(writer.database, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    wal_writes_end(writes, true);
    assert_int_equal(sqlite3_prepare_v2(other, "SELECT integrity_check FROM pragma_integrity_check", -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_string_equal(sqlite3_column_text(statement, 0), "ok");
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(other);
    (void)sqlite3_close(writer.database);
    wal_writes_free(writes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_of_a_commit_are_one_write_before_its_sync),
        cmocka_unit_test(a_write_elsewhere_keeps_the_order),
        cmocka_unit_test(a_full_or_too_small_room_is_written_first),
        cmocka_unit_test(calls_that_depend_on_the_file_find_it_written),
        cmocka_unit_test(a_failed_write_fails_the_sync),
        cmocka_unit_test(the_rest_of_a_failed_commit_is_dropped),
        cmocka_unit_test(the_last_page_of_a_commit_is_written_with_all_before_it),
        cmocka_unit_test(what_no_last_page_and_no_sync_has_written_is_at_the_end),
        SCENE_TEST(a_copy_beside_a_commit_without_a_sync_finds_all_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
