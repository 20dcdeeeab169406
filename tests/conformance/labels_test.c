/* Labels and business keys of executions, and the filters of lists and acts. */
#include "conformance/scene.h"
#include "store/filter.h"

/* The ids of a list by its filter, newest first, as letters of `ids`: "ca" = the third and the first. */
static const char *listed(struct scene *scene, const char *where, const char *const *ids, size_t count)
{
    struct list_options options = {.kind = LIST_EXECUTIONS, .limit = 2, .count = true};
    scene_ok(scene, filter_parse(where, scene_now(scene), &scene->arena, &options.filter, &scene->error));
    char *letters = arena_allocate(&scene->arena, count + 1);
    size_t found = 0;
    json_t *page = NULL;
    char cursor[UUID_TEXT_MAX] = "";
    do {
        options.cursor = cursor;
        scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
        size_t i;
        json_t *row;
        json_array_foreach(json_object_get(page, "items"), i, row)
        {
            for (size_t at = 0; at < count; at++) {
                if (strcmp(json_text_at(row, "id"), ids[at]) == 0) {
                    assert_true(found < count);
                    letters[found++] = (char)('a' + at);
                }
            }
        }
        const char *next = json_string_value(json_object_get(page, "next_cursor"));
        bool more = next != NULL;
        text_copy(cursor, sizeof cursor, more ? next : "");
        if (!more) {
            assert_int_equal(json_number_at(page, "count"), found);
        }
        json_decref(page);
    } while (cursor[0] != '\0');
    letters[found] = '\0';
    return letters;
}

static const char *enqueue_labelled(struct scene *scene, const char *workspace, const char *business_key,
                                    const char *labels)
{
    return scene_enqueue_request(
        scene, &(struct enqueue_request){
                   .workspace = workspace, .workflow = "hello", .business_key = business_key, .labels = labels});
}

static json_t *shown(struct scene *scene, const char *id)
{
    json_t *execution = NULL;
    scene_ok(scene, store_show(scene->store, id, &execution, &scene->error));
    return execution;
}

static const char *labels_of(struct scene *scene, const char *id)
{
    json_t *execution = shown(scene, id);
    char *text = json_dumps(json_object_get(execution, "labels"), JSON_COMPACT | JSON_SORT_KEYS);
    const char *copy = arena_copy_string(&scene->arena, text);
    free(text);
    json_decref(execution);
    return copy;
}

static const char *key_of(struct scene *scene, const char *id)
{
    json_t *execution = shown(scene, id);
    const char *key = json_string_value(json_object_get(execution, "business_key"));
    const char *copy = key == NULL ? NULL : arena_copy_string(&scene->arena, key);
    json_decref(execution);
    return copy;
}

static void end_one(struct scene *scene, enum record_kind end)
{
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_int_equal(scene_record(scene, end, &item), WEIR_OK);
}

static void an_execution_keeps_its_labels_after_its_end(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_labelled(scene, "pro-co", "order-17", "{\"tier\":\"gold\",\"site.x\":\"b \\\\ \\\" \u00e4\"}");
    const char *plain = NULL;
    for (int ended = 0; ended < 2; ended++) {
        assert_string_equal(labels_of(scene, id), "{\"site.x\":\"b \\\\ \\\" \u00e4\",\"tier\":\"gold\"}");
        assert_string_equal(key_of(scene, id), "order-17");
        if (ended == 0) {
            end_one(scene, RECORD_COMPLETED);
            assert_string_equal(scene_status_of(scene, id), "COMPLETED");
            plain = scene_enqueue(scene, "pro-co");
        }
        assert_string_equal(labels_of(scene, plain), "{}");
        assert_null(key_of(scene, plain));
    }
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM execution_labels"), 3);
}

