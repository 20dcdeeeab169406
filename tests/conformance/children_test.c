/* Children: planned with the wait of their parent, started once, counted once, and cancelled with it. */
#include "conformance/children_scene.h"

static void a_plan_starts_its_children_once(void **state)
{
    struct scene *scene = *state;
    const struct planned planned = {.count = 3, .wanted = -1};
    enqueue_parent(scene, "free-co");
    struct claimed_item parent = scene_claim_one(scene);
    assert_int_equal(record_plan(scene, &parent, &planned), WEIR_OK);
    assert_int_equal(record_plan(scene, &parent, &planned), WEIR_OK); /* a lost answer */
    assert_int_equal(advance(scene).started, 3);
    assert_int_equal(pending(scene), 3);
    assert_int_equal(record_plan(scene, &parent, &planned), WEIR_OK);
    struct children_advance again = advance(scene);
    assert_int_equal(again.started, 0);
    assert_true(again.exist);
    assert_int_equal(pending(scene), 3);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE workspace = 'free-co'"), 4);
}

#define TRACE "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static void a_child_has_the_trace_context_of_its_parent(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue_request(
        scene, &(struct enqueue_request){.workspace = "free-co", .workflow = "hello", .traceparent = TRACE});
    struct claimed_item traced = scene_claim_one(scene);
    assert_int_equal(record_plan(scene, &traced, &(struct planned){.count = 3, .wanted = -1}), WEIR_OK);
    assert_int_equal(advance(scene).started, 3);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE traceparent = '" TRACE "'"), 4);
    enqueue_parent(scene, "pro-co");
    struct claimed_item other = scene_claim_one(scene);
    assert_int_equal(record_plan(scene, &other, &(struct planned){.count = 1, .wanted = -1}), WEIR_OK);
    assert_int_equal(advance(scene).started, 1);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE traceparent IS NULL"), 2);
}

static void a_lost_claim_plans_nothing(void **state)
{
    struct scene *scene = *state;
    const struct planned planned = {.count = 3, .wanted = -1};
    enqueue_parent(scene, "free-co");
    struct claimed_item parent = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &parent), WEIR_OK);
    assert_int_equal(record_plan(scene, &parent, &planned), WEIR_STALE_FENCE);
    struct claimed_item again = scene_claim_one(scene);
    assert_int_equal(advance(scene).started, 0);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &again), WEIR_OK);
    assert_int_equal(record_plan(scene, &again, &planned), WEIR_EXECUTION_NOT_FOUND);
    assert_false(advance(scene).exist);
}

/* Living and ended ones, for lists, counts and acts. */
static void a_filter_chooses_the_children_of_a_parent(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = begin(scene, &(struct planned){.count = 3, .wanted = -1});
    (void)advance(scene);
    end_children(scene, 1, RECORD_COMPLETED);
    scene_pause_workspace(scene, "pro-co", true);
    enqueue_parent(scene, "pro-co");
    struct list_options options = {.kind = LIST_EXECUTIONS, .filter = {.parent = parent.id}, .count = true};
    json_t *page = NULL;
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    assert_int_equal(json_array_size(json_object_get(page, "items")), 3);
    assert_int_equal(json_number_at(page, "count"), 3);
    json_decref(page);
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &options.filter, "", 10, &result, &scene->error));
    assert_int_equal(result.matched, 3);
    assert_int_equal(result.changed, 2);
    (void)advance(scene);
    assert_failure(scene, &parent, "child_failed", "is CANCELLED");
}

static void the_last_end_wakes_its_parent(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = begin(scene, &(struct planned){.count = 2, .wanted = -1});
    assert_int_equal(advance(scene).started, 2);
    assert_string_equal(scene_status_of(scene, parent.id), "WAITING");
    end_children(scene, 1, RECORD_COMPLETED);
    assert_string_equal(scene_status_of(scene, parent.id), "WAITING");
    end_children(scene, 1, RECORD_COMPLETED);
    assert_string_equal(scene_status_of(scene, parent.id), "PENDING");
    json_t *data = claim_outcome(scene, &parent);
    const json_t *output = json_object_get(data, "output");
    assert_int_equal(json_array_size(output), 2);
    assert_string_equal(json_text_at(json_array_get(output, 0), "status"), "COMPLETED");
    assert_int_equal(json_number_at(json_array_get(output, 1), "output"), 7);
    json_decref(data);
}

