/* The program: runs seeds, one line per failing one with the command that replays it.
 *
 *   simulation --seeds N [--first S] [--steps K]   seeds S, S+1, ...
 *   simulation --seed S [--steps K] [--skew W] [--verbose]   one seed, with everything that happens
 *   simulation --tap [...]                         the same as a TAP stream, in chunks
 *   simulation --processes P [...]                 shared out among P processes
 *   simulation --store postgres [...]              on a PostgreSQL server of its own (server.c) instead of SQLite
 *
 * Every fourth seed runs twice, the second time with other wall clocks: the traces must be the same. That is the check of
 * invariant 11, and that a seed replays. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "simulation/simulation.h"

enum { STEPS_DEFAULT = 900, SEEDS_DEFAULT = 200, CHUNK = 10, TWICE_EVERY = 4, PROCESSES_MOST = 64 };

struct arguments {
    uint64_t first;
    uint64_t seeds;
    uint64_t skew;
    int64_t steps;
    uint64_t processes;
    bool verbose;
    bool tap;
    enum simulated_store store;
};

struct totals {
    uint64_t runs;
    uint64_t items;
    uint64_t transitions;
    uint64_t crashes;
    uint64_t faults;
    uint64_t asks;
};

static void add(struct totals *totals, const struct simulation_result *result)
{
    totals->runs++;
    totals->items += result->items;
    totals->transitions += result->transitions;
    totals->crashes += result->crashes;
    totals->faults += result->faults;
    totals->asks += result->asks;
}

static void complain(const struct arguments *arguments, uint64_t seed, const struct simulation_result *result)
{
    (void)printf("%sseed %" PRIu64 ": invariant %d broken at step %" PRId64 ": %s (replay: simulation%s --seed %" PRIu64
                 " --steps %" PRId64 " --verbose)\n",
                 arguments->tap ? "# " : "", seed, result->broken, result->step, result->what,
                 arguments->store == SIMULATED_POSTGRES ? " --store postgres" : "", seed, arguments->steps);
    (void)fflush(stdout);
}

static bool run_seed(const struct arguments *arguments, uint64_t seed, struct totals *totals)
{
    struct simulation_options options = {.store = arguments->store,
                                         .seed = seed,
                                         .skew = arguments->skew,
                                         .steps = arguments->steps,
                                         .verbose = arguments->verbose};
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

/* Some seeds in a row: what one process does before it takes the next that are its. */
struct chunk {
    uint64_t from, to; /* without the last */
    uint64_t failures;
    struct totals totals;
};

static uint64_t chunk_count(const struct arguments *arguments)
{
    return (arguments->seeds + CHUNK - 1) / CHUNK;
}

static struct chunk run_chunk(const struct arguments *arguments, uint64_t number)
{
    uint64_t end = arguments->first + arguments->seeds;
    struct chunk chunk = {.from = arguments->first + number * CHUNK};
    chunk.to = chunk.from + CHUNK < end ? chunk.from + CHUNK : end;
    for (uint64_t seed = chunk.from; seed < chunk.to; seed++) {
        chunk.failures += !run_seed(arguments, seed, &chunk.totals);
    }
    return chunk;
}

/* --- several processes --- */

static int work(const struct arguments *arguments, uint64_t process, int answers)
{
    for (uint64_t number = process; number < chunk_count(arguments); number += arguments->processes) {
        struct chunk chunk = run_chunk(arguments, number);
        if (write(answers, &chunk, sizeof chunk) != (ssize_t)sizeof chunk) { /* so small that it goes in one piece */
            return EXIT_FAILURE;
        }
    }
    return EXIT_SUCCESS;
}

/* Starts them; the end of the pipe from which their chunks come. */
static int start_processes(const struct arguments *arguments)
{
    int ends[2];
    INVARIANT(pipe(ends) == 0);
    (void)fflush(stdout);
    for (uint64_t process = 0; process < arguments->processes; process++) {
        pid_t pid = fork();
        INVARIANT(pid >= 0);
        if (pid == 0) {
            (void)close(ends[0]);
            int status = work(arguments, process, ends[1]);
            (void)fflush(stdout);
            server_end();
            _exit(status);
        }
    }
    (void)close(ends[1]);
    return ends[0];
}

