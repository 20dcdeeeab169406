/* The connection to PostgreSQL: with every fault of the server or the network, a call ends in time and reports truly
 * whether something was changed. The server runs with its own defaults, fsync on. */
#include "store/postgres/link/link.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "base/text.h"
#include "observe/event.h"
#include "store/postgres/link/resolve.h"
#include "store/store.h"
#include "support/postgres_server.h"
#include "support/proxy.h"
#include "support/test.h"

#define CALL_US (700 * MICROSECONDS_PER_MS)       /* the deadline of the calls that must meet it */
#define PATIENT_US (90 * MICROSECONDS_PER_SECOND) /* of the calls that must succeed, and of every wait here */
#define HANG_US (50 * MICROSECONDS_PER_SECOND)    /* a call that takes longer did not see its deadline */

enum { URL_SIZE = 256 };

static struct postgres_server server;

struct scene {
    struct address *address;
    struct link link;
    struct proxy *proxy;
    struct weir_error error;
    int64_t began_us;
};

static const char *const tables =
    "DROP SCHEMA IF EXISTS weir CASCADE; CREATE SCHEMA weir;"
    "CREATE TABLE weir.schema_migrations (version integer PRIMARY KEY, name text NOT NULL, program text NOT NULL)";

static int open_server(void **state)
{
    (void)state;
    postgres_server_open(&server, "deadlock_timeout = 50ms\n", true);
    return 0;
}

static int close_server(void **state)
{
    (void)state;
    postgres_server_close(&server);
    return 0;
}

static void connect_scene(struct scene *scene, const char *url, int64_t deadline_us)
{
    if (address_parse(url + strlen("postgres:"), &scene->address, &scene->error) != WEIR_OK) {
        fail_msg("%s: %s", url, scene->error.message);
    }
    link_init(&scene->link, scene->address, deadline_us, "link_test");
    int64_t until_us = clock_boot(clock_system()) + PATIENT_US;
    link_start_long(&scene->link, PATIENT_US);
    while (link_connect(&scene->link, &scene->error) != WEIR_OK) { /* this takes longer than 2.5 s on a very busy machine */
        if (clock_boot(clock_system()) > until_us) {
            fail_msg("%s: %s", url, scene->error.message);
        }
    }
}

static int open_scene(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    char url[URL_SIZE];
    assert_non_null(scene);
    (void)postgres_server_ask(&server, "postgres", tables);
    (void)snprintf(url, sizeof url, "postgres://weir@127.0.0.1:%d/postgres", server.port);
    connect_scene(scene, url, CALL_US);
    *state = scene;
    return 0;
}

/* The same with a proxy on the way. */
static int open_scene_behind_proxy(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    char url[URL_SIZE];
    assert_non_null(scene);
    (void)postgres_server_ask(&server, "postgres", tables);
    scene->proxy = proxy_open(server.port);
    (void)snprintf(url, sizeof url, "postgres://weir@127.0.0.1:%d/postgres?sslmode=disable", proxy_port(scene->proxy));
    connect_scene(scene, url, CALL_US);
    *state = scene;
    return 0;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    link_close(&scene->link);
    address_release(scene->address);
    if (scene->proxy != NULL) {
        proxy_close(scene->proxy);
    }
    free(scene);
    return 0;
}

/* --- short words --- */

static void start(struct scene *scene)
{
    scene->began_us = clock_boot(clock_system());
    link_start(&scene->link);
}

static void start_patient(struct scene *scene)
{
    scene->began_us = clock_boot(clock_system());
    link_start_long(&scene->link, PATIENT_US);
}

static void assert_in_time(const struct scene *scene)
{
    assert_true(clock_boot(clock_system()) - scene->began_us < HANG_US);
}

static enum weir_status look(struct scene *scene)
{
    int64_t one = 0;
    enum weir_status status = link_read_integer(&scene->link, &scene->error, &one, QUERY_PROBE, "");
    if (status == WEIR_OK) {
        assert_int_equal(one, 1);
    }
    return status;
}

