/* Tokens of the HTTP API: their creation, revocation, set and last use, their record, and the executions of their
 * workspaces. */
#include "conformance/scene.h"
#include "store/driver.h"

static struct token_request request_of(const char *name, unsigned char byte)
{
    struct token_request request = {.name = name, .role = TOKEN_OPERATE, .has_all_workspaces = true};
    memset(request.hash, byte, sizeof request.hash);
    return request;
}

static int64_t create(struct scene *scene, const struct token_request *request)
{
    int64_t id = 0;
    scene_ok(scene, store_token_create(scene->store, request, &id, &scene->error));
    assert_true(id > 0);
    return id;
}

/* The live tokens, in the scene's arena. */
static size_t read_tokens(struct scene *scene, struct token **ret_tokens)
{
    struct token_set set = {.tokens = NULL};
    scene_ok(scene, store_tokens_read(scene->store, &scene->arena, &set, &scene->error));
    assert_true(set.now_us > 0);
    assert_int_equal(set.has_had_tokens, scene_number(scene, "SELECT count(*) FROM tokens") > 0);
    *ret_tokens = set.tokens;
    return set.count;
}

/* The row of LIST_TOKENS with this name; the caller releases it. */
static json_t *row_of(struct scene *scene, const char *name)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_TOKENS, .name = name};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    assert_int_equal(json_array_size(json_object_get(page, "items")), 1);
    json_t *row = json_incref(json_array_get(json_object_get(page, "items"), 0));
    json_decref(page);
    return row;
}

static void a_store_begins_without_tokens(void **state)
{
    struct scene *scene = *state;
    struct token *tokens = NULL;
    assert_int_equal(read_tokens(scene, &tokens), 0);
}

static void a_token_is_read_as_it_was_made(void **state)
{
    struct scene *scene = *state;
    struct token *tokens = NULL;
    static const char *const workspaces[] = {"pro-co", "free-co"};
    struct token_request all = request_of("all", 1);
    struct token_request two = request_of("two", 2);
    two.role = TOKEN_READ;
    two.has_all_workspaces = false;
    two.workspaces = workspaces;
    two.workspace_count = 2;
    two.expires_at_us = scene_now(scene) + SECONDS(60);
    two.max_body_bytes = 4096;
    two.rate = 25;
    int64_t first = create(scene, &all);
    int64_t second = create(scene, &two);
    assert_int_equal(read_tokens(scene, &tokens), 2);
    assert_int_equal(tokens[0].id, first);
    assert_string_equal(tokens[0].name, "all");
    assert_int_equal(tokens[0].role, TOKEN_OPERATE);
    assert_true(tokens[0].has_all_workspaces);
    assert_memory_equal(tokens[0].hash, all.hash, TOKEN_HASH_BYTES);
    assert_int_equal(tokens[0].expires_at_us, TIME_NEVER);
    assert_int_equal(tokens[0].max_body_bytes, 0);
    assert_int_equal(tokens[0].rate, 0);
    assert_int_equal(tokens[1].id, second);
    assert_int_equal(tokens[1].role, TOKEN_READ);
    assert_false(tokens[1].has_all_workspaces);
    assert_int_equal(tokens[1].workspace_count, 2);
    assert_int_equal(strlen(tokens[1].workspaces[0]) + strlen(tokens[1].workspaces[1]), strlen("pro-cofree-co"));
    assert_int_equal(tokens[1].expires_at_us, two.expires_at_us);
    assert_int_equal(tokens[1].max_body_bytes, 4096);
    assert_int_equal(tokens[1].rate, 25);
    json_t *limited = row_of(scene, "two");
    assert_int_equal(json_integer_value(json_object_get(limited, "max_body_bytes")), 4096);
    assert_int_equal(json_integer_value(json_object_get(limited, "rate")), 25);
    json_decref(limited);
}

static void the_same_request_again_is_the_same_token(void **state)
{
    struct scene *scene = *state;
    struct token *tokens = NULL;
    struct token_request request = request_of("ci", 7);
    int64_t id = create(scene, &request);
    assert_int_equal(create(scene, &request), id);
    assert_int_equal(read_tokens(scene, &tokens), 1);
}

