#include "store/filter.h"

#include "support/test.h"

#define NOW_US (1000 * 3600 * MICROSECONDS_PER_SECOND)

static struct arena arena;

static enum weir_status parse(const char *where, struct execution_filter *filter, struct weir_error *error)
{
    arena_reset(&arena);
    *filter = (struct execution_filter){.id = NULL};
    return filter_parse(where, NOW_US, &arena, filter, error);
}

static void pairs_fill_the_filter(void **state)
{
    struct execution_filter filter;
    struct weir_error error;
    (void)state;
    assert_int_equal(
        parse(" workspace=acme  status=failed,CANCELLED error_code=timeout since=1h workflow=\"a b\" ", &filter, &error),
        WEIR_OK);
    assert_string_equal(filter.workspace, "acme");
    assert_string_equal(filter.workflow, "a b");
    assert_string_equal(filter.error_code, "timeout");
    assert_int_equal(filter.states, 1U << ITEM_FAILED | 1U << ITEM_CANCELLED);
    assert_int_equal(filter.created_since_us, NOW_US - 3600 * MICROSECONDS_PER_SECOND);
    assert_int_equal(parse("idempotency_key='it=is \"so\"' finished_before=2d until=1970-01-02T00:00:00Z", &filter, &error),
                     WEIR_OK);
    assert_string_equal(filter.idempotency_key, "it=is \"so\"");
    assert_int_equal(filter.created_before_us, 86400 * MICROSECONDS_PER_SECOND);
    assert_int_equal(parse("pending_reason=workspace_at_capacity executor_group=g id=0198c2", &filter, &error), WEIR_OK);
    assert_int_equal(filter.retried, CONDITION_ANY);
    assert_int_equal(parse("pending_reason=NO_SCHEDULER", &filter, &error), WEIR_OK);
    assert_int_equal(parse("waiting_for=Retry", &filter, &error), WEIR_OK);
    assert_string_equal(filter.waiting_for, "retry");
    assert_int_equal(parse("parent=01939B7E-7a5c-7c3e-8b3a-2f1d4c5b6a79", &filter, &error), WEIR_OK);
    assert_string_equal(filter.parent, "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79");
    assert_int_equal(parse("parent=01939b", &filter, &error), WEIR_INVALID_ARGUMENT);
}

static void retried_is_yes_or_no(void **state)
{
    struct execution_filter filter;
    struct weir_error error;
    (void)state;
    assert_int_equal(parse("status=failed retried=no", &filter, &error), WEIR_OK);
    assert_int_equal(filter.retried, CONDITION_NO);
    assert_int_equal(parse("retried=Yes", &filter, &error), WEIR_OK);
    assert_int_equal(filter.retried, CONDITION_YES);
}

static void running_is_a_word_for_dispatched(void **state)
{
    struct execution_filter filter;
    struct weir_error error;
    (void)state;
    assert_int_equal(parse("workspace=running status=failed,Running", &filter, &error), WEIR_OK);
    assert_int_equal(filter.states, 1U << ITEM_FAILED | 1U << ITEM_DISPATCHED);
    assert_true(filter_says_running("workspace=running status=failed,Running", &arena));
    assert_false(filter_says_running("workspace=running status=dispatched", &arena));
    assert_false(filter_says_running("workflow='status=running'", &arena));
    assert_true(filter_status_says_running("RUNNING"));
    assert_false(filter_status_says_running("failed,runnings"));
}

