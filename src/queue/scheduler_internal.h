/* Shared by the files of the scheduler: its objects, and the operations on lanes that facts, reads and assignments have in
 * common. For src/queue/scheduler*.c and their tests only; other code includes queue/scheduler.h.
 *
 *   pool  1 --- n  share  1 --- n  demand  1 --- n  lane  n --- 1  workspace (its cap is the first limit of its items)
 *   pool  1 --- n  node
 *   pool  1 --- n  handed queue (one per demand and target)  1 --- n  handed-over item
 *
 * A share has the demands of its pool that exactly the same nodes can serve (scheduler_demands.c). The lanes of a workspace
 * in one share have one pass. Each demand has two heaps of lanes, both by (pass, lane_id):
 *   HEAP_SERVE   lanes that can be served now: a head is known, and every limit has a free slot
 *   HEAP_READ    lanes with heads or limits to read, without a read under way
 *
 * A lane is in both when its window runs low, and in none while it has no items, or its workspace is full, paused or gone.
 * lane_place() alone decides this; it is called after every change of its inputs.
 *
 * The window of a lane: heads[first .. first + count), ascending by (rank, id), none behind `position`. Items behind
 * `position` have not been read. `is_all`: there are none. Items before `position` that are not in the window were
 * assigned, are gone, or wait for their retry.
 */
#ifndef WEIR_QUEUE_SCHEDULER_INTERNAL_H
#define WEIR_QUEUE_SCHEDULER_INTERNAL_H

#include "queue/scheduler.h"
#include "queue/scheduler_table.h"

enum {
    NODE_CHUNK_PART = 4,       /* of its capacity a node gets in a row, before the scheduler considers the next node */
    LANE_READ_LEAST = 4,       /* heads that a lane without history asks for */
    LANE_READ_SLOW_MOST = 64,  /* the size to which its reads grow while its window lasts for several rounds */
    LANE_FAST_CALLS = 2,       /* a window that was used up within so many calls of scheduler_assign() was too small */
    LANE_SLOW_CALLS = 16,      /* a window that lasted longer was too large */
    LANE_LOCKED_RUN_MOST = 20, /* locked items in a row, after which the lane rests until they are read again */
    IDLE_LANES_MOST = 1000,    /* lanes without items that are remembered for their pass */
    ORPHAN_READS_MOST = 16,    /* lanes of workspaces that do not exist, read again per call of scheduler_request_reads() */
    ITEM_LIMITS_MOST = 1       /* limits that one item counts against */
};
#define LOCKED_RETRY_US INT64_C(1000000)

/* At most `max` of the items that count against it are held at a time. `held` may be above a max that was lowered. */
struct limit {
    int64_t max;
    int64_t held;
};

/* The limits of one item. */
struct item_limits {
    struct limit *limits[ITEM_LIMITS_MOST];
    size_t count;
};

struct workspace {
    struct entry entry; /* key: workspace_id */
    struct limit cap;
    struct list lanes;
    int64_t quarantine_due_us; /* by suspects_place(): none of its items in quarantine is tried before */
    int32_t weight;
    int64_t slot_since_us; /* see struct assignment, as the next one */
    int64_t resumed_us;
    bool is_in_quarantine; /* likewise: one of them is on trial, or has a node that is emptied for it */
    bool known;            /* the cap's max, the weight and the flags below were read */
    bool exists;
    bool paused;
};

enum heap_kind { HEAP_SERVE, HEAP_READ, HEAP_KINDS };

struct lane_heap {
    uint32_t *lanes;
    uint32_t count;
    uint32_t capacity; /* never below the demand's number of lanes, so that no insertion allocates */
};

struct share {
    struct entry entry;  /* key: folded from the ids of its nodes */
    int64_t pass;        /* of the last turn served; lanes that come back start here */
    int64_t pass_before; /* before the last call of scheduler_assign() */
    struct list demands;
    struct link of_pool;
    uint32_t pool;
    uint32_t read_ahead; /* reads that are allowed while all nodes are full; each turn served earns one */
};

