/* Lists, results and acts on many executions through the public interface. Links the shared library alone. */
#include <time.h>
#include <weir/weir.h>

#include "support/folder.h"
#include "support/test.h"

#define SECOND_US ((int64_t)1000000)
#define UNKNOWN_ID "01990000-0000-7000-8000-000000000000"

enum { PAGE = 3, MANY = 1203 };

static struct folder folder;
static struct weir *weir;
static struct weir_node *node;
static struct weir_error error;

static void answer(struct weir_call *call, void *context)
{
    (void)context;
    weir_done(call, "{\"sum\":42}");
}

static void refuse(struct weir_call *call, void *context)
{
    (void)context;
    weir_fail(call, "no_money", "the account is empty");
}

static const struct weir_handler handlers[] = {{"answer", answer, NULL}, {"refuse", refuse, NULL}};

static int set_up(void **state)
{
    (void)state;
    char path[300];
    node = NULL;
    if (folder_make(&folder) != 0) {
        return -1;
    }
    (void)snprintf(path, sizeof path, "%s/weir.db", folder.path);
    return weir_migrate(path, NULL, &error) == WEIR_OK && weir_open(path, NULL, &weir, &error) == WEIR_OK &&
                   weir_set_workspace(weir, "acme", "pro", 0, &error) == WEIR_OK &&
                   weir_set_workspace(weir, "globex", "free", 0, &error) == WEIR_OK &&
                   weir_publish_workflow(weir, "name: good\nsteps:\n  only: {handler: answer}\n", 0, NULL, NULL, &error) ==
                       WEIR_OK &&
                   weir_publish_workflow(weir, "name: bad\nsteps:\n  only: {handler: refuse}\n", 0, NULL, NULL, &error) ==
                       WEIR_OK
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    (void)state;
    weir_node_close(node);
    weir_close(weir);
    folder_remove(&folder);
    return 0;
}

static void enqueue_at(const char *workspace, const char *workflow, int64_t run_at_us, char id[WEIR_ID_SIZE])
{
    struct weir_request request = {.workspace = workspace, .workflow = workflow, .run_at_us = run_at_us};
    assert_int_equal(weir_enqueue(weir, &request, id, &error), WEIR_OK);
}

static void enqueue(const char *workflow, char id[WEIR_ID_SIZE])
{
    enqueue_at("acme", workflow, 0, id);
}

static void start_node(void)
{
    struct weir_node_options options = {.handlers = handlers, .handler_count = 2, .name = "tested"};
    assert_int_equal(weir_node_open(weir, &options, &node, &error), WEIR_OK);
    assert_int_equal(weir_node_start(node, &error), WEIR_OK);
}

static void await(const char *id, enum weir_end expected)
{
    enum weir_end end = WEIR_END_CANCELLED;
    assert_int_equal(weir_wait(weir, id, 60 * SECOND_US, &end, NULL, &error), WEIR_OK);
    assert_int_equal(end, expected);
}

/* The text of the JSON member "key":"..." of a page, from `json` on. */
static const char *member(const char *json, const char *key, char *value, size_t size)
{
    char mark[64];
    (void)snprintf(mark, sizeof mark, "\"%s\":\"", key);
    const char *begin = strstr(json, mark);
    if (begin == NULL) {
        return NULL;
    }
    begin += strlen(mark);
    size_t length = strcspn(begin, "\"");
    assert_true(length < size);
    memcpy(value, begin, length);
    value[length] = '\0';
    return begin + length;
}

static void list(const struct weir_list_options *options, char **json)
{
    enum weir_status status = weir_list(weir, options, json, &error);
    if (status != WEIR_OK) {
        fail_msg("weir_list: %s", error.message);
    }
}

static void pages_have_each_execution_once_newest_first(void **state)
{
    (void)state;
    char ids[2 * PAGE + 1][WEIR_ID_SIZE];
    char cursor[256];
    size_t at = sizeof ids / sizeof ids[0];
    for (size_t i = 0; i < at; i++) {
        enqueue("good", ids[i]);
    }
    struct weir_list_options options = {.filter = {.workspace = "acme"}, .limit = PAGE, .count = true};
    for (;;) {
        char *json = NULL;
        list(&options, &json);
        char id[WEIR_ID_SIZE];
        assert_non_null(strstr(json, "\"count\":7"));
        assert_non_null(strstr(json, "\"count_is_exact\":true"));
        const char *from = member(json, "id", id, sizeof id);
        while (from != NULL) {
            assert_string_equal(id, ids[--at]);
            from = member(from, "id", id, sizeof id);
        }
        bool goes_on = member(json, "next_cursor", cursor, sizeof cursor) != NULL;
        weir_free(json);
        if (!goes_on) {
            break;
        }
        options.cursor = cursor;
    }
    assert_int_equal(at, 0);
}

