/* What a node asks of its store when it is told of work: the claim at once, the look when there is time. */
#include "dispatch/node.h"

#include "unit/dispatch/bench.h"

enum { LOG_SIZE = 256 };

/* The dispatcher's verbs since the last look at them, as "claim next_work ". */
static char asked[LOG_SIZE];

static void note_verb(void *context, const struct event *event)
{
    (void)context;
    size_t length = strlen(asked);
    if (event->type == EVENT_STORE_CALLED &&
        (strcmp(event->reason, "claim") == 0 || strcmp(event->reason, "next_work") == 0)) {
        (void)snprintf(asked + length, sizeof asked - length, "%s ", event->reason);
    }
}

static void start_noting_node(struct bench *bench)
{
    assert_true(event_subscribe(&bench->events, note_verb, NULL));
    bench->store->events = &bench->events; /* the handles of the node's loops are copies */
    start_node(bench);
    (void)node_dispatch_step(bench->node);
    asked[0] = '\0';
}

static int64_t step(struct bench *bench)
{
    asked[0] = '\0';
    return node_dispatch_step(bench->node);
}

static void what_it_is_told_of_is_claimed_without_a_look(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_noting_node(bench);
    enqueue(bench, "many", id);
    int64_t next_us = step(bench);
    assert_string_equal(asked, "claim ");
    assert_string_equal(text_of(bench, id, "status"), "CLAIMED");
    /* The look that sees to everything else comes soon after. */
    assert_true(next_us > bench->now_us && next_us <= bench->now_us + SECOND / 100);
    bench->now_us = next_us;
    (void)step(bench);
    assert_string_equal(asked, "next_work ");
}

static void what_nobody_told_of_is_looked_for(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_noting_node(bench);
    enqueue_at(bench, "many", "plain", 0, id);
    (void)step(bench);
    assert_string_equal(asked, "next_work claim ");
    assert_string_equal(text_of(bench, id, "status"), "CLAIMED");
}

static void after_it_was_told_in_vain_it_looks_first_until_there_is_work(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_noting_node(bench);
    node_wake(bench->node);
    (void)step(bench);
    assert_string_equal(asked, "claim next_work ");
    assert_int_equal(bench->counts[EVENT_RACE_LOST], 0); /* nobody was faster */
    node_wake(bench->node);
    (void)step(bench);
    assert_string_equal(asked, "next_work ");
    enqueue(bench, "many", id);
    (void)step(bench);
    assert_string_equal(asked, "next_work claim ");
    enqueue(bench, "many", id);
    (void)step(bench);
    assert_string_equal(asked, "claim ");
}

/* Else a cancel would wait as long as others enqueue. */
static void a_look_is_not_put_off_by_one_who_tells_again_and_again(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_noting_node(bench);
    enqueue(bench, "many", id);
    int64_t look_us = step(bench);
    bench->now_us = look_us - 1;
    enqueue(bench, "many", id);
    assert_int_equal(step(bench), look_us);
    assert_string_equal(asked, "claim ");
    bench->now_us = look_us;
    enqueue(bench, "many", id);
    (void)step(bench);
    assert_string_equal(asked, "claim next_work ");
}

static void what_is_left_of_a_full_claim_is_looked_for_at_once(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    bench->settings.claim_batch = 1;
    start_noting_node(bench);
    enqueue(bench, "many", id);
    enqueue(bench, "many", id);
    (void)step(bench);
    assert_string_equal(asked, "claim next_work claim ");
    assert_string_equal(text_of(bench, id, "status"), "CLAIMED");
}

