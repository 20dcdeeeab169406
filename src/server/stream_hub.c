/* One round of the thread, while there are streams:
 *
 *   1. Read the changes behind the last position. The first read of a hub, and one after a long failure, is a reset.
 *      The ring begins anew at the end of the stream, and streams that were on the ring get a reset.
 *   2. On PostgreSQL changes of older transactions may be missing at first (stream_batch.is_settling). New streams wait for
 *      that, but not longer than SETTLE_US. Then their events have no id, and a reset follows when it is over.
 *   3. Add the events to the ring, and wake the streams that want one of them.
 *   4. Read a page for some of the streams with a position behind the ring.
 *   5. Once a second look after all of them.
 *   6. Wait until the store reports a change, or a stream needs the thread.
 *
 * A stream is asleep or awake. A thread of a listener writes for one that is awake, and lets it fall asleep, under the
 * lock, when nothing is left: so none is woken before it sleeps. The lock is never held during a call of the store. A
 * stream that is closed while a page is read for it is freed by the thread.
 *
 * Without streams nothing is read and kept.
 */
#include "server/stream_hub.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "base/thread.h"
#include "server/access.h"
#include "server/http_server.h"

/* At most so often a change is read for: changes that come in a burst are one read. */
#define READ_AGAIN_US (20 * MICROSECONDS_PER_MS)
#define POLL_US (100 * MICROSECONDS_PER_MS) /* without a notice of the store */
#define POLL_WITH_NOTICE_US (1000 * MICROSECONDS_PER_MS)
#define SETTLE_POLL_US (10 * MICROSECONDS_PER_MS)
#define SETTLE_US (1 * MICROSECONDS_PER_SECOND)
#define LOOK_US (1 * MICROSECONDS_PER_SECOND)
/* Pages: as many streams in a round, and as many changes of each. */
enum { PAGES_OF_ROUND = 16, PAGE_ENTRIES = 128, OUT_BYTES_MAX = 1024 * 1024, READ_BYTES_MAX = 16 * 1024 * 1024 };

enum phase {
    PHASE_NEW,    /* the hub has no position yet */
    PHASE_BEHIND, /* the ring does not reach its position */
    PHASE_ON_RING
};

struct stream {
    struct stream *next;
    struct stream *before;
    struct stream_hub *hub;
    struct stream_connection connection;
    enum phase phase;
    struct stream_position position; /* of the last change that it has, or that it does not want */
    struct stream_filter filter;
    const char *reset;  /* reason of a reset that it gets next */
    bool is_asleep;     /* its connection is suspended */
    bool is_over;       /* it ends when its connection writes next */
    bool is_read_for;   /* the thread reads a page for it */
    bool is_closed;     /* the thread frees it */
    uint64_t turn;      /* the last one in which it got a page */
    bool wants_life;    /* a sign of life */
    int64_t written_us; /* boot clock: when it was last written for */
    struct text out;    /* to be sent */
    size_t out_sent;
    int fd;
    int64_t token_id; /* 0: none */
    bool is_anonymous;
    bool is_of_machine;
    char *secret; /* of its token */
    char texts[]; /* of the filter */
};

struct stream_hub {
    struct access *access;
    struct store *store;
    int wake_fd;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    struct stream *streams;
    size_t count;
    _Atomic uint64_t *open; /* the same, for the metrics */
    size_t places;
    bool is_ending;
    bool is_ready;                   /* new streams may begin at `position` */
    bool is_settling;                /* of the last read */
    struct stream_position position; /* of the last read; without streams none */
    struct stream_ring ring;
    /* Of the thread alone. */
    struct arena arena;
    int64_t began_us;
    int64_t looked_us;
    uint64_t turn; /* each stream that is behind gets a page in each turn */
    struct pollfd sockets[HTTP_STREAMS_MAX];
};

static int64_t boot_now(void)
{
    return clock_boot(clock_system());
}

