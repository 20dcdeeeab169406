/* `labels`, and `on_failure`, `finally`, `undo` and `continue_on_error`: read, written back, refused. */
#include "definition/definition.h"

#include <stdio.h>

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
         "f.yaml:2:30: \"undo\" must be exec, http or handler, not sleep", NULL},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_definition_with_all_sections_keeps_its_meaning),
        cmocka_unit_test(steps_of_all_sections_have_one_index),
        cmocka_unit_test(faults_of_sections_are_named),
        cmocka_unit_test(an_id_is_short_enough_for_its_undo),
        cmocka_unit_test(all_sections_share_the_limit_of_steps),
        cmocka_unit_test(limits_and_names_include_their_last_value),
        cmocka_unit_test(labels_keep_their_order),
        cmocka_unit_test(wrong_labels_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
