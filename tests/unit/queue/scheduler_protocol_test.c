/* Every interleaving of two schedulers, two nodes, a store and an operator, for small sizes.
 *
 * A step cannot be interrupted: a transaction of the store, or the work of a scheduler in memory between two of them.
 *
 *   scheduler i   take     a new epoch
 *                 load     all facts of the rows, and the point from which news is read, in one snapshot
 *                 decide   slots are taken in memory, reads are chosen
 *                 send     one transaction: epoch, unread acts, rows; reads and news in its snapshot
 *                 receive  its answer is learnt
 *                 lose     its answer, or the scheduler, is lost
 *   node          end, put back
 *   operator      pause, resume, cancel
 *
 * The schedulers are the real ones. The search runs each step from each state that it finds, and a state that was seen is
 * not searched again. To return to a state it repeats the steps that led there.
 *
 * Checked: no cap is exceeded, nothing is taken twice or after its end, nothing after a pause was acknowledged, nothing
 * by a former epoch, and no item is forgotten. The same search must find a fault in each of the broken protocols.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "queue/scheduler_internal.h"
#include "support/seed.h"
#include "support/test.h"

enum {
    AGENTS = 2, /* schedulers, each on a node of its own */
    ROWS_MOST = 4,
    NEWS_MOST = 64,
    DEPTH_MOST = 400,
    SET_MOST = 4,
    GROUP = 1,
    WORKSPACE = 1,
    SEEN_BITS = 19,
    SEEN_BITS_LONG = 25
};

enum fault {
    NO_FAULT,
    NO_EPOCH_CHECK,   /* an assignment is recorded under any epoch */
    NO_ACTS_CHECK,    /* an assignment is recorded although acts were not read */
    NO_STATE_CHECK,   /* an assignment is recorded in any state of the row */
    EARLY_RELEASE,    /* a slot is given back before its end is committed */
    UNDONE_IF_LOST,   /* a lost answer counts as if nothing was recorded */
    LOAD_BEFORE_TAKE, /* held rows are counted before the epoch is taken */
    NEWS_BEFORE_LOAD, /* news is read from a point before the snapshot of the rows */
    FAULTS
};
static const char *const fault_names[FAULTS] = {"none",          "no epoch check", "no acts check",    "no state check",
                                                "early release", "undone if lost", "load before take", "news before load"};

enum row_state { ROW_RUNNABLE, ROW_HELD, ROW_DONE };
struct row {
    enum row_state state;
    int64_t node_id;
    bool is_ending; /* EARLY_RELEASE: announced, not committed */
};

enum news_kind { NEWS_ENDED, NEWS_PUT_BACK, NEWS_ACT };
struct news {
    enum news_kind kind;
    int row;
    int64_t node_id;
};

enum stage { STAGE_NONE, STAGE_TAKEN, STAGE_READY, STAGE_DECIDED, STAGE_ANSWERED };
struct agent {
    enum stage stage;
    int epoch;
    bool has_position; /* NEWS_BEFORE_LOAD */
    bool has_facts;    /* LOAD_BEFORE_TAKE */
    int position;      /* news before it was read */
    struct assignment set[SET_MOST];
    size_t set_count;
    struct lane_read read;
    bool has_read;
    struct schedule_head heads[ROWS_MOST];
    bool is_stale; /* the answer: another epoch */
    int position_after;
};

struct sizes {
    int rows;
    int cap;
    int takes, losses, pauses, cancels, put_backs; /* how often each may happen */
};

struct world {
    struct row rows[ROWS_MOST];
    struct news news[NEWS_MOST];
    int news_count;
    int epoch;
    bool paused;
    struct sizes left;
    struct agent agents[AGENTS];
    const char *violation;
};

struct search {
    struct sizes sizes;
    enum fault fault;
    struct scheduler *schedulers[AGENTS];
    struct world world;
    int path[DEPTH_MOST];
    int depth;
    uint64_t *seen;
    size_t seen_mask;
    size_t states, steps;
};

/* Steps are numbers: the kind, and the object. */
enum step_kind {
    STEP_TAKE,
    STEP_POSITION,
    STEP_LOAD,
    STEP_DECIDE,
    STEP_SEND,
    STEP_RECEIVE,
    STEP_LOSE,
    STEP_END,
    STEP_PUT_BACK,
    STEP_CANCEL,
    STEP_ANNOUNCE,
    STEP_PAUSE,
    STEP_RESUME,
    STEP_KINDS
};

