/* The watch of a node over the heartbeats of others: by its boot clock, from the answer that showed the last heartbeat. */
#include "dispatch/neighbours.h"

#include <string.h>

#include "base/error.h"
#include "dispatch/node_internal.h"
#include "unit/dispatch/bench.h"

#define SILENCE_US (5 * SECOND)
#define LEASE_US NODE_LEASE_US /* of the node that watches */
#define INTERVAL_US (LEASE_US / BEATS_PER_LEASE)
enum { WATCHED = 77, OTHER = 78 };

static struct node_beat answer_with(int64_t watched_beats, int64_t other_beats)
{
    struct node_beat answer = {.server = "one", .neighbour_count = 2};
    answer.neighbours[0] = (struct node_neighbour){.id = WATCHED, .beats = watched_beats, .lease_us = SILENCE_US};
    answer.neighbours[1] = (struct node_neighbour){.id = OTHER, .beats = other_beats, .lease_us = 3600 * SECOND};
    return answer;
}

/* The heartbeats of the node that is silent now, -1 = none is. */
static int64_t silent_beats(struct bench *bench)
{
    struct silent_node silent[NODE_NEIGHBOURS_MOST];
    char server[SERVER_IDENTITY_MAX];
    size_t count = neighbours_silent(bench->node, bench->now_us, silent, server);
    assert_true(count <= 1);
    assert_string_equal(server, "one");
    assert_true(count == 0 || silent[0].id == WATCHED);
    return count == 0 ? -1 : silent[0].beats;
}

static void hear(struct bench *bench, struct node_beat answer)
{
    assert_false(neighbours_update(bench->node, &answer));
    atomic_store(&bench->node->shared.lease_end_boot_us, bench->now_us + LEASE_US);
}

/* Lets the time pass with answers that show no change of these numbers. */
static void listen_for(struct bench *bench, int64_t us, struct node_beat answer)
{
    int64_t end_us = bench->now_us + us;
    while (bench->now_us < end_us) {
        bench->now_us = bench->now_us + SECOND < end_us ? bench->now_us + SECOND : end_us;
        hear(bench, answer);
    }
}

static void a_node_is_silent_one_lease_after_the_answer_that_showed_its_last_heartbeat(void **state)
{
    struct bench *bench = *state;
    start_node(bench);
    hear(bench, answer_with(9, 1));
    int64_t from_us = bench->now_us + SILENCE_US;
    assert_int_equal(neighbours_next_silent_us(bench->node, bench->now_us), from_us);
    listen_for(bench, SILENCE_US - 1, answer_with(9, 1));
    assert_int_equal(silent_beats(bench), -1);
    hear(bench, answer_with(9, 2)); /* no change of this one */
    bench->now_us = from_us;
    assert_int_equal(silent_beats(bench), 9);
    assert_true(neighbours_next_silent_us(bench->node, bench->now_us) >
                from_us); /* of the other one: none is in the past */
}

static void any_other_number_of_heartbeats_begins_the_watch_anew(void **state)
{
    struct bench *bench = *state;
    static const int64_t numbers[] = {9, 10, 4}; /* the last one is that of a backup */
    start_node(bench);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        hear(bench, answer_with(numbers[i], 1));
        listen_for(bench, SILENCE_US - 1, answer_with(numbers[i], 1));
        assert_int_equal(silent_beats(bench), -1);
    }
    bench->now_us += 1;
    assert_int_equal(silent_beats(bench), 4);
}

static void another_server_begins_all_watches_anew(void **state)
{
    struct bench *bench = *state;
    struct node_beat before = answer_with(9, 1);
    start_node(bench);
    text_copy(before.server, sizeof before.server, "another");
    hear(bench, before);
    listen_for(bench, SILENCE_US, before);
    hear(bench, answer_with(9, 1));
    assert_int_equal(silent_beats(bench), -1);
    listen_for(bench, SILENCE_US, answer_with(9, 1));
    assert_int_equal(silent_beats(bench), 9);
}

