/* store_enqueue: validation, sets, idempotency, payloads byte for byte. */
#include "conformance/scene.h"

static struct enqueue_request hello(const char *workspace)
{
    return (struct enqueue_request){.workspace = workspace, .workflow = "hello"};
}

static struct enqueue_request hello_params(const char *params)
{
    return (struct enqueue_request){
        .workspace = "pro-co", .workflow = "hello", .params = params, .params_length = strlen(params)};
}

static void an_accepted_request_is_pending_under_the_answered_id(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = hello("pro-co");
    struct enqueue_result result = scene_try(scene, &request);
    assert_int_equal(result.status, WEIR_OK);
    assert_false(result.duplicate);
    assert_true(uuid_is_valid(result.id));
    assert_int_equal(result.id[14], '7');
    assert_string_equal(scene_status_of(scene, result.id), "PENDING");
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 1);
}

static void an_unknown_workspace_is_refused_with_the_nearest_name(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = hello("pro-cp");
    struct enqueue_result result = scene_try(scene, &request);
    assert_int_equal(result.status, WEIR_WORKSPACE_NOT_FOUND);
    assert_non_null(strstr(result.error.message, "pro-cp"));
    assert_non_null(strstr(result.error.hint, "pro-co"));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 0);
}

/* By a hint that a shell reads as it is meant. */
static void an_unknown_workspace_is_refused_with_the_command_that_makes_it(void **state)
{
    static const struct {
        const char *name;
        const char *word;
    } names[] = {{"zeta=1", " zeta=1 "},
                 {"of two words", " 'of two words' "},
                 {"it's", " 'it'\\''s' "},
                 {"$HOME", " '$HOME' "},
                 {"=x", " '=x' "},
                 {"a\\b", " 'a\\b' "},
                 {"\xc3\xa4rger", " '\xc3\xa4rger' "}};
    struct scene *scene = *state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct enqueue_request request = hello(names[i].name);
        struct enqueue_result result = scene_try(scene, &request);
        assert_int_equal(result.status, WEIR_WORKSPACE_NOT_FOUND);
        assert_non_null(strstr(result.error.hint, "weir workspace set"));
        if (strstr(result.error.hint, names[i].word) == NULL) {
            fail_msg("%s: %s", names[i].name, result.error.hint);
        }
    }
}

static void an_unknown_workflow_is_refused_with_the_nearest_name(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = {.workspace = "pro-co", .workflow = "helo"};
    struct enqueue_result result = scene_try(scene, &request);
    assert_int_equal(result.status, WEIR_WORKFLOW_NOT_FOUND);
    assert_non_null(strstr(result.error.message, "helo"));
    assert_non_null(strstr(result.error.hint, "hello"));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 0);
}

/* Not there and not yours are two errors. */
static void a_workflow_of_another_workspace_is_refused_as_not_yours(void **state)
{
    struct scene *scene = *state;
    scene_publish(scene, "private", "big-co");
    struct enqueue_request request = {.workspace = "pro-co", .workflow = "private"};
    assert_int_equal(scene_try(scene, &request).status, WEIR_WORKFLOW_NOT_YOURS);
    request.workspace = "big-co";
    assert_int_equal(scene_try(scene, &request).status, WEIR_OK);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 1);
}

/* A hint that names another workspace's workflow would tell its name to a stranger. */
static void a_hint_never_names_the_workflow_of_another_workspace(void **state)
{
    struct scene *scene = *state;
    scene_publish(scene, "acquisition", "big-co");
    struct enqueue_request request = {.workspace = "pro-co", .workflow = "acquisitions"};
    struct enqueue_result result = scene_try(scene, &request);
    assert_int_equal(result.status, WEIR_WORKFLOW_NOT_FOUND);
    assert_null(strstr(result.error.hint, "acquisition\""));
}

static void a_workspaces_own_workflow_goes_before_everybodys(void **state)
{
    struct scene *scene = *state;
    int64_t own = scene_publish(scene, "hello", "pro-co");
    scene_enqueue(scene, "pro-co");
    assert_int_equal(scene_claim_one(scene).definition_id, own);
}