static void hub_wake(struct stream_hub *hub)
{
    uint64_t one = 1;
    ssize_t written = write(hub->wake_fd, &one, sizeof one);
    (void)written; /* it fails only when the thread is to wake up already */
}

/* --- one stream; all with the lock held --- */

static void stream_wake(struct stream *stream)
{
    if (stream->is_asleep) {
        stream->is_asleep = false;
        atomic_store(stream->connection.due_us, boot_now() + HTTP_WRITE_DEADLINE_US);
        stream->connection.resume(stream->connection.connection);
    }
}

static void stream_end(struct stream *stream)
{
    stream->is_over = true;
    stream_wake(stream);
}

/* It goes on at the end of what the hub has read. */
static void stream_reset(struct stream *stream, const char *reason)
{
    stream->phase = PHASE_ON_RING;
    stream->position = stream->hub->position;
    stream->reset = reason;
    stream_wake(stream);
}

/* A number that the hub does not have yet may be that of another node, or of a store that was set back: a page shows it. */
static void stream_place(struct stream *stream)
{
    const struct stream_hub *hub = stream->hub;
    if (stream->position.since_us != hub->position.since_us) {
        stream_reset(stream, stream->position.since_us == 0 ? "new" : "gone");
    } else if (stream->position.number < hub->ring.begin || stream->position.number > hub->position.number) {
        stream->phase = PHASE_BEHIND;
    } else {
        stream->phase = PHASE_ON_RING;
    }
}

/* Its position in the texts that it gets: none while changes may be missing. */
static const struct stream_position *position_to_send(const struct stream *stream)
{
    return stream->hub->is_settling || stream->phase == PHASE_NEW ? NULL : &stream->position;
}

static bool has_events(struct stream *stream)
{
    const struct stream_hub *hub = stream->hub;
    if (stream->phase != PHASE_ON_RING) {
        return false;
    }
    if (stream->position.number < hub->ring.begin) {
        return true; /* a reset */
    }
    for (uint64_t i = stream_ring_find(&hub->ring, stream->position.number); i < hub->ring.next; i++) {
        if (stream_filter_takes(&stream->filter, &stream_ring_at(&hub->ring, i)->entry)) {
            return true;
        }
    }
    if (stream->position.number < hub->position.number) {
        stream->position.number = hub->position.number;
    }
    return false;
}

static enum weir_status add_ring_events(struct stream *stream, size_t most)
{
    const struct stream_hub *hub = stream->hub;
    enum weir_status status = WEIR_OK;
    uint64_t i = stream_ring_find(&hub->ring, stream->position.number);
    for (; i < hub->ring.next && stream->out.length < most && status == WEIR_OK; i++) {
        const struct stream_event *event = stream_ring_at(&hub->ring, i);
        stream->position.number = event->entry.number;
        if (stream_filter_takes(&stream->filter, &event->entry)) {
            status = text_add(&stream->out, event->text, event->length);
        }
    }
    return status;
}

/* Fills `out` when all of it was sent. */
static void stream_fill(struct stream *stream, size_t most)
{
    enum weir_status status = WEIR_OK;
    if (stream->phase == PHASE_ON_RING && stream->position.number < stream->hub->ring.begin) {
        stream_reset(stream, "slow");
    }
    if (stream->reset != NULL) {
        status = stream_reset_add(&stream->out, position_to_send(stream), stream->reset);
        stream->reset = NULL;
    }
    if (status == WEIR_OK && stream->phase == PHASE_ON_RING) {
        status = add_ring_events(stream, most);
    }
    if (status == WEIR_OK && stream->wants_life && stream->out.length == 0) {
        status = stream_keep_alive_add(&stream->out, position_to_send(stream));
    }
    stream->wants_life = false;
    stream->is_over = stream->is_over || status != WEIR_OK;
}

static void stream_free(struct stream *stream)
{
    text_close(&stream->out);
    free(stream->secret);
    free(stream);
}

/* --- the listener's side --- */

