/* Reading one step, and the pieces that steps share: needs, retries. Part of definition_read() (definition_reader.c).
 *
 *   1. Unknown keys are refused, then the kind is found: exactly one of `exec`, `sleep`, `handler`, `http`, `signal`,
 * `approve`, `start`.
 *   2. Keys of another kind are refused by name ("`stdin` belongs to exec"), instead of as unknown.
 *   3. Common fields: needs, when, timeout, retry. A step may need each other step once, and not itself.
 *   4. The fields of the kind. For `exec` every argument and variable that a shell or program would run as code must be
 *      free of expressions (shell_rule.h, code_variable.h). Input must never become code.
 *   5. Each text with `${` becomes a template (template_reader.c).
 *
 * Constants are checked now, expressions when their value is known. Nothing here may keep a pointer into the tree of the
 * file, which ends before the definition.
 */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "definition/code_variable.h"
#include "definition/definition_internal.h"
#include "definition/foreign_keys.h"
#include "definition/shell_rule.h"

/* In the order of the canonical text. `owner` is the kind of step that the key belongs to, NULL for every step. */
static const struct step_key {
    const char *key;
    const char *owner;
} step_keys[] = {{"needs", NULL},    {"when", NULL},         {"timeout", NULL},
                 {"retry", NULL},    {"hold_slot", NULL},    {"secrets", NULL},
                 {"exec", "exec"},   {"env", "exec"},        {"env_from", "exec"},
                 {"cwd", "exec"},    {"stdin", "exec"},      {"output_max", "exec"},
                 {"sleep", "sleep"}, {"handler", "handler"}, {"input", "handler"},
                 {"http", "http"},   {"signal", "signal"},   {"continue_on_error", NULL},
                 {"undo", NULL},     {"approve", "approve"}, {"start", "start"}};

enum { STEP_KEYS = sizeof step_keys / sizeof step_keys[0] };

#define FAIL(reader, node, ...) yaml_error(&(reader)->source, node, (reader)->error, __VA_ARGS__)

/* --- needs, when, retry --- */

static enum weir_status read_need(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                  uint16_t *needs, size_t count)
{
    const char *id = NULL;
    enum weir_status status = reader_take_text(reader, node, "an entry of \"needs\"", &id);
    if (status != WEIR_OK) {
        return status;
    }
    int found = reader_find_step(reader, id, strlen(id));
    if (found < 0) {
        FAIL(reader, node, "\"needs\" names the step \"%.64s\", which does not exist", id);
        reader_hint_step(reader, id);
        return reader->source.status;
    }
    if ((size_t)found == index) {
        return FAIL(reader, node, "the step \"%.64s\" needs itself", id);
    }
    status = section_check_need(reader, index, (size_t)found, node);
    if (status != WEIR_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        if (needs[i] == found) {
            return FAIL(reader, node, "\"needs\" names the step \"%.64s\" twice", id);
        }
    }
    needs[count] = (uint16_t)found;
    return WEIR_OK;
}

static enum weir_status read_step_needs(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                        struct step *step)
{
    if (node->kind != YAML_LIST) {
        FAIL(reader, node, "\"needs\" must be a list of steps, not %s", yaml_kind_name(node->kind));
        error_hint(reader->error, "write needs: [first, second]");
        return reader->source.status;
    }
    /* Duplicates are refused, so the longest list that passes has every step once. */
    size_t places = reader->step_nodes->count + 1;
    uint16_t *needs = arena_allocate(reader->arena, places * sizeof *needs);
    if (needs == NULL) {
        return error_out_of_memory(reader->error);
    }
    for (size_t i = 0; i < node->count; i++) {
        enum weir_status status = read_need(reader, index, node->values[i], needs, i);
        if (status != WEIR_OK) {
            return status;
        }
    }
    step->needs = needs;
    step->needs_count = node->count;
    return WEIR_OK;
}

