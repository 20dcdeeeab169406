/* store_list, store_show, store_status and the views that people query. */
#include "conformance/scene.h"

enum { PAGED = 137 };

static json_t *list(struct scene *scene, const struct list_options *options)
{
    json_t *page = NULL;
    scene_ok(scene, store_list(scene->store, options, &page, &scene->error));
    assert_true(json_is_array(json_object_get(page, "items")));
    return page;
}

/* --- views --- */

static void the_view_executions_has_the_promised_columns(void **state)
{
    struct scene *scene = *state;
    (void)scene_enqueue(scene, "pro-co");
    json_t *rows = scene_rows(
        scene, "SELECT id, workspace, workflow, version, status, pending_reason, priority, run_at, starts_refused,"
               " deferrals, handovers, node, fence, error_code, error, created_at, claimed_at,"
               " dispatched_at, finished_at FROM executions");
    const json_t *row = json_array_get(rows, 0);
    assert_string_equal(json_text_at(row, "workflow"), "hello");
    assert_int_equal(json_number_at(row, "version"), 1);
    assert_true(json_is_null(json_object_get(row, "claimed_at")));
    assert_true(json_is_null(json_object_get(row, "node")));
    json_decref(rows);
    struct claimed_item item = scene_claim_one(scene);
    assert_string_equal(scene_text(scene, "SELECT id FROM executions"), item.id);
    assert_string_equal(scene_text(scene, "SELECT node FROM executions"), "node-1");
}

static void the_view_shows_live_and_ended_ones_alike(void **state)
{
    struct scene *scene = *state;
    const char *ended = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    const char *live = scene_enqueue(scene, "pro-co");
    assert_string_equal(scene_status_of(scene, ended), "COMPLETED");
    assert_null(scene_reason_of(scene, ended));
    assert_string_equal(scene_status_of(scene, live), "PENDING");
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 2);
}

static void the_view_execution_events_tells_the_story_in_order(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    scene_pass(scene, SECONDS(1));
    struct claimed_item item = scene_claim_one(scene);
    scene_pass(scene, SECONDS(1));
    assert_int_equal(scene_record(scene, RECORD_RETRY, &item), WEIR_OK);
    scene_pass(scene, SECONDS(1));
    item = scene_claim_one(scene);
    scene_pass(scene, SECONDS(1));
    assert_int_equal(scene_record(scene, RECORD_DISPATCHED, &item), WEIR_OK);
    scene_pass(scene, SECONDS(1));
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    struct list_options options = {.kind = LIST_EVENTS, .filter = {.id = id}};
    json_t *page = list(scene, &options);
    const json_t *items = json_object_get(page, "items");
    static const char *const story[] = {"enqueue", "claim", "retry", "claim", "dispatch", "complete"};
    assert_int_equal(json_array_size(items), 6);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(json_text_at(json_array_get(items, i), "event"), story[i]);
        assert_true(i == 0 || strcmp(json_text_at(json_array_get(items, i - 1), "at"),
                                     json_text_at(json_array_get(items, i), "at")) <= 0);
    }
    json_decref(page);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM execution_events WHERE execution_id = '%s'", id), 6);
}

/* --- lists --- */

static void pages_miss_and_repeat_nothing_under_concurrent_inserts(void **state)
{
    struct scene *scene = *state;
    char *seen[PAGED + 1] = {NULL};
    size_t count = 0;
    scene_enqueue_many(scene, "big-co", PAGED);
    json_t *all = scene_rows(scene, "SELECT id FROM executions ORDER BY id DESC");
    struct list_options options = {.kind = LIST_EXECUTIONS, .limit = 10};
    char cursor[200] = "";
    do {
        options.cursor = cursor[0] == '\0' ? NULL : cursor;
        json_t *page = list(scene, &options);
        const json_t *items = json_object_get(page, "items");
        for (size_t i = 0; i < json_array_size(items) && count < PAGED; i++) {
            seen[count++] = strdup(json_text_at(json_array_get(items, i), "id"));
        }
        const json_t *next = json_object_get(page, "next_cursor");
        text_copy(cursor, sizeof cursor, json_is_string(next) ? json_string_value(next) : "");
        json_decref(page);
        scene_enqueue_many(scene, "big-co", 3); /* newer ones: before the first page */
        struct claim_result claim = scene_claim(scene, 2);
        scene_complete(scene, &claim); /* and some move to the history meanwhile */
    } while (cursor[0] != '\0' && count < PAGED);
    assert_int_equal(count, PAGED);
    for (size_t i = 0; i < PAGED; i++) {
        assert_string_equal(seen[i], json_text_at(json_array_get(all, i), "id"));
        free(seen[i]);
    }
    json_decref(all);
}

