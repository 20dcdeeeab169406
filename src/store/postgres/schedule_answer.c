/* Reads the rows of one round of the scheduler.
 *
 * A round answers with one result of rows of many kinds: the column `tag` names the kind, the other columns have a meaning
 * per kind (functions/schedule.sql). One result costs one round trip, however much the round reads.
 *
 * 1. round_allocate() counts rows and list elements, so that each array of the answer is allocated once.
 * 2. round_read_rows() marks every assignment as gone and every read as complete. The rows then correct this: the
 *    item of an assignment without a row is gone.
 * 3. Each row goes to the reader of its tag. Facts keep the order of the rows, because the scheduler applies them in it.
 * 4. If an act was committed during the round, the round was done without its assignments: all of them are undone.
 *
 * This file sends nothing and decides nothing. It keeps no pointer into the result but `seen` and `timeline`. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/schedule_answer.h"

/* news_heads in functions/schedule.sql. */
enum { NEWS_HEADS_MOST = 8, NEWS_HEADS_OF_LANE = 4 };

static int64_t row_integer(const struct round *round, int row, int column)
{
    return result_int(round->result, row, column);
}

static int lower_hex_value(char digit)
{
    return digit <= '9' ? digit - '0' : digit - 'a' + 10;
}

/* Reads an id as the server writes it: lower case, with dashes. Returns the end of its text. */
static const char *parse_id(const char *text, uint8_t *id)
{
    for (size_t i = 0; i < SCHEDULER_ID_BYTES; i++) {
        text += *text == '-';
        id[i] = (uint8_t)(lower_hex_value(text[0]) << 4 | lower_hex_value(text[1]));
        text += 2;
    }
    return text;
}

/* --- lists: {1,2,3}, without NULLs --- */

/* Lists that are NULL are empty. */
static const char *row_list(const struct round *round, int row, int column)
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

/* *at is at the brace or comma before the next element. Only another program writes NULL; it is read as 0. */
static bool next_integer(const char **at, int64_t *ret_value)
{
    char *end = NULL;
    if (**at == '}' || (*at)[1] == '}') {
        return false;
    }
    *ret_value = strtoll(*at + 1, &end, 10);
    *at = end + strcspn(end, ",}");
    return true;
}

/* Reads from a list that is as long as the first list of its row: one query makes all lists of a row. */
static int64_t integer_beside(const char **at)
{
    int64_t value = 0;
    (void)next_integer(at, &value);
    return value;
}

/* Writes an id as text, with dashes. */
static void format_id(const uint8_t *id, char *to)
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

/* Marks the assignment at this place as recorded. */
static struct assignment *mark_recorded(struct round *round, int64_t place)
{
    INVARIANT(place >= 1 && (size_t)place <= round->call->assignment_count);
    struct assignment *assignment = &round->call->assignments[place - 1];
    assignment->outcome = ASSIGNMENT_TAKEN;
    round->answer->assigned++;
    return assignment;
}

/* Adds an item of this node with the fields that its assignment determines. The others get the values of a new item. */
static struct claimed_item *add_own_item(struct round *round, int64_t place)
{
    const struct assignment *assignment = mark_recorded(round, place);
    struct claimed_item *item = &round->own[place - 1];
    INVARIANT(assignment->node_id == round->call->node_id);
    *item = (struct claimed_item){.fence = round->fence,
                                  .handed_over = assignment->handed_over,
                                  .others_wait = assignment->others_wait,
                                  .params = "{}",
                                  .params_length = 2};
    format_id(assignment->id, item->id);
    round->own_count++;
    return item;
}

/* The items of this node that differ in nothing from a new item have no row of their own: this one lists them. */
static void read_assigned_row(struct round *round, int row)
{
    int64_t place = 0;
    const char *elsewhere = row_list(round, row, ROW_PLACES);
    const char *plain = row_list(round, row, ROW_PLAIN);
    const char *definitions = row_list(round, row, ROW_LIST1);
    const char *priorities = row_list(round, row, ROW_LIST2);
    const char *times = row_list(round, row, ROW_LIST3);
    round->fence = row_integer(round, row, ROW_N1);
    round->claimed_us = row_integer(round, row, ROW_N2);
    while (next_integer(&plain, &place)) {
        struct claimed_item *item = add_own_item(round, place);
        item->definition_id = integer_beside(&definitions);
        item->priority = (int)integer_beside(&priorities);
        item->created_at_us = integer_beside(&times);
        item->run_at_us = item->created_at_us;
        item->claimed_at_us = time_later(round->claimed_us, item->created_at_us);
        round->call->assignments[place - 1].since_us = claimed_item_first_wait_us(item);
    }
    while (next_integer(&elsewhere, &place)) {
        mark_recorded(round, place)->since_us = integer_beside(&times);
    }
}

