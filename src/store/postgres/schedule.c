/* Rounds of the scheduler: one call of schedule() (functions/schedule.sql), and the point up to which news was read.
 *
 * How news is read. The handle keeps the snapshot in which the last round read the news. The next round reads what was
 * committed between that snapshot and its own: nothing is read twice, nothing is left out, and a transaction that stays
 * open for hours delays its own news only. When there is more than one round reads, the next ones go on between the same
 * two snapshots. The load of a new epoch reads all facts and the first snapshot at once.
 *
 * The condition: the snapshot is of the server that the next round talks to. So it is forgotten after every failure and
 * with the connection; a round never moves to another connection by itself (keeps_session), and the server compares the
 * timeline, which changes when a standby is promoted. Without a snapshot there is no round: the caller takes a new epoch.
 *
 * Repeated here, with the same answer as if it had been the first try:
 *   55P03  a row was locked for longer than the round waits: once more, leaving out locked rows
 *   WR013  an act was committed during the round: once more, without assignments */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/libpq.h"
#include "store/postgres/postgres_store.h"

/* news_heads in functions/schedule.sql. */
enum { NEWS_HEADS_MOST = 8, NEWS_HEADS_OF_LANE = 4 };
enum { POSITION_TEXT_MAX = 16 * 1024 * 1024 };

/* --- the position --- */

void news_position_forget(struct news_position *position)
{
    text_close(&position->timeline);
    text_close(&position->seen);
    text_close(&position->reading);
    text_close(&position->folded);
    text_close(&position->folding);
    *position = (struct news_position){.epoch = 0};
}

static enum weir_status set_text(struct text *to, const char *value, struct weir_error *error)
{
    text_clear(to);
    to->max = POSITION_TEXT_MAX;
    return text_add_string(to, value) == WEIR_OK ? WEIR_OK : error_out_of_memory(error);
}

/* Whether the next round may read from here. */
static enum weir_status require_position(const struct postgres_store *self, int64_t epoch, struct weir_error *error)
{
    const struct news_position *news = &self->news;
    if (news->epoch != epoch || news->seen.length == 0) {
        return error_set(error, WEIR_STALE_FENCE, "the facts of epoch %lld were not loaded", (long long)epoch);
    }
    if (news->drops != self->link.drops) {
        return error_set(error, WEIR_STORE_UNREACHABLE, "the connection of the last round was lost");
    }
    return WEIR_OK;
}

/* --- the arguments of a round --- */

struct arguments {
    uint8_t *ids;
    int64_t *nodes;
    bool *handed_over;
    int64_t *lanes;
    int64_t *ranks;
    uint8_t *after;
    int *mosts;
    struct claimed_item *items; /* room for the assignments of this node: further items are not assigned */
};

static bool fill_arguments(const struct schedule_call *call, struct arena *arena, struct arguments *to)
{
    size_t items = call->assignment_count + 1;
    size_t reads = call->read_count + 1;
    *to = (struct arguments){.ids = arena_allocate(arena, items * SCHEDULER_ID_BYTES),
                             .nodes = arena_allocate(arena, items * sizeof *to->nodes),
                             .handed_over = arena_allocate(arena, items * sizeof *to->handed_over),
                             .lanes = arena_allocate(arena, reads * sizeof *to->lanes),
                             .ranks = arena_allocate(arena, reads * sizeof *to->ranks),
                             .after = arena_allocate(arena, reads * SCHEDULER_ID_BYTES),
                             .mosts = arena_allocate(arena, reads * sizeof *to->mosts),
                             .items = arena_allocate(arena, items * sizeof *to->items)};
    if (to->ids == NULL || to->nodes == NULL || to->handed_over == NULL || to->lanes == NULL || to->ranks == NULL ||
        to->after == NULL || to->mosts == NULL || to->items == NULL) {
        return false;
    }
    for (size_t i = 0; i < call->assignment_count; i++) {
        memcpy(to->ids + i * SCHEDULER_ID_BYTES, call->assignments[i].id, SCHEDULER_ID_BYTES);
        to->nodes[i] = call->assignments[i].node_id;
        to->handed_over[i] = call->assignments[i].handed_over;
    }
    for (size_t i = 0; i < call->read_count; i++) {
        to->lanes[i] = call->reads[i].lane_id;
        to->ranks[i] = call->reads[i].after_rank;
        memcpy(to->after + i * SCHEDULER_ID_BYTES, call->reads[i].after_id, SCHEDULER_ID_BYTES);
        to->mosts[i] = (int)call->reads[i].most;
    }
    return true;
}

