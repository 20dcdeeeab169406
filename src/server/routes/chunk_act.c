/* One chunk of an act on the executions that match a filter, in one transaction. Its caller has the progress and the
 * questions: the command line, through a server (store/http/acts.c).
 *
 * A caller that ends between two chunks has changed each execution completely or not at all, so the same order with the
 * same filter continues with the rest. */
#include <string.h>

#include "base/error.h"
#include "server/routes/act_order.h"
#include "server/routes/body.h"
#include "server/routes/routes.h"
#include "store/bulk_act.h"
#include "store/filter.h"

/* The members of a problem (RFC 9457) that the first refusal of a chunk needs. */
static json_t *problem_of_refusal(const struct weir_error *error)
{
    return json_pack("{s:i, s:s, s:s, s:s*}", "status", weir_status_http(error->status), "code",
                     weir_status_name(error->status), "detail", error->message, "hint",
                     error->hint[0] == '\0' ? NULL : error->hint);
}

/* A filter that was forgotten must not act on everything. */
static enum weir_status read_chunk_filter(struct http_request *request, struct store *store,
                                          struct execution_filter *filter, const char **at_fault, struct weir_error *error)
{
    enum weir_status status = request_filter(request, store, filter, at_fault, error);
    if (status == WEIR_OK && filter_is_empty(filter)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the filter is missing");
        error_hint(error, "name the executions with the keys of a filter as arguments, like ?workspace=acme");
        return WEIR_INVALID_ARGUMENT;
    }
    return status;
}

/* The caller goes on with `last_id` as `after` while `more` is set. */
void answer_act_on_executions(struct api *api, struct store *store, struct http_request *request,
                              struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    struct execution_filter filter = {.id = NULL};
    struct bulk_result result = {.matched = 0};
    struct act_order order = {.from = NULL};
    const json_t *option = NULL; /* read by act_order_read() and act_order_read_signal() */
    const json_t *dry_run = NULL;
    const char *action = NULL;
    const char *after = "";
    int64_t limit = LIST_LIMIT_DEFAULT;
    enum bulk_act act = BULK_CANCEL;
    const struct body_member members[] = {
        {.name = "action", .kind = BODY_TEXT, .to = &action, .is_required = true},
        {.name = "after", .kind = BODY_TEXT, .to = &after},
        {.name = "limit", .kind = BODY_NUMBER, .to = &limit, .least = 1, .most = LIST_LIMIT_MOST},
        {.name = "keep_finished", .kind = BODY_VALUE, .to = &option},
        {.name = "from_step", .kind = BODY_VALUE, .to = &option},
        {.name = "waiting_for", .kind = BODY_VALUE, .to = &option},
        {.name = "to_version", .kind = BODY_VALUE, .to = &option},
        {.name = "dry_run", .kind = BODY_VALUE, .to = &dry_run},
        {.name = "signal", .kind = BODY_VALUE, .to = &option}};
    const char *at_fault = NULL;
    json_t *body = NULL;
    enum weir_status status = body_read(request, members, sizeof members / sizeof members[0], &body, &at_fault, &error);
    if (status == WEIR_OK && (status = bulk_act_parse(action, &act, &error)) != WEIR_OK) {
        at_fault = "/action";
    }
    if (status == WEIR_OK) {
        status = act_order_read(body, act, &order, &at_fault, &error);
        order.only_checks = act == BULK_MIGRATE && json_is_true(dry_run);
    }
    if (status == WEIR_OK && dry_run != NULL && (act != BULK_MIGRATE || !json_is_boolean(dry_run))) {
        at_fault = "/dry_run";
        status = error_set(&error, WEIR_INVALID_ARGUMENT, "dry_run is true or false, for a migration");
    }
    if (status == WEIR_OK) {
        status = act_order_read_signal(body, act, &request->arena, &order, &at_fault, &error);
    }
    if (status == WEIR_OK) {
        status = read_chunk_filter(request, store, &filter, &at_fault, &error);
    }
    if (status == WEIR_OK) {
        at_fault = "/waiting_for";
        status = bulk_act_check_waits(act, &order, &filter, &error);
    }
    if (status == WEIR_OK) {
        at_fault = NULL;
        status = store_bulk_ordered(store, act, &order, &filter, after, (size_t)limit, &result, &error);
    }
    if (status == WEIR_OK) {
        json_t *refusal = result.first_refusal == WEIR_OK ? json_null() : problem_of_refusal(&result.refusal);
        respond_json(answer, 200,
                     json_pack("{s:I, s:I, s:I, s:I, s:s, s:s, s:b, s:o}", "matched", (json_int_t)result.matched, "changed",
                               (json_int_t)result.changed, "requested", (json_int_t)result.requested, "refused",
                               (json_int_t)result.refused, "last_id", result.last_id, "new_id", result.new_id, "more",
                               result.more, "first_refusal", refusal));
    } else {
        respond_error(request, answer, &error, at_fault);
    }
    json_decref(body);
}
