/* One round of the scheduler: it records assignments, promotes due items, and reads news and heads of lanes.
 *
 * A write transaction is alone on SQLite: between its first read and its commit no other process can change a row. A
 * round with nothing to write is a read transaction, so that an idle scheduler never waits for the writer. The steps
 * of a round:
 *
 *   1. Check the epoch. Another epoch means that another node has taken the role, and this round must write nothing.
 *   2. Read the news behind the position of the handle, before any assignment. If an act is among them (a pause, a
 *      lower cap), the round assigns nothing: the scheduler decided before it knew of the act.
 *   3. Renew the lease of the role, if the caller asks for it. The lease decides only when another node may take over.
 *   4. Assign. One statement finds the rows of the set by number, phase, lane and rank, because a row may have ended since
 *      the scheduler read its head. For the caller's own node it also reads what the node needs of new items. One UPDATE
 *      for each node assigns them. A node that takes no items leaves the row pending, and so do the later assignments of
 *      that lane in this set: a lane keeps its order over all nodes. All assignments of a round have one fence: a fence
 *      orders the claims of an item, and an item is assigned at most once in a round.
 *   5. Complete the items of the caller's own node, so that they need no second round trip through the inbox. Those
 *      that were assigned before are read here.
 *   6. Promote waiting items that are due, at most PROMOTE_BATCH, so that a round stays short. End items without a
 *      workspace.
 *   7. Read the state, the handed-over items and the heads that the scheduler asks for, and the heads of the few lanes with
 *      new items in the news. They are read after the writes, so that they include the effect of this round.
 *   8. Commit. Only then does the position of the handle move: after a failed round the same news is read again.
 *
 * It never decides which item goes to which node, and never assigns an item that the caller did not name. The dispatch
 * thread of the node that has the role runs it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/sqlite/claimed.h"
#include "store/sqlite/event_history.h"
#include "store/sqlite/facts.h"
#include "store/sqlite/lane_heads.h"
#include "store/sqlite/stream.h"
#include "store/sqlite/taken.h"

enum { NODES_CACHED = 64, NEWS_HEADS_MOST = 8, NEWS_HEADS_OF_LANE = 4 };

struct round {
    struct sqlite_store *store;
    struct schedule_call *call;
    struct arena *arena;
    struct connection *connection;
    struct write *write; /* NULL: reads only */
    bool changed;        /* the transaction has something to commit */
    int64_t now_us;
    int64_t position; /* behind the news that were read */
    int64_t cookie;   /* of the schema, at the load */
    int64_t fence;    /* 0 = not taken yet */
    bool lacks_node;  /* an assignment had no node */
    struct facts facts;
    size_t news_fact_count; /* of `facts`, the first ones */
    struct schedule_answer answer;
    struct {
        int64_t id;
        int64_t target_id;
        bool takes;
        bool on_temporal;
    } nodes[NODES_CACHED]; /* direct-mapped cache */
};

/* --- assigning --- */

/* Whether the node takes items of the lane, and its target. */
static enum weir_status node_takes(struct round *round, int64_t node_id, int64_t lane_id, bool *ret_takes,
                                   int64_t *ret_target_id, struct weir_error *error)
{
    size_t at = (size_t)node_id % NODES_CACHED;
    if (round->nodes[at].id != node_id) {
        int64_t target = 0;
        enum weir_status status =
            connection_read_integer(round->connection, error, &target, QUERY_NODE_TAKES_ITEMS, "i", node_id);
        if (status != WEIR_OK && status != WEIR_NOT_FOUND) {
            return status;
        }
        round->nodes[at].id = node_id;
        round->nodes[at].target_id = target / 2;
        round->nodes[at].on_temporal = target % 2 != 0;
        round->nodes[at].takes = status == WEIR_OK;
    }
    *ret_takes = round->nodes[at].takes && round->nodes[at].on_temporal == lane_is_on_temporal(lane_id);
    *ret_target_id = round->nodes[at].target_id;
    return WEIR_OK;
}

