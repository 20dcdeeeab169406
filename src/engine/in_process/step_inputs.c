/* The evaluation of a step's inputs.
 *
 *   1. preparation_new() makes the context: `.input`, `.steps` of the preceding steps, `.execution`.
 *   2. preparation_run() evaluates the templates in their order. A plain path needs no process.
 *   3. A jq program needs an evaluator. If its answer is not stored yet, the evaluation stops with a request in the pool.
 *   4. The answer is stored under the text of its program, and the evaluation is repeated from the start. It has no side
 *      effect, so the repetition needs no saved state, and it stops later each time.
 *   5. READY: the command, the delay or the input is complete.
 *
 * On a node with a list of allowed programs it also checks the program and the variables that a step sets.
 * A shortage of memory is never a failure of the step (PREPARATION_SHORT). The loop's thread runs all of it.
 */
#include "engine/in_process/step_inputs.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "definition/code_variable.h"
#include "engine/in_process/runner.h"

bool preparation_is_needless(const struct step_run *run)
{
    const struct step *step = step_run_step(run);
    return step->kind == STEP_HANDLER && step->handler.input == NULL && (step->when == NULL || run->condition_met);
}

/* --- the context of expressions --- */

static bool put_new(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

/* Makes `.execution`. Keeps it only if it is complete: later expressions would read a part of it as the whole. */
static bool make_execution_object(struct execution *execution)
{
    json_t *about = json_object();
    if (put_new(about, "id", json_string(execution->id)) &&
        put_new(about, "workspace", json_string(execution->workspace)) &&
        put_new(about, "workflow", json_string(execution->workflow)) &&
        put_new(about, "version", json_integer(execution->version)) &&
        put_new(about, "attempt", json_integer(execution->start_attempt))) {
        execution->about = about;
        return true;
    }
    json_decref(about);
    return false;
}

/* Makes the parts of the context that all steps share. WEIR_OUT_OF_MEMORY, or the reason why the params cannot be read. */
static enum weir_status make_shared_context(struct execution *execution)
{
    if (execution->input == NULL) {
        enum weir_status status = json_read(execution->params, execution->params_length, &execution->input, NULL);
        if (status != WEIR_OK) {
            return status;
        }
    }
    return execution->about != NULL || make_execution_object(execution) ? WEIR_OK : WEIR_OUT_OF_MEMORY;
}

static bool put_step_object(json_t *steps, const struct step_run *run)
{
    json_t *about = json_object();
    bool is_fine = put_new(about, "output", run->output != NULL ? json_incref(run->output) : json_null()) &&
                   put_new(about, "exit_code", run->exit_code >= 0 ? json_integer(run->exit_code) : json_null()) &&
                   put_new(about, "attempt", json_integer(run->attempt));
    if (!is_fine) {
        json_decref(about);
        return false;
    }
    return put_new(steps, step_run_step(run)->id, about);
}

/* Only steps that precede this one are visible, so no expression depends on the speed of parallel steps. Status as above.
 */
static enum weir_status make_step_context(const struct step_run *run, json_t **ret_context)
{
    struct execution *execution = run->execution;
    enum weir_status status = make_shared_context(execution);
    if (status != WEIR_OK) {
        return status;
    }
    json_t *context = json_object();
    json_t *steps = json_object();
    bool is_fine = context != NULL && steps != NULL;
    for (size_t i = 0; i < execution->step_count && is_fine; i++) {
        if (definition_step_precedes(execution->definition->definition, i, step_run_index(run))) {
            is_fine = put_step_object(steps, &execution->steps[i]);
        }
    }
    is_fine = is_fine && json_object_set(context, "input", execution->input) == 0 &&
              json_object_set(context, "steps", steps) == 0 && json_object_set(context, "execution", execution->about) == 0;
    json_decref(steps);
    if (!is_fine) {
        json_decref(context);
        return WEIR_OUT_OF_MEMORY;
    }
    *ret_context = context;
    return WEIR_OK;
}

struct preparation *preparation_new(struct step_run *run, void (*answered)(struct step_run *run), bool *ret_is_short)
{
    INVARIANT(run->preparation == NULL && answered != NULL);
    struct preparation *preparation = calloc(1, sizeof *preparation);
    *ret_is_short = preparation == NULL;
    if (preparation != NULL) {
        preparation->run = run;
        preparation->answered = answered;
        enum weir_status status = make_step_context(run, &preparation->context);
        process_command_init(&preparation->command);
        preparation->input.max = TEMPLATE_RESULT_BYTES_MAX;
        if (status != WEIR_OK) {
            *ret_is_short = status == WEIR_OUT_OF_MEMORY;
            preparation_free(preparation);
            return NULL;
        }
    }
    return preparation;
}

void preparation_free(struct preparation *preparation)
{
    if (preparation == NULL) {
        return;
    }
    if (preparation->is_asked) {
        evaluators_drop(&preparation->run->execution->runner->evaluators, &preparation->request);
    }
    for (size_t i = 0; i < preparation->answer_count; i++) {
        json_decref(preparation->answers[i].value);
    }
    free(preparation->answers);
    json_decref(preparation->context);
    process_command_close(&preparation->command);
    text_close(&preparation->input);
    free(preparation);
}

/* --- asking an evaluator --- */

static void set_failure_code(struct preparation *preparation, const char *code)
{
    if (preparation->code == NULL) {
        preparation->code = code;
    }
}

static bool store_answer(struct preparation *preparation, const char *program, json_t *value)
{
    size_t bytes = (preparation->answer_count + 1) * sizeof(struct preparation_answer);
    struct preparation_answer *answers = realloc(preparation->answers, bytes);
    if (answers == NULL) {
        json_decref(value);
        return false;
    }
    preparation->answers = answers;
    answers[preparation->answer_count++] = (struct preparation_answer){.program = program, .value = value};
    return true;
}

static void take_evaluation(struct evaluator_request *request, enum weir_status status, json_t *value, const char *message)
{
    struct preparation *preparation = request->owner;
    preparation->is_asked = false;
    if (status == WEIR_OK) {
        preparation->is_short = !store_answer(preparation, preparation->asked, value);
        preparation->answered(preparation->run);
        return;
    }
    set_failure_code(preparation, status == WEIR_TIMED_OUT ? "expression_timeout" : EXPRESSION_ERROR_CODE);
    (void)error_set(&preparation->message, WEIR_FAILED, "${%.200s}: %s", preparation->asked, message);
    preparation->answered(preparation->run);
}

static enum weir_status evaluate_program(void *context, const char *program, const json_t *input, json_t **ret_value,
                                         struct weir_error *error)
{
    struct preparation *preparation = context;
    for (size_t i = 0; i < preparation->answer_count; i++) {
        if (strcmp(preparation->answers[i].program, program) == 0) {
            *ret_value = json_incref(preparation->answers[i].value);
            return WEIR_OK;
        }
    }
    preparation->request.owner = preparation;
    preparation->request.answered = take_evaluation;
    enum weir_status status =
        evaluators_request(&preparation->run->execution->runner->evaluators,
                           &preparation->run->execution->tenant->evaluations, &preparation->request, program, input, error);
    if (status == WEIR_OK) {
        preparation->asked = program;
        preparation->is_asked = true;
        status = error_set(error, WEIR_STORE_BUSY, "an evaluator has the request");
    }
    return status;
}

static enum weir_status add_template_text(struct preparation *preparation, const struct template *template, struct text *to)
{
    return template_evaluate_text(template, preparation->context, evaluate_program, preparation, to, &preparation->message);
}

/* --- exec --- */

/* Evaluates one string of the command, with `name=` in front of it for the environment. */
static enum weir_status add_command_string(struct preparation *preparation, const char *name,
                                           const struct template *template)
{
    struct text value = {.max = KEEPER_COMMAND_BYTES_MAX};
    enum weir_status status = WEIR_OK;
    if (name != NULL) {
        status = text_format(&value, "%s=", name);
    }
    if (status == WEIR_OK) {
        status = add_template_text(preparation, template, &value);
    }
    if (status == WEIR_OK) {
        status = process_command_add(&preparation->command, value.data != NULL ? value.data : "", value.length);
        if (status != WEIR_OK && status != WEIR_OUT_OF_MEMORY) {
            set_failure_code(preparation, status == WEIR_INVALID_ARGUMENT ? EXPRESSION_ERROR_CODE : "exec_failed");
            status = error_set(&preparation->message, WEIR_FAILED, "%s",
                               status == WEIR_INVALID_ARGUMENT ? "an argument or variable holds a NUL byte"
                                                               : "the command is larger than 2 MiB");
        }
    }
    text_close(&value);
    return status;
}

/* With a list of programs, a step must not set a variable that decides which file a program loads or runs. */
static bool may_set_variable(const struct runner *runner, const char *name)
{
    return runner->options.exec_allow_list == NULL || !code_variable_is(name);
}

static bool step_sets_variable(const struct step *step, const char *inherited)
{
    size_t length = strcspn(inherited, "=");
    for (size_t i = 0; i < step->exec.env_count; i++) {
        if (strncmp(step->exec.env[i].name, inherited, length) == 0 && step->exec.env[i].name[length] == '\0') {
            return true;
        }
    }
    return false;
}

static enum weir_status add_variable(struct preparation *preparation, const char *string)
{
    preparation->command.envc++;
    return process_command_add(&preparation->command, string, strlen(string));
}

static enum weir_status add_own_variables(struct preparation *preparation)
{
    const struct step_run *run = preparation->run;
    const struct execution *execution = run->execution;
    char text[STEP_ID_MAX + UUID_TEXT_MAX + 32];
    (void)snprintf(text, sizeof text, "WEIR_EXECUTION_ID=%s", execution->id);
    enum weir_status status = add_variable(preparation, text);
    (void)snprintf(text, sizeof text, "WEIR_STEP=%s", step_run_step(run)->id);
    status = status == WEIR_OK ? add_variable(preparation, text) : status;
    (void)snprintf(text, sizeof text, "WEIR_ATTEMPT=%d", run->attempt);
    status = status == WEIR_OK ? add_variable(preparation, text) : status;
    (void)snprintf(text, sizeof text, "WEIR_FENCE=%lld", (long long)execution->fence);
    return status == WEIR_OK ? add_variable(preparation, text) : status;
}

static enum weir_status add_environment(struct preparation *preparation, const struct step *step)
{
    const struct runner *runner = preparation->run->execution->runner;
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < INHERITED_VARIABLES && status == WEIR_OK; i++) {
        if (runner->options.inherited[i] != NULL && !step_sets_variable(step, runner->options.inherited[i])) {
            status = add_variable(preparation, runner->options.inherited[i]);
        }
    }
    for (size_t i = 0; i < step->exec.env_count && status == WEIR_OK; i++) {
        const struct step_environment *variable = &step->exec.env[i];
        if (!may_set_variable(runner, variable->name)) {
            set_failure_code(preparation, "exec_not_allowed");
            return error_set(&preparation->message, WEIR_FAILED,
                             "a step must not set %s on a node with a list of allowed programs", variable->name);
        }
        preparation->command.envc++; /* the reader of definitions refuses the names WEIR_... */
        status = add_command_string(preparation, variable->name, variable->value);
    }
    return status == WEIR_OK ? add_own_variables(preparation) : status;
}

