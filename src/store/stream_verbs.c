/* The verbs of the stream, and the names of its kinds.
 *
 * Each verb checks its arguments and calls the driver. Runs in the caller's thread.
 */
#include <string.h>

#include "base/error.h"
#include "store/call.h"

/* The state of an execution behind an entry of this kind. */
static const struct {
    const char *name;
    enum item_state state;
} kinds[STREAM_KINDS] = {
    [STREAM_ENQUEUE] = {"enqueue", ITEM_PENDING},
    [STREAM_CLAIM] = {"claim", ITEM_CLAIMED},
    [STREAM_DISPATCH] = {"dispatch", ITEM_DISPATCHED},
    [STREAM_RETRY] = {"retry", ITEM_PENDING},
    [STREAM_DEFER] = {"defer", ITEM_PENDING},
    [STREAM_PUT_BACK] = {"put_back", ITEM_PENDING},
    [STREAM_RELEASE] = {"release", ITEM_PENDING},
    [STREAM_GIVE_BACK] = {"give_back", ITEM_CLAIMED},
    [STREAM_HAND_OVER] = {"hand_over", ITEM_CLAIMED},
    [STREAM_PARK] = {"park", ITEM_WAITING},
    [STREAM_WAKE] = {"wake", ITEM_PENDING},
    [STREAM_COMPLETE] = {"complete", ITEM_COMPLETED},
    [STREAM_FAIL] = {"fail", ITEM_FAILED},
    [STREAM_CANCELLED] = {"cancelled", ITEM_CANCELLED},
};

const char *stream_kind_name(enum stream_kind kind)
{
    INVARIANT((int)kind >= 0 && kind < STREAM_KINDS);
    return kinds[kind].name;
}

bool stream_kind_parse(const char *name, enum stream_kind *ret_kind)
{
    INVARIANT(ret_kind != NULL);
    for (size_t i = 0; name != NULL && i < STREAM_KINDS; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            *ret_kind = (enum stream_kind)i;
            return true;
        }
    }
    return false;
}

enum item_state stream_kind_state(enum stream_kind kind)
{
    INVARIANT((int)kind >= 0 && kind < STREAM_KINDS);
    return kinds[kind].state;
}

enum stream_kind stream_kind_of_end(enum item_state state)
{
    INVARIANT(item_is_terminal(state));
    return state == ITEM_COMPLETED ? STREAM_COMPLETE : state == ITEM_FAILED ? STREAM_FAIL : STREAM_CANCELLED;
}

enum weir_status store_read_stream(struct store *store, const struct stream_position *after, size_t most,
                                   struct arena *arena, struct stream_batch *ret_batch, struct weir_error *error)
{
    INVARIANT(store != NULL && after != NULL && arena != NULL && ret_batch != NULL);
    if (most == 0 || most > STREAM_READ_MOST) {
        return error_set(error, WEIR_MISUSE, "a call reads 1 to %d entries of the stream", STREAM_READ_MOST);
    }
    CALL(store, "read_stream", error, store->driver->read_stream(store, after, most, arena, ret_batch, detail));
}

enum weir_status store_purge_stream(struct store *store, size_t limit, int64_t *ret_removed, struct weir_error *error)
{
    INVARIANT(store != NULL && ret_removed != NULL);
    if (limit == 0 || limit > STREAM_PURGE_MOST) {
        return error_set(error, WEIR_MISUSE, "a call removes 1 to %d rows of the stream", STREAM_PURGE_MOST);
    }
    CALL(store, "purge_stream", error, store->driver->purge_stream(store, limit, ret_removed, detail));
}