/* Whether an earlier item of the lane of the assignment at this place had no node in this set. */
static bool is_behind(const struct round *round, size_t place)
{
    const struct assignment *set = round->call->assignments;
    for (size_t i = 0; round->lacks_node && !set[place].handed_over && i < place; i++) {
        if (set[i].outcome == ASSIGNMENT_NO_NODE && !set[i].handed_over && set[i].lane_id == set[place].lane_id) {
            return true;
        }
    }
    return false;
}

static enum weir_status take_fence(struct round *round, struct weir_error *error)
{
    return round->fence != 0 ? WEIR_OK : fence_take_next(round->connection, &round->fence, error);
}

/* Counts an assignment. Its slot was taken before, when the item was handed over. */
static enum weir_status note_assignment(struct round *round, struct assignment *assignment, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    assignment->outcome = ASSIGNMENT_TAKEN;
    round->answer.assigned++;
    round->changed = true;
    if (!assignment->handed_over) {
        struct lane_delta *delta =
            news_lane(&round->write->news, round->connection, NEWS_ASSIGNED, 0, assignment->lane_id, &status, error);
        delta->runnable--;
        delta->held++;
    }
    return status == WEIR_OK
               ? stream_add_item(&round->write->news, round->connection, STREAM_CLAIM, facts_read_id(assignment->id), error)
               : status;
}

/* Records the assignment of an item that was handed over. */
static enum weir_status write_handed_over(struct round *round, struct assignment *assignment, int64_t target_id,
                                          struct weir_error *error)
{
    int64_t changes = 0;
    enum weir_status status = take_fence(round, error);
    if (status == WEIR_OK) {
        status = connection_run(round->connection, error, &changes, QUERY_ASSIGN_HANDED_OVER, "iiiiii",
                                facts_read_id(assignment->id), assignment->node_id, round->fence, round->now_us,
                                assignment->lane_id, target_id);
    }
    assignment->outcome = ASSIGNMENT_GONE;
    return status == WEIR_OK && changes == 1 ? note_assignment(round, assignment, error) : status;
}

/* The assignments of runnable items, while they are recorded. */
struct assigning {
    struct parameter_row *rows;     /* for the statements */
    struct assignment **found;      /* those that have a row, in their order */
    struct assignment **candidates; /* the assignment of each row */
    struct claimed_item *own;       /* of those that the own node gets, at the places of their assignments */
    size_t count;
};

/* Decides about each assignment without its row; those of handed over items are recorded at once. */
static enum weir_status choose_assignments(struct round *round, struct assigning *assigning, struct weir_error *error)
{
    struct schedule_call *call = round->call;
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < call->assignment_count && status == WEIR_OK; i++) {
        struct assignment *assignment = &call->assignments[i];
        bool takes = false;
        int64_t target_id = 0;
        status = node_takes(round, assignment->node_id, assignment->lane_id, &takes, &target_id, error);
        if (status != WEIR_OK || !takes) {
            assignment->outcome = ASSIGNMENT_NO_NODE;
            round->lacks_node = true;
        } else if (is_behind(round, i)) {
            assignment->outcome = ASSIGNMENT_BEHIND;
        } else if (assignment->handed_over) {
            status = write_handed_over(round, assignment, target_id, error);
        } else {
            assignment->outcome = ASSIGNMENT_GONE;
            assigning->candidates[assigning->count] = assignment;
            assigning->rows[assigning->count++] = (struct parameter_row){.number = facts_read_id(assignment->id),
                                                                         .node_id = assignment->node_id,
                                                                         .lane_id = assignment->lane_id,
                                                                         .rank = assignment->rank};
        }
    }
    return status;
}

/* Keeps a row that was found. False: an earlier assignment of the set has the item. */
static bool keep_found(struct assigning *assigning, struct taken *taken, size_t at, size_t *count)
{
    bool is_first = taken_mark(taken, assigning->rows[at].number);
    if (is_first) {
        assigning->found[(*count)++] = assigning->candidates[at];
    }
    return is_first;
}

