/* The archive: its moves, reads of archived executions, acts on them, and their purge. */
#include <pthread.h>

#include "conformance/scene.h"
#include "store/reading.h"

enum { RACERS = 4, RACED = 60 };

/* --- executions to archive --- */

static const char PARAMS[] = "{\"name\":\"Ann\"}";

static struct step_record step_of(const char *name, enum step_state state, char *output)
{
    struct step_record step = {.state = state, .attempt = 1, .exit_code = -1, .output = output};
    text_copy(step.step, sizeof step.step, name);
    step.output_length = output == NULL ? 0 : strlen(output);
    return step;
}

static void record_with_step(struct scene *scene, enum record_kind kind, const struct claimed_item *item,
                             const struct step_record *step)
{
    struct record record = scene_record_of(kind, item);
    record.step = step;
    record.error_code = kind == RECORD_FAILED ? "exit_code" : NULL;
    record.error = kind == RECORD_FAILED ? "it ended with 1" : NULL;
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
}

/* One with params, labels, a retried attempt, two steps, and events. */
static const char *ended(struct scene *scene, const char *workspace, const char *key, enum record_kind end)
{
    char first[] = "{\"said\":\"hello\"}";
    char last[] = "{\"said\":\"goodbye\"}";
    const char *id = scene_enqueue_request(scene, &(struct enqueue_request){.workspace = workspace,
                                                                            .workflow = "hello",
                                                                            .params = PARAMS,
                                                                            .params_length = strlen(PARAMS),
                                                                            .idempotency_key = key,
                                                                            .labels = "{\"tier\":\"gold\"}"});
    struct claimed_item item = scene_claim_one(scene);
    struct step_record failed = step_of("say", STEP_WAITING, NULL);
    struct step_record done = step_of("say", STEP_COMPLETED, first);
    struct step_record ending = step_of("only", end == RECORD_COMPLETED ? STEP_COMPLETED : STEP_FAILED, last);
    failed.failures = 1;
    text_copy(failed.error_code, sizeof failed.error_code, "exit_code");
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    scene_pass(scene, SECONDS(1));
    record_with_step(scene, RECORD_STEP, &item, &failed);
    scene_pass(scene, SECONDS(1));
    done.attempt = 2;
    done.failures = 1;
    record_with_step(scene, RECORD_STEP, &item, &done);
    scene_pass(scene, SECONDS(1));
    record_with_step(scene, end, &item, &ending);
    return id;
}

static struct archive_result archive_from(struct scene *scene, const char *after, int64_t ended_before_us, size_t limit)
{
    struct archive_order order = {.ended_before_us = ended_before_us, .limit = limit, .is_whole = true};
    struct archive_result result = {.moved = -1};
    text_copy(order.after, sizeof order.after, after);
    scene_ok(scene, store_archive(scene->store, &order, &result, &scene->error));
    return result;
}

static int64_t archive_all(struct scene *scene)
{
    scene_pass(scene, SECONDS(1));
    scene_beat(scene, scene->node);
    return archive_from(scene, "", scene_now(scene), ARCHIVE_BATCH).moved;
}

/* --- reads --- */

static json_t *show(struct scene *scene, const char *id)
{
    json_t *execution = NULL;
    scene_ok(scene, store_show(scene->store, id, &execution, &scene->error));
    return execution;
}

static json_t *list(struct scene *scene, enum store_list_kind kind, const char *id)
{
    struct list_options options = {.kind = kind, .filter = {.id = id}};
    json_t *page = NULL;
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    return page;
}

/* All that the store answers about an execution. */
static json_t *all_of(struct scene *scene, const char *id, bool has_result)
{
    json_t *why = NULL;
    json_t *result = NULL;
    scene_ok(scene, store_why(scene->store, id, &why, &scene->error));
    if (has_result) {
        scene_ok(scene, store_read_result(scene->store, id, &result, &scene->error));
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "show", show(scene, id), "events", list(scene, LIST_EVENTS, id), "why", why,
                     "result", result == NULL ? json_null() : result);
}

