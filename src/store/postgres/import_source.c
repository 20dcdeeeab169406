/* Reads the queue of another system on PostgreSQL (store/import_source.h).
 *
 * 1. The URL is that of a store, but the schema is `public` unless the URL names one.
 * 2. One transaction, REPEATABLE READ and READ ONLY, with limits on the time of each statement, each lock and each pause
 *    between two statements. Nothing is sent outside of it.
 * 3. The catalogue shows whether the tables are there, may be read, and have the columns that the texts in import/ name.
 *    A table that is wrong is refused with its name, before a row is read.
 * 4. A cursor gives the rows, IMPORT_BATCH at a time, so memory does not grow with the source. Large values stay on the
 *    server: the texts give their length instead.
 * 5. The connection is kept: one that is lost ends the import, because another one would see other rows.
 *
 * This file does not know the meaning of a row. One thread, that of the command.
 */
#include "store/import_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "import_nflow_rows.h"
#include "import_nflow_states.h"
#include "import_riven_rows.h"
#include "import_riven_states.h"
#include "queue/limits.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/link/link.h"

enum { TABLES_MOST = 2, SQL_MOST = 16 * 1024, PAUSE_DEADLINES = 10 };

/* A table of a system. `columns`: those that the texts name, each with a space behind it. */
struct source_table {
    const char *name;
    const char *columns;
};

static const struct layout {
    const char *system;
    bool has_one_table; /* `tables` are a name and an older name of it */
    struct source_table tables[TABLES_MOST];
    const char *states_sql;
    const char *rows_sql;
} layouts[] = {
    [IMPORT_NFLOW] = {"nFlow",
                      false,
                      {{"nflow_workflow", "id type status executor_group created "},
                       {"nflow_workflow_state", "workflow_id action_id state_key state_value "}},
                      import_nflow_states,
                      import_nflow_rows},
    [IMPORT_RIVEN] = {"Riven",
                      true,
                      {{"execution_queue", "id status created_at "}, {"workflow_execution_queue", "id status created_at "}},
                      import_riven_states,
                      import_riven_rows},
};

struct import_source {
    const struct layout *layout;
    struct address *address;
    struct link link;
    const char *group;
    int64_t since_us;
    const char *table; /* in place of :table */
    char *states_sql;
    char *rows_sql;
    PGresult *rows; /* of the last read */
};

/* --- errors --- */

/* A failure of the source is not one of the store, and the hints of a store do not fit it. */
static enum weir_status source_failed(enum weir_status status, struct weir_error *error)
{
    error_prefix(error, "the source of the import");
    if (status == WEIR_STORE_UNREACHABLE || status == WEIR_STORE_BUSY || status == WEIR_TIMED_OUT) {
        error_hint(error, "nothing was changed in the source; the same command again goes on with the rest, and --timeout "
                          "allows more time for each read");
    } else if (status == WEIR_NOT_PERMITTED) {
        error_hint(error, "the role of --from needs the right to connect, USAGE of the schema and SELECT on the tables");
    }
    return status;
}

/* --- texts --- */

/* The text with the names of the schema and of the table in place; free() it. */
static char *fill_source_sql(const struct import_source *source, const char *sql)
{
    static const char place[] = ":table";
    char *with_schema = address_fill(source->address, sql);
    struct text filled = {.max = SQL_MOST};
    enum weir_status status = with_schema == NULL ? WEIR_OUT_OF_MEMORY : WEIR_OK;
    const char *from = with_schema;
    for (const char *at = from == NULL ? NULL : strstr(from, place); at != NULL && status == WEIR_OK;
         at = strstr(from, place)) {
        status = text_add(&filled, from, (size_t)(at - from));
        status = status == WEIR_OK ? text_add_string(&filled, source->table) : status;
        from = at + sizeof place - 1;
    }
    status = status == WEIR_OK ? text_add_string(&filled, from) : status;
    free(with_schema);
    if (status != WEIR_OK) {
        text_close(&filled);
        return NULL;
    }
    return filled.data;
}

/* --- the tables --- */

/* The row of the table in the answer of find_source_tables; -1 = it is not there. */
static int row_of_table(const PGresult *result, const char *name)
{
    for (int row = 0; row < PQntuples(result); row++) {
        if (strcmp(result_text(result, row, 0), name) == 0) {
            return row;
        }
    }
    return -1;
}

