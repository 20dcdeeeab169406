/* A list in the order of the queue, the part that both drivers share (queue_order.h).
 *
 *   1. Read the cursor: the part of the list, the key and the tie of the last row of the page before.
 *   2. Read runnable entries behind it along their index, one more than the page has.
 *   3. Fill the rest of the page with delayed ones, from their start.
 *   4. Read the rows of the entries, and add the places. The first row of a lane is counted for, up to a bound; each
 *      later row of the same lane is one behind the one before.
 *
 * It never sorts by anything that an index does not have, and reads no more entries than a page has for each lane of the
 * workspace. Runs in the thread of the caller, inside one snapshot.
 */
#include "store/queue_order.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/filter.h"

enum { CURSOR_MAX = 80 };

/* Where a page begins. */
struct start {
    bool delayed;
    int64_t key;
    char tie[UUID_TEXT_MAX];
};

enum weir_status queue_order_check(const struct list_options *options, struct weir_error *error)
{
    INVARIANT(options != NULL);
    struct execution_filter rest = options->filter;
    rest.workspace = NULL;
    rest.states = 0;
    rest.as_of_us = 0;
    if (options->kind == LIST_EXECUTIONS && options->filter.workspace != NULL &&
        options->filter.states == 1U << ITEM_PENDING && filter_is_empty(&rest)) {
        return WEIR_OK;
    }
    error_set(error, WEIR_INVALID_ARGUMENT, "the order of the queue is that of the pending executions of one workspace");
    error_hint(error, "filter by workspace and status=PENDING, and by nothing else");
    return WEIR_INVALID_ARGUMENT;
}

/* "r:KEY:TIE" of a runnable one, "d:KEY:TIE" of a delayed one. */
static enum weir_status read_start(const struct queue_order_rows *rows, const char *cursor, struct start *ret_start,
                                   struct weir_error *error)
{
    *ret_start = (struct start){.delayed = false, .key = INT64_MIN};
    text_copy(ret_start->tie, sizeof ret_start->tie, rows->first_tie);
    if (cursor == NULL || cursor[0] == '\0') {
        return WEIR_OK;
    }
    char *end = NULL;
    bool is_one = (cursor[0] == 'r' || cursor[0] == 'd') && cursor[1] == ':' && strlen(cursor) < CURSOR_MAX;
    errno = 0;
    long long key = is_one ? strtoll(cursor + 2, &end, 10) : 0;
    if (!is_one || errno != 0 || end == cursor + 2 || *end != ':' || strlen(end + 1) >= sizeof ret_start->tie ||
        !rows->tie_is_valid(end + 1)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "\"%.64s\" is not a cursor of the order of the queue", cursor);
        error_hint(error, "a cursor is the next_cursor of the page before, of the same order");
        return WEIR_INVALID_ARGUMENT;
    }
    ret_start->delayed = cursor[0] == 'd';
    ret_start->key = key;
    text_copy(ret_start->tie, sizeof ret_start->tie, end + 1);
    return WEIR_OK;
}

/* The entries of a page and one more, if the list goes on. *ret_runnable: so many of them are runnable. */
static enum weir_status read_page_entries(const struct queue_order_rows *rows, const char *workspace,
                                          const struct start *start, size_t most, struct queue_entry *entries,
                                          size_t *ret_runnable, size_t *ret_count, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    size_t runnable = 0;
    size_t delayed = 0;
    if (!start->delayed) {
        status = rows->read(rows->context, workspace, false, start->key, start->tie, most, entries, &runnable, error);
    }
    if (status == WEIR_OK && runnable < most) {
        status =
            rows->read(rows->context, workspace, true, start->delayed ? start->key : INT64_MIN,
                       start->delayed ? start->tie : rows->first_tie, most - runnable, entries + runnable, &delayed, error);
    }
    *ret_runnable = runnable;
    *ret_count = runnable + delayed;
    INVARIANT(*ret_count <= most);
    return status;
}