/* Finds the items that may be assigned to other nodes. */
static enum weir_status find_for_others(struct round *round, struct assigning *assigning, struct taken *taken,
                                        size_t *count, struct weir_error *error)
{
    struct connection *connection = round->connection;
    enum weir_status status = WEIR_OK;
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_FIND_ASSIGNABLE, "i", round->call->node_id);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (connection_step(connection, statement, &status, error)) {
        size_t at = (size_t)sqlite3_column_int64(statement, 0);
        if (keep_found(assigning, taken, at, count)) {
            assigning->candidates[at]->since_us = sqlite3_column_int64(statement, 1);
        }
    }
    return status;
}

/* Finds the items that may be assigned to the own node, and reads the new ones for it. */
static enum weir_status find_own(struct round *round, struct assigning *assigning, struct taken *taken, size_t *count,
                                 struct weir_error *error)
{
    struct connection *connection = round->connection;
    const struct claimed claimed = {.connection = connection, .arena = round->arena, .now_us = round->now_us};
    enum weir_status status = WEIR_OK;
    bool failed = false;
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_FIND_OWN_ASSIGNABLE, "i", round->call->node_id);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (connection_step(connection, statement, &status, error)) {
        size_t at = (size_t)sqlite3_column_int64(statement, 0);
        bool is_new = sqlite3_column_int(statement, 10) != 0;
        if (keep_found(assigning, taken, at, count) && is_new) {
            claimed_take_new(&claimed, statement, &assigning->own[assigning->candidates[at] - round->call->assignments],
                             &failed);
        }
    }
    return status == WEIR_OK && failed ? error_out_of_memory(error) : status;
}

/* Keeps the assignments whose items may still be assigned. */
static enum weir_status find_assignable(struct round *round, struct assigning *assigning, struct weir_error *error)
{
    struct taken taken;
    size_t own = 0;
    size_t count = 0;
    enum weir_status status = WEIR_OK;
    taken_begin(&taken, assigning->count);
    for (size_t i = 0; i < assigning->count; i++) {
        own += assigning->rows[i].node_id == round->call->node_id;
    }
    round->connection->parameter_rows = (struct parameter_rows){.rows = assigning->rows, .count = assigning->count};
    if (own < assigning->count) {
        status = find_for_others(round, assigning, &taken, &count, error);
    }
    if (status == WEIR_OK && own > 0) {
        status = find_own(round, assigning, &taken, &count, error);
    }
    round->connection->parameter_rows = (struct parameter_rows){.count = 0};
    assigning->count = count;
    return status;
}

/* Updates the rows of the items that one node gets. */
static enum weir_status assign_to_node(struct round *round, struct assigning *assigning, int64_t node_id,
                                       struct weir_error *error)
{
    struct connection *connection = round->connection;
    size_t count = 0;
    bool takes = false;
    int64_t target_id = 0;
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < assigning->count; i++) {
        struct assignment *assignment = assigning->found[i];
        if (assignment->node_id == node_id) {
            assigning->rows[count++] = (struct parameter_row){.number = facts_read_id(assignment->id)};
            status = status == WEIR_OK ? note_assignment(round, assignment, error) : status;
        }
    }
    if (status == WEIR_OK) {
        status = node_takes(round, node_id, assigning->found[0]->lane_id, &takes, &target_id, error);
    }
    connection->parameter_rows = (struct parameter_rows){.rows = assigning->rows, .count = count};
    if (status == WEIR_OK) {
        status = connection_run(connection, error, NULL, QUERY_ASSIGN_ITEMS, "iiii", node_id, target_id, round->fence,
                                round->now_us);
    }
    connection->parameter_rows = (struct parameter_rows){.count = 0};
    return status;
}

/* Records the assignments of runnable items, with one statement for each node. */
static enum weir_status assign_runnable(struct round *round, struct assigning *assigning, struct weir_error *error)
{
    enum weir_status status = find_assignable(round, assigning, error);
    if (status == WEIR_OK && assigning->count > 0) {
        status = take_fence(round, error);
    }
    for (size_t i = 0; i < assigning->count && status == WEIR_OK; i++) {
        if (assigning->found[i]->outcome != ASSIGNMENT_TAKEN) {
            status = assign_to_node(round, assigning, assigning->found[i]->node_id, error);
        }
    }
    return status;
}

