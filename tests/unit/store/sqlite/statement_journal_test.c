/* A set of a thousand items is written without a temporary file. SQLite keeps the old pages of each statement that may
 * fail halfway. With its own limit of 64 KiB it writes them to a new file and deletes it, many times a second. */
#include "conformance/scene.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "store/sqlite/sqlite_store.h"

enum { ITEMS = 1000 };

static sqlite3_vfs counting_vfs;
static sqlite3_vfs *real_vfs;
static int journals; /* files for the old pages of a statement */

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

int main(void)
{
    sqlite_store_tune_process();
    install_counting_vfs();
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_large_set_opens_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
