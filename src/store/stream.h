/* The stream: the changes of executions in the order of their commits, which GET /v1/stream sends.
 *
 * Each transaction that changes executions adds its entries to the stream, while the stream is read: for STREAM_KEEP_US
 * after the last call of store_read_stream(). Without a reader nothing is written. A reader goes on behind the position of
 * the last entry that it has, on any handle of the store and in any process. If entries behind that position are missing,
 * because they were purged or because there was no reader for too long, the answer says so. docs/design/stream.md has the
 * reasons. store/store.h includes this file.
 */
#ifndef WEIR_STORE_STREAM_H
#define WEIR_STORE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/uuid.h"
#include "queue/item.h"
#include "weir/status.h"

struct store;

/* How long entries are kept, and written after the last read. */
#define STREAM_KEEP_US (600 * MICROSECONDS_PER_SECOND)
/* A stream counts as interrupted this long before its entries are no longer written: the clocks of a call that reads and of
 * a transaction that writes are compared. */
#define STREAM_MARGIN_US (60 * MICROSECONDS_PER_SECOND)
enum {
    STREAM_READ_MOST = 1000,      /* entries of one answer */
    STREAM_PURGE_MOST = 1000,     /* rows of one call */
    STREAM_NUMBER_MOST = 1000,    /* rows of one call that get their positions (PostgreSQL) */
    STREAM_ENTRIES_MOST = 1000000 /* kept, however young they are */
};

/* The names are those of the events of an execution (view execution_events). */
enum stream_kind {
    STREAM_ENQUEUE,
    STREAM_CLAIM,
    STREAM_DISPATCH,
    STREAM_RETRY,
    STREAM_DEFER,
    STREAM_PUT_BACK,
    STREAM_RELEASE,
    STREAM_GIVE_BACK,
    STREAM_HAND_OVER,
    STREAM_PARK,
    STREAM_WAKE,
    STREAM_COMPLETE,
    STREAM_FAIL,
    STREAM_CANCELLED,
    STREAM_KINDS
};
const char *stream_kind_name(enum stream_kind kind);
/* False: no kind has this name. */
bool stream_kind_parse(const char *name, enum stream_kind *ret_kind);
/* The state of the execution behind the change. */
enum item_state stream_kind_state(enum stream_kind kind);
/* The kind of an end. */
enum stream_kind stream_kind_of_end(enum item_state state);

/* Of an entry. Positions with different `since_us` cannot be compared: in between the stream was not written. */
struct stream_position {
    int64_t since_us; /* store time at which the stream began; 0 = none */
    int64_t number;
};

struct stream_entry {
    int64_t number;
    int64_t at_us; /* store time of the change */
    enum stream_kind kind;
    char id[UUID_TEXT_MAX]; /* of the execution */
    int64_t workspace_id;
    const char *workspace; /* its name; NULL: it was deleted */
    const char *workflow;  /* its name; NULL: it or the execution was deleted */
};

struct stream_batch {
    struct stream_position position; /* of the last entry; without entries, where the caller goes on */
    /* The caller's position cannot be continued: changes behind it are missing. There are no entries, and `position` is the
     * present end of the stream. The caller reads the present state of what it follows, and goes on from there. */
    bool is_reset;
    /* Transactions that are older than the stream may still commit changes without entries. Never true again for the
     * `since_us` of this answer once it was false. */
    bool is_settling;
    bool more; /* there are entries behind these; of a reset: its end is not known yet, and the same call is to be repeated
                */
    struct stream_entry *entries;
    size_t count;
};

/* Reads entries behind a position, at most `most` (up to STREAM_READ_MOST), and keeps the stream being written. A position
 * with since_us 0 is a reader that begins: the answer is a reset. The entries live in the arena. May write.
 * Errors: those of a store; WEIR_NOT_PERMITTED on a handle for reading only. */
WEIR_MUST_CHECK enum weir_status store_read_stream(struct store *store, const struct stream_position *after, size_t most,
                                                   struct arena *arena, struct stream_batch *ret_batch,
                                                   struct weir_error *error);
/* Removes the oldest entries that are older than STREAM_KEEP_US or too many, at most `limit` rows (up to
 * STREAM_PURGE_MOST). *ret_removed: how many rows; fewer than `limit`: none are left. */
WEIR_MUST_CHECK enum weir_status store_purge_stream(struct store *store, size_t limit, int64_t *ret_removed,
                                                    struct weir_error *error);

#endif
