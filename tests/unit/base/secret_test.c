/* The places of secrets, their limits, and the hiding of their values. */
#include "base/secret.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/secret_mask.h"
#include "base/text.h"
#include "support/test.h"

static char first[64];
static char second[64];
static struct secret_sources sources;
static struct weir_error error;

static void write_bytes(const char *directory, const char *name, const char *bytes, size_t length)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void write_text(const char *directory, const char *name, const char *text)
{
    write_bytes(directory, name, text, strlen(text));
}

static int make_places(void **state)
{
    (void)state;
    (void)snprintf(first, sizeof first, "/tmp/weir-secret-test-XXXXXX");
    (void)snprintf(second, sizeof second, "/tmp/weir-secret-test-XXXXXX");
    assert_non_null(mkdtemp(first));
    assert_non_null(mkdtemp(second));
    assert_int_equal(setenv("CREDENTIALS_DIRECTORY", second, 1), 0);
    assert_int_equal(setenv("WEIR_SECRET_DB_PASSWORD", "from the environment", 1), 0);
    assert_int_equal(secret_sources_open(&sources, first, &error), WEIR_OK);
    return 0;
}

static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (unlinkat(dirfd(folder), entry->d_name, 0) != 0) {
            (void)unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
        }
    }
    (void)closedir(folder);
    assert_int_equal(rmdir(path), 0);
}

static int remove_places(void **state)
{
    (void)state;
    secret_sources_close(&sources);
    remove_folder(first);
    remove_folder(second);
    assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
    assert_int_equal(unsetenv("WEIR_SECRET_DB_PASSWORD"), 0);
    return 0;
}

static void expect_secret(const char *name, const char *value)
{
    struct secret secret;
    assert_int_equal(secret_read(&sources, name, &secret, &error), WEIR_OK);
    assert_string_equal(secret.value, value);
    assert_int_equal(secret.length, strlen(value));
    secret_close(&secret);
    assert_null(secret.value);
}

static void expect_refusal(const char *name, enum weir_status status, const char *words)
{
    struct secret secret = {.value = NULL};
    assert_int_equal(secret_read(&sources, name, &secret, &error), status);
    assert_null(secret.value);
    assert_non_null(strstr(error.message, words));
}

static void names_cannot_leave_the_folder(void **state)
{
    (void)state;
    char long_name[SECRET_NAME_MAX + 2];
    static const char *const wrong[] = {"", "..", ".hidden", "a/b", "-a", "a b", "\xC3\xA9"};
    static const char *const right[] = {"a", "STRIPE_KEY", "tls.key", "_a", "0", "db-password"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(secret_name_is_valid(wrong[i]));
    }
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        assert_true(secret_name_is_valid(right[i]));
    }
    memset(long_name, 'a', sizeof long_name);
    long_name[SECRET_NAME_MAX + 1] = '\0';
    assert_false(secret_name_is_valid(long_name));
    long_name[SECRET_NAME_MAX] = '\0';
    assert_true(secret_name_is_valid(long_name));
}

static void the_first_place_that_has_the_secret_gives_it(void **state)
{
    (void)state;
    expect_secret("db-password", "from the environment");
    write_text(second, "db-password", "of systemd\n");
    expect_secret("db-password", "of systemd");
    write_text(first, "db-password", "of the folder\r\n");
    expect_secret("db-password", "of the folder");
    write_text(first, "db-password", "rotated\n\n");
    expect_secret("db-password", "rotated\n");
    expect_refusal("other", WEIR_NOT_FOUND, "the secret \"other\" is missing");
    assert_non_null(strstr(error.message, first));
    assert_non_null(strstr(error.message, "WEIR_SECRET_OTHER"));
}

static void a_secret_that_is_no_usable_text_is_refused_without_its_value(void **state)
{
    (void)state;
    char path[256];
    char *large = malloc(SECRET_BYTES_MAX + 2);
    assert_non_null(large);
    memset(large, 'x', SECRET_BYTES_MAX + 2);
    write_text(first, "empty", "");
    write_text(first, "line", "\n");
    write_bytes(first, "nul", "pass\0word", 9);
    write_text(first, "bytes", "pass\xFFword");
    write_bytes(first, "large", large, SECRET_BYTES_MAX + 1);
    write_bytes(first, "largest", large, SECRET_BYTES_MAX);
    (void)snprintf(path, sizeof path, "%s/pipe", first);
    assert_int_equal(mkfifo(path, 0600), 0);
    (void)snprintf(path, sizeof path, "%s/folder", first);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refusal("empty", WEIR_FAILED, "is empty");
    expect_refusal("line", WEIR_FAILED, "is empty");
    expect_refusal("nul", WEIR_FAILED, "holds a NUL byte");
    expect_refusal("bytes", WEIR_FAILED, "is not UTF-8");
    assert_null(strstr(error.message, "word"));
    expect_refusal("large", WEIR_FAILED, "has more than 65536 bytes");
    expect_refusal("pipe", WEIR_FAILED, "is something else");
    expect_refusal("folder", WEIR_FAILED, "is something else");
    struct secret secret;
    assert_int_equal(secret_read(&sources, "largest", &secret, &error), WEIR_OK);
    assert_int_equal(secret.length, SECRET_BYTES_MAX);
    secret_close(&secret);
    free(large);
}

