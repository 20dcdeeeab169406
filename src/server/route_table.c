/* Every route.
 *
 * The paths name things, as in REST. An act that is no change of a thing is a last segment (`/cancel`) or, of a whole
 * collection, a suffix behind a colon (`:batch`). A row belongs to the one command of the command line that does the
 * same, so that both can be compared by a test. Texts that several rows have are macros. */
#include <assert.h>

#include "queue/limits.h"
#include "server/http_server.h"
#include "server/oidc.h"
#include "server/plain/refusal.h"
#include "server/routes/routes.h"
#include "store/filter.h"
#include "store/json_line.h"

/* A filter, and the data of a signal, which is a JSON text inside of JSON. */
enum { BULK_BODY_BYTES_MAX = 4 * FILTER_BYTES_MAX + 2 * SIGNAL_DATA_BYTES_MAX };

#define ARGUMENTS_PAGE                                                                                                     \
    {"limit", "rows of a page, 1 to 1000"},                                                                                \
    {                                                                                                                      \
        "cursor", "next_cursor of the page before"                                                                         \
    }

#define ARGUMENT_NAME                                                                                                      \
    {                                                                                                                      \
        "name", "the one of this name"                                                                                     \
    }
#define ARGUMENT_OWNER                                                                                                     \
    {                                                                                                                      \
        "workspace", "the workspace that owns it; without, the workflow of all workspaces"                                 \
    }
#define ARGUMENT_GROUP                                                                                                     \
    {                                                                                                                      \
        "executor_group", "of this executor group; without, of all"                                                        \
    }

#define IF_MATCH ROUTE_FIELD(FIELD_IF_MATCH)
#define IF_NONE_MATCH ROUTE_FIELD(FIELD_IF_NONE_MATCH)
#define KEY ROUTE_FIELD(FIELD_IDEMPOTENCY_KEY)
#define TRACE ROUTE_FIELD(FIELD_TRACEPARENT)

enum {
    SMALL_BODY_BYTES_MAX = 16 * 1024,
    CALLBACK_BODY_BYTES_MAX = 128 * 1024,
    TASK_NAMES_BYTES_MAX = 256 * 1024, /* of handlers, or the ids of 1000 tasks */
    TASK_LOGS_BYTES_MAX = 4 * 1024 * 1024,
    DEFINITION_BODY_BYTES_MAX = 4 * 1024 * 1024
};

