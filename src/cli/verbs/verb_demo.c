/* `weir demo`: three workspaces of three plans, a hundred executions, and the audit that none passed its limit.
 *
 * 1. An old demo store is removed, unless a demo is still running on it; a file that is no weir store is left alone.
 * 2. A new store gets three workspaces, the workflow, and the executions.
 * 3. One node runs in this process, and child processes are further nodes, which the dashboard can kill (demo_nodes.h).
 *    Each tenth of a second the counts are read and the picture is drawn. While a page is open, more work comes
 *    (demo_load.h).
 * 4. The audit (cap_audit.h) reads all records again, but only so often that it costs a tenth of the time.
 * 5. At the end the outcome is printed, and the nodes stop.
 *
 * It only ever removes and writes files in the current folder. The node has its own threads; this file runs in the main
 * one.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/node_runner.h"
#include "cli/output/json_fields.h"
#include "cli/output/live_screen.h"
#include "cli/output/table.h"
#include "cli/signals.h"
#include "cli/verbs/cap_audit.h"
#include "cli/verbs/demo_load.h"
#include "cli/verbs/demo_nodes.h"
#include "cli/verbs/verb.h"
#include "cli/verbs/wait_reason.h"
#include "onboard_customer_yaml.h"
#include "weir/weir.h"

#define DEMO_STORE "weir-demo.db"
#define DEMO_WORKFLOW "onboard-customer"
#define DEMO_FILE DEMO_WORKFLOW ".yaml"
#define DEMO_STORE_URL "sqlite:" DEMO_STORE
#define REDRAW_US (100 * MICROSECONDS_PER_MS)
#define STOP_DEADLINE_US (15 * MICROSECONDS_PER_SECOND) /* beyond stop.grace */
/* The records of all executions are read again after this many times the time that it took. */
enum { AUDIT_COST_FACTOR = 10, DEMO_EXECUTIONS = 100, DEMO_SET_MAX = 1000 };

static const struct {
    const char *name;
    const char *plan;
    int64_t percent; /* of the executions */
} demo_workspaces[] = {{"free-co", "free", 10}, {"pro-co", "pro", 25}, {"big-co", "enterprise", 65}};
enum { DEMO_WORKSPACE_COUNT = sizeof demo_workspaces / sizeof demo_workspaces[0] };

struct demo {
    struct invocation *invocation;
    struct output *output;
    struct node_runner runner;
    struct demo_nodes nodes;
    struct demo_load load;
    struct live_screen frame;
    struct cap_audit audits[DEMO_WORKSPACE_COUNT];
    int64_t limits[DEMO_WORKSPACE_COUNT]; /* the highest one that was seen: `weir plan set` may change them meanwhile */
    int64_t began_us;                     /* boot clock */
    int64_t lasted_us;                    /* until everything was done for the first time; 0 = not yet */
    int64_t next_audit_us;
    int64_t total;
    size_t first_done; /* executions that were completed when everything was done for the first time */
    int64_t tenths;    /* plain mode: the last tenth that was printed */
    bool is_live;
    bool is_drained;
};

/* --- files --- */

static enum weir_status eject_workflow(struct output *output, struct weir_error *error)
{
    int fd = open(DEMO_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) {
        error_set(error, WEIR_CONFLICT, "./" DEMO_FILE " exists already");
        error_hint(error, "the file is unchanged; remove it to get a new one");
        return WEIR_CONFLICT;
    }
    size_t length = sizeof onboard_customer_yaml - 1;
    ssize_t written = fd < 0 ? -1 : write(fd, onboard_customer_yaml, length);
    if (written != (ssize_t)length || close(fd) != 0) {
        return error_set_native(error, WEIR_SYSTEM, errno, "./" DEMO_FILE " cannot be written: %s", strerror(errno));
    }
    output_report(output, "wrote ./" DEMO_FILE "; next:");
    output_report(output, "  weir workflow apply " DEMO_FILE);
    return WEIR_OK;
}

