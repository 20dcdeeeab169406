/* Locks in the table `shedlock`, which Java programs share.
 *
 * Each change is one UPDATE or INSERT, conditional on the holder and on the end of the lock in store time. A lock that
 * is held is found by a read first, because many nodes ask for the same lock and a refusal must not wait for the
 * writer. A lock that ends by its time needs no clean-up: the next holder overwrites the row. The holder of a lock may
 * take it again, which sets a new end.
 *
 * It never waits for a lock, and never frees a lock of another holder except by an operator's order (no holder given).
 * Runs in the caller's thread: the dispatch or the duties thread of a node, or a command.
 */
#include <string.h>

#include "base/error.h"
#include "store/refusal.h"
#include "store/sqlite/sqlite_store.h"

/* Runs one conditional change of the lock; no row changed means that it has another holder. */
static enum weir_status change_lock(struct store *store, const struct lock_request *request, enum sqlite_query query,
                                    int64_t duration_us, struct weir_error *error)
{
    struct write write;
    int64_t changes = 0;
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (request->is_forced) {
        status = act_begin(&write, "lock release", "lock", request->name, NULL, error);
    }
    if (status == WEIR_OK && query == QUERY_FREE_LOCK) {
        status = connection_run(write.connection, error, &changes, query, "ti", request->name, write.now_us);
    } else if (status == WEIR_OK) {
        status = connection_run(write.connection, error, &changes, query, "tiit", request->name, write.now_us, duration_us,
                                request->holder);
    }
    if (status == WEIR_OK && changes == 0) {
        status = refusal_lock_not_held(request->name, error);
    }
    if (status != WEIR_OK) {
        write_undo(&write);
        if (sqlite3_errcode(write.connection->database) == SQLITE_ERROR) {
            error_hint(error, "the table shedlock is missing or damaged: weir store check");
        }
        return status;
    }
    return write_finish(&write, error);
}

/* Reads first: a lock that is held must cost no write. */
enum weir_status sqlite_lock(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    INVARIANT(request->name != NULL && request->holder != NULL);
    struct connection *connection;
    int64_t now_us = 0;
    int64_t held = 0;
    enum weir_status status = store_reader(store, &connection, error);
    if (status == WEIR_OK) {
        status = connection_store_time(connection, &now_us, error);
    }
    if (status == WEIR_OK) {
        status = connection_read_integer(connection, error, &held, QUERY_LOCK_IS_HELD, "tit", request->name, now_us,
                                         request->holder);
        status = status == WEIR_NOT_FOUND ? WEIR_OK : status;
    }
    if (status == WEIR_OK && held != 0) {
        return refusal_lock_held(request->name, error);
    }
    return status == WEIR_OK ? change_lock(store, request, QUERY_TAKE_LOCK, request->at_most_us, error) : status;
}

enum weir_status sqlite_lock_extend(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    INVARIANT(request->name != NULL && request->holder != NULL);
    return change_lock(store, request, QUERY_EXTEND_LOCK, request->at_most_us, error);
}

enum weir_status sqlite_unlock(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    INVARIANT(request->name != NULL);
    if (request->holder == NULL) {
        return change_lock(store, request, QUERY_FREE_LOCK, 0, error);
    }
    return change_lock(store, request, QUERY_RELEASE_LOCK, request->at_least_us, error);
}
