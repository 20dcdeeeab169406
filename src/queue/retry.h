/* The decision after a refused start or a failed step: again later, or give up. Pure; any thread. */
#ifndef WEIR_QUEUE_RETRY_H
#define WEIR_QUEUE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"

struct retry_policy {
    int attempts_max;   /* runs in all, at least 1 */
    int64_t backoff_us; /* before the second run */
    double factor;      /* each later delay is this many times the one before; at least 1 */
    int64_t max_us;     /* no delay is longer */
};

/* True when `attempts_made` runs leave one more. attempts_max 3 means exactly three runs (the old algorithm made four). */
bool retry_allows(const struct retry_policy *policy, int attempts_made);
/* The delay after the n-th failed run (n from 1): backoff x factor^(n-1), at most max_us. The last fifth of it is
 * random, so that items which failed together do not come back together. Never negative. */
int64_t retry_delay(const struct retry_policy *policy, int attempts_made, struct random *random);

#endif