static enum weir_status send(struct postgres_store *self, const struct schedule_call *call, const struct arguments *a,
                             size_t assignments, bool skip_locked, PGresult **ret_result, struct weir_error *error)
{
    static const int limits[] = {PROMOTE_BATCH, RECOVER_BATCH, NEWS_BATCH_MOST};
    const struct news_position *news = &self->news;
    bool goes_on = !call->load && news->reading.length > 0;
    self->link.keeps_session = !call->load;
    enum weir_status status = link_write(
        &self->link, error, ret_result, QUERY_SCHEDULE, "iiiottttiVIOoIIVDdID", call->node_id, call->epoch, call->lease_us,
        call->awaits_lock, call->load ? NULL : news->seen.data, call->load ? NULL : news->timeline.data,
        goes_on ? news->reading.data : NULL, goes_on ? news->read.xid : "0", goes_on ? news->read.seq : 0, a->ids,
        assignments, a->nodes, assignments, a->handed_over, assignments, skip_locked, a->lanes, call->read_count, a->ranks,
        call->read_count, a->after, call->read_count, a->mosts, call->read_count, (int)call->needs, call->orphans,
        call->orphan_count, limits, sizeof limits / sizeof limits[0]);
    self->link.keeps_session = false;
    return status;
}

/* *ret_is_stale: the round was done without its assignments. */
static enum weir_status send_and_repeat(struct postgres_store *self, const struct schedule_call *call,
                                        const struct arguments *arguments, PGresult **ret_result, bool *ret_is_stale,
                                        struct weir_error *error)
{
    size_t count = call->assignment_count;
    enum weir_status status = send(self, call, arguments, count, call->skip_locked, ret_result, error);
    if (status != WEIR_OK && count > 0 && !call->skip_locked && strcmp(self->link.sqlstate, "55P03") == 0) {
        status = send(self, call, arguments, count, true, ret_result, error);
    }
    *ret_is_stale = status != WEIR_OK && count > 0 && strcmp(self->link.sqlstate, "WR013") == 0;
    return *ret_is_stale ? send(self, call, arguments, 0, false, ret_result, error) : status;
}

/* --- the answer of a round --- */

enum {
    ROW_TAG,
    ROW_PLACE,
    ROW_N1,
    ROW_N2,
    ROW_N3,
    ROW_N4,
    ROW_N5,
    ROW_N6,
    ROW_N7,
    ROW_N8,
    ROW_N9,
    ROW_FLAG,
    ROW_ID,
    ROW_NAME,
    ROW_DATA,
    ROW_PLACES,
    ROW_PLAIN,
    ROW_LIST1,
    ROW_LIST2,
    ROW_LIST3,
    ROW_ID_LIST
};

struct round {
    struct schedule_call *call;
    struct schedule_answer *answer;
    struct arena *arena;
    struct item_names *names;
    const PGresult *result;
    struct schedule_head *heads;
    size_t head_count;
    int64_t fence;
    struct claimed_item *own; /* of the assignment of the same number; fence 0 = it was not taken for this node */
    size_t own_count;
    bool failed;     /* out of memory */
    bool is_damaged; /* a row has lists of different lengths */
    const char *seen;
    const char *timeline;
    int more; /* the row of that name, + 1; 0 = none */
    bool is_void;
};

static int64_t number(const struct round *round, int row, int column)
{
    return result_int(round->result, row, column);
}

static int hex_value(char digit)
{
    return digit <= '9' ? digit - '0' : digit - 'a' + 10;
}

