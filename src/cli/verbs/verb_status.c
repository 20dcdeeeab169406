/* `weir status`: the state of the queue on one screen, or as text for Prometheus.
 *
 * All numbers come from one call of store_status(), so that they belong to one moment. Lines for paused groups, unserved
 * executions and engine errors appear only when there are any. One thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/shell_quote.h"
#include "cli/output/json_fields.h"
#include "cli/output/table.h"
#include "cli/verbs/act_change.h"
#include "cli/verbs/disk.h"
#include "cli/verbs/no_worker.h"
#include "cli/verbs/role.h"
#include "cli/verbs/stuck_text.h"
#include "cli/verbs/verb.h"
#include "observe/metrics.h"

enum { STATUS_WORKSPACES = 20 };

static void print_paused_groups(struct output *output, const json_t *answer, int64_t now_us)
{
    size_t i;
    json_t *group;
    json_array_foreach(json_object_get(answer, "executor_groups"), i, group)
    {
        const char *name = field_text(output, group, "name");
        char word[SHELL_WORD_MAX];
        char subject[GROUP_NAME_MAX + 8];
        if (field_is_true(group, "paused")) {
            (void)snprintf(subject, sizeof subject, "group %s", name);
            output_print(output, "%s group     %s is paused%s (`weir resume --executor-group %s`)\n",
                         output_sign_coloured(output, SIGN_PAUSED), name, act_pause_text(output, answer, subject, now_us),
                         shell_quote(name, word));
        }
    }
}

/* Groups with executions and without a node that lives. What a dead node held keeps its slots until a node of the group
 * takes it over. */
static void print_left_groups(struct output *output, const json_t *answer)
{
    size_t i;
    json_t *group;
    json_array_foreach(json_object_get(answer, "executor_groups"), i, group)
    {
        int64_t held = field_number(group, "slots_used", 0);
        int64_t pending = field_number(group, "pending", 0);
        const char *name = field_text(output, group, "name");
        char word[SHELL_WORD_MAX];
        if (field_number(group, "nodes_live", 1) == 0 && held + pending > 0) {
            output_print(output,
                         "%s group     %s has no live node: %" PRId64 " pending, %" PRId64 " held\n"
                         "            weir serve --executor-group %s\n",
                         output_sign_coloured(output, SIGN_WARN), name, pending, held, shell_quote(name, word));
        }
    }
}

/* Workspaces that are not in the table of the status are not named. */
static void print_paused_workspaces(struct output *output, const json_t *answer, int64_t now_us)
{
    size_t i;
    json_t *workspace;
    json_array_foreach(json_object_get(answer, "workspaces"), i, workspace)
    {
        const char *subject = json_string_value(json_object_get(workspace, "name"));
        if (subject != NULL && field_is_true(workspace, "paused")) {
            output_print(output, "%s workspace %s is paused%s\n", output_sign_coloured(output, SIGN_PAUSED),
                         output_safe(output, subject), act_pause_text(output, answer, subject, now_us));
        }
    }
}

/* The workflows that wait because no live node has their handlers. */
static void print_missing_workers(struct output *output, const json_t *answer, int64_t now_us)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(answer, "no_worker"), i, row)
    {
        char text[WORKER_TEXT_MAX];
        worker_text(output, row, now_us, text);
        output_print(output, "%s no worker %" PRId64 " of %s wait: %s\n", output_sign_coloured(output, SIGN_WARN),
                     field_number(row, "waiting", 0), field_text(output, row, "workflow"), text);
    }
}

/* How many executions are stuck, and the first of them by name. */
static void print_stuck(struct output *output, const json_t *answer, int64_t now_us)
{
    size_t i;
    json_t *row;
    int64_t stuck = field_number(answer, "stuck", 0);
    if (stuck > 0) {
        output_print(output, "%s stuck     %" PRId64 " run%s longer than stuck_after (`weir list --where stuck=yes`)\n",
                     output_sign_coloured(output, SIGN_WARN), stuck, stuck == 1 ? "s" : "");
    }
    json_array_foreach(json_object_get(answer, "stuck_executions"), i, row)
    {
        char text[STUCK_TEXT_MAX];
        stuck_text(output, row, now_us, text);
        output_print(output, "            %s\n", text);
    }
}

