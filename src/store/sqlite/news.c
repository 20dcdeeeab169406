/* The news: the changes of a transaction per lane, collected in memory and inserted as few rows before the commit.
 *
 *   1. A verb notes each change of a row (news_lane()). A hash table finds the entry of kind, node and lane; all
 *      changes of one lane in a transaction are one entry.
 *   2. When the entries are full, they are inserted early and the collection starts empty. So a large set needs no
 *      more memory.
 *   3. news_write() inserts one row for each kind and node, with the lanes as JSON. A sum of zero is left out.
 *   4. Acts and states follow as rows of their own kind. An act stops assignments until the scheduler has read it.
 *   5. The rows become visible with the commit of the change itself. So the scheduler cannot learn of a change that is
 *      undone, and cannot miss one that is durable.
 *
 * news_next_lane() reads the same form. It never reads the queue. The struct belongs to the verb that runs, and to its
 * thread.
 */
#include "store/sqlite/news.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { DIGITS_MOST = 21 }; /* of an int64_t, its sign and the comma behind it */
enum { LANE_TEXT_MOST = LANE_DELTA_FIELDS * DIGITS_MOST + 3 };

/* --- collecting --- */

/* Forgets the entries after their rows were inserted. */
static void clear_entries(struct news *news)
{
    if (news->count > 0) {
        memset(news->slots, 0, sizeof news->slots);
    }
    news->count = 0;
    news->due_us = TIME_NEVER;
    news->woken_us = TIME_NEVER;
    news->has_act = false;
    news->any_workspace = false;
    news->has_state = false;
    news->workspace_count = 0;
}

void news_init(struct news *news, int64_t now_us)
{
    memset(news->slots, 0, sizeof news->slots);
    news->count = 0;
    news->slots_freed = 0;
    news->now_us = now_us;
    news->stream_use = STREAM_USE_UNKNOWN;
    clear_entries(news);
}

/* Workspaces are numbered in a row: their lanes fill the table without meeting each other. */
static size_t slot_of(enum news_kind kind, int64_t node_id, int64_t lane_id, size_t tries)
{
    uint64_t lane = (uint64_t)lane_id;
    return (size_t)((lane ^ (lane >> 32) * 389 ^ (uint64_t)kind * 613 ^ (uint64_t)node_id * 797) + tries) % NEWS_SLOTS;
}

/* Ends the transaction and not the process: the lane was read from a row, which any program may have written. */
static struct lane_delta *refuse_lane(struct news *news, int64_t lane_id, enum weir_status *ret_status,
                                      struct weir_error *error)
{
    if (*ret_status == WEIR_OK) {
        *ret_status =
            error_set(error, WEIR_STORE_CORRUPT, "a row of the queue was altered: its lane is %lld", (long long)lane_id);
        error_hint(error, "find the program that wrote to the file; `weir store check` lists the damage");
    }
    news->refused = (struct lane_delta){.lane_id = lane_id};
    return &news->refused;
}

struct lane_delta *news_lane(struct news *news, struct connection *connection, enum news_kind kind, int64_t node_id,
                             int64_t lane_id, enum weir_status *ret_status, struct weir_error *error)
{
    INVARIANT(kind < NEWS_ACT);
    if (lane_id <= 0) {
        return refuse_lane(news, lane_id, ret_status, error);
    }
    if (news->count == NEWS_ENTRIES_MOST) {
        enum weir_status status = news_write(news, connection, error);
        *ret_status = *ret_status == WEIR_OK ? status : *ret_status;
    }
    for (size_t tries = 0;; tries++) {
        uint16_t *slot = &news->slots[slot_of(kind, node_id, lane_id, tries)];
        if (*slot == 0) {
            struct news_entry *entry = &news->entries[news->count++];
            *slot = (uint16_t)news->count;
            *entry = (struct news_entry){.kind = kind, .node_id = node_id, .delta = {.lane_id = lane_id}};
            return &entry->delta;
        }
        struct news_entry *entry = &news->entries[*slot - 1];
        if (entry->delta.lane_id == lane_id && entry->kind == kind && entry->node_id == node_id) {
            return &entry->delta;
        }
    }
}

