/* Files that are no store, or not any more: each with a clear answer, and none of them touched. */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/scene.h"

static void path_in(const struct scene *scene, const char *name, char *to, size_t size)
{
    (void)snprintf(to, size, "%s/%s", scene->driver.place, name);
}

static enum weir_status open_at(const char *path, bool create, struct weir_error *error)
{
    struct store_options options = {.url = path, .create = create, .deadline_us = SECONDS(1)};
    struct store *store = NULL;
    enum weir_status status = store_open(&options, &store, error);
    store_close(store);
    return status;
}

static void write_file(const char *path, const char *bytes, size_t length)
{
    int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, length), length);
    (void)close(file);
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *database = NULL;
    char *message = NULL;
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    if (sqlite3_exec(database, sql, NULL, NULL, &message) != SQLITE_OK) {
        fail_msg("%s: %s", sql, message);
    }
    (void)sqlite3_close(database);
}

static void a_folder_is_no_store(void **state)
{
    struct scene *scene = *state;
    struct weir_error error = {0};
    assert_int_equal(open_at(scene->driver.place, true, &error), WEIR_STORE_UNREACHABLE);
    assert_non_null(strstr(error.message, "folder"));
    assert_true(strlen(error.hint) > 0);
}

/* Under another hard link it would have another log: both would be written, and neither see the other. */
static void a_file_with_two_names_is_refused_under_both(void **state)
{
    struct scene *scene = *state;
    char path[300];
    char other[300];
    char folder[300];
    struct weir_error error = {0};
    path_in(scene, "weir.db", path, sizeof path);
    path_in(scene, "elsewhere", folder, sizeof folder);
    path_in(scene, "elsewhere/other.db", other, sizeof other);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(link(path, other), 0);
    const char *const names[] = {path, other};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(open_at(names[i], false, &error), WEIR_STORE_UNREACHABLE);
        assert_non_null(strstr(error.message, "2 names"));
        assert_non_null(strstr(error.hint, "ln -s"));
    }
    (void)scene_enqueue(scene, "pro-co"); /* a process that has it open goes on */
    assert_int_equal(unlink(other), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(open_at(path, false, &error), WEIR_OK);
}

static void a_missing_file_is_not_made_unless_asked_for(void **state)
{
    struct scene *scene = *state;
    char path[300];
    struct weir_error error = {0};
    path_in(scene, "none.db", path, sizeof path);
    assert_int_equal(open_at(path, false, &error), WEIR_STORE_UNREACHABLE);
    assert_non_null(strstr(error.message, "none.db"));
    assert_non_null(strstr(error.hint, "weir"));
    assert_int_equal(access(path, F_OK), -1);
    path_in(scene, "no/such/folder.db", path, sizeof path);
    assert_int_equal(open_at(path, true, &error), WEIR_STORE_UNREACHABLE);
}

static void what_is_no_database_is_not_touched(void **state)
{
    struct scene *scene = *state;
    char path[300];
    char text[5000];
    char after[5000];
    struct weir_error error = {0};
    memset(text, 'x', sizeof text);
    path_in(scene, "notes.txt", path, sizeof path);
    write_file(path, text, sizeof text);
    assert_int_equal(open_at(path, true, &error), WEIR_STORE_NOT_WEIR);
    assert_true(strlen(error.hint) > 0);
    int file = open(path, O_RDONLY);
    assert_int_equal(read(file, after, sizeof after), sizeof after);
    (void)close(file);
    assert_memory_equal(text, after, sizeof text);
    (void)unlink(path);
}

static void the_database_of_another_application_is_not_touched(void **state)
{
    struct scene *scene = *state;
    char path[300];
    struct stat before;
    struct stat after;
    struct weir_error error = {0};
    static const char *const others[] = {"CREATE TABLE customers (id)", "PRAGMA application_id = 252006673",
                                         "PRAGMA application_id = 7; CREATE TABLE workflow_execution_queue (id)"};
    for (size_t i = 0; i < 3; i++) {
        path_in(scene, "other.db", path, sizeof path);
        run_sql(path, others[i]);
        assert_int_equal(stat(path, &before), 0);
        assert_int_equal(open_at(path, true, &error), WEIR_STORE_NOT_WEIR);
        assert_int_equal(stat(path, &after), 0);
        assert_int_equal(before.st_size, after.st_size);
        assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
        (void)unlink(path);
    }
}

