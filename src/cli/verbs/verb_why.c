/* `weir why`: the one reason why an execution does not run, with its numbers and the command that helps.
 *
 * The store decides on the reason. This file adds the facts that the store cannot have. They are the reason why an
 * execution waits inside of its Temporal service, and whether the queue, its group, or both are paused. The last line
 * suggests one command for the reason.
 *
 * A part that cannot be read is left out: the answer of the store must not depend on the service. One thread.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/shell_quote.h"
#include "cli/output/json_fields.h"
#include "cli/verbs/disk.h"
#include "cli/verbs/no_worker.h"
#include "cli/verbs/store_pages.h"
#include "cli/verbs/stuck_text.h"
#include "cli/verbs/temporal_service.h"
#include "cli/verbs/temporal_workflow.h"
#include "cli/verbs/verb.h"
#include "cli/verbs/why_workspace.h"
#include "queue/step.h"

/* No node has it, and none of its group lives: its slot stays taken until one starts, or until it is cancelled. */
static bool holder_is_left(const json_t *holder)
{
    return field_number(holder, "nodes_live", -1) == 0;
}

/* The command of an execution without a node that no live node can take over. */
static void suggest_node(struct output *output, const json_t *left)
{
    char word[SHELL_WORD_MAX];
    const char *group = field_text(output, left, "executor_group");
    const char *id = field_text(output, left, "id");
    output_report(output, "now: weir serve --executor-group %s", group != NULL ? shell_quote(group, word) : "NAME");
    output_report(output, "or: weir cancel %s", id != NULL ? id : "ID");
}

/* The first slot holder that no live node can take over; NULL = none. */
static const json_t *first_left_holder(const json_t *why)
{
    size_t i;
    json_t *holder;
    json_array_foreach(json_object_get(why, "slot_holders"), i, holder)
    {
        if (holder_is_left(holder)) {
            return holder;
        }
    }
    return NULL;
}

/* Prints the executions that hold the slots of the workspace. */
static void print_slots(struct output *output, const json_t *why)
{
    size_t i;
    json_t *holder;
    int64_t used = field_number(why, "slots_used", -1);
    if (used < 0) {
        return;
    }
    output_print(output, "  slots            %" PRId64 " of %" PRId64 " used\n", used, field_number(why, "slots_max", 0));
    json_array_foreach(json_object_get(why, "slot_holders"), i, holder)
    {
        char running[DURATION_TEXT_MAX];
        const char *steps = field_text(output, holder, "step_names");
        duration_format_short(field_number(holder, "running_us", 0), running);
        output_print(output, "    slot %-3zu       %s %s %s%s%s", i + 1, field_text(output, holder, "id"),
                     field_text(output, holder, "status"), running, steps != NULL ? ", step " : "",
                     steps != NULL ? steps : "");
        if (holder_is_left(holder)) {
            output_print(output, ", handed_over; group %s has no node", field_text(output, holder, "executor_group"));
        }
        output_print(output, "\n");
    }
}

/* Whether it waits for a node because it was given back, or its node died. */
static bool is_left_over(const char *reason)
{
    return reason != NULL && (strcmp(reason, pending_reason_name(REASON_HANDED_OVER)) == 0 ||
                              strcmp(reason, pending_reason_name(REASON_QUARANTINED)) == 0);
}

/* The live nodes of its group, none of which accepts work. Nothing without one. */
static void print_live_nodes(struct output *output, const json_t *why)
{
    int64_t live = field_number(why, "nodes_live", 0);
    const char *reason = field_text(output, why, "pending_reason");
    if (is_left_over(reason)) {
        output_print(output, "  nodes            %" PRId64 " live in group %s (`weir node list`)\n", live,
                     field_text(output, why, "executor_group"));
    } else if (live > 0 && reason != NULL) {
        output_print(output,
                     "  nodes            %" PRId64 " live%s in group %s and start%s no executions (`weir node list`)\n",
                     live, live == 1 ? "s" : "", field_text(output, why, "executor_group"), live == 1 ? "s" : "");
    }
}

