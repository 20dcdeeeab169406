#include "store/postgres/failure.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/libpq.h"

enum { SQLSTATE_LENGTH = 5, LINE_MAX_BYTES = 400 };

/* The first row whose `sqlstate` begins the server's code counts (PostgreSQL, appendix A). Our own functions raise the
 * class WR: its three digits are the status. */
static const struct {
    const char *sqlstate;
    enum weir_status status;
    const char *hint;
} meanings[] = {
    {"08", WEIR_STORE_UNREACHABLE, ""},
    {"22", WEIR_INVALID_ARGUMENT, ""},
    {"23", WEIR_INVALID_ARGUMENT, ""},
    {"25006", WEIR_STORE_UNREACHABLE,
     "this server only reads (a standby, or its disk is guarded): give --store the address of the primary"},
    {"25", WEIR_STORE_UNREACHABLE, "the connection was given up; the call may be repeated"},
    {"28P01", WEIR_NOT_PERMITTED, "look at the password: in the URL, in PGPASSWORD or in ~/.pgpass"},
    {"28", WEIR_NOT_PERMITTED, "look at the user of the URL and at the server's pg_hba.conf"},
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
    {"57014", WEIR_STORE_BUSY, "the server did not get it done in time; look at its load, or raise --timeout"},
    {"57", WEIR_STORE_UNREACHABLE, "the server stops or starts; weir goes on as soon as it is back"},
    {"58", WEIR_STORE_UNREACHABLE, "look at the server's disk and its log"},
    {"XX001", WEIR_STORE_CORRUPT, "stop all nodes, then look at the server's disk; restore a backup if need be"},
    {"XX002", WEIR_STORE_CORRUPT, "an index is damaged: REINDEX it, then run weir store check"},
    {"", WEIR_FAILED, ""},
};

static size_t meaning_of(const char *sqlstate)
{
    size_t i = 0;
    while (strncmp(meanings[i].sqlstate, sqlstate, strlen(meanings[i].sqlstate)) != 0) {
        i++;
    }
    return i;
}

static enum weir_status status_of(const char *sqlstate)
{
    if (strncmp(sqlstate, "WR", 2) == 0) {
        int status = 0;
        return sscanf(sqlstate + 2, "%3d", &status) == 1 && status > 0 && status < WEIR_STATUS_COUNT
                   ? (enum weir_status)status
                   : WEIR_FAILED;
    }
    return meanings[meaning_of(sqlstate)].status;
}

enum weir_status failure_of_answer(const PGresult *result, const char *shown, const char *doing, struct weir_error *error)
{
    const char *sqlstate = result == NULL ? NULL : PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *words = result == NULL ? NULL : PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *hint = result == NULL ? NULL : PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
    if (sqlstate == NULL || words == NULL) {
        return error_set(error, WEIR_OUT_OF_MEMORY, "%s: the store's answer could not be read", doing);
    }
    enum weir_status status = status_of(sqlstate);
    if (strncmp(sqlstate, "WR", 2) == 0) {
        error_set(error, status, "%s", words); /* our own messages, raised in SQL */
        error_hint(error, "%s", hint == NULL ? "" : hint);
        return status;
    }
    error_set(error, status, "%s: the store %s answered: %s (%s)", doing, shown, words, sqlstate);
    error_hint(error, "%s", meanings[meaning_of(sqlstate)].hint);
    return status;
}

enum weir_status failure_of_result(struct link *link, const PGresult *result, const char *doing, struct weir_error *error)
{
    const char *sqlstate = result == NULL ? NULL : PQresultErrorField(result, PG_DIAG_SQLSTATE);
    text_copy(link->sqlstate, sizeof link->sqlstate, sqlstate == NULL ? "" : sqlstate);
    return failure_of_answer(result, link->address->shown, doing, error);
}

/* --- connecting --- */

