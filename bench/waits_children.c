/* A parent that starts ten thousand children and waits for all of them, beside a program that enqueues as many executions
 * itself. Both run in one workspace without a limit, on a node that is at work and has nothing else to do. The time runs
 * from before the enqueue until the last end is counted, that of the parent included. They take turns; medians count.
 */
#include <stdio.h>

#include "base/text.h"
#include "waits.h"

enum { FAMILY_WORKSPACE = 9, UNLIMITED = 1000000, ROUNDS = 3 };

static struct weir_error fault;

void waits_publish_family(struct waits *waits)
{
    struct workspace_change change = {
        .name = fixture_workspace(FAMILY_WORKSPACE), .max_concurrent = UNLIMITED, .paused = -1};
    BENCH_OK(store_set_workspace(waits->scene.store, &change, &fault), &fault);
    fixture_publish(waits->scene.store, "family",
                    "name: family\nsteps:\n  each:\n    start: {workflow: noop, for_each: \"${.input.items}\"}\n");
}

double waits_plain_seconds(struct waits *waits, size_t count, size_t *completed)
{
    struct enqueue_request requests[FIXTURE_BATCH] = {0};
    static struct enqueue_result results[FIXTURE_BATCH];
    const char *workspace = fixture_workspace(FAMILY_WORKSPACE);
    for (size_t i = 0; i < FIXTURE_BATCH; i++) {
        requests[i] = (struct enqueue_request){.workspace = workspace, .workflow = "noop"};
    }
    double began = bench_now();
    for (size_t done = 0; done < count; done += FIXTURE_BATCH) {
        size_t set = count - done < FIXTURE_BATCH ? count - done : FIXTURE_BATCH;
        BENCH_OK(store_enqueue(waits->scene.store, requests, set, results, &fault), &fault);
        for (size_t i = 0; i < set; i++) {
            BENCH_OK(results[i].status, &results[i].error);
        }
    }
    *completed += count;
    BENCH_CHECK(waits_await_completed(waits, *completed, 0, WAITS_SECONDS_MAX));
    return bench_now() - began;
}

static void write_items(struct text *params, size_t count)
{
    BENCH_OK(text_add_string(params, "{\"items\": [0"), &fault);
    for (size_t i = 1; i < count; i++) {
        BENCH_OK(text_format(params, ",%zu", i), &fault);
    }
    BENCH_OK(text_add_string(params, "]}"), &fault);
}

double waits_family_seconds(struct waits *waits, size_t count, size_t *completed)
{
    struct text params = {.max = 1024 * 1024};
    struct enqueue_result result;
    write_items(&params, count);
    struct enqueue_request request = {.workspace = fixture_workspace(FAMILY_WORKSPACE),
                                      .workflow = "family",
                                      .params = params.data,
                                      .params_length = params.length};
    double began = bench_now();
    BENCH_OK(store_enqueue(waits->scene.store, &request, 1, &result, &fault), &fault);
    BENCH_OK(result.status, &result.error);
    *completed += count + 1;
    BENCH_CHECK(waits_await_completed(waits, *completed, 0, WAITS_SECONDS_MAX));
    double lasted = bench_now() - began;
    text_close(&params);
    return lasted;
}

static void measure(struct bench *bench, const char *group, bool on_postgres, const char *prefix)
{
    struct waits waits;
    size_t count = bench->quick ? 200 : 10000;
    size_t rounds = bench->quick ? 1 : ROUNDS;
    size_t completed = 0;
    double plain[ROUNDS];
    double family[ROUNDS];
    char name[FIGURE_NAME_MAX];
    if (!waits_open(&waits, bench, group, on_postgres)) {
        return;
    }
    waits_begin_store(&waits, "children");
    waits_publish_family(&waits);
    waits_start_node(&waits);
    for (size_t i = 0; i < rounds; i++) {
        plain[i] = (double)count / waits_plain_seconds(&waits, count, &completed);
        family[i] = (double)count / waits_family_seconds(&waits, count, &completed);
    }
    waits_stop_node(&waits);
    waits_end_store(&waits);
    double floor = bench_percentile(plain, rounds, 0.5);
    (void)snprintf(name, sizeof name, "%senqueue and drain of 10,000", prefix);
    bench_note(bench, name, floor, "items/s");
    (void)snprintf(name, sizeof name, "%sfor_each of 10,000 children", prefix);
    bench_report(bench, name, bench_percentile(family, rounds, 0.5), "items/s", floor, RATIO_AT_LEAST, 0.7);
    waits_close(&waits);
}

void bench_waits_children(struct bench *bench)
{
    measure(bench, "waits-children", false, "");
}

void bench_postgres_waits_children(struct bench *bench)
{
    measure(bench, "postgres-waits-children", true, "pg ");
}
