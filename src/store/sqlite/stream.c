/* The stream on SQLite: entries of the table stream_entries, and until when they are written (stream_state).
 *
 * A reader reads in one snapshot. It writes only to renew, when a quarter of STREAM_KEEP_US has passed since the last time.
 * If the stream was not renewed in time, its entries may have ceased: then it begins anew under another `since`, so no
 * older position can be continued. SQLite has one writer, so every later transaction sees the renewed row, and no older one
 * is open: the stream never settles.
 */
#include "store/sqlite/stream.h"

#include "base/error.h"
#include "store/sqlite/sqlite_store.h"

/* --- writing --- */

/* One look-up for each transaction. False: there is nothing to add, or *ret_status is a failure. */
static bool is_streamed(struct news *news, struct connection *connection, enum weir_status *ret_status,
                        struct weir_error *error)
{
    int64_t is_read = 0;
    *ret_status = WEIR_OK;
    if (news->stream_use == STREAM_USE_UNKNOWN) {
        *ret_status = connection_read_integer(connection, error, &is_read, QUERY_STREAM_IS_READ, "i", news->now_us);
        news->stream_use = is_read != 0 ? STREAM_IS_READ : STREAM_IS_NOT_READ;
    }
    return *ret_status == WEIR_OK && news->stream_use == STREAM_IS_READ;
}

enum weir_status stream_add(struct news *news, struct connection *connection, enum stream_kind kind, const char *id,
                            int64_t workspace_id, struct weir_error *error)
{
    INVARIANT(news != NULL && id != NULL);
    enum weir_status status;
    return is_streamed(news, connection, &status, error)
               ? connection_run(connection, error, NULL, QUERY_INSERT_STREAM_ENTRY, "itit", news->now_us,
                                stream_kind_name(kind), workspace_id, id)
               : status;
}

enum weir_status stream_add_of_id(struct news *news, struct connection *connection, enum stream_kind kind, const char *id,
                                  struct weir_error *error)
{
    INVARIANT(news != NULL && id != NULL);
    enum weir_status status;
    return is_streamed(news, connection, &status, error)
               ? connection_run(connection, error, NULL, QUERY_INSERT_STREAM_ENTRY_OF_ID, "itt", news->now_us,
                                stream_kind_name(kind), id)
               : status;
}

enum weir_status stream_add_item(struct news *news, struct connection *connection, enum stream_kind kind, int64_t number,
                                 struct weir_error *error)
{
    INVARIANT(news != NULL);
    enum weir_status status;
    return is_streamed(news, connection, &status, error)
               ? connection_run(connection, error, NULL, QUERY_INSERT_STREAM_ENTRY_OF_ITEM, "iti", news->now_us,
                                stream_kind_name(kind), number)
               : status;
}

/* --- reading --- */

struct stream_state {
    int64_t now_us;
    int64_t written_until_us;
    int64_t since_us;
    int64_t purged_to;
    int64_t last;
};

static enum weir_status read_stream_state(struct connection *connection, struct stream_state *ret_state,
                                          struct weir_error *error)
{
    enum weir_status status = connection_store_time(connection, &ret_state->now_us, error);
    if (status != WEIR_OK) {
        return status;
    }
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_READ_STREAM_STATE, "");
    if (statement == NULL) {
        return statement_failure(error);
    }
    if (connection_step(connection, statement, &status, error)) {
        ret_state->written_until_us = sqlite3_column_int64(statement, 0);
        ret_state->since_us = sqlite3_column_int64(statement, 1);
        ret_state->purged_to = sqlite3_column_int64(statement, 2);
        ret_state->last = sqlite3_column_int64(statement, 3);
        (void)sqlite3_reset(statement);
    }
    return status;
}

static bool is_interrupted(const struct stream_state *state)
{
    return state->written_until_us - STREAM_MARGIN_US <= state->now_us;
}

static bool must_renew(const struct stream_state *state)
{
    return state->written_until_us - STREAM_MARGIN_US - state->now_us <= STREAM_KEEP_US / 4 * 3;
}

/* Another process may have renewed it meanwhile. */
static enum weir_status renew(struct store *store, struct weir_error *error)
{
    struct write write;
    struct stream_state state = {0};
    enum weir_status status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = read_stream_state(write.connection, &state, error);
    if (status == WEIR_OK && must_renew(&state)) {
        int64_t since_us = !is_interrupted(&state)         ? state.since_us
                           : write.now_us > state.since_us ? write.now_us
                                                           : state.since_us + 1;
        status = connection_run(write.connection, error, NULL, QUERY_RENEW_STREAM, "ii",
                                write.now_us + STREAM_KEEP_US + STREAM_MARGIN_US, since_us);
    }
    return write_end(&write, status, error);
}