/* --- hiding --- */

static struct secret secret_of(const char *value)
{
    return (struct secret){.value = (char *)value, .length = strlen(value)};
}

static void expect_hidden(const struct secret_mask *mask, const char *text, const char *hidden)
{
    char copy[512];
    (void)snprintf(copy, sizeof copy, "%s", text);
    size_t length = secret_mask_apply(mask, copy, strlen(text));
    assert_int_equal(length, strlen(hidden));
    assert_memory_equal(copy, hidden, length);
    for (size_t i = length; i < strlen(text); i++) {
        assert_int_equal(copy[i], 0); /* nothing of the value is left behind the new end */
    }
}

static void values_lines_and_json_spellings_are_hidden(void **state)
{
    (void)state;
    const struct secret secrets[] = {secret_of("hunter22"), secret_of("hunter22-longer"), secret_of("a\"b\\c\td"),
                                     secret_of("-----BEGIN KEY-----\nAAAABBBBCCCC\nshort\n"), secret_of("abc")};
    struct secret_mask mask;
    assert_int_equal(secret_mask_open(&mask, secrets, 5), WEIR_OK);
    expect_hidden(&mask, "", "");
    expect_hidden(&mask, "h", "h");
    expect_hidden(&mask, "nothing here", "nothing here");
    expect_hidden(&mask, "hunter22", "***");
    expect_hidden(&mask, "x=hunter22hunter22;hunter2", "x=******;hunter2");
    expect_hidden(&mask, "<hunter22-longer>", "<***>"); /* the longer one leaves no rest */
    expect_hidden(&mask, "raw a\"b\\c\td", "raw ***");
    expect_hidden(&mask, "{\"k\": \"a\\\"b\\\\c\\td\"}", "{\"k\": \"***\"}");
    expect_hidden(&mask, "1: AAAABBBBCCCC\n2: short\n", "1: ***\n2: short\n");
    expect_hidden(&mask, "abc", "abc"); /* too short to be hidden */
    secret_mask_close(&mask);
    assert_int_equal(secret_mask_open(&mask, NULL, 0), WEIR_OK);
    expect_hidden(&mask, "hunter22", "hunter22");
    secret_mask_close(&mask);
}

static void add_emitted(void *context, const char *bytes, size_t length)
{
    assert_true(length > 0);
    assert_int_equal(text_add(context, bytes, length), WEIR_OK);
}

/* Pieces of every size, and every cut into two. */
static void a_stream_hides_what_its_pieces_split(void **state)
{
    (void)state;
    static const char text[] = "x=hunter22hunter22;hunter2 <hunter22-longer> hunter22-long raw a\"b\\c\td\n"
                               "1: AAAABBBBCCCC\n-----BEGIN KEY-----\nAAAABBBBCCCC\nshort\n hunter";
    static const char hidden[] = "x=******;hunter2 <***> ***-long raw ***\n1: ***\n*** hunter";
    const struct secret secrets[] = {secret_of("hunter22"), secret_of("hunter22-longer"), secret_of("a\"b\\c\td"),
                                     secret_of("-----BEGIN KEY-----\nAAAABBBBCCCC\nshort\n")};
    struct secret_mask mask;
    assert_int_equal(secret_mask_open(&mask, secrets, 4), WEIR_OK);
    for (size_t cut = 1; cut < 2 * sizeof text; cut++) {
        struct secret_stream stream = {.held = {.length = 0}};
        struct text emitted = {.max = 1024};
        size_t size = cut < sizeof text ? cut : cut - sizeof text + 1;
        for (size_t at = 0; at < sizeof text - 1; at += size) {
            size_t left = sizeof text - 1 - at;
            size = cut >= sizeof text && at > 0 ? left : size;
            assert_int_equal(
                secret_stream_write(&stream, &mask, text + at, size < left ? size : left, add_emitted, &emitted), WEIR_OK);
            assert_null(emitted.length == 0 ? NULL : strstr(emitted.data, "hunter22"));
        }
        secret_stream_end(&stream, &mask, add_emitted, &emitted);
        assert_string_equal(emitted.data, hidden);
        text_close(&emitted);
    }
    secret_mask_close(&mask);
}

