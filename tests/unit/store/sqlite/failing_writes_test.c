/* Fails the first, the second, the third ... write, sync or truncation of a small scenario, until none is left to fail.
 * After each: no crash; what was acknowledged is there, also after a crash at that moment; what was refused as transient is
 * not; and the store's check finds nothing. */
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conformance/scene.h"
#include "unit/store/sqlite/failing_vfs.h"

/* The address sanitizer makes a call ten times as long. There a sweep has every fifth call, and the five sweeps have all.
 */
#ifdef __SANITIZE_ADDRESS__
enum { STRIDE = 5 };
#else
enum { STRIDE = 1 };
#endif
enum { REQUESTS = 6, SWEEP_MOST = 2000 };

struct attempt {
    enum weir_status enqueued[REQUESTS];
    char ids[REQUESTS][UUID_TEXT_MAX];
    struct claimed_item claimed;
    bool was_claimed;
    enum weir_status recorded;
};

static void run_scenario(struct scene *scene, struct attempt *attempt)
{
    for (int i = 0; i < REQUESTS; i++) {
        struct enqueue_result result = {.status = WEIR_FAILED};
        (void)snprintf(attempt->ids[i], UUID_TEXT_MAX, "0198c2f1-0000-7000-8000-%012d", i);
        struct enqueue_request request = {
            .workspace = "free-co", .workflow = "hello", .id = attempt->ids[i], .params = "{\"a\":1}", .params_length = 7};
        attempt->enqueued[i] = store_enqueue(scene->store, &request, 1, &result, &scene->error);
        if (attempt->enqueued[i] == WEIR_OK) {
            assert_int_equal(result.status, WEIR_OK);
        } else {
            assert_true(strlen(scene->error.message) > 0);
        }
    }
    struct claim_request request = {.node_id = scene->node, .group = "default", .limit = 10};
    struct claim_result claim = {0};
    attempt->was_claimed =
        claim_through_scheduler(scene->store, &request, &scene->arena, &claim, &scene->error) == WEIR_OK &&
        claim.count == 1;
    attempt->recorded = WEIR_FAILED;
    if (attempt->was_claimed) {
        attempt->claimed = claim.items[0];
        struct record record = scene_record_of(RECORD_COMPLETED, &claim.items[0]);
        struct record_summary summary = {0};
        attempt->recorded = store_record(scene->store, scene->node, &record, 1, &summary, &scene->error);
    }
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

static const char *status_in(struct driver_under_test *driver, const char *id, json_t **rows)
{
    char sql[200];
    (void)snprintf(sql, sizeof sql, "SELECT status FROM executions WHERE id = '%s'", id);
    *rows = driver_rows(driver, sql);
    return json_array_size(*rows) == 0 ? NULL : json_text_at(json_array_get(*rows, 0), "status");
}

static void assert_told_the_truth(struct driver_under_test *driver, const struct attempt *attempt, int n)
{
    for (int i = 0; i < REQUESTS; i++) {
        json_t *rows = NULL;
        const char *status = status_in(driver, attempt->ids[i], &rows);
        if (attempt->enqueued[i] == WEIR_OK && status == NULL) {
            fail_msg("call %d failed: an acknowledged enqueue is gone", n);
        }
        if (weir_status_kind(attempt->enqueued[i]) == WEIR_KIND_TRANSIENT && status != NULL) {
            fail_msg("call %d failed: an enqueue was answered %s, \"nothing was changed\", and is there", n,
                     weir_status_name(attempt->enqueued[i]));
        }
        json_decref(rows);
    }
    if (attempt->was_claimed) {
        json_t *rows = NULL;
        const char *status = status_in(driver, attempt->claimed.id, &rows);
        assert_non_null(status);
        assert_string_not_equal(status, "PENDING");
        if (attempt->recorded == WEIR_OK) {
            assert_string_equal(status, "COMPLETED");
        } else if (weir_status_kind(attempt->recorded) == WEIR_KIND_TRANSIENT) {
            assert_string_equal(status, "CLAIMED");
        }
        json_decref(rows);
    }
}

/* The files as they are at this moment, opened elsewhere: the rest after a crash. */
static void look_at_crash(struct scene *scene, const struct attempt *attempt, int n)
{
    struct driver_under_test crashed;
    json_t *problems = NULL;
    struct weir_error error = {0};
    driver_make(&crashed);
    copy_file(scene->driver.place, crashed.place, "weir.db");
    copy_file(scene->driver.place, crashed.place, "weir.db-wal");
    struct store *store = driver_open(&crashed, NULL);
    if (store_check(store, &problems, &error) != WEIR_OK || json_array_size(problems) != 0) {
        char *text = json_dumps(problems, 0);
        fail_msg("call %d failed: after a crash: %s %s", n, error.message, text);
    }
    json_decref(problems);
    assert_told_the_truth(&crashed, attempt, n);
    store_close(store);
    driver_remove(&crashed);
}

/* True when the n-th call was reached. */
static bool sweep_once(int n, int code, bool stays)
{
    void *state = NULL;
    struct attempt attempt = {0};
    failing_vfs_arm(0, 0, false);
    (void)scene_open(&state);
    struct scene *scene = state;
    failing_vfs_arm(n, code, stays);
    run_scenario(scene, &attempt);
    bool reached = failing_vfs_has_failed();
    failing_vfs_arm(0, 0, false);
    look_at_crash(scene, &attempt, n);
    store_close(scene->store);
    scene->store = driver_open(&scene->driver, NULL);
    assert_told_the_truth(&scene->driver, &attempt, n);
    (void)scene_close(&state);
    return reached;
}

static void sweep(int code, bool stays)
{
    static int sweeps;
    int n = 1 + sweeps++ % STRIDE;
    int failed = 0;
    while (n < SWEEP_MOST && sweep_once(n, code, stays)) {
        n += STRIDE;
        failed++;
    }
    print_message("# %d calls were made to fail, the last of them %d\n", failed, n - STRIDE);
    assert_in_range(n, REQUESTS * 2, SWEEP_MOST - 1);
}

static void one_failing_call_is_never_a_lie(void **state)
{
    (void)state;
    sweep(SQLITE_IOERR_WRITE, false);
}

static void one_full_write_is_never_a_lie(void **state)
{
    (void)state;
    sweep(SQLITE_FULL, false);
}

static void one_short_write_is_never_a_lie(void **state)
{
    (void)state;
    failing_vfs_write_half(true);
    sweep(SQLITE_IOERR_WRITE, false);
    failing_vfs_write_half(false);
}

/* The disk is full from a write on that was cut short, for good. */
static void a_disk_that_fills_up_is_never_a_lie(void **state)
{
    (void)state;
    failing_vfs_write_half(true);
    sweep(SQLITE_FULL, true);
    failing_vfs_write_half(false);
}

static void a_disk_that_fails_for_good_is_never_a_lie(void **state)
{
    (void)state;
    sweep(SQLITE_IOERR_WRITE, true);
}

int main(void)
{
    failing_vfs_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_failing_call_is_never_a_lie),
        cmocka_unit_test(one_full_write_is_never_a_lie),
        cmocka_unit_test(one_short_write_is_never_a_lie),
        cmocka_unit_test(a_disk_that_fills_up_is_never_a_lie),
        cmocka_unit_test(a_disk_that_fails_for_good_is_never_a_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