static enum weir_status check_program_is_allowed(struct preparation *preparation)
{
    const struct runner *runner = preparation->run->execution->runner;
    const char *program = preparation->command.strings.data;
    bool is_allowed = runner->options.allow_exec && runner->options.exec_allow_list == NULL;
    for (size_t i = 0; runner->options.allow_exec && runner->options.exec_allow_list != NULL &&
                       runner->options.exec_allow_list[i] != NULL;
         i++) {
        is_allowed = is_allowed || strcmp(program, runner->options.exec_allow_list[i]) == 0;
    }
    if (is_allowed) {
        return WEIR_OK;
    }
    set_failure_code(preparation, "exec_not_allowed");
    return error_set(&preparation->message, WEIR_FAILED, "this node does not run the program \"%.200s\"", program);
}

static enum weir_status prepare_exec(struct preparation *preparation, const struct step *step)
{
    struct process_command *command = &preparation->command;
    enum weir_status status = WEIR_OK;
    text_clear(&command->strings);
    text_clear(&preparation->input);
    command->argc = 0;
    command->envc = 0;
    for (size_t i = 0; i < step->exec.argc && status == WEIR_OK; i++) {
        status = add_command_string(preparation, NULL, step->exec.argv[i]);
        command->argc++;
        if (i == 0 && status == WEIR_OK) {
            status = check_program_is_allowed(preparation);
        }
    }
    status = status == WEIR_OK ? add_environment(preparation, step) : status;
    if (status == WEIR_OK && step->exec.cwd != NULL) {
        status = add_command_string(preparation, NULL, step->exec.cwd);
    } else if (status == WEIR_OK) {
        status = process_command_add(command, "", 0);
    }
    if (status == WEIR_OK && step->exec.stdin_template != NULL) {
        preparation->has_input = true;
        status = add_template_text(preparation, step->exec.stdin_template, &preparation->input);
    }
    return status;
}

