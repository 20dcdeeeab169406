/* The gRPC client: opening, the step, and closing. The thread that owns the client calls everything here (the loop of the
 * Temporal engine); a lookup of a host name has a short-lived thread of its own.
 *
 * Objects and threads:
 *
 *   owner's thread                                                               lookup thread (resolver.c)
 *   +--------------------------------------------------------------------+       getaddrinfo(), then eventfd
 *   | grpc_client --+-- call_table    all calls: waiting, under way,     |                   |
 *   |   epoll fd    |                 finished; deadlines                |<------------------+
 *   |               +-- pool[short calls]  pool[long polls]              |
 *   |                     +-- route, one for each address                |
 *   |                           +-- connection: current, next            |
 *   |                                 +-- session    frames (nghttp2)    |
 *   |                                 +-- transport  bytes (TCP, TLS)    |
 *   +--------------------------------------------------------------------+
 *
 * One step (grpc_client_step()), which never waits:
 *
 *   1. Read from the connections that epoll reports. Answers finish calls.
 *   2. End calls after their deadlines. The deadline is checked after the read, so an answer that has arrived wins.
 *   3. Check the secret files for a change, at most every GRPC_SECRETS_INTERVAL_US.
 *   4. Take the result of a lookup, or start one. Addresses become routes.
 *   5. Let each pool dial, replace connections, and send waiting calls (pool.c).
 *   6. Write the output of each connection, run its timers, free it when it is dead.
 *   7. Report finished calls to their owners by `done`. Calls that `done` makes leave in the same step: steps 4 to 7 repeat
 * up to ROUNDS_PER_STEP times. The limit keeps one client from occupying its thread.
 *
 * When a call counts as unsent (GRPC_NOT_SENT), so that it may be sent again without risk:
 *
 *   1. It waits in the table: no connection has it.
 *   2. A connection has it, but nghttp2 has not written its HEADERS frame into the output (written_at = CALL_NOT_WRITTEN).
 *   3. The frame is in the output, and the connection dies before the socket took the first byte of the frame
 *      (handed_over <= written_at). With TLS all bytes passed to OpenSSL count as taken, because part of a record may
 * leave.
 *
 * In every other case without a status the outcome is GRPC_UNKNOWN. A server that refuses a stream (REFUSED_STREAM) has not
 * processed the call: GRPC_REFUSED. Nothing here may report a call as unsent on any other evidence.
 */
#include "grpc/grpc_client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"
#include "grpc/examination.h"
#include "grpc/framing.h"
#include "grpc/pool.h"

enum {
    EVENTS_PER_STEP = 64,
    ROUNDS_PER_STEP = 4, /* calls that were made by `done` leave in the same step, but a step has an end */
    REQUEST_BYTES_DEFAULT = 64 * 1024 * 1024,
    ANSWERS_BYTES_DEFAULT = 256 * 1024 * 1024,
    CALLS_MAX = 1000000,
    KEEPALIVE_DOUBLINGS_MAX = 6
};

/* --- functions that the pools share --- */

void grpc_client_emit(struct grpc_client *client, enum grpc_event_kind kind, const char *address, enum grpc_cause cause,
                      const struct weir_error *error)
{
    INVARIANT((unsigned)kind < GRPC_EVENT_COUNT && (unsigned)cause < GRPC_CAUSE_COUNT);
    struct grpc_event event = {.kind = kind, .address = address, .cause = cause, .error = error};
    if (client->event != NULL) {
        client->event(client->event_context, &event);
    }
}

int64_t grpc_client_backoff(struct grpc_client *client, int failures, int64_t max_us)
{
    int64_t wait_us = client->backoff_first_us;
    for (int i = 1; i < failures && wait_us < max_us; i++) {
        wait_us = wait_us * 8 / 5;
    }
    wait_us = wait_us < max_us ? wait_us : max_us;
    int64_t spread_us = wait_us * 2 / 5; /* 0.8 to 1.2 of it */
    return wait_us - spread_us / 2 + (int64_t)random_below(&client->random, (uint64_t)spread_us + 1);
}