void stream_begin(struct stream *stream, const struct stream_connection *connection)
{
    INVARIANT(stream != NULL && connection != NULL && stream->connection.connection == NULL);
    stream->connection = *connection;
    (void)pthread_mutex_lock(&stream->hub->lock);
    stream->is_over = stream->is_over || connection->is_retired;
    (void)pthread_mutex_unlock(&stream->hub->lock);
}

ssize_t stream_write(struct stream *stream, char *to, size_t most)
{
    INVARIANT(stream != NULL && stream->connection.connection != NULL && to != NULL);
    struct stream_hub *hub = stream->hub;
    ssize_t written = 0;
    (void)pthread_mutex_lock(&hub->lock);
    if (stream->out_sent == stream->out.length) {
        text_close(&stream->out);
        stream->out_sent = 0;
        if (!stream->is_over) {
            stream_fill(stream, most);
        }
    }
    size_t left = stream->out.length - stream->out_sent;
    if (left > 0) {
        size_t piece = left < most ? left : most;
        memcpy(to, stream->out.data + stream->out_sent, piece);
        stream->out_sent += piece;
        stream->written_us = boot_now();
        written = (ssize_t)piece;
        atomic_store(stream->connection.due_us, stream->written_us + HTTP_WRITE_DEADLINE_US);
    } else if (stream->is_over) {
        written = -1;
    } else {
        stream->is_asleep = true;
        atomic_store(stream->connection.due_us, TIME_NEVER);
        stream->connection.suspend(stream->connection.connection);
        if (stream->phase == PHASE_BEHIND) {
            hub_wake(hub); /* for the next page */
        }
    }
    (void)pthread_mutex_unlock(&hub->lock);
    return written;
}

void stream_close(struct stream *stream)
{
    if (stream == NULL) {
        return;
    }
    struct stream_hub *hub = stream->hub;
    (void)pthread_mutex_lock(&hub->lock);
    *(stream->before != NULL ? &stream->before->next : &hub->streams) = stream->next;
    if (stream->next != NULL) {
        stream->next->before = stream->before;
    }
    hub->count--;
    atomic_store(hub->open, hub->count);
    stream->is_closed = true;
    if (!stream->is_read_for) {
        stream_free(stream);
    }
    if (hub->count == 0) {
        hub_wake(hub);
    }
    (void)pthread_mutex_unlock(&hub->lock);
}

/* --- new streams --- */

static const char *stream_copy_text(char **at, const char *text)
{
    char *copy = *at;
    if (text == NULL) {
        return NULL;
    }
    *at = stpcpy(copy, text) + 1;
    return copy;
}

/* The position of a field that is none of ours cannot be continued: the client gets a reset. NULL: no memory. */
static struct stream *stream_make(struct stream_hub *hub, const struct http_request *request,
                                  const struct stream_filter *filter)
{
    const char *last_id = request->fields[FIELD_LAST_EVENT_ID];
    const char *secret = request->secret;
    struct stream *stream = calloc(1, sizeof *stream + (filter->workspace == NULL ? 0 : strlen(filter->workspace) + 1) +
                                          (filter->id == NULL ? 0 : strlen(filter->id) + 1));
    if (stream == NULL) {
        return NULL;
    }
    char *at = stream->texts;
    stream->hub = hub;
    stream->filter = *filter;
    stream->filter.workspace = stream_copy_text(&at, filter->workspace);
    stream->filter.id = stream_copy_text(&at, filter->id);
    stream->out.max = OUT_BYTES_MAX;
    stream->fd = request->connection_fd;
    stream->token_id = request->principal != NULL ? request->principal->token_id : 0;
    stream->is_anonymous = request->is_anonymous;
    stream->is_of_machine = request->is_of_machine;
    stream->written_us = boot_now();
    stream->secret = secret == NULL ? NULL : strdup(secret);
    if (last_id != NULL && last_id[0] != '\0' && !stream_position_parse(last_id, &stream->position)) {
        stream->position.since_us = -1; /* that of no stream */
    }
    if (secret != NULL && stream->secret == NULL) {
        stream_free(stream);
        return NULL;
    }
    return stream;
}

