/* The layout of the pieces of a log.
 *
 * Every length that is read is checked against the bytes that are left, because a row of the store may be damaged. A
 * reader then stops and loses the rest of that chunk. Pure functions, any thread.
 */
#include "queue/log_lines.h"

#include "base/error.h"

const char *log_stream_name(enum log_stream stream)
{
    switch (stream) {
    case LOG_STDOUT:
        return "stdout";
    case LOG_STDERR:
        return "stderr";
    case LOG_HANDLER:
        return "log";
    }
    return "?";
}

static void write_head_number(char *to, uint64_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        to[i] = (char)(unsigned char)(number >> (8 * (bytes - 1 - i)));
    }
}

static uint64_t read_head_number(const char *from, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; i++) {
        number = number << 8 | (unsigned char)from[i];
    }
    return number;
}

void log_piece_write_head(const struct log_piece *piece, char *to)
{
    INVARIANT(piece->length <= UINT32_MAX && piece->stream >= LOG_STDOUT && piece->stream <= LOG_STREAM_LAST);
    write_head_number(to, (uint64_t)piece->at_us, 8);
    to[8] = (char)piece->stream;
    to[9] = 0;
    write_head_number(to + 10, piece->length, 4);
}

bool log_piece_read(const char *lines, size_t length, size_t *at, struct log_piece *ret_piece)
{
    INVARIANT(at != NULL && *at <= length);
    size_t left = length - *at;
    if (left < LOG_HEAD_BYTES) {
        return false;
    }
    const char *head = lines + *at;
    size_t size = (size_t)read_head_number(head + 10, 4);
    unsigned stream = (unsigned char)head[8];
    if (size > left - LOG_HEAD_BYTES || stream < LOG_STDOUT || stream > LOG_STREAM_LAST) {
        return false;
    }
    *ret_piece = (struct log_piece){.at_us = (int64_t)read_head_number(head, 8),
                                    .stream = (enum log_stream)stream,
                                    .bytes = head + LOG_HEAD_BYTES,
                                    .length = size};
    *at += LOG_HEAD_BYTES + size;
    return true;
}
