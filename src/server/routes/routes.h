/* The handlers of the routes, each a route_handler or route_set_handler (route.h) of one row of route_table.c. */
#ifndef WEIR_SERVER_ROUTES_ROUTES_H
#define WEIR_SERVER_ROUTES_ROUTES_H

#include "server/api.h"
#include "server/route.h"

/* clang-format off */
#define ROUTE_HANDLER_LIST(X)                                                                                              \
    X(readiness) X(metrics) X(openapi) X(docs) X(problems) X(problem_page)                                                 \
    X(list_executions) X(show_execution) X(enqueue_batch) X(list_steps) X(list_events) X(list_actions)                     \
    X(explain_execution)                                                                                                   \
    X(read_result) X(cancel_execution) X(retry_execution) X(release_execution) X(dismiss_execution) \
    X(complete_execution) X(complete_callback) X(fail_callback) \
    X(wake_execution) X(migrate_execution) X(approve_execution) X(reject_execution) X(signal_execution) \
    X(update_execution) \
    X(begin_bulk) X(list_bulk) X(show_bulk) X(stop_bulk)                             \
    X(claim_tasks) X(heartbeat_tasks) X(complete_tasks) X(fail_tasks) X(leave_tasks) \
    X(act_on_executions) X(list_failures) X(list_logs) X(read_log) X(list_workspaces) X(show_workspace) \
    X(put_workspace) X(patch_workspace) X(pause_workspace) X(resume_workspace) X(delete_workspace) \
    X(rename_workspace) \
    X(erase_workspace) X(list_plans) X(show_plan) X(set_plan) X(list_workflows) X(show_workflow) \
    X(publish_workflow) X(enable_workflow) X(disable_workflow) X(delete_workflow) X(pause_queue) \
    X(resume_queue) X(list_nodes) X(order_node) X(list_groups) X(list_locks) X(take_lock) X(extend_lock) \
    X(release_lock) X(status) X(list_audit) X(note_act) X(show_store) X(check_store) X(list_migrations) \
    X(show_definition) X(stream_changes) X(list_hooks) X(set_hook) X(pause_hook) X(resume_hook) X(delete_hook) \
    X(list_schedules) X(show_schedule) X(set_schedule) X(pause_schedule) X(resume_schedule) X(trigger_schedule) \
    X(delete_schedule) X(show_history) X(show_workspace_history) X(show_slot_timeline) \
    X(dashboard_page) X(dashboard_asset) X(embedded_box) X(plain_overview) X(plain_executions) X(plain_execution) \
    X(plain_session) X(plain_sign_in)                                                                                      \
    X(show_oidc) X(begin_oidc) X(end_oidc) X(show_session) X(begin_session) X(end_session) \
    X(list_tokens) X(revoke_token) X(kill_demo_node)
/* clang-format on */

#define ROUTE_HANDLER_DECLARE(name)                                                                                        \
    void answer_##name(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer);
ROUTE_HANDLER_LIST(ROUTE_HANDLER_DECLARE)
#undef ROUTE_HANDLER_DECLARE

/* The set of POST /v1/workspaces/{workspace}/executions. */
void answer_enqueues(struct api *api, struct store *store, struct http_request *const *requests,
                     struct http_answer *const *answers, size_t count);

/* --- shared by the handlers --- */

/* 200 with the value, or the failure. Takes the value over. */
void respond_outcome(struct http_request *request, struct http_answer *answer, enum weir_status status,
                     const struct weir_error *error, json_t *value);
/* The filter of the query: its keys are arguments, and `where` has the grammar of the command line. *ret_argument: at
 * fault, after an error. */
WEIR_MUST_CHECK enum weir_status request_filter(struct http_request *request, struct store *store,
                                                struct execution_filter *filter, const char **ret_argument,
                                                struct weir_error *error);

#endif