/* Refuses to remove the store of a demo that is still running. */
static enum weir_status refuse_running(struct store *store, struct weir_error *error)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_NODES, .limit = LIST_LIMIT_MOST};
    enum weir_status status = store_require_schema(store, NULL);
    if (status != WEIR_OK || store_list(store, &options, &page, NULL) != WEIR_OK) {
        return WEIR_OK; /* half made, or of another version: no node runs on it */
    }
    size_t i;
    json_t *node;
    json_array_foreach(json_object_get(page, "items"), i, node)
    {
        const char *state = json_string_value(json_object_get(node, "state"));
        int64_t pid = field_number(node, "pid", 0);
        bool is_over = state == NULL || strcmp(state, "stopped") == 0 || strcmp(state, "dead") == 0;
        if (!is_over && pid > 0 && (kill((pid_t)pid, 0) == 0 || errno == EPERM)) {
            error_set(error, WEIR_CONFLICT, "another demo runs in this folder (process %" PRId64 ")", pid);
            error_hint(error, "end that demo, or start this one in another folder");
            status = WEIR_CONFLICT;
        }
    }
    json_decref(page);
    return status;
}

/* Each demo begins with a fresh store; only a file that is a weir store is removed. */
static enum weir_status remove_old_store(struct weir_error *error)
{
    static const char *const files[] = {DEMO_STORE, DEMO_STORE "-wal", DEMO_STORE "-shm"};
    struct store *store = NULL;
    if (access(DEMO_STORE, F_OK) != 0) {
        return WEIR_OK;
    }
    struct store_options options = {.url = DEMO_STORE_URL};
    enum weir_status status = store_open(&options, &store, error);
    if (status == WEIR_OK) {
        status = refuse_running(store, error);
        store_close(store);
    }
    if (status != WEIR_OK && status != WEIR_STORE_CORRUPT && status != WEIR_SCHEMA_NEWER) {
        return status;
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (unlink(files[i]) != 0 && errno != ENOENT) {
            return error_set_native(error, WEIR_SYSTEM, errno, "%s cannot be removed: %s", files[i], strerror(errno));
        }
    }
    return WEIR_OK;
}

/* --- preparing --- */

/* Enqueues one set as one transaction. */
static enum weir_status enqueue_demo_set(struct demo *demo, const char *workspace, int64_t first, size_t count,
                                         struct weir_error *error)
{
    struct enqueue_request *requests = calloc(count, sizeof *requests);
    struct enqueue_result *results = calloc(count, sizeof *results);
    char(*params)[32] = calloc(count, sizeof *params);
    enum weir_status status = requests == NULL || results == NULL || params == NULL ? error_out_of_memory(error) : WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        int length = snprintf(params[i], sizeof params[i], "{\"customer\":%" PRId64 "}", first + (int64_t)i);
        requests[i] = (struct enqueue_request){
            .workspace = workspace, .workflow = DEMO_WORKFLOW, .params = params[i], .params_length = (size_t)length};
    }
    if (status == WEIR_OK) {
        status = store_enqueue(demo->runner.store, requests, count, results, error);
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = results[i].status;
        if (status != WEIR_OK) {
            *error = results[i].error;
        }
    }
    free(requests);
    free(results);
    free(params);
    return status;
}

/* Gives each workspace its share of the executions; the last one gets the rest. */
static enum weir_status enqueue_demo(struct demo *demo, struct weir_error *error)
{
    int64_t left = demo->total;
    int64_t customer = 1;
    enum weir_status status = WEIR_OK;
    for (size_t w = 0; w < DEMO_WORKSPACE_COUNT && status == WEIR_OK; w++) {
        int64_t share = w + 1 == DEMO_WORKSPACE_COUNT ? left : demo->total * demo_workspaces[w].percent / 100;
        left -= share;
        while (share > 0 && status == WEIR_OK) {
            int64_t count = share < DEMO_SET_MAX ? share : DEMO_SET_MAX;
            status = enqueue_demo_set(demo, demo_workspaces[w].name, customer, (size_t)count, error);
            customer += count;
            share -= count;
        }
    }
    return status;
}

