/* A fresh store with a node, and short words for what conformance tests do all the time. Each test has its own scene:
 * cmocka_unit_test_setup_teardown(test, scene_open, scene_close). Everything asserts; a failed call prints its error. */
#ifndef WEIR_TESTS_CONFORMANCE_SCENE_H
#define WEIR_TESTS_CONFORMANCE_SCENE_H

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "conformance/driver_under_test.h"
#include "support/claiming.h"
#include "support/test.h"

#define SECONDS(n) ((int64_t)(n)*MICROSECONDS_PER_SECOND)
/* Of its nodes. Long: views read the clock of the machine, where a test may stand still. */
#define SCENE_LEASE_US SECONDS(50)

enum { SCENE_CLAIMERS_MOST = 64, SCENE_CAPACITY = 1000000 };

struct scene {
    struct driver_under_test driver;
    struct store *store;
    struct arena arena;
    int64_t node; /* a live node of the group "default" */
    struct weir_error error;
    /* Each node that claims keeps its scheduler's memory, so that it learns of changes by news only. Else each claim loads
     * all facts. WEIR_TEST_KEPT_CLAIMERS in the environment sets it for every scene. */
    bool keeps_claimers;
    struct {
        int64_t node;
        struct store *store; /* a scheduler reads the news on a handle of its own */
        struct claimer *claimer;
    } claimers[SCENE_CLAIMERS_MOST];
    size_t claims;
};

/* Workspaces free-co (free), pro-co (pro), big-co (enterprise); workflow "hello" for everybody; one node. */
int scene_open(void **state);
/* The check of the store must find nothing. */
int scene_close(void **state);

#define SCENE_TEST(name) cmocka_unit_test_setup_teardown(name, scene_open, scene_close)

/* Fails with the error's text when `status` is not WEIR_OK. */
#define scene_ok(scene, call) scene_expect_ok((scene), (call), #call, __FILE__, __LINE__)
void scene_expect_ok(struct scene *scene, enum weir_status status, const char *call, const char *file, int line);

void scene_pass(struct scene *scene, int64_t duration_us);
int64_t scene_now(struct scene *scene);

void scene_workspace(struct scene *scene, const char *name, const char *plan);
void scene_cap(struct scene *scene, const char *workspace, int64_t max_concurrent);
void scene_pause_workspace(struct scene *scene, const char *workspace, bool paused);
int64_t scene_publish(struct scene *scene, const char *name, const char *workspace);
/* Makes an executor group as users do: by a definition that names it. */
void scene_group(struct scene *scene, const char *group);
int64_t scene_add_node(struct scene *scene, const char *name, const char *group);
int64_t scene_add_node_with_engine(struct scene *scene, const char *name, const char *group, const char *engine);
void scene_beat(struct scene *scene, int64_t node);
/* store_recover() by a node that has watched all others: those are silent whose leases are over by the clock of the scene.
 */
void scene_recover(struct scene *scene, const struct recover_options *options, struct recover_result *ret_result);

/* One request; the result as it came. */
struct enqueue_result scene_try(struct scene *scene, const struct enqueue_request *request);
/* One "hello" that must be accepted; the id lives in the scene. */
const char *scene_enqueue(struct scene *scene, const char *workspace);
const char *scene_enqueue_request(struct scene *scene, const struct enqueue_request *request);
void scene_enqueue_many(struct scene *scene, const char *workspace, size_t count);

/* The node acts as the scheduler for the claim (support/claiming.h). */
struct claim_result scene_claim(struct scene *scene, size_t limit);
struct claim_result scene_claim_as(struct scene *scene, int64_t node, const char *group, size_t limit);
struct work_ahead scene_look(struct scene *scene);
struct work_ahead scene_look_as(struct scene *scene, int64_t node);
/* Exactly one item must be there. */
struct claimed_item scene_claim_one(struct scene *scene);
size_t scene_count_of(const struct claim_result *claim, const char *workspace);

/* All requests that wait for the node; so many must be there. */
struct node_request *scene_take_requests(struct scene *scene, int64_t node, size_t expected);

/* A record of the scene's node, its own status answered. */
enum weir_status scene_record(struct scene *scene, enum record_kind kind, const struct claimed_item *item);
enum weir_status scene_record_full(struct scene *scene, int64_t node, struct record record);
struct record scene_record_of(enum record_kind kind, const struct claimed_item *item);
/* Ends all of a claim as COMPLETED, in one set. */
void scene_complete(struct scene *scene, const struct claim_result *claim);

/* SQL over what all drivers share. */
json_t *scene_rows(struct scene *scene, const char *sql);
int64_t scene_number(struct scene *scene, const char *format, ...) WEIR_PRINTF(2, 3);
/* Lives in the scene; NULL for SQL NULL. */
const char *scene_text(struct scene *scene, const char *format, ...) WEIR_PRINTF(2, 3);
const char *scene_status_of(struct scene *scene, const char *id);
const char *scene_reason_of(struct scene *scene, const char *id);
void scene_check(struct scene *scene);
/* Held items of a workspace, by its rows. */
int64_t scene_held(struct scene *scene, const char *workspace);
/* A number of the answer about a workspace. */
int64_t scene_usage(struct scene *scene, const char *workspace, const char *key);

/* The events of an execution, as "enqueue claim dispatch ...". */
void scene_assert_events(struct scene *scene, const char *id, const char *expected);

/* The move of that name from that state, NULL when it is not legal. */
const struct item_move *scene_find_move(enum item_state from, const char *because);

/* Members of answers. */
json_int_t json_number_at(const json_t *object, const char *key);
const char *json_text_at(const json_t *object, const char *key);
#endif
