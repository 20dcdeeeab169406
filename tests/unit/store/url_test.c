/* The parts of a store's URL that may be shown, and the texts that are never taken for the path of a file. */
#include "store/store.h"
#include "support/test.h"

static void assert_shown(const char *url, const char *expected)
{
    char shown[1000];
    store_url_shown(url, shown, sizeof shown);
    assert_string_equal(shown, expected);
}

static void a_password_is_shown_in_no_way_of_writing_it(void **state)
{
    (void)state;
    assert_shown("postgres://u:pw@h/db", "postgres://u:***@h/db");
    assert_shown("postgres://u:p@w/@h/db", "postgres://u:***@h/db");
    assert_shown("postgres://u:p?w@h/db", "postgres://u:***@h/db");
    assert_shown("postgres://h/db?password=pw&user=u", "postgres://h/db?password=***&user=u");
    assert_shown("postgres://h/db?user=u&sslpassword=pw", "postgres://h/db?user=u&sslpassword=***");
    assert_shown("postgres://h/db?passw%6Frd=pw", "postgres://h/db?passw%6Frd=***");
    assert_shown("postgre://u:pw@h/db", "postgre://u:***@h/db");
    assert_shown("u:pw@h/db", "u:***@h/db");
    assert_shown("postgres//u:pw@h/db", "***");
    assert_shown("host=h password='p w' user=u", "***");
}

static void what_holds_no_secret_is_shown_as_it_is(void **state)
{
    (void)state;
    assert_shown("sqlite:/var/lib/weir/a@b:c@d.db", "sqlite:/var/lib/weir/a@b:c@d.db");
    assert_shown("./weir.db", "./weir.db");
    assert_shown("postgres://u@h:5432,g:5433/db?schema=s", "postgres://u@h:5432,g:5433/db?schema=s");
    assert_shown("postgres:///db?host=/run/postgresql", "postgres:///db?host=/run/postgresql");
    assert_shown("", "");
    assert_shown("=", "=");
}

static void what_is_meant_as_something_else_is_never_a_file(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "host=h dbname=app", "user=u password=pw",    "x host=h",       "postgres//u:pw@h/db", "./u:pw@h/db",
        ":memory:",          "file:x.db?mode=memory", "postgres//h/db", "postgresql///db",     "http//h:7717",
        "https//h",          "sqlite//var/weir.db"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct store_options options = {.url = refused[i], .create = true};
        struct store *store = NULL;
        struct weir_error error = {0};
        assert_int_equal(store_open(&options, &store, &error), WEIR_INVALID_ARGUMENT);
        assert_null(strstr(error.message, "pw"));
        assert_non_null(strstr(error.hint, "postgres://"));
    }
    assert_false(store_url_is_no_path("sqlite:host=h"));
    assert_false(store_url_is_no_path("./postgres//weir.db"));
    assert_false(store_url_is_no_path("postgres/weir.db"));
    assert_false(store_url_is_no_path("/var/lib/ghost=1/weir.db"));
    assert_false(store_url_is_no_path("postgres://u:pw@h/db?host=g"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_password_is_shown_in_no_way_of_writing_it),
        cmocka_unit_test(what_holds_no_secret_is_shown_as_it_is),
        cmocka_unit_test(what_is_meant_as_something_else_is_never_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
