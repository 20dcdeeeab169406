/* Which other nodes are lost, and whether this node may judge that.
 *
 * Two sources prove that a node is dead. The answer to each heartbeat of this node has the numbers of heartbeats of the
 * other nodes. A number that has not changed for the lease of its node, by the boot clock of this machine, proves that
 * the lease is over. The node counts its lease from a moment before its last heartbeat. No clock of a server takes
 * part, since such a clock may be set. The recovery is conditional on the number. For nodes on this machine the process
 * ids and a locked file (life.h) prove the death sooner: the kernel releases the lock when the process dies.
 *
 * A watch begins when the answer has arrived, since the last heartbeat of the node may be as young. It begins anew on
 * another server (node_beat.server), whose rows may lack heartbeats. So a node that starts after all others have died
 * recovers them one lease later, unless this machine shows their deaths.
 *
 * A late answer to this node shows that the others were perhaps kept from the store as well. An outage does that, or a
 * stopped process that holds the lock of a SQLite file. If this node recovered items then, an outage would count as a
 * death of each node, and long executions would reach the poison limit. So a delay counts as one interval of
 * heartbeats, however long it was. After it the others have as much time as without it. And after one that has ended
 * the lease of this node all watches begin anew. On a slow machine, where each answer is late, deaths are found later,
 * but they are found.
 *
 * The heartbeat loop writes the struct. The loop of the duties reads it for recovery, and notes there what a recovery has
 * found. The dispatch loop reads it to take the role of a dead scheduler. The functions never call the store. They look at
 * no process on a simulated clock, because a simulation has many nodes in one process.
 */
#include "dispatch/neighbours.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "base/uuid.h"
#include "dispatch/node_internal.h"

/* Only nodes with the same text compare each other's processes. */
void machine_id_write(char *to, size_t size)
{
    INVARIANT(to != NULL && size > 0);
    char boot[64] = "";
    struct stat facts;
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, boot, sizeof boot - 1);
    if (file >= 0) {
        (void)close(file);
    }
    if (got > 0 && stat("/proc/self/ns/pid", &facts) == 0) {
        boot[strcspn(boot, "\n")] = '\0';
        (void)snprintf(to, size, "%s:%lu", boot, (unsigned long)facts.st_ino);
    } else {
        uuid_make_beside(clock_wall(clock_system()), boot);
        (void)snprintf(to, size, "unknown:%s", boot);
    }
}

/* True also for a dead process that its parent has not awaited yet. */
static bool process_is_gone(long pid)
{
    char path[64];
    char text[256] = "";
    if (kill((pid_t)pid, 0) != 0) {
        return errno == ESRCH;
    }
    (void)snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) {
        (void)close(file);
    }
    const char *state = got > 0 ? strrchr(text, ')') : NULL;
    return state != NULL && state[1] == ' ' && state[2] == 'Z';
}

bool neighbour_is_gone(const struct node_neighbour *neighbour)
{
    INVARIANT(neighbour != NULL);
    return neighbour->pid > 0 && process_is_gone(neighbour->pid) &&
           (neighbour->keeper_pid <= 0 || process_is_gone(neighbour->keeper_pid)) && life_is_over(neighbour->life);
}

/* The watched time at which this node read the present number of heartbeats of a neighbour first. Under shared.lock. */
static int64_t same_since(const struct neighbours *known, const struct node_neighbour *neighbour)
{
    for (size_t i = 0; i < known->count; i++) {
        if (known->nodes[i].id == neighbour->id && known->nodes[i].beats == neighbour->beats) {
            return known->same_since_us[i];
        }
    }
    return known->watched_us;
}

void neighbours_begin(struct node *node)
{
    INVARIANT(node != NULL);
    int64_t now_us = node_now(node); /* not when it was sent: the others can send theirs from now on */
    atomic_store(&node->neighbours.answered_us, now_us);
    atomic_store(&node->neighbours.began_us, now_us);
}

/* Notes that the store can be reached. Before the lease of this node is extended, under shared.lock. */
static void note_answer(struct node *node, int64_t now_us)
{
    struct neighbours *neighbours = &node->neighbours;
    int64_t delay_us = now_us - atomic_load(&neighbours->answered_us);
    neighbours->watched_us += earlier(delay_us, beat_interval(node));
    if (!lease_is_valid(node)) {
        neighbours->count = 0;
        atomic_store(&neighbours->trusted_until_us, time_add(now_us, node->settings.lease_us));
    } else if (delay_us > node->settings.lease_us / 2) {
        atomic_store(&neighbours->trusted_until_us, time_add(now_us, beat_interval(node)));
    }
    atomic_store(&neighbours->answered_us, now_us);
}

