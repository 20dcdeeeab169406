/* The life of a queue item: its states, the legal moves between them, and why a pending or waiting one does not run.
 *
 * One table names every legal move, its cause and the counter that it spends; docs/state_machine.md is printed from it.
 * The statements of both stores follow the table; the conformance suite checks every kind of record from every state. Pure;
 * any thread.
 */
#ifndef WEIR_QUEUE_ITEM_H
#define WEIR_QUEUE_ITEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(enum, name on every surface, terminal) */
#define ITEM_STATE_LIST(X)                                                                                                 \
    X(ITEM_PENDING, "PENDING", false)                                                                                      \
    X(ITEM_CLAIMED, "CLAIMED", false)                                                                                      \
    X(ITEM_DISPATCHED, "DISPATCHED", false)                                                                                \
    X(ITEM_WAITING, "WAITING", false)                                                                                      \
    X(ITEM_COMPLETED, "COMPLETED", true)                                                                                   \
    X(ITEM_FAILED, "FAILED", true)                                                                                         \
    X(ITEM_CANCELLED, "CANCELLED", true)

enum item_state {
#define ITEM_STATE_ENUM(id, name, terminal) id,
    ITEM_STATE_LIST(ITEM_STATE_ENUM)
#undef ITEM_STATE_ENUM
        ITEM_STATE_COUNT
};

/* Why an item that is not running waits: exactly one, the first that applies in this order. The views,
 * the command line and the metrics have the same names. X(enum, name, meaning for a person) */
#define PENDING_REASON_LIST(X)                                                                                             \
    X(REASON_QUARANTINED, "quarantined", "nodes died while it ran; it waits for a node without any other execution")       \
    X(REASON_HANDED_OVER, "handed_over", "its node died or gave it back; another node takes it over with the same ids")    \
    X(REASON_BACKING_OFF, "backing_off", "its last start was refused; it is tried again when the delay is over")           \
    X(REASON_SCHEDULED, "scheduled", "its run_at is in the future")                                                        \
    X(REASON_WORKSPACE_PAUSED, "workspace_paused", "its workspace is paused")                                              \
    X(REASON_QUEUE_PAUSED, "queue_paused", "the queue is paused")                                                          \
    X(REASON_NO_NODE_IN_GROUP, "no_node_in_group",                                                                         \
      "no node of its group accepts work: none is alive, or all are paused, drained or stopping")                          \
    X(REASON_NO_NODE_FOR_ENGINE, "no_node_for_engine",                                                                     \
      "no node of its group has the engine that it needs or, once it was started, the service to ask; a slot stays taken") \
    X(REASON_ENGINE_UNREACHABLE, "engine_unreachable", "no node of its group reaches its engine")                          \
    X(REASON_NO_WORKER, "no_worker",                                                                                       \
      "no live node of its group has the handlers that it needs; it starts when one comes up")                             \
    X(REASON_NO_SCHEDULER, "no_scheduler", "no node schedules, so nothing is assigned")                                    \
    X(REASON_WORKSPACE_AT_CAPACITY, "workspace_at_capacity", "its workspace uses all the slots of its plan")               \
    X(REASON_NODES_FULL, "nodes_full",                                                                                     \
      "no node that could run it has free capacity; it starts when an execution ends there")                               \
    X(REASON_READY, "ready", "nothing holds it back; it starts when its turn comes")

enum pending_reason {
#define PENDING_REASON_ENUM(id, name, meaning) id,
    PENDING_REASON_LIST(PENDING_REASON_ENUM)
#undef PENDING_REASON_ENUM
        PENDING_REASON_COUNT
};

/* The kinds of waits of a WAITING item. X(enum, name on every surface, meaning for a person) */
#define WAIT_KIND_LIST(X)                                                                                                  \
    X(WAIT_SLEEP, "sleep", "a step of it sleeps; it uses no slot meanwhile")                                               \
    X(WAIT_RETRY, "retry", "a step of it waits for its next attempt; it uses no slot meanwhile")                           \
    X(WAIT_SIGNAL, "signal", "a step of it waits for a signal; it uses no slot meanwhile")                                 \
    X(WAIT_APPROVAL, "approval", "a step of it waits for an approval; it uses no slot meanwhile")                          \
    X(WAIT_CHILD, "child", "a step of it waits for executions that it has started; it uses no slot meanwhile")             \
    X(WAIT_CALLBACK, "callback", "a step of it waits for the report of its function; it uses no slot meanwhile")           \
    X(WAIT_MANUAL, "manual", "its state waits for a person, who moves it on with `weir update`; it uses no slot meanwhile")

enum wait_kind {
#define WAIT_KIND_ENUM(id, name, meaning) id,
    WAIT_KIND_LIST(WAIT_KIND_ENUM)
#undef WAIT_KIND_ENUM
        WAIT_KIND_COUNT
};

/* Which of the three counters a move spends. */
enum item_counter { COUNTS_NOTHING, COUNTS_ATTEMPT, COUNTS_DEFERRAL, COUNTS_HANDOVER };

struct item_move {
    enum item_state from;
    enum item_state to;
    const char *because; /* the event's name */
    enum item_counter counter;
};

/* The table; `ret_count` gets its length. Static. */
const struct item_move *item_moves(size_t *ret_count);
/* True when some move leads from one state to the other. Staying where one is (handover of a running item) counts only if
 * the table has it. */
bool item_may_move(enum item_state from, enum item_state to);
bool item_is_terminal(enum item_state state);
const char *item_state_name(enum item_state state);
/* Whether a node has the item, or runs it; by the name of its state. NULL is of none. */
bool item_state_is_held(const char *name);
/* Accepts any case; false when it is no state. */
bool item_state_parse(const char *name, enum item_state *ret_state);
const char *pending_reason_name(enum pending_reason reason);
const char *pending_reason_meaning(enum pending_reason reason);

const char *wait_kind_name(enum wait_kind kind);
const char *wait_kind_meaning(enum wait_kind kind);
/* By its name; false: no kind has it. NULL is the name of none. */
bool wait_kind_parse(const char *name, enum wait_kind *ret_kind);

/* The place of an item in its lane: smaller goes first. Due time, moved ahead by its priority (limits.h: ageing). */
int64_t item_rank(int64_t run_at_us, int priority);

#endif
