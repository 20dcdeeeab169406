#include "grpc/framing.h"

#include "support/test.h"

static void timeouts_have_at_most_8_digits_and_are_never_shorter(void **state)
{
    (void)state;
    static const struct {
        int64_t us;
        const char *text;
    } rows[] = {
        {INT64_MIN, "1u"},
        {0, "1u"},
        {1, "1u"},
        {99999999, "99999999u"},
        {100000000, "100000m"},
        {100000001, "100001m"},
        {99999999000, "99999999m"},
        {99999999001, "100000S"},
        {99999999000000, "99999999S"},
        {99999999000001, "1666667M"},
        {INT64_MAX, "99999999H"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[GRPC_TIMEOUT_TEXT_MAX];
        grpc_timeout_write(rows[i].us, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void messages_are_decoded_and_made_safe(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"plain", "plain"}, {"", ""},       {"a%20b", "a b"}, {"%41%e4%b8%ad", "A\xe4\xb8\xad"}, {"100%", "100%"},
        {"%4", "%4"},       {"%zz", "%zz"}, {"a%00b", "a?b"}, {"a%0Ab%1b[31m", "a b?[31m"},      {"%ff", "?"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[64];
        assert_true(strlen(rows[i][0]) < sizeof text);
        memcpy(text, rows[i][0], strlen(rows[i][0]) + 1);
        grpc_message_decode(text);
        assert_string_equal(text, rows[i][1]);
    }
}

static void base64_is_read_with_and_without_padding(void **state)
{
    (void)state;
    static const char *const good[][2] = {{"", ""},      {"Zg==", "f"},   {"Zg", "f"},        {"Zm8=", "fo"},
                                          {"Zm8", "fo"}, {"Zm9v", "foo"}, {"Zm9vYg", "foob"}, {"+/+/", "\xfb\xff\xbf"}};
    static const char *const bad[] = {"Z", "Zm9vY", "Z=", "Zm9v=", "Zm=v", "Zm9-", "Zm 9", "===="};
    uint8_t to[64];
    size_t length = 0;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(grpc_base64_decode(good[i][0], strlen(good[i][0]), to, &length));
        assert_int_equal(length, strlen(good[i][1]));
        assert_memory_equal(to, good[i][1], length);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(grpc_base64_decode(bad[i], strlen(bad[i]), to, &length));
    }
}

static void only_the_17_codes_are_a_status(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "17", "20", "99", "00", "01", "1a", "a", "-1", " 1", "1 ", "100"};
    for (int code = 0; code <= 16; code++) {
        char text[3] = {(char)('0' + (code >= 10 ? 1 : code)), (char)('0' + code % 10), '\0'};
        assert_int_equal(grpc_status_read(text, code >= 10 ? 2 : 1), code);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(grpc_status_read(bad[i], strlen(bad[i])), -1);
    }
}

static void headers_and_paths_cannot_carry_anything_else(void **state)
{
    (void)state;
    assert_true(grpc_header_name_is_fine("temporal-namespace"));
    assert_true(grpc_header_name_is_fine("x_y.z-bin"));
    assert_false(grpc_header_name_is_fine(""));
    assert_false(grpc_header_name_is_fine(":path"));
    assert_false(grpc_header_name_is_fine("te"));
    assert_false(grpc_header_name_is_fine("Connection"));
    assert_false(grpc_header_name_is_fine("transfer-encoding"));
    assert_false(grpc_header_name_is_fine("grpc-encoding"));
    assert_false(grpc_header_name_is_fine("a b"));
    assert_true(grpc_header_value_is_fine(""));
    assert_true(grpc_header_value_is_fine("a b~"));
    assert_false(grpc_header_value_is_fine(" a"));
    assert_false(grpc_header_value_is_fine("a "));
    assert_false(grpc_header_value_is_fine("a\nb"));
    assert_false(grpc_header_value_is_fine("\x7f"));
    assert_false(grpc_header_value_is_fine("\xc3\xbc"));
    assert_true(grpc_path_is_fine("/a.b.C/D"));
    assert_false(grpc_path_is_fine(""));
    assert_false(grpc_path_is_fine("a/b"));
    assert_false(grpc_path_is_fine("/a/"));
    assert_false(grpc_path_is_fine("//b"));
    assert_false(grpc_path_is_fine("/a/b/c"));
    assert_false(grpc_path_is_fine("/a/b?c"));
    assert_false(grpc_path_is_fine("/a/b\x80"));
}

static void prefixes_hold_the_length(void **state)
{
    (void)state;
    uint8_t prefix[GRPC_PREFIX_BYTES];
    grpc_prefix_write(prefix, 0x01020304);
    assert_memory_equal(prefix, "\0\1\2\3\4", GRPC_PREFIX_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timeouts_have_at_most_8_digits_and_are_never_shorter),
        cmocka_unit_test(messages_are_decoded_and_made_safe),
        cmocka_unit_test(base64_is_read_with_and_without_padding),
        cmocka_unit_test(only_the_17_codes_are_a_status),
        cmocka_unit_test(headers_and_paths_cannot_carry_anything_else),
        cmocka_unit_test(prefixes_hold_the_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
