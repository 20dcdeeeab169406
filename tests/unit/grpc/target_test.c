#include "grpc/target.h"

#include <netdb.h>
#include <stdio.h>

#include "support/test.h"

static void targets_are_read_as_people_write_them(void **state)
{
    (void)state;
    struct targets targets;
    struct weir_error error;
    assert_int_equal(grpc_targets_read("temporal.example.com:7233", &targets, &error), WEIR_OK);
    assert_int_equal(targets.count, 1);
    assert_string_equal(targets.list[0].host, "temporal.example.com");
    assert_string_equal(targets.list[0].port, "7233");
    assert_false(targets.list[0].is_numeric);
    assert_int_equal(grpc_targets_read(" 10.0.0.7:1 , [::1]:65535,a-b_c:80", &targets, &error), WEIR_OK);
    assert_int_equal(targets.count, 3);
    assert_true(targets.list[0].is_numeric);
    assert_string_equal(targets.list[1].host, "::1");
    assert_string_equal(targets.list[1].text, "[::1]:65535");
    assert_true(targets.list[1].is_numeric);
    assert_string_equal(targets.list[2].text, "a-b_c:80");
}

static void a_wrong_target_is_refused_with_its_fault(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", "has no port"},        {"host", "has no port"},       {"host:", "has a port"},
        {"host:0", "has a port"},   {"host:65536", "has a port"},  {"host:99999999999", "has a port"},
        {"host:080", "has a port"}, {"host:a", "has a port"},      {":80", "has no host"},
        {"a:1,", "has no port"},    {"a:1,,b:2", "has no port"},   {"http://host:80", "has a scheme"},
        {"::1:80", "no host name"}, {"[host]:80", "no IPv6"},      {"[10.0.0.1]:80", "no IPv6"},
        {"a b:80", "no host name"}, {"host\n:80", "no host name"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct targets targets = {.count = 99};
        struct weir_error error = {.status = WEIR_OK};
        assert_int_equal(grpc_targets_read(rows[i][0], &targets, &error), WEIR_INVALID_CONFIG);
        if (strstr(error.message, rows[i][1]) == NULL) {
            fail_msg("%s: %s", rows[i][0], error.message);
        }
        assert_string_not_equal(error.hint, "");
        assert_int_equal(targets.count, 99);
    }
}

static void there_is_a_maximum_of_both_length_and_number(void **state)
{
    (void)state;
    struct targets targets;
    struct weir_error error;
    char text[GRPC_HOST_MAX + 16];
    char many[GRPC_TARGETS_MAX * 4 + 8] = "";
    (void)snprintf(text, sizeof text, "%0*d:80", GRPC_HOST_MAX, 7);
    assert_int_equal(grpc_targets_read(text, &targets, &error), WEIR_OK);
    (void)snprintf(text, sizeof text, "%0*d:80", GRPC_HOST_MAX + 1, 7);
    assert_int_equal(grpc_targets_read(text, &targets, &error), WEIR_INVALID_CONFIG);
    for (int i = 0; i < GRPC_TARGETS_MAX; i++) {
        memcpy(many + (ptrdiff_t)i * 4, "a:1,", 4);
    }
    assert_int_equal(grpc_targets_read(memcpy(many + sizeof many - 8, "a:1", 4) != NULL ? many : NULL, &targets, &error),
                     WEIR_INVALID_CONFIG);
    many[GRPC_TARGETS_MAX * 4 - 1] = '\0';
    assert_int_equal(grpc_targets_read(many, &targets, &error), WEIR_OK);
    assert_int_equal(targets.count, GRPC_TARGETS_MAX);
}

static void an_address_is_taken_once(void **state)
{
    (void)state;
    struct addresses addresses = {.count = 0};
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(getaddrinfo(i == 1 ? "::1" : "127.0.0.1", "7233", &hints, &found), 0);
        grpc_addresses_add(&addresses, found, i);
        freeaddrinfo(found);
    }
    assert_int_equal(addresses.count, 2);
    assert_string_equal(addresses.list[0].text, "127.0.0.1:7233");
    assert_string_equal(addresses.list[1].text, "[::1]:7233");
    assert_int_equal(addresses.list[1].target, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_are_read_as_people_write_them),
        cmocka_unit_test(a_wrong_target_is_refused_with_its_fault),
        cmocka_unit_test(there_is_a_maximum_of_both_length_and_number),
        cmocka_unit_test(an_address_is_taken_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