/* The numbers of an item that was parked before, behind its creation time. It has no signal, as far as this list shows. */
static void read_parks(struct claimed_item *item, const char **numbers)
{
    item->run_at_us = integer_beside(numbers);
    int64_t dispatched_us = integer_beside(numbers);
    item->interruptions = (int)integer_beside(numbers);
    item->interruptions_at_park = (int)integer_beside(numbers);
    item->woken_at_us = integer_beside(numbers);
    item->signals_seen = integer_beside(numbers);
    item->running_for_us = dispatched_us == 0 ? 0 : item->claimed_at_us - dispatched_us;
    item->assigned_before = true;
    item->keeps_no_signal = true;
}

/* Items of this node that have been parked, and differ in nothing else from a new item. This row lists the numbers of each
 * in the order that assign_items() writes. */
static void read_woken_row(struct round *round, int row)
{
    int64_t place = 0;
    const char *numbers = row_list(round, row, ROW_LIST3);
    const char *signalled = row_list(round, row, ROW_PLACES);
    while (next_integer(&numbers, &place)) {
        struct claimed_item *item = add_own_item(round, place);
        item->definition_id = integer_beside(&numbers);
        item->priority = (int)integer_beside(&numbers);
        item->created_at_us = integer_beside(&numbers);
        item->claimed_at_us = time_later(round->claimed_us, item->created_at_us);
        read_parks(item, &numbers);
        round->call->assignments[place - 1].since_us = claimed_item_first_wait_us(item);
    }
    while (next_integer(&signalled, &place)) {
        round->own[place - 1].keeps_no_signal = false;
    }
}

/* An item of this node with a history: refused starts, params, a former claim, signals. */
static void read_taken_row(struct round *round, int row)
{
    struct claimed_item *item = add_own_item(round, row_integer(round, row, ROW_PLACE));
    const char *interrupted = row_list(round, row, ROW_LIST2);
    int64_t at_park = 0;
    int64_t is_suspect = 0;
    int64_t lost_a_node = 0;
    (void)next_integer(&interrupted, &at_park);
    (void)next_integer(&interrupted, &is_suspect);
    (void)next_integer(&interrupted, &item->woken_at_us);
    (void)next_integer(&interrupted, &lost_a_node);
    (void)next_integer(&interrupted, &item->signals_seen);
    item->definition_id = row_integer(round, row, ROW_N1);
    item->starts_refused = (int)row_integer(round, row, ROW_N2);
    item->interruptions = (int)row_integer(round, row, ROW_N3);
    item->priority = (int)row_integer(round, row, ROW_N4);
    item->created_at_us = row_integer(round, row, ROW_N5);
    item->run_at_us = row_integer(round, row, ROW_N6);
    item->claimed_at_us = row_integer(round, row, ROW_N7);
    item->running_for_us =
        result_null(round->result, row, ROW_N8) ? 0 : item->claimed_at_us - row_integer(round, row, ROW_N8);
    item->deferrals = (int)row_integer(round, row, ROW_N9);
    item->interruptions_at_park = (int)at_park;
    item->is_suspect = is_suspect != 0;
    item->lost_a_node = lost_a_node != 0;
    item->cancel_requested = result_bool(round->result, row, ROW_FLAG);
    item->assigned_before = !result_null(round->result, row, ROW_LIST3);
    round->call->assignments[row_integer(round, row, ROW_PLACE) - 1].since_us = claimed_item_first_wait_us(item);
    item->traceparent = result_copy(round->result, row, ROW_NAME, round->arena, &round->failed);
    claimed_set_params(item, round->result, row, ROW_DATA, round->arena, &round->failed);
}

