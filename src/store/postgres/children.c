/* Children on PostgreSQL: one call of advance_children() (functions/). Runs in the thread that has the handle. */
#include "base/error.h"
#include "base/text.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/postgres_store.h"

enum weir_status postgres_advance_children(struct store *store, struct children_advance *ret_advance,
                                           struct weir_error *error)
{
    INVARIANT(store != NULL && ret_advance != NULL);
    PGresult *result = NULL;
    struct children_advance advance = {.again = false};
    struct link *link = link_of(store);
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status = link_read(link, error, &result, QUERY_CHILD_NOTES_WAIT, "");
    }
    if (status != WEIR_OK) {
        return status;
    }
    advance.exist = result_bool(result, 0, 0);
    bool has_notes = result_bool(result, 0, 1);
    PQclear(result);
    if (has_notes) {
        status = link_write(link, error, &result, QUERY_ADVANCE_CHILDREN, "ddd", (int)CHILD_WORK_BATCH,
                            (int)CHILD_SET_BATCH, (int)CHILD_SET_BATCH);
    }
    if (status == WEIR_OK && has_notes) {
        advance.started = (size_t)result_int(result, 0, 0);
        advance.cancelled = (size_t)result_int(result, 0, 1);
        advance.settled = (size_t)result_int(result, 0, 2);
        advance.again = result_bool(result, 0, 3);
        advance.waits = result_bool(result, 0, 4);
        advance.faults = (size_t)result_int(result, 0, 5);
        text_copy(advance.fault, sizeof advance.fault, result_text(result, 0, 6));
        PQclear(result);
    }
    if (status == WEIR_OK) {
        *ret_advance = advance;
    }
    return status;
}
