/* Locks of programs, in the table of the Java library ShedLock.
 *
 * Each verb is one conditional statement: the row changes only if the lock is free, over, or of this holder. The number of
 * changed rows is the answer, so two holders never have one lock, and a repeated take of the same holder succeeds.
 *
 * Processes of the library may hold rows of the same table. That is safe if both sides mean the same instant by a stored
 * time: columns without zone that hold UTC (its JdbcTemplate provider with usingDbTime()). That provider reads a column
 * with zone in the zone of each session, so two holders could have one lock. Such a table is refused, and so is one without
 * its primary key.
 *
 * This file never changes the table's columns, and never compares times of this machine. It runs in the thread that has the
 * handle. */
#include <string.h>

#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/postgres_store.h"
#include "store/refusal.h"

/* Checks the columns of shedlock once per connection. */
enum weir_status postgres_check_lock_table(struct postgres_store *self, struct link *link, struct weir_error *error)
{
    INVARIANT(self != NULL && link == &self->link);
    PGresult *result = NULL;
    if (self->lock_table_checked && self->lock_table_drops == link->drops) {
        return WEIR_OK;
    }
    enum weir_status status = link_read(link, error, &result, QUERY_FIND_LOCK_TABLE_PROBLEM, "");
    if (status == WEIR_OK && PQntuples(result) > 0) {
        status = error_set(error, WEIR_SCHEMA_MISSING, "%s", result_text(result, 0, 0));
        error_hint(error, "%s", result_text(result, 0, 1));
    }
    PQclear(result);
    self->lock_table_checked = status == WEIR_OK;
    self->lock_table_drops = link->drops;
    return status;
}

/* The checks of every call that changes a lock. */
static enum weir_status begin_lock_call(struct store *store, struct link **ret_link, struct weir_error *error)
{
    enum weir_status status = postgres_require_writable(store, error);
    *ret_link = link_of(store);
    return status == WEIR_OK ? postgres_check_lock_table(postgres_of(store), *ret_link, error) : status;
}

/* A lock that another holder has must cost no write, so it is read first. */
enum weir_status postgres_lock(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    INVARIANT(request != NULL && request->name != NULL && request->holder != NULL);
    struct link *link;
    int64_t held = 0;
    int64_t changes = 0;
    enum weir_status status = begin_lock_call(store, &link, error);
    if (status == WEIR_OK) {
        status = link_read_integer(link, error, &held, QUERY_LOCK_IS_HELD, "tt", request->name, request->holder);
    }
    if (status == WEIR_OK && held == 0) {
        status =
            link_run(link, error, &changes, QUERY_TAKE_LOCK, "tti", request->name, request->holder, request->at_most_us);
    }
    return status == WEIR_OK && changes == 0 ? refusal_lock_held(request->name, error) : status;
}

enum weir_status postgres_lock_extend(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    INVARIANT(request != NULL && request->name != NULL && request->holder != NULL);
    struct link *link;
    int64_t changes = 0;
    enum weir_status status = begin_lock_call(store, &link, error);
    if (status == WEIR_OK) {
        status =
            link_run(link, error, &changes, QUERY_EXTEND_LOCK, "tti", request->name, request->holder, request->at_most_us);
    }
    return status == WEIR_OK && changes == 0 ? refusal_lock_not_held(request->name, error) : status;
}

static enum weir_status release_by_force(const struct store *store, struct link *link, const struct lock_request *request,
                                         int64_t *ret_changes, struct weir_error *error)
{
    PGresult *result = NULL;
    enum weir_status status = link_write(link, error, &result, QUERY_RELEASE_LOCK_BY_FORCE, "tttt", request->name,
                                         request->holder, store_actor(store), store_reason(store));
    *ret_changes = status == WEIR_OK ? result_int(result, 0, 0) : 0;
    PQclear(result);
    return status;
}

enum weir_status postgres_unlock(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    INVARIANT(request != NULL && request->name != NULL);
    struct link *link;
    int64_t changes = 0;
    enum weir_status status = begin_lock_call(store, &link, error);
    if (status == WEIR_OK && request->holder == NULL) {
        status = link_run(link, error, &changes, QUERY_FREE_LOCK, "t", request->name);
    } else if (status == WEIR_OK && request->is_forced) {
        status = release_by_force(store, link, request, &changes, error);
    } else if (status == WEIR_OK) {
        status = link_run(link, error, &changes, QUERY_RELEASE_LOCK, "tti", request->name, request->holder,
                          request->at_least_us);
    }
    return status == WEIR_OK && changes == 0 ? refusal_lock_not_held(request->name, error) : status;
}
