#include "definition/definition.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "definition_fixture.h"
#include "support/test.h"

static void a_full_definition_is_read(void **state)
{
    (void)state;
    struct definition *definition =
        read_fine("name: onboard-customer\n"
                  "workspace: Acme GmbH\n"
                  "executor_group: billing\n"
                  "timeout: 1h\n"
                  "stuck_after: 10m\n"
                  "starts_max: 5\n"
                  "hold_slot: true\n"
                  "steps:\n"
                  "  fetch:\n"
                  "    exec: [sh, -c, 'printf \"%s ${HOME}\" \"$0\"', \"${.input.customer}\", 5]\n"
                  "    env: {A: \"x${.input.b}\", B: 1}\n"
                  "    cwd: /tmp\n"
                  "    output_max: 64KiB\n"
                  "    timeout: 10s\n"
                  "    retry: {attempts: 3, backoff: 2s, factor: 1.5, max: 1m30s, not_on: [bad_input]}\n"
                  "  nap: {needs: [fetch], sleep: 1500ms, hold_slot: false}\n"
                  "  late: {sleep: {until: \"${.input.at}\"}}\n"
                  "  report:\n"
                  "    needs: [nap, late]\n"
                  "    when: ${.steps.fetch.output.ok}\n"
                  "    handler: send-report\n"
                  "    input: {total: \"${.steps.fetch.output | length}\", list: [1, 2.5, null, true, x]}\n");
    assert_string_equal(definition->name, "onboard-customer");
    assert_string_equal(definition->workspace, "Acme GmbH");
    assert_string_equal(definition->executor_group, "billing");
    assert_int_equal(definition->timeout_us, 3600 * MICROSECONDS_PER_SECOND);
    assert_int_equal(definition->stuck_after_us, 600 * MICROSECONDS_PER_SECOND);
    assert_int_equal(definition->starts_max, 5);
    assert_true(definition->hold_slot);
    assert_true(definition->steps[0].hold_slot); /* as in the definition */
    assert_false(definition->steps[1].hold_slot);
    assert_int_equal(definition->count, 4);
    const struct step *fetch = &definition->steps[0];
    assert_int_equal(fetch->kind, STEP_EXEC);
    assert_int_equal(fetch->exec.argc, 5);
    assert_string_equal(fetch->exec.argv[4]->source, "5");
    assert_true(template_is_constant(fetch->exec.argv[2]));
    assert_int_equal(fetch->exec.env_count, 2);
    assert_string_equal(fetch->exec.env[1].name, "B");
    assert_int_equal(fetch->exec.output_max, 64 * 1024);
    assert_int_equal(fetch->timeout_us, 10 * MICROSECONDS_PER_SECOND);
    assert_int_equal(fetch->retry.attempts, 3);
    assert_int_equal(fetch->retry.backoff_us, 2 * MICROSECONDS_PER_SECOND);
    assert_true(fetch->retry.factor == 1.5);
    assert_int_equal(fetch->retry.max_us, 90 * MICROSECONDS_PER_SECOND);
    assert_string_equal(fetch->retry.not_on[0], "bad_input");
    const struct step *report = &definition->steps[3];
    assert_int_equal(report->needs_count, 2);
    assert_int_equal(report->needs[0], 1);
    assert_string_equal(report->handler.name, "send-report");
    assert_int_equal(report->handler.input->shape, TEMPLATE_MAP);
    assert_null(definition->steps[2].sleep.duration);
    assert_non_null(definition->steps[2].sleep.until);
    definition_close(definition);
}

static void defaults_are_filled_in(void **state)
{
    (void)state;
    struct definition *definition = read_fine("{name: a, steps: {s: {exec: [x]}, h: {handler: b}}}");
    const struct step *step = &definition->steps[0];
    assert_null(definition->workspace);
    assert_null(definition->executor_group);
    assert_int_equal(definition->timeout_us, 0);
    assert_int_equal(step->retry.attempts, 1);
    assert_int_equal(step->retry.backoff_us, STEP_BACKOFF_US_DEFAULT);
    assert_int_equal(step->exec.output_max, STEP_OUTPUT_BYTES_MAX);
    assert_null(step->when);
    assert_null(step->exec.stdin_template);
    assert_null(definition->steps[1].handler.input);
    /* A handler asks for its retries itself: 17 after the first run, a minute, then twice as long each time, at most a day.
     */
    const struct step_retry *handler = &definition->steps[1].retry;
    assert_int_equal(handler->attempts, 18);
    assert_int_equal(handler->backoff_us, 60 * MICROSECONDS_PER_SECOND);
    assert_true(handler->factor == 2.0);
    assert_int_equal(handler->max_us, 86400 * MICROSECONDS_PER_SECOND);
    definition_close(definition);
}

static void the_canonical_text_does_not_know_the_spelling(void **state)
{
    (void)state;
    static const char canonical[] =
        "{\"name\":\"a\",\"timeout\":\"1m30s\",\"steps\":{\"s\":{\"timeout\":\"1s\",\"retry\":{\"attempts\":2},"
        "\"exec\":[\"echo\",\"5\"],\"stdin\":\"x\"},\"t\":{\"needs\":[\"s\"],\"sleep\":\"2m\"}}}";
    expect_canonical("name: a\ntimeout: 90s\nsteps:\n  s:\n    stdin: x\n    exec: [echo, 5]\n    timeout: 1000ms\n"
                     "    retry: {max: 1m, attempts: 2, factor: 2.0}\n  t:\n    sleep: {for: 120s}\n    needs: [s]\n",
                     canonical);
    expect_canonical(canonical, canonical);
}