/* Whether the assignment went to the node of the caller. */
static bool is_own(const struct schedule_call *call, const struct assignment *assignment)
{
    return assignment->outcome == ASSIGNMENT_TAKEN && assignment->node_id == call->node_id;
}

/* Reads the rows of own items that find_own() has not read, into the places of their assignments. */
static enum weir_status read_others(struct claimed *claimed, struct round *round, struct claimed_item *own,
                                    struct weir_error *error)
{
    const struct schedule_call *call = round->call;
    size_t count = 0;
    int64_t *numbers = arena_allocate(round->arena, call->assignment_count * sizeof *numbers);
    struct claimed_item *items = arena_allocate(round->arena, call->assignment_count * sizeof *items);
    if (items == NULL || numbers == NULL) {
        return error_out_of_memory(error);
    }
    for (size_t i = 0; i < call->assignment_count; i++) {
        if (is_own(call, &call->assignments[i]) && own[i].id[0] == '\0') {
            numbers[count++] = facts_read_id(call->assignments[i].id);
        }
    }
    enum weir_status status = claimed_read_rows(claimed, numbers, count, items, error);
    for (size_t i = call->assignment_count; i-- > 0 && status == WEIR_OK;) {
        if (is_own(call, &call->assignments[i]) && own[i].id[0] == '\0') {
            own[i] = items[--count];
        }
    }
    return status;
}

/* The items of the caller's own node, in the order of the assignments. Those that were new were read by find_own(). */
static enum weir_status read_claimed(struct round *round, struct claimed_item *own, struct weir_error *error)
{
    const struct schedule_call *call = round->call;
    struct claimed claimed = {.connection = round->connection, .arena = round->arena, .now_us = round->now_us};
    struct claim_result *result = &round->answer.claimed;
    size_t others = 0;
    for (size_t i = 0; i < call->assignment_count; i++) {
        result->handed_over += is_own(call, &call->assignments[i]) && call->assignments[i].handed_over;
        others += is_own(call, &call->assignments[i]) && own[i].id[0] == '\0';
    }
    enum weir_status status = others == 0 ? WEIR_OK : read_others(&claimed, round, own, error);
    for (size_t i = 0; i < call->assignment_count && status == WEIR_OK; i++) {
        struct assignment *assignment = &call->assignments[i];
        if (is_own(call, assignment)) {
            if (!assignment->handed_over) {
                own[i].fence = round->fence;
                own[i].claimed_at_us = time_later(round->now_us, own[i].created_at_us);
            }
            assignment->since_us = claimed_item_first_wait_us(&own[i]);
            own[i].handed_over = assignment->handed_over;
            own[i].others_wait = assignment->others_wait;
            own[result->count++] = own[i];
        }
    }
    result->items = own;
    return status == WEIR_OK ? claimed_complete(&claimed, own, result->count, error) : status;
}

/* Records all assignments, then completes the items of the own node. */
static enum weir_status assign_all(struct round *round, struct weir_error *error)
{
    size_t count = round->call->assignment_count;
    struct assigning assigning = {.rows = malloc(count * sizeof *assigning.rows),
                                  .found = arena_allocate(round->arena, count * sizeof *assigning.found),
                                  .candidates = arena_allocate(round->arena, count * sizeof *assigning.candidates),
                                  .own = arena_allocate(round->arena, count * sizeof *assigning.own)};
    enum weir_status status = WEIR_OK;
    if (assigning.rows == NULL || assigning.found == NULL || assigning.candidates == NULL || assigning.own == NULL) {
        status = error_out_of_memory(error);
    }
    if (status == WEIR_OK) {
        status = choose_assignments(round, &assigning, error);
    }
    if (status == WEIR_OK && assigning.count > 0) {
        status = assign_runnable(round, &assigning, error);
    }
    free(assigning.rows);
    return status == WEIR_OK ? read_claimed(round, assigning.own, error) : status;
}