/* A store on which no node runs and nothing waits needs no scheduler. */
static void print_role_line(struct output *output, const json_t *answer, int64_t now_us)
{
    const json_t *scheduler = json_object_get(answer, "scheduler");
    bool is_needed = field_number(answer, "nodes", 0) > 0 || field_number(answer, "pending", 0) > 0;
    enum role_health health = role_health(scheduler);
    enum sign sign = health == ROLE_IS_FINE ? SIGN_FINE : health == ROLE_IS_FREE && !is_needed ? SIGN_GONE : SIGN_WARN;
    output_print(output, "%s scheduler %s%s\n", output_sign_coloured(output, sign), role_text(output, scheduler, now_us),
                 health == ROLE_FAILS || (health == ROLE_IS_FREE && is_needed) ? "; no execution starts (`weir doctor`)"
                                                                               : "");
}

/* The last move to the archive, and a problem of its file. A store without an archive has no line. */
static void print_archive(struct output *output, const json_t *answer, int64_t now_us)
{
    char age[DURATION_TEXT_MAX];
    const json_t *archive = json_object_get(answer, "archive");
    const char *problem = field_text(output, archive, "problem");
    const char *moved_at = field_text(output, archive, "moved_at");
    int64_t moved_at_us = 0;
    if (problem != NULL) {
        output_print(output, "%s archive   %s\n", output_sign_coloured(output, SIGN_WARN), problem);
    } else if (moved_at != NULL && time_parse(moved_at, 0, &moved_at_us, NULL) == WEIR_OK) {
        duration_format_short(now_us > moved_at_us ? now_us - moved_at_us : 0, age);
        output_print(output, "  archive   %" PRId64 " executions moved, the last %s ago, %" PRId64 " KiB\n",
                     field_number(archive, "moved", 0), age, field_number(archive, "bytes", 0) / 1024);
    }
}

/* Prints the lines about the whole queue; lines about faults only when there are any. */
static void print_totals(struct output *output, const json_t *answer, const char *url, int64_t now_us)
{
    char oldest[DURATION_TEXT_MAX];
    bool is_paused = field_is_true(answer, "queue_paused");
    int64_t nodes = field_number(answer, "nodes", 0);
    duration_format_short(field_number(answer, "oldest_pending_age_us", 0), oldest);
    output_print(output, "%s queue     %s%s%s\n", output_sign_coloured(output, is_paused ? SIGN_PAUSED : SIGN_FINE),
                 is_paused ? "paused" : "open", act_pause_text(output, answer, "queue", now_us),
                 is_paused ? " (`weir resume`)" : "");
    print_paused_groups(output, answer, now_us);
    print_paused_workspaces(output, answer, now_us);
    output_print(output, "%s nodes     %" PRId64 " alive, engine %s\n",
                 output_sign_coloured(output, nodes > 0 ? SIGN_FINE : SIGN_WARN), nodes,
                 nodes == 0                                                    ? "none"
                 : !field_is_true(answer, "engine_reachable")                  ? "not reachable"
                 : field_text(output, answer, "engine_impaired_since") != NULL ? "up, ends are detected late"
                                                                               : "up");
    print_role_line(output, answer, now_us);
    if (disk_is_full(url)) {
        output_print(output, "%s disk      less than 1 MiB is free where the store is, so nodes may write nothing\n",
                     output_sign_coloured(output, SIGN_BAD));
    }
    print_left_groups(output, answer);
    int64_t unserved = field_number(json_object_get(answer, "pending_reasons"), "no_node_in_group", 0);
    if (nodes > 0 && unserved > 0) {
        output_print(output, "%s unserved  %" PRId64 ": no node of their group accepts work (`weir why ID`)\n",
                     output_sign_coloured(output, SIGN_WARN), unserved);
    }
    int64_t crowded = field_number(json_object_get(answer, "pending_reasons"), "nodes_full", 0);
    if (crowded > 0) {
        output_print(output, "  full      %" PRId64 ": no node that could run them has free capacity (`weir why ID`)\n",
                     crowded);
    }
    print_missing_workers(output, answer, now_us);
    const char *engine_error = field_text(output, answer, "engine_error");
    if (engine_error != NULL) {
        const char *since = field_text(output, answer, "engine_unreachable_since");
        since = since != NULL ? since : field_text(output, answer, "engine_impaired_since");
        output_print(output, "%s engine    %s%s%s\n", output_sign_coloured(output, SIGN_WARN), engine_error,
                     since != NULL ? ", since " : "", since != NULL ? since : "");
    }
    print_stuck(output, answer, now_us);
    output_print(output, "  pending   %" PRId64, field_number(answer, "pending", 0));
    if (field_number(answer, "pending", 0) > 0) {
        output_print(output, ", the oldest for %s", oldest);
    }
    output_print(output, "\n  slots     %" PRId64 " used\n", field_number(answer, "slots_used", 0));
    int64_t parked = field_number(answer, "waiting", 0);
    if (parked > 0) {
        output_print(output, "  waiting   %" PRId64 " without a slot (`weir list -s waiting`)\n", parked);
    }
    output_print(output, "  ended     %" PRId64 " completed, %" PRId64 " failed, %" PRId64 " cancelled\n",
                 field_number(answer, "completed", 0), field_number(answer, "failed", 0),
                 field_number(answer, "cancelled", 0));
    print_archive(output, answer, now_us);
}

