/* A store driver between a node and the real one: calls that fail, answers that are lost after the commit, nodes that die
 * or fall asleep between two calls while the others go on. Clients get the same faults, without the deaths.
 *
 * It also tells the observer which verb changed what, so every change is checked as the deed of one call of one actor. */
#include <string.h>

#include "base/error.h"
#include "simulation/simulation.h"
#include "store/driver.h"

static const struct store_driver *real;
static struct simulation *owner;
static struct store_driver faulty;

enum fate { GOES_THROUGH, FAILS_BEFORE, IS_LOST_AFTER };

static struct simulated_node *caller(void)
{
    return owner->actor == OUTSIDE ? NULL : &owner->nodes[owner->actor];
}

static bool is_deaf(void)
{
    const struct simulated_node *node = caller();
    return owner->actor != OUTSIDE && (node->died || failed(owner));
}

/* The thread waits around its call while others go on: those of other nodes, and, unless the whole process is stopped,
 * those of its own node. */
static void maybe_sleep(void)
{
    struct simulated_node *node = caller();
    if (node == NULL || owner->calm || owner->depth > 0 || node->life != NODE_ALIVE || node->died ||
        !drawn(owner, owner->profile.sleeps_in_call)) {
        return;
    }
    int actor = owner->actor;
    const char *verb = owner->verb;
    const struct record *records = owner->records;
    size_t record_count = owner->record_count;
    int64_t steps = 1 + draw(owner, 40);
    say(owner, "%s waits around %s for %lld steps", node->name, verb, (long long)steps);
    owner->depth++;
    node->frozen = drawn(owner, 5000);
    for (int64_t i = 0; i < steps && !failed(owner); i++) {
        owner->actor = OUTSIDE;
        owner->verb = "";
        owner->records = NULL;
        owner->record_count = 0;
        world_step(owner);
    }
    node->frozen = false;
    owner->depth--;
    owner->actor = actor;
    owner->verb = verb;
    owner->records = records;
    owner->record_count = record_count;
}

static enum fate before(const char *verb, struct weir_error *error, enum weir_status *ret_status)
{
    struct simulated_node *node = caller();
    owner->verb = verb;
    *ret_status = WEIR_OK;
    maybe_sleep();
    if (node != NULL && !owner->calm && !node->died && drawn(owner, owner->profile.dies_in_call)) {
        world_kill(owner, node);
    }
    if (is_deaf()) {
        *ret_status = error_set(error, WEIR_STORE_UNREACHABLE, "the simulated node is dead");
        return FAILS_BEFORE;
    }
    if (owner->calm) {
        return GOES_THROUGH;
    }
    if (drawn(owner, owner->profile.store_fails)) {
        static const enum weir_status transient[] = {WEIR_STORE_BUSY, WEIR_STORE_FULL, WEIR_STORE_UNREACHABLE};
        owner->result->faults++;
        *ret_status = error_set(error, transient[draw(owner, 3)], "simulated: nothing was changed");
        return FAILS_BEFORE;
    }
    return drawn(owner, owner->profile.store_unknown) ? IS_LOST_AFTER : GOES_THROUGH;
}

static enum weir_status after(enum fate fate, enum weir_status status, struct weir_error *error)
{
    struct simulated_node *node = caller();
    observe(owner);
    maybe_sleep();
    owner->verb = "";
    if (node != NULL && !owner->calm && !node->died && drawn(owner, owner->profile.dies_in_call)) {
        world_kill(owner, node);
    }
    if (is_deaf()) {
        return error_set(error, WEIR_STORE_UNREACHABLE, "the simulated node is dead");
    }
    if (fate == IS_LOST_AFTER && status == WEIR_OK) {
        owner->result->faults++;
        return error_set(error, WEIR_COMMIT_UNKNOWN, "simulated: the answer to the commit was lost");
    }
    return status;
}

#define THROUGH(verb, invocation)                                                                                          \
    do {                                                                                                                   \
        enum weir_status status;                                                                                           \
        enum fate fate = before(verb, error, &status);                                                                     \
        if (fate == FAILS_BEFORE) {                                                                                        \
            return status;                                                                                                 \
        }                                                                                                                  \
        status = (invocation);                                                                                             \
        return after(fate, status, error);                                                                                 \
    } while (0)

/* A call that only reads has no commit with an answer that could be lost. */
#define READS(verb, invocation)                                                                                            \
    do {                                                                                                                   \
        enum weir_status status;                                                                                           \
        if (before(verb, error, &status) == FAILS_BEFORE) {                                                                \
            return status;                                                                                                 \
        }                                                                                                                  \
        status = (invocation);                                                                                             \
        return after(GOES_THROUGH, status, error);                                                                         \
    } while (0)

