/* The memory of the node that schedules, with large backlogs: `weir serve` as it is installed. Its scheduler knows every
 * lane that has work, and the first items of those that are served soon. */
#include <stdio.h>

#include "daemon.h"
#include "postgres_backlog.h"

enum { SERVE_SECONDS = 15, START_SECONDS_MAX = 60 };

struct usage {
    double rss; /* MiB, while it works */
    double own; /* of it anonymous memory */
    double most;
};

static struct usage measure(struct bench *bench, struct postgres_server *server, const char *name, size_t workspaces,
                            size_t count)
{
    struct postgres_scene scene;
    struct daemon daemon;
    char binary[DAEMON_PATH_MAX];
    daemon_find_binary(binary, sizeof binary);
    postgres_scene_open(&scene, server, name, true);
    postgres_scene_set_relaxed(&scene, true);
    fixture_publish(scene.store, "nap", "name: nap\nsteps:\n  run:\n    sleep: 1ms\n");
    fixture_workspaces(scene.store, 0, workspaces, NULL);
    postgres_backlog_fill(&scene, "nap", 0, workspaces, 0, count);
    postgres_scene_set_relaxed(&scene, false);
    daemon_serve(bench, binary, scene.url, &daemon);
    postgres_scene_await_completed(&scene, NULL, 1, START_SECONDS_MAX);
    bench_pause(bench->quick ? 1 : SERVE_SECONDS);
    struct usage usage = {.rss = daemon_status_mib(&daemon, "VmRSS:"),
                          .own = daemon_status_mib(&daemon, "RssAnon:"),
                          .most = daemon_status_mib(&daemon, "VmHWM:")};
    bool has_work =
        postgres_scene_number(&scene, "SELECT count(*) FROM (SELECT 1 FROM workflow_execution_queue LIMIT 1) q") > 0;
    daemon_stop(&daemon);
    BENCH_CHECK(bench->quick || has_work);
    postgres_scene_close(&scene);
    return usage;
}

void bench_postgres_memory(struct bench *bench)
{
    struct postgres_server server;
    size_t shrink = bench->quick ? 1000 : 1;
    if (!postgres_scene_server(bench, "postgres-memory", &server)) {
        return;
    }
    struct usage few = measure(bench, &server, "memory_few", 1000, 1000000 / shrink);
    struct usage many = measure(bench, &server, "memory_many", 100000 / shrink, 10000000 / shrink);
    bench_report(bench, "pg weir serve, 1M of 1,000: RSS while it works", few.rss, "MiB", 0, VALUE_AT_MOST, 20);
    bench_note(bench, "pg weir serve, 1M of 1,000: of it its own", few.own, "MiB");
    bench_note(bench, "pg weir serve, 1M of 1,000: most RSS", few.most, "MiB");
    bench_report(bench, "pg weir serve, 10M of 100k: RSS while it works", many.rss, "MiB", 0, VALUE_AT_MOST, 64);
    bench_note(bench, "pg weir serve, 10M of 100k: of it its own", many.own, "MiB");
    bench_report(bench, "pg weir serve, 10M of 100k: most RSS", many.most, "MiB", 0, VALUE_AT_MOST, 64);
    postgres_server_close(&server);
}