static void an_item_keeps_the_version_of_its_enqueue(void **state)
{
    struct scene *scene = *state;
    scene_enqueue(scene, "pro-co");
    struct published published = {0};
    scene_ok(scene,
             store_publish(scene->store, "hello", NULL, "{\"name\":\"hello\",\"steps\":{\"two\":{\"exec\":[\"true\"]}}}",
                           NULL, &published, &scene->error));
    assert_int_equal(published.version, 2);
    scene_enqueue(scene, "pro-co");
    struct claim_result claim = scene_claim(scene, 10);
    assert_int_equal(claim.count, 2);
    assert_int_equal(claim.items[0].version, 1);
    assert_int_equal(claim.items[1].version, 2);
    assert_int_equal(claim.items[1].definition_id, published.definition_id);
    assert_true(claim.items[0].definition_id != published.definition_id);
}

/* --- the executor group --- */

static void publish_for_group(struct scene *scene, const char *name, const char *workspace, const char *group)
{
    char text[256];
    struct published published = {0};
    (void)snprintf(text, sizeof text, "{\"name\":\"%s\",%s%s%s\"steps\":{\"one\":{\"exec\":[\"true\"]}}}", name,
                   group != NULL ? "\"executor_group\":\"" : "", group != NULL ? group : "", group != NULL ? "\"," : "");
    scene_ok(scene, store_publish(scene->store, name, workspace, text, NULL, &published, &scene->error));
}

static const char *group_of(struct scene *scene, const char *id)
{
    return scene_text(scene, "SELECT executor_group FROM executions WHERE id = '%s'", id);
}

static void an_enqueue_without_a_group_goes_where_its_definition_says(void **state)
{
    struct scene *scene = *state;
    publish_for_group(scene, "bill", NULL, "billing");
    struct enqueue_request bill = {.workspace = "pro-co", .workflow = "bill"};
    const char *id = scene_enqueue_request(scene, &bill);
    assert_string_equal(group_of(scene, id), "billing");
    assert_int_equal(scene_claim(scene, 10).count, 0);
    int64_t node = scene_add_node(scene, "biller", "billing");
    struct claim_result claim = scene_claim_as(scene, node, "billing", 10);
    assert_int_equal(claim.count, 1);
    assert_string_equal(claim.items[0].id, id);
}

static void a_group_is_named_by_the_request_else_the_definition_else_the_default(void **state)
{
    struct scene *scene = *state;
    publish_for_group(scene, "bill", NULL, "billing");
    publish_for_group(scene, "other", NULL, "mine");
    const struct {
        struct enqueue_request request;
        const char *group;
    } table[] = {
        {{.workflow = "bill", .group = "mine", .default_group = "ours"}, "mine"},
        {{.workflow = "bill", .group = "default", .default_group = "ours"}, "default"},
        {{.workflow = "bill", .default_group = "ours"}, "billing"},
        {{.workflow = "bill"}, "billing"},
        {{.workflow = "hello", .group = "mine", .default_group = "ours"}, "mine"},
        {{.workflow = "hello", .default_group = "ours"}, "ours"},
        {{.workflow = "hello"}, "default"},
    };
    enum { ROWS = sizeof table / sizeof table[0] };
    struct enqueue_request requests[ROWS];
    struct enqueue_result results[ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        requests[i] = table[i].request;
        requests[i].workspace = "pro-co";
    }
    scene_ok(scene, store_enqueue(scene->store, requests, ROWS, results, &scene->error)); /* as a set */
    for (size_t i = 0; i < ROWS; i++) {
        assert_int_equal(results[i].status, WEIR_OK);
        assert_string_equal(group_of(scene, results[i].id), table[i].group);
        assert_string_equal(group_of(scene, scene_enqueue_request(scene, &requests[i])), table[i].group);
    }
}

static void a_group_belongs_to_the_version_of_a_definition(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request bill = {.workspace = "pro-co", .workflow = "bill"};
    publish_for_group(scene, "bill", NULL, "first");
    const char *first = scene_enqueue_request(scene, &bill);
    publish_for_group(scene, "bill", NULL, "second");
    const char *second = scene_enqueue_request(scene, &bill);
    publish_for_group(scene, "bill", NULL, NULL);
    const char *third = scene_enqueue_request(scene, &bill);
    assert_string_equal(group_of(scene, first), "first");
    assert_string_equal(group_of(scene, second), "second");
    assert_string_equal(group_of(scene, third), "default");
}

static void a_group_is_that_of_the_definition_which_the_workspace_runs(void **state)
{
    struct scene *scene = *state;
    publish_for_group(scene, "bill", NULL, "everybodys");
    publish_for_group(scene, "bill", "big-co", "its-own");
    struct enqueue_request requests[] = {{.workspace = "pro-co", .workflow = "bill"},
                                         {.workspace = "big-co", .workflow = "bill"},
                                         {.workspace = "pro-co", .workflow = "hello"},
                                         {.workspace = "pro-co", .workflow = "bill"}};
    struct enqueue_result results[4];
    scene_ok(scene, store_enqueue(scene->store, requests, 4, results, &scene->error));
    assert_string_equal(group_of(scene, results[0].id), "everybodys");
    assert_string_equal(group_of(scene, results[1].id), "its-own");
    assert_string_equal(group_of(scene, results[2].id), "default");
    assert_string_equal(group_of(scene, results[3].id), "everybodys");
}

