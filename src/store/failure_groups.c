/* Failures, grouped by error code, workflow and workspace.
 *
 * Reads the newest failed executions that match, at most FAILURES_READ_MOST, by pages, and counts them in a table of at
 * most FAILURE_GROUPS_MOST groups. The answer tells how many rows it has read, and whether these were all. It only reads.
 */
#include "store/failure_groups.h"

#include <string.h>

#include "base/error.h"
#include "base/text.h"

struct failures {
    json_t *groups; /* object: "CODE\nWORKFLOW\nWORKSPACE" -> group */
    int64_t read;
    bool is_whole; /* every failed execution that matches was counted */
    bool is_short_of_memory;
};

/* NULL when out of memory. */
static json_t *make_group(json_t *groups, const char *key, const json_t *row)
{
    json_t *group = json_pack("{s:O, s:O, s:O, s:i, s:n, s:O, s:O, s:O}", "error_code", json_object_get(row, "error_code"),
                              "workflow", json_object_get(row, "workflow"), "workspace", json_object_get(row, "workspace"),
                              "count", 0, "first_at", "last_at", json_object_get(row, "finished_at"), "sample_id",
                              json_object_get(row, "id"), "sample_error", json_object_get(row, "error"));
    return group != NULL && json_object_set_new(groups, key, group) == 0 ? group : NULL;
}

/* Rows come newest first: the first of a group is its sample, and the last one its beginning. */
static bool count_failed_execution(void *context, const json_t *row)
{
    struct failures *failures = context;
    const char *code = json_string_value(json_object_get(row, "error_code"));
    const char *workflow = json_string_value(json_object_get(row, "workflow"));
    const char *workspace = json_string_value(json_object_get(row, "workspace"));
    struct text key = {.max = ERROR_CODE_MAX + WORKFLOW_NAME_MAX + WORKSPACE_NAME_MAX + 3};
    if (failures->read == FAILURES_READ_MOST ||
        text_format(&key, "%s\n%s\n%s", code == NULL ? "" : code, workflow == NULL ? "" : workflow,
                    workspace == NULL ? "" : workspace) != WEIR_OK) {
        failures->is_whole = false;
        text_close(&key);
        return false;
    }
    json_t *group = json_object_get(failures->groups, key.data);
    if (group == NULL && json_object_size(failures->groups) < FAILURE_GROUPS_MOST) {
        group = make_group(failures->groups, key.data, row);
        failures->is_short_of_memory = failures->is_short_of_memory || group == NULL;
    }
    text_close(&key);
    failures->is_whole = failures->is_whole && group != NULL;
    failures->read++;
    if (group != NULL) {
        json_int_t count = json_integer_value(json_object_get(group, "count"));
        (void)json_integer_set(json_object_get(group, "count"), count + 1);
        (void)json_object_set(group, "first_at", json_object_get(row, "finished_at"));
    }
    return !failures->is_short_of_memory;
}

/* The groups with the most failures first. */
static json_t *sort_failure_groups(json_t *groups)
{
    json_t *sorted = json_array();
    const char *key;
    json_t *group;
    json_object_foreach(groups, key, group)
    {
        size_t at = 0;
        json_int_t count = json_integer_value(json_object_get(group, "count"));
        while (at < json_array_size(sorted) &&
               json_integer_value(json_object_get(json_array_get(sorted, at), "count")) >= count) {
            at++;
        }
        if (json_array_insert(sorted, at, group) != 0) {
            json_decref(sorted);
            return NULL;
        }
    }
    return sorted;
}

enum weir_status failure_groups_read(struct store *store, const struct execution_filter *filter, json_t **ret_page,
                                     struct weir_error *error)
{
    INVARIANT(filter != NULL && ret_page != NULL);
    struct list_options options = {.kind = LIST_EXECUTIONS, .filter = *filter, .limit = LIST_LIMIT_MOST};
    struct failures failures = {.groups = json_object(), .is_whole = true};
    options.filter.states = 1u << ITEM_FAILED;
    options.filter.retried = filter->retried == CONDITION_ANY ? CONDITION_NO : filter->retried;
    options.filter.dismissed = filter->dismissed == CONDITION_ANY ? CONDITION_NO : filter->dismissed;
    enum weir_status status = store_list_each(store, &options, count_failed_execution, &failures, error);
    json_t *page = NULL;
    if (status == WEIR_OK && failures.groups != NULL && !failures.is_short_of_memory) {
        page = json_pack("{s:o, s:I, s:b}", "items", sort_failure_groups(failures.groups), "executions_read",
                         (json_int_t)failures.read, "is_whole", failures.is_whole);
    }
    json_decref(failures.groups);
    if (status == WEIR_OK && page == NULL) {
        return error_out_of_memory(error);
    }
    *ret_page = status == WEIR_OK ? page : *ret_page;
    return status;
}
