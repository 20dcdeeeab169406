/* The states of the circuit breaker. The node's threads call it under the lock of the node; it has no lock and no clock.
 *
 *             3 unreachable in a row, or the engine reports it          delay over, one start
 *   CLOSED ------------------------------------------------> OPEN ------------------------> PROBING
 *      ^                                                      ^ unreachable: twice the delay   |
 *      |                                                      +--------------------------------+
 *      +------------------------------------------- reached -----------------------------------+
 *
 * While the breaker is open, an unreachable start changes nothing: several starts are under way when it opens, and their
 * late answers must not lengthen the delay. A start that reaches the engine closes it in every state.
 */
#include "queue/breaker.h"

#include "base/clock.h"
#include "base/error.h"

void breaker_init(struct breaker *breaker)
{
    INVARIANT(breaker != NULL);
    *breaker = (struct breaker){.state = BREAKER_CLOSED, .delay_us = BREAKER_FIRST_DELAY_US};
}

int64_t breaker_peek_starts(const struct breaker *breaker, int64_t wanted, int64_t now_us)
{
    if (breaker->state == BREAKER_CLOSED) {
        return wanted;
    }
    /* A probe without an answer does not block the next one for longer than BREAKER_SILENCE_US. */
    return now_us < breaker->retry_at_us || wanted <= 0 ? 0 : 1;
}

int64_t breaker_take_starts(struct breaker *breaker, int64_t wanted, int64_t now_us)
{
    INVARIANT(breaker != NULL);
    int64_t starts = breaker_peek_starts(breaker, wanted, now_us);
    if (breaker->state != BREAKER_CLOSED && starts > 0) {
        breaker->state = BREAKER_PROBING;
        breaker->retry_at_us = time_add(now_us, BREAKER_SILENCE_US);
    }
    return starts;
}

bool breaker_unreachable(struct breaker *breaker, int64_t now_us, struct random *random)
{
    INVARIANT(breaker != NULL && random != NULL && breaker->delay_us > 0);
    bool opened = false;
    breaker->unreachable_in_a_row++;
    if (breaker->state == BREAKER_CLOSED) {
        if (breaker->unreachable_in_a_row < BREAKER_OPENS_AFTER) {
            return false;
        }
        breaker->opened_at_us = now_us;
        breaker->delay_us = BREAKER_FIRST_DELAY_US;
        opened = true;
    } else if (breaker->state == BREAKER_PROBING) {
        breaker->delay_us = breaker->delay_us * 2 > BREAKER_MAX_DELAY_US ? BREAKER_MAX_DELAY_US : breaker->delay_us * 2;
    } else {
        return false; /* a late answer from before the breaker opened */
    }
    breaker->state = BREAKER_OPEN;
    int64_t jitter_us = (int64_t)random_below(random, (uint64_t)breaker->delay_us / 5 + 1);
    breaker->retry_at_us = time_add(now_us, breaker->delay_us - jitter_us);
    return opened;
}

bool breaker_open(struct breaker *breaker, int64_t now_us)
{
    INVARIANT(breaker != NULL);
    bool opened = breaker->state == BREAKER_CLOSED;
    if (breaker->state == BREAKER_PROBING) {
        return false; /* a start's own answer counts */
    }
    if (opened) {
        breaker->state = BREAKER_OPEN;
        breaker->opened_at_us = now_us;
        breaker->delay_us = BREAKER_FIRST_DELAY_US;
    }
    breaker->retry_at_us = time_add(now_us, BREAKER_SILENCE_US); /* the engine reports its return */
    return opened;
}

bool breaker_reached(struct breaker *breaker)
{
    INVARIANT(breaker != NULL);
    bool closed = breaker->state != BREAKER_CLOSED;
    breaker_init(breaker);
    return closed;
}

int64_t breaker_next(const struct breaker *breaker)
{
    return breaker->state == BREAKER_CLOSED ? TIME_NEVER : breaker->retry_at_us;
}