/* The node of this process is one of several that share the work. */
static enum weir_status name_own_node(struct demo *demo, struct weir_error *error)
{
    struct settings *settings = demo->invocation->settings;
    enum weir_status status = settings_set(settings, SETTING_NODE_NAME, DEMO_NODE_PREFIX "1", "weir demo", error);
    return status == WEIR_OK ? settings_set(settings, SETTING_EXECUTOR_MAX_RUNNING, DEMO_NODE_CAPACITY, "weir demo", error)
                             : status;
}

/* Makes the store, the workspaces, the workflow and the executions. */
static enum weir_status prepare_demo(struct demo *demo, struct weir_error *error)
{
    struct node_runner_options options = {.store_url = DEMO_STORE_URL,
                                          .create_store = true,
                                          .open_exec = true,
                                          .one_node = true,
                                          .opens_http = true,
                                          .is_anonymous = true,
                                          .log_fd = -1};
    enum weir_status status = name_own_node(demo, error);
    if (status == WEIR_OK) {
        status = node_runner_open(&demo->runner, demo->invocation, &options, error);
    }
    for (size_t w = 0; w < DEMO_WORKSPACE_COUNT && status == WEIR_OK; w++) {
        struct workspace_change change = {
            .name = demo_workspaces[w].name, .plan = demo_workspaces[w].plan, .paused = -1, .create = true};
        demo->audits[w].workspace = demo_workspaces[w].name;
        status = store_set_workspace(demo->runner.store, &change, error);
    }
    if (status == WEIR_OK) {
        status =
            demo_publish(demo->runner.store, onboard_customer_yaml, sizeof onboard_customer_yaml - 1, DEMO_FILE, error);
    }
    return status == WEIR_OK ? enqueue_demo(demo, error) : status;
}

/* --- the picture --- */

static const char *separator(const struct output *output)
{
    return output->utf8 ? "·" : "-";
}

/* The row of a workspace in the answer of store_status(). */
static const json_t *workspace_row(const json_t *status, const char *name)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(status, "workspaces"), i, row)
    {
        const char *row_name = json_string_value(json_object_get(row, "name"));
        if (row_name != NULL && strcmp(row_name, name) == 0) {
            return row;
        }
    }
    return NULL;
}

static void print_demo_table(struct demo *demo, const json_t *status)
{
    static const struct column columns[] = {
        {.title = "WORKSPACE"},
        {.title = "PLAN"},
        {.title = "SLOTS           "},
        {.title = "PEAK", .align = COLUMN_RIGHT},
        {.title = "PENDING", .align = COLUMN_RIGHT},
        {.title = "DONE", .align = COLUMN_RIGHT},
        {.title = "FAILED", .align = COLUMN_RIGHT},
        {.title = "WAIT p95", .align = COLUMN_RIGHT},
    };
    struct table table;
    table_open(&table, demo->output, columns, sizeof columns / sizeof columns[0]);
    for (size_t w = 0; w < DEMO_WORKSPACE_COUNT; w++) {
        const json_t *row = workspace_row(status, demo_workspaces[w].name);
        char wait[DURATION_TEXT_MAX];
        duration_format_short(demo->audits[w].wait_p95_us, wait);
        table_cell(&table, demo_workspaces[w].name);
        table_cell(&table, field_text(demo->output, row, "plan"));
        table_cell(&table, wait_reason_slot_bar(demo->output, row));
        table_cell_format(&table, "%zu", demo->audits[w].peak);
        table_cell_format(&table, "%" PRId64, field_number(row, "pending", 0));
        table_cell_format(&table, "%" PRId64, field_number(row, "completed", 0));
        table_cell_format(&table, "%" PRId64, field_number(row, "failed", 0) + field_number(row, "cancelled", 0));
        table_cell(&table, wait);
    }
    table_close(&table);
}