/* --- sleep and handler --- */

static enum weir_status prepare_sleep(struct preparation *preparation, const struct step *step)
{
    struct text value = {.max = 256};
    bool is_duration = step->sleep.duration != NULL;
    enum weir_status status =
        add_template_text(preparation, is_duration ? step->sleep.duration : step->sleep.until, &value);
    if (status == WEIR_OK && is_duration) {
        status = duration_parse(value.data != NULL ? value.data : "", &preparation->delay_us, &preparation->message);
    } else if (status == WEIR_OK) {
        /* A time in a definition is store time: this node's wall clock may be wrong. */
        const struct execution *execution = preparation->run->execution;
        int64_t now_us = time_add(clock_boot(execution->runner->base.clock), execution->store_ahead_us);
        int64_t until_us;
        status = time_parse(value.data != NULL ? value.data : "", now_us, &until_us, &preparation->message);
        if (status == WEIR_OK) {
            preparation->delay_us = until_us > now_us ? until_us - now_us : 0;
        }
    }
    text_close(&value);
    return status;
}

static enum weir_status prepare_handler(struct preparation *preparation, const struct step *step)
{
    json_t *value = NULL;
    if (step->handler.input == NULL) {
        return WEIR_OK;
    }
    enum weir_status status = template_evaluate(step->handler.input, preparation->context, evaluate_program, preparation,
                                                &value, &preparation->message);
    if (status == WEIR_OK) {
        text_clear(&preparation->input);
        preparation->has_input = true;
        status = json_write(value, &preparation->input, &preparation->message);
        json_decref(value);
    }
    return status;
}