void grpc_client_note_unreachable(struct grpc_client *client, enum grpc_cause cause, const struct weir_error *error)
{
    if (client->facts.unreachable_since_us == TIME_NEVER) {
        client->facts.unreachable_since_us = client->now_us;
    }
    client->facts.unreachable_cause = cause;
    client->facts.unreachable = *error;
}

/* --- opening --- */

static int64_t or_default(int64_t value, int64_t otherwise)
{
    return value != 0 ? value : otherwise;
}

/* A keepalive below GRPC_KEEPALIVE_MIN_US makes servers end the connection, so it is refused. */
static enum weir_status check_times(const struct grpc_client_options *options, struct weir_error *error)
{
    if (options->connect_timeout_us < 0 || options->keepalive_timeout_us < 0 || options->connection_age_us < 0 ||
        options->backoff_first_us < 0 || options->backoff_max_us < 0) {
        return error_set(error, WEIR_INVALID_CONFIG, "a time of the connection is negative");
    }
    if (options->keepalive_us != 0 && options->keepalive_us < GRPC_KEEPALIVE_MIN_US) {
        (void)error_set(error, WEIR_INVALID_CONFIG, "keepalive of less than 10s: servers end connections for it");
        error_hint(error, "30s is the default");
        return WEIR_INVALID_CONFIG;
    }
    if (options->calls_max > CALLS_MAX || options->response_bytes_max > UINT32_MAX) {
        return error_set(error, WEIR_INVALID_CONFIG, "calls_max is at most %d, response_bytes_max at most 4 GiB",
                         CALLS_MAX);
    }
    return WEIR_OK;
}

static enum weir_status check_client_options(const struct grpc_client_options *options, struct weir_error *error)
{
    if (options->targets == NULL) {
        return error_set(error, WEIR_INVALID_CONFIG, "no address is given");
    }
    if ((options->authority != NULL &&
         (options->authority[0] == '\0' || strlen(options->authority) >= GRPC_TARGET_TEXT_MAX ||
          !grpc_header_value_is_fine(options->authority))) ||
        (options->user_agent != NULL && !grpc_header_value_is_fine(options->user_agent))) {
        return error_set(error, WEIR_INVALID_CONFIG, "authority or user_agent is not a short line of printable ASCII");
    }
    if (options->server_name != NULL && (options->server_name[0] == '\0' || strlen(options->server_name) > GRPC_HOST_MAX)) {
        return error_set(error, WEIR_INVALID_CONFIG, "server_name is no host name");
    }
    if (options->header_count > GRPC_HEADERS_MAX) {
        return error_set(error, WEIR_INVALID_CONFIG, "there are more than %d headers", GRPC_HEADERS_MAX);
    }
    for (size_t i = 0; i < options->header_count; i++) {
        const struct grpc_header *header = &options->headers[i];
        if (!grpc_header_name_is_fine(header->name) || !grpc_header_value_is_fine(header->value) ||
            strlen(header->name) + strlen(header->value) > GRPC_HEADER_BYTES_MAX) {
            return error_set(error, WEIR_INVALID_CONFIG, "the header \"%.100s\" cannot be sent", header->name);
        }
    }
    return check_times(options, error);
}

static bool duplicate_text(char **to, const char *text)
{
    *to = text != NULL ? strdup(text) : NULL;
    return text == NULL || *to != NULL;
}

/* Counts each header before the next one is copied, so that a failure frees exactly the copied ones. */
static bool copy_headers(struct grpc_client *client, const struct grpc_client_options *options)
{
    client->headers = calloc(options->header_count + 1, sizeof *client->headers);
    bool copied = client->headers != NULL;
    for (size_t i = 0; copied && i < options->header_count; i++) {
        char *name = NULL;
        char *value = NULL;
        copied = duplicate_text(&name, options->headers[i].name);
        copied = duplicate_text(&value, options->headers[i].value) && copied;
        client->headers[i] = (struct grpc_header){.name = name, .value = value, .secret = options->headers[i].secret};
        client->settings.header_count = i + 1;
    }
    client->settings.headers = client->headers;
    return copied;
}

