/* Publishing the books: folds the news that the rounds of this handle have read into the counters per lane.
 *
 * 1. A pass covers the news between the snapshot of the last pass and that of the last round. Later news is left for the
 * next pass, so the scheduler folds only news that it has read. The first pass of an epoch has no lower end: the scheduler
 * before it may have left news.
 * 2. A pass has chunks of BOOKS_BATCH entries, each one statement and one transaction, so that rounds between them wait
 * little.
 * 3. publish_books() deletes the entries and adds them to the books in one transaction. So books and news together equal
 * the rows at every commit, and an entry never counts twice.
 * 4. If the answer is lost, the chunk is sent again. If it was committed, its entries are gone, and the statement finds the
 *    next ones.
 *
 * The call names the epoch; with another one it writes nothing. This file never reads the queue. It runs in the dispatch
 * thread. */
#include <string.h>

#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/postgres_store.h"

enum { FOLD_EPOCH, FOLD_COUNT, FOLD_XID, FOLD_SEQ };

enum { POSITION_TEXT_MAX = 16 * 1024 * 1024 };

static const char NOTHING_SEEN[] = "1:1:"; /* the snapshot before all transactions: it contains no news */

/* Step 1: the pass ends at the snapshot of the last round. */
static enum weir_status begin_fold(struct news_position *news, struct weir_error *error)
{
    news->folding.max = POSITION_TEXT_MAX;
    text_clear(&news->folding);
    text_copy(news->fold.xid, sizeof news->fold.xid, "0");
    news->fold.seq = 0;
    return text_add_string(&news->folding, news->seen.data) == WEIR_OK ? WEIR_OK : error_out_of_memory(error);
}

/* The end of this pass is the beginning of the next one. */
static void end_fold(struct news_position *news)
{
    struct text over = news->folded;
    news->folded = news->folding;
    text_close(&over);
    news->folding = (struct text){.max = POSITION_TEXT_MAX};
}

/* A chunk with fewer entries than BOOKS_BATCH was the last one of its pass. */
static void advance_fold(struct news_position *news, const PGresult *result, bool *ret_more)
{
    *ret_more = result_int(result, 0, FOLD_COUNT) == BOOKS_BATCH;
    if (*ret_more) {
        text_copy(news->fold.xid, sizeof news->fold.xid, result_text(result, 0, FOLD_XID));
        news->fold.seq = result_int(result, 0, FOLD_SEQ);
    } else {
        end_fold(news);
    }
}

/* The passes as two arrays. */
static bool split_passes(const struct lane_pass *passes, size_t count, struct arena *arena, int64_t **ret_lanes,
                         int64_t **ret_passes)
{
    *ret_lanes = arena_allocate(arena, (count + 1) * sizeof **ret_lanes);
    *ret_passes = arena_allocate(arena, (count + 1) * sizeof **ret_passes);
    for (size_t i = 0; i < count && *ret_lanes != NULL && *ret_passes != NULL; i++) {
        (*ret_lanes)[i] = passes[i].lane_id;
        (*ret_passes)[i] = passes[i].pass;
    }
    return *ret_lanes != NULL && *ret_passes != NULL;
}

/* Folds one chunk and stores the passes of the lanes. Without a position in the news only the passes are stored. */
static enum weir_status fold_chunk(struct postgres_store *self, int64_t node_id, int64_t epoch,
                                   const struct lane_pass *passes, size_t count, struct arena *arena, bool *ret_more,
                                   struct weir_error *error)
{
    struct news_position *news = &self->news;
    bool has_read = news->epoch == epoch && news->seen.length > 0;
    enum weir_status status = has_read && news->folding.length == 0 ? begin_fold(news, error) : WEIR_OK;
    int64_t *lanes = NULL;
    int64_t *pass_values = NULL;
    PGresult *result = NULL;
    if (status == WEIR_OK && !split_passes(passes, count, arena, &lanes, &pass_values)) {
        status = error_out_of_memory(error);
    }
    if (status == WEIR_OK) {
        status = link_write(&self->link, error, &result, QUERY_PUBLISH_BOOKS, "iitttidII", node_id, epoch,
                            has_read && news->folded.length > 0 ? news->folded.data : NULL,
                            has_read ? news->folding.data : NOTHING_SEEN, has_read ? news->fold.xid : "0",
                            has_read ? news->fold.seq : 0, BOOKS_BATCH, lanes, count, pass_values, count);
    }
    if (status == WEIR_OK && !result_bool(result, 0, FOLD_EPOCH)) {
        status =
            error_set(error, WEIR_STALE_FENCE, "epoch %lld is over: another node has taken the role", (long long)epoch);
    }
    if (status == WEIR_OK && has_read) {
        advance_fold(news, result, ret_more);
    }
    PQclear(result);
    return status;
}

enum weir_status postgres_publish_books(struct store *store, int64_t node_id, int64_t epoch, const struct lane_pass *passes,
                                        size_t count, bool *ret_more, struct weir_error *error)
{
    INVARIANT(ret_more != NULL && (passes != NULL || count == 0) && node_id > 0);
    struct arena arena;
    bool more = false;
    enum { ARENA_BYTES = 16 * 1024 * 1024 };
    (void)link_of(store);
    enum weir_status status = postgres_require_writable(store, error);
    arena_init(&arena, ARENA_BYTES);
    if (status == WEIR_OK) {
        status = fold_chunk(postgres_of(store), node_id, epoch, passes, count, &arena, &more, error);
    }
    arena_close(&arena);
    if (status == WEIR_OK) {
        *ret_more = more;
    }
    return status;
}
