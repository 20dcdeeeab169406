/* `temporal`, the workflow that runs on a Temporal service: read, written back, refused. */
#include "definition/definition.h"

#include "definition_fixture.h"
#include "support/test.h"

static void a_workflow_on_temporal_is_read_and_keeps_its_meaning(void **state)
{
    (void)state;
    expect_canonical("name: onboard\n"
                     "timeout: 60m\n"
                     "temporal:\n"
                     "  workflow_type: Onboard Customer\n"
                     "  task_queue: onboard\n"
                     "  run_timeout: 90s\n"
                     "  task_timeout: 0\n"
                     "  retry: {attempts: 3, not_on: [Declined]}\n"
                     "  memo: {team: billing, tags: [a, 1, 2.5, true, ~], deep: {x: y}}\n"
                     "  search_attributes: {CustomKeyword: x}\n",
                     "{\"name\":\"onboard\",\"timeout\":\"1h\",\"temporal\":{\"workflow_type\":\"Onboard Customer\","
                     "\"task_queue\":\"onboard\",\"run_timeout\":\"1m30s\",\"retry\":{\"attempts\":3,\"not_on\":"
                     "[\"Declined\"]},\"memo\":{\"team\":\"billing\",\"tags\":[\"a\",1,2.5,true,null],\"deep\":"
                     "{\"x\":\"y\"}},\"search_attributes\":{\"CustomKeyword\":\"x\"}}}");
    expect_canonical("name: a\ntemporal: {}\n", "{\"name\":\"a\",\"temporal\":{}}");
    expect_canonical("name: a\ntemporal: {retry: {attempts: 1}}\n",
                     "{\"name\":\"a\",\"temporal\":{\"retry\":{\"attempts\":1}}}");
}

static void fields_of_a_workflow_on_temporal_are_expressions_over_the_params(void **state)
{
    (void)state;
    expect_canonical("name: order\n"
                     "temporal:\n"
                     "  headers: {_tracer-data: '${.input.trace}'}\n"
                     "  search_attributes: {Customer: '${.input.customer}', Kinds: ['${.input.kind}', x], Total: 1.5}\n"
                     "  memo: {note: 'of ${.execution.workspace}', nested: {a: '${.input.a}'}}\n"
                     "  priority: 2\n"
                     "  start_delay: ${.input.delay}\n"
                     "  task_timeout: 0s\n"
                     "  run_timeout: ${.input.limit}s\n"
                     "  execution_timeout: 60m\n"
                     "  args: ['${.input.order}', '${.input}', fixed, 7]\n"
                     "  task_queue: orders-${.input.region}\n"
                     "  workflow_id: order-${.input.order}\n",
                     "{\"name\":\"order\",\"temporal\":{\"workflow_id\":\"order-${.input.order}\",\"task_queue\":"
                     "\"orders-${.input.region}\",\"args\":[\"${.input.order}\",\"${.input}\",\"fixed\",7],"
                     "\"execution_timeout\":\"1h\",\"run_timeout\":\"${.input.limit}s\",\"start_delay\":"
                     "\"${.input.delay}\",\"priority\":2,\"memo\":{\"note\":\"of ${.execution.workspace}\",\"nested\":"
                     "{\"a\":\"${.input.a}\"}},\"search_attributes\":{\"Customer\":\"${.input.customer}\",\"Kinds\":"
                     "[\"${.input.kind}\",\"x\"],\"Total\":1.5},\"headers\":{\"_tracer-data\":\"${.input.trace}\"}}}");
    expect_canonical("name: a\ntemporal: {priority: '${.input.priority}'}\n",
                     "{\"name\":\"a\",\"temporal\":{\"priority\":\"${.input.priority}\"}}");
}

static void faults_of_a_workflow_on_temporal_are_named(void **state)
{
    static const struct wrong table[] = {
        {"name: a\ntemporal: {}\nsteps: {}\n", "f.yaml:2:11: a definition has \"steps\" or \"temporal\", not both", NULL},
        {"name: a\nstarts_max: 5\ntemporal: {}\n", "f.yaml:2:13: \"starts_max\" has no effect beside \"temporal\"",
         "Temporal repeats a workflow that fails: temporal: {retry: {attempts: 3}}"},
        {"name: a\ntemporal: q\n", "f.yaml:2:11: \"temporal\" must be a map, not text", NULL},
        {"name: a\ntemporal: {task_que: q}\n", "f.yaml:2:12: unknown key \"task_que\" in \"temporal\"",
         "did you mean \"task_queue\"?"},
        {"name: a\ntemporal: {task_queue: ''}\n", "f.yaml:2:24: \"task_queue\" must have 1 to 255 bytes", NULL},
        {"name: a\ntemporal: {run_timeout: x}\n", "f.yaml:2:25: \"run_timeout\" must be a duration, not text \"x\"", NULL},
        {"name: a\ntemporal: {retry: {}}\n", "f.yaml:2:19: \"retry\" needs \"attempts\"", NULL},
        {"name: a\ntemporal: {memo: [a]}\n", "f.yaml:2:18: \"memo\" must be a map, not list", NULL},
        {"name: a\ntemporal: {memo: {weir_execution: x}}\n",
         "f.yaml:2:19: memo fields that begin with weir_ are weir's own", NULL},
        {"name: a\ntemporal: {workflow_id: order}\n",
         "f.yaml:2:25: \"workflow_id\" is the same for each execution, but a workflow id is used once",
         "put a value of the params into it: \"order-${.input.order}\""},
        {"name: a\ntemporal: {workflow_id: '${.input.order | tostring}'}\n",
         "f.yaml:2:28: ${.input.order | tostring} is more than a path: in \"temporal\" an expression is a path, as "
         "${.input.order}",
         "put the wanted value into the params when the execution is enqueued"},
        {"name: a\ntemporal: {memo: {x: ['${.order}']}}\n",
         "f.yaml:2:26: an expression in \"temporal\" reads .input, or .execution with id, workspace, workflow and version",
         "did you mean \".input.order\"?"},
        {"name: a\ntemporal: {task_queue: '${.execution.start_number}'}\n",
         "f.yaml:2:27: an expression in \"temporal\" reads .input, or .execution with id, workspace, workflow and version",
         NULL},
        {"name: a\ntemporal: {task_queue: '${.steps.a.output}'}\n",
         "f.yaml:2:27: an expression in \"temporal\" reads .input, or .execution with id, workspace, workflow and version",
         NULL},
        {"name: a\ntemporal: {priority: 6}\n", "f.yaml:2:22: \"priority\" must be an integer from 1 to 5", NULL},
        {"name: a\ntemporal: {args: {a: b}}\n", "f.yaml:2:18: \"args\" must be a list, not map", NULL},
        {"name: a\ntimeout: 1h\ntemporal: {execution_timeout: 2h}\n",
         "f.yaml:3:31: \"execution_timeout\" and the definition's \"timeout\" are the same: give one of them", NULL},
        {"name: a\ntemporal: {search_attributes: {WeirWorkspace: x}}\n",
         "f.yaml:2:32: the search attribute WeirWorkspace is weir's own: it is the workspace", NULL},
    };
    (void)state;
    REFUSE_ALL(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_workflow_on_temporal_is_read_and_keeps_its_meaning),
        cmocka_unit_test(fields_of_a_workflow_on_temporal_are_expressions_over_the_params),
        cmocka_unit_test(faults_of_a_workflow_on_temporal_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
