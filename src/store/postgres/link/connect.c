/* Makes one connection within a deadline.
 *
 * 1. It tries the servers of the URL in turn, the one that answered last first. Each gets an equal share of the time that
 * is left, so a dead server cannot use up the time of the next one.
 * 2. It resolves a host name in a thread of its own (resolve.c), because libpq would wait for the resolver without a limit.
 * 3. libpq connects without waiting; each wait is a poll(). Only a server that takes writes counts (target_session_attrs):
 *    after a failover this finds the new primary.
 * 4. A pooler refuses the startup options. The connection is tried again without them, and the address is marked as pooled.
 *
 * This file sends no statement and repeats nothing after a success. It runs in the thread that has the link. */
#include "store/postgres/link/connect.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/link/failure.h"
#include "store/postgres/link/libpq.h"
#include "store/postgres/link/resolve.h"

enum { KEYWORDS_MOST = 64, STARTUP_MAX = ADDRESS_URL_MAX + 1024 };

bool connect_wait(const PGconn *connection, short events, int64_t until_us, short *ret_events)
{
    INVARIANT(connection != NULL);
    struct pollfd wanted = {.fd = PQsocket(connection), .events = events};
    for (;;) {
        int64_t left_us = until_us - clock_boot(clock_system());
        if (left_us <= 0 || wanted.fd < 0) {
            return false;
        }
        int64_t left_ms = (left_us + MICROSECONDS_PER_MS - 1) / MICROSECONDS_PER_MS;
        int ready = poll(&wanted, 1, left_ms > 60000 ? 60000 : (int)left_ms);
        if (ready > 0) {
            if (ret_events != NULL) {
                *ret_events = wanted.revents;
            }
            return true;
        }
        if (ready < 0 && errno != EINTR) {
            return false;
        }
    }
}

/* --- the settings of a connection --- */

struct keywords {
    const char *names[KEYWORDS_MOST + 1];
    const char *values[KEYWORDS_MOST + 1];
    size_t count;
};

/* An empty value is left out: libpq would take it for a setting. */
static void add_keyword(struct keywords *keywords, const char *name, const char *value)
{
    if (keywords->count < KEYWORDS_MOST && value != NULL && value[0] != '\0') {
        keywords->names[keywords->count] = name;
        keywords->values[keywords->count] = value;
        keywords->count++;
    }
}

/* The server stops a statement a little before our deadline, so that its refusal arrives and the outcome is known. Defaults
 * of a role or a database must not change the meaning of our statements, so these settings are fixed too. */
static void write_startup(const struct link *link, char *to)
{
    long long deadline_ms = (long long)(link->deadline_us / MICROSECONDS_PER_MS);
    long long lock_ms =
        link->lock_wait_us > 0 ? (long long)(link->lock_wait_us / MICROSECONDS_PER_MS) : deadline_ms * 7 / 10;
    const char *own = address_option(link->address, "options");
    (void)snprintf(to, STARTUP_MAX,
                   "%s%s-c statement_timeout=%lld -c lock_timeout=%lld -c idle_in_transaction_session_timeout=%lld"
                   " -c search_path=pg_catalog -c default_transaction_isolation=read\\ committed"
                   " -c default_transaction_read_only=off -c standard_conforming_strings=on -c client_min_messages=warning"
                   " -c jit=off -c timezone=UTC",
                   own == NULL ? "" : own, own == NULL ? "" : " ", deadline_ms * 9 / 10 + 1, lock_ms + 1,
                   deadline_ms * 2 + 1);
}

static void collect_keywords(const struct link *link, const struct address_host *host, const char *hostaddr,
                             const char *startup, struct keywords *to)
{
    /* A pooler refuses options, also those of PGOPTIONS. Only a connection string can remove all of them. */
    static const char no_options[] = "options=''";
    add_keyword(to, "dbname", startup[0] == '\0' ? no_options : NULL);
    /* Our defaults come first: of a keyword that is given twice, libpq uses the last. */
    static const char *const ours[][2] = {
        {"client_encoding", "UTF8"},   {"target_session_attrs", "read-write"}, {"keepalives", "1"},
        {"keepalives_idle", "30"},     {"keepalives_interval", "10"},          {"keepalives_count", "3"},
        {"tcp_user_timeout", "15000"},
    };
    static const char *const ours_alone[] = {"host", "hostaddr", "port", "client_encoding", "options"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        add_keyword(to, ours[i][0], ours[i][1]);
    }
    add_keyword(to, "fallback_application_name", link->application_name);
    for (const PQconninfoOption *option = link->address->options; option->keyword != NULL; option++) {
        bool alone = false;
        for (size_t i = 0; i < sizeof ours_alone / sizeof ours_alone[0]; i++) {
            alone = alone || strcmp(option->keyword, ours_alone[i]) == 0;
        }
        add_keyword(to, option->keyword, alone ? NULL : option->val);
    }
    add_keyword(to, "host", host->host);
    add_keyword(to, "hostaddr", hostaddr);
    add_keyword(to, "port", host->port);
    add_keyword(to, "options", startup);
}

/* libpq would print notices of the server to standard error. */
static void ignore_notice(void *context, const PGresult *notice)
{
    (void)context;
    (void)notice;
}

/* --- one server --- */

