/* A seed for tests that draw at random: printed, and replayed with WEIR_TEST_SEED=N. And how much they draw. */
#ifndef WEIR_TESTS_SUPPORT_SEED_H
#define WEIR_TESTS_SUPPORT_SEED_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"

static inline void test_seed(struct random *random, const char *test_name)
{
    const char *given = getenv("WEIR_TEST_SEED");
    random_seed_from_system(random);
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : random_next(random) >> 1;
    random_seed(random, seed);
    (void)fprintf(stderr, "# %s: WEIR_TEST_SEED=%" PRIu64 "\n", test_name, seed);
}

/* `./dev check campaigns` asks for more than `./dev test` has the time for. */
static inline bool test_is_long(void)
{
    return getenv("WEIR_TEST_LONG") != NULL;
}

#endif
