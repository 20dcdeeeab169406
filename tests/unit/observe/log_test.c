#include "observe/log.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/test.h"

#define WALL_US ((int64_t)1795148251123456) /* 2026-11-20T04:17:31.123456Z */

static struct log log_of(enum log_format format)
{
    struct log log;
    log_init(&log, &(struct log_options){.fd = -1, .format = format});
    return log;
}

static void text_line_reads_well(void **state)
{
    (void)state;
    char line[LOG_LINE_BYTES_MAX + 1];
    struct log log = log_of(LOG_TEXT);
    struct event event = {
        .type = EVENT_WORKSPACE_AT_CAPACITY, .workspace = "acme", .plan = "free", .slots_used = 1, .slots_max = 1};
    size_t length = log_line(&log, &event, WALL_US, line);
    assert_int_equal(length, strlen(line));
    assert_non_null(strstr(line,
                           " info  workspace.at_capacity Workspace at capacity  workspace=acme plan=free slots_used=1 "
                           "slots_max=1\n"));
    assert_int_equal(line[2], ':');
    log_close(&log);
}

static void json_line_is_one_object_with_the_same_fields(void **state)
{
    (void)state;
    char line[LOG_LINE_BYTES_MAX + 1];
    struct log log = log_of(LOG_JSON);
    struct event event = {
        .type = EVENT_DISPATCH_FAILED, .execution_id = "id-1", .code = "refused", .start_number = 3, .duration_us = 1500};
    size_t length = log_line(&log, &event, WALL_US, line);
    json_t *object = json_loadb(line, length - 1, 0, NULL);
    assert_non_null(object);
    assert_string_equal(json_string_value(json_object_get(object, "level")), "error");
    assert_string_equal(json_string_value(json_object_get(object, "event")), "dispatch.failed");
    assert_string_equal(json_string_value(json_object_get(object, "message")), "Failed to start workflow");
    assert_string_equal(json_string_value(json_object_get(object, "execution_id")), "id-1");
    assert_int_equal(json_integer_value(json_object_get(object, "start_number")), 3);
    assert_true(json_number_value(json_object_get(object, "duration_us")) == 1500);
    assert_null(json_object_get(object, "workspace"));
    json_decref(object);
    log_close(&log);
}

static void events_of_schedules_name_the_schedule(void **state)
{
    (void)state;
    static const enum event_type types[] = {EVENT_SCHEDULE_FIRED, EVENT_SCHEDULE_SKIPPED, EVENT_SCHEDULE_DROPPED,
                                            EVENT_SCHEDULE_REFUSED};
    char line[LOG_LINE_BYTES_MAX + 1];
    struct log text = log_of(LOG_TEXT);
    struct log json = log_of(LOG_JSON);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct event event = {.type = types[i], .reason = "nightly", .count = 3};
        (void)log_line(&text, &event, WALL_US, line);
        assert_non_null(strstr(line, " schedule=nightly"));
        (void)log_line(&json, &event, WALL_US, line);
        assert_non_null(strstr(line, "\"schedule\":\"nightly\""));
        assert_null(strstr(line, "reason"));
    }
    struct event other = {.type = EVENT_HOOK_REFUSED, .reason = "page"};
    (void)log_line(&text, &other, WALL_US, line);
    assert_non_null(strstr(line, " reason=page"));
    log_close(&text);
    log_close(&json);
}

static void every_event_has_a_message_and_fits_both_formats(void **state)
{
    (void)state;
    char line[LOG_LINE_BYTES_MAX + 1];
    struct log text = log_of(LOG_TEXT);
    struct log json = log_of(LOG_JSON);
    for (unsigned type = 0; type < EVENT_TYPE_COUNT; type++) {
        struct event event = {.type = (enum event_type)type, .error = "it's \"so\""};
        assert_true(log_message(event.type)[0] != '\0');
        size_t length = log_line(&json, &event, WALL_US, line);
        json_t *object = json_loadb(line, length - 1, 0, NULL);
        assert_non_null(object);
        assert_string_equal(json_string_value(json_object_get(object, "error")), "it's \"so\"");
        json_decref(object);
        length = log_line(&text, &event, WALL_US, line);
        assert_int_equal(line[length - 1], '\n');
        assert_null(memchr(line, '\n', length - 1));
    }
}

