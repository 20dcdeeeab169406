/* Recovery: the items of dead nodes, and claims that are too old, are handed over to other nodes.
 *
 *   1. Read without a write whether there is anything to recover: an expired lease, a process of this machine that is
 *      gone, a claim that is too old. Most calls end here, and an idle fleet must not write.
 *   2. Mark nodes as dead whose lease is over, or whose process is gone on this machine. The same transaction frees
 *      their locks and inserts an act into the news, so that the scheduler assigns nothing more to them.
 *   3. For each dead node, read its items. The number per call is bounded, so that other writers get their turn
 *      between two calls.
 *   4. Take one new fence for the items of the node, and write it to each. From here on every report of the dead node
 *      is refused.
 *   5. Count the handover. An item is a suspect when a step of it ran while its node died. A step that ended since the
 *      last handover is progress and sets the counters back. A suspect that was alone on its node for HANDOVERS_MAX
 *      deaths ends as poison.
 *   6. The row stays CLAIMED without a node: its slot stays taken, and the scheduler assigns the item before all
 *      others.
 *   7. End an item with a requested cancel, of which nothing can run: its group may have no other node.
 *   8. When a node has no item left, mark it as recovered.
 *
 * It never gives an item to a node, and never takes an old claim that the caller still knows to run. The duties thread of
 * each node runs it; two nodes that recover at once take turns, because SQLite has one writer. The record thread hands
 * over an item whose keeper was killed, and the dispatch thread the items of a node that stops.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/sqlite/event_history.h"
#include "store/sqlite/stream.h"

enum { NODES_PER_CALL = 100 };

struct lost_item {
    char id[UUID_TEXT_MAX];
    int64_t fence;             /* of the claim that is lost */
    int64_t handovers_counted; /* so far */
    int64_t steps_ended;       /* at the last handover */
    bool may_count;
    bool is_alone; /* its node held nothing else */
    int64_t suspicion;
    int64_t node_id;
    int64_t lane_id;
};

/* Fills `items` from a statement with their columns; leaves out the items of `but` (may be NULL). */
static enum weir_status read_lost(struct connection *connection, sqlite3_stmt *statement, const struct recover_options *but,
                                  struct lost_item *items, size_t most, size_t *ret_count, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    size_t count = 0;
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (count < most && connection_step(connection, statement, &status, error)) {
        const char *id = column_text(statement, 0);
        if (but != NULL && but->knows != NULL && but->knows(but->knows_context, id, sqlite3_column_int64(statement, 1))) {
            continue;
        }
        text_copy(items[count].id, sizeof items[count].id, id);
        items[count].fence = sqlite3_column_int64(statement, 1);
        items[count].handovers_counted = sqlite3_column_int64(statement, 2);
        items[count].steps_ended = sqlite3_column_int64(statement, 3);
        items[count].may_count = sqlite3_column_int(statement, 4) != 0;
        items[count].node_id = sqlite3_column_int64(statement, 5);
        items[count].lane_id = sqlite3_column_int64(statement, 6);
        items[count].suspicion = sqlite3_column_int64(statement, 7);
        items[count].is_alone = sqlite3_column_int(statement, 8) != 0;
        count++;
    }
    (void)sqlite3_reset(statement);
    *ret_count = count;
    return status;
}

/* The counters of a handover for one item (store_recover() in store.h; queue/suspicion.h). */
struct handover_count {
    bool is_suspect;
    int64_t counted;   /* with this one */
    int64_t suspicion; /* with this one */
    int64_t steps_ended;
    char detail[300]; /* of its event; "" when it does not count */
};

/* Computes the counters of a handover, and whether the item was a suspect. */
static enum weir_status count_handover(struct write *write, const struct lost_item *item, struct handover_count *ret_count,
                                       struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement =
        connection_bind(write->connection, error, QUERY_STEPS_AT_HANDOVER, "ti", item->id, item->fence);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(write->connection, statement, &status, error)) {
        int64_t ended = sqlite3_column_int64(statement, 0);
        const char *running = column_text(statement, 1);
        bool has_progress = ended > item->steps_ended;
        bool is_suspect = item->may_count && running != NULL;
        *ret_count = (struct handover_count){.is_suspect = is_suspect, .steps_ended = ended};
        ret_count->counted = (has_progress ? 0 : item->handovers_counted) + (is_suspect && item->is_alone ? 1 : 0);
        ret_count->suspicion = (has_progress ? 0 : item->suspicion) + (is_suspect ? 1 : 0);
        if (is_suspect) {
            (void)snprintf(ret_count->detail, sizeof ret_count->detail, "%lld of %d while it ran %s; suspicion %lld",
                           (long long)ret_count->counted, HANDOVERS_MAX, running, (long long)ret_count->suspicion);
        }
        (void)sqlite3_reset(statement);
    }
    return status;
}

