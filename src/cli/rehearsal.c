#include "cli/rehearsal.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/fields.h"
#include "cli/filter.h"

struct answer {
    char workspace[WORKSPACE_NAME_MAX + 1]; /* "": nothing is remembered here */
    char workflow[WORKFLOW_NAME_MAX + 1];
    struct weir_error error; /* its status says whether there is one */
};

struct rehearsal {
    struct answer answers[REHEARSAL_ANSWERS_MAX];
};

struct rehearsal *rehearsal_open(void)
{
    return calloc(1, sizeof(struct rehearsal));
}

void rehearsal_close(struct rehearsal *rehearsal)
{
    free(rehearsal);
}

/* FNV-1a over both names and what separates them. */
static struct answer *place_of(struct rehearsal *rehearsal, const struct enqueue_request *request)
{
    const char *const names[] = {request->workspace, request->workflow};
    uint64_t hash = 14695981039346656037U;
    for (size_t i = 0; i < 2; i++) {
        const char *name = names[i];
        do {
            hash = (hash ^ (unsigned char)*name) * 1099511628211U;
        } while (*name++ != '\0');
    }
    return &rehearsal->answers[hash % REHEARSAL_ANSWERS_MAX];
}

/* That the workspace may run it: some version is its own or everybody's. */
static enum weir_status require_owner(struct store *store, const struct enqueue_request *request, struct weir_error *error)
{
    struct list_options options = {.kind = LIST_WORKFLOWS, .name = request->workflow, .limit = LIST_LIMIT_MOST};
    enum weir_status status = WEIR_OK;
    json_t *page = NULL;
    bool is_its_own = false;
    do {
        json_t *next = NULL;
        const json_t *row;
        size_t i;
        status = store_list(store, &options, &next, error);
        json_decref(page);
        page = next;
        json_array_foreach(json_object_get(page, "items"), i, row)
        {
            const char *owner = json_string_value(json_object_get(row, "workspace"));
            is_its_own = is_its_own || owner == NULL || strcmp(owner, request->workspace) == 0;
        }
        options.cursor = json_string_value(json_object_get(page, "next_cursor"));
    } while (status == WEIR_OK && !is_its_own && options.cursor != NULL);
    json_decref(page);
    if (status == WEIR_OK && !is_its_own) {
        return error_set(error, WEIR_WORKFLOW_NOT_YOURS, "workflow \"%s\" belongs to another workspace than \"%s\"",
                         request->workflow, request->workspace);
    }
    return status;
}

static enum weir_status ask(struct store *store, const struct enqueue_request *request, struct weir_error *error)
{
    enum weir_status status =
        filter_require_name(store, LIST_WORKSPACES, request->workspace, WEIR_WORKSPACE_NOT_FOUND, error);
    if (status == WEIR_OK) {
        status = filter_require_name(store, LIST_WORKFLOWS, request->workflow, WEIR_WORKFLOW_NOT_FOUND, error);
    }
    return status == WEIR_OK ? require_owner(store, request, error) : status;
}

/* About the names, not about the store that was asked. */
static bool is_an_answer(enum weir_status status)
{
    return status == WEIR_OK || status == WEIR_WORKSPACE_NOT_FOUND || status == WEIR_WORKFLOW_NOT_FOUND ||
           status == WEIR_WORKFLOW_NOT_YOURS;
}

enum weir_status rehearsal_enqueue(struct rehearsal *rehearsal, struct store *store, const struct enqueue_request *request,
                                   struct weir_error *error)
{
    enum weir_status status = enqueue_request_check(request, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct answer *answer = place_of(rehearsal, request);
    if (strcmp(answer->workspace, request->workspace) != 0 || strcmp(answer->workflow, request->workflow) != 0) {
        struct weir_error said = {.status = WEIR_OK};
        status = ask(store, request, &said);
        if (!is_an_answer(status)) {
            *error = said;
            return status;
        }
        text_copy(answer->workspace, sizeof answer->workspace, request->workspace);
        text_copy(answer->workflow, sizeof answer->workflow, request->workflow);
        answer->error = said;
        answer->error.status = status;
    }
    if (answer->error.status != WEIR_OK) {
        *error = answer->error;
    }
    return answer->error.status;
}
