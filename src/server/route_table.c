/* Every route.
 *
 * The paths name things, as in REST; an act that is no change of a thing is a last segment (`/cancel`) or, of a whole
 * collection, a word behind a colon (`:batch`). A row belongs to the one command of the command line that does the same, so
 * that both can be compared by a test. Texts that several rows have are macros. */
#include <assert.h>

#include "queue/limits.h"
#include "server/http_server.h"
#include "server/routes/routes.h"
#include "store/json_line.h"

enum { BULK_BODY_BYTES_MAX = 64 * 1024 };

#define ARGUMENTS_PAGE                                                                                                     \
    {"limit", "rows of a page, 1 to 1000"},                                                                                \
    {                                                                                                                      \
        "cursor", "next_cursor of the page before"                                                                         \
    }

/* clang-format off */
static const struct http_route routes[] = {
/* Probes */
{
    .method = "GET", .path = "/livez", .operation = "isAlive", .scope = SCOPE_OPEN, .workspace = WORKSPACE_ANY,
    .summary = "Answer while the process lives", .answer_type = "text/plain",
},
{
    .method = "GET", .path = "/readyz", .operation = "isReady", .scope = SCOPE_OPEN, .workspace = WORKSPACE_ANY,
    .summary = "Answer whether the nodes of the process can work, with the reasons",
    .arguments = {{"verbose", "also the checks that are fine"}},
    .handle = answer_readiness,
},
{
    .method = "GET", .path = "/metrics", .operation = "readMetrics", .scope = SCOPE_READ, .workspace = WORKSPACE_NONE,
    .summary = "Print the metrics of the process and the queue for Prometheus", .answer_type = "text/plain",
    .handle = answer_metrics,
},
/* Documents */
{
    .method = "GET", .path = "/openapi.json", .operation = "readOpenapi", .scope = SCOPE_OPEN, .workspace = WORKSPACE_ANY,
    .summary = "Describe the API for programs",
    .handle = answer_openapi,
},
{
    .method = "GET", .path = "/docs", .operation = "readDocs", .scope = SCOPE_OPEN, .workspace = WORKSPACE_ANY,
    .summary = "Describe the API for people", .answer_type = "text/html",
    .handle = answer_docs,
},
{
    .method = "GET", .path = "/docs/problems", .operation = "readProblems", .scope = SCOPE_OPEN, .workspace = WORKSPACE_ANY,
    .summary = "List the codes of problems", .answer_type = "text/html",
    .handle = answer_problems,
},
{
    .method = "GET", .path = "/docs/problems/{code}", .operation = "readProblem", .scope = SCOPE_OPEN,
    .workspace = WORKSPACE_ANY, .summary = "Explain a code of a problem, and its remedy", .answer_type = "text/html",
    .handle = answer_problem_page,
},
/* Executions */
{
    .method = "POST", .path = "/v1/workspaces/{workspace}/executions", .operation = "enqueueExecution",
    .scope = SCOPE_ENQUEUE, .workspace = WORKSPACE_OF_PATH, .command = "enqueue",
    .summary = "Enqueue an execution of a workflow",
    .bodies = BODY_JSON, .body_max = JSON_LINE_BYTES_MAX, .body_schema = "EnqueueRequest", .answer_schema = "Enqueued",
    .handle_set = answer_enqueues,
},
{
    .method = "GET", .path = "/v1/executions", .operation = "listExecutions",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_FILTER, .command = "list",
    .summary = "List executions, newest first", .takes_filter = true,
    .arguments = {{"where", "a filter: KEY=VALUE ..., all must match"}, {"count", "count the matches, too"},
                  ARGUMENTS_PAGE},
    .answer_schema = "ExecutionPage",
    .handle = answer_list_executions,
},
{
    .method = "GET", .path = "/v1/executions/{id}", .operation = "showExecution",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_ID, .command = "show",
    .summary = "Show an execution with its params, steps and last events",
    .arguments = {{"wait", "answer when it has ended, or after this time: up to 5m"}},
    .answer_schema = "Execution",
    .handle = answer_show_execution,
},
{
    .method = "POST", .path = "/v1/executions:batch", .operation = "enqueueBatch",
    .scope = SCOPE_ENQUEUE, .workspace = WORKSPACE_OF_BODY, .command = "enqueue",
    .summary = "Enqueue up to 1,000 executions in one transaction",
    .bodies = BODY_JSON | BODY_NDJSON, .body_max = HTTP_BODY_BYTES_MAX,
    .arguments = {{"atomic", "enqueue all of them or none"}},
    .body_schema = "BatchRequest", .answer_schema = "Batch",
    .handle = answer_enqueue_batch,
},
{
    .method = "GET", .path = "/v1/executions/{id}/steps", .operation = "listSteps",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_ID, .command = "show",
    .summary = "List the steps of an execution",
    .answer_schema = "StepPage", .handle = answer_list_steps,
},
{
    .method = "GET", .path = "/v1/executions/{id}/events", .operation = "listEvents",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_ID, .command = "show",
    .summary = "List the events of an execution, oldest first", .arguments = {ARGUMENTS_PAGE},
    .answer_schema = "EventPage", .handle = answer_list_events,
},
{
    .method = "GET", .path = "/v1/executions/{id}/why", .operation = "explainExecution",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_ID, .command = "why",
    .summary = "Explain why an execution waits, or what it does",
    .answer_schema = "Why", .handle = answer_explain_execution,
},
{
    .method = "GET", .path = "/v1/executions/{id}/result", .operation = "readResult",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_ID, .command = "wait",
    .summary = "Read the result of a completed execution",
    .answer_schema = "Result", .handle = answer_read_result,
},
{
    .method = "POST", .path = "/v1/executions/{id}/cancel", .operation = "cancelExecution",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_ID, .command = "cancel",
    .summary = "Cancel an execution", .answer_schema = "Act", .handle = answer_cancel_execution,
},
{
    .method = "POST", .path = "/v1/executions/{id}/retry", .operation = "retryExecution",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_ID, .command = "retry",
    .summary = "Enqueue a failed or cancelled execution again", .answer_schema = "Act", .handle = answer_retry_execution,
},
{
    .method = "POST", .path = "/v1/executions/{id}/release", .operation = "releaseExecution",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_ID, .command = "release",
    .summary = "Start a waiting execution before its time", .answer_schema = "Act", .handle = answer_release_execution,
},
{
    .method = "POST", .path = "/v1/executions/{id}/complete", .operation = "completeExecution",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_ID, .command = "complete",
    .summary = "Record the end of an execution that runs on Temporal",
    .bodies = BODY_JSON, .body_max = JSON_LINE_BYTES_MAX, .body_schema = "CompleteRequest", .answer_schema = "Act",
    .handle = answer_complete_execution,
},
{
    .method = "POST", .path = "/v1/executions/{id}/signal", .operation = "signalExecution",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_ID, .command = "signal",
    .summary = "Pass a signal to the workflow of an execution on Temporal",
    .bodies = BODY_JSON, .body_max = JSON_LINE_BYTES_MAX, .body_schema = "SignalRequest", .answer_schema = "Act",
    .handle = answer_signal_execution,
},
/* Acts on many executions. Two commands of the command line are one route: the action is in the body. */
{
    .method = "POST", .path = "/v1/bulk", .operation = "beginBulk",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_BODY, .command = "purge",
    .summary = "Cancel, retry, release or purge all executions that match a filter",
    .bodies = BODY_JSON, .body_max = BULK_BODY_BYTES_MAX, .body_schema = "BulkRequest", .answer_schema = "Bulk",
    .handle = answer_begin_bulk,
},
{
    .method = "GET", .path = "/v1/bulk/{id}", .operation = "showBulk",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_BODY,
    .summary = "Show how far a bulk act is", .answer_schema = "Bulk", .handle = answer_show_bulk,
},
{
    .method = "DELETE", .path = "/v1/bulk/{id}", .operation = "stopBulk",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_BODY,
    .summary = "Stop a bulk act after the executions that are under way", .answer_schema = "Bulk",
    .handle = answer_stop_bulk,
},
/* Tasks of workers */
#define TASK_ROUTE(word, text, schema, answer)                                                                             \
    .method = "POST", .path = "/v1/tasks:" word, .operation = word "Tasks", .scope = SCOPE_OPERATE,                        \
    .workspace = WORKSPACE_OF_BODY, .summary = text, .bodies = BODY_JSON, .body_max = HTTP_BODY_BYTES_MAX,                 \
    .body_schema = "Task" schema "Request", .answer_schema = answer
{TASK_ROUTE("claim", "Claim tasks of handlers for a worker", "Claim", "TaskClaim"), .handle = answer_claim_tasks},
{TASK_ROUTE("heartbeat", "Renew the leases of tasks", "Heartbeat", "TaskVerdicts"), .handle = answer_heartbeat_tasks},
{TASK_ROUTE("complete", "Complete tasks with their outputs", "Complete", "TaskVerdicts"), .handle = answer_complete_tasks},
{TASK_ROUTE("fail", "Fail tasks, to be retried or for good", "Fail", "TaskVerdicts"), .handle = answer_fail_tasks},
};
/* clang-format on */

const struct http_route *route_table(size_t *ret_count)
{
    *ret_count = sizeof routes / sizeof routes[0];
    return routes;
}