static void the_canonical_text_keeps_everything(void **state)
{
    (void)state;
    expect_canonical(
        "name: a\nexecutor_group: grün\nworkspace: ü ✓\nstuck_after: 1h\nstarts_max: 2\nsteps:\n"
        "  s:\n    when: ${ .input.a | not }\n    exec: [sh, -c, \"echo $${x} ${HOME}\\n\", \"$${.a}\", '']\n"
        "    env: {Z: '1', A: \"${.input.x}\"}\n    cwd: \"/a b\"\n    stdin: {a: [\"${.input.b}\", 1.5, null, "
        "\"\\x7f\\u0085\"]}\n"
        "    output_max: 100\n    retry: {attempts: 9, backoff: 2m, factor: 3.5, not_on: [exit_3, timeout]}\n"
        "  t: {sleep: {until: 2026-11-21T10:00:00Z}}\n  u: {handler: h, input: null}\n"
        "  v: {signal: {name: go}}\n  w: {signal: {default: {b: [1, x]}, timeout: 120s, name: go}}\n",
        "{\"name\":\"a\",\"workspace\":\"ü "
        "✓\",\"executor_group\":\"grün\",\"stuck_after\":\"1h\",\"starts_max\":2,\"steps\":{\"s\":{\"when\":\"${ "
        ".input.a | "
        "not "
        "}\",\"retry\":{\"attempts\":9,\"backoff\":\"2m\",\"factor\":3.5,\"max\":\"2m\",\"not_on\":[\"exit_3\",\"timeout\"]"
        "},"
        "\"exec\":[\"sh\",\"-c\",\"echo $${x} ${HOME}\\n\",\"$${.a}\",\"\"],\"env\":{\"Z\":\"1\",\"A\":\"${.input.x}\"},"
        "\"cwd\":\"/a b\",\"stdin\":{\"a\":[\"${.input.b}\",1.5,null,\"\x7f\xc2\x85\"]},\"output_max\":100},"
        "\"t\":{\"sleep\":{\"until\":\"2026-11-21T10:00:00Z\"}},\"u\":{\"handler\":\"h\",\"input\":null},\"v\":{\"signal\":"
        "\"go\"},"
        "\"w\":{\"signal\":{\"name\":\"go\",\"timeout\":\"2m\",\"default\":{\"b\":[1,\"x\"]}}}}}");
}

#define HEAD "name: a\nsteps:\n"

static void an_approval_keeps_its_canonical_text(void **state)
{
    (void)state;
    static const char text[] =
        "{\"name\":\"a\",\"steps\":{\"t\":{\"approve\":{\"by\":[\"token:ops\"],\"prompt\":\"pay?\",\"timeout\":\"1h\","
        "\"default\":\"reject\",\"on_reject\":\"fail\"}}}}";
    expect_canonical(text, text);
}

static void a_wrong_approval_is_refused(void **state)
{
    (void)state;
    static const struct wrong table[] = {
        {HEAD "  s: {approve: eve}\n", "f.yaml:3:16: \"approve\" must be a map",
         "write approve: {} or approve: {by: [\"token:ops\"], timeout: 3d, default: reject}"},
        {HEAD "  s: {approve: {by: []}}\n", "f.yaml:3:21: \"by\" must be a list of 1 to 50 actors", NULL},
        {HEAD "  s: {approve: {default: reject}}\n", "f.yaml:3:26: \"default\" has no effect without \"timeout\"", NULL},
        {HEAD "  s: {approve: {timeout: 1h, default: x}}\n", "f.yaml:3:39: \"default\" must be approve or reject", NULL},
        {HEAD "  s: {approve: {on_reject: stop}}\n", "f.yaml:3:28: \"on_reject\" must be fail or complete", NULL},
        {HEAD "  s: {approve: {who: eve}}\n", "f.yaml:3:17: unknown key \"who\" in \"approve\"", NULL},
        {HEAD "  s: {approve: {}, timeout: 1h}\n", "f.yaml:3:20: \"timeout\" has no meaning in an approve step", NULL}};
    REFUSE_ALL(table)
}

static void a_wrong_signal_is_refused(void **state)
{
    (void)state;
    static const struct wrong table[] = {
        {HEAD "  s: {signal: Approved}\n", "f.yaml:3:15: \"signal\" \"Approved\" is no valid name",
         "a name has 1 to 64 of a-z, 0-9, _ and -, and starts with a letter or digit"},
        {HEAD "  s: {signal: {timeout: 1h}}\n", "f.yaml:3:15: \"signal\" has no \"name\"",
         "write signal: approved, or signal: {name: approved, timeout: 2d}"},
        {HEAD "  s: {signal: {name: a, until: 1h}}\n", "f.yaml:3:25: unknown key \"until\" in \"signal\"", NULL},
        {HEAD "  s: {signal: {name: a, timeout: soon}}\n", "f.yaml:3:34: \"timeout\" must be a duration, not text \"soon\"",
         NULL},
        {HEAD "  s: {signal: {name: a, default: 1}}\n", "f.yaml:3:34: \"default\" has no effect without \"timeout\"", NULL},
        {HEAD "  s: {signal: {name: a, timeout: 1h, default: {b: \"${.input}\"}}}\n",
         "f.yaml:3:47: \"default\" must be a fixed value, without expressions",
         "a step that needs this one can choose: ${.steps.s.output // .input.fallback}"},
        {HEAD "  s: {signal: a, retry: {attempts: 2}}\n", "f.yaml:3:18: \"retry\" has no meaning in a signal step",
         "the wait itself has a timeout: signal: {name: approved, timeout: 2d}"},
        {HEAD "  s: {signal: a, timeout: 1h}\n", "f.yaml:3:18: \"timeout\" has no meaning in a signal step", NULL},
        {HEAD "  s: {signal: a, secrets: [x]}\n", "f.yaml:3:27: \"secrets\" has no meaning in a signal step", NULL},
        {HEAD "  s: {signal: a, sleep: 1s}\n", "f.yaml:3:18: the step \"s\" has two kinds, \"signal\" and \"sleep\"",
         NULL}};
    REFUSE_ALL(table)
    static char text[SIGNAL_DATA_BYTES_MAX + 200];
    int length = snprintf(text, sizeof text, HEAD "  s: {signal: {name: a, timeout: 1h, default: \"%0*d\"}}\n",
                          SIGNAL_DATA_BYTES_MAX, 7);
    struct definition *definition = NULL;
    assert_int_equal(definition_read(text, (size_t)length, "f.yaml", &definition, &fault), WEIR_INVALID_DEFINITION);
    assert_string_equal(fault.message, "f.yaml:3:47: \"default\" is longer than 65536 bytes");
}