static void a_node_that_was_out_of_the_answers_is_watched_anew(void **state)
{
    struct bench *bench = *state;
    struct node_beat none = {.server = "one"};
    start_node(bench);
    hear(bench, answer_with(9, 1));
    listen_for(bench, SILENCE_US - 1, answer_with(9, 1));
    hear(bench, none);
    assert_int_equal(silent_beats(bench), -1);
    assert_int_equal(neighbours_next_silent_us(bench->node, bench->now_us), TIME_NEVER);
    hear(bench, answer_with(9, 1));
    assert_int_equal(silent_beats(bench), -1);
}

/* A stop of the store that delays the heartbeats of this node delays those of all others. */
static void a_late_answer_counts_as_one_interval(void **state)
{
    struct bench *bench = *state;
    start_node(bench);
    hear(bench, answer_with(9, 1));
    listen_for(bench, SILENCE_US - INTERVAL_US - 1, answer_with(9, 1));
    bench->now_us += LEASE_US - 1;
    assert_int_equal(silent_beats(bench), -1); /* before the answer, too */
    hear(bench, answer_with(9, 1));
    assert_int_equal(silent_beats(bench), -1);
    listen_for(bench, 1, answer_with(9, 1));
    assert_int_equal(silent_beats(bench), 9);
}

static void deaths_are_found_although_each_answer_is_late(void **state)
{
    struct bench *bench = *state;
    start_node(bench);
    hear(bench, answer_with(9, 1));
    for (int64_t watched_us = 0; watched_us < SILENCE_US; watched_us += INTERVAL_US) {
        assert_int_equal(silent_beats(bench), -1);
        bench->now_us += LEASE_US - 1;
        hear(bench, answer_with(9, 1));
    }
    assert_int_equal(silent_beats(bench), 9);
}

static void a_delay_that_ends_the_own_lease_begins_all_watches_anew(void **state)
{
    struct bench *bench = *state;
    start_node(bench);
    hear(bench, answer_with(9, 1));
    listen_for(bench, SILENCE_US - 1, answer_with(9, 1));
    bench->now_us += LEASE_US;
    hear(bench, answer_with(9, 1));
    listen_for(bench, SILENCE_US - 1, answer_with(9, 1));
    assert_int_equal(silent_beats(bench), -1);
    listen_for(bench, 1, answer_with(9, 1));
    assert_int_equal(silent_beats(bench), 9);
}

static void expect_trust(struct bench *bench, const char *wanted)
{
    const char *trusted = neighbours_trusted(bench->node, bench->now_us);
    assert_string_equal(trusted == NULL ? "none" : trusted, wanted == NULL ? "none" : wanted);
}

static void leases_prove_nothing_after_a_delay_nor_those_of_this_machine_after_the_start(void **state)
{
    struct bench *bench = *state;
    const struct node_beat answer = answer_with(9, 1);
    start_node(bench);
    expect_trust(bench, bench->node->boot_id);
    listen_for(bench, LEASE_US - 1, answer);
    expect_trust(bench, bench->node->boot_id);
    listen_for(bench, 1, answer);
    expect_trust(bench, NULL);
    bench->now_us += LEASE_US / 2 + 1;
    expect_trust(bench, "");
    hear(bench, answer);
    listen_for(bench, INTERVAL_US - 1, answer);
    expect_trust(bench, "");
    listen_for(bench, 1, answer);
    expect_trust(bench, NULL);
    bench->now_us += LEASE_US; /* its own lease is over */
    hear(bench, answer);
    listen_for(bench, LEASE_US - 1, answer);
    expect_trust(bench, "");
    listen_for(bench, 1, answer);
    expect_trust(bench, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_node_is_silent_one_lease_after_the_answer_that_showed_its_last_heartbeat),
        TEST(any_other_number_of_heartbeats_begins_the_watch_anew),
        TEST(another_server_begins_all_watches_anew),
        TEST(a_late_answer_counts_as_one_interval),
        TEST(deaths_are_found_although_each_answer_is_late),
        TEST(a_delay_that_ends_the_own_lease_begins_all_watches_anew),
        TEST(leases_prove_nothing_after_a_delay_nor_those_of_this_machine_after_the_start),
        TEST(a_node_that_was_out_of_the_answers_is_watched_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
