/* A private PostgreSQL server, databases on it to measure in, and processes that use them.
 *
 * The server has fsync and synchronous_commit on, as installed; only its memory is set (settings below), the same for the
 * floor and for weir. It lies in the folder that --dir names. Threads: the group's process has one; everything else runs in
 * other processes. */
#ifndef WEIR_BENCH_POSTGRES_SCENE_H
#define WEIR_BENCH_POSTGRES_SCENE_H

#include <libpq-fe.h>
#include <sys/types.h>

#include "fixture.h"
#include "starts.h"
#include "support/postgres_server.h"

#define POSTGRES_SETTINGS "shared_buffers = 256MB\nmax_wal_size = 4GB\n"
/* With pg_stat_statements the server counts the buffers that each statement reads. */
#define POSTGRES_COUNTING POSTGRES_SETTINGS "shared_preload_libraries = 'pg_stat_statements'\n"

enum { SCENE_NAME_MAX = 32, SCENE_URL_MAX = 256, NODES_MAX = 8, EXPLAINED_TEXT_MAX = 32768 };

struct postgres_scene {
    struct postgres_server *server;
    char name[SCENE_NAME_MAX]; /* of the database */
    char url[SCENE_URL_MAX];
    PGconn *connection;  /* the superuser's, search_path weir */
    struct store *store; /* NULL: an empty database */
};

/* The server that a group measures on. False when none is installed: then the group is left out with a note. */
bool postgres_scene_server(const struct bench *bench, const char *group, struct postgres_server *ret_server);
/* The same with settings of one's own. */
bool postgres_scene_server_with(const struct bench *bench, const char *group, const char *settings,
                                struct postgres_server *ret_server);

void postgres_scene_open(struct postgres_scene *scene, struct postgres_server *server, const char *name, bool has_store);
/* Checks the store and drops the database. */
void postgres_scene_close(struct postgres_scene *scene);
void postgres_scene_run(const struct postgres_scene *scene, const char *sql);
/* An integer that one statement gives. */
int64_t postgres_scene_number(const struct postgres_scene *scene, const char *sql);
/* A text that one statement gives (static buffer). */
const char *postgres_scene_text(const struct postgres_scene *scene, const char *sql);
/* Executions that have ended COMPLETED: the sum of the books and of the news that is not folded yet. It reads one row per
 * lane and the latest news, not the history. */
int64_t postgres_scene_completed(const struct postgres_scene *scene);
/* Slots that a workspace uses, from the same counters. */
int64_t postgres_scene_slots_used(const struct postgres_scene *scene, const char *workspace);
/* Waits until `count` executions have ended COMPLETED. `starts`: the nodes' table, or NULL. It costs the server nothing
 * until as many handlers were called. */
void postgres_scene_await_completed(const struct postgres_scene *scene, const struct starts *starts, size_t count,
                                    double seconds_max);
/* While filling: commits need not reach the disk. Ends vacuumed, analysed and with everything on the disk. */
void postgres_scene_set_relaxed(const struct postgres_scene *scene, bool relaxed);

/* Registers a node of the executor group "default" that never beats; its lease is an hour and its capacity a million. */
int64_t postgres_scene_node(const struct postgres_scene *scene);

/* The result of one EXPLAIN (ANALYZE, BUFFERS) of `sql`, rolled back: microseconds, and accesses to blocks in the cache or
 * read into it. */
struct explained {
    double us;
    double buffers;
};
struct explained postgres_scene_explain(const struct postgres_scene *scene, const char *sql);
/* Statements from now on are counted. The server has POSTGRES_COUNTING. */
void postgres_scene_count_anew(const struct postgres_scene *scene);
/* Buffers that the statements LIKE `pattern` have read since then, for each of `items`. */
double postgres_scene_counted(const struct postgres_scene *scene, const char *pattern, size_t items);

/* A process of the group's. It is killed should the group's process end. */
struct postgres_process {
    pid_t pid;
    int channel;
};
/* Nodes of the real kind, each a process: in-process engine, handler "noop" that fills `starts` (NULL: does nothing). They
 * are ready, and start with postgres_nodes_go(). */
void postgres_nodes_make(const struct postgres_scene *scene, struct starts *starts, struct postgres_process *nodes,
                         size_t count);
void postgres_nodes_go(const struct postgres_process *nodes, size_t count);
/* The one of them that schedules; `count` when none of them does. */
size_t postgres_nodes_find_scheduler(const struct postgres_scene *scene, const struct postgres_process *nodes,
                                     size_t count);
/* Kills one of them and waits for its end. */
void postgres_nodes_kill(struct postgres_process *node);
/* Gracefully, and waits for their ends. */
void postgres_nodes_stop(struct postgres_process *nodes, size_t count);

#endif