static bool copy_client_options(struct grpc_client *client, const struct grpc_client_options *options)
{
    bool copied = copy_headers(client, options);
    copied = duplicate_text(&client->targets_text, options->targets) && copied;
    copied = duplicate_text(&client->authority, options->authority) && copied;
    copied = duplicate_text(&client->server_name, options->server_name) && copied;
    copied =
        duplicate_text(&client->user_agent, options->user_agent != NULL ? options->user_agent : "weir/" WEIR_VERSION) &&
        copied;
    client->settings.user_agent = client->user_agent;
    client->settings.connect_timeout_us = or_default(options->connect_timeout_us, GRPC_CONNECT_TIMEOUT_US);
    client->settings.keepalive_us = or_default(options->keepalive_us, GRPC_KEEPALIVE_US);
    client->settings.keepalive_timeout_us = or_default(options->keepalive_timeout_us, GRPC_KEEPALIVE_TIMEOUT_US);
    client->connection_age_us = or_default(options->connection_age_us, GRPC_CONNECTION_AGE_US);
    client->backoff_first_us = or_default(options->backoff_first_us, GRPC_BACKOFF_FIRST_US);
    client->backoff_max_us = or_default(options->backoff_max_us, GRPC_BACKOFF_MAX_US);
    client->event = options->event;
    client->event_context = options->event_context;
    return copied;
}

static enum weir_status open_call_table(struct grpc_client *client, const struct grpc_client_options *options,
                                        struct weir_error *error)
{
    struct answer_limits limits = {
        .message_bytes_max = options->response_bytes_max != 0 ? options->response_bytes_max : GRPC_RESPONSE_BYTES_MAX,
        .arriving_bytes_max = options->answers_bytes_max != 0 ? options->answers_bytes_max : ANSWERS_BYTES_DEFAULT};
    return grpc_call_table_open(&client->table, options->calls_max != 0 ? options->calls_max : GRPC_CALLS_DEFAULT,
                                options->request_bytes_max != 0 ? options->request_bytes_max : REQUEST_BYTES_DEFAULT,
                                &limits, error);
}

static enum weir_status open_events(struct grpc_client *client, const struct grpc_client_options *options,
                                    struct weir_error *error)
{
    client->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (client->epoll_fd < 0) {
        return error_set_native(error, WEIR_SYSTEM, errno, "cannot make an epoll: %s", strerror(errno));
    }
    enum weir_status status =
        grpc_resolver_open(&client->resolver, &client->targets, options->lookup, options->lookup_free, error);
    client->resolver_is_open = status == WEIR_OK;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}; /* NULL is the resolver */
    if (status == WEIR_OK && epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, client->resolver.fd, &event) != 0) {
        status = error_set_native(error, WEIR_SYSTEM, errno, "cannot watch an eventfd: %s", strerror(errno));
    }
    return status;
}