static size_t matches(struct scene *scene, const struct execution_filter *filter)
{
    struct list_options options = {.kind = LIST_EXECUTIONS, .filter = *filter, .limit = LIST_LIMIT_MOST, .count = true};
    json_t *page = list(scene, &options);
    size_t count = json_array_size(json_object_get(page, "items"));
    assert_int_equal(json_number_at(page, "count"), count);
    assert_true(json_is_true(json_object_get(page, "count_is_exact")));
    assert_true(json_is_null(json_object_get(page, "next_cursor")));
    json_decref(page);
    return count;
}

static void every_filter_finds_what_it_names(void **state)
{
    struct scene *scene = *state;
    scene_group(scene, "batch");
    scene_publish(scene, "other", NULL);
    int64_t start_us = scene_now(scene);
    scene_enqueue_many(scene, "free-co", 3);
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_FAILED, &item), WEIR_OK);
    struct claimed_item running = scene_claim_one(scene);
    scene_pass(scene, SECONDS(10));
    scene_beat(scene, scene->node); /* what waits is not waiting for a node */
    (void)scene_enqueue_request(
        scene, &(struct enqueue_request){
                   .workspace = "pro-co", .workflow = "other", .group = "batch", .idempotency_key = "key-1"});
    assert_int_equal(matches(scene, &(struct execution_filter){.id = NULL}), 4);
    assert_int_equal(matches(scene, &(struct execution_filter){.workspace = "free-co"}), 3);
    assert_int_equal(matches(scene, &(struct execution_filter){.workflow = "other"}), 1);
    assert_int_equal(matches(scene, &(struct execution_filter){.group = "batch"}), 1);
    assert_int_equal(matches(scene, &(struct execution_filter){.states = 1U << ITEM_FAILED}), 1);
    assert_int_equal(matches(scene, &(struct execution_filter){.states = (1U << ITEM_FAILED) | (1U << ITEM_CLAIMED)}), 2);
    assert_int_equal(matches(scene, &(struct execution_filter){.reason = "workspace_at_capacity"}), 1);
    assert_int_equal(matches(scene, &(struct execution_filter){.error_code = "test_error"}), 1);
    assert_int_equal(matches(scene, &(struct execution_filter){.idempotency_key = "key-1"}), 1);
    assert_int_equal(matches(scene, &(struct execution_filter){.created_since_us = start_us + SECONDS(5)}), 1);
    assert_int_equal(matches(scene, &(struct execution_filter){.created_before_us = start_us + SECONDS(5)}), 3);
    assert_int_equal(matches(scene, &(struct execution_filter){.finished_before_us = scene_now(scene) + 1}), 1);
    assert_int_equal(matches(scene, &(struct execution_filter){.id = running.id}), 1);
    assert_int_equal(matches(scene, &(struct execution_filter){.workspace = "free-co", .states = 1U << ITEM_COMPLETED}), 0);
}

static void a_filter_is_data_and_never_code(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "pro-co", 3);
    static const char *const strings[] = {"' OR 1=1 --", "%", "_", "\\", "pro%", "\xF0\x9F\x98\x80", "*", ""};
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
        struct list_options options = {.kind = LIST_EXECUTIONS,
                                       .filter = {.idempotency_key = strings[i], .error_code = strings[i]}};
        json_t *page = NULL;
        if (store_list(scene->store, &options, &page, &scene->error) == WEIR_OK) {
            assert_int_equal(json_array_size(json_object_get(page, "items")), 0);
            json_decref(page);
        }
    }
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 3);
}

static void a_limit_and_a_cursor_are_checked(void **state)
{
    struct scene *scene = *state;
    scene_enqueue_many(scene, "pro-co", 60);
    struct list_options options = {.kind = LIST_EXECUTIONS};
    json_t *page = list(scene, &options);
    assert_int_equal(json_array_size(json_object_get(page, "items")), LIST_LIMIT_DEFAULT);
    json_decref(page);
    page = NULL;
    options.limit = LIST_LIMIT_MOST + 1;
    enum weir_status status = store_list(scene->store, &options, &page, &scene->error);
    assert_true(status == WEIR_INVALID_ARGUMENT || status == WEIR_OK);
    json_decref(page);
    page = NULL;
    options.limit = 10;
    options.cursor = "no cursor";
    assert_int_equal(store_list(scene->store, &options, &page, &scene->error), WEIR_INVALID_ARGUMENT);
    assert_null(page);
    options.cursor = NULL;
    page = list(scene, &options);
    char cursor[UUID_TEXT_MAX + 1];
    text_copy(cursor, sizeof cursor, json_text_at(page, "next_cursor"));
    json_decref(page);
    page = NULL;
    for (char *c = cursor; *c != '\0'; c++) { /* an id is the same in any case */
        *c = (char)(*c >= 'a' && *c <= 'f' ? *c - 'a' + 'A' : *c);
    }
    options.cursor = cursor;
    page = list(scene, &options);
    assert_int_equal(json_array_size(json_object_get(page, "items")), 10);
    json_decref(page);
    page = NULL;
    cursor[UUID_TEXT_MAX - 1] = '0'; /* one character behind the id */
    cursor[UUID_TEXT_MAX] = '\0';
    assert_int_equal(store_list(scene->store, &options, &page, &scene->error), WEIR_INVALID_ARGUMENT);
    assert_null(page);
}

