/* Wake-ups between processes: inotify on the write-ahead log.
 *
 * Every commit of another process writes to the log, so the watch reports it at once. But the log is written before the
 * commit is visible: its pages come first, then the sync, then the index in shared memory, which no watch sees. So after a
 * notice the caller looks again a few times, at growing distances, until the data version has changed and no commit can
 * be left whose notice was taken: whoever writes the next one begins after the last one is visible. So when that was not
 * visible yet the last time, and no notice has come since, there is none. An idle node is woken by nothing but heartbeats.
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
enum { LOOKS_MOST = 14 };
#define FIRST_LOOK_US ((int64_t)200)

struct wake {
    int fd;
    int64_t watch_again_us; /* boot clock; while fd < 0 */
    bool told;              /* that the watch could not be made */
    int64_t data_version;   /* 0 = not looked yet */
    int looks;              /* how often it was looked since the last notice; LOOKS_MOST = no notice is open */
};

static int watch(const char *log)
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

static void tell_unwatched(const struct store *store, int failure)
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
    wake->fd = watch(log);
    if (wake->fd >= 0) {
        struct event event = {.type = EVENT_STORE_WATCHED};
        wake->looks = 0; /* a commit may be on its way that wrote to the log before we watched */
        wake->data_version = 0;
        if (wake->told) {
            event_emit(store->events, &event);
        }
        wake->told = false;
    } else {
        int failure = errno;
        wake->watch_again_us = time_add(now_us, STORE_WATCH_AGAIN_US);
        if (!wake->told) {
            tell_unwatched(store, failure);
        }
        wake->told = true;
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
    struct connection *connection;
    /* The log exists after the first open and read of the file. */
    if (store_reader(store, &connection, NULL) != WEIR_OK) {
        return -1;
    }
    struct wake *wake = wake_of(sqlite_of(store), connection);
    return wake == NULL ? -1 : wake->fd;
}

static bool empty(int fd)
{
    char events[4096];
    bool any = false;
    while (read(fd, events, sizeof events) > 0) {
        any = true;
    }
    return any;
}

bool sqlite_wake_drain(struct store *store, int64_t *ret_again_us)
{
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
    bool noticed = empty(wake->fd);
    if (noticed) {
        wake->looks = 0;
    }
    if (connection_read_integer(connection, NULL, &version, QUERY_DATA_VERSION, "") != WEIR_OK) {
        return true;
    }
    bool changed = version != wake->data_version;
    if (changed && !noticed && wake->data_version != 0) {
        wake->looks = LOOKS_MOST;
    }
    wake->data_version = version;
    if (wake->looks < LOOKS_MOST) {
        *ret_again_us = FIRST_LOOK_US << wake->looks;
        wake->looks++;
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
