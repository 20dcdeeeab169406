/* Facts for the scheduler: what the tables hold, in the form in which the scheduler learns of it.
 *
 * News becomes facts in the order of the rows. An act is not decoded. It makes the facts re-read the limits of the
 * workspaces that it names, or of all. The present limits are the truth, and several acts may have followed each other.
 * The first round of an epoch reads everything. A failed allocation is noted and reported once, at the end, so that the
 * readers need no check after each fact.
 *
 * It never writes and never decides. It runs inside the transaction of the round, in the dispatch thread of the
 * scheduler's node.
 */
#include "store/sqlite/facts.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/sqlite/news.h"

enum { FACTS_FIRST = 64, ACT_WORKSPACES_MOST = 10000 };

void facts_write_id(int64_t number, uint8_t *id)
{
    memset(id, 0, SCHEDULER_ID_BYTES);
    for (int i = 7; i >= 0; i--) {
        id[i] = (uint8_t)(number & 0xff);
        number >>= 8;
    }
}

int64_t facts_read_id(const uint8_t *id)
{
    uint64_t number = 0;
    for (int i = 0; i < 8; i++) {
        number = number << 8 | id[i];
    }
    return (int64_t)number;
}

struct schedule_fact *facts_add(struct facts *facts, enum schedule_fact_kind kind)
{
    INVARIANT(facts->count <= facts->capacity);
    if (facts->count == facts->capacity && !facts->failed) {
        size_t capacity = facts->capacity == 0 ? FACTS_FIRST : facts->capacity * 2;
        struct schedule_fact *items = arena_allocate(facts->arena, capacity * sizeof *items);
        facts->failed = items == NULL;
        if (items != NULL) {
            if (facts->count > 0) {
                memcpy(items, facts->items, facts->count * sizeof *items);
            }
            facts->items = items;
            facts->capacity = capacity;
        }
    }
    struct schedule_fact *fact = facts->failed ? &facts->spare : &facts->items[facts->count++];
    *fact = (struct schedule_fact){.kind = kind};
    return fact;
}

enum weir_status facts_end(const struct facts *facts, enum weir_status status, struct weir_error *error)
{
    return status == WEIR_OK && facts->failed ? error_out_of_memory(error) : status;
}

/* --- news --- */

/* A change of the slots of a workspace, and of the items that a node holds. */
static void add_held(struct facts *facts, const struct lane_delta *delta, int64_t node_id, int64_t node_held)
{
    struct schedule_fact *fact = facts_add(facts, FACT_HELD);
    fact->lane_id = delta->lane_id;
    fact->workspace_id = lane_workspace_id(delta->lane_id);
    fact->group_id = lane_group_id(delta->lane_id);
    fact->node_id = node_id;
    fact->slots = delta->held;
    fact->node_held = node_id == 0 ? 0 : node_held;
}

/* The facts of one lane in a row of the news. */
static void add_lane(struct facts *facts, enum news_kind kind, int64_t node_id, const struct lane_delta *delta)
{
    if (delta->runnable > 0) {
        struct schedule_fact *fact = facts_add(facts, FACT_RUNNABLE);
        fact->lane_id = delta->lane_id;
        fact->rank = delta->least_rank;
    }
    if ((kind == NEWS_PUT_BACK || kind == NEWS_ENDED) && delta->held != 0) {
        add_held(facts, delta, node_id, delta->held);
    }
    if (kind == NEWS_HANDED_OVER) {
        add_held(facts, delta, node_id, delta->node_held);
    }
}

/* Names the facts that the scheduler must read again. */
static void add_needs(struct facts *facts, unsigned needs, int64_t due_us)
{
    struct schedule_fact *fact = facts_add(facts, FACT_NEWS);
    fact->flags = needs;
    fact->due_us = due_us;
}

/* The facts of all lanes in a row of the news. */
static enum weir_status add_lanes(struct facts *facts, enum news_kind kind, int64_t node_id, const char *lanes,
                                  struct weir_error *error)
{
    struct lane_delta delta;
    bool bad = lanes == NULL;
    bool ends_without_slot = false;
    while (!bad && news_next_lane(&lanes, &delta, &bad)) {
        add_lane(facts, kind, node_id, &delta);
        ends_without_slot = ends_without_slot || (kind == NEWS_ENDED && delta.held == 0);
    }
    if (ends_without_slot) {
        add_needs(facts, NEED_NOTHING, 0);
    }
    return bad ? error_set(error, WEIR_STORE_CORRUPT, "a row of the news is damaged") : WEIR_OK;
}

/* Workspaces that the acts name; with too many of them, all. */
struct acts {
    bool found;
    bool any;
    int64_t workspaces[ACT_WORKSPACES_MOST];
    size_t count;
};

