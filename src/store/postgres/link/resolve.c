/* Resolves a host name within a deadline.
 *
 * getaddrinfo() cannot be interrupted and waits as long as the name servers like. So a detached thread calls it, and the
 * caller waits on a condition until its deadline. The question has two references: a caller that gives up leaves it to the
 * thread, which frees it when the resolver answers. An address needs neither.
 *
 * This file never keeps an answer for later calls: after a failover the name may have another address. Any thread. */
#include "store/postgres/link/resolve.h"

#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "base/thread.h"

/* One look-up, shared by the caller and the thread. The side that leaves last frees it. */
struct question {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    bool done;
    int references;
    int code;
    struct resolved resolved;
    char host[256];
};

static void question_release(struct question *question)
{
    (void)pthread_mutex_lock(&question->lock);
    bool last = --question->references == 0;
    (void)pthread_mutex_unlock(&question->lock);
    if (last) {
        (void)pthread_cond_destroy(&question->answered);
        (void)pthread_mutex_destroy(&question->lock);
        free(question);
    }
}

static void copy_addresses(const struct addrinfo *from, struct resolved *to)
{
    for (; from != NULL && to->count < RESOLVED_MOST; from = from->ai_next) {
        if (getnameinfo(from->ai_addr, from->ai_addrlen, to->addresses[to->count], RESOLVED_TEXT_MAX, NULL, 0,
                        NI_NUMERICHOST) == 0) {
            to->count++;
        }
    }
}

/* Returns the code of getaddrinfo(). */
static int ask_system(const char *host, int flags, struct resolved *to)
{
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *found = NULL;
    *to = (struct resolved){.count = 0};
    int code = getaddrinfo(host, NULL, &wanted, &found);
    if (code == 0) {
        copy_addresses(found, to);
        freeaddrinfo(found);
    }
    return code;
}

/* The thread. It may end long after the caller has left. */
static void *run_resolver(void *argument)
{
    struct question *question = argument;
    struct resolved resolved;
    int code = ask_system(question->host, 0, &resolved);
    (void)pthread_mutex_lock(&question->lock);
    question->resolved = resolved;
    question->code = code;
    question->done = true;
    (void)pthread_cond_signal(&question->answered);
    (void)pthread_mutex_unlock(&question->lock);
    question_release(question);
    return NULL;
}

static struct question *question_open(const char *host)
{
    struct question *question = calloc(1, sizeof *question);
    if (question == NULL) {
        return NULL;
    }
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&question->answered, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    (void)pthread_mutex_init(&question->lock, NULL);
    text_copy(question->host, sizeof question->host, host);
    question->references = 1;
    return question;
}

static bool start_resolver(struct question *question)
{
    question->references = 2;
    bool started = thread_start_detached(run_resolver, question) == 0;
    if (!started) { /* else the thread may be about to change it */
        question->references = 1;
    }
    return started;
}

/* False: no answer before `until_us`. */
static bool await_answer_of_resolver(struct question *question, int64_t until_us)
{
    struct timespec end;
    int64_t left_us = until_us - clock_boot(clock_system());
    left_us = left_us < 0 ? 0 : left_us;
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += left_us / MICROSECONDS_PER_SECOND;
    end.tv_nsec += (long)(left_us % MICROSECONDS_PER_SECOND) * 1000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    (void)pthread_mutex_lock(&question->lock);
    int code = 0;
    while (!question->done && code == 0) {
        code = pthread_cond_timedwait(&question->answered, &question->lock, &end);
    }
    bool done = question->done;
    (void)pthread_mutex_unlock(&question->lock);
    return done;
}

enum weir_status resolve_name(const char *host, int64_t until_us, struct resolved *ret_resolved, struct weir_error *error)
{
    INVARIANT(host != NULL && ret_resolved != NULL);
    if (ask_system(host, AI_NUMERICHOST, ret_resolved) == 0) { /* an address: no name server is asked */
        return WEIR_OK;
    }
    struct question *question = question_open(host);
    if (question == NULL) {
        return error_out_of_memory(error);
    }
    enum weir_status status = WEIR_OK;
    if (!start_resolver(question)) {
        status = error_set(error, WEIR_SYSTEM, "the system cannot start a thread for the look-up of the host name");
    } else if (!await_answer_of_resolver(question, until_us)) {
        status = error_set(error, WEIR_STORE_UNREACHABLE, "the host \"%s\" could not be looked up in time", host);
        error_hint(error, "check the name servers of this machine, or write the server's address in the URL");
    } else if (question->code != 0 || question->resolved.count == 0) {
        status = error_set(error, WEIR_STORE_UNREACHABLE, "the host \"%s\" is not known: %s", host,
                           gai_strerror(question->code));
        error_hint(error, "check the host of the store's URL");
    } else {
        *ret_resolved = question->resolved;
    }
    question_release(question);
    return status;
}
