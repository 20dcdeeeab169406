/* The checks of `weir doctor` about nodes: whether they live, accept work, schedule, and agree on where executions run.
 *
 * The rows of nodes are read once. Some answers come from the status that the doctor has read before. Every check only
 * reads. One thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/shell_quote.h"
#include "cli/output/json_fields.h"
#include "cli/verbs/doctor.h"
#include "cli/verbs/no_worker.h"
#include "cli/verbs/role.h"
#include "cli/verbs/store_pages.h"

/* `paused` names a live node that claims nothing by order of an operator; NULL when there is none. */
static void report_nodes(struct doctor *doctor, int64_t alive, int64_t claiming, const char *paused)
{
    enum sign sign = field_number(doctor->status, "pending", 0) > 0 ? SIGN_BAD : SIGN_WARN;
    int64_t unserved = field_number(json_object_get(doctor->status, "pending_reasons"), "no_node_in_group", 0);
    char word[SHELL_WORD_MAX];
    if (alive == 0) {
        report_check(doctor, sign, "nodes", "none alive, so no execution starts; run `weir serve`");
    } else if (claiming == 0) {
        report_check(doctor, sign, "nodes",
                     "%" PRId64 " alive, none accepts work (`weir node list`), so no execution starts; run `weir %s%s`",
                     alive, paused != NULL ? "node resume " : "serve", paused != NULL ? shell_quote(paused, word) : "");
    } else if (unserved > 0) {
        report_check(doctor, SIGN_WARN, "nodes",
                     "%" PRId64 " alive, but none accepts work for %" PRId64 " waiting execution%s:"
                     " `weir list --where pending_reason=no_node_in_group`",
                     alive, unserved, unserved == 1 ? "" : "s");
    } else {
        report_check(doctor, SIGN_FINE, "nodes", "%" PRId64 " alive", alive);
    }
}

/* Handlers that no live node has, for each workflow that waits for them. */
static void report_missing_workers(struct doctor *doctor)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(doctor->status, "no_worker"), i, row)
    {
        char text[WORKER_TEXT_MAX];
        int64_t waiting = field_number(row, "waiting", 0);
        worker_text(doctor->invocation->output, row, doctor->now_us, text);
        report_check(doctor, SIGN_BAD, "worker", "%" PRId64 " execution%s of %s wait%s: %s; %s", waiting,
                     waiting == 1 ? "" : "s", field_text(doctor->invocation->output, row, "workflow"),
                     waiting == 1 ? "s" : "", text, worker_command(row));
    }
}

/* Once per name. */
static void report_namesakes(struct doctor *doctor, const json_t *nodes)
{
    size_t i;
    size_t k;
    json_t *node;
    json_t *other;
    json_array_foreach(nodes, i, node)
    {
        size_t before = 0;
        size_t count = 0;
        json_array_foreach(nodes, k, other)
        {
            bool is_namesake = row_node_is_live(node) && row_node_is_live(other) &&
                               json_equal(json_object_get(node, "name"), json_object_get(other, "name"));
            before += is_namesake && k < i;
            count += is_namesake;
        }
        if (count > 1 && before == 0) {
            report_check(doctor, SIGN_WARN, "node", "%zu live nodes have the name %s: give each a --node of its own", count,
                         field_text(doctor->invocation->output, node, "name"));
        }
    }
}

/* A live node without the role, with failing calls of the store, starts nothing of what it is assigned. One whose reports
 * are refused keeps the slots of executions that have ended. */
static void report_failing_node(struct doctor *doctor, const json_t *node)
{
    struct output *output = doctor->invocation->output;
    const char *since = field_text(output, node, "dispatch_failing_since");
    if (since != NULL && !field_is_true(node, "schedules")) {
        report_check(doctor, SIGN_BAD, "node", "%s has started nothing for %s: %s", field_text(output, node, "name"),
                     output_age(output, since, doctor->now_us), field_error(output, node, "dispatch_error"));
    }
    since = field_text(output, node, "record_failing_since");
    if (since != NULL) {
        report_check(
            doctor, SIGN_BAD, "records",
            "%s has held reports that the store refuses for %s, and the slots of their executions: %s. Mend the cause;"
            " `record.refused` in its log names the executions",
            field_text(output, node, "name"), output_age(output, since, doctor->now_us),
            field_error(output, node, "record_error"));
    }
}

