#include "base/base64url.h"
#include "base/token_secret.h"

#include <string.h>

#include "support/test.h"

static void a_secret_has_its_form_and_is_never_the_same(void **state)
{
    (void)state;
    char secrets[64][TOKEN_SECRET_LENGTH + 1];
    struct weir_error error;
    for (int i = 0; i < 64; i++) {
        assert_int_equal(token_secret_make(secrets[i], &error), WEIR_OK);
        assert_int_equal(strlen(secrets[i]), TOKEN_SECRET_LENGTH);
        assert_int_equal(strncmp(secrets[i], "weir_", 5), 0);
        assert_int_equal(strspn(secrets[i] + 5, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
                         TOKEN_SECRET_LENGTH - 5);
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(secrets[i], secrets[k]);
        }
    }
}

/* Each of the 43 characters varies: 256 bits are used, not the same ones again. */
static void every_place_of_a_secret_is_random(void **state)
{
    (void)state;
    char first[TOKEN_SECRET_LENGTH + 1];
    char other[TOKEN_SECRET_LENGTH + 1];
    bool differs[TOKEN_SECRET_LENGTH] = {false};
    struct weir_error error;
    assert_int_equal(token_secret_make(first, &error), WEIR_OK);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(token_secret_make(other, &error), WEIR_OK);
        for (size_t k = 0; k < TOKEN_SECRET_LENGTH; k++) {
            differs[k] = differs[k] || first[k] != other[k];
        }
    }
    for (size_t k = 5; k < TOKEN_SECRET_LENGTH; k++) {
        assert_true(differs[k]);
    }
}

/* sha256sum of the text, by another program. */
static void the_hash_is_the_sha_256_of_the_text(void **state)
{
    (void)state;
    static const char text[] = "weir_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    static const unsigned char expected[TOKEN_HASH_BYTES] = {
        0x17, 0xa6, 0xf6, 0x29, 0xdf, 0x91, 0x89, 0x80, 0x37, 0x4b, 0x82, 0x4d, 0xad, 0x37, 0xf2, 0xcc,
        0xad, 0xd8, 0x2b, 0xf2, 0x04, 0x7c, 0xc9, 0x30, 0x4f, 0x4b, 0x25, 0xd2, 0x8d, 0x56, 0xe9, 0xf7};
    unsigned char hash[TOKEN_HASH_BYTES];
    assert_true(token_secret_hash(text, sizeof text - 1, hash));
    assert_memory_equal(hash, expected, TOKEN_HASH_BYTES);
}

static void texts_of_another_form_have_no_hash(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "weir_",
                                        "weir_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                                        "weir_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                                        "Weir_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                                        "weir_AAAAAAAAAAAAAAAAAAAAA AAAAAAAAAAAAAAAAAAAAA",
                                        "weir_AAAAAAAAAAAAAAAAAAAAA+AAAAAAAAAAAAAAAAAAAAA"};
    unsigned char hash[TOKEN_HASH_BYTES];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(token_secret_hash(wrong[i], strlen(wrong[i]), hash));
    }
    assert_false(token_secret_hash("weir_AAAAAAAAAAAAAAAAAAAAA\0AAAAAAAAAAAAAAAAAAAAA", TOKEN_SECRET_LENGTH, hash));
    assert_false(token_secret_hash(NULL, 0, hash));
}

static void hashes_are_compared_whole(void **state)
{
    (void)state;
    unsigned char a[TOKEN_HASH_BYTES] = {0};
    unsigned char b[TOKEN_HASH_BYTES] = {0};
    assert_true(token_hash_equal(a, b));
    for (size_t i = 0; i < TOKEN_HASH_BYTES; i++) {
        b[i] = 1;
        assert_false(token_hash_equal(a, b));
        b[i] = 0;
    }
}

/* RFC 4648, 10, without padding; then the two letters that base64 does not have. */
static void base64url_has_the_letters_of_the_standard(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"", ""},           {"f", "Zg"},          {"fo", "Zm8"},           {"foo", "Zm9v"},
        {"foob", "Zm9vYg"}, {"fooba", "Zm9vYmE"}, {"\xff\xef\xbe", "_---"}};
    char letters[BASE64URL_BYTES(8)];
    unsigned char bytes[8];
    size_t length = 99;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        size_t whole = strlen(pairs[i][0]);
        base64url_encode((const unsigned char *)pairs[i][0], whole, letters);
        assert_string_equal(letters, pairs[i][1]);
        assert_true(base64url_decode(letters, strlen(letters), bytes, whole, &length));
        assert_int_equal(length, whole);
        assert_memory_equal(bytes, pairs[i][0], whole);
        assert_true(whole == 0 || !base64url_decode(letters, strlen(letters), bytes, whole - 1, &length));
    }
    static const char *const wrong[] = {"A", "Zm9vY", "Zg==", "Zm+v", "Zm/v", "Zm 9", "Zm9v\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(base64url_decode(wrong[i], strlen(wrong[i]), bytes, sizeof bytes, &length));
    }
    assert_false(base64url_decode("Zg\0Z", 4, bytes, sizeof bytes, &length));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_secret_has_its_form_and_is_never_the_same),
        cmocka_unit_test(every_place_of_a_secret_is_random),
        cmocka_unit_test(the_hash_is_the_sha_256_of_the_text),
        cmocka_unit_test(texts_of_another_form_have_no_hash),
        cmocka_unit_test(hashes_are_compared_whole),
        cmocka_unit_test(base64url_has_the_letters_of_the_standard),
    };
    return cmocka_run_group_tests_name("token_secret", tests, NULL, NULL);
}
