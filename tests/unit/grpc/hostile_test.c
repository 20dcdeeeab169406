/* Peers that break HTTP/2 or mean harm: each call ends once, memory and time stay bounded, the client stays of use. */
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "support/grpc_fixture.h"
#include "support/seed.h"
#include "support/test.h"

enum { SECOND = 1000000, RAW_MAX = 4 * 1024 * 1024 };

struct raw {
    uint8_t *bytes;
    size_t length;
};

static void add_frame(struct raw *raw, uint8_t type, uint8_t flags, int32_t stream_id, const void *payload, size_t length)
{
    assert_true(raw->length + length + 9 <= RAW_MAX);
    raw->length += frontend_frame(raw->bytes + raw->length, type, flags, stream_id, payload, length);
}

/* The connection's first call is stream 1. */
static void run_raw_of(struct raw *raw, enum grpc_outcome outcome, enum grpc_cause cause, const char *name)
{
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    fixture.script = (struct frontend_answer){.fate = FATE_RAW, .raw = raw->bytes, .raw_length = raw->length};
    struct grpc_ended *ended = grpc_fixture_run(&fixture);
    if (ended->outcome != outcome || ended->cause != cause) {
        fail_msg("%s: %s, %s: %s", name, grpc_fixture_outcome(ended->outcome), grpc_cause_name(ended->cause),
                 ended->error.message);
    }
    /* The next one finds the way, on a new connection if need be. */
    fixture.script = (struct frontend_answer){.fate = FATE_ANSWER};
    fixture.now_us += 2 * GRPC_BACKOFF_MAX_US;
    if (cause == GRPC_CAUSE_PROTOCOL) {
        assert_int_equal(grpc_fixture_run(&fixture)->outcome, GRPC_STATUS);
        assert_int_equal(frontend_counts(fixture.frontend).connections, 2);
    }
    grpc_fixture_close(&fixture);
    raw->length = 0;
}

static int make_raw(void **state)
{
    struct raw *raw = calloc(1, sizeof *raw);
    assert_non_null(raw);
    raw->bytes = malloc(RAW_MAX);
    assert_non_null(raw->bytes);
    *state = raw;
    return 0;
}

static int free_raw(void **state)
{
    struct raw *raw = *state;
    free(raw->bytes);
    free(raw);
    return 0;
}

