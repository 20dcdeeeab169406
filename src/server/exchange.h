/* One request on a connection, from its first line to the end of its answer, with the calls of libmicrohttpd that read it
 * and send it.
 *
 *     exchange_open() -> exchange_read_head() -> exchange_add_body() ... -> the handler -> exchange_send() ->
 * exchange_close()
 *
 * Threads: that of the listener; between the queue and the answer one answering thread has it.
 */
#ifndef WEIR_SERVER_EXCHANGE_H
#define WEIR_SERVER_EXCHANGE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "server/connection_list.h"
#include "server/libmicrohttpd.h"
#include "server/request.h"

struct api;
struct http_server;

struct exchange {
    struct http_server *server;
    struct api *api;
    struct MHD_Connection *connection;
    struct connection_entry *entry; /* of the connection */
    struct idle_pools *idle_pools;  /* where it waits afterwards; NULL = nowhere */
    struct exchange *next;          /* in the queue */
    const char *target_text;        /* as it came; in the arena */
    _Atomic size_t *held;           /* bytes of all bodies and answers of the server */
    size_t held_here;               /* of them, by this one */
    int64_t body_began_us;          /* boot clock: the end of the head */
    size_t body_bytes;              /* that were read, also those of a body that is refused */
    bool is_overloaded;             /* there was no room for the body */
    atomic_int open_ends;           /* of a held request: the handler's return and `again`; the second one queues it */
    bool is_checked;
    bool is_counted; /* in the bytes of its connection */
    bool is_queued;
    bool is_answered;
    bool ends_connection; /* what follows on it may be anything */
    struct http_request request;
    struct http_answer answer;
};

/* NULL: no memory. `target`: of the first line. */
struct exchange *exchange_open(struct http_server *server, struct api *api, struct MHD_Connection *connection,
                               struct connection_entry *entry, const char *target, _Atomic size_t *held);
/* Takes NULL. */
void exchange_close(struct exchange *exchange);
/* Checks the head and finds the route. False: the answer is a refusal, to be sent now. */
bool exchange_read_head(struct exchange *exchange, const char *method, const char *version);
void exchange_add_body(struct exchange *exchange, const char *bytes, size_t length);
/* Once, when the whole request was read: its bytes count for the idle pool of its connection. */
void exchange_count_request(struct exchange *exchange, const char *method);
/* After its last piece, or when there is none. False: the answer is a refusal, to be sent now. */
bool exchange_end_body(struct exchange *exchange);
enum MHD_Result exchange_send(struct exchange *exchange);
/* Makes the answer a problem and sends it. */
enum MHD_Result exchange_refuse(struct exchange *exchange, int status, const char *code, const char *reason);

#endif
