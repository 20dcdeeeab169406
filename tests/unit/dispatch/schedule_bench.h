/* The bench of schedules: a driver that counts looks and fails on demand, and what a schedule has started. */
#ifndef WEIR_TESTS_UNIT_DISPATCH_SCHEDULE_BENCH_H
#define WEIR_TESTS_UNIT_DISPATCH_SCHEDULE_BENCH_H

#include "base/error.h"
#include "base/json.h"
#include "unit/dispatch/bench.h"

static const struct store_driver *real_driver;
static struct store_driver counting_driver;
static int looks;
static bool cancels_fail;
static bool first_cancel_fails; /* each of that execution, which is held */
static char held[UUID_TEXT_MAX];
static int64_t failing_id; /* of a schedule that cannot be advanced */
static int64_t watched_id; /* of a schedule; watched_look: the look that advanced it */
static int watched_look;
static int settlements_lost;     /* so many fail from now on */
static struct bench *slow_hooks; /* of which each read of hooks misses its deadline */

static enum weir_status count_looks(struct store *store, struct arena *arena, struct due_schedules *due,
                                    struct weir_error *error)
{
    looks++;
    return real_driver->read_due_schedules(store, arena, due, error);
}

static enum weir_status fail_hooks(struct store *store, struct arena *arena, struct hook_events *events,
                                   struct weir_error *error)
{
    if (slow_hooks == NULL) {
        return real_driver->read_hook_events(store, arena, events, error);
    }
    slow_hooks->now_us += 4 * SECOND;
    return error_set(error, WEIR_STORE_BUSY, "the statement took too long");
}

static enum weir_status lose_settlement(struct store *store, struct schedule_outcome *outcomes, size_t count,
                                        struct weir_error *error)
{
    if (settlements_lost > 0) {
        settlements_lost--;
        return error_set(error, WEIR_STORE_UNREACHABLE, "the store went away");
    }
    return real_driver->settle_schedule_firings(store, outcomes, count, error);
}

static enum weir_status fail_cancel(struct store *store, enum bulk_act act, const struct act_order *order,
                                    const struct execution_filter *filter, const char *confirm, size_t most,
                                    struct bulk_result *ret_result, struct weir_error *error)
{
    if (act == BULK_CANCEL && cancels_fail) {
        return error_set(error, WEIR_STORE_BUSY, "another program holds the execution");
    }
    if (act == BULK_CANCEL && first_cancel_fails) {
        text_copy(held, sizeof held, held[0] == '\0' ? filter->id : held);
        if (strcmp(held, filter->id) == 0) {
            return error_set(error, WEIR_STORE_BUSY, "another program holds the execution");
        }
    }
    return real_driver->bulk(store, act, order, filter, confirm, most, ret_result, error);
}

static enum weir_status fail_advance(struct store *store, struct schedule_advance *advance, struct weir_error *error)
{
    if (advance->id == failing_id && advance->error_code == NULL) {
        return error_set(error, WEIR_STORE_BUSY, "the statement took too long");
    }
    watched_look = advance->id == watched_id && watched_look == 0 ? looks : watched_look;
    return real_driver->advance_schedule(store, advance, error);
}

static int open_counting(void **state)
{
    int result = open_bench(state);
    struct bench *bench = *state;
    looks = 0;
    settlements_lost = 0;
    slow_hooks = NULL;
    cancels_fail = false;
    first_cancel_fails = false;
    held[0] = '\0';
    failing_id = 0;
    watched_id = 0;
    watched_look = 0;
    real_driver = bench->store->driver;
    counting_driver = *real_driver;
    counting_driver.read_due_schedules = count_looks;
    counting_driver.settle_schedule_firings = lose_settlement;
    counting_driver.bulk = fail_cancel;
    counting_driver.read_hook_events = fail_hooks;
    counting_driver.advance_schedule = fail_advance;
    bench->store->driver = &counting_driver;
    return result;
}

