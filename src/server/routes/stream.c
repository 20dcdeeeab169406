/* GET /v1/stream: the changes of executions as server-sent events.
 *
 * The handler adds the stream to the hub and leaves; the events are written as they come (stream_hub.h). The wall between
 * workspaces is that of the route: a token of some workspaces must name one of them, and the filter lets no other through.
 * The filter has the id that the token names, so it is closed to a later workspace of the same name.
 */

#include "base/error.h"
#include "server/access.h"
#include "server/routes/routes.h"
#include "server/stream_hub.h"

/* The id must be whole: an execution that is not there yet can be followed. In lower case, as ids are stored. */
static const char *read_id(struct http_request *request, const char *id, struct weir_error *error)
{
    if (!uuid_is_valid(id)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the argument id is not the id of an execution");
        error_hint(error, "give the whole id; without the argument all executions are followed");
        return NULL;
    }
    char *small = arena_allocate(&request->arena, UUID_TEXT_MAX);
    if (small == NULL) {
        error_out_of_memory(error);
        return NULL;
    }
    uuid_write_small(id, small);
    return small;
}

/* *ret_argument: at fault, after an error. */
static enum weir_status read_filter(struct http_request *request, struct stream_filter *filter, const char **ret_argument,
                                    struct weir_error *error)
{
    const char *status = request_argument(request, "status");
    const char *id = request_argument(request, "id");
    filter->workspace = request_argument(request, "workspace");
    filter->workspace_id = access_workspace_id(request->principal, filter->workspace);
    *ret_argument = "status";
    if (status != NULL && !item_state_parse(status, &filter->status)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "there is no status \"%s\"", status);
        error_hint(error, "PENDING, CLAIMED, DISPATCHED, WAITING, COMPLETED, FAILED or CANCELLED");
        return WEIR_INVALID_ARGUMENT;
    }
    filter->has_status = status != NULL;
    *ret_argument = "id";
    if (id != NULL) {
        filter->id = read_id(request, id, error);
        return filter->id == NULL ? error->status : WEIR_OK;
    }
    return WEIR_OK;
}

/* A stream of a misspelt workspace would have no change for ever. When the store does not answer, the stream begins all the
 * same, and goes on when the store is back. */
static enum weir_status find_stream_workspace(struct store *store, const struct stream_filter *filter,
                                              const char **ret_argument, struct weir_error *error)
{
    json_t *usage = NULL;
    *ret_argument = "workspace";
    enum weir_status status = filter->workspace == NULL ? WEIR_OK : store_usage(store, filter->workspace, &usage, error);
    json_decref(usage);
    if (status != WEIR_WORKSPACE_NOT_FOUND) {
        return WEIR_OK;
    }
    error_hint(error, "GET /v1/workspaces lists them");
    return status;
}

static void refuse_stream(const struct http_request *request, struct http_answer *answer, enum stream_answer refusal)
{
    bool is_tokens = refusal == STREAM_TOKEN_FULL;
    respond_problem(
        request, answer, is_tokens ? 429 : 503,
        is_tokens                     ? "rate_limited"
        : refusal == STREAM_NO_MEMORY ? "out_of_memory"
                                      : "overloaded",
        is_tokens                     ? "too many streams of this token are open"
        : refusal == STREAM_NO_MEMORY ? "there is no memory for the stream"
        : refusal == STREAM_ENDED     ? "the server ends"
                                      : "too many streams are open",
        is_tokens ? "close some of them; one stream can carry all workspaces of a token of all" : "connect again", NULL);
}

void answer_stream_changes(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    struct stream_filter filter = {.workspace = NULL};
    struct weir_error error = {.status = WEIR_OK};
    const char *argument = NULL;
    if (read_filter(request, &filter, &argument, &error) != WEIR_OK ||
        find_stream_workspace(store, &filter, &argument, &error) != WEIR_OK) {
        respond_error(request, answer, &error, argument);
        return;
    }
    answer->status = 200;
    answer->type = "text/event-stream";
    if (request->is_head) {
        return;
    }
    enum stream_answer added = stream_hub_add(api->streams, request, &filter, &answer->stream);
    if (added != STREAM_ADDED) {
        refuse_stream(request, answer, added);
    }
}
