#include "postgres_load.h"

#include <stdlib.h>

#include "base/text.h"

enum { ROUNDS_PER_SECOND = 100, SET_MOST = 100, SAMPLES_MOST = 200000 };
#define PUBLISH_SECONDS 1.0

static struct weir_error fault;

struct samples {
    size_t count;
    double list[SAMPLES_MOST];
};

void postgres_load_open(struct postgres_load *load, struct store *store, int64_t node_id, size_t workspaces)
{
    *load = (struct postgres_load){.store = store, .node_id = node_id, .workspaces = workspaces};
    BENCH_OK(claimer_open(store, node_id, &load->claimer, &fault), &fault);
}

void postgres_load_close(struct postgres_load *load)
{
    claimer_close(load->claimer);
}

void postgres_load_enqueue(struct postgres_load *load, size_t count)
{
    struct enqueue_request requests[SET_MOST] = {0};
    struct enqueue_result results[SET_MOST];
    char names[SET_MOST][32];
    BENCH_CHECK(count > 0 && count <= SET_MOST);
    for (size_t i = 0; i < count; i++) {
        text_copy(names[i], sizeof names[i], fixture_workspace(load->next));
        load->next = (load->next + 1) % load->workspaces;
        requests[i] = (struct enqueue_request){.workspace = names[i], .workflow = "noop"};
    }
    BENCH_OK(store_enqueue(load->store, requests, count, results, &fault), &fault);
    for (size_t i = 0; i < count; i++) {
        BENCH_OK(results[i].status, &results[i].error);
    }
}

/* The end of each, with its one step, as a node records a handler that returns at once. */
static void record_ends(const struct postgres_load *load, const struct claim_result *claim)
{
    struct step_record steps[SET_MOST];
    struct record records[SET_MOST];
    struct record_summary summary;
    BENCH_CHECK(claim->count > 0 && claim->count <= SET_MOST);
    for (size_t i = 0; i < claim->count; i++) {
        steps[i] = (struct step_record){.step = "run", .state = STEP_COMPLETED, .attempt = 1, .exit_code = -1};
        records[i] = (struct record){
            .kind = RECORD_COMPLETED, .fence = claim->items[i].fence, .dispatched_first = true, .step = &steps[i]};
        text_copy(records[i].id, sizeof records[i].id, claim->items[i].id);
    }
    BENCH_OK(store_record(load->store, load->node_id, records, claim->count, &summary, &fault), &fault);
    BENCH_CHECK(summary.changed == claim->count);
}

/* How many ended. */
static size_t claim_once(const struct postgres_load *load, struct samples *samples)
{
    struct claim_result claim = {0};
    struct arena arena;
    arena_init(&arena, 16 * 1024 * 1024);
    double began = bench_now();
    BENCH_OK(claimer_claim(load->claimer, SET_MOST, &arena, &claim, &fault), &fault);
    double lasted = bench_now() - began;
    if (claim.count > 0) {
        samples->list[samples->count++ % SAMPLES_MOST] = lasted * 1e6;
        record_ends(load, &claim);
    }
    size_t count = claim.count;
    arena_close(&arena);
    return count;
}

static void publish(struct postgres_load *load)
{
    BENCH_OK(claimer_publish(load->claimer, &fault), &fault);
    load->published = bench_now();
}

struct postgres_load_times postgres_load_run(struct postgres_load *load, size_t per_second, size_t count)
{
    struct samples *samples = calloc(1, sizeof *samples);
    BENCH_CHECK(samples != NULL);
    size_t set = per_second == 0 ? SET_MOST : per_second / ROUNDS_PER_SECOND;
    size_t enqueued = 0;
    size_t ended = 0;
    double began = bench_now();
    for (size_t round = 1; ended < count; round++) {
        postgres_load_enqueue(load, set);
        enqueued += set;
        while (ended < enqueued) {
            ended += claim_once(load, samples);
        }
        if (ended >= count || bench_now() - load->published >= PUBLISH_SECONDS) {
            publish(load);
        }
        if (per_second > 0) {
            bench_pause(began + (double)round / ROUNDS_PER_SECOND - bench_now());
        }
    }
    double lasted = bench_now() - began;
    size_t kept = samples->count < SAMPLES_MOST ? samples->count : SAMPLES_MOST;
    struct postgres_load_times times = {.p50_us = bench_percentile(samples->list, kept, 0.5),
                                        .p99_us = bench_percentile(samples->list, kept, 0.99),
                                        .per_second = (double)ended / lasted};
    free(samples);
    return times;
}
