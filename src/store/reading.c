/* Reading for people, the part that both drivers share: pages, cursors, ids given in part, and pieces of JSON answers.
 *
 * A list of executions is sorted by id, newest first, and a page continues below the last id that was examined. It is
 * filled from several reads: one for each window, and more with a filter by reason, which is computed from the row and in
 * no index. The other lists continue after a name. Events continue after a number, because an event history grows at its
 * end only.
 *
 * Nothing here reads a database or keeps state; every function runs in the thread of the caller.
 */
#include "store/reading.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "store/filter.h"

enum weir_status reading_return_json(json_t *value, json_t **ret_value, struct weir_error *error)
{
    INVARIANT(ret_value != NULL);
    if (value == NULL) {
        return error_out_of_memory(error);
    }
    *ret_value = value;
    return WEIR_OK;
}

/* --- ids --- */

/* The rest is that of the largest or smallest id with these first characters. */
bool reading_complete_id(const char *prefix, const char *rest, char ret_id[UUID_TEXT_MAX])
{
    INVARIANT(prefix != NULL && rest != NULL);
    size_t length = strlen(prefix);
    if (length > UUID_TEXT_LENGTH) {
        return false;
    }
    memcpy(ret_id, rest, UUID_TEXT_MAX);
    for (size_t i = 0; i < length; i++) {
        bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (is_dash ? prefix[i] != '-' : isxdigit((unsigned char)prefix[i]) == 0) {
            return false;
        }
        ret_id[i] = (char)tolower((unsigned char)prefix[i]);
    }
    return true;
}

/* Ids without dashes, as other programs write them, get them. `to` holds the answer unless that is the text itself. */
static const char *add_dashes(const char *given, char to[UUID_TEXT_MAX])
{
    size_t length = strlen(given);
    size_t used = 0;
    if (length <= 8 || length > UUID_TEXT_LENGTH - 4 || strchr(given, '-') != NULL) {
        return given;
    }
    for (size_t i = 0; i < length; i++) {
        if (i == 8 || i == 12 || i == 16 || i == 20) {
            to[used++] = '-';
        }
        to[used++] = given[i];
    }
    to[used] = '\0';
    return to;
}

enum weir_status reading_check_id(const char *given, char ret_lower[UUID_TEXT_MAX], struct weir_error *error)
{
    static const char zeros[UUID_TEXT_MAX] = "00000000-0000-0000-0000-000000000000";
    INVARIANT(given != NULL);
    char dashed[UUID_TEXT_MAX];
    const char *id = add_dashes(given, dashed);
    if (strlen(given) < EXECUTION_ID_PREFIX_LEAST || !reading_complete_id(id, zeros, ret_lower)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "\"%s\" is not an execution id", given);
        error_hint(error, "give the whole id or its first %d or more characters, as `weir list` shows them",
                   EXECUTION_ID_PREFIX_LEAST);
        return WEIR_INVALID_ARGUMENT;
    }
    ret_lower[strlen(id)] = '\0';
    return WEIR_OK;
}

enum weir_status reading_check_matches(const char *const *ids, size_t count, const char *lower, struct weir_error *error)
{
    INVARIANT((ids != NULL || count == 0) && lower != NULL);
    char named[(IDS_NAMED_MAX + 1) * (UUID_TEXT_MAX + 4)] = "";
    if (count == 1) {
        return WEIR_OK;
    }
    if (count == 0) {
        (void)reading_refuse_missing(lower, error);
        error_hint(error, "`weir list` shows the executions; ended ones are removed after the retention time");
        return WEIR_EXECUTION_NOT_FOUND;
    }
    for (size_t i = 0; i < count && i <= IDS_NAMED_MAX; i++) {
        size_t used = strlen(named);
        (void)snprintf(named + used, sizeof named - used, "%s%s", i > 0 ? ", " : "", i < IDS_NAMED_MAX ? ids[i] : "...");
    }
    error_set(error, WEIR_INVALID_ARGUMENT, "more than one execution begins with %s: %s", lower, named);
    error_hint(error, "give more characters of the id: the first 13 name a millisecond");
    return WEIR_INVALID_ARGUMENT;
}

