#include "server/http_metrics.h"

#include "support/test.h"

static struct http_metrics metrics;
static struct text text = {.max = 1024 * 1024};

static int tear_down(void **state)
{
    (void)state;
    text_close(&text);
    return 0;
}

static void assert_has(const char *line)
{
    if (strstr(text.data, line) == NULL) {
        fail_msg("no \"%s\" in:\n%s", line, text.data);
    }
}

static void requests_are_counted_by_operation_and_status(void **state)
{
    (void)state;
    size_t count = 0;
    const struct http_route *routes = route_table(&count);
    http_metrics_note(&metrics, &routes[0], 200);
    http_metrics_note(&metrics, &routes[0], 200);
    http_metrics_note(&metrics, &routes[count - 1], 503);
    http_metrics_note(&metrics, NULL, 404);
    http_metrics_note(&metrics, NULL, 0);
    http_metrics_note(&metrics, NULL, 418); /* no column of its own */
    atomic_store(&metrics.waiting, 7);
    atomic_store(&metrics.connections, 8);
    atomic_store(&metrics.streams, 6);
    atomic_store(&metrics.refused, 9);
    atomic_store(&metrics.cut, 10);
    assert_int_equal(http_metrics_render(&metrics, &text), WEIR_OK);
    assert_has("\nweir_http_requests_total{operation=\"isAlive\",status=\"200\"} 2\n");
    assert_has(",status=\"503\"} 1\n");
    assert_has("\nweir_http_requests_total{operation=\"none\",status=\"404\"} 1\n");
    assert_has("\nweir_http_requests_total{operation=\"none\",status=\"none\"} 1\n");
    assert_has("\nweir_http_requests_total{operation=\"none\",status=\"415\"} 1\n");
    assert_has("\nweir_http_requests_waiting 7\n");
    assert_has("\nweir_http_connections 8\n");
    assert_has("\nweir_http_streams 6\n");
    assert_has("\nweir_http_requests_refused_total 9\n");
    assert_has("\nweir_http_connections_cut_total 10\n");
}

static void a_text_that_is_too_short_is_an_answer(void **state)
{
    (void)state;
    struct text small = {.max = 10};
    assert_int_equal(http_metrics_render(&metrics, &small), WEIR_FAILED);
    text_close(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(requests_are_counted_by_operation_and_status, tear_down),
        cmocka_unit_test(a_text_that_is_too_short_is_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