static void a_set_and_a_single_request_have_the_same_labels(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request requests[3] = {
        {.workspace = "pro-co", .workflow = "hello", .business_key = "one", .labels = "{\"n\":\"1\"}"},
        {.workspace = "pro-co", .workflow = "hello"},
        {.workspace = "free-co", .workflow = "hello", .labels = "{\"n\":\"3\"}", .idempotency_key = "k"}};
    struct enqueue_result results[3];
    scene_ok(scene, store_enqueue(scene->store, requests, 3, results, &scene->error));
    assert_string_equal(labels_of(scene, results[0].id), "{\"n\":\"1\"}");
    assert_string_equal(key_of(scene, results[0].id), "one");
    assert_string_equal(labels_of(scene, results[1].id), "{}");
    assert_string_equal(labels_of(scene, results[2].id), "{\"n\":\"3\"}");
    /* A known key adds nothing. */
    requests[2].labels = "{\"n\":\"4\",\"m\":\"5\"}";
    struct enqueue_result again = scene_try(scene, &requests[2]);
    assert_true(again.duplicate);
    assert_string_equal(labels_of(scene, results[2].id), "{\"n\":\"3\"}");
}

static void lists_find_living_and_ended_ones(void **state)
{
    struct scene *scene = *state;
    const char *ids[5];
    ids[0] = enqueue_labelled(scene, "pro-co", "order-1", "{\"tier\":\"gold\"}");
    end_one(scene, RECORD_FAILED);
    scene_pass(scene, SECONDS(1));
    ids[1] = enqueue_labelled(scene, "pro-co", "order-1", "{\"tier\":\"gold\",\"zone\":\"a\"}");
    scene_pass(scene, SECONDS(1));
    ids[2] = enqueue_labelled(scene, "pro-co", "order-12", "{\"tier\":\"gold\"}");
    scene_pass(scene, SECONDS(1));
    ids[3] = enqueue_labelled(scene, "free-co", "order-1", "{\"tier\":\"gold\"}");
    scene_pass(scene, SECONDS(1));
    ids[4] = enqueue_labelled(scene, "pro-co", NULL, "{\"tier\":\"goldener\"}");
    assert_string_equal(listed(scene, "workspace=pro-co label.tier=gold", ids, 5), "cba");
    assert_string_equal(listed(scene, "label.tier=gold", ids, 5), "dcba");
    assert_string_equal(listed(scene, "workspace=pro-co label.tier=gold status=pending", ids, 5), "cb");
    assert_string_equal(listed(scene, "workspace=pro-co label.tier=gold label.zone=a", ids, 5), "b");
    assert_string_equal(listed(scene, "workspace=pro-co label.zone=a label.tier=silver", ids, 5), "");
    assert_string_equal(listed(scene, "workspace=pro-co business_key=order-1", ids, 5), "ba");
    assert_string_equal(listed(scene, "workspace=pro-co business_key_prefix=order-1", ids, 5), "cba");
    assert_string_equal(listed(scene, "business_key_prefix=order-", ids, 5), "dcba");
    assert_string_equal(listed(scene, "workspace=pro-co business_key_prefix=order-1 label.tier=gold status=failed", ids, 5),
                        "a");
    assert_string_equal(listed(scene, "workspace=nobody business_key=order-1", ids, 5), "");
    assert_string_equal(listed(scene, "workspace=big-co business_key=order-1", ids, 5), "");
}

/* A key that comes as data never matches other keys. */
static void a_key_with_a_star_is_one_key(void **state)
{
    struct scene *scene = *state;
    const char *ids[3];
    ids[0] = enqueue_labelled(scene, "pro-co", "order-1", NULL);
    ids[1] = enqueue_labelled(scene, "pro-co", "o*", NULL);
    ids[2] = enqueue_labelled(scene, "pro-co", "order-%", NULL);
    assert_string_equal(listed(scene, "workspace=pro-co business_key=o*", ids, 3), "b");
    assert_string_equal(listed(scene, "workspace=pro-co business_key_prefix=o*", ids, 3), "b");
    assert_string_equal(listed(scene, "workspace=pro-co business_key=order-%", ids, 3), "c");
    assert_string_equal(listed(scene, "business_key_prefix=order-", ids, 3), "ca");
    struct execution_filter filter = {.id = NULL};
    assert_int_equal(filter_parse("business_key=a business_key_prefix=b", 0, &scene->arena, &filter, &scene->error),
                     WEIR_INVALID_ARGUMENT);
}