static void unknown_keys_are_refused_with_the_nearest_one(void **state)
{
    (void)state;
    static const struct wrong table[] = {
        {"name: a\nstep: {}\n", "f.yaml:2:1: unknown key \"step\" in a definition", "did you mean \"steps\"?"},
        {HEAD "  s:\n    exce: [x]\n", "f.yaml:4:5: unknown key \"exce\" in a step", "did you mean \"exec\"?"},
        {HEAD "  s: {exec: [x], retry: {atempts: 2}}\n", "f.yaml:3:26: unknown key \"atempts\" in \"retry\"",
         "did you mean \"attempts\"?"},
        {HEAD "  s: {sleep: {till: x}}\n", "f.yaml:3:15: unknown key \"till\" in \"sleep\"", NULL},
        {"name: a\nqqqqqqqq: 1\n", "f.yaml:2:1: unknown key \"qqqqqqqq\" in a definition",
         "known keys: name, workspace, executor_group, timeout, stuck_after, starts_max, hold_slot, steps, temporal, "
         "on_failure, finally, labels, states, initial, on_error, variables, signals, unknown_state, schedules"}};
    REFUSE_ALL(table)
}

static void wrong_types_are_refused(void **state)
{
    (void)state;
    static const struct wrong table[] = {
        {"[a]\n", "f.yaml:1:1: a definition must be a map, not list", NULL},
        {"", "f.yaml:1:1: the file is empty", NULL},
        {"steps: {}\n", "f.yaml:1:1: the definition has no \"name\"", NULL},
        {"name: a\n", "f.yaml:1:1: the definition has no \"steps\"", NULL},
        {"name: 7\nsteps: {}\n", "f.yaml:1:7: \"name\" must be text, not integer", "put it in quotes: \"7\""},
        {"name:\nsteps: {}\n", "f.yaml:1:1: \"name\" must be text, not null", NULL},
        {"name: Ab\nsteps: {}\n", "f.yaml:1:7: \"name\" \"Ab\" is no valid name",
         "a name has 1 to 64 of a-z, 0-9, _ and -, and starts with a letter or digit"},
        {"name: _a\nsteps: {}\n", "f.yaml:1:7: \"name\" \"_a\" is no valid name", NULL},
        {"name: a\nworkspace: ''\nsteps: {}\n", "f.yaml:2:12: \"workspace\" must have 1 to 128 bytes", NULL},
        {"name: a\nexecutor_group: ''\nsteps: {}\n", "f.yaml:2:17: \"executor_group\" must have 1 to 64 bytes", NULL},
        {"name: a\nexecutor_group: 0123456789012345678901234567890123456789012345678901234567890123x\nsteps: {}\n",
         "f.yaml:2:17: \"executor_group\" must have 1 to 64 bytes", NULL},
        {"name: a\nexecutor_group: 7\nsteps: {}\n", "f.yaml:2:17: \"executor_group\" must be text, not integer",
         "put it in quotes: \"7\""},
        {"name: a\nexecutor_group: \"a\\0b\"\nsteps: {}\n", "f.yaml:2:17: \"executor_group\" must not hold a NUL", NULL},
        {"name: a\ntimeout: 10\nsteps: {}\n", "f.yaml:2:10: \"timeout\" must be a duration, not integer \"10\"",
         "a duration looks like 250ms, 10s, 1h30m or 2d"},
        {"name: a\ntimeout: [1]\nsteps: {}\n", "f.yaml:2:10: \"timeout\" must be a duration, not list", NULL},
        {"name: a\ntimeout: 99999d\nsteps: {}\n", "f.yaml:2:10: \"timeout\" is longer than ten years", NULL},
        {"name: a\nstarts_max: 0\nsteps: {}\n", "f.yaml:2:13: \"starts_max\" must be an integer from 1 to 100", NULL},
        {"name: a\nhold_slot: 1\nsteps: {}\n", "f.yaml:2:12: \"hold_slot\" must be true or false", NULL},
        {HEAD "  s: {sleep: 1d, hold_slot: 1}\n", "f.yaml:3:29: \"hold_slot\" must be true or false", NULL},
        {"name: a\nhold_slot: true\ntemporal: {}\n", "f.yaml:2:12: \"hold_slot\" has no effect beside \"temporal\"",
         "a run that is open on Temporal always has a slot"},
        {"name: a\nsteps: {}\n", "f.yaml:2:8: \"steps\" is empty", NULL},
        {"name: a\nsteps: [x]\n", "f.yaml:2:8: \"steps\" must be a map from step ids to steps, not list", NULL},
        {HEAD "  S: {exec: [x]}\n", "f.yaml:3:3: the id of a step \"S\" is no valid name", NULL},
        {HEAD "  s: x\n", "f.yaml:3:6: a step must be a map, not text", NULL},
        {HEAD "  s: {timeout: 1s}\n", "f.yaml:3:6: the step \"s\" does nothing",
         "give it one of exec, sleep, handler, http, signal, approve, start"},
        {HEAD "  s: {exec: [x], sleep: 1s}\n", "f.yaml:3:18: the step \"s\" has two kinds, \"exec\" and \"sleep\"", NULL},
        {HEAD "  s: {handler: x, stdin: y}\n", "f.yaml:3:19: \"stdin\" belongs to exec steps, and this is a handler step",
         NULL},
        {HEAD "  s: {sleep: 1s, retry: {attempts: 2}}\n", "f.yaml:3:18: \"retry\" has no meaning in a sleep step", NULL},
        {HEAD "  s: {exec: echo hi}\n", "f.yaml:3:13: \"exec\" must be a list: the program and its arguments", NULL},
        {HEAD "  s: {exec: []}\n", "f.yaml:3:13: \"exec\" must be a list: the program and its arguments", NULL},
        {HEAD "  s: {exec: ['']}\n", "f.yaml:3:14: the program of \"exec\" is empty", NULL},
        {HEAD "  s: {exec: [a, [b]]}\n", "f.yaml:3:17: an argument must be text, not list", NULL},
        {HEAD "  s: {exec: [a, ~]}\n", "f.yaml:3:17: an argument must be text, not null", NULL},
        {HEAD "  s: {exec: [a, \"b\\0c\"]}\n", "f.yaml:3:17: an argument must not hold a NUL", NULL},
        {HEAD "  s: {exec: [a], env: [b]}\n", "f.yaml:3:23: \"env\" must be a map of at most 128 names and values", NULL},
        {HEAD "  s: {exec: [a], env: {1b: x}}\n", "f.yaml:3:24: \"1b\" is no name of an environment variable", NULL},
        {HEAD "  s: {exec: [a], env: {WEIR_STEP: x}}\n", "f.yaml:3:24: the names WEIR_... are set by weir itself", NULL},
        {HEAD "  s: {exec: [a], cwd: [x]}\n", "f.yaml:3:23: \"cwd\" must be text, not list", NULL},
        {HEAD "  s: {exec: [a], stdin: ~}\n", "f.yaml:3:25: \"stdin\" must not be null", NULL},
        {HEAD "  s: {exec: [a], output_max: 2MiB}\n", "f.yaml:3:30: \"output_max\" must be a size from 1 to 1048576 bytes",
         "write 4096 or 64KiB"},
        {HEAD "  s: {exec: [a], output_max: 99999999KiB}\n",
         "f.yaml:3:30: \"output_max\" must be a size from 1 to 1048576 bytes", NULL},
        {HEAD "  s: {exec: [a], when: true}\n", "f.yaml:3:24: \"when\" must be one expression",
         "write when: ${.steps.check.output.ok}"},
        {HEAD "  s: {exec: [a], when: \"a ${.input}\"}\n", "f.yaml:3:24: \"when\" must be one expression", NULL},
        {HEAD "  s: {exec: [a], retry: 3}\n", "f.yaml:3:25: \"retry\" must be a map, not a number", NULL},
        {HEAD "  s: {exec: [a], retry: {max: 1s}}\n", "f.yaml:3:25: \"retry\" needs \"attempts\"", NULL},
        {HEAD "  s: {exec: [a], retry: {attempts: 0}}\n", "f.yaml:3:36: \"attempts\" must be an integer from 1 to 100",
         NULL},
        {HEAD "  s: {exec: [a], retry: {attempts: 2, factor: 0.5}}\n",
         "f.yaml:3:47: \"factor\" must be a number from 1 to 100", NULL},
        {HEAD "  s: {exec: [a], retry: {attempts: 2, backoff: 2s, max: 1s}}\n",
         "f.yaml:3:57: \"max\" is shorter than \"backoff\"", NULL},
        {HEAD "  s: {exec: [a], retry: {attempts: 2, not_on: [\"a b\"]}}\n", "f.yaml:3:48: \"a b\" is no error code", NULL},
        {HEAD "  s: {sleep: soon}\n", "f.yaml:3:14: \"sleep\" must be a duration, not text \"soon\"", NULL},
        {HEAD "  s: {sleep: {}}\n", "f.yaml:3:14: \"sleep\" needs exactly one of \"for\" and \"until\"", NULL},
        {HEAD "  s: {sleep: {until: soon}}\n", "f.yaml:3:22: \"until\": \"soon\" is not a time", NULL},
        {HEAD "  s: {handler: [x]}\n", "f.yaml:3:16: \"handler\" must be text, not list", NULL}};
    REFUSE_ALL(table)
}