static void assert_same(json_t *before, json_t *after)
{
    if (json_equal(before, after) == 0) {
        char *was = json_dumps(before, JSON_INDENT(1) | JSON_SORT_KEYS);
        char *is = json_dumps(after, JSON_INDENT(1) | JSON_SORT_KEYS);
        fail_msg("before: %s\nafter: %s", was, is);
    }
    json_decref(before);
    json_decref(after);
}

/* The rows of its content among those of daily work. */
static int64_t rows_in_store(struct scene *scene, const char *id)
{
    return scene_number(scene,
                        "SELECT (SELECT count(*) FROM execution_params WHERE id = '%s')"
                        " + (SELECT count(*) FROM workflow_node_executions WHERE execution_id = '%s')"
                        " + (SELECT count(*) FROM workflow_node_attempts WHERE execution_id = '%s')"
                        " + (SELECT count(*) FROM workflow_execution_events WHERE execution_id = '%s')"
                        " + (SELECT count(*) FROM workflow_executions WHERE id = '%s' AND step IS NOT NULL)",
                        id, id, id, id, id);
}

/* --- moves --- */

static void an_archived_execution_is_read_as_before(void **state)
{
    struct scene *scene = *state;
    const char *ids[] = {ended(scene, "pro-co", "one", RECORD_COMPLETED), ended(scene, "pro-co", NULL, RECORD_FAILED),
                         ended(scene, "big-co", "three", RECORD_CANCELLED)};
    json_t *before[3];
    json_t *listed = list(scene, LIST_EXECUTIONS, NULL);
    for (size_t i = 0; i < 3; i++) {
        before[i] = all_of(scene, ids[i], i == 0);
        assert_true(rows_in_store(scene, ids[i]) >= 4);
    }
    assert_int_equal(archive_all(scene), 3);
    assert_int_equal(driver_archived_steps(&scene->driver), 6);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(rows_in_store(scene, ids[i]), 0);
        assert_same(before[i], all_of(scene, ids[i], i == 0));
    }
    assert_same(listed, list(scene, LIST_EXECUTIONS, NULL));
}

/* On PostgreSQL the history has the end of such a sleep, and the archive gets its row with that end. */
static void an_archived_sleep_keeps_its_end(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    struct step_record nap = step_of("nap", STEP_WAITING, NULL);
    struct step_record last = step_of("only", STEP_COMPLETED, NULL);
    struct record records[] = {scene_record_of(RECORD_PARKED, &item)};
    struct record_summary summary;
    nap.due_in_us = SECONDS(10);
    records[0].dispatched_first = true;
    records[0].step = &nap;
    records[0].waiting_for = WAIT_SLEEP;
    records[0].delay_us = SECONDS(10);
    scene_ok(scene, store_record(scene->store, scene->node, records, 1, &summary, &scene->error));
    scene_pass(scene, SECONDS(10));
    item = scene_claim_one(scene);
    scene_pass(scene, SECONDS(3));
    nap.state = STEP_COMPLETED;
    struct record ends[] = {scene_record_of(RECORD_STEP, &item), scene_record_of(RECORD_COMPLETED, &item)};
    ends[0].step = &nap;
    ends[0].step_reported_ago_us = SECONDS(2);
    ends[1].step = &last;
    ends[0].taken_over = ends[1].taken_over = ends[1].dispatched_first = true;
    scene_ok(scene, store_record(scene->store, scene->node, ends, 2, &summary, &scene->error));
    scene_assert_events(scene, id,
                        "enqueue claim dispatch step_start park wake claim step_end dispatch step_start step_end complete");
    json_t *before = all_of(scene, id, false);
    json_t *step = json_array_get(json_object_get(json_object_get(before, "show"), "steps"), 0);
    assert_string_equal(json_string_value(json_object_get(step, "step")), "nap");
    assert_string_equal(json_string_value(json_object_get(step, "status")), "COMPLETED");
    assert_int_equal(archive_all(scene), 1);
    assert_int_equal(rows_in_store(scene, id), 0);
    assert_int_equal(driver_archived_steps(&scene->driver), 2);
    assert_same(before, all_of(scene, id, false));
    scene_check(scene);
}