void news_add_runnable(struct lane_delta *delta, int64_t rank)
{
    delta->least_rank = delta->runnable <= 0 || rank < delta->least_rank ? rank : delta->least_rank;
    delta->runnable++;
}

void news_add_waiting(struct news *news, struct lane_delta *delta, int64_t due_us)
{
    delta->waiting++;
    news->due_us = due_us < news->due_us ? due_us : news->due_us;
}

void news_add_parked(struct news *news, struct lane_delta *delta, int64_t due_us)
{
    delta->parked++;
    news->due_us = due_us < news->due_us ? due_us : news->due_us;
}

enum weir_status news_hand_over(struct news *news, struct connection *connection, int64_t node_id, int64_t lane_id,
                                struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    news_lane(news, connection, NEWS_HANDED_OVER, node_id, lane_id, &status, error)->node_held--;
    return status;
}

void news_act_workspace(struct news *news, int64_t workspace_id)
{
    news->has_act = true;
    if (news->workspace_count == NEWS_WORKSPACES_MOST) {
        news->any_workspace = true;
    } else {
        news->workspaces[news->workspace_count++] = workspace_id;
    }
}

void news_act_any(struct news *news)
{
    news->has_act = true;
    news->any_workspace = true;
}

void news_act(struct news *news)
{
    news->has_act = true;
}

void news_state(struct news *news)
{
    news->has_state = true;
}

void news_wake(struct news *news, int64_t due_us)
{
    news->has_state = true;
    news->woken_us = due_us < news->woken_us ? due_us : news->woken_us;
}

/* --- writing --- */

/* Writes a number in decimal; snprintf() takes several times as long. */
static char *put_number(char *to, int64_t value)
{
    char digits[DIGITS_MOST];
    size_t count = 0;
    uint64_t rest = value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;
    if (value < 0) {
        *to++ = '-';
    }
    do {
        digits[count++] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    while (count > 0) {
        *to++ = digits[--count];
    }
    return to;
}

/* "[lane,runnable,...]" without the zeros at its end; nothing when the sums are zero. */
static char *put_lane(char *to, const struct lane_delta *delta, bool is_first)
{
    const int64_t fields[LANE_DELTA_FIELDS] = {
        delta->lane_id, delta->runnable,  delta->runnable > 0 ? delta->least_rank : 0,
        delta->held,    delta->completed, delta->waiting,
        delta->failed,  delta->cancelled, delta->node_held,
        delta->parked};
    size_t count = LANE_DELTA_FIELDS;
    while (count > 1 && fields[count - 1] == 0) {
        count--;
    }
    if (count == 1) {
        return to;
    }
    if (!is_first) {
        *to++ = ',';
    }
    *to++ = '[';
    for (size_t i = 0; i < count; i++) {
        to = put_number(to, fields[i]);
        *to++ = i + 1 < count ? ',' : ']';
    }
    return to;
}

/* Inserts one row of the news. */
static enum weir_status insert_row(const struct news *news, struct connection *connection, enum news_kind kind,
                                   int64_t node_id, const char *lanes, int64_t due_us, const char *workspaces,
                                   struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_INSERT_NEWS, "diitit", (int)kind, node_id,
                                              news->now_us, lanes, due_us, workspaces);
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (due_us == TIME_NEVER) {
        (void)sqlite3_bind_null(statement, 5);
    }
    (void)connection_step(connection, statement, &status, error);
    return status;
}

/* One row with all lanes of the kind and node of entry `first`; entries that were written before have the kind 0. */
static enum weir_status insert_kind(struct news *news, struct connection *connection, size_t first, char *text,
                                    struct weir_error *error)
{
    enum news_kind kind = news->entries[first].kind;
    int64_t node_id = news->entries[first].node_id;
    bool waits = false;
    char *end = text;
    *end++ = '[';
    for (size_t i = first; i < news->count; i++) {
        struct news_entry *entry = &news->entries[i];
        if (entry->kind == kind && entry->node_id == node_id) {
            end = put_lane(end, &entry->delta, end == text + 1);
            news->slots_freed -= entry->delta.held < 0 ? entry->delta.held : 0;
            waits = waits || entry->delta.waiting > 0 || entry->delta.parked > 0;
            entry->kind = 0;
        }
    }
    *end++ = ']';
    *end = '\0';
    if (end == text + 2) {
        return WEIR_OK; /* the changes cancel each other out */
    }
    return insert_row(news, connection, kind, node_id, text, waits ? news->due_us : TIME_NEVER, NULL, error);
}

