/* The timeline of slots, the part that both drivers share (slot_timeline.h).
 *
 *   1. Read the ids: held ones, then window by window those that wait or ended.
 *   2. Read their rows, and the events by which they took and left slots.
 *   3. Make spans of the events of each execution, and of the claim in its row. An execution without a span since the
 *      time that was asked for is left out.
 *
 * It reads no more than the limit says, and never counts rows. Runs in the thread of the caller, inside one snapshot.
 */
#include "store/slot_timeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* --- spans --- */

bool slot_move_parse(const char *event, enum slot_move_kind *ret_kind)
{
    static const struct {
        const char *event;
        enum slot_move_kind kind;
    } kinds[] = {{"claim", SLOT_TAKEN},
                 {"retry", SLOT_LEFT},
                 {"defer", SLOT_LEFT},
                 {"put_back", SLOT_LEFT},
                 {"park", SLOT_LEFT_TO_WAIT}};
    INVARIANT(ret_kind != NULL);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && event != NULL; i++) {
        if (strcmp(kinds[i].event, event) == 0) {
            *ret_kind = kinds[i].kind;
            return true;
        }
    }
    return false;
}

/* `until_us`: 0 = it goes on. False: out of memory. */
static bool add_span(json_t *spans, bool uses_slot, int64_t from_us, int64_t until_us, int64_t since_us)
{
    char from[TIME_TEXT_MAX];
    char until[TIME_TEXT_MAX];
    if (until_us != 0 && until_us < since_us) {
        return true;
    }
    time_format(from_us, from);
    time_format(until_us, until);
    return json_array_append_new(spans, json_pack("{s:b, s:s, s:s?}", "uses_slot", (int)uses_slot, "started_at", from,
                                                  "finished_at", until_us == 0 ? NULL : until)) == 0;
}

/* The spans of one execution that end at or behind `since_us`, oldest first: [{"uses_slot", "started_at", "finished_at"}],
 * where the end is null while the span goes on. `moves`: oldest first; the present claim is not among them. `claimed_us`:
 * of the present or last claim, 0 = none. `finished_us`: 0 = it has not ended. NULL: out of memory.
 *
 * The claim of a handover is one within the slot that the execution has already. A move out of a slot whose claim was not
 * read has no span. */
static json_t *slot_spans(const struct slot_move *moves, size_t count, int64_t claimed_us, int64_t finished_us,
                          int64_t since_us)
{
    INVARIANT(moves != NULL || count == 0);
    int64_t slot_us = 0; /* since when it has a slot, or waits; 0 = it does not */
    int64_t wait_us = 0;
    json_t *spans = json_array();
    bool is_fine = spans != NULL;
    for (size_t i = 0; i < count + (claimed_us != 0) && is_fine; i++) {
        enum slot_move_kind kind = i < count ? moves[i].kind : SLOT_TAKEN;
        int64_t at_us = i < count ? moves[i].at_us : claimed_us;
        if (kind == SLOT_TAKEN && slot_us == 0) {
            is_fine = wait_us == 0 || add_span(spans, false, wait_us, at_us, since_us);
            slot_us = at_us;
            wait_us = 0;
        } else if (kind != SLOT_TAKEN) {
            is_fine = slot_us == 0 || add_span(spans, true, slot_us, at_us, since_us);
            slot_us = 0;
            wait_us = kind == SLOT_LEFT_TO_WAIT ? at_us : wait_us;
        }
    }
    if (is_fine && (slot_us != 0 || wait_us != 0)) {
        is_fine = add_span(spans, slot_us != 0, slot_us != 0 ? slot_us : wait_us, finished_us, since_us);
    }
    if (!is_fine) {
        json_decref(spans);
        return NULL;
    }
    return spans;
}

/* --- ids --- */

/* The ids of one answer: held ones, waiting ones, ended ones. */
struct choice {
    struct slot_ids held;
    struct slot_ids waiting;
    struct slot_ids ended;
    int64_t examined_since_us; /* 0 = all */
};

static bool open_choice(struct choice *choice, size_t limit)
{
    struct slot_ids *const kinds[] = {&choice->held, &choice->waiting, &choice->ended};
    bool is_fine = true;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        kinds[i]->most = i == 1 && limit > SLOT_TIMELINE_WAITING_MOST ? SLOT_TIMELINE_WAITING_MOST + 1 : limit + 1;
        kinds[i]->ids = calloc(kinds[i]->most, sizeof *kinds[i]->ids);
        is_fine = is_fine && kinds[i]->ids != NULL;
    }
    return is_fine;
}

static void close_choice(struct choice *choice)
{
    free(choice->held.ids);
    free(choice->waiting.ids);
    free(choice->ended.ids);
}

/* The time that the first 48 bits of an id have, in milliseconds. */
static int64_t time_of_id(const char *id)
{
    char digits[13];
    memcpy(digits, id, 8);
    memcpy(digits + 8, id + 9, 4);
    digits[12] = '\0';
    return (int64_t)strtoull(digits, NULL, 16) * 1000;
}

