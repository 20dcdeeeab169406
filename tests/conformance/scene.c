#include "conformance/scene.h"

enum { SCENE_ARENA_BYTES = 256 * 1024 * 1024, SQL_MAX = 2000 };

void scene_expect_ok(struct scene *scene, enum weir_status status, const char *call, const char *file, int line)
{
    if (status != WEIR_OK) {
        print_error("%s\n  answered %s: %s (%s)\n", call, weir_status_name(status), scene->error.message,
                    scene->error.hint);
        _fail(file, line);
    }
}

int scene_open(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    arena_init(&scene->arena, SCENE_ARENA_BYTES);
    driver_make_migrated(&scene->driver);
    scene->store = driver_open(&scene->driver, NULL);
    scene_ok(scene, store_migrate(scene->store, NULL, &scene->error));
    scene_workspace(scene, "free-co", "free");
    scene_workspace(scene, "pro-co", "pro");
    scene_workspace(scene, "big-co", "enterprise");
    scene_publish(scene, "hello", NULL);
    scene->node = scene_add_node(scene, "node-1", "default");
    scene->keeps_claimers = getenv("WEIR_TEST_KEPT_CLAIMERS") != NULL;
    int64_t epoch = 0;
    scene_ok(scene, take_role(scene->store, scene->node, &epoch, &scene->error)); /* what waits does not wait for it */
    scene_ok(scene, store_act_as(scene->store, "ann", "because", &scene->error));
    *state = scene;
    return 0;
}

static void close_claimers(struct scene *scene);

int scene_close(void **state)
{
    struct scene *scene = *state;
    scene_check(scene);
    close_claimers(scene);
    scene_check(scene);
    store_close(scene->store);
    driver_remove(&scene->driver);
    arena_close(&scene->arena);
    free(scene);
    return 0;
}

void scene_pass(struct scene *scene, int64_t duration_us)
{
    driver_pass(&scene->driver, duration_us);
}

int64_t scene_now(struct scene *scene)
{
    int64_t now_us = 0;
    scene_ok(scene, store_time(scene->store, &now_us, &scene->error));
    return now_us;
}

/* --- settings --- */

void scene_workspace(struct scene *scene, const char *name, const char *plan)
{
    struct workspace_change change = {.name = name, .plan = plan, .paused = -1, .create = true};
    scene_ok(scene, store_set_workspace(scene->store, &change, &scene->error));
}

void scene_cap(struct scene *scene, const char *workspace, int64_t max_concurrent)
{
    struct workspace_change change = {.name = workspace, .max_concurrent = max_concurrent, .paused = -1};
    scene_ok(scene, store_set_workspace(scene->store, &change, &scene->error));
}

void scene_pause_workspace(struct scene *scene, const char *workspace, bool paused)
{
    struct workspace_change change = {.name = workspace, .paused = paused ? 1 : 0};
    scene_ok(scene, store_set_workspace(scene->store, &change, &scene->error));
}

int64_t scene_publish(struct scene *scene, const char *name, const char *workspace)
{
    char text[200];
    struct published published = {0};
    (void)snprintf(text, sizeof text, "{\"name\":\"%s\",\"steps\":{\"one\":{\"exec\":[\"true\"]}}}", name);
    scene_ok(scene, store_publish(scene->store, name, workspace, text, NULL, &published, &scene->error));
    return published.definition_id;
}

void scene_group(struct scene *scene, const char *group)
{
    char name[80];
    char text[250];
    struct published published = {0};
    (void)snprintf(name, sizeof name, "of-%s", group);
    (void)snprintf(text, sizeof text,
                   "{\"name\":\"%s\",\"executor_group\":\"%s\",\"steps\":{\"one\":{\"exec\":[\"true\"]}}}", name, group);
    scene_ok(scene, store_publish(scene->store, name, NULL, text, NULL, &published, &scene->error));
}

int64_t scene_add_node(struct scene *scene, const char *name, const char *group)
{
    return scene_add_node_with_engine(scene, name, group, "scripted");
}