/* Since when no node schedules, and the lock without which a scheduler with dispatch.exclusive assigns nothing. */
static void print_scheduler_facts(struct output *output, const json_t *why, int64_t now_us)
{
    const char *reason = field_text(output, why, "pending_reason");
    const char *since = field_text(output, why, "scheduler_since");
    const char *node = field_text(output, why, "scheduler_node");
    const char *cause = field_text(output, why, "scheduler_why");
    const char *error = field_text(output, why, "scheduler_error");
    const char *lock_holder = field_text(output, why, "lock_holder");
    const char *lock_until = field_text(output, why, "lock_until");
    if (reason != NULL && cause != NULL && strcmp(cause, "awaits the lock") == 0) {
        output_print(output, "  scheduler        %s has dispatch.exclusive and awaits its lock since %s\n", node, since);
    } else if (reason != NULL && cause != NULL && strcmp(cause, "its rounds fail") == 0) {
        output_print(output, "  scheduler        %s has the role, and its rounds fail since %s (%s)\n", node, since,
                     output_ago(output, since, now_us));
    } else if (reason != NULL && strcmp(reason, "no_scheduler") == 0) {
        output_print(output, "  scheduler        none%s%s%s%s", since != NULL ? " since " : " yet",
                     since != NULL ? since : "", node != NULL ? "; the last one was " : "", node != NULL ? node : "");
        output_print(output, "%s%s%s\n", cause != NULL ? " (" : "", cause != NULL ? cause : "", cause != NULL ? ")" : "");
    }
    if (error != NULL) {
        output_print(output, "  scheduler error  %s\n", error);
    }
    if (lock_holder != NULL) {
        output_print(output,
                     "  lock             processExecutionQueue is held by %s until %s (%s, `weir lock list`); "
                     "with dispatch.exclusive no execution starts while another node holds it\n",
                     lock_holder, lock_until, output_ago(output, lock_until, now_us));
    }
}

/* Prints the place where its start may have arrived, or the engine that it needs, while no node of its group has it. */
static void print_targets(struct output *output, const json_t *why, int64_t now_us)
{
    size_t i;
    json_t *target;
    const char *since = field_text(output, why, "no_node_since");
    if (since == NULL) {
        return;
    }
    const char *target_text = field_text(output, why, "target");
    if (target_text != NULL) {
        output_print(output, "  started in       %s\n", target_text);
    } else {
        output_print(output, "  needs            an engine %s\n", field_text(output, why, "engine_needed"));
    }
    output_print(output, "  no node there    since %s (%s)\n", since, output_ago(output, since, now_us));
    json_array_foreach(json_object_get(why, "group_targets"), i, target)
    {
        output_print(output, "  %-16s %s\n", i == 0 ? "its group has" : "", output_safe(output, json_string_value(target)));
    }
}

/* Prints the handlers that no live node has, and the nodes of the group that were asked. */
static void print_missing_worker(struct output *output, const json_t *why, int64_t now_us)
{
    char text[WORKER_TEXT_MAX];
    size_t i;
    json_t *node;
    if (!lacks_worker(why)) {
        return;
    }
    worker_text(output, why, now_us, text);
    output_print(output, "  worker           %s\n", text);
    json_array_foreach(json_object_get(why, "group_nodes"), i, node)
    {
        output_print(output, "  %-16s %s\n", i == 0 ? "its group has" : "", output_safe(output, json_string_value(node)));
    }
}

/* Prints how full the nodes are that could run it, while none of them has free capacity. */
static void print_full_nodes(struct output *output, const json_t *why)
{
    const json_t *full = json_object_get(why, "full_nodes");
    int64_t nodes = field_number(full, "nodes", 0);
    if (nodes > 0) {
        output_print(output,
                     "  nodes            %" PRId64 " in group %s could run it; %s %" PRId64 " of %" PRId64
                     " executions (`weir node list`)\n",
                     nodes, field_text(output, why, "executor_group"), nodes == 1 ? "it runs" : "together they run",
                     field_number(full, "running", 0), field_number(full, "capacity", 0));
    }
}

