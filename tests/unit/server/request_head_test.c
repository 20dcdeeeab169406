#include "server/request_head.h"

#include "support/test.h"

/* Adds the fields of pairs of names and values, up to NULL. */
static struct request_head head_of(const char *const *fields)
{
    struct request_head head = {.hosts = 0};
    for (; fields[0] != NULL; fields += 2) {
        request_head_add(&head, fields[0], strlen(fields[0]), fields[1], strlen(fields[1]));
    }
    return head;
}

static int check(const char *const *fields)
{
    struct request_head head = head_of(fields);
    const char *reason = NULL;
    int status = request_head_check(&head, "HTTP/1.1", &reason);
    assert_true((status == 0) == (reason == NULL));
    return status;
}

#define FIELDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void a_head_with_one_host_is_fine(void **state)
{
    (void)state;
    assert_int_equal(check(FIELDS("Host", "localhost", "Accept", "*/*", "X-Long_name.1", "a\tb \303\251")), 0);
    assert_int_equal(check(FIELDS("hOST", "localhost", "content-LENGTH", "12")), 0);
}

static void a_head_with_two_meanings_is_refused(void **state)
{
    (void)state;
    assert_int_equal(check(FIELDS("Accept", "*/*")), 400);
    assert_int_equal(check(FIELDS("Host", "a", "Host", "b")), 400);
    assert_int_equal(check(FIELDS("Host", "a", "Host", "a")), 400);
    assert_int_equal(check(FIELDS("Host", "a", "Content-Length", "3", "Content-Length", "5")), 400);
    assert_int_equal(check(FIELDS("Host", "a", "Content-Length", "3", "content-length", "3")), 400);
    assert_int_equal(check(FIELDS("Host", "a", "Transfer-Encoding", "chunked")), 411);
    assert_int_equal(check(FIELDS("Host", "a", "Transfer-Encoding", "identity")), 411);
    assert_int_equal(check(FIELDS("Host", "a", "transfer-encoding", "chunked", "Content-Length", "3")), 411);
}

/* `text`: a head as libmicrohttpd 0.9 leaves it, with each ':', CR and LF that it has read as a NUL. The fields begin at
 * `names` and `values`. */
static int check_lines(const char *text, size_t size, const size_t *names, const size_t *values, size_t count)
{
    struct request_head head = {.next = text};
    const char *reason = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *name = text + names[i];
        const char *value = text + values[i];
        request_head_add(&head, name, strlen(name), value, strlen(value));
    }
    request_head_end(&head, text + size);
    return request_head_check(&head, "HTTP/1.1", &reason);
}

static void lines_that_programs_read_differently_are_refused(void **state)
{
    (void)state;
    static const char plain[] = "Host\0 a\0\0X\0b\0\0\0\0";
    static const char bare[] = "Host\0 a\0X\0b\0\0\0\0";
    static const char cut[] = "Host\0 a\0c\0\0X\0b\0\0\0\0";
    assert_int_equal(check_lines(plain, sizeof plain - 1, (size_t[]){0, 9}, (size_t[]){6, 11}, 2), 0);
    assert_int_equal(check_lines(plain, sizeof plain - 1, (size_t[]){0}, (size_t[]){6}, 1), 400); /* X is dropped */
    assert_int_equal(check_lines(bare, sizeof bare - 1, (size_t[]){0, 8}, (size_t[]){6, 10}, 2), 400);
    assert_int_equal(check_lines(cut, sizeof cut - 1, (size_t[]){0, 11}, (size_t[]){6, 13}, 2), 400);
}

static void a_field_with_a_wrong_character_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"", " X", "X ", "X(", "X:", "X\x7f", "X\xff", "Content-Length\r", "X\x01"};
    static const char *const values[] = {"a\rb", "a\nb", "\vchunked", "a\x7f", "a\x01"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(check(FIELDS("Host", "a", names[i], "b")), 400);
    }
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        assert_int_equal(check(FIELDS("Host", "a", "X", values[i])), 400);
    }
    struct request_head head = head_of(FIELDS("Host", "a"));
    const char *reason = NULL;
    request_head_add(&head, "X", 1, "a\0b", 3);
    assert_int_equal(request_head_check(&head, "HTTP/1.1", &reason), 400);
    head = head_of(FIELDS("Host", "a"));
    request_head_add(&head, "X\0Y", 3, "a", 1);
    assert_int_equal(request_head_check(&head, "HTTP/1.1", &reason), 400);
    head = head_of(FIELDS("Host", "a"));
    request_head_add(&head, "X", 1, NULL, 0); /* an empty value */
    assert_int_equal(request_head_check(&head, "HTTP/1.1", &reason), 0);
}

static void only_version_1_1_is_spoken(void **state)
{
    (void)state;
    struct request_head head = head_of(FIELDS("Host", "a"));
    const char *reason = NULL;
    assert_int_equal(request_head_check(&head, "HTTP/1.0", &reason), 505);
    assert_non_null(strstr(reason, "proxy_http_version 1.1")); /* without it nginx speaks 1.0 */
    assert_int_equal(request_head_check(&head, "HTTP/1.2", &reason), 505);
}

static void a_body_is_a_length_that_is_not_zero(void **state)
{
    (void)state;
    assert_int_equal(head_of(FIELDS("Host", "a")).content_length, 0);
    assert_int_equal(head_of(FIELDS("Content-Length", "0")).content_length, 0);
    assert_int_equal(head_of(FIELDS("Content-Length", "000")).content_length, 0);
    assert_int_equal(head_of(FIELDS("Content-Length", "1")).content_length, 1);
    assert_int_equal(head_of(FIELDS("Content-Length", "010")).content_length, 10);
    assert_int_equal(head_of(FIELDS("Content-Length", "99999999999999999999")).content_length, SIZE_MAX);
    assert_int_equal(head_of(FIELDS("Content-Length", "1a")).content_length, SIZE_MAX);
    assert_int_equal(head_of(FIELDS("Content-Length", "+1")).content_length, SIZE_MAX);
}

static void only_names_of_this_machine_are_local(void **state)
{
    (void)state;
    static const char *const local[] = {"localhost",    "LOCALHOST:7717", "127.0.0.1", "127.0.0.1:1",
                                        "127.1.2.3:80", "[::1]",          "[::1]:7717"};
    static const char *const others[] = {"",
                                         "localhost.evil.example",
                                         "evil.example",
                                         "127.0.0.1.evil.example:80",
                                         "10.0.0.1",
                                         "127.1",
                                         "0127.0.0.1",
                                         "[::2]:7717",
                                         "::1",
                                         "localhost@evil.example",
                                         "localhost ",
                                         "a:localhost"};
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++) {
        struct request_head head = head_of(FIELDS("Host", local[i]));
        assert_true(request_head_is_local(&head));
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct request_head head = head_of(FIELDS("Host", others[i]));
        assert_false(request_head_is_local(&head));
    }
    char name[400];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    struct request_head head = head_of(FIELDS("Host", name));
    assert_string_equal(head.host, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_with_one_host_is_fine),
        cmocka_unit_test(a_head_with_two_meanings_is_refused),
        cmocka_unit_test(lines_that_programs_read_differently_are_refused),
        cmocka_unit_test(a_field_with_a_wrong_character_is_refused),
        cmocka_unit_test(only_version_1_1_is_spoken),
        cmocka_unit_test(a_body_is_a_length_that_is_not_zero),
        cmocka_unit_test(only_names_of_this_machine_are_local),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
