/* Workflows with states: read, written back, refused. */
#include "definition_fixture.h"

static void states_are_read_and_written(void **state)
{
    (void)state;
    static const char source[] =
        "name: credit\ntimeout: 120m\nsignals: [paid, go]\nunknown_state: error\non_error: problem\ninitial: create\n"
        "variables:\n  amount: integer\n  owner: {type: string, initial: none}\n  Any_1: {}\n  list: {initial: [1, {a: "
        "b}]}\n"
        "states:\n  grant: {handler: credit-grant, next: [done, grant], on_failure: problem, timeout: 90s,"
        " retry: {attempts: 2, backoff: 1s}}\n"
        "  create: {type: normal, handler: credit-create, next: []}\n  review: {type: manual, next: [grant]}\n"
        "  done: {type: end}\n  problem: {type: error, handler: tell}\n";
    struct definition *definition = read_fine(source);
    const struct definition_states *states = definition->states;
    assert_int_equal(definition->count, 1);
    assert_int_equal(definition->steps[0].kind, STEP_STATES);
    assert_string_equal(definition->steps[0].id, STATES_STEP);
    assert_int_equal(states->initial, 1);
    assert_int_equal(states->on_error, states_find(states, "problem"));
    assert_int_equal(states->states[0].on_failure, 4);
    assert_int_equal(states->states[0].next_count, 2);
    assert_int_equal(states->states[0].next[1], 0);
    assert_true(states->states[1].has_next && states->states[1].next_count == 0);
    assert_int_equal(states->states[1].retry.attempts, HANDLER_ATTEMPTS_DEFAULT);
    assert_int_equal(states->states[2].type, STATE_MANUAL);
    assert_int_equal(states_find_signal(states, "go"), 1);
    assert_int_equal(states_find_variable(states, "nobody"), -1);
    assert_string_equal(states->variables[3].initial, "[1,{\"a\":\"b\"}]");
    assert_null(states->variables[0].initial);
    definition_close(definition);
    expect_canonical(
        source,
        "{\"name\":\"credit\",\"timeout\":\"2h\",\"states\":{\"grant\":{\"handler\":\"credit-grant\",\"timeout\":\"1m30s\","
        "\"retry\":{\"attempts\":2,\"backoff\":\"1s\"},\"on_failure\":\"problem\",\"next\":[\"done\",\"grant\"]},"
        "\"create\":{\"handler\":\"credit-create\",\"next\":[]},\"review\":{\"type\":\"manual\",\"next\":[\"grant\"]},"
        "\"done\":{\"type\":\"end\"},\"problem\":{\"handler\":\"tell\",\"type\":\"error\"}},\"initial\":\"create\","
        "\"on_error\":\"problem\",\"variables\":{\"amount\":{\"type\":\"integer\"},\"owner\":{\"type\":\"string\","
        "\"initial\":\"none\"},\"Any_1\":{\"type\":\"any\"},\"list\":{\"type\":\"any\",\"initial\":[1,{\"a\":\"b\"}]}},"
        "\"signals\":[\"paid\",\"go\"],\"unknown_state\":\"error\"}");
}

static void the_first_state_is_the_initial_one(void **state)
{
    (void)state;
    struct definition *definition = read_fine("{name: a, states: {x: {handler: h}, y: {type: end}}}");
    assert_int_equal(definition->states->initial, 0);
    assert_int_equal(definition->states->on_error, -1);
    assert_false(definition->states->unknown_fails);
    definition_close(definition);
}

#define HEAD "name: a\nstates:\n"

