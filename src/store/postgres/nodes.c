/* Nodes: start, target, heartbeat, stop, and the orders of operators.
 *
 * The server keeps a row per node. A heartbeat increments the number of heartbeats, stores the state of the node and
 * returns the orders of an operator, all in one statement. The same answer lists the lost nodes of the group, and the live
 * ones with their heartbeats, so that recovery needs no query of its own.
 *
 * A stop gives the items back in chunks of RECOVER_BATCH; the call that finds none marks the node as stopped. This file
 * compares no time: the caller watches the numbers of heartbeats (dispatch/neighbours.h). It runs in the thread that has
 * the handle: the heartbeat has one of its own, so it never waits behind other work. The stop runs in the dispatch thread.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/postgres_store.h"
#include "store/refusal.h"

enum weir_status postgres_node_start(struct store *store, const struct node_options *options, int64_t *ret_node_id,
                                     struct weir_error *error)
{
    INVARIANT(options != NULL && ret_node_id != NULL && options->lease_us > 0);
    const struct engine_target *target = options->target;
    PGresult *result = NULL;
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status =
            link_write(link_of(store), error, &result, QUERY_START_NODE, "ttttiittiiotittttto", options->name,
                       options->group, options->host, options->boot_id, (int64_t)options->pid, (int64_t)options->keeper_pid,
                       options->version, options->engine, options->lease_us, NODE_ROW_KEPT_US, options->is_outlived,
                       not_accepting_name(options->not_accepting), (int64_t)options->capacity,
                       options->life == NULL ? "" : options->life, target == NULL ? NULL : target->engine,
                       target == NULL ? NULL : target->service, target == NULL ? NULL : target->namespace_name,
                       target == NULL ? NULL : target->address, (int)options->starts_paused);
    }
    if (status == WEIR_OK) {
        *ret_node_id = result_int(result, 0, 0);
        PQclear(result);
    }
    return status;
}

enum weir_status postgres_node_target(struct store *store, int64_t node_id, const struct engine_target *target,
                                      struct weir_error *error)
{
    INVARIANT(node_id > 0 && target != NULL);
    PGresult *result = NULL;
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status = link_write(link_of(store), error, &result, QUERY_NODE_TARGET, "itttt", node_id, target->engine,
                            target->service, target->namespace_name, target->address);
    }
    if (status == WEIR_OK && result_int(result, 0, 0) == 0) {
        status = refusal_node_ended(node_id, error);
    }
    PQclear(result);
    return status;
}

enum weir_status postgres_node_handlers(struct store *store, int64_t node_id, const struct node_handlers *handlers,
                                        bool *ret_more, struct weir_error *error)
{
    INVARIANT(node_id > 0 && handlers != NULL && ret_more != NULL);
    PGresult *result = NULL;
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status = link_write(link_of(store), error, &result, QUERY_NODE_HANDLERS, "ittd", node_id, handlers->language,
                            handlers->names, (int)WAKE_BATCH);
    }
    if (status == WEIR_OK && result_int(result, 0, 0) == 0) {
        status = refusal_node_ended(node_id, error);
    } else if (status == WEIR_OK) {
        *ret_more = result_int(result, 0, 1) == WAKE_BATCH;
    }
    PQclear(result);
    return status;
}

enum weir_status postgres_mark_stuck(struct store *store, const struct stuck_mark *marks, size_t count,
                                     struct weir_error *error)
{
    INVARIANT(marks != NULL && count <= STUCK_MARKS_MOST);
    const char *ids[STUCK_MARKS_MOST];
    int64_t fences[STUCK_MARKS_MOST];
    int64_t stuck_for_us[STUCK_MARKS_MOST];
    enum weir_status status = postgres_require_writable(store, error);
    if (status != WEIR_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        ids[i] = marks[i].id;
        fences[i] = marks[i].fence;
        stuck_for_us[i] = marks[i].stuck_for_us;
    }
    return link_run(link_of(store), error, NULL, QUERY_MARK_STUCK, "UII", ids, count, fences, count, stuck_for_us, count);
}

static const char *const desired_state_names[] = {
    [NODE_RUN] = "run", [NODE_PAUSE] = "pause", [NODE_DRAIN] = "drain", [NODE_STOP] = "stop"};

/* An order that this program does not have counts as run. */
static enum desired_state parse_state_name(const char *name)
{
    for (size_t i = 0; i < sizeof desired_state_names / sizeof desired_state_names[0]; i++) {
        if (name != NULL && strcmp(name, desired_state_names[i]) == 0) {
            return (enum desired_state)i;
        }
    }
    return NODE_RUN;
}

/* The columns of the query `beat_node`. */
enum {
    BEAT_DESIRED_STATE,
    BEAT_PAUSED,
    BEAT_NOW,
    BEAT_BEATS,
    BEAT_SERVER,
    BEAT_OTHER_LOST,
    BEAT_OTHER_ID,
    BEAT_OTHER_PID,
    BEAT_OTHER_KEEPER,
    BEAT_OTHER_LIFE,
    BEAT_OTHER_BEATS,
    BEAT_OTHER_LEASE,
    BEAT_OTHER_HERE
};

