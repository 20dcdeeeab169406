/* Every changed row, in order, through triggers; replayed into a model of the queue.
 *
 * The triggers write to a table of the test's own, inside the transaction that changes the row. So nothing that happens
 * between two looks can hide: a state that lasted for one statement is seen as well. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "simulation/simulation.h"

enum {
    COLUMN_SEQ,
    COLUMN_WHAT,
    COLUMN_ID,
    COLUMN_STATUS,
    COLUMN_WORKSPACE,
    COLUMN_LANE,
    COLUMN_NODE,
    COLUMN_FENCE,
    COLUMN_PHASE,
    COLUMN_RANK,
    COLUMN_DUE,
    COLUMN_RUN_AT,
    COLUMN_PRIORITY,
    COLUMN_STARTS_REFUSED,
    COLUMN_DEFERRALS,
    COLUMN_HANDOVERS,
    COLUMN_CANCEL,
    COLUMN_WAITING_FOR,
    COLUMN_EXTRA
};

/* --- finding --- */

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * 1099511628211ULL;
    }
    return hash;
}

void trace_mix(struct simulation *simulation, const char *text, int64_t number)
{
    uint64_t hash = hash_text(simulation->result->trace, text == NULL ? "-" : text);
    simulation->result->trace = (hash ^ (uint64_t)number) * 1099511628211ULL + 0x9E3779B97F4A7C15ULL;
}

static size_t find_bucket(const struct simulation *simulation, const char *id)
{
    size_t at = hash_text(14695981039346656037ULL, id) & (simulation->bucket_count - 1);
    while (simulation->buckets[at] != 0 && strcmp(simulation->items[simulation->buckets[at] - 1].id, id) != 0) {
        at = (at + 1) & (simulation->bucket_count - 1);
    }
    return at;
}

struct model_item *observer_find(struct simulation *simulation, const char *id)
{
    uint32_t index = simulation->bucket_count == 0 ? 0 : simulation->buckets[find_bucket(simulation, id)];
    return index == 0 ? NULL : &simulation->items[index - 1];
}

static struct model_item *add_item(struct simulation *simulation, const char *id)
{
    if (simulation->item_count == simulation->item_capacity) {
        simulation->item_capacity = simulation->item_capacity == 0 ? 512 : simulation->item_capacity * 2;
        simulation->bucket_count = simulation->item_capacity * 2;
        simulation->items = realloc(simulation->items, simulation->item_capacity * sizeof *simulation->items);
        free(simulation->buckets);
        simulation->buckets = calloc(simulation->bucket_count, sizeof *simulation->buckets);
        INVARIANT(simulation->items != NULL && simulation->buckets != NULL);
        for (size_t i = 0; i < simulation->item_count; i++) {
            simulation->buckets[find_bucket(simulation, simulation->items[i].id)] = (uint32_t)i + 1;
        }
    }
    size_t bucket = find_bucket(simulation, id);
    struct model_item *item = &simulation->items[simulation->item_count++];
    memset(item, 0, sizeof *item);
    item->run_place = -1;
    item->mode_key = -1;
    item->woken_by_children = -1;
    text_copy(item->id, sizeof item->id, id);
    simulation->buckets[bucket] = (uint32_t)simulation->item_count;
    return item;
}

static int group_of_lane(struct simulation *simulation, int64_t row_id)
{
    int group = -1;
    question_ask_number(simulation->read_group, lane_group_id(row_id));
    if (question_next(simulation->read_group)) {
        group = strcmp(question_text(simulation->read_group, 0), group_names[0]) == 0 ? 0 : 1;
    }
    question_end(simulation->read_group);
    INVARIANT(group >= 0);
    return group;
}

/* A lane is there with its first item. */
static struct model_lane *find_lane(struct simulation *simulation, int64_t row_id, int workspace)
{
    for (size_t i = 0; i < simulation->lane_count; i++) {
        if (simulation->lanes[i].row_id == row_id) {
            return &simulation->lanes[i];
        }
    }
    INVARIANT(simulation->lane_count < LANES_MOST);
    struct model_lane *lane = &simulation->lanes[simulation->lane_count++];
    *lane = (struct model_lane){.row_id = row_id, .workspace = workspace, .group = group_of_lane(simulation, row_id)};
    lane->pool = 2 * lane->group + (lane_is_on_temporal(row_id) ? 1 : 0);
    if (simulation->profile.has_sets) {
        handlers_note_lane(simulation, lane);
    }
    return lane;
}