static void conditions_choose(void **state)
{
    (void)state;
    char good[WEIR_ID_SIZE];
    char bad[WEIR_ID_SIZE];
    enqueue("good", good);
    enqueue_at("globex", "bad", 0, bad);
    char *json = NULL;
    list(&(struct weir_list_options){.filter = {.workflow = "bad", .states = WEIR_STATE_PENDING}}, &json);
    assert_non_null(strstr(json, bad));
    assert_null(strstr(json, good));
    weir_free(json);
    list(&(struct weir_list_options){.filter = {.states = WEIR_STATE_ALL & ~WEIR_STATE_PENDING}}, &json);
    assert_non_null(strstr(json, "\"items\":[]"));
    weir_free(json);
    list(&(struct weir_list_options){.filter = {.created_before_us = 1}}, &json);
    assert_non_null(strstr(json, "\"items\":[]"));
    weir_free(json);
}

static void every_kind_of_list_is_there(void **state)
{
    (void)state;
    static const char *const expected[] = {[WEIR_LIST_EVENTS] = "\"event\":\"enqueue\"",
                                           [WEIR_LIST_STEPS] = "\"step\":\"only\"",
                                           [WEIR_LIST_WORKSPACES] = "\"globex\"",
                                           [WEIR_LIST_PLANS] = "\"enterprise\"",
                                           [WEIR_LIST_WORKFLOWS] = "\"good\"",
                                           [WEIR_LIST_NODES] = "\"tested\"",
                                           [WEIR_LIST_LOCKS] = "\"items\":[",
                                           [WEIR_LIST_GROUPS] = "\"default\""};
    char id[WEIR_ID_SIZE];
    enqueue("good", id);
    start_node();
    await(id, WEIR_END_COMPLETED);
    for (int kind = WEIR_LIST_EVENTS; kind <= WEIR_LIST_GROUPS; kind++) {
        struct weir_list_options options = {.kind = (enum weir_list_kind)kind};
        options.filter.id = kind <= WEIR_LIST_STEPS ? id : NULL;
        char *json = NULL;
        list(&options, &json);
        if (strstr(json, expected[kind]) == NULL) {
            fail_msg("list %d has no %s: %s", kind, expected[kind], json);
        }
        weir_free(json);
    }
}

