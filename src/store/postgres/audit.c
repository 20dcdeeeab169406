/* Acts that change no setting, and the retention of acts. All other acts are recorded by the SQL function of the act, which
 * calls record_act(): functions/record_act.sql is the one place that inserts the row.
 *
 * Runs in the thread that has the handle. It never changes another table.
 */
#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/postgres_store.h"

enum weir_status postgres_note_act(struct store *store, const char *act, const char *subject, const char *detail,
                                   struct weir_error *error)
{
    INVARIANT(act != NULL && subject != NULL);
    enum weir_status status = postgres_require_writable(store, error);
    return status == WEIR_OK ? link_run(link_of(store), error, NULL, QUERY_NOTE_ACT, "ttttt", store_actor(store), act,
                                        subject, store_reason(store), detail)
                             : status;
}

enum weir_status postgres_purge_audit(struct store *store, int64_t before_us, size_t limit, int64_t *ret_removed,
                                      struct weir_error *error)
{
    INVARIANT(limit <= AUDIT_PURGE_MOST && ret_removed != NULL);
    int64_t removed = 0;
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status = link_run(link_of(store), error, &removed, QUERY_PURGE_AUDIT, "id", before_us, (int)limit);
    }
    if (status == WEIR_OK) {
        *ret_removed = removed;
    }
    return status;
}
