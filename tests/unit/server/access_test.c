#include "server/access.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/error.h"
#include "support/folder.h"
#include "support/test.h"

/* --- a store on a clock that stands still, and the number of comparisons --- */

static int64_t boot_us;
static int64_t wall_us;
static size_t comparisons;

static int64_t read_boot(void *context)
{
    (void)context;
    return boot_us;
}

static int64_t read_wall(void *context)
{
    (void)context;
    return wall_us;
}

static const struct clock still = {.wall_us = read_wall, .boot_us = read_boot};

bool __real_token_hash_equal(const unsigned char a[TOKEN_HASH_BYTES], const unsigned char b[TOKEN_HASH_BYTES]);
bool __wrap_token_hash_equal(const unsigned char a[TOKEN_HASH_BYTES], const unsigned char b[TOKEN_HASH_BYTES]);
bool __wrap_token_hash_equal(const unsigned char a[TOKEN_HASH_BYTES], const unsigned char b[TOKEN_HASH_BYTES])
{
    comparisons++;
    return __real_token_hash_equal(a, b);
}

struct scene {
    struct folder folder;
    char url[300];
    struct store *store;
    struct access *access;
    struct arena arena;
    struct weir_error error;
};

static void pass(int64_t duration_us)
{
    boot_us += duration_us;
    wall_us += duration_us;
}

static void open_access(struct scene *scene, const struct access_options *options)
{
    struct access_options on_clock = *options;
    on_clock.clock = &still;
    access_close(scene->access);
    assert_int_equal(access_open(&on_clock, &scene->access, &scene->error), WEIR_OK);
}

static int open_scene(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    boot_us = 1000 * MICROSECONDS_PER_SECOND;
    wall_us = INT64_C(1800000000) * MICROSECONDS_PER_SECOND;
    assert_int_equal(folder_make(&scene->folder), 0);
    (void)snprintf(scene->url, sizeof scene->url, "sqlite:%s/weir.db", scene->folder.path);
    arena_init(&scene->arena, 1024 * 1024);
    struct store_options options = {.url = scene->url, .create = true, .clock = &still};
    assert_int_equal(store_open(&options, &scene->store, &scene->error), WEIR_OK);
    assert_int_equal(store_migrate(scene->store, NULL, &scene->error), WEIR_OK);
    struct workspace_change acme = {.name = "acme", .paused = -1, .create = true};
    struct workspace_change tiny = {.name = "tiny", .paused = -1, .create = true};
    assert_int_equal(store_set_workspace(scene->store, &acme, &scene->error), WEIR_OK);
    assert_int_equal(store_set_workspace(scene->store, &tiny, &scene->error), WEIR_OK);
    open_access(scene, &(struct access_options){.rate = 0});
    *state = scene;
    return 0;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    access_close(scene->access);
    store_close(scene->store);
    arena_close(&scene->arena);
    folder_remove(&scene->folder);
    free(scene);
    return 0;
}

/* Makes a token of acme; `expires_in_us` 0 = never, `rate` 0 = that of the server. */
static void make_token_with_rate(struct scene *scene, const char *name, int64_t expires_in_us, int64_t rate, char *secret)
{
    static const char *const workspaces[] = {"acme"};
    struct token_request request = {
        .name = name, .role = TOKEN_ENQUEUE, .workspaces = workspaces, .workspace_count = 1, .rate = rate};
    int64_t now_us = 0;
    int64_t id = 0;
    assert_int_equal(store_time(scene->store, &now_us, &scene->error), WEIR_OK);
    request.expires_at_us = expires_in_us == 0 ? 0 : now_us + expires_in_us;
    assert_int_equal(token_secret_make(secret, &scene->error), WEIR_OK);
    assert_true(token_secret_hash(secret, strlen(secret), request.hash));
    assert_int_equal(store_token_create(scene->store, &request, &id, &scene->error), WEIR_OK);
}

static void make_token(struct scene *scene, const char *name, int64_t expires_in_us, char *secret)
{
    make_token_with_rate(scene, name, expires_in_us, 0, secret);
}

static void refresh(struct scene *scene)
{
    assert_int_equal(access_refresh(scene->access, scene->store, &scene->error), WEIR_OK);
}

