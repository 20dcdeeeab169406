/* Claim: one call of a function that does all of it (migrations/0002), and what to do when its answer is lost.
 *
 * A claim whose answer did not arrive may have been made. The handle then is in doubt: the next claim first asks for what
 * this node holds under a fence that it never heard of. Fences only grow, so that is exactly what was lost. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/libpq.h"
#include "store/postgres/postgres_store.h"

/* A claim looks only at what is new since the last one (see lane_wakeups). Once in this time it looks at everything: for
 * lanes that a race left below the pass at which the others stand, and after a server that forgot its last transactions. */
#define FULL_LOOK_US (10 * MICROSECONDS_PER_SECOND)

#define LAST_ID "ffffffff-ffff-ffff-ffff-ffffffffffff"

/* Wake-ups that one claim folds. Folded together, all wake-ups of a lane change it once. What is not folded has no place in
 * the order, so that a node with little room must fold as well what has piled up of one workspace: a claim comes to it only
 * when something has ended. */
enum { WAKEUPS_LEAST = 10000, WAKEUPS_PER_ITEM = 64 };

/* The columns of claim_items and claims_in_doubt. `more` of an item is about its lane, that of the last row about the
 * claim; the last row's fence is none, but the `below` of a pass_mark. */
enum {
    ITEM_ID,
    ITEM_FENCE,
    ITEM_WORKSPACE,
    ITEM_WORKFLOW,
    ITEM_VERSION,
    ITEM_DEFINITION,
    ITEM_PARAMS,
    ITEM_ATTEMPTS,
    ITEM_INTERRUPTIONS,
    ITEM_HANDED_OVER,
    ITEM_CANCEL,
    ITEM_CREATED_AT,
    ITEM_RUN_AT,
    ITEM_DISPATCHED_AT,
    ITEM_CLAIMED_AT,
    ITEM_PRIORITY,
    ITEM_LANES,
    ITEM_MORE,
    ITEM_FIRST_PASS,
    FRESH_SEEN, /* of claim_fresh alone */
    FRESH_LEFT_OVER
};

static struct claim_memory *remember(struct store *store, int64_t node_id)
{
    struct claim_memory *memory = &postgres_of(store)->claims;
    int64_t now_us = clock_boot(clock_system());
    if (memory->node_id != node_id) {
        memset(memory, 0, sizeof *memory);
        memory->node_id = node_id;
        first_pass_forget(&memory->first_pass);
    }
    if (memory->drops != postgres_of(store)->link.drops) {
        first_pass_forget(&memory->first_pass); /* it may be another server, which has not come as far */
    }
    if (memory->seen[0] == '\0' || memory->drops != postgres_of(store)->link.drops || now_us >= memory->full_look_boot_us) {
        text_copy(memory->seen, sizeof memory->seen, "0");
        memory->looks_at_all = true;
        memory->drops = postgres_of(store)->link.drops;
        memory->full_look_boot_us = time_add(now_us, FULL_LOOK_US);
    }
    return memory;
}

static int64_t from_pass(const struct claim_memory *memory)
{
    return memory->looks_at_all ? INT64_MIN : memory->first_pass.pass;
}

enum weir_status postgres_next_work(struct store *store, int64_t node_id, const char *group, struct next_work *ret_next,
                                    struct weir_error *error)
{
    const struct claim_memory *memory = remember(store, node_id);
    PGresult *result = NULL;
    enum weir_status status =
        link_read(link_of(store), error, &result, QUERY_NEXT_WORK, "itti", node_id, group, memory->seen, from_pass(memory));
    if (status != WEIR_OK) {
        return status;
    }
    bool runs = result_bool(result, 0, 4);
    bool claims = runs && !result_bool(result, 0, 5);
    int64_t due_us = result_null(result, 0, 2) ? TIME_NEVER : result_int(result, 0, 2);
    int64_t now_us = result_int(result, 0, 6);
    /* What a dead node left is taken over also while the queue is paused: it is running work, not a new claim. */
    ret_next->ready = memory->in_doubt || (runs && result_bool(result, 0, 1)) ||
                      (claims && (result_bool(result, 0, 0) || due_us <= now_us));
    ret_next->requests = memory->requests_in_doubt || result_bool(result, 0, 3);
    ret_next->due_in_us = due_us == TIME_NEVER || !claims ? TIME_NEVER : due_us > now_us ? due_us - now_us : 0;
    PQclear(result);
    return WEIR_OK;
}

