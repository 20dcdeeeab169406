/* The steps of children_scene.h: plans as a node records them, the duty, and the ends of children. */
#include "conformance/children_scene.h"

char *plan_text(const struct planned *planned)
{
    struct text text = {.max = 8 * 1024 * 1024};
    assert_int_equal(
        text_format(&text,
                    "{\"workflow\":\"%s\",\"executor_group\":null,\"priority\":null,\"is_single\":%d,"
                    "\"waits_for_all\":%d,\"wanted\":%d,\"max_parallel\":%d,\"leaves\":%d,%s%s%s%s%s%s\"children\":[",
                    planned->workflow == NULL ? "hello" : planned->workflow, planned->is_single, planned->wanted < 0,
                    planned->wanted < 0 ? planned->count : planned->wanted,
                    planned->max_parallel == 0 ? planned->count : planned->max_parallel, planned->leaves,
                    planned->workspace == NULL ? "" : "\"workspace\":\"",
                    planned->workspace == NULL ? "" : planned->workspace, planned->workspace == NULL ? "" : "\",",
                    planned->keys == NULL ? "" : "\"keys\":", planned->keys == NULL ? "" : planned->keys,
                    planned->keys == NULL ? "" : ","),
        WEIR_OK);
    for (int i = 0; i < planned->count; i++) {
        assert_int_equal(text_format(&text, "%s{\"n\":%d}", i == 0 ? "" : ",", i), WEIR_OK);
    }
    assert_int_equal(text_add_string(&text, "]}"), WEIR_OK);
    return text.data;
}

struct step_record wait_of(char *plan)
{
    struct step_record step = {
        .step = "go", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = TIME_NEVER, .variables = plan};
    text_copy(step.signal, sizeof step.signal, "children:go");
    return step;
}

enum weir_status record_plan(struct scene *scene, const struct claimed_item *item, const struct planned *planned)
{
    char *plan = plan_text(planned);
    struct step_record step = wait_of(plan);
    struct record record = scene_record_of(RECORD_STEP, item);
    record.step = &step;
    enum weir_status status = scene_record_full(scene, scene->node, record);
    free(plan);
    return status;
}

void enqueue_parent(struct scene *scene, const char *workspace)
{
    static unsigned made;
    char id[UUID_TEXT_MAX];
    (void)snprintf(id, sizeof id, "01900000-0000-7000-8000-%012x", ++made);
    (void)scene_enqueue_request(scene, &(struct enqueue_request){.workspace = workspace, .workflow = "hello", .id = id});
}

void park_parent(struct scene *scene, const struct claimed_item *item)
{
    struct record park = scene_record_of(RECORD_PARKED, item);
    park.delay_us = TIME_NEVER;
    park.waiting_for = WAIT_CHILD;
    park.signals_seen = item->signals_seen;
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, item), WEIR_OK);
    assert_int_equal(scene_record_full(scene, scene->node, park), WEIR_OK);
}

/* Until nothing is left to do. */
struct children_advance advance(struct scene *scene)
{
    struct children_advance all = {.started = 0};
    struct children_advance part = {.again = true};
    while (part.again) {
        part = (struct children_advance){.again = false};
        scene_ok(scene, store_advance_children(scene->store, &part, &scene->error));
        all.started += part.started;
        all.cancelled += part.cancelled;
        all.settled += part.settled;
        all.exist = part.exist;
        assert_true(part.started <= CHILD_SET_BATCH && part.cancelled <= CHILD_SET_BATCH);
    }
    assert_false(part.waits);
    return all;
}

struct claimed_item begin(struct scene *scene, const struct planned *planned)
{
    enqueue_parent(scene, "free-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(record_plan(scene, &item, planned), WEIR_OK);
    park_parent(scene, &item);
    return item;
}

int64_t pending(struct scene *scene)
{
    return scene_number(scene, "SELECT count(*) FROM executions WHERE status = 'PENDING'");
}

void end_with(struct scene *scene, const struct claimed_item *item, enum record_kind kind, const char *output)
{
    char copy[64];
    struct step_record step = {.step = "say", .state = STEP_COMPLETED, .attempt = 1, .exit_code = 0};
    struct record record = scene_record_of(kind, item);
    if (output != NULL) {
        text_copy(copy, sizeof copy, output);
        step.output = copy;
        step.output_length = strlen(copy);
        record.step = &step;
    }
    if (kind == RECORD_FAILED) {
        record.error_code = "exit_code";
        record.error = "it ended with 3";
    }
    assert_int_equal(scene_record_full(scene, scene->node, record), WEIR_OK);
}

/* The children end one after the other; the workspace has one slot. */
void end_children(struct scene *scene, int count, enum record_kind kind)
{
    for (int i = 0; i < count; i++) {
        struct claimed_item child = scene_claim_one(scene);
        end_with(scene, &child, kind, kind == RECORD_COMPLETED ? "7" : NULL);
        (void)advance(scene);
    }
}

/* Claims the parent, which a signal has woken, and returns the data of the signal. */
json_t *claim_outcome(struct scene *scene, const struct claimed_item *parent)
{
    json_t *data = NULL;
    struct claimed_item item = scene_claim_one(scene);
    assert_string_equal(item.id, parent->id);
    assert_int_equal(item.signal_count, 1);
    assert_string_equal(item.signals[0].name, "children:go");
    assert_int_equal(item.step_count, 1);
    assert_null(item.steps[0].variables); /* the plan goes no further */
    assert_int_equal(json_read(item.signals[0].data, item.signals[0].data_length, &data, NULL), WEIR_OK);
    return data;
}

void assert_failure(struct scene *scene, const struct claimed_item *parent, const char *code, const char *words)
{
    json_t *data = claim_outcome(scene, parent);
    assert_string_equal(json_text_at(data, "code"), code);
    if (strstr(json_text_at(data, "error"), words) == NULL) {
        fail_msg("\"%s\" has not the words \"%s\"", json_text_at(data, "error"), words);
    }
    json_decref(data);
}

void purge(struct scene *scene, const char *id)
{
    struct bulk_result result = {0};
    struct execution_filter filter = {.id = id};
    scene_ok(scene, store_bulk(scene->store, BULK_PURGE, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
}
