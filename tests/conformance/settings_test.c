/* Plans, workspaces, pauses, definitions: data, changed without restart. And the schema itself. */
#include "conformance/scene.h"
#include "store/driver.h"

static void a_new_store_has_its_plans(void **state)
{
    struct scene *scene = *state;
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_PLANS};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    static const char *const names[] = {"free", "pro", "enterprise"};
    static const int caps[] = {1, 5, 20};
    const json_t *items = json_object_get(page, "items");
    for (size_t i = 0; i < 3; i++) {
        bool found = false;
        for (size_t k = 0; k < json_array_size(items); k++) {
            const json_t *plan = json_array_get(items, k);
            if (strcmp(json_text_at(plan, "name"), names[i]) == 0) {
                assert_int_equal(json_number_at(plan, "max_concurrent"), caps[i]);
                found = true;
            }
        }
        assert_true(found);
    }
    json_decref(page);
}

static enum weir_status set_plan(struct scene *scene, const char *name, int64_t max_concurrent, int weight)
{
    struct plan_change change = {.name = name, .max_concurrent = max_concurrent, .weight = weight};
    return store_set_plan(scene->store, &change, &scene->error);
}

static void a_new_plan_needs_its_limit(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(set_plan(scene, "startup", 0, 2), WEIR_PLAN_NOT_FOUND);
    scene_ok(scene, set_plan(scene, "startup", 3, 2));
    scene_workspace(scene, "young-co", "startup");
    scene_enqueue_many(scene, "young-co", 9);
    assert_int_equal(scene_claim(scene, 10).count, 3);
}

