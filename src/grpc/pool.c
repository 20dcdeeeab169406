/* The pools of a client: which addresses have a connection, and which connection carries a call. Part of
 * grpc_client_step().
 *
 * A route goes through these states for its `current` and `next` connection:
 *
 *   none --dial--> current dialling --opened--> current open --GOAWAY, age, new credentials--> next dialling
 *    ^                   |    every second a `next` is dialled beside it                            | opened
 *    +-----failed, or ended-------+                                                current := next, the old one drains
 *
 * Opened means: the server has greeted us, and has passed the examination (examination.c), if there is one.
 *
 *   1. update_route() promotes an open `next` and lets go of draining connections.
 *   2. step_route() dials when no connection exists and the distance to the last failure has passed. The distance grows
 *      with each failure and has a random part, so that a fleet does not dial a returning server at one moment.
 *   3. send_waiting_calls() gives each waiting call to the open connection with the fewest calls.
 *   4. end_unreachable_calls() ends the waiting calls when no route can come up soon. A call with `wait_for_connection`
 *      stays until its deadline.
 *
 * Nothing here may dial more than two connections for one route at a time.
 */
#include "grpc/pool.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/error.h"
#include "grpc/examination.h"

/* For so long after the last call a lost connection is dialled again by itself. */
#define WANTED_FOR_US (60 * MICROSECONDS_PER_SECOND)
/* A connection that ends younger than this, without an answered call, counts as a failure to connect. */
#define STABLE_AFTER_US (5 * MICROSECONDS_PER_SECOND)
/* The longest distance for an address that fails while another one works: it is not urgent. */
#define BACKOFF_BESIDE_OTHERS_US (10 * MICROSECONDS_PER_SECOND)

bool grpc_pool_is_wanted(const struct grpc_client *client, const struct pool *pool)
{
    return client->table.waiting[pool->class].count > 0 ||
           (pool->was_wanted && client->now_us - pool->wanted_us < WANTED_FOR_US);
}

/* Connecting, shaking hands, or waiting for the first SETTINGS. */
static bool is_dialling(const struct connection *connection)
{
    return connection != NULL && connection->state <= CONNECTION_GREETING;
}

static bool is_open(const struct connection *connection)
{
    return connection != NULL && connection->state == CONNECTION_OPEN;
}

/* Open, and the owner knows that it is the expected server. */
static bool is_ready(const struct connection *connection)
{
    return is_open(connection) && grpc_examination_is_passed(connection);
}

bool grpc_pool_has_open(const struct pool *pool)
{
    for (size_t i = 0; i < pool->route_count; i++) {
        if (is_ready(pool->routes[i].current)) {
            return true;
        }
    }
    return false;
}

/* --- failing --- */

/* The pool keeps the reason for calls that end without a connection. */
static void count_failure(struct grpc_client *client, struct pool *pool, struct route *route, enum grpc_cause cause,
                          const struct weir_error *error)
{
    bool has_open = grpc_pool_has_open(pool);
    route->failures++;
    route->dial_us =
        time_add(client->now_us, grpc_client_backoff(client, route->failures,
                                                     has_open ? BACKOFF_BESIDE_OTHERS_US : client->backoff_max_us));
    pool->cause = cause;
    pool->error = *error;
    if (!has_open) {
        grpc_client_note_unreachable(client, cause, error);
    }
}

/* Emits one event for each cause in a row, not one for each dial. */
static void fail_to_connect(struct grpc_client *client, struct pool *pool, struct route *route, enum grpc_cause cause,
                            const struct weir_error *error)
{
    client->facts.connects_failed++;
    count_failure(client, pool, route, cause, error);
    if (route->reported_cause != cause) {
        route->reported_cause = cause;
        grpc_client_emit(client, GRPC_EVENT_CONNECT_FAILED, route->address.text, cause, error);
    }
}

/* An open connection takes no more calls, or has ended. The next one is dialled at once. But a connection that ended young
 * and without an answered call counts as a failure to connect: else a broken server would be dialled in a loop. */