static void a_live_token_keeps_its_name(void **state)
{
    struct scene *scene = *state;
    int64_t id = 0;
    struct token_request first = request_of("ci", 1);
    struct token_request second = request_of("ci", 2);
    int64_t first_id = create(scene, &first);
    assert_int_equal(store_token_create(scene->store, &second, &id, &scene->error), WEIR_CONFLICT);
    scene_ok(scene, store_token_revoke(scene->store, "ci", &scene->error));
    assert_true(create(scene, &second) > first_id);
}

static void wrong_requests_are_refused(void **state)
{
    struct scene *scene = *state;
    int64_t id = 0;
    static const char *const unknown[] = {"free-co", "pro-c"};
    struct token_request bad = request_of("", 1);
    assert_int_equal(store_token_create(scene->store, &bad, &id, &scene->error), WEIR_INVALID_ARGUMENT);
    bad.name = "  ";
    assert_int_equal(store_token_create(scene->store, &bad, &id, &scene->error), WEIR_INVALID_ARGUMENT);
    bad.name = "123";
    assert_int_equal(store_token_create(scene->store, &bad, &id, &scene->error), WEIR_INVALID_ARGUMENT);
    bad.name = "a\nb";
    assert_int_equal(store_token_create(scene->store, &bad, &id, &scene->error), WEIR_INVALID_ARGUMENT);
    bad.name = "ci";
    bad.has_all_workspaces = false;
    assert_int_equal(store_token_create(scene->store, &bad, &id, &scene->error), WEIR_INVALID_ARGUMENT);
    bad.workspaces = unknown;
    bad.workspace_count = 2;
    assert_int_equal(store_token_create(scene->store, &bad, &id, &scene->error), WEIR_WORKSPACE_NOT_FOUND);
    assert_non_null(strstr(scene->error.message, "pro-c"));
    assert_non_null(strstr(scene->error.hint, "pro-co"));
    bad.has_all_workspaces = true;
    bad.expires_at_us = scene_now(scene) - 1;
    assert_int_equal(store_token_create(scene->store, &bad, &id, &scene->error), WEIR_INVALID_ARGUMENT);
    bad.expires_at_us = 0;
    bad.max_body_bytes = TOKEN_BODY_BYTES_MOST + 1;
    assert_int_equal(store_token_create(scene->store, &bad, &id, &scene->error), WEIR_INVALID_ARGUMENT);
    bad.max_body_bytes = 0;
    bad.rate = TOKEN_RATE_MOST + 1;
    assert_int_equal(store_token_create(scene->store, &bad, &id, &scene->error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(id, 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM tokens"), 0);
}

static void a_revoked_token_is_read_no_more(void **state)
{
    struct scene *scene = *state;
    struct token *tokens = NULL;
    struct token_request by_name = request_of("by-name", 1);
    struct token_request by_id = request_of("by-id", 2);
    struct token_request stays = request_of("stays", 3);
    char text[32];
    (void)create(scene, &by_name);
    (void)snprintf(text, sizeof text, "%lld", (long long)create(scene, &by_id));
    (void)create(scene, &stays);
    scene_ok(scene, store_token_revoke(scene->store, "by-name", &scene->error));
    scene_ok(scene, store_token_revoke(scene->store, text, &scene->error));
    assert_int_equal(store_token_revoke(scene->store, "by-name", &scene->error), WEIR_NOT_FOUND);
    assert_int_equal(store_token_revoke(scene->store, "stay", &scene->error), WEIR_NOT_FOUND);
    assert_non_null(strstr(scene->error.hint, "stays"));
    assert_int_equal(read_tokens(scene, &tokens), 1);
    assert_string_equal(tokens[0].name, "stays");
    json_t *row = row_of(scene, "by-name");
    assert_string_equal(json_text_at(row, "state"), "revoked");
    assert_non_null(json_text_at(row, "revoked_at"));
    json_decref(row);
}

static void an_expired_token_is_read_no_more(void **state)
{
    struct scene *scene = *state;
    struct token *tokens = NULL;
    struct token_request request = request_of("short", 1);
    request.expires_at_us = scene_now(scene) + SECONDS(5);
    (void)create(scene, &request);
    assert_int_equal(read_tokens(scene, &tokens), 1);
    scene_pass(scene, SECONDS(6));
    assert_int_equal(read_tokens(scene, &tokens), 0);
    json_t *row = row_of(scene, "short");
    assert_string_equal(json_text_at(row, "state"), "expired");
    json_decref(row);
}

/* The sessions of a person take turns with their names. Those that are over are deleted, but for the newest row: without
 * any row a store would need no token. */
static void a_session_replaces_those_that_are_over(void **state)
{
    struct scene *scene = *state;
    int64_t id = 0;
    static const char *const unknown[] = {"gone"};
    struct token_request first = request_of("user:ada/1", 1);
    struct token_request second = request_of("user:ada/1", 2);
    struct token_request refused = request_of("user:ada/1", 3);
    struct token_request other = request_of("user:eve/1", 4);
    assert_int_equal(store_token_create(scene->store, &first, &id, &scene->error), WEIR_INVALID_ARGUMENT);
    first.is_session = second.is_session = refused.is_session = other.is_session = true;
    refused.has_all_workspaces = false;
    refused.workspaces = unknown;
    refused.workspace_count = 1;
    first.expires_at_us = scene_now(scene) + SECONDS(5);
    (void)create(scene, &first);
    assert_int_equal(store_token_create(scene->store, &second, &id, &scene->error), WEIR_CONFLICT);
    scene_pass(scene, SECONDS(6));
    assert_int_equal(store_token_create(scene->store, &refused, &id, &scene->error), WEIR_WORKSPACE_NOT_FOUND);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM tokens"), 1);
    (void)create(scene, &second);
    scene_ok(scene, store_token_revoke(scene->store, "user:ada/1", &scene->error));
    (void)create(scene, &other);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM tokens"), 2);
    other.name = "user:eve/2";
    other.hash[0] = 5;
    (void)create(scene, &other);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM tokens WHERE name LIKE 'user:ada%%'"), 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM tokens"), 2);
}

/* The list is that of a setting, in which a workspace may stay that was deleted. */
static void a_session_leaves_out_workspaces_that_do_not_exist(void **state)
{
    struct scene *scene = *state;
    struct token *tokens = NULL;
    int64_t id = 0;
    static const char *const workspaces[] = {"gone", "free-co", "gone-too", "pro-co", "gone-as-well"};
    struct token_request request = request_of("user:ada/1", 1);
    request.has_all_workspaces = false;
    request.workspaces = workspaces;
    request.workspace_count = 5;
    request.is_session = true;
    (void)create(scene, &request);
    assert_int_equal(read_tokens(scene, &tokens), 1);
    assert_false(tokens[0].has_all_workspaces);
    assert_int_equal(tokens[0].workspace_count, 2);
    request.name = "user:ada/2";
    request.hash[0] = 2;
    request.workspace_count = 1;
    assert_int_equal(store_token_create(scene->store, &request, &id, &scene->error), WEIR_WORKSPACE_NOT_FOUND);
    request.name = "ci";
    request.is_session = false;
    request.workspace_count = 5;
    assert_int_equal(store_token_create(scene->store, &request, &id, &scene->error), WEIR_WORKSPACE_NOT_FOUND);
}

static void a_later_workspace_of_the_name_is_not_open_to_a_token(void **state)
{
    struct scene *scene = *state;
    struct token *tokens = NULL;
    struct deletion_result result;
    static const char *const workspaces[] = {"free-co"};
    struct workspace_deletion deletion = {.name = "free-co"};
    struct token_request request = request_of("free", 1);
    request.has_all_workspaces = false;
    request.workspaces = workspaces;
    request.workspace_count = 1;
    (void)create(scene, &request);
    scene_ok(scene, store_delete_workspace(scene->store, &deletion, &result, &scene->error));
    scene_workspace(scene, "free-co", "free");
    assert_int_equal(read_tokens(scene, &tokens), 1);
    assert_false(tokens[0].has_all_workspaces);
    assert_int_equal(tokens[0].workspace_count, 0);
}

static void a_list_never_has_a_hash(void **state)
{
    struct scene *scene = *state;
    static const char *const workspaces[] = {"pro-co"};
    struct token_request request = request_of("ci", 0xAB);
    struct token_request all = request_of("all", 0xCD);
    request.has_all_workspaces = false;
    request.workspaces = workspaces;
    request.workspace_count = 1;
    (void)create(scene, &request);
    (void)create(scene, &all);
    json_t *row = row_of(scene, "ci");
    assert_null(json_object_get(row, "hash"));
    char *text = json_dumps(row, 0);
    assert_null(strstr(text, "abab"));
    assert_null(strstr(text, "ABAB"));
    free(text);
    assert_string_equal(json_text_at(row, "role"), "operate");
    assert_string_equal(json_text_at(row, "state"), "live");
    assert_string_equal(json_string_value(json_array_get(json_object_get(row, "workspaces"), 0)), "pro-co");
    assert_true(json_is_null(json_object_get(row, "last_used_at")));
    assert_true(json_is_null(json_object_get(row, "expires_at")));
    assert_true(json_is_null(json_object_get(row, "max_body_bytes")));
    assert_true(json_is_null(json_object_get(row, "rate")));
    json_decref(row);
    row = row_of(scene, "all");
    assert_true(json_is_null(json_object_get(row, "workspaces")));
    json_decref(row);
}

static void a_use_is_noted_once_a_minute(void **state)
{
    struct scene *scene = *state;
    struct token_request first = request_of("first", 1);
    struct token_request second = request_of("second", 2);
    int64_t ids[2] = {create(scene, &first), create(scene, &second)};
    scene_pass(scene, SECONDS(1)); /* a time of its own, also where the clock stands still */
    scene_ok(scene, store_tokens_used(scene->store, ids, 1, &scene->error));
    int64_t noted = scene_number(scene, "SELECT last_used_at FROM tokens WHERE name = 'first'");
    assert_true(noted > 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM tokens WHERE last_used_at IS NULL"), 1);
    scene_pass(scene, SECONDS(30));
    scene_ok(scene, store_tokens_used(scene->store, ids, 2, &scene->error));
    assert_int_equal(scene_number(scene, "SELECT last_used_at FROM tokens WHERE name = 'first'"), noted);
    assert_true(scene_number(scene, "SELECT last_used_at FROM tokens WHERE name = 'second'") > noted);
    scene_pass(scene, TOKEN_USE_US);
    scene_ok(scene, store_tokens_used(scene->store, ids, 2, &scene->error));
    assert_true(scene_number(scene, "SELECT last_used_at FROM tokens WHERE name = 'first'") > noted);
    scene_ok(scene, store_tokens_used(scene->store, NULL, 0, &scene->error));
    assert_int_equal(store_tokens_used(scene->store, ids, TOKENS_USED_MOST + 1, &scene->error), WEIR_MISUSE);
}

static void creation_and_revocation_are_on_record(void **state)
{
    struct scene *scene = *state;
    json_t *page = NULL;
    static const char *const workspaces[] = {"pro-co"};
    struct token_request request = request_of("ci", 0xAB);
    request.has_all_workspaces = false;
    request.workspaces = workspaces;
    request.workspace_count = 1;
    scene_ok(scene, store_act_as(scene->store, "ann", "because", &scene->error));
    (void)create(scene, &request);
    (void)create(scene, &request); /* a repeated call is no second act */
    scene_ok(scene, store_token_revoke(scene->store, "ci", &scene->error));
    assert_int_equal(store_token_revoke(scene->store, "ci", &scene->error), WEIR_NOT_FOUND);
    struct list_options options = {.kind = LIST_AUDIT, .name = "ci"};
    scene_ok(scene, store_list(scene->store, &options, &page, &scene->error));
    const json_t *items = json_object_get(page, "items");
    assert_int_equal(json_array_size(items), 2);
    const json_t *revoked = json_array_get(items, 0);
    const json_t *created = json_array_get(items, 1);
    assert_string_equal(json_text_at(revoked, "act"), "token revoke");
    assert_string_equal(json_text_at(created, "act"), "token create");
    assert_string_equal(json_text_at(created, "actor"), "ann");
    assert_string_equal(json_text_at(json_object_get(created, "after"), "role"), "operate");
    assert_string_equal(
        json_string_value(json_array_get(json_object_get(json_object_get(created, "after"), "workspaces"), 0)), "pro-co");
    assert_true(json_is_null(json_object_get(created, "before")));
    assert_string_equal(json_text_at(json_object_get(revoked, "before"), "role"), "operate");
    assert_true(json_is_null(json_object_get(revoked, "after")));
    json_decref(page);
    json_t *row = row_of(scene, "ci");
    assert_string_equal(json_text_at(row, "created_by"), "ann");
    json_decref(row);
}

static void a_store_has_a_most_of_tokens(void **state)
{
    struct scene *scene = *state;
    int64_t id = 0;
    struct token_request request = request_of("first", 1);
    (void)create(scene, &request);
    json_decref(scene_rows(scene, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999) "
                                  "INSERT INTO tokens (name, hash, role, created_at, created_by) "
                                  "SELECT 'n' || n.i, t.hash, 'read', 0, '' FROM n CROSS JOIN tokens t"));
    struct token *tokens = NULL;
    assert_int_equal(read_tokens(scene, &tokens), TOKENS_MOST);
    struct token_request more = request_of("more", 2);
    assert_int_equal(store_token_create(scene->store, &more, &id, &scene->error), WEIR_ILLEGAL_STATE);
    scene_ok(scene, store_token_revoke(scene->store, "n17", &scene->error));
    (void)create(scene, &more);
}

static void an_execution_is_found_in_its_own_workspace_alone(void **state)
{
    struct scene *scene = *state;
    static const char *const own[] = {"free-co", "pro-co"};
    static const char *const others[] = {"big-co", "nothing-co"};
    const char *id = scene_enqueue(scene, "pro-co");
    char capitals[UUID_TEXT_MAX];
    bool is_there = false;
    for (int i = 0; i < UUID_TEXT_MAX; i++) {
        capitals[i] = (char)(id[i] >= 'a' && id[i] <= 'f' ? id[i] - 'a' + 'A' : id[i]);
    }
    for (int round = 0; round < 2; round++) { /* in the queue, and in the history */
        scene_ok(scene, store_find_in_workspaces(scene->store, capitals, own, 2, &is_there, &scene->error));
        assert_true(is_there);
        scene_ok(scene, store_find_in_workspaces(scene->store, id, others, 2, &is_there, &scene->error));
        assert_false(is_there);
        scene_ok(scene, store_find_in_workspaces(scene->store, id, own, 1, &is_there, &scene->error));
        assert_false(is_there);
        scene_ok(scene, store_find_in_workspaces(scene->store, id, own, 0, &is_there, &scene->error));
        assert_false(is_there);
        if (round == 0) {
            struct claimed_item item = scene_claim_one(scene);
            assert_int_equal(scene_record(scene, RECORD_COMPLETED, &item), WEIR_OK);
        }
    }
    const char *missing = "01a215fd-f18a-7002-b43c-a0d8f870aebd";
    scene_ok(scene, store_find_in_workspaces(scene->store, missing, own, 2, &is_there, &scene->error));
    assert_false(is_there);
    assert_int_equal(store_find_in_workspaces(scene->store, "01a215", own, 2, &is_there, &scene->error),
                     WEIR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(an_execution_is_found_in_its_own_workspace_alone),
        SCENE_TEST(a_store_begins_without_tokens),
        SCENE_TEST(a_token_is_read_as_it_was_made),
        SCENE_TEST(the_same_request_again_is_the_same_token),
        SCENE_TEST(a_live_token_keeps_its_name),
        SCENE_TEST(wrong_requests_are_refused),
        SCENE_TEST(a_revoked_token_is_read_no_more),
        SCENE_TEST(an_expired_token_is_read_no_more),
        SCENE_TEST(a_session_replaces_those_that_are_over),
        SCENE_TEST(a_session_leaves_out_workspaces_that_do_not_exist),
        SCENE_TEST(a_later_workspace_of_the_name_is_not_open_to_a_token),
        SCENE_TEST(a_list_never_has_a_hash),
        SCENE_TEST(a_use_is_noted_once_a_minute),
        SCENE_TEST(creation_and_revocation_are_on_record),
        SCENE_TEST(a_store_has_a_most_of_tokens),
    };
    return cmocka_run_group_tests_name("tokens", tests, NULL, NULL);
}