/* The first line with a text, without its place in the source: we name the address ourselves. */
static void first_line(const char *words, char *to)
{
    const char *failed = strstr(words, " failed: ");
    size_t length = strcspn(words, "\n");
    if (failed != NULL && failed < words + length) {
        length -= (size_t)(failed + 9 - words);
        words = failed + 9;
    }
    text_copy(to, LINE_MAX_BYTES, words);
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

/* libpq has no call for the code of a refused connection; asked for verbose messages, it writes "FATAL:  28P01: text".
 * Takes severity and code out of the line. */
static void take_sqlstate(char *line, char *sqlstate)
{
    sqlstate[0] = '\0';
    for (char *at = strchr(line, ':'); at != NULL; at = strchr(at + 1, ':')) {
        const char *code = at + 1 + strspn(at + 1, " ");
        if (code != at + 1 && strlen(code) > SQLSTATE_LENGTH && is_sqlstate(code)) {
            const char *words = code + SQLSTATE_LENGTH + 1 + strspn(code + SQLSTATE_LENGTH + 1, " ");
            memcpy(sqlstate, code, SQLSTATE_LENGTH);
            sqlstate[SQLSTATE_LENGTH] = '\0';
            memmove(line, words, strlen(words) + 1);
            return;
        }
    }
}

bool failure_is_of_pooler(const PGconn *connection)
{
    return strstr(PQerrorMessage(connection), "unsupported startup parameter") != NULL;
}

/* libpq looks at the values of parameters itself, before it asks any server. */
static bool is_of_url(const char *line)
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

static const char *hint_of_silence(const struct link *link, const char *line)
{
    bool only_reads = strstr(line, "hot standby") != NULL || strstr(line, "read-only") != NULL;
    if (only_reads && link->address->host_count > 1 && address_option(link->address, "target_session_attrs") == NULL) {
        return "none of the servers in the URL takes writes now; weir goes on as soon as one does";
    }
    if (only_reads) {
        return "weir needs a server that takes writes: name the primary, or all servers, and no target_session_attrs";
    }
    if (strstr(line, "certificate") != NULL) {
        return "look at sslmode, sslrootcert and the host of the URL, and at the server's certificate";
    }
    const char *sslmode = address_option(link->address, "sslmode");
    if (sslmode != NULL && sslmode[0] != 'd' && strstr(line, "SSL") != NULL) {
        return "the URL demands TLS (sslmode) and the server offers none that fits: set up TLS there, or change sslmode";
    }
    return "is the server running, and are host and port of the URL right?";
}

/* libpq reports it and closes the connection; the server reports nothing. */
static bool lacks_password(char *line)
{
    if (strstr(line, "no password supplied") == NULL) {
        return false;
    }
    text_copy(line, LINE_MAX_BYTES, "the server asks for a password, and none was given");
    return true;
}

enum weir_status failure_of_connect(struct link *link, const PGconn *connection, struct weir_error *error)
{
    char line[LINE_MAX_BYTES];
    first_line(connection == NULL ? "out of memory" : PQerrorMessage(connection), line);
    take_sqlstate(line, link->sqlstate);
    if (lacks_password(line)) {
        text_copy(link->sqlstate, sizeof link->sqlstate, "28P01");
    }
    bool told = link->sqlstate[0] != '\0';
    if (!told && is_of_url(line)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "the store's URL %s cannot be used: %s", link->address->shown, line);
        error_hint(error, "parameters are those of libpq, and schema, pooler, listen");
        return WEIR_INVALID_ARGUMENT;
    }
    enum weir_status status = told ? status_of(link->sqlstate) : WEIR_STORE_UNREACHABLE;
    if (status == WEIR_INVALID_ARGUMENT || status == WEIR_FAILED) {
        status = WEIR_STORE_UNREACHABLE; /* a refused startup setting and the like */
    }
    error_set(error, status, "cannot open the store %s: %s", link->address->shown, line);
    error_hint(error, "%s", told ? meanings[meaning_of(link->sqlstate)].hint : hint_of_silence(link, line));
    return status;
}