/* --- due items, and items without a workspace --- */

struct due_item {
    int64_t number;
    int64_t lane_id;
    int64_t rank;
    bool is_parked; /* WAITING */
    char id[UUID_TEXT_MAX];
};

/* Reads waiting items that are due. */
static enum weir_status read_due(struct round *round, struct due_item *due, size_t *ret_count, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    size_t count = 0;
    sqlite3_stmt *statement =
        connection_bind(round->connection, error, QUERY_DUE_ITEMS, "ii", round->now_us, (int64_t)PROMOTE_BATCH);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (count < PROMOTE_BATCH && connection_step(round->connection, statement, &status, error)) {
        due[count] = (struct due_item){.number = sqlite3_column_int64(statement, 0),
                                       .lane_id = sqlite3_column_int64(statement, 1),
                                       .rank = sqlite3_column_int64(statement, 2),
                                       .is_parked = sqlite3_column_int(statement, 3) == 3};
        text_copy(due[count++].id, sizeof due[0].id, column_text(statement, 4));
    }
    (void)sqlite3_reset(statement);
    *ret_count = count;
    return status;
}

/* The rows of due items. They have the ends of the waits, which get event rows only when their rows are parked again. */
static enum weir_status write_due(struct round *round, const struct due_item *due, size_t count, struct weir_error *error)
{
    struct connection *connection = round->connection;
    struct parameter_row *rows = arena_allocate(round->arena, (count + 1) * sizeof *rows);
    if (rows == NULL) {
        return error_out_of_memory(error);
    }
    for (size_t i = 0; i < count; i++) {
        rows[i] = (struct parameter_row){.number = due[i].number};
    }
    connection->parameter_rows = (struct parameter_rows){.rows = rows, .count = count};
    enum weir_status status =
        count == 0 ? WEIR_OK : connection_run(connection, error, NULL, QUERY_PROMOTE_ITEMS, "i", round->now_us);
    connection->parameter_rows = (struct parameter_rows){.count = 0};
    return status;
}

/* Makes due items runnable, and reports each as a fact. */
static enum weir_status promote_due_items(struct round *round, struct weir_error *error)
{
    size_t count = 0;
    struct due_item *due = arena_allocate(round->arena, PROMOTE_BATCH * sizeof *due);
    if (due == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = read_due(round, due, &count, error);
    if (status == WEIR_OK) {
        status = write_due(round, due, count, error);
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        struct lane_delta *delta =
            news_lane(&round->write->news, round->connection, NEWS_PROMOTED, 0, due[i].lane_id, &status, error);
        delta->waiting -= !due[i].is_parked;
        delta->parked -= due[i].is_parked;
        news_add_runnable(delta, due[i].rank);
        if (status == WEIR_OK && due[i].is_parked) {
            status = stream_add(&round->write->news, round->connection, STREAM_WAKE, due[i].id,
                                lane_workspace_id(due[i].lane_id), error);
        }
        struct schedule_fact *fact = facts_add(&round->facts, FACT_RUNNABLE);
        fact->lane_id = due[i].lane_id;
        fact->rank = due[i].rank;
        facts_write_id(due[i].number, fact->id);
        round->changed = true;
    }
    return status;
}

/* Ends one item without a workspace. */
static enum weir_status end_orphan(struct round *round, const char *id, int64_t lane_id, struct weir_error *error)
{
    char text[96];
    (void)snprintf(text, sizeof text, "its workspace (number %lld) does not exist", (long long)lane_workspace_id(lane_id));
    struct ending ending = {
        .id = id, .state = ITEM_FAILED, .error_code = weir_status_name(WEIR_WORKSPACE_NOT_FOUND), .error = text};
    enum weir_status status = event_history_add(round->connection, id, round->now_us, "refuse", round->call->node_id, 0,
                                                NULL, ending.error_code, text, error);
    round->changed = true;
    struct orphan *orphan = &round->answer.orphans[round->answer.orphan_count++];
    text_copy(orphan->id, sizeof orphan->id, id);
    orphan->workspace_id = lane_workspace_id(lane_id);
    return status == WEIR_OK ? item_end(round->write, &ending, error) : status;
}

/* Ends items of one lane, at most *left. */
static enum weir_status end_orphans_of(struct round *round, int64_t lane_id, size_t *left, struct weir_error *error)
{
    size_t count = 0;
    enum weir_status status = WEIR_OK;
    char(*ids)[UUID_TEXT_MAX] = arena_allocate(round->arena, *left * sizeof *ids);
    if (ids == NULL) {
        return error_out_of_memory(error);
    }
    sqlite3_stmt *statement = connection_bind(round->connection, error, QUERY_ORPHAN_ITEMS, "ii", lane_id, (int64_t)*left);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (count < *left && connection_step(round->connection, statement, &status, error)) {
        text_copy(ids[count++], UUID_TEXT_MAX, column_text(statement, 0));
    }
    (void)sqlite3_reset(statement);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = end_orphan(round, ids[i], lane_id, error);
    }
    *left -= count;
    return status;
}

