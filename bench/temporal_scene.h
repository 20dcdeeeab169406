/* A store with one workflow for Temporal and workspaces that have room for all of it, and a node that starts it there. */
#ifndef WEIR_BENCH_TEMPORAL_SCENE_H
#define WEIR_BENCH_TEMPORAL_SCENE_H

#include <stdatomic.h>

#include "fixture.h"
#include "observe/event.h"

#define TEMPORAL_WORKFLOW "outside"
#define TEMPORAL_DEFINITION "{\"name\":\"outside\",\"temporal\":{\"task_queue\":\"q\"}}"

enum { TEMPORAL_WORKSPACES = 1000, TEMPORAL_SLOTS = 100 };

/* The workflow, and the workspaces with their slots. */
void temporal_scene_prepare(struct store *store);

struct temporal_scene {
    struct fixture_node node;
    struct event_bus events;
    atomic_size_t dispatched; /* on record as running */
};
/* A node of the real kind with this engine, which it owns from now on; the scene must stay where it is. */
void temporal_scene_start(struct temporal_scene *scene, struct store *store, struct engine *engine);
/* With another subscriber of the events; NULL: none. */
void temporal_scene_start_with(struct temporal_scene *scene, struct store *store, struct engine *engine,
                               event_subscriber *hear, void *context);
/* Until so many are on record as running, in all. */
void temporal_scene_await(struct temporal_scene *scene, size_t count);
void temporal_scene_stop(struct temporal_scene *scene);

#endif