enum weir_status grpc_client_open(const struct grpc_client_options *options, const struct clock *clock,
                                  struct grpc_client **ret_client, struct weir_error *error)
{
    INVARIANT(options != NULL && clock != NULL && ret_client != NULL);
    enum weir_status status = check_client_options(options, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct grpc_client *client = calloc(1, sizeof *client);
    if (client == NULL) {
        return error_out_of_memory(error);
    }
    client->clock = clock;
    client->epoll_fd = -1;
    client->facts.unreachable_since_us = TIME_NEVER;
    client->now_us = clock_boot(clock);
    client->credentials_us = time_add(client->now_us, GRPC_SECRETS_INTERVAL_US);
    for (int i = 0; i < GRPC_CLASS_COUNT; i++) {
        client->pools[i].class = (enum grpc_class)i;
    }
    random_seed_from_system(&client->random);
    if (options->seed != 0) {
        random_seed(&client->random, options->seed);
    }
    status = grpc_targets_read(options->targets, &client->targets, error);
    status = status != WEIR_OK ? status : copy_client_options(client, options) ? WEIR_OK : error_out_of_memory(error);
    status = status != WEIR_OK ? status : open_call_table(client, options, error);
    status = status != WEIR_OK ? status : grpc_credentials_open(&client->credentials, options, error);
    status = status != WEIR_OK ? status : open_events(client, options, error);
    if (status != WEIR_OK) {
        grpc_client_close(client);
        return status;
    }
    *ret_client = client;
    return WEIR_OK;
}

/* --- connections, as a list --- */

/* Takes the connection out of the list of the client and frees it. */
static void free_connection(struct grpc_client *client, struct connection *connection)
{
    *(connection->previous != NULL ? &connection->previous->next : &client->connections) = connection->next;
    if (connection->next != NULL) {
        connection->next->previous = connection->previous;
    }
    grpc_connection_free(connection);
}

/* A silent connection is given up as soon as another one is open. The connections of the same address that have received
 * nothing since then may be silent too, so they are probed, once for each silence. */
static void handle_silent_connection(struct grpc_client *client, struct connection *silent)
{
    if (silent->give_up_us == TIME_NEVER && grpc_pool_has_open(&client->pools[silent->class])) {
        silent->give_up_us = time_add(client->now_us, silent->patience_us / (GRPC_UNHEARD_US / GRPC_SILENT_GRACE_US));
    }
    if (silent->silence_reported) {
        return;
    }
    silent->silence_reported = true;
    for (struct connection *other = client->connections; other != NULL; other = other->next) {
        if (other->read_us <= silent->unheard_us && grpc_address_equals(&other->address, &silent->address)) {
            grpc_connection_probe(other, client->now_us);
        }
    }
}

/* Writes due output, runs timers, frees dead connections, and registers the wanted epoll events. Returns when to step
 * again. */
static int64_t service_connections(struct grpc_client *client)
{
    int64_t due_us = TIME_NEVER;
    struct connection *next;
    for (struct connection *connection = client->connections; connection != NULL; connection = next) {
        next = connection->next;
        grpc_connection_flush(connection, client->now_us);
        int64_t tick_us = connection->has_more ? client->now_us : grpc_connection_tick(connection, client->now_us);
        if (connection->is_silent) {
            handle_silent_connection(client, connection);
        }
        if (connection->was_alive) {
            connection->was_alive = false;
            grpc_pool_note_haste(client, &client->pools[connection->class], connection);
        }
        if (connection->was_asked_to_calm) {
            connection->was_asked_to_calm = false;
            client->settings.keepalive_us = client->settings.keepalive_us < (GRPC_KEEPALIVE_US << KEEPALIVE_DOUBLINGS_MAX)
                                                ? client->settings.keepalive_us * 2
                                                : client->settings.keepalive_us;
        }
        if (connection->state == CONNECTION_DEAD) {
            client->facts.goaways += connection->got_goaway;
            grpc_pool_connection_ended(client, &client->pools[connection->class], connection);
            free_connection(client, connection);
            due_us = client->now_us; /* the pool dials the next one */
            continue;
        }
        uint32_t polled = EPOLLIN | (grpc_connection_wants_write(connection) ? (uint32_t)EPOLLOUT : 0);
        if (polled != connection->polled) {
            struct epoll_event event = {.events = polled, .data.ptr = connection};
            (void)epoll_ctl(client->epoll_fd, EPOLL_CTL_MOD, connection->transport.fd, &event);
            connection->polled = polled;
        }
        due_us = tick_us < due_us ? tick_us : due_us;
    }
    return due_us;
}

/* A connection with unread bytes of the last step is read again, although epoll does not report it. */
static void poll_connections(struct grpc_client *client, bool *ret_lookup)
{
    struct epoll_event events[EVENTS_PER_STEP];
    int count = epoll_wait(client->epoll_fd, events, EVENTS_PER_STEP, 0);
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == NULL) {
            *ret_lookup = true;
        } else {
            grpc_connection_step(events[i].data.ptr, client->now_us);
        }
    }
    for (struct connection *connection = client->connections; connection != NULL; connection = connection->next) {
        if (connection->has_more) {
            grpc_connection_step(connection, client->now_us);
        }
    }
}