static void failures_are_grouped(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    char *json = NULL;
    const struct weir_filter other = {.workspace = "globex"};
    const struct weir_filter odd = {.states = WEIR_STATE_ALL + 1};
    enqueue("bad", id);
    start_node();
    await(id, WEIR_END_FAILED);
    assert_int_equal(weir_failures(weir, NULL, &json, &error), WEIR_OK);
    assert_non_null(strstr(json, "\"workflow\":\"bad\""));
    assert_non_null(strstr(json, "\"count\":1,"));
    weir_free(json);
    assert_int_equal(weir_failures(weir, &other, &json, &error), WEIR_OK);
    assert_non_null(strstr(json, "\"items\":[]"));
    weir_free(json);
    json = NULL;
    assert_int_equal(weir_failures(weir, &odd, &json, &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(weir_failures(weir, NULL, NULL, &error), WEIR_MISUSE);
    assert_null(json);
}

static void wrong_lists_are_refused(void **state)
{
    (void)state;
    char *json = NULL;
    struct weir_list_options options = {.kind = (enum weir_list_kind)99};
    assert_int_equal(weir_list(weir, &options, &json, &error), WEIR_INVALID_ARGUMENT);
    options = (struct weir_list_options){.limit = 1001};
    assert_int_equal(weir_list(weir, &options, &json, &error), WEIR_INVALID_ARGUMENT);
    options = (struct weir_list_options){.cursor = "nonsense"};
    assert_int_equal(weir_list(weir, &options, &json, &error), WEIR_INVALID_ARGUMENT);
    options = (struct weir_list_options){.filter = {.states = WEIR_STATE_ALL + 1}};
    assert_int_equal(weir_list(weir, &options, &json, &error), WEIR_INVALID_ARGUMENT);
    options = (struct weir_list_options){.kind = WEIR_LIST_STEPS};
    assert_int_equal(weir_list(weir, &options, &json, &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(weir_list(weir, NULL, &json, &error), WEIR_MISUSE);
    assert_null(json);
}

static void usage_counts_the_workspace(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    char *json = NULL;
    enqueue("good", id);
    enqueue("good", id);
    assert_int_equal(weir_usage(weir, "acme", &json, &error), WEIR_OK);
    assert_non_null(strstr(json, "\"pending\":2"));
    assert_non_null(strstr(json, "\"slots_used\":0"));
    assert_non_null(strstr(json, "\"plan\":\"pro\""));
    weir_free(json);
    json = NULL;
    assert_int_equal(weir_usage(weir, "acm", &json, &error), WEIR_WORKSPACE_NOT_FOUND);
    assert_null(json);
}

static void a_result_is_that_of_a_completed_execution(void **state)
{
    (void)state;
    char good[WEIR_ID_SIZE];
    char bad[WEIR_ID_SIZE];
    char *json = NULL;
    enqueue("good", good);
    enqueue("bad", bad);
    assert_int_equal(weir_read_result(weir, good, &json, &error), WEIR_ILLEGAL_STATE);
    assert_non_null(strstr(error.message, "PENDING"));
    start_node();
    await(good, WEIR_END_COMPLETED);
    await(bad, WEIR_END_FAILED);
    assert_int_equal(weir_read_result(weir, good, &json, &error), WEIR_OK);
    assert_string_equal(json, "{\"sum\":42}");
    weir_free(json);
    json = NULL;
    assert_int_equal(weir_read_result(weir, bad, &json, &error), WEIR_ILLEGAL_STATE);
    assert_non_null(strstr(error.message, "no_money: the account is empty"));
    assert_int_equal(weir_read_result(weir, UNKNOWN_ID, &json, &error), WEIR_EXECUTION_NOT_FOUND);
    assert_null(json);
}

static void a_failed_execution_is_retried_as_a_new_one(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    struct weir_acted acted;
    enqueue("bad", id);
    struct weir_filter filter = {.id = id};
    assert_int_equal(weir_act(weir, WEIR_ACT_RETRY, &filter, NULL, &acted, &error), WEIR_ILLEGAL_STATE);
    start_node();
    await(id, WEIR_END_FAILED);
    assert_int_equal(weir_act(weir, WEIR_ACT_RETRY, &filter, "the bank is back", &acted, &error), WEIR_OK);
    assert_int_equal(acted.changed, 1);
    assert_int_equal(strlen(acted.new_id), WEIR_ID_SIZE - 1);
    assert_string_not_equal(acted.new_id, id);
    await(acted.new_id, WEIR_END_FAILED);
    filter.id = UNKNOWN_ID;
    assert_int_equal(weir_act(weir, WEIR_ACT_RETRY, &filter, NULL, NULL, &error), WEIR_EXECUTION_NOT_FOUND);
}

static void a_released_execution_starts_before_its_time(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    enqueue_at("acme", "good", ((int64_t)time(NULL) + 3600) * SECOND_US, id);
    start_node();
    assert_int_equal(weir_act(weir, WEIR_ACT_RELEASE, &(struct weir_filter){.id = id}, NULL, NULL, &error), WEIR_OK);
    await(id, WEIR_END_COMPLETED);
}

static void enqueue_many(char last_id[WEIR_ID_SIZE])
{
    static struct weir_request requests[MANY];
    static struct weir_result results[MANY];
    for (size_t i = 0; i < MANY; i++) {
        requests[i] = (struct weir_request){.workspace = "acme", .workflow = "good"};
    }
    assert_int_equal(weir_enqueue_many(weir, requests, MANY, results, &error), WEIR_OK);
    (void)snprintf(last_id, WEIR_ID_SIZE, "%s", results[MANY - 1].id);
}

static void an_act_on_many_reaches_all_of_them_and_no_other(void **state)
{
    (void)state;
    char last[WEIR_ID_SIZE];
    char other[WEIR_ID_SIZE];
    struct weir_acted acted;
    enqueue_many(last);
    enqueue_at("globex", "good", 0, other);
    struct weir_filter acme = {.workspace = "acme"};
    assert_int_equal(weir_act(weir, WEIR_ACT_PURGE, &acme, NULL, &acted, &error), WEIR_OK);
    assert_int_equal(acted.refused, MANY); /* none has ended */
    assert_int_equal(weir_act(weir, WEIR_ACT_CANCEL, &acme, "tests", &acted, &error), WEIR_OK);
    assert_int_equal(acted.matched, MANY);
    assert_int_equal(acted.changed, MANY);
    await(last, WEIR_END_CANCELLED);
    assert_int_equal(weir_act(weir, WEIR_ACT_PURGE, &acme, NULL, &acted, &error), WEIR_OK);
    assert_int_equal(acted.changed, MANY);
    char *json = NULL;
    list(&(struct weir_list_options){.count = true}, &json);
    assert_non_null(strstr(json, "\"count\":1"));
    assert_non_null(strstr(json, other));
    weir_free(json);
}

/* The act is done in sets; a set must not find the executions that the retries of the set before have made. */
static void an_act_on_many_leaves_out_the_executions_that_it_makes(void **state)
{
    (void)state;
    char last[WEIR_ID_SIZE];
    struct weir_acted acted;
    enqueue_many(last);
    struct weir_filter acme = {.workspace = "acme"};
    assert_int_equal(weir_act(weir, WEIR_ACT_CANCEL, &acme, "tests", &acted, &error), WEIR_OK);
    acme.created_before_us = ((int64_t)time(NULL) + 3600) * SECOND_US;
    assert_int_equal(weir_act(weir, WEIR_ACT_RETRY, &acme, NULL, &acted, &error), WEIR_OK);
    assert_int_equal(acted.matched, MANY);
    assert_int_equal(acted.changed, MANY);
}

/* Its only condition: none of these waits without a slot. */
static void an_act_selects_by_what_executions_wait_for(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    struct weir_acted acted;
    enqueue("good", id);
    struct weir_filter filter = {.waiting_for = "sleep"};
    assert_int_equal(weir_act(weir, WEIR_ACT_CANCEL, &filter, NULL, &acted, &error), WEIR_OK);
    assert_int_equal(acted.matched, 0);
    char *json = NULL;
    list(&(struct weir_list_options){.filter = filter, .count = true}, &json);
    assert_non_null(strstr(json, "\"count\":0"));
    weir_free(json);
    assert_int_equal(weir_wait(weir, id, 0, NULL, NULL, &error), WEIR_TIMED_OUT);
}

static void an_act_without_a_condition_is_refused(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    enqueue("good", id);
    struct weir_filter filter = {.states = 0};
    assert_int_equal(weir_act(weir, WEIR_ACT_CANCEL, &filter, NULL, NULL, &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(weir_act(weir, WEIR_ACT_CANCEL, NULL, NULL, NULL, &error), WEIR_INVALID_ARGUMENT);
    filter.states = WEIR_STATE_ALL;
    assert_int_equal(weir_act(weir, (enum weir_act)9, &filter, NULL, NULL, &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(weir_wait(weir, id, 0, NULL, NULL, &error), WEIR_TIMED_OUT); /* nothing was cancelled */
    assert_int_equal(weir_act(weir, WEIR_ACT_CANCEL, &filter, NULL, NULL, &error), WEIR_OK);
    await(id, WEIR_END_CANCELLED);
}

/* The node has the lanes and the cap of the workspace in memory. */
static void a_running_node_learns_that_a_workspace_is_deleted(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    char waiting[WEIR_ID_SIZE];
    enum weir_end end = WEIR_END_COMPLETED;
    struct weir_deleted deleted = {.failed = 0};
    struct weir_workspace_deletion deletion = {.name = "acme", .reason = "left us"};
    start_node();
    enqueue("good", id);
    await(id, WEIR_END_COMPLETED);
    enqueue_at("acme", "good", 4102444800000000, waiting);
    assert_int_equal(weir_delete_workspace(weir, &deletion, &deleted, &error), WEIR_ILLEGAL_STATE);
    deletion.fail_waiting = true;
    assert_int_equal(weir_delete_workspace(weir, &deletion, &deleted, &error), WEIR_OK);
    assert_int_equal(deleted.failed, 1);
    assert_int_equal(weir_wait(weir, waiting, 0, &end, NULL, &error), WEIR_OK);
    assert_int_equal(end, WEIR_END_FAILED);
    struct weir_request request = {.workspace = "acme", .workflow = "good"};
    assert_int_equal(weir_enqueue(weir, &request, waiting, &error), WEIR_WORKSPACE_NOT_FOUND);
    assert_int_equal(weir_set_workspace(weir, "acme", "pro", 0, &error), WEIR_OK);
    enqueue("good", id);
    await(id, WEIR_END_COMPLETED);
    enqueue_at("globex", "good", 0, id);
    await(id, WEIR_END_COMPLETED);
    deletion.erase = true;
    assert_int_equal(weir_delete_workspace(weir, &deletion, &deleted, &error), WEIR_OK);
    assert_int_equal(deleted.erased, 3);
    assert_int_equal(weir_delete_workspace(weir, &(struct weir_workspace_deletion){.name = NULL}, NULL, &error),
                     WEIR_INVALID_ARGUMENT);
}

static void a_running_node_learns_that_a_workspace_is_renamed(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    char *json = NULL;
    start_node();
    enqueue("good", id);
    await(id, WEIR_END_COMPLETED);
    assert_int_equal(weir_rename_workspace(weir, "acme", "globex", NULL, &error), WEIR_CONFLICT);
    assert_int_equal(weir_rename_workspace(weir, "acme", "acme-eu", "moved", &error), WEIR_OK);
    struct weir_request request = {.workspace = "acme", .workflow = "good"};
    assert_int_equal(weir_enqueue(weir, &request, id, &error), WEIR_WORKSPACE_NOT_FOUND);
    assert_string_equal(error.hint, "the workspace was renamed to \"acme-eu\"");
    enqueue_at("acme-eu", "good", 0, id);
    await(id, WEIR_END_COMPLETED);
    assert_int_equal(weir_show(weir, id, &json, &error), WEIR_OK);
    assert_non_null(strstr(json, "\"acme-eu\""));
    weir_free(json);
    assert_int_equal(weir_rename_workspace(weir, NULL, "x", NULL, &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(weir_rename_workspace(weir, "globex", NULL, NULL, &error), WEIR_INVALID_ARGUMENT);
}

static void a_workflow_is_disabled_enabled_and_deleted(void **state)
{
    (void)state;
    char id[WEIR_ID_SIZE];
    struct weir_request request = {.workspace = "acme", .workflow = "good"};
    enqueue("good", id);
    assert_int_equal(weir_disable_workflow(weir, "good", NULL, true, &error), WEIR_OK);
    assert_int_equal(weir_enqueue(weir, &request, id, &error), WEIR_WORKFLOW_DISABLED);
    assert_int_equal(weir_delete_workflow(weir, "good", NULL, &error), WEIR_ILLEGAL_STATE);
    start_node();
    await(id, WEIR_END_COMPLETED); /* what was in the queue went on */
    assert_int_equal(weir_disable_workflow(weir, "good", NULL, false, &error), WEIR_OK);
    enqueue("good", id);
    await(id, WEIR_END_COMPLETED);
    assert_int_equal(weir_delete_workflow(weir, "good", NULL, &error), WEIR_OK);
    assert_int_equal(weir_enqueue(weir, &request, id, &error), WEIR_WORKFLOW_NOT_FOUND);
    assert_int_equal(weir_delete_workflow(weir, "good", NULL, &error), WEIR_WORKFLOW_NOT_FOUND);
    assert_int_equal(weir_delete_workflow(weir, NULL, NULL, &error), WEIR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pages_have_each_execution_once_newest_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_running_node_learns_that_a_workspace_is_deleted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_running_node_learns_that_a_workspace_is_renamed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_workflow_is_disabled_enabled_and_deleted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(conditions_choose, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_kind_of_list_is_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failures_are_grouped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_lists_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(usage_counts_the_workspace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_result_is_that_of_a_completed_execution, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failed_execution_is_retried_as_a_new_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_released_execution_starts_before_its_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_act_on_many_reaches_all_of_them_and_no_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_act_on_many_leaves_out_the_executions_that_it_makes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_act_selects_by_what_executions_wait_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_act_without_a_condition_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("library/acts", tests, NULL, NULL);
}
