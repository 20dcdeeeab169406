/* `weir node list`, `pause`, `resume`, `drain`.
 *
 * The list hides nodes that have stopped and hold nothing, unless --all is given, and shows the scheduler's role below
 * the table. An order is a row of the store that the node reads with its next heartbeat; the verb does not wait for the
 * effect. A name that several live nodes have is refused, so that an order never reaches a second node by accident. One
 * thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/output/json_fields.h"
#include "cli/output/table.h"
#include "cli/signals.h"
#include "cli/verbs/role.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/verb.h"

/* A terminal of this width has room for host, pid and version, too. */
enum { COLUMNS_WITH_PROCESS = 130 };
/* The pause between two reads of a node that is awaited. */
#define DRAIN_POLL_US (100 * MICROSECONDS_PER_MS)

/* The sign for a state of a node. */
static enum sign sign_of_node(const char *state)
{
    if (strcmp(state, "alive") == 0) {
        return SIGN_FINE;
    }
    if (strcmp(state, "stopped") == 0) {
        return SIGN_GONE;
    }
    return strcmp(state, "expired") == 0 || strcmp(state, "dead") == 0 ? SIGN_BAD : SIGN_PAUSED;
}

/* Adds the id of the node when another row has the same name. */
static const char *distinct_node_name(struct output *output, const json_t *items, const json_t *node)
{
    const char *name = field_text(output, node, "name");
    char text[NODE_NAME_MAX + 32];
    size_t others = 0;
    size_t i;
    json_t *item;
    json_array_foreach(items, i, item)
    {
        others += item != node && json_equal(json_object_get(item, "name"), json_object_get(node, "name"));
    }
    if (others == 0) {
        return name;
    }
    (void)snprintf(text, sizeof text, "%s (%" PRId64 ")", name, field_number(node, "id", 0));
    return output_safe(output, text);
}

static void print_scheduler_line(struct output *output, const json_t *page, int64_t now_us)
{
    const json_t *scheduler = json_object_get(page, "scheduler");
    output_print(output, "\n%s scheduler %s\n",
                 output_sign_coloured(output, role_health(scheduler) == ROLE_IS_FINE ? SIGN_FINE : SIGN_WARN),
                 role_text(output, scheduler, now_us));
}

/* Whether any of the nodes runs executions on a service. */
static bool names_services(const json_t *items)
{
    size_t i;
    json_t *item;
    json_array_foreach(items, i, item)
    {
        const char *service = json_string_value(json_object_get(item, "engine_service"));
        if (service != NULL && service[0] != '\0') {
            return true;
        }
    }
    return false;
}

/* Where it runs executions; "-" while it does not know. The service's identity is in the JSON. */
static const char *describe_target(struct output *output, const json_t *node)
{
    const char *engine = field_text(output, node, "engine");
    const char *service = field_text(output, node, "engine_service");
    char text[TARGET_TEXT_MAX];
    if (service == NULL) {
        return "-";
    }
    if (service[0] == '\0') {
        return engine;
    }
    (void)snprintf(text, sizeof text, "%s %s at %s", engine, json_string_value(json_object_get(node, "engine_namespace")),
                   json_string_value(json_object_get(node, "engine_address")));
    return output_safe(output, text);
}

/* The columns of the process: always in a pipe and with --wide, on a terminal when it is wide enough for them. */
static bool shows_processes(const struct output *output)
{
    return !output->out_is_terminal || output->is_wide || output->columns >= COLUMNS_WITH_PROCESS;
}

/* The state, of a drained node with its time. */
static const char *describe_state(struct output *output, const json_t *node, int64_t now_us)
{
    const char *state = field_text(output, node, "state");
    const char *drained = field_text(output, node, "drained_at");
    char text[64];
    if (state == NULL || strcmp(state, "drained") != 0 || drained == NULL) {
        return state;
    }
    (void)snprintf(text, sizeof text, "drained %s", output_ago(output, drained, now_us));
    return output_safe(output, text);
}

/* RUNNING is of the last heartbeat, HOLDS of this moment, so they may differ: then a line names what each counts. */
static void explain_counts(struct output *output, const json_t *items)
{
    size_t i;
    json_t *node;
    json_array_foreach(items, i, node)
    {
        if (!row_node_is_gone(node) && field_number(node, "running", 0) != field_number(node, "holds", 0)) {
            output_print(output,
                         "RUNNING: in the engine at the node's last heartbeat (SEEN). HOLDS: assigned to the node in the"
                         " store now.\n");
            return;
        }
    }
}