static void a_held_parent_gets_the_end_as_a_request(void **state)
{
    struct scene *scene = *state;
    scene_cap(scene, "free-co", 2);
    enqueue_parent(scene, "free-co");
    struct claimed_item parent = scene_claim_one(scene);
    const struct planned planned = {.count = 1, .wanted = -1, .is_single = true};
    assert_int_equal(record_plan(scene, &parent, &planned), WEIR_OK);
    (void)advance(scene);
    end_children(scene, 1, RECORD_COMPLETED);
    struct node_request *requests = scene_take_requests(scene, scene->node, 1);
    assert_string_equal(requests[0].id, parent.id);
    json_t *data = NULL;
    assert_int_equal(json_read(requests[0].signals[0].data, requests[0].signals[0].data_length, &data, NULL), WEIR_OK);
    assert_int_equal(json_number_at(json_object_get(data, "output"), "output"), 7);
    json_decref(data);
    park_parent(scene, &parent); /* which had seen no signal */
    assert_string_equal(scene_status_of(scene, parent.id), "PENDING");
}

static void no_more_children_run_than_max_parallel(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = begin(scene, &(struct planned){.count = 5, .wanted = -1, .max_parallel = 2});
    for (int left = 5; left > 0; left--) {
        (void)advance(scene);
        assert_int_equal(pending(scene), left > 2 ? 2 : left);
        json_t *shown = NULL;
        scene_ok(scene, store_show(scene->store, parent.id, &shown, &scene->error));
        const json_t *row = json_array_get(json_object_get(shown, "children"), 0);
        assert_int_equal(json_number_at(row, "open"), left > 2 ? 2 : left);
        assert_int_equal(json_number_at(row, "not_started"), left > 2 ? left - 2 : 0);
        json_decref(shown);
        end_children(scene, 1, RECORD_COMPLETED);
    }
    json_decref(claim_outcome(scene, &parent));
}

static void a_child_that_fails_fails_the_wait(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = begin(scene, &(struct planned){.count = 2, .wanted = -1});
    (void)advance(scene);
    end_children(scene, 1, RECORD_FAILED);
    assert_string_equal(scene_status_of(scene, parent.id), "WAITING"); /* for the end of the other one */
    end_children(scene, 1, RECORD_COMPLETED);
    assert_failure(scene, &parent, "child_failed", "is FAILED: exit_code: it ended with 3");
}

static void a_request_that_is_refused_fails_the_wait(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent =
        begin(scene, &(struct planned){.count = 1001, .wanted = -1, .max_parallel = 1, .workflow = "nowhere"});
    assert_int_equal(advance(scene).started, 0);
    assert_failure(scene, &parent, "child_refused", "nowhere");
}

/* The parent is of a workspace with one slot. */
static void children_of_another_workspace_use_its_slots(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = begin(scene, &(struct planned){.count = 2, .wanted = -1, .workspace = "pro-co"});
    assert_int_equal(advance(scene).started, 2);
    struct claim_result claim = scene_claim(scene, 10);
    assert_int_equal(claim.count, 2);
    assert_int_equal(scene_count_of(&claim, "pro-co"), 2);
    scene_complete(scene, &claim);
    assert_int_equal(advance(scene).settled, 1);
    json_t *data = claim_outcome(scene, &parent);
    assert_int_equal(json_array_size(json_object_get(data, "output")), 2);
    json_decref(data);
}

static void children_of_an_unknown_workspace_are_refused(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = begin(scene, &(struct planned){.count = 1, .wanted = -1, .workspace = "nobody"});
    assert_int_equal(advance(scene).started, 0);
    assert_failure(scene, &parent, "child_refused", "workspace_not_found: the workspace of the step does not exist");
}

/* Else the tenant of that workspace would get the params, and decide the outputs. */
static void children_of_another_workspace_run_a_workflow_of_all(void **state)
{
    struct scene *scene = *state;
    (void)scene_publish(scene, "hello", "pro-co");
    struct claimed_item parent = begin(scene, &(struct planned){.count = 1, .wanted = -1, .workspace = "pro-co"});
    assert_int_equal(advance(scene).started, 1);
    struct claimed_item child = scene_claim_one(scene);
    assert_int_equal(child.definition_id, parent.definition_id);
    end_with(scene, &child, RECORD_COMPLETED, "7");
    assert_int_equal(advance(scene).settled, 1);
    json_decref(claim_outcome(scene, &parent));
}

/* The refusal is the same whatever that workspace has. */
static void assert_own_is_missing(struct scene *scene, enum workflow_state its_state)
{
    (void)scene_publish(scene, "own", "pro-co");
    scene_ok(scene, store_set_workflow_state(scene->store, "own", "pro-co", its_state, &scene->error));
    struct claimed_item parent =
        begin(scene, &(struct planned){.count = 1, .wanted = -1, .workspace = "pro-co", .workflow = "own"});
    assert_int_equal(advance(scene).started, 0);
    assert_failure(scene, &parent, "child_refused", "workflow_not_found: there is no workflow \"own\" of all workspaces");
}

static void a_workflow_of_another_workspace_is_missing_to_children(void **state)
{
    assert_own_is_missing(*state, WORKFLOW_PUBLISHED);
}

