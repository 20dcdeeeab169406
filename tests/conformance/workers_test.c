/* Handlers of nodes: each node has its handlers on record. An item that needs a handler which no live node of its group has
 * waits as `no_worker`, with the node that had it last, and is due at once when a node with its handlers comes up. The
 * scheduler learns which nodes can serve which lanes. */
#include <stdio.h>
#include <string.h>

#include "conformance/rounds.h"

/* A request of a workflow with two handlers. */
static const char *enqueue_mail(struct scene *scene)
{
    struct published published;
    const char *text = "{\"name\":\"mail\",\"steps\":{\"a\":{\"handler\":\"render\"},\"b\":{\"handler\":\"send\"},"
                       "\"c\":{\"handler\":\"send\"}}}";
    scene_ok(scene, store_publish(scene->store, "mail", NULL, text, NULL, &published, &scene->error));
    return scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "big-co", .workflow = "mail"});
}

static bool offer(struct scene *scene, int64_t node, const char *names)
{
    bool more = true;
    struct node_handlers handlers = {.language = "python 3.11", .names = names};
    scene_ok(scene, store_node_handlers(scene->store, node, &handlers, &more, &scene->error));
    return more;
}

/* The node of the scene claims the item, has lost its handlers meanwhile, and puts it back for `delay_us`. */
static void put_back(struct scene *scene, int64_t delay_us)
{
    (void)offer(scene, scene->node, "[\"render\",\"send\"]");
    struct claimed_item item = scene_claim_one(scene);
    (void)offer(scene, scene->node, "[]");
    struct record record = scene_record_of(RECORD_DEFERRED, &item);
    record.delay_us = delay_us;
    record.error_code = "unknown_handler";
    record.error = "this node has no handler \"send\"";
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
}

static json_t *why_of(struct scene *scene, const char *id)
{
    json_t *why = NULL;
    scene_ok(scene, store_why(scene->store, id, &why, &scene->error));
    return why;
}

static void assert_reason(struct scene *scene, const char *id, const char *reason)
{
    json_t *why = why_of(scene, id);
    assert_string_equal(json_text_at(why, "pending_reason"), reason);
    assert_string_equal(scene_reason_of(scene, id), reason);
    json_decref(why);
}

static json_int_t count_of_reason(struct scene *scene, const char *reason)
{
    json_t *status = NULL;
    scene_ok(scene, store_status(scene->store, 10, &status, &scene->error));
    json_int_t count = json_number_at(json_object_get(status, "pending_reasons"), reason);
    json_decref(status);
    return count;
}

static int64_t wait_of(struct scene *scene, const char *id)
{
    return scene_number(scene, "SELECT due_at FROM workflow_execution_queue WHERE id = '%s'", id) - scene_now(scene);
}

static void an_item_without_a_node_for_its_handlers_says_so(void **state)
{
    struct scene *scene = *state;
    struct published published;
    scene_ok(scene,
             store_publish(scene->store, "earlier", NULL, "{\"name\":\"earlier\",\"steps\":{\"a\":{\"handler\":\"z\"}}}",
                           NULL, &published, &scene->error));
    const char *id = enqueue_mail(scene);
    assert_reason(scene, id, "no_worker");
    json_t *why = why_of(scene, id);
    assert_true(json_is_null(json_object_get(why, "last_worker")));
    json_decref(why);
    put_back(scene, SECONDS(10));
    assert_reason(scene, id, "no_worker");
    why = why_of(scene, id);
    json_t *missing = json_object_get(why, "handlers_missing");
    assert_int_equal(json_array_size(missing), 2); /* each name once */
    assert_string_equal(json_string_value(json_array_get(missing, 0)), "render");
    assert_string_equal(json_string_value(json_array_get(missing, 1)), "send");
    assert_string_equal(json_string_value(json_array_get(json_object_get(why, "group_nodes"), 0)), "node-1");
    json_decref(why);
    assert_int_equal(count_of_reason(scene, "no_worker"), 1);
    assert_int_equal(count_of_reason(scene, "backing_off"), 0);
}