static enum weir_status read_when(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                  struct step *step)
{
    return reader_take_expression(reader, index, node, "\"when\"", "", "write when: ${.steps.check.output.ok}",
                                  &step->when);
}

static enum weir_status read_error_codes(struct definition_reader *reader, const struct yaml_node *node,
                                         struct step_retry *retry)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    if (node->kind != YAML_LIST || node->count > STEP_ERROR_CODES_MAX) {
        return FAIL(reader, node, "\"not_on\" must be a list of at most %d error codes", STEP_ERROR_CODES_MAX);
    }
    const char **codes = arena_allocate(reader->arena, (node->count + 1) * sizeof *codes);
    if (codes == NULL) {
        return error_out_of_memory(reader->error);
    }
    for (size_t i = 0; i < node->count; i++) {
        enum weir_status status = reader_take_text(reader, node->values[i], "an error code", &codes[i]);
        if (status != WEIR_OK) {
            return status;
        }
        size_t length = strlen(codes[i]);
        if (length == 0 || length > ERROR_CODE_MAX || strspn(codes[i], letters) != length) {
            return FAIL(reader, node->values[i], "\"%.64s\" is no error code", codes[i]);
        }
    }
    retry->not_on = codes;
    retry->not_on_count = node->count;
    return WEIR_OK;
}

static enum weir_status read_factor(struct definition_reader *reader, const struct yaml_node *node, double *ret_factor)
{
    if ((node->kind != YAML_INTEGER && node->kind != YAML_NUMBER) || !(node->number >= 1) ||
        node->number > STEP_FACTOR_MAX) {
        return FAIL(reader, node, "\"factor\" must be a number from 1 to %d", STEP_FACTOR_MAX);
    }
    *ret_factor = node->number;
    return WEIR_OK;
}

enum weir_status reader_take_retry(struct definition_reader *reader, const struct yaml_node *node, struct step_retry *retry)
{
    static const char *const keys[] = {"attempts", "backoff", "factor", "max", "not_on"};
    /* The most common mistake: other systems take the number alone. */
    if (node->kind == YAML_INTEGER) {
        FAIL(reader, node, "\"retry\" must be a map, not a number");
        error_hint(reader->error, "write retry: {attempts: %.20s}, which means so many runs in all", node->text);
        return reader->source.status;
    }
    enum weir_status status =
        yaml_check_keys(&reader->source, node, "\"retry\"", keys, sizeof keys / sizeof keys[0], reader->error);
    if (status != WEIR_OK) {
        return status;
    }
    const struct yaml_node *attempts = yaml_get(node, "attempts");
    const struct yaml_node *backoff = yaml_get(node, "backoff");
    const struct yaml_node *factor = yaml_get(node, "factor");
    const struct yaml_node *max = yaml_get(node, "max");
    const struct yaml_node *not_on = yaml_get(node, "not_on");
    if (attempts == NULL) {
        FAIL(reader, node, "\"retry\" needs \"attempts\"");
        error_hint(reader->error, "attempts: 3 means three runs in all");
        return reader->source.status;
    }
    int64_t runs = 1;
    status = reader_take_integer(reader, attempts, "\"attempts\"", 1, STEP_ATTEMPTS_MAX, &runs);
    retry->attempts = (int)runs;
    if (status == WEIR_OK && backoff != NULL) {
        status = reader_take_duration(reader, backoff, "\"backoff\"", &retry->backoff_us);
        retry->max_us = retry->backoff_us > retry->max_us ? retry->backoff_us : retry->max_us;
    }
    if (status == WEIR_OK && factor != NULL) {
        status = read_factor(reader, factor, &retry->factor);
    }
    if (status == WEIR_OK && max != NULL) {
        status = reader_take_duration(reader, max, "\"max\"", &retry->max_us);
        if (status == WEIR_OK && retry->max_us < retry->backoff_us) {
            status = FAIL(reader, max, "\"max\" is shorter than \"backoff\"");
        }
    }
    return status == WEIR_OK && not_on != NULL ? read_error_codes(reader, not_on, retry) : status;
}

