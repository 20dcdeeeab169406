/* Claim: promote what is due, take what dead nodes left, then the heads of the ready lanes in stride order (design 3.4).
 *
 * Everything happens in one write transaction, so no other claimer can pass a cap in between; a look without a transaction
 * comes first, so that an idle queue is never written. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "queue/fair_share.h"
#include "store/sqlite/sqlite_store.h"

enum { DEFINITION_CACHE = 64 };

struct claim {
    struct write write;
    const struct claim_options *options;
    struct arena *arena;
    struct claimed_item *items;
    int64_t *ranks;
    int64_t *row_numbers;
    size_t count;
    int64_t fence;
    struct {
        int64_t id;
        const char *name;
        int version;
    } definitions[DEFINITION_CACHE]; /* of this claim: a direct-mapped cache of what RETURNING cannot join cheaply */
};

/* --- looking --- */

struct work {
    bool lanes;       /* one of them is ready */
    bool handed_over; /* a dead node left something */
    bool requests;
    bool runs;   /* this node may claim */
    bool paused; /* the queue, or the group */
    int64_t due_us;
};

static enum weir_status look(struct connection *connection, int64_t node_id, const char *group, struct work *ret_work,
                             struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_NEXT_WORK, "it", node_id, group);
    enum weir_status status = WEIR_FAILED;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(connection, statement, &status, error)) {
        return status == WEIR_OK ? error_set(error, WEIR_STORE_CORRUPT, "the row of store_state is missing") : status;
    }
    *ret_work = (struct work){
        .lanes = sqlite3_column_int(statement, 0) != 0,
        .handed_over = sqlite3_column_int(statement, 1) != 0,
        .due_us = sqlite3_column_type(statement, 2) == SQLITE_NULL ? TIME_NEVER : sqlite3_column_int64(statement, 2),
        .requests = sqlite3_column_int(statement, 3) != 0,
        .paused = sqlite3_column_int(statement, 4) != 0,
        .runs = sqlite3_column_int(statement, 5) != 0,
    };
    (void)sqlite3_reset(statement);
    return WEIR_OK;
}

/* What a dead node left is taken over also while the queue is paused: it is running work, not a new claim. */
static bool is_ready(const struct work *work, int64_t now_us)
{
    return work->runs && (work->handed_over || (!work->paused && (work->lanes || work->due_us <= now_us)));
}

enum weir_status sqlite_next_work(struct store *store, int64_t node_id, const char *group, struct next_work *ret_next,
                                  struct weir_error *error)
{
    struct connection *connection;
    enum weir_status status = reader_of(store, &connection, error);
    struct work work;
    int64_t now_us = 0;
    if (status == WEIR_OK) {
        status = look(connection, node_id, group, &work, error);
    }
    if (status == WEIR_OK) {
        status = connection_store_time(connection, &now_us, error);
    }
    if (status == WEIR_OK) {
        bool waits = work.due_us != TIME_NEVER && work.runs && !work.paused;
        ret_next->ready = is_ready(&work, now_us);
        ret_next->requests = work.requests;
        ret_next->due_in_us = !waits ? TIME_NEVER : work.due_us > now_us ? work.due_us - now_us : 0;
    }
    return status;
}

/* --- promoting --- */

struct due_item {
    const char *id;
    int64_t lane_id;
    int64_t workspace_id;
};

static enum weir_status promote_due(struct claim *claim, struct weir_error *error)
{
    struct connection *connection = claim->write.connection;
    struct due_item *due = arena_allocate(claim->arena, PROMOTE_BATCH * sizeof *due);
    sqlite3_stmt *statement =
        connection_bind(connection, error, QUERY_DUE_ITEMS, "id", claim->write.now_us, (int)PROMOTE_BATCH);
    enum weir_status status = WEIR_FAILED;
    size_t count = 0;
    bool failed = due == NULL;
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (!failed && count < PROMOTE_BATCH && connection_step(connection, statement, &status, error)) {
        due[count].id = column_copy(statement, 0, claim->arena, &failed);
        due[count].lane_id = sqlite3_column_int64(statement, 1);
        due[count].workspace_id = sqlite3_column_int64(statement, 2);
        count++;
        status = WEIR_OK;
    }
    (void)sqlite3_reset(statement);
    if (failed) {
        return error_out_of_memory(error);
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = connection_run(connection, error, NULL, QUERY_PROMOTE_ITEM, "t", due[i].id);
        struct lane_change *lane = lane_changes_lane(&claim->write.changes, connection, due[i].lane_id, &status, error);
        lane->waiting -= 1;
        lane->runnable += 1;
        (void)lane_changes_workspace(&claim->write.changes, connection, due[i].workspace_id, LOOK_ALWAYS, &status, error);
    }
    /* The lanes must be ready before they are dealt turns. */
    return status == WEIR_OK ? lane_changes_write(&claim->write.changes, connection, error) : status;
}

