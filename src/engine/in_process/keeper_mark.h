/* The marks by which the processes of a step are found after they have left its session.
 *
 *     brand        the limit RLIMIT_LOCKS, which Linux does not enforce: <part of the mark> <part of the ticket>. Every
 *                  process inherits it, and /proc shows it even of a process that hides its environment (ssh-agent).
 *     environment  WEIR_RUN=<mark>.<ticket>, for systems where the limit could not be set
 *
 * The mark is a random number of the keeper; the ticket names the step. All calls are async-signal-safe.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_KEEPER_MARK_H
#define WEIR_ENGINE_IN_PROCESS_KEEPER_MARK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The part of a ticket that a brand holds. Two steps that run at the same time differ in it. */
#define KEEPER_TICKET_MASK ((UINT64_C(1) << 28) - 1)

enum { KEEPER_MARK_BYTES_MAX = 64 };

/* Brands the calling process and all processes that it starts. */
void keeper_mark_set_brand(uint64_t mark, uint64_t ticket);
/* "WEIR_RUN=<mark>.<ticket>"; `to` holds KEEPER_MARK_BYTES_MAX. */
void keeper_mark_write_variable(char *to, uint64_t mark, uint64_t ticket);
/* The masked ticket of a process with this keeper's mark. False: it has none, or is gone. Any thread. */
bool keeper_mark_find_ticket(pid_t pid, uint64_t mark, uint64_t *ret_ticket);

#endif