/* The lanes of a pool that need the same handlers. Never removed: sets of handlers are few. */
struct demand {
    struct entry entry; /* key: lane_id without its workspace, shifted to the right */
    struct lane_heap heaps[HEAP_KINDS];
    int64_t chunk_node_id; /* chunk_call: the next chunk_left items of this set go to this node */
    int64_t chunk_left;
    struct link of_share;
    struct link of_pool;
    uint32_t chunk_call; /* the call of scheduler_assign() to which the chunk belongs */
    uint32_t handler_set;
    uint32_t pool;
    uint32_t share;
    uint32_t lane_count;
};

struct pool {
    struct entry entry; /* key: pool_id_of() */
    struct list shares;
    struct list demands;
    struct list nodes;
    struct list handed_queues;
    struct list suspects;    /* handed-over items with a limit on trials, in the order of their arrival */
    struct list quarantined; /* those that need a node for themselves, likewise */
    /* By suspects_place(): */
    int64_t quarantine_wait_us;     /* for this long a node is emptied at most; doubles when that was in vain */
    int64_t quarantine_began_us;    /* the latest trial in quarantine that is under way; INT64_MIN = none is */
    int64_t quarantine_repeated_us; /* the latest of these that is not the first one of its item */
    int64_t quarantine_held_us;     /* an item waits for its distance from the trial that began then */
    int64_t quarantine_nodes;       /* nodes that are emptied or have their item */
    int64_t resumed_us;             /* when the pause of its group ended last; 0 = not known */
    bool paused;
};

/* A node that is emptied for an item in quarantine, and then has it on trial. */
struct quarantine {
    bool is_on;
    bool is_used;          /* it got its item */
    bool is_wanted;        /* an item waits for it; for the call of suspects_place() that is under way */
    int64_t since_us;      /* is_on */
    int64_t wait_us;       /* is_on: for this long it is emptied at most */
    int64_t rest_until_us; /* it is not emptied before */
};

struct node {
    struct entry entry; /* key: node_id */
    int64_t capacity;
    int64_t row_capacity; /* as FACT_NODE reported it; `capacity` of the own node follows its engine */
    int64_t held;
    int64_t target_id;
    struct link of_pool;
    uint64_t *handler_sets; /* a bit for each set of which it has all handlers */
    uint32_t handler_words; /* of `handler_sets` */
    uint32_t pool;          /* 0 = not known: it gets nothing */
    uint32_t list;          /* number of the last complete list of nodes that named it */
    bool accepts;
    /* By suspects_place(), for the call of scheduler_assign() that is under way and until the next: */
    bool is_closed;      /* has an item in quarantine, or is emptied for one: it gets nothing else */
    bool is_quarantine;  /* has an item in quarantine */
    int64_t trials;      /* suspects that are on trial here */
    int64_t trials_most; /* the least limit among these */
    struct quarantine quarantine;
};

/* The needs of an item: a node with this target and these handlers. Zeros: any node. */
struct need {
    int64_t target_id;
    uint32_t handler_set;
};

/* The items of a demand that wait for a node with the same target, in their order. Never removed: demands and targets are
 * few.
 */
struct handed_queue {
    struct entry entry; /* key: the demand's key, then the target id in the bits of the workspace */
    struct link of_pool;
    struct list items;
    uint32_t pool;
    uint32_t demand;
    struct need need;
};

/* HANDED_TRIED: a node holds the suspect. Any other item is forgotten when it was assigned. */
enum handed_state { HANDED_WAITS, HANDED_ASSIGNED, HANDED_LOCKED, HANDED_TRIED };

struct handed_item {
    struct entry entry; /* key: folded from the id */
    uint8_t id[SCHEDULER_ID_BYTES];
    int64_t lane_id;
    int64_t retry_us;
    int64_t node_id;   /* HANDED_ASSIGNED, HANDED_TRIED */
    int64_t since_us;  /* HANDED_TRIED: its assignment; else the death of its node */
    int64_t suspicion; /* queue/suspicion.h */
    uint64_t order;    /* HANDED_WAITS without a limit: over all queues of its pool */
    struct link link;  /* HANDED_WAITS: of its queue or its pool; HANDED_LOCKED, HANDED_TRIED: of the scheduler */
    uint32_t pool;
    uint32_t queue; /* its demand and target */
    uint32_t list;  /* number of the last complete list that named it */
    enum handed_state state;
};