static void wrong_plans_are_refused(void **state)
{
    struct scene *scene = *state;
    char name[PLAN_NAME_MAX + 2];
    memset(name, 'p', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(set_plan(scene, name, 1, 1), WEIR_INVALID_ARGUMENT);
    assert_int_equal(set_plan(scene, "", 1, 1), WEIR_INVALID_ARGUMENT);
    assert_int_equal(set_plan(scene, "free", -1, 0), WEIR_INVALID_ARGUMENT);
    assert_int_equal(set_plan(scene, "free", (int64_t)MAX_CONCURRENT_MOST + 1, 0), WEIR_INVALID_ARGUMENT);
    assert_int_equal(set_plan(scene, "free", 0, WEIGHT_MOST + 1), WEIR_INVALID_ARGUMENT);
    assert_int_equal(set_plan(scene, "free", 0, -1), WEIR_INVALID_ARGUMENT);
    scene_ok(scene, set_plan(scene, "free", MAX_CONCURRENT_MOST, WEIGHT_MOST));
}

static enum weir_status set_workspace(struct scene *scene, const struct workspace_change *change)
{
    return store_set_workspace(scene->store, change, &scene->error);
}

static void a_new_workspace_without_a_plan_is_free(void **state)
{
    struct scene *scene = *state;
    scene_workspace(scene, "new-co", NULL);
    scene_enqueue_many(scene, "new-co", 5);
    assert_int_equal(scene_claim(scene, 10).count, 1);
}

static void an_unknown_workspace_is_not_made_by_mistake(void **state)
{
    struct scene *scene = *state;
    struct workspace_change change = {.name = "pro-c", .max_concurrent = 9, .paused = -1};
    assert_int_equal(set_workspace(scene, &change), WEIR_WORKSPACE_NOT_FOUND);
    assert_non_null(strstr(scene->error.hint, "pro-co"));
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workspaces"), 3);
}

static void wrong_workspaces_are_refused(void **state)
{
    struct scene *scene = *state;
    char name[WORKSPACE_NAME_MAX + 2];
    memset(name, 'w', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    struct workspace_change too_long = {.name = name, .paused = -1, .create = true};
    struct workspace_change no_plan = {.name = "new-co", .plan = "gold", .paused = -1, .create = true};
    struct workspace_change empty = {.name = "", .paused = -1, .create = true};
    struct workspace_change bytes = {.name = "a\xFF", .paused = -1, .create = true};
    struct workspace_change cap = {.name = "pro-co", .max_concurrent = -2, .paused = -1};
    assert_int_equal(set_workspace(scene, &too_long), WEIR_INVALID_ARGUMENT);
    assert_int_equal(set_workspace(scene, &no_plan), WEIR_PLAN_NOT_FOUND);
    assert_int_equal(set_workspace(scene, &empty), WEIR_INVALID_ARGUMENT);
    assert_int_equal(set_workspace(scene, &bytes), WEIR_INVALID_ARGUMENT);
    assert_int_equal(set_workspace(scene, &cap), WEIR_INVALID_ARGUMENT);
    name[WORKSPACE_NAME_MAX] = '\0';
    scene_ok(scene, set_workspace(scene, &too_long));
}

static void a_setting_that_is_left_stays_as_it_was(void **state)
{
    struct scene *scene = *state;
    scene_cap(scene, "pro-co", 2);
    scene_pause_workspace(scene, "pro-co", true);
    struct workspace_change nothing = {.name = "pro-co", .paused = -1};
    scene_ok(scene, set_workspace(scene, &nothing));
    scene_workspace(scene, "pro-co", NULL);
    scene_enqueue_many(scene, "pro-co", 9);
    assert_int_equal(scene_claim(scene, 10).count, 0);
    scene_pause_workspace(scene, "pro-co", false);
    assert_int_equal(scene_claim(scene, 10).count, 2);
}

static void another_weight_keeps_the_limit(void **state)
{
    struct scene *scene = *state;
    scene_ok(scene, set_plan(scene, "pro", 0, 4));
    scene_enqueue_many(scene, "pro-co", 9);
    assert_int_equal(scene_claim(scene, 10).count, 5);
}

static void a_pause_of_an_unknown_group_is_told(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(store_set_paused(scene->store, "no-such-group", true, &scene->error), WEIR_NOT_FOUND);
    assert_non_null(strstr(scene->error.hint, "executor_group"));
}

static struct published publish(struct scene *scene, const char *name, const char *workspace, const char *text)
{
    struct published published = {0};
    scene_ok(scene, store_publish(scene->store, name, workspace, text, NULL, &published, &scene->error));
    return published;
}

static void versions_count_from_one_and_never_change(void **state)
{
    struct scene *scene = *state;
    static const char first_text[] = "{\"name\":\"w\",\"steps\":{\"a\":{\"handler\":\"x\"}}}";
    static const char second_text[] = "{\"name\":\"w\",\"steps\":{\"b\":{\"handler\":\"x\"}}}";
    struct published first = publish(scene, "w", NULL, first_text);
    struct published again = publish(scene, "w", NULL, first_text);
    struct published second = publish(scene, "w", NULL, second_text);
    struct published back = publish(scene, "w", NULL, first_text);
    struct published own = publish(scene, "w", "pro-co", first_text);
    assert_int_equal(first.version, 1);
    assert_false(first.unchanged);
    assert_true(again.unchanged);
    assert_int_equal(again.version, 1);
    assert_int_equal(again.definition_id, first.definition_id);
    assert_int_equal(second.version, 2);
    assert_int_equal(back.version, 3);
    assert_false(back.unchanged);
    assert_int_equal(first.earlier_version, 0);
    assert_int_equal(again.earlier_version, 0);
    assert_int_equal(second.earlier_version, 0);
    assert_int_equal(back.earlier_version, 1);
    struct published second_back = publish(scene, "w", NULL, second_text);
    assert_int_equal(second_back.earlier_version, 2);
    struct published first_back = publish(scene, "w", NULL, first_text);
    assert_int_equal(first_back.earlier_version, 3);
    assert_int_equal(own.version, 1);
    assert_int_equal(own.earlier_version, 0);
    struct definition_text kept = {0};
    scene_ok(scene, store_read_definition(scene->store, first.definition_id, &scene->arena, &kept, &scene->error));
    assert_string_equal(kept.text, first_text);
    scene_ok(scene, store_read_definition(scene->store, own.definition_id, &scene->arena, &kept, &scene->error));
    assert_string_equal(kept.workspace, "pro-co");
}

/* The source of the version in the list, "" when it is null. */
static const char *source_of(struct scene *scene, const char *name, size_t place)
{
    static char text[256];
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_WORKFLOWS, .name = name, .limit = 10};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    const json_t *source = json_object_get(json_array_get(json_object_get(page, "items"), place), "source");
    assert_non_null(source);
    text_copy(text, sizeof text, json_is_string(source) ? json_string_value(source) : "");
    json_decref(page);
    return text;
}

static void a_version_keeps_the_source_that_made_it(void **state)
{
    struct scene *scene = *state;
    struct published published = {0};
    static const char first_text[] = "{\"name\":\"y\",\"steps\":{\"a\":{\"handler\":\"x\"}}}";
    static const char second_text[] = "{\"name\":\"y\",\"steps\":{\"b\":{\"handler\":\"x\"}}}";
    static const char yaml[] = "# why it is so\nname: y\nsteps:\n  a: {handler: x} # caf\xc3\xa9\n";
    scene_ok(scene, store_publish(scene->store, "y", NULL, first_text, yaml, &published, &scene->error));
    assert_string_equal(source_of(scene, "y", 0), yaml);
    scene_ok(scene, store_publish(scene->store, "y", NULL, first_text, "# other\n", &published, &scene->error));
    assert_true(published.unchanged);
    assert_string_equal(source_of(scene, "y", 0), yaml);
    scene_ok(scene, store_publish(scene->store, "y", NULL, second_text, NULL, &published, &scene->error));
    assert_int_equal(published.version, 2);
    assert_string_equal(source_of(scene, "y", 0), yaml);
    assert_string_equal(source_of(scene, "y", 1), "");
}

static void a_source_has_at_most_as_many_bytes_as_a_file(void **state)
{
    struct scene *scene = *state;
    struct published published = {.version = 7};
    char *source = malloc(DEFINITION_SOURCE_BYTES_MAX + 2);
    assert_non_null(source);
    memset(source, '#', DEFINITION_SOURCE_BYTES_MAX + 1);
    source[DEFINITION_SOURCE_BYTES_MAX + 1] = '\0';
    assert_int_equal(store_publish(scene->store, "large", NULL, "{}", source, &published, &scene->error),
                     WEIR_INVALID_ARGUMENT);
    assert_int_equal(published.version, 7);
    source[DEFINITION_SOURCE_BYTES_MAX] = '\0';
    scene_ok(scene, store_publish(scene->store, "large", NULL, "{}", source, &published, &scene->error));
    assert_int_equal(published.version, 1);
    free(source);
}

static void a_definition_for_nobody_is_refused(void **state)
{
    struct scene *scene = *state;
    struct published published = {.version = 7};
    assert_int_equal(store_publish(scene->store, "w", "pro-c", "{}", NULL, &published, &scene->error),
                     WEIR_WORKSPACE_NOT_FOUND);
    assert_int_equal(store_publish(scene->store, "No Name", NULL, "{}", NULL, &published, &scene->error),
                     WEIR_INVALID_ARGUMENT);
    assert_int_equal(store_publish(scene->store, "", NULL, "{}", NULL, &published, &scene->error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(published.version, 7);
}

/* --- the schema --- */

static void migrating_again_does_nothing(void **state)
{
    struct scene *scene = *state;
    int applied = 9;
    scene_ok(scene, store_migrate(scene->store, &applied, &scene->error));
    assert_int_equal(applied, 0);
    scene_ok(scene, store_require_schema(scene->store, &scene->error));
}

struct heard {
    int64_t calls;
    int64_t done;
    int64_t total;
    int64_t stop_at; /* the call that answers no; 0 = none */
};

static bool hear(void *context, int64_t done, int64_t total)
{
    struct heard *heard = context;
    assert_true(heard->calls > 0 || done == 0);
    assert_true(total > 1 && (heard->calls == 0 || total == heard->total));
    assert_in_range(done, heard->done, total);
    heard->calls++;
    heard->done = done;
    heard->total = total;
    return heard->calls != heard->stop_at;
}

static void a_migration_and_a_check_tell_how_far_they_are(void **state)
{
    (void)state;
    struct driver_under_test driver;
    struct weir_error error = {0};
    struct heard heard = {.stop_at = 1}; /* a migration goes on to its end */
    json_t *problems = NULL;
    driver_make(&driver);
    struct store *store = driver_open(&driver, NULL);
    store_set_progress(store, hear, &heard);
    assert_int_equal(store_migrate(store, NULL, &error), WEIR_OK);
    assert_true(heard.calls > heard.total && heard.done == heard.total);
    heard = (struct heard){0};
    assert_int_equal(store_check(store, &problems, &error), WEIR_OK);
    assert_true(heard.calls > heard.total && heard.done == heard.total);
    json_decref(problems);
    store_set_progress(store, NULL, NULL);
    store_close(store);
    driver_remove(&driver);
}

static void a_check_names_an_ended_execution_without_its_definition(void **state)
{
    struct scene *scene = *state;
    json_t *problems = NULL;
    const char *id = scene_enqueue(scene, "pro-co");
    struct claimed_item item = scene_claim_one(scene);
    assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
    json_decref(scene_rows(scene, "UPDATE workflow_executions SET definition_id = definition_id + 1000000"));
    scene_ok(scene, store_check(scene->store, &problems, &scene->error));
    char *text = json_dumps(problems, JSON_COMPACT);
    assert_non_null(text);
    assert_non_null(strstr(text, id));
    free(text);
    json_decref(problems);
    json_decref(scene_rows(scene, "UPDATE workflow_executions SET definition_id = definition_id - 1000000"));
}

static void a_check_can_be_stopped_at_each_of_its_parts(void **state)
{
    struct scene *scene = *state;
    struct heard heard = {0};
    json_t *problems = NULL;
    store_set_progress(scene->store, hear, &heard);
    scene_ok(scene, store_check(scene->store, &problems, &scene->error));
    json_decref(problems);
    for (int64_t at = 1, calls = heard.calls; at <= calls; at++) {
        heard = (struct heard){.stop_at = at};
        problems = NULL;
        assert_int_equal(store_check(scene->store, &problems, &scene->error), WEIR_INTERRUPTED);
        assert_null(problems);
        assert_int_equal(heard.calls, at);
    }
    store_set_progress(scene->store, NULL, NULL);
    (void)scene_enqueue(scene, "pro-co"); /* the handle is as good as before */
}

static void a_plan_shows_what_would_be_done_and_does_nothing(void **state)
{
    (void)state;
    struct driver_under_test driver;
    struct weir_error error = {0};
    driver_make(&driver);
    struct store *store = driver_open(&driver, NULL);
    struct arena arena;
    arena_init(&arena, 1 << 24);
    for (int round = 0; round < 2; round++) {
        const struct store_migration *migrations = NULL;
        size_t count = 0;
        assert_int_equal(store_plan(store, &arena, &migrations, &count, &error), WEIR_OK);
        assert_true(count >= 1);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(migrations[i].applied, round == 1);
            assert_true(migrations[i].version >= (i == 0 ? 1 : migrations[i - 1].version));
            assert_true(strlen(migrations[i].name) >= 5 && strlen(migrations[i].sql) > 10);
        }
        if (round == 0) {
            int applied = 0;
            assert_int_equal(store_require_schema(store, &error), WEIR_SCHEMA_MISSING);
            assert_non_null(strstr(error.hint, "weir store"));
            assert_int_equal(store_migrate(store, &applied, &error), WEIR_OK);
            assert_int_equal(applied, (int)count);
        }
    }
    assert_int_equal(store_require_schema(store, &error), WEIR_OK);
    arena_close(&arena);
    store_close(store);
    driver_remove(&driver);
}

static void verbs_on_a_store_without_a_schema_say_so(void **state)
{
    (void)state;
    struct driver_under_test driver;
    struct weir_error error = {0};
    driver_make(&driver);
    struct store *store = driver_open(&driver, NULL);
    struct enqueue_request request = {.workspace = "a", .workflow = "b"};
    struct enqueue_result result;
    json_t *status = NULL;
    assert_int_equal(store_enqueue(store, &request, 1, &result, &error), WEIR_SCHEMA_MISSING);
    assert_true(strlen(error.hint) > 0);
    assert_int_equal(store_status(store, 1, &status, &error), WEIR_SCHEMA_MISSING);
    store_close(store);
    driver_remove(&driver);
}

static void a_url_without_a_driver_is_refused(void **state)
{
    (void)state;
    static const char *const urls[] = {"mysql://x", "", "sqlite:", NULL};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        struct store_options options = {.url = urls[i]};
        struct store *store = (struct store *)&options;
        struct weir_error error = {0};
        enum weir_status status = store_open(&options, &store, &error);
        assert_true(status == WEIR_INVALID_ARGUMENT || status == WEIR_MISUSE);
        assert_ptr_equal(store, &options); /* untouched on failure */
    }
    store_close(NULL);
}

static void another_handle_sees_the_same_store(void **state)
{
    struct scene *scene = *state;
    struct store *again = NULL;
    scene_ok(scene, store_open_again(scene->store, &again, &scene->error));
    assert_string_equal(store_url(again), store_url(scene->store));
    assert_int_equal(store_features(again), store_features(scene->store));
    const char *id = scene_enqueue(scene, "pro-co");
    json_t *shown = NULL;
    scene_ok(scene, store_show(again, id, &shown, &scene->error));
    json_decref(shown);
    store_close(again);
    assert_int_equal(scene_claim(scene, 1).count, 1);
}

/* Clients and proxies take them out of a path, so they would have no address. */
static void names_of_dots_are_refused(void **state)
{
    struct scene *scene = *state;
    static const char *const dots[] = {".", ".."};
    int64_t id = 0;
    for (size_t i = 0; i < sizeof dots / sizeof dots[0]; i++) {
        struct workspace_change made = {.name = dots[i], .paused = -1, .create = true};
        struct token_request token = {.name = dots[i], .role = TOKEN_READ, .has_all_workspaces = true};
        struct lock_request lock = {.name = dots[i], .holder = "ada", .at_most_us = SECONDS(60)};
        struct node_options node = {.name = dots[i], .group = "default", .lease_us = SCENE_LEASE_US};
        assert_int_equal(set_workspace(scene, &made), WEIR_INVALID_ARGUMENT);
        assert_non_null(strstr(scene->error.message, "the workspace's name must not be \"."));
        assert_int_equal(set_plan(scene, dots[i], 1, 1), WEIR_INVALID_ARGUMENT);
        assert_non_null(strstr(scene->error.message, "the plan's name must not be \"."));
        assert_int_equal(store_token_create(scene->store, &token, &id, &scene->error), WEIR_INVALID_ARGUMENT);
        assert_non_null(strstr(scene->error.message, "the token's name must not be \"."));
        assert_int_equal(store_lock(scene->store, &lock, &scene->error), WEIR_INVALID_ARGUMENT);
        assert_non_null(strstr(scene->error.message, "the lock's name must not be \"."));
        assert_int_equal(store_node_start(scene->store, &node, &id, &scene->error), WEIR_INVALID_ARGUMENT);
        assert_non_null(strstr(scene->error.message, "the node's name must not be \"."));
    }
    assert_int_equal(id, 0);
    struct workspace_change made = {.name = "...", .paused = -1, .create = true}; /* a path keeps it */
    scene_ok(scene, set_workspace(scene, &made));
}

static void names_of_blanks_are_refused_and_those_that_are_there_go_on(void **state)
{
    struct scene *scene = *state;
    static const char *const blanks[] = {" ", "\xE3\x80\x80  "};
    struct node_options node = {.name = blanks[0],
                                .group = "default",
                                .host = "host",
                                .boot_id = "boot",
                                .version = "test",
                                .engine = "scripted",
                                .lease_us = SCENE_LEASE_US};
    int64_t node_id = 0;
    for (size_t i = 0; i < sizeof blanks / sizeof blanks[0]; i++) {
        struct workspace_change made = {.name = blanks[i], .paused = -1, .create = true};
        assert_int_equal(set_workspace(scene, &made), WEIR_INVALID_ARGUMENT);
        assert_non_null(strstr(scene->error.message, "nothing but blanks"));
        assert_int_equal(set_plan(scene, blanks[i], 1, 1), WEIR_INVALID_ARGUMENT);
        assert_non_null(strstr(scene->error.message, "nothing but blanks"));
        node.name = blanks[i];
        assert_int_equal(store_node_start(scene->store, &node, &node_id, &scene->error), WEIR_INVALID_ARGUMENT);
        assert_non_null(strstr(scene->error.message, "nothing but blanks"));
    }
    assert_int_equal(node_id, 0);
    /* A row that an older version has made. */
    struct workspace_change older = {.name = " ", .plan = "pro", .paused = -1, .create = true};
    scene_ok(scene, scene->store->driver->set_workspace(scene->store, &older, &scene->error));
    struct workspace_change changed = {.name = " ", .plan = "free", .paused = 0, .create = true};
    scene_ok(scene, set_workspace(scene, &changed));
    scene_enqueue_many(scene, " ", 2);
    assert_int_equal(scene_claim(scene, 10).count, 1);
}

/* Of many workspaces those with the most waiting items per slot, and of equal ones the first by name. A smaller plan weighs
 * more, and a workspace without an item comes last. Ids are not in the order of the names. */
static void status_chooses_the_workspaces_under_most_pressure(void **state)
{
    struct scene *scene = *state;
    static const char *const wanted[] = {"w-small", "w-05", "w-11", "w-17", "w-23", "w-29", "w-04", "w-10"};
    enum { WORKSPACES = 30, WANTED = sizeof wanted / sizeof wanted[0] };
    json_t *status = NULL;
    for (int i = 0; i < WORKSPACES; i++) {
        char name[] = "w-00";
        int number = i * 7 % WORKSPACES;
        name[2] = (char)('0' + number / 10);
        name[3] = (char)('0' + number % 10);
        scene_workspace(scene, name, "pro");
        if (number % 6 > 0) {
            scene_enqueue_many(scene, name, (size_t)(number % 6));
        }
    }
    scene_workspace(scene, "w-small", "pro");
    scene_cap(scene, "w-small", 1);
    scene_enqueue_many(scene, "w-small", 4);
    for (size_t most = 1; most <= WANTED; most++) {
        scene_ok(scene, store_status(scene->store, most, &status, &scene->error));
        const json_t *rows = json_object_get(status, "workspaces");
        assert_int_equal(json_array_size(rows), most);
        for (size_t i = 0; i < most; i++) {
            assert_string_equal(json_text_at(json_array_get(rows, i), "name"), wanted[i]);
        }
        json_decref(status);
    }
    scene_ok(scene, store_status(scene->store, 100, &status, &scene->error));
    const json_t *rows = json_object_get(status, "workspaces");
    size_t count = json_array_size(rows);
    assert_int_equal(count, json_number_at(status, "workspace_count"));
    assert_string_equal(json_text_at(json_array_get(rows, count - 1), "name"), "w-24");
    assert_true(json_is_null(json_object_get(json_array_get(rows, count - 1), "oldest_pending_age_us")));
    json_decref(status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_new_store_has_its_plans),
        SCENE_TEST(a_new_plan_needs_its_limit),
        SCENE_TEST(wrong_plans_are_refused),
        SCENE_TEST(names_of_blanks_are_refused_and_those_that_are_there_go_on),
        SCENE_TEST(names_of_dots_are_refused),
        SCENE_TEST(a_new_workspace_without_a_plan_is_free),
        SCENE_TEST(an_unknown_workspace_is_not_made_by_mistake),
        SCENE_TEST(wrong_workspaces_are_refused),
        SCENE_TEST(a_setting_that_is_left_stays_as_it_was),
        SCENE_TEST(another_weight_keeps_the_limit),
        SCENE_TEST(a_pause_of_an_unknown_group_is_told),
        SCENE_TEST(versions_count_from_one_and_never_change),
        SCENE_TEST(a_version_keeps_the_source_that_made_it),
        SCENE_TEST(a_source_has_at_most_as_many_bytes_as_a_file),
        SCENE_TEST(a_definition_for_nobody_is_refused),
        SCENE_TEST(migrating_again_does_nothing),
        cmocka_unit_test(a_migration_and_a_check_tell_how_far_they_are),
        SCENE_TEST(a_check_names_an_ended_execution_without_its_definition),
        SCENE_TEST(a_check_can_be_stopped_at_each_of_its_parts),
        cmocka_unit_test(a_plan_shows_what_would_be_done_and_does_nothing),
        cmocka_unit_test(verbs_on_a_store_without_a_schema_say_so),
        cmocka_unit_test(a_url_without_a_driver_is_refused),
        SCENE_TEST(another_handle_sees_the_same_store),
        SCENE_TEST(status_chooses_the_workspaces_under_most_pressure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