/* Reads ids until `since_us` is behind the window, enough ended executions were found, or enough windows were examined. */
static enum weir_status choose(const struct slot_timeline_rows *rows, const char *workspace, int64_t since_us,
                               struct choice *choice, struct weir_error *error)
{
    char below[UUID_TEXT_MAX];
    char end[UUID_TEXT_MAX];
    enum weir_status status = rows->read_held(rows->context, workspace, &choice->held, error);
    text_copy(below, sizeof below, rows->newest_bound);
    choice->examined_since_us = 0;
    for (size_t windows = 0; windows < LIST_WINDOWS_MOST && status == WEIR_OK; windows++) {
        end[0] = '\0';
        status = rows->read_window(rows->context, workspace, below, since_us, &choice->waiting, &choice->ended, end, error);
        choice->examined_since_us = status == WEIR_OK && end[0] != '\0' ? time_of_id(end) : 0;
        if (end[0] == '\0' || choice->examined_since_us < since_us || choice->ended.count == choice->ended.most) {
            break;
        }
        text_copy(below, sizeof below, end);
    }
    return status;
}

/* The ids in the order of the answer, at most `limit`. One more of a kind than it may have shows that some are left out. */
static size_t join_ids(struct choice *choice, size_t limit, const char **ids, bool *ret_is_whole)
{
    struct slot_ids *const kinds[] = {&choice->held, &choice->waiting, &choice->ended};
    size_t count = 0;
    *ret_is_whole = true;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        for (size_t k = 0; k < kinds[i]->count; k++) {
            if (k + 1 == kinds[i]->most || count == limit) {
                *ret_is_whole = false;
                break;
            }
            ids[count++] = kinds[i]->ids[k];
        }
    }
    return count;
}

/* --- the answer --- */

static int64_t time_at(const json_t *row, const char *key)
{
    int64_t at_us = 0;
    const char *text = json_string_value(json_object_get(row, key));
    return text != NULL && time_parse(text, 0, &at_us, NULL) == WEIR_OK ? at_us : 0;
}

/* One item of the answer, or no item without a span. */
static enum weir_status add_item(json_t *items, const json_t *row, const struct slot_move *moves, size_t count,
                                 int64_t since_us, struct weir_error *error)
{
    static const char *const keys[] = {"id",   "workflow",   "status",     "waiting_for",
                                       "node", "created_at", "claimed_at", "finished_at"};
    json_t *item = json_object();
    json_t *spans = slot_spans(moves, count, time_at(row, "claimed_at"), time_at(row, "finished_at"), since_us);
    size_t span_count = json_array_size(spans);
    bool is_fine = item != NULL && spans != NULL;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && is_fine; i++) {
        is_fine = json_object_set(item, keys[i], json_object_get(row, keys[i])) == 0;
    }
    is_fine = is_fine && json_object_set(item, "spans", spans) == 0;
    if (is_fine && span_count > 0) {
        is_fine = json_array_append(items, item) == 0;
    }
    json_decref(spans);
    json_decref(item);
    return is_fine ? WEIR_OK : error_out_of_memory(error);
}

static enum weir_status add_items(const struct slot_timeline_rows *rows, const char *const *ids, size_t count,
                                  int64_t since_us, json_t *items, bool *ret_is_whole, struct weir_error *error)
{
    struct slot_move *moves = NULL;
    json_t *shown = NULL;
    size_t move_count = 0;
    enum weir_status status = rows->show(rows->context, ids, count, &shown, error);
    if (status == WEIR_OK && json_array_size(shown) != count) {
        status = error_set(error, WEIR_STORE_CORRUPT, "the view \"executions\" has not every execution");
        error_hint(error, "run `weir store check`");
    }
    if (status == WEIR_OK) {
        status = rows->read_moves(rows->context, ids, count, &moves, &move_count, error);
    }
    for (size_t i = 0, at = 0; i < count && status == WEIR_OK; i++) {
        size_t first = at;
        while (at < move_count && moves[at].execution == i) {
            at++;
        }
        *ret_is_whole = *ret_is_whole && at - first < SLOT_MOVES_MOST;
        status = add_item(items, json_array_get(shown, i), at > first ? &moves[first] : NULL, at - first, since_us, error);
    }
    free(moves);
    json_decref(shown);
    return status;
}

static json_t *time_or_null(int64_t at_us)
{
    char text[TIME_TEXT_MAX];
    time_format(at_us, text);
    return at_us == 0 ? json_null() : json_string(text);
}

enum weir_status slot_timeline_list(const struct slot_timeline_rows *rows, const struct list_options *options,
                                    json_t **ret_page, struct weir_error *error)
{
    INVARIANT(rows != NULL && options != NULL && options->name != NULL && options->limit > 0 && ret_page != NULL);
    size_t limit = options->limit;
    int64_t since_us = options->filter.created_since_us;
    struct choice choice = {.examined_since_us = 0};
    bool is_whole = true;
    json_t *items = json_array();
    const char **ids = calloc(limit, sizeof *ids);
    enum weir_status status =
        open_choice(&choice, limit) && ids != NULL && items != NULL ? WEIR_OK : error_out_of_memory(error);
    if (status == WEIR_OK) {
        status = choose(rows, options->name, since_us, &choice, error);
    }
    size_t count = status == WEIR_OK ? join_ids(&choice, limit, ids, &is_whole) : 0;
    if (status == WEIR_OK && count > 0) {
        status = add_items(rows, ids, count, since_us, items, &is_whole, error);
    }
    close_choice(&choice);
    free(ids);
    if (status != WEIR_OK) {
        json_decref(items);
        return status;
    }
    return reading_return_json(json_pack("{s:o, s:n, s:I, s:b, s:o}", "items", items, "next_cursor", "count",
                                         (json_int_t)json_array_size(items), "count_is_exact", (int)is_whole,
                                         "examined_since", time_or_null(choice.examined_since_us)),
                               ret_page, error);
}