static void a_disabled_workflow_of_another_workspace_is_missing_to_children(void **state)
{
    assert_own_is_missing(*state, WORKFLOW_DISABLED);
}

static void a_wait_for_some_ends_early(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = begin(scene, &(struct planned){.count = 3, .wanted = 1, .leaves = true});
    (void)advance(scene);
    end_children(scene, 1, RECORD_FAILED);
    assert_string_equal(scene_status_of(scene, parent.id), "WAITING");
    end_children(scene, 1, RECORD_COMPLETED);
    json_t *data = claim_outcome(scene, &parent); /* it was enqueued before the third child */
    const json_t *output = json_object_get(data, "output");
    assert_string_equal(json_text_at(json_array_get(output, 0), "status"), "FAILED");
    assert_string_equal(json_text_at(json_array_get(output, 1), "status"), "COMPLETED");
    assert_string_equal(json_text_at(json_array_get(output, 2), "status"), "OPEN");
    json_decref(data);
}

static void a_wait_that_cannot_be_met_fails_at_once(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = begin(scene, &(struct planned){.count = 3, .wanted = 2});
    (void)advance(scene);
    end_children(scene, 1, RECORD_FAILED);
    assert_string_equal(scene_status_of(scene, parent.id), "WAITING");
    end_children(scene, 1, RECORD_FAILED);
    assert_failure(scene, &parent, "child_failed", "is FAILED");
}

static void a_wait_for_none_ends_with_the_ids(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = begin(scene, &(struct planned){.count = 3, .wanted = 0, .max_parallel = 1});
    struct children_advance done = advance(scene);
    assert_int_equal(done.started, 1);
    assert_int_equal(done.settled, 1);
    json_t *data = claim_outcome(scene, &parent);
    assert_int_equal(json_array_size(json_object_get(data, "output")), 3);
    json_decref(data);
}

static void the_end_of_a_parent_cancels_its_children(void **state)
{
    struct scene *scene = *state;
    scene_cap(scene, "free-co", 2);
    enqueue_parent(scene, "free-co");
    struct claimed_item parent = scene_claim_one(scene);
    const struct planned planned = {.count = 4, .wanted = -1, .max_parallel = 3};
    assert_int_equal(record_plan(scene, &parent, &planned), WEIR_OK);
    (void)advance(scene);
    struct claimed_item child = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_FAILED, &parent), WEIR_OK);
    assert_int_equal(advance(scene).cancelled, 3);
    assert_int_equal(pending(scene), 0);
    struct node_request *requests = scene_take_requests(scene, scene->node, 1);
    assert_string_equal(requests[0].id, child.id);
    assert_true(requests[0].cancels);
    assert_int_equal(scene_record(scene, RECORD_CANCELLED, &child), WEIR_OK);
    struct children_advance rest = advance(scene);
    assert_int_equal(rest.started + rest.cancelled + rest.settled, 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE status = 'CANCELLED'"), 3);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_execution_events WHERE event = 'cancel' AND actor "
                                         "IS NULL AND reason = 'its parent has ended'"),
                     3);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM audit WHERE act = 'cancel'"), 0); /* no person did it */
}

/* A parent that has ended waits for nothing, so nothing of it is settled when its children end. */
static void the_ends_behind_a_cancelled_parent_settle_nothing(void **state)
{
    struct scene *scene = *state;
    scene_cap(scene, "free-co", 2);
    enqueue_parent(scene, "free-co");
    struct claimed_item parent = scene_claim_one(scene);
    assert_int_equal(record_plan(scene, &parent, &(struct planned){.count = 2, .wanted = -1}), WEIR_OK);
    assert_int_equal(advance(scene).started, 2);
    struct claimed_item child = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_CANCELLED, &parent), WEIR_OK);
    struct children_advance cancels = advance(scene);
    assert_int_equal(cancels.cancelled, 2);
    assert_int_equal(scene_record(scene, RECORD_CANCELLED, &child), WEIR_OK);
    struct children_advance ends = advance(scene);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM child_steps WHERE ended = 2 AND is_settled"), 1);
    assert_int_equal(cancels.settled + ends.settled, 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM signals"), 0);
}

static void children_that_are_left_need_no_parent(void **state)
{
    struct scene *scene = *state;
    enqueue_parent(scene, "free-co");
    struct claimed_item parent = scene_claim_one(scene);
    const struct planned planned = {.count = 3, .wanted = 0, .max_parallel = 1, .leaves = true};
    assert_int_equal(record_plan(scene, &parent, &planned), WEIR_OK);
    (void)advance(scene);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &parent), WEIR_OK);
    assert_int_equal(advance(scene).cancelled, 0);
    purge(scene, parent.id);
    (void)advance(scene);
    end_children(scene, 3, RECORD_COMPLETED);
    assert_false(advance(scene).exist);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE status = 'COMPLETED'"), 3);
}

