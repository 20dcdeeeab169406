/* The scene of the tests of tasks: a hub on a real engine with a recorder. The clock of the leases is virtual: the test
 * moves it.
 */
#ifndef WEIR_TESTS_UNIT_SERVER_TASK_HUB_SCENE_H
#define WEIR_TESTS_UNIT_SERVER_TASK_HUB_SCENE_H

#include <jansson.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "server/task_hub.h"
#include "support/engine_fixture.h"

enum { WAIT_SECONDS = 60 };
#define LEASE_US (10 * MICROSECONDS_PER_SECOND)
#define BEFORE_LEASE_US (LEASE_US - 1)

extern struct engine_fixture fixture;
extern struct task_hub *hub;
extern _Atomic int64_t now_us;
extern atomic_int registrations;
extern atomic_int refusals;        /* registrations that fail */
extern _Atomic size_t told_places; /* of the last set_places(); SIZE_MAX = none */
extern const struct clock virtual_clock;
/* Of struct task_hub_options. */
enum weir_status register_handler(void *context, const struct weir_handler *handler);
enum weir_status unregister_handler(void *context, const char *name);
void set_places(void *context, size_t places);
#define HUB_TEST(test) cmocka_unit_test_setup_teardown(test, open_hub, close_hub)

struct waiting_claim {
    struct task_waiter waiter;
    sem_t woken;
};

/* Setup and teardown of a test. */
int open_hub(void **state);
int close_hub(void **state);
/* Moves the clock, and does the work that is due. */
void pass(int64_t duration_us);
/* For task_waiter: posts `woken`. */
void wake(struct task_waiter *waiter);
void await_wake(struct waiting_claim *waiting);
/* A claim of the handler "send" that waits for ever. */
struct task_claim claim_of(const char *worker, size_t max);
/* The answer, without a wait. The caller releases it. */
json_t *claim_once(const struct task_claim *claim);
size_t count_claimed(const struct task_claim *claim);
/* Waits for a task; its JSON, which the caller releases. */
json_t *claim_with(const struct task_claim *claim);
/* The id of the next task: static storage for the last eight. */
const char *claim_id(const char *worker);
/* The worker is known, and the node has its handler. */
void join(const char *worker);
/* Execution `number` of one step "a" with the handler "send"; `more`: further keys of the step. */
void start(int number, const char *more);
/* From a node that died. */
void start_taken_over(int number, int64_t fence);
/* Until the report of the task has another verdict. */
void await_record(const char *task);
/* As a client does: again, until the result is on record. */
enum task_verdict give(const struct task_report *report);
/* A heartbeat, or the output "sent". */
enum task_verdict report_once(enum task_report_kind kind, const char *worker, const char *task);
/* The same as give(). */
enum task_verdict report(enum task_report_kind kind, const char *worker, const char *task);
/* Of w1; the same as give(). */
enum task_verdict report_failure(const char *task, const char *code, bool is_final, int64_t retry_after_us);
const struct report *end_of(int number, enum end_state end);
void wait_for_figures(size_t waiting, size_t claimed);

#endif