/* As the server writes it: lower case, with its dashes. Returns where it ends. */
static const char *read_id(const char *text, uint8_t *id)
{
    for (size_t i = 0; i < SCHEDULER_ID_BYTES; i++) {
        text += *text == '-';
        id[i] = (uint8_t)(hex_value(text[0]) << 4 | hex_value(text[1]));
        text += 2;
    }
    return text;
}

/* --- lists: {1,2,3}, without NULLs --- */

static const char *list_of(const struct round *round, int row, int column)
{
    return result_null(round->result, row, column) ? "{}" : result_text(round->result, row, column);
}

static size_t count_list(const char *list)
{
    size_t count = list[1] != '}';
    for (const char *at = strchr(list, ','); at != NULL; at = strchr(at + 1, ',')) {
        count++;
    }
    return count;
}

/* *at is at the brace or comma before the next element. NULL, which only another program writes, is 0. */
static bool next_number(const char **at, int64_t *ret_value)
{
    char *end = NULL;
    if (**at == '}' || (*at)[1] == '}') {
        return false;
    }
    *ret_value = strtoll(*at + 1, &end, 10);
    *at = end + strcspn(end, ",}");
    return true;
}

/* Of a list that is as long as the one before it, unless another program has altered the row. */
static int64_t must_number(struct round *round, const char **at)
{
    int64_t value = 0;
    round->is_damaged = !next_number(at, &value) || round->is_damaged;
    return value;
}

static void write_id(const uint8_t *id, char *to)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < SCHEDULER_ID_BYTES; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            *to++ = '-';
        }
        *to++ = digits[id[i] >> 4];
        *to++ = digits[id[i] & 15];
    }
    *to = '\0';
}

static struct assignment *take(struct round *round, int64_t place)
{
    INVARIANT(place >= 1 && (size_t)place <= round->call->assignment_count);
    struct assignment *assignment = &round->call->assignments[place - 1];
    assignment->outcome = ASSIGNMENT_TAKEN;
    round->answer->assigned++;
    return assignment;
}

/* Sets the fields that the assignment determines. The other fields keep the values of a new item. */
static struct claimed_item *take_own(struct round *round, int64_t place)
{
    const struct assignment *assignment = take(round, place);
    struct claimed_item *item = &round->own[place - 1];
    INVARIANT(assignment->node_id == round->call->node_id);
    *item = (struct claimed_item){.fence = round->fence,
                                  .handed_over = assignment->handed_over,
                                  .others_wait = assignment->others_wait,
                                  .params = "{}",
                                  .params_length = 2};
    write_id(assignment->id, item->id);
    round->own_count++;
    return item;
}

static void read_assigned(struct round *round, int row)
{
    int64_t place = 0;
    const char *elsewhere = list_of(round, row, ROW_PLACES);
    const char *plain = list_of(round, row, ROW_PLAIN);
    const char *definitions = list_of(round, row, ROW_LIST1);
    const char *priorities = list_of(round, row, ROW_LIST2);
    const char *times = list_of(round, row, ROW_LIST3);
    int64_t now_us = number(round, row, ROW_N2);
    round->fence = number(round, row, ROW_N1);
    while (next_number(&elsewhere, &place)) {
        (void)take(round, place);
    }
    while (next_number(&plain, &place)) {
        struct claimed_item *item = take_own(round, place);
        item->definition_id = must_number(round, &definitions);
        item->priority = (int)must_number(round, &priorities);
        item->created_at_us = must_number(round, &times);
        item->run_at_us = item->created_at_us;
        item->claimed_at_us = now_us > item->created_at_us ? now_us : item->created_at_us;
    }
}

