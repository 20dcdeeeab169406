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
    .answer_schema = "Execution",
    .handle = answer_show_execution,
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
