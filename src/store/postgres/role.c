/* The role of the scheduler: one call of role() (functions/role.sql).
 *
 * The server decides and returns the outcome with the state of the role. A take increments the epoch, and the scheduler
 * names it in each round. The session that took the role is on record: when it ends, the role is free before the lease is
 * over. Behind a pooler a session proves nothing about a node, so none is recorded there.
 *
 * A lease is over when the handle has seen the role without a renewal for that time, by the boot clock. Both clocks that
 * may be set, the server's and the wall clock of this machine, have no part in it. A take names what the handle has seen,
 * and the server refuses it if the role was renewed since. After a restart or a restore of the server the take also names
 * for how long the handle has known this server (take_role()).
 *
 * This file never renews the lease (a round does). It runs in the dispatch thread. */
#include <string.h>

#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/postgres_store.h"

enum {
    STATE_OUTCOME,
    STATE_EPOCH,
    STATE_NODE_ID,
    STATE_NODE,
    STATE_SINCE,
    STATE_EXPIRES,
    STATE_NOW,
    STATE_FREE,
    STATE_TAKEOVERS,
    STATE_RENEWALS,
    STATE_LEASE,
    STATE_SERVER
};

static const char *const act_names[] = {[ROLE_READ] = "read", [ROLE_TAKE] = "take", [ROLE_LEAVE] = "leave"};

void role_watch_note(struct postgres_store *self, struct role_state *state, int64_t renewals, int64_t lease_us)
{
    INVARIANT(self != NULL && state != NULL);
    struct role_watch *watch = &self->role;
    int64_t now_us = clock_boot(self->store.clock);
    bool is_same_server = watch->server_since_us != 0 && strcmp(watch->server, state->server) == 0;
    if (!is_same_server) {
        text_copy(watch->server, sizeof watch->server, state->server);
        watch->server_since_us = now_us;
    }
    if (!is_same_server || watch->epoch != state->epoch || watch->renewals != renewals) {
        watch->epoch = state->epoch;
        watch->renewals = renewals;
        watch->lease_us = lease_us;
        watch->since_us = now_us;
    }
    int64_t silent_from_us = time_add(watch->since_us, watch->lease_us);
    state->is_free = state->is_free || now_us >= silent_from_us;
    state->free_from_us = state->is_free ? 0 : silent_from_us;
}

/* The state after the act. */
static struct role_state read_role_row(struct postgres_store *self, const PGresult *result)
{
    struct role_state state = {.epoch = result_int(result, 0, STATE_EPOCH),
                               .node_id = result_int(result, 0, STATE_NODE_ID),
                               .since_us = result_int(result, 0, STATE_SINCE),
                               .expires_us = result_int(result, 0, STATE_EXPIRES),
                               .now_us = result_int(result, 0, STATE_NOW),
                               .is_free = result_bool(result, 0, STATE_FREE),
                               .takeovers_hour = result_int(result, 0, STATE_TAKEOVERS)};
    text_copy(state.node, sizeof state.node, result_text(result, 0, STATE_NODE));
    text_copy(state.server, sizeof state.server, result_text(result, 0, STATE_SERVER));
    role_watch_note(self, &state, result_int(result, 0, STATE_RENEWALS), result_int(result, 0, STATE_LEASE));
    return state;
}

/* The outcomes of take_role() but 'ok'. */
static enum weir_status refuse_role(const char *outcome, const struct role_state *state, struct weir_error *error)
{
    if (strcmp(outcome, "unheard") == 0) {
        return error_set(error, WEIR_CONFLICT,
                         "the server was started, promoted or restored, and not every node has sent a "
                         "heartbeat since then; the role waits for each of them for its lease");
    }
    if (strcmp(outcome, "conflict") == 0) {
        return error_set(error, WEIR_CONFLICT, "the node %s schedules, under epoch %lld", state->node,
                         (long long)state->epoch);
    }
    return error_set(error, WEIR_STALE_FENCE, "this node is not alive for the store, or another node has taken the role");
}

enum weir_status postgres_role(struct store *store, const struct role_request *request, struct role_state *ret_state,
                               struct weir_error *error)
{
    INVARIANT(request != NULL && ret_state != NULL);
    INVARIANT((unsigned)request->act < sizeof act_names / sizeof act_names[0] && act_names[request->act] != NULL);
    struct postgres_store *self = postgres_of(store);
    struct link *link = link_of(store);
    PGresult *result = NULL;
    enum weir_status status = request->act == ROLE_READ ? WEIR_OK : postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status = link_connect(link, error); /* the address is marked as pooled if a pooler refuses the options */
    }
    if (status == WEIR_OK) {
        const struct role_watch *watch = &self->role;
        int64_t now_us = clock_boot(store->clock);
        bool is_silent = watch->epoch > 0 && now_us - watch->since_us >= watch->lease_us;
        status = link_write(link, error, &result, QUERY_ROLE, "tiiiitoiiti", act_names[request->act], request->node_id,
                            request->epoch, request->lease_us, request->gone_node_id, request->why,
                            (bool)link->address->pooled, is_silent ? watch->epoch : 0, is_silent ? watch->renewals : 0,
                            watch->server, watch->server_since_us == 0 ? (int64_t)0 : now_us - watch->server_since_us);
    }
    if (status != WEIR_OK) {
        return status;
    }
    INVARIANT(PQntuples(result) == 1);
    struct role_state state = read_role_row(self, result);
    const char *outcome = result_text(result, 0, STATE_OUTCOME);
    if (strcmp(outcome, "ok") == 0) {
        *ret_state = state;
    } else {
        status = refuse_role(outcome, &state, error);
    }
    PQclear(result);
    return status;
}
