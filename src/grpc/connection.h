/* One HTTP/2 connection and the calls on it.
 *
 * States, in this order and never back:
 *
 *   ESTABLISHING   TCP and TLS
 *   GREETING       our SETTINGS are out, the server's are awaited; another kind of server is detected here
 *   OPEN           carries calls
 *   DRAINING       takes no new call, ends with its last one (GOAWAY, age, changed secrets)
 *   DEAD           `cause` and `error` have the reason; its calls wait again or are finished
 *
 * The connection decides the outcome of its calls. Each call knows the place of its first byte in the output of this
 * connection. Until that byte is handed to the socket, the call has not been sent.
 *
 * Against a hostile or broken peer:
 *   - nghttp2's own checks and limits
 *   - bounded output: a peer that does not read stops our acknowledgements, and in the end its connection
 *   - a budget of control frames
 *   - limits on answers (answer.h)
 */
#ifndef WEIR_GRPC_CONNECTION_H
#define WEIR_GRPC_CONNECTION_H

#include <nghttp2/nghttp2.h>

#include "grpc/call_table.h"
#include "grpc/transport.h"

enum connection_state {
    CONNECTION_ESTABLISHING,
    CONNECTION_GREETING,
    CONNECTION_OPEN,
    CONNECTION_DRAINING,
    CONNECTION_DEAD
};

/* The same for all connections of a client; borrowed. */
struct connection_settings {
    const char *user_agent;
    const struct grpc_header *headers; /* of the client */
    size_t header_count;
    int64_t connect_timeout_us;
    int64_t keepalive_us;
    int64_t keepalive_timeout_us;
    unsigned examination_round; /* counts the examinations that were ordered; 0: none was */
};

struct examination_call;

struct connection {
    struct connection *next; /* of the client */
    struct connection *previous;
    const struct connection_settings *settings;
    struct call_table *table;
    enum grpc_class class;
    struct address address;
    char authority[GRPC_TARGET_TEXT_MAX];
    const char *scheme;
    char *authorization; /* its own copy, or NULL */

    enum connection_state state;
    struct transport transport;
    nghttp2_session *session;
    uint32_t polled; /* epoll events that are registered */

    struct call *calls; /* under way on it */
    size_t call_count;
    uint64_t answered; /* calls with a status, examinations left out */
    bool got_goaway;
    bool flooded;
    bool was_asked_to_calm;               /* GOAWAY with ENHANCE_YOUR_CALM */
    bool was_noted;                       /* the pool's: that it opened */
    unsigned credentials_round;           /* the pool's: with which secrets it was made */
    unsigned examined_round;              /* the last examination that it has passed */
    struct examination_call *examination; /* under way; NULL: none */
    int unclear;                          /* examinations in a row that did not say which server answers */
    int64_t examine_us;                   /* not examined before */
    int64_t asked_us;                     /* when it was first examined since it last passed */

    uint8_t *output; /* OUTPUT_BYTES */
    size_t output_start;
    size_t output_end;
    uint64_t output_total; /* bytes that nghttp2 has made, since the beginning */
    uint64_t handed_over;  /* of these: given to the socket */

    bool has_more; /* reading stopped before the socket was empty */

    int64_t now_us; /* of the step that runs */
    int64_t born_us;
    int64_t opened_us;
    int64_t read_us;       /* when bytes came last */
    int64_t ping_us;       /* when a PING was sent that has no answer; TIME_NEVER: none is out */
    int64_t pinged_us;     /* when the last PING was sent; TIME_NEVER: none was */
    int64_t unheard_us;    /* when the first call left of those since bytes came last; TIME_NEVER: none has */
    int64_t patience_us;   /* the pool's: GRPC_UNHEARD_US or more */
    bool is_silent;        /* no answer to a PING for `patience_us` while calls wait for theirs; DRAINING then */
    bool silence_reported; /* the client's: it has asked the other connections of this address */
    int64_t give_up_us;  /* the client's: its calls are unknown then if it is silent still; TIME_NEVER: no other is open */
    bool is_given_up;    /* that has come; it has no calls, and is listened to for a while longer */
    bool was_alive;      /* the pool's to take: bytes came on it after that */
    int64_t frames_left; /* budget of control frames */
    int64_t frames_counted_us;
    uint32_t goaway_sent;    /* the code of our own GOAWAY: the fault that nghttp2 found in the peer */
    uint8_t first_bytes[16]; /* the first bytes of the peer, to detect its protocol */
    size_t first_bytes_count;

    enum grpc_cause cause; /* DEAD */
    struct weir_error error;
};

/* Begins to connect. `server_name` and `context` as grpc_transport_open(); `authorization` is copied, may be NULL. NULL
 * with `error` and `ret_cause` when it fails at once. */
struct connection *grpc_connection_dial(const struct connection_settings *settings, struct call_table *table,
                                        enum grpc_class class, const struct address *address, const char *authority,
                                        SSL_CTX *context, const char *server_name, const char *authorization,
                                        int64_t now_us, enum grpc_cause *ret_cause, struct weir_error *error);
/* For tests and fuzzing: over a connected socket, which it owns; authority "test". NULL: out of memory. */
struct connection *grpc_connection_adopt(const struct connection_settings *settings, struct call_table *table,
                                         enum grpc_class class, int fd, int64_t now_us);
/* Its calls must have been ended, see grpc_connection_end(). */
void grpc_connection_free(struct connection *connection);

/* Reads and goes on; call it when the fd is ready, and at once again while `has_more`. */
void grpc_connection_step(struct connection *connection, int64_t now_us);
/* Writes the output as far as the socket takes it; after calls were added or ended. */
void grpc_connection_flush(struct connection *connection, int64_t now_us);
/* Sees to the connect timeout, keepalive and silence. Returns when to come again. */
int64_t grpc_connection_tick(struct connection *connection, int64_t now_us);
/* Another connection of the same address is silent: a PING finds out whether this one is silent too. */
void grpc_connection_probe(struct connection *connection, int64_t now_us);
/* Whether the fd must be watched for writing. */
bool grpc_connection_wants_write(const struct connection *connection);

/* How many more calls it takes now. */
size_t grpc_connection_free_streams(const struct connection *connection);
/* Sends a waiting call. False: it takes none any more (then DRAINING or DEAD), the call still waits. */
bool grpc_connection_begin_call(struct connection *connection, struct call *call);
/* Ends a call under way on it: GRPC_UNKNOWN, or unsent when it never left. The stream is reset. */
void grpc_connection_drop_call(struct connection *connection, struct call *call, enum grpc_cause cause,
                               const struct weir_error *error);

/* OPEN -> DRAINING; a connection that is not open yet ends. */
void grpc_connection_retire(struct connection *connection);
/* -> DEAD. Calls that never left wait again, all other calls end as GRPC_UNKNOWN. */
void grpc_connection_end(struct connection *connection, enum grpc_cause cause, const struct weir_error *error);

#endif
