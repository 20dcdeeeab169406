#include "definition_fixture.h"

static void an_http_step_is_read_and_written(void **state)
{
    (void)state;
    const char *source = "name: a\nsteps:\n  s:\n    timeout: 20s\n    secrets: {X-Api-Key: k}\n    http:\n"
                         "      sign: hook\n      bearer: token\n      redirects: 2\n      expect: [200-204, 404]\n"
                         "      body: {b: \"${.input.b}\"}\n      headers: {X-B: 5, X-A: \"v${.input.v}\"}\n"
                         "      url: https://api.example.com/${.input.id}?q=1\n      method: PUT\n"
                         "  g: {http: {url: \"${.input.url}\", method: GET, expect: 500-599}}\n  p: {http: {url: "
                         "'HTTP://a.test', body: x, callback: 2h}}\n";
    struct definition *definition = read_fine(source);
    const struct step *step = &definition->steps[0];
    assert_int_equal(step->kind, STEP_HTTP);
    assert_string_equal(step->http.method, "PUT");
    assert_int_equal(step->http.url->part_count, 3);
    assert_int_equal(step->http.header_count, 2);
    assert_string_equal(step->http.headers[0].name, "X-B");
    assert_int_equal(step->http.body->shape, TEMPLATE_MAP);
    assert_int_equal(step->http.expect[0].first, 200);
    assert_int_equal(step->http.expect[0].last, 204);
    assert_int_equal(step->http.expect[1].last, 404);
    assert_int_equal(step->http.redirects, 2);
    assert_int_equal(step->retry.attempts, 1);
    assert_int_equal(step->secret_count, 3);
    assert_string_equal(step->secrets[0].variable, "X-Api-Key");
    assert_string_equal(step->secrets[1].name, "token");
    assert_null(step->secrets[1].variable);
    assert_string_equal(step->http.sign, "hook");
    assert_string_equal(definition->steps[1].http.method, "GET");
    assert_string_equal(definition->steps[2].http.method, "POST");
    assert_true(definition->steps[2].http.callback_us == 7200 * INT64_C(1000000) && step->http.callback_us == 0);
    definition_close(definition);
    expect_canonical(
        source,
        "{\"name\":\"a\",\"steps\":{\"s\":{\"timeout\":\"20s\",\"secrets\":{\"X-Api-Key\":\"k\"},\"http\":{"
        "\"method\":\"PUT\",\"url\":\"https://api.example.com/${.input.id}?q=1\",\"headers\":{\"X-B\":\"5\","
        "\"X-A\":\"v${.input.v}\"},\"body\":{\"b\":\"${.input.b}\"},\"expect\":[\"200-204\",404],\"redirects\":2,"
        "\"bearer\":\"token\",\"sign\":\"hook\"}},\"g\":{\"http\":{\"url\":\"${.input.url}\",\"expect\":[\"500-599\"]}},"
        "\"p\":{\"http\":{\"url\":\"HTTP://a.test\",\"body\":\"x\",\"callback\":\"2h\"}}}}");
}

#define HEAD "name: a\nsteps:\n"
#define HTTP(keys) HEAD "  s: {http: {" keys "}}\n"

