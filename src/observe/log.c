/* Events as lines of a log.
 *
 *   1. Below the level of the log nothing is done. Else the line is built on the stack, without the lock. A field that does
 *      not fit ends the line: no later field is added, so a line has no holes.
 *   2. Under the lock the line is written with one write(), and only when poll() shows that it cannot block. The first line
 *      that finds no space waits LOG_WAIT_MS; while the reader is stalled, later lines wait no more.
 *   3. A line that cannot be written is dropped and counted. The next written line is followed by the count.
 *   4. After a line that found no space the workspaces share the log for LOG_SHORT_US. Lines of a workspace that is
 *      more than LOG_LEAD lines ahead of its share are dropped. So one busy workspace does not displace the lines of
 *      all others.
 *
 * The log never stops its emitter, never allocates, and never passes a control character to a terminal. log_event() runs in
 * any thread.
 */
#include "observe/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"

/* The sentence of each event. docs/metrics.md lists those that readers of a log rely on. */
static const char *const messages[EVENT_TYPE_COUNT] = {
    [EVENT_EXECUTION_ENQUEUEING] = "Enqueueing workflow",
    [EVENT_EXECUTION_ENQUEUED] = "Enqueued execution",
    [EVENT_EXECUTION_ASSIGNED] = "Assigned queue item",
    [EVENT_BATCH_CLAIMED] = "Processing queue items",
    [EVENT_BATCH_PROCESSED] = "Processed queue items",
    [EVENT_EXECUTION_DISPATCHING] = "Dispatching queue item",
    [EVENT_EXECUTION_DISPATCHED] = "Dispatched execution",
    [EVENT_EXECUTION_COMPLETED] = "Execution completed",
    [EVENT_EXECUTION_FAILED] = "Execution failed",
    [EVENT_EXECUTION_CANCELLED] = "Execution cancelled",
    [EVENT_EXECUTION_RETRYING] = "Error processing queue item",
    [EVENT_EXECUTION_DEFERRED] = "Put back, and the start not counted",
    [EVENT_DISPATCH_FAILED] = "Failed to start workflow",
    [EVENT_START_UNKNOWN] = "No answer to a start; the same ids are sent again",
    [EVENT_WORKSPACE_AT_CAPACITY] = "Workspace at capacity",
    [EVENT_WORKSPACE_NOT_FOUND] = "Workspace not found",
    [EVENT_ITEMS_RECOVERING] = "Recovering stale items",
    [EVENT_ITEMS_RECOVERED] = "Recovered stale queue items",
    [EVENT_EXECUTION_POISONED] = "Execution ended its node too often",
    [EVENT_EXECUTION_STUCK] = "Execution runs longer than expected",
    [EVENT_STEP_ENDED] = "Step ended",
    [EVENT_STEPS_INTERRUPTED] = "Steps were interrupted and run again",
    [EVENT_STEPS_DEFERRED] = "Steps wait: this node cannot start processes now",
    [EVENT_STALE_WRITE_REFUSED] = "A late writer changed nothing",
    [EVENT_RECORD_REFUSED] = "The store refuses a record; it is tried again",
    [EVENT_SCHEDULER_TAKEN] = "This node schedules",
    [EVENT_SCHEDULER_LEFT] = "This node has given up scheduling",
    [EVENT_SCHEDULER_LOST] = "This node does not schedule any more",
    [EVENT_ENGINE_DOWN] = "Engine unreachable, dispatch waits",
    [EVENT_ENGINE_UP] = "Engine reachable, dispatch goes on",
    [EVENT_ENGINE_IMPAIRED] = "Engine reachable, ends may be seen late",
    [EVENT_ENGINE_SOUND] = "Engine sees ends again",
    [EVENT_NODE_STARTED] = "Node ready",
    [EVENT_NODE_STOPPING] = "Node stopping",
    [EVENT_NODE_STOPPED] = "Node stopped",
    [EVENT_NODE_DEAD] = "Another node missed its lease",
    [EVENT_NODE_PAUSED] = "Node paused",
    [EVENT_NODE_RESUMED] = "Node resumed",
    [EVENT_LEASE_LOST] = "This node lost its lease",
    [EVENT_LOCK_ACQUIRED] = "Lock acquired",
    [EVENT_LOCK_BUSY] = "Lock held by another",
    [EVENT_LOCK_LOST] = "Lock lost",
    [EVENT_STORE_FAILED] = "Store call failed",
    [EVENT_STORE_LOG_DAMAGED] = "Acknowledged work is lost: the write-ahead log was damaged",
    [EVENT_STORE_TLS_OPTIONAL] = "The connection to the store need not be encrypted",
    [EVENT_STORE_CALLED] = "Store called",
    [EVENT_STORE_UNWATCHED] = "Requests of other processes are found by polls alone",
    [EVENT_STORE_WATCHED] = "Other processes wake this one again",
    [EVENT_WORKSPACE_DELETED] = "Deleted a workspace",
    [EVENT_WORKSPACE_RENAMED] = "Renamed a workspace",
    [EVENT_HOOK_REFUSED] = "A hook could not enqueue; its events wait",
    [EVENT_SCHEDULE_FIRED] = "A schedule enqueued an execution",
    [EVENT_SCHEDULE_SKIPPED] = "A schedule skipped a time: its execution before has not ended",
    [EVENT_SCHEDULE_DROPPED] = "A schedule dropped times that are older than its catch-up window",
    [EVENT_SCHEDULE_REFUSED] = "A schedule could not enqueue",
    [EVENT_OUTPUT_LOST] = "Lost output of steps",
    [EVENT_SPANS_EXPORTED] = "Exported spans",
    [EVENT_SPANS_DROPPED] = "Dropped spans: the collector did not take them",
    [EVENT_ARCHIVE_MOVED] = "Moved the content of ended executions to the archive",
    [EVENT_ARCHIVE_FAILED] = "Cannot move the content of ended executions to the archive",
    [EVENT_RETENTION_PURGED] = "Removed ended executions past their retention",
    [EVENT_RETENTION_REFUSED] = "Kept ended executions past their retention",
    [EVENT_LOOP_FAILED] = "A loop of this node failed",
    [EVENT_SETTING_CHANGED] = "Setting changed",
    [EVENT_SETTING_WAITS] = "Setting changed in its file; it needs a restart",
    [EVENT_SETTINGS_RELOADED] = "Settings read again",
    [EVENT_CERTIFICATE_REFUSED] = "Certificate not read again; the old one stays",
    [EVENT_SETTINGS_REFUSED] = "Settings not read again; the old ones stay",
};

