/* Pending chunks of logs, and their way to the store.
 *
 *   1. Output goes to the last chunk of its attempt, as pieces (queue/log_lines.h). A full chunk is followed by a new one.
 *      Output of one stream within MERGE_US extends the last piece: a program that writes byte by byte costs no head for
 *      each.
 *   2. A chunk that begins in the first half of the bound is of the head, and stays. A later one is of the tail. Pending
 *      chunks of the tail beyond the second half are dropped, the oldest first.
 *   3. A write takes chunks, at most LOG_WRITE_MOST and LOG_WRITE_BYTES_MAX, and marks them. The store is called without
 *      the lock. A taken chunk is not extended and not dropped. One that may be stored already is not extended either: the
 *      store would ignore it. A write begins behind the attempt where the last one ended.
 *   4. With each chunk of the tail the store removes the older ones that the second half does not cover any more.
 *   5. Written chunks are freed. An ended attempt is freed with its last chunk.
 *
 * The chunks of all attempts hold LOG_PENDING_BYTES_MAX bytes at most. No function here fails an attempt or waits for one.
 */
#include "dispatch/log_buffer.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "queue/log_lines.h"

#define MERGE_US (1 * MICROSECONDS_PER_MS)

enum {
    CHUNK_FIRST_BYTES = 1024,
    BOUND_CHUNKS = 16, /* chunks that the bound of an attempt has at least, unless they are smaller than the one above */
    CHUNK_COST = 128   /* of a row in the store, counted towards the bound */
};

struct pending_chunk {
    struct pending_chunk *next;
    int64_t position;
    int64_t offset;
    int64_t output_bytes;
    bool is_tail;
    bool is_taken;
    bool may_be_stored; /* its write has no known outcome: a chunk that is there already is not written again */
    size_t last_head;   /* where its last piece begins; meaningful when length > 0 */
    size_t length;
    size_t length_max;
    size_t room;
    char *lines;
};

struct attempt_log {
    struct attempt_log *next; /* in its bucket */
    char execution_id[UUID_TEXT_MAX];
    char step[STEP_ID_MAX + 1];
    int attempt;
    int64_t position; /* of the next piece */
    int64_t offset;
    int64_t tail_pending; /* bytes of pending chunks of the tail */
    bool has_ended;
    bool ends_with_gap; /* output was lost after the last chunk */
    struct pending_chunk *first;
    struct pending_chunk *last;
};

void log_buffer_init(struct log_buffer *buffer)
{
    INVARIANT(buffer != NULL);
    (void)pthread_mutex_init(&buffer->lock, NULL);
    (void)pthread_mutex_init(&buffer->writing, NULL);
    atomic_store(&buffer->bytes_max, LOG_ATTEMPT_BYTES_DEFAULT);
}

/* --- attempts --- */

static size_t bucket_of(const char *execution_id, const char *step, int attempt)
{
    uint32_t hash = 2166136261U ^ (uint32_t)attempt;
    for (const char *c = execution_id; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * 16777619U;
    }
    for (const char *c = step; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * 16777619U;
    }
    return hash % LOG_BUCKETS;
}

static struct attempt_log *find_attempt(struct log_buffer *buffer, const char *execution_id, const char *step, int attempt)
{
    struct attempt_log *log = buffer->buckets[bucket_of(execution_id, step, attempt)];
    while (log != NULL &&
           (log->attempt != attempt || strcmp(log->execution_id, execution_id) != 0 || strcmp(log->step, step) != 0)) {
        log = log->next;
    }
    return log;
}

static struct attempt_log *make_attempt(struct log_buffer *buffer, const struct engine_output *output)
{
    struct attempt_log *log = calloc(1, sizeof *log);
    if (log != NULL) {
        size_t bucket = bucket_of(output->execution_id, output->step, output->attempt);
        text_copy(log->execution_id, sizeof log->execution_id, output->execution_id);
        text_copy(log->step, sizeof log->step, output->step);
        log->attempt = output->attempt;
        log->next = buffer->buckets[bucket];
        buffer->buckets[bucket] = log;
    }
    return log;
}

static void free_chunk(struct log_buffer *buffer, struct pending_chunk *chunk)
{
    INVARIANT(buffer->pending_bytes >= chunk->room);
    buffer->pending_bytes -= chunk->room;
    free(chunk->lines);
    free(chunk);
}

static void free_attempt(struct log_buffer *buffer, struct attempt_log **link)
{
    struct attempt_log *log = *link;
    *link = log->next;
    while (log->first != NULL) {
        struct pending_chunk *chunk = log->first;
        log->first = chunk->next;
        free_chunk(buffer, chunk);
    }
    free(log);
}