static bool read_chunk(int answers, struct chunk *chunk)
{
    ssize_t got;
    do {
        got = read(answers, chunk, sizeof *chunk);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof *chunk;
}

static bool all_ended_well(uint64_t processes)
{
    bool all = true;
    for (uint64_t i = 0; i < processes; i++) {
        int status = 0;
        all = wait(&status) > 0 && status == 0 && all;
    }
    return all;
}

/* --- all of it --- */

static void take(const struct arguments *arguments, const struct chunk *chunk, uint64_t number, struct chunk *all)
{
    all->failures += chunk->failures;
    all->totals.runs += chunk->totals.runs;
    all->totals.items += chunk->totals.items;
    all->totals.transitions += chunk->totals.transitions;
    all->totals.crashes += chunk->totals.crashes;
    all->totals.faults += chunk->totals.faults;
    all->totals.asks += chunk->totals.asks;
    if (arguments->tap) {
        (void)printf("%s %" PRIu64 " - seeds %" PRIu64 " to %" PRIu64 " keep every invariant\n",
                     chunk->failures == 0 ? "ok" : "not ok", number, chunk->from, chunk->to - 1);
        (void)fflush(stdout);
    }
}

/* How many chunks were run: fewer than there are when a process died. */
static uint64_t run_all(const struct arguments *arguments, struct chunk *all)
{
    uint64_t done = 0;
    if (arguments->processes == 1) {
        for (; done < chunk_count(arguments); done++) {
            struct chunk chunk = run_chunk(arguments, done);
            take(arguments, &chunk, done + 1, all);
        }
        return done;
    }
    struct chunk chunk;
    int answers = start_processes(arguments);
    while (read_chunk(answers, &chunk)) {
        take(arguments, &chunk, ++done, all);
    }
    (void)close(answers);
    return all_ended_well(arguments->processes) ? done : 0;
}

static int run(const struct arguments *arguments)
{
    struct chunk all = {0};
    const char *comment = arguments->tap ? "# " : "";
    int64_t start_us = clock_boot(clock_system());
    if (arguments->tap) {
        (void)printf("TAP version 13\n1..%" PRIu64 "\n", chunk_count(arguments));
    }
    bool complete = run_all(arguments, &all) == chunk_count(arguments);
    if (!complete) {
        (void)printf("%sa process of the simulation died\n", comment);
    }
    (void)printf("%s%" PRIu64 " runs, %" PRIu64 " executions, %" PRIu64 " transitions, %" PRIu64
                 " deaths of nodes, %" PRIu64 " faults of the store, %" PRIu64 " waits ended by their signals, %" PRIu64
                 " failed\n",
                 comment, all.totals.runs, all.totals.items, all.totals.transitions, all.totals.crashes, all.totals.faults,
                 all.totals.asks, all.failures);
    /* tools/test_report.py repeats it at the end of all tests. */
    (void)printf("%s%" PRIu64 " seeds took %.1f s\n", arguments->tap ? "# report: " : "", arguments->seeds,
                 (double)(clock_boot(clock_system()) - start_us) / 1e6);
    return all.failures == 0 && complete ? EXIT_SUCCESS : EXIT_FAILURE;
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
        } else if (strcmp(words[i], "--store") == 0) {
            i++;
            arguments->store = strcmp(value, "postgres") == 0 ? SIMULATED_POSTGRES : SIMULATED_SQLITE;
            if (strcmp(value, "postgres") != 0 && strcmp(value, "sqlite") != 0) {
                return false;
            }
        } else if (strcmp(words[i], "--steps") == 0) {
            arguments->steps = strtoll(words[++i], NULL, 10);
        } else if (strcmp(words[i], "--processes") == 0) {
            arguments->processes = strtoull(words[++i], NULL, 10);
        } else {
            return false;
        }
    }
    return arguments->processes >= 1 && arguments->processes <= PROCESSES_MOST;
}

int main(int count, char **words)
{
    struct arguments arguments = {.first = 1, .skew = 1, .seeds = SEEDS_DEFAULT, .steps = STEPS_DEFAULT, .processes = 1};
    if (!parse(count, words, &arguments)) {
        (void)fprintf(stderr,
                      "usage: simulation [--tap] [--processes P] [--seeds N] [--seed S] [--first S] [--steps K] [--skew W]"
                      " [--verbose] [--store sqlite|postgres]\n");
        return EXIT_FAILURE;
    }
    return run(&arguments);
}