/* The caller may be wrong: a workspace of that number may have been made since. */
static enum weir_status end_orphans(struct round *round, struct weir_error *error)
{
    size_t left = RECOVER_BATCH;
    enum weir_status status = WEIR_OK;
    if (round->call->orphan_count > 0) {
        round->answer.orphans = arena_allocate(round->arena, left * sizeof *round->answer.orphans);
        status = round->answer.orphans == NULL ? error_out_of_memory(error) : WEIR_OK;
    }
    for (size_t i = 0; i < round->call->orphan_count && left > 0 && status == WEIR_OK; i++) {
        int64_t lane_id = round->call->orphans[i];
        int64_t slots_max;
        status = connection_read_integer(round->connection, error, &slots_max, QUERY_WORKSPACE_LIMITS, "i",
                                         lane_workspace_id(lane_id));
        if (status == WEIR_NOT_FOUND) {
            status = end_orphans_of(round, lane_id, &left, error);
        }
    }
    return status;
}

/* --- heads --- */

/* Reads limits and heads of all lanes that the caller names. */
static enum weir_status read_all_heads(struct round *round, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < round->call->read_count && status == WEIR_OK; i++) {
        status = lane_heads_read(round->connection, round->arena, &round->call->reads[i], error);
    }
    return status;
}

/* Adds the heads of the few lanes with new items in the news, so that these are assigned one round earlier. */
static enum weir_status read_news_heads(struct round *round, struct weir_error *error)
{
    const struct facts *facts = &round->facts;
    struct lane_read *reads = NULL;
    size_t count = 0;
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < round->news_fact_count; i++) {
        count += facts->items[i].kind == FACT_RUNNABLE;
    }
    if (count == 0 || count > NEWS_HEADS_MOST) {
        return WEIR_OK;
    }
    reads = arena_allocate(round->arena, count * sizeof *reads);
    if (reads == NULL) {
        return error_out_of_memory(error);
    }
    count = 0;
    for (size_t i = 0; i < round->news_fact_count && status == WEIR_OK; i++) {
        if (facts->items[i].kind == FACT_RUNNABLE) {
            reads[count] = (struct lane_read){
                .lane_id = facts->items[i].lane_id, .after_rank = facts->items[i].rank, .most = NEWS_HEADS_OF_LANE};
            status = lane_heads_read(round->connection, round->arena, &reads[count++], error);
        }
    }
    round->answer.news_reads = reads;
    round->answer.news_read_count = count;
    return status;
}

/* --- the round --- */

/* Reads news as facts; the first round of an epoch takes the last position instead. */
static enum weir_status read_news(struct round *round, bool *ret_stale, struct weir_error *error)
{
    if (round->call->load) {
        *ret_stale = false;
        return connection_read_integer(round->connection, error, &round->position, QUERY_LAST_NEWS, "");
    }
    enum weir_status status = facts_of_news(&round->facts, &round->position, ret_stale, &round->answer.more_news, error);
    round->news_fact_count = round->facts.failed ? 0 : round->facts.count;
    return status;
}