/* An item that was ended because its workspace does not exist. */
static void read_orphan_row(struct round *round, int row)
{
    INVARIANT(round->answer->orphan_count < RECOVER_BATCH);
    struct orphan *orphan = &round->answer->orphans[round->answer->orphan_count++];
    text_copy(orphan->id, sizeof orphan->id, result_text(round->result, row, ROW_ID));
    orphan->workspace_id = row_integer(round, row, ROW_N1);
}

/* The item could have been assigned, but its row, its node, or the node of one before it was not available. */
static void read_locked_row(struct round *round, int row)
{
    int64_t place = row_integer(round, row, ROW_PLACE);
    INVARIANT(place >= 1 && (size_t)place <= round->call->assignment_count);
    round->call->assignments[place - 1].outcome = result_bool(round->result, row, ROW_FLAG) ? ASSIGNMENT_NO_NODE
                                                  : row_integer(round, row, ROW_N1) == 1    ? ASSIGNMENT_BEHIND
                                                                                            : ASSIGNMENT_LOCKED;
}

/* The server sends one item more than the call wants when the lane has more. */
static void fill_heads(struct round *round, struct lane_read *read, int row)
{
    const char *ranks = row_list(round, row, ROW_LIST1);
    const char *ids = row_list(round, row, ROW_ID_LIST);
    int64_t rank = 0;
    read->heads = &round->heads[round->head_count];
    while (next_integer(&ranks, &rank)) {
        if (read->count == read->most) {
            read->is_all = false;
            return;
        }
        struct schedule_head *head = &round->heads[round->head_count++];
        head->rank = rank;
        ids = parse_id(ids + 1, head->id);
        read->count++;
    }
}

static void fill_limits(struct round *round, struct lane_read *read, int64_t slots_max, int weight)
{
    read->workspace_exists = true;
    read->slots_max = slots_max;
    read->weight = weight;
    item_names_weigh(round->names, lane_workspace_id(read->lane_id), weight);
}

static void fill_lane_read(struct round *round, int row, struct lane_read *read)
{
    fill_limits(round, read, row_integer(round, row, ROW_N1), (int)row_integer(round, row, ROW_N2));
    read->workspace_exists = !result_null(round->result, row, ROW_N1);
    read->workspace_paused = result_bool(round->result, row, ROW_FLAG);
    fill_heads(round, read, row);
}

/* The heads of a lane that the call names. */
static void read_heads_row(struct round *round, int row)
{
    int64_t place = row_integer(round, row, ROW_PLACE);
    INVARIANT(place >= 1 && (size_t)place <= round->call->read_count);
    fill_lane_read(round, row, &round->call->reads[place - 1]);
}

/* Heads that the server adds for a lane with a new item, so that it is assigned one round earlier. */
static void read_news_heads_row(struct round *round, int row)
{
    INVARIANT(round->answer->news_read_count < NEWS_HEADS_MOST);
    struct lane_read *read = &round->answer->news_reads[round->answer->news_read_count++];
    *read = (struct lane_read){.lane_id = row_integer(round, row, ROW_N3),
                               .after_rank = row_integer(round, row, ROW_N4),
                               .most = NEWS_HEADS_OF_LANE,
                               .is_all = true};
    fill_lane_read(round, row, read);
}

/* Facts of the round as a whole. */
static void read_round_row(struct round *round, int row)
{
    round->answer->now_us = row_integer(round, row, ROW_N1);
    round->answer->next_due_us = result_null(round->result, row, ROW_N2) ? TIME_NEVER : row_integer(round, row, ROW_N2);
    round->answer->is_stale = round->answer->is_stale || row_integer(round, row, ROW_N3) != 0;
    round->answer->requests = result_bool(round->result, row, ROW_FLAG);
}

/* All news up to this snapshot was read. */
static void read_seen_row(struct round *round, int row)
{
    round->seen = result_text(round->result, row, ROW_NAME);
}

/* News is left: the next round goes on behind the entry that the row names. */
static void read_more_row(struct round *round, int row)
{
    round->more = row + 1;
    round->answer->more_news = true;
}

static void read_timeline_row(struct round *round, int row)
{
    round->timeline = result_text(round->result, row, ROW_NAME);
}

/* Another epoch, or another server. The row is alone. */
static void read_void_row(struct round *round, int row)
{
    (void)row;
    round->is_void = true;
}

