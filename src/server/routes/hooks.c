/* Hooks. They see the executions of all workspaces and start some in any, so they are for tokens of all workspaces alone.
 */
#include <string.h>

#include "base/error.h"
#include "server/routes/body.h"
#include "server/routes/routes.h"

/* The texts of "on"; they live as long as the value. */
static enum weir_status read_hook_ends(const json_t *on, struct hook_request *hook, struct weir_error *error)
{
    size_t i;
    const json_t *end;
    bool is_fine = json_is_array(on) && json_array_size(on) <= HOOK_ENDS_MOST;
    json_array_foreach(on, i, end)
    {
        is_fine = is_fine && hook_end_parse(json_string_value(end), &hook->on[hook->on_count++]);
    }
    if (!is_fine) {
        error_set(error, WEIR_INVALID_ARGUMENT, "\"on\" is no list of ends");
        error_hint(error, "[\"COMPLETED\", \"FAILED\", \"CANCELLED\"], or some of them");
        return WEIR_INVALID_ARGUMENT;
    }
    return WEIR_OK;
}

/* Replaces the hook, so a member that is left out stands for all. */
void answer_set_hook(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    struct hook_request hook = {.name = request_value(request, "hook")};
    const json_t *on = NULL;
    const struct body_member members[] = {
        {.name = "on", .kind = BODY_VALUE, .to = &on, .is_required = true},
        {.name = "workspace", .kind = BODY_TEXT, .to = &hook.workspace},
        {.name = "workflow", .kind = BODY_TEXT, .to = &hook.workflow},
        {.name = "start_workspace", .kind = BODY_TEXT, .to = &hook.start_workspace, .is_required = true},
        {.name = "start_workflow", .kind = BODY_TEXT, .to = &hook.start_workflow, .is_required = true}};
    const char *pointer = NULL;
    json_t *body = NULL;
    bool is_new = false;
    if (body_read(request, members, sizeof members / sizeof members[0], &body, &pointer, &error) != WEIR_OK) {
        respond_error(request, answer, &error, pointer);
    } else if (read_hook_ends(on, &hook, &error) != WEIR_OK) {
        respond_error(request, answer, &error, "/on");
    } else {
        enum weir_status status = store_hook_set(store, &hook, &is_new, &error);
        respond_outcome(request, answer, status, &error, json_pack("{s:s, s:b}", "name", hook.name, "is_new", is_new));
    }
    json_decref(body);
}

static void respond_hook_pause(struct store *store, struct http_request *request, struct http_answer *answer, bool paused)
{
    struct weir_error error = {.status = WEIR_OK};
    const char *name = request_value(request, "hook");
    enum weir_status status = store_hook_pause(store, name, paused, &error);
    respond_outcome(request, answer, status, &error, json_pack("{s:s, s:b}", "name", name, "paused", paused));
}

void answer_pause_hook(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    respond_hook_pause(store, request, answer, true);
}

void answer_resume_hook(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    respond_hook_pause(store, request, answer, false);
}

void answer_delete_hook(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    const char *name = request_value(request, "hook");
    respond_outcome(request, answer, store_hook_delete(store, name, &error), &error, json_pack("{s:s}", "name", name));
}