static enum weir_status read_entries_behind(struct connection *connection, size_t most, struct arena *arena,
                                            struct stream_batch *batch, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    bool failed = false;
    size_t rows = 0;
    batch->entries = arena_allocate(arena, most * sizeof *batch->entries);
    if (batch->entries == NULL) {
        return error_out_of_memory(error);
    }
    sqlite3_stmt *statement =
        connection_bind(connection, error, QUERY_READ_STREAM, "ii", batch->position.number, (int64_t)most + 1);
    if (statement == NULL) {
        return statement_failure(error);
    }
    while (!failed && !batch->more && connection_step(connection, statement, &status, error)) {
        enum stream_kind kind;
        batch->more = rows++ == most;
        if (batch->more) {
            continue;
        }
        batch->position.number = sqlite3_column_int64(statement, 0);
        if (!stream_kind_parse(column_text(statement, 2), &kind)) {
            continue; /* of a later version */
        }
        struct stream_entry *entry = &batch->entries[batch->count++];
        *entry = (struct stream_entry){.number = batch->position.number,
                                       .at_us = sqlite3_column_int64(statement, 1),
                                       .kind = kind,
                                       .workspace_id = sqlite3_column_int64(statement, 4),
                                       .workspace = column_copy(statement, 5, arena, &failed),
                                       .workflow = column_copy(statement, 6, arena, &failed)};
        text_copy(entry->id, sizeof entry->id, column_text(statement, 3));
    }
    (void)sqlite3_reset(statement);
    return failed ? error_out_of_memory(error) : status;
}

/* Of one snapshot. */
static enum weir_status read_batch(struct connection *connection, const struct stream_position *after, size_t most,
                                   struct arena *arena, struct stream_state *state, struct stream_batch *batch,
                                   struct weir_error *error)
{
    enum weir_status status = read_stream_state(connection, state, error);
    if (status != WEIR_OK || must_renew(state)) {
        return status;
    }
    *batch = (struct stream_batch){.position = *after};
    batch->is_reset = after->since_us != state->since_us || after->number < state->purged_to || after->number > state->last;
    if (batch->is_reset) {
        batch->position = (struct stream_position){.since_us = state->since_us, .number = state->last};
        return WEIR_OK;
    }
    return read_entries_behind(connection, most, arena, batch, error);
}

enum weir_status sqlite_read_stream(struct store *store, const struct stream_position *after, size_t most,
                                    struct arena *arena, struct stream_batch *ret_batch, struct weir_error *error)
{
    INVARIANT(after != NULL && most > 0 && most <= STREAM_READ_MOST && arena != NULL && ret_batch != NULL);
    struct stream_state state = {0};
    struct stream_batch batch = {.count = 0};
    struct connection *connection;
    enum weir_status status;
    bool is_renewed = false;
    do {
        status = snapshot_begin(store, &connection, error);
        if (status != WEIR_OK) {
            return status;
        }
        status = read_batch(connection, after, most, arena, &state, &batch, error);
        snapshot_end(connection);
        is_renewed = status == WEIR_OK && must_renew(&state);
        if (is_renewed) {
            status = renew(store, error);
        }
    } while (is_renewed && status == WEIR_OK);
    if (status == WEIR_OK) {
        *ret_batch = batch;
    }
    return status;
}

/* --- retention --- */

static enum weir_status find_old(struct connection *connection, size_t limit, int64_t *ret_last_old,
                                 struct weir_error *error)
{
    struct stream_state state = {0};
    enum weir_status status = read_stream_state(connection, &state, error);
    if (status == WEIR_OK) {
        status = connection_read_integer(connection, error, ret_last_old, QUERY_LAST_OLD_STREAM_ENTRY, "iii",
                                         state.now_us - STREAM_KEEP_US, state.last - STREAM_ENTRIES_MOST, (int64_t)limit);
    }
    return status;
}

enum weir_status sqlite_purge_stream(struct store *store, size_t limit, int64_t *ret_removed, struct weir_error *error)
{
    INVARIANT(limit > 0 && limit <= STREAM_PURGE_MOST && ret_removed != NULL);
    struct write write;
    struct connection *reader;
    int64_t last_old = 0;
    int64_t removed = 0;
    enum weir_status status = store_reader(store, &reader, error);
    if (status == WEIR_OK) { /* a store without old entries is not written */
        status = find_old(reader, limit, &last_old, error);
    }
    if (status != WEIR_OK || last_old == 0) {
        *ret_removed = status == WEIR_OK ? 0 : *ret_removed;
        return status;
    }
    status = write_open(store, &write, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = connection_run(write.connection, error, &removed, QUERY_PURGE_STREAM, "i", last_old);
    if (status == WEIR_OK) {
        status = connection_run(write.connection, error, NULL, QUERY_NOTE_STREAM_PURGE, "i", last_old);
    }
    if (status != WEIR_OK) {
        write_undo(&write);
        return status;
    }
    status = write_finish(&write, error);
    *ret_removed = status == WEIR_OK ? removed : *ret_removed;
    return status;
}
