/* What the store left out of a set, because somebody holds its item or its workspace (on PostgreSQL a caller's
 * transaction): it waits here, however much it is, and nothing else waits for it.
 *
 * All of it is tried again in rounds, a set at a time, and what is new has its turn between any two. The words of one
 * execution keep their order: what comes later stands behind those that wait, and once one of them is left out of a round,
 * those behind it are as well, though its holder may be gone by then. What waits is bounded by what the engine holds: an
 * execution goes on, and its room is given back, only when its words are on record. In the recorder's loop. */
#include "dispatch/node_internal.h"

/* After a round, and after the first is left out. */
#define HELD_AGAIN_US (MICROSECONDS_PER_SECOND / 5)

static void append(struct report_list *list, struct report *report)
{
    report->next = NULL;
    *(list->first == NULL ? &list->first : &list->last->next) = report;
    list->last = report;
}

static struct report *take_first(struct report_list *list)
{
    struct report *report = list->first;
    list->first = report->next;
    return report;
}

static void wait_behind(struct node *node, struct report *report, struct in_flight *entry, int64_t now_us)
{
    struct held_reports *held = &node->held;
    if (held->count++ == 0) {
        held->again_boot_us = time_add(now_us, HELD_AGAIN_US);
    }
    if (entry != NULL) {
        entry->held_words++;
    }
    append(&held->waiting, report);
}

void held_keep_order(struct node *node, int64_t now_us)
{
    size_t count = 0;
    pthread_mutex_lock(&node->lock);
    for (size_t i = 0; i < node->batch_count; i++) {
        struct report *report = node->batch[i];
        struct in_flight *entry = in_flight_find(&node->in_flight, report->id, report->fence);
        if (entry != NULL && entry->held_words > 0) {
            wait_behind(node, report, entry, now_us);
        } else {
            node->batch[count++] = report;
        }
    }
    pthread_mutex_unlock(&node->lock);
    node->batch_count = count;
}

int64_t held_next(const struct node *node, int64_t now_us)
{
    return node->held.count == 0 ? TIME_NEVER : node->held.is_round ? now_us : node->held.again_boot_us;
}

void held_take(struct node *node)
{
    struct held_reports *held = &node->held;
    held->is_round = true;
    held->is_set = true;
    pthread_mutex_lock(&node->lock);
    while (held->waiting.first != NULL && node->batch_count < RECORD_BATCH_MOST) {
        struct report *report = take_first(&held->waiting);
        const struct in_flight *entry = in_flight_find(&node->in_flight, report->id, report->fence);
        if (entry != NULL && entry->left_out) {
            append(&held->left_out, report);
        } else {
            node->batch[node->batch_count++] = report;
        }
    }
    pthread_mutex_unlock(&node->lock);
}

void held_leave_out(struct node *node, struct report *report, int64_t now_us)
{
    pthread_mutex_lock(&node->lock);
    struct in_flight *entry = in_flight_find(&node->in_flight, report->id, report->fence);
    if (!node->held.is_set) {
        wait_behind(node, report, entry, now_us);
    } else {
        if (entry != NULL) {
            entry->left_out = true;
        }
        append(&node->held.left_out, report);
    }
    pthread_mutex_unlock(&node->lock);
}

void held_settled(struct node *node, const struct report *report)
{
    if (!node->held.is_set) {
        return;
    }
    node->held.count--;
    pthread_mutex_lock(&node->lock);
    struct in_flight *entry = in_flight_find(&node->in_flight, report->id, report->fence);
    if (entry != NULL) {
        entry->held_words--;
    }
    pthread_mutex_unlock(&node->lock);
}

void held_set_is_over(struct node *node, int64_t now_us)
{
    struct held_reports *held = &node->held;
    bool is_last = held->is_set && held->waiting.first == NULL;
    held->is_set = false;
    if (!is_last) {
        return;
    }
    held->is_round = false;
    held->again_boot_us = time_add(now_us, HELD_AGAIN_US);
    held->waiting = held->left_out;
    held->left_out = (struct report_list){.first = NULL};
    pthread_mutex_lock(&node->lock);
    for (const struct report *report = held->waiting.first; report != NULL; report = report->next) {
        struct in_flight *entry = in_flight_find(&node->in_flight, report->id, report->fence);
        if (entry != NULL) {
            entry->left_out = false;
        }
    }
    pthread_mutex_unlock(&node->lock);
}

void held_drop(struct node *node)
{
    struct report_list *lists[] = {&node->held.waiting, &node->held.left_out};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        while (lists[i]->first != NULL) {
            report_free(take_first(lists[i]));
        }
    }
    node->held = (struct held_reports){.count = 0};
}