bool neighbours_update(struct node *node, const struct node_beat *beat)
{
    INVARIANT(node != NULL && beat != NULL && beat->neighbour_count <= NODE_NEIGHBOURS_MOST);
    struct neighbours *neighbours = &node->neighbours;
    int64_t now_us = node_now(node);
    int64_t since_us[NODE_NEIGHBOURS_MOST];
    pthread_mutex_lock(&node->shared.lock);
    note_answer(node, now_us);
    if (strcmp(neighbours->server, beat->server) != 0) {
        neighbours->count = 0;
    }
    for (size_t i = 0; i < beat->neighbour_count; i++) {
        since_us[i] = same_since(neighbours, &beat->neighbours[i]);
    }
    memcpy(neighbours->nodes, beat->neighbours, beat->neighbour_count * sizeof beat->neighbours[0]);
    memcpy(neighbours->same_since_us, since_us, beat->neighbour_count * sizeof since_us[0]);
    neighbours->count = beat->neighbour_count;
    text_copy(neighbours->server, sizeof neighbours->server, beat->server);
    pthread_mutex_unlock(&node->shared.lock);
    atomic_store(&neighbours->others_reported_us, now_us);
    if (beat->others_lost) {
        atomic_store(&neighbours->is_node_lost, true);
    }
    return beat->others_lost;
}

/* node_id 0 = any. */
static bool find_gone_neighbour(struct node *node, int64_t node_id)
{
    bool gone = false;
    pthread_mutex_lock(&node->shared.lock);
    for (size_t i = 0; i < node->neighbours.count && !gone && node->clock == clock_system(); i++) {
        const struct node_neighbour *neighbour = &node->neighbours.nodes[i];
        gone = neighbour->is_here && (node_id == 0 || neighbour->id == node_id) && neighbour_is_gone(neighbour);
    }
    pthread_mutex_unlock(&node->shared.lock);
    return gone;
}

bool neighbours_any_is_gone(struct node *node)
{
    INVARIANT(node != NULL);
    return find_gone_neighbour(node, 0);
}

bool neighbours_node_is_gone(struct node *node, int64_t node_id)
{
    INVARIANT(node != NULL);
    return node_id != 0 && find_gone_neighbour(node, node_id);
}

/* How long the watch of a neighbour has still to last, from the last answer on. */
static int64_t watch_left(const struct neighbours *neighbours, size_t i)
{
    return neighbours->nodes[i].lease_us - (neighbours->watched_us - neighbours->same_since_us[i]);
}

size_t neighbours_silent(struct node *node, int64_t now_us, struct silent_node *to, char *ret_server)
{
    INVARIANT(node != NULL && to != NULL && ret_server != NULL);
    const struct neighbours *neighbours = &node->neighbours;
    size_t count = 0;
    pthread_mutex_lock(&node->shared.lock);
    int64_t since_us = earlier(now_us - atomic_load(&neighbours->answered_us), beat_interval(node));
    for (size_t i = 0; i < neighbours->count; i++) {
        if (watch_left(neighbours, i) <= since_us) {
            to[count++] = (struct silent_node){.id = neighbours->nodes[i].id, .beats = neighbours->nodes[i].beats};
        }
    }
    text_copy(ret_server, SERVER_IDENTITY_MAX, neighbours->server);
    pthread_mutex_unlock(&node->shared.lock);
    return count;
}

int64_t neighbours_next_silent_us(struct node *node, int64_t now_us)
{
    INVARIANT(node != NULL);
    int64_t next_us = TIME_NEVER;
    pthread_mutex_lock(&node->shared.lock);
    int64_t answered_us = atomic_load(&node->neighbours.answered_us);
    for (size_t i = 0; i < node->neighbours.count; i++) {
        int64_t from_us = time_add(answered_us, watch_left(&node->neighbours, i));
        next_us = from_us > now_us ? earlier(next_us, from_us) : next_us;
    }
    pthread_mutex_unlock(&node->shared.lock);
    return next_us;
}

/* A new node has seen no delay, but it may have waited for the store together with all others of this machine. */
const char *neighbours_trusted(const struct node *node, int64_t now_us)
{
    INVARIANT(node != NULL);
    const struct neighbours *neighbours = &node->neighbours;
    if (now_us - atomic_load(&neighbours->answered_us) > node->settings.lease_us / 2 ||
        now_us < atomic_load(&neighbours->trusted_until_us)) {
        return "";
    }
    return now_us < time_add(atomic_load(&neighbours->began_us), node->settings.lease_us) ? node->boot_id : NULL;
}