static void a_default_group_is_checked_like_any_other(void **state)
{
    struct scene *scene = *state;
    char name[GROUP_NAME_MAX + 2];
    memset(name, 'g', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    struct enqueue_request request = {.workspace = "pro-co", .workflow = "hello", .default_group = name};
    assert_int_equal(scene_try(scene, &request).status, WEIR_INVALID_ARGUMENT);
    name[GROUP_NAME_MAX] = '\0';
    assert_string_equal(group_of(scene, scene_enqueue_request(scene, &request)), name);
}

static void params_that_are_not_json_are_refused_with_their_place(void **state)
{
    struct scene *scene = *state;
    static const char *const wrong[] = {"{", "{\"a\":}", "{\"a\":1} x", "", " ", "{\"a\":1,\"a\":2}", "{\"a\":\"\xFF\"}"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct enqueue_request request = hello_params(wrong[i]);
        struct enqueue_result result = scene_try(scene, &request);
        if (wrong[i][0] == '\0') {
            continue; /* no bytes may be taken as "no params" */
        }
        assert_int_equal(result.status, WEIR_INVALID_PARAMS);
        assert_non_null(strstr(result.error.message, "line 1 column"));
    }
    static const char raw_nul[] = "{\"a\":\"x\0y\"}";
    struct enqueue_request request = hello_params("{}");
    request.params = raw_nul;
    request.params_length = sizeof raw_nul - 1;
    assert_int_equal(scene_try(scene, &request).status, WEIR_INVALID_PARAMS);
}

static void params_that_are_no_object_are_refused_by_their_type(void **state)
{
    struct scene *scene = *state;
    static const char *const wrong[][2] = {
        {"[]", "array"}, {"1", "integer"}, {"\"x\"", "string"}, {"null", "null"}, {"true", "boolean"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct enqueue_request request = hello_params(wrong[i][0]);
        struct enqueue_result result = scene_try(scene, &request);
        assert_int_equal(result.status, WEIR_INVALID_PARAMS);
        assert_non_null(strstr(result.error.message, wrong[i][1]));
    }
}

static char *object_of_size(size_t size)
{
    char *params = malloc(size + 1);
    assert_non_null(params);
    memset(params, 'x', size);
    memcpy(params, "{\"a\":\"", 6);
    memcpy(params + size - 2, "\"}", 2);
    params[size] = '\0';
    return params;
}

static void params_may_be_a_mebibyte_and_not_a_byte_more(void **state)
{
    struct scene *scene = *state;
    char *largest = object_of_size(PARAMS_BYTES_MAX);
    char *larger = object_of_size(PARAMS_BYTES_MAX + 1);
    struct enqueue_request request = hello_params(largest);
    assert_int_equal(scene_try(scene, &request).status, WEIR_OK);
    struct enqueue_request refused = hello_params(larger);
    struct enqueue_result result = scene_try(scene, &refused);
    assert_int_equal(result.status, WEIR_PARAMS_TOO_LARGE);
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(item.params_length, PARAMS_BYTES_MAX);
    assert_memory_equal(item.params, largest, PARAMS_BYTES_MAX);
    free(largest);
    free(larger);
}

static void bytes_reach_the_claim_as_they_were_enqueued(void **state)
{
    struct scene *scene = *state;
    static const char *const params[] = {"{}",
                                         "{ }",
                                         " {\"a\" : 1}\n",
                                         "{\"b\":1,\"a\":2}",
                                         "{\"n\":1.50,\"e\":1E2,\"z\":-0}",
                                         "{\"nul\":\"a\\u0000b\"}",
                                         "{\"q\":\"'\\\"`;--$1 %s ?1 :a @b\"}",
                                         "{\"u\":\"\\u00e9 \xC3\xA9 \xF0\x9F\x98\x80 \xE2\x80\xAE\xD7\x90\"}",
                                         "{\"\":{\"\":[[],{}]}}"};
    enum { COUNT = sizeof params / sizeof params[0] };
    for (size_t i = 0; i < COUNT; i++) {
        struct enqueue_request request = hello_params(params[i]);
        request.workspace = "big-co";
        (void)scene_enqueue_request(scene, &request);
    }
    struct claim_result claim = scene_claim(scene, COUNT + 1);
    assert_int_equal(claim.count, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        const char *expected = i == 1 && claim.items[i].params_length == 2 ? "{}" : params[i];
        assert_int_equal(claim.items[i].params_length, strlen(expected));
        assert_memory_equal(claim.items[i].params, expected, strlen(expected));
    }
}

static void no_params_are_an_empty_object(void **state)
{
    struct scene *scene = *state;
    scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_non_null(item.params);
    assert_int_equal(item.params_length, 2);
    assert_memory_equal(item.params, "{}", 2);
}

static void the_same_key_gives_the_first_id(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = hello_params("{\"a\":1}");
    request.idempotency_key = "order-1";
    struct enqueue_result first = scene_try(scene, &request);
    struct enqueue_result second = scene_try(scene, &request);
    assert_int_equal(second.status, WEIR_OK);
    assert_true(second.duplicate);
    assert_false(first.duplicate);
    assert_string_equal(first.id, second.id);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 1);
}

static void a_key_with_another_body_is_refused_and_names_the_first(void **state)
{
    struct scene *scene = *state;
    scene_publish(scene, "other", NULL);
    struct enqueue_request request = hello_params("{\"a\":1}");
    request.idempotency_key = "order-1";
    struct enqueue_result first = scene_try(scene, &request);
    struct enqueue_request other_params = hello_params("{\"a\":2}");
    other_params.idempotency_key = "order-1";
    struct enqueue_request no_params = {.workspace = "pro-co", .workflow = "hello", .idempotency_key = "order-1"};
    struct enqueue_request other_workflow = request;
    other_workflow.workflow = "other";
    const struct enqueue_request *refused[] = {&other_params, &no_params, &other_workflow};
    for (size_t i = 0; i < 3; i++) {
        struct enqueue_result result = scene_try(scene, refused[i]);
        assert_int_equal(result.status, WEIR_IDEMPOTENCY_KEY_REUSED);
        assert_non_null(strstr(result.error.message, first.id));
    }
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 1);
}

