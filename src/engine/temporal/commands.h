/* The orders of the node on their way to the engine's loop (commands.c).
 *
 * Any thread adds a command under the engine's lock. The loop takes all of them at once and executes them in their order.
 */
#ifndef WEIR_ENGINE_TEMPORAL_COMMANDS_H
#define WEIR_ENGINE_TEMPORAL_COMMANDS_H

#include "engine/temporal/run_table.h"

enum command_kind { COMMAND_START, COMMAND_CANCEL, COMMAND_ABANDON, COMMAND_RECORDED, COMMAND_WANT_SLOTS };

struct command;

struct command_queue {
    struct command *first; /* under the engine's lock */
    struct command **last;
    bool abandons_all; /* before the commands; under the engine's lock */
    int bell_fd;       /* an eventfd that wakes the loop */
};

/* --- any thread --- */

/* Wakes the loop. */
void commands_wake_loop(struct temporal *engine);
/* Takes `run`. False when out of memory: then the caller keeps it. */
bool commands_push_start(struct temporal *engine, struct run *run);
/* CANCEL, ABANDON, DESCRIBE. Without memory the engine notes a lost report. */
void commands_push_run(struct temporal *engine, enum command_kind kind, const char *id, int64_t fence);
/* Needs no memory. Discards the commands so far: their claims are given up by this one. */
void commands_push_abandon_all(struct temporal *engine);
void commands_push_recorded(struct temporal *engine, const struct recorded *recorded, size_t count); /* as _run() */
/* Advice: lost without a trace when there is no memory. */
void commands_push_want_slots(struct temporal *engine, const char *workspace, bool wanted);

/* --- the loop --- */

/* Takes and executes all commands. */
void commands_execute(struct temporal *engine);
/* Removes every run, without a report. */
void commands_abandon_runs(struct temporal *engine);
/* The engine stops: gives back the runs that need nothing more of this node; `all`: also those with a call under way. */
void commands_give_back_runs(struct temporal *engine, bool all);
/* Frees the commands that were not executed; the engine closes. */
void commands_discard(struct temporal *engine);

#endif
