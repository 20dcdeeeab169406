/* The delay before the next run, and whether there is one. Pure functions of their arguments, callable in any thread.
 *
 * The delay doubles (times `factor`) with each failed run up to its maximum. Its last fifth is random: items that failed
 * together, for example by an outage, do not come back together. Counts come from rows of a store: a negative one counts
 * as 0.
 */
#include "queue/retry.h"

#include "base/error.h"

bool retry_allows(const struct retry_policy *policy, int attempts_made)
{
    INVARIANT(policy != NULL);
    return attempts_made < policy->attempts_max;
}

int64_t retry_delay(const struct retry_policy *policy, int attempts_made, struct random *random)
{
    INVARIANT(policy != NULL && random != NULL);
    double delay = (double)policy->backoff_us;
    for (int i = 1; i < attempts_made && delay < (double)policy->max_us; i++) {
        delay *= policy->factor;
    }
    int64_t delay_us = delay < (double)policy->max_us ? (int64_t)delay : policy->max_us;
    if (delay_us <= 0) {
        return 0;
    }
    return delay_us - (int64_t)random_below(random, (uint64_t)delay_us / 5 + 1);
}
