/* What people ask of the service directly, against a scripted one: terminations that come before their workflow is
 * known. */
#include "support/test.h"

#include <string.h>

#include "engine/temporal/operate.h"
#include "support/frontend.h"

enum { NOT_FOUND = 5, PERMISSION_DENIED = 7 };
#define ID_ONE "019aa000-0000-7000-8000-000000000001"
#define TIMEOUT_US (60 * MICROSECONDS_PER_SECOND)

struct scene {
    int refusals; /* so many calls are answered with `code`, the others with an empty OK */
    int code;
    int patience;            /* it is awaited after so many of them */
    int asked;               /* whether it is awaited */
    const char *workflow_id; /* of the execution; NULL: the default one */
    struct frontend *frontend;
    struct temporal_operator *operator;
};

static void answer_call(void *context, const struct frontend_call *call, struct frontend_answer *answer)
{
    struct scene *scene = context;
    if (strstr(call->path, "/TerminateWorkflowExecution") != NULL && scene->refusals > 0) {
        scene->refusals--;
        *answer = (struct frontend_answer){.code = scene->code, .message = "no"};
    } else if (strstr(call->path, "/DescribeWorkflowExecution") != NULL) {
        *answer = (struct frontend_answer){.code = NOT_FOUND, .message = "no"};
    }
}

static bool is_awaited(void *context)
{
    struct scene *scene = context;
    scene->asked++;
    return scene->patience-- > 0;
}

static enum weir_status terminate(struct scene *scene, struct weir_error *error)
{
    struct frontend_options served = {.handler = answer_call, .context = scene};
    scene->frontend = frontend_open(&served);
    assert_non_null(scene->frontend);
    assert_int_equal(frontend_run(scene->frontend), 0);
    struct temporal_options options = {.address = frontend_address(scene->frontend)};
    assert_int_equal(temporal_operator_open(&options, TIMEOUT_US, &scene->operator, error), WEIR_OK);
    struct temporal_execution execution = {.id = ID_ONE, .workflow_id = scene->workflow_id};
    enum weir_status status = temporal_terminate(scene->operator, & execution, "enough", is_awaited, scene, error);
    temporal_operator_close(scene->operator);
    return status;
}

static int calls_at_the_end(struct scene *scene)
{
    int calls = frontend_counts(scene->frontend).calls;
    assert_int_equal(frontend_counts(scene->frontend).connections, 1);
    frontend_close(scene->frontend);
    return calls;
}

static void what_is_not_known_yet_is_terminated_once_it_is(void **state)
{
    struct scene scene = {.refusals = 3, .code = NOT_FOUND, .patience = 100};
    struct weir_error error;
    (void)state;
    assert_int_equal(terminate(&scene, &error), WEIR_OK);
    assert_int_equal(scene.asked, 3);
    assert_int_equal(calls_at_the_end(&scene), 4 + 3); /* each one that is not found is looked up */
}

static void what_is_not_awaited_any_more_is_told_as_not_found(void **state)
{
    struct scene scene = {.refusals = 100, .code = NOT_FOUND, .patience = 2};
    struct weir_error error;
    (void)state;
    assert_int_equal(terminate(&scene, &error), WEIR_EXECUTION_NOT_FOUND);
    assert_non_null(strstr(error.message, "no open workflow execution-" ID_ONE));
    assert_int_equal(scene.asked, 3);
    assert_int_equal(calls_at_the_end(&scene), 3 + 2);
}

static void a_refusal_is_told_at_once(void **state)
{
    struct scene scene = {.refusals = 100, .code = PERMISSION_DENIED, .patience = 100};
    struct weir_error error;
    (void)state;
    assert_int_equal(terminate(&scene, &error), WEIR_NOT_PERMITTED);
    assert_int_equal(scene.asked, 0);
    assert_int_equal(calls_at_the_end(&scene), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_known_yet_is_terminated_once_it_is),
        cmocka_unit_test(what_is_not_awaited_any_more_is_told_as_not_found),
        cmocka_unit_test(a_refusal_is_told_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