static enum access_answer find(struct scene *scene, const char *secret, struct principal *principal)
{
    int retry_after_s = 0;
    enum access_answer answer = access_find(scene->access, secret, &scene->arena, principal, &retry_after_s);
    assert_int_equal(retry_after_s > 0, answer == ACCESS_TOO_FAST);
    return answer;
}

/* --- tests --- */

static void a_token_is_found_with_its_facts(void **state)
{
    struct scene *scene = *state;
    char secret[TOKEN_SECRET_LENGTH + 1];
    struct principal principal;
    make_token(scene, "ci", 0, secret);
    refresh(scene);
    assert_int_equal(find(scene, secret, &principal), ACCESS_GRANTED);
    assert_string_equal(principal.name, "ci");
    assert_int_equal(principal.role, TOKEN_ENQUEUE);
    assert_false(principal.has_all_workspaces);
    assert_int_equal(principal.workspace_count, 1);
    assert_string_equal(principal.workspaces[0], "acme");
}

static void unknown_revoked_and_expired_tokens_are_the_same(void **state)
{
    struct scene *scene = *state;
    char revoked[TOKEN_SECRET_LENGTH + 1];
    char expires[TOKEN_SECRET_LENGTH + 1];
    char unknown[TOKEN_SECRET_LENGTH + 1];
    struct principal principal;
    make_token(scene, "revoked", 0, revoked);
    make_token(scene, "expires", 10 * MICROSECONDS_PER_SECOND, expires);
    assert_int_equal(token_secret_make(unknown, &scene->error), WEIR_OK);
    refresh(scene);
    assert_int_equal(find(scene, revoked, &principal), ACCESS_GRANTED);
    assert_int_equal(find(scene, expires, &principal), ACCESS_GRANTED);
    assert_int_equal(store_token_revoke(scene->store, "revoked", &scene->error), WEIR_OK);
    refresh(scene);
    pass(9 * MICROSECONDS_PER_SECOND);
    assert_int_equal(find(scene, expires, &principal), ACCESS_GRANTED);
    pass(MICROSECONDS_PER_SECOND); /* without a refresh */
    assert_int_equal(find(scene, expires, &principal), ACCESS_UNKNOWN);
    assert_int_equal(find(scene, revoked, &principal), ACCESS_UNKNOWN);
    assert_int_equal(find(scene, unknown, &principal), ACCESS_UNKNOWN);
    assert_int_equal(find(scene, "", &principal), ACCESS_UNKNOWN);
    assert_int_equal(find(scene, "weir_", &principal), ACCESS_UNKNOWN);
}

static void every_look_up_compares_once(void **state)
{
    struct scene *scene = *state;
    char secrets[50][TOKEN_SECRET_LENGTH + 1];
    char unknown[TOKEN_SECRET_LENGTH + 1];
    char name[16];
    struct principal principal;
    assert_int_equal(token_secret_make(unknown, &scene->error), WEIR_OK);
    refresh(scene);
    comparisons = 0;
    assert_int_equal(find(scene, unknown, &principal), ACCESS_UNKNOWN);
    assert_int_equal(comparisons, 1); /* also of an empty set */
    for (int i = 0; i < 50; i++) {
        (void)snprintf(name, sizeof name, "t%d", i);
        make_token(scene, name, 0, secrets[i]);
    }
    refresh(scene);
    for (int i = 0; i < 50; i++) {
        comparisons = 0;
        assert_int_equal(find(scene, secrets[i], &principal), ACCESS_GRANTED);
        assert_int_equal(comparisons, 1);
        (void)snprintf(name, sizeof name, "t%d", i);
        assert_string_equal(principal.name, name);
        comparisons = 0;
        assert_int_equal(token_secret_make(unknown, &scene->error), WEIR_OK);
        assert_int_equal(find(scene, unknown, &principal), ACCESS_UNKNOWN);
        assert_int_equal(comparisons, 1);
    }
}

/* The place in the set is found by the first bytes alone: the rest must decide. */
static void a_hash_that_differs_in_its_last_byte_is_another_one(void **state)
{
    struct scene *scene = *state;
    char secret[TOKEN_SECRET_LENGTH + 1];
    struct principal principal;
    struct token_request near = {.name = "near", .role = TOKEN_ADMIN, .has_all_workspaces = true};
    int64_t id = 0;
    assert_int_equal(token_secret_make(secret, &scene->error), WEIR_OK);
    assert_true(token_secret_hash(secret, strlen(secret), near.hash));
    near.hash[TOKEN_HASH_BYTES - 1] ^= 1;
    assert_int_equal(store_token_create(scene->store, &near, &id, &scene->error), WEIR_OK);
    refresh(scene);
    assert_int_equal(find(scene, secret, &principal), ACCESS_UNKNOWN);
}