/* The parent fails in another branch, and stops its step before the duty has read the plan. */
static void children_that_are_left_start_though_their_parent_ended_first(void **state)
{
    struct scene *scene = *state;
    for (int leaves = 1; leaves >= 0; leaves--) {
        enqueue_parent(scene, "free-co");
        struct claimed_item parent = scene_claim_one(scene);
        struct step_record step = {.step = "go", .state = STEP_CANCELLED, .attempt = 1, .exit_code = -1};
        struct record stopped = scene_record_of(RECORD_STEP, &parent);
        stopped.step = &step;
        assert_int_equal(record_plan(scene, &parent, &(struct planned){.count = 3, .wanted = -1, .leaves = leaves == 1}),
                         WEIR_OK);
        assert_int_equal(scene_record_full(scene, scene->node, stopped), WEIR_OK);
        end_with(scene, &parent, RECORD_FAILED, NULL);
        assert_int_equal(advance(scene).started, leaves == 1 ? 3 : 0);
        assert_int_equal(pending(scene), leaves == 1 ? 3 : 0);
        assert_int_equal(scene_number(scene, "SELECT count(variables) FROM workflow_node_executions"), 0);
        end_children(scene, leaves == 1 ? 3 : 0, RECORD_COMPLETED);
    }
}

static void a_purged_parent_leaves_nothing(void **state)
{
    struct scene *scene = *state;
    enqueue_parent(scene, "free-co");
    struct claimed_item parent = scene_claim_one(scene);
    const struct planned planned = {.count = 700, .wanted = -1};
    assert_int_equal(record_plan(scene, &parent, &planned), WEIR_OK);
    (void)advance(scene);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &parent), WEIR_OK);
    purge(scene, parent.id); /* before the duty knows of its end */
    assert_int_equal(advance(scene).cancelled, 700);
    assert_false(advance(scene).exist);
    assert_int_equal(pending(scene), 0);
    enqueue_parent(scene, "free-co");
    parent = scene_claim_one(scene);
    assert_int_equal(record_plan(scene, &parent, &planned), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &parent), WEIR_OK);
    purge(scene, parent.id); /* before its plan was read */
    assert_int_equal(advance(scene).started, 0);
    assert_false(advance(scene).exist);
    enqueue_parent(scene, "free-co");
    parent = scene_claim_one(scene);
    assert_int_equal(record_plan(scene, &parent, &planned), WEIR_OK);
    (void)advance(scene);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &parent), WEIR_OK);
    assert_true(advance(scene).exist);
    purge(scene, parent.id); /* when nothing else is to do */
    (void)advance(scene);
    assert_false(advance(scene).exist);
}

static void a_child_that_is_purged_first_is_lost(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = begin(scene, &(struct planned){.count = 1, .wanted = -1});
    (void)advance(scene);
    struct claimed_item child = scene_claim_one(scene);
    end_with(scene, &child, RECORD_COMPLETED, "7");
    purge(scene, child.id);
    (void)advance(scene);
    assert_failure(scene, &parent, "child_lost", child.id);
}

static void parents_are_limited_in_depth(void **state)
{
    struct scene *scene = *state;
    const struct planned planned = {.count = 1, .wanted = -1};
    struct claimed_item parent = {.fence = 0};
    enqueue_parent(scene, "free-co");
    for (int depth = 0; depth <= CHILD_DEPTH_MOST; depth++) {
        parent = scene_claim_one(scene);
        assert_int_equal(record_plan(scene, &parent, &planned), WEIR_OK);
        park_parent(scene, &parent);
        assert_int_equal(advance(scene).started, depth < CHILD_DEPTH_MOST);
    }
    assert_failure(scene, &parent, "children_too_deep", "16 parents");
}

static void ten_thousand_children_start_in_parts(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = begin(scene, &(struct planned){.count = CHILDREN_OF_STEP_MOST, .wanted = -1});
    assert_int_equal(advance(scene).started, CHILDREN_OF_STEP_MOST);
    assert_int_equal(pending(scene), CHILDREN_OF_STEP_MOST);
    struct bulk_result result = {0};
    struct execution_filter filter = {.id = parent.id};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
    assert_int_equal(advance(scene).cancelled, CHILDREN_OF_STEP_MOST);
    assert_int_equal(pending(scene), 0);
}

