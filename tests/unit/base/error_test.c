#include "base/error.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "support/test.h"

static void every_status_has_a_name_of_its_own_a_kind_and_its_codes(void **state)
{
    (void)state;
    for (int i = 0; i < WEIR_STATUS_COUNT; i++) {
        enum weir_status status = (enum weir_status)i;
        const char *name = weir_status_name(status);
        assert_true(strlen(name) > 1);
        assert_true(strspn(name, "abcdefghijklmnopqrstuvwxyz_") == strlen(name));
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(name, weir_status_name((enum weir_status)j));
        }
        int http = weir_status_http(status);
        int exit_code = weir_status_exit(status);
        assert_true(http == 200 || (http >= 400 && http < 600));
        assert_true((exit_code >= 0 && exit_code <= 7) || exit_code == 130);
        assert_int_equal(status == WEIR_OK, weir_status_kind(status) == WEIR_KIND_FINE);
        assert_int_equal(status == WEIR_OK, exit_code == 0);
    }
}

static void a_number_that_is_no_status_is_misuse(void **state)
{
    (void)state;
    assert_string_equal(weir_status_name((enum weir_status) - 1), "misuse");
    assert_string_equal(weir_status_name(WEIR_STATUS_COUNT), "misuse");
    assert_int_equal(weir_status_kind((enum weir_status)99999), WEIR_KIND_PROGRAMMER);
}

static void an_error_keeps_status_text_and_native_code(void **state)
{
    (void)state;
    struct weir_error error;
    memset(&error, 'x', sizeof error);
    assert_int_equal(error_set_native(&error, WEIR_STORE_BUSY, 517, "file \"%s\" is busy", "a.db"), WEIR_STORE_BUSY);
    assert_int_equal(error.status, WEIR_STORE_BUSY);
    assert_int_equal(error.native, 517);
    assert_string_equal(error.message, "file \"a.db\" is busy");
    assert_string_equal(error.hint, "");
    error_hint(&error, "wait %d s", 5);
    assert_string_equal(error.hint, "wait 5 s");
    error_prefix(&error, "cannot claim");
    assert_string_equal(error.message, "cannot claim: file \"a.db\" is busy");
    assert_string_equal(error.hint, "wait 5 s");
    error_clear(&error);
    assert_int_equal(error.status, WEIR_OK);
    assert_string_equal(error.message, "");
}

static void a_new_error_forgets_the_old_hint_and_may_quote_the_old_text(void **state)
{
    (void)state;
    struct weir_error error;
    error_set(&error, WEIR_FAILED, "first");
    error_hint(&error, "do this");
    error_set(&error, WEIR_STORE_FULL, "second after %s", error.message);
    assert_string_equal(error.message, "second after first");
    assert_string_equal(error.hint, "");
    assert_int_equal(error.native, 0);
}

static void an_error_without_a_struct_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(error_set(NULL, WEIR_CONFLICT, "x"), WEIR_CONFLICT);
    assert_int_equal(error_out_of_memory(NULL), WEIR_OUT_OF_MEMORY);
    error_hint(NULL, "x");
    error_prefix(NULL, "x");
    error_clear(NULL);
}

static void assert_one_safe_line(const char *text, size_t size)
{
    assert_true(strlen(text) < size);
    assert_true(text_is_utf8(text, strlen(text)));
    for (const char *at = text; *at != '\0'; at++) {
        assert_true((unsigned char)*at >= 0x20 && *at != 0x7F);
    }
}

static void a_message_is_one_safe_line_for_any_input(void **state)
{
    (void)state;
    struct weir_error error;
    error_set(&error, WEIR_FAILED,
              "a\nb\tc\x1b[31md\x7f"
              "e\xff"
              "f\xE2\x80\xAE"
              "g");
    assert_string_equal(error.message, "a b c?[31md?e?f?g");
    char flood[4096];
    for (size_t i = 0; i + 4 < sizeof flood; i += 4) {
        memcpy(flood + i, "\xF0\x9F\x98\x80", 4);
    }
    flood[sizeof flood - 4] = '\0';
    for (int shift = 0; shift < 4; shift++) {
        error_set(&error, WEIR_FAILED, "%.*s%s", shift, "abc", flood);
        assert_one_safe_line(error.message, sizeof error.message);
        error_prefix(&error, "%s", flood);
        assert_one_safe_line(error.message, sizeof error.message);
        error_hint(&error, "%.*s%s", shift, "abc", flood);
        assert_one_safe_line(error.hint, sizeof error.hint);
    }
}

static void a_broken_invariant_prints_its_place_and_aborts(void **state)
{
    (void)state;
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    pid_t child = test_fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(pipe_ends[1], STDERR_FILENO);
        (void)signal(SIGABRT, SIG_DFL);
        INVARIANT(1 + 1 == 3);
        _exit(0);
    }
    (void)close(pipe_ends[1]);
    char said[512] = "";
    ssize_t length = read(pipe_ends[0], said, sizeof said - 1);
    assert_true(length > 0);
    (void)close(pipe_ends[0]);
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
    assert_non_null(strstr(said, "error_test.c:"));
    assert_non_null(strstr(said, "1 + 1 == 3"));
}

/* With fork() alone the child would leave the assertion by a jump and go on as a second runner of these tests. */
static void an_assertion_that_fails_in_a_forked_child_ends_the_child(void **state)
{
    (void)state;
    pid_t parent = getpid();
    pid_t child = test_fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stdout);
        (void)!freopen("/dev/null", "w", stderr);
        (void)signal(SIGABRT, SIG_DFL);
        assert_int_equal(getpid(), parent);
        _exit(0);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_name_of_its_own_a_kind_and_its_codes),
        cmocka_unit_test(a_number_that_is_no_status_is_misuse),
        cmocka_unit_test(an_error_keeps_status_text_and_native_code),
        cmocka_unit_test(a_new_error_forgets_the_old_hint_and_may_quote_the_old_text),
        cmocka_unit_test(an_error_without_a_struct_is_allowed),
        cmocka_unit_test(an_assertion_that_fails_in_a_forked_child_ends_the_child),
        cmocka_unit_test(a_message_is_one_safe_line_for_any_input),
        cmocka_unit_test(a_broken_invariant_prints_its_place_and_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