/* --- lookups --- */

static bool is_any_pool_wanted(const struct grpc_client *client)
{
    bool wanted = false;
    for (int i = 0; i < GRPC_CLASS_COUNT; i++) {
        wanted = wanted || grpc_pool_is_wanted(client, &client->pools[i]);
    }
    return wanted;
}

/* Pools that already have addresses keep them: only a pool without any route becomes unreachable. */
static void fail_lookup(struct grpc_client *client, const struct weir_error *error)
{
    client->lookup_failures++;
    client->lookup_us =
        time_add(client->now_us, grpc_client_backoff(client, client->lookup_failures, client->backoff_max_us));
    for (int i = 0; i < GRPC_CLASS_COUNT; i++) {
        if (client->pools[i].route_count == 0) {
            client->pools[i].cause = GRPC_CAUSE_LOOKUP;
            client->pools[i].error = *error;
        }
    }
    if (client->pools[0].route_count == 0) {
        grpc_client_note_unreachable(client, GRPC_CAUSE_LOOKUP, error);
    }
    if (!client->lookup_failure_reported) {
        client->lookup_failure_reported = true;
        grpc_client_emit(client, GRPC_EVENT_LOOKUP_FAILED, client->targets_text, GRPC_CAUSE_LOOKUP, error);
    }
}

/* Numeric targets are never looked up again; names are, after GRPC_LOOKUP_INTERVAL_US. */
static void take_lookup(struct grpc_client *client)
{
    struct addresses addresses = {.count = 0};
    struct weir_error error = {.status = WEIR_OK};
    switch (grpc_resolver_take(&client->resolver, client->now_us, &addresses, &error)) {
    case RESOLVER_FOUND:
        client->lookup_failures = 0;
        client->lookup_failure_reported = false;
        client->lookup_us =
            grpc_targets_are_numeric(&client->targets) ? TIME_NEVER : time_add(client->now_us, GRPC_LOOKUP_INTERVAL_US);
        for (int i = 0; i < GRPC_CLASS_COUNT; i++) {
            grpc_pool_set_addresses(&client->pools[i], &addresses);
        }
        break;
    case RESOLVER_FAILED:
        fail_lookup(client, &error);
        break;
    case RESOLVER_NOTHING:
        break;
    }
}

/* Starts a lookup only while a call wants a connection. Returns when to step again. */
static int64_t step_lookup(struct grpc_client *client, bool ready)
{
    if (ready || client->now_us >= grpc_resolver_due(&client->resolver)) {
        take_lookup(client);
    }
    if (!is_any_pool_wanted(client)) {
        return TIME_NEVER;
    }
    if (!grpc_resolver_is_running(&client->resolver) && client->now_us >= client->lookup_us) {
        struct weir_error error = {.status = WEIR_OK};
        if (grpc_resolver_start(&client->resolver, client->now_us, &error) != WEIR_OK) {
            fail_lookup(client, &error);
        } else if (grpc_targets_are_numeric(&client->targets)) {
            take_lookup(client);
        }
    }
    return grpc_resolver_is_running(&client->resolver) ? grpc_resolver_due(&client->resolver) : client->lookup_us;
}

/* --- secrets --- */