static enum weir_status insert(struct scene *scene, int version)
{
    return link_run(&scene->link, &scene->error, NULL, QUERY_NOTE_APPLIED, "dtt", version, "name", "program");
}

static int rows(void)
{
    return (int)strtol(postgres_server_ask(&server, "postgres", "SELECT count(*) FROM weir.schema_migrations"), NULL, 10);
}

/* Until the link works again: after a failed attempt to connect it pauses. */
static void await_recovery(struct scene *scene)
{
    int64_t until_us = clock_boot(clock_system()) + PATIENT_US;
    enum weir_status status = WEIR_FAILED;
    while (status != WEIR_OK) {
        struct timespec pause = {.tv_sec = 0, .tv_nsec = 5 * 1000 * 1000};
        if (clock_boot(clock_system()) > until_us) {
            fail_msg("does not come back: %s", scene->error.message);
        }
        link_start_long(&scene->link, PATIENT_US);
        status = look(scene);
        (void)nanosleep(&pause, NULL);
    }
}

/* --- a server that does not answer --- */

static void a_paused_server_does_not_hang_a_read(void **state)
{
    struct scene *scene = *state;
    postgres_server_signal_all(&server, SIGSTOP);
    start(scene);
    enum weir_status status = look(scene);
    postgres_server_signal_all(&server, SIGCONT);
    assert_int_equal(status, WEIR_STORE_UNREACHABLE);
    assert_in_time(scene);
    assert_non_null(strstr(scene->error.message, "no answer in time"));
    await_recovery(scene);
}

static void a_write_that_a_paused_server_may_have_is_unknown(void **state)
{
    struct scene *scene = *state;
    start_patient(scene);
    assert_int_equal(insert(scene, 1), WEIR_OK);
    postgres_server_signal_all(&server, SIGSTOP);
    start(scene);
    enum weir_status status = insert(scene, 2);
    postgres_server_signal_all(&server, SIGCONT);
    assert_int_equal(status, WEIR_COMMIT_UNKNOWN);
    assert_int_equal(weir_status_kind(status), WEIR_KIND_UNKNOWN);
    assert_in_time(scene);
    await_recovery(scene);
}

static void a_half_open_link_does_not_hang_a_call(void **state)
{
    struct scene *scene = *state;
    proxy_set_mode(scene->proxy, PROXY_SWALLOWS);
    start(scene);
    assert_int_equal(look(scene), WEIR_STORE_UNREACHABLE);
    assert_in_time(scene);
    proxy_set_mode(scene->proxy, PROXY_PASSES);
    await_recovery(scene);
}

static void a_server_that_accepts_and_is_silent_does_not_hang_connecting(void **state)
{
    struct scene *scene = *state;
    link_drop(&scene->link);
    proxy_set_mode(scene->proxy, PROXY_SWALLOWS);
    start_patient(scene);
    assert_int_equal(link_connect(&scene->link, &scene->error), WEIR_STORE_UNREACHABLE);
    assert_in_time(scene);
    proxy_set_mode(scene->proxy, PROXY_PASSES);
    proxy_cut(scene->proxy);
    await_recovery(scene);
}

/* A caller that gives a call more time waits longer for a server that is slow to answer, too. */
static void connecting_has_half_of_a_long_deadline(void **state)
{
    struct scene *scene = *state;
    link_drop(&scene->link);
    proxy_set_mode(scene->proxy, PROXY_SWALLOWS);
    scene->link.deadline_us = 6 * MICROSECONDS_PER_SECOND;
    start_patient(scene);
    assert_int_equal(link_connect(&scene->link, &scene->error), WEIR_STORE_UNREACHABLE);
    assert_true(clock_boot(clock_system()) - scene->began_us >= 3 * MICROSECONDS_PER_SECOND);
    assert_in_time(scene);
}