/* --- facts --- */

/* round_allocate() has counted the facts. */
static struct schedule_fact *add_fact(struct round *round, enum schedule_fact_kind kind)
{
    struct schedule_fact *fact = &round->answer->facts[round->answer->fact_count++];
    fact->kind = kind;
    return fact;
}

/* Lanes that have become runnable, with their least ranks. Of items that became due, each with its rank and its id. */
static void read_runnables_row(struct round *round, int row)
{
    int64_t lane_id = 0;
    const char *lanes = row_list(round, row, ROW_LIST1);
    const char *ranks = row_list(round, row, ROW_LIST2);
    const char *ids = result_null(round->result, row, ROW_NAME) ? NULL : result_text(round->result, row, ROW_NAME);
    while (next_integer(&lanes, &lane_id)) {
        struct schedule_fact *fact = add_fact(round, FACT_RUNNABLE);
        fact->lane_id = lane_id;
        fact->rank = integer_beside(&ranks);
        ids = ids == NULL ? NULL : parse_id(ids + 1, fact->id);
    }
}

/* Changes of the held items of a node, by lane. */
static void read_helds_row(struct round *round, int row)
{
    int64_t lane_id = 0;
    int64_t node_id = row_integer(round, row, ROW_N1);
    const char *lanes = row_list(round, row, ROW_LIST1);
    const char *slots = row_list(round, row, ROW_LIST2);
    while (next_integer(&lanes, &lane_id)) {
        struct schedule_fact *fact = add_fact(round, FACT_HELD);
        fact->lane_id = lane_id;
        fact->node_id = node_id;
        fact->slots = integer_beside(&slots);
        fact->node_held = node_id == 0 ? 0 : fact->slots;
    }
}

/* As read_runnables_row(), for one lane: of a load, or of items that became due. */
static void read_runnable_row(struct round *round, int row)
{
    struct schedule_fact *fact = add_fact(round, FACT_RUNNABLE);
    fact->lane_id = row_integer(round, row, ROW_N1);
    fact->rank = row_integer(round, row, ROW_N2);
}

/* As read_helds_row(), for one lane and node. */
static void read_held_row(struct round *round, int row)
{
    struct schedule_fact *fact = add_fact(round, FACT_HELD);
    fact->lane_id = row_integer(round, row, ROW_N1);
    fact->node_id = row_integer(round, row, ROW_N2);
    fact->slots = row_integer(round, row, ROW_N3);
    fact->node_held = row_integer(round, row, ROW_N4);
}

static void read_workspace_row(struct round *round, int row)
{
    struct schedule_fact *fact = add_fact(round, FACT_WORKSPACE);
    fact->workspace_id = row_integer(round, row, ROW_N1);
    fact->slots_max = row_integer(round, row, ROW_N2);
    fact->weight = (int)row_integer(round, row, ROW_N3);
    item_names_forget(round->names, fact->workspace_id);
    fact->exists = row_integer(round, row, ROW_N4) != 0;
    fact->paused = result_bool(round->result, row, ROW_FLAG);
}

static void read_workspaces_row(struct round *round, int row)
{
    (void)row;
    (void)add_fact(round, FACT_WORKSPACES);
}

static void read_group_row(struct round *round, int row)
{
    struct schedule_fact *fact = add_fact(round, FACT_GROUP);
    fact->group_id = row_integer(round, row, ROW_N1);
    fact->paused = result_bool(round->result, row, ROW_FLAG);
}

static void read_queue_row(struct round *round, int row)
{
    add_fact(round, FACT_QUEUE)->paused = result_bool(round->result, row, ROW_FLAG);
}

/* The list of nodes follows; it replaces the former one. */
static void read_nodes_row(struct round *round, int row)
{
    (void)row;
    (void)add_fact(round, FACT_NODES);
}

static void read_node_row(struct round *round, int row)
{
    struct schedule_fact *fact = add_fact(round, FACT_NODE);
    fact->node_id = row_integer(round, row, ROW_N1);
    fact->group_id = row_integer(round, row, ROW_N2);
    fact->capacity = row_integer(round, row, ROW_N3);
    fact->target_id = row_integer(round, row, ROW_N4);
    fact->on_temporal = row_integer(round, row, ROW_N5) != 0;
    fact->accepts = result_bool(round->result, row, ROW_FLAG);
}