static void malformed_frames_end_the_connection(void **state)
{
    struct raw *raw = *state;
    static const struct {
        const char *name;
        uint8_t type;
        uint8_t flags;
        int32_t stream_id;
        const char *payload;
        size_t length;
    } rows[] = {
        {"DATA on stream 0", NGHTTP2_DATA, 0, 0, "x", 1},
        {"DATA on an idle stream", NGHTTP2_DATA, 0, 99, "x", 1},
        {"HEADERS on an idle stream", NGHTTP2_HEADERS, 4, 99, "\x88", 1},
        {"HEADERS on an even stream", NGHTTP2_HEADERS, 4, 2, "\x88", 1},
        {"HEADERS with an index of nothing", NGHTTP2_HEADERS, 4, 1, "\xff\xff\xff\x7f", 4},
        {"HEADERS with padding longer than itself", NGHTTP2_HEADERS, 0x0c, 1, "\xff\x88", 2},
        {"SETTINGS on a stream", NGHTTP2_SETTINGS, 0, 1, "", 0},
        {"SETTINGS of 5 bytes", NGHTTP2_SETTINGS, 0, 0, "abcde", 5},
        {"SETTINGS with a window of 2^32-1", NGHTTP2_SETTINGS, 0, 0, "\0\4\xff\xff\xff\xff", 6},
        {"PING of 7 bytes", NGHTTP2_PING, 0, 0, "abcdefg", 7},
        {"WINDOW_UPDATE of nothing", NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\0", 4},
        {"WINDOW_UPDATE too far", NGHTTP2_WINDOW_UPDATE, 0, 0, "\x7f\xff\xff\xff", 4},
        {"RST_STREAM of an idle stream", NGHTTP2_RST_STREAM, 0, 99, "\0\0\0\1", 4},
        {"GOAWAY of 3 bytes", NGHTTP2_GOAWAY, 0, 0, "abc", 3},
        {"CONTINUATION of nothing", NGHTTP2_CONTINUATION, 4, 1, "\x88", 1},
        {"PUSH_PROMISE", NGHTTP2_PUSH_PROMISE, 4, 1, "\0\0\0\2\x88", 5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        add_frame(raw, rows[i].type, rows[i].flags, rows[i].stream_id, rows[i].payload, rows[i].length);
        run_raw_of(raw, GRPC_UNKNOWN, GRPC_CAUSE_PROTOCOL, rows[i].name);
    }
    static const uint8_t huge_frame[] = {0xff, 0xff, 0xff, NGHTTP2_DATA, 0, 0, 0, 0, 1};
    memcpy(raw->bytes, huge_frame, sizeof huge_frame);
    raw->length = sizeof huge_frame;
    run_raw_of(raw, GRPC_UNKNOWN, GRPC_CAUSE_PROTOCOL, "frame of 16 MiB");
    add_frame(raw, NGHTTP2_HEADERS, 0, 1, "\x88", 1);
    add_frame(raw, NGHTTP2_PING, 0, 0, "12345678", 8);
    run_raw_of(raw, GRPC_UNKNOWN, GRPC_CAUSE_PROTOCOL, "PING inside a header block");
}

static void unknown_frames_and_settings_are_passed_over(void **state)
{
    struct raw *raw = *state;
    add_frame(raw, 0xbe, 0xff, 1, "whatever", 8);
    add_frame(raw, NGHTTP2_SETTINGS, 0, 0, "\xf0\0\0\0\0\1", 6);
    add_frame(raw, NGHTTP2_PRIORITY, 0, 77, "\0\0\0\0\1", 5);
    add_frame(raw, NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\2", 4);
    run_raw_of(raw, GRPC_UNKNOWN, GRPC_CAUSE_STREAM_RESET, "unknown frames, then a reset");
}

static void answers_that_break_http_are_bad_answers(void **state)
{
    struct raw *raw = *state;
    add_frame(raw, NGHTTP2_HEADERS, 4, 1, "\x40\x01X\x01y", 5); /* no :status, a name in capitals */
    run_raw_of(raw, GRPC_UNKNOWN, GRPC_CAUSE_BAD_ANSWER, "no :status");
    add_frame(raw, NGHTTP2_HEADERS, 4, 1, "\x88\x88", 2);
    run_raw_of(raw, GRPC_UNKNOWN, GRPC_CAUSE_BAD_ANSWER, ":status twice");
    add_frame(raw, NGHTTP2_DATA, 0, 1, "x", 1);
    run_raw_of(raw, GRPC_UNKNOWN, GRPC_CAUSE_PROTOCOL, "DATA before HEADERS");
}

static void floods_of_control_frames_end_the_connection(void **state)
{
    struct raw *raw = *state;
    for (int i = 0; i < 100000; i++) {
        add_frame(raw, NGHTTP2_PING, 0, 0, "12345678", 8);
    }
    run_raw_of(raw, GRPC_UNKNOWN, GRPC_CAUSE_PROTOCOL, "PING flood");
    for (int i = 0; i < 100000; i++) {
        add_frame(raw, NGHTTP2_SETTINGS, 0, 0, "", 0);
    }
    run_raw_of(raw, GRPC_UNKNOWN, GRPC_CAUSE_PROTOCOL, "SETTINGS flood");
    static const char headers[] = "\x88\x40\x0c"
                                  "content-type\x10"
                                  "application/grpc";
    add_frame(raw, NGHTTP2_HEADERS, 4, 1, headers, sizeof headers - 1);
    for (int i = 0; i < 100000; i++) {
        add_frame(raw, NGHTTP2_DATA, 0, 1, "", 0);
    }
    run_raw_of(raw, GRPC_UNKNOWN, GRPC_CAUSE_PROTOCOL, "flood of empty DATA");
    add_frame(raw, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
    for (int i = 0; i < 33; i++) {
        memcpy(raw->bytes + 9 + (ptrdiff_t)i * 6, "\0\4\0\0\xff\xff", 6);
    }
    raw->bytes[2] = 33 * 6;
    raw->length = 9 + 33 * 6;
    run_raw_of(raw, GRPC_UNKNOWN, GRPC_CAUSE_PROTOCOL, "33 settings in a frame");
}

static void many_interim_answers_are_a_flood(void **state)
{
    struct raw *raw = *state;
    for (int i = 0; i < 100000; i++) {
        add_frame(raw, NGHTTP2_HEADERS, 4, 1, "\x08\x03\x31\x30\x33", 5); /* :status 103 */
    }
    run_raw_of(raw, GRPC_UNKNOWN, GRPC_CAUSE_ANSWER_TOO_LARGE, "interim answers");
}

/* ":status 103" with "grpc-status 0" and the content type; then a 200 that ends without a word. */
static void an_interim_answer_is_not_the_answer(void **state)
{
    struct raw *raw = *state;
    static const char interim[] = "\x08\x03"
                                  "103"
                                  "\x0f\x10\x10"
                                  "application/grpc"
                                  "\x00\x0bgrpc-status\x01"
                                  "3";
    add_frame(raw, NGHTTP2_HEADERS, 4, 1, interim, sizeof interim - 1);
    add_frame(raw, NGHTTP2_HEADERS, 4, 1,
              "\x88\x0f\x10\x10"
              "application/grpc",
              20);
    add_frame(raw, NGHTTP2_DATA, 1, 1, "\0\0\0\0\0", 5);
    run_raw_of(raw, GRPC_UNKNOWN, GRPC_CAUSE_NO_STATUS, "a status in an interim answer");
}

static void endless_continuations_end_the_connection(void **state)
{
    struct raw *raw = *state;
    add_frame(raw, NGHTTP2_HEADERS, 0, 1, "\x88", 1);
    for (int i = 0; i < 100; i++) {
        add_frame(raw, NGHTTP2_CONTINUATION, 0, 1, "\x40\x01x\x01y", 5);
    }
    run_raw_of(raw, GRPC_UNKNOWN, GRPC_CAUSE_PROTOCOL, "CONTINUATION flood");
}

static long peak_kib(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* 16 kB on the wire that mean 48 MB of headers: a value of 3,000 bytes, then again and again by its index. */
static void a_header_bomb_costs_one_call_and_no_memory(void **state)
{
    enum { VALUE = 3000, REPEATS = 13000 };
    struct raw *raw = *state;
    static uint8_t block[VALUE + REPEATS + 16];
    size_t used = 0;
    long before = peak_kib();
    block[used++] = 0x88;
    memcpy(block + used, "\x40\x01x\x7f\xb9\x16", 6); /* literal, remembered; the length 3,000 = 127 + 2873 */
    used += 6;
    memset(block + used, 'v', VALUE);
    used += VALUE;
    memset(block + used, 0xbe, REPEATS);
    used += REPEATS;
    add_frame(raw, NGHTTP2_HEADERS, 4, 1, block, used);
    run_raw_of(raw, GRPC_UNKNOWN, GRPC_CAUSE_ANSWER_TOO_LARGE, "header bomb");
    assert_true(peak_kib() - before < 16 * 1024);
}

static void a_lying_length_costs_no_memory(void **state)
{
    struct raw *raw = *state;
    long before = peak_kib();
    struct grpc_fixture fixture;
    grpc_fixture_open(&fixture, NULL, NULL);
    fixture.script = (struct frontend_answer){.announce_more = 127 * 1024 * 1024, .response = "x", .response_length = 1};
    for (int i = 0; i < 100; i++) {
        assert_int_equal(grpc_fixture_run(&fixture)->cause, GRPC_CAUSE_BAD_ANSWER);
    }
    assert_true(peak_kib() - before < 16 * 1024);
    grpc_fixture_close(&fixture);
    (void)raw;
}

/* Announced bytes do not count against the limit of all answers: only bytes that have arrived do. */
static void a_lying_length_takes_nothing_from_others(void **state)
{
    (void)state;
    struct grpc_fixture fixture;
    struct grpc_client_options options = {.answers_bytes_max = 50000};
    grpc_fixture_open(&fixture, NULL, &options);
    fixture.script = (struct frontend_answer){.announce_more = 100000, .response = "x", .response_length = 1};
    assert_int_equal(grpc_fixture_run(&fixture)->cause, GRPC_CAUSE_BAD_ANSWER);
    grpc_fixture_close(&fixture);
}

static void all_answers_together_have_a_maximum(void **state)
{
    enum { SIZE = 300000 };
    (void)state;
    struct grpc_fixture fixture;
    struct grpc_client_options options = {.answers_bytes_max = 1000000};
    char *large = calloc(1, SIZE);
    assert_non_null(large);
    grpc_fixture_open(&fixture, NULL, &options);
    fixture.script = (struct frontend_answer){.response = large, .response_length = SIZE};
    size_t too_large = 0;
    for (int i = 0; i < 10; i++) {
        (void)grpc_fixture_call(&fixture, "x", 1);
    }
    grpc_fixture_wait_all(&fixture);
    for (size_t i = 0; i < 10; i++) {
        too_large += fixture.ended[i].cause == GRPC_CAUSE_ANSWER_TOO_LARGE;
    }
    assert_in_range(too_large, 1, 9);
    for (int i = 0; i < 10; i++) { /* the bytes of ended answers are free again */
        assert_int_equal(grpc_fixture_run(&fixture)->outcome, GRPC_STATUS);
    }
    free(large);
    grpc_fixture_close(&fixture);
}

static void noise_after_the_greeting_never_breaks_the_client(void **state)
{
    enum { ROUNDS = 300, LENGTH_MAX = 600 };
    struct raw *raw = *state;
    struct random random;
    test_seed(&random, "noise");
    for (int round = 0; round < ROUNDS; round++) {
        struct grpc_fixture fixture;
        raw->length = 0;
        /* Frames of every type with every flag, around stream 1, and some bytes without any form. */
        while (raw->length < LENGTH_MAX) {
            uint8_t payload[40];
            size_t length = random_below(&random, sizeof payload);
            for (size_t i = 0; i < length; i++) {
                payload[i] = (uint8_t)random_next(&random);
            }
            add_frame(raw, (uint8_t)random_below(&random, 12), (uint8_t)random_next(&random),
                      (int32_t)random_below(&random, 5), payload, length);
        }
        grpc_fixture_open(&fixture, NULL, NULL);
        fixture.script = (struct frontend_answer){.fate = FATE_RAW, .raw = raw->bytes, .raw_length = raw->length};
        struct grpc_ended *ended = grpc_fixture_call(&fixture, "x", 1);
        for (int i = 0; i < 20 && ended->times == 0; i++) {
            grpc_fixture_turn(&fixture);
        }
        fixture.now_us += 11 * SECOND;
        grpc_fixture_wait(&fixture, ended);
        assert_int_not_equal(ended->outcome, GRPC_NOT_SENT);
        grpc_fixture_close(&fixture); /* checks that it was reported once */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_frames_end_the_connection),
        cmocka_unit_test(unknown_frames_and_settings_are_passed_over),
        cmocka_unit_test(answers_that_break_http_are_bad_answers),
        cmocka_unit_test(floods_of_control_frames_end_the_connection),
        cmocka_unit_test(many_interim_answers_are_a_flood),
        cmocka_unit_test(an_interim_answer_is_not_the_answer),
        cmocka_unit_test(endless_continuations_end_the_connection),
        cmocka_unit_test(a_header_bomb_costs_one_call_and_no_memory),
        cmocka_unit_test(a_lying_length_costs_no_memory),
        cmocka_unit_test(a_lying_length_takes_nothing_from_others),
        cmocka_unit_test(all_answers_together_have_a_maximum),
        cmocka_unit_test(noise_after_the_greeting_never_breaks_the_client),
    };
    return cmocka_run_group_tests(tests, make_raw, free_raw);
}
