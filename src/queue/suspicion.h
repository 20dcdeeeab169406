/* Which items may have killed their node, and how they run again so that only the one that did is blamed.
 *
 * At the death of a node (or of its keeper) each item of which a step ran is a suspect: its suspicion, a number in its row,
 * grows by one. It begins anew when a step of the item has ended since. A suspect runs again beside fewer items:
 *
 *   suspicion   suspects on trial on one node   also
 *   0, 1        no limit                        one death may have any cause
 *   2           16
 *   3           4
 *   4 and more  1                               quarantine: the node has no other item at all
 *
 * A death is counted against an item only when it was the only item of its node. So a neighbour of a killer is never
 * blamed, whichever item runs beside it. With HANDOVERS_MAX counted deaths the item ends FAILED, code `poison`.
 *
 * A trial ends with the item, with a step of it, or after suspicion_trial_us(). After that the node takes other items
 * again, and the item goes on beside them. Its next trial is twice as long, so a killer that needs an hour is found too.
 *
 * Before each quarantine the items of its workspace wait for suspicion_delay_us(), which doubles too. One of them is in
 * quarantine at a time, so a workspace whose steps kill nodes slows itself down. Items of several workspaces are in
 * quarantine side by side, each on its own node. From its second quarantine on, an item begins at a distance from the
 * others. Else two killers could go on dying together, and deaths of nodes of one machine that are found together count
 * against no item.
 *
 * Pure; any thread.
 */
#ifndef WEIR_QUEUE_SUSPICION_H
#define WEIR_QUEUE_SUSPICION_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SUSPICION_LIMITED = 2,   /* from here on the number of suspects on trial is limited */
    SUSPICION_QUARANTINE = 4 /* from here on the item needs a node for itself */
};

/* Why an execution is given back when the keeper of its steps was killed: the codes of a record GIVEN_BACK. It counts as
 * the death of a node. The second: it was the only execution of which the keeper had a step. */
#define SUSPICION_KEEPER_LOST "keeper_lost"
#define SUSPICION_KEEPER_LOST_ALONE "keeper_lost_alone"

/* Suspects on trial that one node may have at a time when one of this suspicion is among them; INT64_MAX = any number. */
int64_t suspicion_limit(int64_t suspicion);
/* How long an item that was assigned counts as on trial. */
int64_t suspicion_trial_us(int64_t suspicion);
/* How long after the death of its node the item waits. */
int64_t suspicion_delay_us(int64_t suspicion);

#endif
