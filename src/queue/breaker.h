/* The circuit breaker before an engine: the engine being down is not the item's fault.
 *
 * Closed: starts flow. Unreachable answers open it. Open: nothing is started and no attempt is spent. After a delay one
 * start is let through to probe. Its answer closes the breaker, or opens it again for longer. Pure; the owner locks.
 */
#ifndef WEIR_QUEUE_BREAKER_H
#define WEIR_QUEUE_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"

enum { BREAKER_OPENS_AFTER = 3 }; /* unreachable answers in a row */
#define BREAKER_FIRST_DELAY_US ((int64_t)250000)
#define BREAKER_MAX_DELAY_US ((int64_t)1000000) /* so that work resumes within 2 s of the engine's return */
#define BREAKER_SILENCE_US                                                                                                 \
    ((int64_t)5000000) /* without a report about the probe, or of an engine that reports its own state */

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_PROBING };

struct breaker {
    enum breaker_state state;
    int unreachable_in_a_row;
    int64_t opened_at_us; /* when it last left BREAKER_CLOSED */
    int64_t retry_at_us;
    int64_t delay_us;
};

void breaker_init(struct breaker *breaker);
/* How many starts may go out now: `wanted`, one (the probe), or none. The call uses up the probe. */
int64_t breaker_take_starts(struct breaker *breaker, int64_t wanted, int64_t now_us);
/* The same answer without using up the probe. */
int64_t breaker_peek_starts(const struct breaker *breaker, int64_t wanted, int64_t now_us);
/* True when this answer opened it / closed it, for the event. */
bool breaker_unreachable(struct breaker *breaker, int64_t now_us, struct random *random);
bool breaker_reached(struct breaker *breaker);
/* The engine itself reports that it is away: opens at once, and no start probes while its reports continue. True when that
 * opened it. */
bool breaker_open(struct breaker *breaker, int64_t now_us);
/* When breaker_take_starts() may answer otherwise; TIME_NEVER while closed. */
int64_t breaker_next(const struct breaker *breaker);

#endif