/* Collects the workspaces that an act names. */
static void note_act(struct acts *acts, const char *workspaces)
{
    acts->found = true;
    acts->any = acts->any || workspaces == NULL;
    for (const char *at = workspaces; at != NULL && *at != '\0' && *at != ']';) {
        char *end = NULL;
        int64_t id = strtoll(at + 1, &end, 10);
        if (end == at + 1) {
            break;
        }
        if (acts->count == ACT_WORKSPACES_MOST) {
            acts->any = true;
        } else {
            acts->workspaces[acts->count++] = id;
        }
        at = end;
    }
}

/* The present limits of a workspace. */
static enum weir_status add_workspace(struct facts *facts, int64_t workspace_id, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(facts->connection, error, QUERY_WORKSPACE_LIMITS, "i", workspace_id);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    struct schedule_fact *fact = facts_add(facts, FACT_WORKSPACE);
    fact->workspace_id = workspace_id;
    if (connection_step(facts->connection, statement, &status, error)) {
        fact->exists = true;
        fact->slots_max = sqlite3_column_int64(statement, 0);
        fact->weight = sqlite3_column_int(statement, 1);
        fact->paused = sqlite3_column_int(statement, 2) != 0;
        (void)sqlite3_reset(statement);
    }
    return status;
}

static enum weir_status add_acts(struct facts *facts, const struct acts *acts, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    if (!acts->found) {
        return status;
    }
    if (acts->any) {
        (void)facts_add(facts, FACT_WORKSPACES);
    }
    for (size_t i = 0; i < acts->count && !acts->any && status == WEIR_OK; i++) {
        status = add_workspace(facts, acts->workspaces[i], error);
    }
    add_needs(facts, NEED_STATE, 0);
    return status;
}

static enum weir_status add_row(struct facts *facts, sqlite3_stmt *statement, struct acts *acts, struct weir_error *error)
{
    enum news_kind kind = (enum news_kind)sqlite3_column_int(statement, 1);
    if (kind == NEWS_ASSIGNED || kind == NEWS_PROMOTED) {
        return WEIR_OK; /* the scheduler's own */
    }
    if (kind == NEWS_ACT) {
        note_act(acts, column_text(statement, 5));
        return WEIR_OK;
    }
    if (sqlite3_column_type(statement, 4) != SQLITE_NULL) {
        add_needs(facts, NEED_DUE, sqlite3_column_int64(statement, 4));
    }
    if (kind == NEWS_STATE) {
        add_needs(facts, NEED_STATE, 0);
        return WEIR_OK;
    }
    if (kind == NEWS_HANDED_OVER) {
        add_needs(facts, NEED_HANDED_OVER, 0);
    }
    return add_lanes(facts, kind, sqlite3_column_int64(statement, 2), column_text(statement, 3), error);
}

static enum weir_status read_rows(struct facts *facts, int64_t *position, struct acts *acts, bool *ret_more,
                                  struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    size_t count = 0;
    sqlite3_stmt *statement =
        connection_bind(facts->connection, error, QUERY_READ_NEWS, "ii", *position, (int64_t)NEWS_BATCH_MOST + 1);
    if (statement == NULL) {
        return statement_failure(error);
    }
    *ret_more = false;
    while (status == WEIR_OK && !*ret_more && connection_step(facts->connection, statement, &status, error)) {
        *ret_more = count == NEWS_BATCH_MOST || facts->count > SCHEDULE_FACTS_MOST / 2;
        if (!*ret_more) {
            count++;
            *position = sqlite3_column_int64(statement, 0);
            status = add_row(facts, statement, acts, error);
        }
    }
    (void)sqlite3_reset(statement);
    return status;
}