static void a_repeated_move_changes_nothing(void **state)
{
    struct scene *scene = *state;
    const char *id = ended(scene, "pro-co", NULL, RECORD_COMPLETED);
    assert_int_equal(archive_all(scene), 1);
    json_t *before = all_of(scene, id, true);
    assert_int_equal(archive_all(scene), 0);
    assert_same(before, all_of(scene, id, true));
    assert_int_equal(driver_archived_steps(&scene->driver), 2);
}

static void young_and_living_executions_stay(void **state)
{
    struct scene *scene = *state;
    const char *old = ended(scene, "pro-co", NULL, RECORD_COMPLETED);
    scene_pass(scene, SECONDS(10));
    scene_beat(scene, scene->node);
    int64_t between_us = scene_now(scene);
    const char *young = ended(scene, "pro-co", NULL, RECORD_COMPLETED);
    const char *living = scene_enqueue(scene, "pro-co");
    assert_int_equal(archive_from(scene, "", between_us, ARCHIVE_BATCH).moved, 1);
    assert_int_equal(rows_in_store(scene, old), 0);
    assert_true(rows_in_store(scene, young) > 0);
    assert_string_equal(scene_status_of(scene, living), "PENDING");
}

static void end_as(struct scene *scene, const char *id)
{
    const struct enqueue_request request = {.workspace = "pro-co", .workflow = "hello", .id = id};
    (void)scene_enqueue_request(scene, &request);
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    scene_pass(scene, SECONDS(10));
    scene_beat(scene, scene->node);
}

/* Else the next call would begin behind executions that end later. The ids are of 2024 and of an hour to come. */
static void ids_that_are_too_young_are_not_looked_at(void **state)
{
    struct scene *scene = *state;
    struct archive_result result = {.moved = -1};
    char young[UUID_TEXT_MAX];
    reading_first_id(time_add(scene_now(scene), SECONDS(3600)), young);
    young[14] = '7'; /* the version */
    young[19] = '8';
    end_as(scene, "018d0a6a-fc00-7000-8000-000000000001");
    struct archive_order order = {.ended_before_us = scene_now(scene), .limit = 1};
    end_as(scene, young);
    scene_ok(scene, store_archive(scene->store, &order, &result, &scene->error));
    assert_int_equal(result.moved, 1);
    assert_true(result.more);
    assert_string_equal(result.last_id, "018d0a6a-fc00-7000-8000-000000000001");
}

static void a_move_goes_on_where_it_stopped(void **state)
{
    struct scene *scene = *state;
    const char *ids[3];
    for (size_t i = 0; i < 3; i++) {
        ids[i] = ended(scene, "pro-co", NULL, RECORD_COMPLETED);
    }
    scene_pass(scene, SECONDS(1));
    scene_beat(scene, scene->node);
    struct archive_result first = archive_from(scene, "", scene_now(scene), 2);
    assert_int_equal(first.moved, 2);
    assert_true(first.more);
    assert_string_equal(first.last_id, ids[1]);
    struct archive_result second = archive_from(scene, first.last_id, scene_now(scene), 2);
    assert_int_equal(second.moved, 1);
    assert_false(second.more);
    struct archive_order none = {.ended_before_us = 1, .limit = 0};
    struct archive_result refused;
    assert_int_equal(store_archive(scene->store, &none, &refused, &scene->error), WEIR_MISUSE);
    none.limit = ARCHIVE_BATCH + 1;
    assert_int_equal(store_archive(scene->store, &none, &refused, &scene->error), WEIR_MISUSE);
}