static void a_statement_that_takes_too_long_is_ended_by_the_server_and_the_link_lives(void **state)
{
    struct scene *scene = *state;
    start_patient(scene); /* the server knows CALL_US, and its refusal is waited for */
    assert_int_equal(link_execute(&scene->link, "SELECT pg_sleep(60)", &scene->error), WEIR_STORE_BUSY);
    assert_in_time(scene);
    assert_string_equal(scene->link.sqlstate, "57014");
    assert_non_null(scene->link.connection);
    start_patient(scene);
    assert_int_equal(look(scene), WEIR_OK);
}

static void a_lock_of_another_session_is_not_awaited_for_ever(void **state)
{
    struct scene *scene = *state;
    struct link other;
    link_init(&other, scene->address, PATIENT_US, "other");
    link_start(&other);
    assert_int_equal(link_transaction_begin(&other, &scene->error), WEIR_OK);
    assert_int_equal(link_execute(&other, "LOCK TABLE weir.schema_migrations", &scene->error), WEIR_OK);
    start_patient(scene); /* as above */
    assert_int_equal(insert(scene, 1), WEIR_STORE_BUSY);
    assert_string_equal(scene->link.sqlstate, "55P03");
    assert_in_time(scene);
    link_transaction_rollback(&other);
    link_close(&other);
    start_patient(scene);
    assert_int_equal(insert(scene, 1), WEIR_OK);
}

/* --- a server that goes away --- */

static void a_connection_that_was_ended_between_two_calls_is_made_anew(void **state)
{
    struct scene *scene = *state;
    postgres_server_end_connections(&server, "link_test");
    start_patient(scene);
    assert_int_equal(insert(scene, 1), WEIR_OK);
    assert_int_equal(rows(), 1);
}

static void a_transaction_that_was_ended_on_the_way_changed_nothing(void **state)
{
    struct scene *scene = *state;
    start_patient(scene);
    assert_int_equal(link_transaction_begin(&scene->link, &scene->error), WEIR_OK);
    assert_int_equal(insert(scene, 1), WEIR_OK);
    postgres_server_end_connections(&server, "link_test");
    assert_int_equal(insert(scene, 2), WEIR_STORE_UNREACHABLE);
    link_transaction_rollback(&scene->link);
    assert_int_equal(rows(), 0);
    start_patient(scene);
    assert_int_equal(insert(scene, 1), WEIR_OK);
}

static void a_commit_after_the_connection_was_lost_is_refused(void **state)
{
    struct scene *scene = *state;
    start_patient(scene);
    assert_int_equal(link_transaction_begin(&scene->link, &scene->error), WEIR_OK);
    assert_int_equal(insert(scene, 1), WEIR_OK);
    link_drop(&scene->link);
    assert_int_equal(link_transaction_commit(&scene->link, &scene->error), WEIR_STORE_UNREACHABLE);
    assert_int_equal(rows(), 0);
}

static void a_killed_server_is_reported_and_found_again(void **state)
{
    static const int signals[] = {SIGQUIT, SIGINT, SIGKILL};
    struct scene *scene = *state;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        postgres_server_stop(&server, signals[i]);
        start(scene);
        assert_int_equal(look(scene), WEIR_STORE_UNREACHABLE);
        assert_in_time(scene);
        postgres_server_start(&server);
        await_recovery(scene);
    }
}

static void calls_inside_of_a_pause_fail_at_once_until_another_link_connects(void **state)
{
    struct scene *scene = *state;
    struct link other;
    postgres_server_stop(&server, SIGINT);
    for (int i = 0; i < 8; i++) {
        scene->link.pause_until_us = 0;
        start_patient(scene);
        assert_int_equal(look(scene), WEIR_STORE_UNREACHABLE);
    }
    assert_int_equal(scene->link.failures, 8);
    /* The pause began between the start of the last call and now. */
    assert_true(scene->link.pause_until_us - scene->began_us >= MICROSECONDS_PER_SECOND);
    assert_true(scene->link.pause_until_us - clock_boot(clock_system()) <= 3 * MICROSECONDS_PER_SECOND);
    scene->link.pause_until_us = scene->began_us + 3600 * MICROSECONDS_PER_SECOND;
    start(scene);
    assert_int_equal(look(scene), WEIR_STORE_UNREACHABLE);
    assert_int_equal(scene->link.failures, 8); /* no server was asked */
    postgres_server_start(&server);
    link_init(&other, scene->address, PATIENT_US, "other");
    link_start(&other);
    assert_int_equal(link_connect(&other, &scene->error), WEIR_OK);
    link_close(&other);
    start_patient(scene);
    assert_int_equal(look(scene), WEIR_OK);
    assert_int_equal(scene->link.failures, 0);
}