/* --- what a claim brings --- */

static void read_item(const PGresult *result, int row, struct arena *arena, struct claimed_item *item, bool *ret_failed)
{
    int64_t dispatched_at_us = result_int(result, row, ITEM_DISPATCHED_AT);
    text_copy(item->id, sizeof item->id, result_text(result, row, ITEM_ID));
    item->fence = result_int(result, row, ITEM_FENCE);
    item->workspace = result_copy(result, row, ITEM_WORKSPACE, arena, ret_failed);
    item->workflow =
        result_null(result, row, ITEM_WORKFLOW) ? "" : result_copy(result, row, ITEM_WORKFLOW, arena, ret_failed);
    item->version = (int)result_int(result, row, ITEM_VERSION);
    item->definition_id = result_int(result, row, ITEM_DEFINITION);
    item->attempts = (int)result_int(result, row, ITEM_ATTEMPTS);
    item->handovers = (int)result_int(result, row, ITEM_INTERRUPTIONS);
    item->handed_over = result_bool(result, row, ITEM_HANDED_OVER);
    item->others_wait = result_bool(result, row, ITEM_MORE);
    item->cancel_requested = result_bool(result, row, ITEM_CANCEL);
    item->created_at_us = result_int(result, row, ITEM_CREATED_AT);
    item->run_at_us = result_int(result, row, ITEM_RUN_AT);
    item->claimed_at_us = result_int(result, row, ITEM_CLAIMED_AT);
    item->priority = (int)result_int(result, row, ITEM_PRIORITY);
    item->running_for_us = dispatched_at_us == 0 ? 0 : item->claimed_at_us - dispatched_at_us;
    item->params = "{}";
    item->params_length = 2;
    if (!result_null(result, row, ITEM_PARAMS)) {
        item->params = result_bytes(result, row, ITEM_PARAMS, arena, &item->params_length, ret_failed);
    }
}

/* The rows with an id, in their order. False when memory ran out. */
static bool read_items(const PGresult *result, struct arena *arena, struct claim_result *claim)
{
    bool failed = false;
    for (int row = 0; row < PQntuples(result) && !failed; row++) {
        if (!result_null(result, row, ITEM_ID)) {
            struct claimed_item *item = &claim->items[claim->count++];
            read_item(result, row, arena, item, &failed);
            claim->handed_over += item->handed_over;
        }
    }
    return !failed;
}

/* Everything up to what arrived is known from now on. */
static void note_arrival(struct claim_memory *memory, const struct claim_result *claim, bool is_whole)
{
    for (size_t i = 0; i < claim->count; i++) {
        const struct claimed_item *item = &claim->items[i];
        if (item->fence > memory->last_fence) {
            memory->last_fence = item->fence;
            text_copy(memory->last_id, sizeof memory->last_id, is_whole ? LAST_ID : item->id);
        } else if (item->fence == memory->last_fence && strcmp(item->id, memory->last_id) > 0) {
            text_copy(memory->last_id, sizeof memory->last_id, item->id);
        }
    }
}

/* --- steps of what ran before --- */

static void read_step(const PGresult *result, int row, struct arena *arena, int64_t now_us, struct step_record *step,
                      bool *ret_failed)
{
    text_copy(step->step, sizeof step->step, result_text(result, row, 1));
    if (!step_state_parse(result_text(result, row, 2), &step->state)) {
        step->state = STEP_RUNNING;
    }
    step->attempt = (int)result_int(result, row, 3);
    step->failures = (int)result_int(result, row, 4);
    step->exit_code = result_null(result, row, 5) ? -1 : (int)result_int(result, row, 5);
    step->due_us = result_int(result, row, 6);
    step->due_in_us = step->due_us > now_us ? step->due_us - now_us : 0;
    /* These strings are the arena's: the receiver copies them and never frees them. */
    step->output = (char *)(uintptr_t)result_bytes(result, row, 7, arena, &step->output_length, ret_failed);
    step->variables = (char *)(uintptr_t)result_bytes(result, row, 8, arena, NULL, ret_failed);
    text_copy(step->error_code, sizeof step->error_code, result_null(result, row, 9) ? "" : result_text(result, row, 9));
    step->error = (char *)(uintptr_t)result_copy(result, row, 10, arena, ret_failed);
}

static struct claimed_item *find_item(struct claim_result *claim, const char *id)
{
    for (size_t i = 0; i < claim->count; i++) {
        if (strcmp(claim->items[i].id, id) == 0) {
            return &claim->items[i];
        }
    }
    return NULL;
}

