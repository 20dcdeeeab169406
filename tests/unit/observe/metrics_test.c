#include "observe/metrics.h"

#include <stdio.h>
#include <stdlib.h>

#include "support/test.h"

static struct metrics *metrics;
static struct text text = {.max = METRICS_TEXT_BYTES_MAX};

static int set_up(void **state)
{
    (void)state;
    text_clear(&text);
    return metrics_open(&metrics, NULL) == WEIR_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    metrics_close(metrics);
    text_close(&text);
    return 0;
}

static void assert_line(const char *line)
{
    char needle[256];
    (void)snprintf(needle, sizeof needle, "\n%s\n", line);
    if (strstr(text.data, needle) == NULL) {
        fail_msg("no line \"%s\" in:\n%s", line, text.data);
    }
}

static void events_are_counted_under_each_name_and_its_alias(void **state)
{
    (void)state;
    metrics_event(metrics, &(struct event){.type = EVENT_EXECUTION_ENQUEUED, .count = 65});
    metrics_event(metrics, &(struct event){.type = EVENT_EXECUTION_DISPATCHED, .start_number = 3, .latency_us = 7000});
    metrics_event(metrics, &(struct event){.type = EVENT_WORKSPACE_AT_CAPACITY, .count = 9});
    metrics_event(metrics, &(struct event){.type = EVENT_EXECUTION_ASSIGNED, .duration_us = 2000});
    metrics_event(metrics, &(struct event){.type = EVENT_EXECUTION_ASSIGNED,
                                           .duration_us = 9000000,
                                           .slot_wait_us = 6000000,
                                           .pause_wait_us = 2000000});
    metrics_event(metrics, &(struct event){.type = EVENT_ITEMS_RECOVERED, .count = 4});
    metrics_event(metrics, &(struct event){.type = EVENT_LOCK_BUSY});
    metrics_event(metrics, &(struct event){.type = EVENT_STEPS_INTERRUPTED, .count = 3});
    metrics_event(metrics, &(struct event){.type = EVENT_STEPS_DEFERRED});
    metrics_event(metrics, &(struct event){.type = EVENT_STORE_UNWATCHED});
    metrics_event(metrics, &(struct event){.type = EVENT_SCHEDULER_TAKEN, .count = 12});
    metrics_event(metrics, &(struct event){.type = EVENT_DISPATCH_FAILED, .code = "not_here"});
    metrics_event(metrics, &(struct event){.type = EVENT_BATCH_CLAIMED, .count = 7, .duration_us = 5});
    metrics_event(metrics, &(struct event){.type = EVENT_BATCH_PROCESSED, .count = 7, .duration_us = 30000});
    metrics_event(metrics, &(struct event){.type = EVENT_STORE_CALLED, .reason = "schedule", .duration_us = 20000});
    metrics_event(metrics, &(struct event){.type = EVENT_STORE_CALLED, .reason = "inbox"});
    metrics_event(metrics, &(struct event){.type = EVENT_STORE_CALLED, .reason = "enqueue"});
    metrics_event(metrics, &(struct event){.type = EVENT_STEP_ENDED, .reason = "FAILED", .duration_us = 1500000});
    metrics_event(metrics, &(struct event){.type = EVENT_EXECUTION_CANCELLED, .duration_us = 4000000});
    metrics_event(metrics, &(struct event){.type = EVENT_NODE_DEAD, .node = "n1", .count = 1});
    metrics_event(metrics, &(struct event){.type = EVENT_NODE_DEAD, .count = 3});
    metrics_event(metrics, &(struct event){.type = EVENT_WORKSPACE_NOT_FOUND});
    assert_int_equal(metrics_render(metrics, &text), WEIR_OK);
    assert_line("weir_executions_enqueued_total 65");
    assert_line("weir_executions_dispatched_total 1");
    assert_line("queue_items_dispatched_total 1");
    assert_line("queue_items_at_capacity_total 1");
    assert_line("weir_queue_wait_seconds_sum{phase=\"capacity\"} 6");
    assert_line("weir_queue_wait_seconds_sum{phase=\"pause\"} 2");
    assert_line("weir_queue_wait_seconds_sum{phase=\"dispatch\"} 1.002");
    assert_line("weir_queue_wait_seconds_count{phase=\"capacity\"} 2");
    assert_line("weir_start_latency_seconds_sum 0.007");
    assert_line("weir_start_retries_sum 2");
    assert_line("weir_start_retries_count 2"); /* DISPATCH_FAILED, too */
    assert_line("weir_dispatch_cycles_total 2");
    assert_line("weir_store_call_duration_seconds_bucket{le=\"0.025\",verb=\"schedule\"} 1");
    assert_line("weir_store_call_duration_seconds_bucket{le=\"0.005\",verb=\"schedule\"} 0");
    assert_line("weir_step_duration_seconds_sum{state=\"FAILED\"} 1.5");
    assert_line("weir_step_duration_seconds_count{state=\"COMPLETED\"} 0");
    assert_line("weir_execution_duration_seconds_sum{status=\"CANCELLED\"} 4");
    assert_line("weir_nodes_dead_total 4");
    assert_line("weir_workspaces_not_found_total 1");
    assert_line("weir_executions_recovered_total 4");
    assert_line("queue_stale_recovery_count 4");
    assert_line("shedlock_acquisition_failures 1");
    assert_line("weir_steps_interrupted_total 3");
    assert_line("weir_steps_deferred_total 1");
    assert_line("weir_store_unwatched_total 1");
    assert_line("weir_scheduler_takeovers_total 1");
    assert_line("weir_dispatch_failures_total{error_code=\"not_here\"} 1");
    assert_line("queue_items_failed_total{reason=\"not_here\"} 1");
    assert_line("weir_claim_batch_size_bucket{le=\"5\"} 0");
    assert_line("weir_claim_batch_size_bucket{le=\"10\"} 1");
    assert_line("queue_processing_batch_size_sum 7");
    assert_line("queue_processing_duration_seconds_bucket{le=\"0.05\"} 1");
    assert_line("queue_processing_duration_seconds_sum 0.03");
}

