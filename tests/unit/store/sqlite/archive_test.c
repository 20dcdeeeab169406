/* The file of the archive: its mode, its owner, its absence, and a crash between the two commits of a move. */
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conformance/children_scene.h"

static const char *archive_of(const struct scene *scene)
{
    static char path[400];
    (void)snprintf(path, sizeof path, "%s/weir-archive.db", scene->driver.place);
    return path;
}

static const char *ended(struct scene *scene)
{
    char output[] = "{\"said\":\"hello\"}";
    const char *id = scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "pro-co",
                                                                            .workflow = "hello",
                                                                            .params = "{\"n\":1}",
                                                                            .params_length = strlen("{\"n\":1}")});
    struct claimed_item item = scene_claim_one(scene);
    struct step_record step = {.step = "only", .state = STEP_FAILED, .attempt = 1, .exit_code = 1, .output = output};
    struct record record = scene_record_of(RECORD_FAILED, &item);
    step.output_length = strlen(output);
    record.step = &step;
    record.error_code = "exit_code";
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    return id;
}

static enum weir_status try_archive(struct scene *scene, int64_t *ret_moved)
{
    struct archive_order order = {.limit = ARCHIVE_BATCH, .is_whole = true};
    struct archive_result result = {.moved = 0};
    scene_pass(scene, SECONDS(1));
    scene_beat(scene, scene->node);
    order.ended_before_us = scene_now(scene);
    enum weir_status status = store_archive(scene->store, &order, &result, &scene->error);
    *ret_moved = result.moved;
    return status;
}

static void archive(struct scene *scene, int64_t expected)
{
    int64_t moved = -1;
    scene_ok(scene, try_archive(scene, &moved));
    assert_int_equal(moved, expected);
}

static size_t steps_shown(struct scene *scene, const char *id)
{
    json_t *execution = NULL;
    scene_ok(scene, store_show(scene->store, id, &execution, &scene->error));
    size_t count = json_array_size(json_object_get(execution, "steps"));
    json_decref(execution);
    return count;
}

/* NULL = none. */
static const char *problem_of(struct scene *scene)
{
    static char text[1000];
    json_t *status = NULL;
    scene_ok(scene, store_status(scene->store, 1, &status, &scene->error));
    const char *problem = json_string_value(json_object_get(json_object_get(status, "archive"), "problem"));
    text_copy(text, sizeof text, problem == NULL ? "" : problem);
    json_decref(status);
    return problem == NULL ? NULL : text;
}

static void assert_found(const char *text, const char *part)
{
    if (text == NULL || strstr(text, part) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", part, text == NULL ? "(null)" : text);
    }
}