static void a_key_belongs_to_its_workspace_alone(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = hello("pro-co");
    request.idempotency_key = "order-1";
    struct enqueue_result first = scene_try(scene, &request);
    request.workspace = "big-co";
    struct enqueue_result second = scene_try(scene, &request);
    assert_int_equal(second.status, WEIR_OK);
    assert_false(second.duplicate);
    assert_string_not_equal(first.id, second.id);
}

static void a_key_is_known_in_every_state_also_after_the_end(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = hello_params("{\"a\":1}");
    request.idempotency_key = "order-1";
    struct enqueue_result first = scene_try(scene, &request);
    struct claimed_item item = scene_claim_one(scene);
    assert_true(scene_try(scene, &request).duplicate);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_true(scene_try(scene, &request).duplicate);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    struct enqueue_result last = scene_try(scene, &request);
    assert_true(last.duplicate);
    assert_string_equal(last.id, first.id);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 1);
}

static void a_key_is_known_within_its_own_set(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request requests[3] = {hello("pro-co"), hello("pro-co"), hello_params("{\"a\":1}")};
    struct enqueue_result results[3];
    for (int i = 0; i < 3; i++) {
        requests[i].idempotency_key = "order-1";
    }
    scene_ok(scene, store_enqueue(scene->store, requests, 3, results, &scene->error));
    assert_false(results[0].duplicate);
    assert_true(results[1].duplicate);
    assert_string_equal(results[1].id, results[0].id);
    assert_int_equal(results[2].status, WEIR_IDEMPOTENCY_KEY_REUSED);
}

static void a_given_id_makes_repeating_a_lost_answer_safe(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = hello("pro-co");
    request.id = "0198c2f1-0000-7000-8000-000000000001";
    struct enqueue_result first = scene_try(scene, &request);
    assert_int_equal(first.status, WEIR_OK);
    assert_string_equal(first.id, request.id);
    struct enqueue_result second = scene_try(scene, &request);
    assert_int_equal(second.status, WEIR_OK);
    assert_string_equal(second.id, request.id);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 1);
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    assert_int_equal(scene_try(scene, &request).status, WEIR_OK);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 1);
}

static void a_given_id_with_a_new_key_is_still_one_execution(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = hello("pro-co");
    request.id = "0198c2f1-0000-7000-8000-000000000001";
    assert_int_equal(scene_try(scene, &request).status, WEIR_OK);
    request.idempotency_key = "later";
    struct enqueue_result result = scene_try(scene, &request);
    assert_true(result.status == WEIR_OK || result.status == WEIR_CONFLICT);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 1);
}