/* "held back: workspace_at_capacity 74 (free-co 9, pro-co 20, big-co 45)" - nearly always there is one reason. */
static void print_held_back(struct demo *demo, const json_t *status)
{
    const char *reason = NULL;
    int64_t sum = 0;
    char names[160] = "";
    size_t length = 0;
    for (size_t w = 0; w < DEMO_WORKSPACE_COUNT; w++) {
        const json_t *row = workspace_row(status, demo_workspaces[w].name);
        const char *why = row == NULL ? NULL : wait_reason_of_workspace(status, row);
        int64_t pending = field_number(row, "pending", 0);
        if (why == NULL || (reason != NULL && strcmp(reason, why) != 0)) {
            continue;
        }
        reason = why;
        sum += pending;
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s %" PRId64, length > 0 ? ", " : "",
                                   demo_workspaces[w].name, pending);
    }
    if (reason != NULL) {
        output_print(demo->output, "held back: %s %" PRId64 " (%s)\n", reason, sum, names);
    }
}

/* Whether no workspace had more slots at once than its limit. */
static bool caps_held(const struct demo *demo)
{
    bool holds = true;
    for (size_t w = 0; w < DEMO_WORKSPACE_COUNT; w++) {
        holds = holds && demo->audits[w].peak <= (size_t)demo->limits[w];
    }
    return holds;
}

/* Prints the time, the failures, and each workspace that passed its limit. */
static void print_outcome(struct demo *demo, bool goes_on)
{
    struct output *output = demo->output;
    size_t failed = 0;
    char lasted[DURATION_TEXT_MAX];
    duration_format_short(demo->lasted_us, lasted);
    for (size_t w = 0; w < DEMO_WORKSPACE_COUNT; w++) {
        failed += demo->audits[w].failed;
        if (demo->audits[w].peak > (size_t)demo->limits[w]) {
            output_print(output, "%s %s had %zu slots at once, its limit is %" PRId64 "\n",
                         output_sign_coloured(output, SIGN_BAD), demo_workspaces[w].name, demo->audits[w].peak,
                         demo->limits[w]);
        }
    }
    if (caps_held(demo)) {
        output_print(output, "%s %zu done in %s %s no workspace ever passed its limit%s%s%s\n",
                     output_sign_coloured(output, SIGN_FINE), demo->first_done, lasted, separator(output),
                     goes_on ? " " : "", goes_on ? separator(output) : "", goes_on ? " still running, Ctrl-C stops" : "");
    }
    if (failed > 0) {
        output_print(output, "%s %zu failed: weir list --store %s --status failed\n",
                     output_sign_coloured(output, SIGN_BAD), failed, DEMO_STORE);
    }
}

static void print_audit_line(const struct demo *demo)
{
    size_t count = 0;
    for (size_t w = 0; w < DEMO_WORKSPACE_COUNT; w++) {
        count += demo->audits[w].executions;
    }
    output_print(demo->output, "  counted from claimed_at and finished_at of %zu executions in ./%s\n", count, DEMO_STORE);
}

static void print_next_commands(const struct demo *demo)
{
    output_print(demo->output,
                 "try:  weir enqueue --store %s -w free-co %s -p '{\"customer\": 42}' --wait\n"
                 "      weir top --store %s\n"
                 "      weir plan set free --max-concurrent 2 --store %s\n",
                 DEMO_STORE, DEMO_WORKFLOW, DEMO_STORE, DEMO_STORE);
}

/* Draws one picture: the table, the reason for waiting, and at the end the outcome. */
static void draw_demo(struct demo *demo, const json_t *status, bool goes_on)
{
    live_screen_begin(&demo->frame);
    print_demo_table(demo, status);
    print_held_back(demo, status);
    if (demo->is_live) {
        char nodes[DEMO_NODES_TEXT_MAX];
        demo_nodes_describe(&demo->nodes, nodes);
        output_print(demo->output, "nodes: %s\n", nodes);
    }
    if (demo->lasted_us > 0) {
        print_outcome(demo, goes_on);
        print_audit_line(demo);
        if (goes_on) {
            print_next_commands(demo);
        }
    }
    live_screen_end(&demo->frame);
}