/* --- exec --- */

static const char *id_of(const struct definition_reader *reader, size_t index)
{
    return reader->step_nodes->keys[index]->text;
}

/* The hint shows the safe form: the value as an argument behind the script. */
static enum weir_status refuse_code(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                    size_t offset)
{
    yaml_error_inside(&reader->source, node, offset, reader->error,
                      "an expression in a shell script would turn input into code (step \"%.64s\")", id_of(reader, index));
    error_hint(reader->error, "pass the value as an argument: [sh, -c, 'echo \"$1\"', sh, \"${.input.name}\"]");
    return reader->source.status;
}

static enum weir_status read_argument(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                      enum shell_role role, const struct template **ret_template)
{
    size_t offset = 0;
    if (role == SHELL_SCRIPT) {
        if (shell_script_has_expression(node->text, node->length, &offset)) {
            return refuse_code(reader, index, node, offset);
        }
        return template_make_verbatim(node->text, node->length, reader->arena, ret_template, reader->error);
    }
    enum weir_status status = reader_take_template(reader, index, node, "an argument", ret_template);
    if (status == WEIR_OK && role == SHELL_OPTION && !template_is_constant(*ret_template)) {
        FAIL(reader, node, "an expression stands where a shell looks for options");
        error_hint(reader->error, "put \"--\" before it");
        return reader->source.status;
    }
    return status;
}

/* Applies the rule for shells to the whole command, since a role depends on the arguments before it. */
static enum weir_status check_argv(struct definition_reader *reader, const struct yaml_node *node)
{
    if (node->kind != YAML_LIST || node->count == 0) {
        FAIL(reader, node, "\"exec\" must be a list: the program and its arguments");
        error_hint(reader->error, "write exec: [wc, -c], or exec: [sh, -c, 'a script']");
        return reader->source.status;
    }
    if (node->count > STEP_ARGUMENTS_MAX) {
        return FAIL(reader, node, "\"exec\" has more than %d arguments", STEP_ARGUMENTS_MAX);
    }
    for (size_t i = 0; i < node->count; i++) {
        const struct yaml_node *argument = node->values[i];
        if (argument->text == NULL || argument->kind == YAML_NULL) {
            return FAIL(reader, argument, "an argument must be text, not %s", yaml_kind_name(argument->kind));
        }
        if (memchr(argument->text, '\0', argument->length) != NULL) {
            return FAIL(reader, argument, "an argument must not hold a NUL");
        }
    }
    if (node->values[0]->length == 0) {
        return FAIL(reader, node->values[0], "the program of \"exec\" is empty");
    }
    return WEIR_OK;
}

static enum weir_status read_argv(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                  struct step_exec *exec)
{
    enum weir_status status = check_argv(reader, node);
    if (status != WEIR_OK) {
        return status;
    }
    const char *texts[STEP_ARGUMENTS_MAX];
    enum shell_role roles[STEP_ARGUMENTS_MAX];
    for (size_t i = 0; i < node->count; i++) {
        texts[i] = node->values[i]->text;
    }
    shell_find_roles(texts, node->count, roles);
    const struct template **argv = arena_allocate(reader->arena, node->count * sizeof *argv);
    if (argv == NULL) {
        return error_out_of_memory(reader->error);
    }
    for (size_t i = 0; i < node->count; i++) {
        status = read_argument(reader, index, node->values[i], roles[i], &argv[i]);
        if (status != WEIR_OK) {
            return status;
        }
    }
    exec->argv = argv;
    exec->argc = node->count;
    return WEIR_OK;
}

static bool is_environment_name(const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    return name[0] != '\0' && (name[0] < '0' || name[0] > '9') && name[strspn(name, letters)] == '\0';
}