static int64_t node_of(int agent)
{
    return 100 + agent;
}

static int64_t the_lane(void)
{
    return lane_id_of(GROUP, WORKSPACE);
}

static struct schedule_head head_of(int row)
{
    struct schedule_head head = {.rank = row + 1};
    head.id[15] = (uint8_t)(row + 1);
    return head;
}

static void violate(struct search *s, const char *what)
{
    if (s->world.violation == NULL) {
        s->world.violation = what;
    }
}

static void learn(struct search *s, int agent, struct schedule_fact fact)
{
    if (scheduler_learn(s->schedulers[agent], &fact) != WEIR_OK) {
        violate(s, "memory and store disagree");
    }
}

static int count_held(const struct search *s)
{
    int held = 0;
    for (int i = 0; i < s->sizes.rows; i++) {
        held += s->world.rows[i].state == ROW_HELD ? 1 : 0;
    }
    return held;
}

static void add_news(struct search *s, enum news_kind kind, int row)
{
    assert_true(s->world.news_count < NEWS_MOST);
    s->world.news[s->world.news_count++] = (struct news){kind, row, s->world.rows[row].node_id};
}

/* --- the steps of a scheduler --- */

static void forget(struct search *s, int agent)
{
    scheduler_clear(s->schedulers[agent]);
    s->world.agents[agent] = (struct agent){.stage = STAGE_NONE};
}

static void learn_rows(struct search *s, int agent)
{
    bool is_runnable = false;
    learn(s, agent, (struct schedule_fact){.kind = FACT_NODES});
    for (int i = 0; i < AGENTS; i++) {
        learn(s, agent,
              (struct schedule_fact){
                  .kind = FACT_NODE, .node_id = node_of(i), .group_id = GROUP, .capacity = 2, .accepts = true});
    }
    learn(s, agent, (struct schedule_fact){.kind = FACT_NODES_END});
    for (int i = 0; i < s->sizes.rows; i++) {
        const struct row *row = &s->world.rows[i];
        is_runnable = is_runnable || row->state == ROW_RUNNABLE;
        if (row->state == ROW_HELD) {
            learn(s, agent,
                  (struct schedule_fact){
                      .kind = FACT_HELD, .lane_id = the_lane(), .node_id = row->node_id, .slots = 1, .node_held = 1});
        }
    }
    if (is_runnable) {
        learn(s, agent, (struct schedule_fact){.kind = FACT_RUNNABLE, .lane_id = the_lane(), .rank = INT64_MIN});
    }
}

static void load(struct search *s, int agent)
{
    struct agent *a = &s->world.agents[agent];
    if (s->fault != LOAD_BEFORE_TAKE && a->epoch != s->world.epoch) {
        forget(s, agent);
        return;
    }
    learn_rows(s, agent);
    a->position = a->has_position ? a->position : s->world.news_count;
    a->has_facts = true;
    a->stage = s->fault == LOAD_BEFORE_TAKE ? STAGE_NONE : STAGE_READY;
}

static void take(struct search *s, int agent)
{
    struct agent *a = &s->world.agents[agent];
    a->epoch = ++s->world.epoch;
    a->stage = a->has_facts ? STAGE_READY : STAGE_TAKEN;
}

static void decide(struct search *s, int agent)
{
    struct agent *a = &s->world.agents[agent];
    a->set_count = scheduler_assign(s->schedulers[agent], 0, node_of(agent), 1, a->set, SET_MOST);
    a->has_read = scheduler_request_reads(s->schedulers[agent], 0, &a->read, 1) == 1;
    a->stage = STAGE_DECIDED;
}

static void record(struct search *s, int agent, struct assignment *assignment)
{
    struct row *row = &s->world.rows[assignment->id[15] - 1];
    if (row->state != ROW_RUNNABLE && s->fault != NO_STATE_CHECK) {
        assignment->outcome = ASSIGNMENT_GONE;
        return;
    }
    if (row->state != ROW_RUNNABLE) {
        violate(s, "an item was taken that is held or has ended");
    }
    if (s->world.paused) {
        violate(s, "an item was taken after its pause");
    }
    if (s->world.agents[agent].epoch != s->world.epoch) {
        violate(s, "an item was taken by a former epoch");
    }
    row->state = ROW_HELD;
    row->node_id = assignment->node_id;
    assignment->outcome = ASSIGNMENT_TAKEN;
    if (count_held(s) > s->sizes.cap) {
        violate(s, "the cap was exceeded");
    }
}

