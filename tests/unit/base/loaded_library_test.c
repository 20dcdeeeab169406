#include "base/loaded_library.h"

#include <string.h>

#include "base/libssl.h"
#include "support/test.h"

static void a_library_that_is_missing_or_too_old_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"pthread_create", "no_such_function"};
    void *functions[2] = {NULL, NULL};
    char reason[LOADED_LIBRARY_REASON_MAX];
    struct loaded_library missing = {.file = "libnone.so.1", .names = names, .count = 1, .functions = functions};
    struct loaded_library old = {.file = "libc.so.6", .names = names, .count = 2, .functions = functions};
    struct loaded_library right = {.file = "libc.so.6", .names = names, .count = 1, .functions = functions};
    assert_non_null(strstr(loaded_library_load(&missing, reason), "libnone.so.1"));
    assert_non_null(strstr(loaded_library_load(&old, reason), "no no_such_function"));
    assert_null(functions[0]);
    assert_null(loaded_library_load(&right, reason));
    assert_non_null(functions[0]);
}

/* The command and these tests contain weir, so no library without code lies beside it. */
static void a_program_that_contains_weir_opens_the_library_itself(void **state)
{
    (void)state;
    char path[LOADED_LIBRARY_PATH_MAX];
    assert_string_equal(loaded_library_find("libweir_ssl.so", "libssl.so.3", path), "libssl.so.3");
}

static void openssl_is_loaded_once(void **state)
{
    (void)state;
    struct weir_error error;
    assert_int_equal(libssl_load(&error), WEIR_OK);
    struct libssl first = libssl;
    assert_non_null(SSL_new);
    assert_int_equal(libssl_load(NULL), WEIR_OK);
    assert_memory_equal(&first, &libssl, sizeof first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_that_is_missing_or_too_old_is_refused),
        cmocka_unit_test(a_program_that_contains_weir_opens_the_library_itself),
        cmocka_unit_test(openssl_is_loaded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