const struct model_lane *observer_lane(const struct simulation *simulation, const struct model_item *item)
{
    size_t i = 0;
    while (simulation->lanes[i].row_id != item->lane_id) {
        i++;
        INVARIANT(i < simulation->lane_count);
    }
    return &simulation->lanes[i];
}

int observer_workspace(const struct simulation *simulation, int64_t row_id)
{
    for (int i = 0; i < simulation->profile.workspaces; i++) {
        if (simulation->workspaces[i].row_id == row_id) {
            return i;
        }
    }
    return -1;
}

/* --- the books --- */

/* Takes the item out of the counts in which its row is, or puts it in. */
static void count_row(struct simulation *simulation, const struct model_item *item, int by)
{
    struct model_workspace *workspace = &simulation->workspaces[item->workspace];
    struct model_lane *lane = find_lane(simulation, item->lane_id, item->workspace);
    workspace->held += item->phase == 2 ? by : 0;
    lane->runnable += item->phase == 0 ? by : 0;
    lane->waiting += item->phase == 1 ? by : 0;
    lane->parked += item->phase == 3 ? by : 0;
    lane->held += item->phase == 2 ? by : 0;
}

static void take_columns(struct model_item *item, const struct change *change)
{
    if (change->phase == 0 && (item->phase != 0 || item->runnable_since == 0)) {
        item->runnable_since = change->seq;
    }
    item->lane_id = change->lane_id;
    item->node_id = change->node_id;
    item->fence = change->fence;
    item->phase = change->phase;
    item->has_reason = change->has_reason;
    text_copy(item->waiting_for, sizeof item->waiting_for, change->has_reason ? change->waiting_for : "");
    item->rank = change->rank;
    item->due_at = change->due_at;
    item->run_at = change->run_at;
    item->priority = change->priority;
    item->starts_refused = change->starts_refused;
    item->deferrals = change->deferrals;
    item->handovers = change->handovers;
    item->cancel_asked = item->cancel_asked || change->cancel;
}

/* --- changes --- */

static void key_is_used(struct simulation *simulation, const struct model_item *item)
{
    for (size_t i = 0; item->key[0] != '\0' && item->mode_key < 0 && i < simulation->item_count; i++) {
        const struct model_item *other = &simulation->items[i];
        if (other != item && other->place != PLACE_PURGED && other->workspace == item->workspace &&
            strcmp(other->key, item->key) == 0) {
            fail(simulation, ONE_ITEM_PER_KEY, "%s and %s both have the key %s of %s", other->id, item->id, item->key,
                 simulation->workspaces[item->workspace].name);
        }
    }
}

