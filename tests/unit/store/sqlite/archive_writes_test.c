/* Fails the first, the second, the third ... write, sync or truncation of moves to the archive, a retry and a purge, until
 * none is left to fail. After each, also after a crash at that moment, no content is lost and the store's check finds
 * nothing. One exception: a purge that failed may leave the row of its execution without content, and its repetition
 * removes it. */
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include "conformance/scene.h"
#include "unit/store/sqlite/failing_vfs.h"

enum { SWEEP_MOST = 2000 };

struct attempt {
    const char *kept;
    const char *purged;
    bool was_purged;
    bool purge_began;
};

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

static void archive(struct scene *scene, int64_t before_us)
{
    struct archive_order order = {.ended_before_us = before_us, .limit = ARCHIVE_BATCH, .is_whole = true};
    struct archive_result result;
    enum weir_status status = store_archive(scene->store, &order, &result, &scene->error);
    assert_true(status == WEIR_OK || strlen(scene->error.message) > 0);
}

/* Moves both, brings one back by a dismissal, moves it again, and purges the other one. */
static void run_scenario(struct scene *scene, struct attempt *attempt, int64_t before_us)
{
    struct execution_filter kept = {.id = attempt->kept};
    struct execution_filter purged = {.id = attempt->purged};
    struct bulk_result result = {0};
    archive(scene, before_us);
    enum weir_status status = store_bulk(scene->store, BULK_DISMISS, &kept, "", 1, &result, &scene->error);
    assert_true(status == WEIR_OK || strlen(scene->error.message) > 0);
    archive(scene, before_us);
    attempt->purge_began = true;
    attempt->was_purged = store_bulk(scene->store, BULK_PURGE, &purged, "", 1, &result, &scene->error) == WEIR_OK;
}

static void copy_file(const char *from_place, const char *to_place, const char *name)
{
    char path[300];
    char buffer[65536];
    ssize_t length;
    (void)snprintf(path, sizeof path, "%s/%s", from_place, name);
    int from = open(path, O_RDONLY);
    if (from < 0) {
        return;
    }
    (void)snprintf(path, sizeof path, "%s/%s", to_place, name);
    int to = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    assert_true(to >= 0);
    while ((length = read(from, buffer, sizeof buffer)) > 0) {
        assert_int_equal(write(to, buffer, (size_t)length), length);
    }
    (void)close(from);
    (void)close(to);
}

static void assert_shown(struct store *store, const char *id, int n)
{
    json_t *execution = NULL;
    struct weir_error error = {0};
    if (store_show(store, id, &execution, &error) != WEIR_OK) {
        fail_msg("call %d failed: %s", n, error.message);
    }
    if (json_array_size(json_object_get(execution, "steps")) != 1 ||
        json_integer_value(json_object_get(json_object_get(execution, "params"), "n")) != 1) {
        fail_msg("call %d failed: content is lost: %s", n, json_dumps(execution, 0));
    }
    json_decref(execution);
}

/* Content on exactly one side, and a purge is whole or can be repeated. */
static void assert_whole(struct store *store, const struct attempt *attempt, int n)
{
    struct weir_error error = {0};
    struct execution_filter filter = {.id = attempt->purged};
    struct bulk_result result = {0};
    json_t *problems = NULL;
    json_t *execution = NULL;
    assert_shown(store, attempt->kept, n);
    bool is_there = store_show(store, attempt->purged, &execution, &error) == WEIR_OK;
    json_decref(execution);
    assert_false(is_there && attempt->was_purged);
    if (is_there && !attempt->purge_began) {
        assert_shown(store, attempt->purged, n);
    }
    if (is_there) {
        assert_int_equal(store_bulk(store, BULK_PURGE, &filter, "", 1, &result, &error), WEIR_OK);
        assert_int_equal(result.changed, 1);
    }
    if (store_check(store, &problems, &error) != WEIR_OK || json_array_size(problems) != 0) {
        fail_msg("call %d failed: %s %s", n, error.message, json_dumps(problems, 0));
    }
    json_decref(problems);
}

/* The files as they are at this moment, opened elsewhere: the rest after a crash. */
static void look_at_crash(struct scene *scene, const struct attempt *attempt, int n)
{
    static const char *const names[] = {"weir.db", "weir.db-wal", "weir-archive.db", "weir-archive.db-wal"};
    struct driver_under_test crashed;
    driver_make(&crashed);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        copy_file(scene->driver.place, crashed.place, names[i]);
    }
    struct store *store = driver_open(&crashed, NULL);
    assert_whole(store, attempt, n);
    store_close(store);
    driver_remove(&crashed);
}

/* True when the n-th call was reached. */
static bool sweep_once(int n, int code, bool stays)
{
    void *state = NULL;
    failing_vfs_arm(0, 0, false);
    (void)scene_open(&state);
    struct scene *scene = state;
    struct attempt attempt = {.kept = ended(scene), .purged = ended(scene)};
    scene_pass(scene, SECONDS(1));
    scene_beat(scene, scene->node);
    int64_t before_us = scene_now(scene);
    failing_vfs_arm(n, code, stays);
    run_scenario(scene, &attempt, before_us);
    bool reached = failing_vfs_has_failed();
    failing_vfs_arm(0, 0, false);
    look_at_crash(scene, &attempt, n);
    store_close(scene->store);
    scene->store = driver_open(&scene->driver, NULL);
    assert_whole(scene->store, &attempt, n);
    (void)scene_close(&state);
    return reached;
}

static void sweep(int code, bool stays)
{
    int n = 1;
    while (sweep_once(n, code, stays)) {
        assert_true(n < SWEEP_MOST);
        n++;
    }
    print_message("# %d calls were made to fail\n", n - 1);
    assert_true(n > 10);
}

static void a_failing_disk_loses_no_content(void **state)
{
    (void)state;
    sweep(SQLITE_IOERR_WRITE, false);
}

static void a_full_disk_loses_no_content(void **state)
{
    (void)state;
    sweep(SQLITE_FULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failing_disk_loses_no_content),
        cmocka_unit_test(a_full_disk_loses_no_content),
    };
    failing_vfs_install();
    return cmocka_run_group_tests_name("archive_writes", tests, NULL, NULL);
}