/* --- taking --- */

static enum weir_status find_definition(struct claim *claim, int64_t id, const char **ret_name, int *ret_version,
                                        struct weir_error *error)
{
    size_t at = (size_t)id % DEFINITION_CACHE;
    if (claim->definitions[at].id != id) {
        sqlite3_stmt *statement = connection_bind(claim->write.connection, error, QUERY_READ_DEFINITION, "i", id);
        enum weir_status status = WEIR_FAILED;
        bool failed = false;
        if (statement == NULL) {
            return statement_failure(error);
        }
        claim->definitions[at].id = id;
        claim->definitions[at].name = "";
        claim->definitions[at].version = 0;
        if (connection_step(claim->write.connection, statement, &status, error)) {
            claim->definitions[at].name = column_copy(statement, 1, claim->arena, &failed);
            claim->definitions[at].version = sqlite3_column_int(statement, 3);
            (void)sqlite3_reset(statement);
        } else if (status != WEIR_OK) {
            return status;
        }
        if (failed) {
            return error_out_of_memory(error);
        }
    }
    *ret_name = claim->definitions[at].name;
    *ret_version = claim->definitions[at].version;
    return WEIR_OK;
}

/* Reads rows of queue items: from a select, or what an UPDATE ... RETURNING gives (SQLite has then changed all rows before
 * it returns the first). */
static enum weir_status take_rows(struct claim *claim, sqlite3_stmt *statement, bool handed_over, int64_t *workspace_ids,
                                  struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    while (connection_step(claim->write.connection, statement, &status, error)) {
        INVARIANT(claim->count < claim->options->limit);
        struct claimed_item *item = &claim->items[claim->count];
        claim->ranks[claim->count] = sqlite3_column_int64(statement, 1);
        claim->row_numbers[claim->count] = sqlite3_column_int64(statement, 11);
        if (workspace_ids != NULL) {
            workspace_ids[claim->count] = sqlite3_column_int64(statement, 10);
        }
        text_copy(item->id, sizeof item->id, column_text(statement, 0));
        item->definition_id = sqlite3_column_int64(statement, 2);
        item->attempts = sqlite3_column_int(statement, 3);
        item->handovers = sqlite3_column_int(statement, 4);
        item->params = sqlite3_column_int(statement, 5) != 0 ? NULL : "{}";
        item->params_length = 2;
        item->cancel_requested = sqlite3_column_type(statement, 6) != SQLITE_NULL;
        item->created_at_us = sqlite3_column_int64(statement, 7);
        item->run_at_us = sqlite3_column_int64(statement, 8);
        item->claimed_at_us = claim->write.now_us;
        item->running_for_us =
            sqlite3_column_type(statement, 9) == SQLITE_NULL ? 0 : claim->write.now_us - sqlite3_column_int64(statement, 9);
        item->priority = sqlite3_column_int(statement, 12);
        item->fence = claim->fence;
        item->handed_over = handed_over;
        claim->count++;
    }
    return status;
}