/* Inserts the act or the change of state, with the workspaces that it names. */
static enum weir_status insert_act(const struct news *news, struct connection *connection, struct weir_error *error)
{
    char text[NEWS_WORKSPACES_MOST * DIGITS_MOST + 3];
    char *end = text;
    *end++ = '[';
    for (size_t i = 0; i < news->workspace_count; i++) {
        if (i > 0) {
            *end++ = ',';
        }
        end = put_number(end, news->workspaces[i]);
    }
    *end++ = ']';
    *end = '\0';
    return insert_row(news, connection, NEWS_ACT, 0, "[]", TIME_NEVER, news->any_workspace ? NULL : text, error);
}

enum weir_status news_write(struct news *news, struct connection *connection, struct weir_error *error)
{
    INVARIANT(news->count <= NEWS_ENTRIES_MOST);
    enum weir_status status = WEIR_OK;
    char *text = news->count == 0 ? NULL : malloc(news->count * LANE_TEXT_MOST + 3);
    if (news->count > 0 && text == NULL) {
        status = error_out_of_memory(error);
    }
    for (size_t i = 0; i < news->count && status == WEIR_OK; i++) {
        if (news->entries[i].kind != 0) {
            status = insert_kind(news, connection, i, text, error);
        }
    }
    free(text);
    if (status == WEIR_OK && news->has_act) {
        status = insert_act(news, connection, error);
    }
    if (status == WEIR_OK && news->has_state) {
        status = insert_row(news, connection, NEWS_STATE, 0, "[]", news->woken_us, NULL, error);
    }
    clear_entries(news);
    return status;
}

/* --- reading --- */

enum { NUMBER_DIGITS_MOST = 19 }; /* fit into 64 bits without a sign */

/* A number as put_number() writes it, and the text behind it; NULL = there is none, or one that no row can have. strtoll()
 * takes four times as long, and a round reads thousands. */
static const char *read_number(const char *text, int64_t *ret_value)
{
    bool is_negative = *text == '-';
    const char *first = is_negative ? text + 1 : text;
    const char *at = first;
    uint64_t value = 0;
    while (*at >= '0' && *at <= '9' && at - first < NUMBER_DIGITS_MOST) {
        value = value * 10 + (uint64_t)(*at++ - '0');
    }
    if (at == first || value > INT64_MAX) {
        return NULL;
    }
    *ret_value = is_negative ? -(int64_t)value : (int64_t)value;
    return at;
}

bool news_next_lane(const char **at, struct lane_delta *ret_delta, bool *ret_bad)
{
    INVARIANT(at != NULL && *at != NULL && ret_delta != NULL && ret_bad != NULL);
    int64_t fields[LANE_DELTA_FIELDS] = {0};
    size_t count = 0;
    const char *text = *at;
    text += *text == ',' ? 1 : 0;
    text += text[0] == '[' && text[1] == '[' ? 1 : 0; /* the outer bracket before the first lane */
    if (*text == ']' || strcmp(text, "[]") == 0) {
        return false;
    }
    while (*text == (count == 0 ? '[' : ',') && count < LANE_DELTA_FIELDS) {
        text = read_number(text + 1, &fields[count++]);
        text = text == NULL ? "" : text;
    }
    if (*text != ']' || count < 2 || fields[0] <= 0) {
        *ret_bad = true;
        return false;
    }
    *at = text + 1;
    *ret_delta = (struct lane_delta){.lane_id = fields[0],
                                     .runnable = fields[1],
                                     .least_rank = fields[2],
                                     .held = fields[3],
                                     .completed = fields[4],
                                     .waiting = fields[5],
                                     .failed = fields[6],
                                     .cancelled = fields[7],
                                     .node_held = fields[8],
                                     .parked = fields[9]};
    return true;
}
