/* An order and the work that it causes, in one transaction: both exist, or neither.
 *
 *     cc enqueue_in_transaction.c $(pkg-config --cflags --libs weir sqlite3) -o enqueue_in_transaction
 *     ./enqueue_in_transaction shop.db
 *
 * The shop's own table lives in the same SQLite file as weir's, so the shop's own transaction covers both.
 */
#include <sqlite3.h>
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

static void execute(sqlite3 *database, const char *sql)
{
    char *message = NULL;
    if (sqlite3_exec(database, sql, NULL, NULL, &message) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", sql, message);
        exit(1);
    }
}

/* The shop calls it once, when it is installed. */
static struct weir *install(const char *path)
{
    static const char workflow[] = "name: send-invoice\n"
                                   "steps:\n"
                                   "  send:\n"
                                   "    handler: send_invoice\n"
                                   "    input: ${.input.order}\n";
    struct weir_error error;
    struct weir *weir = NULL;
    enum weir_status status = weir_migrate(path, NULL, &error);
    if (status == WEIR_OK) {
        status = weir_open(path, NULL, &weir, &error);
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
static void place_order(sqlite3 *database, int number, char id[WEIR_ID_SIZE])
{
    char insert[96];
    char params[64];
    struct weir_error error;
    snprintf(insert, sizeof insert, "INSERT INTO orders (number, customer) VALUES (%d, 'acme')", number);
    snprintf(params, sizeof params, "{\"order\": %d}", number);
    execute(database, insert);

    struct weir_request request = {.workspace = "acme", .workflow = "send-invoice", .params = params};
    enum weir_status status = weir_enqueue_sqlite(database, &request, id, &error);
    if (status != WEIR_OK) {
        ends_badly("enqueueing", status, &error);
    }
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
    const char *path = argc > 1 ? argv[1] : "shop.db";
    char id[WEIR_ID_SIZE];
    sqlite3 *database = NULL;
    struct weir *weir = install(path);
    if (sqlite3_open(path, &database) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", path, sqlite3_errmsg(database));
        return 1;
    }
    sqlite3_busy_timeout(database, 5000);
    execute(database, "CREATE TABLE IF NOT EXISTS orders (number INTEGER, customer TEXT)");

    execute(database, "BEGIN IMMEDIATE"); /* takes the write lock now instead of failing in the middle */
    place_order(database, 1, id);
    execute(database, "ROLLBACK");
    tell(weir, "order 1, rolled back", id);

    execute(database, "BEGIN IMMEDIATE");
    place_order(database, 2, id);
    execute(database, "COMMIT");
    tell(weir, "order 2, committed", id);

    sqlite3_close(database);
    weir_close(weir);
    return 0;
}
