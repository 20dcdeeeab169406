/* An order and the work that it causes, in one PostgreSQL transaction: both exist, or neither.
 *
 *     cc enqueue_in_postgres.c $(pkg-config --cflags --libs weir libpq) -o enqueue_in_postgres
 *     ./enqueue_in_postgres postgres://user@host/shop
 *
 * The shop's own table lives in the same database as weir's, so the shop's own transaction covers both. Other languages do
 * the same with SELECT weir.enqueue(...), see docs/sql.md.
 */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir/weir.h>

static void ends_badly(const char *doing, enum weir_status status, const struct weir_error *error)
{
    fprintf(stderr, "%s: %s (%s)\n", doing, error->message, weir_status_name(status));
    if (error->hint[0] != '\0') {
        fprintf(stderr, "hint: %s\n", error->hint);
    }
    exit(1);
}

static void execute(PGconn *connection, const char *sql)
{
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        fprintf(stderr, "%s: %s\n", sql, PQerrorMessage(connection));
        exit(1);
    }
    PQclear(result);
}

/* The shop calls it once, when it is installed. */
static struct weir *install(const char *url)
{
    static const char workflow[] = "name: send-invoice\n"
                                   "steps:\n"
                                   "  send:\n"
                                   "    handler: send_invoice\n"
                                   "    input: ${.input.order}\n";
    struct weir_error error;
    struct weir *weir = NULL;
    enum weir_status status = weir_migrate(url, NULL, &error);
    if (status == WEIR_OK) {
        status = weir_open(url, NULL, &weir, &error);
    }
    if (status == WEIR_OK) {
        status = weir_set_workspace(weir, "acme", "free", 0, &error);
    }
    if (status == WEIR_OK) {
        status = weir_publish_workflow(weir, workflow, 0, "send-invoice", NULL, &error);
    }
    if (status != WEIR_OK) {
        ends_badly("installing", status, &error);
    }
    return weir;
}

/* One order: a row of the shop and an execution of weir. Nothing of it is there until the caller commits. */
static void place_order(PGconn *connection, int number, char id[WEIR_ID_SIZE])
{
    char insert[96];
    char params[64];
    struct weir_error error;
    snprintf(insert, sizeof insert, "INSERT INTO orders (number, customer) VALUES (%d, 'acme')", number);
    snprintf(params, sizeof params, "{\"order\": %d}", number);
    execute(connection, insert);

    struct weir_request request = {.workspace = "acme", .workflow = "send-invoice", .params = params};
    enum weir_status status = weir_enqueue_pq(connection, NULL, &request, id, &error);
    if (status != WEIR_OK) {
        ends_badly("enqueueing", status, &error);
    }
}

/* A refusal leaves the transaction as it was: the order stands, and can still be committed. */
static void try_nonsense(PGconn *connection)
{
    char id[WEIR_ID_SIZE];
    struct weir_error error;
    struct weir_request request = {.workspace = "acme", .workflow = "send-invoices"};
    enum weir_status status = weir_enqueue_pq(connection, NULL, &request, id, &error);
    printf("a slip: %s, %s\n", weir_status_name(status), error.hint);
}

static void tell(struct weir *weir, const char *what, const char *id)
{
    struct weir_error error;
    char *why = NULL;
    enum weir_status status = weir_why(weir, id, &why, &error);
    printf("%s: %s\n", what, status == WEIR_OK ? "enqueued" : weir_status_name(status));
    weir_free(why);
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "postgres://localhost/shop";
    char id[WEIR_ID_SIZE];
    struct weir *weir = install(url);
    PGconn *connection = PQconnectdb(url);
    if (PQstatus(connection) != CONNECTION_OK) {
        fprintf(stderr, "%s", PQerrorMessage(connection));
        return 1;
    }
    PQsetClientEncoding(connection, "UTF8");
    execute(connection, "CREATE TABLE IF NOT EXISTS orders (number integer, customer text)");

    execute(connection, "BEGIN");
    place_order(connection, 1, id);
    execute(connection, "ROLLBACK");
    tell(weir, "order 1, rolled back", id);

    execute(connection, "BEGIN");
    place_order(connection, 2, id);
    try_nonsense(connection);
    execute(connection, "COMMIT");
    tell(weir, "order 2, committed", id);

    PQfinish(connection);
    weir_close(weir);
    return 0;
}
