/* PgBouncer in transaction mode between us and the server: each transaction may meet another server connection, so neither
 * prepared statements nor settings of the session can be relied upon. */
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "store/postgres/link/link.h"
#include "store/postgres/link/listen.h"
#include "support/postgres_server.h"
#include "support/test.h"

#define PATIENT_US (90 * MICROSECONDS_PER_SECOND)
enum { URL_SIZE = 256, INI_SIZE = 200 };

static struct postgres_server server;

struct pooler {
    pid_t pid;
    int port;
    struct address *address;
    struct link one;
    struct link two;
    struct weir_error error;
};

static int open_server(void **state)
{
    (void)state;
    postgres_server_open(&server, NULL, false);
    (void)postgres_server_ask(&server, "postgres",
                              "CREATE SCHEMA weir; CREATE TABLE weir.schema_migrations (version integer PRIMARY KEY,"
                              " name text NOT NULL, program text NOT NULL)");
    return 0;
}

static int close_server(void **state)
{
    (void)state;
    postgres_server_close(&server);
    return 0;
}

static void write_file(const char *name, const char *content, char *to_path, size_t size)
{
    (void)snprintf(to_path, size, "%s/%s", server.folder, name);
    FILE *file = fopen(to_path, "w");
    assert_non_null(file);
    (void)fputs(content, file);
    assert_int_equal(fclose(file), 0);
}

static void start_pooler(struct pooler *pooler, const char *more)
{
    char users[INI_SIZE];
    char path[INI_SIZE];
    char ini[1024];
    char place[INI_SIZE];
    pooler->port = postgres_server_free_port();
    write_file("users.txt", "\"weir\" \"\"\n", users, sizeof users);
    (void)snprintf(ini, sizeof ini,
                   "[databases]\n* = host=%s port=%d\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"
                   "unix_socket_dir =\nauth_type = trust\nauth_file = %s\npool_mode = transaction\n"
                   "default_pool_size = 2\n%s\n",
                   server.folder, server.port, pooler->port, users, more);
    write_file("pgbouncer.ini", ini, path, sizeof path);
    char program[] = "/usr/sbin/pgbouncer";
    char *const arguments[] = {program, path, NULL};
    pooler->pid = postgres_server_run(&server, arguments);
    (void)snprintf(place, sizeof place, "host=127.0.0.1 port=%d user=weir dbname=postgres", pooler->port);
    int64_t until_us = clock_boot(clock_system()) + PATIENT_US;
    while (PQping(place) != PQPING_OK) {
        struct timespec pause = {.tv_sec = 0, .tv_nsec = 10 * 1000 * 1000};
        if (waitpid(pooler->pid, NULL, WNOHANG) != 0 || clock_boot(clock_system()) > until_us) {
            fail_msg("pgbouncer does not start; is the package installed? (./dev test does that)");
        }
        (void)nanosleep(&pause, NULL);
    }
}

static void open_links(struct pooler *pooler, const char *parameters)
{
    char url[URL_SIZE];
    (void)snprintf(url, sizeof url, "//weir@127.0.0.1:%d/postgres%s", pooler->port, parameters);
    assert_int_equal(address_parse(url, &pooler->address, &pooler->error), WEIR_OK);
    link_init(&pooler->one, pooler->address, PATIENT_US, "one");
    link_init(&pooler->two, pooler->address, PATIENT_US, "two");
    link_start(&pooler->one);
    link_start(&pooler->two);
    if (link_connect(&pooler->one, &pooler->error) != WEIR_OK || link_connect(&pooler->two, &pooler->error) != WEIR_OK) {
        fail_msg("%s", pooler->error.message);
    }
}

static int open_plain(void **state)
{
    struct pooler *pooler = calloc(1, sizeof *pooler);
    assert_non_null(pooler);
    (void)postgres_server_ask(&server, "postgres", "TRUNCATE weir.schema_migrations");
    start_pooler(pooler, "");
    *state = pooler;
    return 0;
}

/* A pooler that takes the startup options of a client and forgets them. */
static int open_forgetful(void **state)
{
    struct pooler *pooler = calloc(1, sizeof *pooler);
    assert_non_null(pooler);
    (void)postgres_server_ask(&server, "postgres", "TRUNCATE weir.schema_migrations");
    start_pooler(pooler, "ignore_startup_parameters = options");
    *state = pooler;
    return 0;
}

