/* Children with idempotency keys: a known key gives its execution to the parent, which waits for it or takes its end. */
#include "conformance/children_scene.h"
#include "store/archive.h"

static struct enqueue_request request_of(const char *key)
{
    static const char params[] = "{\"of\":\"a program\"}";
    return (struct enqueue_request){.workspace = "free-co",
                                    .workflow = "hello",
                                    .idempotency_key = key,
                                    .params = params,
                                    .params_length = sizeof params - 1};
}

/* Copied: the text of the scene lives until its next call. */
static void enqueue_keyed(struct scene *scene, const char *key, char ret_id[UUID_TEXT_MAX])
{
    struct enqueue_request request = request_of(key);
    text_copy(ret_id, UUID_TEXT_MAX, scene_enqueue_request(scene, &request));
}

static const struct planned of_one_key = {.count = 1, .wanted = -1, .leaves = true, .is_single = true, .keys = "[\"k\"]"};

static void assert_outcome(struct scene *scene, const struct claimed_item *parent, const char *id, json_int_t output)
{
    json_t *data = claim_outcome(scene, parent);
    const json_t *child = json_object_get(data, "output");
    assert_string_equal(json_text_at(child, "status"), "COMPLETED");
    if (id != NULL) {
        assert_string_equal(json_text_at(child, "id"), id);
    }
    assert_int_equal(json_number_at(child, "output"), output);
    json_decref(data);
}

/* Of the children of the only step of the parent. */
static json_int_t adopted_of(struct scene *scene, const struct claimed_item *parent)
{
    json_t *shown = NULL;
    scene_ok(scene, store_show(scene->store, parent->id, &shown, &scene->error));
    json_int_t adopted = json_number_at(json_array_get(json_object_get(shown, "children"), 0), "adopted");
    json_decref(shown);
    return adopted;
}

static void a_new_key_goes_to_the_child(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent = begin(scene, &of_one_key);
    assert_int_equal(advance(scene).started, 1);
    assert_int_equal(adopted_of(scene, &parent), 0);
    struct enqueue_request request = request_of("k");
    request.params = "{\"n\":0}";
    request.params_length = 7;
    struct enqueue_result again = scene_try(scene, &request);
    assert_true(again.duplicate);
    end_children(scene, 1, RECORD_COMPLETED);
    assert_outcome(scene, &parent, again.id, 7);
}

static void a_known_key_is_waited_for(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    struct claimed_item parent = begin(scene, &of_one_key);
    enqueue_keyed(scene, "k", id);
    assert_int_equal(advance(scene).settled, 0);
    assert_int_equal(adopted_of(scene, &parent), 1);
    assert_int_equal(pending(scene), 1);
    assert_string_equal(scene_status_of(scene, parent.id), "WAITING");
    end_children(scene, 1, RECORD_COMPLETED);
    assert_outcome(scene, &parent, id, 7);
}

static void an_execution_that_has_ended_gives_its_output(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    enqueue_keyed(scene, "k", id);
    end_children(scene, 1, RECORD_COMPLETED);
    struct claimed_item parent = begin(scene, &of_one_key);
    struct children_advance done = advance(scene);
    assert_int_equal(done.started, 0);
    assert_int_equal(done.settled, 1);
    assert_outcome(scene, &parent, id, 7);
}

static void the_output_of_an_archived_execution_is_read(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    struct archive_result moved = {.moved = 0};
    enqueue_keyed(scene, "k", id);
    end_children(scene, 1, RECORD_COMPLETED);
    scene_pass(scene, SECONDS(100));
    struct archive_order order = {.ended_before_us = scene_now(scene), .limit = ARCHIVE_BATCH, .is_whole = true};
    scene_ok(scene, store_archive(scene->store, &order, &moved, &scene->error));
    assert_int_equal(moved.moved, 1);
    scene_beat(scene, scene->node);
    struct claimed_item parent = begin(scene, &of_one_key);
    (void)advance(scene);
    assert_outcome(scene, &parent, id, 7);
}

static void an_execution_that_has_failed_fails_the_wait(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    enqueue_keyed(scene, "k", id);
    end_children(scene, 1, RECORD_FAILED);
    struct claimed_item parent = begin(scene, &of_one_key);
    (void)advance(scene);
    assert_failure(scene, &parent, "child_failed", id);
}

static void the_newest_retry_counts(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    enqueue_keyed(scene, "k", id);
    end_children(scene, 1, RECORD_FAILED);
    struct execution_filter filter = {.id = id};
    struct bulk_result retried = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_RETRY, &filter, "", 10, &retried, &scene->error));
    end_children(scene, 1, RECORD_COMPLETED);
    struct claimed_item parent = begin(scene, &of_one_key);
    (void)advance(scene);
    assert_outcome(scene, &parent, retried.new_id, 7);
}