/* --- the verbs --- */

static enum weir_status faulty_open_again(const struct store *store, struct store **ret_store, struct weir_error *error)
{
    enum weir_status status = real->open_again(store, ret_store, error);
    if (status == WEIR_OK) {
        (*ret_store)->driver = &faulty;
    }
    return status;
}

static enum weir_status faulty_enqueue(struct store *store, const struct enqueue_request *requests, size_t count,
                                       struct enqueue_result *results, struct weir_error *error)
{
    const struct mutant *mutant = owner->options.mutant;
    if (mutant != NULL && mutant->enqueue != NULL) {
        THROUGH("enqueue", mutant->enqueue(owner, store, requests, count, results, error));
    }
    THROUGH("enqueue", real->enqueue(store, requests, count, results, error));
}

static enum weir_status faulty_role(struct store *store, const struct role_request *request, struct role_state *ret_state,
                                    struct weir_error *error)
{
    THROUGH("role", real->role(store, request, ret_state, error));
}

/* The news that this round has read lets the next one keep the order of all that was runnable by now. */
static void note_round(const struct schedule_call *call)
{
    struct simulated_node *node = caller();
    if (node != NULL) {
        node->nodes_seen = node->news_seen_epoch == call->epoch ? node->news_seen : 0;
        node->news_seen_epoch = call->epoch;
        node->news_seen = owner->changes_seen;
    }
}

static bool is_cut_short(const struct schedule_call *call)
{
    bool is = false;
    for (size_t i = 0; i < call->assignment_count; i++) {
        is = is || call->assignments[i].outcome != ASSIGNMENT_TAKEN;
    }
    return is;
}

static enum weir_status faulty_schedule(struct store *store, struct schedule_call *call, struct arena *arena,
                                        struct schedule_answer *ret_answer, struct weir_error *error)
{
    const struct mutant *mutant = owner->options.mutant;
    struct schedule_answer answer = {.next_due_us = TIME_NEVER};
    enum weir_status status;
    enum fate fate = before("schedule", error, &status);
    if (fate == FAILS_BEFORE) {
        return status;
    }
    status = mutant != NULL && mutant->schedule != NULL ? mutant->schedule(owner, store, call, arena, &answer, error)
                                                        : real->schedule(store, call, arena, &answer, error);
    owner->is_cut_short = is_cut_short(call);
    observe(owner);
    if (status == WEIR_OK) {
        note_round(call);
    }
    status = after(fate, status, error);
    if (status == WEIR_OK) {
        *ret_answer = answer;
    }
    return status;
}

static enum weir_status faulty_publish_books(struct store *store, int64_t node_id, int64_t epoch,
                                             const struct lane_pass *passes, size_t count, bool *ret_more,
                                             struct weir_error *error)
{
    THROUGH("publish_books", real->publish_books(store, node_id, epoch, passes, count, ret_more, error));
}

static enum weir_status faulty_inbox(struct store *store, int64_t node_id, struct inbox_position *position, size_t limit,
                                     struct arena *arena, struct inbox *ret_inbox, struct weir_error *error)
{
    READS("inbox", real->inbox(store, node_id, position, limit, arena, ret_inbox, error));
}

static enum weir_status faulty_record(struct store *store, int64_t node_id, struct record *records, size_t count,
                                      struct record_summary *ret_summary, struct weir_error *error)
{
    const struct mutant *mutant = owner->options.mutant;
    struct record_summary summary = {0};
    enum weir_status status;
    enum fate fate = before("record", error, &status);
    if (fate == FAILS_BEFORE) {
        return status;
    }
    owner->records = records;
    owner->record_count = count;
    status = mutant != NULL && mutant->record != NULL
                 ? mutant->record(owner, store, node_id, records, count, &summary, error)
                 : real->record(store, node_id, records, count, &summary, error);
    status = after(fate, status, error);
    owner->records = NULL;
    owner->record_count = 0;
    if (status == WEIR_OK) {
        *ret_summary = summary;
    }
    return status;
}

static enum weir_status note_life(enum weir_status status, const int64_t *node_id)
{
    struct simulated_node *node = caller();
    if (status == WEIR_OK && node != NULL) {
        INVARIANT(owner->life_count < LIVES_MOST);
        owner->lives[owner->life_count++] = (struct simulated_life){.id = *node_id,
                                                                    .node = node->index,
                                                                    .generation = node->generation,
                                                                    .machine = node->machine,
                                                                    .pool = world_pool(node)};
    }
    return status;
}

static enum weir_status faulty_write_logs(struct store *store, const struct log_chunk *chunks, size_t count,
                                          struct weir_error *error)
{
    THROUGH("write_logs", real->write_logs(store, chunks, count, error));
}