static void a_missing_worker_is_named_with_the_end_of_its_lease(void **state)
{
    struct scene *scene = *state;
    int64_t worker = scene_add_node(scene, "worker-1", "default");
    (void)offer(scene, worker, "[\"send\",\"render\"]");
    const char *id = enqueue_mail(scene);
    assert_reason(scene, id, "ready");
    scene_ok(scene, store_node_stop(scene->store, worker, true, &scene->error));
    assert_reason(scene, id, "no_worker");
    json_t *why = why_of(scene, id);
    assert_string_equal(json_text_at(why, "last_worker"), "worker-1");
    assert_string_equal(json_text_at(why, "last_worker_language"), "python 3.11");
    assert_non_null(json_text_at(why, "no_worker_since"));
    json_decref(why);
}

/* As a node whose workers over HTTP have left. */
static void a_living_node_that_has_lost_handlers_is_named_with_the_time(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_mail(scene);
    (void)offer(scene, scene->node, "[\"send\"]");
    json_t *why = why_of(scene, id);
    assert_true(json_is_null(json_object_get(why, "last_worker"))); /* it never had both */
    json_decref(why);
    (void)offer(scene, scene->node, "[\"render\",\"send\"]");
    assert_reason(scene, id, "ready");
    char since[64];
    (void)offer(scene, scene->node, "[\"send\",\"other\"]");
    why = why_of(scene, id);
    assert_string_equal(json_text_at(why, "last_worker"), "node-1");
    (void)snprintf(since, sizeof since, "%s", json_text_at(why, "no_worker_since"));
    json_decref(why);
    scene_pass(scene, SECONDS(1));
    (void)offer(scene, scene->node, "[\"other\"]"); /* what was gone keeps its time */
    why = why_of(scene, id);
    assert_string_equal(json_text_at(why, "no_worker_since"), since);
    json_decref(why);
    json_t *status = NULL;
    scene_ok(scene, store_status(scene->store, 10, &status, &scene->error));
    json_t *row = json_array_get(json_object_get(status, "no_worker"), 0);
    assert_string_equal(json_text_at(row, "last_worker"), "node-1");
    assert_string_equal(json_text_at(row, "no_worker_since"), since);
    json_decref(status);
    (void)offer(scene, scene->node, "[\"render\",\"send\"]");
    assert_reason(scene, id, "ready");
    (void)offer(scene, scene->node, "[]");
    why = why_of(scene, id);
    assert_true(strcmp(json_text_at(why, "no_worker_since"), since) > 0); /* it had had them again */
    json_decref(why);
}

static void handlers_that_only_a_failure_calls_are_needed_from_the_start(void **state)
{
    struct scene *scene = *state;
    struct published published;
    const char *text = "{\"name\":\"saga\",\"steps\":{\"a\":{\"handler\":\"render\",\"undo\":{\"handler\":\"erase\"}}},"
                       "\"on_failure\":{\"b\":{\"handler\":\"tell\"}},\"finally\":{\"c\":{\"handler\":\"clean\"}}}";
    scene_ok(scene, store_publish(scene->store, "saga", NULL, text, NULL, &published, &scene->error));
    (void)offer(scene, scene->node, "[\"render\"]");
    const char *id = scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "big-co", .workflow = "saga"});
    json_t *why = why_of(scene, id);
    char *missing = json_dumps(json_object_get(why, "handlers_missing"), JSON_COMPACT);
    assert_string_equal(missing, "[\"clean\",\"erase\",\"tell\"]");
    free(missing);
    json_decref(why);
}