enum weir_status reader_take_variable_name(struct definition_reader *reader, const struct yaml_node *node,
                                           const char **ret_name)
{
    if (node->kind != YAML_STRING || !is_environment_name(node->text)) {
        return FAIL(reader, node, "\"%.64s\" is no name of an environment variable", node->text != NULL ? node->text : "");
    }
    if (strncmp(node->text, "WEIR_", 5) == 0) {
        return FAIL(reader, node, "the names WEIR_... are set by weir itself");
    }
    *ret_name = arena_copy_string(reader->arena, node->text);
    return *ret_name != NULL ? WEIR_OK : error_out_of_memory(reader->error);
}

/* A variable that makes a program run code may not hold an expression. */
static enum weir_status read_environment(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                         struct step_exec *exec)
{
    if (node->kind != YAML_MAP || node->count > STEP_ENVIRONMENT_MAX) {
        return FAIL(reader, node, "\"env\" must be a map of at most %d names and values", STEP_ENVIRONMENT_MAX);
    }
    struct step_environment *env = arena_allocate(reader->arena, (node->count + 1) * sizeof *env);
    if (env == NULL) {
        return error_out_of_memory(reader->error);
    }
    for (size_t i = 0; i < node->count; i++) {
        const struct yaml_node *key = node->keys[i];
        enum weir_status status = reader_take_variable_name(reader, key, &env[i].name);
        if (status != WEIR_OK) {
            return status;
        }
        status = reader_take_template(reader, index, node->values[i], "an environment variable", &env[i].value);
        if (status != WEIR_OK) {
            return status;
        }
        if (code_variable_is(key->text) && !template_is_constant(env[i].value)) {
            FAIL(reader, node->values[i], "an expression in %.64s would turn input into code (step \"%.64s\")", key->text,
                 id_of(reader, index));
            error_hint(reader->error,
                       "give it a fixed value, and pass the input in a variable of your own or as an argument");
            return reader->source.status;
        }
    }
    exec->env = env;
    exec->env_count = node->count;
    return WEIR_OK;
}

/* Names of variables. The settings of the node decide which ones a definition may ask for (`exec.env_from`). */
static enum weir_status read_env_from(struct definition_reader *reader, const struct yaml_node *node,
                                      struct step_exec *exec)
{
    if (node->kind != YAML_LIST || node->count == 0 || node->count > STEP_ENVIRONMENT_MAX) {
        FAIL(reader, node, "\"env_from\" must be a list of 1 to %d names of variables", STEP_ENVIRONMENT_MAX);
        error_hint(reader->error, "write env_from: [HTTPS_PROXY, TZ]");
        return reader->source.status;
    }
    const char **names = arena_allocate(reader->arena, node->count * sizeof *names);
    if (names == NULL) {
        return error_out_of_memory(reader->error);
    }
    for (size_t i = 0; i < node->count; i++) {
        enum weir_status status = reader_take_variable_name(reader, node->values[i], &names[i]);
        if (status != WEIR_OK) {
            return status;
        }
        for (size_t j = 0; j < exec->env_count; j++) {
            if (strcmp(exec->env[j].name, names[i]) == 0) {
                return FAIL(reader, node->values[i], "%.64s is in \"env\" and in \"env_from\"", names[i]);
            }
        }
    }
    exec->env_from = names;
    exec->env_from_count = node->count;
    return WEIR_OK;
}

/* --- the rest of exec --- */

