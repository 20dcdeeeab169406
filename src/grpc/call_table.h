/* All calls of a client: their order, deadlines and results.
 *
 * A call is in one state at a time: WAITING in the queue of its class, UNDER_WAY on a connection, or FINISHED and waiting
 * to be reported. Ids are slot and generation, so an id of a call that has ended finds nothing. Pure but for memory: time
 * is passed in, and the connection ends an overdue call that is under way.
 */
#ifndef WEIR_GRPC_CALL_TABLE_H
#define WEIR_GRPC_CALL_TABLE_H

#include "grpc/answer.h"

struct connection;

enum call_state { CALL_WAITING, CALL_UNDER_WAY, CALL_FINISHED };

/* The first byte of the call has no place in the output yet. */
#define CALL_NOT_WRITTEN UINT64_MAX

struct call {
    struct call *next; /* of the list of its state; free slots hold no call */
    struct call *previous;
    uint32_t slot;
    uint64_t sequence; /* calls of a class leave in this order */
    enum call_state state;
    enum grpc_class class;
    bool wait_for_connection;
    bool was_refused; /* at least once */
    bool is_pinned;   /* for one connection: it goes on no other */
    int64_t deadline_us;
    size_t heap_at;
    grpc_done *done;
    void *done_context;

    const char *path; /* these point behind the struct */
    const struct grpc_header *headers;
    size_t header_count;
    const uint8_t *message;
    size_t message_length;

    struct connection *connection; /* UNDER_WAY; changed by the connection alone */
    struct call *next_on_connection;
    struct call *previous_on_connection;
    int32_t stream_id;
    uint64_t written_at; /* offset of its first byte in the connection's output, or CALL_NOT_WRITTEN */
    size_t body_sent;    /* bytes of prefix and message */
    uint32_t reset_code; /* of the RST_STREAM that the peer sent */
    bool was_reset;
    struct answer answer;

    int64_t sent_us;
    int resends;
    struct grpc_result result; /* FINISHED */
    struct weir_error *error;
};

struct call_list {
    struct call *first;
    struct call *last;
    size_t count;
};

struct call_table {
    size_t calls_max;
    size_t request_bytes;
    size_t request_bytes_max;
    struct answer_limits limits;
    struct call **slots; /* calls_max of them */
    uint32_t *generations;
    uint32_t *free_slots;
    size_t free_count;
    struct call **heap; /* by deadline, the first one on top */
    size_t heap_count;
    struct call_list waiting[GRPC_CLASS_COUNT];
    struct call_list finished;
    size_t under_way;
    uint64_t taken;
    uint64_t resent;
    uint64_t unknown;
};

/* WEIR_OUT_OF_MEMORY. */
WEIR_MUST_CHECK enum weir_status grpc_call_table_open(struct call_table *table, size_t calls_max, size_t request_bytes_max,
                                                      const struct answer_limits *limits, struct weir_error *error);
/* Every call must have been reported before, as grpc_client_close() does. */
void grpc_call_table_close(struct call_table *table);

/* As grpc_client_call(). */
WEIR_MUST_CHECK enum weir_status grpc_call_table_take(struct call_table *table, const struct grpc_request *request,
                                                      int64_t now_us, grpc_call_id *ret_id, struct weir_error *error);
/* NULL when its result was reported. */
struct call *grpc_call_table_find(struct call_table *table, grpc_call_id id);

/* WAITING -> UNDER_WAY. */
void grpc_call_begin(struct call_table *table, struct call *call);
/* UNDER_WAY -> WAITING, at the place in its class that it had. A pinned call ends instead, as it goes on no other
 * connection. */
void grpc_call_wait_again(struct call_table *table, struct call *call);
/* -> FINISHED. `error` is copied; with GRPC_STATUS grpc_answer_judge() has filled `result`. */
void grpc_call_finish(struct call_table *table, struct call *call, enum grpc_outcome outcome, enum grpc_cause cause,
                      const struct weir_error *error);
/* The same with the result of its answer. */
void grpc_call_finish_by_answer(struct call_table *table, struct call *call);
/* For a call that is WAITING: GRPC_REFUSED when it was refused before, else GRPC_NOT_SENT. */
void grpc_call_finish_unsent(struct call_table *table, struct call *call, enum grpc_cause cause,
                             const struct weir_error *error);

/* TIME_NEVER when there is none. */
int64_t grpc_call_table_next_deadline(const struct call_table *table);
/* An overdue call, WAITING or UNDER_WAY, or NULL. It stays until it is finished. */
struct call *grpc_call_table_next_overdue(const struct call_table *table, int64_t now_us);
void grpc_call_describe_deadline(const struct call *call, struct weir_error *error);

/* Takes the oldest finished call out, calls `done`, and frees it. False when there is none. */
bool grpc_call_table_report_next(struct call_table *table);

#endif