static void every_kind_of_list_answers(void **state)
{
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_STEP, &item), WEIR_OK);
    struct lock_request lock = {.name = "a-lock", .holder = "me", .at_most_us = 1000};
    scene_ok(scene, store_lock(scene->store, &lock, &scene->error));
    static const size_t expected[] = {
        [LIST_EXECUTIONS] = 1, [LIST_EVENTS] = 3,    [LIST_STEPS] = 1, [LIST_ACTIONS] = 0, [LIST_WORKSPACES] = 3,
        [LIST_PLANS] = 3,      [LIST_WORKFLOWS] = 1, [LIST_NODES] = 1, [LIST_LOCKS] = 1,   [LIST_GROUPS] = 1};
    for (int kind = LIST_EXECUTIONS; kind <= LIST_GROUPS; kind++) {
        struct list_options options = {.kind = (enum store_list_kind)kind};
        options.filter.id = kind <= LIST_ACTIONS ? id : NULL;
        json_t *page = list(scene, &options);
        if (json_array_size(json_object_get(page, "items")) != expected[kind]) {
            fail_msg("list %d has %zu items", kind, json_array_size(json_object_get(page, "items")));
        }
        assert_non_null(json_object_get(page, "next_cursor"));
        json_decref(page);
    }
}

static void a_list_by_name_finds_one(void **state)
{
    struct scene *scene = *state;
    static const struct {
        enum store_list_kind kind;
        const char *name;
    } wanted[] = {{LIST_PLANS, "pro"}, {LIST_WORKSPACES, "pro-co"}, {LIST_WORKFLOWS, "hello"}, {LIST_NODES, "node-1"}};
    for (size_t i = 0; i < 4; i++) {
        struct list_options options = {.kind = wanted[i].kind, .name = wanted[i].name};
        json_t *page = list(scene, &options);
        assert_int_equal(json_array_size(json_object_get(page, "items")), 1);
        assert_string_equal(json_text_at(json_array_get(json_object_get(page, "items"), 0), "name"), wanted[i].name);
        json_decref(page);
        options.name = "no-such-name";
        page = NULL;
        enum weir_status status = store_list(scene->store, &options, &page, &scene->error);
        assert_true(status != WEIR_OK || json_array_size(json_object_get(page, "items")) == 0);
        json_decref(page);
    }
}

static size_t workflows_of(struct scene *scene, const char *workspace, const char *name)
{
    struct list_options options = {.kind = LIST_WORKFLOWS, .name = name, .filter.workspace = workspace};
    json_t *page = list(scene, &options);
    size_t count = json_array_size(json_object_get(page, "items"));
    json_decref(page);
    return count;
}

static void a_list_of_workflows_has_those_that_the_workspace_may_run(void **state)
{
    struct scene *scene = *state;
    (void)scene_publish(scene, "private", "big-co");
    assert_int_equal(workflows_of(scene, NULL, NULL), 2);
    assert_int_equal(workflows_of(scene, "big-co", NULL), 2); /* with hello, which is of all */
    assert_int_equal(workflows_of(scene, "pro-co", NULL), 1);
    assert_int_equal(workflows_of(scene, "pro-co", "private"), 0);
    assert_int_equal(workflows_of(scene, "pro-co", "hello"), 1);
    assert_int_equal(workflows_of(scene, "big-co", "private"), 1);
}

static void a_list_of_workspaces_pages_through_all_of_them(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < 25; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "w-%d", i);
        scene_workspace(scene, name, "free");
    }
    size_t count = 0;
    char cursor[200] = "";
    do {
        struct list_options options = {.kind = LIST_WORKSPACES, .limit = 10, .cursor = cursor[0] == '\0' ? NULL : cursor};
        json_t *page = list(scene, &options);
        count += json_array_size(json_object_get(page, "items"));
        const json_t *next = json_object_get(page, "next_cursor");
        text_copy(cursor, sizeof cursor, json_is_string(next) ? json_string_value(next) : "");
        json_decref(page);
    } while (cursor[0] != '\0' && count < 100);
    assert_int_equal(count, 28);
}

/* The names of the page, each followed by a space; `ret_next` gets its cursor. */
static void read_prefix(struct scene *scene, const char *prefix, const char *cursor, char *ret_names, char *ret_next)
{
    struct list_options options = {.kind = LIST_WORKSPACES, .prefix = prefix, .limit = 2, .cursor = cursor};
    json_t *page = list(scene, &options);
    size_t i;
    json_t *row;
    ret_names[0] = '\0';
    json_array_foreach(json_object_get(page, "items"), i, row)
    {
        (void)snprintf(ret_names + strlen(ret_names), 200 - strlen(ret_names), "%s ", json_text_at(row, "name"));
    }
    const json_t *next = json_object_get(page, "next_cursor");
    text_copy(ret_next, 200, json_is_string(next) ? json_string_value(next) : "");
    json_decref(page);
}