/* A free role is a problem only when executions wait and live nodes do not take it. */
static void report_free_role(struct doctor *doctor, int64_t alive, const char *text)
{
    bool is_needed = field_number(doctor->status, "pending", 0) > 0;
    bool is_long = role_free_us(json_object_get(doctor->status, "scheduler"), doctor->now_us) > ROLE_FREE_LONG_US;
    if (alive == 0 && !is_needed) {
        report_check(doctor, SIGN_FINE, "scheduler", "%s; no node is alive, and no execution waits", text);
    } else if (alive == 0) {
        report_check(doctor, SIGN_WARN, "scheduler", "%s; no execution starts; run `weir serve`", text);
    } else if (!is_long) {
        report_check(doctor, SIGN_WARN, "scheduler",
                     "%s; no execution starts until a live node takes the role, usually within 3 s", text);
    } else {
        report_check(
            doctor, is_needed ? SIGN_BAD : SIGN_WARN, "scheduler",
            "%s; no execution starts. The live nodes do not take the role: they stop (`weir node list`) or do not reach"
            " the store (`store.failed` in their logs); run `weir serve`",
            text);
    }
}

/* The role of the scheduler, by the first rule that applies. */
static void check_scheduler(struct doctor *doctor, int64_t alive)
{
    const json_t *scheduler = json_object_get(doctor->status, "scheduler");
    struct output *output = doctor->invocation->output;
    const char *text = role_text(output, scheduler, doctor->now_us);
    const char *why = field_text(output, scheduler, "why");
    switch (role_health(scheduler)) {
    case ROLE_IS_FREE:
        report_free_role(doctor, alive, text);
        break;
    case ROLE_FAILS:
        report_check(
            doctor, SIGN_BAD, "scheduler",
            "%s; no execution starts. Mend the cause in the store: the node tries again each second, and `store.failed`"
            " in its log names each call that fails",
            text);
        break;
    case ROLE_AWAITS_LOCK:
        report_check(
            doctor, field_number(doctor->status, "pending", 0) > 0 ? SIGN_BAD : SIGN_WARN, "scheduler",
            "%s; no execution starts before. If its holder is gone: `weir lock release processExecutionQueue --yes`", text);
        break;
    case ROLE_MOVES:
        report_check(
            doctor, SIGN_WARN, "scheduler",
            "%s; %" PRId64 " takeovers in the last hour, the last one because %s: look for `scheduler.lost` in the logs of"
            " the nodes, for restarts (`weir node list --all`), and for machines that pause for 3 s",
            text, field_number(scheduler, "takeovers_hour", 0), why != NULL ? why : "of a cause that is not on record");
        break;
    case ROLE_IS_BEHIND:
        report_check(doctor, SIGN_WARN, "scheduler",
                     "%s: the counters are that old, and new work starts late; check the processor of that node and the "
                     "store's calls (`weir_store_call_duration_seconds`)",
                     text);
        break;
    case ROLE_IS_FINE:
        report_check(doctor, SIGN_FINE, "scheduler", "%s", text);
        break;
    }
}

/* The engine as the nodes report it. */
static void report_engine(struct doctor *doctor)
{
    struct output *output = doctor->invocation->output;
    bool is_up = field_is_true(doctor->status, "engine_reachable");
    const char *engine_error = field_text(output, doctor->status, "engine_error");
    const char *impaired = field_text(output, doctor->status, "engine_impaired_since");
    const char *away = field_text(output, doctor->status, "engine_unreachable_since");
    if (!is_up) {
        report_check(doctor, SIGN_BAD, "engine", "not reachable from some node%s%s%s%s", away != NULL ? " since " : "",
                     away != NULL ? away : "", engine_error != NULL ? ": " : "", engine_error != NULL ? engine_error : "");
    } else if (impaired != NULL) {
        report_check(doctor, SIGN_BAD, "engine", "a node detects ends late, since %s: %s", impaired,
                     field_error(output, doctor->status, "engine_error"));
    } else {
        report_check(doctor, SIGN_FINE, "engine", "reachable from every node");
    }
}

/* --- where executions run --- */

static void read_node_target(const json_t *node, char *to)
{
    static const char *const keys[] = {"engine", "engine_service", "engine_namespace", "engine_address"};
    struct engine_target target = {.engine = ""};
    char *const texts[] = {target.engine, target.service, target.namespace_name, target.address};
    static const size_t sizes[] = {sizeof target.engine, sizeof target.service, sizeof target.namespace_name,
                                   sizeof target.address};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *text = json_string_value(json_object_get(node, keys[i]));
        text_copy(texts[i], sizes[i], text == NULL ? "" : text);
    }
    engine_target_text(&target, to);
}

/* Whether the node may get items and has reported its target. */
static bool has_target(const json_t *node)
{
    const char *state = json_string_value(json_object_get(node, "state"));
    return json_is_string(json_object_get(node, "engine_service")) && strcmp(state, "expired") != 0 &&
           strcmp(state, "dead") != 0 && strcmp(state, "stopped") != 0;
}

static bool has_same_field(const json_t *a, const json_t *b, const char *key)
{
    return json_equal(json_object_get(a, key), json_object_get(b, key));
}