enum weir_status reading_refuse_missing(const char *id, struct weir_error *error)
{
    return error_set(error, WEIR_EXECUTION_NOT_FOUND, "there is no execution %s", id);
}

enum { REASONS_OF_READ = 200 }; /* at least so many rows of a filter by reason are read at once */

static enum weir_status refuse_cursor(const char *cursor, struct weir_error *error)
{
    error_set(error, WEIR_INVALID_ARGUMENT, "\"%.64s\" is not a cursor", cursor);
    error_hint(error, "a cursor is the next_cursor of the page before");
    return WEIR_INVALID_ARGUMENT;
}

/* --- lists of executions --- */

bool reading_has_reason(const json_t *row, const char *reason)
{
    const char *its = json_string_value(json_object_get(row, "pending_reason"));
    return reason == NULL || (its != NULL && strcmp(its, reason) == 0);
}

/* A condition that only some states can meet leaves out the others, and with them whole indexes. */
unsigned reading_states(const struct execution_filter *filter)
{
    INVARIANT(filter != NULL);
    const unsigned held = 1U << ITEM_CLAIMED | 1U << ITEM_DISPATCHED;
    unsigned states = filter->states == 0 ? ITEM_STATES_ALL : filter->states;
    states &= filter->stuck == CONDITION_YES ? held : ITEM_STATES_ALL;
    states &= filter->waiting_for != NULL ? 1U << ITEM_WAITING : ITEM_STATES_ALL;
    states &= filter->reason != NULL ? held | 1U << ITEM_PENDING : ITEM_STATES_ALL;
    states &= filter->retried == CONDITION_YES || filter->finished_before_us != 0 ? ITEM_STATES_ENDED : ITEM_STATES_ALL;
    states &= filter->dismissed == CONDITION_YES ? 1U << ITEM_FAILED : ITEM_STATES_ALL;
    return states;
}

/* The bounds of a filter without one: each duration is above and below them. */
int64_t reading_longer_than(const struct execution_filter *filter)
{
    INVARIANT(filter != NULL);
    return filter->longer_than_us == 0 ? -1 : filter->longer_than_us;
}

int64_t reading_shorter_than(const struct execution_filter *filter)
{
    INVARIANT(filter != NULL);
    return filter->shorter_than_us == 0 ? INT64_MAX : filter->shorter_than_us;
}

bool reading_has_windows(const struct execution_filter *filter)
{
    return filter->id == NULL && filter->parent == NULL && !filter_is_empty(filter);
}

void reading_first_id(int64_t time_us, char ret_id[UUID_TEXT_MAX])
{
    INVARIANT(time_us >= 0);
    uint64_t ms = (uint64_t)time_us / 1000;
    (void)snprintf(ret_id, UUID_TEXT_MAX, "%08" PRIx64 "-%04" PRIx64 "-0000-0000-000000000000", ms >> 16 & 0xffffffff,
                   ms & 0xffff);
}

void reading_end_millisecond(char id[UUID_TEXT_MAX], bool descending)
{
    enum { TIME_LENGTH = 13 };
    INVARIANT(strlen(id) == UUID_TEXT_LENGTH);
    memcpy(id + TIME_LENGTH, &(descending ? UUID_FIRST : UUID_LAST)[TIME_LENGTH], UUID_TEXT_LENGTH - TIME_LENGTH);
}

/* Adds the rows that have the reason to the page until it is full; the cursor follows the last row that was examined. */
static enum weir_status add_rows(const json_t *rows, const char *reason, size_t limit, json_t *items, char *cursor,
                                 bool *ret_more, struct weir_error *error)
{
    size_t count = json_array_size(rows);
    for (size_t i = 0; i < count; i++) {
        json_t *row = json_array_get(rows, i);
        if (reading_has_reason(row, reason) && json_array_append(items, row) != 0) {
            return error_out_of_memory(error);
        }
        const char *id = json_string_value(json_object_get(row, "id"));
        text_copy(cursor, UUID_TEXT_MAX, id == NULL ? "" : id);
        if (json_array_size(items) == limit) {
            *ret_more = *ret_more || i + 1 < count;
            break;
        }
    }
    return WEIR_OK;
}

