#include "queue/retry.h"

bool retry_allows(const struct retry_policy *policy, int attempts_made)
{
    return attempts_made < policy->attempts_max;
}

int64_t retry_delay(const struct retry_policy *policy, int attempts_made, struct random *random)
{
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