int64_t scene_add_node_with_engine(struct scene *scene, const char *name, const char *group, const char *engine)
{
    struct node_options options = {.name = name,
                                   .group = group,
                                   .host = "host",
                                   .boot_id = "boot",
                                   .life = "weir-node-0",
                                   .pid = 4242,
                                   .keeper_pid = 0,
                                   .version = "test",
                                   .engine = engine,
                                   .capacity = SCENE_CAPACITY,
                                   .lease_us = SCENE_LEASE_US};
    int64_t node = 0;
    scene_ok(scene, store_node_start(scene->store, &options, &node, &scene->error));
    assert_true(node > 0);
    return node;
}

void scene_beat(struct scene *scene, int64_t node)
{
    struct node_beat beat = {.engine_reachable = true, .capacity = SCENE_CAPACITY};
    scene_ok(scene, store_node_beat(scene->store, node, &beat, &scene->error));
}

void scene_recover(struct scene *scene, const struct recover_options *options, struct recover_result *ret_result)
{
    struct recover_options own = *options;
    struct silent_node silent[NODE_NEIGHBOURS_MOST];
    struct role_request look = {.act = ROLE_READ};
    struct role_state role = {0};
    char sql[SQL_MAX];
    scene_ok(scene, store_role(scene->store, &look, &role, &scene->error));
    (void)snprintf(
        sql, sizeof sql,
        "SELECT id, beats FROM nodes WHERE dead_at IS NULL AND stopped_at IS NULL AND expires_at <= %lld LIMIT %d",
        (long long)scene_now(scene), NODE_NEIGHBOURS_MOST);
    json_t *rows = scene_rows(scene, sql);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        silent[i] = (struct silent_node){.id = json_number_at(row, "id"), .beats = json_number_at(row, "beats")};
    }
    own.silent = silent;
    own.silent_count = json_array_size(rows);
    own.server = role.server;
    json_decref(rows);
    scene_ok(scene, store_recover(scene->store, &own, ret_result, &scene->error));
}

/* --- enqueue --- */

struct enqueue_result scene_try(struct scene *scene, const struct enqueue_request *request)
{
    struct enqueue_result result = {.status = WEIR_FAILED};
    scene_ok(scene, store_enqueue(scene->store, request, 1, &result, &scene->error));
    return result;
}

const char *scene_enqueue_request(struct scene *scene, const struct enqueue_request *request)
{
    struct enqueue_result result = scene_try(scene, request);
    scene->error = result.error;
    scene_ok(scene, result.status);
    assert_true(uuid_is_valid(result.id));
    return arena_copy_string(&scene->arena, result.id);
}

const char *scene_enqueue(struct scene *scene, const char *workspace)
{
    return scene_enqueue_request(scene, &(struct enqueue_request){.workspace = workspace, .workflow = "hello"});
}

void scene_enqueue_many(struct scene *scene, const char *workspace, size_t count)
{
    enum { SET = 1000 };
    struct enqueue_request *requests = calloc(SET, sizeof *requests);
    struct enqueue_result *results = calloc(SET, sizeof *results);
    assert_non_null(requests);
    assert_non_null(results);
    for (size_t i = 0; i < SET; i++) {
        requests[i] = (struct enqueue_request){.workspace = workspace, .workflow = "hello"};
    }
    while (count > 0) {
        size_t part = count < SET ? count : SET;
        scene_ok(scene, store_enqueue(scene->store, requests, part, results, &scene->error));
        for (size_t i = 0; i < part; i++) {
            assert_int_equal(results[i].status, WEIR_OK);
        }
        count -= part;
    }
    free(requests);
    free(results);
}

/* --- claim and record --- */

enum { PUBLISH_EVERY = 3 };

static void close_claimers(struct scene *scene)
{
    for (size_t i = 0; i < SCENE_CLAIMERS_MOST && scene->claimers[i].claimer != NULL; i++) {
        scene_ok(scene, claimer_publish(scene->claimers[i].claimer, &scene->error));
        claimer_close(scene->claimers[i].claimer);
        store_close(scene->claimers[i].store);
        scene->claimers[i].claimer = NULL;
    }
}

