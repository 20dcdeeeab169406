/* The rate limit of a fake service: a bucket of tokens with a second's burst. One thread. */
#ifndef WEIR_TESTS_SUPPORT_FAKE_BUCKET_H
#define WEIR_TESTS_SUPPORT_FAKE_BUCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

struct fake_bucket {
    double limit; /* a second; 0: none */
    double tokens;
    int64_t tokens_us;
    size_t refused; /* how often it was empty */
};

static inline void fake_bucket_set(struct fake_bucket *bucket, double limit, int64_t now_us)
{
    *bucket = (struct fake_bucket){.limit = limit, .tokens = limit, .tokens_us = now_us};
}

/* False: it is empty. */
static inline bool fake_bucket_take(struct fake_bucket *bucket, int64_t now_us)
{
    double more = bucket->limit * (double)(now_us - bucket->tokens_us) / (double)MICROSECONDS_PER_SECOND;
    double tokens = bucket->tokens + more;
    bucket->tokens = tokens < bucket->limit ? tokens : bucket->limit;
    bucket->tokens_us = now_us;
    if (bucket->limit > 0 && bucket->tokens < 1) {
        bucket->refused++;
        return false;
    }
    bucket->tokens -= 1;
    return true;
}

#endif