static struct schedule_request schedule_named(const char *name, int64_t every_us)
{
    static const char *const workspaces[] = {"many"};
    return (struct schedule_request){.name = name,
                                     .when.every_us = every_us,
                                     .workflow = "plain",
                                     .params = "{\"deep\":true}",
                                     .workspaces = workspaces,
                                     .workspace_count = 1};
}

/* No poll falls into a test. */
static void wake(struct bench *bench)
{
    if (bench->node != NULL) {
        node_wake(bench->node);
    }
}

static void set_schedule(struct bench *bench, const struct schedule_request *request)
{
    struct weir_error error = {.status = WEIR_OK};
    if (store_schedule_set(bench->store, request, NULL, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    wake(bench);
}

/* The executions of a workspace, newest first. The caller releases them. */
static json_t *executions_of(struct bench *bench, const char *workspace)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_EXECUTIONS, .filter = {.workspace = workspace}, .limit = LIST_LIMIT_MOST};
    assert_int_equal(store_list(bench->store, &options, &page, NULL), WEIR_OK);
    json_t *items = json_incref(json_object_get(page, "items"));
    json_decref(page);
    return items;
}

static size_t count_executions(struct bench *bench, const char *workspace)
{
    json_t *items = executions_of(bench, workspace);
    size_t count = json_array_size(items);
    json_decref(items);
    return count;
}

static json_t *row_of(struct bench *bench, const char *name)
{
    json_t *page = NULL;
    struct list_options options = {.kind = LIST_SCHEDULES, .name = name};
    assert_int_equal(store_list(bench->store, &options, &page, NULL), WEIR_OK);
    json_t *row = json_incref(json_array_get(json_object_get(page, "items"), 0));
    json_decref(page);
    return row;
}

static json_int_t number_of(struct bench *bench, const char *name, const char *key)
{
    json_t *row = row_of(bench, name);
    json_int_t number = json_integer_value(json_object_get(row, key));
    json_decref(row);
    return number;
}

/* The key of the newest execution is that of the schedule and its time, which is also its time in the queue. */
static void assert_newest(struct bench *bench, const char *name, const char *time)
{
    char key[128];
    json_t *items = executions_of(bench, "many");
    const json_t *item = json_array_get(items, 0);
    (void)snprintf(key, sizeof key, "schedule/%s/%s", name, time);
    assert_string_equal(json_string_value(json_object_get(item, "idempotency_key")), key);
    assert_string_equal(json_string_value(json_object_get(item, "run_at")), time);
    json_decref(items);
}

/* The times of the executions of a schedule are those from first_us on, in steps of step_us. */
static void assert_times(struct bench *bench, const char *name, int64_t first_us, int64_t step_us, size_t count)
{
    char key[128];
    json_t *items = executions_of(bench, "many");
    size_t found = 0;
    (void)snprintf(key, sizeof key, "schedule/%s/", name);
    for (size_t i = 0; i < json_array_size(items); i++) {
        const char *text = json_string_value(json_object_get(json_array_get(items, i), "idempotency_key"));
        found += strncmp(text, key, strlen(key)) == 0 ? 1 : 0;
    }
    assert_int_equal(found, count);
    for (size_t k = 0; k < count; k++) {
        char time[TIME_TEXT_MAX];
        time_format(first_us + (int64_t)k * step_us, time);
        (void)snprintf(key, sizeof key, "schedule/%s/%s", name, time);
        found = 0;
        for (size_t i = 0; i < json_array_size(items); i++) {
            const char *text = json_string_value(json_object_get(json_array_get(items, i), "idempotency_key"));
            found += strcmp(text, key) == 0 ? 1 : 0;
        }
        if (found != 1) {
            fail_msg("%zu executions have the key %s", found, key);
        }
    }
    json_decref(items);
}

/* Of the day on which the clock of the tests begins. */
static int64_t at_minute(int hour, int minute)
{
    int64_t time_us = 0;
    assert_int_equal(time_parse("2027-01-15T00:00:00Z", 0, &time_us, NULL), WEIR_OK);
    return time_us + (hour * 60 + minute) * MINUTE;
}

#endif