static void an_id_in_capitals_is_the_same_id(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = hello("pro-co");
    request.id = "0198C2F1-0000-7000-8000-00000000ABCD";
    assert_string_equal(scene_try(scene, &request).id, "0198c2f1-0000-7000-8000-00000000abcd");
    request.id = "0198c2f1-0000-7000-8000-00000000abcd";
    assert_true(scene_try(scene, &request).duplicate);
    json_t *shown = NULL;
    scene_ok(scene, store_show(scene->store, "0198C2F1-0000-7000-8000-00000000ABCD", &shown, &scene->error));
    json_decref(shown);
}

/* An id is an execution of one workspace: another workspace must not be told that it exists. */
static void an_id_of_another_workspace_is_no_duplicate(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = hello("pro-co");
    request.id = "0198c2f1-0000-7000-8000-000000000001";
    assert_int_equal(scene_try(scene, &request).status, WEIR_OK);
    request.workspace = "big-co";
    struct enqueue_result result = scene_try(scene, &request);
    assert_int_equal(result.status, WEIR_CONFLICT);
    assert_false(result.duplicate);
}

static void one_refused_request_leaves_the_others_alone(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request requests[5] = {hello("pro-co"), hello("nobody"), hello("big-co"), hello_params("[1"),
                                          hello("free-co")};
    struct enqueue_result results[5];
    scene_ok(scene, store_enqueue(scene->store, requests, 5, results, &scene->error));
    static const enum weir_status expected[] = {WEIR_OK, WEIR_WORKSPACE_NOT_FOUND, WEIR_OK, WEIR_INVALID_PARAMS, WEIR_OK};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(results[i].status, expected[i]);
    }
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 3);
    scene_ok(scene, store_enqueue(scene->store, requests, 0, results, &scene->error));
}

static void ids_of_a_set_grow_in_its_order(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request requests[200];
    struct enqueue_result results[200];
    for (int i = 0; i < 200; i++) {
        requests[i] = hello("pro-co");
    }
    scene_ok(scene, store_enqueue(scene->store, requests, 200, results, &scene->error));
    for (int i = 1; i < 200; i++) {
        assert_true(strcmp(results[i - 1].id, results[i].id) < 0);
    }
}

static void a_group_that_only_a_request_names_is_refused(void **state)
{
    struct scene *scene = *state;
    publish_for_group(scene, "bill", NULL, "billing");
    for (int i = 0; i < 6; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "zone-%d", i);
        (void)scene_add_node(scene, "zoner", name);
    }
    int64_t groups = scene_number(scene, "SELECT count(*) FROM executor_groups");
    struct enqueue_request requests[4] = {hello("pro-co"), hello("pro-co"), hello("pro-co"), hello("pro-co")};
    struct enqueue_result results[4];
    requests[0].group = "biling";
    requests[0].idempotency_key = "once";
    requests[2].group = "nothing like it";
    requests[3].group = "billing";
    scene_ok(scene, store_enqueue(scene->store, requests, 4, results, &scene->error));
    assert_int_equal(results[0].status, WEIR_NOT_FOUND);
    assert_string_equal(results[0].error.message,
                        "there is no executor group \"biling\"; there are: \"billing\", \"default\","
                        " \"zone-0\", \"zone-1\", \"zone-2\" and others");
    assert_string_equal(results[0].error.hint,
                        "did you mean \"billing\"? a node that serves it makes it (weir serve --executor-group NAME),"
                        " or a published workflow that names it (executor_group)");
    assert_int_equal(results[1].status, WEIR_OK);
    assert_int_equal(results[2].status, WEIR_NOT_FOUND);
    assert_null(strstr(results[2].error.hint, "did you mean"));
    assert_int_equal(results[3].status, WEIR_OK);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 2);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM idempotency_keys"), 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executor_groups"), groups);
    requests[0].group = "billing";
    assert_int_equal(scene_try(scene, &requests[0]).status, WEIR_OK);
    requests[0].group = "biling";
    requests[0].workflow = "no-such-workflow";
    assert_int_equal(scene_try(scene, &requests[0]).status, WEIR_WORKFLOW_NOT_FOUND);
}

