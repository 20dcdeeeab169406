/* All calls of a client: their memory, order, deadlines, and results. The thread of the client alone uses it; a call moves
 * between states by the functions of this file only.
 *
 *   take --> WAITING --begin--> UNDER_WAY --finish--> FINISHED --report--> freed
 *               ^  |                |                    ^
 *               |  +------- finish ----------------------+
 *               +--- wait_again ----+
 *
 *   WAITING is a list of its class, by sequence; UNDER_WAY is on a connection.
 *
 *   slots[i]      the call with slot i; id = generation << 32 | slot + 1, so the id of an ended call finds nothing
 *   heap          all calls that are not finished, by deadline: the first one is the next to expire (O(log calls))
 *   waiting[c]    calls that no connection has; one that comes back takes its former place
 *
 * A call is one allocation with its headers, texts and message. The table has fixed limits on calls and bytes; beyond them
 * a call is refused with WEIR_QUEUE_FULL. Nothing here may call `done` but grpc_call_table_report_next(), so that a caller
 * is never entered from inside its own call.
 */
#include "grpc/call_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "grpc/framing.h"

enum weir_status grpc_call_table_open(struct call_table *table, size_t calls_max, size_t request_bytes_max,
                                      const struct answer_limits *limits, struct weir_error *error)
{
    INVARIANT(calls_max > 0 && limits != NULL);
    *table = (struct call_table){.calls_max = calls_max,
                                 .request_bytes_max = request_bytes_max,
                                 .limits = *limits,
                                 .slots = calloc(calls_max, sizeof *table->slots),
                                 .generations = calloc(calls_max, sizeof *table->generations),
                                 .free_slots = calloc(calls_max, sizeof *table->free_slots),
                                 .heap = calloc(calls_max, sizeof *table->heap)};
    if (table->slots == NULL || table->generations == NULL || table->free_slots == NULL || table->heap == NULL) {
        grpc_call_table_close(table);
        return error_out_of_memory(error);
    }
    while (table->free_count < calls_max) {
        table->free_slots[table->free_count] = (uint32_t)(calls_max - 1 - table->free_count);
        table->free_count++;
    }
    return WEIR_OK;
}

void grpc_call_table_close(struct call_table *table)
{
    INVARIANT(table->heap_count == 0 && table->finished.count == 0);
    free(table->slots);
    free(table->generations);
    free(table->free_slots);
    free(table->heap);
    *table = (struct call_table){.calls_max = 0};
}

/* --- lists --- */

/* The list of a state, in the order of arrival. */
static void append_call(struct call_list *list, struct call *call)
{
    call->next = NULL;
    call->previous = list->last;
    *(list->last != NULL ? &list->last->next : &list->first) = call;
    list->last = call;
    list->count++;
}

/* A call that comes back was taken before nearly all waiting ones, so the walk from the front is short. */
static void insert_in_order(struct call_list *list, struct call *call)
{
    struct call *after = list->first;
    while (after != NULL && after->sequence < call->sequence) {
        after = after->next;
    }
    if (after == NULL) {
        append_call(list, call);
        return;
    }
    call->next = after;
    call->previous = after->previous;
    *(after->previous != NULL ? &after->previous->next : &list->first) = call;
    after->previous = call;
    list->count++;
}

static void unlink_call(struct call_list *list, struct call *call)
{
    *(call->previous != NULL ? &call->previous->next : &list->first) = call->next;
    *(call->next != NULL ? &call->next->previous : &list->last) = call->previous;
    call->next = call->previous = NULL;
    list->count--;
}

/* --- deadlines: a binary heap; each call knows its place --- */

static void deadline_put(struct call_table *table, size_t at, struct call *call)
{
    table->heap[at] = call;
    call->heap_at = at;
}

