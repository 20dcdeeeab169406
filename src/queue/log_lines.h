/* The pieces of a log: the output of one attempt of a step, as the store keeps it.
 *
 * A chunk is a row of the store: some pieces, one after the other. A piece is what a program wrote at one time: a head of
 * 14 bytes, then the bytes unchanged, with their newlines.
 *
 *     8 bytes  time, microseconds since 1970 in store time, most significant byte first
 *     1 byte   stream (enum log_stream)
 *     1 byte   0
 *     4 bytes  length, most significant byte first
 *
 * A line may be spread over several pieces of its stream, and over chunks. The position of a chunk orders the chunks of an
 * attempt; it counts bytes with the heads. The offset of a chunk counts the bytes that the program wrote before it. A chunk
 * whose offset is behind the end of the one before it shows that bytes in between were left out.
 *
 * No I/O, no clock.
 */
#ifndef WEIR_QUEUE_LOG_LINES_H
#define WEIR_QUEUE_LOG_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_stream {
    LOG_STDOUT = 1,
    LOG_STDERR = 2,
    LOG_HANDLER = 3, /* lines that a handler adds */
    LOG_STREAM_LAST = LOG_HANDLER
};
enum { LOG_HEAD_BYTES = 14 };

struct log_piece {
    int64_t at_us;
    enum log_stream stream;
    const char *bytes;
    size_t length;
};

/* "stdout", "stderr", "log". */
const char *log_stream_name(enum log_stream stream);
/* Writes the head of a piece; `to` holds LOG_HEAD_BYTES. */
void log_piece_write_head(const struct log_piece *piece, char *to);
/* Reads the piece at *at and moves *at behind it. False at the end, or when the rest is no piece. */
bool log_piece_read(const char *lines, size_t length, size_t *at, struct log_piece *ret_piece);

#endif
