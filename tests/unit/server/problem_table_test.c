#include "server/problem_table.h"

#include <string.h>

#include "support/test.h"
#include "weir/status.h"

static void every_failure_of_a_call_is_explained(void **state)
{
    (void)state;
    for (int status = WEIR_OK + 1; status < WEIR_STATUS_COUNT; status++) {
        const struct problem_kind *kind = problem_find(weir_status_name((enum weir_status)status));
        assert_non_null(kind);
        assert_int_equal(kind->status, weir_status_http((enum weir_status)status));
    }
}

static void rows_are_whole_and_in_order(void **state)
{
    (void)state;
    int last = 400;
    for (const struct problem_kind *kind = problem_table(); kind->code != NULL; kind++) {
        assert_ptr_equal(problem_find(kind->code), kind); /* no code stands twice */
        assert_true(kind->status >= last && kind->meaning[0] != '\0' && kind->remedy[0] != '\0');
        assert_int_equal(strpbrk(kind->meaning, "<&") == NULL && strpbrk(kind->remedy, "<&") == NULL,
                         1); /* it is no markup */
        last = kind->status;
    }
    assert_null(problem_find("nothing"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failure_of_a_call_is_explained),
        cmocka_unit_test(rows_are_whole_and_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
