/* Recovery: hands over the items of dead nodes (functions/recover.sql).
 *
 * 1. Read the nodes of the group that are lost: silent, declared dead, or stopped with items left. For live nodes of
 *    this machine ask the caller whether their processes still exist. Most calls end here and write nothing.
 * 2. Read claims that are CLAIMED for too long. The caller leaves out those that it knows.
 * 3. One call of recover() declares the dead nodes dead and hands their items over, at most `limit` of them. `more` asks
 * the caller for another call, so no transaction is long.
 *
 * Any node may recover, and several may do so at once: recover() locks nodes and items with SKIP LOCKED, and leaves locked
 * ones to the other call. This file never decides that a node is dead by the clock of the server, which may be set while
 * nodes run: the caller names the silent nodes. It runs in the duties thread. */
#include <jansson.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/text.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/postgres_store.h"

enum { STALE_CLAIMS_MOST = 10000 };
enum { NODE_LOST, NODE_ID, NODE_PID, NODE_KEEPER_PID, NODE_LIFE }; /* columns */

/* The work that a call has found. */
struct findings {
    bool lost;                          /* a node is dead, or has stopped and left items */
    int64_t gone[NODE_NEIGHBOURS_MOST]; /* nodes of this machine without processes: recovery does
                                           not wait for the end of their lease */
    size_t gone_count;
    PGresult *stale; /* claims that are older than stale_claim_us */
    const char **stale_ids;
    int64_t *stale_fences;
    size_t stale_count; /* those of them that the node does not know */
    bool needed;
};

/* The list as two arrays. */
static void split_silent(const struct recover_options *options, int64_t *ids, int64_t *beats)
{
    INVARIANT(options->silent_count <= NODE_NEIGHBOURS_MOST);
    for (size_t i = 0; i < options->silent_count; i++) {
        ids[i] = options->silent[i].id;
        beats[i] = options->silent[i].beats;
    }
}

/* Step 1: silent nodes, dead and stopped ones, and nodes of this machine without their processes. */
static enum weir_status find_lost_nodes(struct link *link, const struct recover_options *options, struct findings *findings,
                                        struct weir_error *error)
{
    PGresult *result = NULL;
    int64_t silent[NODE_NEIGHBOURS_MOST];
    int64_t beats[NODE_NEIGHBOURS_MOST];
    split_silent(options, silent, beats);
    bool checks_processes = options->boot_id != NULL && options->is_gone != NULL;
    enum weir_status status = link_read(
        link, error, &result, QUERY_NODES_TO_RECOVER, "ttidII", options->group, checks_processes ? options->boot_id : NULL,
        options->node_id, (int)NODE_NEIGHBOURS_MOST, silent, options->silent_count, beats, options->silent_count);
    for (int row = 0; status == WEIR_OK && row < PQntuples(result); row++) {
        bool lost = result_bool(result, row, NODE_LOST);
        findings->lost = findings->lost || lost;
        struct node_neighbour node = {.id = result_int(result, row, NODE_ID),
                                      .pid = (long)result_int(result, row, NODE_PID),
                                      .keeper_pid = (long)result_int(result, row, NODE_KEEPER_PID)};
        text_copy(node.life, sizeof node.life, result_text(result, row, NODE_LIFE));
        if (!lost && options->is_gone(&node)) {
            findings->gone[findings->gone_count++] = node.id;
        }
    }
    PQclear(result);
    return status;
}