/* The claim has said what a look would say. */
static void after_a_claim_that_left_more_comes_the_next_without_a_look(void **state)
{
    struct bench *bench = *state;
    char ids[3][UUID_TEXT_MAX];
    bench->settings.claim_batch = 1;
    start_noting_node(bench);
    for (int i = 0; i < 3; i++) {
        enqueue_at(bench, "many", "plain", 0, ids[i]);
    }
    assert_int_equal(step(bench), bench->now_us);
    assert_string_equal(asked, "next_work claim ");
    assert_int_equal(step(bench), bench->now_us);
    assert_string_equal(asked, "claim ");
    (void)step(bench);
    assert_string_equal(asked, "claim ");
    assert_string_equal(text_of(bench, ids[2], "status"), "CLAIMED");
    (void)step(bench); /* a full claim may have left more, this one has found nothing */
    assert_string_equal(asked, "claim next_work ");
    (void)step(bench);
    assert_string_equal(asked, "next_work ");
}

/* Cancels and what others ask of a node are seen by a look alone. */
static void while_claims_follow_each_other_it_looks_all_the_same(void **state)
{
    struct bench *bench = *state;
    char ids[3][UUID_TEXT_MAX];
    bench->settings.claim_batch = 1;
    start_noting_node(bench);
    for (int i = 0; i < 3; i++) {
        enqueue_at(bench, "many", "plain", 0, ids[i]);
    }
    (void)step(bench);
    bench->now_us += SECOND / 4;
    (void)step(bench);
    assert_string_equal(asked, "next_work claim ");
    assert_string_equal(text_of(bench, ids[1], "status"), "CLAIMED");
}

static void a_full_node_that_knows_of_more_asks_nothing_until_it_must_look(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    bench->settings.claim_batch = ROOM;
    start_noting_node(bench);
    for (int i = 0; i < ROOM + 1; i++) {
        enqueue_at(bench, "many", "plain", 0, id);
    }
    (void)step(bench);
    assert_string_equal(asked, "next_work claim ");
    int64_t next_us = step(bench);
    assert_string_equal(asked, "");
    assert_true(next_us > bench->now_us && next_us <= bench->now_us + SECOND / 4);
    bench->now_us = next_us;
    next_us = step(bench);
    assert_string_equal(asked, "next_work ");
    bench->now_us += SECOND / 100;
    (void)step(bench); /* only a claim spares looks */
    assert_string_equal(asked, "next_work ");
}

static void a_paused_node_is_told_and_claims_nothing(void **state)
{
    struct bench *bench = *state;
    char id[UUID_TEXT_MAX];
    start_noting_node(bench);
    node_pause(bench->node);
    enqueue(bench, "many", id);
    (void)step(bench);
    assert_string_equal(asked, "next_work ");
    assert_string_equal(text_of(bench, id, "status"), "PENDING");
}

/* While the engine is away, a claim is a probe of it: one for each look that finds work, and none in vain. */
static void no_probe_is_spent_on_what_was_told_in_vain(void **state)
{
    struct bench *bench = *state;
    start_noting_node(bench);
    struct report *report = report_new(REPORT_ENGINE_DOWN, "", 0);
    assert_non_null(report);
    engine_report(bench->engine, report);
    (void)node_record_step(bench->node);
    assert_int_equal(bench->counts[EVENT_ENGINE_DOWN], 1);
    bench->now_us += MINUTE;
    (void)node_heartbeat_step(bench->node);
    node_wake(bench->node);
    (void)step(bench);
    assert_string_equal(asked, "next_work ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_it_is_told_of_is_claimed_without_a_look),
        TEST(what_nobody_told_of_is_looked_for),
        TEST(after_it_was_told_in_vain_it_looks_first_until_there_is_work),
        TEST(a_look_is_not_put_off_by_one_who_tells_again_and_again),
        TEST(what_is_left_of_a_full_claim_is_looked_for_at_once),
        TEST(after_a_claim_that_left_more_comes_the_next_without_a_look),
        TEST(while_claims_follow_each_other_it_looks_all_the_same),
        TEST(a_full_node_that_knows_of_more_asks_nothing_until_it_must_look),
        TEST(a_paused_node_is_told_and_claims_nothing),
        TEST(no_probe_is_spent_on_what_was_told_in_vain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