static size_t count_streams_of(const struct stream_hub *hub, int64_t token_id)
{
    size_t count = 0;
    for (const struct stream *stream = hub->streams; stream != NULL; stream = stream->next) {
        count += stream->token_id == token_id;
    }
    return count;
}

enum stream_answer stream_hub_add(struct stream_hub *hub, const struct http_request *request,
                                  const struct stream_filter *filter, struct stream **ret_stream)
{
    INVARIANT(hub != NULL && request != NULL && filter != NULL && ret_stream != NULL);
    struct stream *stream = stream_make(hub, request, filter);
    enum stream_answer answer = STREAM_ADDED;
    if (stream == NULL) {
        return STREAM_NO_MEMORY;
    }
    (void)pthread_mutex_lock(&hub->lock);
    if (hub->is_ending) {
        answer = STREAM_ENDED;
    } else if (hub->count >= hub->places) {
        answer = STREAM_FULL;
    } else if (stream->token_id != 0 && count_streams_of(hub, stream->token_id) >= hub->places / 2) {
        answer = STREAM_TOKEN_FULL;
    } else {
        stream->next = hub->streams;
        if (stream->next != NULL) {
            stream->next->before = stream;
        }
        hub->streams = stream;
        hub->count++;
        atomic_store(hub->open, hub->count);
        if (hub->is_ready) {
            stream_place(stream);
        }
        if (hub->count == 1 || stream->phase == PHASE_BEHIND) {
            hub_wake(hub);
        }
        *ret_stream = stream;
    }
    (void)pthread_mutex_unlock(&hub->lock);
    if (answer != STREAM_ADDED) {
        stream_free(stream);
    }
    return answer;
}

/* --- steps 1 to 3 --- */

/* The ring has a gap or no ids: it begins anew at the last position. */
static void reset_ring(struct stream_hub *hub, const char *reason)
{
    stream_ring_clear(&hub->ring, hub->position.number);
    for (struct stream *stream = hub->streams; stream != NULL; stream = stream->next) {
        if (stream->phase == PHASE_ON_RING) {
            stream_reset(stream, reason);
        }
    }
}

static void begin_ring(struct stream_hub *hub, const struct stream_batch *batch)
{
    hub->position = batch->position;
    stream_ring_clear(&hub->ring, hub->position.number); /* the numbers of a store that was set back begin lower */
    hub->is_ready = false;
    hub->began_us = boot_now();
    for (struct stream *stream = hub->streams; stream != NULL; stream = stream->next) {
        stream->phase = stream->phase == PHASE_ON_RING ? PHASE_NEW : stream->phase;
    }
}

static void place_new_streams(struct stream_hub *hub)
{
    hub->is_ready = true;
    stream_ring_clear(&hub->ring, hub->position.number);
    for (struct stream *stream = hub->streams; stream != NULL; stream = stream->next) {
        if (stream->phase == PHASE_NEW) {
            stream_place(stream);
        }
    }
}

static void take_entries(struct stream_hub *hub, const struct stream_batch *batch)
{
    int64_t since_us = batch->is_settling ? 0 : batch->position.since_us;
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < batch->count && status == WEIR_OK; i++) {
        status = stream_ring_add(&hub->ring, since_us, &batch->entries[i]);
    }
    hub->position = batch->position;
    if (status != WEIR_OK) {
        reset_ring(hub, "slow"); /* no memory for an event */
    }
}