static enum weir_status faulty_write_progress(struct store *store, const struct progress_record *records, size_t count,
                                              struct weir_error *error)
{
    THROUGH("write_progress", real->write_progress(store, records, count, error));
}

static enum weir_status faulty_purge_logs(struct store *store, int64_t before_us, size_t limit, int64_t *ret_removed,
                                          struct weir_error *error)
{
    THROUGH("purge_logs", real->purge_logs(store, before_us, limit, ret_removed, error));
}

static enum weir_status faulty_node_start(struct store *store, const struct node_options *options, int64_t *ret_node_id,
                                          struct weir_error *error)
{
    THROUGH("node_start", note_life(real->node_start(store, options, ret_node_id, error), ret_node_id));
}

static enum weir_status faulty_node_target(struct store *store, int64_t node_id, const struct engine_target *target,
                                           struct weir_error *error)
{
    THROUGH("node_target", real->node_target(store, node_id, target, error));
}

static enum weir_status faulty_node_handlers(struct store *store, int64_t node_id, const struct node_handlers *handlers,
                                             bool *ret_more, struct weir_error *error)
{
    THROUGH("node_handlers", real->node_handlers(store, node_id, handlers, ret_more, error));
}

static enum weir_status faulty_node_beat(struct store *store, int64_t node_id, struct node_beat *beat,
                                         struct weir_error *error)
{
    THROUGH("node_beat", real->node_beat(store, node_id, beat, error));
}

static enum weir_status faulty_node_stop(struct store *store, int64_t node_id, bool graceful, struct weir_error *error)
{
    THROUGH("node_stop", real->node_stop(store, node_id, graceful, error));
}

/* As dispatch/life.h: only the machine that a process ran on can show its death. All rows have the same boot id and the
 * same process id, so the store asks about nodes of other machines as well. */
static bool is_gone_here(const struct node_neighbour *neighbour)
{
    const struct simulated_node *asker = caller();
    for (size_t i = 0; i < owner->life_count; i++) {
        const struct simulated_life *life = &owner->lives[i];
        if (life->id == neighbour->id) {
            return life->is_over && asker != NULL && life->machine == asker->machine && life->keeper_us <= owner->boot_us;
        }
    }
    return false;
}

static enum weir_status faulty_recover(struct store *store, const struct recover_options *options,
                                       struct recover_result *ret_result, struct weir_error *error)
{
    const struct mutant *mutant = owner->options.mutant;
    if (mutant != NULL && mutant->recover != NULL) {
        THROUGH("recover", mutant->recover(owner, store, options, ret_result, error));
    }
    struct recover_options seen = *options;
    if (owner->options.store == SIMULATED_POSTGRES && seen.node_id != 0) {
        seen.is_gone = is_gone_here;
    }
    THROUGH("recover", real->recover(store, &seen, ret_result, error));
}

static enum weir_status faulty_take_requests(struct store *store, int64_t node_id, struct arena *arena,
                                             struct node_request **ret_requests, size_t *ret_count, bool *ret_more,
                                             struct weir_error *error)
{
    THROUGH("take_requests", real->take_requests(store, node_id, arena, ret_requests, ret_count, ret_more, error));
}

static enum weir_status faulty_bulk(struct store *store, enum bulk_act act, const struct act_order *order,
                                    const struct execution_filter *filter, const char *behind, size_t limit,
                                    struct bulk_result *ret_result, struct weir_error *error)
{
    THROUGH("bulk", real->bulk(store, act, order, filter, behind, limit, ret_result, error));
}

static enum weir_status faulty_signal(struct store *store, const struct signal_request *request,
                                      struct sent_signal *ret_sent, struct weir_error *error)
{
    THROUGH(request->update != NULL ? "update" : "signal", real->signal(store, request, ret_sent, error));
}

static enum weir_status faulty_lock(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    THROUGH("lock", real->lock(store, request, error));
}

static enum weir_status faulty_lock_extend(struct store *store, const struct lock_request *request,
                                           struct weir_error *error)
{
    THROUGH("lock_extend", real->lock_extend(store, request, error));
}

static enum weir_status faulty_unlock(struct store *store, const struct lock_request *request, struct weir_error *error)
{
    THROUGH("unlock", real->unlock(store, request, error));
}

static enum weir_status faulty_read_definition(struct store *store, int64_t definition_id, struct arena *arena,
                                               struct definition_text *ret_definition, struct weir_error *error)
{
    READS("read_definition", real->read_definition(store, definition_id, arena, ret_definition, error));
}

