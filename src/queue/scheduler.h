/* The scheduler: decides in memory which pending item starts next, and on which node. Pure: no I/O, no clock, no thread.
 *
 *   store --facts, heads--> scheduler --assignments--> store --outcomes--> scheduler
 *
 * A lane is the queue of one workspace in one executor group, for one demand. The demand of a definition is what its
 * executions need of a node: the kind of engine, and the set of handlers that its steps name. A definition either has
 * `temporal:` or steps, and a node of the other kind can never run it. Nodes and lanes of a group that are of one kind
 * form a pool. Pools share nothing but the limits of workspaces and the pause of their group. In a pool an item goes
 * only to nodes that have all its handlers. Demands that exactly the same nodes can serve form a share, which has one
 * stride order. The scheduler keeps, per lane, a window of its first items (heads), the pass of its workspace in the
 * share (weighted stride), and the limits that its items count against. It learns of changes as facts, requests the
 * heads that it needs next, and assigns items in stride order to nodes with free capacity.
 *
 * Caps are exact because of one rule: `held` in memory is never lower than the held rows of the store. scheduler_assign()
 * takes the slot before the assignment is sent. It returns only by a committed fact of the
 * store (FACT_HELD with slots < 0), or by scheduler_settle() with an outcome that proves that the row did not change.
 *
 * A target is where the executions of a node run: its engine, and for an engine outside of the node the service and the
 * namespace. A held item keeps the target of the node that it was assigned to first. Only a node with this target can find
 * out its outcome, so no other node takes it over; it waits with its slot. An item without a target (0) was surely
 * not started: any node of its pool takes it.
 *
 * After any doubt (lost connection, unknown commit) the caller calls scheduler_clear() and loads all facts anew under a new
 * epoch. The scheduler never repairs its memory in place.
 *
 * Limits are a list: the cap of the workspace is the first entry of each item's list; further entries (keys, rates) use the
 * same structure.
 *
 * Memory is bounded: SCHEDULER_LANE_HEADS_MOST heads per lane and SCHEDULER_HEADS_MOST in total. Heads that do not fit are
 * forgotten and read again. Lanes without items are forgotten too.
 *
 * Errors: WEIR_OUT_OF_MEMORY; WEIR_STORE_CORRUPT when a fact or an answer cannot be true, for example when more slots are
 * given back than are held. After both the caller must scheduler_clear() and load all facts anew.
 */
#ifndef WEIR_QUEUE_SCHEDULER_H
#define WEIR_QUEUE_SCHEDULER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/fair_share.h"
#include "weir/status.h"

enum {
    SCHEDULER_LANE_HEADS_MOST = 2000,   /* cached items of one lane; most lanes ask for 4 to 64 */
    SCHEDULER_HEADS_MOST = 1000 * 1000, /* cached items of all lanes */
    SCHEDULER_READS_MOST = 256,         /* lanes with a request for heads at once */
    SCHEDULER_ID_BYTES = 16             /* a UUID in binary form */
};

/* A lane's id is formed from the ids of its group, its set of handlers and its workspace:
 *
 *   bits 47 to 62  group, from 1 on       bit 31        its items need an engine of the kind `temporal`
 *   bits 32 to 46  handler set, 0 = none  bits 0 to 30  workspace, from 1 on
 *
 * Bits 31 to 46 are the demand. */
