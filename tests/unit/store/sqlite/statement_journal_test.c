/* SQLite keeps the old pages of each statement that may fail halfway, in memory up to the limit of
 * sqlite_store_tune_process(), and above it in a file that it makes and deletes. A savepoint around the statements makes
 * that more expensive. */
#include "conformance/children_scene.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "store/sqlite/sqlite_store.h"
#include "support/folder.h"

enum { ITEMS = 300 };

static sqlite3_vfs counting_vfs;
static sqlite3_vfs *real_vfs;
static int journals; /* files for the old pages of a statement */
static int savepoints;

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
    (void)vfs;
    journals += (flags & SQLITE_OPEN_SUBJOURNAL) != 0;
    return real_vfs->xOpen(real_vfs, name, file, flags, ret_flags);
}

/* Becomes the default file system of this process. */
static void install_counting_vfs(void)
{
    real_vfs = sqlite3_vfs_find(NULL);
    counting_vfs = *real_vfs;
    counting_vfs.zName = "counting";
    counting_vfs.xOpen = open_file;
    assert_int_equal(sqlite3_vfs_register(&counting_vfs, 1), SQLITE_OK);
}

static int note_statement(unsigned kind, void *context, void *statement, void *text)
{
    (void)context;
    (void)statement;
    savepoints += kind == SQLITE_TRACE_STMT && strncmp(text, "SAVEPOINT", sizeof "SAVEPOINT" - 1) == 0;
    return 0;
}

/* Of each connection that this process opens. */
static int trace_connection(sqlite3 *database, char **ret_message, const struct sqlite3_api_routines *api)
{
    (void)ret_message;
    (void)api;
    return sqlite3_trace_v2(database, SQLITE_TRACE_STMT, note_statement, NULL);
}

static void park_all(struct scene *scene, const struct claim_result *held)
{
    struct record *records = calloc(ITEMS, sizeof *records);
    struct record_summary summary;
    assert_non_null(records);
    for (size_t i = 0; i < ITEMS; i++) {
        records[i] = scene_record_of(RECORD_PARKED, &held->items[i]);
        records[i].dispatched_first = true;
        records[i].delay_us = SECONDS(10);
    }
    scene_ok(scene, store_record(scene->store, scene->node, records, ITEMS, &summary, &scene->error));
    for (size_t i = 0; i < ITEMS; i++) {
        assert_int_equal(records[i].status, WEIR_OK);
    }
    free(records);
}

static void a_large_set_opens_no_file(void **state)
{
    struct scene *scene = *state;
    scene_cap(scene, "free-co", ITEMS);
    scene_enqueue_many(scene, "free-co", ITEMS);
    struct claim_result held = scene_claim(scene, ITEMS);
    assert_int_equal(held.count, ITEMS);
    park_all(scene, &held);
    scene_pass(scene, SECONDS(10));
    held = scene_claim(scene, ITEMS);
    assert_int_equal(held.count, ITEMS);
    scene_complete(scene, &held);
    assert_int_equal(journals, 0);
}

/* In a savepoint each statement that may fail halfway takes three times as long. */
static void the_duty_of_children_has_no_savepoint(void **state)
{
    struct scene *scene = *state;
    scene_cap(scene, "free-co", ITEMS);
    struct claimed_item parent = begin(scene, &(struct planned){.count = ITEMS, .wanted = -1});
    assert_int_equal(advance(scene).started, ITEMS);
    struct claim_result held = scene_claim(scene, ITEMS);
    assert_int_equal(held.count, ITEMS);
    scene_complete(scene, &held);
    assert_int_equal(advance(scene).settled, 1);
    assert_string_equal(scene_status_of(scene, parent.id), "PENDING");
    assert_int_equal(savepoints, 0);
}

/* The limit may not be one beyond which SQLite fails to make the file. */
static void a_statement_beyond_the_limit_goes_to_a_file(void **state)
{
    enum { PAGES = 2000 };
    struct folder folder;
    char path[128];
    sqlite3 *database = NULL;
    char *error = NULL;
    (void)state;
    assert_int_equal(folder_make(&folder), 0);
    (void)snprintf(path, sizeof path, "%s/pages.db", folder.path);
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    (void)sqlite3_exec(database,
                       "PRAGMA journal_mode = wal; CREATE TABLE pages (n INTEGER PRIMARY KEY, x TEXT CHECK (x <> 'no'));"
                       "WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 2000)"
                       "INSERT INTO pages SELECT n, printf('%.3000c', 'x') FROM s; BEGIN;"
                       "UPDATE pages SET x = printf('%.3000c', 'y'); COMMIT",
                       NULL, NULL, &error);
    assert_null(error);
    assert_int_equal(sqlite3_total_changes(database), 2 * PAGES);
    assert_true(journals > 0);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
    folder_remove(&folder);
}

int main(void)
{
    sqlite_store_tune_process();
    install_counting_vfs();
    (void)sqlite3_auto_extension((void (*)(void))trace_connection);
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_large_set_opens_no_file),
        SCENE_TEST(the_duty_of_children_has_no_savepoint),
        cmocka_unit_test(a_statement_beyond_the_limit_goes_to_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