static void outputs_that_are_too_large_are_left_out(void **state)
{
    struct scene *scene = *state;
    enum { LARGE = 600 * 1024 };
    struct claimed_item parent = begin(scene, &(struct planned){.count = 2, .wanted = -1});
    char *output = malloc(LARGE);
    (void)advance(scene);
    memset(output, 'x', LARGE);
    output[0] = '"';
    output[LARGE - 1] = '"';
    for (int i = 0; i < 2; i++) {
        struct claimed_item child = scene_claim_one(scene);
        struct step_record step = {
            .step = "say", .state = STEP_COMPLETED, .attempt = 1, .exit_code = 0, .output = output, .output_length = LARGE};
        struct record record = scene_record_of(RECORD_COMPLETED, &child);
        record.step = &step;
        assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
        (void)advance(scene);
    }
    free(output);
    json_t *data = claim_outcome(scene, &parent);
    const json_t *first = json_array_get(json_object_get(data, "output"), 0);
    assert_string_equal(json_text_at(first, "status"), "COMPLETED");
    assert_null(json_object_get(first, "output"));
    json_decref(data);
}

static void a_deleted_workspace_ends_children_and_parents(void **state)
{
    struct scene *scene = *state;
    (void)begin(scene, &(struct planned){.count = 3, .wanted = -1, .max_parallel = 2});
    (void)advance(scene);
    struct workspace_deletion deletion = {.name = "free-co", .fails_waiting = true};
    struct deletion_result counts = {.failed = 0};
    scene_ok(scene, store_delete_workspace(scene->store, &deletion, &counts, &scene->error));
    (void)advance(scene);
    assert_int_equal(pending(scene), 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE status = 'FAILED'"), 3);
}

/* --- plans that are no good, and much work --- */

/* A claimed execution that waits for the children of a plan, written by hand. */
static struct claimed_item begin_with(struct scene *scene, const char *workspace, const char *plan)
{
    char *copy = strdup(plan);
    struct step_record step = wait_of(copy);
    enqueue_parent(scene, workspace);
    struct claimed_item item = scene_claim_one(scene);
    struct record record = scene_record_of(RECORD_STEP, &item);
    record.step = &step;
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
    free(copy);
    return item;
}

#define PLAN_HEAD                                                                                                          \
    "{\"workflow\":\"hello\",\"executor_group\":null,\"priority\":null,\"is_single\":1,\"waits_for_all\":1,"               \
    "\"wanted\":1,\"max_parallel\":1,\"leaves\":0,\"children\":"

static void a_plan_that_cannot_be_read_stops_no_other(void **state)
{
    struct scene *scene = *state;
    static const char *const plans[] = {"[[[[", PLAN_HEAD "7}", "{\"children\":[{}]}", "{\"wanted\":\"x\",\"children\":[]}",
                                        "{\"wanted\":null,\"max_parallel\":null,\"children\":[{}]}"};
    enum { COUNT = sizeof plans / sizeof plans[0] };
    struct claimed_item bad[COUNT];
    scene_cap(scene, "free-co", 2 * COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        bad[i] = begin_with(scene, "free-co", plans[i]);
        park_parent(scene, &bad[i]);
    }
    (void)begin_with(scene, "pro-co", PLAN_HEAD "[{}]}");
    struct children_advance all = advance(scene);
    assert_int_equal(all.started, 1);
    assert_int_equal(all.settled, COUNT);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM signals WHERE data LIKE '%%children_invalid%%'"), COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_string_equal(scene_status_of(scene, bad[i].id), "PENDING");
    }
}

/* A plan that nests its params to the limit of an input is read, too. */
static void params_may_be_as_deep_as_an_input(void **state)
{
    struct scene *scene = *state;
    struct text plan = {.max = 1024};
    assert_int_equal(text_add_string(&plan, PLAN_HEAD "[{\"a\":"), WEIR_OK);
    for (int i = 0; i < 2 * (JSON_DEPTH_MAX - 2); i++) {
        assert_int_equal(text_add_string(&plan, i < JSON_DEPTH_MAX - 2 ? "[" : "]"), WEIR_OK);
    }
    assert_int_equal(text_add_string(&plan, "}]}"), WEIR_OK);
    (void)begin_with(scene, "free-co", plan.data);
    assert_int_equal(advance(scene).started, 1);
    text_close(&plan);
}

static void params_that_are_too_large_fail_the_wait(void **state)
{
    struct scene *scene = *state;
    struct text plan = {.max = 2 * PARAMS_BYTES_MAX};
    assert_int_equal(text_add_string(&plan, PLAN_HEAD "[{\"a\":\""), WEIR_OK);
    for (int i = 0; i < PARAMS_BYTES_MAX / 16; i++) {
        assert_int_equal(text_add_string(&plan, "0123456789abcdef"), WEIR_OK);
    }
    assert_int_equal(text_add_string(&plan, "\"}]}"), WEIR_OK);
    struct claimed_item parent = begin_with(scene, "free-co", plan.data);
    park_parent(scene, &parent);
    assert_int_equal(advance(scene).started, 0);
    assert_failure(scene, &parent, "children_too_large", "1 MiB");
    text_close(&plan);
}