/* The place of entry `at`; 0: behind more than are counted. */
static enum weir_status queue_order_place(const struct queue_order_rows *rows, const struct queue_entry *entries,
                                          const int64_t *places, size_t at, int64_t *ret_place, struct weir_error *error)
{
    int64_t ahead = 0;
    for (size_t i = at; i-- > 0;) {
        if (entries[i].lane_id == entries[at].lane_id) {
            *ret_place = places[i] > 0 && places[i] < QUEUE_PLACE_MOST ? places[i] + 1 : 0;
            return WEIR_OK;
        }
    }
    enum weir_status status = rows->count_ahead(rows->context, &entries[at], &ahead, error);
    *ret_place = ahead < QUEUE_PLACE_MOST ? ahead + 1 : 0;
    return status;
}

/* Reads the rows of the entries, with their places. */
static enum weir_status show_entries(const struct queue_order_rows *rows, const struct queue_entry *entries,
                                     size_t runnable, size_t count, json_t **ret_items, struct weir_error *error)
{
    json_t *items = NULL;
    int64_t *places = calloc(count + 1, sizeof *places);
    const char **ids = calloc(count + 1, sizeof *ids);
    enum weir_status status = places == NULL || ids == NULL ? error_out_of_memory(error) : WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        ids[i] = entries[i].id;
    }
    if (status == WEIR_OK) {
        status = count == 0 ? reading_return_json(json_array(), &items, error)
                            : rows->show(rows->context, ids, count, &items, error);
    }
    free(ids);
    if (status == WEIR_OK && json_array_size(items) != count) {
        status = error_set(error, WEIR_STORE_CORRUPT, "the view \"executions\" has not every pending execution");
        error_hint(error, "run `weir store check`");
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        if (i < runnable) {
            status = queue_order_place(rows, entries, places, i, &places[i], error);
        }
        json_t *place = places[i] > 0 ? json_integer((json_int_t)places[i]) : json_null();
        if (status == WEIR_OK && json_object_set_new(json_array_get(items, i), "place", place) != 0) {
            status = error_out_of_memory(error);
        }
    }
    free(places);
    if (status != WEIR_OK) {
        json_decref(items);
        return status;
    }
    *ret_items = items;
    return WEIR_OK;
}

static json_t *cursor_of(const struct queue_entry *entry, bool delayed)
{
    return json_sprintf("%c:%" PRId64 ":%s", delayed ? 'd' : 'r', entry->key, entry->tie);
}

enum weir_status queue_order_list(const struct queue_order_rows *rows, const struct execution_rows *counted,
                                  const struct list_options *options, json_t **ret_page, struct weir_error *error)
{
    INVARIANT(rows != NULL && counted != NULL && options != NULL && options->limit > 0 && ret_page != NULL);
    INVARIANT(options->filter.workspace != NULL);
    size_t limit = options->limit;
    struct start start;
    size_t runnable = 0;
    size_t count = 0;
    bool exact = false;
    json_int_t matched = 0;
    json_t *items = NULL;
    struct queue_entry *entries = calloc(limit + 1, sizeof *entries);
    enum weir_status status =
        entries == NULL ? error_out_of_memory(error) : read_start(rows, options->cursor, &start, error);
    if (status == WEIR_OK) {
        status = read_page_entries(rows, options->filter.workspace, &start, limit + 1, entries, &runnable, &count, error);
    }
    bool more = count > limit;
    count = more ? limit : count;
    if (status == WEIR_OK) {
        status = show_entries(rows, entries, runnable < count ? runnable : count, count, &items, error);
    }
    if (status == WEIR_OK && options->count) {
        status = reading_count_executions(counted, options, &matched, &exact, error);
    }
    json_t *next = more && status == WEIR_OK ? cursor_of(&entries[count - 1], count > runnable) : json_null();
    free(entries);
    if (status != WEIR_OK) {
        json_decref(items);
        return status;
    }
    return reading_return_json(json_pack("{s:o, s:o, s:o, s:b}", "items", items, "next_cursor", next, "count",
                                         options->count ? json_integer(matched) : json_null(), "count_is_exact",
                                         (int)exact),
                               ret_page, error);
}