static void only_a_node_with_all_handlers_of_the_group_counts(void **state)
{
    struct scene *scene = *state;
    int64_t other = scene_add_node(scene, "other-1", "another");
    const char *id = enqueue_mail(scene);
    (void)offer(scene, other, "[\"send\",\"render\"]");
    assert_reason(scene, id, "no_worker");
    (void)offer(scene, scene->node, "[\"send\"]");
    json_t *why = why_of(scene, id);
    json_t *missing = json_object_get(why, "handlers_missing");
    assert_int_equal(json_array_size(missing), 1);
    assert_string_equal(json_string_value(json_array_get(missing, 0)), "render");
    json_decref(why);
    int64_t second = scene_add_node(scene, "node-2", "default");
    (void)offer(scene, second, "[\"render\"]"); /* both exist, no node has both */
    assert_reason(scene, id, "no_worker");
    why = why_of(scene, id);
    assert_int_equal(json_array_size(json_object_get(why, "handlers_missing")), 2);
    json_decref(why);
    (void)offer(scene, second, "[\"render\",\"send\"]");
    assert_reason(scene, id, "ready");
}

static void status_lists_the_workflows_without_a_worker(void **state)
{
    struct scene *scene = *state;
    json_t *status = NULL;
    (void)enqueue_mail(scene);
    put_back(scene, SECONDS(10));
    scene_ok(scene, store_status(scene->store, 10, &status, &scene->error));
    json_t *list = json_object_get(status, "no_worker");
    assert_int_equal(json_array_size(list), 1);
    const json_t *row = json_array_get(list, 0);
    assert_string_equal(json_text_at(row, "workflow"), "mail");
    assert_string_equal(json_text_at(row, "executor_group"), "default");
    assert_int_equal(json_number_at(row, "waiting"), 1);
    assert_int_equal(json_array_size(json_object_get(row, "handlers_missing")), 2);
    json_decref(status);
}

static void a_node_with_the_handlers_makes_the_waiting_items_due(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_mail(scene);
    put_back(scene, SECONDS(3000));
    assert_int_equal(scene_claim(scene, 1).count, 0);
    assert_false(offer(scene, scene->node, "[\"send\"]"));
    assert_int_equal(scene_claim(scene, 1).count, 0);
    int64_t other = scene_add_node(scene, "other-1", "another");
    (void)offer(scene, other, "[\"send\",\"render\"]");
    assert_int_equal(scene_claim(scene, 1).count, 0);
    assert_false(offer(scene, scene->node, "[\"send\",\"render\"]"));
    struct claimed_item item = scene_claim_one(scene);
    assert_string_equal(item.id, id);
}

static void an_item_that_backs_off_for_another_reason_keeps_its_delay(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_mail(scene);
    (void)offer(scene, scene->node, "[\"render\",\"send\"]");
    struct claimed_item item = scene_claim_one(scene);
    (void)offer(scene, scene->node, "[]");
    struct record record = scene_record_of(RECORD_DEFERRED, &item);
    record.delay_us = SECONDS(100);
    record.error_code = "wrong_engine";
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    (void)offer(scene, scene->node, "[\"send\",\"render\"]");
    assert_int_equal(scene_claim(scene, 1).count, 0);
    assert_reason(scene, item.id, "backing_off");
}

static void an_item_that_another_node_can_run_is_tried_again_soon(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_mail(scene);
    put_back(scene, SECONDS(600));
    assert_true(wait_of(scene, id) > SECONDS(500));
    scene_ok(scene, store_bulk(scene->store, BULK_RELEASE, &(struct execution_filter){.id = id}, "", 1,
                               &(struct bulk_result){0}, &scene->error));
    int64_t worker = scene_add_node(scene, "worker-1", "default");
    (void)offer(scene, worker, "[\"render\",\"send\"]");
    put_back(scene, SECONDS(600));
    assert_true(wait_of(scene, id) <= WORKER_ELSEWHERE_US);
    assert_reason(scene, id, "backing_off");
}

