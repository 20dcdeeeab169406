/* A stack of commands with one atomic pointer.
 *
 * A producer links its command in front of the newest one with compare-and-swap. The loop exchanges the pointer for NULL
 * and reverses the list, so commands of one thread keep their order. The loop never pops a single command, so the stack has
 * no ABA problem. The queue never allocates and never frees: a command belongs to its sender until the push, then to the
 * loop.
 */
#include "engine/in_process/command_queue.h"

#include <stddef.h>

#include "base/error.h"

void command_queue_push(struct command_queue *queue, struct command *command)
{
    INVARIANT(queue != NULL && command != NULL);
    struct command *head = atomic_load_explicit(&queue->newest, memory_order_relaxed);
    do {
        command->next = head;
    } while (!atomic_compare_exchange_weak(&queue->newest, &head, command));
}

struct command *command_queue_take(struct command_queue *queue)
{
    INVARIANT(queue != NULL);
    struct command *newest = atomic_exchange(&queue->newest, NULL);
    struct command *oldest = NULL;
    while (newest != NULL) {
        struct command *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

bool command_queue_is_empty(struct command_queue *queue)
{
    return atomic_load(&queue->newest) == NULL;
}
