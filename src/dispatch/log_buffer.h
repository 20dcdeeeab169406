/* The output of attempts on its way from the engine to the store.
 *
 *     engine, any thread --log_buffer_add()--> pending chunks per attempt --log_buffer_write()--> store
 *
 * The store keeps the beginning and the end of an attempt's output, half of the bound each; the middle is cut out. Output
 * never waits: what finds no memory here, or what the store refuses, is lost and counted, and the attempt goes on. A reader
 * sees both kinds of gap in the offsets of the chunks (store/logs.h).
 *
 * Threads: log_buffer_add(), log_buffer_end() and log_buffer_has_ended() from any thread; they take one short lock.
 * log_buffer_write() by one thread at a time, so that the chunks of an attempt reach the store in their order. A second
 * one waits, for the deadline of the store at most.
 */
#ifndef WEIR_DISPATCH_LOG_BUFFER_H
#define WEIR_DISPATCH_LOG_BUFFER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "store/store.h"

enum { LOG_BUCKETS = 256, LOG_WRITE_BYTES_MAX = 1024 * 1024 /* of one call of the store */ };

struct attempt_log;

struct log_buffer {
    pthread_mutex_t lock;    /* of the members up to `writing` */
    pthread_mutex_t writing; /* one writer; taken before `lock` */
    struct attempt_log *buckets[LOG_BUCKETS];
    size_t next_bucket;        /* where the next write begins, so that no attempt waits behind the others for ever */
    size_t pending_bytes;      /* at most LOG_PENDING_BYTES_MAX */
    int64_t lost_bytes;        /* since log_buffer_take_lost() */
    size_t ended;              /* attempts that have ended and have pending chunks */
    _Atomic int64_t bytes_max; /* of one attempt in the store; 0 = keep nothing */
};

void log_buffer_init(struct log_buffer *buffer);
/* Drops what is pending. */
void log_buffer_close(struct log_buffer *buffer);
/* Adds output. True: it is the first that is pending. */
bool log_buffer_add(struct log_buffer *buffer, const struct engine_output *output);
/* The attempt adds no more. */
void log_buffer_end(struct log_buffer *buffer, const char *execution_id, const char *step, int attempt);
bool log_buffer_has_ended(struct log_buffer *buffer);
bool log_buffer_has_pending(struct log_buffer *buffer);
/* One call of the store: writes pending chunks, `ended_only` those of ended attempts. *ret_more: some are left. A failure
 * that may pass keeps them for the next call; another one loses them. */
enum weir_status log_buffer_write(struct log_buffer *buffer, struct store *store, bool ended_only, bool *ret_more,
                                  struct weir_error *error);
/* Bytes of output that were lost since the last call, beside those that the bound has cut out. */
int64_t log_buffer_take_lost(struct log_buffer *buffer);

#endif
