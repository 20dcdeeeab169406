/* Where a PostgreSQL store is: the parsed URL, the name of its schema, and every query's text with that name in place.
 *
 * An address is made once per store_open() and shared by the handles of that store; it never changes, but for atomic facts
 * that a connection detects. Only libpq gets the password; messages show store_url_shown().
 *
 * The URL is libpq's (postgres:// or postgresql://, all its parameters, several hosts). Parameters of our own:
 *   schema=NAME          the schema that holds the store (default weir); [a-z_][a-z0-9_]*
 *   pooler=transaction   a pooler in transaction mode stands between (PgBouncer): no server-side prepared statements, no
 *                        startup options, no LISTEN. Detected in most cases; the setting saves the attempts.
 *   listen=off           poll only
 *
 * In .sql files the schema is written :schema (becomes "weir", quoted) and :'schema' (becomes 'weir', for to_regclass and
 * channel names); both also inside of function bodies. */
#ifndef WEIR_STORE_POSTGRES_LINK_ADDRESS_H
#define WEIR_STORE_POSTGRES_LINK_ADDRESS_H

#include <libpq-fe.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "postgres_queries.h"
#include "weir/status.h"

enum {
    SCHEMA_NAME_MAX = 48, /* identifiers end at 63 bytes; we derive names from it */
    ADDRESS_HOSTS_MOST = 8,
    ADDRESS_URL_MAX = 4096,
    PREPARED_NAME_MAX = 64 /* the server would cut a longer one */
};

/* One server of the URL. "" where the URL has none: then libpq's own defaults count (PGHOST, the local socket). */
struct address_host {
    char host[256];
    char hostaddr[64];
    char port[8];
};

struct address {
    atomic_int references;
    char schema[SCHEMA_NAME_MAX];
    char shown[512]; /* the URL without secrets */
    struct address_host hosts[ADDRESS_HOSTS_MOST];
    size_t host_count;
    atomic_size_t host_first;   /* the one that answered last */
    _Atomic int64_t reached_us; /* boot time at which a link connected last; 0 = none has */
    PQconninfoOption *options;  /* the URL in libpq's form */
    bool listen;
    atomic_bool pooled; /* a pooler in transaction mode is between */
    /* Of postgres_queries[], made at their first use: a program uses few of them. NULL = not yet. */
    _Atomic(struct address_query *) queries[QUERY_COUNT];
};

/* A query with the schema in place. */
struct address_query {
    /* It contains a hash of the text. A pooler that was not detected may give us a server connection on which another
     * program has prepared the query of the same name for another schema or version. */
    char prepared_name[PREPARED_NAME_MAX];
    char text[];
};

/* `location` is the URL behind "postgres:". Errors: WEIR_INVALID_ARGUMENT, with a text that quotes no password. */
WEIR_MUST_CHECK enum weir_status address_parse(const char *location, struct address **ret_address,
                                               struct weir_error *error);
/* The same for tables of another system: `schema` where the URL names none. */
WEIR_MUST_CHECK enum weir_status address_parse_within(const char *schema, const char *location,
                                                      struct address **ret_address, struct weir_error *error);
struct address *address_share(struct address *address);
/* Takes NULL. */
void address_release(struct address *address);
/* A copy of `sql` with the schema's name in place; free() it. NULL when memory ran out. */
char *address_fill(const struct address *address, const char *sql);
/* Lives as long as the address. NULL when memory ran out, which QUERY_COMMIT and QUERY_ROLLBACK never are. Any thread. */
const struct address_query *address_query(struct address *address, enum postgres_query query);
/* The sslmode under which a connection to another machine may be without TLS although no user chose that: "prefer",
 * libpq's default, or "allow". NULL when TLS is demanded or turned off, and when all servers are on this machine. */
const char *address_optional_tls(const struct address *address);
/* The value of the URL for one of libpq's keywords, or NULL. */
const char *address_option(const struct address *address, const char *keyword);

#endif