static void hostile_strings_reach_neither_terminal_nor_json(void **state)
{
    (void)state;
    static const char *const hostile[] = {
        "\033[2J\033[31mred", "two\nlines\r",        "\342\200\256desrever",     "\xff\xfe bad", "\xc3", "",
        "\x7f\xc2\x9b",       "quote\" back\\slash", "emoji \xf0\x9f\x98\x80 ok"};
    char line[LOG_LINE_BYTES_MAX + 1];
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        struct event event = {.type = EVENT_EXECUTION_FAILED, .workspace = hostile[i], .error = hostile[i]};
        struct log json = log_of(LOG_JSON);
        size_t length = log_line(&json, &event, WALL_US, line);
        json_t *object = json_loadb(line, length - 1, 0, NULL);
        assert_non_null(object);
        json_decref(object);
        for (int as_text = 0; as_text < 2; as_text++) {
            struct log log = log_of(as_text ? LOG_TEXT : LOG_JSON);
            length = log_line(&log, &event, WALL_US, line);
            for (size_t k = 0; k + 1 < length; k++) {
                assert_true((unsigned char)line[k] >= 0x20 && line[k] != 0x7f);
            }
            assert_null(strstr(line, "\xe2\x80\xae"));
        }
    }
}

static void long_fields_are_cut_and_a_full_line_keeps_whole_fields(void **state)
{
    (void)state;
    char line[LOG_LINE_BYTES_MAX + 1];
    char *big = malloc(65536);
    assert_non_null(big);
    memset(big, '"', 65535);
    big[65535] = '\0';
    struct event event = {.type = EVENT_EXECUTION_FAILED,
                          .execution_id = big,
                          .workspace = big,
                          .workflow = big,
                          .plan = big,
                          .node = big,
                          .group = big,
                          .reason = big,
                          .code = big,
                          .error = big};
    struct log json = log_of(LOG_JSON);
    size_t length = log_line(&json, &event, WALL_US, line);
    assert_true(length <= LOG_LINE_BYTES_MAX);
    json_t *object = json_loadb(line, length - 1, 0, NULL);
    assert_non_null(object);
    assert_non_null(json_object_get(object, "execution_id"));
    json_decref(object);
    free(big);
}

static void lines_below_the_level_are_not_written(void **state)
{
    (void)state;
    int ends[2];
    char line[LOG_LINE_BYTES_MAX];
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    struct log log;
    log_init(&log, &(struct log_options){.fd = ends[1], .least = EVENT_WARN});
    assert_int_equal(log.format, LOG_JSON); /* a pipe is no terminal */
    log_event(&log, &(struct event){.type = EVENT_NODE_STARTED});
    assert_int_equal(read(ends[0], line, sizeof line), -1);
    log_event(&log, &(struct event){.type = EVENT_LEASE_LOST});
    assert_true(read(ends[0], line, sizeof line) > 0);
    log_close(&log);
    close(ends[0]);
    close(ends[1]);
}

static void a_reader_that_stops_reading_never_blocks_and_learns_what_it_missed(void **state)
{
    (void)state;
    int ends[2];
    static char bytes[1 << 20];
    assert_int_equal(pipe(ends), 0);
    struct log log;
    log_init(&log, &(struct log_options){.fd = ends[1]});
    for (int i = 0; i < 20000; i++) {
        log_event(&log, &(struct event){.type = EVENT_NODE_STARTED, .node = "host-a"});
    }
    assert_true(log.dropped > 0);
    uint64_t dropped = log.dropped;
    assert_true(read(ends[0], bytes, sizeof bytes) > 0);
    log_event(&log, &(struct event){.type = EVENT_NODE_STARTED, .node = "host-b"});
    ssize_t length = read(ends[0], bytes, sizeof bytes - 1);
    assert_true(length > 0);
    bytes[length] = '\0';
    assert_non_null(strstr(bytes, "host-b"));
    char count[64];
    (void)snprintf(count, sizeof count, "\"event\":\"log.dropped\",\"message\":\"Log lines were dropped\",\"count\":%lu",
                   (unsigned long)dropped);
    assert_non_null(strstr(bytes, count));
    assert_int_equal(log.dropped, 0);
    log_close(&log);
    close(ends[0]);
    close(ends[1]);
}