static void wrong_arguments_are_refused_one_by_one(void **state)
{
    struct scene *scene = *state;
    char key[IDEMPOTENCY_KEY_MAX + 2];
    char group[GROUP_NAME_MAX + 2];
    memset(key, 'k', sizeof key - 1);
    memset(group, 'g', sizeof group - 1);
    key[sizeof key - 1] = '\0';
    group[sizeof group - 1] = '\0';
    enum { WRONG = 11 };
    struct enqueue_request requests[WRONG];
    struct enqueue_result results[WRONG];
    for (int i = 0; i < WRONG; i++) {
        requests[i] = hello("pro-co");
    }
    requests[0].priority = PRIORITY_MOST + 1;
    requests[1].priority = PRIORITY_LEAST - 1;
    requests[2].idempotency_key = key;
    requests[3].group = group;
    requests[4].id = "no-id";
    requests[5].run_at_us = -1;
    requests[6].idempotency_key = "bad \xFF bytes";
    requests[7].group = "";
    requests[8].id = "00000000-0000-0000-0000-000000000000"; /* of another version: lists go by the order of ids */
    requests[9].run_at_us = RUN_AT_MOST_US + 1;
    requests[10].traceparent = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    scene_ok(scene, store_enqueue(scene->store, requests, WRONG, results, &scene->error));
    for (int i = 0; i < WRONG; i++) {
        if (results[i].status != WEIR_INVALID_ARGUMENT) {
            fail_msg("request %d was answered %s", i, weir_status_name(results[i].status));
        }
        assert_true(strlen(results[i].error.message) > 0);
    }
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 0);
}

static void the_bounds_themselves_are_accepted(void **state)
{
    struct scene *scene = *state;
    char key[IDEMPOTENCY_KEY_MAX + 1];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    struct enqueue_request least = hello("pro-co");
    least.priority = PRIORITY_LEAST;
    least.idempotency_key = key;
    struct enqueue_request most = hello("pro-co");
    most.priority = PRIORITY_MOST;
    most.run_at_us = 1;
    const char *least_id = scene_enqueue_request(scene, &least);
    const char *most_id = scene_enqueue_request(scene, &most);
    struct claim_result claim = scene_claim(scene, 2);
    assert_int_equal(claim.count, 2);
    assert_string_equal(claim.items[0].id, most_id);
    assert_string_equal(claim.items[1].id, least_id);
    assert_int_equal(claim.items[0].run_at_us, 1);
}

/* Strings that are code somewhere: quotes, formats, parameters, bidi, emoji. */
static const char *const odd_strings[] = {"it's \"quoted\" `so`",
                                          "100 %s %n %d",
                                          "$1 ?1 :name @p {{x}}",
                                          "x'; DROP TABLE plans; --",
                                          "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x9A\x80",
                                          "a_b%c\\d",
                                          "e\xCC\x81 vs \xC3\xA9",
                                          "\xE2\x80\xAE\xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D",
                                          "tab\tnew\nline \x1b[31m"};
enum { ODD_STRINGS = sizeof odd_strings / sizeof odd_strings[0], ODD_NAMES = ODD_STRINGS - 2 };

static void names_come_back_byte_for_byte(void **state)
{
    struct scene *scene = *state;
    for (size_t i = 0; i < ODD_NAMES; i++) {
        scene_workspace(scene, odd_strings[i], "pro");
        const char *id = scene_enqueue(scene, odd_strings[i]);
        assert_string_equal(scene_text(scene, "SELECT workspace FROM executions WHERE id = '%s'", id), odd_strings[i]);
        struct claimed_item item = scene_claim_one(scene);
        assert_string_equal(item.workspace, odd_strings[i]);
        assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
        json_t *shown = NULL;
        scene_ok(scene, store_show(scene->store, id, &shown, &scene->error));
        assert_string_equal(json_text_at(shown, "workspace"), odd_strings[i]);
        json_decref(shown);
    }
}

/* A name that turns a line of a table around, or colours it, would lie about its neighbours. */
static void a_name_that_could_forge_a_line_is_refused(void **state)
{
    struct scene *scene = *state;
    for (size_t i = ODD_NAMES; i < ODD_STRINGS; i++) {
        struct workspace_change change = {.name = odd_strings[i], .paused = -1, .create = true};
        assert_int_equal(store_set_workspace(scene->store, &change, &scene->error), WEIR_INVALID_ARGUMENT);
    }
}

