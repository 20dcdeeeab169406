/* Steps that start other executions: read, written back, refused. */
#include "definition_fixture.h"

static void a_start_step_is_read_and_written(void **state)
{
    (void)state;
    static const char source[] =
        "name: a\nhold_slot: true\nsteps:\n  s: {start: child}\n"
        "  t:\n    needs: [s]\n    timeout: 120s\n    start:\n      workflow: child\n      for_each: ${.input.list}\n"
        "      params: {n: \"${.item}\", i: \"${.index + 1}\"}\n      max_parallel: 1\n      wait: any\n"
        "      on_parent_end: leave\n      executor_group: heavy\n      priority: -1\n"
        "  u: {start: {workflow: child, wait: none, on_parent_end: cancel, workspace: big co}}\n"
        "  v: {start: {workflow: child, key: \"import-${.input.id}\", on_parent_end: leave}}\n";
    struct definition *definition = read_fine(source);
    const struct step *step = &definition->steps[1];
    assert_int_equal(step->kind, STEP_START);
    assert_string_equal(step_awaits(step), "children:t");
    assert_int_equal(step->start.wait, 1);
    assert_int_equal(definition->steps[0].start.wait, START_WAITS_FOR_ALL);
    assert_false(definition->steps[0].hold_slot);
    definition_close(definition);
    expect_canonical(
        source,
        "{\"name\":\"a\",\"hold_slot\":true,\"steps\":{\"s\":{\"start\":{\"workflow\":\"child\"}},\"t\":{\"needs\":[\"s\"],"
        "\"timeout\":\"2m\",\"start\":{\"workflow\":\"child\",\"params\":{\"n\":\"${.item}\",\"i\":\"${.index + 1}\"},"
        "\"for_each\":\"${.input.list}\",\"max_parallel\":1,\"wait\":1,\"on_parent_end\":\"leave\",\"executor_group\":"
        "\"heavy\","
        "\"priority\":-1}},\"u\":{\"start\":{\"workflow\":\"child\",\"workspace\":\"big co\",\"wait\":\"none\"}},"
        "\"v\":{\"start\":{\"workflow\":\"child\",\"key\":\"import-${.input.id}\"}}}}");
}

#define HEAD "name: a\nsteps:\n"

static void a_wrong_start_is_refused(void **state)
{
    (void)state;
    static const struct wrong table[] = {
        {HEAD "  s: {start: {params: {}}}\n", "f.yaml:3:14: \"start\" has no \"workflow\"",
         "write start: {workflow: NAME, params: {...}}"},
        {HEAD "  s: {start: {workflow: c, workspase: x}}\n", "f.yaml:3:28: unknown key \"workspase\" in \"start\"", NULL},
        {HEAD "  s: {start: {workflow: c, workspace: \"${.input.w}\"}}\n",
         "f.yaml:3:39: \"workspace\" of a start step is a fixed name, no expression",
         "input must not choose the tenant; write a step for each workspace"},
        {"workspace: acme\n" HEAD "  s: {start: {workflow: c, workspace: acme}}\n",
         "f.yaml:4:39: a workflow of the workspace \"acme\" starts its children there", NULL},
        {HEAD "  s: {start: {workflow: c, params: [1]}}\n", "f.yaml:3:36: \"params\" must be a map, or one expression",
         NULL},
        {HEAD "  s: {start: {workflow: c, params: {a: \"${.item}\"}}}\n",
         "f.yaml:3:43: the expression reads \"item\", which is always null: the context has input, steps and execution",
         NULL},
        {HEAD "  s: {start: {workflow: c, for_each: [1]}}\n",
         "f.yaml:3:38: \"for_each\" must be one expression, which gives a list", "write for_each: ${.input.urls}"},
        {HEAD "  s: {start: {workflow: c, wait: 2}}\n",
         "f.yaml:3:34: \"wait\" has a number, and there is one child: a number needs \"for_each\"", NULL},
        {HEAD "  s: {start: {workflow: c, wait: any}}\n",
         "f.yaml:3:34: \"wait: any\" needs \"for_each\": there is one child", NULL},
        {HEAD "  s: {start: {workflow: c, wait: some}}\n",
         "f.yaml:3:34: \"wait\" must be all, any, none or a number of children", "without \"wait\" the step waits for all"},
        {HEAD "  s: {start: {workflow: c, max_parallel: 2}}\n",
         "f.yaml:3:42: \"max_parallel\" needs \"for_each\": there is one child", NULL},
        {HEAD "  s: {start: {workflow: c, on_parent_end: kill}}\n",
         "f.yaml:3:43: \"on_parent_end\" must be cancel or leave", NULL},
        {HEAD "  s: {start: {workflow: c, key: [a]}}\n", "f.yaml:3:33: \"key\" must be text, not list", NULL},
        {HEAD "  s: {start: {workflow: c, key: \"${.item}\"}}\n",
         "f.yaml:3:36: the expression reads \"item\", which is always null: the context has input, steps and execution",
         "did you mean \".input.item\"?"},
        {HEAD "  s: {start: {workflow: c, key: one, for_each: \"${.input.l}\"}}\n",
         "f.yaml:3:33: \"key\" is the same for each item, so all children would be one execution",
         "name the item in it, for example key: \"import-${.item.id}\""},
        {HEAD "  s: {start: {workflow: c, key: one, on_parent_end: cancel}}\n",
         "f.yaml:3:53: \"on_parent_end: cancel\" is not allowed beside \"key\"",
         "others may wait for the execution of the key; cancel it with a step of its own"},
        {HEAD "  s: {start: c, retry: {attempts: 2}}\n", "f.yaml:3:17: \"retry\" has no meaning in a start step",
         "give the steps of the other workflow a \"retry\""},
        {HEAD "  s: {start: c, hold_slot: true}\n", "f.yaml:3:17: \"hold_slot\" has no meaning in a start step",
         "its children need the slot for which it would wait"},
        {HEAD "  s: {start: c, secrets: [x]}\n", "f.yaml:3:26: \"secrets\" has no meaning in a start step", NULL},
    };
    REFUSE_ALL(table)
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_step_is_read_and_written),
        cmocka_unit_test(a_wrong_start_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
