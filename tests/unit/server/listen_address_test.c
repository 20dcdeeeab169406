#include "server/listen_address.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "support/test.h"

static struct listen_socket sockets[LISTEN_ADDRESSES_MAX];
static size_t count;
static struct weir_error fault;

static void expect_refusal(const char *list, enum weir_status status, const char *word)
{
    assert_int_equal(listen_address_open(list, false, sockets, &count, &fault), status);
    assert_int_equal(count, 0);
    if (strstr(fault.message, word) == NULL || fault.hint[0] == '\0') {
        fail_msg("\"%s\" got \"%s\", hint \"%s\"", list, fault.message, fault.hint);
    }
}

static void close_sockets(void)
{
    while (count > 0) {
        listen_address_close(&sockets[--count]);
    }
}

static void addresses_of_this_machine_are_opened(void **state)
{
    (void)state;
    assert_int_equal(listen_address_open("127.0.0.1:0, localhost:0,127.1.2.3:0", false, sockets, &count, &fault), WEIR_OK);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++) {
        assert_true(sockets[i].fd >= 0);
        assert_memory_equal(sockets[i].address, "127.", 4);
        assert_null(strstr(sockets[i].address, ":0"));
    }
    close_sockets();
    assert_int_equal(listen_address_open("", false, sockets, &count, &fault), WEIR_OK);
    assert_int_equal(count, 0);
}

static void addresses_of_other_machines_are_refused(void **state)
{
    (void)state;
    static const char *const open_to_all[] = {"0.0.0.0:7717",   "10.0.0.1:7717", "[::]:7717",
                                              "[fe80::1]:7717", "128.0.0.1:1",   "[::ffff:10.0.0.1]:1"};
    for (size_t i = 0; i < sizeof open_to_all / sizeof open_to_all[0]; i++) {
        expect_refusal(open_to_all[i], WEIR_INVALID_CONFIG, "open to other machines");
    }
    expect_refusal("https://unix:/tmp/x", WEIR_INVALID_CONFIG, "a file with TLS");
    expect_refusal("systemd", WEIR_INVALID_CONFIG, "has opened 0 sockets");
}

static void addresses_with_tls_or_a_proxy_may_be_open(void **state)
{
    (void)state;
    assert_int_equal(listen_address_open("https://0.0.0.0:0,127.0.0.1:0", false, sockets, &count, &fault), WEIR_OK);
    assert_int_equal(count, 2);
    assert_true(sockets[0].has_tls && !sockets[0].is_local);
    assert_true(!sockets[1].has_tls && sockets[1].is_local);
    assert_int_equal(strncmp(sockets[0].address, "https://0.0.0.0:", strlen("https://0.0.0.0:")), 0);
    close_sockets();
    assert_int_equal(listen_address_open("0.0.0.0:0", true, sockets, &count, &fault), WEIR_OK);
    assert_true(!sockets[0].has_tls && !sockets[0].is_local);
    close_sockets();
}

static void words_that_are_no_address_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"7717",
                                        ":7717",
                                        "127.0.0.1",
                                        "127.0.0.1:",
                                        "127.0.0.1:x",
                                        "127.0.0.1:65536",
                                        "127.0.0.1:1x",
                                        "::1:7717",
                                        "[::1]",
                                        "[127.0.0.1:1",
                                        "example.com:80",
                                        "unix:",
                                        "unix:relative.sock",
                                        "unix",
                                        ",",
                                        "127.0.0.1:-1",
                                        "[]:1",
                                        "[:1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        expect_refusal(wrong[i], WEIR_INVALID_CONFIG, "http.listen");
    }
    char path[200] = "unix:/";
    memset(path + 6, 'a', 120);
    expect_refusal(path, WEIR_INVALID_CONFIG, "107 bytes");
    memset(path, '1', sizeof path - 1);
    expect_refusal(path, WEIR_INVALID_CONFIG, "too long");
    expect_refusal(
        "127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0",
        WEIR_INVALID_CONFIG, "ninth");
}

static void an_address_in_use_is_refused(void **state)
{
    (void)state;
    char taken[LISTEN_ADDRESS_BYTES_MAX];
    char both[LISTEN_ADDRESS_BYTES_MAX + 20];
    assert_int_equal(listen_address_open("127.0.0.1:0", false, sockets, &count, &fault), WEIR_OK);
    struct listen_socket first = sockets[0];
    text_copy(taken, sizeof taken, first.address);
    (void)snprintf(both, sizeof both, "127.0.0.1:0,%s", taken);
    expect_refusal(both, WEIR_SYSTEM, "in use");
    listen_address_close(&first);
    assert_int_equal(listen_address_open(taken, false, sockets, &count, &fault), WEIR_OK);
    close_sockets();
}

static void a_socket_file_is_replaced_when_nobody_listens(void **state)
{
    (void)state;
    char folder[] = "/tmp/weir-listen-XXXXXX";
    char address[64];
    struct stat found;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(address, sizeof address, "unix:%s/s", folder);
    const char *path = address + strlen("unix:");

    assert_int_equal(listen_address_open(address, false, sockets, &count, &fault), WEIR_OK);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0660);
    struct listen_socket living = sockets[0];
    expect_refusal(address, WEIR_SYSTEM, "in use");
    assert_int_equal(stat(path, &found), 0);

    (void)close(living.fd); /* as a killed process leaves it */
    assert_int_equal(listen_address_open(address, false, sockets, &count, &fault), WEIR_OK);
    close_sockets();
    assert_int_not_equal(stat(path, &found), 0);

    assert_int_equal(listen_address_open(address, false, sockets, &count, &fault), WEIR_OK);
    assert_int_equal(unlink(path), 0); /* another process takes the place */
    struct listen_socket first = sockets[0];
    assert_int_equal(listen_address_open(address, false, sockets, &count, &fault), WEIR_OK);
    listen_address_close(&first);
    assert_int_equal(stat(path, &found), 0);
    close_sockets();

    FILE *file = fopen(path, "w"); /* another file is left alone */
    assert_non_null(file);
    (void)fclose(file);
    expect_refusal(address, WEIR_SYSTEM, "in use");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_of_this_machine_are_opened),
        cmocka_unit_test(addresses_of_other_machines_are_refused),
        cmocka_unit_test(addresses_with_tls_or_a_proxy_may_be_open),
        cmocka_unit_test(words_that_are_no_address_are_refused),
        cmocka_unit_test(an_address_in_use_is_refused),
        cmocka_unit_test(a_socket_file_is_replaced_when_nobody_listens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
