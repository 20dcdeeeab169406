/* Which other nodes are lost, and whether this node may judge that.
 *
 * Two sources prove that a node is dead. The store compares leases with its own clock, and the answer to a heartbeat names
 * whether a node of the group is lost. For nodes on this machine the process ids and a locked file (life.h) prove more and
 * sooner: the kernel releases the lock when the process dies.
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
        uuid_make(clock_wall(clock_system()), boot);
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

bool neighbours_update(struct node *node, const struct node_beat *beat, int64_t now_us)
{
    INVARIANT(node != NULL && beat != NULL && beat->neighbour_count <= NODE_NEIGHBOURS_MOST);
    struct neighbours *neighbours = &node->neighbours;
    pthread_mutex_lock(&node->shared.lock);
    memcpy(neighbours->nodes, beat->neighbours, beat->neighbour_count * sizeof beat->neighbours[0]);
    neighbours->count = beat->neighbour_count;
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
        gone = (node_id == 0 || neighbour->id == node_id) && neighbour_is_gone(neighbour);
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

void neighbours_trust_until(struct node *node, int64_t until_us)
{
    INVARIANT(node != NULL);
    atomic_store(&node->neighbours.judged_from_us, until_us);
}

/* A node that lost its own lease was cut off from the store, and so may the other nodes have been. If it recovered their
 * items now, an outage of the store would count as a death of each node, and long executions would reach the poison limit.
 */
bool neighbours_may_be_judged(struct node *node, int64_t now_us)
{
    INVARIANT(node != NULL);
    return lease_is_valid(node) && now_us >= atomic_load(&node->neighbours.judged_from_us);
}