static void read_node_handlers_row(struct round *round, int row)
{
    struct schedule_fact *fact = add_fact(round, FACT_NODE_HANDLERS);
    fact->node_id = row_integer(round, row, ROW_N1);
    fact->handler_set = row_integer(round, row, ROW_N2);
}

static void read_nodes_end_row(struct round *round, int row)
{
    (void)row;
    (void)add_fact(round, FACT_NODES_END);
}

/* An item that was handed over has no node: its node_id is 0. */
static void add_suspicion_fact(struct round *round, int row, enum schedule_fact_kind kind)
{
    struct schedule_fact *fact = add_fact(round, kind);
    fact->lane_id = row_integer(round, row, ROW_N1);
    fact->suspicion = row_integer(round, row, ROW_N2);
    fact->since_us = row_integer(round, row, ROW_N3);
    fact->node_id = row_integer(round, row, ROW_N4);
    fact->target_id = row_integer(round, row, ROW_N5);
    (void)parse_id(result_text(round->result, row, ROW_ID), fact->id);
}

static void read_handed_over_row(struct round *round, int row)
{
    add_suspicion_fact(round, row, FACT_HANDED_OVER);
}

static void read_suspect_row(struct round *round, int row)
{
    add_suspicion_fact(round, row, FACT_SUSPECT);
}

/* The list of items handed over and of suspects follows; it replaces the former one. */
static void read_suspects_row(struct round *round, int row)
{
    (void)row;
    (void)add_fact(round, FACT_SUSPECTS);
}

static void read_suspects_end_row(struct round *round, int row)
{
    (void)row;
    (void)add_fact(round, FACT_SUSPECTS_END);
}

static void read_pass_row(struct round *round, int row)
{
    struct schedule_fact *fact = add_fact(round, FACT_PASS);
    fact->lane_id = row_integer(round, row, ROW_N1);
    fact->pass = row_integer(round, row, ROW_N2);
}

/* Reads that the scheduler must ask for in its next round. */
static void read_news_row(struct round *round, int row)
{
    struct schedule_fact *fact = add_fact(round, FACT_NEWS);
    fact->flags = (unsigned)row_integer(round, row, ROW_N1);
    fact->due_us = row_integer(round, row, ROW_N2);
}

/* --- a lone item --- */

/* The heads of the lane, as read_news_heads_row() takes them. */
static const struct lane_read *read_lone_heads(struct round *round, int row)
{
    struct lane_read *read = &round->answer->news_reads[round->answer->news_read_count++];
    *read = (struct lane_read){.lane_id = row_integer(round, row, ROW_N2),
                               .after_rank = row_integer(round, row, ROW_N3),
                               .most = NEWS_HEADS_OF_LANE,
                               .is_all = true};
    fill_limits(round, read, row_integer(round, row, ROW_N4), (int)row_integer(round, row, ROW_N5));
    fill_heads(round, read, row);
    return read;
}

/* The whole round in one row, but for its snapshot: the only news was one enqueue or the end of one wait, and the offer was
 * used for its item. It becomes the only assignment of the call. */
static void read_lone_row(struct round *round, int row)
{
    struct schedule_call *call = round->call;
    const struct lane_read *read = read_lone_heads(round, row);
    INVARIANT(call->lone != NULL && call->assignment_count == 0 && read->count > 0);
    struct schedule_fact *fact = add_fact(round, FACT_RUNNABLE);
    fact->lane_id = read->lane_id;
    fact->rank = read->after_rank;
    struct assignment *assignment = &call->assignments[call->assignment_count++];
    *assignment =
        (struct assignment){.rank = read->heads[0].rank, .lane_id = read->lane_id, .node_id = call->lone->node_id};
    memcpy(assignment->id, read->heads[0].id, SCHEDULER_ID_BYTES);
    round->answer->now_us = row_integer(round, row, ROW_N1);
    round->answer->requests = result_bool(round->result, row, ROW_FLAG);
    round->fence = row_integer(round, row, ROW_N6);
    bool is_woken = !result_null(round->result, row, ROW_LIST2);
    assignment->since_us = is_woken ? 0 : row_integer(round, row, ROW_N9);
    if (assignment->node_id != call->node_id) {
        (void)mark_recorded(round, 1);
        return;
    }
    struct claimed_item *item = add_own_item(round, 1);
    item->definition_id = row_integer(round, row, ROW_N7);
    item->priority = (int)row_integer(round, row, ROW_N8);
    item->created_at_us = row_integer(round, row, ROW_N9);
    item->run_at_us = item->created_at_us;
    item->claimed_at_us = time_later(round->answer->now_us, item->created_at_us);
    if (is_woken) {
        const char *numbers = row_list(round, row, ROW_LIST2);
        read_parks(item, &numbers);
        item->keeps_no_signal = result_null(round->result, row, ROW_PLACES);
    }
    item->traceparent = result_copy(round->result, row, ROW_NAME, round->arena, &round->failed);
    claimed_set_params(item, round->result, row, ROW_DATA, round->arena, &round->failed);
}