static int close_pooler(void **state)
{
    struct pooler *pooler = *state;
    link_close(&pooler->one);
    link_close(&pooler->two);
    address_release(pooler->address);
    (void)kill(pooler->pid, SIGKILL);
    (void)waitpid(pooler->pid, NULL, 0);
    free(pooler);
    return 0;
}

static int64_t probe(struct pooler *pooler, struct link *link)
{
    int64_t one = 0;
    if (link_read_integer(link, &pooler->error, &one, QUERY_PROBE, "") != WEIR_OK) {
        fail_msg("%s", pooler->error.message);
    }
    return one;
}

static void insert(struct pooler *pooler, struct link *link, int version)
{
    if (link_run(link, &pooler->error, NULL, QUERY_NOTE_APPLIED, "dtt", version, "name", "program") != WEIR_OK) {
        fail_msg("%s", pooler->error.message);
    }
}

/* Each link meets both server connections: while one holds the first in a transaction, the other gets the second. */
static void cross(struct pooler *pooler)
{
    struct link *const links[] = {&pooler->one, &pooler->two};
    for (int round = 0; round < 4; round++) {
        struct link *holder = links[round % 2];
        struct link *other = links[(round + 1) % 2];
        assert_int_equal(link_transaction_begin(holder, &pooler->error), WEIR_OK);
        assert_int_equal(probe(pooler, other), 1);
        insert(pooler, other, 10 * round);
        assert_int_equal(link_transaction_commit(holder, &pooler->error), WEIR_OK);
        assert_int_equal(probe(pooler, holder), 1);
        insert(pooler, holder, 10 * round + 1);
    }
    assert_string_equal(postgres_server_ask(&server, "postgres", "SELECT count(*) FROM weir.schema_migrations"), "8");
}

static void a_pooler_that_refuses_our_options_is_detected(void **state)
{
    struct pooler *pooler = *state;
    open_links(pooler, "");
    assert_true(pooler->address->pooled);
    cross(pooler);
}

static void a_pooler_that_drops_our_options_is_detected_by_its_answers(void **state)
{
    struct pooler *pooler = *state;
    open_links(pooler, "");
    assert_false(pooler->address->pooled);
    assert_int_equal(probe(pooler, &pooler->one), 1); /* prepared on the first server connection */
    assert_int_equal(link_transaction_begin(&pooler->two, &pooler->error), WEIR_OK);
    assert_int_equal(probe(pooler, &pooler->one), 1); /* the other has that one now */
    assert_int_equal(link_transaction_commit(&pooler->two, &pooler->error), WEIR_OK);
    assert_true(pooler->address->pooled);
    cross(pooler);
}

static enum weir_status insert_in_transaction(struct link *link, void *context, struct weir_error *error)
{
    return link_run(link, error, NULL, QUERY_NOTE_APPLIED, "dtt", *(int *)context, "name", "program");
}

/* The statement that fails is inside of a transaction: all of that is done again. */
static void a_transaction_that_meets_a_strange_connection_is_repeated(void **state)
{
    struct pooler *pooler = *state;
    int versions[] = {1, 2};
    open_links(pooler, "");
    insert(pooler, &pooler->one, 100); /* prepared on the first server connection */
    assert_int_equal(link_transaction_begin(&pooler->two, &pooler->error), WEIR_OK);
    assert_int_equal(probe(pooler, &pooler->two), 1); /* holds that one */
    assert_int_equal(link_transaction(&pooler->one, insert_in_transaction, &versions[0], &pooler->error), WEIR_OK);
    assert_true(pooler->address->pooled);
    assert_int_equal(link_transaction_commit(&pooler->two, &pooler->error), WEIR_OK);
    assert_int_equal(link_transaction(&pooler->two, insert_in_transaction, &versions[1], &pooler->error), WEIR_OK);
    assert_string_equal(postgres_server_ask(&server, "postgres", "SELECT count(*) FROM weir.schema_migrations"), "3");
}

