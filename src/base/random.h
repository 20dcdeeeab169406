/* Random numbers that a seed replays: jitter, shuffles, simulation. Not for secrets or ids. */
#ifndef WEIR_BASE_RANDOM_H
#define WEIR_BASE_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state;
};

void random_seed(struct random *random, uint64_t seed);
/* From the system's entropy. */
void random_seed_from_system(struct random *random);
uint64_t random_next(struct random *random);
/* Uniform in [0, below); 0 when below is 0. */
uint64_t random_below(struct random *random, uint64_t below);

#endif