/* Ends an item that killed its node too often. */
static enum weir_status end_as_poison(struct write *write, const struct lost_item *item, struct weir_error *error)
{
    char text[128];
    (void)snprintf(text, sizeof text,
                   "its node died %d times while it ran alone, and no step of it ended in between; it is not tried again",
                   HANDOVERS_MAX);
    struct ending ending = {.id = item->id, .state = ITEM_FAILED, .error_code = "poison", .error = text};
    return item_end(write, &ending, error);
}

/* Hands one item over: event, new fence, no node, news. */
static enum weir_status hand_over(struct write *write, const struct lost_item *item, const char *reason, int64_t fence,
                                  struct recover_result *result, struct weir_error *error)
{
    struct handover_count count = {.is_suspect = false};
    enum weir_status status = count_handover(write, item, &count, error);
    bool poison = count.is_suspect && count.counted >= HANDOVERS_MAX;
    if (status == WEIR_OK) {
        status = event_history_add_claim(write, item->id, item->fence, error);
    }
    if (status == WEIR_OK) {
        status =
            connection_run(write->connection, error, NULL, QUERY_HAND_OVER_ITEM, "tiiiii", item->id, fence, count.counted,
                           count.steps_ended, count.suspicion, count.is_suspect ? write->now_us : (int64_t)0);
    }
    if (status == WEIR_OK) {
        status = event_history_add(write->connection, item->id, write->now_us, poison ? "poison" : "hand_over",
                                   item->node_id, fence, NULL, reason, count.is_suspect ? count.detail : NULL, error);
    }
    if (status == WEIR_OK) {
        status = news_hand_over(&write->news, write->connection, item->node_id, item->lane_id, error);
        if (status == WEIR_STORE_CORRUPT) {
            error_prefix(error, "execution %s", item->id);
        }
    }
    if (status == WEIR_OK && !poison) {
        status = stream_add(&write->news, write->connection, STREAM_HAND_OVER, item->id, lane_workspace_id(item->lane_id),
                            error);
    }
    if (status == WEIR_OK && poison) {
        status = end_as_poison(write, item, error);
        result->poisoned++;
    } else {
        status = status == WEIR_OK ? item_end_if_cancelled(write, item->id, error) : status;
        result->handed_over++;
    }
    return status;
}

enum weir_status recover_from_keeper(struct write *write, const char *id, int64_t fence, bool is_alone, size_t *poisoned,
                                     struct weir_error *error)
{
    INVARIANT(id != NULL && poisoned != NULL);
    struct lost_item item;
    struct recover_result result = {0};
    int64_t next_fence = 0;
    size_t count = 0;
    sqlite3_stmt *statement =
        connection_bind(write->connection, error, QUERY_ITEM_OF_KEEPER, "tid", id, fence, is_alone ? 1 : 0);
    enum weir_status status = read_lost(write->connection, statement, NULL, &item, 1, &count, error);
    if (status == WEIR_OK && count > 0) {
        status = fence_take_next(write->connection, &next_fence, error);
    }
    if (status == WEIR_OK && count > 0) {
        status = hand_over(write, &item, "its keeper was killed", next_fence, &result, error);
    }
    *poisoned += result.poisoned;
    return status;
}

/* Hands over the items that a statement returns, under one new fence. */
static enum weir_status recover_items(struct write *write, sqlite3_stmt *statement, int64_t old_node, const char *reason,
                                      const struct recover_options *options, size_t most, size_t *ret_count,
                                      struct recover_result *result, struct weir_error *error)
{
    struct lost_item *items = calloc(most, sizeof *items);
    int64_t fence = 0;
    if (items == NULL) {
        if (statement != NULL) {
            (void)sqlite3_reset(statement);
        }
        return error_out_of_memory(error);
    }
    enum weir_status status =
        read_lost(write->connection, statement, old_node == 0 ? options : NULL, items, most, ret_count, error);
    if (status == WEIR_OK && *ret_count > 0) {
        status = fence_take_next(write->connection, &fence, error);
    }
    for (size_t i = 0; i < *ret_count && status == WEIR_OK; i++) {
        status = hand_over(write, &items[i], reason, fence, result, error);
    }
    free(items);
    return status;
}