/* The first parent has started it, and its end cancels nothing. */
static void two_parents_wait_for_one_execution(void **state)
{
    struct scene *scene = *state;
    struct claimed_item first = begin(scene, &of_one_key);
    assert_int_equal(advance(scene).started, 1);
    struct claimed_item child = scene_claim_one(scene);
    scene_cap(scene, "free-co", 2);
    struct claimed_item second = begin(scene, &of_one_key);
    (void)advance(scene);
    struct bulk_result cancelled = {0};
    struct execution_filter filter = {.id = first.id};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &cancelled, &scene->error));
    assert_int_equal(advance(scene).cancelled, 0);
    end_with(scene, &child, RECORD_COMPLETED, "7");
    (void)advance(scene);
    assert_outcome(scene, &second, child.id, 7);
}

static int64_t listed(struct scene *scene, const char *parent)
{
    struct list_options options = {.kind = LIST_EXECUTIONS, .filter = {.parent = parent}, .count = true};
    json_t *page = NULL;
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    int64_t count = (int64_t)json_array_size(json_object_get(page, "items"));
    assert_int_equal(json_number_at(page, "count"), count);
    json_decref(page);
    return count;
}

static void equal_keys_of_a_list_are_one_execution(void **state)
{
    struct scene *scene = *state;
    struct claimed_item parent =
        begin(scene, &(struct planned){.count = 3, .wanted = -1, .leaves = true, .keys = "[\"k\",\"l\",\"k\"]"});
    (void)advance(scene);
    assert_int_equal(pending(scene), 2);
    assert_int_equal(listed(scene, parent.id), 2);
    end_children(scene, 1, RECORD_COMPLETED);
    assert_int_equal(listed(scene, parent.id), 2);
    end_children(scene, 1, RECORD_COMPLETED);
    json_t *data = claim_outcome(scene, &parent);
    const json_t *output = json_object_get(data, "output");
    assert_int_equal(json_array_size(output), 3);
    assert_string_equal(json_text_at(json_array_get(output, 0), "id"), json_text_at(json_array_get(output, 2), "id"));
    assert_int_equal(listed(scene, parent.id), 2);
    json_decref(data);
}

/* With room for one child, each that has ended already leaves it to the next one. */
static void ended_executions_take_no_room(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    enqueue_keyed(scene, "k", id);
    end_children(scene, 1, RECORD_COMPLETED);
    struct claimed_item parent = begin(
        scene,
        &(struct planned){.count = 3, .wanted = -1, .max_parallel = 1, .leaves = true, .keys = "[\"k\",\"k\",\"new\"]"});
    assert_int_equal(advance(scene).started, 1);
    assert_int_equal(pending(scene), 1);
    end_children(scene, 1, RECORD_COMPLETED);
    json_decref(claim_outcome(scene, &parent));
}

static void a_key_of_another_workflow_is_refused(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    (void)scene_publish(scene, "other", NULL);
    struct planned planned = of_one_key;
    planned.workflow = "other";
    enqueue_keyed(scene, "k", id);
    end_children(scene, 1, RECORD_COMPLETED);
    struct claimed_item parent = begin(scene, &planned);
    (void)advance(scene);
    assert_failure(scene, &parent, "child_refused", "idempotency_key_reused: the key \"k\" belongs to execution");
}

/* The tenant of that workspace may have taken the key, and must not decide the output. */
static void a_key_of_another_workspace_needs_a_workflow_of_all(void **state)
{
    struct scene *scene = *state;
    (void)scene_publish(scene, "hello", "pro-co");
    struct enqueue_request request = request_of("k");
    request.workspace = "pro-co";
    (void)scene_enqueue_request(scene, &request);
    struct claimed_item its = scene_claim_one(scene);
    end_with(scene, &its, RECORD_COMPLETED, "666");
    struct planned planned = of_one_key;
    planned.workspace = "pro-co";
    struct claimed_item parent = begin(scene, &planned);
    (void)advance(scene);
    assert_failure(scene, &parent, "child_refused",
                   "idempotency_key_reused: the key of the child is in use for another workflow");
}

static void a_parent_does_not_wait_for_itself(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    enqueue_keyed(scene, "k", id);
    struct claimed_item parent = scene_claim_one(scene);
    assert_int_equal(record_plan(scene, &parent, &of_one_key), WEIR_OK);
    park_parent(scene, &parent);
    (void)advance(scene);
    assert_failure(scene, &parent, "child_refused", "waits for this one itself");
}

