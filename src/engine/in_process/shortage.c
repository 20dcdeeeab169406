/* Detection of a shortage, and the pause of all starts.
 *
 * A shortage is no failure of a step and passes by itself, so the starts wait and try again. Each further failure during
 * the pause makes it begin again. The operator gets a report with the remedy at most once a minute. The loop's thread runs
 * it. The end of the pause starts nothing here: the end of each turn of the loop does.
 */
#include "engine/in_process/shortage.h"

#include <errno.h>

#include "base/error.h"

static void end_shortage(struct timer *timer)
{
    struct shortage *shortage = timer->owner;
    shortage->is_on = false;
}

void shortage_init(struct shortage *shortage, struct loop *loop)
{
    INVARIANT(loop != NULL);
    *shortage =
        (struct shortage){.loop = loop, .timer = {.fire = end_shortage, .owner = shortage}, .reported_us = INT64_MIN / 2};
}

void shortage_close(struct shortage *shortage)
{
    INVARIANT(shortage->loop != NULL);
    loop_clear_timer(shortage->loop, &shortage->timer);
}

bool shortage_is_cause(int native)
{
    return native == EMFILE || native == ENFILE || native == ENOMEM || native == EAGAIN || native == ENOBUFS ||
           native == ENOSPC;
}

const char *shortage_text(int native)
{
    switch (native) {
    case EMFILE:
        return "this node has no file descriptor left (EMFILE): raise its limit, `ulimit -n` or LimitNOFILE=";
    case ENFILE:
        return "this machine has no file descriptor left (ENFILE): raise fs.file-max";
    case EAGAIN:
        return "this node may start no more processes (EAGAIN): raise `ulimit -u`, TasksMax= or its cgroup's pids.max";
    case ENOSPC:
        return "this node may watch no more file descriptors (ENOSPC): raise fs.epoll.max_user_watches";
    default:
        return "this node has no memory left for another process: run less on it, or raise its memory limit";
    }
}

void shortage_note(struct shortage *shortage, int native)
{
    INVARIANT(shortage->loop != NULL);
    if (!shortage_is_cause(native)) {
        return;
    }
    int64_t now_us = loop_now(shortage->loop);
    shortage->is_on = true;
    loop_set_timer(shortage->loop, &shortage->timer, time_add(now_us, SHORTAGE_US));
    if (now_us - shortage->reported_us >= SHORTAGE_REPORT_US && shortage->report != NULL) {
        shortage->reported_us = now_us;
        shortage->report(shortage->context, native);
    }
}