static void a_list_of_workspaces_has_those_of_a_prefix(void **state)
{
    struct scene *scene = *state;
    static const char *const names[] = {"acm", "acme",       "acme-1",     "acme_%",   "Acme-2", "acmf",
                                        "a%c", "\xc3\xa4-1", "\xc3\xa4-2", "\xc3\xa5", "zacme",  "acme\xf4\x8f\xbf\xbe"};
    static const struct {
        const char *prefix;
        const char *cursor;
        const char *names;
        const char *next;
    } pages[] = {
        {"acme", NULL, "acme acme-1 ", "acme-1"},
        {"acme", "acme-1", "acme_% acme\xf4\x8f\xbf\xbe ", ""},
        {"acme", "a", "acme acme-1 ", "acme-1"}, /* a cursor before the prefix */
        {"acme", "b", "", ""},
        {"acme_", NULL, "acme_% ", ""}, /* no pattern */
        {"a%", NULL, "a%c ", ""},
        {"Acme", NULL, "Acme-2 ", ""}, /* of the same case */
        {"\xc3\xa4", NULL, "\xc3\xa4-1 \xc3\xa4-2 ", ""},
        {"zacme-and-more", NULL, "", ""},
        {"", "zacme", "\xc3\xa4-1 \xc3\xa4-2 ", "\xc3\xa4-2"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        scene_workspace(scene, names[i], "free");
    }
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        char found[200];
        char next[200];
        read_prefix(scene, pages[i].prefix, pages[i].cursor, found, next);
        assert_string_equal(found, pages[i].names);
        assert_string_equal(next, pages[i].next);
    }
}

static void a_prefix_that_no_name_can_have_is_refused(void **state)
{
    struct scene *scene = *state;
    char long_prefix[WORKSPACE_NAME_MAX + 2];
    memset(long_prefix, 'a', sizeof long_prefix - 1);
    long_prefix[sizeof long_prefix - 1] = '\0';
    const char *const prefixes[] = {long_prefix, "\xff", "a\xc3"};
    for (size_t i = 0; i < 3; i++) {
        struct list_options options = {.kind = LIST_WORKSPACES, .prefix = prefixes[i]};
        json_t *page = NULL;
        assert_int_equal(store_list(scene->store, &options, &page, &scene->error), WEIR_INVALID_ARGUMENT);
        assert_null(page);
    }
    long_prefix[WORKSPACE_NAME_MAX] = '\0';
    struct list_options options = {.kind = LIST_WORKSPACES, .prefix = long_prefix};
    json_t *page = list(scene, &options);
    assert_int_equal(json_array_size(json_object_get(page, "items")), 0);
    json_decref(page);
}

/* --- show --- */

static void show_has_params_steps_and_events(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = {.workspace = "pro-co",
                                      .workflow = "hello",
                                      .params = "{\"a\":[1,\"\\u0000\"]}",
                                      .params_length = strlen("{\"a\":[1,\"\\u0000\"]}"),
                                      .idempotency_key = "key-1"};
    const char *id = scene_enqueue_request(scene, &request);
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_STEP, &item), WEIR_OK);
    json_t *shown = NULL;
    scene_ok(scene, store_show(scene->store, id, &shown, &scene->error));
    const json_t *array = json_object_get(json_object_get(shown, "params"), "a");
    assert_int_equal(json_string_length(json_array_get(array, 1)), 1);
    assert_int_equal(json_array_size(json_object_get(shown, "steps")), 1);
    assert_true(json_array_size(json_object_get(shown, "events")) >= 2);
    assert_string_equal(json_text_at(shown, "idempotency_key"), "key-1");
    assert_int_equal(json_text_at(shown, "created_at")[10], 'T');
    json_decref(shown);
}