static void keys_come_back_byte_for_byte(void **state)
{
    struct scene *scene = *state;
    for (size_t i = 0; i < ODD_STRINGS; i++) {
        struct enqueue_request request = hello("pro-co");
        request.idempotency_key = odd_strings[i];
        struct enqueue_result first = scene_try(scene, &request);
        if (first.status == WEIR_INVALID_ARGUMENT && i >= ODD_NAMES) {
            continue;
        }
        assert_int_equal(first.status, WEIR_OK);
        struct enqueue_result again = scene_try(scene, &request);
        assert_true(again.duplicate);
        assert_string_equal(again.id, first.id);
        json_t *shown = NULL;
        scene_ok(scene, store_show(scene->store, first.id, &shown, &scene->error));
        assert_string_equal(json_text_at(shown, "idempotency_key"), odd_strings[i]);
        json_decref(shown);
    }
}

static void sixty_four_kibibytes_in_a_string_come_back(void **state)
{
    struct scene *scene = *state;
    enum { SIZE = 65536 + 8 };
    char *params = object_of_size(SIZE);
    struct enqueue_request request = hello_params(params);
    const char *id = scene_enqueue_request(scene, &request);
    json_t *shown = NULL;
    scene_ok(scene, store_show(scene->store, id, &shown, &scene->error));
    const json_t *value = json_object_get(json_object_get(shown, "params"), "a");
    assert_int_equal(json_string_length(value), SIZE - 8);
    json_decref(shown);
    free(params);
}

static void a_duplicate_or_a_refusal_counts_nothing(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = hello("pro-co");
    request.idempotency_key = "once";
    for (int i = 0; i < 5; i++) {
        assert_int_equal(scene_try(scene, &request).status, WEIR_OK);
    }
    struct enqueue_request wrong = hello_params("x");
    assert_int_equal(scene_try(scene, &wrong).status, WEIR_INVALID_PARAMS);
    json_t *status = NULL;
    scene_ok(scene, store_status(scene->store, 10, &status, &scene->error));
    assert_int_equal(json_number_at(status, "pending"), 1);
    json_decref(status);
    assert_int_equal(scene_claim(scene, 10).count, 1);
}

#define TRACE_OF(digit) "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b" digit "-01"

static const char *traceparent_of(struct scene *scene, const char *id)
{
    return scene_text(scene, "SELECT traceparent FROM executions WHERE id = '%s'", id);
}

/* From the queue to the claim and to the history; an item without one has none beside it. */
static void a_traceparent_stays_with_its_execution(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request set[] = {hello("pro-co"), hello("pro-co"), hello_params("{\"a\":1}")};
    struct enqueue_result results[3];
    set[0].traceparent = TRACE_OF("1");
    set[2].traceparent = TRACE_OF("2");
    scene_ok(scene, store_enqueue(scene->store, set, 3, results, &scene->error));
    struct enqueue_request alone = hello("pro-co");
    alone.traceparent = TRACE_OF("3");
    const char *single = scene_enqueue_request(scene, &alone);
    struct claim_result claim = scene_claim(scene, 10);
    assert_int_equal(claim.count, 4);
    assert_string_equal(claim.items[0].traceparent, TRACE_OF("1"));
    assert_null(claim.items[1].traceparent);
    assert_string_equal(claim.items[2].traceparent, TRACE_OF("2"));
    assert_string_equal(claim.items[3].traceparent, TRACE_OF("3"));
    assert_string_equal(traceparent_of(scene, results[0].id), TRACE_OF("1"));
    scene_complete(scene, &claim);
    assert_string_equal(scene_status_of(scene, single), "COMPLETED");
    assert_string_equal(traceparent_of(scene, results[0].id), TRACE_OF("1"));
    assert_null(traceparent_of(scene, results[1].id));
    assert_string_equal(traceparent_of(scene, single), TRACE_OF("3"));
    json_t *shown = NULL;
    scene_ok(scene, store_show(scene->store, single, &shown, &scene->error));
    assert_string_equal(json_text_at(shown, "traceparent"), TRACE_OF("3"));
    json_decref(shown);
}

static void a_cancelled_execution_and_its_retry_keep_the_traceparent(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = hello("pro-co");
    struct bulk_result result = {.matched = 0};
    request.traceparent = TRACE_OF("1");
    struct execution_filter filter = {.id = scene_enqueue_request(scene, &request)};
    scene_ok(scene, store_bulk_one(scene->store, BULK_CANCEL, NULL, &filter, &result, &scene->error));
    assert_string_equal(scene_status_of(scene, filter.id), "CANCELLED");
    assert_string_equal(traceparent_of(scene, filter.id), TRACE_OF("1"));
    scene_ok(scene, store_bulk_one(scene->store, BULK_RETRY, NULL, &filter, &result, &scene->error));
    assert_string_equal(scene_claim_one(scene).traceparent, TRACE_OF("1"));
}