static enum weir_status take_handed_over(struct claim *claim, struct claim_result *result, struct weir_error *error)
{
    struct connection *connection = claim->write.connection;
    int64_t *workspace_ids = arena_allocate(claim->arena, claim->options->limit * sizeof *workspace_ids);
    sqlite3_stmt *statement =
        connection_bind(connection, error, QUERY_CLAIM_HANDED_OVER, "iiiti", claim->options->node_id, claim->fence,
                        claim->write.now_us, claim->options->group, (int64_t)claim->options->limit);
    if (statement == NULL || workspace_ids == NULL) {
        return workspace_ids == NULL ? error_out_of_memory(error) : statement_failure(error);
    }
    enum weir_status status = take_rows(claim, statement, true, workspace_ids, error);
    for (size_t i = 0; i < claim->count && status == WEIR_OK; i++) {
        bool failed = false;
        sqlite3_stmt *name = connection_bind(connection, error, QUERY_WORKSPACE_NAME, "i", workspace_ids[i]);
        if (name == NULL) {
            return statement_failure(error);
        }
        if (connection_step(connection, name, &status, error)) {
            claim->items[i].workspace = column_copy(name, 0, claim->arena, &failed);
            (void)sqlite3_reset(name);
        } else {
            claim->items[i].workspace = "";
        }
        status = failed ? error_out_of_memory(error) : status;
    }
    result->handed_over = claim->count;
    return status;
}

static int compare_ranks(const void *a, const void *b, void *context)
{
    const struct claim *claim = context;
    size_t x = *(const size_t *)a;
    size_t y = *(const size_t *)b;
    if (claim->ranks[x] != claim->ranks[y]) {
        return claim->ranks[x] < claim->ranks[y] ? -1 : 1;
    }
    return strcmp(claim->items[x].id, claim->items[y].id);
}

/* By their ranks: lanes take turns. */
static enum weir_status sort_items(struct claim *claim, size_t first, struct weir_error *error)
{
    size_t count = claim->count - first;
    if (count < 2) {
        return WEIR_OK;
    }
    size_t *order = arena_allocate(claim->arena, count * sizeof *order);
    struct claimed_item *sorted = arena_allocate(claim->arena, count * sizeof *sorted);
    if (order == NULL || sorted == NULL) {
        return error_out_of_memory(error);
    }
    for (size_t i = 0; i < count; i++) {
        order[i] = first + i;
    }
    qsort_r(order, count, sizeof *order, compare_ranks, claim);
    for (size_t i = 0; i < count; i++) {
        sorted[i] = claim->items[order[i]];
    }
    memcpy(&claim->items[first], sorted, count * sizeof *sorted);
    return WEIR_OK;
}

struct ready_lane {
    struct lane_share share;
    int64_t workspace_id;
    int64_t free_slots;
    bool is_only_one; /* of its workspace */
    const char *workspace;
};

static enum weir_status read_lanes(struct claim *claim, size_t limit, struct ready_lane *lanes, size_t *ret_count,
                                   struct weir_error *error)
{
    struct connection *connection = claim->write.connection;
    sqlite3_stmt *statement =
        connection_bind(connection, error, QUERY_READY_LANES, "ti", claim->options->group, (int64_t)limit);
    enum weir_status status = WEIR_FAILED;
    size_t count = 0;
    bool failed = false;
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (count < limit && connection_step(connection, statement, &status, error)) {
        struct ready_lane *lane = &lanes[count++];
        int64_t runnable = sqlite3_column_int64(statement, 5);
        lane->share.lane_id = sqlite3_column_int64(statement, 0);
        lane->workspace_id = sqlite3_column_int64(statement, 1);
        lane->share.pass = sqlite3_column_int64(statement, 2);
        lane->share.weight = sqlite3_column_int(statement, 3);
        lane->free_slots = sqlite3_column_int64(statement, 4);
        lane->is_only_one = sqlite3_column_int(statement, 7) != 0;
        lane->share.room = lane->free_slots < runnable ? lane->free_slots : runnable;
        lane->workspace = column_copy(statement, 6, claim->arena, &failed);
        status = WEIR_OK;
    }
    (void)sqlite3_reset(statement);
    *ret_count = count;
    return failed ? error_out_of_memory(error) : status;
}

static enum weir_status mark_claimed(struct claim *claim, size_t first, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = first; i < claim->count && status == WEIR_OK; i++) {
        int64_t changes = 0;
        status = connection_run(claim->write.connection, error, &changes, QUERY_CLAIM_ITEM, "iiii", claim->row_numbers[i],
                                claim->options->node_id, claim->fence, claim->write.now_us);
        INVARIANT(status != WEIR_OK || changes == 1);
    }
    return status;
}

