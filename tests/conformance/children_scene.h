/* Steps of the tests of children: parents that wait with a plan, the duty, and the ends of children. */
#ifndef WEIR_TESTS_CONFORMANCE_CHILDREN_SCENE_H
#define WEIR_TESTS_CONFORMANCE_CHILDREN_SCENE_H

#include "base/json.h"
#include "conformance/scene.h"

/* The parents are of the workflow "hello", and so are the children. */
struct planned {
    int count;
    int wanted; /* -1: waits for all */
    int max_parallel;
    bool leaves;
    bool is_single;
    const char *workflow;  /* NULL: "hello" */
    const char *workspace; /* NULL: that of the parent */
    const char *keys;      /* a JSON list of texts; NULL: none */
};

/* malloc'ed: the record owns its variables, and the test frees them. */
char *plan_text(const struct planned *planned);
/* `plan` lives as long as the record. */
struct step_record wait_of(char *plan);
enum weir_status record_plan(struct scene *scene, const struct claimed_item *item, const struct planned *planned);
/* A request of "hello" whose id is of a time long ago. So it goes before its children, whatever is done to the clocks of
 * this program and of the server meanwhile. */
void enqueue_parent(struct scene *scene, const char *workspace);
void park_parent(struct scene *scene, const struct claimed_item *item);
/* Until nothing is left to do. */
struct children_advance advance(struct scene *scene);
/* A parent of "free-co", parked with the plan. */
struct claimed_item begin(struct scene *scene, const struct planned *planned);
int64_t pending(struct scene *scene);
void end_with(struct scene *scene, const struct claimed_item *item, enum record_kind kind, const char *output);
/* The children end one after the other; the workspace has one slot. */
void end_children(struct scene *scene, int count, enum record_kind kind);
/* Claims the parent, which a signal has woken, and returns the data of the signal. */
json_t *claim_outcome(struct scene *scene, const struct claimed_item *parent);
void assert_failure(struct scene *scene, const struct claimed_item *parent, const char *code, const char *words);
void purge(struct scene *scene, const char *id);

#endif