static void deadline_sift_up(struct call_table *table, size_t at)
{
    struct call *call = table->heap[at];
    while (at > 0 && table->heap[(at - 1) / 2]->deadline_us > call->deadline_us) {
        deadline_put(table, at, table->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    deadline_put(table, at, call);
}

static void deadline_sift_down(struct call_table *table, size_t at)
{
    struct call *call = table->heap[at];
    for (;;) {
        size_t child = at * 2 + 1;
        if (child + 1 < table->heap_count && table->heap[child + 1]->deadline_us < table->heap[child]->deadline_us) {
            child++;
        }
        if (child >= table->heap_count || table->heap[child]->deadline_us >= call->deadline_us) {
            break;
        }
        deadline_put(table, at, table->heap[child]);
        at = child;
    }
    deadline_put(table, at, call);
}

static void deadline_add(struct call_table *table, struct call *call)
{
    deadline_put(table, table->heap_count, call);
    table->heap_count++;
    deadline_sift_up(table, call->heap_at);
}

static void deadline_remove(struct call_table *table, struct call *call)
{
    size_t at = call->heap_at;
    struct call *last = table->heap[--table->heap_count];
    if (last != call) {
        deadline_put(table, at, last);
        deadline_sift_up(table, at);
        deadline_sift_down(table, last->heap_at);
    }
}

int64_t grpc_call_table_next_deadline(const struct call_table *table)
{
    return table->heap_count > 0 ? table->heap[0]->deadline_us : TIME_NEVER;
}

struct call *grpc_call_table_next_overdue(const struct call_table *table, int64_t now_us)
{
    return table->heap_count > 0 && table->heap[0]->deadline_us <= now_us ? table->heap[0] : NULL;
}

/* --- taking --- */

static enum weir_status check_headers(const struct grpc_request *request, size_t *ret_bytes, struct weir_error *error)
{
    size_t bytes = 0;
    if (request->header_count > GRPC_HEADERS_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a call has more than %d headers", GRPC_HEADERS_MAX);
    }
    for (size_t i = 0; i < request->header_count; i++) {
        const struct grpc_header *header = &request->headers[i];
        if (!grpc_header_name_is_fine(header->name) || strlen(header->name) > GRPC_HEADER_BYTES_MAX) {
            return error_set(error, WEIR_INVALID_ARGUMENT, "\"%.100s\" is no header that a call may have", header->name);
        }
        if (!grpc_header_value_is_fine(header->value) || strlen(header->value) > GRPC_HEADER_BYTES_MAX) {
            return error_set(error, WEIR_INVALID_ARGUMENT,
                             "the value of the header \"%.100s\" is not printable ASCII of at most 8 KiB", header->name);
        }
        bytes += strlen(header->name) + strlen(header->value) + 2;
    }
    if (bytes > GRPC_REQUEST_HEADER_BYTES_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the headers of a call are larger than 32 KiB");
    }
    *ret_bytes = bytes;
    return WEIR_OK;
}

/* Refuses a request that the protocol or the limits do not allow; nothing was changed then. */
static enum weir_status check_request(const struct call_table *table, const struct grpc_request *request, size_t *ret_bytes,
                                      struct weir_error *error)
{
    size_t header_bytes = 0;
    if (request->path == NULL || strlen(request->path) > GRPC_PATH_BYTES_MAX || !grpc_path_is_fine(request->path)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "\"%.100s\" is no path of a method, as /package.Service/Method",
                         request->path != NULL ? request->path : "");
    }
    if (request->timeout_us <= 0 || request->done == NULL || (unsigned)request->class >= GRPC_CLASS_COUNT ||
        (request->message == NULL && request->message_length > 0)) {
        return error_set(error, WEIR_INVALID_ARGUMENT,
                         "a call needs a timeout, a class, a message and a function for its result");
    }
    if (request->message_length > GRPC_REQUEST_BYTES_MAX) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "the message has %zu bytes, %d is the most", request->message_length,
                         GRPC_REQUEST_BYTES_MAX);
    }
    enum weir_status status = check_headers(request, &header_bytes, error);
    if (status != WEIR_OK) {
        return status;
    }
    size_t bytes = header_bytes + strlen(request->path) + 1 + request->message_length;
    if (table->free_count == 0 || bytes > table->request_bytes_max - table->request_bytes) {
        (void)error_set(error, WEIR_QUEUE_FULL, "there are %zu calls with %zu bytes under way or waiting, no more fit",
                        table->calls_max - table->free_count, table->request_bytes);
        error_hint(error, "wait until some have ended");
        return WEIR_QUEUE_FULL;
    }
    *ret_bytes = bytes;
    return WEIR_OK;
}