void log_buffer_close(struct log_buffer *buffer)
{
    INVARIANT(buffer != NULL);
    for (size_t i = 0; i < LOG_BUCKETS; i++) {
        while (buffer->buckets[i] != NULL) {
            free_attempt(buffer, &buffer->buckets[i]);
        }
    }
    (void)pthread_mutex_destroy(&buffer->writing);
    (void)pthread_mutex_destroy(&buffer->lock);
}

/* --- chunks --- */

/* Small bounds have small chunks, because the store keeps and removes whole ones. */
static size_t chunk_length_max(int64_t bytes_max)
{
    int64_t part = bytes_max / BOUND_CHUNKS;
    return part < CHUNK_FIRST_BYTES ? CHUNK_FIRST_BYTES : part < LOG_CHUNK_BYTES_MAX ? (size_t)part : LOG_CHUNK_BYTES_MAX;
}

/* Makes room for `more` bytes in the chunk, up to LOG_CHUNK_BYTES_MAX. */
static bool chunk_grow(struct log_buffer *buffer, struct pending_chunk *chunk, size_t more)
{
    size_t room = chunk->room == 0 ? CHUNK_FIRST_BYTES : chunk->room;
    while (room < chunk->length + more && room < LOG_CHUNK_BYTES_MAX) {
        room *= 2;
    }
    if (chunk->length + more <= chunk->room) {
        return true;
    }
    if (room < chunk->length + more || buffer->pending_bytes + (room - chunk->room) > LOG_PENDING_BYTES_MAX) {
        return false;
    }
    char *lines = realloc(chunk->lines, room);
    if (lines == NULL) {
        return false;
    }
    buffer->pending_bytes += room - chunk->room;
    chunk->lines = lines;
    chunk->room = room;
    return true;
}

static struct pending_chunk *add_chunk(struct attempt_log *log, int64_t bytes_max)
{
    struct pending_chunk *chunk = calloc(1, sizeof *chunk);
    if (chunk != NULL) {
        chunk->position = log->position;
        chunk->offset = log->offset;
        chunk->is_tail = chunk->position >= bytes_max / 2;
        chunk->length_max = chunk_length_max(bytes_max);
        log->position += CHUNK_COST;
        if (log->last != NULL) {
            log->last->next = chunk;
        } else {
            log->first = chunk;
        }
        log->last = chunk;
    }
    return chunk;
}

/* Step 2: drops chunks of the tail that the bound does not cover. */
static void cut_pending_tail(struct log_buffer *buffer, struct attempt_log *log, int64_t bytes_max)
{
    struct pending_chunk **link = &log->first;
    while (log->tail_pending > bytes_max - bytes_max / 2 && *link != NULL && *link != log->last) {
        struct pending_chunk *chunk = *link;
        if (!chunk->is_tail || chunk->is_taken) {
            link = &chunk->next;
            continue;
        }
        *link = chunk->next;
        log->tail_pending -= (int64_t)chunk->length;
        free_chunk(buffer, chunk);
    }
}

/* Extends the last piece, or adds one. Returns how many bytes were taken; 0 = no memory. */
static size_t add_piece(struct log_buffer *buffer, struct attempt_log *log, const struct log_piece *piece,
                        int64_t bytes_max)
{
    struct pending_chunk *chunk = log->last;
    if (chunk != NULL && chunk->length == 0 && !chunk->is_taken && !chunk->may_be_stored) {
        chunk->offset = log->offset; /* memory was short */
    }
    if (chunk == NULL || chunk->is_taken || chunk->may_be_stored || chunk->length + LOG_HEAD_BYTES >= chunk->length_max ||
        chunk->offset + chunk->output_bytes != log->offset) {
        chunk = add_chunk(log, bytes_max);
    }
    if (chunk == NULL) {
        return 0;
    }
    struct log_piece last = {.length = 0};
    size_t at = chunk->last_head;
    bool extends = chunk->length > 0 && log_piece_read(chunk->lines, chunk->length, &at, &last) &&
                   last.stream == piece->stream && piece->at_us - last.at_us < MERGE_US && piece->at_us >= last.at_us;
    size_t head = extends ? 0 : LOG_HEAD_BYTES;
    size_t space = chunk->length_max - chunk->length - head;
    size_t length = piece->length < space ? piece->length : space;
    if (!chunk_grow(buffer, chunk, head + length)) {
        return 0;
    }
    chunk->last_head = extends ? chunk->last_head : chunk->length;
    memcpy(chunk->lines + chunk->length + head, piece->bytes, length);
    last = (struct log_piece){.at_us = extends ? last.at_us : piece->at_us,
                              .stream = piece->stream,
                              .length = length + (extends ? last.length : 0)};
    log_piece_write_head(&last, chunk->lines + chunk->last_head);
    chunk->length += head + length;
    chunk->output_bytes += (int64_t)length;
    log->position += (int64_t)(head + length);
    log->offset += (int64_t)length;
    log->tail_pending += chunk->is_tail ? (int64_t)(head + length) : 0;
    return length;
}