static void read_taken(struct round *round, int row)
{
    struct claimed_item *item = take_own(round, number(round, row, ROW_PLACE));
    item->definition_id = number(round, row, ROW_N1);
    item->attempts = (int)number(round, row, ROW_N2);
    item->interruptions = (int)number(round, row, ROW_N3);
    item->priority = (int)number(round, row, ROW_N4);
    item->created_at_us = number(round, row, ROW_N5);
    item->run_at_us = number(round, row, ROW_N6);
    item->claimed_at_us = number(round, row, ROW_N7);
    item->running_for_us = result_null(round->result, row, ROW_N8) ? 0 : item->claimed_at_us - number(round, row, ROW_N8);
    item->deferrals = (int)number(round, row, ROW_N9);
    item->cancel_requested = result_bool(round->result, row, ROW_FLAG);
    claimed_set_params(item, round->result, row, ROW_DATA, round->arena, &round->failed);
}

static void read_locked(struct round *round, int row)
{
    int64_t place = number(round, row, ROW_PLACE);
    INVARIANT(place >= 1 && (size_t)place <= round->call->assignment_count);
    round->call->assignments[place - 1].outcome =
        result_bool(round->result, row, ROW_FLAG) ? ASSIGNMENT_NO_NODE : ASSIGNMENT_LOCKED;
}

/* An item more than was asked for means that the lane goes on. */
static void fill_read(struct round *round, int row, struct lane_read *read)
{
    const char *ranks = list_of(round, row, ROW_LIST1);
    const char *ids = list_of(round, row, ROW_ID_LIST);
    int64_t rank = 0;
    read->workspace_exists = !result_null(round->result, row, ROW_N1);
    read->slots_max = number(round, row, ROW_N1);
    read->weight = (int)number(round, row, ROW_N2);
    item_names_weigh(round->names, lane_workspace_id(read->lane_id), read->weight);
    read->workspace_paused = result_bool(round->result, row, ROW_FLAG);
    read->heads = &round->heads[round->head_count];
    while (next_number(&ranks, &rank)) {
        if (read->count == read->most) {
            read->is_all = false;
            return;
        }
        struct schedule_head *head = &round->heads[round->head_count++];
        head->rank = rank;
        ids = read_id(ids + 1, head->id);
        read->count++;
    }
}

static void read_heads(struct round *round, int row)
{
    int64_t place = number(round, row, ROW_PLACE);
    INVARIANT(place >= 1 && (size_t)place <= round->call->read_count);
    fill_read(round, row, &round->call->reads[place - 1]);
}

static void read_news_heads(struct round *round, int row)
{
    INVARIANT(round->answer->news_read_count < NEWS_HEADS_MOST);
    struct lane_read *read = &round->answer->news_reads[round->answer->news_read_count++];
    *read = (struct lane_read){.lane_id = number(round, row, ROW_N3),
                               .after_rank = number(round, row, ROW_N4),
                               .most = NEWS_HEADS_OF_LANE,
                               .is_all = true};
    fill_read(round, row, read);
}

static void read_round(struct round *round, int row)
{
    round->answer->now_us = number(round, row, ROW_N1);
    round->answer->next_due_us = result_null(round->result, row, ROW_N2) ? TIME_NEVER : number(round, row, ROW_N2);
    round->answer->is_stale = round->answer->is_stale || number(round, row, ROW_N3) != 0;
    round->answer->requests = result_bool(round->result, row, ROW_FLAG);
}

static void read_seen(struct round *round, int row)
{
    round->seen = result_text(round->result, row, ROW_NAME);
}

static void read_more(struct round *round, int row)
{
    round->more = row + 1;
    round->answer->more_news = true;
}

static void read_timeline(struct round *round, int row)
{
    round->timeline = result_text(round->result, row, ROW_NAME);
}

static void read_void(struct round *round, int row)
{
    (void)row;
    round->is_void = true;
}

/* --- facts --- */

static struct schedule_fact *add_fact(struct round *round, enum schedule_fact_kind kind)
{
    struct schedule_fact *fact = &round->answer->facts[round->answer->fact_count++];
    fact->kind = kind;
    return fact;
}

static void read_runnables(struct round *round, int row)
{
    int64_t lane_id = 0;
    const char *lanes = list_of(round, row, ROW_LIST1);
    const char *ranks = list_of(round, row, ROW_LIST2);
    while (next_number(&lanes, &lane_id)) {
        struct schedule_fact *fact = add_fact(round, FACT_RUNNABLE);
        fact->lane_id = lane_id;
        fact->rank = must_number(round, &ranks);
    }
}