static void a_schema_that_is_newer_missing_or_older_is_told(void **state)
{
    struct scene *scene = *state;
    char path[300];
    struct weir_error error = {0};
    struct store *store = NULL;
    static const struct {
        const char *sql;
        enum weir_status status;
    } cases[] = {
        {"PRAGMA user_version = 9999", WEIR_SCHEMA_NEWER},
        {"PRAGMA user_version = 1; UPDATE store_state SET views = 'of another program'", WEIR_SCHEMA_OLDER},
        {"PRAGMA user_version = 0", WEIR_SCHEMA_MISSING},
    };
    path_in(scene, "weir.db", path, sizeof path);
    for (size_t i = 0; i < 3; i++) {
        run_sql(path, cases[i].sql);
        struct store_options options = {.url = path};
        enum weir_status status = store_open(&options, &store, &error);
        if (status == WEIR_OK) {
            status = store_require_schema(store, &error);
            if (i == 0) {
                assert_int_equal(store_migrate(store, NULL, NULL), WEIR_SCHEMA_NEWER);
            }
            store_close(store);
        }
        assert_int_equal(status, cases[i].status);
        assert_true(strlen(error.hint) > 0);
    }
    run_sql(path, "PRAGMA user_version = 2");
}

static void a_store_that_may_not_be_written_says_so(void **state)
{
    struct scene *scene = *state;
    char path[300];
    path_in(scene, "weir.db", path, sizeof path);
    store_close(scene->store);
    assert_int_equal(chmod(scene->driver.place, 0555), 0);
    assert_int_equal(chmod(path, 0444), 0);
    pid_t child = test_fork();
    if (child == 0) { /* as nobody: root may write everything */
        struct weir_error error = {0};
        if (setgid(65534) != 0 || setuid(65534) != 0) {
            _exit(access(path, W_OK) == 0 ? 3 : 0);
        }
        enum weir_status status = open_at(path, true, &error);
        _exit(status == WEIR_STORE_UNREACHABLE && strlen(error.hint) > 0 ? 0 : 1);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(chmod(scene->driver.place, 0755), 0);
    assert_int_equal(chmod(path, 0644), 0);
    scene->store = driver_open(&scene->driver, NULL);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

/* Flips bytes all over the file: an answer each time, never a crash, never "all is well" about damage that matters. */
static void a_corrupt_file_is_told_and_never_crashes(void **state)
{
    struct scene *scene = *state;
    char path[300];
    struct weir_error error = {0};
    struct stat facts;
    scene_enqueue_many(scene, "big-co", 300);
    path_in(scene, "copy.db", path, sizeof path);
    scene_ok(scene, store_backup(scene->store, path, &scene->error));
    assert_int_equal(stat(path, &facts), 0);
    int told = 0;
    for (off_t at = 4096; at + 64 < facts.st_size; at += facts.st_size / 40) {
        char saved[64];
        char noise[64];
        int file = open(path, O_RDWR);
        assert_int_equal(pread(file, saved, sizeof saved, at), sizeof saved);
        memset(noise, 0xFF, sizeof noise);
        assert_int_equal(pwrite(file, noise, sizeof noise, at), sizeof noise);
        struct store_options options = {.url = path, .clock = &scene->driver.time.clock};
        struct store *store = NULL;
        json_t *problems = NULL;
        enum weir_status status = store_open(&options, &store, &error);
        if (status == WEIR_OK) {
            json_t *page = NULL;
            struct list_options list = {.kind = LIST_EXECUTIONS, .limit = 1000};
            (void)(store_list(store, &list, &page, &error) == WEIR_OK);
            json_decref(page);
            status = store_check(store, &problems, &error);
            told += status != WEIR_OK || json_array_size(problems) > 0;
            json_decref(problems);
            store_close(store);
        } else {
            told++;
        }
        assert_int_equal(pwrite(file, saved, sizeof saved, at), sizeof saved);
        (void)close(file);
    }
    print_message("# %d of 40 damages were told\n", told);
    assert_true(told >=
                5); /* a byte within a payload, or behind the last cell of a page, breaks nothing that can be seen */
    (void)unlink(path);
}

/* Another program's transaction: the call answers within its own deadline. */
static void a_locked_file_is_busy_within_the_deadline(void **state)
{
    struct scene *scene = *state;
    char path[300];
    int pipe_ends[2];
    char ready = 0;
    path_in(scene, "weir.db", path, sizeof path);
    assert_int_equal(pipe(pipe_ends), 0);
    pid_t child = test_fork();
    if (child == 0) {
        sqlite3 *database = NULL;
        bool held = sqlite3_open(path, &database) == SQLITE_OK &&
                    sqlite3_exec(database, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;
        (void)!write(pipe_ends[1], held ? "y" : "n", 1);
        (void)pause();
        _exit(0);
    }
    assert_int_equal(read(pipe_ends[0], &ready, 1), 1);
    assert_int_equal(ready, 'y');
    struct store_options options = {.url = scene->driver.url, .deadline_us = 300000, .clock = &scene->driver.time.clock};
    struct store *store = NULL;
    struct enqueue_request request = {.workspace = "pro-co", .workflow = "hello"};
    struct enqueue_result result;
    scene_ok(scene, store_open(&options, &store, &scene->error));
    int64_t began_us = clock_boot(clock_system());
    assert_int_equal(store_enqueue(store, &request, 1, &result, &scene->error), WEIR_STORE_BUSY);
    int64_t took_us = clock_boot(clock_system()) - began_us;
    assert_true(took_us >= 250000 && took_us < STORE_DEADLINE_US);
    assert_int_equal(weir_status_kind(scene->error.status), WEIR_KIND_TRANSIENT);
    json_t *status = NULL; /* readers do not wait for a writer */
    scene_ok(scene, store_status(store, 1, &status, &scene->error));
    json_decref(status);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    scene_ok(scene, store_enqueue(store, &request, 1, &result, &scene->error));
    store_close(store);
    (void)close(pipe_ends[0]);
    (void)close(pipe_ends[1]);
}

static void a_busy_handle_of_the_same_process_waits_its_turn(void **state)
{
    struct scene *scene = *state;
    struct store *second = NULL;
    scene_ok(scene, store_open_again(scene->store, &second, &scene->error));
    for (int i = 0; i < 50; i++) {
        struct enqueue_request request = {.workspace = "pro-co", .workflow = "hello"};
        struct enqueue_result result;
        scene_ok(scene, store_enqueue(i % 2 == 0 ? second : scene->store, &request, 1, &result, &scene->error));
    }
    store_close(second);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 50);
}

static void too_few_descriptors_are_told_as_such(void **state)
{
    struct scene *scene = *state;
    char path[300];
    struct rlimit before;
    path_in(scene, "weir.db", path, sizeof path);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = open("/dev/null", O_RDONLY);
    assert_true(next >= 0);
    struct rlimit low = {.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
    (void)close(next);
    struct weir_error error = {0};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    enum weir_status status = open_at(path, false, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, WEIR_STORE_UNREACHABLE);
    assert_non_null(strstr(error.message, "too many open files"));
    assert_non_null(strstr(error.hint, "ulimit -n"));
}

static void a_missing_lock_table_is_told_by_name(void **state)
{
    struct scene *scene = *state;
    char path[300];
    struct lock_request request = {.name = "duty", .holder = "me", .at_most_us = SECONDS(1)};
    path_in(scene, "weir.db", path, sizeof path);
    run_sql(path, "ALTER TABLE shedlock RENAME TO elsewhere");
    enum weir_status status = store_lock(scene->store, &request, &scene->error);
    assert_int_equal(status, WEIR_SCHEMA_MISSING);
    assert_non_null(strstr(scene->error.message, "shedlock"));
    assert_non_null(strstr(scene->error.hint, "weir store"));
    run_sql(path, "ALTER TABLE elsewhere RENAME TO shedlock");
}

static void an_idle_store_is_not_written(void **state)
{
    struct scene *scene = *state;
    char path[300];
    struct stat before;
    struct stat after;
    struct lock_request mine = {.name = "duty", .holder = "mine", .at_most_us = SECONDS(60)};
    struct published published;
    static const char report[] =
        "{\"name\":\"report\",\"schedules\":{\"a\":{\"every\":\"10s\",\"workspaces\":[\"pro-co\"]}},"
        "\"steps\":{\"a\":{\"exec\":[\"true\"]}}}";
    scene->keeps_claimers = true;
    scene_ok(scene, store_act_as(scene->store, "ann", NULL, &scene->error));
    scene_ok(scene, store_publish(scene->store, "report", NULL, report, NULL, &published, &scene->error));
    scene_enqueue_many(scene, "free-co", 2);
    (void)scene_claim_one(scene);
    for (int i = 0; i < 10; i++) { /* its books are published with one of them */
        assert_int_equal(scene_claim(scene, 10).count, 0);
    }
    scene_ok(scene, store_lock(scene->store, &mine, &scene->error));
    path_in(scene, "weir.db-wal", path, sizeof path);
    assert_int_equal(stat(path, &before), 0);
    for (int i = 0; i < 100; i++) {
        struct recover_options options = {
            .node_id = scene->node, .group = "default", .stale_claim_us = STALE_CLAIM_US, .limit = 100};
        struct recover_result result;
        struct lock_request lock = {.name = "duty", .holder = "other", .at_most_us = SECONDS(1)};
        assert_int_equal(scene_claim(scene, 10).count, 0);
        scene_ok(scene, store_recover(scene->store, &options, &result, &scene->error));
        assert_int_equal(store_lock(scene->store, &lock, &scene->error), WEIR_CONFLICT);
        scene_ok(scene, store_publish(scene->store, "report", NULL, report, NULL, &published, &scene->error));
        assert_true(published.unchanged && published.schedule_count == 0);
    }
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    assert_int_equal(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
    assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
}

static int64_t store_now(struct scene *scene)
{
    int64_t now_us = 0;
    scene_ok(scene, store_time(scene->store, &now_us, &scene->error));
    return now_us;
}

/* A machine without a battery: its wall clock comes back an hour late, its clock since boot from zero. */
static void time_never_goes_back_over_a_boot(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "free-co");
    scene_pass(scene, SECONDS(600)); /* nobody beats: nothing but the enqueues tells the time */
    (void)scene_enqueue(scene, "free-co");
    int64_t before_us = store_now(scene);
    scene->driver.time.clock.boot_id = "second";
    scene->driver.time.boot_us = SECONDS(3);
    scene->driver.time.wall_us -= SECONDS(3600);
    int64_t after_us = store_now(scene);
    assert_true(after_us >= before_us && after_us <= before_us + SECONDS(2));
    (void)scene_enqueue(scene, "free-co"); /* the first that writes after a boot sets the clock; it goes on from there */
    scene_pass(scene, SECONDS(10));
    assert_true(store_now(scene) >= after_us + SECONDS(10) && store_now(scene) <= after_us + SECONDS(12));
}

/* The reason that the view gives; the same as why's, or the test ends. */
static void assert_reason(struct scene *scene, const char *id, const char *reason)
{
    json_t *shown = NULL;
    json_t *why = NULL;
    scene_ok(scene, store_show(scene->store, id, &shown, &scene->error));
    scene_ok(scene, store_why(scene->store, id, &why, &scene->error));
    assert_string_equal(json_text_at(why, "pending_reason"), reason);
    assert_string_equal(json_text_at(shown, "pending_reason"), reason);
    json_decref(shown);
    json_decref(why);
}

/* The machine boots with a wall clock two hours ahead, which is put right later: store time stays where it is, and the view
 * must not take that for the age of a heartbeat. The view reads the real clock of the machine, as this test's does. */
static void the_view_and_why_agree_about_who_is_alive(void **state)
{
    struct scene *scene = *state;
    scene->driver.time.clock.boot_id = "second";
    scene->driver.time.wall_us += SECONDS(7200);
    const char *id = scene_enqueue(scene, "pro-co"); /* sets the clock */
    scene->driver.time.wall_us -= SECONDS(7200);
    (void)scene_add_node(scene, "second", "default");
    assert_reason(scene, id, "ready");
    scene->driver.time.boot_us += SECONDS(60); /* it beats no more */
    (void)scene_enqueue(scene, "pro-co");
    assert_reason(scene, id, "no_node_in_group");
}

static void a_backup_is_whole_and_never_overwrites(void **state)
{
    struct scene *scene = *state;
    char path[300];
    scene_enqueue_many(scene, "pro-co", 100);
    (void)scene_claim(scene, 3);
    (void)snprintf(path, sizeof path, "%s/weir.db.backup", scene->driver.place);
    scene_ok(scene, store_backup(scene->store, path, &scene->error));
    assert_int_equal(store_backup(scene->store, path, &scene->error), WEIR_CONFLICT);
    struct driver_under_test copy = scene->driver;
    (void)snprintf(copy.url, sizeof copy.url, "sqlite:%s", path);
    copy.time.clock = scene->driver.time.clock;
    struct store_options options = {.url = copy.url, .clock = &scene->driver.time.clock};
    struct store *store = NULL;
    json_t *problems = NULL;
    scene_ok(scene, store_open(&options, &store, &scene->error));
    scene_ok(scene, store_check(store, &problems, &scene->error));
    assert_int_equal(json_array_size(problems), 0);
    json_decref(problems);
    store_close(store);
    json_t *rows = driver_rows(&copy, "SELECT count(*) AS n FROM executions");
    assert_int_equal(json_number_at(json_array_get(rows, 0), "n"), 100);
    json_decref(rows);
}

static bool hear(void *context, int64_t done, int64_t total)
{
    int64_t *left = context;
    assert_true(done <= total && total > 10); /* pages */
    return --*left > 0;
}

/* Half a copy looks like a whole one. */
static void a_backup_that_is_stopped_leaves_no_file(void **state)
{
    struct scene *scene = *state;
    char path[300];
    scene_enqueue_many(scene, "pro-co", 100);
    (void)snprintf(path, sizeof path, "%s/weir.db.backup", scene->driver.place);
    for (int64_t calls = 1; calls <= 2; calls++) {
        int64_t left = calls;
        store_set_progress(scene->store, hear, &left);
        assert_int_equal(store_backup(scene->store, path, &scene->error), WEIR_INTERRUPTED);
        assert_int_equal(access(path, F_OK), -1);
    }
    store_set_progress(scene->store, NULL, NULL);
    scene_ok(scene, store_backup(scene->store, path, &scene->error));
}

static void a_restored_backup_begins_the_stream_anew(void **state)
{
    struct scene *scene = *state;
    char path[300];
    struct stream_batch batch = {.count = 0};
    struct stream_position none = {.since_us = 0};
    scene_ok(scene, store_read_stream(scene->store, &none, 10, &scene->arena, &batch, &scene->error));
    struct stream_position position = batch.position;
    (void)snprintf(path, sizeof path, "%s/weir.db.backup", scene->driver.place);
    scene_ok(scene, store_backup(scene->store, path, &scene->error));
    scene_ok(scene, store_read_stream(scene->store, &position, 10, &scene->arena, &batch, &scene->error));
    assert_false(batch.is_reset);
    struct store_options options = {.url = path, .clock = &scene->driver.time.clock};
    struct store *store = NULL;
    scene_ok(scene, store_open(&options, &store, &scene->error));
    scene_ok(scene, store_read_stream(store, &position, 10, &scene->arena, &batch, &scene->error));
    assert_true(batch.is_reset);
    assert_true(batch.position.since_us > position.since_us);
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_restored_backup_begins_the_stream_anew),
        SCENE_TEST(a_folder_is_no_store),
        SCENE_TEST(a_file_with_two_names_is_refused_under_both),
        SCENE_TEST(a_missing_file_is_not_made_unless_asked_for),
        SCENE_TEST(what_is_no_database_is_not_touched),
        SCENE_TEST(the_database_of_another_application_is_not_touched),
        SCENE_TEST(a_schema_that_is_newer_missing_or_older_is_told),
        SCENE_TEST(a_store_that_may_not_be_written_says_so),
        SCENE_TEST(a_corrupt_file_is_told_and_never_crashes),
        SCENE_TEST(a_locked_file_is_busy_within_the_deadline),
        SCENE_TEST(a_busy_handle_of_the_same_process_waits_its_turn),
        SCENE_TEST(too_few_descriptors_are_told_as_such),
        SCENE_TEST(a_missing_lock_table_is_told_by_name),
        SCENE_TEST(an_idle_store_is_not_written),
        SCENE_TEST(time_never_goes_back_over_a_boot),
        SCENE_TEST(the_view_and_why_agree_about_who_is_alive),
        SCENE_TEST(a_backup_is_whole_and_never_overwrites),
        SCENE_TEST(a_backup_that_is_stopped_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