/* It has the handlers, and takes no work. */
static void a_node_that_takes_nothing_is_no_other_node(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_mail(scene);
    int64_t worker = scene_add_node(scene, "worker-1", "default");
    (void)offer(scene, worker, "[\"render\",\"send\"]");
    static const char *const reasons[] = {"dead_at = 1", "stopped_at = 1", "desired_state = 'stop'",
                                          "not_accepting = 'paused'", "expires_at = 1"};
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        char sql[256];
        int64_t expires_us = scene_number(scene, "SELECT expires_at FROM nodes WHERE id = %lld", (long long)worker);
        (void)snprintf(sql, sizeof sql, "UPDATE nodes SET %s WHERE id = %lld", reasons[i], (long long)worker);
        json_decref(scene_rows(scene, sql));
        put_back(scene, SECONDS(600));
        assert_true(wait_of(scene, id) > WORKER_ELSEWHERE_US);
        assert_int_equal(count_of_reason(scene, "no_worker"), 1);
        (void)snprintf(sql, sizeof sql,
                       "UPDATE nodes SET dead_at = NULL, stopped_at = NULL, desired_state = 'run', not_accepting = NULL,"
                       " expires_at = %lld WHERE id = %lld",
                       (long long)expires_us, (long long)worker);
        json_decref(scene_rows(scene, sql));
        scene_ok(scene, store_bulk(scene->store, BULK_RELEASE, &(struct execution_filter){.id = id}, "", 1,
                                   &(struct bulk_result){0}, &scene->error));
    }
}

static void the_scheduler_learns_of_items_that_became_due(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_mail(scene);
    put_back(scene, SECONDS(3000));
    struct seat seat;
    seat_take(&seat, scene, scene->node);
    (void)offer(scene, scene->node, "[\"send\",\"render\"]");
    const struct schedule_answer *answer = seat_news(&seat);
    assert_int_equal(news_flags(answer) & NEED_DUE, NEED_DUE);
}