/* "  1.2s   40/100 done   free-co 1/1  pro-co 5/5  big-co 20/20", once per tenth, when stdout is no terminal. */
static void print_demo_progress(struct demo *demo, const json_t *status, int64_t ended)
{
    char passed[DURATION_TEXT_MAX];
    int64_t tenths = ended * 10 / demo->total;
    if (tenths <= demo->tenths || tenths >= 10 || demo->output->format != OUTPUT_TABLE) {
        return;
    }
    demo->tenths = tenths;
    duration_format_short(clock_boot(clock_system()) - demo->began_us, passed);
    output_print(demo->output, "%6s %5" PRId64 "/%" PRId64 " done  ", passed, ended, demo->total);
    for (size_t w = 0; w < DEMO_WORKSPACE_COUNT; w++) {
        const json_t *row = workspace_row(status, demo_workspaces[w].name);
        output_print(demo->output, " %s %" PRId64 "/%" PRId64, demo_workspaces[w].name, field_number(row, "slots_used", 0),
                     field_number(row, "slots_max", 0));
    }
    output_print(demo->output, "\n");
    (void)fflush(demo->output->out);
}

/* --- watching --- */

static enum weir_status read_audits(struct demo *demo, struct weir_error *error)
{
    int64_t began_us = clock_boot(clock_system());
    enum weir_status status = WEIR_OK;
    for (size_t w = 0; w < DEMO_WORKSPACE_COUNT && status == WEIR_OK; w++) {
        status = cap_audit_read(demo->runner.store, &demo->audits[w], error);
    }
    int64_t now_us = clock_boot(clock_system());
    demo->next_audit_us = now_us + AUDIT_COST_FACTOR * (now_us - began_us);
    return status;
}

/* Keeps the highest limit of each workspace, because a user may change it while the demo runs. */
static void note_limits(struct demo *demo, const json_t *status)
{
    for (size_t w = 0; w < DEMO_WORKSPACE_COUNT; w++) {
        int64_t limit = field_number(workspace_row(status, demo_workspaces[w].name), "slots_max", 0);
        demo->limits[w] = limit > demo->limits[w] ? limit : demo->limits[w];
    }
}

/* Reads the counts of the store, and audits the records when that is due. */
static enum weir_status read_demo_status(struct demo *demo, json_t **ret_status, struct weir_error *error)
{
    json_t *answer = NULL;
    enum weir_status status = store_status(demo->runner.store, DEMO_WORKSPACE_COUNT, &answer, error);
    if (status != WEIR_OK) {
        return status;
    }
    int64_t ended =
        field_number(answer, "completed", 0) + field_number(answer, "failed", 0) + field_number(answer, "cancelled", 0);
    bool is_drained = field_number(answer, "pending", 0) == 0 && field_number(answer, "slots_used", 0) == 0;
    bool just_drained = is_drained && !demo->is_drained;
    note_limits(demo, answer);
    bool is_first = just_drained && demo->lasted_us == 0;
    if (is_first || (demo->is_live && clock_boot(clock_system()) >= demo->next_audit_us)) {
        status = read_audits(demo, error);
    }
    if (is_first) {
        demo->lasted_us = clock_boot(clock_system()) - demo->began_us;
        demo->first_done = (size_t)field_number(answer, "completed", 0);
    }
    demo->is_drained = is_drained;
    if (!demo->is_live) {
        print_demo_progress(demo, answer, ended);
    }
    if (status == WEIR_OK) {
        *ret_status = answer;
    } else {
        json_decref(answer);
    }
    return status;
}

/* A page that is open reads the stream of changes. Until everything was done for the first time, its duration is measured,
 * and nothing is added. */
