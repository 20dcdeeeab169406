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

static void open_book(struct call_book *book, size_t calls_max, size_t bytes_max)
{
    const struct answer_limits limits = {.message_bytes_max = 1000, .arriving_bytes_max = 1000};
    assert_int_equal(grpc_call_book_open(book, calls_max, bytes_max, &limits, NULL), WEIR_OK);
}

static struct call *take(struct call_book *book, int64_t timeout_us, struct told *told)
{
    struct grpc_request request = {.path = "/a.B/C",
                                   .message = "0123456789",
                                   .message_length = 10,
                                   .timeout_us = timeout_us,
                                   .done = note,
                                   .context = told};
    grpc_call_id id = 0;
    assert_int_equal(grpc_call_book_take(book, &request, 0, &id, NULL), WEIR_OK);
    assert_int_not_equal(id, 0);
    return grpc_call_book_find(book, id);
}

static void finish(struct call_book *book, struct call *call)
{
    struct weir_error error;
    (void)error_set(&error, WEIR_STOPPED, "over");
    grpc_call_finish_unsent(book, call, GRPC_CAUSE_CLOSED, &error);
    assert_true(grpc_call_book_tell(book));
}

static void deadlines_come_in_their_order_whatever_ends_before(void **state)
{
    (void)state;
    struct random random;
    struct call_book book;
    struct told told = {.count = 0};
    struct call *calls[CALLS_MAX];
    test_seed(&random, "deadlines");
    open_book(&book, CALLS_MAX, 1000000);
    for (size_t i = 0; i < CALLS_MAX; i++) {
        calls[i] = take(&book, (int64_t)random_below(&random, 1000) + 1, &told);
    }
    for (size_t i = 0; i < CALLS_MAX; i += 3) {
        finish(&book, calls[i]);
    }
    int64_t last_us = 0;
    while (grpc_call_book_next_deadline(&book) != TIME_NEVER) {
        int64_t due_us = grpc_call_book_next_deadline(&book);
        assert_true(due_us >= last_us);
        assert_null(grpc_call_book_next_overdue(&book, due_us - 1));
        struct call *call = grpc_call_book_next_overdue(&book, due_us);
        assert_non_null(call);
        assert_int_equal(call->deadline_us, due_us);
        finish(&book, call);
        last_us = due_us;
    }
    assert_int_equal(told.count, CALLS_MAX);
    grpc_call_book_close(&book);
}

static void what_comes_back_takes_its_old_place(void **state)
{
    (void)state;
    struct random random;
    struct call_book book;
    struct told told = {.count = 0};
    test_seed(&random, "places");
    open_book(&book, CALLS_MAX, 1000000);
    for (size_t i = 0; i < CALLS_MAX; i++) {
        (void)take(&book, 1000, &told);
    }
    struct call *out[CALLS_MAX];
    size_t out_count = 0;
    while (out_count < 50) {
        out[out_count] = book.waiting[GRPC_SHORT_CALL].first;
        grpc_call_begin(&book, out[out_count++]);
    }
    while (out_count > 0) { /* in any order */
        size_t at = random_below(&random, out_count);
        grpc_call_wait_again(&book, out[at]);
        out[at] = out[--out_count];
    }
    for (uint64_t i = 0; i < CALLS_MAX; i++) {
        assert_int_equal(book.waiting[GRPC_SHORT_CALL].first->sequence, i);
        finish(&book, book.waiting[GRPC_SHORT_CALL].first);
    }
    grpc_call_book_close(&book);
}

static void ids_of_ended_calls_find_nothing(void **state)
{
    (void)state;
    struct call_book book;
    struct told told = {.count = 0};
    struct grpc_request request = {.path = "/a.B/C", .timeout_us = 1, .done = note, .context = &told};
    grpc_call_id first = 0;
    grpc_call_id second = 0;
    open_book(&book, 1, 1000);
    assert_int_equal(grpc_call_book_take(&book, &request, 0, &first, NULL), WEIR_OK);
    finish(&book, grpc_call_book_find(&book, first));
    assert_null(grpc_call_book_find(&book, first));
    assert_int_equal(grpc_call_book_take(&book, &request, 0, &second, NULL), WEIR_OK);
    assert_int_not_equal(first, second);
    assert_null(grpc_call_book_find(&book, first));
    assert_non_null(grpc_call_book_find(&book, second));
    finish(&book, grpc_call_book_find(&book, second));
    grpc_call_book_close(&book);
}

static void bytes_in_the_book_have_a_maximum_and_are_given_back(void **state)
{
    (void)state;
    struct call_book book;
    struct told told = {.count = 0};
    struct weir_error error;
    struct grpc_request request = {
        .path = "/a.B/C", .message = "0123456789", .message_length = 10, .timeout_us = 1, .done = note, .context = &told};
    open_book(&book, 10, 2 * (10 + sizeof "/a.B/C"));
    for (int round = 0; round < 3; round++) {
        struct call *first = take(&book, 1, &told);
        struct call *second = take(&book, 1, &told);
        assert_int_equal(grpc_call_book_take(&book, &request, 0, NULL, &error), WEIR_QUEUE_FULL);
        finish(&book, first);
        finish(&book, second);
        assert_int_equal(book.request_bytes, 0);
    }
    grpc_call_book_close(&book);
}

static void a_refused_call_that_ends_in_the_queue_stays_refused(void **state)
{
    (void)state;
    struct call_book book;
    struct told told = {.count = 0};
    open_book(&book, 2, 1000);
    struct call *call = take(&book, 1, &told);
    grpc_call_begin(&book, call);
    call->was_refused = true;
    grpc_call_wait_again(&book, call);
    finish(&book, call);
    assert_int_equal(told.outcome, GRPC_REFUSED);
    finish(&book, take(&book, 1, &told));
    assert_int_equal(told.outcome, GRPC_NOT_SENT);
    grpc_call_book_close(&book);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deadlines_come_in_their_order_whatever_ends_before),
        cmocka_unit_test(what_comes_back_takes_its_old_place),
        cmocka_unit_test(ids_of_ended_calls_find_nothing),
        cmocka_unit_test(bytes_in_the_book_have_a_maximum_and_are_given_back),
        cmocka_unit_test(a_refused_call_that_ends_in_the_queue_stays_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
