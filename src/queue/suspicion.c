/* The figures of queue/suspicion.h: how many suspects run side by side, how long a trial lasts, and how long an item waits
 * before its quarantine. Pure functions of the suspicion, callable in any thread; both stores and the scheduler use them.
 *
 * Trials and delays double with each further suspicion, so a killer that needs long is found, and a workspace that kills
 * nodes slows itself down. DOUBLINGS_OF_TRIAL bounds the shift: the result cannot overflow.
 */
#include "queue/suspicion.h"

#include "base/clock.h"

enum { LIMITED_LEVELS = SUSPICION_QUARANTINE - SUSPICION_LIMITED, DOUBLINGS_OF_TRIAL = 13 };

/* Of SUSPICION_LIMITED and the next. */
static const int64_t limits[LIMITED_LEVELS] = {16, 4};

#define TRIAL_US (10 * MICROSECONDS_PER_SECOND)
#define DELAY_FIRST_US (250 * MICROSECONDS_PER_MS)
#define DELAY_MOST_US (300 * MICROSECONDS_PER_SECOND)

int64_t suspicion_limit(int64_t suspicion)
{
    if (suspicion < SUSPICION_LIMITED) {
        return INT64_MAX;
    }
    return suspicion < SUSPICION_QUARANTINE ? limits[suspicion - SUSPICION_LIMITED] : 1;
}

/* The longest one is almost a day. */
int64_t suspicion_trial_us(int64_t suspicion)
{
    int64_t doublings = suspicion <= SUSPICION_QUARANTINE ? 0 : suspicion - SUSPICION_QUARANTINE;
    return TRIAL_US << (doublings < DOUBLINGS_OF_TRIAL ? doublings : DOUBLINGS_OF_TRIAL);
}

int64_t suspicion_delay_us(int64_t suspicion)
{
    if (suspicion < SUSPICION_QUARANTINE) {
        return 0;
    }
    int64_t doublings = suspicion - SUSPICION_QUARANTINE;
    int64_t delay_us = DELAY_FIRST_US << (doublings < DOUBLINGS_OF_TRIAL ? doublings : DOUBLINGS_OF_TRIAL);
    return delay_us < DELAY_MOST_US ? delay_us : DELAY_MOST_US;
}