/* The first of the needed columns that the table does not have; "" = it has all. `have` begins and ends with a space. */
static void missing_column(const char *needed, const char *have, char *to, size_t size)
{
    char word[72] = " ";
    to[0] = '\0';
    while (*needed != '\0') {
        size_t length = strcspn(needed, " ");
        (void)snprintf(word, sizeof word, " %.*s ", (int)length, needed);
        if (have == NULL || strstr(have, word) == NULL) {
            (void)snprintf(to, size, "%.*s", (int)length, needed);
            return;
        }
        needed += length + 1;
    }
}

static enum weir_status check_table(const struct import_source *source, const struct source_table *table,
                                    const PGresult *result, int row, struct weir_error *error)
{
    char column[72];
    if (!result_bool(result, row, 1)) {
        error_set(error, WEIR_NOT_PERMITTED, "the role may not read the table %s.%s", source->address->schema, table->name);
        return WEIR_NOT_PERMITTED;
    }
    missing_column(table->columns, result_text(result, row, 2), column, sizeof column);
    if (column[0] != '\0') {
        error_set(error, WEIR_STORE_NOT_WEIR, "the table %s.%s has no column %s, so it is no table of %s",
                  source->address->schema, table->name, column, source->layout->system);
        error_hint(error, "nothing was read; check the database and the schema that --from names");
        return WEIR_STORE_NOT_WEIR;
    }
    return WEIR_OK;
}

/* Checks the answer of the catalogue, and chooses the name of the table that has two. */
static enum weir_status check_tables(struct import_source *source, const PGresult *result, struct weir_error *error)
{
    const struct source_table *tables = source->layout->tables;
    bool is_older = source->layout->has_one_table && row_of_table(result, tables[0].name) < 0 &&
                    row_of_table(result, tables[1].name) >= 0;
    size_t first = is_older ? 1 : 0;
    size_t end = source->layout->has_one_table ? first + 1 : TABLES_MOST;
    enum weir_status status = WEIR_OK;
    for (size_t i = first; i < end && status == WEIR_OK; i++) {
        int row = row_of_table(result, tables[i].name);
        if (row < 0) {
            error_set(error, WEIR_NOT_FOUND, "there is no table %s in the schema %s", tables[i].name,
                      source->address->schema);
            error_hint(error, "nothing was read; ?schema=NAME in the URL of --from names another schema");
            return WEIR_NOT_FOUND;
        }
        status = check_table(source, &tables[i], result, row, error);
    }
    source->table = tables[first].name;
    return status;
}

static enum weir_status find_tables(struct import_source *source, struct weir_error *error)
{
    const char *names[TABLES_MOST] = {source->layout->tables[0].name, source->layout->tables[1].name};
    PGresult *result = NULL;
    enum weir_status status = link_read(&source->link, error, &result, QUERY_FIND_SOURCE_TABLES, "tT",
                                        source->address->schema, names, (size_t)TABLES_MOST);
    if (status == WEIR_OK) {
        status = check_tables(source, result, error);
        PQclear(result);
    }
    return status;
}

/* --- life --- */

static enum weir_status limit_transaction(struct import_source *source, struct weir_error *error)
{
    char statement[32];
    char pause[32];
    long long deadline_ms = (long long)(source->link.deadline_us / MICROSECONDS_PER_MS);
    PGresult *result = NULL;
    /* The server ends a statement a little before our own deadline, so that its refusal arrives. */
    (void)snprintf(statement, sizeof statement, "%lld", deadline_ms * 9 / 10 + 1);
    (void)snprintf(pause, sizeof pause, "%lld", deadline_ms * PAUSE_DEADLINES);
    enum weir_status status =
        link_read(&source->link, error, &result, QUERY_LIMIT_IMPORT, "ttt", statement, statement, pause);
    PQclear(result);
    return status;
}

/* The transaction, its limits, the tables, the texts and the cursor. */
static enum weir_status begin_source(struct import_source *source, struct weir_error *error)
{
    PGresult *result = NULL;
    link_start(&source->link);
    enum weir_status status = link_connect(&source->link, error);
    if (status == WEIR_OK) {
        source->link.keeps_session = true;
        status = link_transaction_begin_with(&source->link, QUERY_BEGIN_SNAPSHOT, error);
    }
    if (status == WEIR_OK) {
        status = limit_transaction(source, error);
    }
    if (status == WEIR_OK) {
        status = find_tables(source, error);
    }
    if (status != WEIR_OK) {
        return source_failed(status, error);
    }
    source->states_sql = fill_source_sql(source, source->layout->states_sql);
    source->rows_sql = fill_source_sql(source, source->layout->rows_sql);
    if (source->states_sql == NULL || source->rows_sql == NULL) {
        return error_out_of_memory(error);
    }
    status = link_read_text(&source->link, error, &result, "read the rows", source->rows_sql, "tiii", source->group,
                            source->since_us, (int64_t)IMPORT_COLUMNS_BYTES_MAX, (int64_t)IMPORT_DATA_BYTES_MAX);
    PQclear(result);
    return status == WEIR_OK ? WEIR_OK : source_failed(status, error);
}

