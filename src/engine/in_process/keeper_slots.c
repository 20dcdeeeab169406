/* The table of the keeper's slots: a list of free slots, and a hash of the living leaders by process id.
 *
 * A walk over the slots ends at used_below. The list of free slots is last in, first out, so used slots stay near the
 * start, and a keeper with few processes walks over few slots. A leader is registered from its fork until the keeper has
 * reaped it. Until then its process id cannot belong to another process, so a signal to a registered leader never reaches a
 * stranger. The keeper's only thread runs it. It must not allocate.
 */
#include "engine/in_process/keeper_slots.h"

#include "base/error.h"
#include "engine/in_process/keeper_mark.h"

void keeper_slots_init(struct keeper_slots *slots)
{
    INVARIANT(slots != NULL);
    for (size_t i = 0; i < KEEPER_SLOT_BUCKETS; i++) {
        slots->buckets[i] = -1;
    }
    for (size_t i = 0; i < KEEPER_STEPS_MAX; i++) {
        slots->all[i].next = i + 1 < KEEPER_STEPS_MAX ? (int16_t)(i + 1) : -1;
    }
    slots->free_first = 0;
}

struct keeper_slot *keeper_slots_take(struct keeper_slots *slots)
{
    INVARIANT(slots->in_use <= KEEPER_STEPS_MAX);
    if (slots->free_first < 0) {
        return NULL;
    }
    struct keeper_slot *slot = &slots->all[slots->free_first];
    slots->free_first = slot->next;
    *slot = (struct keeper_slot){.state = SLOT_FREE, .next = -1, .kill_at_us = TIME_NEVER};
    slots->in_use++;
    size_t above = (size_t)(slot - slots->all) + 1;
    slots->used_below = above > slots->used_below ? above : slots->used_below;
    return slot;
}

void keeper_slots_release(struct keeper_slots *slots, struct keeper_slot *slot)
{
    INVARIANT(slot->state != SLOT_RUNNING && slots->in_use > 0);
    slot->state = SLOT_FREE;
    slot->next = slots->free_first;
    slots->free_first = (int16_t)(slot - slots->all);
    slots->in_use--;
    while (slots->used_below > 0 && slots->all[slots->used_below - 1].state == SLOT_FREE) {
        slots->used_below--;
    }
}

static int16_t *find_leader_bucket(struct keeper_slots *slots, pid_t pid)
{
    return &slots->buckets[(uint32_t)pid % KEEPER_SLOT_BUCKETS];
}

void keeper_slots_register_leader(struct keeper_slots *slots, struct keeper_slot *slot, pid_t pid)
{
    INVARIANT(slot->state == SLOT_RUNNING && pid > 1);
    slot->pid = pid;
    slot->next = *find_leader_bucket(slots, pid);
    *find_leader_bucket(slots, pid) = (int16_t)(slot - slots->all);
}

void keeper_slots_unregister_leader(struct keeper_slots *slots, struct keeper_slot *slot)
{
    INVARIANT(slot->pid > 1);
    int16_t *link = find_leader_bucket(slots, slot->pid);
    while (*link >= 0 && &slots->all[*link] != slot) {
        link = &slots->all[*link].next;
    }
    if (*link >= 0) {
        *link = slot->next;
    }
    slot->next = -1;
}

struct keeper_slot *keeper_slots_find_leader(struct keeper_slots *slots, pid_t pid)
{
    for (int16_t i = *find_leader_bucket(slots, pid); i >= 0; i = slots->all[i].next) {
        if (slots->all[i].pid == pid) {
            return &slots->all[i];
        }
    }
    return NULL;
}

struct keeper_slot *keeper_slots_find_ticket(struct keeper_slots *slots, uint64_t ticket)
{
    INVARIANT(slots != NULL);
    for (size_t i = 0; i < slots->used_below; i++) {
        uint64_t other = slots->all[i].ticket ^ ticket;
        if (slots->all[i].state != SLOT_FREE && (other & KEEPER_TICKET_MASK) == 0) {
            return &slots->all[i];
        }
    }
    return NULL;
}