static void nothing_is_granted_without_a_fresh_set(void **state)
{
    struct scene *scene = *state;
    char secret[TOKEN_SECRET_LENGTH + 1];
    struct principal principal;
    make_token(scene, "ci", 0, secret);
    assert_int_equal(find(scene, secret, &principal), ACCESS_STALE);
    assert_true(access_needs_token(scene->access, true));
    refresh(scene);
    pass(ACCESS_STALE_US);
    assert_int_equal(find(scene, secret, &principal), ACCESS_GRANTED);
    pass(1);
    assert_int_equal(find(scene, secret, &principal), ACCESS_STALE);
    refresh(scene);
    assert_int_equal(find(scene, secret, &principal), ACCESS_GRANTED);
}

static void a_miss_reads_the_set_at_a_bounded_rate(void **state)
{
    struct scene *scene = *state;
    char secret[TOKEN_SECRET_LENGTH + 1];
    struct principal principal;
    refresh(scene);
    make_token(scene, "new", 0, secret);
    assert_int_equal(find(scene, secret, &principal), ACCESS_UNKNOWN);
    assert_true(access_refresh_after_miss(scene->access, scene->store));
    assert_int_equal(find(scene, secret, &principal), ACCESS_GRANTED);
    for (int i = 1; i < ACCESS_MISSES_MOST; i++) { /* another miss just before leaves the next token its read */
        assert_true(access_refresh_after_miss(scene->access, scene->store));
    }
    assert_false(access_refresh_after_miss(scene->access, scene->store));
    pass(ACCESS_MISS_US - 1);
    assert_false(access_refresh_after_miss(scene->access, scene->store));
    pass(1);
    assert_true(access_refresh_after_miss(scene->access, scene->store));
    assert_false(access_refresh_after_miss(scene->access, scene->store));
}

static void a_token_that_waited_is_found_again_without_counting(void **state)
{
    struct scene *scene = *state;
    char secret[TOKEN_SECRET_LENGTH + 1];
    struct principal principal;
    open_access(scene, &(struct access_options){.rate = 1});
    make_token(scene, "waits", 10 * MICROSECONDS_PER_SECOND, secret);
    refresh(scene);
    assert_int_equal(find(scene, secret, &principal), ACCESS_GRANTED);
    assert_int_equal(access_find_again(scene->access, secret, 0), ACCESS_GRANTED);
    assert_int_equal(find(scene, secret, &principal), ACCESS_TOO_FAST);
    assert_int_equal(access_find_again(scene->access, secret, 0), ACCESS_GRANTED);
    pass(10 * MICROSECONDS_PER_SECOND);
    assert_int_equal(access_find_again(scene->access, secret, 0), ACCESS_UNKNOWN); /* expired */
    assert_int_equal(access_find_again(scene->access, "x", 0), ACCESS_UNKNOWN);
    pass(ACCESS_STALE_US);
    assert_int_equal(access_find_again(scene->access, secret, 0), ACCESS_STALE);
}

static void a_token_is_found_again_only_with_its_workspace(void **state)
{
    struct scene *scene = *state;
    char secret[TOKEN_SECRET_LENGTH + 1];
    struct principal principal;
    make_token(scene, "ci", 0, secret);
    refresh(scene);
    assert_int_equal(find(scene, secret, &principal), ACCESS_GRANTED);
    int64_t acme = access_workspace_id(&principal, "acme");
    assert_true(acme > 0);
    assert_int_equal(access_workspace_id(NULL, "acme"), 0);
    assert_int_equal(access_find_again(scene->access, secret, acme), ACCESS_GRANTED);
    assert_int_equal(access_find_again(scene->access, secret, acme + 1), ACCESS_UNKNOWN);
}