enum { GROUP_ID_MOST = 65535, HANDLER_SET_MOST = 32767, DEMAND_ON_TEMPORAL = 1, LANE_DEMAND_BIT = 31, LANE_GROUP_BIT = 47 };
#define LANE_ON_TEMPORAL (INT64_C(1) << LANE_DEMAND_BIT)
/* The lane of an item that needs an engine for steps and no handlers. */
static inline int64_t lane_id_of(int64_t group_id, int64_t workspace_id)
{
    return (int64_t)((uint64_t)group_id << LANE_GROUP_BIT | (uint64_t)workspace_id);
}
static inline int64_t demand_of(int64_t handler_set, bool on_temporal)
{
    return 2 * handler_set + (on_temporal ? DEMAND_ON_TEMPORAL : 0);
}
/* The same lane for another demand. */
static inline int64_t lane_for_demand(int64_t lane_id, int64_t demand)
{
    return lane_id | (int64_t)((uint64_t)demand << LANE_DEMAND_BIT);
}
static inline int64_t lane_demand(int64_t lane_id)
{
    return (lane_id >> LANE_DEMAND_BIT) & (2 * HANDLER_SET_MOST + 1);
}
static inline int64_t lane_handler_set(int64_t lane_id)
{
    return lane_demand(lane_id) / 2;
}
static inline bool lane_is_on_temporal(int64_t lane_id)
{
    return (lane_id & LANE_ON_TEMPORAL) != 0;
}
static inline int64_t lane_group_id(int64_t lane_id)
{
    return lane_id >> LANE_GROUP_BIT;
}
static inline int64_t lane_workspace_id(int64_t lane_id)
{
    return lane_id & (LANE_ON_TEMPORAL - 1);
}
/* A pool's id is formed from the id of its group and the kind of its engines. */
static inline int64_t pool_id_of(int64_t group_id, bool on_temporal)
{
    return 2 * group_id + (on_temporal ? 1 : 0);
}
static inline int64_t lane_pool_id(int64_t lane_id)
{
    return pool_id_of(lane_group_id(lane_id), lane_is_on_temporal(lane_id));
}

/* --- facts --- */

enum schedule_fact_kind {
    FACT_RUNNABLE, /* lane_id, rank, id: the lane may have runnable items of this rank or higher that were not read yet.
                      With an id that is not 0 it has this one more, and no other */
    FACT_HELD,     /* lane_id, node_id, slots, node_held: deltas of the workspace's held slots and of the node's items. With
                      slots = 0 it may be of several lanes: lane_id is not read */
    FACT_WORKSPACE,  /* workspace_id, slots_max, weight, paused, exists: replaces its known limits */
    FACT_WORKSPACES, /* limits of any workspace may have changed: they are unknown until they are read again */
    FACT_GROUP,      /* group_id, paused: replaces */
    FACT_QUEUE,      /* paused: of the whole queue; replaces */
    FACT_NODES,      /* begins a complete list of nodes: a node that no FACT_NODE names before the next FACT_NODES_END gets
                        nothing more. It is forgotten when FACT_HELD has taken back all that it holds */
    FACT_NODE,       /* node_id, group_id, on_temporal, target_id, capacity, accepts: replaces; `node_held` is kept */
    FACT_NODE_HANDLERS, /* node_id, handler_set: a node that was listed before has all handlers of the set. Of a set that no
                           such fact names before FACT_NODES_END it has not */
    FACT_NODES_END,
    FACT_SUSPECTS,    /* begins a complete list of the held items without a node and of those on trial */
    FACT_HANDED_OVER, /* id, lane_id, target_id, suspicion, since_us: a held item without a node waits to be taken over. Its
                         slot stays taken */
    FACT_SUSPECT,     /* id, lane_id, node_id, target_id, suspicion, since_us: a node holds it since then, and it may be on
                         trial */
    FACT_SUSPECTS_END, /* an item that was not listed is forgotten */
    FACT_PASS,         /* lane_id, pass: where the lane's stride stood when the books were published. While loading only */
    FACT_NEWS          /* for the loop, ignored here: `flags` names the reads to make (enum schedule_need) */
};

enum schedule_need {
    NEED_STATE = 1 << 0,       /* groups, nodes, pause of the queue */
    NEED_HANDED_OVER = 1 << 1, /* held items without a node, and suspects */
    NEED_DUE = 1 << 2,         /* `due_us` (store time): waiting items become due then */
    NEED_NOTHING = 1 << 3 /* nothing to read: executions have ended that used no slot, and the duties look at their ends */
};

