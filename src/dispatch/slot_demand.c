#include "dispatch/slot_demand.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

enum weir_status slot_demand_open(struct slot_demand *demand, struct engine *engine, struct weir_error *error)
{
    (void)pthread_mutex_init(&demand->lock, NULL);
    demand->engine = NULL;
    demand->places = NULL;
    if (!engine_has(engine, ENGINE_SEEKS_ENDS)) {
        return WEIR_OK;
    }
    demand->places = calloc(SLOT_DEMAND_PLACES, sizeof *demand->places);
    if (demand->places == NULL) {
        return error_out_of_memory(error);
    }
    demand->engine = engine;
    return WEIR_OK;
}

void slot_demand_close(struct slot_demand *demand)
{
    free(demand->places);
    (void)pthread_mutex_destroy(&demand->lock);
}

static struct slot_demand_place *place_of(const struct slot_demand *demand, const char *workspace)
{
    return &demand->places[text_hash(workspace) % SLOT_DEMAND_PLACES];
}

static bool is_wanted(const struct slot_demand_place *place, const char *workspace)
{
    return strcmp(place->workspace, workspace) == 0;
}

static void forget(struct slot_demand *demand, struct slot_demand_place *place)
{
    if (place->workspace[0] != '\0') {
        engine_want_slots(demand->engine, place->workspace, false);
        place->workspace[0] = '\0';
    }
}

static void want(struct slot_demand *demand, struct slot_demand_place *place, const char *workspace)
{
    if (!is_wanted(place, workspace)) {
        forget(demand, place);
        text_copy(place->workspace, sizeof place->workspace, workspace);
        engine_want_slots(demand->engine, workspace, true);
    }
    place->freed_us = TIME_NEVER;
}

void slot_demand_told(struct slot_demand *demand, const char *workspace)
{
    slot_demand_claimed(demand, workspace, SLOT_DEMAND_WAITED_US);
}

void slot_demand_claimed(struct slot_demand *demand, const char *workspace, int64_t waited_us)
{
    if (demand->engine == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&demand->lock);
    struct slot_demand_place *place = place_of(demand, workspace);
    if (waited_us >= SLOT_DEMAND_WAITED_US) {
        want(demand, place, workspace);
    } else if (is_wanted(place, workspace)) {
        forget(demand, place);
    }
    (void)pthread_mutex_unlock(&demand->lock);
}

void slot_demand_freed(struct slot_demand *demand, const char *workspace, int64_t now_us)
{
    if (demand->engine == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&demand->lock);
    struct slot_demand_place *place = place_of(demand, workspace);
    if (is_wanted(place, workspace) && place->freed_us == TIME_NEVER) {
        place->freed_us = now_us;
    } else if (is_wanted(place, workspace) && now_us - place->freed_us > SLOT_DEMAND_LASTS_US) {
        forget(demand, place);
    }
    (void)pthread_mutex_unlock(&demand->lock);
}

void slot_demand_clear(struct slot_demand *demand)
{
    (void)pthread_mutex_lock(&demand->lock);
    for (size_t i = 0; demand->engine != NULL && i < SLOT_DEMAND_PLACES; i++) {
        forget(demand, &demand->places[i]);
    }
    (void)pthread_mutex_unlock(&demand->lock);
}