/* Takes the lane's turns from its head and charges the lane once. */
static enum weir_status serve_lane(struct claim *claim, const struct lane_share *share, const struct ready_lane *lane,
                                   struct weir_error *error)
{
    struct connection *connection = claim->write.connection;
    size_t first = claim->count;
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_LANE_HEAD, "ii", share->lane_id, share->turns);
    if (statement == NULL) {
        return statement_failure(error);
    }
    enum weir_status status = take_rows(claim, statement, false, NULL, error);
    if (status == WEIR_OK) {
        status = mark_claimed(claim, first, error);
    }
    /* What was found counts, not what was planned. */
    int64_t taken = (int64_t)(claim->count - first);
    int64_t pass = fair_share_give_back(share->pass, share->weight, share->turns - taken);
    for (size_t i = first; i < claim->count; i++) {
        claim->items[i].workspace = lane->workspace;
        /* From here on an item's rank is the pass of its turn: what is claimed is started in stride order. */
        claim->ranks[i] = fair_share_give_back(lane->share.pass, lane->share.weight, -(int64_t)(i - first));
    }
    if (status == WEIR_OK) {
        status = connection_run(connection, error, NULL, QUERY_CHARGE_LANE, "iiid", share->lane_id, pass, taken,
                                taken < lane->free_slots ? 1 : 0);
    }
    /* The charge has closed the lane itself when its workspace is full now. */
    enum lane_look look = lane->is_only_one ? LOOK_NEVER : LOOK_IF_FILLS;
    struct workspace_counts *counts =
        lane_changes_workspace(&claim->write.changes, connection, lane->workspace_id, look, &status, error);
    counts->slots += taken;
    counts->pending -= taken;
    return status;
}

static int compare_lane_ids(const void *a, const void *b)
{
    const struct ready_lane *x = a;
    const struct ready_lane *y = b;
    return x->share.lane_id < y->share.lane_id ? -1 : x->share.lane_id > y->share.lane_id;
}

static const struct ready_lane *find_lane(const struct ready_lane *lanes, size_t count, int64_t lane_id)
{
    struct ready_lane key = {.share.lane_id = lane_id};
    return bsearch(&key, lanes, count, sizeof key, compare_lane_ids);
}

static enum weir_status take_from_lanes(struct claim *claim, struct claim_result *result, struct weir_error *error)
{
    size_t limit = claim->options->limit - claim->count;
    struct ready_lane *lanes = arena_allocate(claim->arena, limit * sizeof *lanes);
    struct lane_share *shares = arena_allocate(claim->arena, limit * sizeof *shares);
    size_t count = 0;
    if (lanes == NULL || shares == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = read_lanes(claim, limit, lanes, &count, error);
    if (status != WEIR_OK || count == 0) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        shares[i] = lanes[i].share;
    }
    size_t first = claim->count;
    int64_t group_pass = lanes[0].share.pass;
    (void)fair_share_deal(shares, count, limit);
    qsort(lanes, count, sizeof *lanes, compare_lane_ids);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        if (shares[i].turns > 0) {
            /* The group stands where its last turn began: a lane that enters there is neither ahead nor behind. */
            int64_t last_turn = fair_share_give_back(shares[i].pass, shares[i].weight, 1);
            group_pass = last_turn > group_pass ? last_turn : group_pass;
            status = serve_lane(claim, &shares[i], find_lane(lanes, count, shares[i].lane_id), error);
        }
    }
    if (status == WEIR_OK) {
        status = sort_items(claim, first, error);
    }
    if (status == WEIR_OK) {
        status = connection_run(claim->write.connection, error, NULL, QUERY_ADVANCE_GROUP, "ti", claim->options->group,
                                group_pass);
    }
    result->lanes = count;
    return status;
}

/* --- what the engine needs --- */

