/* `labels`, `on_failure`, `finally`, `undo`, `continue_on_error` and `schedules`: read, written back, refused. */
#include "definition/definition.h"

#include <stdio.h>
#include <string.h>

#include "definition_fixture.h"
#include "support/test.h"

#define FULL                                                                                                               \
    "name: order\n"                                                                                                        \
    "steps:\n"                                                                                                             \
    "  reserve:\n"                                                                                                         \
    "    exec: [./reserve]\n"                                                                                              \
    "    undo: {exec: [./release, '${.steps.reserve.output.id}', '${.failure.code}'], timeout: 10s}\n"                     \
    "  notify: {needs: [reserve], handler: notify, continue_on_error: true}\n"                                             \
    "  pay: {needs: [notify], exec: [./pay, '${.steps.notify.error.code // \"fine\"}']}\n"                                 \
    "on_failure:\n"                                                                                                        \
    "  report: {exec: [./report, '${.failure.step}', '${.failure.message}', '${.steps.pay.exit_code // 0}']}\n"            \
    "  again: {needs: [report], sleep: 1s}\n"                                                                              \
    "finally:\n"                                                                                                           \
    "  clean: {exec: [./clean, '${.steps.reserve.output // \"none\"}'], continue_on_error: true}\n"

static void a_definition_with_all_sections_keeps_its_meaning(void **state)
{
    (void)state;
    expect_canonical(
        FULL, "{\"name\":\"order\",\"steps\":{\"reserve\":{\"undo\":{\"timeout\":\"10s\",\"exec\":[\"./release\","
              "\"${.steps.reserve.output.id}\",\"${.failure.code}\"]},\"exec\":[\"./reserve\"]},"
              "\"notify\":{\"needs\":[\"reserve\"],\"continue_on_error\":true,\"handler\":\"notify\"},"
              "\"pay\":{\"needs\":[\"notify\"],\"exec\":[\"./pay\",\"${.steps.notify.error.code // \\\"fine\\\"}\"]}},"
              "\"on_failure\":{\"report\":{\"exec\":[\"./report\",\"${.failure.step}\",\"${.failure.message}\","
              "\"${.steps.pay.exit_code // 0}\"]},\"again\":{\"needs\":[\"report\"],\"sleep\":\"1s\"}},"
              "\"finally\":{\"clean\":{\"continue_on_error\":true,\"exec\":[\"./clean\","
              "\"${.steps.reserve.output // \\\"none\\\"}\"]}}}");
}

/* The index of a step. */
static int step_of(const struct definition *definition, const char *id)
{
    size_t at = 0;
    while (strcmp(definition->steps[at].id, id) != 0) {
        at++;
        assert_true(at < definition->count);
    }
    return (int)at;
}

static void steps_of_all_sections_have_one_index(void **state)
{
    (void)state;
    struct definition *definition = read_fine(FULL);
    assert_int_equal(definition->main_count, 3);
    assert_int_equal(definition->count, 7);
    assert_true(definition->has_finally);
    int undo = step_of(definition, "reserve.undo");
    assert_int_equal(definition->steps[0].undo, undo);
    assert_int_equal(definition->steps[undo].target, 0);
    assert_int_equal(definition->steps[undo].section, SECTION_UNDO);
    assert_int_equal(definition->steps[1].undo, -1);
    assert_true(definition->steps[1].continue_on_error);
    assert_int_equal(definition->steps[step_of(definition, "again")].section, SECTION_ON_FAILURE);
    assert_int_equal(definition->steps[step_of(definition, "clean")].section, SECTION_FINALLY);
    /* An undo sees its step and what precedes it; the last sections see all of `steps`. */
    assert_true(definition_step_precedes(definition, 0, (size_t)undo));
    assert_false(definition_step_precedes(definition, 2, (size_t)undo));
    assert_true(definition_step_precedes(definition, 2, (size_t)step_of(definition, "clean")));
    definition_close(definition);
    definition = read_fine("name: a\nsteps: {a: {exec: [x]}}\n");
    assert_int_equal(definition->main_count, 1);
    assert_false(definition->has_finally);
    definition_close(definition);
}

#define STEPS "name: a\nsteps:\n  a: {exec: [x]}\n  b: {exec: [x]}\n"