static void read_helds(struct round *round, int row)
{
    int64_t lane_id = 0;
    int64_t node_id = number(round, row, ROW_N1);
    const char *lanes = list_of(round, row, ROW_LIST1);
    const char *slots = list_of(round, row, ROW_LIST2);
    while (next_number(&lanes, &lane_id)) {
        struct schedule_fact *fact = add_fact(round, FACT_HELD);
        fact->lane_id = lane_id;
        fact->node_id = node_id;
        fact->slots = must_number(round, &slots);
        fact->node_held = node_id == 0 ? 0 : fact->slots;
    }
}

static void read_runnable(struct round *round, int row)
{
    struct schedule_fact *fact = add_fact(round, FACT_RUNNABLE);
    fact->lane_id = number(round, row, ROW_N1);
    fact->rank = number(round, row, ROW_N2);
}

static void read_held(struct round *round, int row)
{
    struct schedule_fact *fact = add_fact(round, FACT_HELD);
    fact->lane_id = number(round, row, ROW_N1);
    fact->node_id = number(round, row, ROW_N2);
    fact->slots = number(round, row, ROW_N3);
    fact->node_held = number(round, row, ROW_N4);
}

static void read_workspace(struct round *round, int row)
{
    struct schedule_fact *fact = add_fact(round, FACT_WORKSPACE);
    fact->workspace_id = number(round, row, ROW_N1);
    fact->slots_max = number(round, row, ROW_N2);
    fact->weight = (int)number(round, row, ROW_N3);
    item_names_weigh(round->names, fact->workspace_id, fact->weight);
    fact->exists = number(round, row, ROW_N4) != 0;
    fact->paused = result_bool(round->result, row, ROW_FLAG);
}

static void read_workspaces(struct round *round, int row)
{
    (void)row;
    (void)add_fact(round, FACT_WORKSPACES);
}

static void read_group(struct round *round, int row)
{
    struct schedule_fact *fact = add_fact(round, FACT_GROUP);
    fact->group_id = number(round, row, ROW_N1);
    fact->paused = result_bool(round->result, row, ROW_FLAG);
}

static void read_queue(struct round *round, int row)
{
    add_fact(round, FACT_QUEUE)->paused = result_bool(round->result, row, ROW_FLAG);
}

static void read_nodes(struct round *round, int row)
{
    (void)row;
    (void)add_fact(round, FACT_NODES);
}

static void read_node(struct round *round, int row)
{
    struct schedule_fact *fact = add_fact(round, FACT_NODE);
    fact->node_id = number(round, row, ROW_N1);
    fact->group_id = number(round, row, ROW_N2);
    fact->capacity = number(round, row, ROW_N3);
    fact->target_id = number(round, row, ROW_N4);
    fact->on_temporal = number(round, row, ROW_N5) != 0;
    fact->accepts = result_bool(round->result, row, ROW_FLAG);
}

static void read_nodes_end(struct round *round, int row)
{
    (void)row;
    (void)add_fact(round, FACT_NODES_END);
}

static void read_handed_over(struct round *round, int row)
{
    struct schedule_fact *fact = add_fact(round, FACT_HANDED_OVER);
    fact->lane_id = number(round, row, ROW_N1);
    fact->suspicion = number(round, row, ROW_N2);
    fact->since_us = number(round, row, ROW_N3);
    fact->target_id = number(round, row, ROW_N5);
    (void)read_id(result_text(round->result, row, ROW_ID), fact->id);
}

static void read_suspect(struct round *round, int row)
{
    struct schedule_fact *fact = add_fact(round, FACT_SUSPECT);
    fact->lane_id = number(round, row, ROW_N1);
    fact->suspicion = number(round, row, ROW_N2);
    fact->since_us = number(round, row, ROW_N3);
    fact->node_id = number(round, row, ROW_N4);
    fact->target_id = number(round, row, ROW_N5);
    (void)read_id(result_text(round->result, row, ROW_ID), fact->id);
}