static void plan_next_dial(struct grpc_client *client, struct pool *pool, struct route *route,
                           const struct connection *connection)
{
    bool had_passed = connection->was_noted || grpc_examination_is_passed(connection);
    bool is_expected = connection->cause != GRPC_CAUSE_NOT_EXPECTED;
    bool useful = had_passed && is_expected &&
                  (connection->answered > 0 || client->now_us - connection->opened_us >= STABLE_AFTER_US);
    if (useful) {
        route->failures = 0;
        route->dial_us = client->now_us;
    } else {
        struct weir_error error = connection->error;
        if (connection->is_silent) {
            (void)error_set(&error, WEIR_ENGINE_UNREACHABLE, "%s is silent: it answers neither calls nor PINGs",
                            route->address.text);
            error_hint(&error, "the server is frozen, or the network in between drops everything");
        } else if (connection->state != CONNECTION_DEAD || connection->cause == GRPC_CAUSE_NONE) {
            (void)error_set(&error, WEIR_ENGINE_UNREACHABLE, "%s ended the connection before it answered a call",
                            route->address.text);
            error_hint(&error, "the server stops, or something in front of it limits connections");
        }
        enum grpc_cause cause = connection->is_silent ? GRPC_CAUSE_SILENT : connection->cause;
        cause = cause == GRPC_CAUSE_NONE ? GRPC_CAUSE_CONNECTION_LOST : cause;
        if (had_passed) {
            count_failure(client, pool, route, cause, &error);
        } else {
            fail_to_connect(client, pool, route, cause, &error);
        }
    }
    for (size_t i = 0; i < pool->route_count && !grpc_pool_has_open(pool); i++) {
        int64_t soon_us = time_add(client->now_us, client->backoff_first_us);
        if (pool->routes[i].dial_us > soon_us) {
            pool->routes[i].dial_us = soon_us;
        }
    }
}

static struct route *route_of(struct pool *pool, const struct connection *connection)
{
    for (size_t i = 0; i < pool->route_count; i++) {
        if (pool->routes[i].current == connection || pool->routes[i].next == connection) {
            return &pool->routes[i];
        }
    }
    return NULL;
}

void grpc_pool_connection_ended(struct grpc_client *client, struct pool *pool, struct connection *connection)
{
    INVARIANT(connection->state == CONNECTION_DEAD && connection->class == pool->class);
    struct route *route = route_of(pool, connection);
    bool was_open = connection->opened_us != TIME_NEVER;
    bool was_current = route != NULL && route->current == connection;
    bool had_passed = connection->was_noted || grpc_examination_is_passed(connection);
    if (was_open && had_passed) {
        bool fine = connection->cause == GRPC_CAUSE_NONE;
        client->facts.connections_lost += !fine;
        grpc_client_emit(client, fine ? GRPC_EVENT_CONNECTION_ENDED : GRPC_EVENT_CONNECTION_LOST, connection->address.text,
                         connection->cause, fine ? NULL : &connection->error);
    }
    if (route == NULL) {
        return;
    }
    *(was_current ? &route->current : &route->next) = NULL;
    if (was_open) {
        pool->gave_up = pool->gave_up || (was_current && !had_passed);
        plan_next_dial(client, pool, route, connection);
    } else if (connection->cause != GRPC_CAUSE_NONE) {
        pool->gave_up = pool->gave_up || was_current;
        fail_to_connect(client, pool, route, connection->cause, &connection->error);
    }
}

/* --- dialling --- */

/* An address has more patience for a while after one of its connections was given up too early. */
static int64_t patience_with(const struct grpc_client *client, const struct route *route)
{
    bool is_forgotten = client->now_us - route->hasty_us >= GRPC_HASTE_FORGOTTEN_US;
    return route->patience_us == 0 || is_forgotten ? GRPC_UNHEARD_US : route->patience_us;
}

void grpc_pool_note_haste(struct grpc_client *client, struct pool *pool, const struct connection *connection)
{
    int64_t patience_us = connection->patience_us * 2;
    for (size_t i = 0; i < pool->route_count; i++) {
        struct route *route = &pool->routes[i];
        if (grpc_address_equals(&route->address, &connection->address)) {
            route->hasty_us = client->now_us;
            route->patience_us = patience_us < GRPC_UNHEARD_MAX_US ? patience_us : GRPC_UNHEARD_MAX_US;
        }
    }
}