static enum weir_status read_params(struct claim *claim, struct claimed_item *item, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(claim->write.connection, error, QUERY_READ_PARAMS, "t", item->id);
    enum weir_status status = WEIR_FAILED;
    bool failed = false;
    if (statement == NULL) {
        return statement_failure(error);
    }
    item->params = "{}";
    item->params_length = 2;
    if (connection_step(claim->write.connection, statement, &status, error)) {
        item->params_length = (size_t)sqlite3_column_bytes(statement, 0);
        item->params = column_copy(statement, 0, claim->arena, &failed);
        (void)sqlite3_reset(statement);
        status = WEIR_OK;
    }
    return failed ? error_out_of_memory(error) : status;
}

static void read_step(struct claim *claim, sqlite3_stmt *statement, struct step_record *step, bool *ret_failed)
{
    text_copy(step->step, sizeof step->step, column_text(statement, 0));
    if (!step_state_parse(column_text(statement, 1), &step->state)) {
        step->state = STEP_RUNNING;
    }
    step->attempt = sqlite3_column_int(statement, 2);
    step->failures = sqlite3_column_int(statement, 3);
    step->exit_code = sqlite3_column_type(statement, 4) == SQLITE_NULL ? -1 : sqlite3_column_int(statement, 4);
    step->due_us = sqlite3_column_int64(statement, 5);
    step->due_in_us = step->due_us > claim->write.now_us ? step->due_us - claim->write.now_us : 0;
    /* These strings are the arena's: the receiver copies them and never frees them. */
    step->output_length = (size_t)sqlite3_column_bytes(statement, 6);
    step->output = (char *)(uintptr_t)column_copy(statement, 6, claim->arena, ret_failed);
    step->variables = (char *)(uintptr_t)column_copy(statement, 7, claim->arena, ret_failed);
    text_copy(step->error_code, sizeof step->error_code,
              column_text(statement, 8) == NULL ? "" : column_text(statement, 8));
    step->error = (char *)(uintptr_t)column_copy(statement, 9, claim->arena, ret_failed);
}

enum { STEPS_FIRST = 8 };

static enum weir_status read_steps(struct claim *claim, struct claimed_item *item, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(claim->write.connection, error, QUERY_READ_STEPS, "t", item->id);
    enum weir_status status = WEIR_FAILED;
    struct step_record *steps = NULL;
    size_t count = 0;
    size_t capacity = 0;
    bool failed = false;
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (!failed && connection_step(claim->write.connection, statement, &status, error)) {
        if (count == capacity) {
            capacity = capacity == 0 ? STEPS_FIRST : capacity * 2;
            struct step_record *more = arena_allocate(claim->arena, capacity * sizeof *more);
            if (more == NULL) {
                failed = true;
                break;
            }
            if (count > 0) {
                memcpy(more, steps, count * sizeof *more);
            }
            steps = more;
        }
        read_step(claim, statement, &steps[count++], &failed);
        status = WEIR_OK;
    }
    (void)sqlite3_reset(statement);
    item->steps = steps;
    item->step_count = count;
    return failed ? error_out_of_memory(error) : status;
}

static enum weir_status complete_items(struct claim *claim, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < claim->count && status == WEIR_OK; i++) {
        struct claimed_item *item = &claim->items[i];
        status = find_definition(claim, item->definition_id, &item->workflow, &item->version, error);
        if (status == WEIR_OK && item->params == NULL) {
            status = read_params(claim, item, error);
        }
        if (status == WEIR_OK && item->handovers > 0) {
            status = read_steps(claim, item, error);
        }
    }
    return status;
}

/* --- the verb --- */

/* False in *ret_ready: there is nothing to claim, and nothing was written. */
static enum weir_status claim_in_transaction(struct claim *claim, struct claim_result *result, bool *ret_ready,
                                             struct weir_error *error)
{
    struct work work;
    struct connection *connection = claim->write.connection;
    enum weir_status status = look(connection, claim->options->node_id, claim->options->group, &work, error);
    if (status != WEIR_OK) {
        return status;
    }
    *ret_ready = is_ready(&work, claim->write.now_us);
    if (!*ret_ready) {
        return WEIR_OK;
    }
    if (work.due_us <= claim->write.now_us) {
        status = promote_due(claim, error);
    }
    if (status == WEIR_OK) {
        status = fence_next(connection, &claim->fence, error);
    }
    if (status == WEIR_OK && work.handed_over) {
        status = take_handed_over(claim, result, error);
    }
    if (status == WEIR_OK && !work.paused && claim->count < claim->options->limit) {
        status = take_from_lanes(claim, result, error);
    }
    return status == WEIR_OK ? complete_items(claim, error) : status;
}