static void acts_follow_labels(void **state)
{
    struct scene *scene = *state;
    const char *ids[3];
    ids[0] = enqueue_labelled(scene, "pro-co", "order-1", "{\"tier\":\"gold\"}");
    ids[1] = enqueue_labelled(scene, "pro-co", "order-2", NULL);
    ids[2] = enqueue_labelled(scene, "pro-co", "order-1", NULL);
    struct execution_filter filter = {
        .workspace = "pro-co", .labels = {{.name = "tier", .value = "gold"}}, .label_count = 1};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    assert_string_equal(scene_status_of(scene, ids[0]), "CANCELLED");
    filter = (struct execution_filter){.workspace = "pro-co", .business_key = "order-1"};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 1, &result, &scene->error));
    assert_int_equal(result.refused, 1); /* it has ended */
    assert_true(result.more);
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, result.last_id, 1, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    assert_false(result.more);
    assert_string_equal(scene_status_of(scene, ids[1]), "PENDING");
    assert_string_equal(scene_status_of(scene, ids[2]), "CANCELLED");
}

static void a_retry_keeps_labels_and_business_key(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_labelled(scene, "pro-co", "order-1", "{\"tier\":\"gold\"}");
    end_one(scene, RECORD_FAILED);
    struct execution_filter filter = {.id = id};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_RETRY, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    assert_string_equal(labels_of(scene, result.new_id), "{\"tier\":\"gold\"}");
    assert_string_equal(key_of(scene, result.new_id), "order-1");
}

static void purged_executions_leave_no_labels(void **state)
{
    struct scene *scene = *state;
    const char *id = enqueue_labelled(scene, "pro-co", "order-1", "{\"tier\":\"gold\"}");
    end_one(scene, RECORD_COMPLETED);
    struct execution_filter filter = {.id = id};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_PURGE, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.changed, 1);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM execution_labels"), 0);
}

static void an_erased_workspace_leaves_no_labels(void **state)
{
    struct scene *scene = *state;
    (void)enqueue_labelled(scene, "pro-co", "order-1", "{\"tier\":\"gold\"}");
    end_one(scene, RECORD_COMPLETED);
    (void)enqueue_labelled(scene, "pro-co", "order-2", NULL);
    struct workspace_deletion deletion = {.name = "pro-co", .fails_waiting = true};
    struct deletion_result deleted;
    scene_pause_workspace(scene, "pro-co", true);
    scene_ok(scene, store_delete_workspace(scene->store, &deletion, &deleted, &scene->error));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM execution_labels"), 3);
    scene_ok(scene, store_erase_workspace(scene->store, "pro-co", &(size_t){0}, &scene->error));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM execution_labels"), 0);
}

static void definitions_give_labels_and_callers_go_before(void **state)
{
    struct scene *scene = *state;
    struct published published;
    scene_ok(scene, store_publish(scene->store, "labelled", NULL,
                                  "{\"name\":\"labelled\",\"labels\":{\"team\":\"core\",\"tier\":\"bronze\"},"
                                  "\"steps\":{\"one\":{\"exec\":[\"true\"]}}}",
                                  NULL, &published, &scene->error));
    struct enqueue_request requests[2] = {{.workspace = "pro-co", .workflow = "labelled", .labels = "{\"tier\":\"gold\"}"},
                                          {.workspace = "pro-co", .workflow = "labelled"}};
    const char *one = scene_enqueue_request(scene, &requests[0]);
    assert_string_equal(labels_of(scene, one), "{\"team\":\"core\",\"tier\":\"gold\"}");
    struct enqueue_result results[2];
    scene_ok(scene, store_enqueue(scene->store, requests, 2, results, &scene->error));
    assert_string_equal(labels_of(scene, results[0].id), "{\"team\":\"core\",\"tier\":\"gold\"}");
    assert_string_equal(labels_of(scene, results[1].id), "{\"team\":\"core\",\"tier\":\"bronze\"}");
}