/* --- a commit with a lost answer --- */

static void a_commit_without_an_answer_is_unknown_and_may_be_done(void **state)
{
    struct scene *scene = *state;
    start_patient(scene);
    assert_int_equal(link_transaction_begin(&scene->link, &scene->error), WEIR_OK);
    assert_int_equal(insert(scene, 1), WEIR_OK);
    proxy_set_mode(scene->proxy, PROXY_SWALLOWS_ANSWERS);
    start(scene);
    assert_int_equal(link_transaction_commit(&scene->link, &scene->error), WEIR_COMMIT_UNKNOWN);
    assert_in_time(scene);
    proxy_set_mode(scene->proxy, PROXY_PASSES);
    assert_int_equal(rows(), 1);
    await_recovery(scene);
}

static void a_commit_that_never_arrived_is_unknown_too(void **state)
{
    struct scene *scene = *state;
    start_patient(scene);
    assert_int_equal(link_transaction_begin(&scene->link, &scene->error), WEIR_OK);
    assert_int_equal(insert(scene, 1), WEIR_OK);
    proxy_set_mode(scene->proxy, PROXY_SWALLOWS);
    start(scene);
    assert_int_equal(link_transaction_commit(&scene->link, &scene->error), WEIR_COMMIT_UNKNOWN);
    proxy_set_mode(scene->proxy, PROXY_PASSES);
    await_recovery(scene);
    assert_int_equal(rows(), 0);
}

static void a_single_write_without_an_answer_is_unknown_and_not_repeated(void **state)
{
    struct scene *scene = *state;
    start_patient(scene);
    assert_int_equal(insert(scene, 1), WEIR_OK); /* prepared now */
    proxy_set_mode(scene->proxy, PROXY_SWALLOWS_ANSWERS);
    start(scene);
    assert_int_equal(insert(scene, 2), WEIR_COMMIT_UNKNOWN);
    proxy_set_mode(scene->proxy, PROXY_PASSES);
    assert_int_equal(rows(), 2);
    await_recovery(scene);
}

/* The link is cut while the server has the question: a read is asked again on a new link. */
static void a_read_whose_answer_was_cut_off_is_repeated(void **state)
{
    struct scene *scene = *state;
    start_patient(scene);
    assert_int_equal(look(scene), WEIR_OK);
    proxy_cut(scene->proxy);
    start_patient(scene);
    assert_int_equal(look(scene), WEIR_OK);
}

/* --- races --- */

struct swap {
    struct scene *scene;
    int first;
    int second;
    int runs;
    enum weir_status status;
    pthread_barrier_t *barrier;
    struct swap *other;
    sem_t ended;
};

/* Or until its calls have run into their deadline. */
static void await_end(struct swap *swap)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENT_US / MICROSECONDS_PER_SECOND;
    (void)sem_timedwait(&swap->ended, &until);
}

static enum weir_status touch_two(struct link *link, void *context, struct weir_error *error)
{
    struct swap *swap = context;
    char sql[120];
    /* The victim goes again when the other has gone on: faster than that, it would lock its first row before the other gets
     * it, and they would meet once more. */
    if (swap->runs > 0) {
        await_end(swap->other);
    }
    (void)snprintf(sql, sizeof sql, "UPDATE weir.schema_migrations SET name = 'touched' WHERE version = %d", swap->first);
    enum weir_status status = link_execute(link, sql, error);
    if (swap->runs == 0 && status == WEIR_OK) {
        (void)pthread_barrier_wait(swap->barrier); /* both hold their first row: now they meet */
    }
    swap->runs++;
    if (status == WEIR_OK) {
        (void)snprintf(sql, sizeof sql, "UPDATE weir.schema_migrations SET name = 'touched' WHERE version = %d",
                       swap->second);
        status = link_execute(link, sql, error);
    }
    return status;
}

