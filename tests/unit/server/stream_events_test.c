/* Texts, filters, positions and the ring of the stream's events. */
#include "server/stream_events.h"

#include <stdio.h>
#include <string.h>

#include "support/test.h"

#define ID "01a215fd-f18a-7002-b43c-a0d8f870aebd"

static struct stream_entry entry_of(int64_t number, enum stream_kind kind)
{
    return (struct stream_entry){
        .number = number, .at_us = 1000000, .kind = kind, .id = ID, .workspace = "acme", .workflow = "hello"};
}

static void an_event_is_an_id_and_one_line_of_data(void **state)
{
    (void)state;
    struct text text = {.max = 4096};
    struct stream_entry entry = entry_of(7, STREAM_FAIL);
    entry.workspace = "a \"co\"\\";
    assert_int_equal(stream_event_add(&text, 42, &entry), WEIR_OK);
    entry.workspace = NULL;
    entry.workflow = NULL;
    assert_int_equal(stream_event_add(&text, 0, &entry), WEIR_OK);
    assert_string_equal(text.data,
                        "id: 42-7\n"
                        "data: {\"id\":\"" ID "\",\"event\":\"fail\",\"workspace\":\"a \\\"co\\\"\\\\\","
                        "\"workflow\":\"hello\",\"status\":\"FAILED\",\"at\":\"1970-01-01T00:00:01.000000Z\"}\n\n"
                        "data: {\"id\":\"" ID "\",\"event\":\"fail\",\"workspace\":null,"
                        "\"workflow\":null,\"status\":\"FAILED\",\"at\":\"1970-01-01T00:00:01.000000Z\"}\n\n");
    text_close(&text);
}

static void a_reset_and_a_sign_of_life_have_the_position_if_there_is_one(void **state)
{
    (void)state;
    struct text text = {.max = 4096};
    struct stream_position position = {.since_us = 42, .number = 7};
    assert_int_equal(stream_reset_add(&text, &position, "slow"), WEIR_OK);
    assert_int_equal(stream_reset_add(&text, NULL, "new"), WEIR_OK);
    assert_int_equal(stream_keep_alive_add(&text, &position), WEIR_OK);
    assert_int_equal(stream_keep_alive_add(&text, NULL), WEIR_OK);
    assert_string_equal(text.data, "id: 42-7\nevent: reset\ndata: {\"reason\":\"slow\"}\n\n"
                                   "event: reset\ndata: {\"reason\":\"new\"}\n\n"
                                   ": keep-alive\nid: 42-7\n\n"
                                   ": keep-alive\n\n");
    text_close(&text);
}

static void only_ids_of_events_are_positions(void **state)
{
    (void)state;
    struct stream_position position = {.since_us = 1};
    static const char *const wrong[] = {"",
                                        "-",
                                        "1",
                                        "1-",
                                        "-1",
                                        "1-2 ",
                                        " 1-2",
                                        "+1-2",
                                        "1-+2",
                                        "1--2",
                                        "0-0",
                                        "1-2-3",
                                        "x-1",
                                        "1-x",
                                        "9223372036854775808-1",
                                        "1-9223372036854775808"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(stream_position_parse(wrong[i], &position));
    }
    assert_int_equal(position.since_us, 1);
    assert_true(stream_position_parse("9223372036854775807-0", &position));
    assert_int_equal(position.since_us, INT64_MAX);
    assert_int_equal(position.number, 0);
}

static void all_members_of_a_filter_must_match(void **state)
{
    (void)state;
    struct stream_entry entry = entry_of(1, STREAM_COMPLETE);
    assert_true(stream_filter_takes(&(struct stream_filter){.id = NULL}, &entry));
    struct stream_filter filter = {.workspace = "acme", .has_status = true, .status = ITEM_COMPLETED, .id = ID};
    assert_true(stream_filter_takes(&filter, &entry));
    filter.status = ITEM_FAILED;
    assert_false(stream_filter_takes(&filter, &entry));
    filter.status = ITEM_COMPLETED;
    filter.id = "01a215fd-f18a-7002-b43c-a0d8f870aebe";
    assert_false(stream_filter_takes(&filter, &entry));
    filter.id = ID;
    filter.workspace = "acm";
    assert_false(stream_filter_takes(&filter, &entry));
    filter.workspace_id = 7; /* instead of the name */
    assert_false(stream_filter_takes(&filter, &entry));
    entry.workspace_id = 7;
    assert_true(stream_filter_takes(&filter, &entry));
    filter.workspace_id = 0;
    entry.workspace = NULL;
    assert_false(stream_filter_takes(&filter, &entry));
}

static void the_ring_keeps_the_last_events_and_finds_the_next_one(void **state)
{
    (void)state;
    static struct stream_ring ring;
    stream_ring_clear(&ring, 10);
    assert_int_equal(stream_ring_find(&ring, 10), ring.next);
    for (int64_t i = 0; i < STREAM_RING_EVENTS + 5; i++) {
        struct stream_entry entry = entry_of(12 + 2 * i, STREAM_CLAIM); /* every second number */
        assert_int_equal(stream_ring_add(&ring, 42, &entry), WEIR_OK);
    }
    assert_int_equal(ring.next - ring.first, STREAM_RING_EVENTS);
    assert_int_equal(ring.begin, 12 + 2 * 4);
    const struct stream_event *first = stream_ring_at(&ring, stream_ring_find(&ring, ring.begin));
    assert_int_equal(first->entry.number, 12 + 2 * 5);
    assert_string_equal(first->entry.workspace, "acme");
    assert_string_equal(first->entry.workflow, "hello");
    assert_memory_equal(first->text, "id: 42-22\n", strlen("id: 42-22\n"));
    assert_int_equal(stream_ring_at(&ring, stream_ring_find(&ring, 22))->entry.number, 24);
    assert_int_equal(stream_ring_at(&ring, stream_ring_find(&ring, 23))->entry.number, 24);
    assert_int_equal(stream_ring_find(&ring, 12 + 2 * (STREAM_RING_EVENTS + 4)), ring.next);
    stream_ring_clear(&ring, 0);
    assert_int_equal(ring.first, ring.next);
    assert_int_equal(ring.begin, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_an_id_and_one_line_of_data),
        cmocka_unit_test(a_reset_and_a_sign_of_life_have_the_position_if_there_is_one),
        cmocka_unit_test(only_ids_of_events_are_positions),
        cmocka_unit_test(all_members_of_a_filter_must_match),
        cmocka_unit_test(the_ring_keeps_the_last_events_and_finds_the_next_one),
    };
    return cmocka_run_group_tests_name("stream_events", tests, NULL, NULL);
}