/* Without a look before the transaction: whoever claims has looked, or was told. It looks before it writes, so an idle
 * queue is never written. */
enum weir_status sqlite_claim(struct store *store, const struct claim_options *options, struct arena *arena,
                              struct claim_result *ret_result, struct weir_error *error)
{
    struct claim_result result = {0};
    bool ready = false;
    struct claim *claim = calloc(1, sizeof *claim);
    if (claim == NULL) {
        return error_out_of_memory(error);
    }
    claim->options = options;
    claim->arena = arena;
    claim->items = arena_allocate(arena, options->limit * sizeof *claim->items);
    claim->ranks = arena_allocate(arena, options->limit * sizeof *claim->ranks);
    claim->row_numbers = arena_allocate(arena, options->limit * sizeof *claim->row_numbers);
    enum weir_status status = claim->items == NULL || claim->ranks == NULL || claim->row_numbers == NULL
                                  ? error_out_of_memory(error)
                                  : write_open(store, &claim->write, error);
    if (status != WEIR_OK) {
        free(claim);
        return status;
    }
    status = claim_in_transaction(claim, &result, &ready, error);
    if (status == WEIR_OK && ready) {
        status = write_finish(&claim->write, error);
    } else {
        write_undo(&claim->write);
    }
    if (status == WEIR_OK) {
        result.items = claim->items;
        result.count = claim->count;
        result.more = claim->count == options->limit;
        result.now_us = claim->write.now_us;
        *ret_result = result;
    }
    free(claim);
    return status;
}

enum weir_status sqlite_read_definition(struct store *store, int64_t definition_id, struct arena *arena,
                                        struct definition_text *ret_definition, struct weir_error *error)
{
    struct connection *connection;
    enum weir_status status = reader_of(store, &connection, error);
    if (status != WEIR_OK) {
        return status;
    }
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_READ_DEFINITION, "i", definition_id);
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (!connection_step(connection, statement, &status, error)) {
        return status != WEIR_OK ? status
                                 : error_set(error, WEIR_WORKFLOW_NOT_FOUND, "the workflow definition %lld is gone",
                                             (long long)definition_id);
    }
    bool failed = false;
    struct definition_text definition = {
        .id = definition_id,
        .name = column_copy(statement, 1, arena, &failed),
        .text = column_copy(statement, 2, arena, &failed),
        .version = sqlite3_column_int(statement, 3),
        .workspace = column_copy(statement, 4, arena, &failed),
    };
    (void)sqlite3_reset(statement);
    if (failed) {
        return error_out_of_memory(error);
    }
    *ret_definition = definition;
    return WEIR_OK;
}

enum weir_status sqlite_take_requests(struct store *store, int64_t node_id, struct arena *arena,
                                      struct node_request **ret_requests, size_t *ret_count, struct weir_error *error)
{
    struct write write;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    sqlite3_stmt *statement = connection_bind(write.connection, error, QUERY_TAKE_REQUESTS, "i", node_id);
    struct node_request *requests = NULL;
    size_t count = 0;
    size_t capacity = 0;
    status = statement == NULL ? statement_failure(error) : WEIR_OK;
    while (status == WEIR_OK && connection_step(write.connection, statement, &status, error)) {
        if (count == capacity) {
            capacity = capacity == 0 ? STEPS_FIRST : capacity * 2;
            struct node_request *more = arena_allocate(arena, capacity * sizeof *more);
            if (more == NULL) {
                status = error_out_of_memory(error);
                break;
            }
            if (count > 0) {
                memcpy(more, requests, count * sizeof *more);
            }
            requests = more;
        }
        text_copy(requests[count].id, sizeof requests[count].id, column_text(statement, 0));
        requests[count].fence = sqlite3_column_int64(statement, 1);
        count++;
    }
    if (status != WEIR_OK) {
        write_undo(&write);
        return status;
    }
    status = write_finish(&write, error);
    if (status == WEIR_OK) {
        *ret_requests = requests;
        *ret_count = count;
    }
    return status;
}
