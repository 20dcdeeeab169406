/* The slots of the keeper: one per process that it runs, sweeps or still has to report.
 *
 *     FREE -> RUNNING -> SWEEPING -> ENDED -> FREE          (start, end of the leader, sweep, report)
 *       +---> REFUSED -> FREE                               (the start failed, report)
 *
 * Static memory of fixed size, no malloc: the keeper may be forked from a process with threads. Threads: the keeper's one.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_KEEPER_SLOTS_H
#define WEIR_ENGINE_IN_PROCESS_KEEPER_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/in_process/keeper_protocol.h"

enum keeper_slot_state {
    SLOT_FREE,
    SLOT_RUNNING,  /* its leader lives */
    SLOT_SWEEPING, /* its leader has ended; the keeper kills the rest of its processes */
    SLOT_ENDED,    /* all gone; the report is not sent yet */
    SLOT_REFUSED   /* never started; the report is not sent yet */
};

struct keeper_slot {
    enum keeper_slot_state state;
    bool is_evaluator;
    bool started_unsent;
    bool lease_lost;
    pid_t pid;
    int16_t next; /* in its bucket, or in the free list; -1: the last */
    uint64_t ticket;
    int64_t started_us;
    int64_t kill_at_us; /* KILL follows TERM at this boot time; TIME_NEVER: no kill is due */
    int status;
    int64_t cpu_us;
    int64_t memory_kib;
};

enum { KEEPER_SLOT_BUCKETS = 4096 };

struct keeper_slots {
    size_t in_use;
    size_t used_below; /* every slot from here on is free: the end of a walk over the slots */
    int16_t free_first;
    int16_t buckets[KEEPER_SLOT_BUCKETS]; /* of the living leaders, by process id */
    struct keeper_slot all[KEEPER_STEPS_MAX];
};

void keeper_slots_init(struct keeper_slots *slots);
/* A free slot in the state FREE, or NULL. */
struct keeper_slot *keeper_slots_take(struct keeper_slots *slots);
void keeper_slots_release(struct keeper_slots *slots, struct keeper_slot *slot);
/* The leader of the slot lives: it can be found by its process id. */
void keeper_slots_register_leader(struct keeper_slots *slots, struct keeper_slot *slot, pid_t pid);
void keeper_slots_unregister_leader(struct keeper_slots *slots, struct keeper_slot *slot);
/* The slot of this living leader, or NULL. */
struct keeper_slot *keeper_slots_find_leader(struct keeper_slots *slots, pid_t pid);
/* The slot of a ticket with the same bits under KEEPER_TICKET_MASK, or NULL. */
struct keeper_slot *keeper_slots_find_ticket(struct keeper_slots *slots, uint64_t ticket);

#endif