bool log_buffer_add(struct log_buffer *buffer, const struct engine_output *output)
{
    INVARIANT(buffer != NULL && output->execution_id != NULL && output->step != NULL && output->bytes != NULL);
    int64_t bytes_max = atomic_load(&buffer->bytes_max);
    if (bytes_max <= 0 || output->length == 0) {
        return false;
    }
    pthread_mutex_lock(&buffer->lock);
    bool is_first = buffer->pending_bytes == 0;
    struct attempt_log *log = find_attempt(buffer, output->execution_id, output->step, output->attempt);
    log = log != NULL ? log : make_attempt(buffer, output);
    struct log_piece piece = {
        .at_us = output->at_us, .stream = output->stream, .bytes = output->bytes, .length = output->length};
    while (log != NULL && piece.length > 0) {
        size_t taken = add_piece(buffer, log, &piece, bytes_max);
        if (taken == 0) {
            break;
        }
        log->ends_with_gap = false;
        piece.bytes += taken;
        piece.length -= taken;
        cut_pending_tail(buffer, log, bytes_max);
    }
    if (piece.length > 0) {
        buffer->lost_bytes += (int64_t)piece.length;
        if (log != NULL) {
            log->offset += (int64_t)piece.length;
            log->ends_with_gap = true;
        }
    }
    is_first = is_first && buffer->pending_bytes > 0;
    pthread_mutex_unlock(&buffer->lock);
    return is_first;
}

/* Frees the attempt when it has ended and has no chunk left. */
static void release_attempt(struct log_buffer *buffer, struct attempt_log *log)
{
    if (!log->has_ended || log->first != NULL) {
        return;
    }
    struct attempt_log **link = &buffer->buckets[bucket_of(log->execution_id, log->step, log->attempt)];
    while (*link != log) {
        link = &(*link)->next;
    }
    INVARIANT(buffer->ended > 0);
    buffer->ended--;
    free_attempt(buffer, link);
}

void log_buffer_end(struct log_buffer *buffer, const char *execution_id, const char *step, int attempt)
{
    INVARIANT(buffer != NULL && execution_id != NULL && step != NULL);
    pthread_mutex_lock(&buffer->lock);
    struct attempt_log *log = find_attempt(buffer, execution_id, step, attempt);
    if (log != NULL && !log->has_ended) {
        log->has_ended = true;
        buffer->ended++;
        if (log->ends_with_gap) {
            (void)add_chunk(log, atomic_load(&buffer->bytes_max)); /* without a piece: it shows the gap before it */
        }
        release_attempt(buffer, log);
    }
    pthread_mutex_unlock(&buffer->lock);
}

bool log_buffer_has_ended(struct log_buffer *buffer)
{
    INVARIANT(buffer != NULL);
    pthread_mutex_lock(&buffer->lock);
    bool has = buffer->ended > 0;
    pthread_mutex_unlock(&buffer->lock);
    return has;
}

bool log_buffer_has_pending(struct log_buffer *buffer)
{
    INVARIANT(buffer != NULL);
    pthread_mutex_lock(&buffer->lock);
    bool has = buffer->pending_bytes > 0 || buffer->ended > 0;
    pthread_mutex_unlock(&buffer->lock);
    return has;
}

int64_t log_buffer_take_lost(struct log_buffer *buffer)
{
    INVARIANT(buffer != NULL);
    pthread_mutex_lock(&buffer->lock);
    int64_t lost = buffer->lost_bytes;
    buffer->lost_bytes = 0;
    pthread_mutex_unlock(&buffer->lock);
    return lost;
}

/* --- writing --- */

/* The chunks of one call. An attempt with a taken chunk is not freed. */
struct log_write {
    struct log_chunk chunks[LOG_WRITE_MOST];
    struct attempt_log *attempts[LOG_WRITE_MOST];
    size_t count;
    size_t bytes;
    bool more;
};

