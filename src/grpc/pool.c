#include "grpc/pool.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/error.h"

/* For so long after the last call a lost connection is dialled again by itself. */
#define WANTED_FOR_US (60 * MICROSECONDS_PER_SECOND)
/* A connection that ends younger than this, with no call answered, counts as a failure to connect. */
#define STABLE_AFTER_US (5 * MICROSECONDS_PER_SECOND)
/* An address that fails while others work is not urgent. */
#define BACKOFF_BESIDE_OTHERS_US (10 * MICROSECONDS_PER_SECOND)

bool grpc_pool_is_wanted(const struct grpc_client *client, const struct pool *pool)
{
    return client->book.waiting[pool->class].count > 0 ||
           (pool->was_wanted && client->now_us - pool->wanted_us < WANTED_FOR_US);
}

static bool is_dialling(const struct connection *connection)
{
    return connection != NULL && connection->state <= CONNECTION_GREETING;
}

static bool is_open(const struct connection *connection)
{
    return connection != NULL && connection->state == CONNECTION_OPEN;
}

bool grpc_pool_has_open(const struct pool *pool)
{
    for (size_t i = 0; i < pool->route_count; i++) {
        if (is_open(pool->routes[i].current)) {
            return true;
        }
    }
    return false;
}

/* --- failing --- */

static void count_failure(struct grpc_client *client, struct pool *pool, struct route *route, enum grpc_cause cause,
                          const struct weir_error *error)
{
    bool others = grpc_pool_has_open(pool);
    route->failures++;
    route->dial_us =
        time_add(client->now_us,
                 grpc_client_backoff(client, route->failures, others ? BACKOFF_BESIDE_OTHERS_US : client->backoff_max_us));
    pool->cause = cause;
    pool->error = *error;
    if (!others) {
        grpc_client_note_unreachable(client, cause, error);
    }
}

static void fail_to_connect(struct grpc_client *client, struct pool *pool, struct route *route, enum grpc_cause cause,
                            const struct weir_error *error)
{
    client->facts.connects_failed++;
    count_failure(client, pool, route, cause, error);
    if (route->told != cause) {
        route->told = cause;
        grpc_client_tell(client, GRPC_EVENT_CONNECT_FAILED, route->address.text, cause, error);
    }
}

/* An open connection takes no more calls, or is gone: dial the next one at once, unless it was of no use. */
static void leave(struct grpc_client *client, struct pool *pool, struct route *route, const struct connection *connection)
{
    bool useful = connection->answered > 0 || client->now_us - connection->opened_us >= STABLE_AFTER_US;
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
        count_failure(client, pool, route, cause == GRPC_CAUSE_NONE ? GRPC_CAUSE_CONNECTION_LOST : cause, &error);
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
    struct route *route = route_of(pool, connection);
    bool was_open = connection->opened_us != TIME_NEVER;
    bool was_current = route != NULL && route->current == connection;
    if (was_open) {
        bool fine = connection->cause == GRPC_CAUSE_NONE;
        client->facts.connections_lost += !fine;
        grpc_client_tell(client, fine ? GRPC_EVENT_CONNECTION_ENDED : GRPC_EVENT_CONNECTION_LOST, connection->address.text,
                         connection->cause, fine ? NULL : &connection->error);
    }
    if (route == NULL) {
        return;
    }
    *(was_current ? &route->current : &route->next) = NULL;
    if (was_open) {
        leave(client, pool, route, connection);
    } else if (connection->cause != GRPC_CAUSE_NONE) {
        pool->gave_up = pool->gave_up || was_current;
        fail_to_connect(client, pool, route, connection->cause, &connection->error);
    }
}

/* --- dialling --- */

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
        grpc_connection_dial(&client->settings, &client->book, pool->class, &route->address,
                             client->authority != NULL ? client->authority : target->text, client->secrets.context,
                             client->server_name != NULL ? client->server_name : target->host,
                             client->secrets.authorization, client->now_us, &cause, &error);
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
    connection->secrets_round = client->secrets_round;
    connection->next = client->connections;
    if (connection->next != NULL) {
        connection->next->previous = connection;
    }
    client->connections = connection;
    return connection;
}

static void note_opened(struct grpc_client *client, struct route *route)
{
    /* Not all connections of all nodes at the same moment. */
    int64_t age_us = client->connection_age_us;
    if (age_us != TIME_NEVER) {
        age_us -= (int64_t)random_below(&client->random, (uint64_t)(age_us / 10) + 1);
    }
    route->replace_us = time_add(client->now_us, age_us);
    route->told = GRPC_CAUSE_NONE;
    client->facts.connects++;
    client->facts.unreachable_since_us = TIME_NEVER;
    client->facts.unreachable_cause = GRPC_CAUSE_NONE;
    error_clear(&client->facts.unreachable);
    grpc_client_tell(client, GRPC_EVENT_CONNECTED, route->address.text, GRPC_CAUSE_NONE, NULL);
}