static void wrong_labels_are_refused(void **state)
{
    struct scene *scene = *state;
    static const char *const wrong[] = {"[]",
                                        "{\"Tier\":\"gold\"}",
                                        "{\"\":\"gold\"}",
                                        "{\"tier\":\"\"}",
                                        "{\"tier\":1}",
                                        "{\"tier\":\"a\\u0000b\"}",
                                        "{\"tier\":\"a\\nb\"}",
                                        "{\"t t\":\"x\"}",
                                        "{\"tier\":\"gold\"",
                                        "{\"tier\":\"a\",\"tier\":\"b\"}"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct enqueue_result result =
            scene_try(scene, &(struct enqueue_request){.workspace = "pro-co", .workflow = "hello", .labels = wrong[i]});
        assert_int_equal(result.status, WEIR_INVALID_ARGUMENT);
    }
    char many[512] = "{";
    for (int i = 0; i <= LABELS_MAX; i++) {
        (void)snprintf(many + strlen(many), sizeof many - strlen(many), "%s\"n%d\":\"x\"", i == 0 ? "" : ",", i);
    }
    (void)snprintf(many + strlen(many), sizeof many - strlen(many), "}");
    struct enqueue_result result =
        scene_try(scene, &(struct enqueue_request){.workspace = "pro-co", .workflow = "hello", .labels = many});
    assert_int_equal(result.status, WEIR_INVALID_ARGUMENT);
    char key[BUSINESS_KEY_MAX + 2];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    result = scene_try(scene, &(struct enqueue_request){.workspace = "pro-co", .workflow = "hello", .business_key = key});
    assert_int_equal(result.status, WEIR_INVALID_ARGUMENT);
    key[BUSINESS_KEY_MAX] = '\0';
    const char *ids[] = {enqueue_labelled(scene, "pro-co", key, NULL)};
    char where[BUSINESS_KEY_MAX + 64];
    (void)snprintf(where, sizeof where, "workspace=pro-co business_key_prefix=%s", key);
    assert_string_equal(listed(scene, where, ids, 1), "a");
    assert_string_equal(listed(scene, "workspace=pro-co business_key_prefix=k", ids, 1), "a");
}

static void lists_by_node_version_duration_and_error(void **state)
{
    struct scene *scene = *state;
    const char *ids[3];
    ids[0] = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    scene_pass(scene, SECONDS(10));
    struct record failed = scene_record_of(RECORD_FAILED, &item);
    failed.error = "the bank said 50% no";
    assert_int_equal(scene_record_full(scene, scene->node, failed), WEIR_OK);
    scene_publish(scene, "hello", NULL);
    ids[1] = scene_enqueue(scene, "pro-co");
    item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    scene_pass(scene, SECONDS(20));
    ids[2] = scene_enqueue(scene, "pro-co");
    const char *node = scene_text(scene, "SELECT name FROM nodes");
    char where[256];
    (void)snprintf(where, sizeof where, "node=%s", node);
    assert_string_equal(listed(scene, where, ids, 3), "ba");
    assert_string_equal(listed(scene, "node=nobody", ids, 3), "");
    assert_string_equal(listed(scene, "longer_than=9s", ids, 3), "ba");
    assert_string_equal(listed(scene, "longer_than=11s", ids, 3), "b");
    assert_string_equal(listed(scene, "shorter_than=11s", ids, 3), "a");
    assert_string_equal(listed(scene, "longer_than=11s shorter_than=15s", ids, 3), "");
    assert_string_equal(listed(scene, "error_text='50% no'", ids, 3), "a");
    assert_string_equal(listed(scene, "error_text=Bank", ids, 3), "");
    int64_t version = scene_number(scene, "SELECT max(version) FROM workflow_definitions WHERE name = 'hello'");
    (void)snprintf(where, sizeof where, "workflow=hello version=%d", (int)version);
    assert_string_equal(listed(scene, where, ids, 3), version == 1 ? "cba" : "cb");
    assert_string_equal(listed(scene, "workflow=hello version=77", ids, 3), "");
}

