/* The schema of the file: its number, the missing schema files, and the migration.
 *
 *   1. Numbered schema files make the tables. Each runs in a transaction of its own together with its number (PRAGMA
 *      user_version). So a crash leaves it done or not begun, and a migration can be repeated.
 *   2. Views hold no data. All of them are made anew in one transaction when their checksum differs from the one on
 *      record.
 *   3. A new file gets all of it in one transaction: no process and no crash finds tables without their views. Other
 *      processes wait for this transaction (new_file.h).
 *   4. Each step reads the number again under the write lock, because another process may have migrated meanwhile.
 *
 * A migration never changes a file with a newer schema. Runs in the caller's thread.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/refusal.h"
#include "store/sqlite/sqlite_store.h"

/* The number of the schema in the file. */
static enum weir_status read_version(struct connection *connection, int *ret_version, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_READ_SCHEMA_VERSION, "");
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    *ret_version = 0;
    if (connection_step(connection, statement, &status, error)) {
        *ret_version = sqlite3_column_int(statement, 0);
        (void)sqlite3_reset(statement);
    }
    return status;
}

/* The file was migrated by a newer program. */
static enum weir_status refuse_newer(const struct store *store, int version, struct weir_error *error)
{
    return refusal_schema_newer(store->url, version, SQLITE_MIGRATION_COUNT, error);
}

/* Whether the views in the file are those of this program. */
static enum weir_status are_views_ours(struct connection *connection, bool *ret_are_ours, struct weir_error *error)
{
    sqlite3_stmt *statement = connection_bind(connection, error, QUERY_READ_VIEWS, "");
    enum weir_status status = WEIR_OK;
    if (statement == NULL) {
        return statement_failure(error);
    }
    *ret_are_ours = false;
    if (connection_step(connection, statement, &status, error)) {
        const char *checksum = column_text(statement, 0);
        *ret_are_ours = checksum != NULL && strcmp(checksum, SQLITE_VIEWS_CHECKSUM) == 0;
        (void)sqlite3_reset(statement);
    }
    return status;
}

/* The file needs a migration, or only new views. */
static enum weir_status refuse_older(const struct store *store, int version, struct weir_error *error)
{
    if (version == 0) {
        return refusal_schema_missing(store->url, error);
    }
    if (version == SQLITE_MIGRATION_COUNT) {
        error_set(error, WEIR_SCHEMA_OLDER, "the store %s does not have the views of this program", store->url);
        error_hint(error, "make them with: weir store migrate");
        return WEIR_SCHEMA_OLDER;
    }
    return refusal_schema_older(store->url, version, SQLITE_MIGRATION_COUNT, error);
}

/* Asked of the writer, which is there: a handle that is only there to open others needs no reader of its own. */
enum weir_status sqlite_require_schema(struct store *store, struct weir_error *error)
{
    INVARIANT(store != NULL);
    struct connection *connection;
    struct sqlite_store *self = sqlite_of(store);
    int version = 0;
    bool are_ours = false;
    enum weir_status status = self->reader.borrowed ? store_reader(store, &connection, error)
                                                    : write_reserve(self->file, store->deadline_us, &connection, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = read_version(connection, &version, error);
    if (status == WEIR_OK && version == SQLITE_MIGRATION_COUNT) {
        status = are_views_ours(connection, &are_ours, error);
    }
    if (!self->reader.borrowed) {
        write_cancel(self->file);
    }
    if (status != WEIR_OK || are_ours) {
        return status;
    }
    return version > SQLITE_MIGRATION_COUNT ? refuse_newer(store, version, error) : refuse_older(store, version, error);
}

/* All views as one text, for a person who wants to see the effect of a migration. */
static char *text_of_views(struct arena *arena)
{
    size_t length = 0;
    size_t used = 0;
    for (int i = 0; i < SQLITE_VIEW_COUNT; i++) {
        length += strlen(sqlite_views[i].sql);
    }
    char *text = arena_allocate(arena, length + 1);
    for (int i = 0; i < SQLITE_VIEW_COUNT && text != NULL; i++) {
        size_t part = strlen(sqlite_views[i].sql);
        memcpy(text + used, sqlite_views[i].sql, part + 1);
        used += part;
    }
    return text;
}

/* The number of the schema, and whether the views are those of this program. */
static enum weir_status read_state(struct store *store, int *ret_version, bool *ret_are_ours, struct weir_error *error)
{
    struct connection *connection;
    enum weir_status status = store_reader(store, &connection, error);
    if (status == WEIR_OK) {
        status = read_version(connection, ret_version, error);
    }
    if (status == WEIR_OK && *ret_version > SQLITE_MIGRATION_COUNT) {
        status = refuse_newer(store, *ret_version, error);
    }
    *ret_are_ours = false;
    return status == WEIR_OK && *ret_version > 0 ? are_views_ours(connection, ret_are_ours, error) : status;
}

/* The views come last, under the number of the schema that they are for. */
enum weir_status sqlite_plan(struct store *store, struct arena *arena, const struct store_migration **ret_migrations,
                             size_t *ret_count, struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_migrations != NULL && ret_count != NULL);
    int version = 0;
    bool are_ours = false;
    enum weir_status status = read_state(store, &version, &are_ours, error);
    if (status != WEIR_OK) {
        return status;
    }
    char *views = text_of_views(arena);
    struct store_migration *migrations = arena_allocate(arena, (SQLITE_MIGRATION_COUNT + 1) * sizeof *migrations);
    if (migrations == NULL || views == NULL) {
        return error_out_of_memory(error);
    }
    for (int i = 0; i < SQLITE_MIGRATION_COUNT; i++) {
        migrations[i] = (struct store_migration){.version = sqlite_migrations[i].version,
                                                 .name = sqlite_migrations[i].name,
                                                 .sql = sqlite_migrations[i].sql,
                                                 .applied = sqlite_migrations[i].version <= version};
    }
    migrations[SQLITE_MIGRATION_COUNT] =
        (struct store_migration){.version = SQLITE_MIGRATION_COUNT, .name = "all_views", .sql = views, .applied = are_ours};
    *ret_migrations = migrations;
    *ret_count = SQLITE_MIGRATION_COUNT + 1;
    return WEIR_OK;
}