static void a_set_may_be_enqueued_as_a_whole_or_not_at_all(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request requests[3] = {hello("pro-co"), hello("nobody"), hello("free-co")};
    struct enqueue_result results[3];
    assert_int_equal(store_enqueue_all(scene->store, requests, 3, results, &scene->error), WEIR_WORKSPACE_NOT_FOUND);
    assert_non_null(strstr(scene->error.message, "request 2 of 3"));
    assert_int_equal(results[0].status, WEIR_OK);
    assert_int_equal(results[1].status, WEIR_WORKSPACE_NOT_FOUND);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 0);
    requests[1] = hello("big-co");
    requests[1].priority = PRIORITY_MOST + 1; /* malformed: found before the store is asked */
    assert_int_equal(store_enqueue_all(scene->store, requests, 3, results, &scene->error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 0);
    requests[1].priority = 0;
    scene_ok(scene, store_enqueue_all(scene->store, requests, 3, results, &scene->error));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 3);
    scene_ok(scene, store_enqueue(scene->store, requests, 1, results, &scene->error)); /* the handle is as it was */
    requests[0] = hello("nobody");
    scene_ok(scene, store_enqueue(scene->store, requests, 2, results, &scene->error));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 5);
    scene_check(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(an_accepted_request_is_pending_under_the_answered_id),
        SCENE_TEST(an_unknown_workspace_is_refused_with_the_nearest_name),
        SCENE_TEST(an_unknown_workspace_is_refused_with_the_command_that_makes_it),
        SCENE_TEST(an_unknown_workflow_is_refused_with_the_nearest_name),
        SCENE_TEST(a_workflow_of_another_workspace_is_refused_as_not_yours),
        SCENE_TEST(a_hint_never_names_the_workflow_of_another_workspace),
        SCENE_TEST(a_workspaces_own_workflow_goes_before_everybodys),
        SCENE_TEST(an_item_keeps_the_version_of_its_enqueue),
        SCENE_TEST(an_enqueue_without_a_group_goes_where_its_definition_says),
        SCENE_TEST(a_group_is_named_by_the_request_else_the_definition_else_the_default),
        SCENE_TEST(a_group_belongs_to_the_version_of_a_definition),
        SCENE_TEST(a_group_is_that_of_the_definition_which_the_workspace_runs),
        SCENE_TEST(a_default_group_is_checked_like_any_other),
        SCENE_TEST(params_that_are_not_json_are_refused_with_their_place),
        SCENE_TEST(params_that_are_no_object_are_refused_by_their_type),
        SCENE_TEST(params_may_be_a_mebibyte_and_not_a_byte_more),
        SCENE_TEST(bytes_reach_the_claim_as_they_were_enqueued),
        SCENE_TEST(no_params_are_an_empty_object),
        SCENE_TEST(the_same_key_gives_the_first_id),
        SCENE_TEST(a_key_with_another_body_is_refused_and_names_the_first),
        SCENE_TEST(a_key_belongs_to_its_workspace_alone),
        SCENE_TEST(a_key_is_known_in_every_state_also_after_the_end),
        SCENE_TEST(a_key_is_known_within_its_own_set),
        SCENE_TEST(a_given_id_makes_repeating_a_lost_answer_safe),
        SCENE_TEST(a_given_id_with_a_new_key_is_still_one_execution),
        SCENE_TEST(an_id_in_capitals_is_the_same_id),
        SCENE_TEST(an_id_of_another_workspace_is_no_duplicate),
        SCENE_TEST(one_refused_request_leaves_the_others_alone),
        SCENE_TEST(ids_of_a_set_grow_in_its_order),
        SCENE_TEST(a_group_that_only_a_request_names_is_refused),
        SCENE_TEST(wrong_arguments_are_refused_one_by_one),
        SCENE_TEST(the_bounds_themselves_are_accepted),
        SCENE_TEST(names_come_back_byte_for_byte),
        SCENE_TEST(a_name_that_could_forge_a_line_is_refused),
        SCENE_TEST(keys_come_back_byte_for_byte),
        SCENE_TEST(sixty_four_kibibytes_in_a_string_come_back),
        SCENE_TEST(a_duplicate_or_a_refusal_counts_nothing),
        SCENE_TEST(a_traceparent_stays_with_its_execution),
        SCENE_TEST(a_cancelled_execution_and_its_retry_keep_the_traceparent),
        SCENE_TEST(a_set_may_be_enqueued_as_a_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