static struct connection *dial(struct grpc_client *client, struct pool *pool, struct route *route)
{
    const struct target *target = &client->targets.list[route->address.target];
    struct weir_error error = {.status = WEIR_OK};
    enum grpc_cause cause = GRPC_CAUSE_NONE;
    route->dialled_us = client->now_us;
    struct connection *connection =
        grpc_connection_dial(&client->settings, &client->table, pool->class, &route->address,
                             client->authority != NULL ? client->authority : target->text, client->credentials.context,
                             client->server_name != NULL ? client->server_name : target->host,
                             client->credentials.authorization, client->now_us, &cause, &error);
    if (connection == NULL) {
        fail_to_connect(client, pool, route, cause, &error);
        return NULL;
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = connection};
    if (epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, connection->transport.fd, &event) != 0) {
        (void)error_set_native(&error, WEIR_SYSTEM, errno, "cannot watch a socket: %s", strerror(errno));
        grpc_connection_end(connection, GRPC_CAUSE_CONNECT, &error);
        grpc_connection_free(connection);
        fail_to_connect(client, pool, route, GRPC_CAUSE_CONNECT, &error);
        return NULL;
    }
    connection->polled = event.events;
    connection->patience_us = patience_with(client, route);
    connection->credentials_round = client->credentials_round;
    connection->next = client->connections;
    if (connection->next != NULL) {
        connection->next->previous = connection;
    }
    client->connections = connection;
    return connection;
}

static void note_opened(struct grpc_client *client, struct route *route)
{
    /* The random part spreads the replacements: the connections of all nodes do not end at one moment. */
    int64_t age_us = client->connection_age_us;
    if (age_us != TIME_NEVER) {
        age_us -= (int64_t)random_below(&client->random, (uint64_t)(age_us / 10) + 1);
    }
    route->replace_us = time_add(client->now_us, age_us);
    route->reported_cause = GRPC_CAUSE_NONE;
    client->facts.connects++;
    client->facts.unreachable_since_us = TIME_NEVER;
    client->facts.unreachable_cause = GRPC_CAUSE_NONE;
    error_clear(&client->facts.unreachable);
    grpc_client_emit(client, GRPC_EVENT_CONNECTED, route->address.text, GRPC_CAUSE_NONE, NULL);
}

/* Draining connections leave the route; an open `next` becomes `current`. */
static void update_route(struct grpc_client *client, struct pool *pool, struct route *route)
{
    if (route->current != NULL && route->current->state == CONNECTION_DRAINING) {
        struct connection *draining = route->current;
        route->current = NULL;
        plan_next_dial(client, pool, route, draining);
    }
    if (route->next != NULL && route->next->state == CONNECTION_DRAINING) {
        route->next = NULL;
    }
    if (route->next != NULL && (is_ready(route->next) || route->current == NULL)) {
        if (route->current != NULL) {
            grpc_connection_retire(route->current);
        }
        route->current = route->next;
        route->next = NULL;
    }
    if (is_ready(route->current) && !route->current->was_noted) {
        route->current->was_noted = true;
        note_opened(client, route);
    }
}

/* `current` is not connected yet, or not examined; pool.h gives the reason for a second one. */
static int64_t dial_beside(struct grpc_client *client, struct pool *pool, struct route *route)
{
    int64_t due_us = time_add(time_later(route->dialled_us, route->current->asked_us), GRPC_DIAL_EVERY_US);
    if (client->now_us < due_us) {
        return due_us;
    }
    if (route->next != NULL) {
        grpc_connection_retire(route->next);
    }
    route->next = dial(client, pool, route);
    return time_add(client->now_us, GRPC_DIAL_EVERY_US);
}

/* Returns when to step again. Steps 1 and 2 of the overview, and the replacement of an old connection: the old one carries
 * calls until the new one is open. An idle old one just ends. */
static int64_t step_route(struct grpc_client *client, struct pool *pool, struct route *route, bool wanted)
{
    update_route(client, pool, route);
    if (route->current == NULL) {
        if (wanted && route->next == NULL && client->now_us >= route->dial_us) {
            route->current = dial(client, pool, route);
        }
        return wanted && route->current == NULL ? route->dial_us : TIME_NEVER;
    }
    if (wanted && !is_ready(route->current) && !grpc_pool_has_open(pool)) {
        return dial_beside(client, pool, route);
    }
    bool replace = is_ready(route->current) &&
                   (client->now_us >= route->replace_us || route->current->credentials_round != client->credentials_round);
    if (replace && !wanted && route->current->call_count == 0) {
        grpc_connection_retire(route->current);
        return client->now_us;
    }
    if (replace && route->next == NULL) {
        if (client->now_us >= route->dial_us) {
            route->next = dial(client, pool, route);
        }
        return route->next == NULL ? route->dial_us : TIME_NEVER;
    }
    return is_ready(route->current) && !replace ? route->replace_us : TIME_NEVER;
}