static void *run_swap(void *context)
{
    struct swap *swap = context;
    struct weir_error error = {0};
    struct link link;
    link_init(&link, swap->scene->address, PATIENT_US, "swap");
    link_start(&link);
    swap->status = link_transaction(&link, touch_two, swap, &error);
    (void)sem_post(&swap->ended);
    link_close(&link);
    return NULL;
}

static void a_deadlock_is_repeated(void **state)
{
    struct scene *scene = *state;
    pthread_barrier_t barrier;
    pthread_t thread;
    start_patient(scene);
    assert_int_equal(insert(scene, 1), WEIR_OK);
    assert_int_equal(insert(scene, 2), WEIR_OK);
    assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
    struct swap one = {.scene = scene, .first = 1, .second = 2, .barrier = &barrier};
    struct swap two = {.scene = scene, .first = 2, .second = 1, .barrier = &barrier, .other = &one};
    one.other = &two;
    assert_true(sem_init(&one.ended, 0, 0) == 0 && sem_init(&two.ended, 0, 0) == 0);
    assert_int_equal(pthread_create(&thread, NULL, run_swap, &one), 0);
    (void)run_swap(&two);
    (void)pthread_join(thread, NULL);
    (void)pthread_barrier_destroy(&barrier);
    (void)sem_destroy(&one.ended);
    (void)sem_destroy(&two.ended);
    assert_int_equal(one.status, WEIR_OK);
    assert_int_equal(two.status, WEIR_OK);
    assert_int_equal(one.runs + two.runs, 3);
}

static void a_plan_that_a_migration_outdated_is_made_anew(void **state)
{
    struct scene *scene = *state;
    PGresult *result = NULL;
    start_patient(scene);
    assert_int_equal(link_read(&scene->link, &scene->error, &result, QUERY_LIST_APPLIED, ""), WEIR_OK);
    PQclear(result);
    result = NULL;
    (void)postgres_server_ask(&server, "postgres", "ALTER TABLE weir.schema_migrations ALTER COLUMN version TYPE bigint");
    assert_int_equal(link_read(&scene->link, &scene->error, &result, QUERY_LIST_APPLIED, ""), WEIR_OK);
    PQclear(result);
}

/* A sequence keeps its number when a call is rolled back. So the first call meets a function without the inner one, as the
 * body of an older program does behind a migration, and the second call a function that needs it no more. */
static void a_call_whose_functions_were_replaced_on_the_way_is_repeated(void **state)
{
    struct scene *scene = *state;
    start_patient(scene);
    (void)postgres_server_ask(&server, "postgres",
                              "CREATE SEQUENCE weir.calls; CREATE FUNCTION weir.outer_call(lasting boolean) RETURNS void "
                              "LANGUAGE plpgsql AS 'BEGIN IF nextval(''weir.calls'') = 1 OR lasting THEN "
                              "PERFORM weir.no_inner_call(); END IF; END'");
    assert_int_equal(link_execute(&scene->link, "SELECT weir.outer_call(false)", &scene->error), WEIR_OK);
    /* One that stays away is reported, and so is, at once, a function that the statement itself names. */
    assert_int_equal(link_execute(&scene->link, "SELECT weir.outer_call(true)", &scene->error), WEIR_SCHEMA_MISSING);
    assert_non_null(strstr(scene->error.message, "no_inner_call"));
    char wanted[12];
    (void)snprintf(wanted, sizeof wanted, "%d", 2 + LINK_TRIES_MOST);
    assert_string_equal(postgres_server_ask(&server, "postgres", "SELECT last_value FROM weir.calls"), wanted);
    assert_int_equal(link_execute(&scene->link, "SELECT weir.no_inner_call()", &scene->error), WEIR_SCHEMA_MISSING);
}