/* Runnable, and never assigned: it has no put-back on record. */
static void a_runnable_item_that_no_node_can_run_counts_as_no_worker(void **state)
{
    struct scene *scene = *state;
    json_t *status = NULL;
    const char *id = enqueue_mail(scene);
    const char *other = scene_enqueue(scene, "big-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_string_equal(item.id, other);
    assert_int_equal(scene_claim(scene, 10).count, 0);
    assert_reason(scene, id, "no_worker");
    assert_int_equal(count_of_reason(scene, "no_worker"), 1);
    assert_int_equal(count_of_reason(scene, "ready"), 0);
    scene_ok(scene, store_status(scene->store, 10, &status, &scene->error));
    const json_t *row = json_array_get(json_object_get(status, "no_worker"), 0);
    assert_string_equal(json_text_at(row, "workflow"), "mail");
    assert_int_equal(json_number_at(row, "waiting"), 1);
    json_decref(status);
    assert_int_equal(scene_number(scene, "SELECT deferrals FROM workflow_execution_queue WHERE id = '%s'", id), 0);
}

/* A node without its handlers has room, and does not count. */
static void one_whose_worker_is_full_names_it(void **state)
{
    struct scene *scene = *state;
    int64_t worker = scene_add_node(scene, "worker-1", "default");
    (void)offer(scene, worker, "[\"send\",\"render\"]");
    const char *id = enqueue_mail(scene);
    struct node_beat beat = {.engine_reachable = true, .running = 4, .capacity = 4};
    scene_ok(scene, store_node_beat(scene->store, worker, &beat, &scene->error));
    assert_reason(scene, id, "nodes_full");
    assert_int_equal(count_of_reason(scene, "nodes_full"), 1);
    assert_int_equal(count_of_reason(scene, "ready"), 0);
    json_t *why = why_of(scene, id);
    assert_int_equal(json_number_at(json_object_get(why, "full_nodes"), "nodes"), 1);
    assert_int_equal(json_number_at(json_object_get(why, "full_nodes"), "capacity"), 4);
    json_decref(why);
    beat.running = 3;
    scene_ok(scene, store_node_beat(scene->store, worker, &beat, &scene->error));
    assert_reason(scene, id, "ready");
    assert_int_equal(count_of_reason(scene, "ready"), 1);
}

static void an_item_is_assigned_to_the_node_with_its_handlers(void **state)
{
    struct scene *scene = *state;
    int64_t worker = scene_add_node(scene, "worker-1", "default");
    (void)offer(scene, scene->node, "[\"render\"]");
    (void)offer(scene, worker, "[\"another\",\"send\",\"render\"]");
    const char *id = enqueue_mail(scene);
    assert_int_equal(scene_claim(scene, 10).count, 0);
    struct claim_result claim = scene_claim_as(scene, worker, "default", 10);
    assert_int_equal(claim.count, 1);
    assert_string_equal(claim.items[0].id, id);
}

/* The number of sets that the node can serve, by the facts of the last list of nodes. */
static size_t served_sets(const struct schedule_answer *answer, int64_t node)
{
    size_t count = 0;
    for (size_t i = 0; i < answer->fact_count; i++) {
        const struct schedule_fact *fact = &answer->facts[i];
        count = fact->kind == FACT_NODES ? 0 : count;
        count += fact->kind == FACT_NODE_HANDLERS && fact->node_id == node ? 1 : 0;
    }
    return count;
}

static const struct schedule_answer *state_of(struct seat *seat)
{
    return seat_round(seat, (struct schedule_call){.needs = NEED_STATE});
}

static void the_scheduler_learns_of_handlers_that_come_and_go(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_mail(scene);
    struct seat seat;
    seat_take(&seat, scene, scene->node);
    assert_int_equal(served_sets(&seat.answer, scene->node), 0);
    (void)offer(scene, scene->node, "[\"send\",\"render\"]");
    assert_int_equal(news_flags(seat_news(&seat)) & NEED_STATE, NEED_STATE);
    assert_int_equal(served_sets(state_of(&seat), scene->node), 1);
    (void)offer(scene, scene->node, "[\"render\",\"send\"]");
    assert_int_equal(news_flags(seat_news(&seat)) & NEED_STATE, 0); /* the same set */
    (void)offer(scene, scene->node, "[\"send\"]");
    assert_int_equal(news_flags(seat_news(&seat)) & NEED_STATE, NEED_STATE);
    assert_int_equal(served_sets(state_of(&seat), scene->node), 0);
}

static void the_scheduler_learns_of_a_new_set_of_handlers(void **state)
{
    struct scene *scene = *state;
    struct published published;
    (void)offer(scene, scene->node, "[\"send\",\"render\",\"print\"]");
    struct seat seat;
    seat_take(&seat, scene, scene->node);
    (void)enqueue_mail(scene);
    assert_int_equal(news_flags(seat_news(&seat)) & NEED_STATE, NEED_STATE);
    assert_int_equal(served_sets(state_of(&seat), scene->node), 1);
    /* The same set in another order is no new one. */
    const char *same = "{\"name\":\"post\",\"steps\":{\"a\":{\"handler\":\"send\"},\"b\":{\"handler\":\"render\"}}}";
    scene_ok(scene, store_publish(scene->store, "post", NULL, same, NULL, &published, &scene->error));
    assert_int_equal(news_flags(seat_news(&seat)) & NEED_STATE, 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM handler_sets"), 1);
    const char *more = "{\"name\":\"press\",\"steps\":{\"a\":{\"handler\":\"print\"}}}";
    scene_ok(scene, store_publish(scene->store, "press", NULL, more, NULL, &published, &scene->error));
    assert_int_equal(served_sets(state_of(&seat), scene->node), 2);
}

/* The scheduler has not read that the node lost its handlers when it assigns. */
static void an_assignment_is_refused_while_the_loss_of_a_handler_is_unread(void **state)
{
    struct scene *scene = *state;
    (void)offer(scene, scene->node, "[\"send\",\"render\"]");
    const char *id = enqueue_mail(scene);
    struct seat seat;
    seat_take(&seat, scene, scene->node);
    (void)offer(scene, scene->node, "[\"send\"]");
    assert_int_equal(seat_assign(&seat, id, scene->node), ASSIGNMENT_UNDONE);
    assert_true(seat.answer.is_stale);
}

static void a_store_has_a_limit_of_sets_of_handlers(void **state)
{
    struct scene *scene = *state;
    struct published published;
    (void)enqueue_mail(scene);
    json_decref(scene_rows(scene, "UPDATE handler_sets SET id = 32767 RETURNING id"));
    const char *text = "{\"name\":\"press\",\"steps\":{\"a\":{\"handler\":\"print\"}}}";
    assert_int_equal(store_publish(scene->store, "press", NULL, text, NULL, &published, &scene->error), WEIR_ILLEGAL_STATE);
    assert_non_null(strstr(scene->error.message, "32767 different sets of handlers"));
    assert_non_null(strstr(scene->error.hint, "the same handlers"));
    json_decref(scene_rows(scene, "UPDATE handler_sets SET id = 1 RETURNING id"));
}

static void an_ended_node_cannot_record_handlers(void **state)
{
    struct scene *scene = *state;
    bool more;
    struct node_handlers handlers = {.names = "[\"send\"]"};
    int64_t worker = scene_add_node(scene, "worker-1", "default");
    scene_ok(scene, store_node_stop(scene->store, worker, true, &scene->error));
    assert_int_equal(store_node_handlers(scene->store, worker, &handlers, &more, &scene->error), WEIR_STALE_FENCE);
}

static void a_list_of_nodes_shows_language_and_handlers(void **state)
{
    struct scene *scene = *state;
    json_t *page = NULL;
    (void)offer(scene, scene->node, "[\"send\",\"render\"]");
    struct list_options options = {.kind = LIST_NODES, .name = "node-1"};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    const json_t *node = json_array_get(json_object_get(page, "items"), 0);
    assert_string_equal(json_text_at(node, "language"), "python 3.11");
    assert_int_equal(json_array_size(json_object_get(node, "handlers")), 2);
    assert_string_equal(json_string_value(json_array_get(json_object_get(node, "handlers"), 0)), "send");
    assert_int_equal(json_number_at(node, "capacity"), SCENE_CAPACITY);
    json_decref(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(an_item_without_a_node_for_its_handlers_says_so),
        SCENE_TEST(a_missing_worker_is_named_with_the_end_of_its_lease),
        SCENE_TEST(a_living_node_that_has_lost_handlers_is_named_with_the_time),
        SCENE_TEST(handlers_that_only_a_failure_calls_are_needed_from_the_start),
        SCENE_TEST(only_a_node_with_all_handlers_of_the_group_counts),
        SCENE_TEST(status_lists_the_workflows_without_a_worker),
        SCENE_TEST(a_node_with_the_handlers_makes_the_waiting_items_due),
        SCENE_TEST(an_item_that_backs_off_for_another_reason_keeps_its_delay),
        SCENE_TEST(an_item_that_another_node_can_run_is_tried_again_soon),
        SCENE_TEST(a_node_that_takes_nothing_is_no_other_node),
        SCENE_TEST(the_scheduler_learns_of_items_that_became_due),
        SCENE_TEST(a_runnable_item_that_no_node_can_run_counts_as_no_worker),
        SCENE_TEST(one_whose_worker_is_full_names_it),
        SCENE_TEST(an_item_is_assigned_to_the_node_with_its_handlers),
        SCENE_TEST(the_scheduler_learns_of_handlers_that_come_and_go),
        SCENE_TEST(the_scheduler_learns_of_a_new_set_of_handlers),
        SCENE_TEST(an_assignment_is_refused_while_the_loss_of_a_handler_is_unread),
        SCENE_TEST(a_store_has_a_limit_of_sets_of_handlers),
        SCENE_TEST(an_ended_node_cannot_record_handlers),
        SCENE_TEST(a_list_of_nodes_shows_language_and_handlers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
