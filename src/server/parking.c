/* One round of the thread:
 *
 *   1. Wait until something is parked, then for PARKING_POLL_US.
 *   2. Copy the list of the parked exchanges. Only this thread takes one out, so the copies stay valid without the lock.
 *   3. Ask the store which of the executions have not ended. When it does not answer, all of them count as living.
 *   4. Take out the exchanges whose execution has ended, whose time has come, or whose client has gone, and give them back.
 *      The library does not look at a connection that sleeps.
 *
 * The round never answers a request itself: the handler does, with the checks that it makes of every request. */
#include "server/parking.h"

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

struct parking {
    struct store *store;
    parking_return *give_back;
    void *context;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool is_ending;
    size_t places;
    size_t count;
    struct exchange *parked[HTTP_PARKED_MAX];
    int64_t token_ids[HTTP_PARKED_MAX]; /* of `parked`; 0 = none */
    /* Of the present round. */
    struct exchange *waiting[HTTP_PARKED_MAX];
    const char *ids[HTTP_PARKED_MAX];
    bool is_living[HTTP_PARKED_MAX];
    struct pollfd sockets[HTTP_PARKED_MAX];
};

_Static_assert((int)HTTP_PARKED_MAX <= (int)LIVING_IDS_MOST, "one query finds the living ones of all");

/* With the lock held. */
static size_t count_parked_of(const struct parking *parking, int64_t token_id)
{
    size_t count = 0;
    for (size_t i = 0; i < parking->count; i++) {
        count += parking->token_ids[i] == token_id;
    }
    return count;
}

/* An exchange that is added during a round waits for the next one. The thread is woken only for the first: it sleeps
 * without a time when nothing is parked. */
enum parking_answer parking_add(struct parking *parking, struct exchange *exchange)
{
    INVARIANT(parking != NULL && exchange->answer.awaits != NULL);
    const struct principal *principal = exchange->request.principal;
    int64_t token_id = principal != NULL ? principal->token_id : 0;
    enum parking_answer answer = PARKING_ADDED;
    (void)pthread_mutex_lock(&parking->lock);
    if (parking->is_ending) {
        answer = PARKING_ENDED;
    } else if (parking->count >= parking->places) {
        answer = PARKING_FULL;
    } else if (token_id != 0 && count_parked_of(parking, token_id) >= parking->places / 2) {
        answer = PARKING_TOKEN_FULL;
    } else {
        parking->token_ids[parking->count] = token_id;
        parking->parked[parking->count++] = exchange;
        (void)pthread_cond_signal(&parking->changed);
    }
    (void)pthread_mutex_unlock(&parking->lock);
    return answer;
}

/* Steps 1 and 2. The number of exchanges of this round; 0: the parking ends. */
static size_t parking_begin_round(struct parking *parking)
{
    (void)pthread_mutex_lock(&parking->lock);
    while (parking->count == 0 && !parking->is_ending) {
        (void)pthread_cond_wait(&parking->changed, &parking->lock);
    }
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(PARKING_POLL_US * 1000);
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    while (!parking->is_ending && pthread_cond_timedwait(&parking->changed, &parking->lock, &until) == 0) {
    }
    size_t count = parking->is_ending ? 0 : parking->count;
    memcpy(parking->waiting, parking->parked, count * sizeof parking->waiting[0]);
    (void)pthread_mutex_unlock(&parking->lock);
    return count;
}

/* Step 3. */
static void find_ends(struct parking *parking, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        parking->ids[i] = parking->waiting[i]->answer.awaits;
    }
    if (store_find_living(parking->store, parking->ids, count, parking->is_living, NULL) != WEIR_OK) {
        memset(parking->is_living, 1, count * sizeof parking->is_living[0]);
    }
}

/* Step 4. A client that sends no more counts as gone: then its answer comes now. */
static void parking_find_gone(struct parking *parking, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        parking->sockets[i] = (struct pollfd){.fd = parking->waiting[i]->entry->fd, .events = POLLRDHUP};
    }
    if (poll(parking->sockets, (nfds_t)count, 0) > 0) {
        for (size_t i = 0; i < count; i++) {
            if (parking->sockets[i].revents != 0) {
                parking->is_living[i] = false;
                parking->waiting[i]->request.arrived_us = LONG_AGO_US; /* its handler must not wait again */
            }
        }
    }
}

/* Step 4. The list of this round is the beginning of the list of now. */
static void give_back_ended(struct parking *parking, size_t count)
{
    int64_t now_us = clock_boot(clock_system());
    size_t back = 0;
    size_t kept = 0;
    (void)pthread_mutex_lock(&parking->lock);
    for (size_t i = 0; i < parking->count; i++) {
        struct exchange *exchange = parking->parked[i];
        bool is_over = i < count && (!parking->is_living[i] || now_us >= exchange->answer.wait_until_us);
        if (is_over) {
            parking->waiting[back++] = exchange;
        } else {
            parking->token_ids[kept] = parking->token_ids[i];
            parking->parked[kept++] = exchange;
        }
    }
    parking->count = kept;
    (void)pthread_mutex_unlock(&parking->lock);
    for (size_t i = 0; i < back; i++) {
        parking->give_back(parking->context, parking->waiting[i]);
    }
}

static void *run_parking_thread(void *context)
{
    struct parking *parking = context;
    size_t count;
    while ((count = parking_begin_round(parking)) > 0) {
        find_ends(parking, count);
        parking_find_gone(parking, count);
        give_back_ended(parking, count);
    }
    for (size_t i = 0; i < parking->count; i++) { /* nothing is added any more */
        parking->give_back(parking->context, parking->parked[i]);
    }
    return NULL;
}

enum weir_status parking_open(const struct store *store, size_t places, parking_return *give_back, void *context,
                              struct parking **ret_parking, struct weir_error *error)
{
    INVARIANT(store != NULL && give_back != NULL && ret_parking != NULL);
    struct parking *parking = calloc(1, sizeof *parking);
    if (parking == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = store_open_again(store, &parking->store, error);
    if (status != WEIR_OK) {
        free(parking);
        return status;
    }
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&parking->lock, NULL);
    (void)pthread_cond_init(&parking->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    parking->places = places < 2 ? 2 : places < HTTP_PARKED_MAX ? places : HTTP_PARKED_MAX;
    parking->give_back = give_back;
    parking->context = context;
    int native = pthread_create(&parking->thread, NULL, run_parking_thread, parking);
    if (native != 0) {
        parking_close(parking);
        return error_set_native(error, WEIR_SYSTEM, native, "the system cannot start a thread for HTTP: %s",
                                strerror(native));
    }
    *ret_parking = parking;
    return WEIR_OK;
}

void parking_end(struct parking *parking)
{
    if (parking == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&parking->lock);
    parking->is_ending = true;
    (void)pthread_cond_signal(&parking->changed);
    (void)pthread_mutex_unlock(&parking->lock);
    (void)pthread_join(parking->thread, NULL);
}

void parking_close(struct parking *parking)
{
    if (parking != NULL) {
        store_close(parking->store);
        (void)pthread_cond_destroy(&parking->changed);
        (void)pthread_mutex_destroy(&parking->lock);
        free(parking);
    }
}
