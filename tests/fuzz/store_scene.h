/* A small SQLite store in memory for fuzzers: a node, a workspace, a workflow, some executions in several states. */
#ifndef WEIR_TESTS_FUZZ_STORE_SCENE_H
#define WEIR_TESTS_FUZZ_STORE_SCENE_H

#include "base/uuid.h"
#include "store/store.h"

struct store_scene {
    char folder[64];
    char path[96];
    int64_t node;
    char ids[8][UUID_TEXT_MAX];
};

/* Makes it; ends the process when that fails. It stays until the process ends, then its folder is removed. */
void store_scene_make(struct store_scene *scene);
struct store *store_scene_open(const struct store_scene *scene);

#endif