/* --- connecting --- */

static void a_server_without_a_free_connection_is_busy(void **state)
{
    struct scene *scene = *state;
    struct link others[8];
    enum weir_status status = WEIR_OK;
    size_t count = 0;
    (void)postgres_server_ask(&server, "postgres",
                              "ALTER ROLE weir CONNECTION LIMIT -1; CREATE ROLE narrow LOGIN"
                              " CONNECTION LIMIT 3; GRANT ALL ON DATABASE postgres TO narrow");
    char url[URL_SIZE];
    struct address *address = NULL;
    (void)snprintf(url, sizeof url, "//narrow@127.0.0.1:%d/postgres", server.port);
    assert_int_equal(address_parse(url, &address, &scene->error), WEIR_OK);
    while (status == WEIR_OK && count < 8) {
        link_init(&others[count], address, PATIENT_US, "narrow");
        link_start(&others[count]);
        status = link_connect(&others[count], &scene->error);
        count++;
    }
    assert_int_equal(count, 4);
    assert_int_equal(status, WEIR_STORE_BUSY);
    assert_string_equal(others[3].sqlstate, "53300");
    assert_true(scene->error.hint[0] != '\0');
    link_close(&others[0]);
    int64_t until_us = clock_boot(clock_system()) + PATIENT_US;
    while (status != WEIR_OK) {
        assert_true(clock_boot(clock_system()) < until_us);
        link_start(&others[3]);
        status = link_connect(&others[3], &scene->error);
    }
    for (size_t i = 1; i < count; i++) {
        link_close(&others[i]);
    }
    address_release(address);
    (void)postgres_server_ask(&server, "postgres", "REVOKE ALL ON DATABASE postgres FROM narrow; DROP ROLE narrow");
}

static void of_several_hosts_the_one_that_answers_is_taken(void **state)
{
    struct scene *scene = *state;
    char url[URL_SIZE];
    struct address *address = NULL;
    struct link link;
    (void)snprintf(url, sizeof url, "//weir@127.0.0.1:1,127.0.0.1:%d/postgres", server.port);
    assert_int_equal(address_parse(url, &address, &scene->error), WEIR_OK);
    link_init(&link, address, PATIENT_US, "hosts");
    link_start(&link);
    assert_int_equal(link_connect(&link, &scene->error), WEIR_OK);
    assert_int_equal(address->host_first, 1);
    link_close(&link);
    address_release(address);
}

/* Else a server that refuses the connection would be reported as unreachable. */
static void of_several_hosts_the_refusal_of_the_one_that_answers_is_reported(void **state)
{
    struct scene *scene = *state;
    char url[URL_SIZE];
    struct address *address = NULL;
    struct link link;
    (void)snprintf(url, sizeof url, "//nobody_here@127.0.0.1:%d,127.0.0.1:1/postgres", server.port);
    assert_int_equal(address_parse(url, &address, &scene->error), WEIR_OK);
    for (size_t first = 0; first < 2; first++) {
        address->host_first = first;
        link_init(&link, address, PATIENT_US, "hosts");
        link_start(&link);
        assert_int_equal(link_connect(&link, &scene->error), WEIR_NOT_PERMITTED);
        assert_non_null(strstr(scene->error.message, "nobody_here"));
        link_close(&link);
    }
    address_release(address);
}

static void a_silent_first_host_leaves_time_for_the_second(void **state)
{
    struct scene *scene = *state;
    char url[URL_SIZE];
    struct address *address = NULL;
    struct link link;
    proxy_set_mode(scene->proxy, PROXY_SWALLOWS);
    (void)snprintf(url, sizeof url, "//weir@127.0.0.1:%d,127.0.0.1:%d/postgres", proxy_port(scene->proxy), server.port);
    assert_int_equal(address_parse(url, &address, &scene->error), WEIR_OK);
    link_init(&link, address, 20 * MICROSECONDS_PER_SECOND, "hosts"); /* a quarter of it for the first one */
    link_start(&link);
    assert_int_equal(link_connect(&link, &scene->error), WEIR_OK);
    link_close(&link);
    address_release(address);
}

