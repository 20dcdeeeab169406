/* The free space where a store is. A file of /proc is on a file system without any room. */
#include "cli/verbs/disk.h"

#include "support/test.h"

static void only_a_file_of_this_machine_has_a_disk(void **state)
{
    (void)state;
    uint64_t free_mib = 0;
    assert_string_equal(disk_store_file("sqlite:/srv/weir.db"), "/srv/weir.db");
    assert_null(disk_store_file("postgres://db.example/app"));
    assert_false(disk_free_mib("postgres://db.example/app", &free_mib));
    assert_false(disk_free_mib("https://queue.example", &free_mib));
    assert_false(disk_free_mib("sqlite:/no/such/folder/weir.db", &free_mib));
    assert_false(disk_is_full("sqlite:/no/such/folder/weir.db"));
}

static void a_disk_without_room_is_full(void **state)
{
    (void)state;
    uint64_t free_mib = 1;
    assert_true(disk_free_mib("sqlite:/proc/version", &free_mib));
    assert_int_equal(free_mib, 0);
    assert_true(disk_is_full("sqlite:/proc/version"));
    assert_true(disk_free_mib("sqlite:/", &free_mib));
    assert_int_equal(disk_is_full("sqlite:/"), free_mib == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_file_of_this_machine_has_a_disk),
        cmocka_unit_test(a_disk_without_room_is_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