/* Step 3, for one attempt. */
static void take_chunks(struct log_write *write, struct attempt_log *log, int64_t bytes_max)
{
    for (struct pending_chunk *chunk = log->first; chunk != NULL; chunk = chunk->next) {
        if (write->count == LOG_WRITE_MOST || (write->count > 0 && write->bytes + chunk->length > LOG_WRITE_BYTES_MAX)) {
            write->more = true;
            return;
        }
        int64_t end = chunk->position + (int64_t)chunk->length + CHUNK_COST;
        int64_t cut_from = bytes_max / 2;
        int64_t cut_to = end - (bytes_max - bytes_max / 2);
        bool cuts = chunk->is_tail && cut_to > cut_from;
        write->chunks[write->count] = (struct log_chunk){.execution_id = log->execution_id,
                                                         .step = log->step,
                                                         .attempt = log->attempt,
                                                         .position = chunk->position,
                                                         .offset = chunk->offset,
                                                         .output_bytes = chunk->output_bytes,
                                                         .lines = chunk->lines,
                                                         .length = chunk->length,
                                                         .cut_from = cuts ? cut_from : 0,
                                                         .cut_to = cuts ? cut_to : 0};
        write->attempts[write->count++] = log;
        write->bytes += chunk->length;
        chunk->is_taken = true;
    }
}

/* Moves the attempts before `first` to the end of the bucket. */
static void turn_bucket(struct attempt_log **bucket, struct attempt_log *first)
{
    struct attempt_log *before = *bucket;
    struct attempt_log *last = first;
    if (before == first) {
        return;
    }
    while (last->next != NULL) {
        last = last->next;
    }
    last->next = *bucket;
    while (before->next != first) {
        before = before->next;
    }
    before->next = NULL;
    *bucket = first;
}

/* The next write begins behind the last attempt of this one, so that a fast program cannot take every write. */
static void take_all_chunks(struct log_buffer *buffer, bool ended_only, struct log_write *write)
{
    int64_t bytes_max = atomic_load(&buffer->bytes_max);
    for (size_t i = 0; i < LOG_BUCKETS && !write->more; i++) {
        struct attempt_log **bucket = &buffer->buckets[buffer->next_bucket];
        struct attempt_log *log = *bucket;
        while (log != NULL && !write->more) {
            size_t before = write->count;
            if (log->first != NULL && (log->has_ended || !ended_only)) {
                take_chunks(write, log, bytes_max);
            }
            log = write->more && write->count == before ? log : log->next;
        }
        if (log != NULL) {
            turn_bucket(bucket, log);
        } else {
            buffer->next_bucket = (buffer->next_bucket + 1) % LOG_BUCKETS;
        }
    }
}

/* Whether the same chunks may be written later. */
static bool failure_may_pass(enum weir_status status)
{
    return status == WEIR_STORE_UNREACHABLE || status == WEIR_STORE_BUSY || status == WEIR_COMMIT_UNKNOWN;
}

/* Step 5. After a failure that may pass, the chunks wait for the next call. */
static void settle_chunks(struct log_buffer *buffer, const struct log_write *write, enum weir_status status)
{
    bool is_lost = status != WEIR_OK;
    bool keep = failure_may_pass(status);
    for (size_t i = 0; i < write->count; i++) {
        struct attempt_log *log = write->attempts[i];
        struct pending_chunk *chunk = log->first;
        if (keep) {
            for (; chunk != NULL && chunk->is_taken; chunk = chunk->next) {
                chunk->is_taken = false;
                chunk->may_be_stored = chunk->may_be_stored || status == WEIR_COMMIT_UNKNOWN;
            }
            continue;
        }
        INVARIANT(chunk != NULL && chunk->is_taken);
        log->first = chunk->next;
        log->last = log->first == NULL ? NULL : log->last;
        log->tail_pending -= chunk->is_tail ? (int64_t)chunk->length : 0;
        log->ends_with_gap = log->ends_with_gap || (is_lost && log->first == NULL);
        buffer->lost_bytes += is_lost ? chunk->output_bytes : 0;
        free_chunk(buffer, chunk);
        if (log->first == NULL || !log->first->is_taken) {
            release_attempt(buffer, log);
        }
    }
}

enum weir_status log_buffer_write(struct log_buffer *buffer, struct store *store, bool ended_only, bool *ret_more,
                                  struct weir_error *error)
{
    INVARIANT(buffer != NULL && store != NULL && ret_more != NULL);
    struct log_write write = {.count = 0};
    enum weir_status status = WEIR_OK;
    pthread_mutex_lock(&buffer->writing);
    pthread_mutex_lock(&buffer->lock);
    take_all_chunks(buffer, ended_only, &write);
    pthread_mutex_unlock(&buffer->lock);
    if (write.count > 0) {
        status = store_write_logs(store, write.chunks, write.count, error);
        pthread_mutex_lock(&buffer->lock);
        settle_chunks(buffer, &write, status);
        pthread_mutex_unlock(&buffer->lock);
    }
    pthread_mutex_unlock(&buffer->writing);
    *ret_more = write.more;
    return status;
}