static void wrong_states_are_refused(void **state)
{
    (void)state;
    static const struct wrong table[] = {
        {"name: a\nstates: {}\n", "f.yaml:2:9: \"states\" must be a map from names to 1 to 200 states",
         "write states: {check: {handler: check-order}, done: {type: end}}"},
        {HEAD "  x: {}\n", "f.yaml:3:6: the state \"x\" does nothing",
         "give it a handler, or a type: manual, end or error"},
        {HEAD "  x: {type: wait}\n", "f.yaml:3:13: \"type\" must be normal, manual, end or error", NULL},
        {HEAD "  x: {type: manual, handler: h}\n", "f.yaml:3:30: a state of the type \"manual\" has no handler", NULL},
        {HEAD "  x: {type: end, next: [x]}\n",
         "f.yaml:3:24: \"next\" has no meaning in the state \"x\", which has no handler", NULL},
        {HEAD "  x: {type: manual, timeout: 1s}\n",
         "f.yaml:3:30: \"timeout\" has no meaning in the state \"x\", which has no handler", NULL},
        {HEAD "  check: {handler: h, next: [chek]}\n",
         "f.yaml:3:30: \"next\" names the state \"chek\", which the definition does not have", "did you mean \"check\"?"},
        {HEAD "  x: {handler: h, exec: [a]}\n", "f.yaml:3:19: unknown key \"exec\" in a state", NULL},
        {HEAD "  x: {handler: h}\ninitial: y\n",
         "f.yaml:4:10: \"initial\" names the state \"y\", which the definition does not have", NULL},
        {HEAD "  x: {handler: h}\nunknown_state: error\n",
         "f.yaml:4:16: \"unknown_state: error\" needs \"on_error\", the state that follows", NULL},
        {HEAD "  x: {handler: h}\nunknown_state: ignore\n", "f.yaml:4:16: \"unknown_state\" must be wait or error", NULL},
        {HEAD "  x: {handler: h}\nvariables: {1a: any}\n", "f.yaml:4:13: \"1a\" is no name of a variable",
         "a name has 1 to 64 letters, digits and _, and does not start with a digit"},
        {HEAD "  x: {handler: h}\nvariables: {a: float}\n",
         "f.yaml:4:16: the type of a variable is any, string, number, integer, boolean, object or array", NULL},
        {HEAD "  x: {handler: h}\nvariables: {a: {type: integer, initial: b}}\n",
         "f.yaml:4:41: \"initial\" of the variable \"a\" must be of the type integer", NULL},
        {HEAD "  x: {handler: h}\nvariables: {a: {initial: \"${.input.a}\"}}\n",
         "f.yaml:4:26: \"initial\" must be a fixed value, without expressions",
         "the handler of the first state can set it"},
        {HEAD "  x: {handler: h}\nvariables: {a: {initial: [\"$${.input.a}\"]}}\n",
         "f.yaml:4:26: \"initial\" may not have ${ in a text", "the handler of the first state can set it"},
        {HEAD "  x: {handler: h}\nvariables: {a: {initial: \"a\\u0000\"}}\n",
         "f.yaml:4:26: \"initial\" must not hold a NUL", NULL},
        {HEAD "  x: {handler: h}\nsignals: [go, go]\n", "f.yaml:4:15: the signal \"go\" is listed twice", NULL},
        {HEAD "  x: {handler: h}\nsignals: [\"wake:x\"]\n", "f.yaml:4:11: the name of a signal \"wake:x\" is no valid name",
         NULL},
        {HEAD "  x: {handler: h}\nfinally: {s: {exec: [a]}}\n", "f.yaml:4:10: \"finally\" has no meaning beside \"states\"",
         "a state has \"on_failure\", and the definition \"on_error\""},
        {HEAD "  x: {handler: h}\nsteps: {s: {exec: [a]}}\n", "f.yaml:3:3: \"states\" has no meaning beside \"steps\"",
         "a workflow has steps, or states"},
        {"name: a\nsteps: {s: {exec: [a]}}\nvariables: {a: any}\n",
         "f.yaml:3:12: \"variables\" has no meaning beside \"steps\"", NULL},
    };
    REFUSE_ALL(table)
}

/* Each is short enough, and together no record could bring them. */
static void all_initial_values_are_bounded(void **state)
{
    (void)state;
    static char source[5 * 32000 + 500];
    int length = snprintf(source, sizeof source, "%s", HEAD "  x: {handler: h}\nvariables:\n");
    for (int i = 0; i < 5; i++) {
        length += snprintf(source + length, sizeof source - (size_t)length, "  v%d: {initial: \"", i);
        memset(source + length, 'x', 32000);
        length += 32000;
        length += snprintf(source + length, sizeof source - (size_t)length, "\"}\n");
    }
    expect_refusal(
        &(struct wrong){source, "f.yaml:5:3: the values of \"initial\" are longer than 131072 bytes together", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_read_and_written),
        cmocka_unit_test(the_first_state_is_the_initial_one),
        cmocka_unit_test(wrong_states_are_refused),
        cmocka_unit_test(all_initial_values_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
