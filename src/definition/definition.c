/* A definition after it was read: questions about it, and its canonical text. Any thread may read a finished definition.
 *
 * definition_write() gives the text that stores keep: compact JSON, fields in a fixed order, defaults left out. Two files
 * with the same meaning give the same bytes, so a store recognises an unchanged workflow. definition_load() reads
 * it back. A field that is new must be left out at its default, or every stored workflow would look changed.
 */
#include "definition/definition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "definition/graph.h"

void definition_close(struct definition *definition)
{
    if (definition != NULL) {
        arena_close(&definition->arena);
        free(definition);
    }
}

/* The schedule that the message names first, or NULL. */
static const struct definition_schedule *refused_schedule(const struct definition *definition,
                                                          const struct weir_error *error)
{
    char begin[DEFINITION_SCHEDULE_REFUSAL_MAX];
    for (size_t i = 0; error != NULL && i < definition->schedule_count; i++) {
        (void)snprintf(begin, sizeof begin, DEFINITION_SCHEDULE_REFUSAL, definition->schedules[i].name);
        if (strncmp(error->message, begin, strlen(begin)) == 0) {
            return &definition->schedules[i];
        }
    }
    return NULL;
}

void definition_place_refusal(const struct definition *definition, const char *source_name, enum weir_status status,
                              struct weir_error *error)
{
    const struct definition_schedule *schedule = status == WEIR_OK ? NULL : refused_schedule(definition, error);
    if (schedule != NULL) {
        error_prefix(error, "%s:%d:%d", source_name, schedule->line, schedule->column);
    } else if (status == WEIR_WORKSPACE_NOT_FOUND && definition->workspace_line > 0) {
        error_prefix(error, "%s:%d:%d", source_name, definition->workspace_line, definition->workspace_column);
    }
}

bool definition_step_precedes(const struct definition *definition, size_t before, size_t after)
{
    INVARIANT(before < definition->count && after < definition->count);
    return graph_precedes(definition->predecessors, before, after);
}

/* --- the canonical text --- */

