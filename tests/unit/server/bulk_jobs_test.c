/* The acts of the HTTP API outlive the requests that began them. */
#include "server/bulk_jobs.h"

#include <sqlite3.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "support/folder.h"
#include "support/test.h"

enum { READS_MOST = 3000 };

struct scene {
    struct folder folder;
    char url[300];
    struct store *store;
    struct bulk_jobs *jobs;
    struct weir_error error;
};

static int open_scene(void **state)
{
    static const char definition[] = "{\"name\":\"nap\",\"steps\":{\"nap\":{\"sleep\":\"1h\"}}}";
    struct scene *scene = calloc(1, sizeof *scene);
    struct published published;
    struct enqueue_result enqueued;
    assert_non_null(scene);
    assert_int_equal(folder_make(&scene->folder), 0);
    (void)snprintf(scene->url, sizeof scene->url, "sqlite:%s/weir.db", scene->folder.path);
    struct store_options options = {.url = scene->url, .create = true};
    assert_int_equal(store_open(&options, &scene->store, &scene->error), WEIR_OK);
    assert_int_equal(store_migrate(scene->store, NULL, &scene->error), WEIR_OK);
    struct workspace_change acme = {.name = "acme", .paused = -1, .create = true};
    assert_int_equal(store_set_workspace(scene->store, &acme, &scene->error), WEIR_OK);
    assert_int_equal(store_publish(scene->store, "nap", NULL, definition, NULL, &published, &scene->error), WEIR_OK);
    struct enqueue_request request = {.workspace = "acme", .workflow = "nap"};
    assert_int_equal(store_enqueue(scene->store, &request, 1, &enqueued, &scene->error), WEIR_OK);
    scene->jobs = bulk_jobs_open();
    assert_non_null(scene->jobs);
    *state = scene;
    return 0;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    bulk_jobs_close(scene->jobs);
    store_close(scene->store);
    folder_remove(&scene->folder);
    free(scene);
    return 0;
}

static json_t *wait_for_end(struct scene *scene, const char *id)
{
    static const struct timespec pause = {.tv_nsec = 10000000};
    for (int i = 0; i < READS_MOST; i++) {
        json_t *job = NULL;
        assert_int_equal(bulk_jobs_read(scene->jobs, id, &job, &scene->error), WEIR_OK);
        if (strcmp(json_string_value(json_object_get(job, "state")), "running") != 0) {
            return job;
        }
        json_decref(job);
        (void)nanosleep(&pause, NULL);
    }
    fail_msg("the act has not ended");
    return NULL;
}