static struct claimer *claimer_of(struct scene *scene, int64_t node)
{
    size_t i = 0;
    while (i < SCENE_CLAIMERS_MOST && scene->claimers[i].claimer != NULL && scene->claimers[i].node != node) {
        i++;
    }
    if (i == SCENE_CLAIMERS_MOST) {
        close_claimers(scene);
        i = 0;
    }
    if (scene->claimers[i].claimer == NULL) {
        scene->claimers[i].node = node;
        scene->claimers[i].store = driver_open(&scene->driver, NULL);
        scene_ok(scene, claimer_open(scene->claimers[i].store, node, &scene->claimers[i].claimer, &scene->error));
    }
    return scene->claimers[i].claimer;
}

static enum weir_status claim_kept(struct scene *scene, const struct claim_request *request, struct claim_result *result)
{
    struct claimer *claimer = claimer_of(scene, request->node_id);
    enum weir_status status = claimer_claim(claimer, request->limit, &scene->arena, result, &scene->error);
    if (status == WEIR_OK && ++scene->claims % PUBLISH_EVERY == 0) {
        status = claimer_publish(claimer, &scene->error);
    }
    return status;
}

struct claim_result scene_claim_as(struct scene *scene, int64_t node, const char *group, size_t limit)
{
    struct claim_request request = {.node_id = node, .group = group, .limit = limit};
    struct claim_result result = {0};
    scene_ok(scene, scene->keeps_claimers
                        ? claim_kept(scene, &request, &result)
                        : claim_through_scheduler(scene->store, &request, &scene->arena, &result, &scene->error));
    assert_true(result.count <= limit);
    return result;
}

struct work_ahead scene_look_as(struct scene *scene, int64_t node)
{
    struct work_ahead work = {0};
    scene_ok(scene, scene->keeps_claimers ? claimer_look(claimer_of(scene, node), &work, &scene->error)
                                          : look_for_work(scene->store, node, &work, &scene->error));
    return work;
}

struct work_ahead scene_look(struct scene *scene)
{
    return scene_look_as(scene, scene->node);
}

struct claim_result scene_claim(struct scene *scene, size_t limit)
{
    return scene_claim_as(scene, scene->node, "default", limit);
}

struct claimed_item scene_claim_one(struct scene *scene)
{
    struct claim_result claim = scene_claim(scene, 10);
    assert_int_equal(claim.count, 1);
    return claim.items[0];
}

size_t scene_count_of(const struct claim_result *claim, const char *workspace)
{
    size_t count = 0;
    for (size_t i = 0; i < claim->count; i++) {
        count += strcmp(claim->items[i].workspace, workspace) == 0;
    }
    return count;
}

struct record scene_record_of(enum record_kind kind, const struct claimed_item *item)
{
    struct record record = {
        .kind = kind, .fence = item->fence, .taken_over = item->interruptions > 0, .status = WEIR_FAILED};
    memcpy(record.id, item->id, sizeof record.id);
    if (kind == RECORD_RETRY || kind == RECORD_REFUSED || kind == RECORD_FAILED) {
        record.error_code = "test_error";
        record.error = "it did not work";
    }
    return record;
}

enum weir_status scene_record_full(struct scene *scene, int64_t node, struct record record)
{
    struct record_summary summary = {0};
    scene_ok(scene, store_record(scene->store, node, &record, 1, &summary, &scene->error));
    return record.status;
}

struct node_request *scene_take_requests(struct scene *scene, int64_t node, size_t expected)
{
    struct node_request *requests = NULL;
    size_t count = 0;
    bool more = true;
    scene_ok(scene, store_take_requests(scene->store, node, &scene->arena, &requests, &count, &more, &scene->error));
    assert_int_equal(count, expected);
    assert_false(more);
    return requests;
}

enum weir_status scene_record(struct scene *scene, enum record_kind kind, const struct claimed_item *item)
{
    static const struct step_record step = {.step = "one", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1};
    struct record record = scene_record_of(kind, item);
    record.step = kind == RECORD_STEP ? &step : NULL;
    record.dispatched_first = kind == RECORD_PARKED; /* as a node parks one with a start that is not on record */
    return scene_record_full(scene, scene->node, record);
}