/* 4096, 64KiB, 1MiB */
static enum weir_status read_size(struct definition_reader *reader, const struct yaml_node *node, size_t *ret_bytes)
{
    int64_t bytes = node->kind == YAML_INTEGER ? node->integer : 0;
    if (node->kind == YAML_STRING) {
        size_t digits = strspn(node->text, "0123456789");
        const char *unit = node->text + digits;
        int64_t factor = strcmp(unit, "KiB") == 0 ? 1024 : strcmp(unit, "MiB") == 0 ? 1024 * 1024 : 0;
        for (size_t i = 0; i < digits && digits <= 7; i++) {
            bytes = bytes * 10 + (node->text[i] - '0');
        }
        bytes *= factor;
    }
    if (bytes < 1 || bytes > STEP_OUTPUT_BYTES_MAX) {
        FAIL(reader, node, "\"output_max\" must be a size from 1 to %d bytes", STEP_OUTPUT_BYTES_MAX);
        error_hint(reader->error, "write 4096 or 64KiB");
        return reader->source.status;
    }
    *ret_bytes = (size_t)bytes;
    return WEIR_OK;
}

static enum weir_status read_stdin(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                   struct step_exec *exec)
{
    const struct yaml_node *command = yaml_get(reader->step_nodes->values[index], "exec");
    const char *texts[STEP_ARGUMENTS_MAX];
    if (node->kind == YAML_NULL) {
        return FAIL(reader, node, "\"stdin\" must not be null");
    }
    enum weir_status status = reader_take_tree(reader, index, node, "\"stdin\"", &exec->stdin_template);
    for (size_t i = 0; i < command->count; i++) { /* read_argv() has counted them */
        texts[i] = command->values[i]->text;
    }
    if (status == WEIR_OK && !template_is_constant(exec->stdin_template) && shell_runs_its_input(texts, command->count)) {
        FAIL(reader, node,
             "a shell without a script runs its standard input: an expression there would turn input into code "
             "(step \"%.64s\")",
             id_of(reader, index));
        error_hint(reader->error,
                   "write the script into \"exec\", which may read the input: [sh, -c, 'while read -r line; ...']");
        return reader->source.status;
    }
    return status;
}

static enum weir_status read_exec(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                  struct step *step)
{
    const struct yaml_node *env = yaml_get(node, "env");
    const struct yaml_node *env_from = yaml_get(node, "env_from");
    const struct yaml_node *cwd = yaml_get(node, "cwd");
    const struct yaml_node *input = yaml_get(node, "stdin");
    const struct yaml_node *output_max = yaml_get(node, "output_max");
    step->kind = STEP_EXEC;
    step->exec.output_max = STEP_OUTPUT_BYTES_MAX;
    enum weir_status status = read_argv(reader, index, yaml_get(node, "exec"), &step->exec);
    if (status == WEIR_OK && env != NULL) {
        status = read_environment(reader, index, env, &step->exec);
    }
    if (status == WEIR_OK && env_from != NULL) {
        status = read_env_from(reader, env_from, &step->exec);
    }
    if (status == WEIR_OK && cwd != NULL) {
        status = reader_take_template(reader, index, cwd, "\"cwd\"", &step->exec.cwd);
    }
    if (status == WEIR_OK && input != NULL) {
        status = read_stdin(reader, index, input, &step->exec);
    }
    return status == WEIR_OK && output_max != NULL ? read_size(reader, output_max, &step->exec.output_max) : status;
}

/* --- sleep and handler --- */

/* A constant is checked and kept in its shortest form. The value of an expression is checked when the step runs. */
static enum weir_status read_sleep_duration(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                            const struct template **ret_template)
{
    enum weir_status status = reader_take_template(reader, index, node, "\"sleep\"", ret_template);
    if (status != WEIR_OK || !template_is_constant(*ret_template)) {
        return status;
    }
    int64_t duration_us = 0;
    status = reader_take_duration(reader, node, "\"sleep\"", &duration_us);
    if (status != WEIR_OK) {
        return status;
    }
    char shortest[DURATION_TEXT_MAX];
    duration_format(duration_us, shortest);
    return template_make_verbatim(shortest, strlen(shortest), reader->arena, ret_template, reader->error);
}

