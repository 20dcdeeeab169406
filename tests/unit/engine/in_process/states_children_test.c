/* Executions that a handler of a state starts: their plan, the wait for them, and the rules of their keys. */
#include <string.h>

#include "base/text.h"
#include "support/states_fixture.h"
#include "support/test.h"
#include "weir/handler.h"

static char seen[1024]; /* by handlers */

static int open_test(void **state)
{
    (void)state;
    seen[0] = '\0';
    states_open();
    return 0;
}

static int close_test(void **state)
{
    (void)state;
    states_close();
    return 0;
}

static void starts_children(struct weir_call *call)
{
    struct weir_error error;
    if (strcmp(weir_call_state(call), "a") == 0) {
        assert_int_equal(weir_call_enqueue(call, "mail", "{\"to\":\"eve\"}", NULL, &error), WEIR_OK);
        assert_int_equal(weir_call_start_child(call, "part", "{\"n\":1}", NULL, &error), WEIR_OK);
        assert_int_equal(weir_call_start_child(call, "part", NULL, NULL, &error), WEIR_OK);
        weir_next_on_children(call, "b", 0);
    } else {
        text_copy(seen, sizeof seen, weir_call_signal(call) == NULL ? "none" : weir_call_signal(call));
        weir_next(call, "done");
    }
}

static void children_are_planned_with_the_answer(void **state)
{
    static const char definition[] = STATES(A "," B "," END);
    (void)state;
    states_play = starts_children;
    states_start(definition);
    const struct report *wait = states_wait(1);
    assert_string_equal(wait->step.signal, "children:state.1.1");
    assert_string_equal(states_action(wait, "plans"),
                        "[{\"workflow\":\"mail\",\"executor_group\":null,\"priority\":null,\"is_single\":0,"
                        "\"waits_for_all\":0,\"wanted\":0,\"max_parallel\":1,\"leaves\":1,\"children\":[{\"to\":\"eve\"}]},"
                        "{\"workflow\":\"part\",\"executor_group\":null,\"priority\":null,\"is_single\":0,"
                        "\"waits_for_all\":1,\"wanted\":2,\"max_parallel\":2,\"leaves\":0,\"children\":[{\"n\":1},{}]}]");
    assert_int_equal(recorder_wait(&states_engine.recorder, REPORT_PARKED, NULL, NULL, -1, 1)->waiting_for, WAIT_CHILD);
    const struct signal_record signal = {
        .seq = 1, .name = "children:state.1.1", .data = "{\"output\":[]}", .data_length = 13};
    states_claim_again(definition, wait, &signal, TIME_NEVER);
    assert_string_equal(seen, "{\"output\":[]}");
    (void)states_end(END_COMPLETED);
}

static bool mixes_keys;

static void starts_children_with_keys(struct weir_call *call)
{
    struct weir_error error;
    char key[IDEMPOTENCY_KEY_MAX + 2];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    assert_int_equal(weir_call_start_child(call, "part", NULL, key, &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(weir_call_start_child(call, "part", NULL, "", &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(weir_call_start_child(call, "part", NULL, "\xff", &error), WEIR_INVALID_ARGUMENT);
    key[IDEMPOTENCY_KEY_MAX] = '\0';
    assert_int_equal(weir_call_enqueue(call, "mail", NULL, key, &error), WEIR_OK);
    assert_int_equal(weir_call_enqueue(call, "mail", NULL, NULL, &error), WEIR_OK);
    assert_int_equal(weir_call_start_child(call, "part", "{\"n\":1}", "one", &error), WEIR_OK);
    assert_int_equal(weir_call_start_child(call, "part", NULL, "two", &error), WEIR_OK);
    if (mixes_keys) {
        assert_int_equal(weir_call_start_child(call, "part", NULL, NULL, &error), WEIR_OK);
    }
    weir_next_on_children(call, "done", 0);
}

/* They go on behind their parent, which those without a key do not. */
static void children_with_keys_have_a_plan_of_their_own(void **state)
{
    (void)state;
    mixes_keys = false;
    states_play = starts_children_with_keys;
    states_start(STATES(A "," END));
    const struct report *wait = states_wait(1);
    assert_string_equal(wait->step.signal, "children:state.1.2");
    const char *plans = states_action(wait, "plans");
    assert_non_null(strstr(plans, "\"wanted\":2,\"max_parallel\":2,\"leaves\":1,\"children\":[{\"n\":1},{}],"
                                  "\"keys\":[\"one\",\"two\"]}]"));
    assert_non_null(strstr(plans, "\"leaves\":1,\"children\":[{}],\"keys\":[\"kkk"));
    assert_non_null(strstr(plans, "\"leaves\":1,\"children\":[{}]}"));
}

static void no_answer_waits_for_children_with_and_without_keys(void **state)
{
    (void)state;
    mixes_keys = true;
    states_play = starts_children_with_keys;
    states_start(STATES(A "," END));
    assert_string_equal(states_end(END_FAILED)->error_code, "children_invalid");
}

static void ends_behind_a_child(struct weir_call *call)
{
    struct weir_error error;
    assert_int_equal(weir_call_start_child(call, "part", NULL, NULL, &error), WEIR_OK);
    weir_next_on_children(call, "done", 0);
}

/* The end would cancel them. */
static void an_end_waits_for_the_children_of_the_answer(void **state)
{
    static const char definition[] = STATES(A "," END);
    static const struct signal_record signal = {.seq = 3, .name = "children:state.1.0", .data = "{}", .data_length = 2};
    (void)state;
    states_play = ends_behind_a_child;
    states_start(definition);
    assert_string_equal(states_wait(1)->step.signal, "children:state.1.0");
    assert_int_equal(states_count(REPORT_ENDED), 0);
    states_claim_again(definition, states_wait(1), &signal, TIME_NEVER);
    assert_int_equal(states_end(END_COMPLETED)->step.signal_seq, 3);
    assert_int_equal(states_calls, 1);
}

static void retries_with_a_child(struct weir_call *call)
{
    struct weir_error error;
    assert_int_equal(weir_call_enqueue(call, "mail", NULL, NULL, &error), WEIR_OK);
    weir_retry(call, "busy", NULL);
}

static void a_retry_starts_nothing(void **state)
{
    (void)state;
    states_play = retries_with_a_child;
    states_start(STATES(A));
    assert_string_equal(states_action(states_wait(1), "plans"), "");
}

static void without_a_child(struct weir_call *call)
{
    weir_next_on_children(call, "b", 0);
}

static void a_wait_for_no_child_is_a_failure(void **state)
{
    (void)state;
    states_play = without_a_child;
    states_start(STATES(A "," B));
    assert_string_equal(states_end(END_FAILED)->error_code, "children_invalid");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_test, close_test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(children_are_planned_with_the_answer),
        TEST(children_with_keys_have_a_plan_of_their_own),
        TEST(no_answer_waits_for_children_with_and_without_keys),
        TEST(an_end_waits_for_the_children_of_the_answer),
        TEST(a_retry_starts_nothing),
        TEST(a_wait_for_no_child_is_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
