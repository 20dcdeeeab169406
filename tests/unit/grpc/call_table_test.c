#include "grpc/call_table.h"

#include "base/error.h"
#include "support/seed.h"
#include "support/test.h"

enum { CALLS_MAX = 200 };

struct told {
    int count;
    enum grpc_outcome outcome;
};

static void note(void *context, const struct grpc_result *result)
{
    struct told *told = context;
    told->count++;
    told->outcome = result->outcome;
}

static void open_table(struct call_table *table, size_t calls_max, size_t bytes_max)
{
    const struct answer_limits limits = {.message_bytes_max = 1000, .arriving_bytes_max = 1000};
    assert_int_equal(grpc_call_table_open(table, calls_max, bytes_max, &limits, NULL), WEIR_OK);
}

static struct call *take(struct call_table *table, int64_t timeout_us, struct told *told)
{
    struct grpc_request request = {.path = "/a.B/C",
                                   .message = "0123456789",
                                   .message_length = 10,
                                   .timeout_us = timeout_us,
                                   .done = note,
                                   .context = told};
    grpc_call_id id = 0;
    assert_int_equal(grpc_call_table_take(table, &request, 0, &id, NULL), WEIR_OK);
    assert_int_not_equal(id, 0);
    return grpc_call_table_find(table, id);
}

static void finish(struct call_table *table, struct call *call)
{
    struct weir_error error;
    (void)error_set(&error, WEIR_STOPPED, "over");
    grpc_call_finish_unsent(table, call, GRPC_CAUSE_CLOSED, &error);
    assert_true(grpc_call_table_report_next(table));
}

static void deadlines_come_in_their_order_whatever_ends_before(void **state)
{
    (void)state;
    struct random random;
    struct call_table table;
    struct told told = {.count = 0};
    struct call *calls[CALLS_MAX];
    test_seed(&random, "deadlines");
    open_table(&table, CALLS_MAX, 1000000);
    for (size_t i = 0; i < CALLS_MAX; i++) {
        calls[i] = take(&table, (int64_t)random_below(&random, 1000) + 1, &told);
    }
    for (size_t i = 0; i < CALLS_MAX; i += 3) {
        finish(&table, calls[i]);
    }
    int64_t last_us = 0;
    while (grpc_call_table_next_deadline(&table) != TIME_NEVER) {
        int64_t due_us = grpc_call_table_next_deadline(&table);
        assert_true(due_us >= last_us);
        assert_null(grpc_call_table_next_overdue(&table, due_us - 1));
        struct call *call = grpc_call_table_next_overdue(&table, due_us);
        assert_non_null(call);
        assert_int_equal(call->deadline_us, due_us);
        finish(&table, call);
        last_us = due_us;
    }
    assert_int_equal(told.count, CALLS_MAX);
    grpc_call_table_close(&table);
}

static void a_call_that_waits_again_takes_its_former_place(void **state)
{
    (void)state;
    struct random random;
    struct call_table table;
    struct told told = {.count = 0};
    test_seed(&random, "places");
    open_table(&table, CALLS_MAX, 1000000);
    for (size_t i = 0; i < CALLS_MAX; i++) {
        (void)take(&table, 1000, &told);
    }
    struct call *out[CALLS_MAX];
    size_t out_count = 0;
    while (out_count < 50) {
        out[out_count] = table.waiting[GRPC_SHORT_CALL].first;
        grpc_call_begin(&table, out[out_count++]);
    }
    while (out_count > 0) { /* in any order */
        size_t at = random_below(&random, out_count);
        grpc_call_wait_again(&table, out[at]);
        out[at] = out[--out_count];
    }
    for (uint64_t i = 0; i < CALLS_MAX; i++) {
        assert_int_equal(table.waiting[GRPC_SHORT_CALL].first->sequence, i);
        finish(&table, table.waiting[GRPC_SHORT_CALL].first);
    }
    grpc_call_table_close(&table);
}

static void ids_of_ended_calls_find_nothing(void **state)
{
    (void)state;
    struct call_table table;
    struct told told = {.count = 0};
    struct grpc_request request = {.path = "/a.B/C", .timeout_us = 1, .done = note, .context = &told};
    grpc_call_id first = 0;
    grpc_call_id second = 0;
    open_table(&table, 1, 1000);
    assert_int_equal(grpc_call_table_take(&table, &request, 0, &first, NULL), WEIR_OK);
    finish(&table, grpc_call_table_find(&table, first));
    assert_null(grpc_call_table_find(&table, first));
    assert_int_equal(grpc_call_table_take(&table, &request, 0, &second, NULL), WEIR_OK);
    assert_int_not_equal(first, second);
    assert_null(grpc_call_table_find(&table, first));
    assert_non_null(grpc_call_table_find(&table, second));
    finish(&table, grpc_call_table_find(&table, second));
    grpc_call_table_close(&table);
}

static void bytes_of_calls_have_a_maximum_and_return_at_their_end(void **state)
{
    (void)state;
    struct call_table table;
    struct told told = {.count = 0};
    struct weir_error error;
    struct grpc_request request = {
        .path = "/a.B/C", .message = "0123456789", .message_length = 10, .timeout_us = 1, .done = note, .context = &told};
    open_table(&table, 10, 2 * (10 + sizeof "/a.B/C"));
    for (int round = 0; round < 3; round++) {
        struct call *first = take(&table, 1, &told);
        struct call *second = take(&table, 1, &told);
        assert_int_equal(grpc_call_table_take(&table, &request, 0, NULL, &error), WEIR_QUEUE_FULL);
        finish(&table, first);
        finish(&table, second);
        assert_int_equal(table.request_bytes, 0);
    }
    grpc_call_table_close(&table);
}

static void a_refused_call_that_ends_in_the_queue_stays_refused(void **state)
{
    (void)state;
    struct call_table table;
    struct told told = {.count = 0};
    open_table(&table, 2, 1000);
    struct call *call = take(&table, 1, &told);
    grpc_call_begin(&table, call);
    call->was_refused = true;
    grpc_call_wait_again(&table, call);
    finish(&table, call);
    assert_int_equal(told.outcome, GRPC_REFUSED);
    finish(&table, take(&table, 1, &told));
    assert_int_equal(told.outcome, GRPC_NOT_SENT);
    grpc_call_table_close(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deadlines_come_in_their_order_whatever_ends_before),
        cmocka_unit_test(a_call_that_waits_again_takes_its_former_place),
        cmocka_unit_test(ids_of_ended_calls_find_nothing),
        cmocka_unit_test(bytes_of_calls_have_a_maximum_and_return_at_their_end),
        cmocka_unit_test(a_refused_call_that_ends_in_the_queue_stays_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
