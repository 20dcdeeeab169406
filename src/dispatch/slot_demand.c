/* A table with one place per hash of a workspace's name. A place holds the name of the workspace in which items wait, and
 * since when one of its slots is free.
 *
 *   - An item that waited makes its workspace wanted; the engine learns it.
 *   - An item that did not wait, or a slot that stays free for SLOT_DEMAND_LASTS_US, ends that; the engine learns it,
 *     too.
 *   - Another workspace with the same hash takes the place over.
 *
 * The engine is called under the table's lock, so that it learns the changes of a workspace in their order. Any thread.
 */
#include "dispatch/slot_demand.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

enum weir_status slot_demand_open(struct slot_demand *demand, struct engine *engine, struct weir_error *error)
{
    INVARIANT(demand != NULL && engine != NULL);
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
    INVARIANT(demand != NULL);
    free(demand->places);
    (void)pthread_mutex_destroy(&demand->lock);
}

static struct slot_demand_place *demand_place(const struct slot_demand *demand, const char *workspace)
{
    return &demand->places[text_hash(workspace) % SLOT_DEMAND_PLACES];
}

static bool holds_workspace(const struct slot_demand_place *place, const char *workspace)
{
    return strcmp(place->workspace, workspace) == 0;
}

static void clear_place(struct slot_demand *demand, struct slot_demand_place *place)
{
    if (place->workspace[0] != '\0') {
        engine_want_slots(demand->engine, place->workspace, false);
        place->workspace[0] = '\0';
    }
}

static void fill_place(struct slot_demand *demand, struct slot_demand_place *place, const char *workspace)
{
    if (!holds_workspace(place, workspace)) {
        clear_place(demand, place);
        text_copy(place->workspace, sizeof place->workspace, workspace);
        engine_want_slots(demand->engine, workspace, true);
    }
    place->freed_us = TIME_NEVER;
}

void slot_demand_reported(struct slot_demand *demand, const char *workspace)
{
    slot_demand_claimed(demand, workspace, SLOT_DEMAND_WAITED_US);
}

void slot_demand_claimed(struct slot_demand *demand, const char *workspace, int64_t waited_us)
{
    INVARIANT(demand != NULL && workspace != NULL);
    if (demand->engine == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&demand->lock);
    struct slot_demand_place *place = demand_place(demand, workspace);
    if (waited_us >= SLOT_DEMAND_WAITED_US) {
        fill_place(demand, place, workspace);
    } else if (holds_workspace(place, workspace)) {
        clear_place(demand, place);
    }
    (void)pthread_mutex_unlock(&demand->lock);
}

void slot_demand_freed(struct slot_demand *demand, const char *workspace, int64_t now_us)
{
    INVARIANT(demand != NULL && workspace != NULL);
    if (demand->engine == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&demand->lock);
    struct slot_demand_place *place = demand_place(demand, workspace);
    if (holds_workspace(place, workspace) && place->freed_us == TIME_NEVER) {
        place->freed_us = now_us;
    } else if (holds_workspace(place, workspace) && now_us - place->freed_us > SLOT_DEMAND_LASTS_US) {
        clear_place(demand, place);
    }
    (void)pthread_mutex_unlock(&demand->lock);
}

void slot_demand_clear(struct slot_demand *demand)
{
    INVARIANT(demand != NULL);
    (void)pthread_mutex_lock(&demand->lock);
    for (size_t i = 0; demand->engine != NULL && i < SLOT_DEMAND_PLACES; i++) {
        clear_place(demand, &demand->places[i]);
    }
    (void)pthread_mutex_unlock(&demand->lock);
}
