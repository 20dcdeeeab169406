/* The state of the queue as metrics: renders the answer of store_status(), the same for each caller.
 *
 * Gauges without a label come from two tables, series per workspace and per group from two more. A key that the answer does
 * not have is left out. The workspaces that the answer does not name are added under `_other` where the totals allow it. It
 * makes no query and keeps nothing; any thread.
 */
#include <string.h>

#include "base/clock.h"
#include "observe/metrics.h"
#include "observe/metrics_text.h"

/* true = 1; a missing key = 0. */
static double status_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_true(value) ? 1 : json_number_value(value);
}

/* Gauges without a label: key of the status, name, divisor of the value. */
static const struct {
    const char *key;
    const char *name;
    double divisor;
    const char *help;
} gauges[] = {
    {"oldest_pending_age_us", "weir_oldest_pending_age_seconds", (double)MICROSECONDS_PER_SECOND,
     "How long the oldest waiting execution has waited."},
    {"slots_used", "weir_slots_used", 1, "Slots in use in all workspaces."},
    {"waiting", "weir_waiting", 1, "Executions that wait without a slot: WAITING."},
    {"nodes", "weir_nodes", 1, "Nodes alive."},
    {"running", "weir_executor_busy", 1, "Executions in the engines of all nodes, as of their last heartbeats."},
    {"stuck", "weir_executor_stuck", 1, "Of these, those that run longer than expected."},
    {"engine_reachable", "weir_engine_reachable", 1, "Whether every live node reaches its engine."},
    {"queue_paused", "weir_queue_paused", 1, "Whether the queue is paused."},
    {"schedules_late", "weir_schedules_late", 1, "Schedules whose next time passed two minutes ago or longer."},
    {"workspace_count", "weir_workspaces", 1, "Workspaces."},
    {"schema", "weir_store_schema_version", 1, "Version of the store's schema."},
};

/* The same of the object "scheduler". */
static const struct {
    const char *key;
    const char *name;
    double divisor;
    const char *help;
} scheduler_gauges[] = {
    {"is_free", "weir_scheduler_is_free", 1, "Whether no node schedules."},
    {"epoch", "weir_scheduler_epoch", 1, "Number of the scheduler's epoch; each takeover adds one."},
    {"lag_us", "weir_scheduler_lag_seconds", (double)MICROSECONDS_PER_SECOND,
     "Age of the oldest news that is not in the books."},
};

static const struct {
    const char *key;
    const char *status;
} endings[] = {{"completed", "COMPLETED"}, {"failed", "FAILED"}, {"cancelled", "CANCELLED"}};

static void render_scheduler(struct metrics_text *to, const json_t *status)
{
    const json_t *scheduler = json_object_get(status, "scheduler");
    for (size_t i = 0; i < sizeof scheduler_gauges / sizeof scheduler_gauges[0]; i++) {
        metrics_text_head(to, scheduler_gauges[i].name, "gauge", scheduler_gauges[i].help);
        metrics_text_sample(to, scheduler_gauges[i].name, NULL, NULL,
                            status_number(scheduler, scheduler_gauges[i].key) / scheduler_gauges[i].divisor);
    }
}

static void render_reasons(struct metrics_text *to, const json_t *status)
{
    const json_t *reasons = json_object_get(status, "pending_reasons");
    const char *reason;
    json_t *count;
    metrics_text_head(to, "weir_pending", "gauge", "Executions that wait, by the reason that holds them back.");
    if (reasons == NULL) {
        metrics_text_sample(to, "weir_pending", "reason", "_all", status_number(status, "pending"));
        return;
    }
    json_object_foreach((json_t *)reasons, reason, count)
    {
        metrics_text_sample(to, "weir_pending", "reason", reason, json_number_value(count));
    }
}