static enum weir_status read_sleep_until(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                         const struct template **ret_template)
{
    enum weir_status status = reader_take_template(reader, index, node, "\"until\"", ret_template);
    int64_t time_us = 0;
    struct weir_error inner;
    if (status == WEIR_OK && template_is_constant(*ret_template) &&
        time_parse(node->text, 0, &time_us, &inner) != WEIR_OK) {
        FAIL(reader, node, "\"until\": %s", inner.message);
        error_hint(reader->error, "%s", inner.hint);
        return reader->source.status;
    }
    return status;
}

static enum weir_status read_sleep(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                   struct step *step)
{
    static const char *const keys[] = {"for", "until"};
    const struct yaml_node *sleep = yaml_get(node, "sleep");
    step->kind = STEP_SLEEP;
    if (sleep->kind != YAML_MAP) {
        return read_sleep_duration(reader, index, sleep, &step->sleep.duration);
    }
    enum weir_status status = yaml_check_keys(&reader->source, sleep, "\"sleep\"", keys, 2, reader->error);
    if (status != WEIR_OK) {
        return status;
    }
    if (sleep->count != 1) {
        FAIL(reader, sleep, "\"sleep\" needs exactly one of \"for\" and \"until\"");
        error_hint(reader->error, "write sleep: 10s, or sleep: {until: \"${.input.at}\"}");
        return reader->source.status;
    }
    return strcmp(sleep->keys[0]->text, "for") == 0
               ? read_sleep_duration(reader, index, sleep->values[0], &step->sleep.duration)
               : read_sleep_until(reader, index, sleep->values[0], &step->sleep.until);
}

static enum weir_status read_handler(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                     struct step *step)
{
    const struct yaml_node *input = yaml_get(node, "input");
    step->kind = STEP_HANDLER;
    enum weir_status status = reader_take_name(reader, yaml_get(node, "handler"), "\"handler\"", &step->handler.name);
    return status == WEIR_OK && input != NULL ? reader_take_tree(reader, index, input, "\"input\"", &step->handler.input)
                                              : status;
}

/* --- signal --- */

/* The output of the step when no signal has come in time. It holds no expression, because an evaluation can fail, and the
 * end of a wait must not. */
static enum weir_status read_signal_default(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                            struct step_signal *signal)
{
    json_t *value = NULL;
    struct text text = {.max = SIGNAL_DATA_BYTES_MAX};
    enum weir_status status = reader_take_tree(reader, index, node, "\"default\"", &signal->default_output);
    if (status == WEIR_OK && !template_is_constant(signal->default_output)) {
        FAIL(reader, node, "\"default\" must be a fixed value, without expressions");
        error_hint(reader->error, "a step that needs this one can choose: ${.steps.%s.output // .input.fallback}",
                   id_of(reader, index));
        return reader->source.status;
    }
    if (status == WEIR_OK) {
        status = template_evaluate(signal->default_output, NULL, NULL, NULL, &value, NULL);
    }
    if (status == WEIR_OK && json_write(value, &text, NULL) != WEIR_OK) {
        status = FAIL(reader, node, "\"default\" is longer than %d bytes", SIGNAL_DATA_BYTES_MAX);
    }
    json_decref(value);
    text_close(&text);
    return status;
}

/* A name alone, or a map. Without a timeout the step waits until the execution ends. */
static enum weir_status reader_take_signal(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                           struct step *step)
{
    static const char *const keys[] = {"name", "timeout", "default"};
    const struct yaml_node *signal = yaml_get(node, "signal");
    step->kind = STEP_SIGNAL;
    if (signal->kind != YAML_MAP) {
        return reader_take_name(reader, signal, "\"signal\"", &step->signal.name);
    }
    enum weir_status status = yaml_check_keys(&reader->source, signal, "\"signal\"", keys, 3, reader->error);
    const struct yaml_node *name = yaml_get(signal, "name");
    const struct yaml_node *timeout = yaml_get(signal, "timeout");
    const struct yaml_node *standby = yaml_get(signal, "default");
    if (status == WEIR_OK && name == NULL) {
        FAIL(reader, signal, "\"signal\" has no \"name\"");
        error_hint(reader->error, "write signal: approved, or signal: {name: approved, timeout: 2d}");
        return reader->source.status;
    }
    if (status == WEIR_OK) {
        status = reader_take_name(reader, name, "the name of a signal", &step->signal.name);
    }
    if (status == WEIR_OK && timeout != NULL) {
        status = reader_take_duration(reader, timeout, "\"timeout\"", &step->signal.timeout_us);
    }
    if (status == WEIR_OK && standby != NULL && step->signal.timeout_us == 0) {
        status = FAIL(reader, standby, "\"default\" has no effect without \"timeout\"");
    }
    return status == WEIR_OK && standby != NULL ? read_signal_default(reader, index, standby, &step->signal) : status;
}