static void a_wrong_filter_is_refused_with_the_right_spelling(void **state)
{
    static const char *const wrong[][3] = {
        {"", "empty", ""},
        {"   ", "empty", ""},
        {"acme", "KEY=VALUE", "workspace=acme"},
        {"=acme", "KEY=VALUE", ""},
        {"workspce=acme", "no key \"workspce\"", "workspace"},
        {"state=failed", "no key \"state\"", "status"},
        {"tenant=a", "no key", "workspace"},
        {"status=faild", "not a status", "FAILED"},
        {"label.Tier=gold", "\"Tier\" is not the name of a label", "label.customer-tier=gold"},
        {"label.=gold", "\"\" is not the name of a label", ""},
        {"label.a=b label.a=c", "label.a is given twice", ""},
        {"business_key_prefix=''", "business_key_prefix= needs a value", ""},
        {"business_key=a business_key=b", "business_key is given beside another condition on the business key", ""},
        {"version=0", "not a whole number", ""},
        {"version=one", "not a whole number", ""},
        {"longer_than=soon", "longer_than: \"soon\" is not a duration", "1h30m"},
        {"shorter_than=0", "shorter_than is zero", ""},
        {"status=xyzzy", "not a status", "PENDING, CLAIMED"},
        {"pending_reason=at_capacity", "not a pending reason", "capacity"},
        {"workspace=", "needs a value", ""},
        {"workspace=''", "needs a value", ""},
        {"workspace='a", "no closing", ""},
        {"workspace=a workspace=b", "given twice", ""},
        {"status=failed status=pending", "given twice", ""},
        {"since=yesterday", "since", ""},
        {"retried=maybe", "yes or no", "retried=no"},
        {"retried=yes retried=no", "given twice", ""},
        {"retry=no", "no key \"retry\"", "retried"},
        {"pending_reason=no_schedule", "not a pending reason", "no_scheduler"},
        {"waiting_for=ready", "is not a kind of wait", "sleep, retry, signal, callback, approval, child or manual"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct execution_filter filter;
        struct weir_error error;
        enum weir_status status = parse(wrong[i][0], &filter, &error);
        if (status != WEIR_INVALID_ARGUMENT || strstr(error.message, wrong[i][1]) == NULL ||
            strstr(error.hint, wrong[i][2]) == NULL) {
            print_error("%s -> %s / %s\n", wrong[i][0], error.message, error.hint);
        }
        assert_int_equal(status, WEIR_INVALID_ARGUMENT);
        assert_non_null(strstr(error.message, wrong[i][1]));
        assert_non_null(strstr(error.hint, wrong[i][2]));
    }
}

/* One condition for each key. */
static const char *const wheres[] = {"id=01a215fd",
                                     "workspace=a",
                                     "workflow=a",
                                     "executor_group=a",
                                     "status=failed",
                                     "error_code=a",
                                     "retried=yes",
                                     "stuck=no",
                                     "since=1h",
                                     "until=1h",
                                     "idempotency_key=a",
                                     "pending_reason=queue_paused",
                                     "waiting_for=sleep",
                                     "finished_before=1h",
                                     "dismissed=no",
                                     "business_key=a",
                                     "node=a",
                                     "version=3",
                                     "longer_than=1h",
                                     "shorter_than=1h",
                                     "error_text=a",
                                     "business_key_prefix=a",
                                     "parent=01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79"};
enum { PAIRS_MAX = 2048 };

/* Each key makes a condition. */
static void a_filter_without_a_condition_is_empty(void **state)
{
    size_t keys = 0;
    (void)state;
    while (filter_key(keys) != NULL) {
        keys++;
    }
    assert_int_equal(keys, sizeof wheres / sizeof wheres[0]);
    struct execution_filter filter = {.id = NULL};
    assert_true(filter_is_empty(&filter));
    assert_int_equal(filter_parse("label.tier=gold", 0, &arena, &filter, NULL), WEIR_OK);
    assert_false(filter_is_empty(&filter));
    for (size_t i = 0; i < keys; i++) {
        filter = (struct execution_filter){.id = NULL};
        assert_int_equal(filter_parse(wheres[i], INT64_C(1800000000000000), &arena, &filter, NULL), WEIR_OK);
        assert_false(filter_is_empty(&filter));
    }
}

static void add_pair(void *context, const char *key, const char *value)
{
    char *pairs = context;
    (void)snprintf(pairs + strlen(pairs), PAIRS_MAX - strlen(pairs), "%s=%s ", key, value);
}

/* The text of a filter is read as the same filter. A copy of it does not need the texts of the first one. */
static void a_filter_is_written_as_it_is_read(void **state)
{
    char all[PAIRS_MAX] = "label.tier=gold";
    char written[PAIRS_MAX] = "";
    char again[PAIRS_MAX] = "";
    struct arena own;
    struct execution_filter filter = {.id = NULL};
    (void)state;
    for (size_t i = 0; i < sizeof wheres / sizeof wheres[0]; i++) {
        if (strncmp(wheres[i], "id=", 3) != 0 && strstr(wheres[i], "_prefix") == NULL) {
            (void)snprintf(all + strlen(all), sizeof all - strlen(all), " %s", wheres[i]);
        }
    }
    arena_init(&own, sizeof all);
    assert_int_equal(filter_parse(all, NOW_US, &own, &filter, NULL), WEIR_OK);
    assert_true(filter_copy_texts(&filter, &arena));
    arena_reset(&own);
    memset(arena_allocate(&own, sizeof all / 2), 'x', sizeof all / 2);
    filter_each(&filter, add_pair, written);
    filter = (struct execution_filter){.id = NULL};
    assert_int_equal(filter_parse(written, NOW_US, &arena, &filter, NULL), WEIR_OK);
    filter_each(&filter, add_pair, again);
    assert_string_equal(again, written);
    for (size_t i = 0; filter_key(i) != NULL; i++) {
        bool is_alone = strcmp(filter_key(i), "id") == 0 || strcmp(filter_key(i), "business_key_prefix") == 0;
        if (!is_alone && strstr(written, filter_key(i)) == NULL) {
            fail_msg("no %s in %s", filter_key(i), written);
        }
    }
    assert_non_null(strstr(written, "label.tier=gold"));
    arena_close(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_fill_the_filter),
        cmocka_unit_test(retried_is_yes_or_no),
        cmocka_unit_test(running_is_a_word_for_dispatched),
        cmocka_unit_test(a_filter_without_a_condition_is_empty),
        cmocka_unit_test(a_filter_is_written_as_it_is_read),
        cmocka_unit_test(a_wrong_filter_is_refused_with_the_right_spelling),
    };
    arena_init(&arena, 1024 * 1024);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_close(&arena);
    return failed;
}