static void faults_of_sections_are_named(void **state)
{
    static const struct wrong table[] = {
        {STEPS "finally: {a: {exec: [x]}}\n", "f.yaml:5:11: the id \"a\" is in \"steps\" and in \"finally\"",
         "give one of both another id: ids are unique in the whole definition"},
        {STEPS "on_failure: {c: {exec: [x]}}\nfinally: {c: {exec: [x]}}\n",
         "f.yaml:6:11: the id \"c\" is in \"on_failure\" and in \"finally\"", NULL},
        {STEPS "finally: {c: {needs: [a], exec: [x]}}\n",
         "f.yaml:5:23: a step of \"finally\" cannot need \"a\", which is a step of \"steps\"",
         "all steps of \"steps\" have ended before: take it out of \"needs\""},
        {"name: a\nsteps: {a: {needs: [c], exec: [x]}}\nfinally: {c: {exec: [x]}}\n",
         "f.yaml:2:21: a step of \"steps\" cannot need \"c\", which is a step of \"finally\"",
         "steps of \"finally\" run after those of \"steps\""},
        {STEPS "finally: {c: {exec: [x], undo: {exec: [x]}}}\n", "f.yaml:5:26: \"undo\" has no meaning in \"finally\"",
         "only steps of \"steps\" are undone"},
        {STEPS "finally: {}\n", "f.yaml:5:10: \"finally\" is empty", NULL},
        {STEPS "on_failure: x\n", "f.yaml:5:13: \"on_failure\" must be a map from step ids to steps, not text",
         "write on_failure: {first: {exec: [\"true\"]}}"},
        {"name: a\nsteps: {a: {exec: [x], undo: {sleep: 1s}}}\n",
         "f.yaml:2:30: \"undo\" must be exec, http or handler, not sleep",
         "an undo waits for nothing: put the step into \"on_failure\""},
        {"name: a\nsteps: {a: {exec: [x], undo: {signal: go}}}\n",
         "f.yaml:2:30: \"undo\" must be exec, http or handler, not signal",
         "an undo waits for nothing: put the step into \"on_failure\""},
        {"name: a\nsteps: {a: {exec: [x], undo: {start: {workflow: b}}}}\n",
         "f.yaml:2:30: \"undo\" must be exec, http or handler, not start",
         "an undo waits for nothing: put the step into \"on_failure\""},
        {"name: a\nsteps: {a: {exec: [x], undo: {approve: {by: [ops]}}}}\n",
         "f.yaml:2:30: \"undo\" must be exec, http or handler, not approve",
         "an undo waits for nothing: put the step into \"on_failure\""},
        {"name: a\nsteps: {a: {exec: [x], undo: {exec: [x], needs: []}}}\n",
         "f.yaml:2:42: \"needs\" has no meaning in \"undo\"",
         "the undos of finished steps run one after the other, the last finished step first"},
        {"name: a\nsteps: {a: {exec: [x], undo: {exec: [x], continue_on_error: true}}}\n",
         "f.yaml:2:42: \"continue_on_error\" has no meaning in \"undo\"", NULL},
        {"name: a\nsteps: {a: {exec: [x], undo: {}}}\n", "f.yaml:2:30: the step \"a.undo\" does nothing", NULL},
        {"name: a\nsteps: {a: {exec: [x], undo: x}}\n", "f.yaml:2:30: a step must be a map, not text", NULL},
        {"name: a\nsteps: {a: {exec: [x], continue_on_error: 1}}\n",
         "f.yaml:2:43: \"continue_on_error\" must be true or false", NULL},
        {"name: a\nsteps: {a: {exec: [x, '${.failure.code}']}}\n",
         "f.yaml:2:26: the expression reads \"failure\", which is always null: the context has input, steps and execution",
         NULL},
        {STEPS "finally: {c: {exec: [x, '${.failure.cod}']}}\n",
         "f.yaml:5:28: the expression reads \"cod\", which is always null: .failure has step, code and message",
         "did you mean \"code\"?"},
        {STEPS "on_failure: {c: {exec: [x]}}\nfinally: {d: {exec: [x, '${.steps.c.output}']}}\n",
         "f.yaml:6:28: the step \"d\" refers to the step \"c\" without needing it", NULL},
        {"name: a\ntemporal: {}\nfinally: {a: {exec: [x]}}\n", "f.yaml:3:10: \"finally\" has no effect beside \"temporal\"",
         "a workflow on Temporal handles its failures in the code of its worker"},
        {"name: a\non_failure: {a: {exec: [x]}}\n", "f.yaml:1:1: the definition has no \"steps\"", NULL},
    };
    (void)state;
    REFUSE_ALL(table);
}