static void engine_up_follows_its_events(void **state)
{
    (void)state;
    metrics_event(metrics, &(struct event){.type = EVENT_NODE_STARTED, .node = "one"});
    metrics_event(metrics, &(struct event){.type = EVENT_NODE_STARTED, .node = "two"});
    metrics_event(metrics, &(struct event){.type = EVENT_ENGINE_DOWN, .node = "one"});
    assert_int_equal(metrics_render(metrics, &text), WEIR_OK);
    assert_line("weir_engine_up{node=\"one\"} 0");
    assert_line("weir_engine_up{node=\"two\"} 1");
    text_clear(&text);
    metrics_event(metrics, &(struct event){.type = EVENT_ENGINE_UP, .node = "one"});
    metrics_event(metrics, &(struct event){.type = EVENT_NODE_STOPPED, .node = "two"});
    assert_int_equal(metrics_render(metrics, &text), WEIR_OK);
    assert_line("weir_engine_up{node=\"one\"} 1");
    assert_null(strstr(text.data, "\"two\""));
}

static void labels_are_bounded_and_escaped(void **state)
{
    (void)state;
    char code[32];
    metrics_event(metrics, &(struct event){.type = EVENT_EXECUTION_FAILED, .code = "say \"no\"\n\\"});
    metrics_event(metrics, &(struct event){.type = EVENT_EXECUTION_FAILED});
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(code, sizeof code, "code_%d", i);
        metrics_event(metrics, &(struct event){.type = EVENT_EXECUTION_FAILED, .code = code});
    }
    assert_int_equal(metrics_render(metrics, &text), WEIR_OK);
    assert_line("weir_executions_failed_total{error_code=\"say \\\"no\\\" \\\\\"} 1");
    assert_line("weir_executions_failed_total{error_code=\"none\"} 1");
    assert_line("weir_executions_failed_total{error_code=\"_other\"} 938");
}

static void every_series_has_one_help_and_one_type(void **state)
{
    (void)state;
    assert_int_equal(metrics_render(metrics, &text), WEIR_OK);
    size_t helps = 0;
    size_t types = 0;
    for (const char *line = text.data; *line != '\0'; line = strchr(line, '\n') + 1) {
        helps += strncmp(line, "# HELP ", 7) == 0;
        types += strncmp(line, "# TYPE ", 7) == 0;
        assert_non_null(strchr(line, '\n'));
    }
    assert_true(helps > 30);
    assert_int_equal(helps, types);
}

static void too_small_a_buffer_is_an_answer(void **state)
{
    (void)state;
    struct text small = {.max = 100};
    assert_int_equal(metrics_render(metrics, &small), WEIR_FAILED);
    text_close(&small);
}

static void status_becomes_gauges(void **state)
{
    (void)state;
    json_t *status =
        json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:i, s:b, s:{s:b, s:i, s:i},"
                  " s:[{s:s, s:i, s:i, s:i, s:i}], s:[{s:s, s:i, s:i}, {s:s, s:i, s:n}]}",
                  "schedules_late", 4, "pending", 7, "slots_used", 3, "completed", 10, "failed", 1, "cancelled", 2,
                  "oldest_pending_age_us", (json_int_t)1500000, "nodes", 2, "queue_paused", 0, "scheduler", "is_free", 1,
                  "epoch", 12, "lag_us", 2500000, "workspaces", "name", "acme", "slots_used", 1, "slots_max", 5, "pending",
                  7, "oldest_pending_age_us", 2500000, "executor_groups", "name", "default", "pending", 6,
                  "oldest_pending_age_us", 3500000, "name", "idle", "pending", 0, "oldest_pending_age_us");
    assert_non_null(status);
    assert_int_equal(metrics_render_store(status, METRICS_WORKSPACES_TOP, &text), WEIR_OK);
    assert_line("weir_oldest_pending_age_seconds 1.5");
    assert_line("weir_ended_executions_total{status=\"COMPLETED\"} 10");
    assert_line("weir_ended_executions_total{status=\"FAILED\"} 1");
    assert_line("weir_ended_executions_total{status=\"CANCELLED\"} 2");
    assert_line("weir_nodes 2");
    assert_line("weir_schedules_late 4");
    assert_line("weir_scheduler_is_free 1");
    assert_line("weir_scheduler_epoch 12");
    assert_line("weir_scheduler_lag_seconds 2.5");
    assert_line("weir_workspace_active{workspace=\"acme\"} 1");
    assert_line("weir_workspace_limit{workspace=\"acme\"} 5");
    assert_line("weir_workspace_pending{workspace=\"acme\"} 7");
    assert_line("weir_workspace_oldest_pending_age_seconds{workspace=\"acme\"} 2.5");
    assert_line("weir_group_pending{executor_group=\"default\"} 6");
    assert_line("weir_group_oldest_pending_age_seconds{executor_group=\"default\"} 3.5");
    assert_line("weir_group_pending{executor_group=\"idle\"} 0");
    assert_line("weir_group_oldest_pending_age_seconds{executor_group=\"idle\"} 0");
    json_decref(status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(events_are_counted_under_each_name_and_its_alias, set_up, tear_down),
        cmocka_unit_test_setup_teardown(engine_up_follows_its_events, set_up, tear_down),
        cmocka_unit_test_setup_teardown(labels_are_bounded_and_escaped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_series_has_one_help_and_one_type, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_small_a_buffer_is_an_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(status_becomes_gauges, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