/* Once per group: its nodes have different targets, so one node cannot take over an execution of another. */
static void report_mixed_groups(struct doctor *doctor, const json_t *nodes)
{
    struct output *output = doctor->invocation->output;
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        bool is_reported = !has_target(node);
        for (size_t k = 0; k < i; k++) { /* the group was compared by its first node */
            const json_t *other = json_array_get(nodes, k);
            is_reported = is_reported || (has_target(other) && has_same_field(node, other, "executor_group"));
        }
        for (size_t k = i + 1; k < json_array_size(nodes) && !is_reported; k++) {
            const json_t *other = json_array_get(nodes, k);
            if (has_target(other) && has_same_field(node, other, "executor_group") &&
                !(has_same_field(node, other, "engine") && has_same_field(node, other, "engine_service"))) {
                char one[TARGET_TEXT_MAX];
                char two[TARGET_TEXT_MAX];
                read_node_target(node, one);
                read_node_target(other, two);
                report_check(doctor, SIGN_WARN, "targets",
                             "the nodes of group %s run its executions in different places: %s; %s. No node can take over "
                             "an execution that another place runs: give each place an executor group of its own",
                             field_text(output, node, "executor_group"), output_safe(output, one),
                             output_safe(output, two));
                is_reported = true;
            }
        }
    }
}

enum { UNREACHABLE_MOST = 20 };

/* Once per target: executions were started in a place that no live node can reach. The line names both places. */
enum weir_status doctor_check_targets(struct doctor *doctor, struct weir_error *error)
{
    struct list_options unreachable = {
        .kind = LIST_EXECUTIONS,
        .filter = {.reason = pending_reason_name(REASON_NO_NODE_FOR_ENGINE), .states = 1U << ITEM_CLAIMED},
        .limit = UNREACHABLE_MOST,
    };
    struct output *output = doctor->invocation->output;
    json_t *page = NULL;
    json_t *reported = json_object();
    size_t i;
    json_t *item;
    enum weir_status status = store_list(doctor->store, &unreachable, &page, error);
    json_array_foreach(json_object_get(page, "items"), i, item)
    {
        json_t *why = NULL;
        if (status == WEIR_OK) {
            status = store_why(doctor->store, json_string_value(json_object_get(item, "id")), &why, error);
        }
        const char *target = status == WEIR_OK ? field_text(output, why, "target") : NULL;
        if (target != NULL && json_object_get(reported, target) == NULL) {
            const char *other = json_string_value(json_array_get(json_object_get(why, "group_targets"), 0));
            (void)json_object_set_new(reported, target, json_true());
            report_check(doctor, SIGN_BAD, "targets",
                         "%s and perhaps more executions hold their slots, and no node can learn of their end: started in "
                         "%s; the nodes of group %s have %s. Run a node with the settings of the first place",
                         field_text(output, why, "id"), target, field_text(output, why, "executor_group"),
                         other != NULL ? output_safe(output, other) : "none");
        }
        json_decref(why);
    }
    json_decref(reported);
    json_decref(page);
    return status;
}

/* Counts the nodes by their state, and reports dead nodes that still hold items. */
enum weir_status doctor_check_nodes(struct doctor *doctor, struct weir_error *error)
{
    struct output *output = doctor->invocation->output;
    json_t *page = NULL;
    size_t i;
    json_t *node;
    int64_t alive = 0;
    int64_t claiming = 0;
    const char *paused = NULL;
    enum weir_status status = page_read(doctor->store, LIST_NODES, NULL, &page, error);
    if (status != WEIR_OK) {
        return status;
    }
    json_array_foreach(json_object_get(page, "items"), i, node)
    {
        const char *state = field_text(output, node, "state");
        const char *name = field_text(output, node, "name");
        bool is_gone = strcmp(state, "expired") == 0 || strcmp(state, "dead") == 0;
        if (!is_gone) {
            bool claims = strcmp(state, "alive") == 0;
            report_failing_node(doctor, node);
            bool lives = claims || strcmp(state, "stopped") != 0;
            alive += lives;
            claiming += claims;
            bool resumes = strcmp(state, "paused") == 0 || strcmp(state, "draining") == 0;
            bool is_ordered = strcmp(field_text(output, node, "desired_state"), "run") != 0;
            paused = resumes && is_ordered ? name : paused;
        } else if (field_number(node, "holds", 0) > 0) {
            report_check(doctor, SIGN_BAD, "node",
                         "%s is %s, last seen %s, and holds %" PRId64 " execution%s that no node has taken over", name,
                         state, output_ago(output, field_text(output, node, "seen_at"), doctor->now_us),
                         field_number(node, "holds", 0), field_number(node, "holds", 0) == 1 ? "" : "s");
        }
    }
    report_namesakes(doctor, json_object_get(page, "items"));
    report_mixed_groups(doctor, json_object_get(page, "items"));
    json_decref(page);
    report_nodes(doctor, alive, claiming, paused);
    report_missing_workers(doctor);
    check_scheduler(doctor, alive);
    if (alive > 0) {
        report_engine(doctor);
    }
    return WEIR_OK;
}
