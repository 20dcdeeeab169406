/* The program: runs seeds, one line per failing one with the command that replays it.
 *
 *   simulation --seeds N [--first S] [--steps K]   seeds S, S+1, ...
 *   simulation --seed S [--steps K] [--skew W] [--verbose]   one seed, with everything that happens
 *   simulation --tap [...]                         the same as a TAP stream, in chunks
 *
 * Every fourth seed runs twice, the second time with other wall clocks: the traces must be the same. That is the check of
 * invariant 11, and that a seed replays. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulation/simulation.h"

enum { STEPS_DEFAULT = 900, SEEDS_DEFAULT = 200, CHUNK = 20, TWICE_EVERY = 4 };

struct arguments {
    uint64_t first;
    uint64_t seeds;
    uint64_t skew;
    int64_t steps;
    bool verbose;
    bool tap;
};

struct totals {
    uint64_t runs;
    uint64_t items;
    uint64_t transitions;
    uint64_t crashes;
    uint64_t faults;
};

static void add(struct totals *totals, const struct simulation_result *result)
{
    totals->runs++;
    totals->items += result->items;
    totals->transitions += result->transitions;
    totals->crashes += result->crashes;
    totals->faults += result->faults;
}

static void complain(const struct arguments *arguments, uint64_t seed, const struct simulation_result *result)
{
    (void)printf("%sseed %" PRIu64 ": invariant %d broken at step %" PRId64 ": %s (replay: simulation --seed %" PRIu64
                 " --steps %" PRId64 " --verbose)\n",
                 arguments->tap ? "# " : "", seed, result->broken, result->step, result->what, seed, arguments->steps);
    (void)fflush(stdout);
}

static bool run_seed(const struct arguments *arguments, uint64_t seed, struct totals *totals)
{
    struct simulation_options options = {
        .seed = seed, .skew = arguments->skew, .steps = arguments->steps, .verbose = arguments->verbose};
    struct simulation_result result;
    simulation_run(&options, &result);
    add(totals, &result);
    if (result.broken == INVARIANT_NONE && seed % TWICE_EVERY == 0) {
        struct simulation_result again;
        options.skew++;
        options.verbose = false;
        simulation_run(&options, &again);
        add(totals, &again);
        if (again.trace != result.trace) {
            result.broken = WALL_CLOCKS_DECIDE_NOTHING;
            result.step = again.step;
            (void)snprintf(result.what, sizeof result.what, "other wall clocks, another trace: %016" PRIx64 ", %016" PRIx64,
                           result.trace, again.trace);
        }
    }
    if (result.broken != INVARIANT_NONE) {
        complain(arguments, seed, &result);
    } else if (arguments->verbose) {
        (void)printf("# trace %016" PRIx64 "\n", result.trace);
    }
    return result.broken == INVARIANT_NONE;
}

static uint64_t run_chunk(const struct arguments *arguments, uint64_t from, uint64_t to, struct totals *totals)
{
    uint64_t failures = 0;
    for (uint64_t seed = from; seed < to; seed++) {
        failures += !run_seed(arguments, seed, totals);
    }
    return failures;
}

static int run(const struct arguments *arguments)
{
    struct totals totals = {0};
    uint64_t failures = 0;
    uint64_t chunk = arguments->tap ? CHUNK : arguments->seeds;
    uint64_t number = 0;
    if (arguments->tap) {
        (void)printf("TAP version 13\n1..%" PRIu64 "\n", (arguments->seeds + chunk - 1) / chunk);
    }
    for (uint64_t done = 0; done < arguments->seeds; done += chunk) {
        uint64_t from = arguments->first + done;
        uint64_t to = done + chunk < arguments->seeds ? from + chunk : arguments->first + arguments->seeds;
        uint64_t failed_here = run_chunk(arguments, from, to, &totals);
        failures += failed_here;
        if (arguments->tap) {
            (void)printf("%s %" PRIu64 " - seeds %" PRIu64 " to %" PRIu64 " keep every invariant\n",
                         failed_here == 0 ? "ok" : "not ok", ++number, from, to - 1);
            (void)fflush(stdout);
        }
    }
    (void)printf("%s%" PRIu64 " runs, %" PRIu64 " executions, %" PRIu64 " transitions, %" PRIu64
                 " deaths of nodes, %" PRIu64 " faults of the store, %" PRIu64 " failed\n",
                 arguments->tap ? "# " : "", totals.runs, totals.items, totals.transitions, totals.crashes, totals.faults,
                 failures);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static bool parse(int count, char **words, struct arguments *arguments)
{
    for (int i = 1; i < count; i++) {
        const char *value = i + 1 < count ? words[i + 1] : NULL;
        if (strcmp(words[i], "--verbose") == 0) {
            arguments->verbose = true;
        } else if (strcmp(words[i], "--tap") == 0) {
            arguments->tap = true;
        } else if (value == NULL) {
            return false;
        } else if (strcmp(words[i], "--seeds") == 0) {
            arguments->seeds = strtoull(words[++i], NULL, 10);
        } else if (strcmp(words[i], "--first") == 0) {
            arguments->first = strtoull(words[++i], NULL, 10);
        } else if (strcmp(words[i], "--seed") == 0) {
            arguments->first = strtoull(words[++i], NULL, 10);
            arguments->seeds = 1;
        } else if (strcmp(words[i], "--skew") == 0) {
            arguments->skew = strtoull(words[++i], NULL, 10);
        } else if (strcmp(words[i], "--steps") == 0) {
            arguments->steps = strtoll(words[++i], NULL, 10);
        } else {
            return false;
        }
    }
    return true;
}

int main(int count, char **words)
{
    struct arguments arguments = {.first = 1, .skew = 1, .seeds = SEEDS_DEFAULT, .steps = STEPS_DEFAULT};
    if (!parse(count, words, &arguments)) {
        (void)fprintf(stderr,
                      "usage: simulation [--tap] [--seeds N] [--seed S] [--first S] [--steps K] [--skew W] [--verbose]\n");
        return EXIT_FAILURE;
    }
    return run(&arguments);
}
