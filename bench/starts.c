#include "starts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { START_SECONDS_MAX = 60 };

struct starts *starts_make(void)
{
    struct starts *starts = mmap(NULL, sizeof *starts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    BENCH_CHECK(starts != MAP_FAILED);
    return starts;
}

void starts_handler(struct weir_call *call, void *context)
{
    struct starts *starts = context;
    const char *number = strpbrk(weir_call_input(call), "0123456789");
    if (number != NULL) {
        atomic_store(&starts->started[strtoul(number, NULL, 10) % STARTS_MAX], bench_now());
    }
    (void)atomic_fetch_add(&starts->handled, 1);
    weir_done(call, NULL);
}

void starts_enqueue(struct starts *starts, struct store *store, const char *workspace, size_t number)
{
    char params[32];
    struct weir_error fault;
    struct enqueue_result result;
    int length = snprintf(params, sizeof params, "{\"n\": %zu}", number);
    struct enqueue_request request = {
        .workspace = workspace, .workflow = "noop", .params = params, .params_length = (size_t)length};
    BENCH_CHECK(number < STARTS_MAX);
    atomic_store(&starts->enqueued[number], bench_now());
    BENCH_OK(store_enqueue(store, &request, 1, &result, &fault), &fault);
    BENCH_OK(result.status, &result.error);
}

void starts_await(struct starts *starts, size_t number)
{
    double end = bench_now() + START_SECONDS_MAX;
    while (atomic_load(&starts->started[number]) == 0) {
        struct timespec pause = {.tv_sec = 0, .tv_nsec = 500000};
        BENCH_CHECK(bench_now() < end);
        (void)nanosleep(&pause, NULL);
    }
}

void starts_delays(const struct starts *starts, size_t first, size_t count, double *delays)
{
    for (size_t i = 0; i < count; i++) {
        delays[i] = (atomic_load(&starts->started[first + i]) - atomic_load(&starts->enqueued[first + i])) * 1e6;
    }
}

double starts_report_syncs(struct bench *bench, const char *name, double *syncs, size_t count)
{
    char line[64];
    double p50_ms = bench_percentile(syncs, count, 0.5) / 1000;
    (void)snprintf(line, sizeof line, "%s: p50", name);
    bench_note(bench, line, p50_ms, "ms");
    (void)snprintf(line, sizeof line, "%s: p99", name);
    bench_note(bench, line, bench_percentile(syncs, count, 0.99) / 1000, "ms");
    return p50_ms;
}