/* --- one step --- */

static enum weir_status check_step_keys(struct definition_reader *reader, const struct yaml_node *node)
{
    const char *keys[STEP_KEYS];
    for (size_t i = 0; i < STEP_KEYS; i++) {
        keys[i] = step_keys[i].key;
    }
    enum weir_status status = yaml_check_keys(&reader->source, node, "a step", keys, STEP_KEYS, reader->error);
    if (status != WEIR_OK) {
        foreign_keys_hint(FOREIGN_IN_STEP, node, reader->error);
    }
    return status;
}

/* Step 1: exactly one kind, and a message that lists them. */
static enum weir_status find_kind(struct definition_reader *reader, const struct yaml_node *node, const char *id,
                                  const char **ret_kind)
{
    static const char *const kinds[] = {"exec", "sleep", "handler", "http", "signal", "approve", "start"};
    const char *kind = NULL;
    for (size_t i = 0; i < node->count; i++) {
        for (size_t j = 0; j < sizeof kinds / sizeof kinds[0]; j++) {
            if (strcmp(node->keys[i]->text, kinds[j]) != 0) {
                continue;
            }
            if (kind != NULL) {
                return FAIL(reader, node->keys[i], "the step \"%.64s\" has two kinds, \"%s\" and \"%s\"", id, kind,
                            kinds[j]);
            }
            kind = kinds[j];
        }
    }
    if (kind == NULL) {
        FAIL(reader, node, "the step \"%.64s\" does nothing", id);
        error_hint(reader->error, "give it one of exec, sleep, handler, http, signal, approve, start");
        return reader->source.status;
    }
    *ret_kind = kind;
    return WEIR_OK;
}

/* Step 2. */
static enum weir_status refuse_foreign_keys(struct definition_reader *reader, const struct yaml_node *node,
                                            const char *kind)
{
    INVARIANT(kind != NULL);
    for (size_t i = 0; i < node->count; i++) {
        const char *key = node->keys[i]->text;
        bool is_run = strcmp(key, "retry") == 0 || strcmp(key, "timeout") == 0;
        if (is_run && strcmp(kind, "sleep") == 0) {
            return FAIL(reader, node->keys[i], "\"%s\" has no meaning in a sleep step", key);
        }
        if (is_run && (strcmp(kind, "signal") == 0 || strcmp(kind, "approve") == 0)) {
            FAIL(reader, node->keys[i], "\"%s\" has no meaning in %s step", key,
                 kind[0] == 's' ? "a signal" : "an approve");
            error_hint(reader->error, "the wait itself has a timeout: %s",
                       kind[0] == 's' ? "signal: {name: approved, timeout: 2d}" : "approve: {timeout: 2d}");
            return reader->source.status;
        }
        if (strcmp(kind, "start") == 0 && (strcmp(key, "retry") == 0 || strcmp(key, "hold_slot") == 0)) {
            FAIL(reader, node->keys[i], "\"%s\" has no meaning in a start step", key);
            error_hint(reader->error, strcmp(key, "retry") == 0 ? "give the steps of the other workflow a \"retry\""
                                                                : "its children need the slot for which it would wait");
            return reader->source.status;
        }
        for (size_t j = 0; j < STEP_KEYS; j++) {
            if (strcmp(step_keys[j].key, key) == 0 && step_keys[j].owner != NULL && strcmp(step_keys[j].owner, kind) != 0) {
                return FAIL(reader, node->keys[i], "\"%s\" belongs to %s steps, and this is a %s step", key,
                            step_keys[j].owner, kind);
            }
        }
    }
    return WEIR_OK;
}