/* Its parent may still read its result. */
static void the_child_of_a_living_parent_stays(void **state)
{
    struct scene *scene = *state;
    char plan[] = "{\"workflow\":\"hello\",\"executor_group\":null,\"priority\":null,\"is_single\":1,\"waits_for_all\":1,"
                  "\"wanted\":1,\"max_parallel\":1,\"leaves\":0,\"children\":[{\"n\":1}]}";
    char output[] = "{\"said\":\"hello\"}";
    struct children_advance part = {.again = true};
    (void)scene_enqueue(scene, "pro-co");
    struct claimed_item parent = scene_claim_one(scene);
    struct step_record wait = step_of("go", STEP_WAITING, NULL);
    struct record park = scene_record_of(RECORD_PARKED, &parent);
    wait.due_in_us = TIME_NEVER;
    wait.variables = plan;
    text_copy(wait.signal, sizeof wait.signal, "children:go");
    record_with_step(scene, RECORD_STEP, &parent, &wait);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &parent), WEIR_OK);
    park.delay_us = TIME_NEVER;
    park.waiting_for = WAIT_CHILD;
    park.signals_seen = parent.signals_seen;
    assert_int_equal(scene_record_full(scene, scene->node, park), WEIR_OK);
    while (part.again) {
        part = (struct children_advance){.again = false};
        scene_ok(scene, store_advance_children(scene->store, &part, &scene->error));
    }
    struct claimed_item child = scene_claim_one(scene);
    struct step_record done = step_of("say", STEP_COMPLETED, output);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &child), WEIR_OK);
    record_with_step(scene, RECORD_COMPLETED, &child, &done);
    assert_int_equal(archive_all(scene), 0);
    assert_int_equal(rows_in_store(scene, child.id), 2); /* its params and its step */
}

static void *archive_until_done(void *context)
{
    struct scene *scene = context;
    struct weir_error error = {.status = WEIR_OK};
    struct store *store = driver_open(&scene->driver, NULL);
    int64_t *moved = calloc(1, sizeof *moved);
    struct archive_order order = {
        .ended_before_us = scene->driver.time.wall_us + SECONDS(1000), .limit = 7, .is_whole = true};
    struct archive_result result = {.more = true};
    for (int idle = 0; idle < 3; idle += result.moved == 0 && !result.more) {
        if (store_archive(store, &order, &result, &error) != WEIR_OK) {
            *moved = -RACED;
            break;
        }
        *moved += result.moved;
        text_copy(order.after, sizeof order.after, result.more ? result.last_id : "");
    }
    store_close(store);
    return moved;
}

static void several_nodes_move_each_execution_once(void **state)
{
    struct scene *scene = *state;
    pthread_t threads[RACERS];
    int64_t moved = 0;
    const char *id = NULL;
    for (int i = 0; i < RACED; i++) {
        scene_beat(scene, scene->node);
        id = ended(scene, "pro-co", NULL, RECORD_COMPLETED);
    }
    json_t *before = all_of(scene, id, true);
    for (size_t i = 0; i < RACERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, archive_until_done, scene), 0);
    }
    for (size_t i = 0; i < RACERS; i++) {
        void *own = NULL;
        assert_int_equal(pthread_join(threads[i], &own), 0);
        moved += *(int64_t *)own;
        free(own);
    }
    moved += archive_all(scene); /* on PostgreSQL a caller that finds another one leaves it the rest */
    assert_int_equal(moved, RACED);
    assert_int_equal(driver_archived_steps(&scene->driver), RACED * 2);
    assert_same(before, all_of(scene, id, true));
}

/* --- look-ups and filters --- */

