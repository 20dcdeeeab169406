/* Stride order between workspaces, with spare places.
 *
 * A turn:
 *   1. Of the lanes that may have one more place, the one with the smallest pass is next. Ties: the lane that waits
 *      longest, because a lane moves to the end of the list after its turn.
 *   2. Its pass grows by STRIDE_ONE / weight. A lane of weight 2 gets two turns while a lane of weight 1 gets one.
 *   3. An empty lane is not in the list. When it gets an entry, its pass rises to the queue's pass. So a workspace with one
 *      entry waits for at most one turn of each other lane, and no lane saves turns while it is empty.
 *
 * The order alone does not help while one workspace holds all places for long. So a lane that holds a place may take
 * another one only while at least `spare` places are left for lanes without a place. A turn costs one walk over the lanes
 * with entries. The walk ends at the first lane with the smallest pass that any of them can have. So turns of a thousand
 * lanes with one entry each are short. Nothing here allocates or locks; the caller serialises the calls.
 */
#include "queue/fair_queue.h"

#include "base/error.h"
#include "queue/fair_share.h"

void fair_queue_init(struct fair_queue *queue, size_t places, size_t spare)
{
    INVARIANT(queue != NULL);
    *queue = (struct fair_queue){.places = places, .spare = spare < places ? spare : places - (places > 0)};
}

/* --- lanes --- */

static void list_lane(struct fair_queue *queue, struct fair_lane *lane)
{
    lane->next = NULL;
    if (queue->last != NULL) {
        queue->last->next = lane;
    } else {
        queue->first = lane;
    }
    queue->last = lane;
}

static void unlist_lane(struct fair_queue *queue, struct fair_lane *lane)
{
    struct fair_lane **link = &queue->first;
    struct fair_lane *before = NULL;
    while (*link != lane) {
        INVARIANT(*link != NULL);
        before = *link;
        link = &before->next;
    }
    *link = lane->next;
    queue->last = queue->last == lane ? before : queue->last;
    lane->next = NULL;
}

/* Lists an empty lane, at the present pass: it must not save turns while it is empty. */
static void wake_lane(struct fair_queue *queue, struct fair_lane *lane)
{
    if (lane->first == NULL) {
        lane->pass = lane->pass > queue->pass ? lane->pass : queue->pass;
        queue->least = queue->first == NULL || lane->pass < queue->least ? lane->pass : queue->least;
        list_lane(queue, lane);
    }
}

/* --- entries --- */

void fair_queue_add(struct fair_queue *queue, struct fair_lane *lane, struct fair_entry *entry)
{
    INVARIANT(entry->lane == NULL);
    wake_lane(queue, lane);
    *entry = (struct fair_entry){.lane = lane};
    if (lane->last != NULL) {
        lane->last->next = entry;
    } else {
        lane->first = entry;
    }
    lane->last = entry;
}

void fair_queue_put_back(struct fair_queue *queue, struct fair_lane *lane, struct fair_entry *entry)
{
    INVARIANT(entry->lane == NULL);
    wake_lane(queue, lane);
    *entry = (struct fair_entry){.next = lane->first, .lane = lane};
    lane->last = lane->first == NULL ? entry : lane->last;
    lane->first = entry;
}

bool fair_queue_remove(struct fair_queue *queue, struct fair_entry *entry)
{
    struct fair_lane *lane = entry->lane;
    if (lane == NULL) {
        return false;
    }
    struct fair_entry **link = &lane->first;
    struct fair_entry *before = NULL;
    while (*link != entry) {
        INVARIANT(*link != NULL);
        before = *link;
        link = &before->next;
    }
    *link = entry->next;
    lane->last = lane->last == entry ? before : lane->last;
    *entry = (struct fair_entry){.lane = NULL};
    if (lane->first == NULL) {
        unlist_lane(queue, lane);
    }
    return true;
}

/* --- turns --- */

/* True if the lane may have one more place. The first place of each other lane counts as a spare one, while there are some.
 */
static bool may_hold_more(const struct fair_queue *queue, const struct fair_lane *lane)
{
    if (queue->starting_most > 0 && lane->starting >= queue->starting_most) {
        return false;
    }
    size_t other_holders = queue->holders - (lane->held > 0);
    size_t in_spare = other_holders < queue->spare ? other_holders : queue->spare;
    return lane->held == 0 || queue->held - in_spare < queue->places - queue->spare;
}

/* The passes of listed lanes only grow, and that of a lane that is listed anew lowers `least`. */
struct fair_entry *fair_queue_next(struct fair_queue *queue)
{
    INVARIANT(queue->holders <= queue->held);
    const struct fair_lane *found = NULL;
    int64_t least = INT64_MAX;
    if (queue->held >= queue->places) {
        return NULL;
    }
    for (const struct fair_lane *lane = queue->first; lane != NULL; lane = lane->next) {
        if (may_hold_more(queue, lane) && (found == NULL || lane->pass < found->pass)) {
            found = lane;
            if (lane->pass <= queue->least) {
                return lane->first;
            }
        }
        least = lane->pass < least ? lane->pass : least;
    }
    queue->least = least;
    return found != NULL ? found->first : NULL;
}

void fair_queue_take(struct fair_queue *queue, struct fair_entry *entry)
{
    struct fair_lane *lane = entry->lane;
    INVARIANT(lane != NULL && lane->first == entry);
    queue->pass = lane->pass > queue->pass ? lane->pass : queue->pass;
    lane->pass += STRIDE_ONE / (lane->weight > 0 ? lane->weight : 1);
    (void)fair_queue_remove(queue, entry);
    if (lane->first != NULL && lane != queue->last) { /* of lanes with equal pass the one that waits longest is next */
        unlist_lane(queue, lane);
        list_lane(queue, lane);
    }
}

void fair_queue_hold(struct fair_queue *queue, struct fair_lane *lane)
{
    INVARIANT(lane != NULL && queue->held >= lane->held);
    queue->holders += lane->held == 0;
    lane->held++;
    queue->held++;
}

void fair_queue_release(struct fair_queue *queue, struct fair_lane *lane)
{
    INVARIANT(lane->held > 0 && queue->held > 0);
    lane->held--;
    queue->held--;
    queue->holders -= lane->held == 0;
}