static void a_parent_and_a_label_are_both_conditions(void **state)
{
    struct scene *scene = *state;
    const char *ids[3];
    char text[400];
    ids[0] = enqueue_labelled(scene, "pro-co", "order-1", "{\"tier\":\"gold\"}");
    ids[1] = enqueue_labelled(scene, "pro-co", "order-1", "{\"tier\":\"gold\"}");
    ids[2] = enqueue_labelled(scene, "pro-co", "order-1", "{\"tier\":\"tin\"}");
    for (int i = 1; i < 3; i++) {
        (void)snprintf(text, sizeof text,
                       "INSERT INTO children (parent_id, step, position, child_id) VALUES ('%s', 's', %d, '%s')", ids[0], i,
                       ids[i]);
        json_decref(scene_rows(scene, text));
    }
    static const char *const conditions[][2] = {{"", "cb"},
                                                {"label.tier=gold", "b"},
                                                {"business_key_prefix=order", "cb"},
                                                {"business_key_prefix=order label.tier=tin", "c"},
                                                {"version=77", ""},
                                                {"error_text=none", ""},
                                                {"label.tier=gold status=failed", ""}};
    for (size_t i = 0; i < sizeof conditions / sizeof conditions[0]; i++) {
        (void)snprintf(text, sizeof text, "parent=%s %s", ids[0], conditions[i][0]);
        assert_string_equal(listed(scene, text, ids, 3), conditions[i][1]);
    }
    json_decref(scene_rows(scene, "DELETE FROM children"));
}

/* --- each condition in each walk --- */

enum { TWIN_LIVING, TWIN_HELD, TWIN_FAILED, TWIN_COMPLETED, TWIN_KINDS };

/* Two executions of one state that differ in all that a filter may ask for. */
struct twins {
    const char *ids[2];
    const char *const *keys;
    int64_t created_us[2], finished_us[2];
};

/* The first one ran for 10 seconds, the second one for 20. */
static void run_twin(struct scene *scene, int kind, int which, int64_t node, struct twins *twins)
{
    struct claim_result claim = scene_claim_as(scene, node, which == 0 ? "batch" : "default", 1);
    assert_int_equal(claim.count, 1);
    assert_int_equal(scene_record_full(scene, node, scene_record_of(RECORD_DISPATCHED, &claim.items[0])), WEIR_OK);
    if (kind != TWIN_HELD) {
        scene_pass(scene, SECONDS(10 + 10 * which));
        struct record end = scene_record_of(kind == TWIN_FAILED ? RECORD_FAILED : RECORD_COMPLETED, &claim.items[0]);
        twins->finished_us[which] = scene_now(scene);
        assert_int_equal(scene_record_full(scene, node, end), WEIR_OK);
    }
}

static struct twins make_twins(struct scene *scene, int kind, int64_t other_node)
{
    static const char *const keys[][2] = {{"l-0", "l-1"}, {"h-0", "h-1"}, {"f-0", "f-1"}, {"c-0", "c-1"}};
    struct twins twins = {.keys = keys[kind]};
    for (int which = 0; which < 2; which++) {
        twins.created_us[which] = scene_now(scene);
        twins.ids[which] =
            scene_enqueue_request(scene, &(struct enqueue_request){.workspace = which == 0 ? "free-co" : "pro-co",
                                                                   .workflow = which == 0 ? "other" : "hello",
                                                                   .group = which == 0 ? "batch" : "default",
                                                                   .labels = "{\"twin\":\"yes\"}",
                                                                   .idempotency_key = keys[kind][which]});
        if (kind != TWIN_LIVING) {
            run_twin(scene, kind, which, which == 0 ? other_node : scene->node, &twins);
        }
        scene_pass(scene, SECONDS(1));
    }
    static const char *const changes[] = {
        "workflow_execution_queue SET error_code = 'no_money', error = 'the bank said no'",
        "workflow_executions SET error_code = 'no_money', error = 'the bank said no'",
        "workflow_execution_queue SET stuck_at = claimed_at, stuck_fence = fence"};
    static const char *const others[] = {"workflow_execution_queue SET error = 'nothing'",
                                         "workflow_executions SET error = 'nothing'"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char sql[256];
        (void)snprintf(sql, sizeof sql, "UPDATE %s WHERE id = '%s'", others[i], twins.ids[1]);
        json_decref(scene_rows(scene, sql));
    }
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        char sql[256];
        (void)snprintf(sql, sizeof sql, "UPDATE %s WHERE id = '%s'", changes[i], twins.ids[0]);
        json_decref(scene_rows(scene, sql));
    }
    if (kind == TWIN_FAILED || kind == TWIN_COMPLETED) {
        char sql[256];
        (void)snprintf(sql, sizeof sql, "UPDATE workflow_executions SET retry_of = '%s' WHERE id = '%s'", twins.ids[0],
                       twins.ids[1]);
        json_decref(scene_rows(scene, sql));
    }
    if (kind == TWIN_FAILED) {
        struct bulk_result dismissed = {0};
        struct execution_filter one = {.id = twins.ids[0]};
        scene_ok(scene, store_bulk(scene->store, BULK_DISMISS, &one, "", 1, &dismissed, &scene->error));
        assert_int_equal(dismissed.changed, 1);
    }
    return twins;
}