/* Takes `value`; false when memory ran out. */
static bool put_value(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static bool put_name(json_t *object, const char *key, const char *name)
{
    return name == NULL || put_value(object, key, json_string(name));
}

static bool put_duration(json_t *object, const char *key, int64_t us, int64_t us_default)
{
    char text[DURATION_TEXT_MAX];
    duration_format(us, text);
    return us == us_default || put_value(object, key, json_string(text));
}

static json_t *write_template(const struct template *template)
{
    if (template->shape == TEMPLATE_TEXT) {
        return json_stringn(template->source, template->source_length);
    }
    if (template->shape == TEMPLATE_CONSTANT) {
        bool ran_out;
        json_error_t native;
        return json_load_bytes(template->source, template->source_length, JSON_DECODE_ANY, &native, &ran_out);
    }
    json_t *tree = template->shape == TEMPLATE_MAP ? json_object() : json_array();
    bool is_fine = tree != NULL;
    for (size_t i = 0; i < template->child_count && is_fine; i++) {
        json_t *child = write_template(template->children[i]);
        is_fine = template->shape == TEMPLATE_MAP ? put_value(tree, template->keys[i], child)
                                                  : json_array_append_new(tree, child) == 0;
    }
    if (!is_fine) {
        json_decref(tree);
        return NULL;
    }
    return tree;
}

static bool put_template(json_t *object, const char *key, const struct template *template)
{
    return template == NULL || put_value(object, key, write_template(template));
}

/* A list of texts under `key`, nothing when it is empty. */
static bool put_needs(json_t *object, const struct definition *definition, const struct step *step)
{
    json_t *list = step->needs_count == 0 ? NULL : json_array();
    for (size_t i = 0; i < step->needs_count; i++) {
        if (json_array_append_new(list, json_string(definition->steps[step->needs[i]].id)) != 0) {
            json_decref(list);
            return false;
        }
    }
    return step->needs_count == 0 || put_value(object, "needs", list);
}

struct step_retry step_retry_default(enum step_kind kind)
{
    bool is_handler = kind == STEP_HANDLER;
    return (struct step_retry){.attempts = is_handler ? HANDLER_ATTEMPTS_DEFAULT : 1,
                               .backoff_us = is_handler ? HANDLER_BACKOFF_US_DEFAULT : STEP_BACKOFF_US_DEFAULT,
                               .factor = STEP_FACTOR_DEFAULT,
                               .max_us = is_handler ? HANDLER_BACKOFF_MAX_US_DEFAULT : STEP_BACKOFF_MAX_US_DEFAULT};
}

static bool put_retry(json_t *object, const struct step_retry *retry, enum step_kind kind, bool always)
{
    const struct step_retry plain = step_retry_default(kind);
    json_t *value = json_object();
    json_t *codes = json_array();
    bool is_default = !always && retry->attempts == plain.attempts && retry->backoff_us == plain.backoff_us &&
                      retry->max_us == plain.max_us && retry->factor == plain.factor && retry->not_on_count == 0;
    bool is_fine = put_value(value, "attempts", json_integer(retry->attempts)) &&
                   put_duration(value, "backoff", retry->backoff_us, plain.backoff_us) &&
                   (retry->factor == plain.factor || put_value(value, "factor", json_real(retry->factor))) &&
                   put_duration(value, "max", retry->max_us, plain.max_us);
    for (size_t i = 0; i < retry->not_on_count && is_fine; i++) {
        is_fine = json_array_append_new(codes, json_string(retry->not_on[i])) == 0;
    }
    is_fine = is_fine && (retry->not_on_count == 0 || json_object_set(value, "not_on", codes) == 0) &&
              (is_default || json_object_set(object, "retry", value) == 0);
    json_decref(codes);
    json_decref(value);
    return is_fine;
}

/* For exec and http a map from variables or headers to names, for a handler a list of names. The secrets of `bearer` and
 * `sign` stand there. */
static bool put_secrets(json_t *object, const struct step *step)
{
    bool is_list = step->kind == STEP_HANDLER;
    json_t *value = NULL;
    bool is_fine = true;
    for (size_t i = 0; i < step->secret_count && is_fine; i++) {
        const struct step_secret *secret = &step->secrets[i];
        if (!is_list && secret->variable == NULL) {
            continue;
        }
        if (value == NULL) {
            value = is_list ? json_array() : json_object();
            is_fine = put_value(object, "secrets", value); /* which now owns it */
        }
        json_t *name = json_string(secret->name);
        is_fine = is_list ? json_array_append_new(value, name) == 0 && is_fine
                          : put_value(value, secret->variable, name) && is_fine;
    }
    return is_fine;
}

static bool put_env_from(json_t *object, const struct step_exec *exec)
{
    json_t *names = exec->env_from_count == 0 ? NULL : json_array();
    bool is_fine = exec->env_from_count == 0 || put_value(object, "env_from", names);
    for (size_t i = 0; i < exec->env_from_count && is_fine; i++) {
        is_fine = json_array_append_new(names, json_string(exec->env_from[i])) == 0;
    }
    return is_fine;
}

static bool put_exec(json_t *object, const struct step_exec *exec)
{
    json_t *argv = json_array();
    bool is_fine = put_value(object, "exec", argv); /* which now owns it */
    for (size_t i = 0; i < exec->argc && is_fine; i++) {
        is_fine = json_array_append_new(argv, write_template(exec->argv[i])) == 0;
    }
    if (exec->env_count > 0 && is_fine) {
        json_t *env = json_object();
        is_fine = put_value(object, "env", env);
        for (size_t i = 0; i < exec->env_count && is_fine; i++) {
            is_fine = put_template(env, exec->env[i].name, exec->env[i].value);
        }
    }
    return is_fine && put_env_from(object, exec) && put_template(object, "cwd", exec->cwd) &&
           put_template(object, "stdin", exec->stdin_template) &&
           (exec->output_max == STEP_OUTPUT_BYTES_MAX ||
            put_value(object, "output_max", json_integer((json_int_t)exec->output_max)));
}

static bool put_sleep(json_t *object, const struct step_sleep *sleep)
{
    if (sleep->duration != NULL) {
        return put_template(object, "sleep", sleep->duration);
    }
    json_t *value = json_object();
    return put_value(object, "sleep", value) && put_template(value, "until", sleep->until);
}

/* A single status as a number, a range as "200-299". */
static bool put_expect(json_t *object, const struct step_http *http)
{
    char text[32];
    json_t *list = http->expect_count == 0 ? NULL : json_array();
    bool is_fine = http->expect_count == 0 || put_value(object, "expect", list);
    for (size_t i = 0; i < http->expect_count && is_fine; i++) {
        const struct step_statuses *statuses = &http->expect[i];
        (void)snprintf(text, sizeof text, "%d-%d", statuses->first, statuses->last);
        is_fine = json_array_append_new(list, statuses->first == statuses->last ? json_integer(statuses->first)
                                                                                : json_string(text)) == 0;
    }
    return is_fine;
}

static bool put_http(json_t *object, const struct step_http *http)
{
    json_t *value = json_object();
    bool is_fine = put_value(object, "http", value) && /* which now owns it */
                   (strcmp(http->method, http->body == NULL ? "GET" : "POST") == 0 ||
                    put_value(value, "method", json_string(http->method))) &&
                   put_template(value, "url", http->url);
    if (http->header_count > 0 && is_fine) {
        json_t *headers = json_object();
        is_fine = put_value(value, "headers", headers);
        for (size_t i = 0; i < http->header_count && is_fine; i++) {
            is_fine = put_template(headers, http->headers[i].name, http->headers[i].value);
        }
    }
    return is_fine && put_template(value, "body", http->body) && put_expect(value, http) &&
           (http->redirects == 0 || put_value(value, "redirects", json_integer(http->redirects))) &&
           (http->bearer == NULL || put_value(value, "bearer", json_string(http->bearer))) &&
           (http->sign == NULL || put_value(value, "sign", json_string(http->sign))) &&
           put_duration(value, "callback", http->callback_us, 0);
}

/* A name alone where there is nothing else. */
static bool put_signal(json_t *object, const struct step_signal *signal)
{
    if (signal->timeout_us == 0) {
        return put_value(object, "signal", json_string(signal->name));
    }
    json_t *value = json_object();
    return put_value(object, "signal", value) && put_value(value, "name", json_string(signal->name)) &&
           put_duration(value, "timeout", signal->timeout_us, 0) && put_template(value, "default", signal->default_output);
}

static bool put_approval(json_t *object, const struct step_signal *signal)
{
    const struct step_approval *approval = signal->approval;
    json_t *value = json_object();
    json_t *by = NULL;
    bool is_fine =
        put_value(object, "approve", value) && (approval->by_count == 0 || put_value(value, "by", by = json_array()));
    for (size_t i = 0; i < approval->by_count && is_fine; i++) {
        is_fine = json_array_append_new(by, json_string(approval->by[i])) == 0;
    }
    return is_fine && (approval->prompt == NULL || put_value(value, "prompt", json_string(approval->prompt))) &&
           put_duration(value, "timeout", signal->timeout_us, 0) &&
           (!approval->has_default ||
            put_value(value, "default", json_string(approval->default_approves ? "approve" : "reject"))) &&
           (!approval->fails_on_reject || put_value(value, "on_reject", json_string("fail")));
}

static bool put_wait(json_t *object, const struct step_start *start)
{
    return start->wait == START_WAITS_FOR_ALL ||
           put_value(object, "wait", start->wait == 0 ? json_string("none") : json_integer(start->wait));
}

static bool put_start(json_t *object, const struct step_start *start)
{
    json_t *value = json_object();
    return put_value(object, "start", value) && put_value(value, "workflow", json_string(start->workflow)) &&
           put_template(value, "params", start->params) && put_template(value, "for_each", start->for_each) &&
           put_template(value, "key", start->key) &&
           (start->max_parallel == 0 || put_value(value, "max_parallel", json_integer(start->max_parallel))) &&
           put_name(value, "workspace", start->workspace) && put_wait(value, start) &&
           (!start->leaves || start->key != NULL || put_value(value, "on_parent_end", json_string("leave"))) &&
           (start->executor_group == NULL || put_value(value, "executor_group", json_string(start->executor_group))) &&
           (!start->has_priority || put_value(value, "priority", json_integer(start->priority)));
}

static bool put_hold_slot(json_t *object, bool hold_slot, bool inherited)
{
    return hold_slot == inherited || put_value(object, "hold_slot", json_boolean(hold_slot));
}

/* `key` of `steps` is the step's id, or `undo` in the object of its step. */
static bool put_canonical_step(json_t *steps, const char *key, const struct definition *definition, const struct step *step)
{
    json_t *object = json_object();
    if (!put_value(steps, key, object) || !put_needs(object, definition, step) ||
        !put_template(object, "when", step->when) || !put_duration(object, "timeout", step->timeout_us, 0) ||
        !put_retry(object, &step->retry, step->kind, false) ||
        !(step->kind == STEP_START || put_hold_slot(object, step->hold_slot, definition->hold_slot)) ||
        !put_secrets(object, step) || (step->continue_on_error && !put_value(object, "continue_on_error", json_true())) ||
        (step->undo >= 0 && !put_canonical_step(object, "undo", definition, &definition->steps[step->undo]))) {
        return false;
    }
    switch (step->kind) {
    case STEP_EXEC:
        return put_exec(object, &step->exec);
    case STEP_SLEEP:
        return put_sleep(object, &step->sleep);
    case STEP_HANDLER:
        return put_value(object, "handler", json_string(step->handler.name)) &&
               put_template(object, "input", step->handler.input);
    case STEP_HTTP:
        return put_http(object, &step->http);
    case STEP_SIGNAL:
        return step->signal.approval != NULL ? put_approval(object, &step->signal) : put_signal(object, &step->signal);
    case STEP_START:
        return put_start(object, &step->start);
    case STEP_STATES:
        break; /* the definition has its states in the place of steps */
    }
    return false;
}

static bool put_temporal(json_t *root, const struct definition_temporal *temporal)
{
    json_t *object = json_object();
    return put_value(root, "temporal", object) && put_name(object, "workflow_type", temporal->workflow_type) &&
           put_template(object, "workflow_id", temporal->workflow_id) &&
           put_template(object, "task_queue", temporal->task_queue) && put_template(object, "args", temporal->arguments) &&
           put_template(object, "execution_timeout", temporal->execution_timeout) &&
           put_template(object, "run_timeout", temporal->run_timeout) &&
           put_template(object, "task_timeout", temporal->task_timeout) &&
           put_template(object, "start_delay", temporal->start_delay) &&
           put_template(object, "priority", temporal->priority) &&
           (!temporal->has_retry || put_retry(object, &temporal->retry, STEP_EXEC, true)) &&
           put_template(object, "memo", temporal->memo) &&
           put_template(object, "search_attributes", temporal->search_attributes) &&
           put_template(object, "headers", temporal->headers);
}

/* Nothing for an empty list, which means the same as none. */
static bool put_texts(json_t *object, const char *key, const char *const *texts, size_t count)
{
    json_t *list = count == 0 ? NULL : json_array();
    bool is_fine = count == 0 || put_value(object, key, list);
    for (size_t i = 0; i < count && is_fine; i++) {
        is_fine = json_array_append_new(list, json_string(texts[i])) == 0;
    }
    return is_fine;
}

/* The type is left out where the handler shows it. An empty `next` is written: without the key any state may follow. */
static bool put_state(json_t *all, const struct definition_states *states, const struct state *state)
{
    json_t *object = json_object();
    bool is_fine = put_value(all, state->name, object) && put_name(object, "handler", state->handler) &&
                   (state->type == STATE_NORMAL || put_value(object, "type", json_string(state_type_name(state->type)))) &&
                   put_duration(object, "timeout", state->timeout_us, 0) &&
                   (state->handler == NULL || put_retry(object, &state->retry, STEP_HANDLER, false)) &&
                   (state->on_failure < 0 || put_name(object, "on_failure", states->states[state->on_failure].name));
    json_t *next = state->has_next ? json_array() : NULL;
    is_fine = is_fine && (!state->has_next || put_value(object, "next", next));
    for (size_t i = 0; i < state->next_count && is_fine; i++) {
        is_fine = json_array_append_new(next, json_string(states->states[state->next[i]].name)) == 0;
    }
    return is_fine;
}

/* The type of a variable is always there, so that a reader in SQL finds it. */
static bool put_variable(json_t *all, const struct state_variable *variable)
{
    json_t *object = json_object();
    json_t *initial = variable->initial == NULL ? NULL : json_load_text(variable->initial, JSON_DECODE_ANY);
    return put_value(all, variable->name, object) &&
           put_value(object, "type", json_string(variable_type_name(variable->type))) &&
           (variable->initial == NULL || put_value(object, "initial", initial));
}

/* The initial state is always written, because the order of a map is of no meaning to readers in SQL. */
static bool put_states(json_t *root, const struct definition_states *states)
{
    json_t *all = json_object();
    json_t *variables = states->variable_count == 0 ? NULL : json_object();
    bool is_fine = put_value(root, "states", all) && put_name(root, "initial", states->states[states->initial].name) &&
                   (states->on_error < 0 || put_name(root, "on_error", states->states[states->on_error].name)) &&
                   (variables == NULL || put_value(root, "variables", variables)) &&
                   put_texts(root, "signals", states->signals, states->signal_count) &&
                   (!states->unknown_fails || put_value(root, "unknown_state", json_string("error")));
    for (size_t i = 0; i < states->count && is_fine; i++) {
        is_fine = put_state(all, states, &states->states[i]);
    }
    for (size_t i = 0; i < states->variable_count && is_fine; i++) {
        is_fine = put_variable(variables, &states->variables[i]);
    }
    return is_fine;
}

static bool put_time(json_t *object, const char *key, int64_t time_us)
{
    char text[TIME_TEXT_MAX];
    if (time_us == 0) {
        return true;
    }
    time_format(time_us, text);
    return put_value(object, key, json_string(text));
}

static bool put_schedules(json_t *root, const struct definition *definition)
{
    json_t *all = definition->schedule_count == 0 ? NULL : json_object();
    bool is_fine = definition->schedule_count == 0 || put_value(root, "schedules", all);
    for (size_t i = 0; i < definition->schedule_count && is_fine; i++) {
        const struct definition_schedule *schedule = &definition->schedules[i];
        json_t *object = json_object();
        is_fine =
            put_value(all, schedule->name, object) && put_name(object, "cron", schedule->when.cron) &&
            put_name(object, "zone", schedule->when.zone) && put_duration(object, "every", schedule->when.every_us, 0) &&
            put_time(object, "from", schedule->when.from_us) && put_time(object, "until", schedule->when.until_us) &&
            put_duration(object, "jitter", schedule->jitter_us, 0) &&
            put_texts(object, "workspaces", schedule->workspaces, schedule->workspace_count) &&
            put_name(object, "plan", schedule->plan) &&
            (schedule->params == NULL || put_value(object, "params", json_load_text(schedule->params, 0))) &&
            put_name(object, "overlap", schedule->overlap) && put_duration(object, "catch_up", schedule->catch_up_us, 0);
    }
    return is_fine;
}

static bool put_all(json_t *root, const struct definition *definition)
{
    bool is_fine = put_value(root, "name", json_string(definition->name)) &&
                   put_name(root, "workspace", definition->workspace) &&
                   put_name(root, "executor_group", definition->executor_group) &&
                   put_duration(root, "timeout", definition->timeout_us, 0) &&
                   put_duration(root, "stuck_after", definition->stuck_after_us, 0) &&
                   (definition->starts_max == 0 || put_value(root, "starts_max", json_integer(definition->starts_max))) &&
                   put_hold_slot(root, definition->hold_slot, false);
    if (definition->label_count > 0) {
        json_t *labels = json_object();
        is_fine = put_value(root, "labels", labels) && is_fine;
        for (size_t i = 0; i < definition->label_count && is_fine; i++) {
            is_fine = put_value(labels, definition->labels[i].name, json_string(definition->labels[i].value));
        }
    }
    is_fine = is_fine && put_schedules(root, definition);
    if (definition->temporal != NULL) {
        return is_fine && put_temporal(root, definition->temporal);
    }
    if (definition->states != NULL) {
        return is_fine && put_states(root, definition->states);
    }
    json_t *sections[SECTION_FINALLY + 1] = {NULL};
    for (size_t i = 0; i < definition->count && is_fine; i++) {
        const struct step *step = &definition->steps[i];
        json_t **section = &sections[step->section];
        if (step->section == SECTION_UNDO) {
            continue; /* it stands in its step */
        }
        if (*section == NULL) {
            *section = json_object();
            is_fine = put_value(root, step_section_name(step->section), *section);
        }
        is_fine = is_fine && put_canonical_step(*section, step->id, definition, step);
    }
    return is_fine;
}

enum weir_status definition_write(const struct definition *definition, struct text *to, struct weir_error *error)
{
    json_t *root = json_object();
    enum weir_status status =
        root != NULL && put_all(root, definition) ? json_write(root, to, error) : error_out_of_memory(error);
    json_decref(root);
    return status;
}