/* The first row has the orders. Each row may name another node: a lost one, or one that lives. */
static void read_beat_answer(const PGresult *result, struct node_beat *beat)
{
    beat->desired_state = parse_state_name(result_text(result, 0, BEAT_DESIRED_STATE));
    beat->queue_paused = result_bool(result, 0, BEAT_PAUSED);
    beat->now_us = result_int(result, 0, BEAT_NOW);
    beat->beats = result_int(result, 0, BEAT_BEATS);
    text_copy(beat->server, sizeof beat->server, result_text(result, 0, BEAT_SERVER));
    beat->others_lost = false;
    beat->neighbour_count = 0;
    for (int row = 0; row < PQntuples(result) && !result_null(result, row, BEAT_OTHER_ID); row++) {
        if (result_bool(result, row, BEAT_OTHER_LOST)) {
            beat->others_lost = true;
        } else if (beat->neighbour_count < NODE_NEIGHBOURS_MOST) { /* the limit of the query, which the answer may break */
            struct node_neighbour *neighbour = &beat->neighbours[beat->neighbour_count++];
            *neighbour = (struct node_neighbour){.id = result_int(result, row, BEAT_OTHER_ID),
                                                 .pid = (long)result_int(result, row, BEAT_OTHER_PID),
                                                 .keeper_pid = (long)result_int(result, row, BEAT_OTHER_KEEPER),
                                                 .beats = result_int(result, row, BEAT_OTHER_BEATS),
                                                 .lease_us = result_int(result, row, BEAT_OTHER_LEASE),
                                                 .is_here = result_bool(result, row, BEAT_OTHER_HERE)};
            text_copy(neighbour->life, sizeof neighbour->life, result_text(result, row, BEAT_OTHER_LIFE));
        }
    }
}

enum weir_status postgres_node_beat(struct store *store, int64_t node_id, struct node_beat *beat, struct weir_error *error)
{
    INVARIANT(node_id > 0 && beat != NULL);
    PGresult *result = NULL;
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status = link_write(link_of(store), error, &result, QUERY_BEAT_NODE, "ioiidtitiioitit", node_id,
                            beat->engine_reachable ? 1 : 0, (int64_t)beat->running, (int64_t)beat->stuck,
                            (int)NODE_NEIGHBOURS_MOST / 2,
                            beat->engine_reachable && !beat->engine_impaired ? NULL : beat->engine_error,
                            (int64_t)beat->keeper_pid, not_accepting_name(beat->not_accepting), (int64_t)beat->capacity,
                            beat->seen_beats, beat->engine_impaired ? 1 : 0, beat->dispatch_failed_us, beat->dispatch_error,
                            beat->record_failed_us, beat->record_error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    if (PQntuples(result) == 0) {
        status = refusal_lease_lost(node_id, error);
    } else {
        read_beat_answer(result, beat);
    }
    PQclear(result);
    return status;
}

/* The node takes no more assignments from the first chunk on: the function locks its row. */
enum weir_status postgres_node_stop(struct store *store, int64_t node_id, bool graceful, struct weir_error *error)
{
    INVARIANT(node_id > 0);
    int64_t count = RECOVER_BATCH;
    enum weir_status status = postgres_require_writable(store, error);
    while (status == WEIR_OK && count == RECOVER_BATCH) {
        PGresult *result = NULL;
        status = link_write(link_of(store), error, &result, QUERY_STOP_NODE, "iod", node_id, graceful ? 1 : 0,
                            (int)RECOVER_BATCH);
        count = status == WEIR_OK ? result_int(result, 0, 0) : 0;
        PQclear(result);
    }
    return status;
}

/* The hint has the names of the live nodes, if they can be read. */
static enum weir_status refuse_unknown_node(struct store *store, const char *name, struct weir_error *error)
{
    char names[WEIR_ERROR_HINT_MAX / 2] = "";
    size_t used = 0;
    PGresult *result = NULL;
    enum weir_status status = link_read(link_of(store), NULL, &result, QUERY_LIVE_NODE_NAMES, "");
    for (int row = 0; status == WEIR_OK && row < PQntuples(result) && used < sizeof names; row++) {
        int length =
            snprintf(names + used, sizeof names - used, "%s%s", used == 0 ? "" : ", ", result_text(result, row, 0));
        used += length > 0 ? (size_t)length : 0;
    }
    PQclear(result);
    /* The hint names the live nodes, or that there is none: neither is known without the list. */
    return status == WEIR_OK ? refusal_no_live_node(name, names, used >= sizeof names, error)
                             : error_set(error, WEIR_NOT_FOUND, "there is no live node \"%s\"", name);
}

enum weir_status postgres_set_desired_state(struct store *store, const char *name, enum desired_state desired_state,
                                            struct weir_error *error)
{
    INVARIANT(name != NULL && (unsigned)desired_state < sizeof desired_state_names / sizeof desired_state_names[0]);
    PGresult *result = NULL;
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status = link_write(link_of(store), error, &result, QUERY_SET_DESIRED_STATE, "ttttt", name,
                            desired_state_names[desired_state], store_actor(store), store_reason(store),
                            desired_state_act(desired_state));
    }
    if (status == WEIR_OK && result_int(result, 0, 0) == 0) {
        status = refuse_unknown_node(store, name, error);
    }
    PQclear(result);
    return status;
}