/* With the lock held. */
static void take_batch(struct stream_hub *hub, const struct stream_batch *batch)
{
    bool has_settled = hub->is_ready && hub->is_settling && !batch->is_settling;
    if (batch->is_reset) {
        begin_ring(hub, batch);
    } else {
        take_entries(hub, batch);
    }
    hub->is_settling = batch->is_settling;
    if (has_settled && hub->is_ready) {
        reset_ring(hub, "incomplete");
    }
    if (!hub->is_ready && (!batch->is_settling || boot_now() - hub->began_us >= SETTLE_US)) {
        place_new_streams(hub);
    }
    for (struct stream *stream = hub->streams; stream != NULL; stream = stream->next) {
        if (stream->is_asleep && has_events(stream)) {
            stream_wake(stream);
        }
    }
}

/* When the changes are read again: *ret_at_once without a notice of the store. A failure is reported by the store itself.
 */
static int64_t read_changes(struct stream_hub *hub, bool *ret_at_once)
{
    struct stream_batch batch = {.count = 0};
    struct weir_error error = {.status = WEIR_OK};
    int64_t now_us = boot_now();
    *ret_at_once = true;
    arena_reset(&hub->arena);
    if (store_read_stream(hub->store, &hub->position, STREAM_READ_MOST, &hub->arena, &batch, &error) != WEIR_OK) {
        return now_us + POLL_WITH_NOTICE_US;
    }
    if (batch.is_reset && batch.more) {
        return now_us;
    }
    (void)pthread_mutex_lock(&hub->lock);
    take_batch(hub, &batch);
    bool is_ready = hub->is_ready;
    (void)pthread_mutex_unlock(&hub->lock);
    if (batch.more) {
        return now_us;
    }
    if (!is_ready || batch.is_settling) {
        return now_us + (is_ready ? POLL_US : SETTLE_POLL_US);
    }
    *ret_at_once = batch.count > 0;
    return now_us + (batch.count > 0 ? READ_AGAIN_US : POLL_WITH_NOTICE_US);
}

/* --- step 4 --- */

/* With the lock held. Those that get a page in this round. */
static size_t find_behind(struct stream_hub *hub, struct stream **behind)
{
    size_t count = 0;
    for (int turns = 0; turns < 2 && count == 0; turns++) {
        hub->turn += (uint64_t)turns; /* all that are behind had one in the last turn */
        for (struct stream *stream = hub->streams; stream != NULL && count < PAGES_OF_ROUND; stream = stream->next) {
            if (stream->phase == PHASE_BEHIND && stream->out.length == stream->out_sent && !stream->is_over &&
                stream->turn != hub->turn) {
                stream->turn = hub->turn;
                stream->is_read_for = true;
                behind[count++] = stream;
            }
        }
    }
    return count;
}

/* With the lock held. All of `out` was sent, or there is only what came beside: a sign of life. */
static void take_page(struct stream *stream, const struct stream_batch *batch)
{
    const struct stream_hub *hub = stream->hub;
    int64_t since_us = batch->is_settling ? 0 : batch->position.since_us;
    enum weir_status status = WEIR_OK;
    if (batch->is_reset) {
        stream_reset(stream, "gone");
        return;
    }
    for (size_t i = 0; i < batch->count && status == WEIR_OK; i++) {
        if (stream_filter_takes(&stream->filter, &batch->entries[i])) {
            status = stream_event_add(&stream->out, since_us, &batch->entries[i]);
        }
    }
    stream->position = batch->position;
    stream->is_over = stream->is_over || status != WEIR_OK;
    if (stream->position.since_us == hub->position.since_us && stream->position.number >= hub->ring.begin) {
        stream->phase = PHASE_ON_RING;
    }
    if (stream->out.length > stream->out_sent || stream->is_over || has_events(stream)) {
        stream_wake(stream);
    }
}

