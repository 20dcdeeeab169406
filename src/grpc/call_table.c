#include "grpc/call_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "grpc/framing.h"

enum weir_status grpc_call_book_open(struct call_book *book, size_t calls_max, size_t request_bytes_max,
                                     const struct answer_limits *limits, struct weir_error *error)
{
    *book = (struct call_book){.calls_max = calls_max,
                               .request_bytes_max = request_bytes_max,
                               .limits = *limits,
                               .slots = calloc(calls_max, sizeof *book->slots),
                               .generations = calloc(calls_max, sizeof *book->generations),
                               .free_slots = calloc(calls_max, sizeof *book->free_slots),
                               .heap = calloc(calls_max, sizeof *book->heap)};
    if (book->slots == NULL || book->generations == NULL || book->free_slots == NULL || book->heap == NULL) {
        grpc_call_book_close(book);
        return error_out_of_memory(error);
    }
    while (book->free_count < calls_max) {
        book->free_slots[book->free_count] = (uint32_t)(calls_max - 1 - book->free_count);
        book->free_count++;
    }
    return WEIR_OK;
}

void grpc_call_book_close(struct call_book *book)
{
    INVARIANT(book->heap_count == 0 && book->finished.count == 0);
    free(book->slots);
    free(book->generations);
    free(book->free_slots);
    free(book->heap);
    *book = (struct call_book){.calls_max = 0};
}

/* --- lists --- */

static void append(struct call_list *list, struct call *call)
{
    call->next = NULL;
    call->previous = list->last;
    *(list->last != NULL ? &list->last->next : &list->first) = call;
    list->last = call;
    list->count++;
}