/* Newest first by a list, oldest first by an act that changes nothing: both find this one of the twins, and no other. */
static void assert_finds(struct scene *scene, struct execution_filter filter, unsigned states, const char *parent,
                         bool has_label, const char *id)
{
    struct list_options options = {.kind = LIST_EXECUTIONS, .limit = 10, .count = true};
    struct bulk_result result = {0};
    json_t *page = NULL;
    filter.states = states;
    filter.parent = parent;
    if (has_label) {
        filter.labels[0] = (struct label_condition){.name = "twin", .value = "yes"};
        filter.label_count = 1;
    }
    options.filter = filter;
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    assert_int_equal(json_array_size(json_object_get(page, "items")), 1);
    assert_string_equal(json_text_at(json_array_get(json_object_get(page, "items"), 0), "id"), id);
    json_decref(page);
    scene_ok(scene, store_bulk(scene->store, BULK_WAKE, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.matched, 1);
    assert_string_equal(result.last_id, id);
}

static void assert_each_condition(struct scene *scene, int kind, const struct twins *twins, unsigned states,
                                  const char *parent, bool has_label)
{
    bool has_ended = kind == TWIN_FAILED || kind == TWIN_COMPLETED;
    const struct {
        struct execution_filter filter;
        int found;
        bool is_left_out;
    } conditions[] = {
        {{.id = twins->ids[1]}, 1, false},
        {{.workspace = "free-co"}, 0, false},
        {{.workflow = "other"}, 0, false},
        {{.group = "batch"}, 0, false},
        {{.idempotency_key = twins->keys[1]}, 1, false},
        {{.error_code = "no_money"}, 0, false},
        {{.error_text = "bank"}, 0, false},
        {{.version = 1}, 0, false}, /* "hello" has two versions */
        {{.created_since_us = twins->created_us[1]}, 1, false},
        {{.created_before_us = twins->created_us[1]}, 0, false},
        {{.retried = CONDITION_YES}, 0, !has_ended},
        {{.retried = CONDITION_NO}, 1, !has_ended},
        {{.dismissed = CONDITION_YES}, 0, kind != TWIN_FAILED},
        {{.dismissed = CONDITION_NO}, 1, kind != TWIN_FAILED},
        {{.stuck = CONDITION_YES}, 0, kind != TWIN_HELD},
        {{.stuck = CONDITION_NO}, 1, kind != TWIN_HELD},
        {{.node = "node-2"}, 0, kind == TWIN_LIVING},
        {{.finished_before_us = twins->finished_us[1]}, 0, !has_ended},
        {{.longer_than_us = SECONDS(10), .as_of_us = 1}, 1, !has_ended},
        {{.shorter_than_us = SECONDS(20), .as_of_us = 1}, 0, !has_ended},
        /* The first one began when it was made, the second one a second later. */
        {{.longer_than_us = SECONDS(10), .as_of_us = twins->created_us[0] + SECONDS(11)}, 0, kind != TWIN_HELD},
        {{.shorter_than_us = SECONDS(11), .as_of_us = twins->created_us[0] + SECONDS(11)}, 1, kind != TWIN_HELD},
    };
    for (size_t i = 0; i < sizeof conditions / sizeof conditions[0]; i++) {
        if (!conditions[i].is_left_out) {
            assert_finds(scene, conditions[i].filter, states, parent, has_label, twins->ids[conditions[i].found]);
        }
    }
}

static void an_act_follows_one_value_of_a_label(void **state)
{
    struct scene *scene = *state;
    static const char *const labels[] = {"{\"size\":\"a\"}", "{\"size\":\"b\"}", "{\"size\":\"c\"}"};
    const char *ids[3];
    for (size_t i = 0; i < 3; i++) {
        ids[i] = scene_enqueue_request(
            scene, &(struct enqueue_request){.workspace = "pro-co", .workflow = "hello", .labels = labels[i]});
    }
    struct execution_filter filter = {.id = ids[0], .labels = {{.name = "size", .value = "b"}}, .label_count = 1};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.matched, 0); /* its value is a smaller one */
    filter.id = NULL;
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 10, &result, &scene->error));
    assert_int_equal(result.matched, 1);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(scene_status_of(scene, ids[i]), i == 1 ? "CANCELLED" : "PENDING");
    }
}

