/* Reports of workers: heartbeats and results.
 *
 * A report names its task by id, EXECUTION/STEP/ATTEMPT/FENCE. The verdict, in this order:
 *
 *   1. The worker has the task: the report counts.
 *   2. The task has ended here: the same report is accepted again, any other finds the task lost. A result is not accepted
 * before the store has its record: a client forgets a task that was accepted. The engine calls take_record() then.
 *   3. No worker has the step's task, it has a larger fence, and the attempt has not ended on record. Then this node
 *      has taken the execution over, and the worker ran the step for the former node. The worker adopts the task. It
 *      keeps its id, so that the worker need not know.
 *   4. Another worker has the step, a later attempt of this claim waits, or the end of the attempt is on record: the task
 * is lost. A repeated report of the former node's worker is one of these; its client drops the task either way.
 *   5. Else this node knows nothing: the execution may be on its way to it.
 *
 * A step has at most one task, so 3 cannot give it to two workers.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server/task_hub_internal.h"

/* A client waits a third of a lease for an answer. */
enum { RECORD_WAIT_PART = 4 };

/* --- reports of ended tasks --- */

static uint64_t mix_text(uint64_t hash, const char *text)
{
    return (hash ^ (text != NULL ? text_hash(text) : 1)) * UINT64_C(0x100000001b3);
}

/* Never 0. */
static uint64_t report_hash(const struct task_report *report)
{
    uint64_t hash = (uint64_t)report->kind * 4 + report->is_final * 2 + 1;
    hash = mix_text(hash, report->output);
    hash = mix_text(hash, report->code);
    hash = mix_text(hash, report->error) ^ (uint64_t)report->retry_after_us;
    return hash != 0 ? hash : 1;
}

static uint32_t *kept_bucket(const struct task_hub *hub, uint64_t id)
{
    return (uint32_t *)(void *)&hub->kept_buckets[(id ^ id >> 32) % REPORT_BUCKETS];
}

/* The waiter leaves the list of all, not that of its report. */
static void record_waiter_take_out(struct task_hub *hub, struct task_waiter *waiter)
{
    *(waiter->previous != NULL ? &waiter->previous->next : &hub->first_of_records) = waiter->next;
    *(waiter->next != NULL ? &waiter->next->previous : &hub->last_of_records) = waiter->previous;
    waiter->is_waiting = false;
}

/* All that wait for the record of this report. */
static void wake_of_record(struct task_hub *hub, struct kept_report *kept)
{
    struct task_waiter *waiter = kept->waiters;
    kept->waiters = NULL;
    while (waiter != NULL) {
        struct task_waiter *next = waiter->of_report;
        record_waiter_take_out(hub, waiter);
        waiter->wake(waiter);
        waiter = next;
    }
}

static void forget_report(struct task_hub *hub, struct kept_report *kept)
{
    wake_of_record(hub, kept);
    uint32_t *link = kept_bucket(hub, kept->id);
    while (&hub->kept[*link - 1] != kept) {
        link = &hub->kept[*link - 1].next;
    }
    *link = kept->next;
    kept->id = 0;
}

void task_keep_report(struct task_hub *hub, const char *id, uint64_t report)
{
    struct kept_report *kept = &hub->kept[hub->kept_next];
    if (kept->id != 0) {
        forget_report(hub, kept);
    }
    uint64_t hash = text_hash(id);
    uint32_t *bucket = kept_bucket(hub, hash != 0 ? hash : 1);
    *kept = (struct kept_report){.id = hash != 0 ? hash : 1, .report = report, .next = *bucket, .is_recorded = report == 0};
    *bucket = (uint32_t)hub->kept_next + 1;
    hub->kept_next = (hub->kept_next + 1) % TASK_REPORTS_KEPT;
}

/* The latest one of the task, by the hash of its id, or NULL. */
static struct kept_report *find_kept_hash(const struct task_hub *hub, uint64_t hash)
{
    uint32_t index = *kept_bucket(hub, hash);
    while (index != 0 && hub->kept[index - 1].id != hash) {
        index = hub->kept[index - 1].next;
    }
    return index != 0 ? &hub->kept[index - 1] : NULL;
}

static struct kept_report *find_kept(const struct task_hub *hub, const char *id)
{
    uint64_t hash = text_hash(id);
    return find_kept_hash(hub, hash != 0 ? hash : 1);
}

/* --- records of reports --- */

/* Called by the engine: the report of the task is on record, or this node records it not, so that the task is open again.
 * The worker then takes it to the next node of the execution. */