/* Page by page, each event once and in order; show has the last ones and the number of earlier ones. */
static void a_long_story_is_read_by_pages(void **state)
{
    enum { RELEASES = 60, PAGE = 7 };
    struct scene *scene = *state;
    const char *id = scene_enqueue(scene, "pro-co");
    for (int i = 0; i < RELEASES; i++) {
        struct claimed_item item = scene_claim_one(scene);
        assert_int_equal(scene_record(scene, RECORD_PUT_BACK, &item), WEIR_OK);
    }
    struct list_options all = {.kind = LIST_EVENTS, .filter = {.id = id}, .limit = LIST_LIMIT_MOST};
    json_t *whole = list(scene, &all);
    const json_t *events = json_object_get(whole, "items");
    size_t count = json_array_size(events);
    assert_true(count > SHOW_EVENTS_MOST);
    assert_true(json_is_null(json_object_get(whole, "next_cursor")));
    struct list_options part = {.kind = LIST_EVENTS, .filter = {.id = id}, .limit = PAGE};
    json_t *page = NULL;
    size_t read = 0;
    do {
        json_t *next = list(scene, &part);
        json_decref(page);
        page = next;
        size_t i;
        json_t *event;
        json_array_foreach(json_object_get(page, "items"), i, event)
        {
            assert_true(json_equal(event, json_array_get(events, read)));
            read++;
        }
        part.cursor = json_string_value(json_object_get(page, "next_cursor"));
    } while (part.cursor != NULL);
    assert_int_equal(read, count);
    json_decref(page);
    json_t *shown = NULL;
    scene_ok(scene, store_show(scene->store, id, &shown, &scene->error));
    const json_t *last = json_object_get(shown, "events");
    assert_int_equal(json_array_size(last), SHOW_EVENTS_MOST);
    assert_int_equal(json_integer_value(json_object_get(shown, "earlier_events")), count - SHOW_EVENTS_MOST);
    assert_true(json_equal(json_array_get(last, SHOW_EVENTS_MOST - 1), json_array_get(events, count - 1)));
    json_decref(shown);
    json_decref(whole);
    json_t *none = NULL;
    static const char *const bad[] = {"x", "-1", " 1", "1x", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        part.cursor = bad[i];
        assert_int_equal(store_list(scene->store, &part, &none, &scene->error), WEIR_INVALID_ARGUMENT);
    }
}

static void show_takes_the_beginning_of_an_id(void **state)
{
    struct scene *scene = *state;
    struct enqueue_request request = {
        .workspace = "pro-co", .workflow = "hello", .id = "0198c2f1-0000-7000-8000-000000000001"};
    (void)scene_enqueue_request(scene, &request);
    request.id = "0198c2f2-0000-7000-8000-000000000002";
    (void)scene_enqueue_request(scene, &request);
    json_t *shown = NULL;
    scene_ok(scene, store_show(scene->store, "0198c2f2", &shown, &scene->error));
    assert_string_equal(json_text_at(shown, "id"), request.id);
    json_decref(shown);
    shown = NULL;
    assert_int_not_equal(store_show(scene->store, "0198c2", &shown, &scene->error), WEIR_OK); /* two of them */
    assert_true(strstr(scene->error.message, "2") != NULL || strstr(scene->error.message, "several") != NULL ||
                strstr(scene->error.message, "more than one") != NULL);
    assert_int_equal(store_show(scene->store, "0198", &shown, &scene->error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(store_show(scene->store, "0198c2f3", &shown, &scene->error), WEIR_EXECUTION_NOT_FOUND);
    assert_int_equal(store_show(scene->store, "%%%%%%", &shown, &scene->error), WEIR_INVALID_ARGUMENT);
    assert_null(shown);
}

/* --- status --- */

static void assert_status(struct scene *scene, int pending, int slots, int completed, int failed, int cancelled)
{
    json_t *status = NULL;
    scene_ok(scene, store_status(scene->store, 10, &status, &scene->error));
    assert_int_equal(json_number_at(status, "pending"), pending);
    assert_int_equal(json_number_at(status, "slots_used"), slots);
    assert_int_equal(json_number_at(status, "completed"), completed);
    assert_int_equal(json_number_at(status, "failed"), failed);
    assert_int_equal(json_number_at(status, "cancelled"), cancelled);
    json_decref(status);
}

static void counters_follow_every_move(void **state)
{
    struct scene *scene = *state;
    assert_status(scene, 0, 0, 0, 0, 0);
    scene_enqueue_many(scene, "big-co", 6);
    assert_status(scene, 6, 0, 0, 0, 0);
    struct claim_result claim = scene_claim(scene, 5);
    assert_status(scene, 1, 5, 0, 0, 0);
    assert_int_equal(scene_record(scene, RECORD_PUT_BACK, &claim.items[0]), WEIR_OK);
    assert_status(scene, 2, 4, 0, 0, 0);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &claim.items[1]), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_FAILED, &claim.items[2]), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_CANCELLED, &claim.items[3]), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &claim.items[4]), WEIR_OK);
    assert_status(scene, 2, 1, 1, 1, 1);
    struct execution_filter filter = {.states = 1U << ITEM_PENDING};
    struct bulk_result result = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_CANCEL, &filter, "", 100, &result, &scene->error));
    assert_status(scene, 0, 1, 1, 1, 3);
}

static const json_t *group_of(const json_t *status, const char *name)
{
    size_t i;
    json_t *group;
    json_array_foreach(json_object_get(status, "executor_groups"), i, group)
    {
        if (strcmp(json_text_at(group, "name"), name) == 0) {
            return group;
        }
    }
    return NULL;
}

