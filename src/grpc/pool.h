/* The internals of the client, and its pools: which connections there are, and which call goes to which.
 *
 * A pool is the connections of one class of call. It has a route for each address; a route has at most one connection that
 * takes calls (`current`) and one that is dialled to replace it (`next`). Connections that drain belong to no route any
 * more.
 *
 * While `current` itself is being dialled or examined and no other connection is open, `next` is dialled beside it, anew
 * every GRPC_DIAL_EVERY_US. `current` has a long time-out, for a slow network. `next` succeeds as soon as the network works
 * again.
 */
#ifndef WEIR_GRPC_POOL_H
#define WEIR_GRPC_POOL_H

#include "base/random.h"
#include "grpc/connection.h"
#include "grpc/credentials.h"
#include "grpc/resolver.h"

struct route {
    struct address address;
    struct connection *current;
    struct connection *next;
    int failures;                   /* in a row */
    int64_t dial_us;                /* not dialled before */
    int64_t dialled_us;             /* when it was dialled last */
    int64_t hasty_us;               /* when one of its connections was last found alive after it had been given up */
    int64_t patience_us;            /* of the next connection; 0 = GRPC_UNHEARD_US */
    int64_t replace_us;             /* when `current` has its age */
    enum grpc_cause reported_cause; /* the failure of the last event, so that one event is emitted for it */
};

struct pool {
    enum grpc_class class;
    struct route routes[GRPC_ADDRESSES_MAX];
    size_t route_count;
    int64_t wanted_us; /* when a call last wanted it */
    bool was_wanted;
    bool
        gave_up; /* on an address, after its full connect timeout: waiting calls end, though another one is being dialled */
    enum grpc_cause cause; /* why it has no connection */
    struct weir_error error;
};

struct grpc_client {
    const struct clock *clock;
    int64_t now_us; /* of the step that runs */
    int epoll_fd;
    bool in_step;
    bool closing;
    struct call_table table;
    struct pool pools[GRPC_CLASS_COUNT];
    struct connection *connections; /* all of them */

    struct targets targets;
    char *targets_text;
    struct resolver resolver;
    bool resolver_is_open;
    int64_t lookup_us; /* the next one, when one is wanted */
    int lookup_failures;
    bool lookup_failure_reported;

    struct credentials credentials;
    unsigned credentials_round; /* counts changes */
    int64_t credentials_us;     /* when to look for a change */

    struct connection_settings settings; /* owns its texts */
    struct grpc_examination examination; /* owns path and message */
    struct grpc_header *headers;
    char *user_agent;
    char *authority;
    char *server_name;
    int64_t connection_age_us;
    int64_t backoff_first_us;
    int64_t backoff_max_us;
    void (*event)(void *context, const struct grpc_event *event);
    void *event_context;
    struct random random;
    struct grpc_client_facts facts; /* its counters */
};

void grpc_client_emit(struct grpc_client *client, enum grpc_event_kind kind, const char *address, enum grpc_cause cause,
                      const struct weir_error *error);
/* The distance to the next try after so many failures in a row, with jitter. */
int64_t grpc_client_backoff(struct grpc_client *client, int failures, int64_t max_us);
/* Notes that nothing can be reached. */
void grpc_client_note_unreachable(struct grpc_client *client, enum grpc_cause cause, const struct weir_error *error);

/* Dials, replaces, sends waiting calls, and ends those that no connection can take. Returns when to come again. */
int64_t grpc_pool_step(struct grpc_client *client, struct pool *pool);
/* Its route loses the dead connection, which the caller frees. */
void grpc_pool_connection_ended(struct grpc_client *client, struct pool *pool, struct connection *connection);
/* The addresses are these now. */
void grpc_pool_set_addresses(struct pool *pool, const struct addresses *addresses);
/* Whether one of its connections takes calls: it is open, and has passed the examination. */
bool grpc_pool_has_open(const struct pool *pool);
/* A connection that was given up as silent lives: those that follow are given more time. */
void grpc_pool_note_haste(struct grpc_client *client, struct pool *pool, const struct connection *connection);
/* While a call has wanted it not long ago, connections are kept up. */
bool grpc_pool_is_wanted(const struct grpc_client *client, const struct pool *pool);

#endif