static enum weir_status add_load(struct demo *demo, const json_t *status, struct weir_error *error)
{
    enum weir_status result = WEIR_OK;
    bool is_watched = atomic_load(&demo->runner.api.requests.streams) > 0;
    for (size_t w = 0; w < DEMO_WORKSPACE_COUNT && is_watched && demo->lasted_us > 0 && result == WEIR_OK; w++) {
        result = demo_load_step(&demo->load, demo->runner.store, w, workspace_row(status, demo_workspaces[w].name), error);
    }
    return result;
}

/* A live picture has a line about the nodes; elsewhere each change is a line of its own. */
static void watch_nodes(struct demo *demo)
{
    demo_nodes_step(&demo->nodes);
    if (!demo->is_live && demo->nodes.news[0] != '\0') {
        output_report(demo->output, "%s", demo->nodes.news);
    }
}

/* Draws until a signal, or with --once until all executions have ended. */
static enum weir_status watch_demo(struct demo *demo, bool once, struct weir_error *error)
{
    bool was_shown = false;
    while (signals_count() == 0) {
        json_t *answer = NULL;
        if (!node_runner_is_healthy(&demo->runner, error)) {
            return error->status;
        }
        watch_nodes(demo);
        enum weir_status status = read_demo_status(demo, &answer, error);
        if (status == WEIR_OK && !once) {
            status = add_load(demo, answer, error);
        }
        if (status != WEIR_OK) {
            json_decref(answer);
            return status;
        }
        bool is_done = demo->lasted_us > 0 && !once;
        if (demo->output->format == OUTPUT_TABLE && (demo->is_live || (is_done && !was_shown))) {
            draw_demo(demo, answer, is_done);
            was_shown = is_done;
        }
        json_decref(answer);
        if (once && demo->is_drained) {
            return WEIR_OK;
        }
        signals_sleep(REDRAW_US);
    }
    return WEIR_OK;
}

/* --- the end --- */

static json_t *outcome_json(const struct demo *demo)
{
    json_t *workspaces = json_array();
    for (size_t w = 0; w < DEMO_WORKSPACE_COUNT; w++) {
        const struct cap_audit *audit = &demo->audits[w];
        (void)json_array_append_new(
            workspaces, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "name", demo_workspaces[w].name, "plan",
                                  demo_workspaces[w].plan, "slots_max", (json_int_t)demo->limits[w], "peak",
                                  (json_int_t)audit->peak, "completed", (json_int_t)audit->completed, "failed",
                                  (json_int_t)audit->failed, "wait_p95_us", (json_int_t)audit->wait_p95_us));
    }
    return json_pack("{s:I, s:I, s:b, s:o}", "executions", (json_int_t)demo->total, "duration_us",
                     (json_int_t)demo->lasted_us, "limits_held", caps_held(demo), "workspaces", workspaces);
}

/* Audits for the last time, and decides on the exit status. */
static enum weir_status conclude_demo(struct demo *demo, bool once, struct weir_error *error)
{
    json_t *answer = NULL;
    size_t failed = 0;
    enum weir_status status = read_demo_status(demo, &answer, error);
    if (status == WEIR_OK) {
        status = read_audits(demo, error);
    }
    if (status == WEIR_OK && demo->output->format != OUTPUT_TABLE) {
        json_t *outcome = outcome_json(demo);
        (void)output_object(demo->output, outcome);
        json_decref(outcome);
    } else if (status == WEIR_OK && once) {
        draw_demo(demo, answer, false);
    }
    json_decref(answer);
    for (size_t w = 0; w < DEMO_WORKSPACE_COUNT; w++) {
        failed += demo->audits[w].failed;
    }
    if (status == WEIR_OK && !caps_held(demo)) {
        return error_set(error, WEIR_FAILED, "a workspace passed its limit");
    }
    if (status == WEIR_OK && demo->lasted_us == 0) {
        return error_set(error, WEIR_INTERRUPTED, "interrupted before everything was done");
    }
    return status == WEIR_OK && once && failed > 0 ? error_set(error, WEIR_FAILED, "%zu executions failed", failed)
                                                   : status;
}