static void the_file_is_made_by_the_first_move_and_has_the_mode_of_the_store(void **state)
{
    struct scene *scene = *state;
    struct stat facts;
    assert_int_equal(chmod(scene->driver.url + strlen("sqlite:"), 0600), 0);
    const char *id = ended(scene);
    assert_int_equal(steps_shown(scene, id), 1);
    assert_int_not_equal(stat(archive_of(scene), &facts), 0);
    archive(scene, 1);
    assert_int_equal(stat(archive_of(scene), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    assert_int_equal(steps_shown(scene, id), 1);
}

/* A handle that has read before sees the archive that another handle made. */
static void a_reader_from_before_the_first_move_reads_the_archive(void **state)
{
    struct scene *scene = *state;
    struct store *store = scene->store;
    const char *id = ended(scene);
    assert_int_equal(steps_shown(scene, id), 1);
    scene->store = driver_open(&scene->driver, NULL);
    archive(scene, 1);
    store_close(scene->store);
    scene->store = store;
    assert_int_equal(steps_shown(scene, id), 1);
}

static void the_archive_of_another_store_is_refused(void **state)
{
    struct scene *scene = *state;
    struct scene *other = NULL;
    int64_t moved = 0;
    char kept[500];
    void *other_state = NULL;
    assert_int_equal(scene_open(&other_state), 0);
    other = other_state;
    const char *id = ended(scene);
    (void)ended(other);
    archive(scene, 1);
    archive(other, 1);
    (void)snprintf(kept, sizeof kept, "%s.kept", archive_of(scene));
    assert_int_equal(rename(archive_of(scene), kept), 0);
    char path[400];
    text_copy(path, sizeof path, archive_of(scene));
    assert_int_equal(rename(archive_of(other), path), 0);
    store_close(scene->store);
    scene->store = driver_open(&scene->driver, NULL);
    assert_int_equal(steps_shown(scene, id), 0);
    assert_found(problem_of(scene), "belongs to another store");
    const char *next = ended(scene);
    assert_int_equal(try_archive(scene, &moved), WEIR_STORE_NOT_WEIR);
    assert_found(scene->error.message, "belongs to another store");
    assert_found(scene->error.hint, "move it away");
    assert_int_equal(steps_shown(scene, next), 1);
    assert_int_equal(driver_archived_steps(&scene->driver), 1); /* the file was not changed */
    assert_int_equal(rename(kept, path), 0);
    assert_null(problem_of(scene));
    archive(scene, 1);
    assert_int_equal(steps_shown(scene, id), 1);
    /* The other scene closes with its check, for which its archive is lost. */
    assert_int_equal(scene_number(other, "UPDATE workflow_executions SET archived = 0, has_params = 0 RETURNING 1"), 1);
    assert_int_equal(scene_close(&other_state), 0);
}

static void a_removed_archive_is_reported_and_made_again(void **state)
{
    struct scene *scene = *state;
    struct bulk_result result = {0};
    const char *id = ended(scene);
    struct execution_filter filter = {.id = id};
    archive(scene, 1);
    assert_int_equal(unlink(archive_of(scene)), 0);
    store_close(scene->store);
    scene->store = driver_open(&scene->driver, NULL);
    assert_int_equal(steps_shown(scene, id), 0);
    assert_string_equal(scene_status_of(scene, id), "FAILED");
    assert_found(problem_of(scene), "is missing");
    scene_ok(scene, store_bulk(scene->store, BULK_RETRY, &filter, "", 1, &result, &scene->error));
    assert_int_equal(result.refused, 1);
    assert_found(result.refusal.message, "its params are in the archive, which is missing");
    const char *next = ended(scene);
    archive(scene, 1);
    assert_found(problem_of(scene), "older content is lost");
    assert_int_equal(steps_shown(scene, next), 1);
    scene_ok(scene, store_bulk(scene->store, BULK_PURGE, &filter, "", 1, &result, &scene->error));
    assert_int_equal(result.changed, 1);
}

/* The disk of the file is not there for a while. What an act finds missing then must not count as gone. */
static void an_archive_that_is_put_back_has_kept_its_content(void **state)
{
    struct scene *scene = *state;
    struct bulk_result result = {0};
    char kept[500];
    const char *retried = ended(scene);
    const char *dismissed = ended(scene);
    struct execution_filter first = {.id = retried};
    struct execution_filter second = {.id = dismissed};
    archive(scene, 2);
    (void)snprintf(kept, sizeof kept, "%s.kept", archive_of(scene));
    assert_int_equal(rename(archive_of(scene), kept), 0);
    store_close(scene->store);
    scene->store = driver_open(&scene->driver, NULL);
    scene_ok(scene, store_bulk(scene->store, BULK_RETRY, &first, "", 1, &result, &scene->error));
    assert_int_equal(result.refused, 1);
    scene_ok(scene, store_bulk(scene->store, BULK_DISMISS, &second, "", 1, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    assert_int_equal(rename(kept, archive_of(scene)), 0);
    archive(scene, 0);
    assert_int_equal(steps_shown(scene, retried), 1);
    assert_int_equal(steps_shown(scene, dismissed), 1);
    scene_ok(scene, store_bulk(scene->store, BULK_RETRY, &first, "", 1, &result, &scene->error));
    assert_int_equal(result.changed, 1);
}

/* A success would leave the content in a file that may come back. */
static void a_purge_without_the_archive_is_refused_until_the_file_is_back_or_given_up(void **state)
{
    struct scene *scene = *state;
    struct bulk_result result = {0};
    char kept[500];
    const char *first = ended(scene);
    const char *second = ended(scene);
    struct execution_filter filters[] = {{.id = first}, {.id = second}};
    archive(scene, 2);
    struct execution_filter present = {.id = ended(scene)};
    (void)snprintf(kept, sizeof kept, "%s.kept", archive_of(scene));
    assert_int_equal(rename(archive_of(scene), kept), 0);
    store_close(scene->store);
    scene->store = driver_open(&scene->driver, NULL);
    scene_ok(scene, store_bulk(scene->store, BULK_PURGE, &filters[0], "", 1, &result, &scene->error));
    assert_int_equal(result.changed, 0);
    assert_int_equal(result.refused, 1);
    assert_int_equal(result.first_refusal, WEIR_ILLEGAL_STATE);
    assert_found(result.refusal.message, "its content is in the archive, which is missing");
    assert_string_equal(scene_status_of(scene, first), "FAILED");
    scene_ok(scene, store_bulk(scene->store, BULK_PURGE, &present, "", 1, &result, &scene->error));
    assert_int_equal(result.changed, 1); /* its content is in the store */
    struct workspace_deletion deletion = {.name = "pro-co", .erases = true};
    struct deletion_result deleted = {.failed = 0};
    assert_int_equal(store_delete_workspace(scene->store, &deletion, &deleted, &scene->error), WEIR_ILLEGAL_STATE);
    assert_found(scene->error.message, "is not erased: the content of execution");
    assert_found(scene->error.hint, "weir workspace delete pro-co --erase");
    assert_int_equal(rename(kept, archive_of(scene)), 0);
    assert_int_equal(driver_archived_steps(&scene->driver), 2);
    scene_ok(scene, store_bulk(scene->store, BULK_PURGE, &filters[0], "", 1, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    assert_int_equal(driver_archived_steps(&scene->driver), 1);
    assert_int_equal(unlink(archive_of(scene)), 0);
    FILE *file = fopen(archive_of(scene), "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    scene_ok(scene, store_bulk(scene->store, BULK_PURGE, &filters[1], "", 1, &result, &scene->error));
    assert_int_equal(result.changed, 1);
}

/* A crash while the file was made. */
static void an_empty_file_becomes_the_archive(void **state)
{
    struct scene *scene = *state;
    FILE *file = fopen(archive_of(scene), "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    const char *id = ended(scene);
    assert_int_equal(steps_shown(scene, id), 1);
    archive(scene, 1);
    assert_int_equal(steps_shown(scene, id), 1);
    assert_null(problem_of(scene));
}

static void other_files_of_that_name_are_refused(void **state)
{
    struct scene *scene = *state;
    sqlite3 *database = NULL;
    int64_t moved = 0;
    (void)ended(scene);
    assert_int_equal(mkdir(archive_of(scene), 0700), 0);
    assert_int_equal(try_archive(scene, &moved), WEIR_STORE_NOT_WEIR);
    assert_found(scene->error.message, "is a folder");
    assert_int_equal(rmdir(archive_of(scene)), 0);
    assert_int_equal(sqlite3_open(archive_of(scene), &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database, "CREATE TABLE notes (text)", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
    assert_int_equal(try_archive(scene, &moved), WEIR_STORE_NOT_WEIR);
    assert_found(scene->error.message, "another application");
    assert_int_equal(unlink(archive_of(scene)), 0);
    assert_int_equal(symlink("/nowhere/weir-archive.db", archive_of(scene)), 0);
    assert_int_equal(try_archive(scene, &moved), WEIR_STORE_UNREACHABLE);
    assert_found(scene->error.message, "cannot make the archive");
    assert_int_equal(unlink(archive_of(scene)), 0);
    archive(scene, 1);
}

/* To a larger disk. */
static void the_archive_may_be_a_symbolic_link(void **state)
{
    struct scene *scene = *state;
    char target[400];
    struct stat facts;
    (void)snprintf(target, sizeof target, "%s/elsewhere", scene->driver.place);
    const char *id = ended(scene);
    assert_int_equal(symlink(target, archive_of(scene)), 0);
    archive(scene, 1);
    assert_int_equal(stat(target, &facts), 0);
    assert_int_equal(steps_shown(scene, id), 1);
    store_close(scene->store);
    assert_int_equal(unlink(archive_of(scene)), 0);
    assert_int_equal(rename(target, archive_of(scene)), 0);
    scene->store = driver_open(&scene->driver, NULL);
    assert_int_equal(steps_shown(scene, id), 1);
}

/* The state after a crash behind the first commit: the archive has a copy, and the store says nothing of it. */
static void a_copy_that_a_crash_has_left_is_invisible_and_replaced(void **state)
{
    struct scene *scene = *state;
    sqlite3 *database = NULL;
    const char *id = ended(scene);
    const char *first = ended(scene);
    struct execution_filter filter = {.id = first};
    struct bulk_result result = {0};
    archive(scene, 2);
    scene_ok(scene, store_bulk(scene->store, BULK_DISMISS, &filter, "", 1, &result, &scene->error)); /* brings it back */
    assert_int_equal(driver_archived_steps(&scene->driver), 2);
    assert_int_equal(sqlite3_open(archive_of(scene), &database), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(database, "UPDATE workflow_node_executions SET error_code = 'of the copy'", NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
    assert_int_equal(steps_shown(scene, first), 1);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM execution_steps WHERE error_code = 'of the copy'"), 0);
    archive(scene, 1);
    assert_int_equal(steps_shown(scene, first), 1);
    assert_int_equal(steps_shown(scene, id), 1);
    assert_int_equal(driver_archived_steps(&scene->driver), 2);
}

static void a_backup_has_the_archive(void **state)
{
    struct scene *scene = *state;
    struct store *store = scene->store;
    char url[300];
    char path[400];
    const char *id = ended(scene);
    archive(scene, 1);
    text_copy(url, sizeof url, scene->driver.url);
    (void)snprintf(path, sizeof path, "%s/copy.db", scene->driver.place);
    scene_ok(scene, store_backup(store, path, &scene->error));
    assert_int_equal(store_backup(store, path, &scene->error), WEIR_CONFLICT);
    (void)snprintf(scene->driver.url, sizeof scene->driver.url, "sqlite:%s", path);
    scene->store = driver_open(&scene->driver, NULL);
    assert_int_equal(steps_shown(scene, id), 1);
    assert_null(problem_of(scene));
    scene_check(scene);
    store_close(scene->store);
    scene->store = store;
    text_copy(scene->driver.url, sizeof scene->driver.url, url);
    assert_int_equal(unlink(path), 0);
    /* Where only the copy of the archive is in the way. */
    assert_int_equal(store_backup(store, path, &scene->error), WEIR_CONFLICT);
    assert_found(scene->error.message, "copy-archive.db");
    (void)snprintf(path, sizeof path, "%s/copy-archive.db", scene->driver.place);
    assert_int_equal(unlink(path), 0);
}

static void the_check_of_the_store_finds_lost_content(void **state)
{
    struct scene *scene = *state;
    json_t *problems = NULL;
    sqlite3 *database = NULL;
    (void)ended(scene);
    archive(scene, 1);
    scene_check(scene);
    assert_int_equal(sqlite3_open(archive_of(scene), &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database, "DELETE FROM execution_params", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
    scene_ok(scene, store_check(scene->store, &problems, &scene->error));
    assert_int_equal(json_array_size(problems), 1);
    assert_found(json_string_value(json_array_get(problems, 0)), "is archived without its params");
    json_decref(problems);
    assert_int_equal(scene_number(scene, "UPDATE workflow_executions SET has_params = 0 RETURNING 1"), 1);
}

/* Keeps a copy of the file in `kept`, and overwrites all pages behind the first one. */
static void damage(struct scene *scene, char *kept, size_t size)
{
    static const char noise[4096] = {[0] = 'x'};
    char page[sizeof noise];
    store_close(scene->store); /* the log goes into the file */
    (void)snprintf(kept, size, "%s.kept", archive_of(scene));
    assert_int_equal(rename(archive_of(scene), kept), 0);
    FILE *from = fopen(kept, "r");
    FILE *to = fopen(archive_of(scene), "w");
    assert_non_null(from);
    assert_non_null(to);
    for (int at = 0; fread(page, sizeof page, 1, from) == 1; at++) {
        assert_int_equal(fwrite(at == 0 ? page : noise, sizeof noise, 1, to), 1);
    }
    assert_int_equal(fclose(from), 0);
    assert_int_equal(fclose(to), 0);
    scene->store = driver_open(&scene->driver, NULL);
}

/* One that repeats the key of an archived execution, as a program or as a child, reads the archive. The others go on. */
static void a_damaged_archive_holds_up_only_what_reads_it(void **state)
{
    struct scene *scene = *state;
    char kept[500];
    struct enqueue_request keyed = {.workspace = "free-co", .workflow = "hello", .idempotency_key = "k"};
    struct enqueue_request requests[2];
    struct enqueue_result results[2];
    const struct planned by_key = {.count = 1, .wanted = -1, .leaves = true, .is_single = true, .keys = "[\"k\"]"};
    const struct planned plain = {.count = 1, .wanted = -1};
    keyed.params = "{\"n\":1}";
    keyed.params_length = strlen(keyed.params);
    (void)scene_enqueue_request(scene, &keyed);
    end_children(scene, 1, RECORD_COMPLETED);
    archive(scene, 1);
    damage(scene, kept, sizeof kept);
    requests[0] = keyed;
    requests[1] = (struct enqueue_request){.workspace = "pro-co", .workflow = "hello"};
    scene_ok(scene, store_enqueue(scene->store, requests, 2, results, &scene->error));
    assert_true(results[0].duplicate);
    assert_int_equal(results[1].status, WEIR_OK);
    struct claimed_item other = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &other), WEIR_OK);
    (void)begin(scene, &by_key);
    (void)begin(scene, &plain);
    struct children_advance done = advance(scene);
    assert_int_equal(done.started, 1);
    end_children(scene, 1, RECORD_COMPLETED);
    assert_int_equal(rename(kept, archive_of(scene)), 0);
    store_close(scene->store);
    scene->store = driver_open(&scene->driver, NULL);
    assert_int_equal(advance(scene).settled, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(the_file_is_made_by_the_first_move_and_has_the_mode_of_the_store),
        SCENE_TEST(a_reader_from_before_the_first_move_reads_the_archive),
        SCENE_TEST(the_archive_of_another_store_is_refused),
        SCENE_TEST(a_removed_archive_is_reported_and_made_again),
        SCENE_TEST(an_archive_that_is_put_back_has_kept_its_content),
        SCENE_TEST(a_purge_without_the_archive_is_refused_until_the_file_is_back_or_given_up),
        SCENE_TEST(an_empty_file_becomes_the_archive),
        SCENE_TEST(other_files_of_that_name_are_refused),
        SCENE_TEST(the_archive_may_be_a_symbolic_link),
        SCENE_TEST(a_copy_that_a_crash_has_left_is_invisible_and_replaced),
        SCENE_TEST(a_backup_has_the_archive),
        SCENE_TEST(the_check_of_the_store_finds_lost_content),
        SCENE_TEST(a_damaged_archive_holds_up_only_what_reads_it),
    };
    return cmocka_run_group_tests_name("archive", tests, NULL, NULL);
}