/* The texts of the request are overwritten while its act waits for the lock of the store, so before its first chunk. */
static void an_act_keeps_all_texts_of_its_request(void **state)
{
    struct scene *scene = *state;
    sqlite3 *database = NULL;
    char waiting_for[] = "sleep";
    char parent[] = "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79";
    char id[UUID_TEXT_MAX];
    struct bulk_order order = {.act = BULK_CANCEL, .filter = {.waiting_for = waiting_for, .parent = parent}};
    assert_int_equal(sqlite3_open(scene->url + strlen("sqlite:"), &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database,
                                  "BEGIN IMMEDIATE; UPDATE workflow_execution_queue SET status = 'WAITING', phase = 3, "
                                  "waiting_for = 'sleep', due_at = 9223372036854775807; "
                                  "INSERT INTO children (parent_id, step, position, child_id) "
                                  "SELECT '01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79', 'nap', 0, id "
                                  "FROM workflow_execution_queue",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(bulk_jobs_begin(scene->jobs, scene->store, &order, id, &scene->error), WEIR_OK);
    memset(waiting_for, 'x', strlen(waiting_for));
    memset(parent, 'x', strlen(parent));
    assert_int_equal(sqlite3_exec(database, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
    json_t *job = wait_for_end(scene, id);
    assert_string_equal(json_string_value(json_object_get(job, "state")), "done");
    assert_int_equal(json_integer_value(json_object_get(job, "changed")), 1);
    json_decref(job);
}

/* The same for the labels of the filter, and for what a signal has. */
static void a_broadcast_keeps_all_texts_of_its_request(void **state)
{
    static const char definition[] = "{\"name\":\"pay\",\"steps\":{\"pay\":{\"signal\":\"paid\"}}}";
    struct scene *scene = *state;
    sqlite3 *database = NULL;
    struct published published;
    struct enqueue_result enqueued;
    char id[UUID_TEXT_MAX];
    char texts[][16] = {"tier", "gold", "order-17", "paid", "{\"sum\":7}", "key-1", "acme"};
    enum { TEXT_COUNT = sizeof texts / sizeof texts[0] };
    assert_int_equal(store_publish(scene->store, "pay", NULL, definition, NULL, &published, &scene->error), WEIR_OK);
    struct enqueue_request request = {
        .workspace = "acme", .workflow = "pay", .business_key = "order-17", .labels = "{\"tier\":\"gold\"}"};
    assert_int_equal(store_enqueue(scene->store, &request, 1, &enqueued, &scene->error), WEIR_OK);
    struct bulk_order order = {
        .act = BULK_SIGNAL,
        .filter = {.labels = {{.name = texts[0], .value = texts[1]}},
                   .label_count = 1,
                   .business_key = texts[2],
                   .workspace = texts[6]},
        .options = {.signal_name = texts[3], .signal_data = texts[4], .signal_key = texts[5]},
    };
    assert_int_equal(sqlite3_open(scene->url + strlen("sqlite:"), &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(bulk_jobs_begin(scene->jobs, scene->store, &order, id, &scene->error), WEIR_OK);
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        memset(texts[i], 'x', strlen(texts[i]));
    }
    assert_int_equal(sqlite3_exec(database, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
    json_t *job = wait_for_end(scene, id);
    assert_string_equal(json_string_value(json_object_get(job, "state")), "done");
    assert_int_equal(json_integer_value(json_object_get(job, "changed")), 1);
    json_decref(job);
}

static void rename_acme(struct scene *scene)
{
    assert_int_equal(store_rename_workspace(scene->store, "acme", "acme-eu", &scene->error), WEIR_OK);
}

/* The act has four chunks. The rename comes behind the first one, and a new workspace has the old name. */
static void an_act_goes_on_in_a_workspace_that_is_renamed(void **state)
{
    enum { COUNT = 1750 };
    static const struct timespec pause = {.tv_nsec = 200000};
    struct scene *scene = *state;
    struct enqueue_request requests[250];
    struct enqueue_result results[250];
    char id[UUID_TEXT_MAX];
    for (size_t i = 0; i < 250; i++) {
        requests[i] = (struct enqueue_request){.workspace = "acme", .workflow = "nap"};
    }
    for (size_t i = 0; i < COUNT; i += 250) {
        assert_int_equal(store_enqueue(scene->store, requests, 250, results, &scene->error), WEIR_OK);
    }
    struct bulk_order order = {.act = BULK_CANCEL, .filter = {.workspace = "acme"}};
    assert_int_equal(bulk_jobs_begin(scene->jobs, scene->store, &order, id, &scene->error), WEIR_OK);
    for (int64_t changed = 0; changed == 0;) {
        json_t *job = NULL;
        assert_int_equal(bulk_jobs_read(scene->jobs, id, &job, &scene->error), WEIR_OK);
        changed = json_integer_value(json_object_get(job, "changed"));
        json_decref(job);
        (void)nanosleep(&pause, NULL);
    }
    rename_acme(scene);
    struct workspace_change acme = {.name = "acme", .paused = -1, .create = true};
    assert_int_equal(store_set_workspace(scene->store, &acme, &scene->error), WEIR_OK);
    assert_int_equal(store_enqueue(scene->store, requests, 1, results, &scene->error), WEIR_OK);
    json_t *job = wait_for_end(scene, id);
    assert_string_equal(json_string_value(json_object_get(job, "state")), "done");
    assert_int_equal(json_integer_value(json_object_get(job, "changed")), COUNT + 1);
    json_decref(job);
    struct list_options left = {.filter = {.workspace = "acme"}};
    json_t *page = NULL;
    assert_int_equal(store_list(scene->store, &left, &page, &scene->error), WEIR_OK);
    json_t *item = json_array_get(json_object_get(page, "items"), 0);
    assert_string_equal(json_string_value(json_object_get(item, "status")), "PENDING");
    json_decref(page);
}

/* An act that finds no workspace has failed. "done" would look like success. */
static void an_act_fails_when_its_workspace_has_gone_before_it_begins(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    struct bulk_order order = {.act = BULK_CANCEL, .filter = {.workspace = "acme"}};
    rename_acme(scene);
    assert_int_equal(bulk_jobs_begin(scene->jobs, scene->store, &order, id, &scene->error), WEIR_OK);
    json_t *job = wait_for_end(scene, id);
    assert_string_equal(json_string_value(json_object_get(job, "state")), "failed");
    const json_t *error = json_object_get(job, "error");
    assert_string_equal(json_string_value(json_object_get(error, "code")), "workspace_not_found");
    json_decref(job);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_broadcast_keeps_all_texts_of_its_request, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(an_act_keeps_all_texts_of_its_request, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(an_act_goes_on_in_a_workspace_that_is_renamed, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(an_act_fails_when_its_workspace_has_gone_before_it_begins, open_scene, close_scene),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