/* True: there are further pages to read now. */
static bool read_pages(struct stream_hub *hub)
{
    struct stream *behind[PAGES_OF_ROUND];
    bool is_over = false;
    (void)pthread_mutex_lock(&hub->lock);
    size_t count = hub->is_ready ? find_behind(hub, behind) : 0;
    for (size_t i = 0; i < count; i++) {
        struct stream *stream = behind[i];
        struct stream_position after = stream->position;
        struct stream_batch batch = {.count = 0};
        struct weir_error error = {.status = WEIR_OK};
        (void)pthread_mutex_unlock(&hub->lock);
        arena_reset(&hub->arena);
        enum weir_status status =
            is_over ? WEIR_TIMED_OUT : store_read_stream(hub->store, &after, PAGE_ENTRIES, &hub->arena, &batch, &error);
        (void)pthread_mutex_lock(&hub->lock);
        is_over = status != WEIR_OK; /* the store does not answer: the next round tries again */
        stream->is_read_for = false;
        if (stream->is_closed) {
            stream_free(stream);
        } else if (!is_over) {
            take_page(stream, &batch);
        }
    }
    (void)pthread_mutex_unlock(&hub->lock);
    return count > 0 && !is_over;
}

/* --- step 5 --- */

/* Also when the token has lost the workspace of the filter: it was deleted. */
static bool has_ended_token(const struct stream_hub *hub, const struct stream *stream)
{
    return stream->is_anonymous
               ? access_needs_token(hub->access, stream->is_of_machine)
               : access_find_again(hub->access, stream->secret, stream->filter.workspace_id) != ACCESS_GRANTED;
}

/* A client that sends no more counts as gone: the library does not look at a connection that sleeps. */
static void look_after_streams(struct stream_hub *hub)
{
    size_t count = 0;
    int64_t now_us = boot_now();
    if (now_us - hub->looked_us < LOOK_US) {
        return;
    }
    hub->looked_us = now_us;
    (void)pthread_mutex_lock(&hub->lock);
    for (const struct stream *stream = hub->streams; stream != NULL; stream = stream->next) {
        hub->sockets[count++] = (struct pollfd){.fd = stream->is_asleep ? stream->fd : -1, .events = POLLRDHUP};
    }
    int gone = poll(hub->sockets, (nfds_t)count, 0);
    count = 0;
    for (struct stream *stream = hub->streams; stream != NULL; stream = stream->next) {
        if (has_ended_token(hub, stream) || (gone > 0 && hub->sockets[count].revents != 0)) {
            stream_end(stream);
        } else if (stream->is_asleep && now_us - stream->written_us >= STREAM_KEEP_ALIVE_US) {
            stream->wants_life = true;
            stream_wake(stream);
        }
        count++;
    }
    (void)pthread_mutex_unlock(&hub->lock);
}

/* --- step 6 --- */

/* Waits for the store only if `watches`. True: the store has reported a change. */
static bool hub_wait(struct stream_hub *hub, int64_t most_us, bool watches)
{
    uint64_t count;
    int64_t again_us = TIME_NEVER;
    int store_fd = watches ? store_wake_fd(hub->store) : -1;
    if (store_fd >= 0 && store_wake_drain(hub->store, &again_us)) {
        return true;
    }
    int64_t wait_us = time_earlier(most_us, time_earlier(again_us, store_fd < 0 && watches ? POLL_US : TIME_NEVER));
    struct pollfd fds[2] = {{.fd = hub->wake_fd, .events = POLLIN}, {.fd = store_fd, .events = POLLIN}};
    int ready = poll(fds, store_fd >= 0 ? 2 : 1, wait_us == TIME_NEVER ? -1 : time_to_poll_ms(wait_us));
    if (ready > 0 && fds[0].revents != 0) {
        ssize_t taken = read(hub->wake_fd, &count, sizeof count);
        (void)taken; /* another thread does not read it */
    }
    return false;
}

/* Without streams: waits for one, of which *ret_due_us is the time. False: the hub ends. */
static bool hub_has_streams(struct stream_hub *hub, int64_t *ret_due_us)
{
    for (;;) {
        (void)pthread_mutex_lock(&hub->lock);
        bool is_ending = hub->is_ending;
        bool is_idle = hub->count == 0;
        if (is_idle) {
            hub->is_ready = false;
            hub->position = (struct stream_position){.since_us = 0};
            stream_ring_clear(&hub->ring, 0);
        }
        (void)pthread_mutex_unlock(&hub->lock);
        if (is_ending || !is_idle) {
            return !is_ending;
        }
        (void)hub_wait(hub, TIME_NEVER, false);
        *ret_due_us = boot_now();
    }
}

