/* The answer to "why does this execution not run": store_why().
 *
 * 1. An id that is in the queue is explained by the SQL function why_living(). It is one statement, so the reason, the
 *    slots and the nodes in the answer belong to one state of the store.
 * 2. The place in the lane comes from place_of() in the same statement: another function, because it counts rows.
 * 3. An id that is not in the queue has ended: the answer is its row in the history.
 *
 * This file never decides a reason: the list is in queue/item.h, and the view `executions` and lane_reason() apply it. It
 * never writes. It runs in the thread that has the handle. */
#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/link/result_json.h"
#include "store/postgres/postgres_store.h"
#include "store/postgres/read.h"
#include "store/reading.h"

/* NULL in *ret_why: the id is not in the queue. */
static enum weir_status explain_living(struct link *link, const char *id, json_t **ret_why, struct weir_error *error)
{
    PGresult *result = NULL;
    json_t *answer = NULL;
    enum weir_status status = link_read(link, error, &result, QUERY_WHY_LIVING, "u", id);
    if (status == WEIR_OK && !result_null(result, 0, 0)) {
        answer = result_json(result, 0, 0);
        json_t *place = result_json(result, 0, 1);
        status = answer == NULL || place == NULL || (json_is_object(place) && json_object_update(answer, place) != 0)
                     ? error_out_of_memory(error)
                     : WEIR_OK;
        json_decref(place);
    }
    PQclear(result);
    if (status != WEIR_OK) {
        json_decref(answer);
        return status;
    }
    *ret_why = answer;
    return WEIR_OK;
}

static enum weir_status explain_execution(struct link *link, const void *request, json_t **ret_why,
                                          struct weir_error *error)
{
    char id[UUID_TEXT_MAX];
    json_t *answer = NULL;
    enum weir_status status = postgres_find_execution(link, request, id, error);
    if (status == WEIR_OK) {
        status = explain_living(link, id, &answer, error);
    }
    if (status == WEIR_OK && answer == NULL) {
        status = postgres_read_execution(link, id, &answer, error);
        if (status == WEIR_OK && answer != NULL) {
            reading_explain_end(answer);
        }
    }
    if (status == WEIR_OK && answer == NULL) {
        status = reading_refuse_missing(id, error);
    }
    if (status == WEIR_OK) {
        *ret_why = answer;
    }
    return status;
}

enum weir_status postgres_why(struct store *store, const char *id, json_t **ret_why, struct weir_error *error)
{
    INVARIANT(id != NULL && ret_why != NULL);
    return snapshot_read(link_of(store), explain_execution, id, ret_why, error);
}