static void duplicates_are_refused(void **state)
{
    (void)state;
    static const struct wrong table[] = {
        {HEAD "  s: {exec: [a]}\n  t: {exec: [a]}\n  s: {exec: [b]}\n", "f.yaml:5:3: the key \"s\" appears twice",
         "the first one is at line 3"},
        {HEAD "  s: {exec: [a], exec: [b]}\n", "f.yaml:3:18: the key \"exec\" appears twice", NULL},
        {HEAD "  s: {exec: [a]}\n  t: {needs: [s, s], exec: [a]}\n", "f.yaml:4:18: \"needs\" names the step \"s\" twice",
         NULL}};
    REFUSE_ALL(table)
}

static void a_missing_step_in_needs_is_refused(void **state)
{
    (void)state;
    static const struct wrong table[] = {
        {HEAD "  fetch: {exec: [a]}\n  t: {needs: [fecth], exec: [a]}\n",
         "f.yaml:4:15: \"needs\" names the step \"fecth\", which does not exist", "did you mean \"fetch\"?"},
        {HEAD "  t: {needs: t, exec: [a]}\n", "f.yaml:3:14: \"needs\" must be a list of steps, not text", NULL},
        {HEAD "  t: {needs: [7], exec: [a]}\n", "f.yaml:3:15: an entry of \"needs\" must be text, not integer", NULL}};
    REFUSE_ALL(table)
}

static void a_cycle_is_refused_with_its_path(void **state)
{
    (void)state;
    static const struct wrong table[] = {
        {HEAD "  a: {needs: [a], exec: [x]}\n", "f.yaml:3:15: the step \"a\" needs itself", NULL},
        {HEAD "  a: {needs: [b], exec: [x]}\n  b: {needs: [a], exec: [x]}\n",
         "f.yaml:3:15: the steps need each other in a circle: a -> b -> a", "take one of these out of \"needs\""},
        {HEAD "  z: {exec: [x]}\n  a: {needs: [z, b], exec: [x]}\n  b: {needs: [z, c], exec: [x]}\n"
              "  c: {exec: [x], needs: [z, d]}\n  d: {needs: [b], exec: [x]}\n",
         "f.yaml:5:18: the steps need each other in a circle: b -> c -> d -> b", NULL}};
    REFUSE_ALL(table)
}

