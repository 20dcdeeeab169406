/* Name lookups in a thread each, because getaddrinfo() may block for minutes and cannot be stopped.
 *
 *   thread of the client                     lookup thread
 *   start: job with 2 holders  ----------->  getaddrinfo() for each target
 *                                            ended = true, write the eventfd
 *   take: read the result      <-----------
 *   release                                  release: the last holder frees the job
 *
 * The job has its own copy of the targets and of the eventfd, so the client may be closed while the thread still runs. The
 * thread touches the job alone. Numeric targets are resolved at once in the thread of the client, without waiting.
 */
#include "grpc/resolver.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/thread.h"

/* Shared by the thread and the resolver; the last holder frees it. The resolver reads the result after `ended` was set. */
struct lookup_job {
    atomic_int holders;
    atomic_bool ended;
    int fd; /* a copy of its own, so that closing the resolver is safe */
    struct targets targets;
    grpc_lookup *lookup;
    void (*lookup_free)(struct addrinfo *addresses);
    struct addresses found;
    int failure; /* of the first name that was not found */
    int failure_errno;
    size_t failed_target;
};

/* The thread and the resolver each hold the job once. */
static void release_job(struct lookup_job *job)
{
    if (atomic_fetch_sub(&job->holders, 1) == 1) {
        (void)close(job->fd);
        free(job);
    }
}

/* Names that are not found are left out; the first failure is kept for the message. */
static void look_up(struct lookup_job *job)
{
    for (size_t i = 0; i < job->targets.count; i++) {
        const struct target *target = &job->targets.list[i];
        struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                 .ai_socktype = SOCK_STREAM,
                                 .ai_flags = AI_NUMERICSERV | (target->is_numeric ? AI_NUMERICHOST : 0)};
        struct addrinfo *found = NULL;
        int failure = job->lookup(target->host, target->port, &hints, &found);
        if (failure == 0) {
            grpc_addresses_add(&job->found, found, i);
            job->lookup_free(found);
        } else if (job->failure == 0) {
            job->failure = failure;
            job->failure_errno = errno;
            job->failed_target = i;
        }
    }
}

static void *run_lookup(void *context)
{
    struct lookup_job *job = context;
    uint64_t one = 1;
    look_up(job);
    atomic_store(&job->ended, true);
    ssize_t written = write(job->fd, &one, sizeof one);
    (void)written; /* the counter of an eventfd cannot be full here */
    release_job(job);
    return NULL;
}

enum weir_status grpc_resolver_open(struct resolver *resolver, const struct targets *targets, grpc_lookup *lookup,
                                    void (*lookup_free)(struct addrinfo *addresses), struct weir_error *error)
{
    INVARIANT(targets != NULL && (lookup == NULL || lookup_free != NULL));
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        return error_set_native(error, WEIR_SYSTEM, errno, "cannot make an eventfd: %s", strerror(errno));
    }
    *resolver = (struct resolver){.targets = targets,
                                  .lookup = lookup != NULL ? lookup : getaddrinfo,
                                  .lookup_free = lookup != NULL ? lookup_free : freeaddrinfo,
                                  .fd = fd,
                                  .deadline_us = TIME_NEVER};
    return WEIR_OK;
}

void grpc_resolver_close(struct resolver *resolver)
{
    if (resolver->job != NULL) {
        release_job(resolver->job);
    }
    (void)close(resolver->fd);
    *resolver = (struct resolver){.fd = -1};
}

bool grpc_resolver_is_running(const struct resolver *resolver)
{
    return resolver->job != NULL;
}

enum weir_status grpc_resolver_start(struct resolver *resolver, int64_t now_us, struct weir_error *error)
{
    INVARIANT(resolver->fd >= 0);
    if (resolver->job != NULL) {
        return WEIR_OK;
    }
    struct lookup_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return error_out_of_memory(error);
    }
    job->fd = fcntl(resolver->fd, F_DUPFD_CLOEXEC, 0);
    if (job->fd < 0) {
        int native = errno;
        free(job);
        return error_set_native(error, WEIR_SYSTEM, native, "cannot copy a file descriptor: %s", strerror(native));
    }
    atomic_init(&job->holders, 2);
    atomic_init(&job->ended, false);
    job->targets = *resolver->targets;
    job->lookup = resolver->lookup;
    job->lookup_free = resolver->lookup_free;
    int failure = 0;
    if (grpc_targets_are_numeric(&job->targets)) {
        (void)run_lookup(job); /* a numeric address needs no lookup */
    } else {
        failure = thread_start_detached(run_lookup, job);
    }
    if (failure != 0) {
        (void)close(job->fd);
        free(job);
        return error_set_native(error, WEIR_SYSTEM, failure, "cannot start a thread for a name lookup: %s",
                                strerror(failure));
    }
    resolver->job = job;
    resolver->overdue = false;
    resolver->deadline_us = time_add(now_us, GRPC_LOOKUP_TIMEOUT_US);
    return WEIR_OK;
}

static void describe_lookup_failure(const struct lookup_job *job, struct weir_error *error)
{
    const struct target *target = &job->targets.list[job->failed_target];
    (void)error_set_native(error, WEIR_ENGINE_UNREACHABLE, job->failure, "the host \"%s\" has no address: %s", target->host,
                           job->failure == EAI_SYSTEM ? strerror(job->failure_errno)
                           : job->failure == 0        ? "none of IPv4 or IPv6"
                                                      : gai_strerror(job->failure));
    error_hint(error, "check the spelling of the address, and that this machine's name lookup works: getent hosts %s",
               target->host);
}

enum resolver_news grpc_resolver_take(struct resolver *resolver, int64_t now_us, struct addresses *ret_addresses,
                                      struct weir_error *error)
{
    INVARIANT(ret_addresses != NULL && error != NULL);
    struct lookup_job *job = resolver->job;
    /* Also without a job: a thread that was released may have written later. */
    uint64_t count = 0;
    ssize_t got = read(resolver->fd, &count, sizeof count);
    (void)got;
    if (job == NULL) {
        return RESOLVER_NOTHING;
    }
    if (!atomic_load(&job->ended)) {
        if (now_us < resolver->deadline_us || resolver->overdue) {
            return RESOLVER_NOTHING;
        }
        resolver->overdue = true;
        (void)error_set(error, WEIR_ENGINE_UNREACHABLE, "looking up \"%s\" takes longer than %d s",
                        resolver->targets->list[0].host, (int)(GRPC_LOOKUP_TIMEOUT_US / MICROSECONDS_PER_SECOND));
        error_hint(error, "check that this machine's name servers answer: getent hosts %s",
                   resolver->targets->list[0].host);
        return RESOLVER_FAILED;
    }
    resolver->job = NULL;
    resolver->deadline_us = TIME_NEVER;
    bool found = job->found.count > 0;
    if (found) {
        *ret_addresses = job->found;
    } else {
        describe_lookup_failure(job, error);
    }
    release_job(job);
    return found ? RESOLVER_FOUND : RESOLVER_FAILED;
}

int64_t grpc_resolver_due(const struct resolver *resolver)
{
    return resolver->job != NULL && !resolver->overdue ? resolver->deadline_us : TIME_NEVER;
}