static void report_demo_start(const struct demo *demo)
{
    output_report(demo->output, "weir %s %s store ./%s (SQLite) %s engine %s", weir_version(), separator(demo->output),
                  DEMO_STORE, separator(demo->output), engine_name(demo->runner.nodes[0].engine));
    output_report(demo->output,
                  "workflow %s (2 steps that run programs) %s %d workspaces %s enqueued %" PRId64 " executions",
                  DEMO_WORKFLOW, separator(demo->output), DEMO_WORKSPACE_COUNT, separator(demo->output), demo->total);
}

/* Starts the own node, then the children: they find a store that has a scheduler. */
static enum weir_status start_demo(struct demo *demo, bool once, struct weir_error *error)
{
    demo_nodes_open(&demo->nodes, DEMO_STORE_URL);
    demo->runner.api.kill_node = demo_nodes_kill;
    demo->runner.api.kill_context = &demo->nodes;
    enum weir_status status = node_runner_start(&demo->runner, error);
    if (status == WEIR_OK) {
        node_runner_report_http(&demo->runner);
    }
    if (status == WEIR_OK && !once && demo->runner.server != NULL && demo->runner.api.has_dashboard) {
        output_report(demo->output, "open the dashboard in a browser: while it is open there is work, and its first page"
                                    " has a button that kills a node");
    }
    return status;
}

/* All nodes at once; a second signal interrupts the executions of all. */
static enum weir_status stop_demo(struct demo *demo, struct weir_error *error)
{
    int64_t grace_us = settings_number(demo->runner.settings, SETTING_STOP_GRACE);
    demo_nodes_begin_stop(&demo->nodes);
    int signals_seen = signals_count();
    enum weir_status status = node_runner_stop(&demo->runner, error);
    if (signals_count() > signals_seen) {
        demo_nodes_begin_stop(&demo->nodes);
    }
    demo_nodes_await(&demo->nodes, grace_us + STOP_DEADLINE_US);
    return status;
}

/* Prepares, starts the nodes, watches, concludes, and stops the nodes. */
static enum weir_status run_demo(struct demo *demo, bool once, struct weir_error *error)
{
    demo->began_us = clock_boot(clock_system());
    enum weir_status status = prepare_demo(demo, error);
    if (status == WEIR_OK) {
        report_demo_start(demo);
        status = start_demo(demo, once, error);
    }
    if (status == WEIR_OK) {
        status = watch_demo(demo, once, error);
    }
    if (status == WEIR_OK) {
        status = conclude_demo(demo, once, error);
        struct weir_error *detail = status == WEIR_OK ? error : NULL;
        struct weir_error unused;
        enum weir_status stopped = stop_demo(demo, detail == NULL ? &unused : detail);
        status = status == WEIR_OK ? stopped : status;
    }
    return status;
}

enum weir_status verb_demo(struct invocation *invocation, struct weir_error *error)
{
    bool once = invocation_has(invocation, "once");
    static struct demo demo; /* its runner is larger than the smallest stack */
    demo = (struct demo){.invocation = invocation,
                         .output = invocation->output,
                         .total = invocation_number(invocation, "executions", DEMO_EXECUTIONS),
                         .is_live = live_screen_is_live(invocation->output)};
    if (invocation_has(invocation, "eject")) {
        return eject_workflow(invocation->output, error);
    }
    if (invocation_has(invocation, "store")) {
        return invocation_usage_error(invocation, error, "the demo always makes its own store, ./" DEMO_STORE);
    }
    enum weir_status status = remove_old_store(error);
    if (status != WEIR_OK) {
        return status;
    }
    live_screen_open(&demo.frame, demo.output);
    status = run_demo(&demo, once, error);
    node_runner_close(&demo.runner); /* its server may be asked for a kill until then */
    demo_nodes_close(&demo.nodes);
    live_screen_close(&demo.frame);
    return status;
}
