/* A fresh schema on a server of the program's own, a node, two connections that the test drives by hand, and short
 * functions for the steps of tests of orders. Everything asserts; a failed call prints its error. Threads: the main one.
 *
 * Each test has its own scene: SCENE_TEST(name) in a group that runs between scene_open_server and scene_close_server. */
#ifndef WEIR_TESTS_UNIT_STORE_POSTGRES_SCENE_H
#define WEIR_TESTS_UNIT_STORE_POSTGRES_SCENE_H

#include <libpq-fe.h>

#include "base/arena.h"
#include "base/clock.h"
#include "store/store.h"
#include "support/claiming.h"
#include "support/postgres_server.h"
#include "support/test.h"

#define WAIT_US (90 * MICROSECONDS_PER_SECOND) /* until another connection is seen to wait; fails the test */
#define LEASE_US (3600 * MICROSECONDS_PER_SECOND)

enum { SQL_SIZE = 1000 };

extern struct postgres_server server;

struct scene {
    struct store *store;
    PGconn *a;
    PGconn *b;
    int64_t node;              /* of the group "default" */
    struct silent_node silent; /* by end_lease(); id 0 = none */
    char server[SERVER_IDENTITY_MAX];
    struct arena arena;
    struct weir_error error;
};

#define ok(call)                                                                                                           \
    do {                                                                                                                   \
        if ((call) != WEIR_OK) {                                                                                           \
            fail_msg("%s: %s (%s)", #call, scene->error.message, scene->error.hint);                                       \
        }                                                                                                                  \
    } while (false)

/* It takes prepared transactions. */
int scene_open_server(void **state);
int scene_close_server(void **state);

/* Workflow "hello" for everybody, workspaces acme and beta with one slot each, a node. */
int scene_open(void **state);
/* The same with another cap of acme. */
int scene_open_with(void **state, int64_t acme_cap);
/* The check of the store must find nothing. */
int scene_close(void **state);

#define SCENE_TEST(name) cmocka_unit_test_setup_teardown(name, scene_open, scene_close)

int64_t add_node(struct scene *scene, const char *name, const char *group);
int64_t add_node_with_engine(struct scene *scene, const char *name, const char *group, const char *engine);
/* Or gives one that is there another cap. */
void add_workspace(struct scene *scene, const char *name, int64_t cap);

/* --- SQL in a given order --- */

/* The first column of the first row, "" when there is none; static buffer. */
const char *run(PGconn *connection, const char *format, ...) WEIR_PRINTF(2, 3);
/* Starts it and returns when the server reports that it waits for a lock. */
void run_into(PGconn *connection, const char *format, ...) WEIR_PRINTF(2, 3);
/* From now on record() waits for locked items as long as run_into() may take to see it. Otherwise it leaves them out after
 * a fifth of a second, and a slow machine may need longer. */
void let_records_wait(struct scene *scene);
/* The answer of that one in the end; static buffer. */
const char *answer(PGconn *connection);
/* The SQLSTATE with which it fails, "" when it does not; static buffer. */
const char *refusal(PGconn *connection, const char *format, ...) WEIR_PRINTF(2, 3);
long long number(const char *digits);

/* node, id, fence; record() of COMPLETED, answers 'done' or the outcome. */
#define COMPLETE_SQL                                                                                                       \
    "SELECT coalesce(max(r.outcome), 'done') FROM weir.record(%lld, ARRAY['%s'::uuid], ARRAY[%lld], ARRAY[6], ARRAY[0], "  \
    "ARRAY[-1], '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', "    \
    "'{}', '{}', "                                                                                                         \
    "'{}', '{}', '{}', '{}', '{}', '{}') r"
/* node, epoch, id, node; a round of schedule() that assigns one item that is new and reads no news; answers how many it
 * took. */
#define ASSIGN_SQL                                                                                                         \
    "SELECT coalesce(sum(cardinality(places)), 0) + coalesce(sum(cardinality(plain)), 0) FROM weir.schedule(%lld, %lld, "  \
    "0, false, pg_current_snapshot()::text, weir.timeline(), NULL, '0', 0, ARRAY['%s'::uuid], ARRAY[%lld], "               \
    "ARRAY[false], false, '{}', '{}', '{}', '{}', 0, '{}', '{1000,500,1000}')"

/* --- verbs --- */

/* A "hello" that must be accepted; the id lives in the scene. `group`: NULL = the default. */
const char *enqueue_for(struct scene *scene, const char *workspace, const char *group);
struct claim_result claim_as(struct scene *scene, int64_t node, const char *group, size_t limit);
struct claim_result claim(struct scene *scene, size_t limit);
/* Claims one, which must be this one. */
struct claimed_item claim_one(struct scene *scene, const char *id);
struct record record_of(enum record_kind kind, const struct claimed_item *item);
/* One record of the scene's node, its own status answered. */
enum weir_status record(struct scene *scene, enum record_kind kind, const struct claimed_item *item);
struct recover_result recover(struct scene *scene);
/* From now on the scene's node counts as silent: recover() and RECOVER_SQL name it with its present number of heartbeats.
 */
void end_lease(struct scene *scene);
/* The same for a call of store_recover(). The arrays live in the scene. */
void name_silent(struct scene *scene, struct recover_options *options);
/* the node */
#define RECOVER_SQL                                                                                                        \
    "SELECT r.handed_over FROM weir.recover(NULL, '{}', ARRAY[%1$lld], ARRAY(SELECT n.beats FROM weir.nodes n WHERE n.id " \
    "= %1$lld), weir.server_identity(), '{}', '{}', 5, 500) r"

#endif