/* The fields of struct event, in the order of a line. */
enum field_type { FIELD_TEXT, FIELD_NUMBER };
static const struct {
    const char *name; /* in JSON and behind the message; durations end in _us */
    enum field_type type;
    size_t offset;
} fields[] = {
    {"execution_id", FIELD_TEXT, offsetof(struct event, execution_id)},
    {"workspace", FIELD_TEXT, offsetof(struct event, workspace)},
    {"workflow", FIELD_TEXT, offsetof(struct event, workflow)},
    {"plan", FIELD_TEXT, offsetof(struct event, plan)},
    {"node", FIELD_TEXT, offsetof(struct event, node)},
    {"executor_group", FIELD_TEXT, offsetof(struct event, group)},
    {"count", FIELD_NUMBER, offsetof(struct event, count)},
    {"of", FIELD_NUMBER, offsetof(struct event, of)},
    {"slots_used", FIELD_NUMBER, offsetof(struct event, slots_used)},
    {"slots_max", FIELD_NUMBER, offsetof(struct event, slots_max)},
    {"start_number", FIELD_NUMBER, offsetof(struct event, start_number)},
    {"fence", FIELD_NUMBER, offsetof(struct event, fence)},
    {"step", FIELD_TEXT, offsetof(struct event, step)},
    {"attempt", FIELD_NUMBER, offsetof(struct event, attempt)},
    {"traceparent", FIELD_TEXT, offsetof(struct event, traceparent)},
    {"duration_us", FIELD_NUMBER, offsetof(struct event, duration_us)},
    {"age_us", FIELD_NUMBER, offsetof(struct event, age_us)},
    {"slot_wait_us", FIELD_NUMBER, offsetof(struct event, slot_wait_us)},
    {"pause_wait_us", FIELD_NUMBER, offsetof(struct event, pause_wait_us)},
    {"latency_us", FIELD_NUMBER, offsetof(struct event, latency_us)},
    {"reason", FIELD_TEXT, offsetof(struct event, reason)},
    {"error_code", FIELD_TEXT, offsetof(struct event, code)},
    {"error", FIELD_TEXT, offsetof(struct event, error)},
};
enum { FIELD_COUNT = sizeof fields / sizeof fields[0], FIELD_BYTES_MAX = 1024, ESCAPE_BYTES = sizeof "\\u0000" };