static const struct {
    const char *tag;
    void (*read)(struct round *round, int row);
} row_readers[] = {
    {"lone", read_lone_row},
    {"heads", read_heads_row},
    {"news_heads", read_news_heads_row},
    {"taken", read_taken_row},
    {"runnable", read_runnable_row},
    {"held", read_held_row},
    {"pass", read_pass_row},
    {"handed_over", read_handed_over_row},
    {"suspect", read_suspect_row},
    {"suspects", read_suspects_row},
    {"suspects_end", read_suspects_end_row},
    {"assigned", read_assigned_row},
    {"woken", read_woken_row},
    {"locked", read_locked_row},
    {"orphan", read_orphan_row},
    {"round", read_round_row},
    {"runnables", read_runnables_row},
    {"helds", read_helds_row},
    {"seen", read_seen_row},
    {"news", read_news_row},
    {"workspace", read_workspace_row},
    {"workspaces", read_workspaces_row},
    {"queue", read_queue_row},
    {"group", read_group_row},
    {"nodes", read_nodes_row},
    {"node", read_node_row},
    {"node_handlers", read_node_handlers_row},
    {"nodes_end", read_nodes_end_row},
    {"timeline", read_timeline_row},
    {"more", read_more_row},
    {"void", read_void_row},
};

/* Every tag that functions/schedule.sql writes is in row_readers, the most frequent ones first. */
static void read_tagged_row(struct round *round, int row)
{
    const char *tag = result_text(round->result, row, ROW_TAG);
    size_t i = 0;
    while (strcmp(row_readers[i].tag, tag) != 0) {
        i++;
        INVARIANT(i < sizeof row_readers / sizeof row_readers[0]);
    }
    row_readers[i].read(round, row);
}

bool round_allocate(struct round *round)
{
    INVARIANT(round->result != NULL && round->call != NULL && round->answer != NULL && round->arena != NULL);
    size_t facts = (size_t)PQntuples(round->result) + 1;
    size_t heads = 1;
    for (int row = 0; row < PQntuples(round->result); row++) {
        size_t count = count_list(row_list(round, row, ROW_LIST1));
        *(result_null(round->result, row, ROW_ID_LIST) ? &facts : &heads) += count;
    }
    round->answer->facts = arena_allocate(round->arena, facts * sizeof *round->answer->facts);
    round->heads = arena_allocate(round->arena, heads * sizeof *round->heads);
    round->own = arena_allocate(round->arena, (round->call->assignment_count + 1) * sizeof *round->own);
    round->answer->news_reads = arena_allocate(round->arena, NEWS_HEADS_MOST * sizeof *round->answer->news_reads);
    size_t orphans = round->call->orphan_count > 0 ? RECOVER_BATCH : 1;
    round->answer->orphans = arena_allocate(round->arena, orphans * sizeof *round->answer->orphans);
    return round->answer->orphans != NULL && round->answer->facts != NULL && round->heads != NULL && round->own != NULL &&
           round->answer->news_reads != NULL;
}

void round_read_rows(struct round *round)
{
    INVARIANT(round->answer->facts != NULL && round->own != NULL && round->fence == 0);
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
        read_tagged_row(round, row);
    }
    for (size_t i = 0; i < call->assignment_count && round->answer->is_stale; i++) {
        call->assignments[i].outcome = ASSIGNMENT_UNDONE;
    }
}
