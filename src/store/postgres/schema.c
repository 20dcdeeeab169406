/* The schema: whether it exists and fits this program, how it is made and changed, and the rights of roles.
 *
 * Tables come from numbered files (schema/), each applied once. Functions and views (functions/, views/) are replaced as a
 * whole when the checksum of their texts is not the one that the store has. The table schema_migrations records both: a row
 * per numbered file, and a row of version 0 with the checksum as its name. A schema file never calls one of these
 * functions.
 *
 * A migration, step by step (postgres_migrate() repeats it until nothing is left):
 * 1. Begin a transaction, and read the applied files. A store of a newer program is refused.
 * 2. Lock schema_migrations, so that one migration runs at a time, and read the files again.
 * 3. Apply the next file, or else all functions and views.
 * 4. Record it and commit. A crash leaves the file applied or not begun.
 * 5. A migration waits 2 s for a lock. A longer wait would hold up every node that wants the same table behind it. So it
 *    gives up, pauses, and tries again for some minutes; then the error names the session that has the lock.
 *
 * This file never changes a schema that is not weir's, and never migrates without being called to. It runs in the thread of
 * the command. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/postgres_store.h"
#include "store/refusal.h"

#define MIGRATION_DEADLINE_US (15 * 60 * MICROSECONDS_PER_SECOND) /* the build of an index on a large table is long */
#define LOCKS_DEADLINE_CALLS 24 /* deadlines of a call: two minutes, where --timeout does not name another */
#define LOCKS_PAUSE_S 1
#define LOCK_NOT_AVAILABLE "55P03"
#define DUPLICATE_SCHEMA "42P06"
#define DUPLICATE_TABLE "42P07"
#define UNIQUE_VIOLATION "23505"
#define INVALID_FUNCTION_DEFINITION "42P13"
enum { FUNCTIONS_BYTES_MAX = 4 * 1024 * 1024 };

/* --- applied files --- */

enum { ALL_COUNT = POSTGRES_MIGRATION_COUNT + 1 }; /* the numbered files, and the functions with the views */
static const char FUNCTIONS_NAME[] = "functions_and_views";

struct applied {
    int count;          /* numbered files; 0 = the store has none */
    bool is_ours;       /* the names are those of our files, without a gap */
    bool has_place;     /* the schema exists and is empty */
    bool has_functions; /* the functions and views are those of this program */
};

/* The store has every file, function and view of this program. */
static bool is_complete(const struct applied *applied)
{
    return applied->count >= POSTGRES_MIGRATION_COUNT && applied->has_functions;
}

/* A schema without the table schema_migrations is empty, missing, or of another program. */
static enum weir_status find_schema(struct link *link, struct applied *ret_applied, struct weir_error *error)
{
    PGresult *result = NULL;
    enum weir_status status = link_read(link, error, &result, QUERY_FIND_SCHEMA, "");
    if (status != WEIR_OK) {
        return status;
    }
    *ret_applied = (struct applied){.count = result_bool(result, 0, 1) ? 1 : 0,
                                    .has_place = result_bool(result, 0, 0),
                                    .is_ours = result_bool(result, 0, 1) || !result_bool(result, 0, 2)};
    PQclear(result);
    if (!ret_applied->is_ours) {
        error_set(error, WEIR_STORE_NOT_WEIR,
                  "the schema \"%s\" of %s is not a weir store: it has tables of another program", link->address->schema,
                  link->address->shown);
        error_hint(error, "give another schema in the URL (?schema=NAME); this one was not changed");
        return WEIR_STORE_NOT_WEIR;
    }
    return WEIR_OK;
}

/* Reads the table schema_migrations. */
static enum weir_status list_applied(struct link *link, struct applied *ret_applied, struct weir_error *error)
{
    PGresult *result = NULL;
    enum weir_status status = link_read(link, error, &result, QUERY_LIST_APPLIED, "");
    if (status != WEIR_OK) {
        return status;
    }
    *ret_applied = (struct applied){.is_ours = true};
    for (int row = 0; row < PQntuples(result); row++) {
        if (result_int(result, row, 0) == 0) {
            ret_applied->has_functions = strcmp(result_text(result, row, 1), POSTGRES_FUNCTIONS_CHECKSUM) == 0;
            continue;
        }
        int i = ret_applied->count++;
        ret_applied->is_ours =
            ret_applied->is_ours &&
            (i >= POSTGRES_MIGRATION_COUNT || (result_int(result, row, 0) == postgres_migrations[i].version &&
                                               strcmp(result_text(result, row, 1), postgres_migrations[i].name) == 0));
    }
    PQclear(result);
    return WEIR_OK;
}

