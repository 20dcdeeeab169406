/* Questions to the store behind the drivers' backs, on a connection of the test's own: the same SQL on both stores.
 *
 * Parameters are $1, ...; the names of tables are unqualified. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "simulation/simulation.h"

enum { NAME_MAX_BYTES = 24, NUMBER_MAX = 24 };

struct question {
    struct simulation *simulation;
    const char *sql;
    sqlite3_stmt *statement;   /* SQLite */
    char name[NAME_MAX_BYTES]; /* PostgreSQL */
    PGresult *result;
    int row;
};

static void give_up(const char *message, const char *sql)
{
    (void)fprintf(stderr, "simulation: %s: %s\n", message, sql);
    abort();
}

static bool is_postgres(const struct question *question)
{
    return question->simulation->options.store == SIMULATED_POSTGRES;
}

static void prepare_on_server(struct question *question)
{
    static unsigned count;
    (void)snprintf(question->name, sizeof question->name, "question_%u", ++count);
    PGconn *connection = question->simulation->reader_of_server;
    PGresult *result = PQprepare(connection, question->name, question->sql, 0, NULL);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        give_up(PQerrorMessage(connection), question->sql);
    }
    PQclear(result);
}

struct question *question_prepare(struct simulation *simulation, const char *sql)
{
    struct question *question = calloc(1, sizeof *question);
    INVARIANT(question != NULL);
    *question = (struct question){.simulation = simulation, .sql = sql};
    if (is_postgres(question)) {
        prepare_on_server(question);
    } else if (sqlite3_prepare_v2(simulation->reader, sql, -1, &question->statement, NULL) != SQLITE_OK) {
        give_up(sqlite3_errmsg(simulation->reader), sql);
    }
    return question;
}

void question_end(struct question *question)
{
    PQclear(question->result);
    question->result = NULL;
    question->row = -1;
    (void)sqlite3_reset(question->statement);
}

static void ask_server(struct question *question, const char *parameter)
{
    PGconn *connection = question->simulation->reader_of_server;
    question->result = PQexecPrepared(connection, question->name, parameter == NULL ? 0 : 1, &parameter, NULL, NULL, 0);
    if (PQresultStatus(question->result) != PGRES_TUPLES_OK) {
        give_up(PQerrorMessage(connection), question->sql);
    }
}

void question_ask(struct question *question)
{
    question_end(question);
    if (is_postgres(question)) {
        ask_server(question, NULL);
    }
}

void question_ask_number(struct question *question, int64_t number)
{
    char text[NUMBER_MAX];
    question_end(question);
    if (is_postgres(question)) {
        (void)snprintf(text, sizeof text, "%lld", (long long)number);
        ask_server(question, text);
    } else {
        (void)sqlite3_bind_int64(question->statement, 1, number);
    }
}

void question_ask_text(struct question *question, const char *text)
{
    question_end(question);
    if (is_postgres(question)) {
        ask_server(question, text);
    } else {
        (void)sqlite3_bind_text(question->statement, 1, text, -1, SQLITE_TRANSIENT);
    }
}

bool question_next(struct question *question)
{
    if (is_postgres(question)) {
        return ++question->row < PQntuples(question->result);
    }
    int answer = sqlite3_step(question->statement);
    if (answer != SQLITE_ROW && answer != SQLITE_DONE) {
        give_up(sqlite3_errmsg(question->simulation->reader), question->sql);
    }
    return answer == SQLITE_ROW;
}

bool question_is_null(const struct question *question, int column)
{
    return is_postgres(question) ? PQgetisnull(question->result, question->row, column) != 0
                                 : sqlite3_column_type(question->statement, column) == SQLITE_NULL;
}

int64_t question_number(const struct question *question, int column)
{
    return is_postgres(question) ? strtoll(PQgetvalue(question->result, question->row, column), NULL, 10)
                                 : sqlite3_column_int64(question->statement, column);
}

const char *question_text(const struct question *question, int column)
{
    if (question_is_null(question, column)) {
        return NULL;
    }
    return is_postgres(question) ? PQgetvalue(question->result, question->row, column)
                                 : (const char *)sqlite3_column_text(question->statement, column);
}

void question_close(struct question *question)
{
    if (question != NULL) {
        question_end(question);
        (void)sqlite3_finalize(question->statement);
        free(question);
    }
}
