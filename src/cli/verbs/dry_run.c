/* Checks whether the store would accept a request, without writing.
 *
 * It applies the checks of store_enqueue(): the request itself, then workspace, workflow, owner and executor group.
 * Answers are remembered by names in a small table of fixed size, because a stream of a million lines usually has few
 * different names. A failure of the store is never remembered. Idempotency keys are not checked. One thread, for one
 * command.
 */
#include "cli/verbs/dry_run.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/verbs/store_pages.h"

struct answer {
    char workspace[WORKSPACE_NAME_MAX + 1]; /* "": nothing is remembered here */
    char workflow[WORKFLOW_NAME_MAX + 1];
    char group[GROUP_NAME_MAX + 1]; /* "": the request names none */
    struct weir_error error;        /* its status is WEIR_OK when there is none */
};

struct dry_run {
    struct answer answers[DRY_RUN_ANSWERS_MAX];
};

struct dry_run *dry_run_open(void)
{
    return calloc(1, sizeof(struct dry_run));
}

void dry_run_close(struct dry_run *dry_run)
{
    free(dry_run);
}

static const char *group_of_request(const struct enqueue_request *request)
{
    return request->group != NULL ? request->group : "";
}

/* The place where the answer for these names is remembered. */
static struct answer *answer_place(struct dry_run *dry_run, const struct enqueue_request *request)
{
    uint64_t hash =
        text_hash(request->workspace) + 31 * text_hash(request->workflow) + 7 * text_hash(group_of_request(request));
    return &dry_run->answers[hash % DRY_RUN_ANSWERS_MAX];
}

/* Refuses a group that the store does not have, with the nearest name. */
static enum weir_status require_group(struct store *store, const char *group, struct weir_error *error)
{
    struct list_options options = {.kind = LIST_GROUPS, .name = group, .limit = 1};
    const char *names[LIST_LIMIT_MOST];
    json_t *page = NULL;
    enum weir_status status = store_list(store, &options, &page, error);
    if (status != WEIR_OK || json_array_size(json_object_get(page, "items")) > 0) {
        json_decref(page);
        return status;
    }
    json_decref(page);
    options = (struct list_options){.kind = LIST_GROUPS, .limit = LIST_LIMIT_MOST};
    status = store_list(store, &options, &page, error);
    if (status == WEIR_OK) {
        size_t count = 0;
        size_t i;
        json_t *item;
        json_array_foreach(json_object_get(page, "items"), i, item)
        {
            names[count] = json_string_value(json_object_get(item, "name"));
            count += names[count] != NULL;
        }
        status = group_refuse(group, names, count, error);
        json_decref(page);
    }
    return status;
}

/* Checks workspace, workflow, owner and group, and stops at the first error. */
static enum weir_status check_names_of_request(struct store *store, const struct enqueue_request *request,
                                               struct weir_error *error)
{
    enum weir_status status =
        store_require_name(store, LIST_WORKSPACES, request->workspace, WEIR_WORKSPACE_NOT_FOUND, error);
    if (status == WEIR_OK) {
        status = page_require_workflow(store, request->workspace, request->workflow, error);
    }
    return status == WEIR_OK && request->group != NULL ? require_group(store, request->group, error) : status;
}

/* Whether the status is an answer about the names, and not a failure of the store. */
static bool is_an_answer(enum weir_status status)
{
    return status == WEIR_OK || status == WEIR_WORKSPACE_NOT_FOUND || status == WEIR_WORKFLOW_NOT_FOUND ||
           status == WEIR_WORKFLOW_NOT_YOURS || status == WEIR_NOT_FOUND;
}

enum weir_status dry_run_enqueue(struct dry_run *dry_run, struct store *store, const struct enqueue_request *request,
                                 struct weir_error *error)
{
    enum weir_status status = enqueue_request_check(request, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct answer *answer = answer_place(dry_run, request);
    if (strcmp(answer->workspace, request->workspace) != 0 || strcmp(answer->workflow, request->workflow) != 0 ||
        strcmp(answer->group, group_of_request(request)) != 0) {
        struct weir_error refusal = {.status = WEIR_OK};
        status = check_names_of_request(store, request, &refusal);
        if (!is_an_answer(status)) {
            *error = refusal;
            return status;
        }
        text_copy(answer->workspace, sizeof answer->workspace, request->workspace);
        text_copy(answer->workflow, sizeof answer->workflow, request->workflow);
        text_copy(answer->group, sizeof answer->group, group_of_request(request));
        answer->error = refusal;
        answer->error.status = status;
    }
    if (answer->error.status != WEIR_OK) {
        *error = answer->error;
    }
    return answer->error.status;
}

/* The codes from 5 on are those of the store and of its rights, but for this one, which is about the name. */
bool dry_run_is_refusal(enum weir_status status)
{
    return status == WEIR_WORKFLOW_NOT_YOURS || weir_status_exit(status) < 5;
}