/* A missing table ends a transaction, so inside one the table is looked for first. Outside one it is nearly always there,
 * and reading it at once saves every command a statement. */
static enum weir_status read_applied(struct link *link, struct applied *ret_applied, struct weir_error *error)
{
    if (!link->in_transaction) {
        enum weir_status status = list_applied(link, ret_applied, error);
        if (status != WEIR_SCHEMA_MISSING) {
            return status;
        }
    }
    enum weir_status status = find_schema(link, ret_applied, error);
    return status == WEIR_OK && ret_applied->count > 0 ? list_applied(link, ret_applied, error) : status;
}

static enum weir_status refuse_newer_schema(const struct link *link, const struct applied *applied,
                                            struct weir_error *error)
{
    if (applied->is_ours) {
        return refusal_schema_newer(link->address->shown, applied->count, POSTGRES_MIGRATION_COUNT, error);
    }
    error_set(error, WEIR_SCHEMA_NEWER, "the store %s has migrations that are not in this program", link->address->shown);
    error_hint(error, "it was used by a newer weir: install that version; nothing was changed");
    return WEIR_SCHEMA_NEWER;
}

/* Weir stores UTF-8. A database that was made without an encoding has that of the server's locale; with the locale C it is
 * SQL_ASCII. */
static enum weir_status require_encoding(const struct link *link, struct weir_error *error)
{
    const char *encoding = PQparameterStatus(link->connection, "server_encoding");
    if (encoding == NULL || strcmp(encoding, "UTF8") == 0) {
        return WEIR_OK;
    }
    error_set(error, WEIR_STORE_NOT_WEIR, "the database of %s has the encoding %.32s, and weir needs UTF8",
              link->address->shown, encoding);
    error_hint(error, "make another database: createdb --encoding=UTF8 --template=template0 NAME; nothing was changed");
    return WEIR_STORE_NOT_WEIR;
}

static bool is_newer(const struct applied *applied)
{
    return applied->count > POSTGRES_MIGRATION_COUNT || (applied->count > 0 && !applied->is_ours);
}

