/* A store of either driver with executions that wait, and one node on it: the scene of the groups waits-... and
 * postgres-waits-....
 *
 * The node is a process of its own with the in-process engine and the handler "noop", which notes each start in `starts`.
 * So its memory is its own, and the group's process asks the store as another program would. On SQLite that process has the
 * store closed whenever it forks the node. The group's process has one thread.
 */
#ifndef WEIR_BENCH_WAITS_H
#define WEIR_BENCH_WAITS_H

#include "postgres_scene.h"

enum { WAITS_WORKSPACES = 1000, WAITS_SECONDS_MAX = 900, WAITS_TEXT_MAX = 40 };

struct waits {
    struct bench *bench;
    bool on_postgres;
    struct postgres_server server; /* on PostgreSQL */
    struct postgres_scene scene;   /* its store and URL; its connection and server on PostgreSQL alone */
    struct starts *starts;
    struct postgres_process node; /* pid 0: none runs */
};

/* False when no PostgreSQL server is installed: then the group is left out with a note. */
bool waits_open(struct waits *waits, struct bench *bench, const char *group, bool on_postgres);
void waits_close(struct waits *waits);

/* A new store with 1,000 workspaces w00000 ..., seven of ten free, two pro, one enterprise. Entries of `starts` begin
 * anew. Closed by waits_end_store(), which also checks it. */
void waits_begin_store(struct waits *waits, const char *name);
void waits_end_store(struct waits *waits);
/* While filling, and until it is switched off: commits need not reach the disk. Only PostgreSQL; on SQLite each fill
 * hurries by itself. */
void waits_set_relaxed(struct waits *waits, bool relaxed);

/* Starts the node. It is at work when this returns. */
void waits_start_node(struct waits *waits);
/* Gracefully. */
void waits_stop_node(struct waits *waits);
/* A field of its /proc/PID/status in MiB, for example "VmRSS:". */
double waits_node_mib(const struct waits *waits, const char *field);
/* Microseconds of a core that it has used. */
double waits_node_processor_us(const struct waits *waits);

/* From the counters of the store, without a look at the rows of the queue. */
int64_t waits_completed(const struct waits *waits);
int64_t waits_parked(const struct waits *waits);
/* Wait until so many are counted. False: not within `seconds_max`. `handled`: how many of them call the handler; the store
 * is asked when they have. */
bool waits_await_completed(const struct waits *waits, size_t count, size_t handled, double seconds_max);
bool waits_await_parked(const struct waits *waits, size_t count, double seconds_max);

/* Seconds from `bench_now()` to the time of the store, by the shortest of several reads: a pause between the two clocks
 * would count as a distance. That of SQLite keeps its distance from the boot clock when the clock of the machine is set,
 * and that of a server does not. */
double waits_store_ahead(const struct waits *waits);
/* A time of the store in seconds as text of RFC 3339, in microseconds. */
void waits_format_time(double at, char *to, size_t size);
/* Publishes a workflow with a wait and then the handler: `wait` is the kind of the step and its value, as "sleep: 10s". */
void waits_publish(struct waits *waits, const char *name, const char *wait);

/* The workflow "family", with a list in its params, and a workspace without a limit for it. */
void waits_publish_family(struct waits *waits);
/* Seconds from before the enqueue of `count` executions in that workspace until all of them are counted as completed.
 * *completed: what the store has completed. */
double waits_plain_seconds(struct waits *waits, size_t count, size_t *completed);
/* The same for one parent of so many children. */
double waits_family_seconds(struct waits *waits, size_t count, size_t *completed);

#endif
