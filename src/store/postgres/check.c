/* `weir store check`: the invariants that rows alone can show.
 *
 * Each query of queries/check.sql returns one JSON text per problem and no row when all is well. All of them run in one
 * REPEATABLE READ transaction, because books, news and rows agree at each commit and not between two. Each query has a
 * deadline of its own: it may read a whole table.
 *
 * The check never repairs and never writes. It runs in the thread that has the handle; the listener of progress may stop it
 * between two queries. */
#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/link/result_json.h"
#include "store/postgres/postgres_store.h"
#include "store/postgres/read.h"
#include "store/reading.h"

static enum weir_status run_checks(struct link *link, const void *request, json_t **ret_problems, struct weir_error *error)
{
    static const enum postgres_query checks[] = {QUERY_CHECK_LANES,  QUERY_CHECK_CLAIMS,  QUERY_CHECK_LIMITS,
                                                 QUERY_CHECK_LIVE,   QUERY_CHECK_SIGNALS, QUERY_CHECK_CHILDREN,
                                                 QUERY_CHECK_COUNTS, QUERY_CHECK_PARAMS,  QUERY_CHECK_STEPS,
                                                 QUERY_CHECK_KEYS,   QUERY_CHECK_ARCHIVE, QUERY_CHECK_INDEXES};
    const struct store *store = request;
    const int64_t total = sizeof checks / sizeof checks[0];
    json_t *problems = json_array();
    enum weir_status status = store_report_progress(store, 0, total, error);
    for (int64_t i = 0; i < total && status == WEIR_OK; i++) {
        PGresult *result = NULL;
        link_start(link);
        status = link_read(link, error, &result, checks[i], "");
        for (int row = 0; status == WEIR_OK && row < PQntuples(result); row++) {
            (void)json_array_append_new(problems, result_json(result, row, 0));
        }
        PQclear(result);
        if (status == WEIR_OK) {
            status = store_report_progress(store, i + 1, total, error);
        }
    }
    if (status != WEIR_OK) {
        json_decref(problems);
        return status;
    }
    return reading_return_json(problems, ret_problems, error);
}

enum weir_status postgres_check(struct store *store, json_t **ret_problems, struct weir_error *error)
{
    INVARIANT(ret_problems != NULL);
    return snapshot_read(link_of(store), run_checks, store, ret_problems, error);
}
