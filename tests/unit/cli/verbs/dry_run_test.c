/* The queries of a dry run, and how often it makes them: on a real SQLite file. */
#include "cli/verbs/dry_run.h"

#include "support/folder.h"
#include "support/test.h"

static struct folder folder;
static struct store *store;
static struct weir_error error;

static void must(enum weir_status status)
{
    if (status != WEIR_OK) {
        fail_msg("%s", error.message);
    }
}

static void publish(const char *name, const char *owner)
{
    char text[128];
    struct published published;
    (void)snprintf(text, sizeof text, "{\"name\":\"%s\",\"steps\":{\"a\":{\"exec\":[\"true\"]}}}", name);
    must(store_publish(store, name, owner, text, NULL, &published, &error));
}

static void make_workspace(const char *name)
{
    struct workspace_change change = {.name = name, .plan = "free", .paused = -1, .create = true};
    must(store_set_workspace(store, &change, &error));
}

static int open_store(void **state)
{
    char url[300];
    (void)state;
    assert_int_equal(folder_make(&folder), 0);
    (void)snprintf(url, sizeof url, "%s/weir.db", folder.path);
    struct store_options options = {.url = url, .create = true};
    must(store_open(&options, &store, &error));
    must(store_migrate(store, NULL, &error));
    make_workspace("acme");
    publish("hello", NULL);
    return 0;
}

static int close_store(void **state)
{
    (void)state;
    store_close(store);
    folder_remove(&folder);
    return 0;
}

static enum weir_status rehearse(struct dry_run *rehearsal, const char *workspace, const char *workflow)
{
    struct enqueue_request request = {.workspace = workspace, .workflow = workflow};
    return dry_run_enqueue(rehearsal, store, &request, &error);
}

static void a_dry_run_refuses_the_same_as_the_store(void **state)
{
    struct dry_run *rehearsal = dry_run_open();
    (void)state;
    make_workspace("globex");
    publish("mine", "globex");
    for (int again = 0; again < 2; again++) { /* the second time from memory */
        assert_int_equal(rehearse(rehearsal, "acme", "hello"), WEIR_OK);
        assert_int_equal(rehearse(rehearsal, "acmi", "hello"), WEIR_WORKSPACE_NOT_FOUND);
        assert_string_equal(error.hint, "did you mean \"acme\"?");
        assert_int_equal(rehearse(rehearsal, "acme", "helo"), WEIR_WORKFLOW_NOT_FOUND);
        assert_int_equal(rehearse(rehearsal, "globex", "mine"), WEIR_OK);
        assert_int_equal(rehearse(rehearsal, "acme", "mine"), WEIR_WORKFLOW_NOT_YOURS);
        assert_string_equal(error.message, "workflow \"mine\" belongs to another workspace than \"acme\"");
        assert_int_equal(rehearse(rehearsal, "acme", ""), WEIR_INVALID_ARGUMENT);
        assert_int_equal(rehearse(rehearsal, NULL, "hello"), WEIR_INVALID_ARGUMENT);
    }
    publish("mine", NULL); /* everybody's, beside the one of globex */
    dry_run_close(rehearsal);
    rehearsal = dry_run_open();
    assert_int_equal(rehearse(rehearsal, "acme", "mine"), WEIR_OK);
    dry_run_close(rehearsal);
}

/* Seen by what the store gets to know in between. */
static void a_pair_of_names_is_read_once(void **state)
{
    struct dry_run *rehearsal = dry_run_open();
    (void)state;
    assert_int_equal(rehearse(rehearsal, "late", "hello"), WEIR_WORKSPACE_NOT_FOUND);
    make_workspace("late");
    assert_int_equal(rehearse(rehearsal, "late", "hello"), WEIR_WORKSPACE_NOT_FOUND);
    assert_int_equal(rehearse(rehearsal, "acme", "later"), WEIR_WORKFLOW_NOT_FOUND);
    publish("later", NULL);
    assert_int_equal(rehearse(rehearsal, "acme", "later"), WEIR_WORKFLOW_NOT_FOUND);
    assert_int_equal(rehearse(rehearsal, "late", "later"), WEIR_OK); /* another pair */
    dry_run_close(rehearsal);
}

static void forgotten_names_are_read_again(void **state)
{
    struct dry_run *rehearsal = dry_run_open();
    (void)state;
    assert_int_equal(rehearse(rehearsal, "late", "hello"), WEIR_WORKSPACE_NOT_FOUND);
    make_workspace("late");
    for (int i = 0; i < 20 * DRY_RUN_ANSWERS_MAX; i++) { /* as many as fill each place for certain: the hash is fixed */
        char name[32];
        (void)snprintf(name, sizeof name, "nobody-%d", i);
        assert_int_equal(rehearse(rehearsal, name, "hello"), WEIR_WORKSPACE_NOT_FOUND);
    }
    assert_int_equal(rehearse(rehearsal, "late", "hello"), WEIR_OK);
    dry_run_close(rehearsal);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_store, close_store)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_dry_run_refuses_the_same_as_the_store),
        TEST(a_pair_of_names_is_read_once),
        TEST(forgotten_names_are_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
