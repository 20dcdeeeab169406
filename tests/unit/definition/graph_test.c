/* The order of the nodes of a graph, of which the caller's array may have more than it counts. */
#include "definition/graph.h"

#include "support/test.h"

static void nodes_behind_the_count_have_no_place(void **state)
{
    (void)state;
    const uint16_t needs[] = {1};
    const struct graph_node nodes[] = {{.needs = needs, .needs_count = 1}, {.needs_count = 0}, {.needs_count = 0}};
    uint16_t order[3] = {9, 9, 9};
    uint16_t cycle[3];
    size_t length = 0;
    assert_true(graph_order(nodes, 2, order, cycle, &length));
    assert_int_equal(order[0], 1);
    assert_int_equal(order[1], 0);
    assert_int_equal(order[2], 9);
}

static void a_circle_is_returned_from_its_first_node_to_it(void **state)
{
    (void)state;
    const uint16_t first[] = {1};
    const uint16_t second[] = {0};
    const struct graph_node nodes[] = {{.needs = first, .needs_count = 1}, {.needs = second, .needs_count = 1}};
    uint16_t order[2];
    uint16_t cycle[3];
    size_t length = 0;
    assert_false(graph_order(nodes, 2, order, cycle, &length));
    assert_int_equal(length, 3);
    assert_int_equal(cycle[0], cycle[2]);
    assert_int_not_equal(cycle[0], cycle[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_behind_the_count_have_no_place),
        cmocka_unit_test(a_circle_is_returned_from_its_first_node_to_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