static enum weir_status prepare_step(struct preparation *preparation, bool *ret_is_wanted)
{
    struct step_run *run = preparation->run;
    const struct step *step = step_run_step(run);
    bool is_met = true;
    *ret_is_wanted = true;
    if (step->when != NULL && !run->condition_met) {
        enum weir_status status = template_evaluate_condition(step->when, preparation->context, evaluate_program,
                                                              preparation, &is_met, &preparation->message);
        if (status != WEIR_OK || !is_met) {
            *ret_is_wanted = status != WEIR_OK;
            return status;
        }
        run->condition_met = true;
    }
    switch (step->kind) {
    case STEP_EXEC:
        return prepare_exec(preparation, step);
    case STEP_SLEEP:
        return prepare_sleep(preparation, step);
    case STEP_HANDLER:
        return prepare_handler(preparation, step);
    }
    return WEIR_FAILED;
}

enum preparation_result preparation_run(struct preparation *preparation)
{
    bool is_wanted = true;
    INVARIANT(!preparation->is_asked);
    if (preparation->is_short) {
        return PREPARATION_SHORT;
    }
    if (preparation->code != NULL) {
        return PREPARATION_FAILED;
    }
    enum weir_status status = prepare_step(preparation, &is_wanted);
    if (status == WEIR_OK) {
        return is_wanted ? PREPARATION_READY : PREPARATION_SKIP;
    }
    if (preparation->is_asked) {
        return PREPARATION_ASKED;
    }
    if (status == WEIR_OUT_OF_MEMORY) {
        return PREPARATION_SHORT;
    }
    set_failure_code(preparation, EXPRESSION_ERROR_CODE);
    return PREPARATION_FAILED;
}
