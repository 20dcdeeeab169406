#include "server/session_cookie.h"

#include "support/test.h"

enum { ARENA_BYTES = 4096 };

static struct http_request request_with(const char *cookies)
{
    struct http_request request = {.fields = {[FIELD_COOKIE] = cookies, [FIELD_SESSION] = "1"}};
    arena_init(&request.arena, ARENA_BYTES);
    return request;
}

static void assert_secret(const char *cookies, const char *expected)
{
    struct http_request request = request_with(cookies);
    const char *secret = "untouched";
    assert_int_equal(session_secret(&request, &secret), WEIR_OK);
    if (expected == NULL) {
        assert_null(secret);
    } else {
        assert_string_equal(secret, expected);
    }
    arena_close(&request.arena);
}

static void a_secret_is_found_by_the_whole_name_of_its_cookie(void **state)
{
    (void)state;
    assert_secret("weir_session=abc", "abc");
    assert_secret("a=1; weir_session=abc; b=2", "abc");
    assert_secret("a=1;weir_session=abc;b=2", "abc");
    assert_secret("weir_session=first; weir_session=second", "first");
    assert_secret("weir_sessions=abc", NULL);
    assert_secret("xweir_session=abc; a=weir_session=abc; weir_session", NULL);
    assert_secret("weir_session=", NULL);
    assert_secret("", NULL);
    assert_secret(NULL, NULL);
}

static void a_cookie_without_the_field_of_the_page_does_not_count(void **state)
{
    (void)state;
    struct http_request request = request_with("weir_session=abc");
    const char *secret = "untouched";
    request.fields[FIELD_SESSION] = NULL;
    assert_int_equal(session_secret(&request, &secret), WEIR_OK);
    assert_null(secret);
    arena_close(&request.arena);
}

/* A cookie that was set without TLS is sent first when its path is longer. */
static void a_cookie_for_tls_counts_more_than_one_that_others_can_set(void **state)
{
    (void)state;
    assert_secret("weir_session=theirs; __Secure-weir_session=own", "own");
    assert_secret("__Secure-weir_session=own; weir_session=theirs", "own");
    assert_secret("__Secure-weir_session=; weir_session=theirs", NULL);
}

static void assert_cookie(const char *origin, const char *secret, const char *expected)
{
    struct http_request request = {.fields = {[FIELD_ORIGIN] = origin}};
    arena_init(&request.arena, ARENA_BYTES);
    assert_string_equal(session_cookie_of(&request, secret), expected);
    arena_close(&request.arena);
}

static void only_a_page_with_tls_gets_a_cookie_for_tls(void **state)
{
    (void)state;
    assert_cookie("http://a", "abc", "weir_session=abc; Max-Age=43200; HttpOnly; SameSite=Strict");
    assert_cookie(NULL, NULL, "weir_session=; Max-Age=0; HttpOnly; SameSite=Strict");
    assert_cookie("HTTPS://a", "abc", "__Secure-weir_session=abc; Max-Age=43200; HttpOnly; SameSite=Strict; Secure");
    assert_cookie("https://a", NULL, "__Secure-weir_session=; Max-Age=0; HttpOnly; SameSite=Strict; Secure");
}

/* Not the same as a missing one: the client would be asked for its token. */
static void no_memory_is_no_missing_secret(void **state)
{
    (void)state;
    struct http_request request = request_with("weir_session=abc");
    const char *secret = "untouched";
    request.arena.max_bytes = 0;
    assert_int_equal(session_secret(&request, &secret), WEIR_OUT_OF_MEMORY);
    assert_string_equal(secret, "untouched");
    arena_close(&request.arena);
}

#define PROOF_TEXT(letter) letter "123456789012345678901234567890123456789012"

/* A browser sends it back as it was set; with TLS it counts only under the name that no other host can set. */
static void the_cookie_of_a_sign_in_comes_back_whole_or_not_at_all(void **state)
{
    (void)state;
    struct sign_in_proof proof = {.state = PROOF_TEXT("s"), .nonce = PROOF_TEXT("n"), .verifier = PROOF_TEXT("v")};
    struct sign_in_proof read;
    struct http_request request = {.is_whole = true};
    char cookie[512];
    arena_init(&request.arena, ARENA_BYTES);
    text_copy(cookie, sizeof cookie, sign_in_cookie_of(&request, &proof, true));
    assert_non_null(strstr(cookie, "; Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure"));
    *strchr(cookie, ';') = '\0';
    request.fields[FIELD_COOKIE] = cookie;
    assert_true(sign_in_cookie_read(&request, true, &read));
    assert_memory_equal(&read, &proof, sizeof proof);
    assert_false(sign_in_cookie_read(&request, false, &read));
    request.fields[FIELD_COOKIE] = cookie + strlen("__Host-");
    assert_false(sign_in_cookie_read(&request, true, &read));
    assert_true(sign_in_cookie_read(&request, false, &read));
    for (size_t length = strlen(cookie); length-- > strlen("__Host-");) {
        cookie[length] = '\0';
        assert_false(sign_in_cookie_read(&request, false, &read));
    }
    request.fields[FIELD_COOKIE] = NULL;
    assert_false(sign_in_cookie_read(&request, false, &read));
    assert_non_null(strstr(sign_in_cookie_of(&request, NULL, false), "weir_sign_in=; Path=/; Max-Age=0; "));
    arena_close(&request.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_secret_is_found_by_the_whole_name_of_its_cookie),
        cmocka_unit_test(a_cookie_without_the_field_of_the_page_does_not_count),
        cmocka_unit_test(a_cookie_for_tls_counts_more_than_one_that_others_can_set),
        cmocka_unit_test(only_a_page_with_tls_gets_a_cookie_for_tls),
        cmocka_unit_test(no_memory_is_no_missing_secret),
        cmocka_unit_test(the_cookie_of_a_sign_in_comes_back_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
