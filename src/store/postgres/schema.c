/* The schema: whether it exists and fits this program, how it is made and changed, and the rights of roles.
 *
 * Tables come from numbered files (in the folder schema/), each applied once in its own transaction. Functions and views
 * (functions/, views/) are replaced as a whole, in one transaction, when the checksum of their texts is not the one that
 * the store has. The table schema_migrations records both: a row per numbered file, and the row of version 0 whose name is
 * the checksum. A schema file never calls a function of these. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/shell_quote.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/postgres_store.h"

#define MIGRATION_DEADLINE_US (15 * 60 * MICROSECONDS_PER_SECOND) /* an index on a large table takes its time */
#define LOCKS_DEADLINE_CALLS 24 /* deadlines of a call: two minutes, where --timeout does not name another */
#define LOCKS_PAUSE_S 1
#define LOCK_NOT_AVAILABLE "55P03"
#define DUPLICATE_SCHEMA "42P06"
#define DUPLICATE_TABLE "42P07"
#define UNIQUE_VIOLATION "23505"
enum { FUNCTIONS_BYTES_MAX = 4 * 1024 * 1024 };

/* --- applied files --- */

enum { ALL_COUNT = POSTGRES_MIGRATION_COUNT + 1 }; /* the numbered files, and the functions with the views */
static const char FUNCTIONS_NAME[] = "functions_and_views";

struct applied {
    int count;          /* numbered files; 0 = nothing is there */
    bool is_ours;       /* the names are those of our files, without a gap */
    bool has_place;     /* the schema exists, empty */
    bool has_functions; /* the functions and views are those of this program */
};

/* All that this program brings is there. */
static bool is_complete(const struct applied *applied)
{
    return applied->count >= POSTGRES_MIGRATION_COUNT && applied->has_functions;
}

/* A schema without our table of migrations is empty, missing, or another program's. */
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
                  "the schema \"%s\" of %s is not a weir store: it has tables of something else", link->address->schema,
                  link->address->shown);
        error_hint(error, "give another schema in the URL (?schema=NAME); this one was not touched");
        return WEIR_STORE_NOT_WEIR;
    }
    return WEIR_OK;
}

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

/* In a transaction a list that is not there would end it, so there it is looked for first. Otherwise it is there nearly
 * always, and asking for it alone saves every command a question. */
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
    if (!applied->is_ours) {
        error_set(error, WEIR_SCHEMA_NEWER, "the store %s has migrations that this program does not know",
                  link->address->shown);
    } else {
        error_set(error, WEIR_SCHEMA_NEWER, "the store %s has schema %d, this program knows up to %d", link->address->shown,
                  applied->count, POSTGRES_MIGRATION_COUNT);
    }
    error_hint(error, "it was used by a newer weir: install that version; nothing was changed");
    return WEIR_SCHEMA_NEWER;
}

/* No migration passes through another encoding. A database without a chosen one has that of the server's
 * locale, which is SQL_ASCII where the locale was C. */
static enum weir_status require_encoding(const struct link *link, struct weir_error *error)
{
    const char *encoding = PQparameterStatus(link->connection, "server_encoding");
    if (encoding == NULL || strcmp(encoding, "UTF8") == 0) {
        return WEIR_OK;
    }
    error_set(error, WEIR_STORE_NOT_WEIR, "the database of %s has the encoding %.32s, and weir needs UTF8",
              link->address->shown, encoding);
    error_hint(error, "make another: createdb --encoding=UTF8 --template=template0 NAME; nothing was changed");
    return WEIR_STORE_NOT_WEIR;
}

static bool is_newer(const struct applied *applied)
{
    return applied->count > POSTGRES_MIGRATION_COUNT || (applied->count > 0 && !applied->is_ours);
}

enum weir_status postgres_require_schema(struct store *store, struct weir_error *error)
{
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
        error_set(error, WEIR_SCHEMA_MISSING, "the store %s has no tables yet", store->url);
        char word[SHELL_WORD_MAX];
        error_hint(error, "make them with: weir store init --store %s", shell_quote(store->url, word));
        return WEIR_SCHEMA_MISSING;
    }
    if (applied.count < POSTGRES_MIGRATION_COUNT) {
        error_set(error, WEIR_SCHEMA_OLDER, "the store %s has schema %d, this program needs %d", store->url, applied.count,
                  POSTGRES_MIGRATION_COUNT);
        error_hint(error, "see what will change with: weir store plan; then: weir store migrate");
        return WEIR_SCHEMA_OLDER;
    }
    if (!applied.has_functions) {
        error_set(error, WEIR_SCHEMA_OLDER, "the store %s does not have the functions and views of this program",
                  store->url);
        error_hint(error, "install them with: weir store migrate");
        return WEIR_SCHEMA_OLDER;
    }
    return WEIR_OK;
}

