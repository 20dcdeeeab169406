/* The events of GET /v1/stream as text, the last ones of the process, and which of them a reader wants.
 *
 * An event is made once and sent to all. Those of the last changes are kept in a ring. So a reader that is a little
 * slower than the others, or comes back after a lost connection, costs no query. Threads: one at a time (stream_hub.c).
 */
#ifndef WEIR_SERVER_STREAM_EVENTS_H
#define WEIR_SERVER_STREAM_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "store/store.h"
#include "weir/status.h"

enum { STREAM_RING_EVENTS = 16384 };

/* Selects the events of a reader; a member that is NULL or unset takes all. */
struct stream_filter {
    const char *workspace;
    int64_t workspace_id; /* instead of the name: a later workspace of that name is another one; 0 = any */
    bool has_status;
    enum item_state status;
    const char *id; /* of an execution, in lower case */
};
bool stream_filter_takes(const struct stream_filter *filter, const struct stream_entry *entry);

/* The id of an event, "SINCE-NUMBER", which a client sends back as Last-Event-ID. False: the text is none. */
bool stream_position_parse(const char *text, struct stream_position *ret_position);

/* Adds the event of a change. `since_us` 0: without an id. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status stream_event_add(struct text *to, int64_t since_us, const struct stream_entry *entry);
/* Adds the event `reset`, with the position from which the reader goes on. `position` NULL: without an id.
 * WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status stream_reset_add(struct text *to, const struct stream_position *position,
                                                  const char *reason);
/* Adds what keeps a connection alive: no event, but the position of the reader. WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status stream_keep_alive_add(struct text *to, const struct stream_position *position);

/* An event of the ring. Its entry has texts of its own. */
struct stream_event {
    struct stream_entry entry;
    size_t length;
    char text[]; /* of the event, then those of the entry */
};

struct stream_ring {
    int64_t begin; /* number of the last change that is not in the ring */
    uint64_t first;
    uint64_t next; /* events [first, next) are kept, in places modulo STREAM_RING_EVENTS */
    struct stream_event *events[STREAM_RING_EVENTS];
};

/* Empties it; the next change is behind `begin`. */
void stream_ring_clear(struct stream_ring *ring, int64_t begin);
/* Keeps a change in place of the oldest one. WEIR_OUT_OF_MEMORY: then the ring has a gap, and must be cleared. */
WEIR_MUST_CHECK enum weir_status stream_ring_add(struct stream_ring *ring, int64_t since_us,
                                                 const struct stream_entry *entry);
/* The place of the first event behind a number that is not less than ring->begin; ring->next: there is none. */
uint64_t stream_ring_find(const struct stream_ring *ring, int64_t number);
const struct stream_event *stream_ring_at(const struct stream_ring *ring, uint64_t place);

#endif