struct schedule_fact {
    enum schedule_fact_kind kind;
    unsigned flags; /* FACT_NEWS: bits of enum schedule_need */
    int64_t lane_id;
    int64_t workspace_id;
    int64_t group_id;
    int64_t node_id;
    int64_t slots;     /* FACT_HELD: +1 taken, -1 given back */
    int64_t node_held; /* FACT_HELD */
    int64_t target_id; /* FACT_NODE, FACT_HANDED_OVER: see below; 0 = none */
    int64_t handler_set;
    int64_t slots_max;
    int64_t capacity; /* FACT_NODE: items that the node can hold at once, those that it holds included */
    int64_t rank;
    int64_t pass;
    int64_t due_us;
    int64_t since_us;  /* HANDED_OVER: death of its node; SUSPECT: its assignment. On the clock of the caller's `now_us` */
    int64_t suspicion; /* queue/suspicion.h */
    int weight;
    bool paused;
    bool on_temporal; /* FACT_NODE: its engine runs definitions with `temporal:`, else those with steps */
    bool
        accepts; /* FACT_NODE: alive, not paused, draining or stopping; an engine that is not reached lowers its capacity */
    bool exists; /* FACT_WORKSPACE: false = no such workspace; its lanes are reported by scheduler_orphans() */
    uint8_t id[SCHEDULER_ID_BYTES];
};

/* --- heads --- */

struct schedule_head {
    int64_t rank;
    uint8_t id[SCHEDULER_ID_BYTES];
};

/* A request for the next heads of a lane: at most `most` runnable items with (rank, id) > (after_rank, after_id), in that
 * order. The store fills the lower part. */
struct lane_read {
    int64_t lane_id;
    int64_t after_rank;
    uint8_t after_id[SCHEDULER_ID_BYTES];
    size_t most;
    /* out */
    const struct schedule_head *heads;
    size_t count;
    bool is_all; /* no runnable item of the lane lies behind the last head */
    /* The limits of its workspace, read together with the heads. */
    bool workspace_exists;
    bool workspace_paused;
    int64_t slots_max;
    int weight;
};

/* --- assignments --- */

enum assignment_outcome {
    ASSIGNMENT_TAKEN,   /* the row is held by the node: slot and capacity stay taken */
    ASSIGNMENT_GONE,    /* the item was not pending any more (or not without a node): slot and capacity return, the item is
                           forgotten */
    ASSIGNMENT_LOCKED,  /* another transaction holds the row: slot and capacity return; the item is read again later */
    ASSIGNMENT_NO_NODE, /* the node lives no more, or its row is locked. Slot and capacity return, and the item is the
                           lane's head again. The node gets nothing until it is listed again */
    ASSIGNMENT_BEHIND,  /* an earlier item of its lane had no node in this set, and it must not go before that one: as
                           NO_NODE, but its own node goes on */
    ASSIGNMENT_UNDONE /* nothing of the set was changed (stale facts): slot and capacity return, the item is the lane's head
                         again */
};

struct assignment {
    uint8_t id[SCHEDULER_ID_BYTES];
    int64_t rank;
    int64_t lane_id;
    int64_t node_id;
    bool handed_over;      /* it holds its slot already */
    bool others_wait;      /* its workspace is full with it, and its lane has more */
    int64_t slot_since_us; /* when its workspace, being full, got a free slot last, as far as known; else 0 */
    int64_t resumed_us;    /* when a pause of its workspace, group or queue ended last; likewise */
    int64_t since_us;      /* set by the store: TAKEN for the first time: store time from which it could run; else 0 */
    enum assignment_outcome outcome; /* set by the store */
};

/* --- life --- */

struct scheduler;

WEIR_MUST_CHECK enum weir_status scheduler_open(struct scheduler **ret_scheduler);
/* Takes NULL. */
void scheduler_close(struct scheduler *scheduler);
/* Forgets everything. */
void scheduler_clear(struct scheduler *scheduler);

WEIR_MUST_CHECK enum weir_status scheduler_learn(struct scheduler *scheduler, const struct schedule_fact *fact);
/* The lanes with heads to read next, most urgent first. They may be served soon, have a window that runs low, and may
 * have more items in the store. At most `most`. */
size_t scheduler_request_reads(struct scheduler *scheduler, int64_t now_us, struct lane_read *reads, size_t most);
/* The store's answer to one read. Facts that the store sent with the same answer are learnt afterwards, never before. Heads
 * without a request may follow when no read of their lane is under way. */