/* Drives the handshake of libpq until it succeeds, fails or misses the deadline. */
static enum weir_status finish_handshake(struct link *link, PGconn *connection, int64_t until_us, struct weir_error *error)
{
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;
    while (state != PGRES_POLLING_OK) {
        if (state == PGRES_POLLING_FAILED || PQstatus(connection) == CONNECTION_BAD) {
            return failure_of_connect(link, connection, error);
        }
        if (!connect_wait(connection, state == PGRES_POLLING_READING ? POLLIN : POLLOUT, until_us, NULL)) {
            link->sqlstate[0] = '\0';
            error_set(error, WEIR_STORE_UNREACHABLE, "cannot open the store %s: no answer in time", link->address->shown);
            error_hint(error, "check that the server runs and is reachable from here, and the host and port of the URL");
            return WEIR_STORE_UNREACHABLE;
        }
        state = PQconnectPoll(connection);
    }
    return WEIR_OK;
}

static enum weir_status check_version(const struct link *link, const PGconn *connection, struct weir_error *error)
{
    int version = PQserverVersion(connection);
    if (version >= LINK_SERVER_OLDEST) {
        return WEIR_OK;
    }
    error_set(error, WEIR_STORE_NOT_WEIR, "the store %s is on PostgreSQL %d, which is too old", link->address->shown,
              version / 10000);
    error_hint(error, "weir needs PostgreSQL %d or newer; nothing was changed", LINK_SERVER_OLDEST / 10000);
    return WEIR_STORE_NOT_WEIR;
}

/* Connects to one address. If a pooler refuses the startup options, it connects once more without them. */
static enum weir_status try_address(struct link *link, const struct address_host *host, const char *hostaddr,
                                    int64_t until_us, PGconn **ret_connection, struct weir_error *error)
{
    char startup[STARTUP_MAX] = "";
    struct keywords keywords = {.count = 0};
    bool pooled = link->address->pooled;
    if (!pooled) {
        write_startup(link, startup);
    }
    collect_keywords(link, host, hostaddr, startup, &keywords);
    PGconn *connection = PQconnectStartParams(keywords.names, keywords.values, pooled ? 1 : 0);
    if (connection == NULL) {
        return error_out_of_memory(error);
    }
    (void)PQsetErrorVerbosity(connection, PQERRORS_VERBOSE); /* for the code of a refusal, see failure.c */
    (void)PQsetNoticeReceiver(connection, ignore_notice, NULL);
    enum weir_status status = finish_handshake(link, connection, until_us, error);
    if (status != WEIR_OK && !pooled && failure_is_of_pooler(connection)) {
        PQfinish(connection);
        link->address->pooled = true;
        return try_address(link, host, hostaddr, until_us, ret_connection, error);
    }
    status = status == WEIR_OK ? check_version(link, connection, error) : status;
    if (status == WEIR_OK && PQsetnonblocking(connection, 1) != 0) {
        status = failure_of_connect(link, connection, error);
    }
    if (status != WEIR_OK) {
        PQfinish(connection);
        return status;
    }
    (void)PQsetErrorVerbosity(connection, PQERRORS_DEFAULT);
    *ret_connection = connection;
    return WEIR_OK;
}

/* Tries all addresses of one host name. Each gets an equal share of the time that is left. */
static enum weir_status try_host(struct link *link, const struct address_host *host, int64_t until_us,
                                 PGconn **ret_connection, struct weir_error *error)
{
    struct resolved resolved = {.count = 0};
    if (host->hostaddr[0] != '\0' || host->host[0] == '\0' || host->host[0] == '/' || host->host[0] == '@') {
        text_copy(resolved.addresses[0], sizeof resolved.addresses[0], host->hostaddr);
        resolved.count = 1;
    } else {
        enum weir_status status = resolve_name(host->host, until_us, &resolved, error);
        if (status != WEIR_OK) {
            error_prefix(error, "cannot open the store %s", link->address->shown);
            return status;
        }
    }
    enum weir_status status = WEIR_STORE_UNREACHABLE;
    for (size_t i = 0; i < resolved.count; i++) {
        int64_t now_us = clock_boot(clock_system());
        int64_t share_us = (until_us - now_us) / (int64_t)(resolved.count - i);
        status = try_address(link, host, resolved.addresses[i], now_us + share_us, ret_connection, error);
        if (status != WEIR_STORE_UNREACHABLE) {
            break;
        }
    }
    return status;
}

enum weir_status connect_open(struct link *link, int64_t until_us, PGconn **ret_connection, struct weir_error *error)
{
    INVARIANT(link->address->host_count > 0 && ret_connection != NULL && error != NULL);
    struct address *address = link->address;
    size_t first = address->host_first;
    for (size_t i = 0; i < address->host_count; i++) {
        size_t at = (first + i) % address->host_count;
        int64_t now_us = clock_boot(clock_system());
        int64_t share_us = (until_us - now_us) / (int64_t)(address->host_count - i);
        struct weir_error why = {.status = WEIR_OK};
        if (try_host(link, &address->hosts[at], now_us + share_us, ret_connection, &why) == WEIR_OK) {
            address->host_first = at;
            return WEIR_OK;
        }
        /* The refusal of a server that answers is a better message than the silence of another one. */
        if (i == 0 || error->status == WEIR_STORE_UNREACHABLE) {
            *error = why;
        }
    }
    return error->status;
}
