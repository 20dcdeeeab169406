/* The log: events as lines, for a person on a terminal or as JSON lines for a machine.
 *
 *     05:12:31 info  execution.dispatched   Dispatched execution  execution_id=0198c2f1-... workspace=acme waited=12ms
 *     {"at":"2026-11-21T05:12:31.123456Z","level":"info","event":"execution.dispatched","message":"Dispatched
 * execution",...}
 *
 * Both forms have the same fields with the same names. Control characters, bidi controls and bytes that are no UTF-8 never
 * reach a terminal; in JSON they are escaped (RFC 8259). Every line is one write(), at most LOG_LINE_BYTES_MAX long, so
 * lines of several processes that share a pipe do not mix (PIPE_BUF).
 *
 * A log must never stop a node: the reader of the pipe may stop reading. A line that cannot be written
 * within LOG_WAIT_MS is dropped and counted, and the next line that gets through is followed by the count.
 *
 * Owner: the caller, who also closes the descriptor. Threads: log_event() from any thread, the rest before and after.
 */
#ifndef WEIR_OBSERVE_LOG_H
#define WEIR_OBSERVE_LOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "observe/event.h"
#include "weir/status.h"

enum {
    LOG_LINE_BYTES_MAX = 4096,
    LOG_WAIT_MS = 20,
    LOG_SHARES = 64, /* workspaces differ by a hash: two may have one share */
    LOG_LEAD = 16    /* lines that a workspace may be ahead of its share */
};
/* After a line found no room, workspaces share the log for so long. */
#define LOG_SHORT_US (1 * MICROSECONDS_PER_SECOND)

enum log_format { LOG_AUTO, LOG_TEXT, LOG_JSON };

struct log {
    int fd;
    _Atomic enum log_format format; /* LOG_TEXT or LOG_JSON */
    _Atomic enum event_level least;
    bool colour;
    const struct clock *clock; /* its wall time is printed */
    pthread_mutex_t lock;
    bool stalled;     /* the last line did not get through: do not wait again */
    uint64_t dropped; /* lines since the last one that got through */
    /* While the reader is slower than the writers, so that the lines of one workspace do not take the room of all other
     * workspaces.
     */
    int64_t short_until_us; /* boot clock */
    uint64_t short_lines;   /* of all workspaces since the log became short */
    uint64_t active;        /* shares that a line was meant for since then */
    struct log_share {
        bool is_active;
        uint64_t lines;
    } shares[LOG_SHARES];
};

struct log_options {
    int fd;
    enum log_format format; /* LOG_AUTO: text when `fd` is a terminal */
    enum event_level least;
    bool no_colour;            /* otherwise: on a terminal, unless NO_COLOR is set or TERM is "dumb" */
    const struct clock *clock; /* NULL = the machine's */
};

void log_init(struct log *log, const struct log_options *options);
void log_close(struct log *log);
/* Takes another format (LOG_AUTO: as in log_init()) and level from the next line on. Any thread. */
void log_tune(struct log *log, enum log_format format, enum event_level least);
/* The subscriber: event_subscribe(bus, log_event, log). */
void log_event(void *context, const struct event *event);

/* "auto", "text", "json"; "debug", "info", "warn", "error". False when it is none of them. */
bool log_format_parse(const char *name, enum log_format *ret_format);
bool log_level_parse(const char *name, enum event_level *ret_level);

/* The sentence of an event: "Dispatched execution". Never NULL. */
const char *log_message(enum event_type type);
/* Writes one line with its newline, at most LOG_LINE_BYTES_MAX bytes; a longer one loses its last fields, never half of
 * one. `to` holds LOG_LINE_BYTES_MAX + 1 bytes. Returns its length. For tests and for hosts with a log of their own. */
size_t log_line(const struct log *log, const struct event *event, int64_t wall_us, char *to);

#endif