/* What comes back was taken before nearly all that wait. */
static void insert_in_order(struct call_list *list, struct call *call)
{
    struct call *after = list->first;
    while (after != NULL && after->sequence < call->sequence) {
        after = after->next;
    }
    if (after == NULL) {
        append(list, call);
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

/* --- deadlines: a binary heap whose calls know their place --- */

static void put(struct call_book *book, size_t at, struct call *call)
{
    book->heap[at] = call;
    call->heap_at = at;
}

static void sift_up(struct call_book *book, size_t at)
{
    struct call *call = book->heap[at];
    while (at > 0 && book->heap[(at - 1) / 2]->deadline_us > call->deadline_us) {
        put(book, at, book->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(book, at, call);
}

static void sift_down(struct call_book *book, size_t at)
{
    struct call *call = book->heap[at];
    for (;;) {
        size_t child = at * 2 + 1;
        if (child + 1 < book->heap_count && book->heap[child + 1]->deadline_us < book->heap[child]->deadline_us) {
            child++;
        }
        if (child >= book->heap_count || book->heap[child]->deadline_us >= call->deadline_us) {
            break;
        }
        put(book, at, book->heap[child]);
        at = child;
    }
    put(book, at, call);
}

static void heap_add(struct call_book *book, struct call *call)
{
    put(book, book->heap_count, call);
    book->heap_count++;
    sift_up(book, call->heap_at);
}

static void heap_remove(struct call_book *book, struct call *call)
{
    size_t at = call->heap_at;
    struct call *last = book->heap[--book->heap_count];
    if (last != call) {
        put(book, at, last);
        sift_up(book, at);
        sift_down(book, last->heap_at);
    }
}

int64_t grpc_call_book_next_deadline(const struct call_book *book)
{
    return book->heap_count > 0 ? book->heap[0]->deadline_us : TIME_NEVER;
}

struct call *grpc_call_book_next_overdue(const struct call_book *book, int64_t now_us)
{
    return book->heap_count > 0 && book->heap[0]->deadline_us <= now_us ? book->heap[0] : NULL;
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

static enum weir_status check(const struct call_book *book, const struct grpc_request *request, size_t *ret_bytes,
                              struct weir_error *error)
{
    size_t header_bytes = 0;
    if (request->path == NULL || strlen(request->path) > GRPC_PATH_BYTES_MAX || !grpc_path_is_fine(request->path)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "\"%.100s\" is no path of a method, as /package.Service/Method",
                         request->path != NULL ? request->path : "");
    }
    if (request->timeout_us <= 0 || request->done == NULL || (unsigned)request->class >= GRPC_CLASS_COUNT ||
        (request->message == NULL && request->message_length > 0)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "a call needs a timeout, a class, a message and whom to tell");
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
    if (book->free_count == 0 || bytes > book->request_bytes_max - book->request_bytes) {
        (void)error_set(error, WEIR_QUEUE_FULL, "there are %zu calls with %zu bytes under way or waiting, no more fit",
                        book->calls_max - book->free_count, book->request_bytes);
        error_hint(error, "wait until some have ended");
        return WEIR_QUEUE_FULL;
    }
    *ret_bytes = bytes;
    return WEIR_OK;
}

static char *copy_text(char **to, const char *text)
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
        headers[i].name = copy_text(&to, request->headers[i].name);
        headers[i].value = copy_text(&to, request->headers[i].value);
        headers[i].secret = request->headers[i].secret;
    }
    call->headers = headers;
    call->header_count = request->header_count;
    call->path = copy_text(&to, request->path);
    call->message = (const uint8_t *)to;
    call->message_length = request->message_length;
    if (request->message_length > 0) {
        memcpy(to, request->message, request->message_length);
    }
    return call;
}

static size_t bytes_of(const struct call *call)
{
    size_t bytes = strlen(call->path) + 1 + call->message_length;
    for (size_t i = 0; i < call->header_count; i++) {
        bytes += strlen(call->headers[i].name) + strlen(call->headers[i].value) + 2;
    }
    return bytes;
}

enum weir_status grpc_call_book_take(struct call_book *book, const struct grpc_request *request, int64_t now_us,
                                     grpc_call_id *ret_id, struct weir_error *error)
{
    size_t bytes = 0;
    enum weir_status status = check(book, request, &bytes, error);
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
    grpc_answer_init(&call->answer, &book->limits);
    call->slot = book->free_slots[--book->free_count];
    book->slots[call->slot] = call;
    book->request_bytes += bytes;
    call->sequence = book->taken++;
    heap_add(book, call);
    append(&book->waiting[call->class], call);
    if (ret_id != NULL) {
        *ret_id = (grpc_call_id)book->generations[call->slot] << 32 | (call->slot + 1);
    }
    return WEIR_OK;
}

struct call *grpc_call_book_find(struct call_book *book, grpc_call_id id)
{
    uint32_t slot = (uint32_t)id - 1;
    if ((uint32_t)id == 0 || slot >= book->calls_max || book->generations[slot] != id >> 32) {
        return NULL;
    }
    return book->slots[slot];
}

/* --- moves --- */

void grpc_call_begin(struct call_book *book, struct call *call)
{
    INVARIANT(call->state == CALL_WAITING);
    unlink_call(&book->waiting[call->class], call);
    call->state = CALL_UNDER_WAY;
    book->under_way++;
}

void grpc_call_wait_again(struct call_book *book, struct call *call)
{
    INVARIANT(call->state == CALL_UNDER_WAY);
    book->under_way--;
    call->state = CALL_WAITING;
    call->connection = NULL;
    call->stream_id = 0;
    call->written_at = CALL_NOT_WRITTEN;
    call->body_sent = 0;
    call->was_reset = false;
    call->sent_us = call->was_refused ? call->sent_us : TIME_NEVER;
    grpc_answer_close(&call->answer);
    insert_in_order(&book->waiting[call->class], call);
}

static void to_finished(struct call_book *book, struct call *call)
{
    INVARIANT(call->state != CALL_FINISHED);
    if (call->state == CALL_WAITING) {
        unlink_call(&book->waiting[call->class], call);
    } else {
        book->under_way--;
    }
    heap_remove(book, call);
    call->state = CALL_FINISHED;
    call->connection = NULL;
    book->unknown += call->result.outcome == GRPC_UNKNOWN;
    append(&book->finished, call);
}

/* Without memory for its words a call still ends. */
static void keep_error(struct call *call, const struct weir_error *error)
{
    static const struct weir_error no_memory = {.status = WEIR_OUT_OF_MEMORY, .message = "out of memory"};
    call->error = malloc(sizeof *call->error);
    if (call->error != NULL) {
        *call->error = *error;
    }
    call->result.error = call->error != NULL ? call->error : &no_memory;
}

void grpc_call_finish(struct call_book *book, struct call *call, enum grpc_outcome outcome, enum grpc_cause cause,
                      const struct weir_error *error)
{
    call->result = (struct grpc_result){.outcome = outcome, .cause = cause, .http_status = call->answer.http_status};
    keep_error(call, error);
    to_finished(book, call);
}

void grpc_call_finish_by_answer(struct call_book *book, struct call *call)
{
    struct weir_error error = {.status = WEIR_OK};
    call->result = (struct grpc_result){.outcome = GRPC_UNKNOWN};
    grpc_answer_judge(&call->answer, &call->result, &error);
    if (call->result.outcome != GRPC_STATUS) {
        keep_error(call, &error);
    }
    to_finished(book, call);
}

void grpc_call_finish_unsent(struct call_book *book, struct call *call, enum grpc_cause cause,
                             const struct weir_error *error)
{
    grpc_call_finish(book, call, call->was_refused ? GRPC_REFUSED : GRPC_NOT_SENT, cause, error);
}

void grpc_call_describe_deadline(const struct call *call, struct weir_error *error)
{
    (void)error_set(error, WEIR_TIMED_OUT,
                    call->state == CALL_WAITING ? "the time for %s ran out before it could be sent"
                                                : "no answer to %s in the time that was given",
                    call->path);
    error_hint(error, call->state == CALL_WAITING ? "no connection, or the server takes no more calls at a time"
                                                  : "it may have been carried out: the server is slow, or cannot be heard");
}

/* --- telling --- */

bool grpc_call_book_tell(struct call_book *book)
{
    struct call *call = book->finished.first;
    if (call == NULL) {
        return false;
    }
    unlink_call(&book->finished, call);
    book->slots[call->slot] = NULL;
    book->generations[call->slot]++;
    book->free_slots[book->free_count++] = call->slot;
    book->request_bytes -= bytes_of(call);
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