static char *pack_text(char **to, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = memcpy(*to, text, size);
    *to += size;
    return copy;
}

/* One allocation: the struct, the header table, texts, message. */
static struct call *make_call(const struct grpc_request *request, size_t bytes)
{
    size_t table_bytes = request->header_count * sizeof(struct grpc_header);
    struct call *call = calloc(1, sizeof *call + table_bytes + bytes);
    if (call == NULL) {
        return NULL;
    }
    struct grpc_header *headers = (struct grpc_header *)(call + 1);
    char *to = (char *)headers + table_bytes;
    for (size_t i = 0; i < request->header_count; i++) {
        headers[i].name = pack_text(&to, request->headers[i].name);
        headers[i].value = pack_text(&to, request->headers[i].value);
        headers[i].secret = request->headers[i].secret;
    }
    call->headers = headers;
    call->header_count = request->header_count;
    call->path = pack_text(&to, request->path);
    call->message = (const uint8_t *)to;
    call->message_length = request->message_length;
    if (request->message_length > 0) {
        memcpy(to, request->message, request->message_length);
    }
    return call;
}

/* The bytes that a call counts against request_bytes_max, as check_request() counted them. */
static size_t bytes_of(const struct call *call)
{
    size_t bytes = strlen(call->path) + 1 + call->message_length;
    for (size_t i = 0; i < call->header_count; i++) {
        bytes += strlen(call->headers[i].name) + strlen(call->headers[i].value) + 2;
    }
    return bytes;
}

enum weir_status grpc_call_table_take(struct call_table *table, const struct grpc_request *request, int64_t now_us,
                                      grpc_call_id *ret_id, struct weir_error *error)
{
    INVARIANT(request != NULL && table->free_count <= table->calls_max);
    size_t bytes = 0;
    enum weir_status status = check_request(table, request, &bytes, error);
    if (status != WEIR_OK) {
        return status;
    }
    struct call *call = make_call(request, bytes);
    if (call == NULL) {
        return error_out_of_memory(error);
    }
    call->class = request->class;
    call->wait_for_connection = request->wait_for_connection;
    call->deadline_us = time_add(now_us, request->timeout_us);
    call->done = request->done;
    call->done_context = request->context;
    call->written_at = CALL_NOT_WRITTEN;
    call->sent_us = TIME_NEVER;
    grpc_answer_init(&call->answer, &table->limits);
    call->slot = table->free_slots[--table->free_count];
    table->slots[call->slot] = call;
    table->request_bytes += bytes;
    call->sequence = table->taken++;
    deadline_add(table, call);
    append_call(&table->waiting[call->class], call);
    if (ret_id != NULL) {
        *ret_id = (grpc_call_id)table->generations[call->slot] << 32 | (call->slot + 1);
    }
    return WEIR_OK;
}

struct call *grpc_call_table_find(struct call_table *table, grpc_call_id id)
{
    uint32_t slot = (uint32_t)id - 1;
    if ((uint32_t)id == 0 || slot >= table->calls_max || table->generations[slot] != id >> 32) {
        return NULL;
    }
    return table->slots[slot];
}

/* --- moves --- */

void grpc_call_begin(struct call_table *table, struct call *call)
{
    INVARIANT(call->state == CALL_WAITING && table->slots[call->slot] == call);
    unlink_call(&table->waiting[call->class], call);
    call->state = CALL_UNDER_WAY;
    table->under_way++;
}

