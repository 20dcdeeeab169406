/* Pages, cursors and ids given in part: the rules that both drivers share. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/reading.h"
#include "support/test.h"

#define ID "01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79"
#define ZEROS "00000000-0000-0000-0000-000000000000"

static void the_beginning_of_an_id_is_completed_in_small_letters(void **state)
{
    (void)state;
    char id[UUID_TEXT_MAX];
    assert_true(reading_complete_id("01939B7E-7a", ZEROS, id));
    assert_string_equal(id, "01939b7e-7a00-0000-0000-000000000000");
    assert_true(reading_complete_id("", ZEROS, id));
    assert_string_equal(id, ZEROS);
    assert_true(reading_complete_id(ID, ZEROS, id));
    assert_string_equal(id, ID);
    assert_false(reading_complete_id("01939b7e7a", ZEROS, id)); /* the dash is missing */
    assert_false(reading_complete_id("01939g", ZEROS, id));
    assert_false(reading_complete_id(ID "0", ZEROS, id));
}

static void an_id_that_is_too_short_is_refused_with_the_least_length(void **state)
{
    (void)state;
    struct weir_error error = {.status = WEIR_OK};
    char id[UUID_TEXT_MAX];
    assert_int_equal(reading_check_id("01939", id, &error), WEIR_INVALID_ARGUMENT);
    assert_non_null(strstr(error.hint, "first 6 or more"));
    assert_int_equal(reading_check_id("01939B", id, &error), WEIR_OK);
    assert_string_equal(id, "01939b");
    static const char *const ids[] = {"01939b-a", "01939b-b", "01939b-c", "01939b-d", "01939b-e"};
    assert_int_equal(reading_check_matches(ids, 0, id, &error), WEIR_EXECUTION_NOT_FOUND);
    assert_int_equal(reading_check_matches(ids, 1, id, &error), WEIR_OK);
    assert_int_equal(reading_check_matches(ids, 2, id, &error), WEIR_INVALID_ARGUMENT);
    assert_string_equal(error.message, "more than one execution begins with 01939b: 01939b-a, 01939b-b");
    assert_int_equal(reading_check_matches(ids, IDS_NAMED_MAX + 1, id, &error), WEIR_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "01939b-d, ..."));
    assert_null(strstr(error.message, "01939b-e"));
}

/* Rows of a store with `total` executions; every third one has the reason "ready". */
struct rows {
    int total;
    int reads;
};

static enum weir_status read_rows(void *context, const struct execution_filter *filter, const char *below, size_t limit,
                                  json_t **ret_rows, bool *ret_more, char ret_next[UUID_TEXT_MAX], struct weir_error *error)
{
    (void)filter;
    struct rows *rows = context;
    json_t *page = NULL;
    int next = rows->total;
    int last = below[0] == '~' ? rows->total : (int)strtol(below + strlen(ID) - 4, NULL, 10);
    rows->reads++;
    assert_int_equal(reading_return_json(json_array(), &page, error), WEIR_OK);
    for (next = last - 1; next >= 0 && json_array_size(page) < limit; next--) {
        json_t *row = json_pack("{s:o, s:s}", "id", json_sprintf("01939b7e-7a5c-7c3e-8b3a-00000000%04d", next),
                                "pending_reason", next % 3 == 0 ? "ready" : "scheduled");
        assert_int_equal(json_array_append_new(page, row), 0);
    }
    *ret_more = next >= 0;
    (void)snprintf(ret_next, UUID_TEXT_MAX, "01939b7e-7a5c-7c3e-8b3a-00000000%04d", next + 1);
    *ret_rows = page;
    return WEIR_OK;
}

/* Windows of ten. */
static enum weir_status count_rows(void *context, const struct execution_filter *filter, const char *below, size_t limit,
                                   struct execution_count *ret_count, struct weir_error *error)
{
    (void)filter;
    (void)error;
    size_t left =
        below[0] == '~' ? (size_t)((struct rows *)context)->total : (size_t)strtol(below + strlen(ID) - 4, NULL, 10);
    size_t count = left < 10 ? left : 10;
    count = count < limit ? count : limit;
    *ret_count = (struct execution_count){.examined = count, .matched = (count + 2) / 3, .more = count < left};
    (void)snprintf(ret_count->next, sizeof ret_count->next, "01939b7e-7a5c-7c3e-8b3a-00000000%04d", (int)(left - count));
    return WEIR_OK;
}