static void an_id_is_short_enough_for_its_undo(void **state)
{
    char text[300];
    char id[STEP_ID_MAX + 1];
    (void)state;
    memset(id, 'x', sizeof id);
    id[59] = '\0';
    (void)snprintf(text, sizeof text, "name: a\nsteps: {%s: {exec: [x], undo: {exec: [x]}}}\n", id);
    definition_close(read_fine(text));
    id[59] = 'x';
    id[60] = '\0';
    (void)snprintf(text, sizeof text, "name: a\nsteps: {%s: {exec: [x], undo: {exec: [x]}}}\n", id);
    expect_refusal(&(struct wrong){text, "f.yaml:2:9: the id of a step with \"undo\" has at most 59 bytes", NULL});
}

static void all_sections_share_the_limit_of_steps(void **state)
{
    static char text[64 * 1024];
    size_t length = (size_t)snprintf(text, sizeof text, "name: a\nsteps:\n");
    (void)state;
    for (int i = 0; i < DEFINITION_STEPS_MAX / 2; i++) {
        length += (size_t)snprintf(text + length, sizeof text - length, "  s%d: {exec: [x], undo: {exec: [x]}}\n", i);
    }
    definition_close(read_fine(text));
    (void)snprintf(text + length, sizeof text - length, "finally:\n  c: {exec: [x]}\n");
    expect_refusal(&(struct wrong){text, "f.yaml:104:3: more than 200 steps", NULL});
}

#define LABELLED(labels) "name: a\nlabels: " labels "\nsteps: {s: {exec: [x]}}\n"

static void labels_keep_their_order(void **state)
{
    (void)state;
    expect_canonical(
        LABELLED("{tier: gold, area: \"a b\"}"),
        "{\"name\":\"a\",\"labels\":{\"tier\":\"gold\",\"area\":\"a b\"},\"steps\":{\"s\":{\"exec\":[\"x\"]}}}");
    expect_canonical(LABELLED("{}"), "{\"name\":\"a\",\"steps\":{\"s\":{\"exec\":[\"x\"]}}}");
}

static void wrong_labels_are_refused(void **state)
{
    static char text[LABEL_VALUE_MAX + 100];
    char value[LABEL_VALUE_MAX + 2];
    (void)state;
    static const struct wrong table[] = {
        {LABELLED("{tier: \"\"}"), "f.yaml:2:16: the label \"tier\" must have 1 to 255 bytes", NULL},
        {LABELLED("{\"t t\": x}"), "f.yaml:2:10: \"t t\" is not the name of a label",
         "a name has 1 to 64 of a-z, 0-9, _, - and ."},
        {LABELLED("{tier: \"a\\nb\"}"), "f.yaml:2:16: the label \"tier\" must not hold a control character", NULL},
        {LABELLED("{tier: \"${.input.x}\"}"), "f.yaml:2:16: the label \"tier\" has a fixed value, no expression",
         "a label that depends on the params is given at the enqueue: --label tier=VALUE"},
        {LABELLED("[tier]"), "f.yaml:2:9: \"labels\" must be a map from names to texts, not list", NULL},
    };
    REFUSE_ALL(table)
    memset(value, 'v', sizeof value - 1);
    value[LABEL_VALUE_MAX] = '\0';
    (void)snprintf(text, sizeof text, LABELLED("{tier: %s}"), value);
    definition_close(read_fine(text));
    value[LABEL_VALUE_MAX] = 'v';
    value[LABEL_VALUE_MAX + 1] = '\0';
    (void)snprintf(text, sizeof text, LABELLED("{tier: %s}"), value);
    expect_refusal(&(struct wrong){text, "f.yaml:2:16: the label \"tier\" must have 1 to 255 bytes", NULL});
}

/* JSON of programs is read without places first. A fault has its place, and a number keeps its spelling, all the same. */
static void json_of_programs_keeps_its_numbers_and_the_places_of_faults(void **state)
{
    (void)state;
    struct definition *definition = read_fine("{\"name\":\"a\",\"steps\":{\"s\":{\"exec\":[\"echo\",2.50,10]}}}");
    assert_string_equal(definition->steps[0].exec.argv[1]->source, "2.50");
    assert_string_equal(definition->steps[0].exec.argv[2]->source, "10");
    definition_close(definition);
    static const char wrong[] = "{\"name\":\"a\",\n \"steps\":{\"s\":{\"exec\":5}}}";
    assert_int_equal(definition_read(wrong, strlen(wrong), "f.json", &definition, &fault), WEIR_INVALID_DEFINITION);
    assert_int_equal(strncmp(fault.message, "f.json:2:", 9), 0);
}