static void one_call_reads_a_bounded_number_of_plans(void **state)
{
    struct scene *scene = *state;
    const struct planned planned = {.count = CHILD_PLAN_BATCH, .wanted = -1, .max_parallel = 1};
    struct children_advance part = {.again = false};
    enum { PARENTS = 4 };
    scene_cap(scene, "free-co", PARENTS);
    for (int i = 0; i < PARENTS; i++) {
        enqueue_parent(scene, "free-co");
        struct claimed_item item = scene_claim_one(scene);
        assert_int_equal(record_plan(scene, &item, &planned), WEIR_OK);
    }
    scene_ok(scene, store_advance_children(scene->store, &part, &scene->error));
    assert_true(part.again);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM children"), CHILD_PLAN_BATCH);
    (void)advance(scene);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM children"), PARENTS * CHILD_PLAN_BATCH);
    assert_int_equal(pending(scene), PARENTS);
}

/* The work of a plan: its children, and its parts of 4 KiB. */
static int work_of(int count)
{
    char *plan = plan_text(&(struct planned){.count = count, .wanted = -1, .max_parallel = 1});
    int work = count + (int)(strlen(plan) / 4096);
    free(plan);
    return work;
}

/* A store may read a plan in parts of CHILD_STARTS_BATCH, so no plan here is larger. */
static void a_call_reads_plans_until_the_bound_is_reached(void **state)
{
    struct scene *scene = *state;
    struct children_advance part = {.again = false};
    int counts[] = {CHILD_STARTS_BATCH, CHILD_STARTS_BATCH, 1};
    while (work_of(counts[0]) + work_of(counts[1]) >= CHILD_PLAN_BATCH) {
        counts[1]--;
    }
    assert_int_equal(work_of(counts[0]) + work_of(counts[1]), CHILD_PLAN_BATCH - 1);
    scene_cap(scene, "free-co", 3);
    for (int i = 0; i < 3; i++) {
        enqueue_parent(scene, "free-co");
        struct claimed_item item = scene_claim_one(scene);
        const struct planned planned = {.count = counts[i], .wanted = -1, .max_parallel = 1};
        assert_int_equal(record_plan(scene, &item, &planned), WEIR_OK);
    }
    scene_ok(scene, store_advance_children(scene->store, &part, &scene->error));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM children"), counts[0] + counts[1] + counts[2]);
}

/* A parent that runs, with this plan in the steps `go` and `on`. */
static struct claimed_item begin_two(struct scene *scene, const struct planned *planned)
{
    enqueue_parent(scene, "free-co");
    struct claimed_item parent = scene_claim_one(scene);
    for (int i = 0; i < 2; i++) {
        char *plan = plan_text(planned);
        struct step_record step = wait_of(plan);
        text_copy(step.step, sizeof step.step, i == 0 ? "go" : "on");
        text_copy(step.signal, sizeof step.signal, i == 0 ? "children:go" : "children:on");
        struct record record = scene_record_of(RECORD_STEP, &parent);
        record.step = &step;
        assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
        free(plan);
    }
    return parent;
}

static void all_steps_of_a_parent_are_cancelled_in_parts(void **state)
{
    struct scene *scene = *state;
    enum { COUNT = CHILD_SET_BATCH + 100 };
    const struct planned planned = {.count = COUNT, .wanted = -1};
    for (int is_purged = 0; is_purged < 2; is_purged++) {
        struct claimed_item parent = begin_two(scene, &planned);
        assert_int_equal(advance(scene).started, 2 * COUNT);
        assert_int_equal(scene_number(scene, "SELECT count(*) FROM children WHERE params IS NOT NULL"), 0);
        assert_int_equal(scene_record(scene, RECORD_FAILED, &parent), WEIR_OK);
        if (is_purged) {
            purge(scene, parent.id); /* before the duty knows of its end */
        }
        assert_int_equal(advance(scene).cancelled, 2 * COUNT);
        assert_int_equal(pending(scene), 0);
        assert_int_equal(scene_number(scene, "SELECT count(*) FROM child_steps WHERE parent_id = '%s'", parent.id),
                         is_purged ? 0 : 2);
    }
}

