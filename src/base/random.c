/* Pseudo-random numbers for jitter, not for secrets. The owner of a struct random is one thread at a time.
 *
 * SplitMix64 has 64 bits of state, so a seed replays a whole test run. random_below() multiplies instead of dividing: its
 * bias is below 2^-64 * `below`, which does not matter for delays. The seed of the system falls back to the clock, never
 * waits.
 */
#include "base/random.h"

#include <sys/random.h>
#include <time.h>

void random_seed(struct random *random, uint64_t seed)
{
    random->state = seed;
}

void random_seed_from_system(struct random *random)
{
    if (getrandom(&random->state, sizeof random->state, GRND_NONBLOCK) != (ssize_t)sizeof random->state) {
        struct timespec now = {0, 0};
        (void)clock_gettime(CLOCK_BOOTTIME, &now);
        random->state = (uint64_t)now.tv_nsec ^ ((uint64_t)now.tv_sec << 20);
    }
}

/* SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014). */
uint64_t random_next(struct random *random)
{
    uint64_t z = (random->state += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

uint64_t random_below(struct random *random, uint64_t below)
{
    return below == 0 ? 0 : (uint64_t)(((unsigned __int128)random_next(random) * below) >> 64);
}