/* Reads the facts that the caller needs, or all of them at a load. */
static enum weir_status read_needed_facts(struct round *round, struct weir_error *error)
{
    bool load = round->call->load;
    unsigned needs = round->call->needs;
    enum weir_status status = WEIR_OK;
    if (load || (needs & NEED_STATE) != 0) {
        status = facts_of_state(&round->facts, round->now_us, error);
    }
    if (status == WEIR_OK && load) {
        status = facts_of_lanes(&round->facts, error);
    }
    if (status == WEIR_OK && (load || (needs & NEED_HANDED_OVER) != 0)) {
        status = facts_of_handovers(&round->facts, error);
    }
    return status;
}

/* Reads when the next waiting item is due. */
static enum weir_status read_next_due(struct round *round, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(round->connection, error, QUERY_NEXT_DUE, "");
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(round->connection, statement, &status, error)) {
        bool waits = sqlite3_column_type(statement, 0) != SQLITE_NULL;
        round->answer.next_due_us = waits ? sqlite3_column_int64(statement, 0) : TIME_NEVER;
        (void)sqlite3_reset(statement);
    }
    return status;
}

/* Reads whether operators have requests for the node. */
static enum weir_status read_requests(struct round *round, struct weir_error *error)
{
    int64_t requests = 0;
    enum weir_status status =
        connection_read_integer(round->connection, error, &requests, QUERY_HAS_REQUESTS, "i", round->call->node_id);
    round->answer.requests = requests != 0;
    return status;
}

/* Whether the round looks at waiting items. */
static bool needs_due(const struct round *round)
{
    return round->call->load || (round->call->needs & NEED_DUE) != 0;
}

/* Extends the lease of the role. */
static enum weir_status renew_lease(struct round *round, struct weir_error *error)
{
    const struct schedule_call *call = round->call;
    int64_t changes = 0;
    enum weir_status status = connection_run(round->connection, error, &changes, QUERY_RENEW_ROLE, "iiiii", call->node_id,
                                             call->epoch, round->now_us, call->lease_us, (int64_t)call->awaits_lock);
    round->changed = true;
    return status == WEIR_OK && changes == 0 ? error_set(error, WEIR_STALE_FENCE, "this node has left the role") : status;
}

/* The writes of the round, in the order of the steps above. */
static enum weir_status write_round_changes(struct round *round, struct weir_error *error)
{
    enum weir_status status = round->call->lease_us > 0 ? renew_lease(round, error) : WEIR_OK;
    if (status == WEIR_OK && round->call->assignment_count > 0 && !round->answer.is_stale) {
        status = assign_all(round, error);
    }
    if (status == WEIR_OK && needs_due(round)) {
        status = promote_due_items(round, error);
    }
    return status == WEIR_OK ? end_orphans(round, error) : status;
}

/* The whole round inside a transaction. */
static enum weir_status run_scheduler_round(struct round *round, struct weir_error *error)
{
    bool has_acts = false;
    enum weir_status status = role_check(round->connection, round->call->epoch, &round->cookie, error);
    if (status == WEIR_OK && !round->call->load && round->store->news_epoch != round->call->epoch) {
        status = error_set(error, WEIR_MISUSE, "the first round of an epoch loads");
    }
    if (status == WEIR_OK) {
        status = read_news(round, &has_acts, error);
    }
    round->answer.is_stale = has_acts && round->call->assignment_count > 0;
    if (status == WEIR_OK && round->write != NULL) {
        status = write_round_changes(round, error);
    }
    if (status == WEIR_OK) {
        status = read_needed_facts(round, error);
    }
    if (status == WEIR_OK && needs_due(round)) {
        status = read_next_due(round, error);
    }
    if (status == WEIR_OK) {
        status = read_all_heads(round, error);
    }
    if (status == WEIR_OK) {
        status = read_news_heads(round, error);
    }
    if (status == WEIR_OK) {
        status = read_requests(round, error);
    }
    round->answer.now_us = round->now_us;
    round->answer.claimed.now_us = round->now_us;
    round->answer.facts = round->facts.items;
    round->answer.fact_count = round->facts.count;
    return facts_end(&round->facts, status, error);
}