static void each_step_has_the_failure_of_its_own_children(void **state)
{
    struct scene *scene = *state;
    scene_cap(scene, "free-co", 10);
    struct claimed_item parent = begin_two(scene, &(struct planned){.count = 2, .wanted = -1});
    assert_int_equal(advance(scene).started, 4);
    struct claim_result children = scene_claim(scene, 10);
    assert_int_equal(children.count, 4);
    for (size_t i = 0; i < 4; i++) {
        bool fails = scene_number(scene,
                                  "SELECT count(*) FROM children WHERE child_id = '%s'"
                                  " AND (step = 'go' AND position = 0 OR step = 'on' AND position = 1)",
                                  children.items[i].id) == 1;
        end_with(scene, &children.items[i], fails ? RECORD_FAILED : RECORD_COMPLETED, fails ? NULL : "{}");
    }
    (void)advance(scene);
    static const char *const failures[] = {"step = 'go' AND c.position = 0", "step = 'on' AND c.position = 1"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(
            scene_number(scene,
                         "SELECT count(*) FROM children c JOIN signals s ON s.execution_id = c.parent_id"
                         " AND s.name = CASE c.step WHEN 'go' THEN 'children:go' ELSE 'children:on' END"
                         " WHERE c.parent_id = '%s' AND c.%s AND s.data LIKE '%%' || CAST(c.child_id AS text) || '%%'",
                         parent.id, failures[i]),
            1);
    }
}

static void a_child_that_is_purged_before_the_wait_ends_is_shown_as_lost(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = begin(scene, &(struct planned){.count = 2, .wanted = -1});
    (void)advance(scene);
    struct claimed_item child = scene_claim_one(scene);
    end_with(scene, &child, RECORD_COMPLETED, "7");
    (void)advance(scene);
    purge(scene, child.id);
    end_children(scene, 1, RECORD_COMPLETED);
    json_t *data = claim_outcome(scene, &parent);
    const json_t *list = json_object_get(data, "output");
    size_t lost = strcmp(json_text_at(json_array_get(list, 0), "id"), child.id) == 0 ? 0 : 1;
    assert_string_equal(json_text_at(json_array_get(list, lost), "status"), "LOST");
    assert_string_equal(json_text_at(json_array_get(list, 1 - lost), "status"), "COMPLETED");
    json_decref(data);
}

/* A row that another program has written is in the way of the end of one wait. The other waits end, and this one ends when
 * the row is gone. */
static void a_fault_of_one_step_stops_no_other(void **state)
{
    struct scene *scene = *state;
    struct children_advance part = {.faults = 0};
    const struct planned planned = {.count = 1, .wanted = -1};
    struct claimed_item bad = begin(scene, &planned);
    struct claimed_item good = begin(scene, &planned);
    assert_int_equal(advance(scene).started, 2);
    char sql[256];
    (void)snprintf(sql, sizeof sql, /* a number that the store will give to its own signal */
                   "INSERT INTO signals (execution_id, seq, name, data, sent_at) VALUES ('%s', 1, 'x', 'null', 1)", bad.id);
    json_decref(scene_rows(scene, sql));
    for (int i = 0; i < 2; i++) {
        struct claimed_item child = scene_claim_one(scene);
        end_with(scene, &child, RECORD_COMPLETED, "7");
    }
    scene_ok(scene, store_advance_children(scene->store, &part, &scene->error));
    assert_int_equal(part.settled, 1);
    assert_int_equal(part.faults, 1);
    assert_non_null(strstr(part.fault, bad.id));
    assert_false(part.again || part.waits);
    assert_string_equal(scene_status_of(scene, good.id), "PENDING");
    assert_string_equal(scene_status_of(scene, bad.id), "WAITING");
    json_decref(scene_rows(scene, "DELETE FROM signals WHERE name = 'x'"));
    assert_int_equal(advance(scene).settled, 1);
    assert_string_equal(scene_status_of(scene, bad.id), "PENDING");
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM signals WHERE data LIKE '%%COMPLETED%%'"), 2);
}

/* The work of an accepted execution is not refused, and takes the room of later requests. */
static void children_pass_the_limit_of_pending_executions(void **state)
{
    struct scene *scene = *state;
    struct workspace_change limit = {.name = "free-co", .max_pending = 2, .paused = -1};
    struct enqueue_request request = {.workspace = "free-co", .workflow = "hello"};
    struct planned planned = {.count = 5, .wanted = -1};
    scene_ok(scene, store_set_workspace(scene->store, &limit, &scene->error));
    (void)begin(scene, &planned);
    assert_int_equal(advance(scene).started, 5);
    assert_int_equal(pending(scene), 5);
    assert_int_equal(scene_try(scene, &request).status, WEIR_QUEUE_FULL);
}