/* Prints the workspaces that the status names. */
static void print_workspace_table(struct output *output, const json_t *answer)
{
    static const struct column columns[] = {
        {.title = "WORKSPACE", .least = 9},         {.title = "PLAN", .least = 6},
        {.title = "SLOTS", .align = COLUMN_RIGHT},  {.title = "PENDING", .align = COLUMN_RIGHT},
        {.title = "DONE", .align = COLUMN_RIGHT},   {.title = "FAILED", .align = COLUMN_RIGHT},
        {.title = "OLDEST", .align = COLUMN_RIGHT},
    };
    struct table table;
    size_t i;
    json_t *item;
    const json_t *workspaces = json_object_get(answer, "workspaces");
    if (json_array_size(workspaces) == 0) {
        return;
    }
    output_print(output, "\n");
    table_open(&table, output, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(workspaces, i, item)
    {
        char age[DURATION_TEXT_MAX] = "-";
        int64_t age_us = field_number(item, "oldest_pending_age_us", -1);
        if (age_us >= 0) {
            duration_format_short(age_us, age);
        }
        table_cell(&table, field_text(output, item, "name"));
        table_cell(&table, field_text(output, item, "plan"));
        table_cell_format(&table, "%" PRId64 "/%" PRId64 "%s", field_number(item, "slots_used", 0),
                          field_number(item, "slots_max", 0), field_is_true(item, "paused") ? " paused" : "");
        table_cell(&table, field_text(output, item, "pending"));
        table_cell(&table, field_text(output, item, "completed"));
        table_cell(&table, field_text(output, item, "failed"));
        table_cell(&table, age);
    }
    table_close(&table);
}

/* Prints the status as text for Prometheus. */
static enum weir_status print_metrics(struct output *output, const json_t *answer, enum metrics_workspaces workspaces,
                                      struct weir_error *error)
{
    struct text text = {.max = METRICS_TEXT_BYTES_MAX};
    enum weir_status status = metrics_render_store(answer, workspaces, &text);
    if (status == WEIR_OK) {
        output_print(output, "%s", text.data != NULL ? text.data : "");
    } else {
        error_set(error, status, "the metrics do not fit into %d bytes", METRICS_TEXT_BYTES_MAX);
    }
    text_close(&text);
    return status;
}

enum weir_status verb_status(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    json_t *answer = NULL;
    int64_t now_us = 0;
    bool as_metrics = invocation_has(invocation, "metrics");
    if (as_metrics && invocation->output->format != OUTPUT_TABLE) {
        return invocation_usage_error(invocation, error, "--metrics is the text of Prometheus, which has no JSON form");
    }
    enum metrics_workspaces workspaces = METRICS_WORKSPACES_TOP;
    bool known = metrics_workspaces_parse(settings_text(invocation->settings, SETTING_METRICS_WORKSPACES), &workspaces);
    INVARIANT(known); /* settings_set() has checked it */
    enum weir_status status = verb_open_store(invocation, STORE_READ, &store, error);
    if (status == WEIR_OK) {
        status = store_status(store, as_metrics ? metrics_workspaces_most(workspaces) : STATUS_WORKSPACES, &answer, error);
    }
    if (status == WEIR_OK) {
        status = store_time(store, &now_us, error);
    }
    if (status == WEIR_OK && !as_metrics) {
        status = act_add_pauses(store, answer, error);
    }
    if (status == WEIR_OK && as_metrics) {
        status = print_metrics(invocation->output, answer, workspaces, error);
    } else if (status == WEIR_OK && !output_object(invocation->output, answer)) {
        print_totals(invocation->output, answer, store_url(store), now_us);
        print_workspace_table(invocation->output, answer);
    }
    json_decref(answer);
    store_close(store);
    return status;
}