static void each_condition_holds_in_each_walk(void **state)
{
    static const unsigned states[] = {1U << ITEM_PENDING, 1U << ITEM_CLAIMED | 1U << ITEM_DISPATCHED, 1U << ITEM_FAILED,
                                      1U << ITEM_COMPLETED};
    struct scene *scene = *state;
    scene_group(scene, "batch");
    scene_publish(scene, "other", NULL);
    static const char second[] = "{\"name\":\"hello\",\"steps\":{\"two\":{\"exec\":[\"true\"]}}}";
    struct published published = {0};
    scene_ok(scene, store_publish(scene->store, "hello", NULL, second, NULL, &published, &scene->error));
    int64_t other_node = scene_add_node(scene, "node-2", "batch");
    const char *parent = scene_enqueue(scene, "big-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_CANCELLED, &item), WEIR_OK);
    for (int kind = TWIN_COMPLETED; kind >= TWIN_LIVING; kind--) { /* pending ones come last, or they would be claimed */
        scene_beat(scene, scene->node);
        scene_beat(scene, other_node);
        struct twins twins = make_twins(scene, kind, other_node);
        char sql[400];
        (void)snprintf(
            sql, sizeof sql,
            "INSERT INTO children (parent_id, step, position, child_id) VALUES ('%s', 's', %d, '%s'), ('%s', 's',"
            " %d, '%s')",
            parent, 2 * kind + 1, twins.ids[0], parent, 2 * kind + 2, twins.ids[1]);
        json_decref(scene_rows(scene, sql));
        assert_each_condition(scene, kind, &twins, states[kind], NULL, false);
        assert_each_condition(scene, kind, &twins, states[kind], parent, false);
        assert_each_condition(scene, kind, &twins, states[kind], NULL, true);
        if (kind == TWIN_HELD) { /* no item waits yet, so these are the same */
            assert_each_condition(scene, kind, &twins, states[kind] | 1U << ITEM_PENDING, NULL, false);
        }
    }
    json_decref(scene_rows(scene, "DELETE FROM children"));
}

/* --- a signal to many --- */

static struct bulk_result broadcast(struct scene *scene, const struct act_order *order, const char *where)
{
    struct bulk_result result = {0};
    struct execution_filter filter = {.id = NULL};
    scene_ok(scene, filter_parse(where, scene_now(scene), &scene->arena, &filter, &scene->error));
    scene_ok(scene, store_bulk_ordered(scene->store, BULK_SIGNAL, order, &filter, "", 100, &result, &scene->error));
    return result;
}

static void a_broadcast_reaches_each_execution_once(void **state)
{
    struct scene *scene = *state;
    struct published published;
    scene_ok(scene, store_publish(scene->store, "pay", NULL, "{\"name\":\"pay\",\"steps\":{\"one\":{\"signal\":\"paid\"}}}",
                                  NULL, &published, &scene->error));
    struct enqueue_request request = {.workspace = "pro-co", .workflow = "pay", .business_key = "order-17"};
    const char *first = scene_enqueue_request(scene, &request);
    const char *second = scene_enqueue_request(scene, &request);
    request.workspace = "free-co";
    const char *foreign = scene_enqueue_request(scene, &request);
    (void)enqueue_labelled(scene, "pro-co", "order-17", NULL); /* its workflow waits for no signal */
    struct act_order order = {.signal_name = "paid", .signal_data = "{\"sum\":1}", .signal_key = "payment-1"};
    struct bulk_result result = broadcast(scene, &order, "workspace=pro-co business_key=order-17");
    assert_int_equal(result.matched, 3);
    assert_int_equal(result.changed, 2);
    assert_int_equal(result.refused, 1);
    assert_int_equal(result.first_refusal, WEIR_INVALID_ARGUMENT);
    result = broadcast(scene, &order, "workspace=pro-co business_key=order-17");
    assert_int_equal(result.changed, 0);
    assert_int_equal(result.refused, 1);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM signals WHERE execution_id IN ('%s', '%s')", first, second),
                     2);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM signals WHERE execution_id = '%s'", foreign), 0);
    order.signal_data = "2";
    result = broadcast(scene, &order, "workspace=pro-co business_key=order-17");
    assert_int_equal(result.refused, 3);
    assert_int_equal(result.first_refusal, WEIR_IDEMPOTENCY_KEY_REUSED);
}