/* Lines for each live node that neither schedules nor starts executions, or records no ends, because the store refuses its
 * calls. */
static void print_failing_nodes(struct output *output, const json_t *items, int64_t now_us)
{
    size_t i;
    json_t *node;
    json_array_foreach(items, i, node)
    {
        const char *since = field_text(output, node, "dispatch_failing_since");
        const char *records_since = field_text(output, node, "record_failing_since");
        if (since != NULL && row_node_is_live(node)) {
            output_print(output, "%s %s has started nothing for %s: %s\n", output_sign_coloured(output, SIGN_BAD),
                         distinct_node_name(output, items, node), output_age(output, since, now_us),
                         field_error(output, node, "dispatch_error"));
        }
        if (records_since != NULL && row_node_is_live(node)) {
            output_print(output, "%s %s has held reports that the store refuses for %s: %s\n",
                         output_sign_coloured(output, SIGN_BAD), distinct_node_name(output, items, node),
                         output_age(output, records_since, now_us), field_error(output, node, "record_error"));
        }
    }
}

static void print_node_rows(struct output *output, const json_t *page, int64_t now_us)
{
    static const struct column columns[] = {
        {.title = "NODE", .least = 10},
        {.title = "STATE"},
        {.title = "GROUP", .least = 7},
        {.title = "RUNNING", .align = COLUMN_RIGHT},
        {.title = "STUCK", .align = COLUMN_RIGHT},
        {.title = "HOLDS", .align = COLUMN_RIGHT},
        {.title = "ENGINE"},
        {.title = "SCHEDULES"},
        {.title = "SEEN"},
        {.title = "HOST", .least = 8},
        {.title = "PID", .align = COLUMN_RIGHT},
        {.title = "VERSION"},
        {.title = "TARGET"},
    };
    enum { PROCESS_AT = 9, PROCESS_COLUMNS = 3, TARGET_AT = PROCESS_AT + PROCESS_COLUMNS };
    struct column shown[TARGET_AT + 1];
    size_t count = PROCESS_AT;
    bool shows_process = shows_processes(output);
    bool shows_target = names_services(json_object_get(page, "items"));
    struct table table;
    size_t i;
    json_t *item;
    memcpy(shown, columns, PROCESS_AT * sizeof columns[0]);
    for (size_t c = PROCESS_AT; c < TARGET_AT && shows_process; c++) {
        shown[count++] = columns[c];
    }
    if (shows_target) {
        shown[count++] = columns[TARGET_AT];
    }
    table_open(&table, output, shown, count);
    json_array_foreach(json_object_get(page, "items"), i, item)
    {
        const char *state = field_text(output, item, "state");
        const char *seen = field_text(output, item, "seen_at");
        bool gone = row_node_is_gone(item);
        table_cell(&table, distinct_node_name(output, json_object_get(page, "items"), item));
        table_cell_sign(&table, sign_of_node(state != NULL ? state : ""), describe_state(output, item, now_us));
        table_cell(&table, field_text(output, item, "executor_group"));
        table_cell(&table, gone ? "-" : field_text(output, item, "running"));
        table_cell(&table, gone ? "-" : field_text(output, item, "stuck"));
        table_cell(&table, field_text(output, item, "holds"));
        table_cell(&table, gone ? "-" : field_is_true(item, "engine_reachable") ? "up" : "down");
        table_cell(&table, field_is_true(item, "schedules") ? "yes" : "-");
        table_cell(&table, output_ago(output, seen, now_us));
        if (shows_process) {
            table_cell(&table, field_text(output, item, "host"));
            table_cell(&table, field_text(output, item, "pid"));
            table_cell(&table, field_text(output, item, "weir_version"));
        }
        if (shows_target) {
            table_cell(&table, describe_target(output, item));
        }
    }
    table_close(&table);
    explain_counts(output, json_object_get(page, "items"));
    print_failing_nodes(output, json_object_get(page, "items"), now_us);
    print_scheduler_line(output, page, now_us);
}

/* Removes nodes that have stopped or were taken over, unless they still hold items. */
static void hide_gone(json_t *page)
{
    json_t *items = json_object_get(page, "items");
    for (size_t i = json_array_size(items); i-- > 0;) {
        const json_t *node = json_array_get(items, i);
        if (row_node_is_gone(node) && field_number(node, "holds", 0) == 0) {
            (void)json_array_remove(items, i);
        }
    }
    (void)json_object_set_new(page, "count", json_integer((json_int_t)json_array_size(items)));
}

