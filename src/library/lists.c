/* Lists of the public interface, and what they have of one workspace or one execution.
 *
 * Each call reads one page through a borrowed store handle and hands it out as JSON text. The public filter has the fields
 * of the store's filter, one by one, so that the store's may change. Nothing here writes. */
#include <string.h>

#include "base/error.h"
#include "library/library.h"
#include "queue/name.h"
#include "store/failure_groups.h"

_Static_assert((int)WEIR_FILTER_LABELS_MAX == (int)LABEL_CONDITIONS_MAX, "labels of the public filter");
_Static_assert(WEIR_STATE_PENDING == 1 << ITEM_PENDING && WEIR_STATE_CLAIMED == 1 << ITEM_CLAIMED &&
                   WEIR_STATE_DISPATCHED == 1 << ITEM_DISPATCHED && WEIR_STATE_WAITING == 1 << ITEM_WAITING &&
                   WEIR_STATE_COMPLETED == 1 << ITEM_COMPLETED && WEIR_STATE_FAILED == 1 << ITEM_FAILED &&
                   WEIR_STATE_CANCELLED == 1 << ITEM_CANCELLED,
               "bits of the public filter are those of the store's");

/* The store relies on what its own parser of filters has checked, so the same is checked here: the lengths of keys and
 * values, and the names of labels. */
enum weir_status filter_of(const struct weir_filter *filter, struct execution_filter *ret_filter, struct weir_error *error)
{
    if ((filter->states & ~(unsigned)WEIR_STATE_ALL) != 0) {
        (void)error_set(error, WEIR_INVALID_ARGUMENT, "%u has a bit that is no state", filter->states);
        error_hint(error, "use WEIR_STATE_PENDING to WEIR_STATE_CANCELLED, joined with |");
        return WEIR_INVALID_ARGUMENT;
    }
    if (filter->label_count > LABEL_CONDITIONS_MAX ||
        (filter->business_key != NULL && filter->business_key_prefix != NULL)) {
        return error_set(error, WEIR_INVALID_ARGUMENT,
                         "a filter has one business key or one beginning, and at most %d labels", LABEL_CONDITIONS_MAX);
    }
    bool is_prefix = filter->business_key_prefix != NULL;
    struct execution_filter filled = {
        .id = filter->id,
        .workspace = filter->workspace,
        .workflow = filter->workflow,
        .group = filter->group,
        .states = filter->states,
        .reason = filter->reason,
        .waiting_for = filter->waiting_for,
        .error_code = filter->error_code,
        .idempotency_key = filter->idempotency_key,
        .created_since_us = filter->created_since_us,
        .created_before_us = filter->created_before_us,
        .finished_before_us = filter->finished_before_us,
        .business_key = is_prefix ? filter->business_key_prefix : filter->business_key,
        .business_key_is_prefix = is_prefix,
        .label_count = filter->label_count,
    };
    if (filled.business_key != NULL && (filled.business_key[0] == '\0' || strlen(filled.business_key) > BUSINESS_KEY_MAX)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a business key has 1 to %d bytes", BUSINESS_KEY_MAX);
    }
    /* The texts stay the caller's: the filter lives as long as one call. */
    for (size_t i = 0; i < filter->label_count; i++) {
        const struct weir_label *label = &filter->labels[i];
        if (label->name == NULL || !label_name_is_valid(label->name) || label->value == NULL || label->value[0] == '\0' ||
            strlen(label->value) > LABEL_VALUE_MAX) {
            return error_set(error, WEIR_INVALID_ARGUMENT, "label %zu of the filter has no valid name, or no valid value",
                             i + 1);
        }
        filled.labels[i] = (struct label_condition){.name = label->name, .value = label->value};
    }
    *ret_filter = filled;
    return WEIR_OK;
}

/* Reads one page through a borrowed handle. */
static enum weir_status read_list_page(struct weir *weir, const struct list_options *options, json_t **ret_page,
                                       struct weir_error *error)
{
    struct store *handle = NULL;
    enum weir_status status = handle_borrow(weir, &handle, error);
    if (status == WEIR_OK) {
        status = store_list(handle, options, ret_page, error);
        handle_give_back(weir, handle);
    }
    return status;
}

