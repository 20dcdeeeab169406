/* The keys `secrets` and `env_from` of a step. */
#include <stdlib.h>
#include <string.h>

#include "definition/definition.h"
#include "support/test.h"

#define HEAD "name: a\nsteps:\n"

static struct weir_error fault;

struct wrong {
    const char *text;
    const char *message;
    const char *hint; /* NULL: any */
};

static void refuse_all(const struct wrong *table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct definition *definition = NULL;
        const char *text = table[i].text;
        assert_int_equal(definition_read(text, strlen(text), "f.yaml", &definition, &fault), WEIR_INVALID_DEFINITION);
        assert_string_equal(fault.message, table[i].message);
        if (table[i].hint != NULL) {
            assert_string_equal(fault.hint, table[i].hint);
        }
        assert_null(definition);
    }
}

static void wrong_variables_of_env_from_are_refused(void **state)
{
    (void)state;
    static const struct wrong table[] = {
        {HEAD "  s: {exec: [a], env_from: TZ}\n", "f.yaml:3:28: \"env_from\" must be a list of 1 to 128 names of variables",
         "write env_from: [HTTPS_PROXY, TZ]"},
        {HEAD "  s: {exec: [a], env_from: [1b]}\n", "f.yaml:3:29: \"1b\" is no name of an environment variable", NULL},
        {HEAD "  s: {exec: [a], env_from: [WEIR_STORE]}\n", "f.yaml:3:29: the names WEIR_... are set by weir itself", NULL},
        {HEAD "  s: {exec: [a], env: {A: b}, env_from: [A]}\n", "f.yaml:3:42: A is in \"env\" and in \"env_from\"", NULL},
        {HEAD "  s: {handler: x, env_from: [A]}\n",
         "f.yaml:3:19: \"env_from\" belongs to exec steps, and this is a handler step", NULL}};
    refuse_all(table, sizeof table / sizeof table[0]);
}

static void wrong_secrets_are_refused(void **state)
{
    (void)state;
    static const struct wrong table[] = {
        {HEAD "  s: {exec: [a], secrets: [k]}\n",
         "f.yaml:3:27: \"secrets\" of an exec step must be a map of 1 to 32 secrets",
         "write secrets: {STRIPE_KEY: stripe_key}: the variable, then the name"},
        {HEAD "  s: {handler: a, secrets: {K: k}}\n",
         "f.yaml:3:28: \"secrets\" of a handler step must be a list of 1 to 32 secrets", "write secrets: [stripe_key]"},
        {HEAD "  s: {handler: a, secrets: []}\n",
         "f.yaml:3:28: \"secrets\" of a handler step must be a list of 1 to 32 secrets", NULL},
        {HEAD "  s: {handler: a, secrets: [k, k]}\n", "f.yaml:3:32: the secret \"k\" is listed twice", NULL},
        {HEAD "  s: {handler: a, secrets: [../k]}\n", "f.yaml:3:29: \"../k\" is no name of a secret",
         "a name has 1 to 64 letters, digits, _, - and ., and starts with a letter, digit or _"},
        {HEAD "  s: {handler: a, secrets: ['${.input.k}']}\n",
         "f.yaml:3:29: the name of a secret must be fixed: an expression would let input choose the secret", NULL},
        {HEAD "  s: {handler: a, secrets: [[k]]}\n", "f.yaml:3:29: the name of a secret must be text, not list", NULL},
        {HEAD "  s: {sleep: 1s, secrets: [k]}\n", "f.yaml:3:27: \"secrets\" has no meaning in a sleep step", NULL},
        {HEAD "  s: {exec: [a], secrets: {a-b: k}}\n", "f.yaml:3:28: \"a-b\" is no name of an environment variable", NULL},
        {HEAD "  s: {exec: [a], secrets: {WEIR_STEP: k}}\n", "f.yaml:3:28: the names WEIR_... are set by weir itself",
         NULL},
        {HEAD "  s: {exec: [a], secrets: {LD_PRELOAD: k}}\n",
         "f.yaml:3:28: LD_PRELOAD makes a program run code, so it cannot hold a secret", NULL},
        {HEAD "  s: {exec: [a], env: {K: v}, secrets: {K: k}}\n",
         "f.yaml:3:41: K is in \"secrets\" and in \"env\" or \"env_from\"", NULL},
        {HEAD "  s: {exec: [a], env_from: [K], secrets: {K: k}}\n",
         "f.yaml:3:43: K is in \"secrets\" and in \"env\" or \"env_from\"", NULL}};
    refuse_all(table, sizeof table / sizeof table[0]);
}

/* Also after the text went through the store. */
static void secrets_and_env_from_keep_their_canonical_text(void **state)
{
    (void)state;
    static const char source[] = HEAD "  s:\n    secrets: {STRIPE_KEY: stripe-key, DB: db.password}\n"
                                      "    exec: [env]\n    env: {A: b}\n    env_from: [HTTPS_PROXY, TZ]\n"
                                      "  h: {handler: h, secrets: [stripe-key, two]}\n";
    static const char canonical[] =
        "{\"name\":\"a\",\"steps\":{\"s\":{\"secrets\":{\"STRIPE_KEY\":\"stripe-key\",\"DB\":\"db.password\"},"
        "\"exec\":[\"env\"],\"env\":{\"A\":\"b\"},\"env_from\":[\"HTTPS_PROXY\",\"TZ\"]},"
        "\"h\":{\"secrets\":[\"stripe-key\",\"two\"],\"handler\":\"h\"}}}";
    struct definition *definition = NULL;
    struct definition *loaded = NULL;
    struct text text = {.max = 4096};
    struct text again = {.max = 4096};
    assert_int_equal(definition_read(source, strlen(source), "f.yaml", &definition, &fault), WEIR_OK);
    assert_int_equal(definition->steps[0].secret_count, 2);
    assert_string_equal(definition->steps[0].secrets[1].variable, "DB");
    assert_string_equal(definition->steps[0].secrets[1].name, "db.password");
    assert_int_equal(definition->steps[0].exec.env_from_count, 2);
    assert_null(definition->steps[1].secrets[0].variable);
    assert_int_equal(definition_write(definition, &text, &fault), WEIR_OK);
    assert_string_equal(text.data, canonical);
    assert_int_equal(definition_load(text.data, text.length, "store", &loaded, &fault), WEIR_OK);
    assert_int_equal(definition_write(loaded, &again, &fault), WEIR_OK);
    assert_string_equal(again.data, canonical);
    text_close(&text);
    text_close(&again);
    definition_close(definition);
    definition_close(loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_variables_of_env_from_are_refused),
        cmocka_unit_test(wrong_secrets_are_refused),
        cmocka_unit_test(secrets_and_env_from_keep_their_canonical_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