static void settle(struct grpc_client *client, struct pool *pool, struct route *route)
{
    if (route->current != NULL && route->current->state == CONNECTION_DRAINING) {
        struct connection *draining = route->current;
        route->current = NULL;
        leave(client, pool, route, draining);
    }
    if (route->next != NULL && route->next->state == CONNECTION_DRAINING) {
        route->next = NULL;
    }
    if (route->next != NULL && (is_open(route->next) || route->current == NULL)) {
        if (route->current != NULL) {
            grpc_connection_retire(route->current);
        }
        route->current = route->next;
        route->next = NULL;
    }
    if (is_open(route->current) && !route->current->was_noted) {
        route->current->was_noted = true;
        note_opened(client, route);
    }
}

/* See pool.h: `current` is not answered yet. */
static int64_t dial_beside(struct grpc_client *client, struct pool *pool, struct route *route)
{
    int64_t due_us = time_add(route->dialled_us, GRPC_DIAL_EVERY_US);
    if (client->now_us < due_us) {
        return due_us;
    }
    if (route->next != NULL) {
        grpc_connection_retire(route->next);
    }
    route->next = dial(client, pool, route);
    return time_add(client->now_us, GRPC_DIAL_EVERY_US);
}

static int64_t step_route(struct grpc_client *client, struct pool *pool, struct route *route, bool wanted)
{
    settle(client, pool, route);
    if (route->current == NULL) {
        if (wanted && route->next == NULL && client->now_us >= route->dial_us) {
            route->current = dial(client, pool, route);
        }
        return wanted && route->current == NULL ? route->dial_us : TIME_NEVER;
    }
    if (wanted && is_dialling(route->current) && !grpc_pool_has_open(pool)) {
        return dial_beside(client, pool, route);
    }
    bool replace = is_open(route->current) &&
                   (client->now_us >= route->replace_us || route->current->secrets_round != client->secrets_round);
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
    return is_open(route->current) && !replace ? route->replace_us : TIME_NEVER;
}

/* --- calls --- */

/* The one with the fewest calls, of those with room. */
static struct connection *choose(const struct pool *pool)
{
    struct connection *best = NULL;
    for (size_t i = 0; i < pool->route_count; i++) {
        struct connection *connection = pool->routes[i].current;
        if (is_open(connection) && grpc_connection_room(connection) > 0 &&
            (best == NULL || connection->call_count < best->call_count)) {
            best = connection;
        }
    }
    return best;
}

static void hand_out(struct grpc_client *client, struct pool *pool)
{
    struct call_list *waiting = &client->book.waiting[pool->class];
    while (waiting->first != NULL) {
        struct connection *connection = choose(pool);
        if (connection == NULL) {
            return;
        }
        connection->now_us = client->now_us;
        grpc_connection_begin_call(connection, waiting->first); /* false: it takes none any more; another is chosen */
    }
}

static bool may_come_up(const struct grpc_client *client, const struct pool *pool)
{
    if (pool->route_count == 0) {
        return grpc_resolver_is_running(&client->resolver) && !client->resolver.overdue;
    }
    for (size_t i = 0; i < pool->route_count; i++) {
        const struct route *route = &pool->routes[i];
        bool dialling = !pool->gave_up && (is_dialling(route->current) || is_dialling(route->next));
        if (is_open(route->current) || dialling || route->failures == 0) {
            return true;
        }
    }
    return false;
}

static void end_hopeless(struct grpc_client *client, struct pool *pool)
{
    bool may = may_come_up(client, pool);
    pool->gave_up = false;
    if (may) {
        return;
    }
    struct call *next;
    for (struct call *call = client->book.waiting[pool->class].first; call != NULL; call = next) {
        next = call->next;
        if (!call->wait_for_connection) {
            grpc_call_finish_unsent(&client->book, call, pool->cause, &pool->error);
        }
    }
}

int64_t grpc_pool_step(struct grpc_client *client, struct pool *pool)
{
    int64_t due_us = TIME_NEVER;
    if (client->book.waiting[pool->class].count > 0) {
        pool->wanted_us = client->now_us;
        pool->was_wanted = true;
    }
    bool wanted = grpc_pool_is_wanted(client, pool);
    for (size_t i = 0; i < pool->route_count; i++) {
        int64_t route_us = step_route(client, pool, &pool->routes[i], wanted);
        due_us = route_us < due_us ? route_us : due_us;
    }
    hand_out(client, pool);
    end_hopeless(client, pool);
    return due_us;
}

/* --- addresses --- */

void grpc_pool_set_addresses(struct pool *pool, const struct addresses *addresses)
{
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
