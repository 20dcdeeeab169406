/* Lists, groups of failures, and acts on all executions that meet conditions.
 *
 * JavaScript gives the conditions as rows (src/filter.ts): the first one has the fields of struct weir_filter, each later
 * one the name and the value of a label. The library checks them.
 */
#include "binding.h"

#include <stdlib.h>

/* The first row of conditions: id, workspace, workflow, group, reason, waiting_for, error_code, idempotency_key, states,
 * created_since, created_before, finished_before, business_key and its beginning. */
static const char filter_types[] = "zzzzzzzziiiizz";
_Static_assert(sizeof filter_types - 1 == ARGUMENTS_MAX, "a row of conditions fills the row of a task");

/* One label more than the library takes is read, so that it refuses them in its own words. */
static bool read_conditions(napi_env env, struct task *task, napi_value rows)
{
    uint32_t count = 0;
    if (napi_get_array_length(env, rows, &count) != napi_ok || count == 0) {
        throw_type_error(env, "weir: conditions are an array of rows");
        return false;
    }
    count = count > WEIR_FILTER_LABELS_MAX + 2 ? WEIR_FILTER_LABELS_MAX + 2 : count;
    task->rows = calloc((size_t)count * ARGUMENTS_MAX, sizeof *task->rows);
    if (task->rows == NULL) {
        throw_type_error(env, "weir: there is no memory for the conditions");
        return false;
    }
    bool is_read = read_task_row(env, task, rows, filter_types);
    for (uint32_t i = 1; is_read && i < count; i++) {
        is_read = read_task_row(env, task, rows, "ss");
    }
    return is_read;
}

/* The texts stay those of the task. */
static struct weir_filter filter_of_task(const struct task *task, struct weir_label labels[WEIR_FILTER_LABELS_MAX + 1])
{
    const struct argument *row = task->rows;
    for (size_t i = 1; i < task->row_count; i++) {
        const struct argument *pair = &task->rows[i * ARGUMENTS_MAX];
        labels[i - 1] = (struct weir_label){.name = pair[0].text, .value = pair[1].text};
    }
    return (struct weir_filter){.id = row[0].text,
                                .workspace = row[1].text,
                                .workflow = row[2].text,
                                .group = row[3].text,
                                .reason = row[4].text,
                                .waiting_for = row[5].text,
                                .error_code = row[6].text,
                                .idempotency_key = row[7].text,
                                .states = (unsigned)row[8].number,
                                .created_since_us = row[9].number,
                                .created_before_us = row[10].number,
                                .finished_before_us = row[11].number,
                                .business_key = row[12].text,
                                .business_key_prefix = row[13].text,
                                .labels = labels,
                                .label_count = task->row_count - 1};
}

/* Arguments: kind, cursor, limit, whether matches are counted, conditions. */
static bool read_list(napi_env env, struct task *task, const napi_value *values)
{
    return read_conditions(env, task, values[4]) && enter_store(env, task, values);
}

static enum weir_status run_list(struct task *task)
{
    struct weir_label labels[WEIR_FILTER_LABELS_MAX + 1];
    const struct argument *arguments = task->arguments;
    struct weir_list_options options = {.kind = (enum weir_list_kind)arguments[0].number,
                                        .filter = filter_of_task(task, labels),
                                        .cursor = arguments[1].text,
                                        .limit = arguments[2].number < 0 ? SIZE_MAX : (size_t)arguments[2].number,
                                        .count = arguments[3].number != 0};
    return weir_list(task->store->weir, &options, &task->text, &task->error);
}

/* Arguments: conditions. */
static bool read_failures(napi_env env, struct task *task, const napi_value *values)
{
    return read_conditions(env, task, values[0]) && enter_store(env, task, values);
}

static enum weir_status run_failures(struct task *task)
{
    struct weir_label labels[WEIR_FILTER_LABELS_MAX + 1];
    struct weir_filter filter = filter_of_task(task, labels);
    return weir_failures(task->store->weir, &filter, &task->text, &task->error);
}

static enum weir_status run_usage(struct task *task)
{
    return weir_usage(task->store->weir, task->arguments[0].text, &task->text, &task->error);
}

/* Arguments: act, reason, conditions. */
static bool read_act(napi_env env, struct task *task, const napi_value *values)
{
    return read_conditions(env, task, values[2]) && enter_store(env, task, values);
}

static enum weir_status run_act(struct task *task)
{
    struct weir_label labels[WEIR_FILTER_LABELS_MAX + 1];
    struct weir_filter filter = filter_of_task(task, labels);
    struct weir_acted acted = {.matched = 0};
    enum weir_status status = weir_act(task->store->weir, (enum weir_act)task->arguments[0].number, &filter,
                                       task->arguments[1].text, &acted, &task->error);
    task->number = (int64_t)acted.matched;
    task->second_number = (int64_t)acted.changed;
    task->third_number = (int64_t)acted.refused;
    return status;
}

static napi_value finish_act(napi_env env, struct task *task)
{
    napi_value object = NULL;
    (void)napi_create_object(env, &object);
    (void)napi_set_named_property(env, object, "matched", make_number(env, task->number));
    (void)napi_set_named_property(env, object, "changed", make_number(env, task->second_number));
    (void)napi_set_named_property(env, object, "refused", make_number(env, task->third_number));
    return object;
}

const struct method list_methods[] = {
    {"list", OBJECT_STORE, "izii", read_list, run_list, finish_text, leave_store},
    {"failures", OBJECT_STORE, "", read_failures, run_failures, finish_text, leave_store},
    {"usage", OBJECT_STORE, "s", enter_store, run_usage, finish_text, leave_store},
    {"act", OBJECT_STORE, "iz", read_act, run_act, finish_act, leave_store},
};
const size_t list_method_count = sizeof list_methods / sizeof *list_methods;