/* Reads all pages and returns the number of rows. */
static size_t read_pages(struct rows *rows, const char *reason, size_t limit)
{
    const struct execution_rows source = {.read = read_rows, .count = count_rows, .context = rows, .newest_bound = "~"};
    struct list_options options = {.kind = LIST_EXECUTIONS, .limit = limit, .filter = {.reason = reason}};
    struct weir_error error = {.status = WEIR_OK};
    char cursor[UUID_TEXT_MAX] = "";
    size_t count = 0;
    bool more = true;
    while (more) {
        json_t *page = NULL;
        options.cursor = cursor;
        assert_int_equal(reading_list_executions(&source, &options, &page, &error), WEIR_OK);
        count += json_array_size(json_object_get(page, "items"));
        const char *next = json_string_value(json_object_get(page, "next_cursor"));
        more = next != NULL;
        text_copy(cursor, sizeof cursor, more ? next : "");
        json_decref(page);
    }
    return count;
}

static void pages_of_a_list_hold_each_row_once(void **state)
{
    (void)state;
    for (int total = 0; total < 8; total++) {
        for (size_t limit = 1; limit < 5; limit++) {
            struct rows rows = {.total = total};
            assert_int_equal(read_pages(&rows, NULL, limit), total);
            assert_int_equal(read_pages(&rows, "ready", limit), (total + 2) / 3);
            assert_int_equal(read_pages(&rows, "quarantined", limit), 0);
        }
    }
}

static void assert_counted(const struct list_options *options, json_int_t expected, bool is_exact)
{
    struct rows rows = {.total = 95};
    const struct execution_rows source = {.read = read_rows, .count = count_rows, .context = &rows, .newest_bound = "~"};
    struct weir_error error = {.status = WEIR_OK};
    json_t *page = NULL;
    assert_int_equal(reading_list_executions(&source, options, &page, &error), WEIR_OK);
    assert_int_equal(json_integer_value(json_object_get(page, "count")), expected);
    assert_int_equal(json_is_true(json_object_get(page, "count_is_exact")), is_exact);
    json_decref(page);
}

static void a_count_ends_with_the_list_or_with_its_windows(void **state)
{
    (void)state;
    struct list_options options = {.kind = LIST_EXECUTIONS, .limit = 1, .count = true};
    assert_counted(&options, 9 * 4 + 2, true);
    options.windows_most = 5;
    assert_counted(&options, 5 * 4, false);
    options.counts_all = true;
    assert_counted(&options, 9 * 4 + 2, true);
}

static void a_text_that_is_no_cursor_is_refused(void **state)
{
    (void)state;
    struct rows rows = {.total = 3};
    const struct execution_rows source = {.read = read_rows, .count = count_rows, .context = &rows, .newest_bound = "~"};
    const struct list_options options = {.kind = LIST_EXECUTIONS, .limit = 2, .cursor = "7"};
    struct weir_error error = {.status = WEIR_OK};
    json_t *page = NULL;
    int64_t offset = 0;
    assert_int_equal(reading_list_executions(&source, &options, &page, &error), WEIR_INVALID_ARGUMENT);
    assert_string_equal(error.hint, "a cursor is the next_cursor of the page before");
    assert_int_equal(rows.reads, 0);
    assert_int_equal(reading_event_offset("x", &offset, &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(reading_event_offset("-1", &offset, &error), WEIR_INVALID_ARGUMENT);
    assert_int_equal(reading_event_offset("12", &offset, &error), WEIR_OK);
    assert_int_equal(offset, 12);
}

/* As for ids that were altered: the list of ids has them, and no row is found for one. */
static enum weir_status read_no_rows(void *context, const struct execution_filter *filter, const char *below, size_t limit,
                                     json_t **ret_rows, bool *ret_more, char ret_next[UUID_TEXT_MAX],
                                     struct weir_error *error)
{
    (void)filter;
    (void)limit;
    text_copy(ret_next, UUID_TEXT_MAX, below);
    ((struct rows *)context)->reads++;
    *ret_more = true;
    return reading_return_json(json_array(), ret_rows, error);
}

static void a_list_ends_at_a_read_without_rows(void **state)
{
    (void)state;
    struct rows context = {.total = 1};
    struct execution_rows rows = {.read = read_no_rows, .count = count_rows, .context = &context, .newest_bound = "~"};
    struct list_options options = {.kind = LIST_EXECUTIONS, .limit = 1};
    struct weir_error error = {.status = WEIR_OK};
    json_t *page = NULL;
    assert_int_equal(reading_list_executions(&rows, &options, &page, &error), WEIR_OK);
    assert_int_equal(context.reads, 1);
    assert_true(json_is_null(json_object_get(page, "next_cursor")));
    json_decref(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_beginning_of_an_id_is_completed_in_small_letters),
        cmocka_unit_test(an_id_that_is_too_short_is_refused_with_the_least_length),
        cmocka_unit_test(pages_of_a_list_hold_each_row_once),
        cmocka_unit_test(a_list_ends_at_a_read_without_rows),
        cmocka_unit_test(a_count_ends_with_the_list_or_with_its_windows),
        cmocka_unit_test(a_text_that_is_no_cursor_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
