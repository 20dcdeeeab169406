/* Looking up host names without blocking: a thread per lookup, which ends with it.
 *
 * getaddrinfo() can take minutes and cannot be stopped. So a lookup that takes longer than its deadline is reported as
 * failed and goes on; no second one is begun while it runs, and its late result is taken. Closing leaves a running
 * thread to itself: it owns its half of the job and touches nothing else.
 */
#ifndef WEIR_GRPC_RESOLVER_H
#define WEIR_GRPC_RESOLVER_H

#include <stdbool.h>

#include "grpc/target.h"

struct lookup_job;

struct resolver {
    const struct targets *targets; /* borrowed */
    grpc_lookup *lookup;
    void (*lookup_free)(struct addrinfo *addresses);
    int fd; /* readable when a lookup has ended */
    struct lookup_job *job;
    bool overdue; /* the deadline of `job` has passed and was reported */
    int64_t deadline_us;
};

/* WEIR_SYSTEM when the fd cannot be made. `lookup` NULL: the system's. */
WEIR_MUST_CHECK enum weir_status grpc_resolver_open(struct resolver *resolver, const struct targets *targets,
                                                    grpc_lookup *lookup, void (*lookup_free)(struct addrinfo *addresses),
                                                    struct weir_error *error);
void grpc_resolver_close(struct resolver *resolver);

bool grpc_resolver_is_running(const struct resolver *resolver);
/* Begins a lookup; no effect while one runs. Addresses that need none (IP addresses) take the same way. */
WEIR_MUST_CHECK enum weir_status grpc_resolver_start(struct resolver *resolver, int64_t now_us, struct weir_error *error);

enum resolver_news {
    RESOLVER_NOTHING,
    RESOLVER_FOUND, /* at least one address; names that were not found are left out */
    RESOLVER_FAILED /* `error` names the host and the reason, or that it takes too long (reported once) */
};
enum resolver_news grpc_resolver_take(struct resolver *resolver, int64_t now_us, struct addresses *ret_addresses,
                                      struct weir_error *error);
/* When to call grpc_resolver_take() though the fd is quiet; TIME_NEVER: not. */
int64_t grpc_resolver_due(const struct resolver *resolver);

#endif
