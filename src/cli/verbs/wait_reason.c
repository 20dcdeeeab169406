/* One pending reason for a whole workspace, for tables with a line for each workspace.
 *
 * It takes a row of store_status() and applies the same order of reasons as `weir why`, as far as counts show it. That
 * order is scheduled, paused, no node, engine away, no scheduler, at capacity, nodes full, ready. It makes no call of
 * the store.
 * Pure; one thread.
 */
#include "cli/verbs/wait_reason.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/output/json_fields.h"
#include "queue/item.h"

const char *wait_reason_of_workspace(const json_t *status, const json_t *workspace)
{
    int64_t pending = field_number(workspace, "pending", 0);
    if (pending == 0) {
        return NULL;
    }
    if (pending <= field_number(workspace, "delayed", 0)) {
        return pending_reason_name(REASON_SCHEDULED);
    }
    if (field_is_true(workspace, "paused")) {
        return pending_reason_name(REASON_WORKSPACE_PAUSED);
    }
    if (field_is_true(status, "queue_paused")) {
        return pending_reason_name(REASON_QUEUE_PAUSED);
    }
    if (field_number(status, "nodes", 0) == 0) {
        return pending_reason_name(REASON_NO_NODE_IN_GROUP);
    }
    if (!field_is_true(status, "engine_reachable")) {
        return pending_reason_name(REASON_ENGINE_UNREACHABLE);
    }
    const json_t *scheduler = json_object_get(status, "scheduler");
    if (field_is_true(scheduler, "is_free") || json_is_string(json_object_get(scheduler, "lock_awaited_since")) ||
        json_is_string(json_object_get(scheduler, "failing_since"))) {
        return pending_reason_name(REASON_NO_SCHEDULER);
    }
    bool is_full = field_number(workspace, "slots_used", 0) >= field_number(workspace, "slots_max", 0);
    const json_t *reasons = json_object_get(status, "pending_reasons");
    bool has_room = field_number(reasons, "ready", 0) > 0 || field_number(reasons, "nodes_full", 0) == 0;
    return pending_reason_name(is_full ? REASON_WORKSPACE_AT_CAPACITY : has_room ? REASON_READY : REASON_NODES_FULL);
}

const char *wait_reason_slot_bar(struct output *output, const json_t *workspace)
{
    int64_t used = field_number(workspace, "slots_used", 0);
    int64_t most = field_number(workspace, "slots_max", 0);
    int64_t cells = most <= SLOT_BAR_CELLS ? used : (used * SLOT_BAR_CELLS + most - 1) / most;
    const char *cell = output->utf8 ? "█" : "#";
    char text[SLOT_BAR_CELLS * 4 + 64] = "";
    size_t length = 0;
    for (int64_t i = 0; i < cells && i < SLOT_BAR_CELLS; i++) {
        length += (size_t)snprintf(text + length, sizeof text - length, "%s", cell);
    }
    (void)snprintf(text + length, sizeof text - length, "%s%" PRId64 "/%" PRId64, length > 0 ? " " : "", used, most);
    const char *kept = arena_copy_string(output->arena, text);
    return kept == NULL ? "" : kept;
}
