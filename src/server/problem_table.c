/* A status of weir/status.h that a route can answer has its name as the code. Those of the protocol stand beside them. A
 * meaning is a sentence about the request, a remedy one about what to do next; both without details of one case, which the
 * problem itself has. */
#include "server/problem_table.h"

#include <string.h>

#include "base/error.h"

/* clang-format off */
static const struct problem_kind problems[] = {
{"invalid_request", 400, "The bytes are no request of HTTP/1.1 that has one meaning.",
 "Send one Host, one Content-Length, no Transfer-Encoding, and a target that is a path."},
{"invalid_argument", 400, "A part of the request is not of its form.",
 "Look at errors and hint; /openapi.json has the forms."},
{"invalid_config", 400, "A setting cannot be used.", "Look at hint."},
{"unauthorized", 401, "The request has no token, or one that is unknown, expired or revoked.",
 "Send Authorization: Bearer TOKEN; `weir token create` makes one."},
{"not_permitted", 403, "The token does not allow this.", "Use a token with the role that the detail names."},
{"workflow_of_another_workspace", 403, "The workflow belongs to another workspace.",
 "Publish it for this workspace, or for all."},
{"cross_origin", 403, "A page of another origin asked for a change.",
 "Call from a page of the server's own origin, or not from a browser."},
{"not_found", 404, "There is nothing of this name, or at this path.", "Look at hint; /docs lists the paths."},
{"workspace_not_found", 404, "There is no such workspace, or the token does not reach it.",
 "Look at hint; PUT /v1/workspaces/{workspace} makes one."},
{"workflow_not_found", 404, "The workspace has no such workflow.", "Look at hint; POST /v1/workflows publishes one."},
{"execution_not_found", 404, "There is no such execution, or the token does not reach it.",
 "Ended executions are removed when their retention is over."},
{"plan_not_found", 404, "There is no such plan.", "Look at hint; PUT /v1/plans/{plan} makes one."},
{"task_unknown", 404, "This node does not have the task.", "Report it to the other nodes until its lease is over."},
{"method_not_allowed", 405, "The path has no such method.", "The field Allow has those that it has."},
{"conflict", 409, "Another state of things forbids this: another holder, another number of matches, another run.",
 "Read the present state, and decide again."},
{"illegal_state", 409, "The execution or thing is in a state in which this is not possible.",
 "allowed_actions has what is possible now."},
{"stale_fence", 409, "Another node or worker has the execution now.", "Drop the work; the report of the other one counts."},
{"task_lost", 409, "The worker does not have this task any more: its lease was over, or another report has ended it.",
 "Drop it: its step is continued elsewhere."},
{"workflow_disabled", 409, "The workflow takes no new executions.",
 "POST /v1/workflows/{workflow}/enable lets it take them again."},
{"length_required", 411, "The body has no Content-Length.", "Send the length; chunks are not read."},
{"precondition_failed", 412, "The execution has changed since the ETag of If-Match was read.",
 "Read it again, and decide again."},
{"body_too_large", 413, "The body is larger than the path takes, or than the token allows.",
 "Send less; several requests are as good."},
{"params_too_large", 413, "The params are larger than an execution may have.",
 "Keep the data elsewhere and pass a reference."},
{"unsupported_media_type", 415, "The body is of another type than the path takes, or compressed.",
 "Set Content-Type as the detail names it, and no Content-Encoding."},
{"wrong_host", 421, "The Host is no name of this machine for itself.",
 "Use localhost, 127.0.0.1 or [::1]; other names need tokens."},
{"params_invalid", 422, "The params do not fit the workflow.", "Look at detail; `weir workflow show` prints their schema."},
{"definition_invalid", 422, "The workflow's definition has a mistake.", "Look at detail, which has line and column."},
{"idempotency_key_reused", 422, "The key was used for another request.", "Use another key for another request."},
{"queue_full", 429, "The workspace has as many waiting executions as its plan allows, or the node has too many workers.",
 "Wait, then repeat."},
{"rate_limited", 429, "The token, or the address, has sent too many requests.", "Wait for Retry-After seconds."},
{"head_too_large", 431,
 "The first line or the fields of the request are too long: together they have at most 16 KiB.",
 "Send fewer fields, and a longer filter in the body of POST /v1/bulk."},
{"failed", 500, "The call failed.", "Look at detail."},
{"system_error", 500, "The system of the server refused a call.", "Look at detail, and at the log of the node."},
{"misuse", 500, "The server called itself wrongly, which is a defect.", "Report it with the request_id."},
{"overloaded", 503, "More requests wait than the server takes.", "Wait for Retry-After seconds."},
{"out_of_memory", 503, "The server has no memory for the request.", "Wait for Retry-After seconds."},
{"store_unreachable", 503, "The store does not answer.", "Wait: the node looks for it by itself. /readyz has the reason."},
{"store_busy", 503, "The store is held by other transactions.", "Repeat the request."},
{"store_full", 503, "The disk of the store is full.", "Free space; nothing that was acknowledged is lost."},
{"store_corrupt", 503, "The store is damaged.", "`weir store check` names what is wrong."},
{"store_not_weir", 503, "The database is no store of weir.", "Look at the setting `store`."},
{"schema_missing", 503, "The store has no tables yet.", "`weir store init` makes them."},
{"schema_older", 503, "The store is of an older version.", "`weir store migrate` brings it up to date."},
{"schema_newer", 503, "The store is of a newer version than this node.", "Upgrade the node."},
{"engine_unreachable", 503, "The engine of the executions does not answer.", "Wait: the node looks for it by itself."},
{"commit_unknown", 503, "The connection to the store was lost before the answer to a change.",
 "Repeat the request with the same key: it is done once."},
{"stopped", 503, "The node is stopping.", "Ask another node, or this one when it is back."},
{"interrupted", 503, "The call was interrupted.", "Repeat the request."},
{"timed_out", 504, "The answer did not come in time.", "Repeat the request; with a key it is done once."},
{NULL, 0, NULL, NULL},
};
/* clang-format on */

const struct problem_kind *problem_table(void)
{
    return problems;
}

const struct problem_kind *problem_find(const char *code)
{
    INVARIANT(code != NULL);
    for (const struct problem_kind *kind = problems; kind->code != NULL; kind++) {
        if (strcmp(kind->code, code) == 0) {
            return kind;
        }
    }
    return NULL;
}
