/* The kind of fleet that a seed makes, and how often each fault occurs in it. */
#include "simulation/simulation.h"

#define SECOND_US MICROSECONDS_PER_SECOND

enum {
    MIXED_EVERY = 4,
    UNPARKED_EVERY = 3,
    HOSTED_EVERY = 5,
    FEATURE_EVERY = 3,
    STATED_OF = 7,
    STATED_FROM = 5,
    FAMILIES_OF = 14,
    FAMILIES_AT = 4,
    PARTS_OF = 3,
    SETS_OF = 5,
    SETS_AT = 3
};

static int some(struct simulation *simulation, int most)
{
    return drawn(simulation, 3500) ? 0 : (int)draw(simulation, most + 1);
}

/* The features that only some fleets use. */
static void draw_features(struct simulation *simulation, struct profile *profile)
{
    const struct mutant *mutant = simulation->options.mutant;
    profile->is_mixed = mutant != NULL ? mutant->is_mixed : simulation->options.seed % MIXED_EVERY == 0;
    profile->parks = mutant != NULL ? mutant->parks : simulation->options.seed % UNPARKED_EVERY != 0;
    profile->is_hosted = mutant == NULL && simulation->options.seed % HOSTED_EVERY == 1;
    profile->is_keyed = mutant != NULL ? mutant->is_keyed : simulation->options.seed % FEATURE_EVERY == 1;
    profile->is_scheduled = mutant != NULL ? mutant->is_scheduled : simulation->options.seed % FEATURE_EVERY == 2;
    profile->has_states = mutant != NULL ? mutant->has_states : simulation->options.seed % STATED_OF >= STATED_FROM;
    /* One seventh: half of them have states as well. */
    profile->has_children = mutant != NULL ? mutant->has_children
                                           : simulation->options.seed % FAMILIES_OF == FAMILIES_AT ||
                                                 simulation->options.seed % FAMILIES_OF == STATED_FROM;
    /* SQLite makes all rows at once. */
    profile->child_part = simulation->options.store == SIMULATED_POSTGRES
                              ? 1 + (int64_t)(simulation->options.seed % PARTS_OF)
                              : CHILDREN_OF_STEP_MOST;
    profile->has_sets = mutant != NULL ? mutant->has_sets : simulation->options.seed % SETS_OF == SETS_AT;
    if (profile->has_states || profile->has_children || profile->has_sets) {
        profile->kinds[0] = profile->kinds[1] = SCRIPTED_IN_NODE;
    }
    if (profile->is_scheduled) {
        /* An execution that is purged within the window of catch-up may run twice, as schedules.md describes. */
        profile->retention_us = 0;
        simulation->season = simulation->options.seed % 2 == 0 ? SEASON_SPRING : SEASON_AUTUMN;
    }
}

void profile_draw(struct simulation *simulation)
{
    struct profile *profile = &simulation->profile;
    enum scripted_kind kind = drawn(simulation, 6500) ? SCRIPTED_IN_NODE : SCRIPTED_SHARED;
    profile->kinds[0] = kind;
    profile->kinds[1] = kind;
    profile->nodes = 1 + (int)draw(simulation, NODES_MOST);
    profile->groups = profile->nodes > 1 && drawn(simulation, 3000) ? 2 : 1;
    profile->workspaces = 1 + (int)draw(simulation, WORKSPACES_MOST);
    /* One statement each: the order of the draws must not depend on the compiler. */
    struct scripted_plan *plan = &profile->plan;
    plan->refuse = some(simulation, 100);
    plan->defer = some(simulation, 50);
    plan->refuse_for_good = some(simulation, 30);
    plan->unreachable = some(simulation, 80);
    plan->lose_request = some(simulation, 50);
    plan->lose_answer = some(simulation, 80);
    plan->fail = some(simulation, 200);
    plan->never_end = some(simulation, 30);
    plan->answer_twice = some(simulation, 100);
    plan->end_twice = some(simulation, 100);
    plan->end_before_answer = some(simulation, 100);
    plan->ignore_cancel = some(simulation, 100);
    plan->late = some(simulation, 50);
    plan->steps_most = (int)draw(simulation, 4);
    plan->answer_most_us = 1 + draw(simulation, 20000);
    plan->late_most_us = 1 + draw(simulation, 20 * SECOND_US);
    plan->run_most_us = 1 + draw(simulation, 3 * SECOND_US);
    plan->cancel_most_us = 1 + draw(simulation, 3 * SECOND_US);
    profile->enqueue = 200 + (int)draw(simulation, 600);
    profile->act = some(simulation, 500);
    profile->crash = some(simulation, 120);
    profile->pause = some(simulation, 120);
    profile->stop = some(simulation, 80);
    profile->cut = some(simulation, 80);
    profile->jump = some(simulation, 200);
    profile->store_fails = some(simulation, 400);
    profile->store_unknown = some(simulation, 250);
    profile->dies_in_call = some(simulation, 80);
    profile->sleeps_in_call = some(simulation, 800);
    profile->lease_us = (2 + draw(simulation, 8)) * SECOND_US;
    profile->pause_most_us = 1 + draw(simulation, 4 * profile->lease_us);
    profile->batch_most = (int)draw(simulation, 3) * 8;
    profile->starts_max = 1 + (int)draw(simulation, 4);
    profile->exclusive = drawn(simulation, 1000);
    profile->room = (size_t)(1 + draw(simulation, 30));
    profile->retention_us = drawn(simulation, 3000) ? (30 + draw(simulation, 120)) * SECOND_US : 0;
    profile->reboot = drawn(simulation, 3000) ? 1 + (int)draw(simulation, 40) : 0;
    if (simulation->options.store == SIMULATED_POSTGRES) {
        if (profile->groups > 1 && drawn(simulation, 6000)) {
            profile->kinds[1] = kind == SCRIPTED_IN_NODE ? SCRIPTED_SHARED : SCRIPTED_IN_NODE;
        }
        profile->machines = 1 + (int)draw(simulation, MACHINES_MOST);
        profile->hang_up = some(simulation, 100);
        profile->clock_step = drawn(simulation, 3000) ? 1 + (int)draw(simulation, 60) : 0;
    }
    draw_features(simulation, profile);
    plan->park = !profile->parks ? 0 : profile->has_states ? 3000 : 400; /* some of them wait for a signal (asks.c) */
    plan->park_most_us = 20 * SECOND_US;
    plan->steps_most = profile->has_states && plan->steps_most == 0 ? 2 : plan->steps_most;
    if (profile->is_mixed) {
        profile->kinds[0] = profile->kinds[1] = SCRIPTED_IN_NODE;
        profile->groups = 1;
        profile->nodes = profile->nodes < PLACES_MOST ? PLACES_MOST : profile->nodes;
    }
    if (profile->has_sets) {
        handlers_draw_homes(simulation);
    }
}