/* Fills one page from several reads: one for each window, and more of a filter by reason. A read that does
 * not move the cursor is the last: its ids were altered, and no row was found for them. */
static enum weir_status fill_execution_page(const struct execution_rows *rows, const struct list_options *options,
                                            json_t *items, char *cursor, bool *ret_more, struct weir_error *error)
{
    const struct execution_filter *filter = &options->filter;
    size_t limit = options->limit;
    size_t asked = filter->reason != NULL && limit < REASONS_OF_READ ? REASONS_OF_READ : limit;
    size_t examined = 0;
    size_t windows = 0;
    enum weir_status status = WEIR_OK;
    bool may_read = true;
    *ret_more = true;
    while (status == WEIR_OK && *ret_more && may_read && json_array_size(items) < limit) {
        json_t *read = NULL;
        char before[UUID_TEXT_MAX];
        char next[UUID_TEXT_MAX] = "";
        text_copy(before, sizeof before, cursor);
        status = rows->read(rows->context, filter, cursor, asked, &read, ret_more, next, error);
        if (status == WEIR_OK) {
            size_t count = json_array_size(read);
            status = add_rows(read, filter->reason, limit, items, cursor, ret_more, error);
            bool is_whole = json_array_size(items) < limit;
            examined += filter->reason != NULL ? count : 0;
            windows += count < asked;
            may_read = options->windows_most == 0 || (windows < options->windows_most && examined < REASONS_MOST);
            if (*ret_more && is_whole) {
                text_copy(cursor, UUID_TEXT_MAX, next);
            }
        }
        json_decref(read);
        *ret_more = *ret_more && strcmp(before, cursor) != 0;
    }
    return status;
}

/* Counts window by window. Reasons are slow to compute, so with bounded windows few of them are computed. */
enum weir_status reading_count_executions(const struct execution_rows *rows, const struct list_options *options,
                                          json_int_t *ret_count, bool *ret_exact, struct weir_error *error)
{
    INVARIANT(rows != NULL && options != NULL && ret_count != NULL && ret_exact != NULL);
    const struct execution_filter *filter = &options->filter;
    bool is_bounded = options->windows_most > 0 && !options->counts_all;
    size_t most = is_bounded && filter->reason != NULL ? REASONS_MOST : LIST_COUNT_MOST;
    enum weir_status status = WEIR_OK;
    struct execution_count part = {.more = true};
    char below[UUID_TEXT_MAX];
    size_t examined = 0;
    size_t matched = 0;
    text_copy(part.next, sizeof part.next, rows->newest_bound);
    for (size_t windows = 0; status == WEIR_OK && part.more && examined < most; windows++) {
        if (is_bounded && windows == options->windows_most) {
            break;
        }
        text_copy(below, sizeof below, part.next);
        status = rows->count(rows->context, filter, below, most - examined, &part, error);
        part.more = part.more && strcmp(part.next, below) != 0;
        examined += part.examined;
        matched += part.matched;
    }
    *ret_count = (json_int_t)matched;
    *ret_exact = !part.more;
    return status;
}

/* The id below which the page begins, in small letters, as the stores keep ids. */
static enum weir_status read_execution_cursor(const struct execution_rows *rows, const char *given, char *ret_cursor,
                                              struct weir_error *error)
{
    if (given == NULL || given[0] == '\0') {
        text_copy(ret_cursor, UUID_TEXT_MAX, rows->newest_bound);
        return WEIR_OK;
    }
    return uuid_is_valid(given) && reading_complete_id(given, given, ret_cursor) ? WEIR_OK : refuse_cursor(given, error);
}