static void take_record(void *context, bool is_recorded)
{
    struct task *task = context;
    struct task_hub *hub = task->hub;
    (void)pthread_mutex_lock(&hub->lock);
    struct kept_report *kept = find_kept(hub, task->id);
    if (kept != NULL && !kept->is_recorded && is_recorded) {
        kept->is_recorded = true;
        wake_of_record(hub, kept);
    } else if (kept != NULL && !kept->is_recorded) {
        forget_report(hub, kept);
    }
    (void)pthread_mutex_unlock(&hub->lock);
    free(task);
}

/* The waiter of a record waits no more. */
static void leave_record(struct task_hub *hub, struct task_waiter *waiter)
{
    struct kept_report *kept = find_kept_hash(hub, waiter->report_id);
    INVARIANT(waiter->is_waiting && kept != NULL);
    struct task_waiter **link = &kept->waiters;
    while (*link != waiter) {
        link = &(*link)->of_report;
    }
    *link = waiter->of_report;
    record_waiter_take_out(hub, waiter);
}

void task_records_expire(struct task_hub *hub, int64_t now_us, bool all)
{
    while (hub->first_of_records != NULL && (all || hub->first_of_records->deadline_us <= now_us)) {
        struct task_waiter *waiter = hub->first_of_records;
        leave_record(hub, waiter);
        waiter->wake(waiter);
    }
}

/* Nearly always the place is the last one: requests come in the order of their arrival. */
static void record_waiter_add(struct task_hub *hub, struct kept_report *kept, struct task_waiter *waiter)
{
    struct task_waiter *before = hub->last_of_records;
    while (before != NULL && before->deadline_us > waiter->deadline_us) {
        before = before->previous;
    }
    waiter->previous = before;
    waiter->next = before != NULL ? before->next : hub->first_of_records;
    *(before != NULL ? &before->next : &hub->first_of_records) = waiter;
    *(waiter->next != NULL ? &waiter->next->previous : &hub->last_of_records) = waiter;
    waiter->report_id = kept->id;
    waiter->of_report = kept->waiters;
    kept->waiters = waiter;
    waiter->is_waiting = true;
    task_hub_schedule(hub, waiter->deadline_us);
}

enum task_record task_hub_await_record(struct task_hub *hub, const char *task, int64_t arrived_us,
                                       struct task_waiter *waiter)
{
    INVARIANT(hub != NULL && task != NULL && waiter != NULL && !waiter->is_waiting);
    enum task_record record = TASK_RECORD_SETTLED;
    (void)pthread_mutex_lock(&hub->lock);
    struct kept_report *kept = find_kept(hub, task);
    waiter->deadline_us = time_add(arrived_us, hub->options.lease_us / RECORD_WAIT_PART);
    if (kept != NULL && !kept->is_recorded) {
        bool is_late = hub->is_stopped || waiter->deadline_us <= task_hub_now(hub);
        record = is_late ? TASK_RECORD_LATE : TASK_RECORD_AWAITED;
    }
    if (record == TASK_RECORD_AWAITED) {
        record_waiter_add(hub, kept, waiter);
    }
    (void)pthread_mutex_unlock(&hub->lock);
    return record;
}

/* --- verdicts --- */

struct task_name {
    char execution_id[UUID_TEXT_MAX];
    char step[STEP_ID_MAX + 1];
    int64_t attempt;
    int64_t fence;
};

static bool take_task_id_part(const char **text, char *part, size_t size)
{
    const char *end = strchr(*text, '/');
    if (end == NULL || (size_t)(end - *text) >= size) {
        return false;
    }
    memcpy(part, *text, (size_t)(end - *text));
    part[end - *text] = '\0';
    *text = end + 1;
    return true;
}

/* Digits alone, 18 at most, so that no number overflows. */
static bool read_task_number(const char *text, int64_t *ret_number)
{
    size_t length = strspn(text, "0123456789");
    if (length == 0 || length > 18 || text[length] != '\0') {
        return false;
    }
    *ret_number = strtoll(text, NULL, 10);
    return true;
}

/* False: no claim has made this id. */
static bool read_task_id(const char *id, struct task_name *name)
{
    char attempt[24];
    return take_task_id_part(&id, name->execution_id, sizeof name->execution_id) &&
           take_task_id_part(&id, name->step, sizeof name->step) && take_task_id_part(&id, attempt, sizeof attempt) &&
           read_task_number(attempt, &name->attempt) && read_task_number(id, &name->fence);
}

struct task *task_find_id(const struct task_hub *hub, const char *id)
{
    struct task_name name;
    return read_task_id(id, &name) ? task_find(hub, name.execution_id, name.step) : NULL;
}

static bool is_of_worker(const struct task_report *report, const struct task_worker *worker)
{
    return worker->token_id == report->token_id && strcmp(worker->name, report->worker) == 0;
}