static void *run_stream_thread(void *context)
{
    struct stream_hub *hub = context;
    int64_t due_us = 0;
    bool at_once = true;
    while (hub_has_streams(hub, &due_us)) {
        if (boot_now() >= due_us) {
            due_us = read_changes(hub, &at_once);
        }
        bool has_pages = read_pages(hub);
        look_after_streams(hub);
        int64_t left_us = due_us - boot_now();
        if (!has_pages && left_us > 0 && hub_wait(hub, left_us, !at_once)) {
            due_us = boot_now();
        }
    }
    return NULL;
}

/* --- open and close --- */

/* Descriptors that streams cannot take. */
static size_t places_of_process(void)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t share = limit.rlim_cur / 8;
    return share < 2 ? 2 : share < HTTP_STREAMS_MAX ? (size_t)share : HTTP_STREAMS_MAX;
}

static enum weir_status start_stream_thread(struct stream_hub *hub, struct weir_error *error)
{
    int native = thread_start(&hub->thread, run_stream_thread, hub);
    hub->has_thread = native == 0;
    return native == 0 ? WEIR_OK
                       : error_set_native(error, WEIR_SYSTEM, native, "the system cannot start a thread for streams: %s",
                                          strerror(native));
}

enum weir_status stream_hub_open(struct access *access, const struct store *store, _Atomic uint64_t *ret_open,
                                 struct stream_hub **ret_hub, struct weir_error *error)
{
    INVARIANT(access != NULL && store != NULL && ret_open != NULL && ret_hub != NULL);
    struct stream_hub *hub = calloc(1, sizeof *hub);
    if (hub == NULL) {
        return error_out_of_memory(error);
    }
    (void)pthread_mutex_init(&hub->lock, NULL);
    arena_init(&hub->arena, READ_BYTES_MAX);
    hub->access = access;
    hub->turn = 1;
    hub->open = ret_open;
    hub->places = places_of_process();
    hub->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    enum weir_status status =
        hub->wake_fd < 0
            ? error_set_native(error, WEIR_SYSTEM, errno, "the system has no eventfd for streams: %s", strerror(errno))
            : store_open_again(store, &hub->store, error);
    if (status == WEIR_OK) {
        status = start_stream_thread(hub, error);
    }
    if (status != WEIR_OK) {
        stream_hub_close(hub);
        return status;
    }
    *ret_hub = hub;
    return WEIR_OK;
}

void stream_hub_cut(struct stream_hub *hub)
{
    if (hub == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&hub->lock);
    for (struct stream *stream = hub->streams; stream != NULL; stream = stream->next) {
        stream_end(stream);
    }
    (void)pthread_mutex_unlock(&hub->lock);
}

void stream_hub_end(struct stream_hub *hub)
{
    if (hub == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&hub->lock);
    hub->is_ending = true;
    (void)pthread_mutex_unlock(&hub->lock);
    stream_hub_cut(hub);
    hub_wake(hub);
    if (hub->has_thread) {
        (void)pthread_join(hub->thread, NULL);
        hub->has_thread = false;
    }
}

void stream_hub_close(struct stream_hub *hub)
{
    if (hub == NULL) {
        return;
    }
    INVARIANT(hub->streams == NULL && !hub->has_thread);
    store_close(hub->store);
    stream_ring_clear(&hub->ring, 0);
    arena_close(&hub->arena);
    if (hub->wake_fd >= 0) {
        (void)close(hub->wake_fd);
    }
    (void)pthread_mutex_destroy(&hub->lock);
    free(hub);
}