/* Blocks of the same name are other statements for another schema, and in another version of the program. */
static void a_statement_that_another_store_prepared_is_not_taken_for_ours(void **state)
{
    struct pooler *pooler = *state;
    struct pooler other = {.port = pooler->port};
    (void)postgres_server_ask(&server, "postgres",
                              "DROP SCHEMA IF EXISTS other CASCADE; CREATE SCHEMA other;"
                              "CREATE TABLE other.schema_migrations (LIKE weir.schema_migrations INCLUDING ALL)");
    open_links(pooler, "");
    open_links(&other, "?schema=other");
    insert(pooler, &pooler->one, 1); /* prepared on the first server connection */
    assert_int_equal(link_transaction_begin(&pooler->two, &pooler->error), WEIR_OK);
    insert(&other, &other.one, 2); /* prepared on the second one */
    assert_int_equal(link_transaction_commit(&pooler->two, &pooler->error), WEIR_OK);
    insert(&other, &other.one, 3); /* on the first one again */
    link_close(&other.one);
    link_close(&other.two);
    address_release(other.address);
    assert_string_equal(postgres_server_ask(&server, "postgres", "SELECT count(*) FROM other.schema_migrations"), "2");
    assert_string_equal(postgres_server_ask(&server, "postgres", "SELECT count(*) FROM weir.schema_migrations"), "1");
}

static void options_of_the_environment_are_kept_from_a_pooler(void **state)
{
    struct pooler *pooler = *state;
    assert_int_equal(setenv("PGOPTIONS", "-c geqo=off", 1), 0);
    open_links(pooler, "");
    assert_int_equal(unsetenv("PGOPTIONS"), 0);
    assert_true(pooler->address->pooled);
    assert_int_equal(probe(pooler, &pooler->one), 1);
    if (link_execute(&pooler->one, "SELECT 1 / (current_database() = 'postgres')::int", &pooler->error) != WEIR_OK) {
        fail_msg("%s", pooler->error.message);
    }
}

/* Compiling them takes longer than looks do: some 3 s on a busy machine, during which the pool has a connection less.
 * Without a pooler that is a setting of the connection (connect.c). */
static void reads_are_not_compiled(void **state)
{
    struct pooler *pooler = *state;
    (void)postgres_server_ask(&server, "postgres", "ALTER ROLE weir SET jit = on");
    open_links(pooler, "");
    assert_true(pooler->address->pooled);
    assert_int_equal(link_transaction_begin_with(&pooler->one, QUERY_BEGIN_SNAPSHOT, &pooler->error), WEIR_OK);
    if (link_execute(&pooler->one, "SELECT 1 / (current_setting('jit') = 'off')::int", &pooler->error) != WEIR_OK) {
        fail_msg("%s", pooler->error.message);
    }
    link_transaction_rollback(&pooler->one);
    (void)postgres_server_ask(&server, "postgres", "ALTER ROLE weir RESET jit");
}

static void a_pooler_that_the_url_names_costs_no_attempt_and_no_handle_listens(void **state)
{
    struct pooler *pooler = *state;
    open_links(pooler, "?pooler=transaction");
    assert_true(pooler->address->pooled);
    assert_null(listener_join(pooler->address));
    cross(pooler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_pooler_that_refuses_our_options_is_detected, open_plain, close_pooler),
        cmocka_unit_test_setup_teardown(a_pooler_that_drops_our_options_is_detected_by_its_answers, open_forgetful,
                                        close_pooler),
        cmocka_unit_test_setup_teardown(a_transaction_that_meets_a_strange_connection_is_repeated, open_forgetful,
                                        close_pooler),
        cmocka_unit_test_setup_teardown(a_statement_that_another_store_prepared_is_not_taken_for_ours, open_forgetful,
                                        close_pooler),
        cmocka_unit_test_setup_teardown(options_of_the_environment_are_kept_from_a_pooler, open_plain, close_pooler),
        cmocka_unit_test_setup_teardown(reads_are_not_compiled, open_plain, close_pooler),
        cmocka_unit_test_setup_teardown(a_pooler_that_the_url_names_costs_no_attempt_and_no_handle_listens, open_plain,
                                        close_pooler),
    };
    return cmocka_run_group_tests(tests, open_server, close_server);
}
