/* Steps that start executions of another workflow, their children, and wait for them.
 *
 *   1. The inputs of the step give its plan: the workflow, the params of each child, and how the step waits. It is one JSON
 *      text.
 *   2. The report WAITING brings the plan to the store, in the transaction that puts the wait on record. So a node that has
 *      lost its claim starts nothing, and a plan is there exactly when its step waits.
 *   3. The store enqueues the children, counts their ends, and sends the parent a signal when the wait is over. A wait for
 *      children is from here on a wait for a signal (step_signal.c): kept, parked, taken over and consumed alike.
 *   4. The data of the signal has the output of the step, or the code and the text of its failure.
 *
 * Nothing here knows a child: a second start of the step after a crash finds its wait on record. Runs in the loop's thread.
 */
#include "engine/in_process/step_children.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/in_process/runner.h"
#include "engine/in_process/step_phase.h"
#include "engine/in_process/step_report.h"

#define CHILDREN_INVALID_CODE "children_invalid"
enum { KEY_TEXT_MAX = 4 * IDEMPOTENCY_KEY_MAX };

/* --- the plan --- */

static bool params_fit(const json_t *params)
{
    struct text text = {.max = PARAMS_BYTES_MAX};
    enum weir_status status = params == NULL ? WEIR_OK : json_write(params, &text, NULL);
    text_close(&text);
    return status == WEIR_OK || status == WEIR_OUT_OF_MEMORY;
}

/* Of the children of a plan, in the order of the items. */
struct planned_children {
    json_t *params;
    json_t *keys; /* empty: the step has no `key` */
};

bool step_children_key_is_fit(const char *key, size_t length)
{
    INVARIANT(key != NULL || length == 0);
    return length > 0 && length <= IDEMPOTENCY_KEY_MAX && text_is_utf8(key, length) && memchr(key, '\0', length) == NULL;
}

static enum weir_status add_key(struct step_inputs *inputs, const struct template *key, json_t *keys)
{
    struct text text = {.max = KEY_TEXT_MAX};
    enum weir_status status = step_inputs_text(inputs, key, &text);
    if (status == WEIR_OK && !step_children_key_is_fit(text.data, text.length)) {
        status = step_inputs_refuse(inputs, CHILDREN_INVALID_CODE, "the key of a child must be a text of 1 to 255 bytes");
    } else if (status == WEIR_OK) {
        status = json_array_append_new(keys, json_string(text.data)) == 0 ? WEIR_OK : WEIR_OUT_OF_MEMORY;
    }
    text_close(&text);
    return status;
}

/* The params of one child, an object, and its key. */
static enum weir_status add_child(struct step_inputs *inputs, const struct step_start *start,
                                  struct planned_children *children)
{
    json_t *params = NULL;
    enum weir_status status = start->params == NULL ? WEIR_OK : step_inputs_value(inputs, start->params, &params);
    if (status == WEIR_OK && start->params == NULL) {
        params = json_object();
    }
    if (status == WEIR_OK && params != NULL && !json_is_object(params)) {
        status = step_inputs_refuse(inputs, CHILDREN_INVALID_CODE, "the params of a child must be an object");
    } else if (status == WEIR_OK && !params_fit(params)) {
        status = step_inputs_refuse(inputs, "children_too_large", "the params of a child are larger than 1 MiB");
    } else if (status == WEIR_OK) {
        status = json_array_append_new(children->params, json_incref(params)) == 0 ? WEIR_OK : WEIR_OUT_OF_MEMORY;
    }
    json_decref(params);
    return status == WEIR_OK && start->key != NULL ? add_key(inputs, start->key, children->keys) : status;
}

/* The params of all items. The context has each of them in turn. */
static enum weir_status add_children(struct step_inputs *inputs, const struct step_start *start,
                                     struct planned_children *children)
{
    enum weir_status status = WEIR_OK;
    size_t count = json_array_size(inputs->items);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        inputs->item = i;
        bool is_set = json_object_set(inputs->context, "item", json_array_get(inputs->items, i)) == 0 &&
                      json_object_set_new(inputs->context, "index", json_integer((json_int_t)i)) == 0;
        status = is_set ? add_child(inputs, start, children) : WEIR_OUT_OF_MEMORY;
    }
    (void)json_object_del(inputs->context, "item");
    (void)json_object_del(inputs->context, "index");
    return status;
}

