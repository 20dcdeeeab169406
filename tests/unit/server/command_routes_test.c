/* Commands in texts get their requests from the table of routes. */
#include <string.h>

#include "server/command_routes.h"
#include "server/route.h"
#include "support/test.h"

static void expect(const char *text, const char *expected)
{
    struct text whole = {.max = 4096};
    assert_int_equal(command_routes_add(text, &whole), WEIR_OK);
    assert_string_equal(whole.data, expected);
    text_close(&whole);
}

static void a_command_gets_its_request(void **state)
{
    (void)state;
    expect("`weir list` shows the newest", "`weir list` (GET /v1/executions) shows the newest");
    expect("`weir list --where ...` shows them", "`weir list --where ...` (GET /v1/executions) shows them");
    expect("`weir workspace list` shows them; `weir workspace set` makes one",
           "`weir workspace list` (GET /v1/workspaces) shows them; "
           "`weir workspace set` (PUT /v1/workspaces/{workspace}) makes one");
    expect("make it with: weir workspace set acme --plan free",
           "make it with: weir workspace set acme --plan free (PUT /v1/workspaces/acme)");
    expect("now: weir pause, then: weir resume; at last: weir doctor",
           "now: weir pause (POST /v1/pause), then: weir resume (POST /v1/resume); at last: weir doctor");
    expect("run `weir store check`", "run `weir store check` (GET /v1/store/check)");
}

static void a_name_takes_its_place_in_the_path(void **state)
{
    (void)state;
    expect("`weir show 01a2-7` lists them", "`weir show 01a2-7` (GET /v1/executions/01a2-7) lists them");
    expect("`weir signal 01a2-7 NAME` reaches it",
           "`weir signal 01a2-7 NAME` (POST /v1/executions/01a2-7/signal) reaches it");
    expect("`weir workflow show NAME` lists the versions",
           "`weir workflow show NAME` (GET /v1/workflows/{workflow}) lists the versions");
    expect("`weir workspace resume a/b` does", "`weir workspace resume a/b` (POST /v1/workspaces/{workspace}/resume) does");
    expect("`weir workspace resume ..` does", "`weir workspace resume ..` (POST /v1/workspaces/{workspace}/resume) does");
    expect("`weir workspace resume caf\xc3\xa9`",
           "`weir workspace resume caf\xc3\xa9` (POST /v1/workspaces/{workspace}/resume)");
}

static void other_texts_stay_as_they_are(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "the token is of \"acme\"",
                                        "`weir doctor` has its path",
                                        "`weir lists` is no command",
                                        "`weir list has no end",
                                        "weir list without backquotes",
                                        "look at `http.listen`",
                                        "`weir signal`, or POST /v1/executions/ID/signal"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        expect(texts[i], texts[i]);
    }
}

static void a_long_text_is_refused_by_its_bound(void **state)
{
    (void)state;
    struct text whole = {.max = 8};
    assert_int_not_equal(command_routes_add("`weir list` shows the newest", &whole), WEIR_OK);
    text_close(&whole);
}

static json_t *hint_of(const char *agent, const char *reason, const char *workspace)
{
    struct http_request request = {.fields = {[FIELD_USER_AGENT] = agent}};
    json_t *why = json_pack("{s:s, s:s, s:s, s:s}", "id", "01a2-7", "status", "PENDING", "pending_reason", reason,
                            "workspace", workspace);
    assert_int_equal(command_routes_add_hint(&request, why), WEIR_OK);
    json_t *hint = json_incref(json_object_get(why, "hint"));
    json_decref(why);
    return hint;
}

static void each_reason_that_a_client_can_end_has_its_request(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"workspace_paused", "(POST /v1/workspaces/acme/resume)"},
                                           {"workspace_at_capacity", "(PUT /v1/workspaces/acme)"},
                                           {"queue_paused", "(POST /v1/resume)"},
                                           {"no_node_in_group", "(GET /v1/nodes)"},
                                           {"no_worker", "POST /v1/tasks:claim"},
                                           {"scheduled", "(POST /v1/executions/01a2-7/release)"},
                                           {"backing_off", "(POST /v1/executions/01a2-7/release)"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *hint = hint_of("curl/8.0", cases[i][0], "acme");
        assert_non_null(strstr(json_string_value(hint), cases[i][1]));
        json_decref(hint);
        assert_null(hint_of("weir/0.1.0", cases[i][0], "acme"));
    }
    assert_null(hint_of(NULL, "ready", "acme"));
}

static void programs_of_weir_get_the_text_as_it_is(void **state)
{
    (void)state;
    struct http_request request = {.fields = {[FIELD_USER_AGENT] = "weir/0.1.0"}};
    json_t *text = command_routes_json(&request, "`weir list` shows them");
    assert_string_equal(json_string_value(text), "`weir list` shows them");
    json_decref(text);
    request.fields[FIELD_USER_AGENT] = "weird";
    text = command_routes_json(&request, "`weir list` shows them");
    assert_string_equal(json_string_value(text), "`weir list` (GET /v1/executions) shows them");
    json_decref(text);
    assert_null(command_routes_json(&request, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_gets_its_request),
        cmocka_unit_test(a_name_takes_its_place_in_the_path),
        cmocka_unit_test(other_texts_stay_as_they_are),
        cmocka_unit_test(a_long_text_is_refused_by_its_bound),
        cmocka_unit_test(each_reason_that_a_client_can_end_has_its_request),
        cmocka_unit_test(programs_of_weir_get_the_text_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
