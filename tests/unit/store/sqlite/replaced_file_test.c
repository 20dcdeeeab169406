/* Files of a store that are removed or replaced while a node has them open: it says so and acknowledges nothing more. */
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/scene.h"

static const char *path_of(const struct scene *scene, const char *ending)
{
    static char path[400];
    (void)snprintf(path, sizeof path, "%s%s", scene->driver.url + strlen("sqlite:"), ending);
    return path;
}

static enum weir_status enqueue(struct scene *scene, struct store *store)
{
    struct enqueue_request request = {.workspace = "pro-co", .workflow = "hello"};
    struct enqueue_result result = {0};
    enum weir_status status = store_enqueue(store, &request, 1, &result, &scene->error);
    return status == WEIR_OK ? result.status : status;
}

/* Moves a file of the store away and back again. */
static void assert_told(struct scene *scene, const char *ending)
{
    char kept[400];
    (void)snprintf(kept, sizeof kept, "%s", path_of(scene, ".kept"));
    scene_ok(scene, enqueue(scene, scene->store));
    assert_int_equal(rename(path_of(scene, ending), kept), 0);
    assert_int_equal(enqueue(scene, scene->store), WEIR_STORE_UNREACHABLE);
    assert_non_null(strstr(scene->error.message, "removed"));
    assert_non_null(strstr(scene->error.message, path_of(scene, ending)));
    assert_non_null(strstr(scene->error.hint, "put the files"));
    FILE *other = fopen(path_of(scene, ending), "w");
    assert_non_null(other);
    assert_int_equal(fclose(other), 0);
    assert_int_equal(enqueue(scene, scene->store), WEIR_STORE_UNREACHABLE);
    assert_non_null(strstr(scene->error.message, "replaced"));
    assert_int_equal(rename(kept, path_of(scene, ending)), 0);
    scene_ok(scene, enqueue(scene, scene->store));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 2);
}

static void a_database_that_is_removed_or_replaced_is_told(void **state)
{
    assert_told(*state, "");
}

static void a_log_that_is_removed_or_replaced_is_told(void **state)
{
    assert_told(*state, "-wal");
}

static void an_index_of_the_log_that_is_removed_or_replaced_is_told(void **state)
{
    assert_told(*state, "-shm");
}

static enum weir_status look(struct scene *scene)
{
    json_t *status = NULL;
    enum weir_status answer = store_status(scene->store, 1, &status, &scene->error);
    json_decref(status);
    return answer;
}

/* A reader would for ever see rows that no process changes any more. */
static void a_reader_is_told_as_well(void **state)
{
    struct scene *scene = *state;
    char kept[400];
    (void)snprintf(kept, sizeof kept, "%s", path_of(scene, ".kept"));
    for (int has_looked = 0; has_looked < 2; has_looked++) {
        assert_int_equal(rename(path_of(scene, ""), kept), 0);
        assert_int_equal(look(scene), WEIR_STORE_UNREACHABLE);
        assert_non_null(strstr(scene->error.message, "removed while it was open"));
        FILE *other = fopen(path_of(scene, ""), "w");
        assert_non_null(other);
        assert_int_equal(fclose(other), 0);
        assert_int_equal(look(scene), WEIR_STORE_UNREACHABLE);
        assert_non_null(strstr(scene->error.message, "replaced while it was open"));
        assert_int_equal(rename(kept, path_of(scene, "")), 0);
        scene_ok(scene, look(scene));
    }
}

