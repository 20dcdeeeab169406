/* Locks of the specification, in the table of the Java library ShedLock.
 *
 * The library's processes may hold rows of the same table. That is safe when both sides mean the same instant by a stored
 * time: columns without zone that hold UTC (its JdbcTemplate provider with usingDbTime()). A column with zone is read in
 * each session's own zone by that provider, so that two may hold one lock: it is refused. */
#include <string.h>

#include "base/error.h"
#include "store/postgres/postgres_store.h"

enum { TIME_COLUMNS = 2 };

/* Looked at once per connection. */
static enum weir_status check_columns(struct postgres_store *self, struct link *link, struct weir_error *error)
{
    PGresult *result = NULL;
    if (self->lock_columns_checked && self->lock_columns_drops == link->drops) {
        return WEIR_OK;
    }
    enum weir_status status = link_read(link, error, &result, QUERY_LOCK_COLUMNS, "");
    if (status != WEIR_OK) {
        return status;
    }
    if (PQntuples(result) != TIME_COLUMNS) {
        status = error_set(error, WEIR_SCHEMA_MISSING, "the table %s.shedlock is missing or has other columns",
                           self->address->schema);
        error_hint(error, "it has name, lock_until, locked_at, locked_by: see docs/operations.md, or weir store migrate");
    }
    for (int row = 0; status == WEIR_OK && row < TIME_COLUMNS; row++) {
        if (!result_bool(result, row, 2)) {
            status = error_set(error, WEIR_SCHEMA_MISSING,
                               "the column %s of %s.shedlock is %s: two holders would read it "
                               "differently",
                               result_text(result, row, 0), self->address->schema, result_text(result, row, 1));
            error_hint(error, "make it timestamp without time zone, in UTC, while nobody holds a lock");
        }
    }
    PQclear(result);
    self->lock_columns_checked = status == WEIR_OK;
    self->lock_columns_drops = link->drops;
    return status;
}

static enum weir_status not_ours(const struct lock_request *request, struct weir_error *error)
{
    return error_set(error, WEIR_CONFLICT, "the lock %s is not ours", request->name);
}

static enum weir_status open_locks(struct store *store, struct link **ret_link, struct weir_error *error)
{
    enum weir_status status = require_writable(store, error);
    *ret_link = link_of(store);
    return status == WEIR_OK ? check_columns(postgres_of(store), *ret_link, error) : status;
}

/* A lock that is held must cost no write: a look first. */
enum weir_status postgres_lock(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    struct link *link;
    int64_t held = 0;
    int64_t changes = 0;
    enum weir_status status = open_locks(store, &link, error);
    if (status == WEIR_OK) {
        status = link_read_integer(link, error, &held, QUERY_LOCK_IS_HELD, "tt", request->name, request->holder);
    }
    if (status == WEIR_OK && held == 0) {
        status =
            link_run(link, error, &changes, QUERY_TAKE_LOCK, "tti", request->name, request->holder, request->at_most_us);
    }
    return status == WEIR_OK && changes == 0
               ? error_set(error, WEIR_CONFLICT, "the lock %s is held by another", request->name)
               : status;
}

enum weir_status postgres_lock_extend(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    struct link *link;
    int64_t changes = 0;
    enum weir_status status = open_locks(store, &link, error);
    if (status == WEIR_OK) {
        status =
            link_run(link, error, &changes, QUERY_EXTEND_LOCK, "tti", request->name, request->holder, request->at_most_us);
    }
    return status == WEIR_OK && changes == 0 ? not_ours(request, error) : status;
}

enum weir_status postgres_unlock(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    struct link *link;
    int64_t changes = 0;
    enum weir_status status = open_locks(store, &link, error);
    if (status == WEIR_OK && request->holder == NULL) {
        status = link_run(link, error, &changes, QUERY_FREE_LOCK, "t", request->name);
    } else if (status == WEIR_OK) {
        status = link_run(link, error, &changes, QUERY_RELEASE_LOCK, "tti", request->name, request->holder,
                          request->at_least_us);
    }
    return status == WEIR_OK && changes == 0 ? not_ours(request, error) : status;
}