static void answer_read(struct search *s, struct agent *a)
{
    a->read.count = 0;
    a->read.heads = a->heads;
    a->read.is_all = true;
    a->read.workspace_exists = true;
    a->read.workspace_paused = s->world.paused;
    a->read.slots_max = s->sizes.cap;
    a->read.weight = 1;
    for (int i = 0; i < s->sizes.rows; i++) {
        struct schedule_head head = head_of(i);
        struct schedule_head after = {.rank = a->read.after_rank};
        memcpy(after.id, a->read.after_id, sizeof after.id);
        if (s->world.rows[i].state == ROW_RUNNABLE && head_compare(&head, &after) > 0) {
            a->heads[a->read.count++] = head;
        }
    }
}

static void send(struct search *s, int agent)
{
    struct agent *a = &s->world.agents[agent];
    bool has_acts = false;
    a->stage = STAGE_ANSWERED;
    a->is_stale = a->epoch != s->world.epoch && s->fault != NO_EPOCH_CHECK;
    if (a->is_stale) {
        return;
    }
    for (int i = a->position; i < s->world.news_count; i++) {
        has_acts = has_acts || s->world.news[i].kind == NEWS_ACT;
    }
    for (size_t i = 0; i < a->set_count; i++) {
        a->set[i].outcome = ASSIGNMENT_UNDONE;
        if (!has_acts || s->fault == NO_ACTS_CHECK) {
            record(s, agent, &a->set[i]);
        }
    }
    if (a->has_read) {
        answer_read(s, a);
    }
    a->position_after = s->world.news_count;
}

static void learn_news(struct search *s, int agent, const struct news *news)
{
    struct schedule_fact held = {
        .kind = FACT_HELD, .lane_id = the_lane(), .node_id = news->node_id, .slots = -1, .node_held = -1};
    if (news->kind == NEWS_ACT) {
        /* The values are those of the answer's snapshot. A later act is news of its own. */
        learn(s, agent, (struct schedule_fact){.kind = FACT_WORKSPACES});
        return;
    }
    learn(s, agent, held);
    if (news->kind == NEWS_PUT_BACK) {
        learn(s, agent,
              (struct schedule_fact){.kind = FACT_RUNNABLE, .lane_id = the_lane(), .rank = head_of(news->row).rank});
    }
}

static void settle_all(struct search *s, int agent, bool as_undone)
{
    struct agent *a = &s->world.agents[agent];
    for (size_t i = a->set_count; i-- > 0;) {
        a->set[i].outcome = as_undone ? ASSIGNMENT_UNDONE : a->set[i].outcome;
        scheduler_settle(s->schedulers[agent], 0, &a->set[i]);
    }
    a->set_count = 0;
}

static void receive(struct search *s, int agent)
{
    struct agent *a = &s->world.agents[agent];
    char message[200];
    if (a->is_stale) {
        forget(s, agent);
        return;
    }
    settle_all(s, agent, false);
    if (a->has_read && scheduler_take_heads(s->schedulers[agent], &a->read) != WEIR_OK) {
        violate(s, "an answer was refused");
    }
    for (; a->position < a->position_after; a->position++) {
        learn_news(s, agent, &s->world.news[a->position]);
    }
    if (!scheduler_is_consistent(s->schedulers[agent], message, sizeof message)) {
        fail_msg("%s", message);
    }
    a->has_read = false;
    a->stage = STAGE_READY;
}

/* The answer of a transaction that may or may not have been committed is lost. */
static void lose(struct search *s, int agent)
{
    struct agent *a = &s->world.agents[agent];
    s->world.left.losses--;
    if (s->fault != UNDONE_IF_LOST || a->stage != STAGE_ANSWERED || a->is_stale) {
        forget(s, agent);
        return;
    }
    settle_all(s, agent, true);
    if (a->has_read) {
        answer_read(s, a);
        (void)!scheduler_take_heads(s->schedulers[agent], &a->read);
    }
    a->has_read = false;
    a->stage = STAGE_READY;
}

/* --- steps --- */