static void a_name_of_this_machine_is_looked_up(void **state)
{
    struct scene *scene = *state;
    char url[URL_SIZE];
    struct address *address = NULL;
    struct link link;
    (void)snprintf(url, sizeof url, "//weir@localhost:%d/postgres", server.port);
    assert_int_equal(address_parse(url, &address, &scene->error), WEIR_OK);
    link_init(&link, address, PATIENT_US, "name");
    link_start(&link);
    assert_int_equal(link_connect(&link, &scene->error), WEIR_OK);
    link_close(&link);
    address_release(address);
}

/* Also when the time for it is over: nobody is asked. */
static void an_address_is_not_looked_up(void **state)
{
    static const char *const addresses[] = {"127.0.0.1", "::1"};
    struct scene *scene = *state;
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        struct resolved resolved;
        assert_int_equal(resolve_name(addresses[i], 0, &resolved, &scene->error), WEIR_OK);
        assert_int_equal(resolved.count, 1);
        assert_string_equal(resolved.addresses[0], addresses[i]);
    }
}

/* The defaults of a role do not change the meaning of statements. */
static void settings_of_the_role_do_not_count(void **state)
{
    struct scene *scene = *state;
    link_drop(&scene->link);
    (void)postgres_server_ask(&server, "postgres",
                              "ALTER ROLE weir SET default_transaction_isolation = 'serializable';"
                              "ALTER ROLE weir SET search_path = 'public'; ALTER ROLE weir SET bytea_output = 'escape';"
                              "ALTER ROLE weir SET standard_conforming_strings = off");
    start_patient(scene);
    assert_int_equal(link_execute(&scene->link,
                                  "SELECT 1 / (current_setting('transaction_isolation') = 'read committed')::int,"
                                  " 1 / (current_setting('search_path') = 'pg_catalog')::int,"
                                  " 1 / (current_setting('standard_conforming_strings') = 'on')::int,"
                                  " 1 / (current_setting('statement_timeout') <> '0')::int,"
                                  " 1 / (current_setting('lock_timeout') <> '0')::int,"
                                  " 1 / (current_setting('idle_in_transaction_session_timeout') <> '0')::int,"
                                  " 1 / (current_setting('application_name') = 'link_test')::int",
                                  &scene->error),
                     WEIR_OK);
    (void)postgres_server_ask(&server, "postgres", "ALTER ROLE weir RESET ALL");
}

/* Ours stand behind them. */
static void our_options_count_beside_many_of_the_url(void **state)
{
    enum { OPTIONS_MOST = 3900 };
    struct scene *scene = *state;
    char url[URL_SIZE + OPTIONS_MOST];
    struct address *address = NULL;
    struct link link;
    int length = snprintf(url, sizeof url, "//weir@127.0.0.1:%d/postgres?options=", server.port);
    while (length < OPTIONS_MOST) {
        length += snprintf(url + length, sizeof url - (size_t)length, "-cgeqo%%3Doff%%20");
    }
    assert_int_equal(address_parse(url, &address, &scene->error), WEIR_OK);
    link_init(&link, address, PATIENT_US, "options");
    link_start(&link);
    if (link_execute(&link,
                     "SELECT 1 / (current_setting('geqo') = 'off')::int,"
                     " 1 / (current_setting('search_path') = 'pg_catalog')::int,"
                     " 1 / (current_setting('timezone') = 'UTC')::int",
                     &scene->error) != WEIR_OK) {
        fail_msg("%s", scene->error.message);
    }
    link_close(&link);
    address_release(address);
}

#define DIRECT(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)
#define PROXIED(name) cmocka_unit_test_setup_teardown(name, open_scene_behind_proxy, close_scene)

/* --- TLS --- */

static void note_warning(void *context, const struct event *event)
{
    if (event->type == EVENT_STORE_TLS_OPTIONAL) {
        text_copy(context, WEIR_ERROR_MESSAGE_MAX, event->error);
    }
}

