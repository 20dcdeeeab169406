/* The commands of other threads to the loop: a stack without a lock, which the loop takes as a whole.
 *
 * Threads: command_queue_push() and command_queue_is_empty() from any thread; command_queue_take() by the loop.
 */
#ifndef WEIR_ENGINE_IN_PROCESS_COMMAND_QUEUE_H
#define WEIR_ENGINE_IN_PROCESS_COMMAND_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>

enum command_kind {
    COMMAND_START,
    COMMAND_CANCEL,
    COMMAND_SIGNAL,
    COMMAND_ABANDON,
    COMMAND_ABANDON_ALL,
    COMMAND_RECORDED,
    COMMAND_CALL,
    COMMAND_CANCEL_CALL
};

/* First member of each command. START is a part of its execution, CALL of its task, ABANDON_ALL of the runner; the rest is
 * malloc'ed. */
struct command {
    struct command *next;
    enum command_kind kind;
};

struct command_queue {
    _Atomic(struct command *) newest;
};

/* Does not wake the loop: loop_notify() follows. */
void command_queue_push(struct command_queue *queue, struct command *command);
/* All commands, oldest first, linked by `next`; NULL when there are none. */
struct command *command_queue_take(struct command_queue *queue);
bool command_queue_is_empty(struct command_queue *queue);

#endif
