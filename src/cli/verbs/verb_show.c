/* `weir show`: one execution with its params, steps and events.
 *
 * The facts are printed first, each only when it has a value. For a workflow on Temporal its ids and a link to the UI
 * follow, then the steps with their earlier attempts, then the last events. Outputs that the node could not decode are
 * decoded here, if the settings name a codec; a codec that is away gives a warning and not an error. One thread.
 */
#include <string.h>

#include "base/error.h"
#include "cli/output/json_fields.h"
#include "cli/output/table.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/temporal_service.h"
#include "cli/verbs/verb.h"

/* Prints a line when the field has a value that is not 0. */
static void print_fact(struct output *output, const json_t *object, const char *label, const char *key)
{
    const char *text = field_text(output, object, key);
    if (text != NULL && strcmp(text, "0") != 0) {
        output_print(output, "  %-16s %s\n", label, text);
    }
}

/* The time of the last claim, and that of the first dispatch. A claim after a wait or a handover is later than that. */
static const char *claim_label(const json_t *execution)
{
    int64_t claimed_us = 0;
    int64_t dispatched_us = 0;
    const char *claimed = json_string_value(json_object_get(execution, "claimed_at"));
    const char *dispatched = json_string_value(json_object_get(execution, "dispatched_at"));
    bool is_again = claimed != NULL && dispatched != NULL && time_parse(claimed, 0, &claimed_us, NULL) == WEIR_OK &&
                    time_parse(dispatched, 0, &dispatched_us, NULL) == WEIR_OK && claimed_us > dispatched_us;
    return is_again ? "claimed again" : "claimed";
}

/* The last report of each step that runs: "resize: 40 %, 400 of 1000". */
static void print_progress(struct output *output, const json_t *reports)
{
    size_t i;
    json_t *report;
    json_array_foreach(reports, i, report)
    {
        const json_t *fraction = json_object_get(report, "fraction");
        const char *text = field_text(output, report, "text");
        char part[16] = "";
        if (json_is_number(fraction)) {
            (void)snprintf(part, sizeof part, "%.4g %%", json_number_value(fraction) * 100);
        }
        output_print(output, "  %-16s %s: %s%s%s\n", "progress", field_text(output, report, "step"), part,
                     part[0] != '\0' && text != NULL ? ", " : "",
                     text != NULL      ? text
                     : part[0] != '\0' ? ""
                                       : "?");
    }
}

/* Prints state, reason, ids and times. */
static void print_execution_facts(struct output *output, const json_t *execution)
{
    const char *const lines[][2] = {
        {"version", "version"},
        {"priority", "priority"},
        {"executor group", "executor_group"},
        {"run at", "run_at"},
        {"waits for", "waiting_for"},
        {"due", "due_at"},
        {"created", "created_at"},
        {claim_label(execution), "claimed_at"},
        {"dispatched", "dispatched_at"},
        {"finished", "finished_at"},
        {"starts refused", "starts_refused"},
        {"deferrals", "deferrals"},
        {"handovers", "handovers"},
        {"node", "node"},
        {"fence", "fence"},
        {"idempotency key", "idempotency_key"},
        {"business key", "business_key"},
        {"retry of", "retry_of"},
        {"traceparent", "traceparent"},
    };
    const char *state = field_text(output, execution, "status");
    const char *reason = field_text(output, execution, "pending_reason");
    output_print(output, "%s %s\n", output_sign_coloured(output, output_state_sign(state)),
                 field_text(output, execution, "id"));
    output_print(output, "  %-16s %s%s%s%s\n", "status", state, reason != NULL ? " (" : "", reason != NULL ? reason : "",
                 reason != NULL ? ")" : "");
    print_fact(output, execution, "workspace", "workspace");
    print_fact(output, execution, "workflow", "workflow");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        print_fact(output, execution, lines[i][0], lines[i][1]);
    }
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(execution, "labels"), name, value)
    {
        output_print(output, "  %-16s %s=%s\n", "label", output_safe(output, name),
                     output_safe(output, json_string_value(value)));
    }
    bool is_held = row_is_held(execution);
    print_fact(output, execution, is_held ? "earlier code" : "error code", "error_code");
    print_fact(output, execution, is_held ? "earlier error" : "error", "error");
    print_fact(output, execution, "params", "params");
    print_progress(output, json_object_get(execution, "progress"));
}

