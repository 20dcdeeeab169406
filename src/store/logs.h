/* The logs of attempts in the store: what the programs and handlers of steps wrote.
 *
 * The node that runs an attempt writes its log in chunks (queue/log_lines.h), a few a second at most. They are apart
 * from the records of the queue, so a log never fails a transition. The record of an end waits for one write of its
 * log, for the deadline of the store at most. Any process that can open the store reads it, also while the attempt
 * runs. The number of an attempt is used by one claim only, so a chunk needs no fence. A node that has lost its claim
 * still adds to the log of its own attempt.
 *
 * The end of an execution does not touch its logs. They go with the execution (purge), or earlier by a retention of their
 * own. store/store.h includes this file.
 */
#ifndef WEIR_STORE_LOGS_H
#define WEIR_STORE_LOGS_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "store/progress.h"
#include "weir/status.h"

struct store;

enum {
    LOG_CHUNK_BYTES_MAX = 64 * 1024, /* of `lines` */
    LOG_WRITE_MOST = 64,             /* chunks of one call */
    LOG_READ_MOST = 16,              /* chunks of one answer */
    LOG_ATTEMPTS_MOST = 10000,       /* of one answer */
    LOG_PURGE_MOST = 1000            /* chunks of one call */
};

struct log_chunk {
    const char *execution_id; /* these three are not set in answers */
    const char *step;
    int attempt;
    int64_t position;     /* orders the chunks of the attempt */
    int64_t offset;       /* bytes that the program had written before this chunk */
    int64_t output_bytes; /* bytes of the program in this chunk */
    const char *lines;    /* pieces */
    size_t length;
    /* Chunks of the same attempt that are removed with this write: those from the first position up to before the second.
     * Equal = none. */
    int64_t cut_from;
    int64_t cut_to;
};
/* One transaction. A chunk that is there already, or whose execution is gone, changes nothing and is no error. */
WEIR_MUST_CHECK enum weir_status store_write_logs(struct store *store, const struct log_chunk *chunks, size_t count,
                                                  struct weir_error *error);

struct log_attempt {
    const char *step;
    int attempt;
    int64_t last_position; /* of its last chunk: grows while the attempt writes */
};
/* The attempts of an execution (whole id) that have a log, by step and number. */
WEIR_MUST_CHECK enum weir_status store_list_logs(struct store *store, const char *id, struct arena *arena,
                                                 struct log_attempt **ret_attempts, size_t *ret_count,
                                                 struct weir_error *error);
/* The chunks of one attempt behind a position (-1 = all), in their order, at most LOG_READ_MOST. */
WEIR_MUST_CHECK enum weir_status store_read_log(struct store *store, const char *id, const char *step, int attempt,
                                                int64_t after, struct arena *arena, struct log_chunk **ret_chunks,
                                                size_t *ret_count, struct weir_error *error);
/* Removes chunks that were written before a time, at most `limit`, the oldest first. */
WEIR_MUST_CHECK enum weir_status store_purge_logs(struct store *store, int64_t before_us, size_t limit,
                                                  int64_t *ret_removed, struct weir_error *error);

#endif