static enum weir_status faulty_read_due_schedules(struct store *store, struct arena *arena, struct due_schedules *ret_due,
                                                  struct weir_error *error)
{
    if (!owner->profile.is_scheduled) {
        return real->read_due_schedules(store, arena, ret_due, error); /* no draw: seeds of other fleets stay as they are */
    }
    enum weir_status status;
    if (before("read_due", error, &status) == FAILS_BEFORE) {
        return status;
    }
    status = real->read_due_schedules(store, arena, ret_due, error);
    if (status == WEIR_OK) {
        schedules_note_look(owner, ret_due);
    }
    return after(GOES_THROUGH, status, error);
}

/* Between these two nothing else runs: a sleep is before or behind both. */
static enum weir_status faulty_advance_schedule(struct store *store, struct schedule_advance *advance,
                                                struct weir_error *error)
{
    const struct mutant *mutant = owner->options.mutant;
    enum weir_status status;
    enum fate fate = before("advance", error, &status);
    if (fate == FAILS_BEFORE) {
        return status;
    }
    schedules_expect_advance(owner, advance);
    status = mutant != NULL && mutant->advance != NULL ? mutant->advance(owner, store, advance, error)
                                                       : real->advance_schedule(store, advance, error);
    observe(owner);
    schedules_check(owner, status);
    return after(fate, status, error);
}

static enum weir_status faulty_read_schedule_firings(struct store *store, struct arena *arena,
                                                     struct schedule_firings *ret_firings, struct weir_error *error)
{
    READS("read_firings", real->read_schedule_firings(store, arena, ret_firings, error));
}

static enum weir_status faulty_settle_schedule_firings(struct store *store, struct schedule_outcome *outcomes, size_t count,
                                                       struct weir_error *error)
{
    enum weir_status status;
    enum fate fate = before("settle", error, &status);
    if (fate == FAILS_BEFORE) {
        return status;
    }
    schedules_expect_settlement(owner, outcomes, count);
    status = real->settle_schedule_firings(store, outcomes, count, error);
    observe(owner);
    schedules_check_settlement(owner, status);
    return after(fate, status, error);
}

static enum weir_status faulty_advance_children(struct store *store, struct children_advance *ret_advance,
                                                struct weir_error *error)
{
    const struct mutant *mutant = owner->options.mutant;
    struct children_advance advance = {.again = false};
    if (!owner->profile.has_children) {
        return real->advance_children(store, ret_advance, error); /* no draw: seeds of other fleets stay as they are */
    }
    enum weir_status status;
    enum fate fate = before("advance_children", error, &status);
    if (fate == FAILS_BEFORE) {
        return status;
    }
    status = mutant != NULL && mutant->advance_children != NULL ? mutant->advance_children(owner, store, &advance, error)
                                                                : real->advance_children(store, &advance, error);
    observe(owner);
    children_check_advance(owner, status, &advance);
    status = after(fate, status, error);
    if (status == WEIR_OK) {
        *ret_advance = advance;
    }
    return status;
}

void faulty_store_wrap(struct simulation *simulation, struct store *store)
{
    INVARIANT(owner == NULL || owner == simulation);
    owner = simulation;
    real = store->driver == &faulty ? real : store->driver;
    faulty = *real;
    faulty.open_again = faulty_open_again;
    faulty.enqueue = faulty_enqueue;
    faulty.role = faulty_role;
    faulty.schedule = faulty_schedule;
    faulty.publish_books = faulty_publish_books;
    faulty.inbox = faulty_inbox;
    faulty.record = faulty_record;
    faulty.write_logs = faulty_write_logs;
    faulty.write_progress = faulty_write_progress;
    faulty.purge_logs = faulty_purge_logs;
    faulty.node_start = faulty_node_start;
    faulty.node_target = faulty_node_target;
    faulty.node_handlers = faulty_node_handlers;
    faulty.node_beat = faulty_node_beat;
    faulty.node_stop = faulty_node_stop;
    faulty.recover = faulty_recover;
    faulty.take_requests = faulty_take_requests;
    faulty.bulk = faulty_bulk;
    faulty.signal = faulty_signal;
    faulty.lock = faulty_lock;
    faulty.lock_extend = faulty_lock_extend;
    faulty.unlock = faulty_unlock;
    faulty.read_definition = faulty_read_definition;
    faulty.read_due_schedules = faulty_read_due_schedules;
    faulty.advance_schedule = faulty_advance_schedule;
    faulty.read_schedule_firings = faulty_read_schedule_firings;
    faulty.settle_schedule_firings = faulty_settle_schedule_firings;
    faulty.advance_children = faulty_advance_children;
    store->driver = &faulty;
}

void faulty_store_forget(void)
{
    owner = NULL;
}