/* Prints the numbers behind the reason, each only when the answer has it. */
static void print_numbers(struct output *output, const json_t *why, int64_t now_us)
{
    const char *due = field_text(output, why, "due_at");
    const char *node = field_text(output, why, "node");
    const char *stuck = field_text(output, why, "stuck_since");
    int64_t place = field_number(why, "place", 0);
    if (stuck != NULL) {
        output_print(output, "  stuck            since %s (%s)\n", stuck, output_ago(output, stuck, now_us));
    }
    print_unfinished_steps(output, why, now_us);
    print_live_nodes(output, why);
    print_full_nodes(output, why);
    print_missing_worker(output, why, now_us);
    print_targets(output, why, now_us);
    print_slots(output, why);
    if (place > 0) {
        output_print(output, "  place            %" PRId64 "%s of %" PRId64 " that wait for a slot of the workspace\n",
                     place, json_is_false(json_object_get(why, "place_is_exact")) ? " or later" : "",
                     field_number(why, "waiting_in_lane", place));
    }
    if (due != NULL) {
        output_print(output, "  due              %s (%s)\n", due, output_ago(output, due, now_us));
    }
    output_print(output,
                 "  starts           %" PRId64 " of %" PRId64 " refused, deferrals %" PRId64 ", handovers %" PRId64 "\n",
                 field_number(why, "starts_refused", 0), field_number(why, "starts_max", STARTS_MAX_DEFAULT),
                 field_number(why, "deferrals", 0), field_number(why, "handovers", 0));
    const char *suspected = field_text(output, why, "suspected_at");
    if (suspected != NULL && field_number(why, "suspicion", 0) > 0) {
        output_print(output, "  suspicion        %" PRId64 ", the last death under it %s\n",
                     field_number(why, "suspicion", 0), output_ago(output, suspected, now_us));
    }
    if (node != NULL) {
        const char *silent = field_text(output, why, "node_silent_since");
        output_print(output, "  node             %s%s%s\n", node, silent != NULL ? ", last heartbeat " : "",
                     silent != NULL ? output_ago(output, silent, now_us) : "");
    }
    const char *engine_error = field_text(output, why, "engine_error");
    const char *since = field_text(output, why, "engine_unreachable_since");
    if (since != NULL) {
        output_print(output, "  engine           not reachable since %s (%s)\n", since, output_ago(output, since, now_us));
    }
    since = field_text(output, why, "engine_impaired_since");
    if (since != NULL) {
        output_print(output, "  engine           detects ends late since %s (%s)\n", since,
                     output_ago(output, since, now_us));
    }
    if (engine_error != NULL) {
        output_print(output, "  engine error     %s\n", engine_error);
    }
    print_scheduler_facts(output, why, now_us);
    since = field_text(output, why, "record_failing_since");
    if (since != NULL) {
        output_print(output, "  records          its node holds reports that the store refuses since %s (%s): %s\n", since,
                     output_ago(output, since, now_us), field_text(output, why, "record_error"));
    }
    const char *code = field_text(output, why, "error_code");
    if (code != NULL) {
        const char *text = field_text(output, why, "error");
        output_print(output, "  %-16s %s%s%s\n", row_is_held(why) ? "earlier error" : "last error", code,
                     text != NULL ? ": " : "", text != NULL ? text : "");
    }
}

/* The parts of queue_paused: each is resumed by its own command. */
struct pauses {
    bool queue;
    bool group;
};

/* Reads whether the queue, the group, or both are paused. */
static enum weir_status read_pauses(struct store *store, const json_t *why, struct pauses *ret_pauses,
                                    struct weir_error *error)
{
    const char *reason = json_string_value(json_object_get(why, "pending_reason"));
    json_t *page = NULL;
    json_t *answer = NULL;
    if (reason == NULL || strcmp(reason, "queue_paused") != 0) {
        return WEIR_OK;
    }
    enum weir_status status =
        page_read(store, LIST_GROUPS, json_string_value(json_object_get(why, "executor_group")), &page, error);
    if (status == WEIR_OK) {
        status = store_status(store, 1, &answer, error);
    }
    if (status == WEIR_OK) {
        ret_pauses->group = field_is_true(json_array_get(json_object_get(page, "items"), 0), "paused");
        ret_pauses->queue = field_is_true(answer, "queue_paused");
    }
    json_decref(page);
    json_decref(answer);
    return status;
}