static void steps_are_ordered_behind_their_needs(void **state)
{
    (void)state;
    struct definition *definition =
        read_fine(HEAD "  d: {needs: [b, c], exec: [x]}\n  b: {needs: [a], exec: [x]}\n  c: {needs: [a], exec: [x]}\n"
                       "  a: {exec: [x]}\n  e: {exec: [x]}\n");
    size_t at[5];
    for (size_t i = 0; i < definition->count; i++) {
        at[definition->order[i]] = i;
    }
    for (size_t i = 0; i < definition->count; i++) {
        for (size_t j = 0; j < definition->steps[i].needs_count; j++) {
            assert_true(at[definition->steps[i].needs[j]] < at[i]);
        }
    }
    assert_true(definition_step_precedes(definition, 3, 0));
    assert_true(definition_step_precedes(definition, 1, 0));
    assert_false(definition_step_precedes(definition, 0, 3));
    assert_false(definition_step_precedes(definition, 1, 2));
    assert_false(definition_step_precedes(definition, 4, 0));
    assert_false(definition_step_precedes(definition, 0, 0));
    definition_close(definition);
}

static void a_bad_expression_is_refused_where_it_stands(void **state)
{
    (void)state;
    static const struct wrong table[] = {
        {HEAD "  s: {exec: [a, \"x${.input\"]}\n", "f.yaml:3:19: an argument: the expression has no closing \"}\"",
         "write $${ for a literal ${"},
        {HEAD "  s:\n    exec: [a]\n    stdin: ab ${.input.a +}\n",
         "f.yaml:5:17: bad expression ${.input.a +}: syntax error, unexpected $end", NULL},
        {HEAD "  s: {exec: [a, \"${.input | lenght}\"]}\n",
         "f.yaml:3:20: bad expression ${.input | lenght}: lenght/0 is not defined", NULL},
        {HEAD "  s: {exec: [a, \"${.input | length}\", \"${.input | b}\", \"${.input | c}\"]}\n",
         "f.yaml:3:42: bad expression ${.input | b}: b/0 is not defined", NULL},
        {HEAD "  s: {exec: [a, \"${HOME:-x}\"]}\n",
         "f.yaml:3:20: bad expression ${HOME:-x}: syntax error, unexpected ':', expecting $end", NULL},
        {HEAD "  s: {exec: [a], when: ${.x}}\n", "f.yaml:3:25: not valid YAML or JSON: missing comma in flow mapping",
         "inside [ ] and { }, an expression needs quotes: \"${.input.name}\""},
        {HEAD "  s: {exec: [a, \"${input}\"]}\n", "f.yaml:3:20: an argument: an expression starts with a dot here", NULL},
        {HEAD "  s: {handler: h, input: {a: [\"${1 +}\"]}}\n",
         "f.yaml:3:34: bad expression ${1 +}: syntax error, unexpected $end", NULL},
        {HEAD "  s: {exec: [a, '${ import \"a\" as a; 1 }']}\n",
         "f.yaml:3:21: bad expression ${import \"a\" as a; 1}: jq modules are not available", NULL},
        {HEAD "  s: {exec: [a, '${ include \"a\" {search: \"/\"}; 1 }']}\n",
         "f.yaml:3:21: bad expression ${include \"a\" {search: \"/\"}; 1}: jq modules are not available", NULL}};
    REFUSE_ALL(table)
}

static void an_expression_that_kills_jq_is_refused(void **state)
{
    (void)state;
    struct definition *definition = NULL;
    static const char text[] = HEAD "  s: {exec: [a, \"${.input | length}\", \"${1 % 0.1}\"]}\n";
    enum weir_status status = definition_read(text, sizeof text - 1, "f.yaml", &definition, &fault);
    /* Also when libjq dies of it, this process goes on. */
    assert_true(status == WEIR_OK || status == WEIR_INVALID_DEFINITION);
    definition_close(definition);
}

static void an_expression_may_only_use_what_its_step_needs(void **state)
{
    (void)state;
    static const struct wrong table[] = {
        {HEAD "  a: {exec: [x]}\n  b: {exec: [x, \"${.steps.a.output}\"]}\n",
         "f.yaml:4:20: the step \"b\" refers to the step \"a\" without needing it", "add \"a\" to the \"needs\" of \"b\""},
        {HEAD "  a: {exec: [x]}\n  b: {exec: [x, \"${1 + .steps.a.output}\"]}\n",
         "f.yaml:4:31: the step \"b\" refers to the step \"a\" without needing it", NULL},
        {HEAD "  fetch: {exec: [x]}\n  b: {needs: [fetch], handler: h, input: [\"${.steps.fetsh.output}\"]}\n",
         "f.yaml:4:46: the expression refers to the step \"fetsh\", which does not exist", "did you mean \"fetch\"?"},
        {HEAD "  a: {exec: [x], stdin: \"${.steps.a}\"}\n", "f.yaml:3:28: the step \"a\" refers to its own result", NULL},
        {HEAD "  my-step: {exec: [x]}\n  b: {needs: [my-step], exec: [x, \"${.steps.my-step.output}\"]}\n",
         "f.yaml:4:45: the expression refers to the step \"my\", which does not exist",
         "write .steps[\"my-step\"]: in jq, - subtracts"}};
    REFUSE_ALL(table)
    definition_close(read_fine(HEAD "  a: {exec: [x]}\n  b: {needs: [a], exec: [x]}\n"
                                    "  c: {needs: [b], when: \"${.steps[\\\"a\\\"].output}\", exec: [x]}\n"));
}

