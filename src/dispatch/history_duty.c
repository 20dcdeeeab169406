/* The duty of the history: one row each minute, and one step of folding behind it.
 *
 * Counts move from the dispatch loop to the duties as atomic numbers, so neither waits for the other. The duty keeps them
 * until their row is written. Ends are differences of the store's counters, which any node may have raised. A difference
 * below zero counts as none: a workspace was deleted, or the store was restored.
 *
 * Two nodes may do the duty at once, while the scheduler changes. Each row then has the starts of its own node. A sum is
 * made of rows that both read alike, and the second one finds it there.
 */
#include "dispatch/history_duty.h"

#include "base/error.h"

#define HISTORY_INTERVAL_US (60 * MICROSECONDS_PER_SECOND)
#define HISTORY_ROLE_US (1 * MICROSECONDS_PER_SECOND) /* between two looks for the role */
#define HISTORY_FRESH_US (3600 * MICROSECONDS_PER_SECOND)
#define HISTORY_FOLD_US (600 * MICROSECONDS_PER_SECOND)
enum { FOLD_ROWS_MOST = 16, HISTORY_ARENA_BYTES = 32 * 1024 * 1024 };

void history_count_start(struct history_counts *counts, int64_t wait_us, int64_t slot_wait_us, int64_t pause_wait_us)
{
    INVARIANT(counts != NULL);
    const int64_t waits[HISTORY_PHASES] = {[HISTORY_WAIT] = wait_us,
                                           [HISTORY_CAPACITY] = slot_wait_us,
                                           [HISTORY_PAUSE] = pause_wait_us,
                                           [HISTORY_DISPATCH] = wait_us - slot_wait_us - pause_wait_us};
    for (size_t phase = 0; phase < HISTORY_PHASES; phase++) {
        atomic_fetch_add_explicit(&counts->waits[phase][history_bucket(waits[phase])], 1, memory_order_relaxed);
    }
}

/* --- a row --- */

/* Moves the counts of the dispatch loop to those that wait for a row. */
static void take_counts(struct node *node, struct history_point *pending)
{
    for (size_t phase = 0; phase < HISTORY_PHASES; phase++) {
        for (size_t i = 0; i < HISTORY_BUCKETS; i++) {
            uint32_t count =
                atomic_exchange_explicit(&node->shared.history_counts.waits[phase][i], 0, memory_order_relaxed);
            pending->waits[phase][i] += count;
            pending->starts += phase == HISTORY_WAIT ? count : 0;
        }
    }
}

static int64_t growth(int64_t now, int64_t before)
{
    return now > before ? now - before : 0;
}

static enum weir_status write_point(struct node *node, const struct history_point *point, bool is_folded,
                                    int64_t folds_from_us, struct weir_error *error)
{
    struct text facts = {.max = HISTORY_FACTS_MAX};
    enum weir_status status = history_encode(point, &facts);
    if (status != WEIR_OK) {
        status = error_set(error, status, "the history has no room for the facts of an interval");
    } else {
        struct history_row row = {.at_us = point->at_us,
                                  .span_us = point->span_us,
                                  .is_folded = is_folded,
                                  .facts = facts.data,
                                  .length = facts.length};
        status = store_write_history(node->stores[LOOP_MAINTENANCE], &row, folds_from_us, error);
    }
    text_close(&facts);
    return status;
}

/* Steps 1 and 2. Without a sample before this one nothing is written: it begins the interval. */
static enum weir_status write_interval(struct node *node, struct arena *arena, struct weir_error *error)
{
    struct history_duty *duty = &node->maintenance.history;
    struct history_sample sample = {.now_us = 0};
    enum weir_status status = store_sample_history(node->stores[LOOP_MAINTENANCE], arena, &sample, error);
    if (status != WEIR_OK) {
        return status;
    }
    take_counts(node, &duty->pending); /* also without an interval: then they are of an earlier term */
    if (duty->since_us != 0 && sample.now_us > duty->since_us) {
        struct history_point point = duty->pending;
        point.at_us = sample.now_us;
        point.span_us = sample.now_us - duty->since_us;
        point.completed = growth(sample.completed, duty->completed);
        point.failed = growth(sample.failed, duty->failed);
        point.cancelled = growth(sample.cancelled, duty->cancelled);
        point.workspaces = sample.workspaces;
        point.workspace_count = sample.workspace_count;
        for (size_t i = 0; i < sample.workspace_count; i++) {
            point.slots_used += sample.workspaces[i].slots_used;
            point.pending += sample.workspaces[i].pending;
        }
        status = write_point(node, &point, false, 0, error);
    }
    if (status == WEIR_OK) {
        *duty = (struct history_duty){.next_us = duty->next_us,
                                      .since_us = sample.now_us,
                                      .completed = sample.completed,
                                      .failed = sample.failed,
                                      .cancelled = sample.cancelled};
    }
    return status;
}

/* --- folding --- */

/* Step 3: the rows of the oldest ten minutes. They are all more than an hour old, so no row is added to them. *ret_folded:
 * there may be more. A row with damaged facts adds nothing. */
static enum weir_status fold_oldest(struct node *node, struct arena *arena, bool *ret_folded, struct weir_error *error)
{
    struct store *store = node->stores[LOOP_MAINTENANCE];
    struct history_rows rows = {.count = 0};
    struct history_query query = {.not_folded = true, .most = FOLD_ROWS_MOST};
    query.until_us = (node->maintenance.history.since_us - HISTORY_FRESH_US) / HISTORY_FOLD_US * HISTORY_FOLD_US;
    enum weir_status status = store_read_history(store, &query, arena, &rows, error);
    *ret_folded = status == WEIR_OK && rows.count > 0;
    if (!*ret_folded) {
        return status;
    }
    int64_t slot = (rows.rows[0].at_us - 1) / HISTORY_FOLD_US;
    struct history_point sum = {.at_us = 0};
    for (size_t i = 0; i < rows.count && (rows.rows[i].at_us - 1) / HISTORY_FOLD_US == slot; i++) {
        struct history_point part = {.at_us = rows.rows[i].at_us, .span_us = rows.rows[i].span_us};
        if (history_decode(rows.rows[i].facts, rows.rows[i].length, arena, &part) && !history_merge(&sum, &part, arena)) {
            return error_out_of_memory(error);
        }
        sum.at_us = part.at_us;
    }
    return write_point(node, &sum, true, rows.rows[0].at_us - 1, error);
}

enum weir_status history_duty_step(struct node *node, int64_t now_us, struct weir_error *error)
{
    INVARIANT(node != NULL);
    struct history_duty *duty = &node->maintenance.history;
    struct arena arena;
    enum weir_status status = WEIR_OK;
    if (now_us < duty->next_us && !duty->folds) {
        return WEIR_OK;
    }
    if (!atomic_load(&node->shared.schedules)) {
        *duty = (struct history_duty){.next_us = time_add(now_us, HISTORY_ROLE_US)};
        return WEIR_OK;
    }
    arena_init(&arena, HISTORY_ARENA_BYTES);
    bool is_due = now_us >= duty->next_us;
    if (is_due) {
        duty->next_us = time_add(now_us, HISTORY_INTERVAL_US);
        status = write_interval(node, &arena, error);
    }
    duty->folds = false;
    if (status == WEIR_OK) {
        status = fold_oldest(node, &arena, &duty->folds, error);
    }
    arena_close(&arena);
    return status;
}