static void suggest_resume(struct output *output, const struct pauses *pauses, const char *group)
{
    char word[SHELL_WORD_MAX];
    if (pauses->queue || !pauses->group) {
        output_report(output, "now: weir resume");
    }
    if (pauses->group) {
        output_report(output, "now: weir resume --executor-group %s", shell_quote(group, word));
    }
}

/* True when the disk of the store is full: no node can write there, which is the cause of all else. */
static bool explain_full_disk(struct output *output, const json_t *why, const char *url)
{
    const char *state = field_text(output, why, "status");
    bool has_ended = state == NULL || json_is_string(json_object_get(why, "finished_at"));
    if (has_ended || !disk_is_full(url)) {
        return false;
    }
    output_print(output, "  disk             less than 1 MiB is free where the store is, so nodes may write nothing\n");
    output_report(output, "now: free some space where %s is", output_safe(output, disk_store_file(url)));
    return true;
}

/* The command that helps, by reason. */
static void suggest_command(struct output *output, const json_t *why, const struct pauses *pauses)
{
    const char *reason = field_text(output, why, "pending_reason");
    const char *workspace = field_text(output, why, "workspace");
    const char *id = field_text(output, why, "id");
    char word[SHELL_WORD_MAX];
    workspace = workspace != NULL ? workspace : "NAME";
    if (reason == NULL) {
        if (field_number(why, "nodes_live", -1) == 0) { /* its node is silent, and no other node can take it over */
            output_report(output, "now: weir serve --executor-group %s",
                          shell_quote(field_text(output, why, "executor_group"), word));
        } else if (field_text(output, why, "stuck_since") != NULL) {
            const char *step = first_unfinished_step(output, why);
            output_report(output, "now: weir logs %s%s%s", id != NULL ? id : "ID", step != NULL ? " --step " : "",
                          step != NULL ? shell_quote(step, word) : "");
        } else {
            suggest_end_of_wait(output, why);
        }
        return;
    }
    const json_t *left = first_left_holder(why);
    const char *paused = field_text(output, why, "paused_node");
    if (is_left_over(reason)) {
        if (holder_is_left(why)) {
            suggest_node(output, why);
        }
    } else if (strcmp(reason, "workspace_at_capacity") == 0 && left != NULL) {
        suggest_node(output, left);
    } else if (strcmp(reason, "workspace_at_capacity") == 0) {
        output_report(output, "now: weir workspace set %s --max-concurrent N", shell_quote(workspace, word));
    } else if (strcmp(reason, "workspace_paused") == 0) {
        output_report(output, "now: weir workspace resume %s", shell_quote(workspace, word));
    } else if (strcmp(reason, "queue_paused") == 0) {
        suggest_resume(output, pauses, field_text(output, why, "executor_group"));
    } else if (strcmp(reason, "no_worker") == 0 ||
               (strcmp(reason, "no_node_in_group") == 0 && paused == NULL && lacks_worker(why))) {
        output_report(output, "now: %s", worker_command(why));
    } else if (strcmp(reason, "no_node_in_group") == 0) {
        const char *group = field_text(output, why, "executor_group");
        const char *verb = paused != NULL ? "node resume " : group != NULL ? "serve --executor-group " : "serve";
        const char *name = paused != NULL ? paused : group;
        output_report(output, "now: weir %s%s", verb, name != NULL ? shell_quote(name, word) : "");
    } else if (strcmp(reason, "nodes_full") == 0) {
        const char *group = field_text(output, why, "executor_group");
        output_report(output, "now: weir serve --executor-group %s%s", group != NULL ? shell_quote(group, word) : "NAME",
                      json_array_size(json_object_get(why, "group_nodes")) > 0 ? ", with the handlers of its workflow"
                                                                               : "");
    } else if (strcmp(reason, "no_scheduler") == 0) {
        output_report(output, field_text(output, why, "lock_holder") != NULL       ? "now: weir lock list"
                              : field_text(output, why, "scheduler_error") != NULL ? "now: weir doctor"
                                                                                   : "now: weir serve");
    } else if (strcmp(reason, "no_node_for_engine") == 0) {
        const char *group = field_text(output, why, "executor_group");
        const char *needed = field_text(output, why, "engine_needed");
        bool is_started = field_text(output, why, "target") != NULL;
        output_report(output, "now: weir serve --executor-group %s, with %s%s",
                      group != NULL ? shell_quote(group, word) : "NAME",
                      is_started || needed == NULL ? "the engine and the service where it was started" : "engine: ",
                      is_started || needed == NULL ? "" : needed);
    } else if (strcmp(reason, "scheduled") == 0 || strcmp(reason, "backing_off") == 0) {
        output_report(output, "now: weir release %s", id != NULL ? id : "ID");
    }
}