static void filters_and_keys_find_archived_executions(void **state)
{
    struct scene *scene = *state;
    struct list_options options = {
        .kind = LIST_EXECUTIONS,
        .filter = {.workspace = "pro-co", .labels = {{.name = "tier", .value = "gold"}}, .label_count = 1}};
    struct enqueue_request again = {.workspace = "pro-co",
                                    .workflow = "hello",
                                    .params = PARAMS,
                                    .params_length = strlen(PARAMS),
                                    .idempotency_key = "order-1"};
    json_t *page = NULL;
    const char *id = ended(scene, "pro-co", "order-1", RECORD_FAILED);
    assert_int_equal(archive_all(scene), 1);
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    assert_int_equal(json_array_size(json_object_get(page, "items")), 1);
    json_decref(page);
    options.filter = (struct execution_filter){.states = 1U << ITEM_FAILED, .error_text = "ended with 1"};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    assert_string_equal(json_text_at(json_array_get(json_object_get(page, "items"), 0), "id"), id);
    json_decref(page);
    struct enqueue_result same = scene_try(scene, &again);
    assert_int_equal(same.status, WEIR_OK);
    assert_true(same.duplicate);
    assert_string_equal(same.id, id);
    again.params = "{\"name\":\"Bob\"}";
    assert_int_equal(scene_try(scene, &again).status, WEIR_IDEMPOTENCY_KEY_REUSED);
    again.params_length = 0;
    again.params = NULL;
    assert_int_equal(scene_try(scene, &again).status, WEIR_IDEMPOTENCY_KEY_REUSED);
    assert_int_equal(rows_in_store(scene, id), 0);
}

/* --- acts --- */

static struct bulk_result act(struct scene *scene, enum bulk_act what, const struct act_order *order, const char *id)
{
    struct execution_filter filter = {.id = id};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk_ordered(scene->store, what, order, &filter, "", 1, &result, &scene->error));
    return result;
}

static void a_retry_of_an_archived_execution_has_its_params_and_steps(void **state)
{
    struct scene *scene = *state;
    struct act_order order = {.keeps_finished = true};
    (void)scene_publish(scene, "hello", NULL);
    const char *id = ended(scene, "pro-co", NULL, RECORD_FAILED);
    assert_int_equal(archive_all(scene), 1);
    json_t *old = show(scene, id);
    struct bulk_result retried = act(scene, BULK_RETRY, &order, id);
    assert_int_equal(retried.changed, 1);
    struct claimed_item item = scene_claim_one(scene);
    assert_string_equal(item.id, retried.new_id);
    assert_string_equal(item.params, PARAMS);
    json_t *same = show(scene, id);
    assert_true(json_equal(json_object_get(old, "steps"), json_object_get(same, "steps")));
    assert_true(json_equal(json_object_get(old, "params"), json_object_get(same, "params")));
    json_decref(old);
    assert_int_equal(json_array_size(json_object_get(same, "events")) > 0, 1);
    /* Its next move takes the event of the retry along; on PostgreSQL the event alone has stayed behind. */
    assert_int_equal(scene_record(scene, RECORD_CANCELLED, &item), WEIR_OK);
    assert_true(archive_all(scene) >= 1);
    json_t *moved = show(scene, id);
    json_t *new_one = show(scene, retried.new_id);
    assert_same(json_incref(json_object_get(same, "events")), json_incref(json_object_get(moved, "events")));
    assert_int_equal(act(scene, BULK_RETRY, &order, id).refused, 1); /* it was retried before */
    json_decref(same);
    json_decref(moved);
    json_decref(new_one);
}

static void a_dismissal_of_an_archived_execution_is_an_event_of_it(void **state)
{
    struct scene *scene = *state;
    const char *id = ended(scene, "pro-co", NULL, RECORD_FAILED);
    assert_int_equal(archive_all(scene), 1);
    json_t *before = show(scene, id);
    assert_int_equal(act(scene, BULK_DISMISS, NULL, id).changed, 1);
    json_t *after = show(scene, id);
    assert_int_equal(json_array_size(json_object_get(after, "events")),
                     json_array_size(json_object_get(before, "events")) + 1);
    (void)archive_all(scene);
    assert_same(after, show(scene, id));
    json_decref(before);
}