static void wrong_http_steps_are_refused(void **state)
{
    (void)state;
    static const struct wrong table[] = {
        {HEAD "  s: {http: x}\n", "f.yaml:3:13: \"http\" must be a map, not text", NULL},
        {HTTP("method: GET"), "f.yaml:3:13: an http step needs \"url\"",
         "write http: {url: \"https://api.example.com/orders\"}"},
        {HTTP("uri: x"), "f.yaml:3:14: unknown key \"uri\" in \"http\"", "did you mean \"url\"?"},
        {HTTP("url: ftp://a.test"), "f.yaml:3:19: \"url\" must begin with http:// or https://", NULL},
        {HTTP("url: /path"), "f.yaml:3:19: \"url\" must begin with http:// or https://", NULL},
        {HTTP("url: '${.input.s}://a'"), "f.yaml:3:19: \"url\" must begin with http:// or https://", NULL},
        {HTTP("url: ''"), "f.yaml:3:19: \"url\" must begin with http:// or https://", NULL},
        {HTTP("url: 'http://u:p@a.test/'"), "f.yaml:3:19: \"url\" must not hold a user name or a password",
         "write bearer: NAME of a secret, or secrets: {Authorization: NAME}"},
        {HTTP("url: 'http://a.test/a b'"), "f.yaml:3:19: \"url\" must consist of printable ASCII without spaces and \\",
         NULL},
        {HTTP("url: 'http://a.test\\b'"), "f.yaml:3:19: \"url\" must consist of printable ASCII without spaces and \\",
         NULL},
        {HTTP("url: 'http://bücher.test'"), "f.yaml:3:19: \"url\" must consist of printable ASCII without spaces and \\",
         "write other characters as %XX, and names of hosts in their xn-- form"},
        {HTTP("url: http://a, method: post"), "f.yaml:3:37: \"post\" is no method of an http step",
         "write one of GET, POST, PUT, PATCH, DELETE, HEAD"},
        {HTTP("url: http://a, method: CONNECT"), "f.yaml:3:37: \"CONNECT\" is no method of an http step", NULL},
        {HTTP("url: http://a, method: GET, body: x"), "f.yaml:3:37: a GET request has no \"body\"", NULL},
        {HTTP("url: http://a, body: ~"), "f.yaml:3:35: \"body\" must not be null", NULL},
        {HTTP("url: http://a, headers: [x]"), "f.yaml:3:38: \"headers\" must be a map of at most 64 names and values",
         NULL},
        {HTTP("url: http://a, headers: {'A B': x}"), "f.yaml:3:39: \"A B\" is no name of a header", NULL},
        {HTTP("url: http://a, headers: {'': x}"), "f.yaml:3:39: \"\" is no name of a header", NULL},
        {HTTP("url: http://a, headers: {\"A\\r\\nB\": x}"), "f.yaml:3:39: \"A  B\" is no name of a header", NULL},
        {HTTP("url: http://a, headers: {host: x}"), "f.yaml:3:39: the header host is set by weir itself", NULL},
        {HTTP("url: http://a, headers: {Content-Length: 1}"),
         "f.yaml:3:39: the header Content-Length is set by weir itself", NULL},
        {HTTP("url: http://a, headers: {transfer-encoding: x}"),
         "f.yaml:3:39: the header transfer-encoding is set by weir itself", NULL},
        {HTTP("url: http://a, headers: {idempotency-key: x}"),
         "f.yaml:3:39: the header idempotency-key is set by weir itself", NULL},
        {HTTP("url: http://a, headers: {weir-step: x}"), "f.yaml:3:39: the header weir-step is set by weir itself", NULL},
        {HTTP("url: http://a, headers: {A: x, a: y}"), "f.yaml:3:45: the header a is there twice", NULL},
        {HTTP("url: http://a, headers: {A: [x]}"), "f.yaml:3:42: a header must be text, not list", NULL},
        {HTTP("url: http://a, body: {a: ['${.inputs.x}']}"),
         "f.yaml:3:43: the expression reads \"inputs\", which is always null: the context has input, steps and execution",
         "did you mean \"input\"?"},
        {HTTP("url: http://a, sign: '${.input.s}'"),
         "f.yaml:3:35: the name of a secret must be fixed: an expression would let input choose the secret", NULL},
        {HTTP("url: http://a, bearer: a/b"), "f.yaml:3:37: \"a/b\" is no name of a secret", NULL},
        {HTTP("url: http://a, bearer: t, headers: {authorization: x}"),
         "f.yaml:3:37: \"bearer\" sends the header Authorization, which is in \"headers\" too", NULL},
        {HEAD "  s: {http: {url: http://a, bearer: t}, secrets: {authorization: k}}\n",
         "f.yaml:3:51: the header Authorization is in \"secrets\", and \"bearer\" sends it too", NULL},
        {HEAD "  s: {http: {url: http://a, headers: {X: y}}, secrets: {x: k}}\n",
         "f.yaml:3:57: the header x is in \"secrets\" and in \"headers\"", NULL},
        {HEAD "  s: {http: {url: http://a}, secrets: [k]}\n",
         "f.yaml:3:39: \"secrets\" of an http step must be a map of 1 to 32 secrets",
         "write secrets: {X-Api-Key: stripe_key}: the header, then the name"},
        {HEAD "  s: {http: {url: http://a}, secrets: {X: k, x: l}}\n", "f.yaml:3:46: the header x is in \"secrets\" twice",
         NULL},
        {HEAD "  s: {http: {url: http://a}, secrets: {Host: k}}\n", "f.yaml:3:40: the header Host is set by weir itself",
         NULL},
        {HEAD "  s: {http: {url: http://a}, stdin: x}\n",
         "f.yaml:3:30: \"stdin\" belongs to exec steps, and this is a http step", NULL},
        {HEAD "  s: {http: {url: http://a}, exec: [x]}\n",
         "f.yaml:3:30: the step \"s\" has two kinds, \"http\" and \"exec\"", NULL}};
    REFUSE_ALL(table)
}

static void wrong_numbers_of_http_steps_are_refused(void **state)
{
    (void)state;
    static const struct wrong table[] = {
        {HTTP("url: http://a, expect: []"), "f.yaml:3:37: \"expect\" must be 1 to 32 statuses", NULL},
        {HTTP("url: http://a, expect: 100"), "f.yaml:3:37: \"expect\" must be statuses from 200 to 599",
         "write expect: [200, 404], or expect: [200-299, 404]"},
        {HTTP("url: http://a, expect: 600"), "f.yaml:3:37: \"expect\" must be statuses from 200 to 599", NULL},
        {HTTP("url: http://a, expect: [299-200]"), "f.yaml:3:38: \"expect\" must be statuses from 200 to 599", NULL},
        {HTTP("url: http://a, expect: 2xx"), "f.yaml:3:37: \"expect\" must be statuses from 200 to 599", NULL},
        {HTTP("url: http://a, redirects: 6"), "f.yaml:3:40: \"redirects\" must be an integer from 0 to 5", NULL},
        {HTTP("url: http://a, callback: 0"), "f.yaml:3:39: \"callback\" must be longer than 0", NULL},
        {HTTP("url: http://a, callback: soon"), "f.yaml:3:39: \"callback\" must be a duration, not text \"soon\"",
         "a duration looks like 250ms, 10s, 1h30m or 2d"}};
    REFUSE_ALL(table)
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_http_step_is_read_and_written),
        cmocka_unit_test(wrong_http_steps_are_refused),
        cmocka_unit_test(wrong_numbers_of_http_steps_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
