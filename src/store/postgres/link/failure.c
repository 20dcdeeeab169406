/* Turns the messages of the server and of libpq into a status, a message and a hint.
 *
 * A refused statement has an SQLSTATE, and the table `meanings` gives its status and hint: this is the only place that
 * decides what a code means. A connection that could not be made has the code in its text, or no code at all; then the text
 * itself decides.
 *
 * This file never repeats a statement: link.c does, by link->sqlstate. It never puts a password into a message, since the
 * URL in messages is address->shown. Any thread. */
#include "store/postgres/link/failure.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/link/libpq.h"

enum { SQLSTATE_LENGTH = 5, LINE_MAX_BYTES = 400 };

/* The first row counts that has a prefix of the code (PostgreSQL, appendix A). Our own SQL functions raise class WR; its
 * three digits are the status. */
static const struct {
    const char *sqlstate;
    enum weir_status status;
    const char *hint;
} meanings[] = {
    {"08", WEIR_STORE_UNREACHABLE, ""},
    {"22", WEIR_INVALID_ARGUMENT, ""},
    {"23", WEIR_FAILED, "a row breaks a rule of its table; look for changes by hand with: weir store check"},
    {"25006", WEIR_STORE_UNREACHABLE,
     "this server only reads (a standby, or its disk is guarded): give --store the address of the primary"},
    {"25", WEIR_STORE_UNREACHABLE, "the connection was given up; the call may be repeated"},
    {"28P01", WEIR_NOT_PERMITTED, "check the password: in the URL, in PGPASSWORD or in ~/.pgpass"},
    {"28", WEIR_NOT_PERMITTED, "check the user of the URL and the server's pg_hba.conf"},
    {"3D000", WEIR_STORE_UNREACHABLE, "make the database first: createdb NAME; or correct the URL"},
    {"3F000", WEIR_SCHEMA_MISSING, "make the tables with: weir store init"},
    {"40", WEIR_STORE_BUSY, "another transaction changed the same rows; repeat the call"},
    {"42501", WEIR_NOT_PERMITTED, "give the role its rights with: weir store init --role NAME (as the schema's owner)"},
    {"42P01", WEIR_SCHEMA_MISSING, "the store has not been migrated, or was damaged: weir store migrate"},
    {"42703", WEIR_SCHEMA_MISSING, "the store has not been migrated, or was damaged: weir store migrate"},
    {"42883", WEIR_SCHEMA_MISSING, "the store has not been migrated, or was damaged: weir store migrate"},
    {"53100", WEIR_STORE_FULL, "free some disk space on the server; acknowledged work is stored"},
    {"53300", WEIR_STORE_BUSY, "the server has no connection left: end some, raise max_connections, or use a pooler"},
    {"53", WEIR_STORE_BUSY, "the server is short of memory or of another resource"},
    {"54", WEIR_INVALID_ARGUMENT, ""},
    {"55P03", WEIR_STORE_BUSY, "another session holds a lock for too long (pg_stat_activity shows it); repeat the call"},
    {"57014", WEIR_STORE_BUSY, "the server did not finish it in time; check its load, or raise --timeout"},
    {"57", WEIR_STORE_UNREACHABLE, "the server stops or starts; weir continues as soon as it is back"},
    {"58", WEIR_STORE_UNREACHABLE, "check the server's disk and its log"},
    {"XX001", WEIR_STORE_CORRUPT, "stop all nodes, then check the server's disk; restore a backup if need be"},
    {"XX002", WEIR_STORE_CORRUPT, "an index is damaged: REINDEX it, then run weir store check"},
    {"", WEIR_FAILED, ""},
};

static size_t find_meaning(const char *sqlstate)
{
    size_t i = 0;
    while (strncmp(meanings[i].sqlstate, sqlstate, strlen(meanings[i].sqlstate)) != 0) {
        i++;
    }
    return i;
}

static enum weir_status status_of_sqlstate(const char *sqlstate)
{
    if (strncmp(sqlstate, "WR", 2) == 0) {
        int status = 0;
        return sscanf(sqlstate + 2, "%3d", &status) == 1 && status > 0 && status < WEIR_STATUS_COUNT
                   ? (enum weir_status)status
                   : WEIR_FAILED;
    }
    return meanings[find_meaning(sqlstate)].status;
}

enum weir_status failure_of_answer(const PGresult *result, const char *shown, const char *doing, struct weir_error *error)
{
    INVARIANT(shown != NULL && doing != NULL);
    const char *sqlstate = result == NULL ? NULL : PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = result == NULL ? NULL : PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *hint = result == NULL ? NULL : PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
    if (sqlstate == NULL || message == NULL) {
        return error_set(error, WEIR_OUT_OF_MEMORY, "%s: the store's answer could not be read", doing);
    }
    enum weir_status status = status_of_sqlstate(sqlstate);
    if (strncmp(sqlstate, "WR", 2) == 0) {
        error_set(error, status, "%s", message); /* raised by our own SQL functions */
        error_hint(error, "%s", hint == NULL ? "" : hint);
        return status;
    }
    error_set(error, status, "%s: the store %s answered: %s (%s)", doing, shown, message, sqlstate);
    error_hint(error, "%s", meanings[find_meaning(sqlstate)].hint);
    return status;
}

