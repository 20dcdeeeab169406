/* More rows for the store of store_scene.h: executions that wait for a time, a signal and a decision, signals that are
 * consumed or not, a failure that is dismissed, a schedule with a firing. And the verbs that read them. */
#ifndef WEIR_TESTS_FUZZ_WAITING_SCENE_H
#define WEIR_TESTS_FUZZ_WAITING_SCENE_H

#include "store_scene.h"

enum { WAITING_IDS = 6 };
struct waiting_scene {
    char ids[WAITING_IDS][UUID_TEXT_MAX];
};

/* Ends the process when that fails. */
void waiting_scene_make(const struct store_scene *scene, struct waiting_scene *waiting);
/* Calls each verb once, whatever it answers. */
void waiting_scene_read(struct store *store, const struct store_scene *scene, const struct waiting_scene *waiting);

#endif