static void read_suspects(struct round *round, int row)
{
    (void)row;
    (void)add_fact(round, FACT_SUSPECTS);
}

static void read_suspects_end(struct round *round, int row)
{
    (void)row;
    (void)add_fact(round, FACT_SUSPECTS_END);
}

static void read_pass(struct round *round, int row)
{
    struct schedule_fact *fact = add_fact(round, FACT_PASS);
    fact->lane_id = number(round, row, ROW_N1);
    fact->pass = number(round, row, ROW_N2);
}

static void read_news(struct round *round, int row)
{
    struct schedule_fact *fact = add_fact(round, FACT_NEWS);
    fact->flags = (unsigned)number(round, row, ROW_N1);
    fact->due_us = number(round, row, ROW_N2);
}

static const struct {
    const char *tag;
    void (*read)(struct round *round, int row);
} row_readers[] = {
    {"heads", read_heads},
    {"news_heads", read_news_heads},
    {"taken", read_taken},
    {"runnable", read_runnable},
    {"held", read_held},
    {"pass", read_pass},
    {"handed_over", read_handed_over},
    {"suspect", read_suspect},
    {"suspects", read_suspects},
    {"suspects_end", read_suspects_end},
    {"assigned", read_assigned},
    {"locked", read_locked},
    {"round", read_round},
    {"runnables", read_runnables},
    {"helds", read_helds},
    {"seen", read_seen},
    {"news", read_news},
    {"workspace", read_workspace},
    {"workspaces", read_workspaces},
    {"queue", read_queue},
    {"group", read_group},
    {"nodes", read_nodes},
    {"node", read_node},
    {"nodes_end", read_nodes_end},
    {"timeline", read_timeline},
    {"more", read_more},
    {"void", read_void},
};

static void read_row(struct round *round, int row)
{
    const char *tag = result_text(round->result, row, ROW_TAG);
    size_t i = 0;
    while (strcmp(row_readers[i].tag, tag) != 0) {
        i++;
        INVARIANT(i < sizeof row_readers / sizeof row_readers[0]);
    }
    row_readers[i].read(round, row);
}

static bool open_round(struct round *round)
{
    size_t facts = (size_t)PQntuples(round->result) + 1;
    size_t heads = 1;
    for (int row = 0; row < PQntuples(round->result); row++) {
        size_t count = count_list(list_of(round, row, ROW_LIST1));
        *(result_null(round->result, row, ROW_ID_LIST) ? &facts : &heads) += count;
    }
    round->answer->facts = arena_allocate(round->arena, facts * sizeof *round->answer->facts);
    round->heads = arena_allocate(round->arena, heads * sizeof *round->heads);
    round->own = arena_allocate(round->arena, (round->call->assignment_count + 1) * sizeof *round->own);
    round->answer->news_reads = arena_allocate(round->arena, NEWS_HEADS_MOST * sizeof *round->answer->news_reads);
    return round->answer->facts != NULL && round->heads != NULL && round->own != NULL && round->answer->news_reads != NULL;
}

static void read_rows(struct round *round)
{
    const struct schedule_call *call = round->call;
    for (size_t i = 0; i < call->read_count; i++) {
        struct lane_read *read = &call->reads[i];
        read->heads = NULL;
        read->count = 0;
        read->is_all = true;
    }
    for (size_t i = 0; i < call->assignment_count; i++) {
        call->assignments[i].outcome = ASSIGNMENT_GONE;
    }
    for (int row = 0; row < PQntuples(round->result); row++) {
        read_row(round, row);
    }
    for (size_t i = 0; i < call->assignment_count && round->answer->is_stale; i++) {
        call->assignments[i].outcome = ASSIGNMENT_UNDONE;
    }
}

/* --- the assignments of this node --- */