enum weir_status reading_list_executions(const struct execution_rows *rows, const struct list_options *options,
                                         json_t **ret_page, struct weir_error *error)
{
    INVARIANT(rows->read != NULL && rows->count != NULL && rows->newest_bound != NULL && ret_page != NULL);
    INVARIANT(options->limit > 0);
    char cursor[UUID_TEXT_MAX];
    bool more = false;
    bool exact = false;
    json_int_t count = 0;
    json_t *items = json_array();
    enum weir_status status = items == NULL ? error_out_of_memory(error) : WEIR_OK;
    if (status == WEIR_OK) {
        status = read_execution_cursor(rows, options->cursor, cursor, error);
    }
    if (status == WEIR_OK) {
        status = fill_execution_page(rows, options, items, cursor, &more, error);
    }
    if (status == WEIR_OK && options->count) {
        status = reading_count_executions(rows, options, &count, &exact, error);
    }
    if (status != WEIR_OK) {
        json_decref(items);
        return status;
    }
    return reading_return_json(json_pack("{s:o, s:o, s:o, s:b}", "items", items, "next_cursor",
                                         more ? json_string(cursor) : json_null(), "count",
                                         options->count ? json_integer(count) : json_null(), "count_is_exact", (int)exact),
                               ret_page, error);
}

/* --- other lists --- */

/* The greatest character behind the prefix is greater than all that a name has there. Its code is U+10FFFF, which stands
 * for no character, so a name does not have it. */
void reading_prefix_bounds(const struct list_options *options, const char **ret_from, char ret_end[PREFIX_END_BYTES])
{
    INVARIANT(options->prefix == NULL || strlen(options->prefix) <= WORKSPACE_NAME_MAX);
    *ret_from = options->prefix == NULL ? "" : options->prefix;
    (void)snprintf(ret_end, PREFIX_END_BYTES, "%s\xf4\x8f\xbf\xbf", *ret_from);
}

enum weir_status reading_page_names(json_t *rows, const char *cursor, size_t limit, json_t **ret_page,
                                    struct weir_error *error)
{
    INVARIANT(cursor != NULL && limit > 0);
    bool more = json_array_size(rows) > limit;
    if (more) {
        (void)json_array_remove(rows, limit);
    }
    const json_t *last = json_array_get(rows, json_array_size(rows) - 1);
    const json_t *cursor_key = json_object_get(last, "cursor_key");
    const char *key = json_string_value(cursor_key != NULL ? cursor_key : json_object_get(last, "name"));
    json_t *next = more && key != NULL ? json_string(key) : json_null();
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        (void)json_object_del(row, "cursor_key");
    }
    return reading_return_json(json_pack("{s:o, s:o, s:I, s:b}", "items", rows, "next_cursor", next, "count",
                                         (json_int_t)json_array_size(rows), "count_is_exact", !more && cursor[0] == '\0'),
                               ret_page, error);
}

enum weir_status reading_page_steps(json_t *rows, json_t **ret_page, struct weir_error *error)
{
    return reading_return_json(json_pack("{s:o, s:n, s:I, s:b}", "items", rows, "next_cursor", "count",
                                         (json_int_t)json_array_size(rows), "count_is_exact", 1),
                               ret_page, error);
}

enum weir_status reading_event_offset(const char *cursor, int64_t *ret_offset, struct weir_error *error)
{
    INVARIANT(ret_offset != NULL);
    char *end = NULL;
    errno = 0;
    long long offset = cursor == NULL || cursor[0] == '\0' ? 0 : strtoll(cursor, &end, 10);
    if (errno != 0 || offset < 0 || (end != NULL && (*end != '\0' || !isdigit((unsigned char)cursor[0])))) {
        return refuse_cursor(cursor, error);
    }
    *ret_offset = offset;
    return WEIR_OK;
}

enum weir_status reading_act_bound(const char *cursor, int64_t *ret_below, struct weir_error *error)
{
    enum weir_status status = reading_event_offset(cursor, ret_below, error);
    if (status == WEIR_OK && (cursor == NULL || cursor[0] == '\0')) {
        *ret_below = INT64_MAX;
    }
    return status;
}

/* --- parts of an answer --- */

/* A workflow of steps may have a step of this id as well, but never its variables: an object with a state. */
bool reading_has_machine(const json_t *execution)
{
    INVARIANT(execution != NULL);
    const json_t *steps = json_object_get(execution, "steps");
    const json_t *step = json_array_get(steps, 0);
    const char *name = json_string_value(json_object_get(step, "step"));
    const json_t *machine = json_object_get(step, "variables");
    bool is_opened =
        json_is_string(json_object_get(machine, "state")) && json_is_object(json_object_get(machine, "variables"));
    return json_array_size(steps) == 1 && name != NULL && strcmp(name, "state") == 0 &&
           (json_is_string(machine) || is_opened);
}