/* Nodes of this machine with dead processes need not be waited for until their lease ends. */
static enum weir_status find_gone(struct connection *connection, const struct recover_options *options, int64_t *nodes,
                                  size_t *ret_count, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    size_t count = 0;
    *ret_count = 0;
    if (options->boot_id == NULL || options->is_gone == NULL) {
        return WEIR_OK;
    }
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_NODES_OF_MACHINE, "tit", options->boot_id,
                                              options->node_id, options->group);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (count < NODES_PER_CALL && connection_step(connection, statement, &status, error)) {
        struct node_neighbour node = {.id = sqlite3_column_int64(statement, 0),
                                      .pid = (long)sqlite3_column_int64(statement, 1),
                                      .keeper_pid = (long)sqlite3_column_int64(statement, 2)};
        text_copy(node.life, sizeof node.life, column_text(statement, 3));
        if (options->is_gone(&node)) {
            nodes[count++] = node.id;
        }
    }
    (void)sqlite3_reset(statement);
    *ret_count = count;
    return status;
}

/* Counts the nodes whose names the statement returns, and keeps the first names. */
static enum weir_status note_dead(struct connection *connection, sqlite3_stmt *statement, struct recover_result *result,
                                  struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (connection_step(connection, statement, &status, error)) {
        if (result->nodes < RECOVER_NAMES_MOST) {
            text_copy(result->dead[result->nodes], sizeof result->dead[0], column_text(statement, 0));
        }
        result->nodes++;
    }
    return status;
}

/* Marks nodes as dead whose process is gone or whose lease is over, and frees their locks. */
static enum weir_status mark_dead(struct write *write, const struct recover_options *options, struct recover_result *result,
                                  struct weir_error *error)
{
    int64_t gone[NODES_PER_CALL];
    size_t count = 0;
    enum weir_status status = find_gone(write->connection, options, gone, &count, error);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        sqlite3_stmt *mark = connection_bind(write->connection, error, QUERY_MARK_GONE, "ii", gone[i], write->now_us);
        status = note_dead(write->connection, mark, result, error);
    }
    if (status == WEIR_OK) {
        sqlite3_stmt *find = connection_bind(write->connection, error, QUERY_FIND_DEAD, "itt", write->now_us,
                                             options->group, options->trusted_machine);
        status = note_dead(write->connection, find, result, error);
    }
    if (result->nodes > 0) {
        news_act(&write->news);
    }
    if (status == WEIR_OK && result->nodes > 0) {
        status = connection_run(write->connection, error, NULL, QUERY_FREE_LOCKS_OF_DEAD, "i", write->now_us);
    }
    return status;
}

/* Recovers the items of dead nodes until the limit of the call. */
static enum weir_status recover_nodes(struct write *write, const struct recover_options *options,
                                      struct recover_result *result, struct weir_error *error)
{
    int64_t nodes[NODES_PER_CALL];
    size_t node_count = 0;
    size_t left = options->limit;
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(write->connection, error, QUERY_UNRECOVERED_NODES, "t", options->group);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (node_count < NODES_PER_CALL && connection_step(write->connection, statement, &status, error)) {
        nodes[node_count++] = sqlite3_column_int64(statement, 0);
    }
    (void)sqlite3_reset(statement);
    for (size_t i = 0; i < node_count && status == WEIR_OK && left > 0; i++) {
        size_t count = 0;
        sqlite3_stmt *items = connection_bind(write->connection, error, QUERY_ITEMS_OF_NODE, "ii", nodes[i], (int64_t)left);
        status = recover_items(write, items, nodes[i], "its node is gone", options, left, &count, result, error);
        left -= count;
        if (status == WEIR_OK && left > 0) {
            status = connection_run(write->connection, error, NULL, QUERY_NODE_RECOVERED, "ii", nodes[i], write->now_us);
        }
    }
    result->more = left == 0 || node_count == NODES_PER_CALL;
    return status;
}