/* The first one waits for the second one, which would wait for the first one. */
static void two_parents_do_not_wait_for_each_other(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    struct claimed_item parents[2];
    struct planned planned = of_one_key;
    static const char *const keys[2] = {"[\"second\"]", "[\"first\"]"};
    scene_cap(scene, "free-co", 2);
    for (int i = 0; i < 2; i++) {
        enqueue_keyed(scene, i == 0 ? "first" : "second", id);
        parents[i] = scene_claim_one(scene);
    }
    for (int i = 0; i < 2; i++) {
        planned.keys = keys[i];
        assert_int_equal(record_plan(scene, &parents[i], &planned), WEIR_OK);
        park_parent(scene, &parents[i]);
        (void)advance(scene);
    }
    assert_failure(scene, &parents[1], "child_refused", "waits for this one itself");
}

static void a_purged_execution_is_lost(void **state)
{
    struct scene *scene = *state;
    char id[UUID_TEXT_MAX];
    struct claimed_item parent = begin(scene, &of_one_key);
    enqueue_keyed(scene, "k", id);
    (void)advance(scene);
    struct claimed_item child = scene_claim_one(scene);
    end_with(scene, &child, RECORD_COMPLETED, "7");
    purge(scene, id); /* before the duty has counted its end */
    (void)advance(scene);
    assert_failure(scene, &parent, "child_lost", id);
}

/* An adopted execution keeps the parent that has started it, and the depth of that. */
static void an_adopted_execution_has_one_parent(void **state)
{
    struct scene *scene = *state;
    struct claimed_item first = begin(scene, &of_one_key);
    (void)advance(scene);
    struct claimed_item child = scene_claim_one(scene);
    scene_cap(scene, "free-co", 2);
    struct claimed_item second = begin(scene, &of_one_key);
    (void)advance(scene);
    json_t *shown = NULL;
    scene_ok(scene, store_show(scene->store, child.id, &shown, &scene->error));
    assert_string_equal(json_text_at(json_object_get(shown, "parent"), "id"), first.id);
    json_decref(shown);
    assert_int_equal(record_plan(scene, &child, &(struct planned){.count = 1, .wanted = -1}), WEIR_OK);
    park_parent(scene, &child);
    assert_int_equal(advance(scene).started, 1);
    assert_int_equal(scene_number(scene, "SELECT max(depth) FROM child_steps"), 2);
    assert_int_equal(listed(scene, second.id), 1);
}

static void assert_plan_fails(struct scene *scene, int count, const char *keys, const char *code, const char *words)
{
    struct claimed_item parent =
        begin(scene, &(struct planned){.count = count, .wanted = -1, .leaves = true, .keys = keys});
    assert_int_equal(advance(scene).started, 0);
    assert_failure(scene, &parent, code, words);
}

static void keys_that_are_no_good_fail_the_wait(void **state)
{
    struct scene *scene = *state;
    char longest[IDEMPOTENCY_KEY_MAX + 8];
    (void)snprintf(longest, sizeof longest, "[\"%0256d\"]", 0);
    scene_cap(scene, "free-co", 10);
    assert_plan_fails(scene, 1, "[\"hook/k\"]", "child_key_reserved", "begin it with another word");
    assert_plan_fails(scene, 1, "[\"schedule/k\"]", "child_key_reserved", "begin it with another word");
    assert_plan_fails(scene, 2, "[\"k\"]", "children_invalid", "cannot be read");
    assert_plan_fails(scene, 1, "[\"\"]", "children_invalid", "cannot be read");
    assert_plan_fails(scene, 1, "[null]", "children_invalid", "cannot be read");
    assert_plan_fails(scene, 1, longest, "children_invalid", "cannot be read");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_new_key_goes_to_the_child),
        SCENE_TEST(a_known_key_is_waited_for),
        SCENE_TEST(an_execution_that_has_ended_gives_its_output),
        SCENE_TEST(the_output_of_an_archived_execution_is_read),
        SCENE_TEST(an_execution_that_has_failed_fails_the_wait),
        SCENE_TEST(the_newest_retry_counts),
        SCENE_TEST(two_parents_wait_for_one_execution),
        SCENE_TEST(equal_keys_of_a_list_are_one_execution),
        SCENE_TEST(ended_executions_take_no_room),
        SCENE_TEST(a_key_of_another_workflow_is_refused),
        SCENE_TEST(a_key_of_another_workspace_needs_a_workflow_of_all),
        SCENE_TEST(a_parent_does_not_wait_for_itself),
        SCENE_TEST(two_parents_do_not_wait_for_each_other),
        SCENE_TEST(a_purged_execution_is_lost),
        SCENE_TEST(an_adopted_execution_has_one_parent),
        SCENE_TEST(keys_that_are_no_good_fail_the_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
