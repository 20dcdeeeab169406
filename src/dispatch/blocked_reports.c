/* Reports that the store left out of a set, because another transaction holds their item or its workspace (on PostgreSQL
 * a caller's open transaction). They wait here, and no other report waits for them.
 *
 *   1. The first blocked report starts a pause of BLOCKED_RETRY_US. Then a round begins.
 *   2. A round tries all reports that wait, a set at a time. New reports have a set of their own between any two.
 *   3. Reports of one execution keep their order. A new one waits behind the blocked ones. Once one of them is blocked
 *      again in a round, those behind it are not tried in this round, though the other transaction may have ended.
 *   4. When the round has no more reports, those that were blocked again wait for the next round, after a pause.
 *   5. A report that the store refuses is blocked, too. Nobody knows when that ends, so its own pause doubles up to
 *      REFUSED_RETRY_MOST_US. Rounds before that leave it out.
 *
 * The number of reports is bounded by the capacity of the engine: an execution goes on, and its capacity is released,
 * only when its reports are on record. No report is dropped before it is on record, except when the node closes. Runs in
 * the record loop.
 */
#include "dispatch/blocked_reports.h"

#include "base/error.h"
#include "dispatch/node_internal.h"

/* Between two rounds, and after the first report is blocked. */
#define BLOCKED_RETRY_US (MICROSECONDS_PER_SECOND / 5)
#define REFUSED_RETRY_MOST_US (60 * MICROSECONDS_PER_SECOND)

static void report_list_append(struct report_list *list, struct report *report)
{
    report->next = NULL;
    *(list->first == NULL ? &list->first : &list->last->next) = report;
    list->last = report;
}

static struct report *report_list_take(struct report_list *list)
{
    struct report *report = list->first;
    list->first = report->next;
    return report;
}

/* Under the node's lock. */
static struct in_flight *entry_of(struct node *node, const struct report *report)
{
    return in_flight_find(&node->shared.in_flight, report->id, report->fence);
}

/* Puts a report at the end of the waiting ones. Under the node's lock. */
static void add_waiting(struct node *node, struct report *report, struct in_flight *entry, int64_t now_us)
{
    struct blocked_reports *blocked = &node->recorder.blocked;
    if (blocked->count++ == 0) {
        blocked->again_boot_us = time_add(now_us, BLOCKED_RETRY_US);
    }
    if (entry != NULL) {
        entry->blocked_reports++;
    }
    report_list_append(&blocked->waiting, report);
}

void blocked_keep_order(struct node *node, int64_t now_us)
{
    INVARIANT(node != NULL && !node->recorder.blocked.is_set);
    struct recorder *recorder = &node->recorder;
    size_t count = 0;
    if (recorder->blocked.count == 0) {
        return; /* so no execution has blocked reports */
    }
    pthread_mutex_lock(&node->shared.lock);
    for (size_t i = 0; i < recorder->batch_count; i++) {
        struct report *report = recorder->batch[i];
        struct in_flight *entry = entry_of(node, report);
        if (entry != NULL && entry->blocked_reports > 0) {
            add_waiting(node, report, entry, now_us);
        } else {
            recorder->batch[count++] = report;
        }
    }
    pthread_mutex_unlock(&node->shared.lock);
    recorder->batch_count = count;
}

int64_t blocked_next_us(const struct node *node, int64_t now_us)
{
    INVARIANT(node != NULL);
    const struct blocked_reports *blocked = &node->recorder.blocked;
    return blocked->count == 0 ? TIME_NEVER : blocked->is_round ? now_us : blocked->again_boot_us;
}

bool blocked_refuse(struct report *report, int64_t now_us)
{
    INVARIANT(report != NULL);
    bool is_first = report->pause_us == 0;
    report->pause_us = is_first ? BLOCKED_RETRY_US : earlier(report->pause_us * 2, REFUSED_RETRY_MOST_US);
    report->again_us = time_add(now_us, report->pause_us);
    return is_first || report->pause_us == REFUSED_RETRY_MOST_US;
}

void blocked_take_set(struct node *node, int64_t now_us)
{
    INVARIANT(node != NULL && node->recorder.batch_count == 0);
    struct blocked_reports *blocked = &node->recorder.blocked;
    blocked->is_round = true;
    blocked->is_set = true;
    pthread_mutex_lock(&node->shared.lock);
    while (blocked->waiting.first != NULL && node->recorder.batch_count < RECORD_BATCH_MOST) {
        struct report *report = report_list_take(&blocked->waiting);
        struct in_flight *entry = entry_of(node, report);
        bool is_early = report->again_us > now_us;
        if (is_early || (entry != NULL && entry->is_blocked_again)) {
            if (entry != NULL) {
                entry->is_blocked_again = true;
            }
            report_list_append(&blocked->blocked_again, report);
        } else {
            node->recorder.batch[node->recorder.batch_count++] = report;
        }
    }
    pthread_mutex_unlock(&node->shared.lock);
}

void blocked_add(struct node *node, struct report *report, int64_t now_us)
{
    INVARIANT(node != NULL && report != NULL);
    struct blocked_reports *blocked = &node->recorder.blocked;
    pthread_mutex_lock(&node->shared.lock);
    struct in_flight *entry = entry_of(node, report);
    if (!blocked->is_set) {
        add_waiting(node, report, entry, now_us);
    } else {
        if (entry != NULL) {
            entry->is_blocked_again = true;
        }
        report_list_append(&blocked->blocked_again, report);
    }
    pthread_mutex_unlock(&node->shared.lock);
}

void blocked_remove(struct node *node, const struct report *report)
{
    INVARIANT(node != NULL && report != NULL);
    if (!node->recorder.blocked.is_set) {
        return;
    }
    INVARIANT(node->recorder.blocked.count > 0);
    node->recorder.blocked.count--;
    pthread_mutex_lock(&node->shared.lock);
    struct in_flight *entry = entry_of(node, report);
    if (entry != NULL) {
        entry->blocked_reports--;
    }
    pthread_mutex_unlock(&node->shared.lock);
}

void blocked_end_set(struct node *node, int64_t now_us)
{
    INVARIANT(node != NULL);
    struct blocked_reports *blocked = &node->recorder.blocked;
    bool is_last = blocked->is_set && blocked->waiting.first == NULL;
    blocked->is_set = false;
    if (!is_last) {
        return;
    }
    blocked->is_round = false;
    blocked->again_boot_us = time_add(now_us, BLOCKED_RETRY_US);
    blocked->waiting = blocked->blocked_again;
    blocked->blocked_again = (struct report_list){.first = NULL};
    pthread_mutex_lock(&node->shared.lock);
    for (const struct report *report = blocked->waiting.first; report != NULL; report = report->next) {
        struct in_flight *entry = entry_of(node, report);
        if (entry != NULL) {
            entry->is_blocked_again = false;
        }
    }
    pthread_mutex_unlock(&node->shared.lock);
}

void blocked_drop(struct node *node)
{
    INVARIANT(node != NULL);
    struct blocked_reports *blocked = &node->recorder.blocked;
    struct report_list *lists[] = {&blocked->waiting, &blocked->blocked_again};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        while (lists[i]->first != NULL) {
            report_free(report_list_take(lists[i]));
        }
    }
    *blocked = (struct blocked_reports){.count = 0};
}