const char *log_message(enum event_type type)
{
    INVARIANT((unsigned)type < EVENT_TYPE_COUNT && messages[type] != NULL);
    return messages[type];
}

bool log_format_parse(const char *name, enum log_format *ret_format)
{
    static const char *const names[] = {[LOG_AUTO] = "auto", [LOG_TEXT] = "text", [LOG_JSON] = "json"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret_format = (enum log_format)i;
            return true;
        }
    }
    return false;
}

bool log_level_parse(const char *name, enum event_level *ret_level)
{
    for (unsigned i = EVENT_DEBUG; i <= EVENT_ERROR; i++) {
        if (strcmp(name, event_level_name((enum event_level)i)) == 0) {
            *ret_level = (enum event_level)i;
            return true;
        }
    }
    return false;
}

void log_init(struct log *log, const struct log_options *options)
{
    INVARIANT(log != NULL && options != NULL);
    bool is_terminal = isatty(options->fd) == 1;
    const char *no_colour = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    *log = (struct log){.fd = options->fd, .clock = options->clock != NULL ? options->clock : clock_system()};
    log_tune(log, options->format, options->least);
    log->colour = is_terminal && !options->no_colour && (no_colour == NULL || no_colour[0] == '\0') && term != NULL &&
                  strcmp(term, "dumb") != 0;
    (void)pthread_mutex_init(&log->lock, NULL);
}

void log_tune(struct log *log, enum log_format format, enum event_level least)
{
    log->format = format != LOG_AUTO ? format : isatty(log->fd) == 1 ? LOG_TEXT : LOG_JSON;
    log->least = least;
}

void log_close(struct log *log)
{
    if (log != NULL) {
        (void)pthread_mutex_destroy(&log->lock);
    }
}

/* --- a line --- */

struct line {
    char *to;
    size_t length;
    bool is_full; /* a field did not fit: no later one is added, so a line never has holes */
};

/* Adds all of it or nothing. `tail` bytes and the newline still fit behind it. */
static void line_add(struct line *line, const char *bytes, size_t length, size_t tail)
{
    if (line->is_full || line->length + length + tail + 1 > LOG_LINE_BYTES_MAX) {
        line->is_full = true;
        return;
    }
    memcpy(line->to + line->length, bytes, length);
    line->length += length;
}

/* The character at `at` and its length; length 0 when it is no UTF-8. */
static size_t read_utf8_character(const char *at, size_t left, uint32_t *ret_point)
{
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    for (size_t length = 1; length <= 4 && length <= left; length++) {
        if (text_is_utf8(at, length)) {
            uint32_t point = (unsigned char)at[0] & masks[length];
            for (size_t i = 1; i < length; i++) {
                point = point << 6 | ((unsigned char)at[i] & 0x3f);
            }
            *ret_point = point;
            return length;
        }
    }
    return 0;
}

/* Controls, and characters that change the direction of text: a terminal must never receive them. */
static bool must_escape(uint32_t point)
{
    return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x061c || point == 0x200e || point == 0x200f ||
           (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069) || point == 0xfeff;
}