/* Prints the facts that the engine recorded about the workflow on Temporal. */
static void print_workflow(struct output *output, const struct settings *settings, const json_t *steps)
{
    const json_t *step = json_array_get(steps, 0);
    const json_t *facts = json_object_get(step, "variables");
    const char *ui = settings_text(settings, SETTING_TEMPORAL_UI_URL);
    if (json_array_size(steps) != 1 || json_string_value(json_object_get(facts, "workflow_id")) == NULL) {
        return;
    }
    const char *workflow_id = field_text(output, facts, "workflow_id");
    const char *run_id = field_text(output, facts, "run_id");
    const char *space = field_text(output, facts, "namespace");
    output_print(output, "  %-16s %s\n", "workflow id", workflow_id);
    output_print(output, "  %-16s %s\n", "run id", run_id == NULL ? "-" : run_id);
    output_print(output, "  %-16s %s\n", "namespace", space == NULL ? "-" : space);
    print_fact(output, facts, "task queue", "task_queue");
    if (field_is_true(facts, "start_sent_again")) {
        output_print(output, "  %-16s %s\n", "notice",
                     "its start was sent again: where the first workflow was deleted, a second one has run");
    }
    if (ui[0] != '\0' && run_id != NULL && space != NULL) {
        output_print(output, "  %-16s %s%snamespaces/%s/workflows/%s/%s/history\n", "link", ui,
                     ui[strlen(ui) - 1] == '/' ? "" : "/", space, workflow_id, run_id);
    }
}

/* Adds one attempt of a step to the table. */
static void add_step_row(struct table *table, struct output *output, const json_t *step)
{
    const char *code = field_text(output, step, "error_code");
    table_cell(table, field_text(output, step, "step"));
    table_cell(table, field_text(output, step, "status"));
    table_cell(table, field_text(output, step, "attempt"));
    table_cell(table, field_text(output, step, "exit_code"));
    table_cell(table, field_text(output, step, "started_at"));
    table_cell(table, field_text(output, step, "finished_at"));
    table_cell(table, field_text(output, step, "node"));
    table_cell(table, code != NULL ? code : field_text(output, step, "error"));
}