enum weir_status weir_list(struct weir *weir, const struct weir_list_options *options, char **ret_json,
                           struct weir_error *error)
{
    static const enum store_list_kind kinds[] = {
        [WEIR_LIST_EXECUTIONS] = LIST_EXECUTIONS, [WEIR_LIST_EVENTS] = LIST_EVENTS, [WEIR_LIST_STEPS] = LIST_STEPS,
        [WEIR_LIST_WORKSPACES] = LIST_WORKSPACES, [WEIR_LIST_PLANS] = LIST_PLANS,   [WEIR_LIST_WORKFLOWS] = LIST_WORKFLOWS,
        [WEIR_LIST_ACTIONS] = LIST_ACTIONS,       [WEIR_LIST_NODES] = LIST_NODES,   [WEIR_LIST_LOCKS] = LIST_LOCKS,
        [WEIR_LIST_GROUPS] = LIST_GROUPS,
    };
    json_t *page = NULL;
    if (options == NULL || ret_json == NULL) {
        return error_set(error, WEIR_MISUSE, "weir_list needs options and a place for the page");
    }
    if ((unsigned)options->kind >= sizeof kinds / sizeof kinds[0]) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "%d is no kind of list", (int)options->kind);
    }
    struct list_options list = {.kind = kinds[options->kind],
                                .name = options->name,
                                .cursor = options->cursor,
                                .limit = options->limit,
                                .count = options->count};
    /* Without an id the store would refuse the list in words about a filter that the caller has not given. */
    bool is_of_one = list.kind == LIST_EVENTS || list.kind == LIST_STEPS || list.kind == LIST_ACTIONS;
    if (is_of_one && options->filter.id == NULL) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a list of events, steps or actions needs filter.id, the execution");
    }
    enum weir_status status = filter_of(&options->filter, &list.filter, error);
    if (status == WEIR_OK) {
        status = read_list_page(weir, &list, &page, error);
    }
    return status == WEIR_OK ? library_give_json(page, ret_json, error) : status;
}

/* The groups are those of the command line and of the HTTP API: one function of the store counts for all three. Without a
 * filter it takes the newest failed executions of all workspaces. */
enum weir_status weir_failures(struct weir *weir, const struct weir_filter *filter, char **ret_json,
                               struct weir_error *error)
{
    struct execution_filter chosen = {.id = NULL};
    struct store *handle = NULL;
    json_t *page = NULL;
    if (ret_json == NULL) {
        return error_set(error, WEIR_MISUSE, "weir_failures needs a place for the groups");
    }
    enum weir_status status = filter == NULL ? WEIR_OK : filter_of(filter, &chosen, error);
    if (status == WEIR_OK) {
        status = handle_borrow(weir, &handle, error);
    }
    if (status == WEIR_OK) {
        status = failure_groups_read(handle, &chosen, &page, error);
        handle_give_back(weir, handle);
    }
    return status == WEIR_OK ? library_give_json(page, ret_json, error) : status;
}

enum weir_status weir_usage(struct weir *weir, const char *workspace, char **ret_json, struct weir_error *error)
{
    json_t *row = NULL;
    struct store *handle = NULL;
    if (workspace == NULL || ret_json == NULL) {
        return error_set(error, WEIR_MISUSE, "weir_usage needs the name of a workspace and a place for the answer");
    }
    enum weir_status status = handle_borrow(weir, &handle, error);
    if (status == WEIR_OK) {
        status = store_usage(handle, workspace, &row, error);
        handle_give_back(weir, handle);
    }
    return status == WEIR_OK ? library_give_json(row, ret_json, error) : status;
}

/* The execution is read as a whole: its result is chosen from its steps. */
enum weir_status weir_read_result(struct weir *weir, const char *id, char **ret_json, struct weir_error *error)
{
    struct store *handle = NULL;
    json_t *result = NULL;
    if (id == NULL || ret_json == NULL) {
        return error_set(error, WEIR_MISUSE, "weir_read_result needs an id and a place for the result");
    }
    enum weir_status status = handle_borrow(weir, &handle, error);
    if (status == WEIR_OK) {
        status = store_read_result(handle, id, &result, error);
        handle_give_back(weir, handle);
    }
    return status == WEIR_OK ? library_give_json(result, ret_json, error) : status;
}