/* A fork would share SQLite's map of the old index, so it is a program of its own. */
static void make_table_in_another_program(const char *path, const char *sql)
{
    char program[] = "sqlite3";
    char file[400];
    char statement[100];
    (void)snprintf(file, sizeof file, "%s", path);
    (void)snprintf(statement, sizeof statement, "%s", sql);
    char *const words[] = {program, file, statement, NULL};
    pid_t child = 0;
    int how = 0;
    assert_int_equal(posix_spawnp(&child, program, NULL, NULL, words, environ), 0);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

/* Another process makes a new index and appends to the log; what it acknowledges must survive the end of the node that has
 * the old one. */
static void what_another_process_acknowledges_survives_a_removed_index(void **state)
{
    struct scene *scene = *state;
    struct driver_under_test driver;
    driver_make(&driver);
    struct store *store = driver_open(&driver, NULL);
    struct workspace_change change = {.name = "pro-co", .paused = -1, .create = true};
    struct published published;
    scene_ok(scene, store_migrate(store, NULL, &scene->error));
    scene_ok(scene, store_set_workspace(store, &change, &scene->error));
    scene_ok(scene, store_publish(store, "hello", NULL, "{}", NULL, &published, &scene->error));
    char name[400];
    (void)snprintf(name, sizeof name, "%s-shm", driver.url + strlen("sqlite:"));
    assert_int_equal(unlink(name), 0);
    make_table_in_another_program(driver.url + strlen("sqlite:"), "CREATE TABLE acknowledged (x)");
    assert_int_equal(enqueue(scene, store), WEIR_STORE_UNREACHABLE);
    store_close(store);
    json_t *rows = driver_rows(&driver, "SELECT name FROM sqlite_schema WHERE name = 'acknowledged'");
    assert_int_equal(json_array_size(rows), 1);
    json_decref(rows);
    driver_remove(&driver);
}

/* The log under the old name belongs to the new file: closing the old one must leave it alone. */
static void what_a_new_store_acknowledges_survives_the_end_of_an_old_node(void **state)
{
    (void)state;
    struct driver_under_test driver;
    struct weir_error error = {0};
    driver_make(&driver);
    struct store *old = driver_open(&driver, NULL);
    const char *path = driver.url + strlen("sqlite:");
    char name[400];
    struct workspace_change change = {.name = "old-co", .paused = -1, .create = true};
    assert_int_equal(store_migrate(old, NULL, &error), WEIR_OK);
    assert_int_equal(store_set_workspace(old, &change, &error), WEIR_OK);
    const char *const endings[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof name, "%s%s", path, endings[i]);
        assert_int_equal(unlink(name), 0);
    }
    struct store *new = driver_open(&driver, NULL);
    change.name = "new-co";
    assert_int_equal(store_migrate(new, NULL, &error), WEIR_OK);
    assert_int_equal(store_set_workspace(new, &change, &error), WEIR_OK);
    assert_int_equal(store_set_workspace(old, &change, &error), WEIR_STORE_UNREACHABLE);
    store_close(old);
    (void)snprintf(name, sizeof name, "%s-wal", path);
    assert_int_equal(access(name, F_OK), 0);
    change.name = "newer-co";
    assert_int_equal(store_set_workspace(new, &change, &error), WEIR_OK);
    store_close(new);
    json_t *rows = driver_rows(&driver, "SELECT name FROM workspaces WHERE name LIKE 'new%' ORDER BY name");
    assert_int_equal(json_array_size(rows), 2);
    json_decref(rows);
    driver_remove(&driver);
}

static void a_store_behind_a_symbolic_link_is_one_store(void **state)
{
    struct scene *scene = *state;
    char link[400];
    char url[420];
    (void)snprintf(link, sizeof link, "%s/link.db", scene->driver.place);
    (void)snprintf(url, sizeof url, "sqlite:%s", link);
    assert_int_equal(symlink(path_of(scene, ""), link), 0);
    struct store_options options = {.url = url, .clock = &scene->driver.time.clock};
    struct store *store = NULL;
    scene_ok(scene, store_open(&options, &store, &scene->error));
    scene_ok(scene, enqueue(scene, store));
    store_close(store);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 1);
    assert_int_equal(unlink(link), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_database_that_is_removed_or_replaced_is_told),
        SCENE_TEST(a_reader_is_told_as_well),
        SCENE_TEST(a_log_that_is_removed_or_replaced_is_told),
        SCENE_TEST(an_index_of_the_log_that_is_removed_or_replaced_is_told),
        SCENE_TEST(what_another_process_acknowledges_survives_a_removed_index),
        cmocka_unit_test(what_a_new_store_acknowledges_survives_the_end_of_an_old_node),
        SCENE_TEST(a_store_behind_a_symbolic_link_is_one_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
