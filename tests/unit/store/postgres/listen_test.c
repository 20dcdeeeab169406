/* Wake-ups between processes: a notice arrives, many are one, a lost connection is made anew and wakes everybody. */
#include "store/postgres/link/listen.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/postgres_server.h"
#include "support/test.h"

enum { PATIENT_MS = 90000, URL_SIZE = 256 };

static struct postgres_server server;

static int open_server(void **state)
{
    (void)state;
    postgres_server_open(&server, NULL, true);
    return 0;
}

static int close_server(void **state)
{
    (void)state;
    postgres_server_close(&server);
    return 0;
}

static struct address *parse(const char *parameters)
{
    char url[URL_SIZE];
    struct weir_error error = {0};
    struct address *address = NULL;
    (void)snprintf(url, sizeof url, "//weir@127.0.0.1:%d/postgres%s", server.port, parameters);
    assert_int_equal(address_parse(url, &address, &error), WEIR_OK);
    return address;
}

static bool wakes_within(struct subscription *subscription, int ms)
{
    struct pollfd fd = {.fd = subscription_fd(subscription), .events = POLLIN};
    return poll(&fd, 1, ms) == 1 && subscription_drain(subscription);
}

static void notify(const char *channel, int times)
{
    char sql[200];
    (void)snprintf(sql, sizeof sql, "SELECT pg_notify('%s', n::text) FROM generate_series(1, %d) n", channel, times);
    (void)postgres_server_ask(&server, "postgres", sql);
}

/* Connecting wakes too; from then on it listens. */
static void await_listening(struct subscription *subscription)
{
    assert_true(wakes_within(subscription, PATIENT_MS));
}