/* The applied files, where the rest may be. */
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

/* The texts of all functions and views with the schema's name in place; NULL = out of memory. */
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

static enum weir_status apply_migration(struct link *link, const struct named_migration *migration,
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
    if (status == WEIR_OK) { /* the file may have dropped some, or changed their purpose */
        status = link_run(link, error, NULL, QUERY_FORGET_FUNCTIONS, "");
    }
    if (status != WEIR_OK) {
        error_prefix(error, "migration %s", migration->name);
    }
    return status;
}

/* Bodies are not checked when they are made, so that functions may name each other, and views, in any order. */
static enum weir_status apply_functions(struct link *link, struct weir_error *error)
{
    enum weir_status status = link_execute(link, link->address->texts[QUERY_DEFER_FUNCTION_CHECKS], error);
    for (int i = 0; i < POSTGRES_FUNCTION_COUNT && status == WEIR_OK; i++) {
        char *sql = address_fill(link->address, postgres_functions[i].sql);
        status = sql == NULL ? error_out_of_memory(error) : link_execute(link, sql, error);
        free(sql);
        if (status != WEIR_OK) {
            error_prefix(error, "%s", postgres_functions[i].name);
        }
    }
    if (status == WEIR_OK) {
        status = link_run(link, error, NULL, QUERY_NOTE_FUNCTIONS, "tt", POSTGRES_FUNCTIONS_CHECKSUM, WEIR_VERSION);
    }
    return status;
}

/* *ret_race: another migration has made it meanwhile. The server let us wait for its commit. */
static enum weir_status create_ledger(struct link *link, bool has_place, bool *ret_race, struct weir_error *error)
{
    enum weir_status status =
        link_execute(link, link->address->texts[has_place ? QUERY_CREATE_LEDGER_IN_SCHEMA : QUERY_CREATE_LEDGER], error);
    *ret_race = status != WEIR_OK &&
                (strcmp(link->sqlstate, DUPLICATE_SCHEMA) == 0 || strcmp(link->sqlstate, DUPLICATE_TABLE) == 0 ||
                 strcmp(link->sqlstate, UNIQUE_VIOLATION) == 0);
    return status;
}

/* Reads the applied files and excludes other migrations. A store that is complete needs no lock, so a role without the
 * right to take it learns that there is nothing to do. */
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
    status = link_execute(link, link->address->texts[QUERY_LOCK_LEDGER], error);
    return status == WEIR_OK ? read_to_migrate(link, ret_applied, error) : status;
}

/* One migration, or all functions and views, and its row in one transaction: a crash leaves it done or not begun.
 * *ret_race: another migration was faster. */
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
        status = apply_migration(link, &postgres_migrations[applied.count], error);
    } else if (status == WEIR_OK && !applied.has_functions) {
        status = apply_functions(link, error);
    }
    if (status != WEIR_OK) {
        link_transaction_rollback(link);
        return status;
    }
    *ret_done = is_complete(&applied);
    return link_transaction_commit(link, error);
}

/* Names a session that has a lock on a table of the store. Without one the error stays as it is. */
static void name_lock_holder(struct link *link, struct weir_error *error)
{
    PGresult *holder = NULL;
    struct weir_error ignored;
    if (link_read(link, &ignored, &holder, QUERY_FIND_LOCK_HOLDER, "") == WEIR_OK && PQntuples(holder) > 0) {
        error_set(error, WEIR_STORE_BUSY, "the migration waited for a lock in vain: %s", result_text(holder, 0, 0));
        error_hint(error, "let that session end, or end it with: SELECT pg_terminate_backend(%s); then migrate again",
                   result_text(holder, 0, 1));
    }
    PQclear(holder);
}

/* A table that other sessions hold is tried for again and again, and between two turns the nodes behind us get theirs. */
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
    /* Prepared statements may have another meaning now. */
    link_drop(link);
    if (ret_applied != NULL) {
        *ret_applied = applied;
    }
    return status;
}

/* --- rights --- */

static enum weir_status require_rights(struct link *link, const char *role, struct weir_error *error)
{
    PGresult *missing = NULL;
    enum weir_status status = link_read(link, error, &missing, QUERY_FIND_MISSING_RIGHT, "t", role);
    if (status == WEIR_OK && PQntuples(missing) > 0) {
        status = error_set(error, WEIR_NOT_PERMITTED, "the role \"%.64s\" could not be given its rights to the %.80s of %s",
                           role, result_text(missing, 0, 0), link->address->shown);
        error_hint(error, "give them as the owner of the schema and of what is in it; nothing was changed");
    }
    PQclear(missing);
    return status;
}

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