/* Nothing to recover must cost no write: a look first. */
static enum weir_status needs_recovery(struct store *store, const struct recover_options *options, bool *ret_needed,
                                       struct weir_error *error)
{
    struct connection *connection;
    int64_t now_us = 0;
    int64_t found = 0;
    int64_t gone[NODES_PER_CALL];
    size_t gone_count = 0;
    enum weir_status status = store_reader(store, &connection, error);
    if (status == WEIR_OK) {
        status = connection_store_time(connection, &now_us, error);
    }
    if (status == WEIR_OK) {
        status = connection_read_integer(connection, error, &found, QUERY_NEEDS_RECOVERY, "itiit", now_us, options->group,
                                         options->stale_claim_us > 0 ? now_us - options->stale_claim_us : INT64_MIN,
                                         options->node_id, options->trusted_machine);
    }
    if (status == WEIR_OK && found == 0) {
        status = find_gone(connection, options, gone, &gone_count, error);
    }
    *ret_needed = found != 0 || gone_count > 0;
    return status;
}

enum weir_status sqlite_recover(struct store *store, const struct recover_options *options,
                                struct recover_result *ret_result, struct weir_error *error)
{
    INVARIANT(options->limit > 0 && options->limit <= RECOVER_BATCH);
    struct write write;
    struct recover_result result = {0};
    bool needed = false;
    size_t stale = 0;
    enum weir_status status = needs_recovery(store, options, &needed, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (!needed || options->look_only) {
        result.more = needed;
        *ret_result = result;
        return WEIR_OK;
    }
    status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = mark_dead(&write, options, &result, error);
    if (status == WEIR_OK) {
        status = recover_nodes(&write, options, &result, error);
    }
    if (status == WEIR_OK && options->stale_claim_us > 0 && !result.more) {
        sqlite3_stmt *items =
            connection_bind(write.connection, error, QUERY_STALE_ITEMS, "iiti", write.now_us - options->stale_claim_us,
                            (int64_t)options->limit, options->group, options->node_id);
        status = recover_items(&write, items, 0, "claimed for too long", options, options->limit, &stale, &result, error);
        result.more = stale == options->limit;
    }
    if (status != WEIR_OK) {
        write_undo(&write);
        return status;
    }
    status = write_finish(&write, error);
    if (status == WEIR_OK) {
        *ret_result = result;
    }
    return status;
}

/* A node that leaves: items that it never started are put back, running ones are handed over; neither is its fault. */
enum weir_status recover_give_back_all(struct write *write, int64_t node_id, size_t *ret_count, struct weir_error *error)
{
    INVARIANT(node_id > 0 && ret_count != NULL);
    struct lost_item *items = calloc(RECOVER_BATCH, sizeof *items);
    if (items == NULL) {
        return error_out_of_memory(error);
    }
    sqlite3_stmt *statement =
        connection_bind(write->connection, error, QUERY_ITEMS_OF_NODE, "ii", node_id, (int64_t)RECOVER_BATCH);
    enum weir_status status = read_lost(write->connection, statement, NULL, items, RECOVER_BATCH, ret_count, error);
    for (size_t i = 0; i < *ret_count && status == WEIR_OK; i++) {
        int64_t fence;
        status = fence_take_next(write->connection, &fence, error);
        if (status == WEIR_OK) {
            status = event_history_add_claim(write, items[i].id, items[i].fence, error);
        }
        if (status == WEIR_OK) {
            status = connection_run(write->connection, error, NULL, QUERY_GIVE_BACK_HELD, "ti", items[i].id, fence);
        }
        if (status == WEIR_OK) {
            status = event_history_add(write->connection, items[i].id, write->now_us, "give_back", node_id, fence, NULL,
                                       "its node stops", NULL, error);
        }
        if (status == WEIR_OK) {
            status = news_hand_over(&write->news, write->connection, node_id, items[i].lane_id, error);
        }
        if (status == WEIR_OK) {
            status = stream_add(&write->news, write->connection, STREAM_GIVE_BACK, items[i].id,
                                lane_workspace_id(items[i].lane_id), error);
        }
        if (status == WEIR_OK) {
            status = item_end_if_cancelled(write, items[i].id, error);
        }
    }
    free(items);
    return status;
}