/* A new round of credentials makes the pools replace their connections one by one (pool.c). */
static void step_credentials(struct grpc_client *client)
{
    if (client->now_us < client->credentials_us) {
        return;
    }
    client->credentials_us = time_add(client->now_us, GRPC_SECRETS_INTERVAL_US);
    if (!grpc_credentials_have_changed(&client->credentials)) {
        return;
    }
    struct weir_error error = {.status = WEIR_OK};
    if (grpc_credentials_load(&client->credentials, &error) != WEIR_OK) {
        grpc_client_emit(client, GRPC_EVENT_SECRETS_REFUSED, client->targets_text, GRPC_CAUSE_SECRETS, &error);
        return;
    }
    client->credentials_round++;
    grpc_client_emit(client, GRPC_EVENT_SECRETS_LOADED, client->targets_text, GRPC_CAUSE_NONE, NULL);
}

/* --- the step --- */

static void end_overdue_calls(struct grpc_client *client)
{
    struct call *call;
    while ((call = grpc_call_table_next_overdue(&client->table, client->now_us)) != NULL) {
        struct weir_error error;
        grpc_call_describe_deadline(call, &error);
        if (call->state == CALL_UNDER_WAY) {
            grpc_connection_drop_call(call->connection, call, GRPC_CAUSE_DEADLINE, &error);
        } else {
            grpc_call_finish_unsent(&client->table, call, GRPC_CAUSE_DEADLINE, &error);
        }
    }
}

/* Reports the calls that are finished at this moment. `done` may make new calls without end, so these wait for the next
 * round. */
static size_t report_finished_calls(struct grpc_client *client)
{
    size_t count = client->table.finished.count;
    for (size_t i = 0; i < count; i++) {
        (void)grpc_call_table_report_next(&client->table);
    }
    return count;
}

int64_t grpc_client_step(struct grpc_client *client)
{
    bool lookup_ready = false;
    int64_t due_us = TIME_NEVER;
    INVARIANT(!client->in_step);
    client->in_step = true;
    client->now_us = clock_boot(client->clock);
    poll_connections(client, &lookup_ready);
    end_overdue_calls(client);
    step_credentials(client);
    size_t reported = 0;
    for (int round = 0; round < ROUNDS_PER_STEP; round++) {
        due_us = step_lookup(client, lookup_ready);
        lookup_ready = false;
        for (int i = 0; i < GRPC_CLASS_COUNT; i++) {
            due_us = time_earlier(due_us, grpc_pool_step(client, &client->pools[i]));
        }
        due_us = time_earlier(due_us, service_connections(client));
        reported = report_finished_calls(client);
        if (reported == 0 && due_us > client->now_us) {
            break;
        }
    }
    if (client->table.finished.count > 0 || reported > 0) { /* an answer may have opened or ended a connection */
        due_us = client->now_us;
    }
    if (is_any_pool_wanted(client) || client->connections != NULL) {
        due_us = time_earlier(due_us, client->credentials_us);
    }
    client->in_step = false;
    return time_earlier(due_us, grpc_call_table_next_deadline(&client->table));
}

int grpc_client_fd(const struct grpc_client *client)
{
    return client->epoll_fd;
}

/* --- calls --- */

enum weir_status grpc_client_call(struct grpc_client *client, const struct grpc_request *request, grpc_call_id *ret_id,
                                  struct weir_error *error)
{
    INVARIANT(client != NULL && request != NULL);
    if (client->closing) {
        return error_set(error, WEIR_STOPPED, "the client is being closed");
    }
    return grpc_call_table_take(&client->table, request, clock_boot(client->clock), ret_id, error);
}

/* A finished call keeps its result. */
static void end_call(struct grpc_client *client, struct call *call, enum grpc_cause cause, const struct weir_error *error)
{
    if (call->state == CALL_UNDER_WAY) {
        grpc_connection_drop_call(call->connection, call, cause, error);
    } else if (call->state == CALL_WAITING) {
        grpc_call_finish_unsent(&client->table, call, cause, error);
    }
}