/* One migration and its number in one transaction: a crash leaves it done or not begun. */
static enum weir_status apply_migration(struct connection *connection, const struct named_migration *migration,
                                        struct weir_error *error)
{
    char mark[96];
    (void)snprintf(mark, sizeof mark, "PRAGMA user_version=%d; PRAGMA application_id=%d;", migration->version,
                   APPLICATION_ID);
    enum weir_status status = connection_execute(connection, migration->sql, error);
    if (status == WEIR_OK) {
        status = connection_execute(connection, mark, error);
    }
    if (status == WEIR_OK) {
        status = connection_set_clock(connection, false, error);
    }
    if (status != WEIR_OK) {
        error_prefix(error, "migration %s", migration->name);
    }
    return status;
}

/* Drops and makes all views, and stores their checksum. */
static enum weir_status make_views(struct connection *connection, struct weir_error *error)
{
    enum weir_status status = WEIR_OK;
    for (int i = 0; i < SQLITE_VIEW_COUNT && status == WEIR_OK; i++) {
        status = connection_execute(connection, sqlite_views[i].sql, error);
        if (status != WEIR_OK) {
            error_prefix(error, "view %s", sqlite_views[i].name);
        }
    }
    return status == WEIR_OK ? connection_run(connection, error, NULL, QUERY_NOTE_VIEWS, "t", SQLITE_VIEWS_CHECKSUM)
                             : status;
}

/* The next step in the open transaction: a schema file, or at last the views. */
static enum weir_status migrate_step(struct connection *connection, const struct store *store, bool *ret_done,
                                     struct weir_error *error)
{
    int version = 0;
    bool are_ours = false;
    enum weir_status status = read_version(connection, &version, error);
    if (status == WEIR_OK && version > SQLITE_MIGRATION_COUNT) {
        return refuse_newer(store, version, error);
    }
    if (status == WEIR_OK && version > 0) {
        status = are_views_ours(connection, &are_ours, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    bool is_last = version == SQLITE_MIGRATION_COUNT;
    *ret_done = is_last && are_ours;
    store_report_migrated(store, version + *ret_done, SQLITE_MIGRATION_COUNT + 1);
    if (*ret_done) {
        return WEIR_OK;
    }
    status = is_last ? make_views(connection, error) : apply_migration(connection, &sqlite_migrations[version], error);
    if (status != WEIR_OK || store_actor(store) == NULL) {
        return status;
    }
    int64_t now_us = 0;
    status = connection_store_time(connection, &now_us, error);
    return status == WEIR_OK ? act_insert(connection, store, now_us, "store migrate",
                                          is_last ? "all_views" : sqlite_migrations[version].name, 0, error)
                             : status;
}

/* Runs the next step in a transaction of its own, or all steps of a new file in one. */
static enum weir_status migrate_next(struct connection *connection, const struct store *store, int *applied, bool *ret_done,
                                     struct weir_error *error)
{
    int version = 0;
    int made = 0;
    enum weir_status status = connection_begin(connection, QUERY_BEGIN_IMMEDIATE, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = read_version(connection, &version, error);
    do {
        status = status == WEIR_OK ? migrate_step(connection, store, ret_done, error) : status;
        made += status == WEIR_OK && !*ret_done;
    } while (status == WEIR_OK && version == 0 && !*ret_done);
    if (status == WEIR_OK) {
        status = connection_run(connection, error, NULL, QUERY_COMMIT, "");
    }
    if (status != WEIR_OK) {
        connection_rollback(connection);
        return status;
    }
    *applied += made;
    return WEIR_OK;
}

enum weir_status sqlite_migrate(struct store *store, int *ret_applied, struct weir_error *error)
{
    INVARIANT(store != NULL);
    struct connection *connection;
    int applied = 0;
    bool done = false;
    struct sqlite_store *self = sqlite_of(store);
    enum weir_status status = write_reserve(self->file, store->deadline_us, &connection, error);
    if (status != WEIR_OK) {
        return status;
    }
    while (status == WEIR_OK && !done) {
        status = migrate_next(connection, store, &applied, &done, error);
    }
    sqlite_file_made(self->file);
    write_cancel(self->file);
    if (ret_applied != NULL) {
        *ret_applied = applied;
    }
    return status;
}
