/* Measuring weir: figures with floors and goals, each in a process of its own.
 *
 * A figure's group (lifecycle, claim ...) is one function that runs in a forked child, so that nobody's memory, page cache
 * or threads colour the next one's. Absolute figures move between machines and hours; what counts are ratios within one
 * run, and counts (pages, VM steps), which do not move at all.
 *
 * A failure here ends the child with a message: a benchmark that cannot set up has nothing to report.
 */
#ifndef WEIR_BENCH_BENCH_H
#define WEIR_BENCH_BENCH_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

enum { FIGURES_MAX = 256, FIGURE_NAME_MAX = 64, BENCH_PATH_MAX = 512 };

/* The figure of a goal: the value itself, or its ratio to the floor. */
enum goal_kind { GOAL_NONE, VALUE_AT_LEAST, VALUE_AT_MOST, RATIO_AT_LEAST, RATIO_AT_MOST };

struct figure {
    char name[FIGURE_NAME_MAX];
    double value;
    char unit[24];
    double floor; /* 0 = none */
    enum goal_kind goal_kind;
    double goal;
};

/* In memory that parent and children share. */
struct figures {
    size_t count;
    int daemon; /* process that the present group has started; 0 = none */
    struct figure list[FIGURES_MAX];
};

struct bench {
    bool quick;                  /* small sizes: shows that it works, measures nothing */
    char folder[BENCH_PATH_MAX]; /* of this run, on the disk that is measured */
    double hold_seconds;         /* for which postgres-held-open holds a transaction open */
    double fsync_us;             /* median, measured first */
    struct figures *figures;
};

/* --- reporting --- */

void bench_report(struct bench *bench, const char *name, double value, const char *unit, double floor,
                  enum goal_kind goal_kind, double goal);
/* The figure with nothing to compare it with. */
void bench_note(struct bench *bench, const char *name, double value, const char *unit);

/* --- measuring --- */

/* Seconds of a clock that never goes back. */
double bench_now(void);
/* Sleeps; not at all when `seconds` is not above 0. */
void bench_pause(double seconds);
/* Microseconds of a core that the calling thread has used. */
double bench_thread_cpu_us(void);
/* Sorts, and returns the value below which `share` (0 to 1) of the samples lie. */
double bench_percentile(double *samples, size_t count, double share);
/* Prints where and why, and ends the process. */
_Noreturn void bench_fail(const char *file, int line, const char *message);
#define BENCH_CHECK(condition)                                                                                             \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            bench_fail(__FILE__, __LINE__, #condition);                                                                    \
        }                                                                                                                  \
    } while (0)
/* For calls of weir: prints the message of the error. */
#define BENCH_OK(call, error)                                                                                              \
    do {                                                                                                                   \
        if ((call) != WEIR_OK) {                                                                                           \
            bench_fail(__FILE__, __LINE__, (error)->message);                                                              \
        }                                                                                                                  \
    } while (0)

/* --- the groups, one file each --- */

void bench_lifecycle(struct bench *bench);
void bench_enqueue(struct bench *bench);
void bench_http(struct bench *bench);
void bench_http_reads(struct bench *bench);
void bench_postgres_http(struct bench *bench);
void bench_claim(struct bench *bench);
void bench_latency(struct bench *bench);
void bench_neighbour(struct bench *bench);
void bench_neighbour_steps(struct bench *bench);
void bench_neighbour_calls(struct bench *bench);
void bench_neighbour_programs(struct bench *bench);
void bench_idle(struct bench *bench);
void bench_memory(struct bench *bench);
/* Left out, with a message, where beanstalkd is not installed. */
void bench_beanstalkd(struct bench *bench);
void bench_grpc(struct bench *bench);
/* Left out, with a reason, where the server's programs are missing. */
void bench_postgres_lifecycles(struct bench *bench);
void bench_postgres_nodes(struct bench *bench);
void bench_postgres_claims(struct bench *bench);
void bench_postgres_latency(struct bench *bench);
void bench_postgres_backlog(struct bench *bench);
void bench_postgres_neighbour(struct bench *bench);
void bench_postgres_held_open(struct bench *bench);
void bench_postgres_idle(struct bench *bench);
void bench_postgres_memory(struct bench *bench);
void bench_postgres_takeover(struct bench *bench);
/* Also left out where pg-boss and its proxy are not installed. */
void bench_postgres_pg_boss(struct bench *bench);
/* Executions that wait, on SQLite and on PostgreSQL. */
void bench_waits_park(struct bench *bench);
void bench_waits_parked(struct bench *bench);
void bench_waits_signals(struct bench *bench);
void bench_waits_children(struct bench *bench);
void bench_postgres_waits_park(struct bench *bench);
void bench_postgres_waits_parked(struct bench *bench);
void bench_postgres_waits_signals(struct bench *bench);
void bench_postgres_waits_children(struct bench *bench);
void bench_temporal(struct bench *bench);
/* Left out, with a message, where the Temporal server of the tests is not installed. */
void bench_temporal_service(struct bench *bench);
void bench_temporal_lone(struct bench *bench);

#endif