void grpc_call_wait_again(struct call_table *table, struct call *call)
{
    INVARIANT(call->state == CALL_UNDER_WAY && table->under_way > 0);
    if (call->is_pinned) {
        struct weir_error error;
        (void)error_set(&error, WEIR_ENGINE_UNREACHABLE, "the connection ended before %s left", call->path);
        grpc_call_finish_unsent(table, call, GRPC_CAUSE_CONNECTION_LOST, &error);
        return;
    }
    table->under_way--;
    call->state = CALL_WAITING;
    call->connection = NULL;
    call->stream_id = 0;
    call->written_at = CALL_NOT_WRITTEN;
    call->body_sent = 0;
    call->was_reset = false;
    call->sent_us = call->was_refused ? call->sent_us : TIME_NEVER;
    grpc_answer_close(&call->answer);
    insert_in_order(&table->waiting[call->class], call);
}

/* Every end of a call goes through here: out of its list and of the heap, into the list of finished calls. */
static void to_finished(struct call_table *table, struct call *call)
{
    INVARIANT(call->state != CALL_FINISHED && call->heap_at < table->heap_count);
    if (call->state == CALL_WAITING) {
        unlink_call(&table->waiting[call->class], call);
    } else {
        table->under_way--;
    }
    deadline_remove(table, call);
    call->state = CALL_FINISHED;
    call->connection = NULL;
    table->unknown += call->result.outcome == GRPC_UNKNOWN;
    append_call(&table->finished, call);
}

/* Without memory for the error, the call still ends, with a static one. */
static void keep_error(struct call *call, const struct weir_error *error)
{
    static const struct weir_error no_memory = {.status = WEIR_OUT_OF_MEMORY, .message = "out of memory"};
    call->error = malloc(sizeof *call->error);
    if (call->error != NULL) {
        *call->error = *error;
    }
    call->result.error = call->error != NULL ? call->error : &no_memory;
}

void grpc_call_finish(struct call_table *table, struct call *call, enum grpc_outcome outcome, enum grpc_cause cause,
                      const struct weir_error *error)
{
    call->result = (struct grpc_result){.outcome = outcome, .cause = cause, .http_status = call->answer.http_status};
    keep_error(call, error);
    to_finished(table, call);
}

void grpc_call_finish_by_answer(struct call_table *table, struct call *call)
{
    struct weir_error error = {.status = WEIR_OK};
    call->result = (struct grpc_result){.outcome = GRPC_UNKNOWN};
    grpc_answer_judge(&call->answer, &call->result, &error);
    if (call->result.outcome != GRPC_STATUS) {
        keep_error(call, &error);
    }
    to_finished(table, call);
}

void grpc_call_finish_unsent(struct call_table *table, struct call *call, enum grpc_cause cause,
                             const struct weir_error *error)
{
    INVARIANT(call->state != CALL_FINISHED && error != NULL);
    grpc_call_finish(table, call, call->was_refused ? GRPC_REFUSED : GRPC_NOT_SENT, cause, error);
}

void grpc_call_describe_deadline(const struct call *call, struct weir_error *error)
{
    (void)error_set(error, WEIR_TIMED_OUT,
                    call->state == CALL_WAITING ? "the time for %s ran out before it could be sent"
                                                : "no answer to %s in the time that was given",
                    call->path);
    error_hint(error, call->state == CALL_WAITING
                          ? "no connection, or the server takes no more calls at a time"
                          : "the server may have carried it out: it is slow, or its answer was lost");
}

/* --- reporting --- */

bool grpc_call_table_report_next(struct call_table *table)
{
    struct call *call = table->finished.first;
    if (call == NULL) {
        return false;
    }
    INVARIANT(call->state == CALL_FINISHED && table->slots[call->slot] == call);
    unlink_call(&table->finished, call);
    table->slots[call->slot] = NULL;
    table->generations[call->slot]++;
    table->free_slots[table->free_count++] = call->slot;
    table->request_bytes -= bytes_of(call);
    call->result.sent_us = call->sent_us;
    call->result.resends = call->resends;
    if (call->result.message == NULL) {
        call->result.message = "";
    }
    call->done(call->done_context, &call->result);
    grpc_answer_close(&call->answer);
    free(call->error);
    free(call);
    return true;
}
