/* What becomes of a start: pushed by the test, or drawn from the plan. */
#include <string.h>

#include "base/error.h"
#include "support/scripted_engine/scripted_internal.h"

static bool chance(struct random *random, int per_mille)
{
    return (int)random_below(random, 1000) < per_mille;
}

static int64_t up_to(struct random *random, int64_t most_us)
{
    return most_us <= 0 ? 0 : (int64_t)random_below(random, (uint64_t)most_us + 1);
}

static enum scripted_answer draw_answer(struct scripted_world *world)
{
    const struct scripted_plan *plan = &world->plan;
    const struct {
        int per_mille;
        enum scripted_answer answer;
    } choices[] = {{plan->refuse, SCRIPTED_REFUSE},
                   {plan->defer, SCRIPTED_DEFER},
                   {plan->refuse_for_good, SCRIPTED_REFUSE_FOR_GOOD},
                   {plan->unreachable, SCRIPTED_UNREACHABLE},
                   {plan->lose_request, SCRIPTED_LOSE_REQUEST},
                   {plan->lose_answer, SCRIPTED_LOSE_ANSWER}};
    int drawn = (int)random_below(&world->random, 1000);
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        drawn -= choices[i].per_mille;
        if (drawn < 0) {
            return choices[i].answer;
        }
    }
    return SCRIPTED_ACCEPT;
}

static void draw_fate(struct scripted_world *world, struct scripted_fate *fate)
{
    const struct scripted_plan *plan = &world->plan;
    struct random *random = &world->random;
    fate->answer = draw_answer(world);
    fate->end = chance(random, plan->fail) ? END_FAILED : END_COMPLETED;
    fate->says_unknown = chance(random, 500);
    fate->answers_twice = chance(random, plan->answer_twice);
    fate->ends_twice = chance(random, plan->end_twice);
    fate->end_carries_step = chance(random, 500);
    fate->never_ends = chance(random, plan->never_end);
    fate->steps = (int)up_to(random, plan->steps_most);
    bool late = chance(random, plan->late);
    fate->arrive_us = up_to(random, late ? plan->late_most_us : plan->answer_most_us);
    fate->answer_us = up_to(random, late ? plan->late_most_us : plan->answer_most_us);
    fate->run_us = up_to(random, plan->run_most_us);
    fate->cancel_us = chance(random, plan->deaf_to_cancel) ? TIME_NEVER : up_to(random, plan->cancel_most_us);
    fate->defer_us = up_to(random, DEFER_DRAWN_US);
    if (chance(random, plan->end_before_answer)) {
        fate->ends_before_answer = true;
    }
}

void scripted_decide(struct scripted_world *world, const struct scripted_entry *entry, struct scripted_fate *fate)
{
    memset(fate, 0, sizeof *fate);
    if (world->calm) {
        fate->run_us = ENDS_AFTER_CALM_US;
    } else if (world->fate_count > 0) {
        *fate = world->fates[0];
        world->fate_count--;
        memmove(world->fates, world->fates + 1, world->fate_count * sizeof world->fates[0]);
    } else {
        draw_fate(world, fate);
    }
    INVARIANT(fate->steps <= SCRIPTED_STEPS_MOST);
    bool refuses =
        fate->answer == SCRIPTED_REFUSE || fate->answer == SCRIPTED_REFUSE_FOR_GOOD || fate->answer == SCRIPTED_DEFER;
    if (refuses && entry->on_the_way > 0) {
        fate->answer = SCRIPTED_ACCEPT;
    }
    if (fate->ends_before_answer) {
        fate->steps = 0;
        fate->answer_us = time_add(fate->run_us, fate->answer_us + 2 * (int64_t)DEFINITE_US);
    }
}