void scene_complete(struct scene *scene, const struct claim_result *claim)
{
    struct record *records = calloc(claim->count + 1, sizeof *records);
    struct record_summary summary = {0};
    assert_non_null(records);
    for (size_t i = 0; i < claim->count; i++) {
        records[i] = scene_record_of(RECORD_COMPLETED, &claim->items[i]);
        records[i].dispatched_first = true;
    }
    scene_ok(scene, store_record(scene->store, scene->node, records, claim->count, &summary, &scene->error));
    assert_int_equal(summary.changed, claim->count);
    free(records);
}

/* --- looking --- */

json_t *scene_rows(struct scene *scene, const char *sql)
{
    return driver_rows(&scene->driver, sql);
}

static const json_t *first_value(const json_t *rows, const char *sql)
{
    const json_t *row = json_array_get(rows, 0);
    if (row == NULL) {
        fail_msg("no row: %s", sql);
    }
    return json_object_iter_value(json_object_iter((json_t *)row));
}

int64_t scene_number(struct scene *scene, const char *format, ...)
{
    char sql[SQL_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sql, sizeof sql, format, arguments);
    va_end(arguments);
    json_t *rows = scene_rows(scene, sql);
    const json_t *value = first_value(rows, sql);
    assert_true(json_is_integer(value));
    int64_t number = json_integer_value(value);
    json_decref(rows);
    return number;
}

const char *scene_text(struct scene *scene, const char *format, ...)
{
    char sql[SQL_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sql, sizeof sql, format, arguments);
    va_end(arguments);
    json_t *rows = scene_rows(scene, sql);
    const json_t *value = first_value(rows, sql);
    const char *text = NULL;
    if (!json_is_null(value)) {
        assert_true(json_is_string(value));
        text = arena_copy(&scene->arena, json_string_value(value), json_string_length(value));
    }
    json_decref(rows);
    return text;
}

const char *scene_status_of(struct scene *scene, const char *id)
{
    return scene_text(scene, "SELECT status FROM executions WHERE id = '%s'", id);
}

const char *scene_reason_of(struct scene *scene, const char *id)
{
    return scene_text(scene, "SELECT pending_reason FROM executions WHERE id = '%s'", id);
}

void scene_check(struct scene *scene)
{
    json_t *problems = NULL;
    scene_ok(scene, store_check(scene->store, &problems, &scene->error));
    if (json_array_size(problems) != 0) {
        char *text = json_dumps(problems, JSON_INDENT(2));
        fail_msg("the store's check found: %s", text);
    }
    json_decref(problems);
}

int64_t scene_held(struct scene *scene, const char *workspace)
{
    return scene_number(scene,
                        "SELECT count(*) FROM workflow_execution_queue WHERE status IN ('CLAIMED', 'DISPATCHED')"
                        " AND workspace_id = (SELECT id FROM workspaces WHERE name = '%s')",
                        workspace);
}

json_int_t json_number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) {
        fail_msg("%s is not a number", key);
    }
    return json_integer_value(value);
}

int64_t scene_usage(struct scene *scene, const char *workspace, const char *key)
{
    json_t *row = NULL;
    scene_ok(scene, store_usage(scene->store, workspace, &row, &scene->error));
    int64_t value = json_number_at(row, key);
    json_decref(row);
    return value;
}

const char *json_text_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value)) {
        fail_msg("%s is not a text", key);
    }
    return json_string_value(value);
}

void scene_assert_events(struct scene *scene, const char *id, const char *expected)
{
    char text[400] = "";
    json_t *shown = NULL;
    json_t *event;
    size_t i;
    scene_ok(scene, store_show(scene->store, id, &shown, &scene->error));
    json_array_foreach(json_object_get(shown, "events"), i, event)
    {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "%s%s", i == 0 ? "" : " ", json_text_at(event, "event"));
    }
    json_decref(shown);
    assert_string_equal(text, expected);
}

const struct item_move *scene_find_move(enum item_state from, const char *because)
{
    size_t count = 0;
    const struct item_move *moves = item_moves(&count);
    for (size_t i = 0; i < count; i++) {
        if (moves[i].from == from && strcmp(moves[i].because, because) == 0) {
            return &moves[i];
        }
    }
    return NULL;
}