/* A heartbeat is accepted until the record: the client that learns of a lost task would not repeat its report. */
static enum task_verdict kept_verdict(const struct kept_report *kept, const struct task_report *report)
{
    if (report->kind == TASK_HEARTBEAT) {
        return kept->is_recorded ? TASK_LOST : TASK_ACCEPTED;
    }
    if (kept->report != report_hash(report)) {
        return TASK_LOST;
    }
    return kept->is_recorded ? TASK_ACCEPTED : TASK_UNRECORDED;
}

/* The verdict, and with TASK_ACCEPTED the task, which the worker has from now on if it had it not before. */
static enum task_verdict find_task(struct task_hub *hub, const struct task_report *report, struct task **ret_task)
{
    struct task_name name;
    if (!read_task_id(report->task, &name)) {
        return TASK_UNKNOWN;
    }
    struct task *task = task_find(hub, name.execution_id, name.step);
    if (task != NULL && task->state == TASK_CLAIMED && strcmp(task->id, report->task) == 0) {
        *ret_task = task;
        return is_of_worker(report, task->worker) ? TASK_ACCEPTED : TASK_LOST;
    }
    const struct kept_report *kept = find_kept(hub, report->task);
    if (kept != NULL) {
        return kept_verdict(kept, report);
    }
    if (task == NULL || hub->is_stopped) {
        return TASK_UNKNOWN;
    }
    if (task->state == TASK_CLAIMED || weir_call_fence(task->call) <= name.fence ||
        name.attempt <= weir_call_ended_attempt(task->call)) {
        return TASK_LOST;
    }
    struct task_worker *worker;
    if (task_worker_get(hub, report->token_id, report->worker, &worker, NULL) != WEIR_OK) {
        return TASK_UNKNOWN; /* no memory for the worker, or too many workers */
    }
    text_copy(task->id, sizeof task->id, report->task);
    task_lease(task, worker);
    task_worker_touch(hub, worker);
    *ret_task = task;
    return TASK_ACCEPTED;
}

/* The caller has the task by itself, or holds the lock. */
static void write_log(struct task *task, const struct task_report *report)
{
    int64_t at = report->log_at;
    for (size_t i = 0; i < report->log_count; i++) {
        const struct task_log_part *part = &report->log[i];
        if (at >= task->log_end) {
            weir_call_output(task->call, part->stream, part->text, part->length);
            task->log_end = at + (int64_t)part->length;
        }
        at += (int64_t)part->length;
    }
}

/* Without the lock: an answer waits for a cancel of the call, which takes it. */
static void answer_report(struct weir_call *call, const struct task_report *report)
{
    if (report->kind == TASK_COMPLETE) {
        weir_done(call, report->output);
    } else if (report->is_final) {
        weir_fail(call, report->code, report->error);
    } else {
        weir_retry_after(call, report->retry_after_us, report->code, report->error);
    }
}

enum task_verdict task_hub_report(struct task_hub *hub, const struct task_report *report)
{
    INVARIANT(hub != NULL && report != NULL && report->worker != NULL && report->task != NULL);
    struct task *task = NULL;
    (void)pthread_mutex_lock(&hub->lock);
    enum task_verdict verdict = find_task(hub, report, &task);
    struct task_worker *worker = task_worker_find(hub, report->token_id, report->worker);
    if (worker != NULL && worker->is_live) {
        task_worker_touch(hub, worker);
    }
    bool is_answered = verdict == TASK_ACCEPTED && task != NULL && report->kind != TASK_HEARTBEAT;
    if (is_answered) {
        task_keep_report(hub, task->id, report_hash(report));
        task_move(task, TASK_ENDED);
    } else if (verdict == TASK_ACCEPTED && task != NULL) {
        task_lease(task, task->worker);
        write_log(task, report);
        if (report->has_progress) {
            weir_call_progress(task->call, report->fraction, report->progress_text);
        }
        verdict = task->is_cancelled ? TASK_CANCELLED : TASK_ACCEPTED;
    }
    (void)pthread_mutex_unlock(&hub->lock);
    if (!is_answered) {
        return verdict;
    }
    /* No other thread knows the task any more, but a cancel, for which the answer waits, and then take_record(). */
    struct weir_call *call = task->call;
    write_log(task, report);
    weir_call_on_recorded(call, take_record, task);
    answer_report(call, report);
    return TASK_UNRECORDED;
}

const char *task_verdict_name(enum task_verdict verdict)
{
    static const char *const names[] = {"accepted", "cancelled", "task_unknown", "task_lost", "unrecorded"};
    INVARIANT((size_t)verdict < sizeof names / sizeof names[0]);
    return names[verdict];
}
