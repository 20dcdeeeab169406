/* One round of the thread:
 *
 *   1. Wait until a request is held, then for HELD_POLL_US.
 *   2. Copy the list of the held exchanges. Only this thread takes one out, so the copies stay valid without the lock.
 *   3. Ask the store which of the executions have not ended. When it does not answer, all of them count as living.
 *   4. Take out the exchanges that are over, and give them back: their execution has ended, their time has come, or their
 *      client has gone. The library does not look at a connection that sleeps.
 *
 * The round never answers a request itself: the handler does, with the checks that it makes of every request. */
#include "server/held_requests.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "server/access.h"
#include "server/exchange.h"

/* Before every time of the boot clock, with any time to wait added. */
#define LONG_AGO_US (INT64_MIN / 2)

struct held_requests {
    struct store *store;
    held_request_return *give_back;
    void *context;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool is_ending;
    size_t places;
    size_t count;
    struct exchange *exchanges[HTTP_HELD_MAX];
    int64_t token_ids[HTTP_HELD_MAX]; /* of `exchanges`; 0 = none */
    /* Of the present round. */
    struct exchange *waiting[HTTP_HELD_MAX];
    const char *ids[HTTP_HELD_MAX];
    bool is_living[HTTP_HELD_MAX];
    struct pollfd sockets[HTTP_HELD_MAX];
};

_Static_assert((int)HTTP_HELD_MAX <= (int)LIVING_IDS_MOST, "one query finds the living ones of all");

/* With the lock held. */
static size_t count_held_of(const struct held_requests *held, int64_t token_id)
{
    size_t count = 0;
    for (size_t i = 0; i < held->count; i++) {
        count += held->token_ids[i] == token_id;
    }
    return count;
}

/* An exchange that is added during a round waits for the next one. The thread is woken only for the first: it sleeps
 * without a time when none is held. */
enum hold_answer held_requests_add(struct held_requests *held, struct exchange *exchange)
{
    INVARIANT(held != NULL && exchange->answer.awaits != NULL);
    const struct principal *principal = exchange->request.principal;
    int64_t token_id = principal != NULL ? principal->token_id : 0;
    enum hold_answer answer = HOLD_ADDED;
    (void)pthread_mutex_lock(&held->lock);
    if (held->is_ending) {
        answer = HOLD_ENDED;
    } else if (held->count >= held->places) {
        answer = HOLD_FULL;
    } else if (token_id != 0 && count_held_of(held, token_id) >= held->places / 2) {
        answer = HOLD_TOKEN_FULL;
    } else {
        held->token_ids[held->count] = token_id;
        held->exchanges[held->count++] = exchange;
        (void)pthread_cond_signal(&held->changed);
    }
    (void)pthread_mutex_unlock(&held->lock);
    return answer;
}

/* Steps 1 and 2. The number of exchanges of this round; 0: the thread ends. */
static size_t held_begin_round(struct held_requests *held)
{
    (void)pthread_mutex_lock(&held->lock);
    while (held->count == 0 && !held->is_ending) {
        (void)pthread_cond_wait(&held->changed, &held->lock);
    }
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(HELD_POLL_US * 1000);
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    while (!held->is_ending && pthread_cond_timedwait(&held->changed, &held->lock, &until) == 0) {
    }
    size_t count = held->is_ending ? 0 : held->count;
    memcpy(held->waiting, held->exchanges, count * sizeof held->waiting[0]);
    (void)pthread_mutex_unlock(&held->lock);
    return count;
}

/* Step 3. */
static void find_ends(struct held_requests *held, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        held->ids[i] = held->waiting[i]->answer.awaits;
    }
    if (store_find_living(held->store, held->ids, count, held->is_living, NULL) != WEIR_OK) {
        memset(held->is_living, 1, count * sizeof held->is_living[0]);
    }
}

/* Step 4. A client that sends no more counts as gone: then its answer comes now. */
static void held_find_gone(struct held_requests *held, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        held->sockets[i] = (struct pollfd){.fd = held->waiting[i]->entry->fd, .events = POLLRDHUP};
    }
    if (poll(held->sockets, (nfds_t)count, 0) > 0) {
        for (size_t i = 0; i < count; i++) {
            if (held->sockets[i].revents != 0) {
                held->is_living[i] = false;
                held->waiting[i]->request.arrived_us = LONG_AGO_US; /* its handler must not wait again */
            }
        }
    }
}

/* Step 4. The list of this round is the beginning of the list of now. */
static void give_back_ended(struct held_requests *held, size_t count)
{
    int64_t now_us = clock_boot(clock_system());
    size_t back = 0;
    size_t kept = 0;
    (void)pthread_mutex_lock(&held->lock);
    for (size_t i = 0; i < held->count; i++) {
        struct exchange *exchange = held->exchanges[i];
        bool is_over = i < count && (!held->is_living[i] || now_us >= exchange->answer.wait_until_us);
        if (is_over) {
            held->waiting[back++] = exchange;
        } else {
            held->token_ids[kept] = held->token_ids[i];
            held->exchanges[kept++] = exchange;
        }
    }
    held->count = kept;
    (void)pthread_mutex_unlock(&held->lock);
    for (size_t i = 0; i < back; i++) {
        held->give_back(held->context, held->waiting[i]);
    }
}

static void *run_held_requests(void *context)
{
    struct held_requests *held = context;
    size_t count;
    while ((count = held_begin_round(held)) > 0) {
        find_ends(held, count);
        held_find_gone(held, count);
        give_back_ended(held, count);
    }
    for (size_t i = 0; i < held->count; i++) { /* nothing is added any more */
        held->give_back(held->context, held->exchanges[i]);
    }
    return NULL;
}

enum weir_status held_requests_open(const struct store *store, size_t places, held_request_return *give_back, void *context,
                                    struct held_requests **ret_held, struct weir_error *error)
{
    INVARIANT(store != NULL && give_back != NULL && ret_held != NULL);
    struct held_requests *held = calloc(1, sizeof *held);
    if (held == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = store_open_again(store, &held->store, error);
    if (status != WEIR_OK) {
        free(held);
        return status;
    }
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&held->lock, NULL);
    (void)pthread_cond_init(&held->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    held->places = places < 2 ? 2 : places < HTTP_HELD_MAX ? places : HTTP_HELD_MAX;
    held->give_back = give_back;
    held->context = context;
    int native = pthread_create(&held->thread, NULL, run_held_requests, held);
    if (native != 0) {
        held_requests_close(held);
        return error_set_native(error, WEIR_SYSTEM, native, "the system cannot start a thread for HTTP: %s",
                                strerror(native));
    }
    *ret_held = held;
    return WEIR_OK;
}

void held_requests_end(struct held_requests *held)
{
    if (held == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&held->lock);
    held->is_ending = true;
    (void)pthread_cond_signal(&held->changed);
    (void)pthread_mutex_unlock(&held->lock);
    (void)pthread_join(held->thread, NULL);
}

void held_requests_close(struct held_requests *held)
{
    if (held != NULL) {
        store_close(held->store);
        (void)pthread_cond_destroy(&held->changed);
        (void)pthread_mutex_destroy(&held->lock);
        free(held);
    }
}