static void a_path_that_leads_nowhere_is_refused(void **state)
{
    (void)state;
    static const struct wrong table[] = {
        {HEAD "  s: {exec: [x, \"${.inputs.a}\"]}\n",
         "f.yaml:3:20: the expression reads \"inputs\", which is always null: the context has input, steps and execution",
         "did you mean \"input\"?"},
        {HEAD "  s: {exec: [x], when: \"${.customer}\"}\n",
         "f.yaml:3:27: the expression reads \"customer\", which is always null: the context has input, steps and execution",
         "did you mean \".input.customer\"?"},
        {HEAD "  s:\n    handler: h\n    input:\n      a: b\n      c: [\"d ${.input.x} ${.imput | length}\"]\n",
         "f.yaml:7:28: the expression reads \"imput\", which is always null: the context has input, steps and execution",
         "did you mean \"input\"?"},
        {HEAD "  a: {exec: [x]}\n  b: {needs: [a], exec: [x], stdin: \"${.step.a.output}\"}\n",
         "f.yaml:4:40: the expression reads \"step\", which is always null: the context has input, steps and execution",
         "did you mean \"steps\"?"},
        {HEAD "  a: {exec: [x]}\n  b: {needs: [a], exec: [x], stdin: \"${.steps.a.outputs}\"}\n",
         "f.yaml:4:40: the expression reads \"outputs\", which is always null: a step has output, exit_code, attempt and "
         "error",
         "did you mean \"output\"?"},
        {HEAD "  a: {exec: [x]}\n  b: {needs: [a], exec: [x], stdin: \"${.steps[\\\"a\\\"].total // 1}\"}\n",
         "f.yaml:4:37: the expression reads \"total\", which is always null: a step has output, exit_code, attempt and "
         "error",
         "did you mean \".steps.a.output.total\"?"},
        {HEAD "  s: {exec: [x, \"${.execution.workpace}\"]}\n",
         "f.yaml:3:20: the expression reads \"workpace\", which is always null: .execution has id, workspace, workflow, "
         "version and start_number",
         "did you mean \"workspace\"?"}};
    REFUSE_ALL(table)
    definition_close(
        read_fine(HEAD "  a: {exec: [x, \"${.input.inputs}\", \"${.input | .inputs}\", \"${.inputs = 1 | .inputs}\"]}\n"
                       "  b: {needs: [a], exec: [x], when: \"${.steps.a | has(\\\"outputs\\\")}\","
                       " stdin: \"${[.input.items[] | .step]}\"}\n"));
    /* A published definition is read, although a later version may know more keys. */
    static const char published[] = "{\"name\":\"f\",\"steps\":{\"s\":{\"exec\":[\"x\"],\"when\":\"${.secrets}\"}}}";
    struct definition *definition = NULL;
    assert_int_equal(definition_load(published, sizeof published - 1, "store", &definition, &fault), WEIR_OK);
    definition_close(definition);
}

static void input_never_becomes_code_of_a_shell(void **state)
{
    (void)state;
    static const char *const commands[] = {
        "sh, -c, 'echo ${.input.x}'",
        "/bin/sh, -c, 'echo ${.input.x}'",
        "bash, -ec, 'echo ${  .input.x}'",
        "bash, -e, -u, -c, '${.input.x}'",
        "bash, -eo, pipefail, -c, '${.input.x}'",
        "bash, -c, -e, '${.input.x}'",
        "bash, --norc, --rcfile, f, +x, -c, '${.input.x}'",
        "dash, -c, --, 'x ${.input.x}'",
        "ash, -c, '$${.input.x}'",
        "zsh, -c, 'a ${.input.x}', b",
        "/usr/bin/ksh, -c, '${.input.x}'",
        "env, sh, -c, '${.input.x}'",
        "env, -i, A=b, /bin/sh, -ec, '${.input.x}'",
        "env, -S, 'sh -c ${.input.x}'",
        "/usr/bin/env, '-Ssh -c ${.input.x}'",
        "env, '--split-string=sh ${.input.x}'",
        "timeout, 5, sh, -c, '${.input.x}'",
        "'${.input.shell}', -c, '${.input.x}'",
        "env, --, '${.input.shell}', -c, '${.input.x}'",
        "env, A=b, --, '${.input.shell}', -c, '${.input.x}'",
        "flock, '${.input.file}', -c, '${.input.x}'",
        "sh, -c, 'exec \"$@\"', x, sh, -c, '${.input.x}'",
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char text[256];
        (void)snprintf(text, sizeof text, HEAD "  s: {exec: [%s]}\n", commands[i]);
        struct definition *definition = NULL;
        enum weir_status status = definition_read(text, strlen(text), "f.yaml", &definition, &fault);
        if (status != WEIR_INVALID_DEFINITION ||
            strstr(fault.message, ": an expression in a shell script would turn input into code") == NULL ||
            strstr(fault.hint, "pass the value as an argument") == NULL) {
            fail_msg("%s: %d %s", commands[i], status, status == WEIR_OK ? "" : fault.message);
        }
    }
    static const struct wrong places[] = {
        {HEAD "  s: {exec: [sh, -c, 'ab ${.input.x}']}\n",
         "f.yaml:3:26: an expression in a shell script would turn input into code (step \"s\")", NULL},
        {HEAD "  s:\n    exec:\n    - sh\n    - -c\n    - |\n      a\n      b ${.input.x}\n",
         "f.yaml:9:9: an expression in a shell script would turn input into code (step \"s\")", NULL},
        {HEAD "  s: {exec: [sh, '${.input.x}', 'y']}\n",
         "f.yaml:3:18: an expression stands where a shell looks for options", "put \"--\" before it"},
        {HEAD "  s: {exec: [env, bash, -o, '${.input.x}', 'y']}\n",
         "f.yaml:3:29: an expression stands where a shell looks for options", NULL},
        {HEAD "  s: {exec: ['${.input.x}', '${.input.y}', '${.input.z}']}\n",
         "f.yaml:3:29: an expression stands where a shell looks for options", "put \"--\" before it"},
        {HEAD "  s: {exec: [timeout, '${.input.s}', '${.input.y}', '${.input.z}']}\n",
         "f.yaml:3:38: an expression stands where a shell looks for options", NULL},
        {HEAD "  s: {exec: [env, -i, '${.input.x}']}\n",
         "f.yaml:3:23: an expression stands where a shell looks for options", NULL}};
    REFUSE_ALL(places)
}