/* Rows come sorted by execution, so the steps of one lie together. */
static bool deal_steps(const PGresult *result, struct arena *arena, struct claim_result *claim)
{
    size_t count = (size_t)PQntuples(result);
    struct step_record *steps = arena_allocate(arena, (count + 1) * sizeof *steps);
    struct claimed_item *item = NULL;
    bool failed = steps == NULL;
    for (size_t i = 0; i < count && !failed; i++) {
        const char *id = result_text(result, (int)i, 0);
        if (item == NULL || strcmp(item->id, id) != 0) {
            item = find_item(claim, id);
            INVARIANT(item != NULL);
            item->steps = &steps[i];
        }
        read_step(result, (int)i, arena, claim->now_us, &steps[i], &failed);
        item->step_count++;
    }
    return !failed;
}

/* A second statement: the steps stand still, because whoever wrote them has lost the fence. */
static enum weir_status read_steps(struct link *link, struct arena *arena, struct claim_result *claim,
                                   struct weir_error *error)
{
    const char **ids = arena_allocate(arena, (claim->count + 1) * sizeof *ids);
    size_t count = 0;
    PGresult *result = NULL;
    if (ids == NULL) {
        return error_out_of_memory(error);
    }
    for (size_t i = 0; i < claim->count; i++) {
        if (claim->items[i].handovers > 0) {
            ids[count++] = claim->items[i].id;
        }
    }
    if (count == 0) {
        return WEIR_OK;
    }
    enum weir_status status = link_read(link, error, &result, QUERY_READ_STEPS, "U", ids, count);
    if (status == WEIR_OK && !deal_steps(result, arena, claim)) {
        status = error_out_of_memory(error);
    }
    PQclear(result);
    return status;
}

/* --- the verb --- */

/* What was claimed and never arrived, at most `limit`. When that did not fit into the caller's memory, half of it. */
static enum weir_status claim_again(struct store *store, struct claim_memory *memory, size_t limit, struct arena *arena,
                                    struct claim_result *claim, struct weir_error *error)
{
    struct link *link = link_of(store);
    PGresult *result = NULL;
    const char *last_id = memory->last_id[0] == '\0' ? LAST_ID : memory->last_id;
    limit = memory->fits > 0 && memory->fits < limit ? memory->fits : limit;
    enum weir_status status = link_read(link, error, &result, QUERY_CLAIMS_IN_DOUBT, "iiui", memory->node_id,
                                        memory->last_fence, last_id, (int64_t)limit);
    if (status != WEIR_OK) {
        return status;
    }
    if (PQntuples(result) > 0) {
        claim->now_us = result_int(result, 0, ITEM_CLAIMED_AT);
    }
    bool fits = read_items(result, arena, claim);
    PQclear(result);
    status = fits ? read_steps(link, arena, claim, error) : error_out_of_memory(error);
    memory->fits = status == WEIR_OUT_OF_MEMORY ? (limit + 1) / 2 : 0;
    if (status == WEIR_OK) {
        note_arrival(memory, claim, false);
        claim->more = claim->count == limit;
        memory->in_doubt = claim->more;
    }
    return status;
}

/* What a claim answers: its items, then, in the last row, what it says about all of them. */
static enum weir_status take_items(struct link *link, struct claim_memory *memory, size_t limit, struct arena *arena,
                                   const PGresult *result, struct claim_result *claim, struct weir_error *error)
{
    int last = PQntuples(result) - 1;
    INVARIANT(last >= 0 && (size_t)last <= limit);
    claim->now_us = result_int(result, last, ITEM_CLAIMED_AT);
    claim->lanes = (size_t)result_int(result, last, ITEM_LANES);
    claim->more = claim->more || result_bool(result, last, ITEM_MORE);
    if (!result_null(result, last, ITEM_FIRST_PASS)) {
        bool is_item = !result_null(result, last, ITEM_ID); /* of claim_fresh */
        struct pass_mark mark = {.pass = result_int(result, last, ITEM_FIRST_PASS),
                                 .below = is_item ? 0 : (uint64_t)result_int(result, last, ITEM_FENCE)};
        memory->looks_at_all = false;
        first_pass_note(&memory->first_pass, mark, memory->seen, clock_boot(clock_system()));
    }
    enum weir_status status =
        read_items(result, arena, claim) ? read_steps(link, arena, claim, error) : error_out_of_memory(error);
    if (status == WEIR_OK) {
        note_arrival(memory, claim, true);
    }
    memory->in_doubt = status != WEIR_OK;
    return status;
}