enum weir_status failure_of_result(struct link *link, const PGresult *result, const char *doing, struct weir_error *error)
{
    const char *sqlstate = result == NULL ? NULL : PQresultErrorField(result, PG_DIAG_SQLSTATE);
    text_copy(link->sqlstate, sizeof link->sqlstate, sqlstate == NULL ? "" : sqlstate);
    link->failed_in_function = result != NULL && PQresultErrorField(result, PG_DIAG_CONTEXT) != NULL;
    return failure_of_answer(result, link->address->shown, doing, error);
}

/* --- connecting --- */

/* Copies the first line of a message of libpq without the address in front: weir names the address itself. */
static void copy_first_line(const char *message, char *to)
{
    const char *failed = strstr(message, " failed: ");
    size_t length = strcspn(message, "\n");
    if (failed != NULL && failed < message + length) {
        length -= (size_t)(failed + 9 - message);
        message = failed + 9;
    }
    text_copy(to, LINE_MAX_BYTES, message);
    if (length < LINE_MAX_BYTES) {
        to[length] = '\0';
    }
}

static bool is_sqlstate(const char *text)
{
    for (int i = 0; i < SQLSTATE_LENGTH; i++) {
        if (!isdigit((unsigned char)text[i]) && !isupper((unsigned char)text[i])) {
            return false;
        }
    }
    return text[SQLSTATE_LENGTH] == ':' && isdigit((unsigned char)text[0]);
}

/* libpq has no call for the code of a refused connection. With verbose messages it writes "FATAL:  28P01: text". Moves the
 * code out of the line, and removes the severity. */
static void split_sqlstate(char *line, char *sqlstate)
{
    sqlstate[0] = '\0';
    for (char *at = strchr(line, ':'); at != NULL; at = strchr(at + 1, ':')) {
        const char *code = at + 1 + strspn(at + 1, " ");
        if (code != at + 1 && strlen(code) > SQLSTATE_LENGTH && is_sqlstate(code)) {
            const char *text = code + SQLSTATE_LENGTH + 1 + strspn(code + SQLSTATE_LENGTH + 1, " ");
            memcpy(sqlstate, code, SQLSTATE_LENGTH);
            sqlstate[SQLSTATE_LENGTH] = '\0';
            memmove(line, text, strlen(text) + 1);
            return;
        }
    }
}

bool failure_is_of_pooler(const PGconn *connection)
{
    return strstr(PQerrorMessage(connection), "unsupported startup parameter") != NULL;
}

/* libpq checks the values of parameters itself, before it connects. */
static bool is_error_of_url(const char *line)
{
    static const char *const beginnings[] = {"invalid ", "definition of service ", "service file ",
                                             "syntax error in service file"};
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        if (strncmp(line, beginnings[i], strlen(beginnings[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* The hint for a connection that failed without a code of the server. */
static const char *hint_without_sqlstate(const struct link *link, const char *line)
{
    bool only_reads = strstr(line, "hot standby") != NULL || strstr(line, "read-only") != NULL;
    if (only_reads && link->address->host_count > 1 && address_option(link->address, "target_session_attrs") == NULL) {
        return "none of the servers in the URL takes writes now; weir continues as soon as one does";
    }
    if (only_reads) {
        return "weir needs a server that takes writes: name the primary, or all servers, and no target_session_attrs";
    }
    if (strstr(line, "certificate") != NULL) {
        return "check sslmode, sslrootcert and the host of the URL, and the server's certificate";
    }
    const char *sslmode = address_option(link->address, "sslmode");
    if (sslmode != NULL && sslmode[0] != 'd' && strstr(line, "SSL") != NULL) {
        return "the URL demands TLS (sslmode) and the server offers none that fits: set up TLS there, or change sslmode";
    }
    return "check that the server runs, and the host and port of the URL";
}

/* libpq closes the connection itself when it has no password for the server, so there is no code of the server. */
static bool replace_missing_password(char *line)
{
    if (strstr(line, "no password supplied") == NULL) {
        return false;
    }
    text_copy(line, LINE_MAX_BYTES, "the server asks for a password, and none was given");
    return true;
}

enum weir_status failure_of_connect(struct link *link, const PGconn *connection, struct weir_error *error)
{
    INVARIANT(link != NULL);
    char line[LINE_MAX_BYTES];
    copy_first_line(connection == NULL ? "out of memory" : PQerrorMessage(connection), line);
    split_sqlstate(line, link->sqlstate);
    if (replace_missing_password(line)) {
        text_copy(link->sqlstate, sizeof link->sqlstate, "28P01");
    }
    bool has_code = link->sqlstate[0] != '\0';
    if (!has_code && is_error_of_url(line)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the store's URL %s cannot be used: %s", link->address->shown, line);
        error_hint(error, "the parameters are those of libpq, and schema, pooler, listen");
        return WEIR_INVALID_ARGUMENT;
    }
    enum weir_status status = has_code ? status_of_sqlstate(link->sqlstate) : WEIR_STORE_UNREACHABLE;
    if (status == WEIR_INVALID_ARGUMENT || status == WEIR_FAILED) {
        status = WEIR_STORE_UNREACHABLE; /* a refused startup setting and the like */
    }
    error_set(error, status, "cannot open the store %s: %s", link->address->shown, line);
    error_hint(error, "%s", has_code ? meanings[find_meaning(link->sqlstate)].hint : hint_without_sqlstate(link, line));
    return status;
}