/* A name that only begins like that of a variable which programs run is allowed. */
static void limits_and_names_include_their_last_value(void **state)
{
    static char text[STEP_ARGUMENTS_MAX * 4 + 100];
    size_t length = (size_t)snprintf(text, sizeof text, "name: a\nsteps:\n  s: {exec: [x");
    (void)state;
    for (int i = 1; i < STEP_ARGUMENTS_MAX; i++) {
        length += (size_t)snprintf(text + length, sizeof text - length, ", a");
    }
    (void)snprintf(text + length, sizeof text - length, "]}\n");
    definition_close(read_fine(text));
    definition_close(read_fine("name: a\nsteps: {s: {exec: [x], env: {LDAP_URL: \"${.input.url}\"}}}\n"));
}

/* --- schedules --- */

#define BODY "steps:\n  a: {exec: [x]}\n"
#define ONE_SCHEDULE(keys) "name: n\nschedules:\n  s: {" keys "}\n" BODY

static void schedules_are_written_in_their_shortest_form(void **state)
{
    (void)state;
    expect_canonical(
        "name: n\n" BODY "schedules:\n"
        "  nightly: {cron: 30 4 * * mon-fri, zone: Europe/Berlin, jitter: 300s, workspaces: [acme, b],"
        " params: {deep: [1, {b: no}]}, overlap: queue_one, catch_up: 120m}\n"
        "  often: {every: 60s, plan: pro, overlap: skip, params: {}, jitter: 0s, from: 2040-01-01T01:00:00+01:00}\n"
        "  utc: {cron: '@daily', zone: UTC, until: 2041-01-01T00:00:00Z, plan: pro}\n",
        "{\"name\":\"n\",\"schedules\":{\"nightly\":{\"cron\":\"30 4 * * mon-fri\",\"zone\":\"Europe/Berlin\","
        "\"jitter\":\"5m\",\"workspaces\":[\"acme\",\"b\"],\"params\":{\"deep\":[1,{\"b\":\"no\"}]},"
        "\"overlap\":\"queue_one\",\"catch_up\":\"2h\"},"
        "\"often\":{\"every\":\"1m\",\"from\":\"2040-01-01T00:00:00.000000Z\",\"plan\":\"pro\"},"
        "\"utc\":{\"cron\":\"@daily\",\"until\":\"2041-01-01T00:00:00.000000Z\",\"plan\":\"pro\"}},"
        "\"steps\":{\"a\":{\"exec\":[\"x\"]}}}");
    /* A workflow with an owner starts in that workspace alone. */
    expect_canonical("name: n\nworkspace: acme\n" BODY "schedules: {s: {every: 1h}}\n",
                     "{\"name\":\"n\",\"workspace\":\"acme\",\"schedules\":{\"s\":{\"every\":\"1h\"}},"
                     "\"steps\":{\"a\":{\"exec\":[\"x\"]}}}");
    expect_canonical("name: n\n" BODY "schedules: {}\n", "{\"name\":\"n\",\"steps\":{\"a\":{\"exec\":[\"x\"]}}}");
}

