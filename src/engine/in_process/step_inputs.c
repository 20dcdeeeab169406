/* The evaluation of a step's inputs.
 *
 *   1. step_inputs_new() makes the context: `.input`, `.steps` of the preceding steps, `.execution`.
 *   2. step_inputs_evaluate() evaluates the templates in their order. A plain path needs no process.
 *   3. A jq program needs an evaluator. If its answer is not stored yet, the evaluation stops with a request in the pool.
 *   4. The answer is stored under the text of its program, and the evaluation is repeated from the start. It has no side
 *      effect, so the repetition needs no saved state, and it stops later each time.
 *   5. READY: the command, the delay or the input is complete.
 *
 * On a node with a list of allowed programs it also checks the program and the variables that a step sets.
 * A shortage of memory is never a failure of the step (INPUTS_SHORT). The loop's thread runs all of it.
 */
#include "engine/in_process/step_inputs.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "definition/code_variable.h"
#include "engine/in_process/http_client.h"
#include "engine/in_process/result_file.h"
#include "engine/in_process/runner.h"
#include "engine/in_process/step_children.h"

bool step_inputs_are_ready(const struct step_run *run)
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
        put_new(about, "start_number", json_integer(execution->start_number))) {
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

/* NULL when out of memory. */
static json_t *step_error_object(const struct step_run *run)
{
    if (run->state != STEP_FAILED || run->phase != PHASE_DONE) {
        return json_null();
    }
    return json_pack("{s:s?, s:s?}", "code", run->error_code, "message", run->error);
}

/* `.failure`: null unless a step of `steps` or the execution's timeout made the execution fail. NULL when out of memory. */
static json_t *failure_object(const struct execution *execution)
{
    const struct step *steps = execution->definition->definition->steps;
    if (!execution->has_failed) {
        return json_null();
    }
    return json_pack("{s:s?, s:s, s:s?}", "step", execution->failed_step < 0 ? NULL : steps[execution->failed_step].id,
                     "code", execution->error_code, "message", execution->error);
}

static bool put_step_object(json_t *steps, const struct step_run *run)
{
    json_t *about = json_object();
    bool is_fine = put_new(about, "output", run->output != NULL ? json_incref(run->output) : json_null()) &&
                   put_new(about, "exit_code", run->exit_code >= 0 ? json_integer(run->exit_code) : json_null()) &&
                   put_new(about, "attempt", json_integer(run->attempt)) && put_new(about, "error", step_error_object(run));
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
    if (is_fine && step_run_step(run)->section != SECTION_STEPS) {
        is_fine = put_new(context, "failure", failure_object(execution));
    }
    json_decref(steps);
    if (!is_fine) {
        json_decref(context);
        return WEIR_OUT_OF_MEMORY;
    }
    *ret_context = context;
    return WEIR_OK;
}

struct step_inputs *step_inputs_new(struct step_run *run, void (*answered)(struct step_run *run), bool *ret_is_short)
{
    INVARIANT(run->inputs == NULL && answered != NULL);
    struct step_inputs *inputs = calloc(1, sizeof *inputs);
    *ret_is_short = inputs == NULL;
    if (inputs != NULL) {
        inputs->run = run;
        inputs->answered = answered;
        enum weir_status status = make_step_context(run, &inputs->context);
        process_command_init(&inputs->command);
        inputs->input.max = TEMPLATE_RESULT_BYTES_MAX;
        inputs->url.max = HTTP_URL_BYTES_MAX;
        inputs->headers.max = HTTP_HEADERS_BYTES_MAX;
        if (status != WEIR_OK) {
            *ret_is_short = status == WEIR_OUT_OF_MEMORY;
            step_inputs_free(inputs);
            return NULL;
        }
    }
    return inputs;
}

void step_inputs_free(struct step_inputs *inputs)
{
    if (inputs == NULL) {
        return;
    }
    if (inputs->has_request) {
        evaluator_pool_drop(&inputs->run->execution->runner->evaluators, &inputs->request);
    }
    for (size_t i = 0; i < inputs->answer_count; i++) {
        json_decref(inputs->answers[i].value);
    }
    free(inputs->answers);
    json_decref(inputs->items);
    text_close(&inputs->items_program);
    json_decref(inputs->context);
    free(inputs->result_path);
    process_command_close(&inputs->command);
    text_close(&inputs->input);
    text_close(&inputs->url);
    text_close(&inputs->headers);
    free(inputs);
}

/* --- requests to an evaluator --- */

static void set_failure_code(struct step_inputs *inputs, const char *code)
{
    if (inputs->code == NULL) {
        inputs->code = code;
    }
}

static bool store_answer(struct step_inputs *inputs, const char *program, json_t *value)
{
    size_t bytes = (inputs->answer_count + 1) * sizeof(struct step_inputs_answer);
    struct step_inputs_answer *answers = realloc(inputs->answers, bytes);
    if (answers == NULL) {
        json_decref(value);
        return false;
    }
    inputs->answers = answers;
    answers[inputs->answer_count++] =
        (struct step_inputs_answer){.program = program, .is_of_items = inputs->items != NULL, .value = value};
    return true;
}

static void take_evaluation(struct evaluator_request *request, enum weir_status status, json_t *value, const char *message)
{
    struct step_inputs *inputs = request->owner;
    inputs->has_request = false;
    if (status == WEIR_OK && inputs->items != NULL && json_array_size(value) != json_array_size(inputs->items)) {
        json_decref(value);
        status = WEIR_FAILED;
        message = "it does not give exactly one value for each item";
    }
    if (status == WEIR_OK) {
        inputs->is_short = !store_answer(inputs, inputs->requested_program, value);
        inputs->answered(inputs->run);
        return;
    }
    set_failure_code(inputs, status == WEIR_TIMED_OUT ? "expression_timeout" : EXPRESSION_ERROR_CODE);
    (void)error_set(&inputs->message, WEIR_FAILED, "%s", message);
    expression_explain_text_output(inputs->requested_program, inputs->context, &inputs->message);
    error_prefix(&inputs->message, "${%.200s}", inputs->requested_program);
    inputs->answered(inputs->run);
}

/* The answer of the program, or its part for the present item. NULL: it is not there. */
static json_t *find_answer(struct step_inputs *inputs, const char *program)
{
    for (size_t i = 0; i < inputs->answer_count; i++) {
        const struct step_inputs_answer *answer = &inputs->answers[i];
        if (strcmp(answer->program, program) == 0 && answer->is_of_items == (inputs->items != NULL)) {
            return inputs->items != NULL ? json_array_get(answer->value, inputs->item) : answer->value;
        }
    }
    return NULL;
}

/* A program that gives a list: the values of `program` for all items. The context would else be sent once for each item. */
static enum weir_status make_items_request(struct step_inputs *inputs, const char *program, json_t **ret_input)
{
    text_clear(&inputs->items_program);
    inputs->items_program.max = TEMPLATE_BYTES_MAX * 2;
    json_t *input = json_copy(inputs->context);
    if (input == NULL || json_object_set(input, "items", inputs->items) != 0 ||
        text_format(&inputs->items_program,
                    ". as $all | [range(0; .items | length) as $at | $all + {item: $all.items[$at], index: $at} "
                    "| del(.items) | (\n%s\n)]",
                    program) != WEIR_OK) {
        json_decref(input);
        return WEIR_OUT_OF_MEMORY;
    }
    *ret_input = input;
    return WEIR_OK;
}

static enum weir_status evaluate_program(void *context, const char *program, const json_t *input, json_t **ret_value,
                                         struct weir_error *error)
{
    struct step_inputs *inputs = context;
    json_t *answer = find_answer(inputs, program);
    json_t *input_of_items = NULL;
    if (answer != NULL) {
        *ret_value = json_incref(answer);
        return WEIR_OK;
    }
    enum weir_status status = inputs->items == NULL ? WEIR_OK : make_items_request(inputs, program, &input_of_items);
    inputs->request.owner = inputs;
    inputs->request.answered = take_evaluation;
    if (status == WEIR_OK) {
        status = evaluator_pool_request(&inputs->run->execution->runner->evaluators,
                                        &inputs->run->execution->tenant->evaluations, &inputs->request,
                                        inputs->items == NULL ? program : inputs->items_program.data,
                                        inputs->items == NULL ? input : input_of_items, error);
    }
    json_decref(input_of_items);
    if (status == WEIR_OK) {
        inputs->requested_program = program;
        inputs->has_request = true;
        status = error_set(error, WEIR_STORE_BUSY, "an evaluator has the request");
    }
    return status;
}

enum weir_status step_inputs_value(struct step_inputs *inputs, const struct template *template, json_t **ret_value)
{
    INVARIANT(template != NULL && ret_value != NULL);
    return template_evaluate(template, inputs->context, evaluate_program, inputs, ret_value, &inputs->message);
}

enum weir_status step_inputs_refuse(struct step_inputs *inputs, const char *code, const char *message)
{
    set_failure_code(inputs, code);
    return error_set(&inputs->message, WEIR_FAILED, "%s", message);
}

enum weir_status step_inputs_text(struct step_inputs *inputs, const struct template *template, struct text *to)
{
    INVARIANT(template != NULL && to != NULL);
    return template_evaluate_text(template, inputs->context, evaluate_program, inputs, to, &inputs->message);
}

/* --- exec --- */

/* Evaluates one string of the command, with `name=` in front of it for the environment. */
static enum weir_status add_command_string(struct step_inputs *inputs, const char *name, const struct template *template)
{
    struct text value = {.max = KEEPER_COMMAND_BYTES_MAX};
    enum weir_status status = WEIR_OK;
    if (name != NULL) {
        status = text_format(&value, "%s=", name);
    }
    if (status == WEIR_OK) {
        status = step_inputs_text(inputs, template, &value);
    }
    if (status == WEIR_OK) {
        status = process_command_add(&inputs->command, value.data != NULL ? value.data : "", value.length);
        if (status != WEIR_OK && status != WEIR_OUT_OF_MEMORY) {
            set_failure_code(inputs, status == WEIR_INVALID_ARGUMENT ? EXPRESSION_ERROR_CODE : "exec_failed");
            status = error_set(&inputs->message, WEIR_FAILED, "%s",
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
    for (size_t i = 0; i < step->exec.env_from_count; i++) {
        if (strncmp(step->exec.env_from[i], inherited, length) == 0 && step->exec.env_from[i][length] == '\0') {
            return true;
        }
    }
    for (size_t i = 0; i < step->secret_count; i++) {
        const char *variable = step->secrets[i].variable;
        if (strncmp(variable, inherited, length) == 0 && variable[length] == '\0') {
            return true;
        }
    }
    return false;
}

static enum weir_status add_variable(struct step_inputs *inputs, const char *string)
{
    inputs->command.envc++;
    return process_command_add(&inputs->command, string, strlen(string));
}

void step_write_traceparent(const struct step_run *run, char to[TRACEPARENT_SIZE])
{
    INVARIANT(run != NULL);
    const struct execution *execution = run->execution;
    struct trace_context context;
    text_copy(to, TRACEPARENT_SIZE, execution->traceparent);
    if (execution->has_step_spans && traceparent_parse(execution->traceparent, &context)) {
        span_id_of_step(execution->id, step_run_step(run)->id, run->attempt, context.span_id);
        traceparent_write(&context, to);
    }
}

/* A step may set the variable itself. */
static enum weir_status add_traceparent(struct step_inputs *inputs)
{
    static const char name[] = "TRACEPARENT=";
    char variable[sizeof name + TRACEPARENT_SIZE];
    memcpy(variable, name, sizeof name);
    step_write_traceparent(inputs->run, variable + sizeof name - 1);
    bool is_wanted = variable[sizeof name - 1] != '\0' && !step_sets_variable(step_run_step(inputs->run), name);
    return is_wanted ? add_variable(inputs, variable) : WEIR_OK;
}

static enum weir_status add_own_variables(struct step_inputs *inputs)
{
    const struct step_run *run = inputs->run;
    const struct execution *execution = run->execution;
    char text[STEP_ID_MAX + UUID_TEXT_MAX + 32];
    (void)snprintf(text, sizeof text, "WEIR_EXECUTION_ID=%s", execution->id);
    enum weir_status status = add_variable(inputs, text);
    (void)snprintf(text, sizeof text, "WEIR_STEP=%s", step_run_step(run)->id);
    status = status == WEIR_OK ? add_variable(inputs, text) : status;
    (void)snprintf(text, sizeof text, "WEIR_ATTEMPT=%d", run->attempt);
    status = status == WEIR_OK ? add_variable(inputs, text) : status;
    (void)snprintf(text, sizeof text, "WEIR_FENCE=%lld", (long long)execution->fence);
    status = status == WEIR_OK ? add_variable(inputs, text) : status;
    status = status == WEIR_OK ? add_traceparent(inputs) : status;
    free(inputs->result_path);
    inputs->result_path = status == WEIR_OK ? result_file_name(execution->runner->options.temporary_directory) : NULL;
    if (inputs->result_path == NULL) {
        return status;
    }
    inputs->command.result_variable = ++inputs->command.envc;
    status = text_add_string(&inputs->command.strings, "WEIR_OUTPUT=");
    return status == WEIR_OK ? process_command_add(&inputs->command, inputs->result_path, strlen(inputs->result_path))
                             : status;
}

/* Adds the variables of `env_from`. One that is allowed and not set stays unset. */
static enum weir_status add_asked_variables(struct step_inputs *inputs, const struct step *step)
{
    const struct runner_options *options = &inputs->run->execution->runner->options;
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < step->exec.env_from_count && status == WEIR_OK; i++) {
        size_t j = 0;
        while (options->env_from[j] != NULL && strcmp(options->env_from[j], step->exec.env_from[i]) != 0) {
            j++;
        }
        if (options->env_from[j] == NULL) {
            set_failure_code(inputs, "env_not_allowed");
            return error_set(&inputs->message, WEIR_FAILED,
                             "the setting exec.env_from of this node does not allow the variable %s",
                             step->exec.env_from[i]);
        }
        if (options->env_from_variables[j] != NULL) {
            status = add_variable(inputs, options->env_from_variables[j]);
        }
    }
    return status;
}

static enum weir_status add_environment(struct step_inputs *inputs, const struct step *step)
{
    const struct runner *runner = inputs->run->execution->runner;
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < INHERITED_VARIABLES && status == WEIR_OK; i++) {
        if (runner->options.inherited[i] != NULL && !step_sets_variable(step, runner->options.inherited[i])) {
            status = add_variable(inputs, runner->options.inherited[i]);
        }
    }
    for (size_t i = 0; i < step->exec.env_count && status == WEIR_OK; i++) {
        const struct step_environment *variable = &step->exec.env[i];
        if (!may_set_variable(runner, variable->name)) {
            set_failure_code(inputs, "exec_not_allowed");
            return error_set(&inputs->message, WEIR_FAILED,
                             "a step must not set %s on a node with a list of allowed programs", variable->name);
        }
        inputs->command.envc++; /* the reader of definitions refuses the names WEIR_... */
        status = add_command_string(inputs, variable->name, variable->value);
    }
    status = status == WEIR_OK ? add_asked_variables(inputs, step) : status;
    return status == WEIR_OK ? add_own_variables(inputs) : status;
}

static enum weir_status check_program_is_allowed(struct step_inputs *inputs)
{
    const struct runner *runner = inputs->run->execution->runner;
    const char *program = inputs->command.strings.data;
    bool is_allowed = runner->options.allow_exec && runner->options.exec_allow_list == NULL;
    for (size_t i = 0; runner->options.allow_exec && runner->options.exec_allow_list != NULL &&
                       runner->options.exec_allow_list[i] != NULL;
         i++) {
        is_allowed = is_allowed || strcmp(program, runner->options.exec_allow_list[i]) == 0;
    }
    if (is_allowed) {
        return WEIR_OK;
    }
    set_failure_code(inputs, "exec_not_allowed");
    return error_set(&inputs->message, WEIR_FAILED,
                     "this node does not run the program \"%.200s\": exec.allow does not list it", program);
}

static enum weir_status prepare_exec(struct step_inputs *inputs, const struct step *step)
{
    struct process_command *command = &inputs->command;
    enum weir_status status = WEIR_OK;
    command->strings.wipes = step->secret_count > 0;
    text_clear(&command->strings);
    text_clear(&inputs->input);
    command->argc = 0;
    command->envc = 0;
    command->result_variable = 0;
    for (size_t i = 0; i < step->exec.argc && status == WEIR_OK; i++) {
        status = add_command_string(inputs, NULL, step->exec.argv[i]);
        command->argc++;
        if (i == 0 && status == WEIR_OK) {
            status = check_program_is_allowed(inputs);
        }
    }
    if (status == WEIR_OK && step->exec.cwd != NULL) {
        status = add_command_string(inputs, NULL, step->exec.cwd);
    } else if (status == WEIR_OK) {
        status = process_command_add(command, "", 0);
    }
    /* Last, because the start adds the secrets behind it. */
    status = status == WEIR_OK ? add_environment(inputs, step) : status;
    if (status == WEIR_OK && step->exec.stdin_template != NULL) {
        inputs->has_input = true;
        status = step_inputs_text(inputs, step->exec.stdin_template, &inputs->input);
    }
    return status;
}

/* --- sleep and handler --- */

static enum weir_status prepare_sleep(struct step_inputs *inputs, const struct step *step)
{
    struct text value = {.max = 256};
    bool is_duration = step->sleep.duration != NULL;
    enum weir_status status = step_inputs_text(inputs, is_duration ? step->sleep.duration : step->sleep.until, &value);
    if (status == WEIR_OK && is_duration) {
        status = duration_parse(value.data != NULL ? value.data : "", &inputs->delay_us, &inputs->message);
        if (status == WEIR_OK && inputs->delay_us > DEFINITION_DURATION_US_MAX) {
            status = error_set(&inputs->message, WEIR_INVALID_ARGUMENT, "\"%s\" is longer than ten years", value.data);
        }
    } else if (status == WEIR_OK) {
        /* A time in a definition is store time: this node's wall clock may be wrong. */
        const struct execution *execution = inputs->run->execution;
        int64_t now_us = time_add(clock_boot(execution->runner->base.clock), execution->store_ahead_us);
        int64_t until_us;
        status = time_parse(value.data != NULL ? value.data : "", now_us, &until_us, &inputs->message);
        if (status == WEIR_OK) {
            inputs->delay_us = until_us > now_us ? until_us - now_us : 0;
        }
    }
    text_close(&value);
    return status;
}

static enum weir_status prepare_handler(struct step_inputs *inputs, const struct step *step)
{
    json_t *value = NULL;
    if (step->handler.input == NULL) {
        return WEIR_OK;
    }
    enum weir_status status =
        template_evaluate(step->handler.input, inputs->context, evaluate_program, inputs, &value, &inputs->message);
    if (status == WEIR_OK) {
        text_clear(&inputs->input);
        inputs->has_input = true;
        status = json_write(value, &inputs->input, &inputs->message);
        json_decref(value);
    }
    return status;
}

/* --- http --- */

/* The result of a text that must be small enough, in the words of the caller. */
static enum weir_status check_http_text(struct step_inputs *inputs, enum weir_status status, const char *what, int bytes)
{
    if (status == WEIR_OK || status == WEIR_OUT_OF_MEMORY || inputs->has_request) {
        return status;
    }
    return inputs->message.status == status
               ? status
               : error_set(&inputs->message, WEIR_FAILED, "%s larger than %d bytes", what, bytes);
}

/* True for "/../" and its like: servers take it for the way to another path than the definition has. */
static bool has_dot_segment(const char *url)
{
    const char *path = strstr(url, "//");
    path = path == NULL ? url : path + 2;
    for (path += strcspn(path, "/?#"); *path == '/';) {
        size_t length = strcspn(path + 1, "/?#");
        if ((length == 1 && path[1] == '.') || (length == 2 && path[1] == '.' && path[2] == '.')) {
            return true;
        }
        path += 1 + length;
    }
    return false;
}

static enum weir_status prepare_request_url(struct step_inputs *inputs, const struct template *url)
{
    enum weir_status status = WEIR_OK;
    if (template_is_expression(url) || template_is_constant(url)) {
        return step_inputs_text(inputs, url, &inputs->url);
    }
    for (size_t i = 0; i < url->part_count && status == WEIR_OK; i++) {
        const struct template_part *part = &url->parts[i];
        if (part->kind == PART_LITERAL) {
            status = text_add(&inputs->url, part->text, part->length);
            continue;
        }
        struct template one = {.shape = TEMPLATE_TEXT,
                               .source = url->source,
                               .source_length = url->source_length,
                               .parts = part,
                               .part_count = 1};
        struct text value = {.max = HTTP_URL_BYTES_MAX};
        status = step_inputs_text(inputs, &one, &value);
        status = status == WEIR_OK ? text_add_url_value(&inputs->url, value.data, value.length) : status;
        text_close(&value);
    }
    return status == WEIR_OK && has_dot_segment(inputs->url.data)
               ? error_set(&inputs->message, WEIR_FAILED, "a value makes a part of the URL's path \".\" or \"..\"")
               : status;
}

static enum weir_status prepare_header(struct step_inputs *inputs, const struct step_header *header)
{
    enum weir_status status = text_format(&inputs->headers, "%s: ", header->name);
    size_t start = inputs->headers.length;
    status = status == WEIR_OK ? step_inputs_text(inputs, header->value, &inputs->headers) : status;
    for (size_t i = start; status == WEIR_OK && i < inputs->headers.length; i++) {
        unsigned char c = (unsigned char)inputs->headers.data[i];
        if ((c < ' ' && c != '\t') || c == 127) {
            return error_set(&inputs->message, WEIR_FAILED, "the header %s would hold a control character", header->name);
        }
    }
    if (status == WEIR_OK && inputs->headers.length == start) { /* libcurl sends an empty header only in this form */
        inputs->headers.length = start - 2;
        status = text_add(&inputs->headers, ";", 1);
    }
    return status == WEIR_OK ? text_add(&inputs->headers, "", 1) : status;
}

/* A text is sent as it is, any other value as JSON. */
static enum weir_status prepare_body(struct step_inputs *inputs, const struct template *body)
{
    json_t *value = NULL;
    enum weir_status status = template_evaluate(body, inputs->context, evaluate_program, inputs, &value, &inputs->message);
    if (status != WEIR_OK) {
        return status;
    }
    inputs->has_input = true;
    inputs->input_is_json = !json_is_string(value);
    status = json_is_null(value)     ? error_set(&inputs->message, WEIR_FAILED, "the body is null")
             : inputs->input_is_json ? json_write(value, &inputs->input, &inputs->message)
                                     : text_add(&inputs->input, json_string_value(value), json_string_length(value));
    json_decref(value);
    return status;
}

static enum weir_status prepare_http(struct step_inputs *inputs, const struct step_http *http)
{
    text_clear(&inputs->url);
    text_clear(&inputs->headers);
    text_clear(&inputs->input);
    inputs->message.status = WEIR_OK;
    if (!inputs->run->execution->runner->options.allow_http) {
        set_failure_code(inputs, HTTP_NOT_ALLOWED_CODE);
        return error_set(&inputs->message, WEIR_FAILED,
                         "this node sends no requests: set http_step.allow to true, or to a list of hosts and networks");
    }
    enum weir_status status =
        check_http_text(inputs, prepare_request_url(inputs, http->url), "the URL is", HTTP_URL_BYTES_MAX);
    for (size_t i = 0; i < http->header_count && status == WEIR_OK; i++) {
        status =
            check_http_text(inputs, prepare_header(inputs, &http->headers[i]), "the headers are", HTTP_HEADERS_BYTES_MAX);
    }
    if (status == WEIR_OK && http->body != NULL) {
        status = check_http_text(inputs, prepare_body(inputs, http->body), "the body is", TEMPLATE_RESULT_BYTES_MAX);
    }
    return status;
}

static enum weir_status prepare_step(struct step_inputs *inputs, bool *ret_is_wanted)
{
    struct step_run *run = inputs->run;
    const struct step *step = step_run_step(run);
    bool is_met = true;
    *ret_is_wanted = true;
    if (step->when != NULL && !run->condition_met) {
        enum weir_status status =
            template_evaluate_condition(step->when, inputs->context, evaluate_program, inputs, &is_met, &inputs->message);
        if (status != WEIR_OK || !is_met) {
            *ret_is_wanted = status != WEIR_OK;
            return status;
        }
        run->condition_met = true;
    }
    switch (step->kind) {
    case STEP_EXEC:
        return prepare_exec(inputs, step);
    case STEP_SLEEP:
        return prepare_sleep(inputs, step);
    case STEP_HANDLER:
        return prepare_handler(inputs, step);
    case STEP_HTTP:
        return prepare_http(inputs, &step->http);
    case STEP_START:
        return step_children_prepare(inputs, &step->start);
    case STEP_SIGNAL:
    case STEP_STATES:
        return WEIR_OK;
    }
    return WEIR_FAILED;
}

enum step_inputs_result step_inputs_evaluate(struct step_inputs *inputs)
{
    bool is_wanted = true;
    INVARIANT(!inputs->has_request);
    if (inputs->is_short) {
        return INPUTS_SHORT;
    }
    if (inputs->code != NULL) {
        return INPUTS_FAILED;
    }
    enum weir_status status = prepare_step(inputs, &is_wanted);
    if (status == WEIR_OK) {
        return is_wanted ? INPUTS_READY : INPUTS_SKIP;
    }
    if (inputs->has_request) {
        return INPUTS_REQUESTED;
    }
    if (status == WEIR_OUT_OF_MEMORY) {
        return INPUTS_SHORT;
    }
    set_failure_code(inputs, EXPRESSION_ERROR_CODE);
    return INPUTS_FAILED;
}