static void status_knows_each_group(void **state)
{
    struct scene *scene = *state;
    json_t *status = NULL;
    scene_group(scene, "batch");
    scene_group(scene, "later");
    (void)scene_enqueue_request(scene,
                                &(struct enqueue_request){.workspace = "big-co", .workflow = "hello", .group = "batch"});
    scene_pass(scene, SECONDS(5));
    scene_enqueue_many(scene, "pro-co", 2);
    scene_pass(scene, SECONDS(3));
    (void)scene_enqueue_request(scene,
                                &(struct enqueue_request){.workspace = "pro-co", .workflow = "hello", .group = "batch"});
    (void)scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "big-co",
                                                                 .workflow = "hello",
                                                                 .group = "later",
                                                                 .run_at_us = scene_now(scene) + SECONDS(9)});
    scene_ok(scene, store_set_paused(scene->store, "batch", true, &scene->error));
    scene_ok(scene, store_status(scene->store, 10, &status, &scene->error));
    static const struct {
        const char *name;
        int pending;
        int64_t age_us;
    } wanted[] = {{"default", 2, SECONDS(3)}, {"batch", 2, SECONDS(8)}, {"later", 1, 0}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const json_t *group = group_of(status, wanted[i].name);
        assert_non_null(group);
        assert_int_equal(json_number_at(group, "pending"), wanted[i].pending);
        assert_int_equal(json_is_true(json_object_get(group, "paused")), i == 1);
        assert_int_equal(json_integer_value(json_object_get(group, "oldest_pending_age_us")) / SECONDS(1),
                         wanted[i].age_us / SECONDS(1));
    }
    /* Of a workspace in two groups the older one counts. */
    const json_t *workspaces = json_object_get(status, "workspaces");
    for (size_t i = 0; i < json_array_size(workspaces); i++) {
        const json_t *workspace = json_array_get(workspaces, i);
        if (strcmp(json_text_at(workspace, "name"), "pro-co") == 0) {
            assert_int_equal(json_number_at(workspace, "oldest_pending_age_us") / SECONDS(1), 3);
        }
    }
    json_decref(status);
}

static void status_knows_age_pauses_nodes_and_pressure(void **state)
{
    struct scene *scene = *state;
    json_t *status = NULL;
    (void)scene_enqueue(scene, "free-co");
    (void)scene_claim_one(scene); /* a held one is not pending */
    scene_pass(scene, SECONDS(10));
    scene_enqueue_many(scene, "free-co", 20);
    scene_enqueue_many(scene, "big-co", 2);
    scene_pass(scene, SECONDS(5));
    scene_ok(scene, store_set_paused(scene->store, NULL, true, &scene->error));
    scene_ok(scene, store_status(scene->store, 1, &status, &scene->error));
    assert_int_equal(json_number_at(status, "oldest_pending_age_us"), SECONDS(5));
    assert_true(json_is_true(json_object_get(status, "queue_paused")));
    assert_int_equal(json_number_at(status, "nodes"), 1);
    assert_true(json_number_at(status, "schema") >= 1);
    const json_t *workspaces = json_object_get(status, "workspaces");
    assert_int_equal(json_array_size(workspaces), 1);
    assert_string_equal(json_text_at(json_array_get(workspaces, 0), "name"), "free-co");
    json_decref(status);
    scene_pass(scene, SCENE_LEASE_US + 1); /* its node is silent */
    scene_ok(scene, store_status(scene->store, 1, &status, &scene->error));
    assert_int_equal(json_number_at(status, "nodes"), 0);
    json_decref(status);
}

static json_int_t number_of(const json_t *status, const char *workspace, const char *field)
{
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(status, "workspaces"), i, row)
    {
        if (strcmp(json_text_at(row, "name"), workspace) == 0) {
            return json_number_at(row, field);
        }
    }
    fail_msg("status has no workspace %s", workspace);
    return -1;
}

