/* The duty of the archive: one set of moves in each step, and a pause when nothing is left (archive_duty.h).
 *
 * 1. A set is one transaction of at most ARCHIVE_BATCH executions, and the next step goes on behind it. After a set that
 *    failed, the next ones are smaller: executions with large outputs may be too many for the deadline of a call.
 * 2. At the end of a pass over the history the duty pauses for a hundredth of `archive.after`, between one and ten minutes.
 * 3. The next pass begins where the last but one has ended, so it does not read all archived rows again. An execution that
 *    ran for longer than a pause may lie before that: once a day a pass begins with the first one. An index of what is not
 *    archived yet would spare this, but each end would pay for it, also without an archive.
 * 4. All nodes may do it at once. The store lets one of them move at a time, so no lock of shedlock is taken.
 *
 * The archive may be a file that is missing, full or of another store. That must not hold up recovery, which has the same
 * loop. So a failure is an event, at most one in ten minutes, and the duty pauses.
 */
#include "dispatch/archive_duty.h"

#include <string.h>

#include "base/error.h"
#include "dispatch/loop.h"

/* After its start a node moves nothing for this time, as with the retention. */
#define ARCHIVE_FIRST_US (15 * MICROSECONDS_PER_SECOND)
#define ARCHIVE_REPORT_US (600 * MICROSECONDS_PER_SECOND)
#define ARCHIVE_WHOLE_US (24 * 3600 * MICROSECONDS_PER_SECOND)

int64_t archive_duty_next(const struct node *node)
{
    INVARIANT(node != NULL);
    return node->tuning.archive_after_us > 0 ? node->maintenance.archive.next_us : TIME_NEVER;
}

static void report_failure(struct node *node, int64_t now_us, const struct weir_error *error)
{
    struct archive_duty *duty = &node->maintenance.archive;
    if (now_us < duty->next_report_us) {
        return;
    }
    duty->next_report_us = time_add(now_us, ARCHIVE_REPORT_US);
    struct event event = {.type = EVENT_ARCHIVE_FAILED, .node = node->name, .error = error->message};
    event_emit(node->events, &event);
}

static void report_moves(struct node *node, int64_t moved)
{
    if (moved > 0) {
        struct event event = {.type = EVENT_ARCHIVE_MOVED, .count = moved, .node = node->name};
        event_emit(node->events, &event);
    }
}

static void begin_pass(struct archive_duty *duty, int64_t now_us)
{
    if (duty->in_pass) {
        return;
    }
    duty->in_pass = true;
    duty->is_whole = now_us >= duty->next_whole_us;
    if (duty->is_whole) {
        duty->next_whole_us = time_add(now_us, ARCHIVE_WHOLE_US);
        duty->moved_to[0] = '\0';
    }
}

static void pass_go_on(struct archive_duty *duty, const struct archive_result *result)
{
    if (result->more) {
        memcpy(duty->moved_to, result->last_id, sizeof duty->moved_to);
        return;
    }
    duty->in_pass = false;
    memcpy(duty->moved_to, duty->passed_to[0] == '\0' ? result->last_id : duty->passed_to, sizeof duty->moved_to);
    memcpy(duty->passed_to, result->last_id, sizeof duty->passed_to);
}

enum weir_status archive_duty_step(struct node *node, int64_t now_us, struct weir_error *error)
{
    INVARIANT(node != NULL);
    (void)error;
    struct archive_duty *duty = &node->maintenance.archive;
    struct store *store = node->stores[LOOP_MAINTENANCE];
    int64_t after_us = node->tuning.archive_after_us; /* read once: node_tune() may change it */
    int64_t store_now_us = 0;
    struct weir_error own = {.status = WEIR_OK};
    struct archive_result result = {.moved = 0};
    if (duty->next_us == 0) {
        duty->next_us = time_add(now_us, ARCHIVE_FIRST_US);
    }
    if (after_us <= 0 || now_us < duty->next_us) {
        return WEIR_OK;
    }
    begin_pass(duty, now_us);
    struct archive_order order = {.limit = duty->batch == 0 ? ARCHIVE_BATCH : duty->batch, .is_whole = duty->is_whole};
    text_copy(order.after, sizeof order.after, duty->moved_to);
    enum weir_status status = store_time(store, &store_now_us, &own);
    order.ended_before_us = store_now_us - after_us;
    if (status == WEIR_OK && order.ended_before_us > 0) {
        status = store_archive(store, &order, &result, &own);
    }
    if (status != WEIR_OK) {
        report_failure(node, now_us, &own);
    } else if (order.ended_before_us > 0) {
        pass_go_on(duty, &result);
    }
    report_moves(node, result.moved);
    duty->batch = status == WEIR_OK ? ARCHIVE_BATCH : order.limit > 1 ? order.limit / 2 : 1;
    duty->next_us = result.more ? now_us : time_add(now_us, loop_pass_pause_us(after_us));
    return WEIR_OK;
}