/* The text behind the prefix, or NULL. */
static const char *text_after(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

static void row_appeared(struct simulation *simulation, const struct change *change)
{
    struct model_item *item = observer_find(simulation, change->id);
    bool is_repeated = simulation->options.store == SIMULATED_POSTGRES && strcmp(simulation->verb, "enqueue") == 0;
    if (item != NULL) {
        item->is_inserted_again = is_repeated && item->place == PLACE_ENDED;
        if (!item->is_inserted_again) {
            fail(simulation, THE_END_IS_FINAL, "%s is back in the queue", change->id);
        }
        return;
    }
    item = add_item(simulation, change->id);
    item->workspace = observer_workspace(simulation, change->workspace_id);
    INVARIANT(item->workspace >= 0);
    item->state = ITEM_PENDING;
    item->has_row = true;
    item->changed_us = simulation->boot_us;
    item->entered = change->seq;
    take_columns(item, change);
    const char *retry_of = change->extra == NULL ? NULL : text_after(change->extra, "retry of ");
    bool is_scheduled = change->extra != NULL && text_after(change->extra, SCHEDULE_KEY_PREFIX) != NULL;
    bool has_key = change->extra != NULL && retry_of == NULL && !is_scheduled;
    text_copy(item->key, sizeof item->key, has_key ? change->extra : "");
    keys_note_item(simulation, item, retry_of);
    if (is_scheduled) {
        schedules_note_item(simulation, item);
    }
    if (simulation->profile.has_children) {
        children_note_item(simulation, item);
    }
    count_row(simulation, item, 1);
    if (simulation->profile.has_sets) {
        handlers_note_item(simulation, item);
    }
    key_is_used(simulation, item);
    if (strcmp(change->status, "PENDING") != 0 || change->rank != item_rank(change->run_at, change->priority)) {
        fail(simulation, THE_MODEL_HOLDS, "%s begins as %s with rank %lld", item->id, change->status,
             (long long)change->rank);
    }
}

static const char *place_word(enum item_place place)
{
    static const char *const words[] = {"live", "ended", "purged", "gone"};
    return words[place];
}

/* Only its own holder may write to a held row, except for handing it over. */
static void check_writer(struct simulation *simulation, const struct model_item *item, const struct change *change)
{
    bool handed_over = change->node_id == 0 && change->fence > item->fence;
    bool asked_only = change->node_id == item->node_id && change->fence == item->fence && change->phase == item->phase &&
                      strcmp(change->status, item_state_name(item->state)) == 0;
    if (item->phase != 2 || asked_only) {
        return;
    }
    if (strcmp(simulation->verb, "record") == 0) {
        for (size_t i = 0; i < simulation->record_count; i++) {
            if (strcmp(simulation->records[i].id, item->id) == 0 && simulation->records[i].fence == item->fence) {
                return;
            }
        }
        fail(simulation, STALE_FENCES_ARE_DEAF, "%s was changed by a record that has not its fence %lld", item->id,
             (long long)item->fence);
    } else if (item->node_id == 0 &&
               (strcmp(simulation->verb, "schedule") == 0 || strcmp(simulation->verb, "recover") == 0)) {
        return; /* taken over, or ended as poison */
    } else if (!handed_over || (strcmp(simulation->verb, "recover") != 0 && strcmp(simulation->verb, "node_stop") != 0)) {
        fail(simulation, STALE_FENCES_ARE_DEAF, "%s is held by node %lld and was changed by %s", item->id,
             (long long)item->node_id, simulation->verb);
    }
}

/* A parked item is changed by its wake, when it is due, and by the cancel and the wake of a client. A client may also have
 * woken a step that waits on record before the park; then the record of the park wakes the item. The duty of children does
 * both as well. */
static void check_wake(struct simulation *simulation, struct model_item *item, enum item_state to)
{
    bool is_by_scheduler = strcmp(simulation->verb, "schedule") == 0 && to == ITEM_PENDING;
    bool is_cancel = to == ITEM_CANCELLED && (simulation->actor == OUTSIDE || schedules_may_cancel(simulation, item) ||
                                              children_may_cancel(simulation, item));
    if (item->state != ITEM_WAITING || is_cancel) {
        return;
    }
    bool is_by_client =
        simulation->actor == OUTSIDE || strcmp(simulation->verb, "record") == 0 || children_may_wake(simulation, item);
    if (item->wake_asked && is_by_client && (to == ITEM_PENDING || to == ITEM_WAITING)) { /* the second counts the signal */
        world_end_wait(simulation, item->id);
    } else if (!is_by_scheduler) {
        fail(simulation, THE_MODEL_HOLDS, "%s waits and was changed by %s to %s", item->id, simulation->verb,
             item_state_name(to));
    } else if (simulation->profile.clock_step == 0 && item->due_at > observer_store_time(simulation)) {
        fail(simulation, THE_MODEL_HOLDS, "%s was woken %lld us before it was due", item->id,
             (long long)(item->due_at - observer_store_time(simulation)));
    }
}

static void note_park(struct simulation *simulation, struct model_item *item, const struct change *change)
{
    const struct scripted_entry *entry = world_engine_entry(simulation, item->id);
    item->parks++;
    item->run_place = -1;
    story_note(item, "park", item->node_id, item->fence);
    if (entry != NULL && entry->runs_open > 0) {
        fail(simulation, ONE_RUN_PER_ITEM, "%s was parked while it runs", item->id);
    }
    if (change->starts_refused != 0 || change->deferrals != 0) {
        fail(simulation, THE_MODEL_HOLDS, "%s was parked with %d refused starts and %d deferrals", item->id,
             change->starts_refused, change->deferrals);
    }
}

static void note_move(struct simulation *simulation, struct model_item *item, enum item_state to,
                      const struct change *change)
{
    if (item->state == ITEM_PENDING && to == ITEM_CLAIMED) {
        item->claims++;
        story_note(item, "claim", change->node_id, change->fence);
        check_place(simulation, item, change->node_id);
        check_claim(simulation, item, change->node_id, change->fence);
    } else if (item->state == ITEM_CLAIMED && to == ITEM_DISPATCHED) {
        story_note(item, "dispatch", change->node_id, change->fence);
    } else if (item->state == ITEM_CLAIMED && to == ITEM_PENDING) {
        bool counted = change->starts_refused > item->starts_refused;
        item->put_backs += counted;
        item->run_place = -1;
        item->releases += !counted;
        story_note(item,
                   counted                               ? "retry"
                   : change->deferrals > item->deferrals ? "defer"
                                                         : "put_back",
                   item->node_id, item->fence);
        const struct scripted_entry *entry = world_engine_entry(simulation, item->id);
        if (entry != NULL && entry->runs_open > 0) {
            fail(simulation, ONE_RUN_PER_ITEM, "%s was put back while it runs", item->id);
        }
    } else if (to == ITEM_WAITING && item->state != ITEM_WAITING) {
        if (item->state == ITEM_CLAIMED) { /* the record of the park has its start */
            story_note(item, "dispatch", item->node_id, item->fence);
        }
        note_park(simulation, item, change);
    } else if (item->state == ITEM_WAITING && to == ITEM_PENDING) {
        item->wakes++;
        story_note(item, "wake", 0, item->fence);
    } else if (item->node_id != 0 && change->node_id == 0) {
        item->hand_overs += change->handovers > item->handovers;
        item->give_backs += change->handovers == item->handovers;
        /* An item that a node gives back itself is reported under its own fence. */
        bool by_itself = strcmp(simulation->verb, "record") == 0;
        story_note(item, change->handovers > item->handovers ? "hand_over" : "give_back", item->node_id,
                   by_itself ? item->fence : change->fence);
    } else if (item->node_id == 0 && change->node_id != 0) {
        item->take_overs++;
        note_take_over(simulation, item, change->node_id);
        check_place(simulation, item, change->node_id);
        story_note(item, "claim", change->node_id, change->fence);
    }
}

/* The three counters only grow, one at a time; what waits for its turn is not put off; starts_refused have their bound. */
static void check_counters_of(struct simulation *simulation, const struct model_item *item, enum item_state to,
                              const struct change *change)
{
    int grown = (change->starts_refused - item->starts_refused) + (change->deferrals - item->deferrals) +
                (change->handovers - item->handovers);
    bool parks = item->state != ITEM_WAITING && to == ITEM_WAITING; /* that forgets what was before */
    if (((change->starts_refused < item->starts_refused || change->deferrals < item->deferrals) && !parks) ||
        change->handovers < item->handovers || grown > 1 || (grown == 1 && item->phase != 2)) {
        fail(simulation, THE_MODEL_HOLDS, "the counters of %s went from %d/%d/%d to %d/%d/%d", item->id,
             item->starts_refused, item->deferrals, item->handovers, change->starts_refused, change->deferrals,
             change->handovers);
    }
    if (change->starts_refused >= simulation->profile.starts_max) {
        fail(simulation, THE_MODEL_HOLDS, "%s waits for its start number %d of %d", item->id, change->starts_refused + 1,
             simulation->profile.starts_max);
    }
    if (item->state == ITEM_PENDING && to == ITEM_PENDING && item->phase == 0 && change->phase == 1) {
        fail(simulation, NOBODY_STARVES, "%s was put off by %s though nobody had claimed it", item->id, simulation->verb);
    }
}

static void row_changed(struct simulation *simulation, const struct change *change)
{
    struct model_item *item = observer_find(simulation, change->id);
    enum item_state to = ITEM_PENDING;
    if (item == NULL || item->place != PLACE_LIVE || !item_state_parse(change->status, &to)) {
        fail(simulation, THE_END_IS_FINAL, "%s changed to %s though it is %s", change->id, change->status,
             item == NULL ? "unknown" : place_word(item->place));
        return;
    }
    if (to != item->state && !item_may_move(item->state, to)) {
        fail(simulation, THE_MODEL_HOLDS, "%s moved from %s to %s", item->id, item_state_name(item->state), change->status);
    }
    if (change->fence < item->fence) {
        fail(simulation, STALE_FENCES_ARE_DEAF, "the fence of %s went back", item->id);
    }
    if (change->node_id != item->node_id && change->node_id != 0 && change->fence <= item->fence) {
        fail(simulation, STALE_FENCES_ARE_DEAF, "%s went to node %lld under its old fence", item->id,
             (long long)change->node_id);
    }
    if (change->cancel && !item->cancel_asked && strcmp(simulation->verb, "advance_children") == 0 &&
        !children_may_cancel(simulation, item)) {
        fail(simulation, CHILDREN_FOLLOW_THE_PLAN, "%s is to be cancelled, and its parent lives or leaves it", item->id);
    }
    if (change->rank != item->rank || change->priority != item->priority) {
        fail(simulation, FIRST_IN_FIRST_OUT, "the place of %s in its lane changed", item->id);
    }
    check_writer(simulation, item, change);
    check_wake(simulation, item, to);
    item->was_released =
        item->was_released || (item->phase == 1 && change->phase == 0 && strcmp(simulation->verb, "bulk") == 0);
    count_row(simulation, item, -1);
    enum item_state from = item->state;
    if (from == ITEM_PENDING && to == ITEM_CLAIMED) {
        simulation->workspaces[item->workspace].held++; /* as it will be, for the check of the cap */
    }
    note_move(simulation, item, to, change);
    if (from == ITEM_PENDING && to == ITEM_CLAIMED) {
        simulation->workspaces[item->workspace].held--;
    }
    check_counters_of(simulation, item, to, change);
    take_columns(item, change);
    item->changed_us = simulation->boot_us;
    item->state = to;
    count_row(simulation, item, 1);
    keys_note_move(simulation, item);
    simulation->result->transitions += from != to;
}

static void row_vanished(struct simulation *simulation, const struct change *change)
{
    struct model_item *item = observer_find(simulation, change->id);
    if (item != NULL && item->is_inserted_again) {
        item->is_inserted_again = false;
        return;
    }
    if (item == NULL || !item->has_row) {
        fail(simulation, THE_MODEL_HOLDS, "%s left the queue and was not there", change->id);
        return;
    }
    item->has_row = false;
    if (item->place == PLACE_LIVE) {
        count_row(simulation, item, -1);
        item->place = PLACE_VANISHED;
    }
}

static void history_appeared(struct simulation *simulation, const struct change *change)
{
    struct model_item *item = observer_find(simulation, change->id);
    enum item_state to = ITEM_PENDING;
    if (item == NULL || (item->place != PLACE_LIVE && item->place != PLACE_VANISHED) ||
        !item_state_parse(change->status, &to) || !item_is_terminal(to)) {
        fail(simulation, THE_END_IS_FINAL, "%s ended as %s though it is %s", change->id, change->status,
             item == NULL ? "unknown" : place_word(item->place));
        return;
    }
    if (!item_may_move(item->state, to)) {
        fail(simulation, THE_MODEL_HOLDS, "%s moved from %s to %s", item->id, item_state_name(item->state), change->status);
    }
    check_writer(simulation, item, change);
    check_wake(simulation, item, to);
    item->ends_of_parked += item->state == ITEM_WAITING;
    story_note_end(simulation, item, to, change->extra != NULL && strcmp(change->extra, "poison") == 0);
    if (item->place == PLACE_LIVE) {
        count_row(simulation, item, -1);
    }
    item->place = PLACE_ENDED;
    item->state = to;
    item->finished_at = change->due_at;
    text_copy(item->error_code, sizeof item->error_code, change->extra == NULL ? "" : change->extra);
    simulation->result->transitions++;
    keys_note_end(simulation, item);
    check_end(simulation, item);
}

int64_t observer_store_time(struct simulation *simulation)
{
    int64_t now_us = 0;
    if (store_time(simulation->outside, &now_us, NULL) != WEIR_OK) {
        fail(simulation, THE_MODEL_HOLDS, "the store does not know the time");
    }
    return now_us;
}

static void history_vanished(struct simulation *simulation, const struct change *change)
{
    struct model_item *item = observer_find(simulation, change->id);
    int64_t now_us = observer_store_time(simulation);
    int64_t retention_us = simulation->profile.retention_us == 0 ? RETENTION_US : simulation->profile.retention_us;
    if (item == NULL || item->place != PLACE_ENDED) {
        fail(simulation, NOTHING_IS_LOST, "%s was purged though it is %s", change->id,
             item == NULL ? "unknown" : place_word(item->place));
        return;
    }
    if (!simulation->purging && item->finished_at + retention_us > now_us) {
        fail(simulation, NOTHING_IS_LOST, "%s was purged %lld us before its time", change->id,
             (long long)(item->finished_at + retention_us - now_us));
    }
    item->place = PLACE_PURGED;
    keys_note_purge(simulation, item);
}

static void event_appeared(struct simulation *simulation, const struct change *change)
{
    struct model_item *item = observer_find(simulation, change->id);
    if (item == NULL) {
        return;
    }
    item->recorded_put_backs += strcmp(change->extra, "retry") == 0 && strcmp(simulation->verb, "record") == 0;
    item->recorded_releases += strcmp(change->extra, "defer") == 0;
    item->recorded_releases += strcmp(change->extra, "put_back") == 0;
    item->recorded_hand_overs += strcmp(change->extra, "hand_over") == 0 || strcmp(change->extra, "poison") == 0;
    item->recorded_give_backs += strcmp(change->extra, "give_back") == 0;
    item->recorded_parks += strcmp(change->extra, "park") == 0;
    /* A client may wake an item that is not parked: its steps go on, and the item is not moved. Then each park has a wake.
     */
    bool has_park = item->parks > item->recorded_wakes + item->ends_of_parked;
    item->recorded_wakes += strcmp(change->extra, "wake") == 0 && has_park;
}

static void setting_changed(struct simulation *simulation, const struct change *change)
{
    if (strcmp(change->what, "workspace") == 0) {
        for (int i = 0; i < simulation->profile.workspaces; i++) {
            struct model_workspace *workspace = &simulation->workspaces[i];
            if (strcmp(workspace->name, change->id) == 0) {
                workspace->row_id = change->workspace_id;
                workspace->slots_max = change->rank;
                workspace->paused = change->phase != 0;
                workspace->weight = change->priority;
            }
        }
    } else if (strcmp(change->what, "group") == 0) {
        simulation->group_paused[strcmp(change->id, group_names[0]) == 0 ? 0 : 1] = change->phase != 0;
    } else if (strcmp(change->what, "paused") == 0) {
        simulation->queue_paused = change->phase != 0;
    } else {
        fail(simulation, EVERYTHING_IS_ON_RECORD, "what is on record changed: %s %s of %s", change->what, change->extra,
             change->id);
    }
}

static void replay(struct simulation *simulation, const struct change *change)
{
    if (strncmp(change->what, "action", 6) == 0) {
        states_note_action(simulation, change);
    } else if (strcmp(change->what, "machine") == 0) {
        states_note_row(simulation, change);
    } else if (strncmp(change->what, "signal", 6) == 0) {
        states_note_signal(simulation, change);
        if (simulation->profile.has_children) {
            children_note_signal(simulation, change);
        }
    } else if (strncmp(change->what, "family", 6) == 0) {
        children_note_family(simulation, change);
    } else if (strncmp(change->what, "child", 5) == 0) {
        children_note_child(simulation, change);
    } else if (strcmp(change->what, "wait") == 0) {
        children_note_wait(simulation, change);
    } else if (strcmp(change->what, "step=") == 0 && children_may_drop_plan(simulation, change->id, change->extra)) {
        return;
    } else if (strcmp(change->what, "node") == 0) {
        handlers_note_node(simulation, change);
    } else if (strncmp(change->what, "firing", 6) == 0) {
        schedules_note_firing(simulation, change);
    } else if (strcmp(change->what, "schedule") == 0) {
        schedules_note_schedule(simulation, change);
    } else if (strcmp(change->what, "queue=") == 0) {
        row_changed(simulation, change);
    } else if (strcmp(change->what, "queue+") == 0) {
        row_appeared(simulation, change);
    } else if (strcmp(change->what, "queue-") == 0) {
        row_vanished(simulation, change);
    } else if (strcmp(change->what, "history+") == 0) {
        history_appeared(simulation, change);
    } else if (strcmp(change->what, "history=") == 0) {
        fail(simulation, THE_END_IS_FINAL, "the ended %s was rewritten as %s", change->id, change->status);
    } else if (strcmp(change->what, "history-") == 0) {
        history_vanished(simulation, change);
    } else if (strcmp(change->what, "event+") == 0) {
        event_appeared(simulation, change);
    } else if (strcmp(change->what, "event-") != 0 || (observer_find(simulation, change->id) != NULL &&
                                                       observer_find(simulation, change->id)->place != PLACE_PURGED)) {
        setting_changed(simulation, change);
    }
}

static void trace_change(struct simulation *simulation, const struct change *change)
{
    const struct model_item *item = change->id == NULL ? NULL : observer_find(simulation, change->id);
    trace_mix(simulation, change->what, item == NULL ? -1 : item - simulation->items);
    trace_mix(simulation, change->status, change->fence);
    trace_mix(simulation, change->extra, change->node_id);
    trace_mix(simulation, "", change->due_at ^ simulation->boot_us);
    if (item != NULL && strncmp(change->what, "event", 5) != 0) {
        say(simulation, "%s %s item %lld %s node=%lld fence=%lld phase=%d tries=%d/%d/%d %s", simulation->verb,
            change->what, (long long)(item - simulation->items), change->status, (long long)change->node_id,
            (long long)change->fence, change->phase, change->starts_refused, change->deferrals, change->handovers,
            change->extra == NULL ? "" : change->extra);
    }
}

static void read_change(const struct question *row, struct change *change)
{
    change->seq = question_number(row, COLUMN_SEQ);
    change->what = question_text(row, COLUMN_WHAT);
    change->id = question_text(row, COLUMN_ID);
    change->status = question_text(row, COLUMN_STATUS);
    change->workspace_id = question_number(row, COLUMN_WORKSPACE);
    change->lane_id = question_number(row, COLUMN_LANE);
    change->node_id = question_number(row, COLUMN_NODE);
    change->fence = question_number(row, COLUMN_FENCE);
    change->has_count = !question_is_null(row, COLUMN_FENCE);
    change->phase = (int)question_number(row, COLUMN_PHASE);
    change->rank = question_number(row, COLUMN_RANK);
    change->due_at = question_number(row, COLUMN_DUE);
    change->run_at = question_number(row, COLUMN_RUN_AT);
    change->priority = (int)question_number(row, COLUMN_PRIORITY);
    change->starts_refused = (int)question_number(row, COLUMN_STARTS_REFUSED);
    change->deferrals = (int)question_number(row, COLUMN_DEFERRALS);
    change->handovers = (int)question_number(row, COLUMN_HANDOVERS);
    change->cancel = !question_is_null(row, COLUMN_CANCEL);
    change->has_reason = !question_is_null(row, COLUMN_WAITING_FOR);
    change->waiting_for = question_text(row, COLUMN_WAITING_FOR);
    change->extra = question_text(row, COLUMN_EXTRA);
}

/* A WAITING item has no node, no slot and a time; each park was followed by one wake or one end. */
static void check_parks(struct simulation *simulation, const struct model_item *item)
{
    bool is_parked = item->place == PLACE_LIVE && item->state == ITEM_WAITING;
    if (item->place == PLACE_LIVE && (is_parked != (item->phase == 3) || is_parked != item->has_reason ||
                                      (is_parked && (item->node_id != 0 || item->due_at == 0)))) {
        fail(simulation, THE_MODEL_HOLDS, "%s is %s in phase %d with node %lld, due at %lld, and has %s reason to wait",
             item->id, item_state_name(item->state), item->phase, (long long)item->node_id, (long long)item->due_at,
             item->has_reason ? "a" : "no");
    } else if (item->parks != item->wakes + item->ends_of_parked + is_parked || item->parks != item->recorded_parks ||
               item->wakes != item->recorded_wakes) {
        fail(simulation, EVERYTHING_IS_ON_RECORD,
             "%s was parked %d times, woken %d times and ended %d times meanwhile; on record are %d parks and %d wakes",
             item->id, item->parks, item->wakes, item->ends_of_parked, item->recorded_parks, item->recorded_wakes);
    }
}

/* The rules that hold at every commit for an item that was touched. */
static void check_item(struct simulation *simulation, struct model_item *item)
{
    if (item->is_inserted_again) {
        fail(simulation, THE_END_IS_FINAL, "%s has ended and is back in the queue", item->id);
    } else if (item->place == PLACE_VANISHED) {
        fail(simulation, NOTHING_IS_LOST, "%s is neither in the queue nor in the history", item->id);
    } else if (item->place == PLACE_ENDED && item->has_row) {
        fail(simulation, THE_MODEL_HOLDS, "%s is live and ended at once", item->id);
    } else if (item->place != PLACE_PURGED &&
               (item->put_backs != item->recorded_put_backs || item->hand_overs != item->recorded_hand_overs ||
                item->give_backs != item->recorded_give_backs || item->recorded_releases > item->releases ||
                (item->releases > 0 && item->recorded_releases + item->recorded_put_backs == 0))) {
        fail(simulation, EVERYTHING_IS_ON_RECORD,
             "%s was put back %d, released %d, handed over %d, given back %d times; on record are %d, %d, %d, %d", item->id,
             item->put_backs, item->releases, item->hand_overs, item->give_backs, item->recorded_put_backs,
             item->recorded_releases, item->recorded_hand_overs, item->recorded_give_backs);
    } else if (item->place == PLACE_LIVE || item->place == PLACE_ENDED) {
        check_parks(simulation, item);
        check_states(simulation, item);
        if (simulation->profile.has_children) {
            check_child_wait(simulation, item);
        }
    }
}

/* The order of the rows of a commit counts for nothing in the trace: a server writes them as they lie in its pages. */
void observe(struct simulation *simulation)
{
    const uint64_t trace = simulation->result->trace;
    uint64_t sum = 0;
    struct change change;
    bool any = false;
    int64_t first = simulation->changes_seen;
    simulation->observed_from = first;
    question_ask_number(simulation->read_changes, first);
    while (question_next(simulation->read_changes)) {
        read_change(simulation->read_changes, &change);
        replay(simulation, &change);
        simulation->result->trace = trace;
        trace_change(simulation, &change);
        sum += simulation->result->trace;
        simulation->changes_seen = change.seq;
        any = true;
    }
    question_end(simulation->read_changes);
    simulation->result->trace = trace;
    if (!any) {
        return;
    }
    trace_mix(simulation, "", (int64_t)sum);
    check_children(simulation);
    question_ask_number(simulation->read_changes, first);
    while (question_next(simulation->read_changes) && !failed(simulation)) {
        read_change(simulation->read_changes, &change);
        struct model_item *item = change.id == NULL ? NULL : observer_find(simulation, change.id);
        if (item != NULL) {
            check_item(simulation, item);
        }
    }
    question_end(simulation->read_changes);
    check_counters(simulation);
    check_order(simulation);
    check_keys(simulation);
    check_engine(simulation);
}

void observer_acknowledge(struct simulation *simulation, const char *id, const char *key, bool duplicate)
{
    struct model_item *item = observer_find(simulation, id);
    if (item == NULL || item->place == PLACE_VANISHED || item->place == PLACE_PURGED) {
        fail(simulation, NOTHING_IS_LOST, "%s was acknowledged and is not there", id);
        return;
    }
    if (key != NULL && strcmp(item->key, key) != 0) {
        fail(simulation, ONE_ITEM_PER_KEY, "the key %s was answered with %s, whose key is %s%s", key, id, item->key,
             duplicate ? "" : " (as new)");
    }
    item->acknowledged = true;
}

/* --- life --- */

static const char lanes_of_sqlite[] =
    "SELECT lane_id, sum(runnable), sum(waiting), sum(held), sum(parked) FROM"
    " (SELECT lane_id, runnable, waiting, held, parked FROM books"
    "  UNION ALL SELECT l.value ->> 0, coalesce(l.value ->> 1, 0), coalesce(l.value ->> 5, 0),"
    "   coalesce(l.value ->> 3, 0), coalesce(l.value ->> 9, 0) FROM news n CROSS JOIN json_each(n.lanes) l)"
    " GROUP BY lane_id";

void observer_open(struct simulation *simulation)
{
    bool is_postgres = simulation->options.store == SIMULATED_POSTGRES;
    const struct mutant *mutant = simulation->options.mutant;
    if (simulation->profile.has_children && !is_postgres) {
        file_observe_children(simulation);
    }
    if (simulation->profile.has_sets && !is_postgres) {
        file_observe_nodes(simulation);
    }
    if (mutant != NULL && mutant->schema != NULL) {
        file_execute(simulation->path, mutant->schema);
    }
    simulation->verb = "";
    simulation->result->trace = 14695981039346656037ULL;
    INVARIANT(is_postgres ||
              sqlite3_open_v2(simulation->path, &simulation->reader, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK);
    simulation->read_changes =
        question_prepare(simulation, "SELECT seq, " CHANGE_COLUMNS " FROM simulation_changes WHERE seq > $1 ORDER BY seq");
    simulation->read_counters = question_prepare(simulation, "SELECT id, slots_max FROM workspaces WHERE slots_max > 0");
    simulation->read_lanes = question_prepare(
        simulation, is_postgres ? "SELECT lane_id, runnable, waiting, held, parked FROM lane_books" : lanes_of_sqlite);
    simulation->read_group = question_prepare(simulation, "SELECT name FROM executor_groups WHERE id = $1");
}

void observer_close(struct simulation *simulation)
{
    question_close(simulation->read_changes);
    question_close(simulation->read_counters);
    question_close(simulation->read_lanes);
    question_close(simulation->read_group);
    question_close(simulation->read_workflow);
    children_close(simulation);
    (void)sqlite3_close(simulation->reader);
    for (size_t i = 0; i < simulation->item_count; i++) {
        story_close(&simulation->items[i]);
    }
    free(simulation->items);
    free(simulation->buckets);
    free(simulation->firings);
}