void grpc_client_cancel(struct grpc_client *client, grpc_call_id id)
{
    INVARIANT(client != NULL);
    struct call *call = grpc_call_table_find(&client->table, id);
    if (call != NULL) {
        struct weir_error error;
        (void)error_set(&error, WEIR_INTERRUPTED, "%s was cancelled", call->path);
        end_call(client, call, GRPC_CAUSE_CANCELLED, &error);
    }
}

/* --- closing --- */

static void end_calls_and_connections(struct grpc_client *client)
{
    struct weir_error error;
    (void)error_set(&error, WEIR_STOPPED, "the client was closed");
    for (size_t slot = 0; slot < client->table.calls_max; slot++) {
        if (client->table.slots[slot] != NULL) {
            end_call(client, client->table.slots[slot], GRPC_CAUSE_CLOSED, &error);
        }
    }
    while (client->connections != NULL) {
        struct connection *connection = client->connections;
        grpc_connection_retire(connection); /* GOAWAY leaves if the socket takes it at once */
        grpc_connection_flush(connection, client->now_us);
        grpc_connection_end(connection, GRPC_CAUSE_NONE, &(struct weir_error){.status = WEIR_OK});
        free_connection(client, connection);
    }
}

void grpc_client_close(struct grpc_client *client)
{
    if (client == NULL) {
        return;
    }
    if (client->table.slots != NULL) {
        INVARIANT(!client->in_step);
        client->in_step = true;
        client->now_us = clock_boot(client->clock);
        client->closing = true;
        end_calls_and_connections(client);
        (void)report_finished_calls(client);
    }
    if (client->resolver_is_open) {
        grpc_resolver_close(&client->resolver);
    }
    if (client->epoll_fd >= 0) {
        (void)close(client->epoll_fd);
    }
    for (size_t i = 0; i < client->settings.header_count; i++) {
        free((char *)(uintptr_t)client->headers[i].name);
        if (client->headers[i].value != NULL) {
            char *value = (char *)(uintptr_t)client->headers[i].value;
            explicit_bzero(value, strlen(value));
            free(value);
        }
    }
    if (client->table.slots != NULL) {
        grpc_call_table_close(&client->table);
    }
    grpc_credentials_close(&client->credentials);
    grpc_examination_close(client);
    free(client->headers);
    free(client->targets_text);
    free(client->authority);
    free(client->server_name);
    free(client->user_agent);
    free(client);
}

/* --- facts --- */

bool grpc_client_is_silent(const struct grpc_client *client)
{
    bool is_silent = false;
    for (const struct connection *connection = client->connections; connection != NULL; connection = connection->next) {
        bool is_short = connection->class == GRPC_SHORT_CALL;
        if (is_short && connection->state == CONNECTION_OPEN && grpc_examination_is_passed(connection)) {
            return false;
        }
        is_silent = is_silent || (is_short && connection->is_silent && connection->call_count > 0);
    }
    return is_silent;
}

void grpc_client_read_facts(const struct grpc_client *client, struct grpc_client_facts *ret_facts)
{
    INVARIANT(client != NULL && ret_facts != NULL);
    *ret_facts = client->facts;
    for (const struct connection *connection = client->connections; connection != NULL; connection = connection->next) {
        ret_facts->connections += connection->state == CONNECTION_OPEN;
        ret_facts->draining += connection->state == CONNECTION_DRAINING;
        ret_facts->dialling += connection->state <= CONNECTION_GREETING;
        ret_facts->goaways += connection->got_goaway;
    }
    for (int i = 0; i < GRPC_CLASS_COUNT; i++) {
        ret_facts->calls_waiting += client->table.waiting[i].count;
    }
    ret_facts->calls_under_way = client->table.under_way;
    ret_facts->calls_taken = client->table.taken;
    ret_facts->calls_resent = client->table.resent;
    ret_facts->calls_unknown = client->table.unknown;
}
