/* An engine that runs one execution of a workflow with states, on a clock that the test sets. Its handler runs in the loop
 * and is a function of the test. One engine at a time. */
#ifndef WEIR_TESTS_SUPPORT_STATES_FIXTURE_H
#define WEIR_TESTS_SUPPORT_STATES_FIXTURE_H

#include "support/engine_fixture.h"
#include "weir/handler.h"

#define HOUR_US (3600 * MICROSECONDS_PER_SECOND)

#define STATES(states) "{\"name\":\"t\",\"states\":{" states "},\"initial\":\"a\"" BESIDE "}"
#define BESIDE                                                                                                             \
    ",\"variables\":{\"n\":{\"type\":\"integer\",\"initial\":1},\"note\":{\"type\":\"string\"}},\"signals\":[\"go\"]"
#define A "\"a\":{\"handler\":\"act\"}"
#define B "\"b\":{\"handler\":\"act\"}"
#define END "\"done\":{\"type\":\"end\"}"

enum { STATES_BEGIN_US = 1000 };

extern int64_t states_now_us;
extern struct engine_fixture states_engine;
extern void (*states_play)(struct weir_call *call); /* the handler of the test */
extern int states_calls;                            /* of it */

void states_open(void);
void states_close(void);
/* Steps the engine until nothing is left to do at this time. Returns when the next step is due. */
int64_t states_run(void);
/* Execution 1 with the params {"amount":5}. */
void states_start(const char *definition);
size_t states_count(enum report_kind kind);
/* The n-th report that waits. */
const struct report *states_wait(size_t n);
const struct report *states_end(enum end_state end);
/* A member of the action of a report, as text; "" = none. Lives until the next call. */
const char *states_action(const struct report *report, const char *key);
/* The claim after the park: the record of the wait, and perhaps a signal. */
void states_claim_again(const char *definition, const struct report *record, const struct signal_record *signal,
                        int64_t due_in_us);

#endif
