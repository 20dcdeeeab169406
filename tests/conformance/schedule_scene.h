/* Steps of the tests of schedules: schedules that are due every ten seconds, and the duty of a node, one call at a time. */
#ifndef WEIR_TESTS_CONFORMANCE_SCHEDULE_SCENE_H
#define WEIR_TESTS_CONFORMANCE_SCHEDULE_SCENE_H

#include "conformance/scene.h"

#define EVERY_US SECONDS(10)

struct schedule_request schedule_named(const char *name);
void set_schedule(struct scene *scene, const struct schedule_request *request);
struct due_schedules read_due(struct scene *scene);
struct schedule_firings read_firings(struct scene *scene);
/* The row of LIST_SCHEDULES; the caller releases it. */
json_t *row_of(struct scene *scene, const char *name);
json_int_t number_of(struct scene *scene, const char *name, const char *key);
/* Lets time pass until the schedule is due. */
struct due_schedule await_due(struct scene *scene);
/* An advance in which no time fires. */
struct schedule_advance advance_of(const struct due_schedule *due, int64_t next_us);
/* Fires the due time, as the duty does. `fires_us` lives until the next call. */
struct schedule_advance fire(struct scene *scene);
void settle(struct scene *scene, const struct schedule_firing *firing, const char *execution_id);
/* Enqueues the only firing that may start. */
const char *start(struct scene *scene);
void end_running(struct scene *scene);
void set_for_plan(struct scene *scene, enum schedule_overlap overlap);
void add_workspaces(struct scene *scene, int count);

#endif