static void this_machine_needs_no_token_until_there_was_one(void **state)
{
    struct scene *scene = *state;
    char secret[TOKEN_SECRET_LENGTH + 1];
    refresh(scene);
    assert_false(access_needs_token(scene->access, true));
    assert_true(access_needs_token(scene->access, false));
    make_token(scene, "ci", 0, secret);
    refresh(scene);
    assert_true(access_needs_token(scene->access, true));
    assert_int_equal(store_token_revoke(scene->store, "ci", &scene->error), WEIR_OK);
    refresh(scene);
    assert_true(access_needs_token(scene->access, true));
    open_access(scene, &(struct access_options){.rate = 0}); /* as after a restart */
    refresh(scene);
    assert_true(access_needs_token(scene->access, true));
    open_access(scene, &(struct access_options){.is_anonymous = true});
    refresh(scene);
    assert_false(access_needs_token(scene->access, true));
    assert_true(access_needs_token(scene->access, false));
}

static void a_token_has_a_rate_of_its_own(void **state)
{
    struct scene *scene = *state;
    char first[TOKEN_SECRET_LENGTH + 1];
    char second[TOKEN_SECRET_LENGTH + 1];
    struct principal principal;
    open_access(scene, &(struct access_options){.rate = 10});
    make_token(scene, "first", 0, first);
    make_token(scene, "second", 0, second);
    refresh(scene);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(find(scene, first, &principal), ACCESS_GRANTED);
    }
    assert_int_equal(find(scene, first, &principal), ACCESS_TOO_FAST);
    assert_int_equal(find(scene, second, &principal), ACCESS_GRANTED);
    refresh(scene); /* keeps the counters */
    assert_int_equal(find(scene, first, &principal), ACCESS_TOO_FAST);
    pass(100 * MICROSECONDS_PER_MS);
    assert_int_equal(find(scene, first, &principal), ACCESS_GRANTED);
    assert_int_equal(find(scene, first, &principal), ACCESS_TOO_FAST);
    pass(3600 * MICROSECONDS_PER_SECOND); /* no more than the requests of a second are saved up */
    refresh(scene);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(find(scene, first, &principal), ACCESS_GRANTED);
    }
    assert_int_equal(find(scene, first, &principal), ACCESS_TOO_FAST);
}

/* How many requests of a second are granted. */
static int granted_at_once(struct scene *scene, const char *secret)
{
    struct principal principal;
    int count = 0;
    pass(MICROSECONDS_PER_SECOND);
    while (find(scene, secret, &principal) == ACCESS_GRANTED) {
        count++;
        assert_in_range(count, 1, 1000);
    }
    return count;
}

static void the_smaller_rate_of_server_and_token_counts(void **state)
{
    struct scene *scene = *state;
    char slow[TOKEN_SECRET_LENGTH + 1];
    char fast[TOKEN_SECRET_LENGTH + 1];
    char plain[TOKEN_SECRET_LENGTH + 1];
    struct principal principal;
    make_token_with_rate(scene, "slow", 0, 5, slow);
    make_token_with_rate(scene, "fast", 0, 20, fast);
    make_token(scene, "plain", 0, plain);
    open_access(scene, &(struct access_options){.rate = 10});
    refresh(scene);
    assert_int_equal(granted_at_once(scene, slow), 5);
    assert_int_equal(granted_at_once(scene, fast), 10);
    assert_int_equal(granted_at_once(scene, plain), 10);
    open_access(scene, &(struct access_options){.rate = 0});
    refresh(scene);
    assert_int_equal(granted_at_once(scene, slow), 5);
    assert_int_equal(granted_at_once(scene, fast), 20);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(find(scene, plain, &principal), ACCESS_GRANTED);
    }
}

static void refused_attempts_are_counted_by_address(void **state)
{
    struct scene *scene = *state;
    struct sockaddr_in one = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0A000001)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in6 neighbour = {.sin6_family = AF_INET6};
    int retry_after_s = 0;
    assert_int_equal(inet_pton(AF_INET6, "2001:db8::1", &six.sin6_addr), 1);
    assert_int_equal(inet_pton(AF_INET6, "2001:db8::2", &neighbour.sin6_addr), 1);
    for (int i = 0; i < ACCESS_FAILURES_MOST; i++) {
        assert_false(access_count_failure(scene->access, (struct sockaddr *)&one, &retry_after_s));
        assert_false(access_count_failure(scene->access, (struct sockaddr *)&six, &retry_after_s));
    }
    assert_int_equal(retry_after_s, 0);
    assert_true(access_count_failure(scene->access, (struct sockaddr *)&one, &retry_after_s));
    assert_in_range(retry_after_s, 1, 3);
    assert_true(access_count_failure(scene->access, (struct sockaddr *)&neighbour, &retry_after_s)); /* of the same /64 */
    pass(ACCESS_FAILURE_US);
    assert_false(access_count_failure(scene->access, (struct sockaddr *)&one, &retry_after_s));
    assert_true(access_count_failure(scene->access, (struct sockaddr *)&one, &retry_after_s));
    pass(ACCESS_FAILURES_MOST * ACCESS_FAILURE_US);
    for (int i = 0; i < ACCESS_FAILURES_MOST; i++) {
        assert_false(access_count_failure(scene->access, (struct sockaddr *)&one, &retry_after_s));
    }
    assert_true(access_count_failure(scene->access, (struct sockaddr *)&one, &retry_after_s));
    assert_false(access_count_failure(scene->access, NULL, &retry_after_s)); /* a socket file */
}

