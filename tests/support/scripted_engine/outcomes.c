/* Draws the outcome of a start: the next one that the test has pushed, or a random one by the plan.
 *
 * A calm world accepts every start. Else the pushed outcomes come first, in their order; then the plan's chances decide.
 * All draws use the world's own random numbers, so a seed replays a run. A drawn outcome must never break the contract of
 * engine.h: while an earlier request of the same id is on its way, a refusal becomes an acceptance, because the engine may
 * only refuse an execution that does not run. It runs in the thread of the test, inside of engine_start().
 */
#include <string.h>

#include "base/error.h"
#include "support/scripted_engine/scripted_internal.h"

static bool draw_chance(struct random *random, int per_mille)
{
    return (int)random_below(random, 1000) < per_mille;
}

static int64_t draw_duration(struct random *random, int64_t most_us)
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

static void draw_random_outcome(struct scripted_world *world, struct scripted_outcome *outcome)
{
    const struct scripted_plan *plan = &world->plan;
    struct random *random = &world->random;
    outcome->answer = draw_answer(world);
    outcome->end = draw_chance(random, plan->fail) ? END_FAILED : END_COMPLETED;
    outcome->says_unknown = draw_chance(random, 500);
    outcome->answers_twice = draw_chance(random, plan->answer_twice);
    outcome->ends_twice = draw_chance(random, plan->end_twice);
    outcome->end_carries_step = draw_chance(random, 500);
    outcome->never_ends = draw_chance(random, plan->never_end);
    outcome->steps = (int)draw_duration(random, plan->steps_most);
    bool late = draw_chance(random, plan->late);
    outcome->arrive_us = draw_duration(random, late ? plan->late_most_us : plan->answer_most_us);
    outcome->answer_us = draw_duration(random, late ? plan->late_most_us : plan->answer_most_us);
    outcome->run_us = draw_duration(random, plan->run_most_us);
    outcome->cancel_us =
        draw_chance(random, plan->ignore_cancel) ? TIME_NEVER : draw_duration(random, plan->cancel_most_us);
    outcome->defer_us = draw_duration(random, DEFER_DRAWN_US);
    if (draw_chance(random, plan->end_before_answer)) {
        outcome->ends_before_answer = true;
    }
    if (plan->park > 0 && draw_chance(random, plan->park)) { /* without a chance no draw: other seeds stay as they are */
        outcome->parks = true;
        outcome->park_us = draw_duration(random, plan->park_most_us);
    }
}

void scripted_draw_outcome(struct scripted_world *world, const struct scripted_entry *entry,
                           struct scripted_outcome *outcome)
{
    memset(outcome, 0, sizeof *outcome);
    if (world->calm) {
        outcome->run_us = ENDS_AFTER_CALM_US;
    } else if (world->outcome_count > 0) {
        *outcome = world->outcomes[0];
        world->outcome_count--;
        memmove(world->outcomes, world->outcomes + 1, world->outcome_count * sizeof world->outcomes[0]);
    } else {
        draw_random_outcome(world, outcome);
    }
    INVARIANT(outcome->steps <= SCRIPTED_STEPS_MOST);
    bool refuses = outcome->answer == SCRIPTED_REFUSE || outcome->answer == SCRIPTED_REFUSE_FOR_GOOD ||
                   outcome->answer == SCRIPTED_DEFER;
    if (refuses && entry->on_the_way > 0) {
        outcome->answer = SCRIPTED_ACCEPT;
    }
    if (outcome->ends_before_answer) {
        outcome->steps = 0;
        outcome->answer_us = time_add(outcome->run_us, outcome->answer_us + 2 * (int64_t)DEFINITE_US);
    }
}