/* --- calls --- */

/* The open connection with the fewest calls, among those with a free stream. NULL: none. */
static struct connection *choose_connection(const struct pool *pool)
{
    struct connection *best = NULL;
    for (size_t i = 0; i < pool->route_count; i++) {
        struct connection *connection = pool->routes[i].current;
        if (is_ready(connection) && grpc_connection_free_streams(connection) > 0 &&
            (best == NULL || connection->call_count < best->call_count)) {
            best = connection;
        }
    }
    return best;
}

static void send_waiting_calls(struct grpc_client *client, struct pool *pool)
{
    struct call_list *waiting = &client->table.waiting[pool->class];
    while (waiting->first != NULL) {
        struct connection *connection = choose_connection(pool);
        if (connection == NULL) {
            return;
        }
        connection->now_us = client->now_us;
        grpc_connection_begin_call(connection,
                                   waiting->first); /* false: the connection takes no more calls, another one is chosen */
    }
}

/* A connection may come up here: it is dialled or examined. */
static bool is_coming(const struct connection *connection)
{
    return is_dialling(connection) || is_open(connection);
}

/* A route that is open, that is dialled, or that has not failed yet gives hope to waiting calls. */
static bool may_become_reachable(const struct grpc_client *client, const struct pool *pool)
{
    if (pool->route_count == 0) {
        return grpc_resolver_is_running(&client->resolver) && !client->resolver.overdue;
    }
    for (size_t i = 0; i < pool->route_count; i++) {
        const struct route *route = &pool->routes[i];
        bool is_hopeful = !pool->gave_up && (is_coming(route->current) || is_coming(route->next));
        bool is_unclear = is_open(route->current) && route->current->unclear >= GRPC_UNCLEAR_MAX;
        if (is_ready(route->current) || is_hopeful || (route->failures == 0 && !is_unclear)) {
            return true;
        }
    }
    return false;
}

static void end_unreachable_calls(struct grpc_client *client, struct pool *pool)
{
    bool may = may_become_reachable(client, pool);
    pool->gave_up = false;
    if (may) {
        return;
    }
    struct call *next;
    for (struct call *call = client->table.waiting[pool->class].first; call != NULL; call = next) {
        next = call->next;
        if (!call->wait_for_connection) {
            grpc_call_finish_unsent(&client->table, call, pool->cause, &pool->error);
        }
    }
}

int64_t grpc_pool_step(struct grpc_client *client, struct pool *pool)
{
    INVARIANT(client->in_step && pool->route_count <= GRPC_ADDRESSES_MAX);
    int64_t due_us = TIME_NEVER;
    if (client->table.waiting[pool->class].count > 0) {
        pool->wanted_us = client->now_us;
        pool->was_wanted = true;
    }
    bool wanted = grpc_pool_is_wanted(client, pool);
    for (size_t i = 0; i < pool->route_count; i++) {
        int64_t route_us = step_route(client, pool, &pool->routes[i], wanted);
        int64_t examine_us = time_earlier(grpc_examination_step(client, pool->routes[i].current),
                                          grpc_examination_step(client, pool->routes[i].next));
        due_us = time_earlier(due_us, time_earlier(route_us, examine_us));
    }
    send_waiting_calls(client, pool);
    end_unreachable_calls(client, pool);
    return due_us;
}

/* --- addresses --- */

void grpc_pool_set_addresses(struct pool *pool, const struct addresses *addresses)
{
    INVARIANT(addresses->count <= GRPC_ADDRESSES_MAX);
    struct route routes[GRPC_ADDRESSES_MAX];
    for (size_t i = 0; i < addresses->count; i++) {
        routes[i] = (struct route){.address = addresses->list[i]};
        for (size_t k = 0; k < pool->route_count; k++) {
            if (grpc_address_equals(&pool->routes[k].address, &addresses->list[i])) {
                routes[i] = pool->routes[k];
                pool->routes[k].current = pool->routes[k].next = NULL;
            }
        }
    }
    for (size_t k = 0; k < pool->route_count; k++) {
        if (pool->routes[k].current != NULL) {
            grpc_connection_retire(pool->routes[k].current);
        }
        if (pool->routes[k].next != NULL) {
            grpc_connection_retire(pool->routes[k].next);
        }
    }
    memcpy(pool->routes, routes, addresses->count * sizeof routes[0]);
    pool->route_count = addresses->count;
}