static void wrong_schedules_are_refused_at_their_places(void **state)
{
    (void)state;
    static const struct wrong table[] = {
        {"name: n\nschedules: [s]\n" BODY, "f.yaml:2:12: \"schedules\" must be a map from names to schedules, not list",
         NULL},
        {"name: n\nschedules: {S: {every: 1m, plan: p}}\n" BODY,
         "f.yaml:2:13: the name of a schedule \"S\" is no valid name", NULL},
        {ONE_SCHEDULE("every: 1m, plan: p, crom: x"), "f.yaml:3:27: unknown key \"crom\" in a schedule",
         "did you mean \"cron\"?"},
        {ONE_SCHEDULE("plan: p"), "f.yaml:3:6: the schedule \"s\" needs exactly one of \"cron\" and \"every\"", NULL},
        {ONE_SCHEDULE("cron: '* * * * *', every: 1m, plan: p"),
         "f.yaml:3:6: the schedule \"s\" needs exactly one of \"cron\" and \"every\"", NULL},
        {ONE_SCHEDULE("cron: '61 * * * *', plan: p"),
         "f.yaml:3:13: the schedule \"s\": the minute \"61\" of the cron expression is out of range", NULL},
        {ONE_SCHEDULE("every: 0s, plan: p"), "f.yaml:3:14: \"every\" must be longer than 0", NULL},
        {ONE_SCHEDULE("every: 1m, zone: UTC, plan: p"),
         "f.yaml:3:24: \"zone\" is for \"cron\": even steps have no time zone", NULL},
        {ONE_SCHEDULE("every: 1m"), "f.yaml:3:6: the schedule \"s\" needs exactly one of \"workspaces\" and \"plan\"",
         NULL},
        {ONE_SCHEDULE("every: 1m, workspaces: []"), "f.yaml:3:30: \"workspaces\" must be a list of 1 to 100 names", NULL},
        {"name: n\nworkspace: acme\nschedules: {s: {every: 1m, plan: p}}\n" BODY,
         "f.yaml:3:34: the schedule \"s\" starts in \"workspace\" of the definition, and names no other", NULL},
        {ONE_SCHEDULE("every: 1m, plan: p, from: 10m"), "f.yaml:3:33: \"from\" must be a time, not \"10m\"",
         "write a time with its zone: 2040-01-31T08:00:00Z"},
        {ONE_SCHEDULE("every: 1m, plan: p, overlap: queue"),
         "f.yaml:3:36: \"overlap\" must be skip, queue_one, queue_all or cancel_running", NULL},
        {ONE_SCHEDULE("every: 1m, plan: p, params: {a: '${.input.b}'}"),
         "f.yaml:3:35: \"params\" of a schedule must be a fixed value, without expressions", NULL},
        {ONE_SCHEDULE("every: 1m, plan: p, params: {a: ['$${.input.b}']}"),
         "f.yaml:3:35: \"params\" of a schedule may not have ${ in a text", NULL},
        {ONE_SCHEDULE("every: 1m, plan: p, catch_up: 0"), "f.yaml:3:37: \"catch_up\" must be longer than 0", NULL},
        {"name: n\nschedule: nightly\n" BODY, "f.yaml:2:1: unknown key \"schedule\" in a definition",
         "write schedules: {NAME: {cron: \"30 4 * * *\", workspaces: [acme]}}"},
    };
    REFUSE_ALL(table);
}

static void keys_of_other_systems_get_the_words_of_weir(void **state)
{
    (void)state;
    static const struct wrong table[] = {
        {"name: n\nsteps: {a: {run: 'echo x'}}\n", "f.yaml:2:13: unknown key \"run\" in a step",
         "write exec: [PROGRAM, ARGUMENT], or for a line of the shell exec: [sh, -c, \"LINE\"]"},
        {"name: n\nsteps: {a: {exec: [x], depends_on: [b]}}\n", "f.yaml:2:24: unknown key \"depends_on\" in a step",
         "write needs: [STEP]; steps without needs run at the same time"},
        {"name: n\nsteps: {a: {start: {workflow: m}, for_each: '${.input.l}'}}\n",
         "f.yaml:2:35: unknown key \"for_each\" in a step",
         "write start: {workflow: NAME, params: {...}}, with for_each and max_parallel inside of it"},
        {"name: n\nsteps: {a: {exek: [x], run: y}}\n", "f.yaml:2:13: unknown key \"exek\" in a step",
         "did you mean \"exec\"?"},
    };
    REFUSE_ALL(table);
}

/* The store names the schedule first. */
static void a_refused_schedule_gets_its_place(void **state)
{
    (void)state;
    struct definition *definition =
        read_fine("name: n\nschedules:\n  a: {every: 1m, plan: p}\n  ab: {every: 1m, plan: q}\n" BODY);
    struct weir_error error = {.status = WEIR_PLAN_NOT_FOUND};
    (void)snprintf(error.message, sizeof error.message, "schedule \"ab\": there is no plan \"q\"");
    definition_place_refusal(definition, "f.yaml", WEIR_PLAN_NOT_FOUND, &error);
    assert_string_equal(error.message, "f.yaml:4:3: schedule \"ab\": there is no plan \"q\"");
    definition_close(definition);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_definition_with_all_sections_keeps_its_meaning),
        cmocka_unit_test(keys_of_other_systems_get_the_words_of_weir),
        cmocka_unit_test(steps_of_all_sections_have_one_index),
        cmocka_unit_test(faults_of_sections_are_named),
        cmocka_unit_test(an_id_is_short_enough_for_its_undo),
        cmocka_unit_test(all_sections_share_the_limit_of_steps),
        cmocka_unit_test(json_of_programs_keeps_its_numbers_and_the_places_of_faults),
        cmocka_unit_test(limits_and_names_include_their_last_value),
        cmocka_unit_test(labels_keep_their_order),
        cmocka_unit_test(wrong_labels_are_refused),
        cmocka_unit_test(schedules_are_written_in_their_shortest_form),
        cmocka_unit_test(wrong_schedules_are_refused_at_their_places),
        cmocka_unit_test(a_refused_schedule_gets_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
