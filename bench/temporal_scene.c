#include "temporal_scene.h"

#include <string.h>
#include <time.h>

enum { WAIT_SECONDS_MAX = 300 };

static struct weir_error fault;

void temporal_scene_prepare(struct store *store)
{
    struct plan_change plan = {.name = "wide", .max_concurrent = TEMPORAL_SLOTS};
    BENCH_OK(store_set_plan(store, &plan, &fault), &fault);
    fixture_publish(store, TEMPORAL_WORKFLOW, TEMPORAL_DEFINITION);
    fixture_workspaces(store, 0, TEMPORAL_WORKSPACES, plan.name);
}

static void count_dispatched(void *context, const struct event *event)
{
    if (event->type == EVENT_EXECUTION_DISPATCHED) {
        atomic_fetch_add((atomic_size_t *)context, 1);
    }
}

void temporal_scene_start(struct temporal_scene *scene, struct store *store, struct engine *engine)
{
    temporal_scene_start_with(scene, store, engine, NULL, NULL);
}

void temporal_scene_start_with(struct temporal_scene *scene, struct store *store, struct engine *engine,
                               event_subscriber *hear, void *context)
{
    struct node_settings settings = {.name = "bench"};
    memset(scene, 0, sizeof *scene);
    scene->node.engine = engine;
    BENCH_CHECK(event_subscribe(&scene->events, count_dispatched, &scene->dispatched));
    BENCH_CHECK(hear == NULL || event_subscribe(&scene->events, hear, context));
    BENCH_OK(node_open(store, engine, &scene->events, &settings, &scene->node.node, &fault), &fault);
    BENCH_OK(node_run_threads(scene->node.node, &fault), &fault);
}

void temporal_scene_await(struct temporal_scene *scene, size_t count)
{
    double end = bench_now() + WAIT_SECONDS_MAX;
    while (atomic_load(&scene->dispatched) < count) {
        struct timespec pause = {.tv_sec = 0, .tv_nsec = 1000000};
        BENCH_CHECK(bench_now() < end);
        (void)nanosleep(&pause, NULL);
    }
}

void temporal_scene_stop(struct temporal_scene *scene)
{
    fixture_stop(&scene->node);
}