WEIR_MUST_CHECK enum weir_status scheduler_take_heads(struct scheduler *scheduler, const struct lane_read *read);

/* Assigns up to `limit` items in stride order and takes their slots and the capacity of the nodes. Items that are handed
 * over come first: they need no slot, and a pause does not stop them. Suspects among them wait for a node on which they
 * may be tried (queue/suspicion.h). `own_node_id` is preferred while it has free capacity; `own_free_capacity` is that of
 * its engine, which is newer than its row. Between two calls FACT_HELD and outcomes change it by the slots that they give
 * back; when it grows for another reason, call again. Returns how many were written to `assignments`. No allocation.
 * Settle all of them before the next call. */
size_t scheduler_assign(struct scheduler *scheduler, int64_t now_us, int64_t own_node_id, size_t own_free_capacity,
                        struct assignment *assignments, size_t limit);
/* For the following calls of scheduler_assign(): `keeps` = an item that the own node can run goes to no other node, also
 * when the call has used up `own_free_capacity`. It stays the first of its lane. Without effect while the own node accepts
 * nothing. */
void scheduler_keep_for_own(struct scheduler *scheduler, bool keeps);
/* The outcome of one assignment. For a set that was undone: in reverse order. */
void scheduler_settle(struct scheduler *scheduler, int64_t now_us, const struct assignment *assignment);

/* An offer for a lone item: what the next scheduler_assign() would do if the news until then were nothing but one enqueue.
 * It lets the store assign the item in the call that reads its news. An item of a lane with one of `kinds` goes to
 * `node_id`, if its workspace is not paused and has a slot besides those that it holds. Workspaces that are not listed hold
 * none. */
enum { LONE_KINDS_MOST = 16, LONE_WORKSPACES_MOST = 64 };
struct lone_offer {
    int64_t node_id;                /* 0 = no offer: another item waits, or may wait */
    int64_t kinds[LONE_KINDS_MOST]; /* ids of lanes without the bits of their workspace, shifted to the right */
    size_t kind_count;
    int64_t workspaces[LONE_WORKSPACES_MOST];
    int64_t held[LONE_WORKSPACES_MOST];
    size_t workspace_count;
};
/* Follows a scheduler_assign() without assignments, and a scheduler_request_reads() without reads. When the store has made
 * use of the offer: learn the news, take its heads, then scheduler_assign() with a limit of 1 and the same free capacity.
 * It chooses the same item and node, or the caller must clear the scheduler. */
void scheduler_offer_lone(const struct scheduler *scheduler, struct lone_offer *ret_offer);

/* --- questions of the loop --- */

/* Whether scheduler_assign() or scheduler_request_reads() may return something now. It may have false positives until both
 * were called, never false negatives. */
bool scheduler_has_work(const struct scheduler *scheduler, int64_t now_us);
/* When it may have work again without new facts: locked items that are read again, trials that end, items in quarantine
 * that have waited long enough. TIME_NEVER = only by facts. */
int64_t scheduler_next_us(const struct scheduler *scheduler);
/* Bits of enum schedule_need that should be read again: the end of a suspect may have been learnt. */
unsigned scheduler_needs(const struct scheduler *scheduler);
/* Lanes with items of a workspace that does not exist; at most `most`. scheduler_request_reads() reads them until they are
 * empty.
 */
size_t scheduler_orphans(const struct scheduler *scheduler, int64_t *lane_ids, size_t most);
/* Passes of lanes that changed since the last call, for the books; at most `most`, the rest by the next call. */
struct lane_pass {
    int64_t lane_id;
    int64_t pass;
};
size_t scheduler_take_passes(struct scheduler *scheduler, struct lane_pass *passes, size_t most);

struct scheduler_figures {
    size_t lanes;
    size_t heads;
    size_t nodes;
    int64_t held;
    size_t bytes; /* allocated */
};
void scheduler_figures(const struct scheduler *scheduler, struct scheduler_figures *ret_figures);
/* For tests: every internal invariant; false and a message when one is broken. */
bool scheduler_is_consistent(const struct scheduler *scheduler, char *message, size_t size);

#endif