static void a_notice_wakes_every_handle(void **state)
{
    struct address *address = parse("");
    struct subscription *one = listener_join(address);
    (void)state;
    await_listening(one);
    struct subscription *two = listener_join(address);
    assert_string_equal(postgres_server_ask(&server, "postgres",
                                            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'weir listen'"),
                        "1");
    notify("weir", 1);
    assert_true(wakes_within(one, PATIENT_MS));
    assert_true(wakes_within(two, PATIENT_MS));
    assert_false(subscription_drain(one));
    listener_leave(one);
    notify("weir", 1);
    assert_true(wakes_within(two, PATIENT_MS));
    listener_leave(two);
    address_release(address);
}

static void many_notices_of_one_commit_are_few_wakes(void **state)
{
    struct address *address = parse("");
    struct subscription *subscription = listener_join(address);
    int wakes = 0;
    (void)state;
    await_listening(subscription);
    notify("weir", 1000);
    while (wakes_within(subscription, wakes == 0 ? PATIENT_MS : 100)) {
        wakes++;
    }
    assert_true(wakes >= 1 && wakes < 50);
    listener_leave(subscription);
    address_release(address);
}

static void another_schema_has_another_channel(void **state)
{
    struct address *address = parse("?schema=other");
    struct subscription *subscription = listener_join(address);
    (void)state;
    await_listening(subscription);
    notify("weir", 1);
    notify("other", 1); /* comes after the first one */
    assert_true(wakes_within(subscription, PATIENT_MS));
    assert_false(subscription_drain(subscription));
    listener_leave(subscription);
    address_release(address);
}

static void tell(const char *notice)
{
    char sql[200];
    (void)snprintf(sql, sizeof sql, "SELECT pg_notify('weir', '%s')", notice);
    (void)postgres_server_ask(&server, "postgres", sql);
}

/* PostgreSQL delivers notices in the order of their commits, so every earlier notice was read as well. */
static void a_notice_wakes_only_the_handles_that_it_concerns(void **state)
{
    struct address *address = parse("");
    struct subscription *scheduler = listener_join(address);
    (void)state;
    await_listening(scheduler);
    struct subscription *node = listener_join(address);
    struct subscription *all = listener_join(address);
    subscription_set(scheduler, 1, true);
    subscription_set(node, 12, false);
    tell("news");
    assert_true(wakes_within(scheduler, PATIENT_MS));
    assert_true(wakes_within(all, PATIENT_MS));
    tell("node:1");
    tell("node:2");
    tell("node:12");
    assert_true(wakes_within(node, PATIENT_MS));
    assert_true(wakes_within(scheduler, PATIENT_MS)); /* its own inbox */
    assert_false(subscription_drain(node));           /* of neither of the others */
    tell("news");
    tell("node:1");
    assert_true(wakes_within(scheduler, PATIENT_MS));
    assert_false(subscription_drain(node));
    tell("role");
    assert_true(wakes_within(node, PATIENT_MS));
    assert_true(wakes_within(scheduler, PATIENT_MS));
    subscription_set(node, 12, true);
    tell("news");
    assert_true(wakes_within(node, PATIENT_MS));
    subscription_set(node, 0, false);
    tell("node:7");
    assert_true(wakes_within(node, PATIENT_MS));
    listener_leave(scheduler);
    listener_leave(node);
    listener_leave(all);
    address_release(address);
}

static void a_lost_connection_is_made_anew_and_wakes(void **state)
{
    struct address *address = parse("");
    struct subscription *subscription = listener_join(address);
    (void)state;
    await_listening(subscription);
    subscription_set(subscription, 5, false); /* which no notice here concerns */
    postgres_server_end_connections(&server, "weir listen");
    await_listening(subscription);
    postgres_server_stop(&server, SIGKILL);
    postgres_server_start(&server);
    await_listening(subscription);
    notify("weir", 1);
    assert_true(wakes_within(subscription, PATIENT_MS));
    listener_leave(subscription);
    address_release(address);
}

static void leaving_does_not_wait_for_a_server_that_is_silent(void **state)
{
    struct address *address = parse("");
    struct subscription *subscription = listener_join(address);
    (void)state;
    await_listening(subscription);
    postgres_server_signal_all(&server, SIGSTOP);
    listener_leave(subscription);
    postgres_server_signal_all(&server, SIGCONT);
    address_release(address);
}

/* One that stands for a pooler which was found out late. */
static void no_handle_listens_once_a_pooler_is_detected(void **state)
{
    enum { SOON_MS = 2000 };
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof place;
    char url[URL_SIZE];
    struct weir_error error = {0};
    struct address *address = NULL;
    struct pollfd server_fd = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .events = POLLIN};
    (void)state;
    assert_int_equal(bind(server_fd.fd, (struct sockaddr *)&place, sizeof place), 0);
    assert_int_equal(listen(server_fd.fd, 8), 0);
    assert_int_equal(getsockname(server_fd.fd, (struct sockaddr *)&place, &length), 0);
    (void)snprintf(url, sizeof url, "//weir@127.0.0.1:%d/postgres?sslmode=disable", ntohs(place.sin_port));
    assert_int_equal(address_parse(url, &address, &error), WEIR_OK);
    struct subscription *subscription = listener_join(address);
    for (int i = 0; i < 2; i++) { /* it tries again until a connection has detected the pooler */
        assert_int_equal(poll(&server_fd, 1, PATIENT_MS), 1);
        address->pooled = i == 1;
        assert_int_equal(close(accept(server_fd.fd, NULL, NULL)), 0);
    }
    assert_int_equal(poll(&server_fd, 1, SOON_MS), 0);
    listener_leave(subscription);
    (void)close(server_fd.fd);
    address_release(address);
}

static void with_listen_off_a_handle_has_no_fd(void **state)
{
    struct address *address = parse("?listen=off");
    (void)state;
    struct subscription *subscription = listener_join(address);
    assert_null(subscription);
    assert_int_equal(subscription_fd(subscription), -1);
    assert_false(subscription_drain(subscription));
    listener_leave(subscription);
    address_release(address);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_notice_wakes_every_handle),
        cmocka_unit_test(many_notices_of_one_commit_are_few_wakes),
        cmocka_unit_test(another_schema_has_another_channel),
        cmocka_unit_test(a_notice_wakes_only_the_handles_that_it_concerns),
        cmocka_unit_test(a_lost_connection_is_made_anew_and_wakes),
        cmocka_unit_test(leaving_does_not_wait_for_a_server_that_is_silent),
        cmocka_unit_test(no_handle_listens_once_a_pooler_is_detected),
        cmocka_unit_test(with_listen_off_a_handle_has_no_fd),
    };
    return cmocka_run_group_tests(tests, open_server, close_server);
}