/* Each step with the attempts that came before its last one. */
static void print_steps(struct output *output, const json_t *steps, const json_t *earlier)
{
    static const struct column columns[] = {
        {.title = "STEP", .least = 8},
        {.title = "STATUS"},
        {.title = "ATTEMPT", .align = COLUMN_RIGHT},
        {.title = "EXIT", .align = COLUMN_RIGHT},
        {.title = "STARTED"},
        {.title = "FINISHED"},
        {.title = "NODE", .least = 8},
        {.title = "ERROR", .least = 10},
    };
    struct table table;
    size_t i;
    size_t k;
    json_t *step;
    json_t *attempt;
    if (json_array_size(steps) == 0) {
        return;
    }
    output_print(output, "\n");
    table_open(&table, output, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(steps, i, step)
    {
        json_array_foreach(earlier, k, attempt)
        {
            if (json_equal(json_object_get(attempt, "step"), json_object_get(step, "step"))) {
                add_step_row(&table, output, attempt);
            }
        }
        add_step_row(&table, output, step);
    }
    table_close(&table);
}

/* A table behind an empty line; nothing without rows. */
static void print_show_rows(struct output *output, const struct column *columns, const char *const *keys, size_t count,
                            const json_t *rows)
{
    if (json_array_size(rows) > 0) {
        output_print(output, "\n");
        table_print_rows(output, columns, keys, count, rows);
    }
}

/* The signals with their senders, and the step that has consumed each. */
static void print_signals(struct output *output, const json_t *signals)
{
    static const struct column columns[] = {
        {.title = "#", .align = COLUMN_RIGHT}, {.title = "SIGNAL", .least = 8}, {.title = "SENT"},
        {.title = "BY", .least = 6},           {.title = "STEP", .least = 6},   {.title = "DATA", .least = 12}};
    static const char *const keys[] = {"seq", "name", "sent_at", "actor", "step", "data"};
    _Static_assert(sizeof keys / sizeof keys[0] == sizeof columns / sizeof columns[0], "a key for each column");
    print_show_rows(output, columns, keys, sizeof keys / sizeof keys[0], signals);
}

/* The start steps with the numbers of their children by state: a step may have thousands, and `weir list` shows executions
 * one by one. */
static void print_children(struct output *output, const json_t *children)
{
    static const struct column columns[] = {
        {.title = "START STEP", .least = 10},         {.title = "WORKFLOW", .least = 8},
        {.title = "CHILDREN", .align = COLUMN_RIGHT}, {.title = "NOT STARTED", .align = COLUMN_RIGHT},
        {.title = "OPEN", .align = COLUMN_RIGHT},     {.title = "COMPLETED", .align = COLUMN_RIGHT},
        {.title = "OTHERS", .align = COLUMN_RIGHT},   {.title = "ADOPTED", .align = COLUMN_RIGHT}};
    static const char *const keys[] = {"step", "workflow",  "count",         "not_started",
                                       "open", "completed", "not_completed", "adopted"};
    _Static_assert(sizeof keys / sizeof keys[0] == sizeof columns / sizeof columns[0], "a key for each column");
    print_show_rows(output, columns, keys, sizeof keys / sizeof keys[0], children);
}

/* The state, the variables and the last failure of a workflow with states. */
static void print_machine(struct output *output, const json_t *execution)
{
    const char *name;
    json_t *value;
    const json_t *failure = json_object_get(execution, "failure");
    print_fact(output, execution, "state", "state");
    json_object_foreach(json_object_get(execution, "variables"), name, value)
    {
        output_print(output, "  %-16s %s=%s\n", "variable", output_safe(output, name),
                     field_text(output, json_object_get(execution, "variables"), name));
    }
    if (json_is_object(failure)) {
        const char *message = field_text(output, failure, "message");
        output_print(output, "  %-16s %s in the state %s%s%s\n", "last failure", field_text(output, failure, "code"),
                     field_text(output, failure, "state"), message == NULL ? "" : ": ", message == NULL ? "" : message);
    }
}

/* The last actions of a workflow with states. */
static void print_actions(struct output *output, const json_t *actions, json_int_t earlier)
{
    static const struct column columns[] = {{.title = "ACTION", .align = COLUMN_RIGHT},
                                            {.title = "STATE", .least = 8},
                                            {.title = "OUTCOME"},
                                            {.title = "NEXT", .least = 8},
                                            {.title = "FINISHED"},
                                            {.title = "BY", .least = 6},
                                            {.title = "VARIABLES", .least = 10},
                                            {.title = "ERROR", .least = 10}};
    struct table table;
    size_t i;
    json_t *action;
    if (json_array_size(actions) == 0) {
        return;
    }
    output_print(output, "\n");
    if (earlier > 0) {
        output_print(output, "%lld earlier actions: GET /v1/executions/ID/actions lists them\n", (long long)earlier);
    }
    table_open(&table, output, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(actions, i, action)
    {
        static const char *const keys[] = {"seq", "state", "outcome", "next_state", "finished_at"};
        const char *actor = field_text(output, action, "actor");
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            table_cell(&table, field_text(output, action, keys[k]));
        }
        table_cell(&table, actor != NULL ? actor : field_text(output, action, "node"));
        table_cell(&table, field_text(output, action, "variables"));
        table_cell(&table, field_text(output, action, "error_code"));
    }
    table_close(&table);
}

/* An execution without a parent has no such line. */
static void print_parent(struct output *output, const json_t *parent)
{
    if (json_is_object(parent)) {
        output_print(output, "  %-16s %s (step %s, child %s)\n", "parent", field_text(output, parent, "id"),
                     field_text(output, parent, "step"), field_text(output, parent, "index"));
    }
}

/* Replaces the last events by all of them. */
static enum weir_status read_all_events(struct store *store, json_t *execution, struct weir_error *error)
{
    struct list_options options = {.kind = LIST_EVENTS,
                                   .filter = {.id = json_string_value(json_object_get(execution, "id"))},
                                   .limit = LIST_LIMIT_MOST};
    json_t *page = NULL;
    enum weir_status status = page_read_all(store, &options, &page, error);
    if (status == WEIR_OK && (json_object_set(execution, "events", json_object_get(page, "items")) != 0 ||
                              json_object_set_new(execution, "earlier_events", json_integer(0)) != 0)) {
        status = error_out_of_memory(error);
    }
    json_decref(page);
    return status;
}

/* Prints the events, and the number of earlier ones that are left out. */
static void print_events(struct output *output, const json_t *events, json_int_t earlier)
{
    static const struct column columns[] = {
        {.title = "AT"}, {.title = "EVENT"}, {.title = "NODE", .least = 8}, {.title = "REASON", .least = 12}};
    struct table table;
    size_t i;
    json_t *event;
    if (json_array_size(events) == 0) {
        return;
    }
    output_print(output, "\n");
    if (earlier > 0) {
        output_print(output, "%lld earlier events: --all-events shows them\n", (long long)earlier);
    }
    table_open(&table, output, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(events, i, event)
    {
        const char *reason = field_text(output, event, "reason");
        const char *detail = field_text(output, event, "detail");
        table_cell(&table, field_text(output, event, "at"));
        table_cell(&table, field_text(output, event, "event"));
        table_cell(&table, field_text(output, event, "node"));
        const char *attempt = field_text(output, event, "attempt");
        bool again = attempt != NULL && strcmp(attempt, "1") != 0;
        table_cell_format(&table, "%s%s%s%s%s", reason != NULL ? reason : "", again ? ", attempt " : "",
                          again ? attempt : "", reason != NULL && detail != NULL ? ": " : "", detail != NULL ? detail : "");
    }
    table_close(&table);
}

enum weir_status verb_show(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    json_t *execution = NULL;
    char last[UUID_TEXT_MAX];
    const char *id = NULL;
    enum weir_status status = verb_open_store(invocation, STORE_READ, &store, error);
    if (status == WEIR_OK) {
        status = execution_id_or_last(invocation, store, last, &id, error);
    }
    if (status == WEIR_OK) {
        status = store_show(store, id, &execution, error);
    }
    if (status == WEIR_OK && json_integer_value(json_object_get(execution, "earlier_events")) > 0 &&
        invocation_has(invocation, "all-events")) {
        status = read_all_events(store, execution, error);
    }
    if (status == WEIR_OK) {
        temporal_service_decode_or_warn(invocation, execution);
    }
    if (status == WEIR_OK && !output_object(invocation->output, execution)) {
        print_execution_facts(invocation->output, execution);
        print_machine(invocation->output, execution);
        print_parent(invocation->output, json_object_get(execution, "parent"));
        struct settings settings =
            settings_of_group(invocation->settings, json_string_value(json_object_get(execution, "executor_group")));
        print_workflow(invocation->output, &settings, json_object_get(execution, "steps"));
        print_steps(invocation->output, json_object_get(execution, "steps"),
                    json_object_get(execution, "earlier_attempts"));
        print_actions(invocation->output, json_object_get(execution, "actions"),
                      json_integer_value(json_object_get(execution, "earlier_actions")));
        print_signals(invocation->output, json_object_get(execution, "signals"));
        print_children(invocation->output, json_object_get(execution, "children"));
        print_events(invocation->output, json_object_get(execution, "events"),
                     json_integer_value(json_object_get(execution, "earlier_events")));
    }
    json_decref(execution);
    store_close(store);
    return status;
}