/* Prepares the round; it may run a second time, as a write. */
static void begin_round(struct round *round, struct connection *connection, struct write *write, int64_t now_us)
{
    size_t count = round->call->assignment_count;
    round->connection = connection;
    round->write = write;
    round->now_us = now_us;
    round->position = round->store->news_position;
    round->cookie = round->call->load ? 0 : round->store->news_cookie;
    round->answer = (struct schedule_answer){.next_due_us = TIME_NEVER};
    round->facts = (struct facts){.connection = connection, .arena = round->arena};
    round->news_fact_count = 0;
    for (size_t i = 0; i < count; i++) {
        round->call->assignments[i].outcome = ASSIGNMENT_UNDONE;
    }
}

/* *ret_must_write: items are due, so that the round must be run again as a write. */
static enum weir_status run_as_read(struct round *round, bool *ret_must_write, struct weir_error *error)
{
    struct connection *connection;
    int64_t now_us = 0;
    enum weir_status status = snapshot_begin(&round->store->store, &connection, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = connection_store_time(connection, &now_us, error);
    begin_round(round, connection, NULL, now_us);
    if (status == WEIR_OK && needs_due(round)) {
        status = read_next_due(round, error);
        *ret_must_write = status == WEIR_OK && round->answer.next_due_us <= now_us;
    }
    if (status == WEIR_OK && !*ret_must_write) {
        status = run_scheduler_round(round, error);
    }
    snapshot_end(connection);
    return status;
}

/* Whether the next round is likely to assign: lanes became runnable, or their heads were read. */
static bool leads_to_assignments(const struct round *round)
{
    bool leads = round->call->read_count > 0;
    for (size_t i = 0; i < round->answer.fact_count && !leads; i++) {
        leads = round->answer.facts[i].kind == FACT_RUNNABLE;
    }
    return leads;
}

/* Runs the round as a write; without a change it is undone. */
static enum weir_status run_as_write(struct round *round, struct weir_error *error)
{
    struct write write;
    bool is_short = round->call->assignment_count <= WRITE_SHORT_MOST;
    enum weir_status status =
        is_short ? write_open_short(&round->store->store, &write, error) : write_open(&round->store->store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    begin_round(round, write.connection, &write, write.now_us);
    status = run_scheduler_round(round, error);
    if (status == WEIR_OK && is_short && round->store->file != NULL && leads_to_assignments(round)) {
        write_expect_round(round->store->file);
    }
    if (status == WEIR_OK && round->changed) {
        status = write_finish(&write, error);
    } else {
        write_undo(&write);
    }
    round->write = NULL; /* it ends here */
    return status;
}

enum weir_status sqlite_schedule(struct store *store, struct schedule_call *call, struct arena *arena,
                                 struct schedule_answer *ret_answer, struct weir_error *error)
{
    INVARIANT(call->epoch > 0 && call->node_id > 0 && call->assignment_count <= CLAIM_BATCH_MOST && arena != NULL);
    struct sqlite_store *self = sqlite_of(store);
    struct round round = {.store = self, .call = call, .arena = arena};
    bool must_write = call->assignment_count > 0 || call->orphan_count > 0 || call->lease_us > 0;
    enum weir_status status = WEIR_OK;
    if (!must_write) {
        status = run_as_read(&round, &must_write, error);
    }
    if (status == WEIR_OK && must_write) {
        status = run_as_write(&round, error);
    }
    if (self->file != NULL) { /* one thread runs all of a simulation, so nothing may wait there */
        write_set_scheduler(self->file, status == WEIR_OK && store->clock == clock_system());
    }
    if (status == WEIR_OK) {
        self->news_epoch = call->epoch;
        self->news_position = round.position;
        self->news_cookie = round.cookie;
        *ret_answer = round.answer;
    } else if (call->load) {
        self->news_epoch = 0;
    }
    return status;
}
