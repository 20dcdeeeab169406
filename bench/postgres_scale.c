#include "postgres_scale.h"

void bench_postgres_scale(struct bench *bench)
{
    struct postgres_server server;
    if (!postgres_scene_server(bench, "postgres-scale", &server)) {
        return;
    }
    postgres_measure_backlog(bench, &server);
    postgres_measure_neighbour(bench, &server);
    postgres_measure_pinned(bench, &server);
    postgres_measure_idle(bench, &server);
    postgres_server_close(&server);
}
