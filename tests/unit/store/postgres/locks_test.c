/* The shedlock table as another program may have made it: a table that cannot be shared safely is refused with a message.
 */
#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "support/postgres_server.h"
#include "support/test.h"

enum { URL_SIZE = 256 };

static struct postgres_server server;

static int open_server(void **state)
{
    (void)state;
    postgres_server_open(&server, NULL, false);
    return 0;
}

static int close_server(void **state)
{
    (void)state;
    postgres_server_close(&server);
    return 0;
}

static struct store *open_store(void)
{
    struct store *store = NULL;
    struct weir_error error;
    char url[URL_SIZE];
    (void)postgres_server_ask(&server, "postgres", "DROP SCHEMA IF EXISTS weir CASCADE");
    postgres_server_url(&server, "postgres", url, sizeof url);
    struct store_options options = {.url = url, .create = true, .deadline_us = 60 * MICROSECONDS_PER_SECOND};
    assert_int_equal(store_open(&options, &store, &error), WEIR_OK);
    assert_int_equal(store_migrate(store, NULL, &error), WEIR_OK);
    return store;
}

static void assert_refused(const char *change, const char *word)
{
    struct store *store = open_store();
    struct weir_error error = {0};
    struct lock_request request = {.name = "a", .holder = "me", .at_most_us = MICROSECONDS_PER_SECOND};
    (void)postgres_server_ask(&server, "postgres", change);
    assert_int_equal(store_lock(store, &request, &error), WEIR_SCHEMA_MISSING);
    assert_non_null(strstr(error.message, word));
    assert_true(strlen(error.hint) > 0);
    assert_int_equal(store_lock_extend(store, &request, &error), WEIR_SCHEMA_MISSING);
    assert_int_equal(store_unlock(store, &request, &error), WEIR_SCHEMA_MISSING);
    struct list_options list = {.kind = LIST_LOCKS, .limit = 10};
    json_t *page = NULL;
    error = (struct weir_error){0};
    assert_int_equal(store_list(store, &list, &page, &error), WEIR_SCHEMA_MISSING);
    assert_non_null(strstr(error.message, word));
    store_close(store);
}

/* The command of the hint repairs it. */
static void a_table_that_is_missing_is_made_as_the_hint_says(void **state)
{
    (void)state;
    struct store *store = open_store();
    struct weir_error error = {0};
    struct lock_request request = {.name = "a", .holder = "me", .at_most_us = MICROSECONDS_PER_SECOND};
    (void)postgres_server_ask(&server, "postgres", "DROP TABLE weir.shedlock");
    assert_int_equal(store_lock(store, &request, &error), WEIR_SCHEMA_MISSING);
    assert_non_null(strstr(error.message, "weir.shedlock is missing"));
    char *end = strchr(error.hint, ';');
    assert_non_null(end);
    *end = '\0';
    (void)postgres_server_ask(&server, "postgres", error.hint);
    assert_int_equal(store_lock(store, &request, &error), WEIR_OK);
    assert_int_equal(store_unlock(store, &request, &error), WEIR_OK);
    store_close(store);
}

static void columns_and_keys_that_are_missing_are_named(void **state)
{
    (void)state;
    assert_refused("ALTER TABLE weir.shedlock DROP COLUMN locked_by", "no column locked_by");
    assert_refused("ALTER TABLE weir.shedlock ALTER COLUMN locked_by TYPE bytea USING ''", "locked_by");
    assert_refused("ALTER TABLE weir.shedlock DROP COLUMN locked_by, ALTER COLUMN locked_at TYPE timestamptz",
                   "no column locked_by");
    assert_refused("ALTER TABLE weir.shedlock DROP CONSTRAINT shedlock_pkey", "no primary key");
}

static void times_with_a_zone_are_refused(void **state)
{
    (void)state;
    assert_refused("ALTER TABLE weir.shedlock ALTER COLUMN lock_until TYPE timestamptz", "lock_until");
    assert_refused("ALTER TABLE weir.shedlock ALTER COLUMN locked_at TYPE timestamptz", "locked_at");
}

static void a_table_that_is_missing_is_named(void **state)
{
    (void)state;
    assert_refused("DROP TABLE weir.shedlock", "shedlock");
}

/* Riven's other schema: TIMESTAMP(3), in any zone of the session. */
static void times_in_milliseconds_are_accepted_in_any_zone(void **state)
{
    (void)state;
    struct store *store = open_store();
    struct weir_error error = {0};
    struct lock_request request = {.name = "a", .holder = "me", .at_most_us = 60 * MICROSECONDS_PER_SECOND};
    struct lock_request other = {.name = "a", .holder = "you", .at_most_us = 60 * MICROSECONDS_PER_SECOND};
    (void)postgres_server_ask(&server, "postgres",
                              "ALTER TABLE weir.shedlock ALTER COLUMN lock_until TYPE timestamp(3); "
                              "ALTER ROLE weir SET timezone = 'Asia/Tokyo'");
    assert_int_equal(store_lock(store, &request, &error), WEIR_OK);
    struct store *tokyo = NULL;
    assert_int_equal(store_open_again(store, &tokyo, &error), WEIR_OK);
    assert_int_equal(store_lock(tokyo, &other, &error), WEIR_CONFLICT);
    assert_string_equal(postgres_server_ask(&server, "postgres",
                                            "SELECT abs(extract(epoch FROM lock_until - interval '60 s' - "
                                            "timezone('utc', clock_timestamp()))) < 30 FROM weir.shedlock"),
                        "t");
    assert_int_equal(store_unlock(store, &request, &error), WEIR_OK);
    (void)postgres_server_ask(&server, "postgres", "ALTER ROLE weir RESET timezone");
    /* Its end was rounded to the next millisecond. */
    enum weir_status status = WEIR_CONFLICT;
    int64_t end_us = clock_boot(clock_system()) + 60 * MICROSECONDS_PER_SECOND;
    while (status == WEIR_CONFLICT && clock_boot(clock_system()) < end_us) {
        status = store_lock(tokyo, &other, &error);
    }
    assert_int_equal(status, WEIR_OK);
    store_close(tokyo);
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_with_a_zone_are_refused),
        cmocka_unit_test(a_table_that_is_missing_is_named),
        cmocka_unit_test(a_table_that_is_missing_is_made_as_the_hint_says),
        cmocka_unit_test(columns_and_keys_that_are_missing_are_named),
        cmocka_unit_test(times_in_milliseconds_are_accepted_in_any_zone),
    };
    return cmocka_run_group_tests(tests, open_server, close_server);
}