/* Prints the state, the reason, its numbers and a command that helps. */
static void print_why(struct output *output, const json_t *why, const struct pauses *pauses, const char *url,
                      int64_t now_us)
{
    const char *state = field_text(output, why, "status");
    const char *reason = field_text(output, why, "pending_reason");
    const char *because = field_text(output, why, "because");
    const char *workspace = field_text(output, why, "workspace");
    const char *workflow = field_text(output, why, "workflow");
    if (pauses->group && !pauses->queue) {
        because = "its executor group is paused";
    }
    output_print(output, "%s %s %s", output_sign_coloured(output, output_state_sign(state)), field_text(output, why, "id"),
                 state);
    if (workspace != NULL) {
        output_print(output, ", %s", workspace);
    }
    if (workflow != NULL) {
        output_print(output, ", %s", workflow);
    }
    output_print(output, "\n");
    if (reason != NULL) {
        output_print(output, "  waiting because  %s%s%s\n", reason, because != NULL ? ": " : "",
                     because != NULL ? because : "");
    } else if (because != NULL) {
        const char *held_up_since = field_text(output, why, "held_up_since");
        output_print(output, "  %s\n", because);
        if (held_up_since != NULL) {
            output_print(output, "  since            %s (%s)\n", held_up_since, output_ago(output, held_up_since, now_us));
        }
    }
    print_numbers(output, why, now_us);
    if (!explain_full_disk(output, why, url)) {
        suggest_command(output, why, pauses);
    }
}

/* A step that waits for something that its node lacks is on record with the reason. `execution`: of store_show(). */
static bool add_waiting_step(const json_t *execution, json_t *why)
{
    size_t i;
    json_t *step;
    json_array_foreach(json_object_get(execution, "steps"), i, step)
    {
        const char *state = json_string_value(json_object_get(step, "status"));
        const char *code = json_string_value(json_object_get(step, "error_code"));
        const char *text = json_string_value(json_object_get(step, "error"));
        if (state != NULL && strcmp(state, step_state_name(STEP_WAITING)) == 0 && code != NULL &&
            (strcmp(code, STEP_SECRET_MISSING) == 0 || strcmp(code, STEP_NODE_SHORT) == 0)) {
            (void)json_object_set_new(why, "held_up_by", json_string(code));
            (void)json_object_set_new(why, "held_up_since", json_null());
            (void)json_object_set_new(why, "because", json_sprintf("a step waits: %s: %s", code, text != NULL ? text : ""));
            return true;
        }
    }
    return false;
}

/* A part that cannot be read leaves HELD_UP_BY_NOTHING: the rest of the answer stands without it. True when a step waits.
 */
static bool read_hold_up(const struct invocation *invocation, struct store *store, json_t *why,
                         struct temporal_hold_up *ret_hold_up)
{
    struct temporal_workflow workflow;
    json_t *execution = NULL;
    bool has_step = false;
    if (store_show(store, json_string_value(json_object_get(why, "id")), &execution, NULL) == WEIR_OK &&
        !(has_step = add_waiting_step(execution, why)) &&
        temporal_workflow_of(store, execution, &workflow, NULL) == WEIR_OK) {
        temporal_service_hold_up(invocation, json_string_value(json_object_get(why, "executor_group")), &workflow.execution,
                                 ret_hold_up);
    }
    json_decref(execution);
    return has_step;
}