enum weir_status postgres_require_schema(struct store *store, struct weir_error *error)
{
    INVARIANT(store != NULL);
    struct link *link = link_of(store);
    struct applied applied;
    enum weir_status status = read_applied(link, &applied, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (is_newer(&applied)) {
        return refuse_newer_schema(link, &applied, error);
    }
    if (applied.count == 0) {
        return refusal_schema_missing(store->url, error);
    }
    if (applied.count < POSTGRES_MIGRATION_COUNT) {
        return refusal_schema_older(store->url, applied.count, POSTGRES_MIGRATION_COUNT, error);
    }
    if (!applied.has_functions) {
        error_set(error, WEIR_SCHEMA_OLDER, "the store %s does not have the functions and views of this program",
                  store->url);
        error_hint(error, "install them with: weir store migrate");
        return WEIR_SCHEMA_OLDER;
    }
    return WEIR_OK;
}

/* The applied files of a store that this program may migrate. */
static enum weir_status read_to_migrate(struct link *link, struct applied *ret_applied, struct weir_error *error)
{
    enum weir_status status = read_applied(link, ret_applied, error);
    if (status != WEIR_OK) {
        return status;
    }
    if (is_newer(ret_applied)) {
        return refuse_newer_schema(link, ret_applied, error);
    }
    return ret_applied->count < POSTGRES_MIGRATION_COUNT ? require_encoding(link, error) : WEIR_OK;
}

/* The texts of all functions and views with the name of the schema in place; NULL = out of memory. */
static char *functions_text(const struct address *address, struct arena *arena)
{
    struct text all = {.max = FUNCTIONS_BYTES_MAX};
    enum weir_status status = text_add_string(&all, "");
    for (int i = 0; i < POSTGRES_FUNCTION_COUNT && status == WEIR_OK; i++) {
        status = text_add_string(&all, postgres_functions[i].sql);
    }
    char *sql = status == WEIR_OK ? address_fill(address, all.data) : NULL;
    char *copy = sql == NULL ? NULL : arena_copy_string(arena, sql);
    text_close(&all);
    free(sql);
    return copy;
}

enum weir_status postgres_plan(struct store *store, struct arena *arena, const struct store_migration **ret_migrations,
                               size_t *ret_count, struct weir_error *error)
{
    INVARIANT(arena != NULL && ret_migrations != NULL && ret_count != NULL);
    struct link *link = link_of(store);
    struct applied applied;
    enum weir_status status = read_to_migrate(link, &applied, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct store_migration *migrations = arena_allocate(arena, ALL_COUNT * sizeof *migrations);
    for (int i = 0; migrations != NULL && i < POSTGRES_MIGRATION_COUNT; i++) {
        char *sql = address_fill(link->address, postgres_migrations[i].sql);
        migrations[i] = (struct store_migration){.version = postgres_migrations[i].version,
                                                 .name = postgres_migrations[i].name,
                                                 .sql = sql == NULL ? NULL : arena_copy_string(arena, sql),
                                                 .applied = postgres_migrations[i].version <= applied.count};
        free(sql);
        if (migrations[i].sql == NULL) {
            return error_out_of_memory(error);
        }
    }
    char *functions = functions_text(link->address, arena);
    if (migrations == NULL || functions == NULL) {
        return error_out_of_memory(error);
    }
    migrations[POSTGRES_MIGRATION_COUNT] = (struct store_migration){
        .version = ALL_COUNT, .name = FUNCTIONS_NAME, .sql = functions, .applied = is_complete(&applied)};
    *ret_migrations = migrations;
    *ret_count = ALL_COUNT;
    return WEIR_OK;
}

/* --- migrating --- */

static enum weir_status apply_postgres_migration(struct link *link, const struct named_migration *migration,
                                                 struct weir_error *error)
{
    char *sql = address_fill(link->address, migration->sql);
    if (sql == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = link_execute(link, sql, error);
    free(sql);
    if (status == WEIR_OK) {
        status = link_run(link, error, NULL, QUERY_NOTE_APPLIED, "dtt", migration->version, migration->name, WEIR_VERSION);
    }
    if (status == WEIR_OK) { /* the file may have dropped a function, or changed what one needs */
        status = link_run(link, error, NULL, QUERY_FORGET_FUNCTIONS, "");
    }
    if (status != WEIR_OK) {
        error_prefix(error, "migration %s", migration->name);
    }
    return status;
}

/* Runs the statements in the first column of a query's answer. */
static enum weir_status execute_rows(struct link *link, enum weir_status status, const PGresult *statements,
                                     struct weir_error *error)
{
    for (int i = 0; status == WEIR_OK && i < PQntuples(statements); i++) {
        status = link_execute(link, result_text(statements, i, 0), error);
    }
    return status;
}

/* Functions of an older program whose arguments are others by now would make each call ambiguous that names no new
 * argument. Their rights pass to the new ones. */
static enum weir_status drop_old_functions(struct link *link, struct weir_error *error)
{
    PGresult *statements = NULL;
    enum weir_status status = link_read(link, error, &statements, QUERY_REPLACE_OLD_FUNCTIONS, "");
    status = execute_rows(link, status, statements, error);
    if (status != WEIR_OK && statements != NULL) {
        error_prefix(error, "a function of an older program");
        error_hint(error, "drop what depends on it, and make it again after the migration");
    }
    PQclear(statements);
    return status;
}

static enum weir_status execute_query_text(struct link *link, enum postgres_query query, struct weir_error *error)
{
    const struct address_query *filled = address_query(link->address, query);
    return filled == NULL ? error_out_of_memory(error) : link_execute(link, filled->text, error);
}

/* Replaces a function in place, which keeps its rights and what depends on it. The server refuses this when the result, the
 * name of an argument or a default is another. Then the old function is renamed, and drop_old_functions() drops it. Nodes
 * of the older program call the new one from the commit on: they name the columns that they read. */
static enum weir_status apply_function(struct link *link, const struct named_query *function, struct weir_error *error)
{
    PGresult *statements = NULL;
    char *sql = address_fill(link->address, function->sql);
    if (sql == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = execute_query_text(link, QUERY_BEGIN_FUNCTION, error);
    status = status == WEIR_OK ? link_execute(link, sql, error) : status;
    if (status != WEIR_OK && strcmp(link->sqlstate, INVALID_FUNCTION_DEFINITION) == 0) {
        status = execute_query_text(link, QUERY_UNDO_FUNCTION, error);
        if (status == WEIR_OK) {
            status = link_read(link, error, &statements, QUERY_MOVE_FUNCTION_ASIDE, "t", function->name);
        }
        status = execute_rows(link, status, statements, error);
        status = status == WEIR_OK ? link_execute(link, sql, error) : status;
        PQclear(statements);
    }
    free(sql);
    return status == WEIR_OK ? execute_query_text(link, QUERY_END_FUNCTION, error) : status;
}

/* The server does not check bodies here, so that functions may call each other, and read views, in any order. */
static enum weir_status apply_functions(struct link *link, struct weir_error *error)
{
    enum weir_status status = execute_query_text(link, QUERY_DEFER_FUNCTION_CHECKS, error);
    for (int i = 0; i < POSTGRES_FUNCTION_COUNT && status == WEIR_OK; i++) {
        status = apply_function(link, &postgres_functions[i], error);
        if (status != WEIR_OK) {
            error_prefix(error, "%s", postgres_functions[i].name);
        }
    }
    if (status == WEIR_OK) {
        status = drop_old_functions(link, error);
    }
    if (status == WEIR_OK) {
        status = link_run(link, error, NULL, QUERY_NOTE_FUNCTIONS, "tt", POSTGRES_FUNCTIONS_CHECKSUM, WEIR_VERSION);
    }
    return status;
}

/* *ret_race: another migration made the table meanwhile; the server waited for its commit. */
static enum weir_status create_ledger(struct link *link, bool has_place, bool *ret_race, struct weir_error *error)
{
    enum weir_status status =
        execute_query_text(link, has_place ? QUERY_CREATE_LEDGER_IN_SCHEMA : QUERY_CREATE_LEDGER, error);
    *ret_race = status != WEIR_OK &&
                (strcmp(link->sqlstate, DUPLICATE_SCHEMA) == 0 || strcmp(link->sqlstate, DUPLICATE_TABLE) == 0 ||
                 strcmp(link->sqlstate, UNIQUE_VIOLATION) == 0);
    return status;
}

/* Steps 1 and 2. A complete store needs no lock, so a role without the right to it can call this as well. */
static enum weir_status read_and_lock_ledger(struct link *link, struct applied *ret_applied, bool *ret_race,
                                             struct weir_error *error)
{
    enum weir_status status = read_to_migrate(link, ret_applied, error);
    if (status != WEIR_OK || is_complete(ret_applied)) {
        return status;
    }
    if (ret_applied->count == 0) {
        return create_ledger(link, ret_applied->has_place, ret_race, error);
    }
    status = execute_query_text(link, QUERY_LOCK_LEDGER, error);
    return status == WEIR_OK ? read_to_migrate(link, ret_applied, error) : status;
}

/* Steps 1 to 4. *ret_race: another migration made the table schema_migrations first. */
static enum weir_status migrate_one_file(const struct store *store, struct link *link, bool *ret_done, bool *ret_race,
                                         struct weir_error *error)
{
    struct applied applied;
    *ret_race = false;
    enum weir_status status = link_transaction_begin_with(link, QUERY_BEGIN_MIGRATION, error);
    if (status != WEIR_OK) {
        return status;
    }
    status = read_and_lock_ledger(link, &applied, ret_race, error);
    if (status == WEIR_OK) {
        store_report_migrated(store, applied.count + is_complete(&applied), ALL_COUNT);
    }
    if (status == WEIR_OK && applied.count < POSTGRES_MIGRATION_COUNT) {
        status = apply_postgres_migration(link, &postgres_migrations[applied.count], error);
    } else if (status == WEIR_OK && !applied.has_functions) {
        status = apply_functions(link, error);
    }
    if (status == WEIR_OK && store_actor(store) != NULL && !is_complete(&applied)) {
        status =
            link_run(link, error, NULL, QUERY_NOTE_ACT, "ttttt", store->actor, "store migrate",
                     applied.count < POSTGRES_MIGRATION_COUNT ? postgres_migrations[applied.count].name : FUNCTIONS_NAME,
                     store_reason(store), NULL);
    }
    if (status != WEIR_OK) {
        link_transaction_rollback(link);
        return status;
    }
    *ret_done = is_complete(&applied);
    return link_transaction_commit(link, error);
}

/* Names a session that has a lock on a table of the store. If there is none, the error stays as it is. */
static void name_lock_holder(struct link *link, struct weir_error *error)
{
    PGresult *holder = NULL;
    struct weir_error ignored;
    if (link_read(link, &ignored, &holder, QUERY_FIND_LOCK_HOLDER, "") == WEIR_OK && PQntuples(holder) > 0) {
        error_set(error, WEIR_STORE_BUSY, "the migration did not get a lock in time: %s", result_text(holder, 0, 0));
        error_hint(error, "let that session end, or end it with: SELECT pg_terminate_backend(%s); then migrate again",
                   result_text(holder, 0, 1));
    }
    PQclear(holder);
}

/* Step 5. Repeats a migration that did not get its locks. Between two tries the nodes that wait behind it get theirs. */
static enum weir_status migrate_one_file_in_turns(const struct store *store, struct link *link, bool *ret_done,
                                                  struct weir_error *error)
{
    int64_t until_us = time_add(clock_boot(clock_system()), LOCKS_DEADLINE_CALLS * link->deadline_us);
    for (;;) {
        bool is_race = false;
        enum weir_status status = migrate_one_file(store, link, ret_done, &is_race, error);
        bool is_locked = status == WEIR_STORE_BUSY && strcmp(link->sqlstate, LOCK_NOT_AVAILABLE) == 0;
        bool again = status != WEIR_OK && (is_race || is_locked || (status == WEIR_STORE_BUSY && link_lost_a_race(link)));
        if (!again || clock_boot(clock_system()) >= until_us) {
            if (is_locked) {
                name_lock_holder(link, error);
            }
            return status;
        }
        struct timespec pause = {.tv_sec = LOCKS_PAUSE_S};
        (void)nanosleep(&pause, NULL);
    }
}

enum weir_status postgres_migrate(struct store *store, int *ret_applied, struct weir_error *error)
{
    INVARIANT(!postgres_of(store)->link.in_transaction);
    struct link *link = link_of(store);
    bool done = false;
    int applied = 0;
    enum weir_status status = postgres_require_writable(store, error);
    while (status == WEIR_OK && !done) {
        link_start_long(link, MIGRATION_DEADLINE_US);
        status = migrate_one_file_in_turns(store, link, &done, error);
        applied += status == WEIR_OK && !done;
    }
    if (status == WEIR_NOT_PERMITTED) {
        error_hint(error, "migrate with a role that may make tables there (the schema's owner); nodes need less");
    }
    /* Prepared statements may read changed tables. */
    link_drop(link);
    if (ret_applied != NULL) {
        *ret_applied = applied;
    }
    return status;
}

/* --- rights --- */

/* GRANT only warns when the caller may not give a right, so the rights are checked afterwards. */
static enum weir_status require_rights(struct link *link, const char *role, struct weir_error *error)
{
    PGresult *missing = NULL;
    enum weir_status status = link_read(link, error, &missing, QUERY_FIND_MISSING_RIGHT, "t", role);
    if (status == WEIR_OK && PQntuples(missing) > 0) {
        status = error_set(error, WEIR_NOT_PERMITTED, "the role \"%.64s\" could not be given its rights to the %.80s of %s",
                           role, result_text(missing, 0, 0), link->address->shown);
        error_hint(error, "give them as the owner of the schema and of all its objects; nothing was changed");
    }
    PQclear(missing);
    return status;
}

/* The body of the transaction: all rights or none. */
static enum weir_status grant_all(struct link *link, void *context, struct weir_error *error)
{
    const char *role = context;
    PGresult *statements = NULL;
    enum weir_status status = link_read(link, error, &statements, QUERY_GRANTS, "t", role);
    if (status != WEIR_OK) {
        return status;
    }
    for (int i = 0; i < PQntuples(statements) && status == WEIR_OK; i++) {
        status = link_execute(link, result_text(statements, i, 0), error);
    }
    PQclear(statements);
    return status == WEIR_OK ? require_rights(link, role, error) : status;
}

enum weir_status postgres_store_grant(struct store *store, const char *role, struct weir_error *error)
{
    INVARIANT(store != NULL && role != NULL);
    if (store->driver->open != postgres_store_driver.open) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the store %s has no roles", store->url);
        error_hint(error, "--role is for postgres:// stores");
        return WEIR_INVALID_ARGUMENT;
    }
    struct link *link = link_of(store);
    int64_t found = 0;
    enum weir_status status = link_read_integer(link, error, &found, QUERY_FIND_ROLE, "t", role);
    if (status == WEIR_NOT_FOUND) {
        error_set(error, WEIR_NOT_FOUND, "the server of %s has no role \"%.64s\"", store->url, role);
        error_hint(error, "make it first: CREATE ROLE name LOGIN PASSWORD '...'");
        return WEIR_NOT_FOUND;
    }
    return status == WEIR_OK ? link_transaction(link, grant_all, (void *)(uintptr_t)role, error) : status;
}
