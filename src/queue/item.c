/* The states of an item, the legal moves, the pending reasons, the kinds of waits and the rank.
 *
 * All of it is data: X-macros in item.h give the enums, this file gives the names and the table of moves. Both stores write
 * the moves as SQL; the conformance suite compares every statement with this table. A new move needs a row here, the
 * statement in both stores, and docs/state_machine.md, which is printed from the table.
 *
 * Pure functions, callable in any thread. The names are on every surface (SQL, JSON, metrics) and never change.
 */
#include "queue/item.h"

#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "queue/limits.h"

/* A claim whose start has no answer stays CLAIMED and is sent again, so it has no move. An engine may report the dispatch
 * after the end, because reports come in any order. The end wins, and "dispatch" then finds no row. */
static const struct item_move moves[] = {
    {ITEM_PENDING, ITEM_CLAIMED, "claim", COUNTS_NOTHING},
    {ITEM_PENDING, ITEM_CANCELLED, "cancel", COUNTS_NOTHING},
    {ITEM_CLAIMED, ITEM_DISPATCHED, "dispatch", COUNTS_NOTHING},
    {ITEM_CLAIMED, ITEM_PENDING, "retry", COUNTS_ATTEMPT},
    {ITEM_CLAIMED, ITEM_PENDING, "defer", COUNTS_DEFERRAL},
    {ITEM_CLAIMED, ITEM_PENDING, "put_back", COUNTS_NOTHING},
    {ITEM_CLAIMED, ITEM_CLAIMED, "hand_over", COUNTS_HANDOVER},
    {ITEM_CLAIMED, ITEM_FAILED, "refuse", COUNTS_ATTEMPT},
    {ITEM_CLAIMED, ITEM_FAILED, "poison", COUNTS_HANDOVER},
    {ITEM_CLAIMED, ITEM_COMPLETED, "complete", COUNTS_NOTHING},
    {ITEM_CLAIMED, ITEM_FAILED, "fail", COUNTS_NOTHING},
    {ITEM_CLAIMED, ITEM_CANCELLED, "cancel", COUNTS_NOTHING},
    {ITEM_CLAIMED, ITEM_WAITING, "park", COUNTS_NOTHING},
    {ITEM_DISPATCHED, ITEM_WAITING, "park", COUNTS_NOTHING},
    {ITEM_DISPATCHED, ITEM_CLAIMED, "hand_over", COUNTS_HANDOVER},
    {ITEM_DISPATCHED, ITEM_FAILED, "poison", COUNTS_HANDOVER},
    {ITEM_DISPATCHED, ITEM_COMPLETED, "complete", COUNTS_NOTHING},
    {ITEM_DISPATCHED, ITEM_FAILED, "fail", COUNTS_NOTHING},
    {ITEM_DISPATCHED, ITEM_CANCELLED, "cancel", COUNTS_NOTHING},
    {ITEM_WAITING, ITEM_PENDING, "wake", COUNTS_NOTHING},
    {ITEM_WAITING, ITEM_CANCELLED, "cancel", COUNTS_NOTHING},
};

static const char *const state_names[] = {
#define STATE_NAME(id, name, terminal) [id] = name,
    ITEM_STATE_LIST(STATE_NAME)
#undef STATE_NAME
};

static const bool state_terminal[] = {
#define STATE_TERMINAL(id, name, terminal) [id] = terminal,
    ITEM_STATE_LIST(STATE_TERMINAL)
#undef STATE_TERMINAL
};

static const char *const reason_names[] = {
#define REASON_NAME(id, name, meaning) [id] = name,
    PENDING_REASON_LIST(REASON_NAME)
#undef REASON_NAME
};

static const char *const reason_meanings[] = {
#define REASON_MEANING(id, name, meaning) [id] = meaning,
    PENDING_REASON_LIST(REASON_MEANING)
#undef REASON_MEANING
};

static const char *const wait_names[] = {
#define WAIT_NAME(id, name, meaning) [id] = name,
    WAIT_KIND_LIST(WAIT_NAME)
#undef WAIT_NAME
};

static const char *const wait_meanings[] = {
#define WAIT_MEANING(id, name, meaning) [id] = meaning,
    WAIT_KIND_LIST(WAIT_MEANING)
#undef WAIT_MEANING
};

const struct item_move *item_moves(size_t *ret_count)
{
    INVARIANT(ret_count != NULL);
    *ret_count = sizeof moves / sizeof moves[0];
    return moves;
}

bool item_may_move(enum item_state from, enum item_state to)
{
    INVARIANT((unsigned)from < ITEM_STATE_COUNT && (unsigned)to < ITEM_STATE_COUNT);
    for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
        if (moves[i].from == from && moves[i].to == to) {
            return true;
        }
    }
    return false;
}

bool item_is_terminal(enum item_state state)
{
    INVARIANT((unsigned)state < ITEM_STATE_COUNT);
    return state_terminal[state];
}

const char *item_state_name(enum item_state state)
{
    INVARIANT((unsigned)state < ITEM_STATE_COUNT);
    return state_names[state];
}

bool item_state_is_held(const char *name)
{
    enum item_state state;
    return name != NULL && item_state_parse(name, &state) && (state == ITEM_CLAIMED || state == ITEM_DISPATCHED);
}

bool item_state_parse(const char *name, enum item_state *ret_state)
{
    INVARIANT(name != NULL && ret_state != NULL);
    for (size_t i = 0; i < ITEM_STATE_COUNT; i++) {
        if (strcasecmp(name, state_names[i]) == 0) {
            *ret_state = (enum item_state)i;
            return true;
        }
    }
    return false;
}

const char *pending_reason_name(enum pending_reason reason)
{
    INVARIANT((unsigned)reason < PENDING_REASON_COUNT);
    return reason_names[reason];
}

const char *pending_reason_meaning(enum pending_reason reason)
{
    INVARIANT((unsigned)reason < PENDING_REASON_COUNT);
    return reason_meanings[reason];
}

const char *wait_kind_name(enum wait_kind kind)
{
    INVARIANT((unsigned)kind < WAIT_KIND_COUNT);
    return wait_names[kind];
}

const char *wait_kind_meaning(enum wait_kind kind)
{
    INVARIANT((unsigned)kind < WAIT_KIND_COUNT);
    return wait_meanings[kind];
}

bool wait_kind_parse(const char *name, enum wait_kind *ret_kind)
{
    INVARIANT(ret_kind != NULL);
    for (size_t i = 0; name != NULL && i < WAIT_KIND_COUNT; i++) {
        if (strcmp(name, wait_names[i]) == 0) {
            *ret_kind = (enum wait_kind)i;
            return true;
        }
    }
    return false;
}

/* One level of priority is worth PRIORITY_AGEING_US of waiting. The rank is fixed at enqueue, so an item that waits long
 * passes newer ones of higher priority without any update. time_add() saturates: a rank never wraps around. */
int64_t item_rank(int64_t run_at_us, int priority)
{
    return time_add(run_at_us, -(int64_t)priority * PRIORITY_AGEING_US);
}