static enum weir_status read_child_items(struct step_inputs *inputs, const struct template *for_each)
{
    json_t *items = NULL;
    enum weir_status status = step_inputs_value(inputs, for_each, &items);
    if (status == WEIR_OK && !json_is_array(items)) {
        status = step_inputs_refuse(inputs, CHILDREN_INVALID_CODE, "\"for_each\" gives no list");
    } else if (status == WEIR_OK && json_array_size(items) > (size_t)CHILDREN_OF_STEP_MOST) {
        status = step_inputs_refuse(inputs, "children_too_many", "\"for_each\" gives more than 10000 items");
    }
    if (status != WEIR_OK) {
        json_decref(items);
        return status;
    }
    inputs->items = items;
    return WEIR_OK;
}

static bool put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

/* The store reads the plan with these bounds, on behalf of all tenants. */
static enum weir_status check_plan(const struct text *text)
{
    json_t *plan = NULL;
    enum weir_status status = json_read_below(text->data, text->length, CHILDREN_PLAN_LEVELS, &plan, NULL);
    json_decref(plan);
    return status;
}

/* `children` become parts of the plan. */
static enum weir_status write_plan(struct step_inputs *inputs, const struct step_start *start,
                                   const struct planned_children *children)
{
    json_t *plan = json_object();
    size_t count = json_array_size(children->params);
    bool waits_for_all = start->wait == START_WAITS_FOR_ALL;
    bool is_fine =
        plan != NULL && put(plan, "workflow", json_string(start->workflow)) &&
        put(plan, "executor_group", start->executor_group == NULL ? json_null() : json_string(start->executor_group)) &&
        put(plan, "priority", start->has_priority ? json_integer(start->priority) : json_null()) &&
        put(plan, "is_single", json_integer(start->for_each == NULL)) &&
        put(plan, "waits_for_all", json_integer(waits_for_all)) &&
        put(plan, "wanted", json_integer(waits_for_all ? (json_int_t)count : start->wait)) &&
        put(plan, "max_parallel", json_integer(start->max_parallel == 0 ? (json_int_t)count : start->max_parallel)) &&
        put(plan, "leaves", json_integer(start->leaves)) &&
        (start->workspace == NULL || put(plan, "workspace", json_string(start->workspace))) &&
        (start->key == NULL || json_object_set(plan, "keys", children->keys) == 0) &&
        json_object_set(plan, "children", children->params) == 0;
    text_clear(&inputs->input);
    inputs->input.max = CHILDREN_PLAN_BYTES_MAX;
    enum weir_status status = is_fine ? json_write(plan, &inputs->input, NULL) : WEIR_OUT_OF_MEMORY;
    json_decref(plan);
    if (status == WEIR_OK) {
        status = check_plan(&inputs->input);
    }
    return status == WEIR_OK || status == WEIR_OUT_OF_MEMORY
               ? status
               : step_inputs_refuse(inputs, "children_too_large",
                                    "the params of all children are larger than 4 MiB, or have too many values or levels");
}

enum weir_status step_children_prepare(struct step_inputs *inputs, const struct step_start *start)
{
    INVARIANT(inputs != NULL && start->workflow != NULL);
    struct planned_children children = {.params = json_array(), .keys = json_array()};
    enum weir_status status = children.params == NULL || children.keys == NULL ? WEIR_OUT_OF_MEMORY : WEIR_OK;
    json_decref(inputs->items); /* of an evaluation that stopped with a request */
    inputs->items = NULL;
    text_clear(&inputs->input);
    if (status == WEIR_OK && start->for_each != NULL) {
        status = read_child_items(inputs, start->for_each);
    }
    if (status == WEIR_OK) {
        status = start->for_each != NULL ? add_children(inputs, start, &children) : add_child(inputs, start, &children);
    }
    size_t count = json_array_size(children.params);
    if (status == WEIR_OK && start->wait > 0 && (size_t)start->wait > count) {
        status = step_inputs_refuse(inputs, "children_too_few", "\"wait\" is larger than the number of children");
    }
    if (status == WEIR_OK && count > 0) {
        status = write_plan(inputs, start, &children);
    }
    json_decref(children.params);
    json_decref(children.keys);
    return status;
}

/* --- the step --- */

/* A list without items: nothing to wait for. */
static void complete_empty(struct step_run *run)
{
    struct step_outcome outcome = {.output = strdup("[]"), .output_length = 2};
    json_decref(run->output);
    run->output = outcome.output == NULL ? NULL : json_array();
    if (run->output == NULL) {
        free(outcome.output);
        engine_note_lost_report(&run->execution->runner->base);
        return;
    }
    step_run_report_final(run, STEP_COMPLETED, &outcome);
}