/* In the order of the assignments. */
static enum weir_status read_items(struct postgres_store *self, struct round *round, struct weir_error *error)
{
    struct claim_result *claimed = &round->answer->claimed;
    int64_t *workspace_ids = arena_allocate(round->arena, (round->own_count + 1) * sizeof *workspace_ids);
    claimed->now_us = round->answer->now_us;
    if (workspace_ids == NULL || round->failed) {
        return error_out_of_memory(error);
    }
    if (round->is_damaged) {
        error_set(error, WEIR_STORE_CORRUPT, "a row of the table news was altered: its lists differ in length");
        error_hint(error,
                   "the scheduler begins anew from the rows of the queue; find out which program writes to that table");
        return WEIR_STORE_CORRUPT;
    }
    for (size_t i = 0; i < round->call->assignment_count; i++) {
        const struct assignment *assignment = &round->call->assignments[i];
        struct claimed_item *item = &round->own[i];
        if (item->fence != 0) {
            workspace_ids[claimed->count] = lane_workspace_id(assignment->lane_id);
            claimed->items[claimed->count++] = *item;
            claimed->handed_over += assignment->handed_over;
        }
    }
    enum weir_status status =
        item_names_set(&self->names, &self->link, round->arena, claimed->items, workspace_ids, claimed->count, error);
    return status == WEIR_OK ? claimed_read_steps(&self->link, round->arena, claimed, error) : status;
}

/* --- the verb --- */

static enum weir_status keep_position(struct postgres_store *self, const struct round *round, struct weir_error *error)
{
    struct news_position *news = &self->news;
    if (round->more > 0) {
        int row = round->more - 1;
        text_copy(news->read.xid, sizeof news->read.xid, result_text(round->result, row, ROW_N1));
        news->read.seq = number(round, row, ROW_N2);
        return set_text(&news->reading, result_text(round->result, row, ROW_NAME), error);
    }
    INVARIANT(round->seen != NULL && (round->timeline != NULL || !round->call->load));
    text_clear(&news->reading);
    enum weir_status status = set_text(&news->seen, round->seen, error);
    if (status == WEIR_OK && round->call->load) {
        news->epoch = round->call->epoch;
        news->drops = self->link.drops;
        status = set_text(&news->timeline, round->timeline, error);
    }
    return status;
}

static enum weir_status read_answer(struct postgres_store *self, struct round *round, struct weir_error *error)
{
    if (!open_round(round)) {
        return error_out_of_memory(error);
    }
    read_rows(round);
    if (round->is_void) {
        return error_set(error, WEIR_STALE_FENCE,
                         "epoch %lld is over: another node has taken the role, or the server is another one",
                         (long long)round->call->epoch);
    }
    enum weir_status status = keep_position(self, round, error);
    return status == WEIR_OK ? read_items(self, round, error) : status;
}

enum weir_status postgres_schedule(struct store *store, struct schedule_call *call, struct arena *arena,
                                   struct schedule_answer *ret_answer, struct weir_error *error)
{
    struct postgres_store *self = postgres_of(store);
    struct schedule_answer answer = {.next_due_us = TIME_NEVER};
    struct round round = {.call = call, .answer = &answer, .arena = arena, .names = &self->names};
    struct arguments arguments;
    PGresult *result = NULL;
    link_start(&self->link);
    enum weir_status status = require_writable(store, error);
    if (status == WEIR_OK && call->load) {
        news_position_forget(&self->news);
        item_names_clear(&self->names);
    } else if (status == WEIR_OK) {
        status = require_position(self, call->epoch, error);
    }
    if (status == WEIR_OK && !fill_arguments(call, arena, &arguments)) {
        status = error_out_of_memory(error);
    }
    if (status == WEIR_OK) {
        status = send_and_repeat(self, call, &arguments, &result, &answer.is_stale, error);
    }
    if (status == WEIR_OK) {
        round.result = result;
        answer.claimed.items = arguments.items;
        status = read_answer(self, &round, error);
        PQclear(result);
    }
    if (status != WEIR_OK) {
        news_position_forget(&self->news);
        return status;
    }
    *ret_answer = answer;
    return WEIR_OK;
}
