/* The places of items in a table of the scheduler. */
#include "queue/scheduler_table.h"

#include "support/test.h"

enum { ITEMS = 40, ROUNDS = 20, STAYS = 100000 };

struct item {
    struct entry entry;
    int64_t value;
};

static void add_all(struct table *table, int64_t first_key)
{
    for (int64_t i = 0; i < ITEMS; i++) {
        struct item *item = table_add(table, first_key + i);
        assert_non_null(item);
        item->value = first_key + i;
    }
}

/* The memory of a scheduler that runs for months follows what is there at once, not what came and went. */
static void places_of_removed_items_are_used_again(void **state)
{
    (void)state;
    struct table table;
    size_t bytes = 0;
    table_init(&table, sizeof(struct item), &bytes);
    add_all(&table, 0);
    struct item *stays = table_add(&table, STAYS);
    assert_non_null(stays);
    stays->value = STAYS;
    uint32_t end = table.end;
    for (int round = 1; round <= ROUNDS; round++) {
        for (int64_t key = (round - 1) * ITEMS; key < round * ITEMS; key++) {
            struct item *item = table_find(&table, key);
            assert_non_null(item);
            table_remove(&table, item);
        }
        add_all(&table, round * ITEMS);
        assert_int_equal(table.end, end);
        assert_int_equal(table.count, ITEMS + 1);
        assert_ptr_equal(table_find(&table, STAYS), stays);
        assert_int_equal(stays->value, STAYS);
        for (int64_t key = round * ITEMS; key < (round + 1) * ITEMS; key++) {
            assert_int_equal(((struct item *)table_find(&table, key))->value, key);
        }
    }
    table_clear(&table);
    assert_int_equal(bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_of_removed_items_are_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