/* Adds the scheduler's role to the page: the row of a node shows only whether it schedules. */
static enum weir_status add_scheduler_role(struct store *store, json_t *page, struct weir_error *error)
{
    json_t *answer = NULL;
    enum weir_status status = store_status(store, 1, &answer, error);
    if (status == WEIR_OK && json_object_set(page, "scheduler", json_object_get(answer, "scheduler")) != 0) {
        status = error_out_of_memory(error);
    }
    json_decref(answer);
    return status;
}

/* Hides old nodes unless --all is given, and adds the role. */
static enum weir_status adjust_nodes(const struct invocation *invocation, struct store *store, json_t *page,
                                     struct weir_error *error)
{
    if (!invocation_has(invocation, "all")) {
        hide_gone(page);
    }
    return add_scheduler_role(store, page, error);
}

static enum weir_status list_nodes(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    static const struct list_view view = {
        .kind = LIST_NODES,
        .print = print_node_rows,
        .adjust = adjust_nodes,
        .empty = "no node is running; `weir serve` starts one, `weir node list --all` also lists stopped nodes"};
    return verb_print_list(invocation, store, &view, error);
}

enum weir_status verb_node_list(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_READ, list_nodes, error);
}

/* --- pause, resume, drain --- */

struct namesakes {
    size_t count;
    struct text ids;
    enum weir_status status;
};

/* Collects the ids of live nodes that have the name. */
static bool add_namesake(void *context, const json_t *node)
{
    struct namesakes *namesakes = context;
    if (row_node_is_live(node)) {
        namesakes->status =
            text_format(&namesakes->ids, "%s%" PRId64, namesakes->count == 0 ? "" : ", ", field_number(node, "id", 0));
        namesakes->count++;
    }
    return namesakes->status == WEIR_OK;
}

/* Refuses a name that several live nodes have: an order must reach one node. */
static enum weir_status refuse_namesakes(struct store *store, const char *name, struct weir_error *error)
{
    struct namesakes namesakes = {.ids = {.max = WEIR_ERROR_HINT_MAX / 2}};
    struct list_options options = {.kind = LIST_NODES, .name = name, .limit = LIST_LIMIT_MOST};
    enum weir_status status = store_list_each(store, &options, add_namesake, &namesakes, error);
    if (status == WEIR_OK && namesakes.count > 1) {
        status = error_set(error, WEIR_CONFLICT, "%s%zu live nodes have the name \"%s\"",
                           namesakes.status == WEIR_OK ? "" : "more than ", namesakes.count, name);
        error_hint(error, "name one by its id: %s%s; a node that was killed counts until its lease is over",
                   namesakes.ids.data, namesakes.status == WEIR_OK ? "" : " ...");
    } else if (status == WEIR_OK && namesakes.status != WEIR_OK) {
        status = error_out_of_memory(error);
    }
    text_close(&namesakes.ids);
    return status;
}

/* The order that the verb gives to the node, and the text that describes it. */
static enum weir_status order_node(struct invocation *invocation, struct store *store, enum desired_state desired_state,
                                   const char *effect, struct weir_error *error)
{
    const char *name = invocation_argument(invocation, 0);
    bool is_dry_run = invocation_is_dry_run(invocation);
    bool is_number = strspn(name, "0123456789") == strlen(name);
    enum weir_status status = refuse_namesakes(store, name, error);
    if (status == WEIR_OK && is_dry_run && !is_number) {
        status = store_require_name(store, LIST_NODES, name, WEIR_NOT_FOUND, error);
    } else if (status == WEIR_OK && !is_dry_run) {
        status = store_set_desired_state(store, name, desired_state, error);
    }
    if (status == WEIR_OK) {
        output_report_sign(invocation->output, SIGN_FINE, "node %s %s %s", output_safe(invocation->output, name),
                           is_dry_run ? "would get the order to" : "has the order to", effect);
        status = verb_print_act(
            invocation, json_pack("{s:s, s:s}", "name", name, "desired_state", desired_state_name(desired_state)), error);
    }
    return status;
}

static enum weir_status pause_node(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    return order_node(invocation, store, NODE_PAUSE, "pause: it starts no more executions, running ones continue", error);
}