static void a_purge_leaves_nothing_in_the_archive(void **state)
{
    struct scene *scene = *state;
    const char *id = ended(scene, "pro-co", "order-1", RECORD_FAILED);
    const char *other = ended(scene, "pro-co", NULL, RECORD_COMPLETED);
    assert_int_equal(archive_all(scene), 2);
    assert_int_equal(act(scene, BULK_DISMISS, NULL, id).changed, 1); /* it comes back, and the archive may keep a copy */
    assert_int_equal(act(scene, BULK_PURGE, NULL, id).changed, 1);
    assert_int_equal(driver_archived_steps(&scene->driver), 2);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM idempotency_keys"), 0);
    json_t *kept = all_of(scene, other, true);
    json_decref(kept);
    assert_int_equal(act(scene, BULK_PURGE, NULL, other).changed, 1);
    assert_int_equal(driver_archived_steps(&scene->driver), 0);
}

static void an_erased_workspace_leaves_nothing_in_the_archive(void **state)
{
    struct scene *scene = *state;
    struct workspace_deletion deletion = {.name = "pro-co", .erases = true};
    struct deletion_result result = {.failed = 0};
    (void)ended(scene, "pro-co", "order-1", RECORD_FAILED);
    const char *other = ended(scene, "big-co", NULL, RECORD_COMPLETED);
    assert_int_equal(archive_all(scene), 2);
    json_t *before = all_of(scene, other, true);
    scene_ok(scene, store_delete_workspace(scene->store, &deletion, &result, &scene->error));
    assert_int_equal(driver_archived_steps(&scene->driver), 2);
    assert_same(before, all_of(scene, other, true));
}

static void the_status_has_the_last_move(void **state)
{
    struct scene *scene = *state;
    json_t *status = NULL;
    scene_ok(scene, store_status(scene->store, 1, &status, &scene->error));
    json_t *archive = json_object_get(status, "archive");
    assert_int_equal(json_number_at(archive, "moved"), 0);
    assert_true(json_is_null(json_object_get(archive, "moved_at")));
    assert_true(json_is_null(json_object_get(archive, "problem")));
    json_decref(status);
    (void)ended(scene, "pro-co", NULL, RECORD_FAILED);
    assert_int_equal(archive_all(scene), 1);
    scene_ok(scene, store_status(scene->store, 1, &status, &scene->error));
    archive = json_object_get(status, "archive");
    assert_int_equal(json_number_at(archive, "moved"), 1);
    assert_true(json_is_string(json_object_get(archive, "moved_at")));
    assert_true(json_number_at(archive, "bytes") > 0);
    assert_true(json_is_null(json_object_get(archive, "problem")));
    json_decref(status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(an_archived_execution_is_read_as_before),
        SCENE_TEST(an_archived_sleep_keeps_its_end),
        SCENE_TEST(a_repeated_move_changes_nothing),
        SCENE_TEST(young_and_living_executions_stay),
        SCENE_TEST(ids_that_are_too_young_are_not_looked_at),
        SCENE_TEST(a_move_goes_on_where_it_stopped),
        SCENE_TEST(the_child_of_a_living_parent_stays),
        SCENE_TEST(several_nodes_move_each_execution_once),
        SCENE_TEST(filters_and_keys_find_archived_executions),
        SCENE_TEST(a_retry_of_an_archived_execution_has_its_params_and_steps),
        SCENE_TEST(a_dismissal_of_an_archived_execution_is_an_event_of_it),
        SCENE_TEST(a_purge_leaves_nothing_in_the_archive),
        SCENE_TEST(an_erased_workspace_leaves_nothing_in_the_archive),
        SCENE_TEST(the_status_has_the_last_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
