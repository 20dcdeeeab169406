/* The stream on PostgreSQL (functions/read_stream.sql).
 *
 * One statement renews, numbers and reads. A lost answer changes nothing for the reader: the next call reads the same. A
 * reader that begins gets the end of the stream only when all committed entries have positions, so that none of them
 * arrives later. Many may be without one when the stream was not read for some minutes: each call numbers some of them.
 */
#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/postgres_store.h"

/* Statements of one call. */
enum { CALLS_MOST = 8 };
enum { NUMBER, AT, KIND, ID, WORKSPACE_ID, WORKSPACE, WORKFLOW, IS_RESET, IS_SETTLING, MORE };

/* The entries before the last row. A kind that this version does not have is left out. */
static enum weir_status read_numbered_entries(const PGresult *result, struct arena *arena, struct stream_batch *batch,
                                              struct weir_error *error)
{
    int rows = PQntuples(result) - 1;
    bool failed = false;
    batch->entries = arena_allocate(arena, (size_t)(rows + 1) * sizeof *batch->entries);
    failed = batch->entries == NULL;
    for (int i = 0; i < rows && !failed; i++) {
        enum stream_kind kind;
        batch->position.number = result_int(result, i, NUMBER);
        if (!stream_kind_parse(result_text(result, i, KIND), &kind)) {
            continue;
        }
        struct stream_entry *entry = &batch->entries[batch->count++];
        *entry = (struct stream_entry){.number = batch->position.number,
                                       .at_us = result_int(result, i, AT),
                                       .kind = kind,
                                       .workspace_id = result_int(result, i, WORKSPACE_ID),
                                       .workspace = result_copy(result, i, WORKSPACE, arena, &failed),
                                       .workflow = result_copy(result, i, WORKFLOW, arena, &failed)};
        text_copy(entry->id, sizeof entry->id, result_text(result, i, ID));
    }
    return failed ? error_out_of_memory(error) : WEIR_OK;
}

enum weir_status postgres_read_stream(struct store *store, const struct stream_position *after, size_t most,
                                      struct arena *arena, struct stream_batch *ret_batch, struct weir_error *error)
{
    INVARIANT(after != NULL && most > 0 && most <= STREAM_READ_MOST && arena != NULL && ret_batch != NULL);
    struct stream_batch batch = {.is_reset = true, .more = true};
    PGresult *result = NULL;
    int last = 0;
    enum weir_status status = postgres_require_writable(store, error);
    for (int calls = 0; status == WEIR_OK && calls < CALLS_MOST && batch.is_reset && batch.more; calls++) {
        PQclear(result);
        result = NULL;
        status = link_write(link_of(store), error, &result, QUERY_READ_STREAM, "iiddii", after->since_us, after->number,
                            (int)most, (int)STREAM_NUMBER_MOST, (int64_t)STREAM_KEEP_US, (int64_t)STREAM_MARGIN_US);
        if (status != WEIR_OK) {
            return status;
        }
        last = PQntuples(result) - 1;
        batch = (struct stream_batch){.position = *after,
                                      .is_reset = result_bool(result, last, IS_RESET),
                                      .is_settling = result_bool(result, last, IS_SETTLING),
                                      .more = result_bool(result, last, MORE)};
    }
    if (status == WEIR_OK && batch.is_reset) {
        batch.position =
            (struct stream_position){.since_us = result_int(result, last, AT), .number = result_int(result, last, NUMBER)};
    } else if (status == WEIR_OK) {
        batch.more = batch.more || (size_t)last == most;
        status = read_numbered_entries(result, arena, &batch, error);
    }
    PQclear(result);
    if (status == WEIR_OK) {
        *ret_batch = batch;
    }
    return status;
}

enum weir_status postgres_purge_stream(struct store *store, size_t limit, int64_t *ret_removed, struct weir_error *error)
{
    INVARIANT(limit > 0 && limit <= STREAM_PURGE_MOST && ret_removed != NULL);
    PGresult *result = NULL;
    enum weir_status status = postgres_require_writable(store, error);
    if (status == WEIR_OK) {
        status = link_write(link_of(store), error, &result, QUERY_PURGE_STREAM, "iid", (int64_t)STREAM_KEEP_US,
                            (int64_t)STREAM_ENTRIES_MOST, (int)limit);
    }
    if (status == WEIR_OK) {
        *ret_removed = result_int(result, 0, 0);
        PQclear(result);
    }
    return status;
}