static bool agent_may(const struct search *s, enum step_kind kind, const struct agent *a)
{
    switch (kind) {
    case STEP_TAKE:
        return s->world.left.takes > 0 && a->stage == STAGE_NONE && (s->fault != LOAD_BEFORE_TAKE || a->has_facts);
    case STEP_POSITION:
        return s->fault == NEWS_BEFORE_LOAD && a->stage == STAGE_TAKEN && !a->has_position;
    case STEP_LOAD:
        return s->fault == LOAD_BEFORE_TAKE ? a->stage == STAGE_NONE && !a->has_facts && s->world.left.takes > 0
                                            : a->stage == STAGE_TAKEN;
    case STEP_DECIDE:
        return a->stage == STAGE_READY;
    case STEP_SEND:
        return a->stage == STAGE_DECIDED;
    case STEP_RECEIVE:
        return a->stage == STAGE_ANSWERED;
    case STEP_LOSE:
        return s->world.left.losses > 0 && a->stage != STAGE_NONE;
    default:
        return false;
    }
}

static bool row_may(const struct search *s, enum step_kind kind, const struct row *row)
{
    switch (kind) {
    case STEP_END:
        return row->state == ROW_HELD && (s->fault != EARLY_RELEASE || row->is_ending);
    case STEP_ANNOUNCE:
        return row->state == ROW_HELD && s->fault == EARLY_RELEASE && !row->is_ending;
    case STEP_PUT_BACK:
        return row->state == ROW_HELD && s->world.left.put_backs > 0 && !row->is_ending;
    case STEP_CANCEL:
        return row->state == ROW_RUNNABLE && s->world.left.cancels > 0;
    default:
        return false;
    }
}

/* A step's number is 4 * kind + place. */
static bool may(const struct search *s, int step)
{
    enum step_kind kind = (enum step_kind)(step / 4);
    int place = step % 4;
    if (kind <= STEP_LOSE) {
        return place < AGENTS && agent_may(s, kind, &s->world.agents[place]);
    }
    if (kind == STEP_PAUSE) {
        return place == 0 && !s->world.paused && s->world.left.pauses > 0;
    }
    if (kind == STEP_RESUME) {
        return place == 0 && s->world.paused;
    }
    return place < s->sizes.rows && row_may(s, kind, &s->world.rows[place]);
}

/* EARLY_RELEASE: the node reports the end to the schedulers before it is in the store. */
static void announce(struct search *s, int row)
{
    for (int i = 0; i < AGENTS; i++) {
        if (s->world.agents[i].stage >= STAGE_READY) {
            learn_news(s, i, &(struct news){NEWS_ENDED, row, s->world.rows[row].node_id});
        }
    }
    s->world.rows[row].is_ending = true;
}

static void change_row(struct search *s, enum step_kind kind, int place)
{
    struct row *row = &s->world.rows[place];
    switch (kind) {
    case STEP_END:
        if (s->fault != EARLY_RELEASE) {
            add_news(s, NEWS_ENDED, place);
        }
        row->state = ROW_DONE;
        break;
    case STEP_PUT_BACK:
        s->world.left.put_backs--;
        add_news(s, NEWS_PUT_BACK, place);
        row->state = ROW_RUNNABLE;
        break;
    case STEP_CANCEL:
        s->world.left.cancels--;
        row->state = ROW_DONE;
        break;
    default:
        announce(s, place);
        break;
    }
}

static void perform(struct search *s, int step)
{
    enum step_kind kind = (enum step_kind)(step / 4);
    int place = step % 4;
    switch (kind) {
    case STEP_TAKE:
        s->world.left.takes--;
        take(s, place);
        break;
    case STEP_POSITION:
        s->world.agents[place].has_position = true;
        s->world.agents[place].position = s->world.news_count;
        break;
    case STEP_LOAD:
        load(s, place);
        break;
    case STEP_DECIDE:
        decide(s, place);
        break;
    case STEP_SEND:
        send(s, place);
        break;
    case STEP_RECEIVE:
        receive(s, place);
        break;
    case STEP_LOSE:
        lose(s, place);
        break;
    case STEP_PAUSE:
    case STEP_RESUME:
        s->world.left.pauses -= kind == STEP_PAUSE ? 1 : 0;
        s->world.paused = kind == STEP_PAUSE;
        add_news(s, NEWS_ACT, 0);
        break;
    default:
        change_row(s, kind, place);
        break;
    }
}

static void start(struct search *s)
{
    memset(&s->world, 0, sizeof s->world);
    s->world.left = s->sizes;
    for (int i = 0; i < AGENTS; i++) {
        scheduler_clear(s->schedulers[i]);
    }
}