static enum weir_status resume_node(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    return order_node(invocation, store, NODE_RUN, "start executions again", error);
}

/* The newest row of a node by its name or number. */
struct node_search {
    const char *name;
    json_t *row;
};

static bool keep_named_node(void *context, const json_t *node)
{
    struct node_search *search = context;
    char id[32];
    const char *name = json_string_value(json_object_get(node, "name"));
    (void)snprintf(id, sizeof id, "%" PRId64, field_number(node, "id", 0));
    if ((name != NULL && strcmp(name, search->name) == 0) || strcmp(id, search->name) == 0) {
        json_decref(search->row);
        search->row = json_deep_copy(node);
    }
    return true;
}

/* WEIR_OK with *ret_done once the node is drained or has stopped. A node that died finishes nothing: an error. */
static enum weir_status check_drained(struct store *store, struct node_search *search, bool *ret_done,
                                      struct weir_error *error)
{
    struct list_options options = {.kind = LIST_NODES, .limit = LIST_LIMIT_MOST};
    enum weir_status status = store_list_each(store, &options, keep_named_node, search, error);
    const char *state = json_string_value(json_object_get(search->row, "state"));
    if (status != WEIR_OK) {
        return status;
    }
    if (state == NULL || strcmp(state, "dead") == 0 || strcmp(state, "expired") == 0) {
        error_set(error, WEIR_FAILED, "node %s died before it was drained", search->name);
        error_hint(error, "the other nodes of its group take its executions over; `weir node list --all` shows it");
        return WEIR_FAILED;
    }
    if (strcmp(state, "draining") != 0 && strcmp(state, "drained") != 0 && !row_node_is_gone(search->row) &&
        strcmp(state, "stopping") != 0) {
        error_set(error, WEIR_CONFLICT, "node %s is %s: another order has replaced the drain", search->name, state);
        error_hint(error, "`weir node drain` orders it again");
        return WEIR_CONFLICT;
    }
    *ret_done = strcmp(state, "drained") == 0 || row_node_is_gone(search->row);
    return WEIR_OK;
}

/* Polls until the node is drained, --timeout is over, or a signal. */
static enum weir_status wait_for_drain(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    const struct clock *clock = clock_system();
    int64_t timeout_us = invocation_number(invocation, "timeout", -1);
    int64_t until_us = timeout_us >= 0 ? time_add(clock_boot(clock), timeout_us) : TIME_NEVER;
    struct node_search search = {.name = invocation_argument(invocation, 0)};
    bool is_done = false;
    enum weir_status status = WEIR_OK;
    signals_catch();
    while (!is_done) {
        status = check_drained(store, &search, &is_done, error);
        if (status != WEIR_OK && status != WEIR_STORE_BUSY) {
            break;
        }
        if (!is_done && signals_count() > 0) {
            status = error_set(error, WEIR_INTERRUPTED, "interrupted; node %s continues to drain", search.name);
            break;
        }
        if (!is_done && clock_boot(clock) >= until_us) {
            int64_t holds = field_number(search.row, "holds", 0);
            status = error_set(error, WEIR_TIMED_OUT, "node %s still holds %" PRId64 " execution%s", search.name, holds,
                               holds == 1 ? "" : "s");
            error_hint(error,
                       "the node continues to drain; `weir list --where status=dispatched` lists the running executions");
            break;
        }
        if (!is_done) {
            signals_sleep(DRAIN_POLL_US);
        }
    }
    if (status == WEIR_OK) {
        output_report_sign(invocation->output, SIGN_FINE, "node %s is %s", output_safe(invocation->output, search.name),
                           field_text(invocation->output, search.row, "state"));
    }
    json_decref(search.row);
    return status;
}

static enum weir_status drain_node(struct invocation *invocation, struct store *store, struct weir_error *error)
{
    enum weir_status status =
        order_node(invocation, store, NODE_DRAIN, "drain: it finishes its executions and starts no more", error);
    bool waits = invocation_has(invocation, "wait") && !invocation_is_dry_run(invocation);
    return status == WEIR_OK && waits ? wait_for_drain(invocation, store, error) : status;
}

enum weir_status verb_node_pause(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, pause_node, error);
}

enum weir_status verb_node_resume(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, resume_node, error);
}

enum weir_status verb_node_drain(struct invocation *invocation, struct weir_error *error)
{
    return verb_with_store(invocation, STORE_CHANGE, drain_node, error);
}
