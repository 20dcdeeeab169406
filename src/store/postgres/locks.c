/* Locks of the specification, in the table of the Java library ShedLock.
 *
 * The library's processes may hold rows of the same table. That is safe when both sides mean the same instant by a stored
 * time: columns without zone that hold UTC (its JdbcTemplate provider with usingDbTime()). A column with zone is read in
 * each session's own zone by that provider, so that two may hold one lock: it is refused. So is a table without its key. */
#include <string.h>

#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/postgres_store.h"

/* Looked at once per connection. */
enum weir_status postgres_check_lock_table(struct postgres_store *self, struct link *link, struct weir_error *error)
{
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

static enum weir_status refuse_foreign_lock(const struct lock_request *request, struct weir_error *error)
{
    return error_set(error, WEIR_CONFLICT, "the lock %s is not ours", request->name);
}

static enum weir_status begin_lock_call(struct store *store, struct link **ret_link, struct weir_error *error)
{
    enum weir_status status = postgres_require_writable(store, error);
    *ret_link = link_of(store);
    return status == WEIR_OK ? postgres_check_lock_table(postgres_of(store), *ret_link, error) : status;
}

/* A lock that is held must cost no write: a look first. */
enum weir_status postgres_lock(struct store *store, const struct lock_request *request, struct weir_error *error)
{
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
    return status == WEIR_OK && changes == 0
               ? error_set(error, WEIR_CONFLICT, "the lock %s is held by another", request->name)
               : status;
}

enum weir_status postgres_lock_extend(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    struct link *link;
    int64_t changes = 0;
    enum weir_status status = begin_lock_call(store, &link, error);
    if (status == WEIR_OK) {
        status =
            link_run(link, error, &changes, QUERY_EXTEND_LOCK, "tti", request->name, request->holder, request->at_most_us);
    }
    return status == WEIR_OK && changes == 0 ? refuse_foreign_lock(request, error) : status;
}

enum weir_status postgres_unlock(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    struct link *link;
    int64_t changes = 0;
    enum weir_status status = begin_lock_call(store, &link, error);
    if (status == WEIR_OK && request->holder == NULL) {
        status = link_run(link, error, &changes, QUERY_FREE_LOCK, "t", request->name);
    } else if (status == WEIR_OK) {
        status = link_run(link, error, &changes, QUERY_RELEASE_LOCK, "tti", request->name, request->holder,
                          request->at_least_us);
    }
    return status == WEIR_OK && changes == 0 ? refuse_foreign_lock(request, error) : status;
}