static int64_t standing_clock(void *context)
{
    (void)context;
    return 1000000000;
}

static size_t count_of(const char *bytes, const char *what)
{
    size_t count = 0;
    for (const char *at = bytes; (at = strstr(at, what)) != NULL; at++) {
        count++;
    }
    return count;
}

/* The reader takes a page each round, in which one workspace has many more lines than fit. */
static void a_workspace_with_many_lines_does_not_take_the_room_of_the_others(void **state)
{
    (void)state;
    enum { ROUNDS = 100, PAGE = 4096 };
    static const struct clock clock = {.wall_us = standing_clock, .boot_us = standing_clock};
    static char bytes[1 << 20];
    int ends[2];
    size_t length = 0;
    struct log log;
    assert_int_equal(pipe(ends), 0);
    log_init(&log, &(struct log_options){.fd = ends[1], .clock = &clock});
    struct event noisy = {.type = EVENT_EXECUTION_FAILED, .workspace = "noisy", .node = "n"};
    struct event quiet = {.type = EVENT_EXECUTION_FAILED, .workspace = "quiet", .node = "n"};
    size_t before = 0; /* what it has written while there was room for all */
    for (; log.dropped == 0; before++) {
        log_event(&log, &noisy);
    }
    for (int round = 0; round < ROUNDS; round++) {
        ssize_t got = read(ends[0], bytes + length, PAGE);
        assert_true(got > 0);
        length += (size_t)got;
        for (int i = 0; i < 200; i++) {
            log_event(&log, &noisy);
        }
        log_event(&log, &quiet);
    }
    assert_int_equal(close(ends[1]), 0);
    for (ssize_t got; (got = read(ends[0], bytes + length, sizeof bytes - 1 - length)) > 0;) {
        length += (size_t)got;
    }
    bytes[length] = '\0';
    assert_true(count_of(bytes, "\"workspace\":\"quiet\"") >= ROUNDS * 9 / 10);
    assert_true(count_of(bytes, "\"workspace\":\"noisy\"") > before + ROUNDS / 2); /* it is not shut out */
    log_close(&log);
    (void)close(ends[0]);
}

static void names_of_formats_and_levels_are_parsed(void **state)
{
    (void)state;
    enum log_format format;
    enum event_level level;
    assert_true(log_format_parse("json", &format) && format == LOG_JSON);
    assert_true(log_level_parse("warn", &level) && level == EVENT_WARN);
    assert_false(log_format_parse("xml", &format));
    assert_false(log_level_parse("loud", &level));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_line_reads_well),
        cmocka_unit_test(json_line_is_one_object_with_the_same_fields),
        cmocka_unit_test(events_of_schedules_name_the_schedule),
        cmocka_unit_test(every_event_has_a_message_and_fits_both_formats),
        cmocka_unit_test(hostile_strings_reach_neither_terminal_nor_json),
        cmocka_unit_test(long_fields_are_cut_and_a_full_line_keeps_whole_fields),
        cmocka_unit_test(lines_below_the_level_are_not_written),
        cmocka_unit_test(a_reader_that_stops_reading_never_blocks_and_learns_what_it_missed),
        cmocka_unit_test(a_workspace_with_many_lines_does_not_take_the_room_of_the_others),
        cmocka_unit_test(names_of_formats_and_levels_are_parsed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