static void status_counts_what_waits_by_its_reason(void **state)
{
    struct scene *scene = *state;
    json_t *status = NULL;
    scene_workspace(scene, "idle-co", "free");
    scene_enqueue_many(scene, "free-co", 4);
    struct claimed_item holder = scene_claim_one(scene);
    scene_enqueue_many(scene, "pro-co", 2);
    struct claim_result taken = scene_claim(scene, 10);
    struct record retry = scene_record_of(RECORD_RETRY, &taken.items[0]);
    retry.delay_us = SECONDS(60);
    assert_int_equal(scene_record_full(scene, scene->node, retry), WEIR_OK);
    assert_int_equal(scene_record(scene, RECORD_GIVEN_BACK, &taken.items[1]), WEIR_OK);
    scene_enqueue_many(scene, "big-co", 3);
    scene_pause_workspace(scene, "big-co", true);
    (void)scene_enqueue_request(
        scene,
        &(struct enqueue_request){.workspace = "pro-co", .workflow = "hello", .run_at_us = scene_now(scene) + SECONDS(9)});
    scene_enqueue_many(scene, "pro-co", 1);
    scene_ok(scene, store_status(scene->store, 10, &status, &scene->error));
    const json_t *reasons = json_object_get(status, "pending_reasons");
    assert_int_equal(json_object_size(reasons), PENDING_REASON_COUNT);
    assert_int_equal(json_number_at(reasons, "workspace_at_capacity"), 3);
    assert_int_equal(json_number_at(reasons, "backing_off"), 1);
    assert_int_equal(json_number_at(reasons, "handed_over"), 1);
    assert_int_equal(json_number_at(reasons, "workspace_paused"), 3);
    assert_int_equal(json_number_at(reasons, "scheduled"), 1);
    assert_int_equal(json_number_at(reasons, "ready"), 1);
    assert_int_equal(number_of(status, "idle-co", "delayed"), 0);
    assert_int_equal(number_of(status, "pro-co", "pending"), 3); /* ready, scheduled and backing off */
    json_decref(status);
    scene_ok(scene, store_set_paused(scene->store, NULL, true, &scene->error));
    scene_ok(scene, store_status(scene->store, 10, &status, &scene->error));
    assert_int_equal(json_number_at(json_object_get(status, "pending_reasons"), "ready"), 0);
    json_decref(status);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &holder), WEIR_OK);
}

static json_t *scheduler_of(struct scene *scene)
{
    json_t *status = NULL;
    scene_ok(scene, store_status(scene->store, 1, &status, &scene->error));
    json_t *scheduler = json_incref(json_object_get(status, "scheduler"));
    assert_non_null(scheduler);
    json_decref(status);
    return scheduler;
}

static void status_knows_the_scheduler(void **state)
{
    struct scene *scene = *state;
    char since[TIME_TEXT_MAX];
    int64_t epoch = 0;
    int64_t second = scene_add_node(scene, "node-2", "default");
    scene_pass(scene, SECONDS(2));
    scene_ok(scene, take_role(scene->store, second, &epoch, &scene->error));
    time_format(scene_now(scene), since);
    json_t *scheduler = scheduler_of(scene);
    assert_string_equal(json_text_at(scheduler, "node"), "node-2");
    assert_int_equal(json_number_at(scheduler, "node_id"), second);
    assert_int_equal(json_number_at(scheduler, "epoch"), epoch);
    assert_string_equal(json_text_at(scheduler, "taken_at"), since);
    assert_true(strcmp(json_text_at(scheduler, "expires_at"), since) > 0);
    assert_true(json_is_false(json_object_get(scheduler, "is_free")));
    assert_true(json_number_at(scheduler, "takeovers_hour") >= 1);
    assert_true(json_number_at(scheduler, "lag_us") >= 0);
    json_decref(scheduler);
    struct role_state role;
    struct role_request leave = {.act = ROLE_LEAVE, .node_id = second, .epoch = epoch};
    scene_ok(scene, store_role(scene->store, &leave, &role, &scene->error));
    scheduler = scheduler_of(scene);
    assert_true(json_is_null(json_object_get(scheduler, "node")));
    assert_true(json_is_true(json_object_get(scheduler, "is_free")));
    json_decref(scheduler);
}

/* The age of the oldest entry that the books do not have. */
static void status_knows_how_far_the_books_lag(void **state)
{
    struct scene *scene = *state;
    struct claimer *claimer = NULL;
    struct work_ahead work;
    scene_ok(scene, claimer_open(scene->store, scene->node, &claimer, &scene->error));
    for (int round = 0; round < 2; round++) {
        scene_ok(scene, claimer_look(claimer, &work, &scene->error));
        scene_ok(scene, claimer_publish(claimer, &scene->error));
        json_t *scheduler = scheduler_of(scene);
        assert_int_equal(json_number_at(scheduler, "lag_us"), 0);
        json_decref(scheduler);
        (void)scene_enqueue(scene, "pro-co");
        scene_pass(scene, SECONDS(4));
        (void)scene_enqueue(scene, "pro-co");
        scheduler = scheduler_of(scene);
        assert_in_range(json_number_at(scheduler, "lag_us"), SECONDS(4), SECONDS(5));
        json_decref(scheduler);
    }
    claimer_close(claimer);
}

/* --- rows that something else has removed --- */

static void assert_found(struct scene *scene, const char *id, const char *status)
{
    struct list_options options = {.kind = LIST_EXECUTIONS, .filter = {.id = id}};
    json_t *shown = NULL;
    json_t *page = list(scene, &options);
    assert_int_equal(json_array_size(json_object_get(page, "items")), 1);
    assert_string_equal(json_text_at(json_array_get(json_object_get(page, "items"), 0), "status"), status);
    json_decref(page);
    scene_ok(scene, store_show(scene->store, id, &shown, &scene->error));
    assert_string_equal(json_text_at(shown, "status"), status);
    json_decref(shown);
    assert_string_equal(scene_status_of(scene, id), status);
}

