/* Wake-ups between processes: a watch on the write-ahead log, and polls of the data version. The two ways complete
 * each other:
 *
 *   1. inotify reports each write to the log by another process. This costs nothing while the store is idle.
 *   2. The notice comes too early. A commit writes its pages, syncs the log, and then publishes itself in shared
 *      memory, which no watch sees. So after a notice the loop polls the data version, first after 200 us, then at
 *      doubled distances.
 *   3. The polls end when the data version has changed and no notice has come since the poll before. SQLite has one
 *      writer, so the next commit begins after the last one is visible; so without a notice no other commit is open.
 *   4. They also end after POLLS_MOST polls, 3.3 s in all: a commit that takes longer is found by the loop's own
 *      polling.
 *   5. If the watch cannot be made (limits of the system), an event reports it once, the loop polls, and the watch is
 *      tried again later.
 *
 * A wake-up carries no data and is never needed for correctness. It never writes to the store. Runs in the thread of the
 * handle: the dispatch thread of a node, or a program that waits for an end.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/error.h"
#include "observe/event.h"
#include "store/sqlite/sqlite_store.h"

/* 200 us, doubled 13 times: 1.6 s for the last, 3.3 s in all. A busy disk may take that long for the sync of a commit, and
 * no event marks its end. */
enum { POLLS_MOST = 14 };
#define FIRST_POLL_US ((int64_t)200)

struct wake {
    int fd;
    int64_t watch_again_us; /* boot clock; while fd < 0 */
    bool is_reported;       /* that the watch could not be made */
    int64_t data_version;   /* 0 = not looked yet */
    int polls;              /* how often it was looked since the last notice; POLLS_MOST = no notice is open */
};

/* A descriptor that reports writes to the log; -1 with errno. */
static int open_watch(const char *log)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd >= 0 && inotify_add_watch(fd, log, IN_MODIFY | IN_CLOSE_WRITE) < 0) {
        int failure = errno;
        (void)close(fd);
        errno = failure;
        return -1;
    }
    return fd;
}

/* Reports once that the watch cannot be made, with the limits to raise. */
static void emit_unwatched(const struct store *store, int failure)
{
    char text[WEIR_ERROR_MESSAGE_MAX];
    struct event event = {.type = EVENT_STORE_UNWATCHED, .code = weir_status_name(WEIR_SYSTEM), .error = text};
    (void)snprintf(
        text, sizeof text,
        "inotify: %s; raise fs.inotify.max_user_instances, fs.inotify.max_user_watches or the limit of open files",
        strerror(failure));
    event_emit(store->events, &event);
}

/* Writes from before the watch are looked for as well. */
static void watch_when_due(const struct store *store, struct wake *wake, const char *log)
{
    int64_t now_us = clock_boot(store->clock);
    if (wake->fd >= 0 || now_us < wake->watch_again_us) {
        return;
    }
    wake->fd = open_watch(log);
    if (wake->fd >= 0) {
        struct event event = {.type = EVENT_STORE_WATCHED};
        wake->polls = 0; /* a commit may be on its way that wrote to the log before we watched */
        wake->data_version = 0;
        if (wake->is_reported) {
            event_emit(store->events, &event);
        }
        wake->is_reported = false;
    } else {
        int failure = errno;
        wake->watch_again_us = time_add(now_us, STORE_WATCH_AGAIN_US);
        if (!wake->is_reported) {
            emit_unwatched(store, failure);
        }
        wake->is_reported = true;
    }
}

/* The log is where SQLite has it: beside the file itself, not beside a symbolic link to it. */
static struct wake *wake_of(struct sqlite_store *store, const struct connection *reader)
{
    if (store->wake != NULL && store->wake->fd >= 0) {
        return store->wake;
    }
    const char *log = sqlite3_filename_wal(sqlite3_db_filename(reader->database, "main"));
    if (store->wake == NULL && log != NULL) {
        store->wake = calloc(1, sizeof *store->wake);
        if (store->wake != NULL) {
            store->wake->fd = -1;
        }
    }
    if (store->wake != NULL) {
        watch_when_due(&store->store, store->wake, log);
    }
    return store->wake;
}

int sqlite_wake_fd(struct store *store)
{
    INVARIANT(store != NULL);
    struct connection *connection;
    /* The log exists after the first open and read of the file. */
    if (store_reader(store, &connection, NULL) != WEIR_OK) {
        return -1;
    }
    struct wake *wake = wake_of(sqlite_of(store), connection);
    return wake == NULL ? -1 : wake->fd;
}

/* True when there was a notice. One read: a commit makes a notice for each page, and the system merges those that are not
 * read yet. A second read would meet the next page of a commit under way, and so take its processor until the sync. More
 * notices than one read takes leave the descriptor readable. */
static bool drain_events(int fd)
{
    char events[4096];
    return read(fd, events, sizeof events) > 0;
}

bool sqlite_wake_drain(struct store *store, int64_t *ret_again_us)
{
    INVARIANT(ret_again_us != NULL);
    struct connection *connection;
    int64_t version = 0;
    *ret_again_us = TIME_NEVER;
    if (store_reader(store, &connection, NULL) != WEIR_OK) {
        return true;
    }
    struct wake *wake = wake_of(sqlite_of(store), connection);
    if (wake == NULL || wake->fd < 0) {
        return true;
    }
    bool noticed = drain_events(wake->fd);
    if (noticed) {
        wake->polls = 0;
    }
    if (connection_read_integer(connection, NULL, &version, QUERY_DATA_VERSION, "") != WEIR_OK) {
        return true;
    }
    bool changed = version != wake->data_version;
    if (changed && !noticed && wake->data_version != 0) {
        wake->polls = POLLS_MOST;
    }
    wake->data_version = version;
    if (wake->polls < POLLS_MOST) {
        *ret_again_us = FIRST_POLL_US << wake->polls;
        wake->polls++;
    }
    return changed;
}

void sqlite_wake_close(struct sqlite_store *store)
{
    if (store->wake != NULL) {
        if (store->wake->fd >= 0) {
            (void)close(store->wake->fd);
        }
        free(store->wake);
        store->wake = NULL;
    }
}