/* Returns to the state at the end of the path. */
static void repeat(struct search *s, int depth)
{
    start(s);
    for (int i = 0; i < depth; i++) {
        perform(s, s->path[i]);
    }
}

/* --- states --- */

static void mix(uint64_t *hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) {
        *hash = (*hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    *hash ^= *hash >> 29;
}

static void mix_number(uint64_t *hash, int64_t number)
{
    mix(hash, &number, sizeof number);
}

/* Passes are left out: a single lane has nothing to compare them with. */
static void mix_scheduler(uint64_t *hash, const struct scheduler *scheduler)
{
    const struct lane *lane = table_find(&scheduler->lanes, the_lane());
    const struct workspace *workspace = table_find(&scheduler->workspaces, WORKSPACE);
    mix_number(hash, lane == NULL ? -1 : lane->count);
    for (int i = 0; lane != NULL && i < lane->count; i++) {
        mix(hash, &lane->heads[lane->first + i], sizeof *lane->heads);
    }
    if (lane != NULL) {
        mix(hash, &lane->position, sizeof lane->position);
        mix_number(hash, lane->is_all + 2 * lane->is_being_read + 4 * lane->missed + 8 * (int64_t)lane->in_flight);
    }
    if (workspace != NULL) {
        mix_number(hash, workspace->known + 2 * workspace->paused + 4 * workspace->cap.held);
    }
    for (int i = 0; i < AGENTS; i++) {
        const struct node *node = table_find(&scheduler->nodes, node_of(i));
        mix_number(hash, node == NULL ? -1 : 100 * node->capacity + node->held);
    }
}

static void mix_agent(uint64_t *hash, const struct search *s, int agent)
{
    const struct agent *a = &s->world.agents[agent];
    mix_number(hash, (int64_t)a->stage + 8 * a->has_position + 16 * a->has_facts + 32 * a->is_stale);
    mix_number(hash, s->world.epoch - a->epoch);
    if (a->stage == STAGE_NONE && !a->has_facts) {
        return;
    }
    mix_scheduler(hash, s->schedulers[agent]);
    mix_number(hash, a->stage == STAGE_ANSWERED ? s->world.news_count - a->position_after : 0);
    for (int i = a->position; i < s->world.news_count; i++) {
        mix_number(hash, (int64_t)s->world.news[i].kind + 4 * s->world.news[i].row + 16 * s->world.news[i].node_id);
    }
    for (size_t i = 0; i < a->set_count; i++) {
        mix_number(hash, a->set[i].id[15] + 16 * (int64_t)a->set[i].outcome + 64 * a->set[i].node_id);
    }
    if (a->has_read) {
        mix_number(hash, a->read.after_rank);
        mix_number(hash, a->read.workspace_paused + 2 * (int64_t)a->read.count);
        for (size_t i = 0; a->stage == STAGE_ANSWERED && i < a->read.count; i++) {
            mix(hash, &a->heads[i], sizeof a->heads[i]);
        }
    }
}

static uint64_t hash_state(const struct search *s)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < s->sizes.rows; i++) {
        const struct row *row = &s->world.rows[i];
        mix_number(&hash, row->state + 4 * row->is_ending + 8 * (row->state == ROW_HELD ? row->node_id : 0));
    }
    mix(&hash, &s->world.left, sizeof s->world.left);
    mix_number(&hash, s->world.paused);
    for (int i = 0; i < AGENTS; i++) {
        mix_agent(&hash, s, i);
    }
    return hash == 0 ? 1 : hash;
}

/* Whether the state is new; then it counts as seen. */
static bool see(struct search *s, uint64_t hash)
{
    size_t at = (size_t)hash & s->seen_mask;
    while (s->seen[at] != 0) {
        if (s->seen[at] == hash) {
            return false;
        }
        at = (at + 1) & s->seen_mask;
    }
    s->seen[at] = hash;
    s->states++;
    assert_true(s->states < s->seen_mask / 2);
    return true;
}