static bool is_refused_as_code(const char *step)
{
    char text[256];
    struct definition *definition = NULL;
    (void)snprintf(text, sizeof text, HEAD "  build: {%s}\n", step);
    enum weir_status status = definition_read(text, strlen(text), "f.yaml", &definition, &fault);
    definition_close(definition);
    if (status != WEIR_OK && (status != WEIR_INVALID_DEFINITION || strstr(fault.message, "turn input into code") == NULL ||
                              strstr(fault.message, "(step \"build\")") == NULL || fault.hint[0] == '\0')) {
        fail_msg("%s: %d %s", step, status, fault.message);
    }
    return status != WEIR_OK;
}

static void input_never_becomes_the_standard_input_of_a_shell_without_a_script(void **state)
{
    (void)state;
    static const char *const commands[] = {"sh",
                                           "/bin/bash",
                                           "bash, -e, -u",
                                           "bash, -eo, pipefail",
                                           "sh, '-'",
                                           "sh, '--'",
                                           "sh, -s, a, b",
                                           "bash, --norc, -es",
                                           "sh, /dev/stdin",
                                           "bash, -e, /dev/fd/0",
                                           "bash, -e, /proc/self/fd/0",
                                           "env, A=b, sh",
                                           "timeout, 5, bash, -e",
                                           "'${.input.shell}'"};
    static const char *const fine[] = {"sh, script, a", "sh, -c, 'cat -', -s", "bash, -ec, cat", "sh, '--', script",
                                       "wc, -c",        "env, sh, -c, cat",    "grep, sh"};
    char step[256];
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        (void)snprintf(step, sizeof step, "exec: [%s], stdin: '${.input.x}'", commands[i]);
        assert_true(is_refused_as_code(step));
        (void)snprintf(step, sizeof step, "exec: [%s], stdin: {a: [1, 'x ${.input.x}']}", commands[i]);
        assert_true(is_refused_as_code(step));
        (void)snprintf(step, sizeof step, "exec: [%s], stdin: 'echo ${HOME}'", commands[i]);
        assert_false(is_refused_as_code(step));
    }
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        (void)snprintf(step, sizeof step, "exec: [%s], stdin: '${.input.x}'", fine[i]);
        assert_false(is_refused_as_code(step));
    }
}

static void input_never_becomes_a_variable_that_programs_run(void **state)
{
    (void)state;
    static const char *const names[] = {
        "BASH_ENV", "ENV",        "PYTHONSTARTUP", "PYTHONPATH",       "PERL5OPT",         "PERL5LIB",
        "RUBYOPT",  "LD_PRELOAD", "LD_AUDIT",      "NODE_OPTIONS",     "GIT_SSH_COMMAND",  "SHELLOPTS",
        "PS4",      "PATH",       "LESSOPEN",      "GIT_CONFIG_COUNT", "JAVA_TOOL_OPTIONS"};
    static const char *const fine[] = {"HOME", "NODE_ENV", "GIT_AUTHOR_NAME", "ENVIRONMENT", "MY_PATH", "LANG", "X"};
    char step[256];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(step, sizeof step, "exec: [job], env: {A: b, %s: 'x${.input.x}'}", names[i]);
        assert_true(is_refused_as_code(step));
        (void)snprintf(step, sizeof step, "exec: [job], env: {A: '${.input.x}', %s: /opt/x}", names[i]);
        assert_false(is_refused_as_code(step));
    }
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        (void)snprintf(step, sizeof step, "exec: [job], env: {%s: '${.input.x}'}", fine[i]);
        assert_false(is_refused_as_code(step));
    }
}