/* Step 2. A claim of this node that it knows is not stale: its start takes long. */
static enum weir_status find_stale_claims(struct link *link, const struct recover_options *options,
                                          struct findings *findings, struct weir_error *error)
{
    if (options->stale_claim_us <= 0) {
        return WEIR_OK;
    }
    enum weir_status status = link_read(link, error, &findings->stale, QUERY_STALE_CLAIMS, "iiti", options->node_id,
                                        options->stale_claim_us, options->group, (int64_t)STALE_CLAIMS_MOST);
    if (status != WEIR_OK) {
        return status;
    }
    findings->stale_ids = calloc(options->limit, sizeof *findings->stale_ids);
    findings->stale_fences = calloc(options->limit, sizeof *findings->stale_fences);
    if (findings->stale_ids == NULL || findings->stale_fences == NULL) {
        return error_out_of_memory(error);
    }
    for (int row = 0; row < PQntuples(findings->stale) && findings->stale_count < options->limit; row++) {
        const char *id = result_text(findings->stale, row, 0);
        int64_t fence = result_int(findings->stale, row, 1);
        if (options->knows == NULL || !options->knows(options->knows_context, id, fence)) {
            findings->stale_ids[findings->stale_count] = id;
            findings->stale_fences[findings->stale_count++] = fence;
        }
    }
    return WEIR_OK;
}

/* Steps 1 and 2. Without work the call writes nothing. */
static enum weir_status find_work(struct link *link, const struct recover_options *options, struct findings *findings,
                                  struct weir_error *error)
{
    enum weir_status status = find_lost_nodes(link, options, findings, error);
    if (status == WEIR_OK) {
        status = find_stale_claims(link, options, findings, error);
    }
    findings->needed = findings->lost || findings->gone_count > 0 || findings->stale_count > 0;
    return status;
}

/* The names of dead nodes. Without memory for them, the events of these nodes have no name. */
static void read_dead(const PGresult *result, struct recover_result *ret_result)
{
    json_t *names = result_null(result, 0, 4) ? NULL : json_loads(result_text(result, 0, 4), 0, NULL);
    size_t i;
    json_t *name;
    json_array_foreach(names, i, name)
    {
        if (i < RECOVER_NAMES_MOST && json_is_string(name)) {
            text_copy(ret_result->dead[i], sizeof ret_result->dead[i], json_string_value(name));
        }
    }
    json_decref(names);
}

/* Step 3. */
static enum weir_status send_recovery(struct link *link, const struct recover_options *options,
                                      const struct findings *findings, struct recover_result *ret_result,
                                      struct weir_error *error)
{
    PGresult *result = NULL;
    int64_t silent[NODE_NEIGHBOURS_MOST];
    int64_t beats[NODE_NEIGHBOURS_MOST];
    split_silent(options, silent, beats);
    enum weir_status status = link_write(link, error, &result, QUERY_RECOVER_ITEMS, "tIIItUIdd", options->group,
                                         findings->gone, findings->gone_count, silent, options->silent_count, beats,
                                         options->silent_count, options->server, findings->stale_ids, findings->stale_count,
                                         findings->stale_fences, findings->stale_count, HANDOVERS_MAX, (int)options->limit);
    if (status == WEIR_OK) {
        *ret_result = (struct recover_result){
            .handed_over = (size_t)result_int(result, 0, 0),
            .poisoned = (size_t)result_int(result, 0, 1),
            .nodes = (size_t)result_int(result, 0, 2),
            .more = result_bool(result, 0, 3) || (findings->stale_count > 0 && findings->stale_count == options->limit)};
        read_dead(result, ret_result);
        PQclear(result);
    }
    return status;
}

enum weir_status postgres_recover(struct store *store, const struct recover_options *options,
                                  struct recover_result *ret_result, struct weir_error *error)
{
    INVARIANT(options != NULL && ret_result != NULL && options->limit > 0);
    struct findings findings = {0};
    struct link *link = link_of(store);
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status = find_work(link, options, &findings, error);
    }
    if (status == WEIR_OK && (!findings.needed || options->look_only)) {
        *ret_result = (struct recover_result){.more = findings.needed};
    } else if (status == WEIR_OK) {
        status = send_recovery(link, options, &findings, ret_result, error);
    }
    free(findings.stale_ids);
    free(findings.stale_fences);
    PQclear(findings.stale);
    return status;
}