/* The URL behind "postgres:" or "postgresql:"; NULL = it is none of PostgreSQL. */
static const char *location_of_source(const char *url)
{
    static const char *const schemes[] = {"postgres:", "postgresql:"};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (strncmp(url, schemes[i], strlen(schemes[i])) == 0) {
            return url + strlen(schemes[i]);
        }
    }
    return NULL;
}

enum weir_status import_source_open(const struct import_options *options, struct import_source **ret_source,
                                    struct weir_error *error)
{
    INVARIANT(options != NULL && options->url != NULL && ret_source != NULL);
    const char *location = location_of_source(options->url);
    if (location == NULL) {
        error_set(error, WEIR_INVALID_ARGUMENT, "--from is no URL of PostgreSQL");
        error_hint(error, "for example --from postgres://reader@db.example/app");
        return WEIR_INVALID_ARGUMENT;
    }
    struct import_source *source = calloc(1, sizeof *source);
    if (source == NULL) {
        return error_out_of_memory(error);
    }
    source->layout = &layouts[options->system];
    source->group = options->group;
    source->since_us = options->since_us;
    enum weir_status status = address_parse_within("public", location, &source->address, error);
    if (status == WEIR_OK) {
        int64_t deadline_us = options->deadline_us > 0 ? options->deadline_us : IMPORT_DEADLINE_US;
        link_init(&source->link, source->address, deadline_us, "weir import");
        status = begin_source(source, error);
    } else {
        status = source_failed(status, error);
    }
    if (status != WEIR_OK) {
        import_source_close(source);
        return status;
    }
    *ret_source = source;
    return WEIR_OK;
}

void import_source_close(struct import_source *source)
{
    if (source == NULL) {
        return;
    }
    INVARIANT(source->layout != NULL);
    PQclear(source->rows);
    if (source->link.address != NULL) {
        link_start(&source->link);
        link_transaction_rollback(&source->link);
        link_close(&source->link);
    }
    address_release(source->address);
    free(source->states_sql);
    free(source->rows_sql);
    free(source);
}

/* --- reading --- */

enum weir_status import_source_count(struct import_source *source, import_note *note, void *context, int64_t *ret_open,
                                     struct weir_error *error)
{
    INVARIANT(source != NULL && note != NULL && ret_open != NULL);
    PGresult *result = NULL;
    link_start(&source->link);
    enum weir_status status = link_read_text(&source->link, error, &result, "count the rows", source->states_sql, "ti",
                                             source->group, source->since_us);
    if (status != WEIR_OK) {
        return source_failed(status, error);
    }
    INVARIANT(PQntuples(result) >= 1);
    *ret_open = result_int(result, 0, 2); /* the first row is the sum of those that have not ended */
    for (int row = 1; row < PQntuples(result); row++) {
        note(context, result_text(result, row, 0), result_text(result, row, 1), result_int(result, row, 2));
    }
    PQclear(result);
    return WEIR_OK;
}

enum weir_status import_source_next(struct import_source *source, struct import_row *rows, size_t *ret_count,
                                    struct weir_error *error)
{
    INVARIANT(source != NULL && rows != NULL && ret_count != NULL);
    PGresult *result = NULL;
    char fetch[64];
    link_start(&source->link);
    (void)snprintf(fetch, sizeof fetch, "FETCH FORWARD %d FROM weir_import", IMPORT_BATCH);
    enum weir_status status = link_read_text(&source->link, error, &result, "read the rows", fetch, "");
    if (status != WEIR_OK) {
        return source_failed(status, error);
    }
    PQclear(source->rows);
    source->rows = result;
    size_t count = (size_t)PQntuples(result);
    INVARIANT(count <= IMPORT_BATCH);
    for (size_t i = 0; i < count; i++) {
        int row = (int)i;
        rows[i] = (struct import_row){.id = result_text(result, row, 0),
                                      .columns = result_text(result, row, 1),
                                      .columns_length = (size_t)PQgetlength(result, row, 1),
                                      .data = result_text(result, row, 2),
                                      .data_length = (size_t)PQgetlength(result, row, 2),
                                      .data_bytes = result_int(result, row, 3)};
    }
    *ret_count = count;
    return WEIR_OK;
}