static const char *warning_of(const char *url, char *warning)
{
    struct event_bus bus = {.count = 0};
    struct store_options options = {.url = url, .events = &bus, .deadline_us = 1};
    struct store *store = NULL;
    struct weir_error error = {.status = WEIR_OK};
    warning[0] = '\0';
    (void)event_subscribe(&bus, note_warning, warning);
    assert_int_not_equal(store_open(&options, &store, &error), WEIR_OK); /* nothing is there */
    return warning;
}

static void a_store_on_another_machine_is_not_left_without_tls_silently(void **state)
{
    (void)state;
    char warning[WEIR_ERROR_MESSAGE_MAX];
    static const char *const optional[] = {"postgres://u@db.invalid/jobs", "postgres://u@127.0.0.1:1,db.invalid/jobs",
                                           "postgres://u@localhost:1/jobs?hostaddr=192.0.2.1",
                                           "postgres://u@db.invalid/jobs?sslmode=allow"};
    static const char *const fine[] = {"postgres://u@127.0.0.1:1/jobs",
                                       "postgres://u@localhost:1/jobs",
                                       "postgres://u@[::1]:1/jobs",
                                       "postgres:///jobs?host=/nowhere",
                                       "postgres://u@db.invalid/jobs?sslmode=require",
                                       "postgres://u@db.invalid/jobs?sslmode=verify-full&sslrootcert=/nowhere",
                                       "postgres://u@db.invalid/jobs?sslmode=disable"};
    for (size_t i = 0; i < sizeof optional / sizeof optional[0]; i++) {
        assert_non_null(strstr(warning_of(optional[i], warning), "sslmode=verify-full"));
    }
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        assert_string_equal(warning_of(fine[i], warning), "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DIRECT(a_paused_server_does_not_hang_a_read),
        DIRECT(a_write_that_a_paused_server_may_have_is_unknown),
        PROXIED(a_half_open_link_does_not_hang_a_call),
        PROXIED(a_server_that_accepts_and_is_silent_does_not_hang_connecting),
        PROXIED(connecting_has_half_of_a_long_deadline),
        DIRECT(a_statement_that_takes_too_long_is_ended_by_the_server_and_the_link_lives),
        DIRECT(a_lock_of_another_session_is_not_awaited_for_ever),
        DIRECT(a_connection_that_was_ended_between_two_calls_is_made_anew),
        DIRECT(a_transaction_that_was_ended_on_the_way_changed_nothing),
        DIRECT(a_commit_after_the_connection_was_lost_is_refused),
        DIRECT(a_killed_server_is_reported_and_found_again),
        DIRECT(calls_inside_of_a_pause_fail_at_once_until_another_link_connects),
        PROXIED(a_commit_without_an_answer_is_unknown_and_may_be_done),
        PROXIED(a_commit_that_never_arrived_is_unknown_too),
        PROXIED(a_single_write_without_an_answer_is_unknown_and_not_repeated),
        PROXIED(a_read_whose_answer_was_cut_off_is_repeated),
        DIRECT(a_deadlock_is_repeated),
        DIRECT(a_plan_that_a_migration_outdated_is_made_anew),
        DIRECT(a_call_whose_functions_were_replaced_on_the_way_is_repeated),
        DIRECT(a_server_without_a_free_connection_is_busy),
        DIRECT(of_several_hosts_the_one_that_answers_is_taken),
        DIRECT(of_several_hosts_the_refusal_of_the_one_that_answers_is_reported),
        PROXIED(a_silent_first_host_leaves_time_for_the_second),
        DIRECT(a_name_of_this_machine_is_looked_up),
        DIRECT(an_address_is_not_looked_up),
        DIRECT(settings_of_the_role_do_not_count),
        DIRECT(our_options_count_beside_many_of_the_url),
        cmocka_unit_test(a_store_on_another_machine_is_not_left_without_tls_silently),
    };
    return cmocka_run_group_tests(tests, open_server, close_server);
}