static void a_broadcast_needs_a_name_and_a_key(void **state)
{
    struct scene *scene = *state;
    struct bulk_result result = {0};
    struct execution_filter filter = {.workspace = "pro-co"};
    struct act_order order = {.signal_name = "paid"};
    assert_int_equal(store_bulk_ordered(scene->store, BULK_SIGNAL, &order, &filter, "", 10, &result, &scene->error),
                     WEIR_INVALID_ARGUMENT);
    order = (struct act_order){.signal_key = "k"};
    assert_int_equal(store_bulk_ordered(scene->store, BULK_SIGNAL, &order, &filter, "", 10, &result, &scene->error),
                     WEIR_INVALID_ARGUMENT);
    assert_int_equal(store_bulk(scene->store, BULK_SIGNAL, &filter, "", 10, &result, &scene->error), WEIR_INVALID_ARGUMENT);
}

static void a_broadcast_is_one_act_on_record(void **state)
{
    struct scene *scene = *state;
    struct published published;
    scene_ok(scene, store_publish(scene->store, "pay", NULL, "{\"name\":\"pay\",\"steps\":{\"one\":{\"signal\":\"paid\"}}}",
                                  NULL, &published, &scene->error));
    struct enqueue_request request = {.workspace = "pro-co", .workflow = "pay", .labels = "{\"tier\":\"gold\"}"};
    (void)scene_enqueue_request(scene, &request);
    (void)scene_enqueue_request(scene, &request);
    scene_ok(scene, store_act_as(scene->store, "eve", "the bank", &scene->error));
    struct act_order order = {.signal_name = "paid", .signal_key = "payment-1"};
    assert_int_equal(broadcast(scene, &order, "label.tier=gold").changed, 2);
    assert_int_equal(scene_number(scene, "SELECT affected FROM audit WHERE act = 'signal'"), 2);
    assert_string_equal(scene_text(scene, "SELECT subject FROM audit WHERE act = 'signal'"), "label.tier=gold");
    assert_non_null(strstr(scene_text(scene, "SELECT after FROM audit WHERE act = 'signal'"), "paid"));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM execution_events WHERE event = 'signal' AND actor = 'eve'"),
                     2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(an_execution_keeps_its_labels_after_its_end),
        SCENE_TEST(a_set_and_a_single_request_have_the_same_labels),
        SCENE_TEST(lists_find_living_and_ended_ones),
        SCENE_TEST(a_key_with_a_star_is_one_key),
        SCENE_TEST(acts_follow_labels),
        SCENE_TEST(a_retry_keeps_labels_and_business_key),
        SCENE_TEST(purged_executions_leave_no_labels),
        SCENE_TEST(an_erased_workspace_leaves_no_labels),
        SCENE_TEST(definitions_give_labels_and_callers_go_before),
        SCENE_TEST(wrong_labels_are_refused),
        SCENE_TEST(lists_by_node_version_duration_and_error),
        SCENE_TEST(a_parent_and_a_label_are_both_conditions),
        SCENE_TEST(an_act_follows_one_value_of_a_label),
        SCENE_TEST(each_condition_holds_in_each_walk),
        SCENE_TEST(a_broadcast_reaches_each_execution_once),
        SCENE_TEST(a_broadcast_needs_a_name_and_a_key),
        SCENE_TEST(a_broadcast_is_one_act_on_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