/* The workspaces that the status names, and the rest under `_other` where the totals show one. */
static void render_workspaces(struct metrics_text *to, const json_t *status)
{
    static const struct {
        const char *key;
        const char *total; /* key of the status with the sum over all; NULL = there is none */
        const char *name;
        const char *help;
        double divisor;
    } series[] = {
        {"slots_used", "slots_used", "weir_workspace_active", "Slots that a workspace uses.", 1},
        {"slots_max", NULL, "weir_workspace_limit", "Slots that a workspace may use.", 1},
        {"pending", "pending", "weir_workspace_pending", "Executions of a workspace that wait to be started.", 1},
        {"waiting", "waiting", "weir_workspace_waiting", "Executions of a workspace that wait without a slot: WAITING.", 1},
        {"oldest_pending_age_us", NULL, "weir_workspace_oldest_pending_age_seconds",
         "How long the next execution of a workspace has waited.", (double)MICROSECONDS_PER_SECOND},
    };
    const json_t *workspaces = json_object_get(status, "workspaces");
    bool has_others = status_number(status, "workspace_count") > (double)json_array_size(workspaces);
    for (size_t i = 0; i < sizeof series / sizeof series[0]; i++) {
        size_t at;
        json_t *workspace;
        double sum = 0;
        metrics_text_head(to, series[i].name, "gauge", series[i].help);
        json_array_foreach(workspaces, at, workspace)
        {
            double value = status_number(workspace, series[i].key) / series[i].divisor;
            const char *name = json_string_value(json_object_get(workspace, "name"));
            sum += value;
            metrics_text_sample(to, series[i].name, "workspace", name == NULL ? "" : name, value);
        }
        if (has_others && series[i].total != NULL) {
            metrics_text_sample(to, series[i].name, "workspace", "_other", status_number(status, series[i].total) - sum);
        }
    }
}

static void render_groups(struct metrics_text *to, const json_t *status)
{
    static const struct {
        const char *key;
        const char *name;
        const char *help;
        double divisor;
    } series[] = {
        {"pending", "weir_group_pending", "Executions that wait for the nodes of an executor group.", 1},
        {"oldest_pending_age_us", "weir_group_oldest_pending_age_seconds",
         "How long the oldest of the next executions of a group's workspaces has waited.", (double)MICROSECONDS_PER_SECOND},
    };
    for (size_t i = 0; i < sizeof series / sizeof series[0]; i++) {
        size_t at;
        json_t *group;
        metrics_text_head(to, series[i].name, "gauge", series[i].help);
        json_array_foreach(json_object_get(status, "executor_groups"), at, group)
        {
            const char *name = json_string_value(json_object_get(group, "name"));
            metrics_text_sample(to, series[i].name, "executor_group", name == NULL ? "" : name,
                                status_number(group, series[i].key) / series[i].divisor);
        }
    }
}

bool metrics_workspaces_parse(const char *name, enum metrics_workspaces *ret_workspaces)
{
    static const char *const names[] = {
        [METRICS_WORKSPACES_TOP] = "top", [METRICS_WORKSPACES_ALL] = "all", [METRICS_WORKSPACES_OFF] = "off"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret_workspaces = (enum metrics_workspaces)i;
            return true;
        }
    }
    return false;
}

size_t metrics_workspaces_most(enum metrics_workspaces workspaces)
{
    return workspaces == METRICS_WORKSPACES_OFF   ? 0
           : workspaces == METRICS_WORKSPACES_ALL ? METRICS_WORKSPACES_ALL_MAX
                                                  : METRICS_WORKSPACES_MAX;
}

enum weir_status metrics_render_store(const json_t *status, enum metrics_workspaces workspaces, struct text *to)
{
    struct metrics_text text = {.to = to};
    for (size_t i = 0; i < sizeof gauges / sizeof gauges[0]; i++) {
        if (json_object_get(status, gauges[i].key) != NULL) {
            metrics_text_head(&text, gauges[i].name, "gauge", gauges[i].help);
            metrics_text_sample(&text, gauges[i].name, NULL, NULL,
                                status_number(status, gauges[i].key) / gauges[i].divisor);
        }
    }
    render_scheduler(&text, status);
    metrics_text_head(&text, "weir_ended_executions_total", "counter", "Executions that have ended, in the whole store.");
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        metrics_text_sample(&text, "weir_ended_executions_total", "status", endings[i].status,
                            status_number(status, endings[i].key));
    }
    render_reasons(&text, status);
    if (workspaces != METRICS_WORKSPACES_OFF) {
        render_workspaces(&text, status);
    }
    render_groups(&text, status);
    return text.status;
}