/* The "last_used_at" of the only token, or NULL. */
static bool is_noted(struct scene *scene)
{
    json_t *page = NULL;
    const struct list_options options = {.kind = LIST_TOKENS};
    assert_int_equal(store_list(scene->store, &options, &page, &scene->error), WEIR_OK);
    bool is_set = json_is_string(json_object_get(json_array_get(json_object_get(page, "items"), 0), "last_used_at"));
    json_decref(page);
    return is_set;
}

static void a_use_is_written_once(void **state)
{
    struct scene *scene = *state;
    char secret[TOKEN_SECRET_LENGTH + 1];
    struct principal principal;
    make_token(scene, "ci", 0, secret);
    refresh(scene);
    assert_int_equal(access_write_uses(scene->access, scene->store, &scene->error), WEIR_OK);
    assert_false(is_noted(scene));
    assert_int_equal(find(scene, secret, &principal), ACCESS_GRANTED);
    refresh(scene); /* keeps that it was used */
    assert_int_equal(access_write_uses(scene->access, scene->store, &scene->error), WEIR_OK);
    assert_true(is_noted(scene));
}

static void rights_are_those_of_the_token(void **state)
{
    (void)state;
    static const char *const names[] = {"acme", "beta"};
    const struct principal some = {.role = TOKEN_OPERATE, .workspaces = names, .workspace_count = 2};
    const struct principal all = {.role = TOKEN_READ, .has_all_workspaces = true};
    const struct principal none = {.role = TOKEN_ADMIN};
    assert_true(access_has_role(&some, TOKEN_READ));
    assert_true(access_has_role(&some, TOKEN_OPERATE));
    assert_false(access_has_role(&some, TOKEN_ADMIN));
    assert_false(access_has_role(&all, TOKEN_ENQUEUE));
    assert_true(access_has_role(NULL, TOKEN_ADMIN));
    assert_true(access_has_workspace(&some, "beta"));
    assert_false(access_has_workspace(&some, "tiny"));
    assert_false(access_has_workspace(&some, "acm"));
    assert_false(access_has_workspace(&some, NULL));
    assert_true(access_has_workspace(&all, "tiny"));
    assert_true(access_has_workspace(&all, NULL));
    assert_false(access_has_workspace(&none, "acme"));
    assert_true(access_has_workspace(NULL, "tiny"));
}

#define ACCESS_TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ACCESS_TEST(a_token_is_found_with_its_facts),
        ACCESS_TEST(unknown_revoked_and_expired_tokens_are_the_same),
        ACCESS_TEST(every_look_up_compares_once),
        ACCESS_TEST(a_hash_that_differs_in_its_last_byte_is_another_one),
        ACCESS_TEST(nothing_is_granted_without_a_fresh_set),
        ACCESS_TEST(a_miss_reads_the_set_at_a_bounded_rate),
        ACCESS_TEST(this_machine_needs_no_token_until_there_was_one),
        ACCESS_TEST(a_token_that_waited_is_found_again_without_counting),
        ACCESS_TEST(a_token_is_found_again_only_with_its_workspace),
        ACCESS_TEST(a_token_has_a_rate_of_its_own),
        ACCESS_TEST(the_smaller_rate_of_server_and_token_counts),
        ACCESS_TEST(refused_attempts_are_counted_by_address),
        ACCESS_TEST(a_use_is_written_once),
        ACCESS_TEST(rights_are_those_of_the_token),
    };
    return cmocka_run_group_tests_name("access", tests, NULL, NULL);
}
