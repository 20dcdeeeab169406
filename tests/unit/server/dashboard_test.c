#include <string.h>

#include "server/api.h"
#include "server/routes/routes.h"
#include "support/test.h"

static const struct http_route *find_route(const char *path)
{
    size_t count = 0;
    const struct http_route *routes = route_table(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(routes[i].path, path) == 0) {
            return &routes[i];
        }
    }
    fail_msg("no route %s", path);
    return NULL;
}

/* A client that asks for many files and reads none of them takes no memory from the answers to others. */
static void an_answer_with_a_file_holds_no_memory(void **state)
{
    (void)state;
    struct api api = {.has_dashboard = true};
    static const char *const encodings[] = {NULL, "gzip"};
    for (size_t i = 0; i < 2; i++) {
        struct http_request page = {.route = find_route("/"),
                                    .fields = {[FIELD_ACCEPT] = "text/html", [FIELD_ACCEPT_ENCODING] = encodings[i]}};
        struct http_request file = {.route = find_route("/assets/{version}/{file}"),
                                    .values = {"0123456789abcdef", "app.js"},
                                    .fields = {[FIELD_ACCEPT_ENCODING] = encodings[i]}};
        struct http_answer answers[2] = {{.body = {.max = 1024 * 1024}}, {.body = {.max = 1024 * 1024}}};
        answer_dashboard_page(&api, NULL, &page, &answers[0]);
        answer_dashboard_asset(&api, NULL, &file, &answers[1]);
        for (size_t j = 0; j < 2; j++) {
            assert_int_equal(answers[j].status, 200);
            assert_int_equal(answers[j].body.capacity, 0);
            assert_non_null(answers[j].constant);
            assert_true(answers[j].constant_length > 100);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_answer_with_a_file_holds_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
