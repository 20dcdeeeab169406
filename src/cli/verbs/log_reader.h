/* Reads the logs of an execution from the store, piece by piece or line by line, and remembers how far.
 *
 * Call log_reader_read() again for what was written since. A line is passed on when its newline has come, or when it is
 * longer than LOG_LINE_BYTES_MAX. One without a newline is passed on when its execution has ended, when a later attempt of
 * its step has a log, or by log_reader_finish(). Owner: the verb; one thread.
 */
#ifndef WEIR_CLI_VERBS_LOG_READER_H
#define WEIR_CLI_VERBS_LOG_READER_H

#include "base/arena.h"
#include "base/text.h"
#include "queue/log_lines.h"
#include "store/store.h"

enum { LOG_LINE_BYTES_MAX = 64 * 1024 };

/* A line without its newline, or a piece with all its bytes; or a gap. */
struct log_line {
    const char *step;
    int attempt;
    int64_t at_us;
    enum log_stream stream;
    const char *bytes;
    size_t length;
    int64_t left_out; /* > 0: a gap of so many bytes, and nothing else */
};
typedef void log_line_function(void *context, const struct log_line *line);

struct log_source {
    struct log_source *next;
    char *step;
    int attempt;
    int64_t last_position;   /* of the last chunk that was read; -1 = none */
    int64_t newest_position; /* of the last chunk that the store has listed */
    int64_t next_offset;     /* of the byte that the next chunk should begin with */
    int64_t last_order_us;   /* of the last line that was kept: no later one goes before it */
    struct {
        int64_t at_us;
        struct text text;
    } partial[LOG_STREAM_LAST + 1];
};

/* A line that is passed on in the order of times. */
struct kept_line {
    struct log_line line;
    int64_t order_us;
    size_t number; /* in the order of reading */
};

struct log_reader {
    struct store *store;
    const char *id;   /* of the execution, whole */
    const char *step; /* NULL = all */
    int attempt;      /* 0 = all */
    bool by_pieces;   /* pieces in place of lines */
    bool has_ended;   /* nothing more is written: log_reader_read() passes on the lines without a newline, too */
    log_line_function *print;
    void *context;
    struct log_source *sources;
    struct arena arena; /* of one answer of the store */
    bool keeps;         /* lines, until all attempts are read */
    struct kept_line *kept;
    size_t kept_count;
    size_t kept_space;
    size_t kept_bytes;
};

/* The members up to `context` are set by the caller. */
void log_reader_open(struct log_reader *reader);
void log_reader_close(struct log_reader *reader);
/* The attempts that have a log, without their contents. */
WEIR_MUST_CHECK enum weir_status log_reader_find(struct log_reader *reader, struct weir_error *error);
/* All that is new in one attempt; WEIR_OK when it has no log. */
WEIR_MUST_CHECK enum weir_status log_reader_read_attempt(struct log_reader *reader, const char *step, int attempt,
                                                         struct weir_error *error);
/* All that is new. The lines of all attempts come in the order of their times, and those of one attempt as they were
 * written. */
WEIR_MUST_CHECK enum weir_status log_reader_read(struct log_reader *reader, struct weir_error *error);
/* Passes on the lines without a newline. */
void log_reader_finish(struct log_reader *reader);

#endif