enum lane_list { LANE_IN_NO_LIST, LANE_RETRIES, LANE_IDLE, LANE_ORPHANED, LANE_LISTS };

struct lane {
    struct entry entry; /* key: lane_id */
    int64_t pass;
    struct schedule_head position;
    int64_t retry_us; /* waits_retry: when its items from `locked_rank` on are read again */
    int64_t locked_rank;
    int64_t missed_rank; /* missed: the least rank of the facts that came while its read was under way */
    struct schedule_head *heads;
    uint16_t first;
    uint16_t count;
    uint16_t capacity;
    uint16_t read_size; /* heads that it asks for */
    uint32_t workspace;
    uint32_t demand;
    uint32_t at[HEAP_KINDS]; /* its place in the heap + 1; 0 = not in it */
    struct link of_workspace;
    struct link changed;  /* pass_changed: in the list of passes for the books */
    struct link in_list;  /* the list that `list` names */
    uint32_t in_flight;   /* assigned, not settled */
    uint32_t next_behind; /* is_behind: the next one in the list of these, 0 = none */
    uint32_t read_call;   /* number of the call of scheduler_assign() before its last read */
    uint8_t locked_run;
    uint8_t list; /* enum lane_list */
    bool is_all;
    bool active;        /* can be served or read as soon as its pool has free capacity */
    bool is_being_read; /* its read is under way */
    bool missed;
    bool waits_retry;
    bool rests;
    bool pass_changed;
    bool is_behind; /* it waits for the read of another lane: only within scheduler_assign() */
};

struct scheduler {
    struct table lanes;
    struct table workspaces;
    struct table pools;
    struct table shares;
    struct table demands;
    struct table nodes;
    struct table handed_queues;
    struct table handed_over;
    uint32_t *pool_order; /* indexes of pools, by id */
    size_t pool_order_capacity;
    struct list lists[LANE_LISTS];
    size_t list_counts[LANE_LISTS];
    struct list changed;
    struct list handed_retries;
    struct list tried;
    uint32_t behind; /* the first lane that is_behind, 0 = none */
    uint32_t suspect_list;
    int64_t suspects_read_us; /* when suspects_count() has them read again; TIME_NEVER = no trial needs it */
    int64_t suspects_next_us; /* when suspects_place() decides otherwise without new facts */
    bool suspects_changed;    /* something was learnt or settled since its last call */
    bool suspects_are_old;    /* a node with suspects holds less than when they were listed */
    bool has_closed_nodes;
    uint64_t handed_order; /* of the last item that began to wait */
    int64_t now_us;        /* of the last scheduler_assign() or scheduler_request_reads(): facts come soon after it */
    int64_t resumed_us;    /* when the pause of the queue ended last; 0 = not known */
    int64_t held;          /* slots, over all workspaces */
    size_t heads;
    size_t heads_most;       /* SCHEDULER_HEADS_MOST; tests make it smaller */
    uint32_t drop_next;      /* lane at which the search for a window to drop goes on */
    bool drop_round_is_vain; /* no window was dropped since it began a round */
    size_t bytes;
    int64_t own_node_id;
    bool keeps_for_own; /* scheduler_keep_for_own() */
    uint32_t call;      /* of scheduler_assign() */
    uint32_t node_list;
    bool queue_paused;
    bool passes_loaded; /* by FACT_PASS: lanes may be behind the pass of their share */
};

/* --- order --- */

/* By (rank, id): negative, 0 or positive. */
int head_compare(const struct schedule_head *a, const struct schedule_head *b);
/* The position before every item of the rank, and the one right before an item. */
struct schedule_head position_before_rank(int64_t rank);
struct schedule_head position_before(const struct schedule_head *item);

/* --- objects (scheduler_lanes.c) --- */

/* These find or create; NULL when memory is short. */
struct pool *pool_get(struct scheduler *scheduler, int64_t pool_id);
struct workspace *workspace_get(struct scheduler *scheduler, int64_t workspace_id);
struct lane *lane_get(struct scheduler *scheduler, int64_t lane_id, bool *ret_is_new);
struct workspace *lane_workspace(const struct scheduler *scheduler, const struct lane *lane);
struct demand *lane_demand_of(const struct scheduler *scheduler, const struct lane *lane);
struct share *lane_share(const struct scheduler *scheduler, const struct lane *lane);
/* Forget the object when it holds nothing and nothing refers to it. */
void workspace_forget_unused(struct scheduler *scheduler, struct workspace *workspace);
void node_forget_unused(struct scheduler *scheduler, struct node *node);
/* Forgets lanes without items: those with a pass that the share has reached, and the oldest above IDLE_LANES_MOST. */
void lanes_forget_idle(struct scheduler *scheduler);

