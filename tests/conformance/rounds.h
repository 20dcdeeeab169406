/* Rounds of store_schedule() without a scheduler, for tests of the store's part alone: what to assign is the test's choice.
 */
#ifndef WEIR_TESTS_CONFORMANCE_ROUNDS_H
#define WEIR_TESTS_CONFORMANCE_ROUNDS_H

#include "conformance/scene.h"

/* One process that has the scheduler's role, or assumes that it has. */
struct seat {
    struct scene *scene;
    struct store *store;
    int64_t node;
    int64_t epoch;
    struct schedule_answer answer; /* of its last round */
};

/* Takes the role for the node, from any holder, and loads all facts. */
void seat_take(struct seat *seat, struct scene *scene, int64_t node);
void seat_take_on(struct seat *seat, struct scene *scene, struct store *store, int64_t node);
/* A round; node and epoch are the seat's. What was answered is kept in the seat when it is WEIR_OK. */
enum weir_status seat_try(struct seat *seat, struct schedule_call *call);
/* One that must be answered. */
const struct schedule_answer *seat_round(struct seat *seat, struct schedule_call call);
/* Rounds that only read the news, until none is left; the facts of all of them. */
const struct schedule_answer *seat_news(struct seat *seat);
/* Assigns one pending item to the node, in a round of its own. */
enum assignment_outcome seat_assign(struct seat *seat, const char *id, int64_t node);
enum assignment_outcome seat_hand_over(struct seat *seat, const char *id, int64_t node);
/* Takes and publishes until no news row is left that the seat has read. */
void seat_publish(struct seat *seat);

struct assignment assignment_of(struct scene *scene, const char *id, int64_t node);
int64_t lane_of(struct scene *scene, const char *workspace, const char *group);
/* The id of a workspace, a group (by table). */
int64_t row_id_of(struct scene *scene, const char *table, const char *name);
/* The execution that a head, a fact or an assignment is about. Lives in the scene. */
const char *id_of_key(struct scene *scene, const uint8_t *key);

size_t count_facts(const struct schedule_answer *answer, enum schedule_fact_kind kind);
/* The first fact of the kind of that lane; lane 0 = of any. NULL: there is none. */
const struct schedule_fact *find_fact(const struct schedule_answer *answer, enum schedule_fact_kind kind, int64_t lane);
/* The last one of that node. */
const struct schedule_fact *find_node(const struct schedule_answer *answer, int64_t node);
/* Sums of FACT_HELD; node 0 = of all nodes. */
int64_t sum_slots(const struct schedule_answer *answer, int64_t lane);
int64_t sum_node_held(const struct schedule_answer *answer, int64_t node);
/* All flags of FACT_NEWS. */
unsigned news_flags(const struct schedule_answer *answer);

#endif
