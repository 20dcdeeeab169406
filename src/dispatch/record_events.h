/* The events of records. Thread: the record loop, unless said otherwise. */
#ifndef WEIR_DISPATCH_RECORD_EVENTS_H
#define WEIR_DISPATCH_RECORD_EVENTS_H

#include "base/traceparent.h"
#include "dispatch/in_flight.h"
#include "dispatch/node.h"
#include "store/store.h"

/* The facts of an item in flight that the events of its record need. A copy, so that no subscriber runs under the node's
 * lock. */
struct reported_facts {
    bool known;
    bool dispatched;
    char workspace[WORKSPACE_NAME_MAX + 1];
    char workflow[WORKFLOW_NAME_MAX + 1];
    char traceparent[TRACEPARENT_SIZE]; /* "" = none */
    char ended_step[STEP_ID_MAX + 1];   /* see struct in_flight; "" = none */
    int ended_attempt;
    int start_number;
    int64_t waited_us;
    int64_t latency_us;
    int64_t claimed_us;
    int64_t began_us;       /* under this claim */
    int64_t first_began_us; /* at its first start */
    bool ends_batch;        /* its start was the last one of its batch to be recorded */
    struct batch_starts batch;
};

/* Under the node's lock. `entry` may be NULL. */
void record_facts_copy(const struct in_flight *entry, struct reported_facts *facts);
/* Of a record that took effect. An end without a record of the start emits the event of the start, too. */
void record_events_emit(struct node *node, const struct report *report, const struct record *record,
                        const struct reported_facts *facts, int64_t now_us);
/* Of the batch, if this record was its last start. */
void record_events_emit_batch(struct node *node, const struct reported_facts *facts, int64_t now_us);
/* Of a record that the store refuses, with the store's answer. Any thread. */
void record_events_emit_refused(struct node *node, const struct record *record, const char *refusal);

#endif