/* clang-format off */
static const struct http_route routes[] = {
/* Probes.
 * Balancers and scrapers ask them without a token. None of them shows data of a workspace but the metrics, which are open
 * to those who reach the listener. */
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
/* The dashboard: its pages have the same scripts and styles, and show what the API answers them. */
{
    .method = "GET", .path = "/", .operation = "readDashboard", .scope = SCOPE_OPEN, .workspace = WORKSPACE_ANY,
    .fields = IF_NONE_MATCH, .summary = "Show the dashboard to a browser", .answer_type = "text/html",
    .handle = answer_dashboard_page,
},
{
    .method = "GET", .path = "/assets/{version}/{file}", .operation = "readDashboardFile", .scope = SCOPE_OPEN,
    .workspace = WORKSPACE_ANY, .summary = "Read a file of the dashboard",
    .answer_type = "text/css, text/javascript, text/plain, image/svg+xml, font/woff2",
    .handle = answer_dashboard_asset,
},
{
    .method = "GET", .path = "/embed/workspaces/{workspace}", .operation = "readEmbeddedBox", .scope = SCOPE_OPEN,
    .workspace = WORKSPACE_ANY, .summary = "Show a read-only box of a workspace on a page of another site",
    .answer_type = "text/html",
    .handle = answer_embedded_box,
},
/* The same for browsers without JavaScript. */
{
    .method = "GET", .path = "/plain/overview", .operation = "readPlainOverview", .scope = SCOPE_READ,
    .workspace = WORKSPACE_ANY, .summary = "Show the overview to a browser without JavaScript",
    .answer_type = "text/html", .is_slow = true,
    .handle = answer_plain_overview, .explain = plain_refuse,
},
{
    .method = "GET", .path = "/plain/executions", .operation = "readPlainExecutions", .scope = SCOPE_READ,
    .workspace = WORKSPACE_OF_FILTER, .summary = "Show executions to a browser without JavaScript",
    .arguments = {{"workspace", "of this workspace"}, {"workflow", "of this workflow"}, {"status", "in this state"},
                  {"where", "a filter, as of the command line"}, {"cursor", "next_cursor of the page before"}},
    .answer_type = "text/html",
    .handle = answer_plain_executions, .explain = plain_refuse,
},
{
    .method = "GET", .path = "/plain/executions/{id}", .operation = "readPlainExecution", .scope = SCOPE_READ,
    .workspace = WORKSPACE_OF_ID, .summary = "Show an execution to a browser without JavaScript",
    .answer_type = "text/html",
    .handle = answer_plain_execution, .explain = plain_refuse,
},
{
    .method = "GET", .path = "/plain/session", .operation = "readPlainSignIn", .scope = SCOPE_OPEN,
    .workspace = WORKSPACE_ANY, .summary = "Show the form that signs in to a browser without JavaScript",
    .answer_type = "text/html",
    .handle = answer_plain_sign_in, .explain = plain_refuse,
},
{
    .method = "POST", .path = "/plain/session", .operation = "signInPlain", .scope = SCOPE_OPEN,
    .workspace = WORKSPACE_ANY, .summary = "Keep the token of a form in a cookie of these pages, or remove that cookie",
    .bodies = BODY_FORM, .body_max = SMALL_BODY_BYTES_MAX, .answer_type = "text/html",
    .handle = answer_plain_session, .explain = plain_refuse,
},
{
    .method = "GET", .path = "/v1/session", .operation = "showSession", .scope = SCOPE_READ, .workspace = WORKSPACE_ANY,
    .summary = "Show the rights of the token that asks", .answer_schema = "Session",
    .handle = answer_show_session,
},
{
    .method = "POST", .path = "/v1/session", .operation = "beginSession", .scope = SCOPE_READ, .workspace = WORKSPACE_ANY,
    .summary = "Keep the token that asks in a cookie of the browser", .answer_schema = "Session",
    .handle = answer_begin_session,
},
{
    .method = "DELETE", .path = "/v1/session", .operation = "endSession", .scope = SCOPE_OPEN, .workspace = WORKSPACE_ANY,
    .summary = "Remove that cookie", .answer_schema = "EndedSession",
    .handle = answer_end_session,
},
/* Sign-in by a provider. The callback lies beside the session, so that the browser gives its cookie the same path. */
{
    .method = "GET", .path = "/v1/oidc", .operation = "showOidc", .scope = SCOPE_OPEN, .workspace = WORKSPACE_ANY,
    .summary = "Show whether people sign in by a provider", .answer_schema = "Oidc", .handle = answer_show_oidc,
},
{
    .method = "GET", .path = "/v1/oidc_sign_in", .operation = "beginOidc", .scope = SCOPE_OPEN, .workspace = WORKSPACE_ANY,
    .summary = "Lead the browser to the provider", .answer_type = "text/html", .handle = answer_begin_oidc,
},
{
    .method = "GET", .path = OIDC_CALLBACK_PATH, .operation = "endOidc", .scope = SCOPE_OPEN, .workspace = WORKSPACE_ANY,
    .summary = "Take the browser back from the provider, and begin its session", .takes_any = true,
    .arguments = {{"code", "of the provider"}, {"state", "of the sign-in"}, {"iss", "the issuer"},
                  {"error", "the refusal of the provider"}},
    .answer_type = "text/html", .handle = answer_end_oidc,
},
/* Executions */
{
    .method = "POST", .path = "/v1/workspaces/{workspace}/executions", .operation = "enqueueExecution",
    .scope = SCOPE_ENQUEUE, .workspace = WORKSPACE_OF_PATH, .fields = KEY | TRACE, .command = "enqueue",
    .summary = "Enqueue an execution of a workflow", .gives_location = true,
    .bodies = BODY_JSON, .body_max = JSON_LINE_BYTES_MAX, .body_schema = "EnqueueRequest", .answer_schema = "Enqueued",
    .handle_set = answer_enqueues,
},
{
    .method = "GET", .path = "/v1/executions", .operation = "listExecutions",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_FILTER, .command = "list",
    .summary = "List executions, newest first or in the order of the queue", .takes_filter = true,
    .arguments = {{"where", "a filter: KEY=VALUE ..., all must match"},
                  {"order", "newest; queue: as the pending ones of a workspace start"},
                  {"count", "true: count near matches, too; all: count all"}, ARGUMENTS_PAGE},
    .answer_schema = "ExecutionPage",
    .handle = answer_list_executions,
},
{
    .method = "GET", .path = "/v1/executions/{id}", .operation = "showExecution",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_ID, .fields = IF_NONE_MATCH, .command = "show",
    .summary = "Show an execution with its params, steps and last events",
    .arguments = {{"wait", "answer when it has ended, or after this time: up to 5m"}},
    .answer_schema = "Execution",
    .handle = answer_show_execution,
},
{
    .method = "POST", .path = "/v1/executions:batch", .operation = "enqueueBatch",
    .scope = SCOPE_ENQUEUE, .workspace = WORKSPACE_OF_BODY, .fields = TRACE, .command = "enqueue",
    .summary = "Enqueue up to 1,000 executions in one transaction",
    .bodies = BODY_JSON | BODY_NDJSON, .body_max = HTTP_BODY_BYTES_MAX,
    .arguments = {{"atomic", "enqueue all of them or none"},
                  {"default_executor_group", "the group where neither the execution nor its workflow names one"}},
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
    .method = "GET", .path = "/v1/executions/{id}/actions", .operation = "listActions",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_ID, .command = "show",
    .summary = "List the actions of an execution with states, oldest first", .arguments = {ARGUMENTS_PAGE},
    .answer_schema = "ActionPage", .handle = answer_list_actions,
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
    .method = "GET", .path = "/v1/stream", .operation = "streamChanges",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_FILTER, .fields = ROUTE_FIELD(FIELD_LAST_EVENT_ID),
    .summary = "Stream the changes of executions as they come, as server-sent events",
    .arguments = {{"workspace", "of this workspace"}, {"status", "changes to this status"},
                  {"id", "of this execution, by its whole id"}},
    .answer_type = "text/event-stream", .handle = answer_stream_changes,
},
{
    .method = "POST", .path = "/v1/executions/{id}/cancel", .operation = "cancelExecution",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_ID, .fields = IF_MATCH, .command = "cancel",
    .summary = "Cancel an execution", .answer_schema = "Act", .handle = answer_cancel_execution,
},
{
    .method = "POST", .path = "/v1/executions/{id}/retry", .operation = "retryExecution",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_ID, .fields = IF_MATCH, .command = "retry",
    .summary = "Enqueue a failed or cancelled execution again",
    .bodies = BODY_JSON, .body_max = SMALL_BODY_BYTES_MAX, .body_schema = "RetryRequest", .answer_schema = "Act",
    .handle = answer_retry_execution,
},
{
    .method = "POST", .path = "/v1/executions/{id}/release", .operation = "releaseExecution",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_ID, .fields = IF_MATCH, .command = "release",
    .summary = "Start a PENDING execution before its time", .answer_schema = "Act", .handle = answer_release_execution,
},
{
    .method = "POST", .path = "/v1/executions/{id}/wake", .operation = "wakeExecution",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_ID, .fields = IF_MATCH, .command = "wake",
    .summary = "End the waits of an execution before their time",
    .bodies = BODY_JSON, .body_max = SMALL_BODY_BYTES_MAX, .body_schema = "WakeRequest", .answer_schema = "Act",
    .handle = answer_wake_execution,
},
{
    .method = "POST", .path = "/v1/executions/{id}/dismiss", .operation = "dismissExecution",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_ID, .fields = IF_MATCH, .command = "dismiss",
    .summary = "Mark a FAILED execution as dealt with", .answer_schema = "Act", .handle = answer_dismiss_execution,
},
{
    .method = "POST", .path = "/v1/executions/{id}/migrate", .operation = "migrateExecution",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_ID, .fields = IF_MATCH, .command = "workflow migrate",
    .summary = "Let an execution go on with another version of its workflow",
    .bodies = BODY_JSON, .body_max = SMALL_BODY_BYTES_MAX, .body_schema = "MigrateRequest", .answer_schema = "Act",
    .handle = answer_migrate_execution,
},
{
    .method = "POST", .path = "/v1/executions/{id}/complete", .operation = "completeExecution",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_ID, .fields = IF_MATCH, .command = "complete",
    .summary = "Record the end of an execution that runs on Temporal",
    .bodies = BODY_JSON, .body_max = JSON_LINE_BYTES_MAX, .body_schema = "CompleteRequest", .answer_schema = "Completion",
    .handle = answer_complete_execution,
},
{
    .method = "POST", .path = "/v1/executions/{id}/signal", .operation = "signalExecution",
    .scope = SCOPE_ENQUEUE, .workspace = WORKSPACE_OF_ID, .fields = IF_MATCH | KEY, .command = "signal",
    .summary = "Send a signal to an execution",
    .bodies = BODY_JSON, .body_max = JSON_LINE_BYTES_MAX, .body_schema = "SignalRequest", .answer_schema = "SentSignal",
    .handle = answer_signal_execution,
},
{
    .method = "POST", .path = "/v1/executions/{id}/approve", .operation = "approveExecution",
    .scope = SCOPE_ENQUEUE, .workspace = WORKSPACE_OF_ID, .fields = IF_MATCH, .command = "approve",
    .summary = "Approve a step that waits for an approval",
    .bodies = BODY_JSON, .body_max = SMALL_BODY_BYTES_MAX, .body_schema = "DecisionRequest", .answer_schema = "Decision",
    .handle = answer_approve_execution,
},
{
    .method = "POST", .path = "/v1/executions/{id}/reject", .operation = "rejectExecution",
    .scope = SCOPE_ENQUEUE, .workspace = WORKSPACE_OF_ID, .fields = IF_MATCH, .command = "reject",
    .summary = "Reject a step that waits for an approval",
    .bodies = BODY_JSON, .body_max = SMALL_BODY_BYTES_MAX, .body_schema = "DecisionRequest", .answer_schema = "Decision",
    .handle = answer_reject_execution,
},
{
    .method = "POST", .path = "/v1/executions/{id}/update", .operation = "updateExecution",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_ID, .fields = IF_MATCH, .command = "update",
    .summary = "Move an execution to another state, or set its variables",
    .bodies = BODY_JSON, .body_max = JSON_LINE_BYTES_MAX, .body_schema = "UpdateRequest", .answer_schema = "Update",
    .handle = answer_update_execution,
},
/* The results of functions that were called by steps `http`. The token in the body is the right. */
{
    .method = "POST", .path = "/v1/callbacks:complete", .operation = "completeCallback",
    .scope = SCOPE_OPEN, .workspace = WORKSPACE_ANY,
    .summary = "Report the result of a function that an http step has called",
    .bodies = BODY_JSON, .body_max = CALLBACK_BODY_BYTES_MAX, .body_schema = "CallbackResult", .answer_schema = "Callback",
    .handle = answer_complete_callback,
},
{
    .method = "POST", .path = "/v1/callbacks:fail", .operation = "failCallback",
    .scope = SCOPE_OPEN, .workspace = WORKSPACE_ANY,
    .summary = "Report the failure of a function that an http step has called",
    .bodies = BODY_JSON, .body_max = SMALL_BODY_BYTES_MAX, .body_schema = "CallbackFailure", .answer_schema = "Callback",
    .handle = answer_fail_callback,
},
/* Acts on many executions. Two commands of the command line are one route: the action is in the body. */
{
    .method = "POST", .path = "/v1/bulk", .operation = "beginBulk", .gives_location = true,
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_BODY, .command = "purge",
    .summary = "Cancel, retry, release, wake, dismiss, purge, signal or migrate all executions that match a filter",
    .bodies = BODY_JSON, .body_max = BULK_BODY_BYTES_MAX, .body_schema = "BulkRequest", .answer_schema = "Bulk",
    .handle = answer_begin_bulk,
},
{
    .method = "GET", .path = "/v1/bulk", .operation = "listBulk",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_BODY,
    .summary = "List the bulk acts that this node has begun, newest first", .answer_schema = "BulkPage",
    .handle = answer_list_bulk,
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
/* The act on a chunk is what the command line needs for its own progress and its own questions; the caller goes on behind
 * `last_id`. */
{
    .method = "POST", .path = "/v1/executions:act", .operation = "actOnExecutions",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_FILTER,
    .is_slow = true,
    .summary = "Do such an act to the next chunk of the executions that match",
    .takes_filter = true, .bodies = BODY_JSON, .body_max = BULK_BODY_BYTES_MAX,
    .arguments = {{"where", "a filter: KEY=VALUE ..., all must match"}},
    .body_schema = "ActRequest", .answer_schema = "ActResult",
    .handle = answer_act_on_executions,
},
/* The history of one execution. Steps come whole; events and logs by pages, because a long life has many of them. */
{
    .method = "GET", .path = "/v1/executions/{id}/logs", .operation = "listLogs",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_ID, .command = "logs",
    .summary = "List the attempts of an execution that have a log", .answer_schema = "LogAttemptPage",
    .handle = answer_list_logs,
},
{
    .method = "GET", .path = "/v1/executions/{id}/logs/{step}/{attempt}", .operation = "readLog",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_ID, .command = "logs",
    .summary = "Read the output of an attempt, in chunks behind a position",
    .arguments = {{"after", "the position of the last chunk that is known; -1 = from the start"}},
    .answer_schema = "LogChunkPage",
    .handle = answer_read_log,
},
/* Bounded by the rows that it reads, and it tells whether they were all. */
{
    .method = "GET", .path = "/v1/failures", .operation = "listFailures",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_FILTER,
    .is_slow = true,
    .command = "failures",
    .summary = "Group failed executions that were neither retried nor dismissed", .takes_filter = true,
    .arguments = {{"where", "a filter: KEY=VALUE ..., all must match"}}, .answer_schema = "FailurePage",
    .handle = answer_list_failures,
},
/* Workspaces and plans.
 * PUT makes what is missing and changes what is there; PATCH refuses an unknown name, with the nearest one as a hint. In
 * both a member that is left out stays as it is, and null takes a limit of its own away. */
{
    .method = "GET", .path = "/v1/workspaces", .operation = "listWorkspaces",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_FILTER, .command = "workspace list",
    .summary = "List workspaces with their limits and use",
    .arguments = {{"workspace", "the one of this name"}, {"prefix", "those whose names begin so"}, ARGUMENTS_PAGE},
    .answer_schema = "WorkspacePage",
    .handle = answer_list_workspaces,
},
{
    .method = "GET", .path = "/v1/workspaces/{workspace}", .operation = "showWorkspace",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_PATH, .command = "workspace show",
    .summary = "Show a workspace with its limits and use", .answer_schema = "Workspace",
    .handle = answer_show_workspace,
},
{
    .method = "GET", .path = "/v1/workspaces/{workspace}/usage", .operation = "showUsage",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_PATH, .command = "workspace show",
    .summary = "Show the use of a workspace and its limits", .answer_schema = "Workspace",
    .handle = answer_show_workspace,
},
{
    .method = "GET", .path = "/v1/workspaces/{workspace}/history", .operation = "showWorkspaceHistory",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_PATH,
    .summary = "Show the slots of a workspace in the last day",
    .arguments = {{"since", "points that end after this time, or so long ago"}}, .answer_schema = "WorkspaceHistory",
    .handle = answer_show_workspace_history,
},
{
    .method = "GET", .path = "/v1/workspaces/{workspace}/slot_timeline", .operation = "showSlotTimeline",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_PATH,
    .summary = "Show when executions of a workspace had a slot, and when they waited",
    .arguments = {{"since", "what lasted to this time, or to so long ago; 1h by default"},
                  {"limit", "executions, 200 by default"}},
    .answer_schema = "SlotTimeline",
    .handle = answer_show_slot_timeline,
},
{
    .method = "PUT", .path = "/v1/workspaces/{workspace}", .operation = "putWorkspace",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_OF_PATH, .command = "workspace set",
    .summary = "Make a workspace, or change it", .bodies = BODY_JSON, .body_max = SMALL_BODY_BYTES_MAX,
    .body_schema = "WorkspaceChange", .answer_schema = "Change",
    .handle = answer_put_workspace,
},
{
    .method = "PATCH", .path = "/v1/workspaces/{workspace}", .operation = "changeWorkspace",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_OF_PATH, .command = "workspace set",
    .summary = "Change a workspace that exists", .bodies = BODY_JSON, .body_max = SMALL_BODY_BYTES_MAX,
    .body_schema = "WorkspaceChange", .answer_schema = "Change",
    .handle = answer_patch_workspace,
},
{
    .method = "DELETE", .path = "/v1/workspaces/{workspace}", .operation = "deleteWorkspace",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_OF_PATH, .command = "workspace delete",
    .is_slow = true,
    .summary = "Delete a workspace",
    .arguments = {{"fail_waiting", "end PENDING and WAITING executions as FAILED"}, {"erase", "erase its history, too"}},
    .answer_schema = "WorkspaceDeletion",
    .handle = answer_delete_workspace,
},
{
    .method = "DELETE", .path = "/v1/workspaces/{workspace}/history", .operation = "eraseWorkspace",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_NONE, .command = "workspace delete",
    .is_slow = true,
    .summary = "Erase what is left of a workspace that was deleted", .answer_schema = "WorkspaceErasure",
    .handle = answer_erase_workspace,
},
{
    .method = "POST", .path = "/v1/workspaces/{workspace}/rename", .operation = "renameWorkspace",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_NONE, .command = "workspace rename",
    .summary = "Give a workspace another name", .bodies = BODY_JSON, .body_max = SMALL_BODY_BYTES_MAX,
    .body_schema = "WorkspaceRename", .answer_schema = "Change",
    .handle = answer_rename_workspace,
},
{
    .method = "POST", .path = "/v1/workspaces/{workspace}/pause", .operation = "pauseWorkspace",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_PATH, .command = "workspace pause",
    .summary = "Start no more executions of a workspace", .answer_schema = "Change",
    .handle = answer_pause_workspace,
},
{
    .method = "POST", .path = "/v1/workspaces/{workspace}/resume", .operation = "resumeWorkspace",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_PATH, .command = "workspace resume",
    .summary = "Start executions of a workspace again", .answer_schema = "Change",
    .handle = answer_resume_workspace,
},
{
    .method = "GET", .path = "/v1/plans", .operation = "listPlans",
    .scope = SCOPE_READ, .workspace = WORKSPACE_NONE, .command = "plan list",
    .summary = "List plans", .arguments = {ARGUMENT_NAME, ARGUMENTS_PAGE}, .answer_schema = "PlanPage",
    .handle = answer_list_plans,
},
{
    .method = "GET", .path = "/v1/plans/{plan}", .operation = "showPlan",
    .scope = SCOPE_READ, .workspace = WORKSPACE_NONE, .command = "plan list",
    .summary = "Show a plan", .answer_schema = "Plan",
    .handle = answer_show_plan,
},
{
    .method = "PUT", .path = "/v1/plans/{plan}", .operation = "putPlan",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_NONE, .command = "plan set",
    .summary = "Make a plan, or change it", .bodies = BODY_JSON, .body_max = SMALL_BODY_BYTES_MAX,
    .body_schema = "PlanChange", .answer_schema = "Change",
    .handle = answer_set_plan,
},
/* Workflows.
 * A name may be owned by a workspace, or be of all of them: an act on one names the owner in the query. A definition is
 * published as it is written, in YAML or JSON, and names its workflow and its owner itself. */
{
    .method = "GET", .path = "/v1/workflows", .operation = "listWorkflows",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_FILTER, .command = "workflow list",
    .summary = "List workflows",
    .arguments = {ARGUMENT_NAME, {"workspace", "those that this workspace may run"}, ARGUMENTS_PAGE},
    .answer_schema = "WorkflowPage",
    .handle = answer_list_workflows,
},
{
    .method = "POST", .path = "/v1/workflows", .operation = "publishWorkflow",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_OF_FILTER, .command = "workflow apply",
    .summary = "Publish a definition", .bodies = BODY_JSON | BODY_YAML, .body_max = DEFINITION_BODY_BYTES_MAX,
    .arguments = {{"name", "refuse a definition of another name"}, {"workspace", "refuse a definition of another owner"},
                  {"dry_run", "true: the answer of a publication that is not made"}},
    .body_schema = "Definition", .answer_schema = "Published",
    .handle = answer_publish_workflow,
},
{
    .method = "GET", .path = "/v1/workflows/{workflow}", .operation = "showWorkflow",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_FILTER, .command = "workflow show",
    .summary = "List the versions of a workflow, with their sources", .arguments = {ARGUMENT_OWNER},
    .answer_schema = "WorkflowPage",
    .handle = answer_show_workflow,
},
{
    .method = "DELETE", .path = "/v1/workflows/{workflow}", .operation = "deleteWorkflow",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_OF_FILTER, .command = "workflow delete",
    .summary = "Delete a workflow", .arguments = {ARGUMENT_OWNER}, .answer_schema = "WorkflowState",
    .handle = answer_delete_workflow,
},
{
    .method = "POST", .path = "/v1/workflows/{workflow}/enable", .operation = "enableWorkflow",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_OF_FILTER, .command = "workflow enable",
    .summary = "Let a workflow take executions again", .arguments = {ARGUMENT_OWNER}, .answer_schema = "WorkflowState",
    .handle = answer_enable_workflow,
},
{
    .method = "POST", .path = "/v1/workflows/{workflow}/disable", .operation = "disableWorkflow",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_OF_FILTER, .command = "workflow disable",
    .summary = "Let a workflow take no new executions", .arguments = {ARGUMENT_OWNER}, .answer_schema = "WorkflowState",
    .handle = answer_disable_workflow,
},
/* By its number, for clients that have an execution and need the text that it runs. */
{
    .method = "GET", .path = "/v1/definitions/{id}", .operation = "showDefinition",
    .scope = SCOPE_READ, .workspace = WORKSPACE_NONE,
    .summary = "Show the canonical text of a version", .answer_schema = "DefinitionText",
    .handle = answer_show_definition,
},
/* The queue and its nodes.
 * These concern all workspaces, so a token of some of them is refused. An order to a node is kept in its row, and it
 * follows with its next heartbeat. */
{
    .method = "GET", .path = "/v1/status", .operation = "showStatus",
    .scope = SCOPE_READ, .workspace = WORKSPACE_NONE, .command = "status",
    .summary = "Show the counters of the queue", .arguments = {{"workspaces", "so many workspaces at most, by pressure"}},
    .answer_schema = "Status",
    .handle = answer_status,
},
{
    .method = "GET", .path = "/v1/history", .operation = "showHistory",
    .scope = SCOPE_READ, .workspace = WORKSPACE_NONE,
    .summary = "Show starts, ends, queue waits and slots of the last day",
    .arguments = {{"since", "points that end after this time, or so long ago"}}, .answer_schema = "History",
    .handle = answer_show_history,
},
{
    .method = "POST", .path = "/v1/pause", .operation = "pauseQueue",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_NONE, .command = "pause",
    .summary = "Start no more executions", .arguments = {ARGUMENT_GROUP}, .answer_schema = "Pause",
    .handle = answer_pause_queue,
},
{
    .method = "POST", .path = "/v1/resume", .operation = "resumeQueue",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_NONE, .command = "resume",
    .summary = "Start executions again", .arguments = {ARGUMENT_GROUP}, .answer_schema = "Pause",
    .handle = answer_resume_queue,
},
{
    .method = "GET", .path = "/v1/groups", .operation = "listGroups",
    .scope = SCOPE_READ, .workspace = WORKSPACE_NONE,
    .summary = "List executor groups", .arguments = {ARGUMENT_NAME, ARGUMENTS_PAGE}, .answer_schema = "GroupPage",
    .handle = answer_list_groups,
},
{
    .method = "GET", .path = "/v1/nodes", .operation = "listNodes",
    .scope = SCOPE_READ, .workspace = WORKSPACE_NONE, .command = "node list",
    .summary = "List nodes", .arguments = {ARGUMENT_NAME, ARGUMENTS_PAGE}, .answer_schema = "NodePage",
    .handle = answer_list_nodes,
},
{
    .method = "POST", .path = "/v1/nodes/{node}/pause", .operation = "pauseNode",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_NONE, .command = "node pause",
    .summary = "Let a node take no more executions", .answer_schema = "NodeOrder",
    .handle = answer_order_node,
},
{
    .method = "POST", .path = "/v1/nodes/{node}/resume", .operation = "resumeNode",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_NONE, .command = "node resume",
    .summary = "Let a node take executions again", .answer_schema = "NodeOrder",
    .handle = answer_order_node,
},
{
    .method = "POST", .path = "/v1/nodes/{node}/drain", .operation = "drainNode",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_NONE, .command = "node drain",
    .summary = "Let a node end its executions and stop", .answer_schema = "NodeOrder",
    .handle = answer_order_node,
},
{
    .method = "POST", .path = "/v1/demo/kill", .operation = "killDemoNode",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_NONE,
    .summary = "Kill a node of `weir demo`; every other process answers 404", .answer_schema = "KilledNode",
    .handle = answer_kill_demo_node,
},
/* Locks, for programs that share a schedule with weir. The holder is unique for each acquisition. */
{
    .method = "GET", .path = "/v1/locks", .operation = "listLocks",
    .scope = SCOPE_READ, .workspace = WORKSPACE_NONE, .command = "lock list",
    .summary = "List locks", .arguments = {ARGUMENT_NAME, ARGUMENTS_PAGE}, .answer_schema = "LockPage",
    .handle = answer_list_locks,
},
{
    .method = "POST", .path = "/v1/locks/{lock}", .operation = "takeLock",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_NONE,
    .summary = "Take a lock", .bodies = BODY_JSON, .body_max = SMALL_BODY_BYTES_MAX,
    .body_schema = "LockRequest", .answer_schema = "Lock",
    .handle = answer_take_lock,
},
{
    .method = "PATCH", .path = "/v1/locks/{lock}", .operation = "extendLock",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_NONE,
    .summary = "Hold a lock longer", .bodies = BODY_JSON, .body_max = SMALL_BODY_BYTES_MAX,
    .body_schema = "LockRequest", .answer_schema = "Lock",
    .handle = answer_extend_lock,
},
{
    .method = "DELETE", .path = "/v1/locks/{lock}", .operation = "releaseLock",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_NONE, .command = "lock release",
    .summary = "Release a lock",
    .arguments = {{"holder", "of whom; without, of anybody"}, {"at_least_us", "keep it so long since it was taken"},
                  {"force", "an operator takes it away from its holder, which goes on record"}},
    .answer_schema = "Lock",
    .handle = answer_release_lock,
},
/* Hooks. They see the executions of all workspaces. */
{
    .method = "GET", .path = "/v1/hooks", .operation = "listHooks",
    .scope = SCOPE_READ, .workspace = WORKSPACE_NONE, .command = "hook list",
    .summary = "List hooks with their waiting events", .arguments = {ARGUMENT_NAME, ARGUMENTS_PAGE},
    .answer_schema = "HookPage",
    .handle = answer_list_hooks,
},
{
    .method = "PUT", .path = "/v1/hooks/{hook}", .operation = "putHook",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_NONE, .command = "hook set",
    .summary = "Make a hook, or replace it", .bodies = BODY_JSON, .body_max = SMALL_BODY_BYTES_MAX,
    .body_schema = "HookRequest", .answer_schema = "SetHook",
    .handle = answer_set_hook,
},
{
    .method = "POST", .path = "/v1/hooks/{hook}/pause", .operation = "pauseHook",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_NONE, .command = "hook pause",
    .summary = "Let the events of a hook wait", .answer_schema = "HookPause",
    .handle = answer_pause_hook,
},
{
    .method = "POST", .path = "/v1/hooks/{hook}/resume", .operation = "resumeHook",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_NONE, .command = "hook resume",
    .summary = "Let a paused hook start executions again", .answer_schema = "HookPause",
    .handle = answer_resume_hook,
},
{
    .method = "DELETE", .path = "/v1/hooks/{hook}", .operation = "deleteHook",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_NONE, .command = "hook delete",
    .summary = "Delete a hook and its waiting events", .answer_schema = "DeletedHook",
    .handle = answer_delete_hook,
},
/* Schedules. They start executions in any workspace, so only a token of all workspaces makes and deletes one. */
{
    .method = "GET", .path = "/v1/schedules", .operation = "listSchedules",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_SCHEDULE, .command = "schedule list",
    .summary = "List schedules with their next and last times", .arguments = {ARGUMENT_NAME, ARGUMENTS_PAGE},
    .answer_schema = "SchedulePage",
    .handle = answer_list_schedules,
},
{
    .method = "GET", .path = "/v1/schedules/{schedule}", .operation = "showSchedule",
    .scope = SCOPE_READ, .workspace = WORKSPACE_OF_SCHEDULE, .command = "schedule show",
    .summary = "Show a schedule with its next five times", .answer_schema = "ShownSchedule",
    .handle = answer_show_schedule,
},
{
    .method = "PUT", .path = "/v1/schedules/{schedule}", .operation = "putSchedule",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_NONE, .command = "schedule set",
    .summary = "Make a schedule, or replace it", .bodies = BODY_JSON, .body_max = 2 * SCHEDULE_PARAMS_BYTES_MAX,
    .body_schema = "ScheduleRequest", .answer_schema = "SetSchedule",
    .handle = answer_set_schedule,
},
{
    .method = "POST", .path = "/v1/schedules/{schedule}/trigger", .operation = "triggerSchedule",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_SCHEDULE, .command = "schedule trigger",
    .summary = "Let a schedule fire now, or once more for a time", .bodies = BODY_JSON, .body_max = SMALL_BODY_BYTES_MAX,
    .body_schema = "TriggerRequest", .answer_schema = "TriggeredSchedule",
    .handle = answer_trigger_schedule,
},
{
    .method = "POST", .path = "/v1/schedules/{schedule}/pause", .operation = "pauseSchedule",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_SCHEDULE, .command = "schedule pause",
    .summary = "Stop a schedule from firing", .answer_schema = "SchedulePause",
    .handle = answer_pause_schedule,
},
{
    .method = "POST", .path = "/v1/schedules/{schedule}/resume", .operation = "resumeSchedule",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_OF_SCHEDULE, .command = "schedule resume",
    .summary = "Let a paused schedule fire again, from its next time on", .answer_schema = "SchedulePause",
    .handle = answer_resume_schedule,
},
{
    .method = "DELETE", .path = "/v1/schedules/{schedule}", .operation = "deleteSchedule",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_NONE, .command = "schedule delete",
    .summary = "Delete a schedule", .answer_schema = "DeletedSchedule",
    .handle = answer_delete_schedule,
},
/* Tokens. Their secrets are made by the command line alone. */
{
    .method = "GET", .path = "/v1/tokens", .operation = "listTokens",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_NONE, .command = "token list",
    .summary = "List tokens, never a secret", .arguments = {ARGUMENT_NAME, ARGUMENTS_PAGE},
    .answer_schema = "TokenPage", .handle = answer_list_tokens,
},
{
    .method = "DELETE", .path = "/v1/tokens/{token}", .operation = "revokeToken",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_NONE, .command = "token revoke",
    .summary = "Revoke a token", .answer_schema = "RevokedToken", .handle = answer_revoke_token,
},
/* The record of acts names people and reasons, so reading it needs more than reading the queue. */
{
    .method = "GET", .path = "/v1/audit", .operation = "listAudit",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_NONE, .command = "audit",
    .summary = "List the acts on record, newest first",
    .arguments = {{"subject", "of this thing"}, {"actor", "a part of the actor"}, {"act", "\"plan set\", or \"plan\""},
                  {"since", "not older than this time or duration"}, ARGUMENTS_PAGE},
    .answer_schema = "ActPage",
    .handle = answer_list_audit,
},
{
    .method = "POST", .path = "/v1/audit", .operation = "noteAct",
    .scope = SCOPE_OPERATE, .workspace = WORKSPACE_NONE,
    .summary = "Record an act that changes nothing in the store", .bodies = BODY_JSON, .body_max = SMALL_BODY_BYTES_MAX,
    .body_schema = "NoteRequest", .answer_schema = "NotedAct",
    .handle = answer_note_act,
},
/* The store itself: the first call of a client asks whether it can be used, and for its time. A check reads all rows. */
{
    .method = "GET", .path = "/v1/store", .operation = "showStore",
    .scope = SCOPE_READ, .workspace = WORKSPACE_ANY,
    .summary = "Show the version of the server and the time of the store", .answer_schema = "Store",
    .handle = answer_show_store,
},
{
    .method = "GET", .path = "/v1/store/check", .operation = "checkStore",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_NONE, .command = "store check",
    .is_slow = true,
    .summary = "Check the store; reads all of it", .answer_schema = "StoreCheck",
    .handle = answer_check_store,
},
{
    .method = "GET", .path = "/v1/store/migrations", .operation = "listMigrations",
    .scope = SCOPE_ADMIN, .workspace = WORKSPACE_NONE, .command = "store plan",
    .summary = "List the migrations, and which of them are applied", .answer_schema = "MigrationPage",
    .handle = answer_list_migrations,
},
/* Tasks of workers */
#define TASK_ROUTE(word, text, schema, most, answer)                                                                       \
    .method = "POST", .path = "/v1/tasks:" word, .operation = word "Tasks", .scope = SCOPE_OPERATE,                        \
    .workspace = WORKSPACE_NONE, .summary = text, .bodies = BODY_JSON, .body_max = most,                                   \
    .body_schema = "Task" schema "Request", .answer_schema = answer
{TASK_ROUTE("claim", "Claim tasks of handlers for a worker", "Claim", TASK_NAMES_BYTES_MAX, "TaskClaim"),
 .handle = answer_claim_tasks},
{TASK_ROUTE("heartbeat", "Renew the leases of tasks", "Heartbeat", TASK_LOGS_BYTES_MAX, "TaskVerdicts"),
 .handle = answer_heartbeat_tasks},
{TASK_ROUTE("complete", "Complete tasks with their outputs", "Complete", HTTP_BODY_BYTES_MAX, "TaskVerdicts"),
 .handle = answer_complete_tasks},
{TASK_ROUTE("fail", "Fail tasks, to be retried or for good", "Fail", HTTP_BODY_BYTES_MAX, "TaskVerdicts"),
 .handle = answer_fail_tasks},
{TASK_ROUTE("leave", "End a worker, whose tasks other workers get at once", "Leave", TASK_NAMES_BYTES_MAX, "TaskLeave"),
 .handle = answer_leave_tasks},
};
/* clang-format on */

const struct http_route *route_table(size_t *ret_count)
{
    *ret_count = sizeof routes / sizeof routes[0];
    return routes;
}