/* Lanes first: what is new in them, and what has become due. Where that is one item alone, it is claimed by this. */
static enum weir_status claim_fresh(struct link *link, struct claim_memory *memory, const struct claim_options *options,
                                    struct arena *arena, struct claim_result *claim, struct weir_error *error)
{
    PGresult *result = NULL;
    enum weir_status status =
        link_write(link, error, &result, QUERY_CLAIM_FRESH, "ittid", options->node_id, options->group, memory->seen,
                   from_pass(memory), WAKEUPS_LEAST + WAKEUPS_PER_ITEM * (int)options->limit);
    memory->in_doubt = status == WEIR_COMMIT_UNKNOWN;
    if (status != WEIR_OK) {
        return status;
    }
    INVARIANT(PQntuples(result) == 1 && strlen(result_text(result, 0, FRESH_SEEN)) < sizeof memory->seen);
    text_copy(memory->seen, sizeof memory->seen, result_text(result, 0, FRESH_SEEN));
    claim->more = result_bool(result, 0, FRESH_LEFT_OVER);
    if (!result_null(result, 0, ITEM_ID)) {
        status = take_items(link, memory, options->limit, arena, result, claim, error);
    }
    PQclear(result);
    return status;
}

static enum weir_status claim_new(struct store *store, struct claim_memory *memory, const struct claim_options *options,
                                  struct arena *arena, struct claim_result *claim, struct weir_error *error)
{
    struct link *link = link_of(store);
    PGresult *result = NULL;
    enum weir_status status = claim_fresh(link, memory, options, arena, claim, error);
    if (status != WEIR_OK || claim->count > 0) {
        return status;
    }
    status = link_write(link, error, &result, QUERY_CLAIM_ITEMS, "itdti", options->node_id, options->group,
                        (int)options->limit, memory->seen, from_pass(memory));
    memory->in_doubt = status == WEIR_COMMIT_UNKNOWN;
    if (status == WEIR_OK) {
        status = take_items(link, memory, options->limit, arena, result, claim, error);
        PQclear(result);
    }
    return status;
}

enum weir_status postgres_claim(struct store *store, const struct claim_options *options, struct arena *arena,
                                struct claim_result *ret_result, struct weir_error *error)
{
    struct claim_memory *memory = remember(store, options->node_id);
    struct claim_result claim = {.items = arena_allocate(arena, options->limit * sizeof *claim.items)};
    enum weir_status status = require_writable(store, error);
    if (status == WEIR_OK && claim.items == NULL) {
        status = error_out_of_memory(error);
    }
    if (status == WEIR_OK && memory->in_doubt) {
        status = claim_again(store, memory, options->limit, arena, &claim, error);
    }
    if (status == WEIR_OK && claim.count == 0) {
        status = claim_new(store, memory, options, arena, &claim, error);
    }
    if (status == WEIR_OK) {
        *ret_result = claim;
    }
    return status;
}

enum weir_status postgres_take_requests(struct store *store, int64_t node_id, struct arena *arena,
                                        struct node_request **ret_requests, size_t *ret_count, struct weir_error *error)
{
    struct claim_memory *memory = remember(store, node_id);
    PGresult *result = NULL;
    enum weir_status status = require_writable(store, error);
    if (status == WEIR_OK) {
        status = link_write(link_of(store), error, &result, QUERY_TAKE_REQUESTS, "io", node_id,
                            memory->requests_in_doubt ? 1 : 0);
        memory->requests_in_doubt = memory->requests_in_doubt ? status != WEIR_OK : status == WEIR_COMMIT_UNKNOWN;
    }
    if (status != WEIR_OK) {
        return status;
    }
    size_t count = (size_t)PQntuples(result);
    struct node_request *requests = arena_allocate(arena, (count + 1) * sizeof *requests);
    for (size_t i = 0; i < count && requests != NULL; i++) {
        text_copy(requests[i].id, sizeof requests[i].id, result_text(result, (int)i, 0));
        requests[i].fence = result_int(result, (int)i, 1);
    }
    PQclear(result);
    if (requests == NULL) {
        memory->requests_in_doubt = true;
        return error_out_of_memory(error);
    }
    *ret_requests = requests;
    *ret_count = count;
    return WEIR_OK;
}