/* Else one accepted execution of a workflow that starts itself would fill the store. */
static void children_of_children_stop_far_beyond_the_limit(void **state)
{
    struct scene *scene = *state;
    struct workspace_change limit = {.name = "free-co", .max_pending = 1, .paused = -1};
    const struct planned many = {.count = CHILDREN_OF_STEP_MOST, .wanted = -1};
    const struct planned few = {.count = 3, .wanted = -1};
    (void)begin(scene, &many);
    (void)begin(scene, &few);
    scene_ok(scene, store_set_workspace(scene->store, &limit, &scene->error));
    assert_int_equal(advance(scene).started, CHILDREN_OF_STEP_MOST + 3);
    struct claimed_item child = scene_claim_one(scene);
    assert_int_equal(record_plan(scene, &child, &few), WEIR_OK);
    park_parent(scene, &child);
    struct children_advance done = advance(scene);
    assert_int_equal(done.started, 0);
    assert_int_equal(done.settled, 1);
    assert_failure(scene, &child, "children_queue_full", "more than it may have");
}

/* Of the group "reports", as its children. */
static void start_in_group(struct scene *scene, bool ends_first)
{
    const struct planned planned = {.count = 2, .wanted = 0, .leaves = true};
    struct enqueue_request request = {.workspace = "free-co", .workflow = "hello", .group = "reports"};
    scene_group(scene, "reports");
    scene->node = scene_add_node(scene, "reporter", "reports");
    (void)scene_enqueue_request(scene, &request);
    struct claim_result claim = scene_claim_as(scene, scene->node, "reports", 1);
    assert_int_equal(claim.count, 1);
    struct claimed_item parent = claim.items[0];
    assert_int_equal(record_plan(scene, &parent, &planned), WEIR_OK);
    if (ends_first) {
        assert_int_equal(scene_record(scene, RECORD_COMPLETED, &parent), WEIR_OK);
    }
    assert_int_equal(advance(scene).started, 2);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE executor_group = 'reports'"), 3);
}

static void children_take_the_group_of_their_parent(void **state)
{
    start_in_group(*state, false);
}

/* The plan is read after the end of the parent. */
static void children_take_the_group_of_a_parent_that_has_ended(void **state)
{
    start_in_group(*state, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(children_pass_the_limit_of_pending_executions),
        SCENE_TEST(children_of_children_stop_far_beyond_the_limit),
        SCENE_TEST(a_plan_starts_its_children_once),
        SCENE_TEST(a_child_has_the_trace_context_of_its_parent),
        SCENE_TEST(children_take_the_group_of_their_parent),
        SCENE_TEST(children_take_the_group_of_a_parent_that_has_ended),
        SCENE_TEST(a_lost_claim_plans_nothing),
        SCENE_TEST(a_filter_chooses_the_children_of_a_parent),
        SCENE_TEST(the_last_end_wakes_its_parent),
        SCENE_TEST(a_held_parent_gets_the_end_as_a_request),
        SCENE_TEST(no_more_children_run_than_max_parallel),
        SCENE_TEST(a_child_that_fails_fails_the_wait),
        SCENE_TEST(a_request_that_is_refused_fails_the_wait),
        SCENE_TEST(children_of_another_workspace_use_its_slots),
        SCENE_TEST(children_of_an_unknown_workspace_are_refused),
        SCENE_TEST(children_of_another_workspace_run_a_workflow_of_all),
        SCENE_TEST(a_workflow_of_another_workspace_is_missing_to_children),
        SCENE_TEST(a_disabled_workflow_of_another_workspace_is_missing_to_children),
        SCENE_TEST(a_wait_for_some_ends_early),
        SCENE_TEST(a_wait_that_cannot_be_met_fails_at_once),
        SCENE_TEST(a_wait_for_none_ends_with_the_ids),
        SCENE_TEST(the_end_of_a_parent_cancels_its_children),
        SCENE_TEST(the_ends_behind_a_cancelled_parent_settle_nothing),
        SCENE_TEST(children_that_are_left_need_no_parent),
        SCENE_TEST(children_that_are_left_start_though_their_parent_ended_first),
        SCENE_TEST(a_purged_parent_leaves_nothing),
        SCENE_TEST(a_child_that_is_purged_first_is_lost),
        SCENE_TEST(parents_are_limited_in_depth),
        SCENE_TEST(ten_thousand_children_start_in_parts),
        SCENE_TEST(outputs_that_are_too_large_are_left_out),
        SCENE_TEST(a_deleted_workspace_ends_children_and_parents),
        SCENE_TEST(a_plan_that_cannot_be_read_stops_no_other),
        SCENE_TEST(params_may_be_as_deep_as_an_input),
        SCENE_TEST(params_that_are_too_large_fail_the_wait),
        SCENE_TEST(one_call_reads_a_bounded_number_of_plans),
        SCENE_TEST(a_call_reads_plans_until_the_bound_is_reached),
        SCENE_TEST(all_steps_of_a_parent_are_cancelled_in_parts),
        SCENE_TEST(each_step_has_the_failure_of_its_own_children),
        SCENE_TEST(a_child_that_is_purged_before_the_wait_ends_is_shown_as_lost),
        SCENE_TEST(a_fault_of_one_step_stops_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