static void an_item_without_its_workspace_or_definition_is_found(void **state)
{
    struct scene *scene = *state;
    scene_workspace(scene, "lost-co", "pro");
    (void)scene_publish(scene, "lost", NULL);
    const char *no_workspace = scene_enqueue(scene, "lost-co");
    const char *no_workflow =
        scene_enqueue_request(scene, &(struct enqueue_request){.workspace = "pro-co", .workflow = "lost"});
    int64_t definition =
        scene_number(scene, "SELECT definition_id FROM workflow_execution_queue WHERE id = '%s'", no_workflow);
    json_decref(scene_rows(scene, "DELETE FROM workspaces WHERE name = 'lost-co'"));
    json_decref(scene_rows(scene, "DELETE FROM workflow_definitions WHERE name = 'lost'"));
    assert_found(scene, no_workspace, "PENDING");
    assert_found(scene, no_workflow, "PENDING");
    struct claimed_item item = scene_claim_one(scene); /* its node fails it, because it cannot read the definition */
    assert_string_equal(item.id, no_workflow);
    assert_int_equal(item.definition_id, definition);
    assert_int_equal(scene_record(scene, RECORD_REFUSED, &item), WEIR_OK);
    assert_found(scene, no_workspace, "FAILED");
    assert_found(scene, no_workflow, "FAILED");
    struct execution_filter all = {.finished_before_us = scene_now(scene) + 1}; /* the check reports rows without theirs */
    struct bulk_result purged = {0};
    scene_ok(scene, store_bulk(scene->store, BULK_PURGE, &all, "", 10, &purged, &scene->error));
    assert_int_equal(purged.changed, 2);
}

static void the_living_of_many_executions_are_found_at_once(void **state)
{
    struct scene *scene = *state;
    char ids[3][UUID_TEXT_MAX];
    bool is_living[3] = {false, false, false};
    text_copy(ids[0], UUID_TEXT_MAX, scene_enqueue(scene, "pro-co"));
    struct claimed_item item = scene_claim_one(scene);
    text_copy(ids[1], UUID_TEXT_MAX, "01a215fd-f18a-7002-b43c-a0d8f870aebd"); /* never enqueued */
    text_copy(ids[2], UUID_TEXT_MAX, scene_enqueue(scene, "free-co"));
    const char *const asked[] = {ids[0], ids[1], ids[2]};
    scene_ok(scene, store_find_living(scene->store, asked, 3, is_living, &scene->error));
    assert_true(is_living[0]);
    assert_false(is_living[1]);
    assert_true(is_living[2]);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    scene_ok(scene, store_find_living(scene->store, asked, 3, is_living, &scene->error));
    assert_false(is_living[0]);
    assert_true(is_living[2]);
    scene_ok(scene, store_find_living(scene->store, asked, 0, is_living, &scene->error));
    const char *const part[] = {ids[2], "01a215"};
    assert_int_equal(store_find_living(scene->store, part, 2, is_living, &scene->error), WEIR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(the_view_executions_has_the_promised_columns),
        SCENE_TEST(the_view_shows_live_and_ended_ones_alike),
        SCENE_TEST(the_view_execution_events_tells_the_story_in_order),
        SCENE_TEST(pages_miss_and_repeat_nothing_under_concurrent_inserts),
        SCENE_TEST(every_filter_finds_what_it_names),
        SCENE_TEST(a_filter_is_data_and_never_code),
        SCENE_TEST(a_limit_and_a_cursor_are_checked),
        SCENE_TEST(every_kind_of_list_answers),
        SCENE_TEST(a_list_by_name_finds_one),
        SCENE_TEST(a_list_of_workflows_has_those_that_the_workspace_may_run),
        SCENE_TEST(a_list_of_workspaces_pages_through_all_of_them),
        SCENE_TEST(a_list_of_workspaces_has_those_of_a_prefix),
        SCENE_TEST(a_prefix_that_no_name_can_have_is_refused),
        SCENE_TEST(show_has_params_steps_and_events),
        SCENE_TEST(a_long_story_is_read_by_pages),
        SCENE_TEST(show_takes_the_beginning_of_an_id),
        SCENE_TEST(counters_follow_every_move),
        SCENE_TEST(status_counts_what_waits_by_its_reason),
        SCENE_TEST(status_knows_each_group),
        SCENE_TEST(status_knows_age_pauses_nodes_and_pressure),
        SCENE_TEST(status_knows_the_scheduler),
        SCENE_TEST(status_knows_how_far_the_books_lag),
        SCENE_TEST(an_item_without_its_workspace_or_definition_is_found),
        SCENE_TEST(the_living_of_many_executions_are_found_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
