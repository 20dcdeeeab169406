/* Our locks against those of the real Java library on one row: the holder excludes the other, in both directions.
 *
 * Both sides do the same unprotected thing under the lock: read a counter, note that they are inside, write the counter
 * plus one. Two at once would be seen inside of each other, or lose a count. Run by shedlock_race.sh, which fetches the
 * library and passes its class path. */
#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "store/store.h"
#include "support/postgres_server.h"
#include "support/test.h"

enum { THREADS = 2, ROUNDS = 250, SIDES = 2, URL_SIZE = 256, SQL_SIZE = 200 };

#define AT_MOST_US (30 * MICROSECONDS_PER_SECOND)

static struct postgres_server server;

static void run(PGconn *connection, const char *sql)
{
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    }
    PQclear(result);
}

static void one_round(PGconn *connection)
{
    char sql[SQL_SIZE];
    PGresult *result = PQexec(connection, "SELECT n + 1, busy FROM public.guarded");
    assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    (void)snprintf(sql, sizeof sql, "UPDATE public.guarded SET busy = false, n = %s", PQgetvalue(result, 0, 0));
    if (PQgetvalue(result, 0, 1)[0] == 't') {
        run(connection, "UPDATE public.overlaps SET n = n + 1");
    }
    PQclear(result);
    run(connection, "UPDATE public.guarded SET busy = true");
    run(connection, sql);
}

static void *race(void *argument)
{
    struct store *store = NULL;
    struct weir_error error;
    char url[URL_SIZE];
    char holder[40];
    postgres_server_url(&server, "postgres", url, sizeof url);
    PGconn *connection = PQconnectdb(url);
    assert_int_equal(store_open_again(argument, &store, &error), WEIR_OK);
    for (int done = 0; done < ROUNDS;) {
        (void)snprintf(holder, sizeof holder, "%p-%d", (void *)store, done);
        struct lock_request request = {.name = "race", .holder = holder, .at_most_us = AT_MOST_US};
        enum weir_status status = store_lock(store, &request, &error);
        if (status == WEIR_OK) {
            one_round(connection);
            assert_int_equal(store_unlock(store, &request, &error), WEIR_OK);
            done++;
        } else {
            struct timespec pause = {.tv_nsec = 1000000};
            assert_int_equal(status, WEIR_CONFLICT);
            (void)nanosleep(&pause, NULL);
        }
    }
    store_close(store);
    PQfinish(connection);
    return NULL;
}

static pid_t start_java(void)
{
    char url[URL_SIZE];
    (void)snprintf(url, sizeof url, "jdbc:postgresql://127.0.0.1:%d/postgres?user=weir", server.port);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)execlp("java", "java", "-cp", getenv("SHEDLOCK_CLASSPATH"), "ShedLockRace", url, "2", "250", (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void the_java_library_and_weir_exclude_each_other(void **state)
{
    struct store *store = NULL;
    struct weir_error error;
    char url[URL_SIZE];
    int status = 0;
    pthread_t threads[THREADS];
    (void)state;
    assert_non_null(getenv("SHEDLOCK_CLASSPATH"));
    postgres_server_open(&server, NULL, true);
    postgres_server_url(&server, "postgres", url, sizeof url);
    struct store_options options = {.url = url, .create = true};
    assert_int_equal(store_open(&options, &store, &error), WEIR_OK);
    assert_int_equal(store_migrate(store, NULL, &error), WEIR_OK);
    (void)postgres_server_ask(&server, "postgres",
                              "CREATE TABLE public.guarded AS SELECT 0 AS n, false AS busy; "
                              "CREATE TABLE public.overlaps AS SELECT 0 AS n");
    pid_t java = start_java();
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, race, store), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(waitpid(java, &status, 0), java);
    assert_int_equal(status, 0);
    assert_string_equal(postgres_server_ask(&server, "postgres", "SELECT n FROM public.overlaps"), "0");
    assert_int_equal(strtol(postgres_server_ask(&server, "postgres", "SELECT n FROM public.guarded"), NULL, 10),
                     SIDES * THREADS * ROUNDS);
    store_close(store);
    postgres_server_close(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_java_library_and_weir_exclude_each_other)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