enum weir_status facts_of_news(struct facts *facts, int64_t *position, bool *ret_acts, bool *ret_more,
                               struct weir_error *error)
{
    INVARIANT(facts != NULL && position != NULL && ret_acts != NULL && ret_more != NULL);
    int64_t unread = 0;
    struct acts *acts = calloc(1, sizeof *acts);
    if (acts == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = read_rows(facts, position, acts, ret_more, error);
    if (status == WEIR_OK && *ret_more) {
        status = connection_read_integer(facts->connection, error, &unread, QUERY_UNREAD_ACT, "i", *position);
    }
    if (status == WEIR_OK) {
        status = add_acts(facts, acts, error);
    }
    *ret_acts = acts->found || unread != 0;
    free(acts);
    return facts_end(facts, status, error);
}

/* --- state --- */

static enum weir_status add_groups(struct facts *facts, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(facts->connection, error, QUERY_GROUPS, "");
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (connection_step(facts->connection, statement, &status, error)) {
        struct schedule_fact *fact = facts_add(facts, FACT_GROUP);
        fact->group_id = sqlite3_column_int64(statement, 0);
        fact->paused = sqlite3_column_int(statement, 1) != 0;
    }
    return status;
}

static enum weir_status add_node_handlers(struct facts *facts, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(facts->connection, error, QUERY_NODE_HANDLER_SETS, "");
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (connection_step(facts->connection, statement, &status, error)) {
        struct schedule_fact *fact = facts_add(facts, FACT_NODE_HANDLERS);
        fact->node_id = sqlite3_column_int64(statement, 0);
        fact->handler_set = sqlite3_column_int64(statement, 1);
    }
    return status;
}

static enum weir_status add_nodes(struct facts *facts, int64_t now_us, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(facts->connection, error, QUERY_SCHEDULABLE_NODES, "i", now_us);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    (void)facts_add(facts, FACT_NODES);
    while (connection_step(facts->connection, statement, &status, error)) {
        struct schedule_fact *fact = facts_add(facts, FACT_NODE);
        fact->node_id = sqlite3_column_int64(statement, 0);
        fact->group_id = sqlite3_column_int64(statement, 1);
        fact->capacity = sqlite3_column_int64(statement, 2);
        fact->accepts = sqlite3_column_int(statement, 3) != 0;
        fact->target_id = sqlite3_column_int64(statement, 4);
        fact->on_temporal = sqlite3_column_int(statement, 5) != 0;
    }
    if (status == WEIR_OK) {
        status = add_node_handlers(facts, error);
    }
    (void)facts_add(facts, FACT_NODES_END);
    return status;
}

enum weir_status facts_of_state(struct facts *facts, int64_t now_us, struct weir_error *error)
{
    INVARIANT(facts != NULL);
    int64_t paused = 0;
    enum weir_status status = connection_read_integer(facts->connection, error, &paused, QUERY_QUEUE_IS_PAUSED, "");
    if (status == WEIR_OK) {
        facts_add(facts, FACT_QUEUE)->paused = paused != 0;
        status = add_groups(facts, error);
    }
    if (status == WEIR_OK) {
        status = add_nodes(facts, now_us, error);
    }
    return facts_end(facts, status, error);
}

static void add_suspicion(struct schedule_fact *fact, sqlite3_stmt *statement)
{
    facts_write_id(sqlite3_column_int64(statement, 0), fact->id);
    fact->lane_id = sqlite3_column_int64(statement, 1);
    fact->suspicion = sqlite3_column_int64(statement, 2);
    fact->since_us = sqlite3_column_int64(statement, 3);
}

enum weir_status facts_of_handovers(struct facts *facts, struct weir_error *error)
{
    INVARIANT(facts != NULL);
    sqlite3_stmt *statement = connection_bind(facts->connection, error, QUERY_HANDED_OVER_ITEMS, "");
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    (void)facts_add(facts, FACT_SUSPECTS);
    while (connection_step(facts->connection, statement, &status, error)) {
        struct schedule_fact *fact = facts_add(facts, FACT_HANDED_OVER);
        add_suspicion(fact, statement);
        fact->target_id = sqlite3_column_int64(statement, 4);
    }
    if (status != WEIR_OK) {
        return status;
    }
    statement = connection_bind(facts->connection, error, QUERY_SUSPECTS, "");
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (connection_step(facts->connection, statement, &status, error)) {
        struct schedule_fact *fact = facts_add(facts, FACT_SUSPECT);
        add_suspicion(fact, statement);
        fact->node_id = sqlite3_column_int64(statement, 4);
        fact->target_id = sqlite3_column_int64(statement, 5);
    }
    (void)facts_add(facts, FACT_SUSPECTS_END);
    return facts_end(facts, status, error);
}

/* --- everything --- */

static enum weir_status add_all_held(struct facts *facts, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(facts->connection, error, QUERY_HELD_BY_LANE, "");
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (connection_step(facts->connection, statement, &status, error)) {
        struct lane_delta held = {.lane_id = sqlite3_column_int64(statement, 0),
                                  .held = sqlite3_column_int64(statement, 2)};
        add_held(facts, &held, sqlite3_column_int64(statement, 1), held.held);
    }
    return status;
}

enum weir_status facts_of_lanes(struct facts *facts, struct weir_error *error)
{
    INVARIANT(facts != NULL);
    enum weir_status status = add_all_held(facts, error);
    if (status != WEIR_OK) {
        return status;
    }
    sqlite3_stmt *statement = connection_bind(facts->connection, error, QUERY_RUNNABLE_LANES, "");
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (connection_step(facts->connection, statement, &status, error)) {
        int64_t lane_id = sqlite3_column_int64(statement, 0);
        if (sqlite3_column_type(statement, 1) != SQLITE_NULL) {
            struct schedule_fact *pass = facts_add(facts, FACT_PASS);
            pass->lane_id = lane_id;
            pass->pass = sqlite3_column_int64(statement, 1);
        }
        struct schedule_fact *runnable = facts_add(facts, FACT_RUNNABLE);
        runnable->lane_id = lane_id;
        runnable->rank = INT64_MIN;
    }
    return facts_end(facts, status, error);
}