static void arguments_behind_a_script_and_its_own_variables_are_fine(void **state)
{
    (void)state;
    static const struct {
        const char *command;
        size_t argument;
        bool is_constant;
    } cases[] = {{"sh, -c, 'echo ${HOME} ${x:-y} $${a}', '${.input.x}'", 2, true},
                 {"sh, -c, 'echo \"$1\"', sh, '${.input.x}'", 4, false},
                 {"sh, script, '${.input.x}'", 2, false},
                 {"sh, --, '${.input.x}'", 2, false},
                 {"echo, sh, '${.input.x}'", 2, false},
                 {"env, 'A=${.input.x}', printenv", 1, false},
                 {"env, --split-string=, job, '${.input.x}'", 3, false},
                 {"env, --, job, '${.input.x}', '${.input.y}'", 4, false},
                 {"timeout, '${.input.s}', job, '${.input.x}', '${.input.y}'", 4, false},
                 {"sudo, -u, '${.input.user}', job, '${.input.x}'", 4, false},
                 {"python3, script.py, -c, '${.input.x}'", 3, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        (void)snprintf(text, sizeof text, HEAD "  s: {exec: [%s]}\n", cases[i].command);
        struct definition *definition = read_fine(text);
        const struct template *argument = definition->steps[0].exec.argv[cases[i].argument];
        assert_int_equal(template_is_constant(argument), cases[i].is_constant);
        if (cases[i].is_constant) {
            assert_string_equal(argument->parts[0].text, argument->source);
        }
        definition_close(definition);
    }
}

static void limits_hold(void **state)
{
    (void)state;
    struct text text = {.max = 4 * DEFINITION_BYTES_MAX};
    assert_int_equal(text_add_string(&text, HEAD), WEIR_OK);
    for (int i = 0; i <= DEFINITION_STEPS_MAX; i++) {
        assert_int_equal(text_format(&text, "  s%d: {exec: [x]}\n", i), WEIR_OK);
        if (i == DEFINITION_STEPS_MAX - 1) {
            definition_close(read_fine(text.data));
        }
    }
    const struct wrong many = {text.data, "f.yaml:203:3: more than 200 steps", NULL};
    expect_refusal(&many);
    text_clear(&text);
    assert_int_equal(text_add_string(&text, "name: a\nsteps: {s: {exec: [x, '"), WEIR_OK);
    while (text.length <= DEFINITION_BYTES_MAX) {
        assert_int_equal(text_add_string(&text, "yyyyyyyyyyyyyyyy"), WEIR_OK);
    }
    const struct wrong large = {text.data, "f.yaml:1:1: the definition is larger than 1048576 bytes", NULL};
    expect_refusal(&large);
    text_clear(&text);
    assert_int_equal(text_add_string(&text, HEAD "  s: {exec: [x"), WEIR_OK);
    for (int i = 0; i < STEP_ARGUMENTS_MAX; i++) {
        assert_int_equal(text_format(&text, ", %d", i), WEIR_OK);
    }
    assert_int_equal(text_add_string(&text, "]}\n"), WEIR_OK);
    const struct wrong arguments = {text.data, "f.yaml:3:13: \"exec\" has more than 256 arguments", NULL};
    expect_refusal(&arguments);
    text_clear(&text);
    assert_int_equal(text_add_string(&text, HEAD "  s: {exec: [x], stdin: ["), WEIR_OK);
    for (int i = 0; i <= DEFINITION_PROGRAMS_MAX; i++) {
        assert_int_equal(text_format(&text, "%s'${.input.a + %d}'", i == 0 ? "" : ", ", i), WEIR_OK);
    }
    assert_int_equal(text_add_string(&text, "]}\n"), WEIR_OK);
    struct definition *definition = NULL;
    assert_int_equal(definition_read(text.data, text.length, "f.yaml", &definition, &fault), WEIR_INVALID_DEFINITION);
    assert_non_null(strstr(fault.message, "more than 200 different expressions"));
    text_close(&text);
}

static void a_chain_of_all_steps_is_ordered_in_bounded_time(void **state)
{
    (void)state;
    struct text text = {.max = DEFINITION_BYTES_MAX};
    assert_int_equal(text_add_string(&text, HEAD), WEIR_OK);
    for (int i = 0; i < DEFINITION_STEPS_MAX; i++) {
        /* Backwards, the worst order for the sort. */
        assert_int_equal(i + 1 < DEFINITION_STEPS_MAX ? text_format(&text, "  s%d: {needs: [s%d], exec: [x]}\n", i, i + 1)
                                                      : text_format(&text, "  s%d: {exec: [x]}\n", i),
                         WEIR_OK);
    }
    struct definition *definition = read_fine(text.data);
    assert_int_equal(definition->order[0], DEFINITION_STEPS_MAX - 1);
    assert_true(definition_step_precedes(definition, DEFINITION_STEPS_MAX - 1, 0));
    definition_close(definition);
    text_close(&text);
}

static void every_cut_of_a_definition_is_an_error_or_a_definition(void **state)
{
    (void)state;
    static const char text[] =
        "{\"name\":\"a\",\"steps\":{\"s\":{\"exec\":[\"x\",\"${.input.a}\",\"\\u00e9\"],\"env\":{\"A\":1}}}}";
    for (size_t length = 0; length < sizeof text - 1; length++) {
        char *copy = malloc(length + (length == 0));
        struct definition *definition = NULL;
        assert_non_null(copy);
        memcpy(copy, text, length);
        assert_int_equal(definition_read(copy, length, "f", &definition, &fault), WEIR_INVALID_DEFINITION);
        assert_int_equal(definition_load(copy, length, "f", &definition, &fault), WEIR_INVALID_DEFINITION);
        assert_null(definition);
        free(copy);
    }
}

/* A ~/.jq with a function of its own, and one that is broken: neither is seen. */
static void nothing_from_outside_is_part_of_the_language(void **state)
{
    (void)state;
    char home[] = "/tmp/weir-home-XXXXXX";
    char path[64];
    assert_non_null(mkdtemp(home));
    (void)snprintf(path, sizeof path, "%s/.jq", home);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("def mine: 1;", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(setenv("HOME", home, 1), 0);
    static const struct wrong mine = {HEAD "  s: {exec: [a, '${ .input | mine }']}\n",
                                      "f.yaml:3:21: bad expression ${.input | mine}: mine/0 is not defined", NULL};
    expect_refusal(&mine);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("def broken", file) >= 0);
    assert_int_equal(fclose(file), 0);
    definition_close(read_fine(HEAD "  s: {exec: [a, '${ .input | length }']}\n"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(home), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_definition_is_read),
        cmocka_unit_test(defaults_are_filled_in),
        cmocka_unit_test(the_canonical_text_does_not_know_the_spelling),
        cmocka_unit_test(the_canonical_text_keeps_everything),
        cmocka_unit_test(unknown_keys_are_refused_with_the_nearest_one),
        cmocka_unit_test(an_approval_keeps_its_canonical_text),
        cmocka_unit_test(a_wrong_approval_is_refused),
        cmocka_unit_test(a_wrong_signal_is_refused),
        cmocka_unit_test(wrong_types_are_refused),
        cmocka_unit_test(duplicates_are_refused),
        cmocka_unit_test(a_missing_step_in_needs_is_refused),
        cmocka_unit_test(a_cycle_is_refused_with_its_path),
        cmocka_unit_test(steps_are_ordered_behind_their_needs),
        cmocka_unit_test(a_bad_expression_is_refused_where_it_stands),
        cmocka_unit_test(an_expression_that_kills_jq_is_refused),
        cmocka_unit_test(an_expression_may_only_use_what_its_step_needs),
        cmocka_unit_test(a_path_that_leads_nowhere_is_refused),
        cmocka_unit_test(input_never_becomes_code_of_a_shell),
        cmocka_unit_test(input_never_becomes_the_standard_input_of_a_shell_without_a_script),
        cmocka_unit_test(input_never_becomes_a_variable_that_programs_run),
        cmocka_unit_test(arguments_behind_a_script_and_its_own_variables_are_fine),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(a_chain_of_all_steps_is_ordered_in_bounded_time),
        cmocka_unit_test(every_cut_of_a_definition_is_an_error_or_a_definition),
        cmocka_unit_test(nothing_from_outside_is_part_of_the_language),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