/* An execution may wait inside of its service for a worker that can run it. The store has no record of that. */
static void add_hold_up(const struct invocation *invocation, struct store *store, json_t *why)
{
    const char *state = json_string_value(json_object_get(why, "status"));
    struct temporal_hold_up hold_up = {.by = HELD_UP_BY_NOTHING};
    char since[TIME_TEXT_MAX];
    if (state != NULL && strcmp(state, item_state_name(ITEM_DISPATCHED)) == 0) {
        if (read_hold_up(invocation, store, why, &hold_up)) {
            return;
        }
    }
    time_format(hold_up.since_us, since);
    bool is_held_up = hold_up.by != HELD_UP_BY_NOTHING;
    (void)json_object_set_new(why, "held_up_by", is_held_up ? json_string(held_up_name(hold_up.by)) : json_null());
    (void)json_object_set_new(why, "held_up_since", is_held_up && hold_up.since_us > 0 ? json_string(since) : json_null());
    if (is_held_up) {
        (void)json_object_set_new(why, "because", json_string(hold_up.text));
    }
}

/* The reason of the first open child says more than that its parent waits: what holds the child up holds up the parent,
 * too. A child that ends meanwhile has none, and a store that does not answer is no failure of the parent's own answer. */
static void add_child_reasons(struct store *store, json_t *why)
{
    size_t i;
    json_t *step;
    json_array_foreach(json_object_get(why, "unfinished_steps"), i, step)
    {
        json_t *child = NULL;
        const char *id = json_string_value(json_object_get(step, "oldest_child_id"));
        if (id != NULL && store_why(store, id, &child, NULL) == WEIR_OK) {
            (void)json_object_set(step, "oldest_child_because", json_object_get(child, "because"));
            json_decref(child);
        }
    }
}

static enum weir_status check_why_subject(const struct invocation *invocation, struct weir_error *error)
{
    int subjects =
        (invocation->argument_count > 0) + invocation_has(invocation, "workspace") + invocation_has(invocation, "last");
    if (subjects == 1) {
        return WEIR_OK;
    }
    return invocation_usage_error(invocation, error, "`weir why` needs %s",
                                  subjects == 0 ? "an id, --last, or --workspace NAME (-w)"
                                                : "one of an id, --last and --workspace, not both");
}

/* The workspace of -w, or the one that the argument names. *ret_name stays NULL for an execution: an id counts first. */
static enum weir_status find_why_workspace(const struct invocation *invocation, struct store *store, const char **ret_name,
                                           struct weir_error *error)
{
    const char *subject = invocation_argument(invocation, 0);
    json_t *page = NULL;
    if (subject == NULL && !invocation_has(invocation, "last")) {
        *ret_name = invocation_text(invocation, "workspace");
        return WEIR_OK;
    }
    if (subject == NULL || uuid_is_valid(subject)) {
        return WEIR_OK;
    }
    enum weir_status status = page_read(store, LIST_WORKSPACES, subject, &page, error);
    if (status == WEIR_OK && page_size(page) > 0) {
        *ret_name = subject;
    }
    json_decref(page);
    return status;
}

enum weir_status verb_why(struct invocation *invocation, struct weir_error *error)
{
    struct store *store = NULL;
    json_t *why = NULL;
    struct pauses pauses = {.queue = false};
    int64_t now_us = 0;
    const char *workspace = NULL;
    const char *id = NULL;
    char last[UUID_TEXT_MAX];
    enum weir_status status = check_why_subject(invocation, error);
    if (status == WEIR_OK) {
        status = verb_open_store(invocation, STORE_READ, &store, error);
    }
    if (status == WEIR_OK) {
        status = find_why_workspace(invocation, store, &workspace, error);
    }
    if (status == WEIR_OK && workspace != NULL) {
        status = why_workspace(invocation, store, workspace, error);
        store_close(store);
        return status;
    }
    if (status == WEIR_OK) {
        status = execution_id_or_last(invocation, store, last, &id, error);
    }
    if (status == WEIR_OK) {
        status = store_why(store, id, &why, error);
    }
    if (status == WEIR_OK) {
        add_hold_up(invocation, store, why);
        add_child_reasons(store, why);
        status = store_time(store, &now_us, error);
    }
    if (status == WEIR_OK) {
        status = read_pauses(store, why, &pauses, error);
    }
    if (status == WEIR_OK && !output_object(invocation->output, why)) {
        print_why(invocation->output, why, &pauses, store_url(store), now_us);
    }
    json_decref(why);
    store_close(store);
    return status;
}