/* --- limits --- */

struct item_limits item_limits_of(const struct scheduler *scheduler, const struct lane *lane);
bool limits_allow(const struct item_limits *limits);
/* One more item is held, or one less. */
void limits_take(struct scheduler *scheduler, const struct item_limits *limits);
void limits_release(struct scheduler *scheduler, const struct item_limits *limits);

/* --- lanes --- */

int64_t lane_stride(const struct scheduler *scheduler, const struct lane *lane);
/* Puts the lane into the heaps and lists where it belongs. A lane that was not active comes back at the pass
 * of its share, or at that of an active lane of its workspace there. */
void lane_place(struct scheduler *scheduler, struct lane *lane);
/* The same for all lanes of a workspace, after a change of its limits. */
void workspace_place(struct scheduler *scheduler, const struct workspace *workspace);
/* Also of the other lanes of its workspace in its share. */
void lane_set_pass(struct scheduler *scheduler, struct lane *lane, int64_t pass);
/* After FACT_PASS: no lane stays behind the pass of its share. */
void passes_settle(struct scheduler *scheduler);
/* Items behind `position` may exist that are not in the window: heads behind it are dropped. Places nothing. */
void lane_unread(struct scheduler *scheduler, struct lane *lane, const struct schedule_head *position);
/* Whether a read is worth its cost now. */
bool lane_is_low(const struct lane *lane);
/* Adjusts how many heads the lane asks for, after its window was used up. */
void lane_grow_reads(struct scheduler *scheduler, struct lane *lane);
/* Adds heads behind the window. WEIR_OUT_OF_MEMORY: nothing was added. */
WEIR_MUST_CHECK enum weir_status lane_append(struct scheduler *scheduler, struct lane *lane,
                                             const struct schedule_head *heads, size_t count);
/* Whether the item, which has become runnable, may be put into the window: all items before it are there or were used. */
bool lane_may_insert(const struct lane *lane, const struct schedule_head *item);
/* Puts it there, in the order of the lane. One that is there already is left. WEIR_OUT_OF_MEMORY: nothing was added. */
WEIR_MUST_CHECK enum weir_status lane_insert(struct scheduler *scheduler, struct lane *lane,
                                             const struct schedule_head *item);
/* Frees the memory of an empty window. */
void lane_free_window(struct scheduler *scheduler, struct lane *lane);
/* Drops windows of other lanes until the heads of all lanes fit. */
void heads_fit(struct scheduler *scheduler, struct lane *kept);

/* --- heaps (scheduler_heap.c) --- */

struct lane *heap_top(const struct scheduler *scheduler, const struct demand *demand, enum heap_kind kind);
bool lane_goes_before(const struct lane *a, const struct lane *b);
/* Puts the lane into the heap or takes it out. */
void heap_set(struct scheduler *scheduler, struct lane *lane, enum heap_kind kind, bool is_in);
/* Restores the order after a change of the lane's pass. */
void heap_move(struct scheduler *scheduler, struct lane *lane, enum heap_kind kind);
/* Restores the order after many changes. */
void heap_rebuild(struct scheduler *scheduler, struct demand *demand, enum heap_kind kind);
WEIR_MUST_CHECK bool heap_reserve(struct scheduler *scheduler, struct demand *demand, uint32_t lanes);

/* --- nodes --- */

/* The node is alive and willing, and its engine is reached. It may be full. */
static inline bool node_works(const struct node *node)
{
    return node->accepts && node->capacity > 0;
}

/* It accepts items, and no trial of a suspect keeps others away. */
static inline bool node_is_open(const struct node *node)
{
    return node->accepts && !node->is_closed;
}

static inline int64_t node_free_capacity(const struct node *node)
{
    return node_is_open(node) && node->capacity > node->held ? node->capacity - node->held : 0;
}