/* Step 3. */
static enum weir_status read_common(struct definition_reader *reader, size_t index, const struct yaml_node *node,
                                    struct step *step)
{
    const struct yaml_node *needs = yaml_get(node, "needs");
    const struct yaml_node *when = yaml_get(node, "when");
    const struct yaml_node *timeout = yaml_get(node, "timeout");
    const struct yaml_node *retry = yaml_get(node, "retry");
    const struct yaml_node *hold_slot = yaml_get(node, "hold_slot");
    const struct yaml_node *continue_on_error = yaml_get(node, "continue_on_error");
    enum weir_status status = needs == NULL ? WEIR_OK : read_step_needs(reader, index, needs, step);
    if (status == WEIR_OK && when != NULL) {
        status = read_when(reader, index, when, step);
    }
    if (status == WEIR_OK && timeout != NULL) {
        status = reader_take_duration(reader, timeout, "\"timeout\"", &step->timeout_us);
    }
    if (status == WEIR_OK && hold_slot != NULL) {
        status = reader_take_boolean(reader, hold_slot, "\"hold_slot\"", &step->hold_slot);
    }
    if (status == WEIR_OK && continue_on_error != NULL) {
        status = reader_take_boolean(reader, continue_on_error, "\"continue_on_error\"", &step->continue_on_error);
    }
    return status == WEIR_OK && retry != NULL ? reader_take_retry(reader, retry, &step->retry) : status;
}

enum weir_status step_read(struct definition_reader *reader, size_t index, struct step *step)
{
    const struct yaml_node *node = reader->step_nodes->values[index];
    const char *kind = "";
    const struct yaml_node *key = reader->step_nodes->keys[index];
    *step = (struct step){.kind = STEP_EXEC, .hold_slot = reader->hold_slot, .undo = -1};
    enum weir_status status = reader->places[index].section == SECTION_UNDO
                                  ? reader_take_text(reader, key, "an undo", &step->id)
                                  : reader_take_name(reader, key, "the id of a step", &step->id);
    status = status == WEIR_OK ? check_step_keys(reader, node) : status;
    status = status == WEIR_OK ? find_kind(reader, node, step->id, &kind) : status;
    status = status == WEIR_OK ? refuse_foreign_keys(reader, node, kind) : status;
    status = status == WEIR_OK ? section_check_step(reader, index, kind) : status;
    step->retry = step_retry_default(strcmp(kind, "handler") == 0 ? STEP_HANDLER : STEP_EXEC);
    status = status == WEIR_OK ? read_common(reader, index, node, step) : status;
    if (status != WEIR_OK) {
        return status;
    }
    INVARIANT(kind != NULL);
    status = strcmp(kind, "exec") == 0      ? read_exec(reader, index, node, step)
             : strcmp(kind, "sleep") == 0   ? read_sleep(reader, index, node, step)
             : strcmp(kind, "http") == 0    ? http_read(reader, index, yaml_get(node, "http"), step)
             : strcmp(kind, "signal") == 0  ? reader_take_signal(reader, index, node, step)
             : strcmp(kind, "approve") == 0 ? approve_read(reader, yaml_get(node, "approve"), step)
             : strcmp(kind, "start") == 0   ? start_read(reader, index, yaml_get(node, "start"), step)
                                            : read_handler(reader, index, node, step);
    return status == WEIR_OK ? secrets_read(reader, yaml_get(node, "secrets"), step) : status;
}