/* A reader who follows the log sees each line at once, unless a value may begin in it. */
static void a_stream_holds_back_the_beginning_of_a_value_alone(void **state)
{
    (void)state;
    const struct secret secrets[] = {secret_of("hunter22")};
    struct secret_mask mask;
    struct secret_stream stream = {.held = {.length = 0}};
    struct text emitted = {.max = 1024};
    assert_int_equal(secret_mask_open(&mask, secrets, 1), WEIR_OK);
    assert_int_equal(secret_stream_write(&stream, &mask, "one line\n", 9, add_emitted, &emitted), WEIR_OK);
    assert_string_equal(emitted.data, "one line\n");
    assert_int_equal(secret_stream_write(&stream, &mask, "the hunt", 8, add_emitted, &emitted), WEIR_OK);
    assert_string_equal(emitted.data, "one line\nthe ");
    secret_stream_close(&stream);
    text_close(&emitted);
    secret_mask_close(&mask);
}

static void the_end_of_a_value_at_the_start_of_a_tail_is_hidden(void **state)
{
    (void)state;
    const struct secret secrets[] = {secret_of("correct horse battery")};
    struct secret_mask mask;
    char tail[] = "horse battery, and correct horse battery";
    char rest[] = "ery stays, since it says little";
    char letters[] = "horses are no secret";
    assert_int_equal(secret_mask_open(&mask, secrets, 1), WEIR_OK);
    size_t length = secret_mask_apply_to_tail(&mask, tail, strlen(tail));
    tail[length] = '\0';
    assert_string_equal(tail, "***, and ***");
    assert_int_equal(secret_mask_apply_to_tail(&mask, rest, strlen(rest)), strlen(rest));
    assert_int_equal(secret_mask_apply_to_tail(&mask, letters, strlen(letters)), strlen(letters));
    secret_mask_close(&mask);
}

static void keys_and_strings_of_json_are_hidden(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":[\"caf\\u00e9-key\",{\"caf\\u00e9-key\":1}],\"b\":\"plain\",\"c\":null}";
    const struct secret secrets[] = {secret_of("caf\xC3\xA9-key")};
    struct secret_mask mask;
    struct text written = {.max = 1000};
    json_t *value = NULL;
    bool is_changed = false;
    assert_int_equal(secret_mask_open(&mask, secrets, 1), WEIR_OK);
    assert_int_equal(json_read(text, strlen(text), &value, &error), WEIR_OK);
    assert_int_equal(secret_mask_json(&mask, &value, &is_changed), WEIR_OK);
    assert_true(is_changed);
    assert_int_equal(json_write(value, &written, &error), WEIR_OK);
    assert_string_equal(written.data, "{\"a\":[\"***\",{\"***\":1}],\"b\":\"plain\",\"c\":null}");
    is_changed = false;
    assert_int_equal(secret_mask_json(&mask, &value, &is_changed), WEIR_OK);
    assert_false(is_changed);
    json_decref(value);
    text_close(&written);
    secret_mask_close(&mask);
}

/* The freed memory cannot be read, so the buffer that stays is. */
static void a_wiping_text_overwrites_its_bytes(void **state)
{
    (void)state;
    struct text text = {.max = 100, .wipes = true};
    assert_int_equal(text_add_string(&text, "hunter22"), WEIR_OK);
    assert_int_equal(text_format(&text, "%060d", 7), WEIR_OK); /* it moves */
    assert_int_equal(strncmp(text.data, "hunter220000", 12), 0);
    text_clear(&text);
    for (size_t i = 0; i < text.capacity; i++) {
        assert_int_equal(text.data[i], 0);
    }
    text_close(&text);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, make_places, remove_places)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_cannot_leave_the_folder),
        CLAIM(the_first_place_that_has_the_secret_gives_it),
        CLAIM(a_secret_that_is_no_usable_text_is_refused_without_its_value),
        cmocka_unit_test(values_lines_and_json_spellings_are_hidden),
        cmocka_unit_test(a_stream_hides_what_its_pieces_split),
        cmocka_unit_test(a_stream_holds_back_the_beginning_of_a_value_alone),
        cmocka_unit_test(the_end_of_a_value_at_the_start_of_a_tail_is_hidden),
        cmocka_unit_test(keys_and_strings_of_json_are_hidden),
        cmocka_unit_test(a_wiping_text_overwrites_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