static inline bool node_has_handlers(const struct node *node, uint32_t handler_set)
{
    return handler_set == 0 ||
           (handler_set / 64 < node->handler_words && (node->handler_sets[handler_set / 64] >> handler_set % 64 & 1) != 0);
}

/* Whether the node can run items with this need: it can ask for their outcome, and has their handlers. */
static inline bool node_fits(const struct node *node, struct need need)
{
    return (need.target_id == 0 || node->target_id == need.target_id) && node_has_handlers(node, need.handler_set);
}

static inline struct node *next_node(const struct scheduler *scheduler, uint32_t index)
{
    return index == 0 ? NULL : (struct node *)table_at(&scheduler->nodes, index);
}

/* The node that gets the next item of the pool with this need, or NULL. */
struct node *best_node(const struct scheduler *scheduler, const struct pool *pool, struct need need);
/* Neither the group nor the queue is paused. */
static inline bool pool_runs(const struct scheduler *scheduler, const struct pool *pool)
{
    return !scheduler->queue_paused && !pool->paused;
}

/* --- demands (scheduler_demands.c) --- */

/* Finds or creates the demand of a lane, in the share of its nodes; NULL when memory is short. */
struct demand *demand_get(struct scheduler *scheduler, int64_t lane_id);
/* After a change of nodes or of their handlers: each demand of the pools goes to the share of its nodes.
 * WEIR_OUT_OF_MEMORY: some stay where they were. */
WEIR_MUST_CHECK enum weir_status demands_settle(struct scheduler *scheduler);
/* Whether a node of the demand has free capacity; with `or_full`: works at all. */
bool demand_has_node(const struct scheduler *scheduler, const struct demand *demand, bool or_full);
/* Another lane of the workspace in the share may have an earlier item that is not read; with `or_read`: or has one. */
bool lane_is_behind(const struct scheduler *scheduler, const struct lane *lane, bool or_read);
/* The lane of the share with the next turn, or NULL. Of one workspace the lane with the first item has it. Only within
 * scheduler_assign(), which ends with share_tops_return(). */
struct lane *share_top(struct scheduler *scheduler, const struct share *share);
void share_tops_return(struct scheduler *scheduler);
static inline struct share *next_share(const struct scheduler *scheduler, uint32_t index)
{
    return index == 0 ? NULL : (struct share *)table_at(&scheduler->shares, index);
}
static inline struct demand *next_demand(const struct scheduler *scheduler, uint32_t index)
{
    return index == 0 ? NULL : (struct demand *)table_at(&scheduler->demands, index);
}
/* The node has all handlers of the set. */
WEIR_MUST_CHECK enum weir_status node_add_handler_set(struct scheduler *scheduler, struct node *node, uint32_t handler_set);
void node_forget_handlers(struct scheduler *scheduler, struct node *node);

/* --- suspects (scheduler_suspects.c) --- */

/* The list in which the item waits: of its queue, or of its pool. */
struct list *handed_list(struct scheduler *scheduler, const struct handed_item *item);
/* Takes the item out of the list that its state names. */
void handed_unlink(struct scheduler *scheduler, struct handed_item *item);
/* Gives the item to the node. */
void handed_assign(struct scheduler *scheduler, struct handed_item *item, struct node *node, struct assignment *assignment);
/* The first step of scheduler_assign(): counts the trials of each node and decides which nodes get nothing else. */
void suspects_count(struct scheduler *scheduler, int64_t now_us);
/* Assigns suspects of the pool; at most `limit`. */
size_t suspects_place(struct scheduler *scheduler, struct pool *pool, int64_t now_us, struct assignment *assignments,
                      size_t limit);
/* Whether suspects_count() may decide otherwise than it did. */
bool suspects_have_work(const struct scheduler *scheduler);

/* --- handed-over items (scheduler.c) --- */

/* Finds or creates; NULL when memory is short. */
struct handed_queue *handed_queue_get(struct scheduler *scheduler, int64_t lane_id, int64_t target_id);
/* The item waits at the end of its list. */
void handed_append(struct scheduler *scheduler, struct handed_item *item);
struct handed_item *handed_find(const struct scheduler *scheduler, const uint8_t *id);
int64_t handed_key(const uint8_t *id);

#endif