/* The drivers give variables as the JSON text that they keep. */
static void open_changes(json_t *actions)
{
    size_t i;
    json_t *action;
    json_array_foreach(actions, i, action)
    {
        const json_t *text = json_object_get(action, "variables");
        json_t *value = NULL;
        if (json_is_string(text) && json_read(json_string_value(text), json_string_length(text), &value, NULL) == WEIR_OK) {
            (void)json_object_set_new(action, "variables", value);
        }
    }
}

/* The cursor of actions is the number of the last one and no offset: old actions are removed while somebody reads. */
enum weir_status reading_page_part(enum store_list_kind kind, json_t *rows, int64_t after, size_t limit, json_t **ret_page,
                                   struct weir_error *error)
{
    INVARIANT((kind == LIST_EVENTS || kind == LIST_ACTIONS) && after >= 0 && limit > 0);
    bool more = json_array_size(rows) > limit;
    if (more) {
        (void)json_array_remove(rows, limit);
    }
    int64_t next = after + (int64_t)limit;
    if (kind == LIST_ACTIONS) {
        open_changes(rows);
        next = json_integer_value(json_object_get(json_array_get(rows, limit - 1), "seq"));
    }
    json_t *cursor = more ? json_sprintf("%lld", (long long)next) : json_null();
    return reading_return_json(json_pack("{s:o, s:o, s:I, s:b}", "items", rows, "next_cursor", cursor, "count",
                                         (json_int_t)json_array_size(rows), "count_is_exact", (int)(!more && after == 0)),
                               ret_page, error);
}

enum weir_status reading_add_actions(json_t *execution, json_t *actions, int64_t earlier, struct weir_error *error)
{
    INVARIANT(execution != NULL && earlier >= 0);
    open_changes(actions);
    bool is_set = json_object_set_new(execution, "actions", actions) == 0 &&
                  json_object_set_new(execution, "earlier_actions", json_integer(earlier)) == 0;
    return is_set ? WEIR_OK : error_out_of_memory(error);
}

int64_t reading_earlier_events(int64_t count)
{
    return count > SHOW_EVENTS_MOST ? count - SHOW_EVENTS_MOST : 0;
}

enum weir_status reading_add_events(json_t *execution, json_t *events, int64_t earlier, struct weir_error *error)
{
    bool is_set = json_object_set_new(execution, "events", events) == 0 &&
                  json_object_set_new(execution, "earlier_events", json_integer(earlier)) == 0;
    return is_set ? WEIR_OK : error_out_of_memory(error);
}

enum weir_status reading_keep_first(json_t *execution, const char *key, struct weir_error *error)
{
    json_t *first = json_incref(json_array_get(json_object_get(execution, key), 0));
    return json_object_set_new(execution, key, first == NULL ? json_null() : first) == 0 ? WEIR_OK
                                                                                         : error_out_of_memory(error);
}

enum weir_status reading_add_params(json_t *execution, const char *text, size_t length, struct weir_error *error)
{
    INVARIANT(text != NULL || length == 0);
    json_t *params = NULL;
    enum weir_status status = WEIR_OK;
    if (text == NULL) {
        params = json_object();
    } else {
        status = json_read(text, length, &params, error);
    }
    if (status == WEIR_OK && json_object_set_new(execution, "params", params) != 0) {
        status = error_out_of_memory(error);
    }
    return status;
}

void reading_explain_end(json_t *execution)
{
    (void)json_object_set_new(execution, "because", json_string("it has ended"));
}

enum weir_status reading_add_reasons(json_t *status_json, const json_t *counted, struct weir_error *error)
{
    INVARIANT(status_json != NULL);
    json_t *reasons = json_object();
    for (unsigned i = 0; i < PENDING_REASON_COUNT; i++) {
        const char *name = pending_reason_name((enum pending_reason)i);
        json_t *count = json_object_get(counted, name);
        (void)json_object_set_new(reasons, name, count == NULL ? json_integer(0) : json_incref(count));
    }
    return json_object_set_new(status_json, "pending_reasons", reasons) == 0 ? WEIR_OK : error_out_of_memory(error);
}