/* A JSON string (RFC 8259). A byte that is no UTF-8 becomes '?'. Cuts behind FIELD_BYTES_MAX bytes, at a character. */
static void json_string(const char *from, char *to)
{
    size_t left = strnlen(from, FIELD_BYTES_MAX + 1);
    size_t used = 0;
    to[used++] = '"';
    while (left > 0 && used < FIELD_BYTES_MAX) {
        uint32_t point = 0;
        size_t length = read_utf8_character(from, left, &point);
        if (length == 0) {
            to[used++] = '?';
            length = 1;
        } else if (must_escape(point)) {
            used += (size_t)snprintf(to + used, ESCAPE_BYTES, "\\u%04x", (unsigned)point);
        } else {
            if (point == '"' || point == '\\') {
                to[used++] = '\\';
            }
            memcpy(to + used, from, length);
            used += length;
        }
        from += length;
        left -= length;
    }
    to[used++] = '"';
    to[used] = '\0';
}

/* Printable ASCII without separators of fields; everything else is quoted as in JSON. */
static bool word_is_plain(const char *word)
{
    size_t length = 0;
    while (word[length] > ' ' && word[length] < 0x7f && strchr("=\"\\'", word[length]) == NULL) {
        length++;
    }
    return length > 0 && length < FIELD_BYTES_MAX && word[length] == '\0';
}

/* False when the event has no such field: NULL and 0 are left out. */
static bool field_value(size_t index, bool as_json, const struct event *event, char *to, size_t size)
{
    const void *at = (const char *)event + fields[index].offset;
    if (fields[index].type == FIELD_TEXT) {
        const char *text = *(const char *const *)at;
        if (text == NULL) {
            return false;
        }
        if (!as_json && word_is_plain(text)) {
            text_copy(to, size, text);
        } else {
            json_string(text, to);
        }
        return true;
    }
    int64_t number = *(const int64_t *)at;
    (void)snprintf(to, size, "%" PRId64, number);
    return number != 0;
}

/* The reason of an event of a schedule is its name: a search for schedule=nightly finds all that became of its times. */
static const char *field_name(size_t index, enum event_type type)
{
    bool is_of_schedule = type == EVENT_SCHEDULE_FIRED || type == EVENT_SCHEDULE_SKIPPED ||
                          type == EVENT_SCHEDULE_DROPPED || type == EVENT_SCHEDULE_REFUSED;
    return is_of_schedule && fields[index].offset == offsetof(struct event, reason) ? "schedule" : fields[index].name;
}

/* " name=value" or ",\"name\":value" */
static void line_add_field(struct line *line, bool as_json, size_t index, const struct event *event)
{
    char value[FIELD_BYTES_MAX + 16];
    char field[sizeof value + 32];
    if (field_value(index, as_json, event, value, sizeof value)) {
        int length =
            snprintf(field, sizeof field, as_json ? ",\"%s\":%s" : " %s=%s", field_name(index, event->type), value);
        line_add(line, field, (size_t)length, as_json ? 1 : 0);
    }
}

/* ANSI colours. */
static const char *level_colour(enum event_level level)
{
    static const char *const colours[] = {
        [EVENT_DEBUG] = "\033[2m", [EVENT_INFO] = "\033[32m", [EVENT_WARN] = "\033[33m", [EVENT_ERROR] = "\033[31m"};
    return colours[level];
}

/* Time, level, name and sentence. */
static void line_begin(struct line *line, const struct log *log, bool as_json, const struct event *event, int64_t wall_us)
{
    enum event_level level = event_level(event->type);
    char time[TIME_TEXT_MAX];
    char head[256];
    int length = 0;
    time_format(wall_us, time);
    if (as_json) {
        length = snprintf(head, sizeof head, "{\"at\":\"%s\",\"level\":\"%s\",\"event\":\"%s\",\"message\":\"%s\"", time,
                          event_level_name(level), event_name(event->type), log_message(event->type));
    } else {
        length = snprintf(head, sizeof head, "%.8s %s%-5s%s %-21s %s ", time + 11, log->colour ? level_colour(level) : "",
                          event_level_name(level), log->colour ? "\033[0m" : "", event_name(event->type),
                          log_message(event->type));
    }
    line_add(line, head, (size_t)length, 1);
}