void step_children_begin(struct step_run *run)
{
    INVARIANT(step_run_step(run)->kind == STEP_START && run->inputs != NULL);
    struct text plan = run->inputs->input;
    run->inputs->input = (struct text){.max = plan.max};
    step_run_drop_inputs(run);
    if (plan.length == 0) {
        text_close(&plan);
        complete_empty(run);
        return;
    }
    int64_t timeout_us = step_run_step(run)->timeout_us;
    step_run_report_children(run, timeout_us > 0 ? timeout_us : TIME_NEVER, plan.data); /* which the report owns now */
}

/* The output lies so deep in the data of the signal, and those of the children two levels deeper, in a list of objects. */
enum { OUTPUT_LEVELS = 1, CHILD_OUTPUT_LEVELS = 3 };
static const char output_begins[] = "{\"output\":";

/* Writes the list, or the one child, without the outputs of the children. */
static enum weir_status strip_outputs(json_t *output, struct text *text)
{
    for (size_t i = 0; i < json_array_size(output); i++) {
        (void)json_object_del(json_array_get(output, i), "output");
    }
    if (json_is_object(output)) {
        (void)json_object_del(output, "output");
    }
    return json_write(output, text, NULL);
}

/* No other step reads the output, so its text is enough. To read it would take longer than to start hundreds of children.
 */
static bool output_is_unread(const struct step_run *run, const struct kept_signal *kept)
{
    const size_t head = sizeof output_begins - 1;
    return run->execution->step_count == 1 && kept->data_length > head + 1 &&
           memcmp(kept->data, output_begins, head) == 0 && json_is_balanced(kept->data, kept->data_length, OUTPUT_LEVELS);
}

/* The output of the step, and run->output for `.steps`, which stays empty if it is unread. Its text is that of the store: a
 * number that is written anew may be longer. Outputs of children that are nested too deeply to lie in a list are left out.
 * WEIR_OUT_OF_MEMORY, or another failure: the data has no output that can be read. */
static enum weir_status take_children_output(struct step_run *run, const struct kept_signal *kept, bool is_unread,
                                             json_t *data, struct step_outcome *ret_outcome)
{
    struct text text = {.max = STEP_OUTPUT_BYTES_MAX};
    const size_t head = sizeof output_begins - 1;
    json_t *deep = NULL;
    json_t *output = json_object_get(data, "output");
    enum weir_status status;
    bool has_head = kept->data_length > head + 1 && memcmp(kept->data, output_begins, head) == 0;
    if (has_head && (output != NULL || is_unread)) {
        status = text_add(&text, kept->data + head, kept->data_length - head - 1);
    } else {
        status = json_read_below(kept->data, kept->data_length, CHILD_OUTPUT_LEVELS, &deep, NULL);
        output = json_object_get(deep, "output");
        status = status != WEIR_OK ? status : output == NULL ? WEIR_FAILED : strip_outputs(output, &text);
    }
    if (status == WEIR_OK) {
        json_decref(run->output);
        run->output = json_incref(output);
        *ret_outcome = (struct step_outcome){.output = text.data, .output_length = text.length};
    } else {
        text_close(&text);
    }
    json_decref(deep);
    return status;
}

bool step_children_end(struct step_run *run, struct kept_signal *kept)
{
    json_t *data = NULL;
    struct step_outcome outcome = {.code = CHILDREN_INVALID_CODE,
                                   .error = "the store's note of the children is no JSON that this node can read"};
    INVARIANT(step_run_step(run)->kind == STEP_START && kept != NULL);
    bool is_unread = output_is_unread(run, kept);
    enum weir_status status =
        is_unread ? WEIR_OK : json_read_below(kept->data, kept->data_length, OUTPUT_LEVELS, &data, NULL);
    const char *code = json_string_value(json_object_get(data, "code"));
    if (status != WEIR_OUT_OF_MEMORY && code != NULL) {
        const char *error = json_string_value(json_object_get(data, "error"));
        outcome = (struct step_outcome){.code = code, .error = error};
        status = WEIR_FAILED;
    } else if (status != WEIR_OUT_OF_MEMORY) {
        status = take_children_output(run, kept, is_unread, data, &outcome);
    }
    if (status == WEIR_OUT_OF_MEMORY) {
        json_decref(data);
        return false;
    }
    bool is_completed = status == WEIR_OK;
    run->failures += !is_completed;
    run->signal_seq = kept->seq;
    kept_signal_free(kept);
    step_run_report_final(run, is_completed ? STEP_COMPLETED : STEP_FAILED, &outcome);
    json_decref(data);
    return true;
}

void step_children_time_out(struct step_run *run)
{
    struct step_outcome outcome = {.code = "children_timeout", .error = "its children did not end within the timeout"};
    INVARIANT(run->phase == PHASE_SLEEPING);
    run->failures++;
    step_run_report_final(run, STEP_FAILED, &outcome);
}
