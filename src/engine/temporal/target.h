/* The identity of the service (target.c). The loop owns it; `target` is shared under the engine's lock. */
#ifndef WEIR_ENGINE_TEMPORAL_TARGET_H
#define WEIR_ENGINE_TEMPORAL_TARGET_H

#include <stdatomic.h>

#include "engine/engine.h"

struct temporal;
struct call;
struct grpc_result;

#define TARGET_RETRY_US (250 * MICROSECONDS_PER_MS)

struct service_target {
    struct engine_target target;          /* under the engine's lock */
    char service[TARGET_SERVICE_MAX + 1]; /* "": not known yet */
    atomic_bool is_wanted;
    atomic_bool is_known;
    bool is_examined; /* each connection is examined */
    int64_t due_us;
    struct call *call;
};

/* Requests the identity while it is wanted and not known; returns when it wants to be called again. */
int64_t target_step(struct temporal *engine, int64_t now_us);
enum target_match {
    TARGET_MATCHES,   /* also while the identity is not known */
    TARGET_DIFFERS,   /* the error has both ids, and what to do */
    TARGET_UNREADABLE /* the answer does not say */
};
/* Compares an answer to DescribeNamespace, of any outcome, with the identity. */
enum target_match target_compare(const struct temporal *engine, const struct grpc_result *result, struct weir_error *error);
/* Any thread. False: the identity is not known yet, and wanted from now on. */
bool target_get(struct temporal *engine, struct engine_target *ret_target);

#endif
