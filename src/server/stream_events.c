/* Texts of server-sent events, as browsers read them (the standard of HTML, section 9.2): lines `id:`, `event:` and
 * `data:`, and an empty line at the end. A block without `data:` is no event, but a browser keeps its id.
 */
#include "server/stream_events.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

enum { EVENT_BYTES_MAX = 8192 };

/* --- filters and positions --- */

bool stream_filter_takes(const struct stream_filter *filter, const struct stream_entry *entry)
{
    INVARIANT(filter != NULL && entry != NULL);
    bool is_of_workspace = filter->workspace_id != 0 ? filter->workspace_id == entry->workspace_id
                           : filter->workspace == NULL
                               ? true
                               : entry->workspace != NULL && strcmp(filter->workspace, entry->workspace) == 0;
    return is_of_workspace && (!filter->has_status || filter->status == stream_kind_state(entry->kind)) &&
           (filter->id == NULL || strcmp(filter->id, entry->id) == 0);
}

static bool parse_digits(const char *text, char end, int64_t *ret_number, const char **ret_rest)
{
    char *rest = NULL;
    errno = 0;
    long long number = text[0] >= '0' && text[0] <= '9' ? strtoll(text, &rest, 10) : 0;
    if (rest == NULL || errno != 0 || *rest != end) {
        return false;
    }
    *ret_number = number;
    *ret_rest = rest + 1;
    return true;
}

bool stream_position_parse(const char *text, struct stream_position *ret_position)
{
    INVARIANT(text != NULL && ret_position != NULL);
    struct stream_position position = {.since_us = 0};
    if (!parse_digits(text, '-', &position.since_us, &text) || !parse_digits(text, '\0', &position.number, &text) ||
        position.since_us == 0) {
        return false;
    }
    *ret_position = position;
    return true;
}

/* --- texts --- */

static enum weir_status stream_id_add(struct text *to, const struct stream_position *position)
{
    return position == NULL || position->since_us == 0
               ? WEIR_OK
               : text_format(to, "id: %" PRId64 "-%" PRId64 "\n", position->since_us, position->number);
}

/* JSON text has no line end in it. Takes the value over; NULL counts as no memory. */
static enum weir_status stream_data_add(struct text *to, json_t *data)
{
    enum weir_status status = data == NULL ? WEIR_OUT_OF_MEMORY : text_add_string(to, "data: ");
    if (status == WEIR_OK) {
        status = json_write(data, to, NULL);
    }
    json_decref(data);
    return status == WEIR_OK ? text_add(to, "\n\n", 2) : status;
}

enum weir_status stream_event_add(struct text *to, int64_t since_us, const struct stream_entry *entry)
{
    INVARIANT(to != NULL && entry != NULL);
    char at[TIME_TEXT_MAX];
    time_format(entry->at_us, at);
    enum weir_status status = stream_id_add(to, &(struct stream_position){.since_us = since_us, .number = entry->number});
    return status == WEIR_OK ? stream_data_add(to, json_pack("{s:s, s:s, s:s?, s:s?, s:s, s:s}", "id", entry->id, "event",
                                                             stream_kind_name(entry->kind), "workspace", entry->workspace,
                                                             "workflow", entry->workflow, "status",
                                                             item_state_name(stream_kind_state(entry->kind)), "at", at))
                             : status;
}

enum weir_status stream_reset_add(struct text *to, const struct stream_position *position, const char *reason)
{
    INVARIANT(to != NULL && reason != NULL);
    enum weir_status status = stream_id_add(to, position);
    if (status == WEIR_OK) {
        status = text_add_string(to, "event: reset\n");
    }
    return status == WEIR_OK ? stream_data_add(to, json_pack("{s:s}", "reason", reason)) : status;
}

enum weir_status stream_keep_alive_add(struct text *to, const struct stream_position *position)
{
    INVARIANT(to != NULL);
    enum weir_status status = text_add_string(to, ": keep-alive\n");
    if (status == WEIR_OK) {
        status = stream_id_add(to, position);
    }
    return status == WEIR_OK ? text_add(to, "\n", 1) : status;
}

/* --- the ring --- */

static void remove_oldest(struct stream_ring *ring)
{
    struct stream_event **oldest = &ring->events[ring->first % STREAM_RING_EVENTS];
    ring->begin = (*oldest)->entry.number;
    free(*oldest);
    *oldest = NULL;
    ring->first++;
}

void stream_ring_clear(struct stream_ring *ring, int64_t begin)
{
    INVARIANT(ring != NULL);
    while (ring->first < ring->next) {
        remove_oldest(ring);
    }
    ring->begin = begin;
}

/* Where the copy of a text is, behind *at; NULL stays NULL. */
static const char *copy_behind(char **at, const char *text)
{
    char *copy = *at;
    if (text == NULL) {
        return NULL;
    }
    size_t bytes = strlen(text) + 1;
    memcpy(copy, text, bytes);
    *at += bytes;
    return copy;
}

enum weir_status stream_ring_add(struct stream_ring *ring, int64_t since_us, const struct stream_entry *entry)
{
    INVARIANT(ring != NULL && entry != NULL && entry->number > ring->begin);
    struct text text = {.max = EVENT_BYTES_MAX};
    struct stream_event *event = NULL;
    if (stream_event_add(&text, since_us, entry) == WEIR_OK) {
        event = malloc(sizeof *event + text.length + (entry->workspace == NULL ? 0 : strlen(entry->workspace) + 1) +
                       (entry->workflow == NULL ? 0 : strlen(entry->workflow) + 1));
    }
    if (event == NULL) {
        text_close(&text);
        return WEIR_OUT_OF_MEMORY;
    }
    char *at = event->text + text.length;
    event->entry = *entry;
    event->length = text.length;
    memcpy(event->text, text.data, text.length);
    event->entry.workspace = copy_behind(&at, entry->workspace);
    event->entry.workflow = copy_behind(&at, entry->workflow);
    text_close(&text);
    if (ring->next - ring->first == STREAM_RING_EVENTS) {
        remove_oldest(ring);
    }
    ring->events[ring->next++ % STREAM_RING_EVENTS] = event;
    return WEIR_OK;
}

uint64_t stream_ring_find(const struct stream_ring *ring, int64_t number)
{
    INVARIANT(ring != NULL && number >= ring->begin);
    uint64_t from = ring->first;
    uint64_t to = ring->next;
    while (from < to) {
        uint64_t middle = from + (to - from) / 2;
        if (stream_ring_at(ring, middle)->entry.number <= number) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

const struct stream_event *stream_ring_at(const struct stream_ring *ring, uint64_t place)
{
    return ring->events[place % STREAM_RING_EVENTS];
}
