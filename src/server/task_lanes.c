/* The tasks that wait for a worker, in turns of their workspaces: each handler has a fair queue (queue/fair_queue.h).
 *
 * A node may hold many more executions than its workers have places. In the order in which they came, the single task
 * of one workspace would wait for all earlier tasks of another one. Yet the scheduler gave it its turn.
 *
 * Workers have no places that one workspace could hold for ever, so no place is spare. Under the lock of the hub.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/engine.h"
#include "server/task_hub_internal.h"

static struct task_lane **task_lane_bucket(struct task_hub *hub, const struct task_handler *handler, const char *workspace)
{
    uint64_t hash = text_hash(workspace) * 31 + text_hash(handler->handler.name);
    return &hub->lanes[(hash ^ hash >> 32) % TASK_BUCKETS];
}

enum weir_status task_lane_join(struct task *task)
{
    INVARIANT(task->lane == NULL);
    const char *workspace = weir_call_workspace(task->call);
    struct task_lane **bucket = task_lane_bucket(task->hub, task->handler, workspace);
    struct task_lane *lane = *bucket;
    while (lane != NULL && (lane->handler != task->handler || strcmp(lane->workspace, workspace) != 0)) {
        lane = lane->of_bucket;
    }
    if (lane == NULL) {
        size_t size = strlen(workspace) + 1;
        lane = calloc(1, sizeof *lane + size);
        if (lane == NULL) {
            return WEIR_OUT_OF_MEMORY;
        }
        memcpy(lane->workspace, workspace, size);
        lane->handler = task->handler;
        lane->of_bucket = *bucket;
        *bucket = lane;
    }
    lane->lane.weight = engine_call_weight(task->call);
    lane->task_count++;
    task->lane = lane;
    return WEIR_OK;
}

void task_lane_leave(struct task *task)
{
    struct task_lane *lane = task->lane;
    INVARIANT(lane->task_count > 0);
    task->lane = NULL;
    if (--lane->task_count > 0) {
        return;
    }
    struct task_lane **link = task_lane_bucket(task->hub, lane->handler, lane->workspace);
    while (*link != lane) {
        link = &(*link)->of_bucket;
    }
    *link = lane->of_bucket;
    free(lane);
}

struct task *task_lanes_next(struct task_handler *handler)
{
    return (struct task *)(void *)fair_queue_next(&handler->waiting);
}

void task_lanes_add(struct task *task)
{
    fair_queue_add(&task->handler->waiting, &task->lane->lane, &task->turn);
}

void task_lanes_take_out(struct task *task)
{
    if (task->lane->lane.first == &task->turn) {
        fair_queue_take(&task->handler->waiting, &task->turn);
    } else {
        (void)fair_queue_remove(&task->handler->waiting, &task->turn);
    }
}