size_t log_line(const struct log *log, const struct event *event, int64_t wall_us, char *to)
{
    INVARIANT(log != NULL && event != NULL && to != NULL);
    struct line line = {.to = to};
    bool as_json = log->format == LOG_JSON; /* once: log_tune() may change it meanwhile */
    line_begin(&line, log, as_json, event, wall_us);
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        line_add_field(&line, as_json, i, event);
    }
    if (as_json) {
        line.to[line.length++] = '}';
    }
    line.to[line.length++] = '\n';
    line.to[line.length] = '\0';
    return line.length;
}

/* --- writing --- */

/* One write(), and only when it cannot block. A pipe that polls writable takes PIPE_BUF bytes at once. */
static bool write_line(struct log *log, const char *line, size_t length)
{
    struct pollfd ready = {.fd = log->fd, .events = POLLOUT};
    int answer = 0;
    do {
        answer = poll(&ready, 1, log->stalled ? 0 : LOG_WAIT_MS);
    } while (answer < 0 && errno == EINTR);
    if (answer <= 0 || (ready.revents & POLLOUT) == 0) {
        return false;
    }
    ssize_t written = -1;
    do {
        written = write(log->fd, line, length);
    } while (written < 0 && errno == EINTR);
    return written >= 0;
}

/* After a line that was written. */
static void write_drop_count(struct log *log)
{
    char line[256];
    char time[TIME_TEXT_MAX];
    time_format(clock_wall(log->clock), time);
    int length = 0;
    if (log->format == LOG_JSON) {
        length =
            snprintf(line, sizeof line,
                     "{\"at\":\"%s\",\"level\":\"warn\",\"event\":\"log.dropped\",\"message\":\"Log lines were dropped\","
                     "\"count\":%" PRIu64 "}\n",
                     time, log->dropped);
    } else {
        length = snprintf(line, sizeof line, "%.8s warn  log.dropped           Log lines were dropped  count=%" PRIu64 "\n",
                          time + 11, log->dropped);
    }
    if (write_line(log, line, (size_t)length)) {
        log->dropped = 0;
    }
}

/* --- sharing a log that is short --- */

/* NULL while the log has space for all, and for events without a workspace. */
static struct log_share *log_share_of(struct log *log, const char *workspace, int64_t now_us)
{
    if (workspace == NULL || now_us >= log->short_until_us) {
        return NULL;
    }
    struct log_share *share = &log->shares[text_hash(workspace) % LOG_SHARES];
    log->active += !share->is_active;
    share->is_active = true;
    return share;
}

/* The workspace has written more than its share, and LOG_LEAD lines. */
static bool share_is_spent(const struct log *log, const struct log_share *share)
{
    return share != NULL && share->lines * log->active > log->short_lines + LOG_LEAD;
}

static void note_line_written(struct log *log, struct log_share *share)
{
    if (share != NULL) {
        share->lines++;
        log->short_lines++;
    }
}

/* Begins the time in which workspaces share the log, or prolongs it. */
static void note_stalled(struct log *log, int64_t now_us)
{
    if (now_us >= log->short_until_us) {
        memset(log->shares, 0, sizeof log->shares);
        log->short_lines = 0;
        log->active = 0;
    }
    log->short_until_us = time_add(now_us, LOG_SHORT_US);
}

void log_event(void *context, const struct event *event)
{
    INVARIANT(context != NULL && event != NULL);
    struct log *log = context;
    char line[LOG_LINE_BYTES_MAX + 1];
    if (event_level(event->type) < log->least) {
        return;
    }
    size_t length = log_line(log, event, clock_wall(log->clock), line);
    int64_t now_us = clock_boot(log->clock);
    (void)pthread_mutex_lock(&log->lock);
    struct log_share *share = log_share_of(log, event->workspace, now_us);
    if (share_is_spent(log, share)) {
        log->dropped++;
    } else if (write_line(log, line, length)) {
        log->stalled = false;
        note_line_written(log, share);
        if (log->dropped > 0) {
            write_drop_count(log);
        }
    } else {
        log->stalled = true;
        log->dropped++;
        note_stalled(log, now_us);
    }
    (void)pthread_mutex_unlock(&log->lock);
}