/* An idle scheduler that has read all news knows of every item that could run. */
static void check_nothing_is_forgotten(struct search *s)
{
    for (int i = 0; i < AGENTS; i++) {
        const struct agent *a = &s->world.agents[i];
        bool is_idle = a->stage == STAGE_READY && a->epoch == s->world.epoch && a->position == s->world.news_count &&
                       !scheduler_has_work(s->schedulers[i], 0) && count_held(s) == 0 && !s->world.paused;
        for (int row = 0; row < s->sizes.rows && is_idle; row++) {
            if (s->world.rows[row].state == ROW_RUNNABLE) {
                violate(s, "an item was forgotten");
            }
        }
    }
}

/* --- the search --- */

/* The world is at the end of the path. */
static void explore(struct search *s)
{
    int depth = s->depth;
    bool is_here = true;
    for (int step = 0; step < 4 * STEP_KINDS && s->world.violation == NULL; step++) {
        if (!is_here) {
            repeat(s, depth);
            is_here = true;
        }
        if (!may(s, step)) {
            continue;
        }
        assert_true(depth < DEPTH_MOST);
        s->path[depth] = step;
        perform(s, step);
        is_here = false;
        s->steps++;
        check_nothing_is_forgotten(s);
        if (s->world.violation == NULL && see(s, hash_state(s))) {
            s->depth = depth + 1;
            explore(s);
            s->depth = s->world.violation == NULL ? depth : s->depth;
        }
    }
}

/* How the violation came about: kind and place of each step. */
static void print_path(const struct search *s)
{
    static const char *const names[STEP_KINDS] = {"take", "position", "load",   "decide",   "send",  "receive", "lose",
                                                  "end",  "put_back", "cancel", "announce", "pause", "resume"};
    for (int i = 0; i <= s->depth; i++) {
        (void)fprintf(stderr, "#   %s %d\n", names[s->path[i] / 4], s->path[i] % 4);
    }
}

static const char *run(enum fault fault, struct sizes sizes, size_t *ret_states)
{
    static struct search s;
    s = (struct search){.sizes = sizes, .fault = fault};
    s.seen_mask = ((size_t)1 << (test_is_long() ? SEEN_BITS_LONG : SEEN_BITS)) - 1;
    s.seen = calloc(s.seen_mask + 1, sizeof *s.seen);
    assert_non_null(s.seen);
    for (int i = 0; i < AGENTS; i++) {
        assert_int_equal(scheduler_open(&s.schedulers[i]), WEIR_OK);
    }
    start(&s);
    explore(&s);
    (void)fprintf(stderr, "# %s: %zu states, %zu steps: %s\n", fault_names[fault], s.states, s.steps,
                  s.world.violation == NULL ? "no violation" : s.world.violation);
    if (fault == NO_FAULT && s.world.violation != NULL) {
        print_path(&s);
    }
    for (int i = 0; i < AGENTS; i++) {
        scheduler_close(s.schedulers[i]);
    }
    free(s.seen);
    *ret_states = s.states;
    return s.world.violation;
}

static void no_interleaving_breaks_a_promise(void **state)
{
    (void)state;
    size_t states = 0;
    static const struct sizes small[] = {
        {.rows = 2, .cap = 1, .takes = 2, .losses = 1, .pauses = 0, .cancels = 0, .put_backs = 1},
        {.rows = 2, .cap = 1, .takes = 2, .losses = 0, .pauses = 1, .cancels = 1, .put_backs = 0},
        {.rows = 3, .cap = 2, .takes = 2, .losses = 0, .pauses = 0, .cancels = 0, .put_backs = 0},
    };
    static const struct sizes large[] = {
        {.rows = 2, .cap = 1, .takes = 3, .losses = 1, .pauses = 1, .cancels = 1, .put_backs = 1},
        {.rows = 3, .cap = 2, .takes = 2, .losses = 1, .pauses = 1, .cancels = 0, .put_backs = 1},
    };
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        assert_null(run(NO_FAULT, small[i], &states));
        assert_true(states > 100);
    }
    for (size_t i = 0; i < sizeof large / sizeof *large && test_is_long(); i++) {
        assert_null(run(NO_FAULT, large[i], &states));
    }
}

static void every_broken_protocol_is_found_out(void **state)
{
    (void)state;
    size_t states = 0;
    for (int fault = NO_FAULT + 1; fault < FAULTS; fault++) {
        struct sizes sizes = {.rows = 3, .cap = 1, .takes = 2, .losses = 1, .pauses = 1, .cancels = 1};
        assert_non_null(run((enum fault)fault, sizes, &states));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_interleaving_breaks_a_promise),
        cmocka_unit_test(every_broken_protocol_is_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
