/* The dispatch loop: room -> claim -> start. Also: cancels on their way to the engine, and unanswered starts. No
 * transaction is open while the engine is called. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/json.h"
#include "dispatch/node_parts.h"

/* --- definitions --- */

/* What the dispatcher itself needs of a definition; the engine reads the rest. */
static void read_hints(struct kept_definition *kept)
{
    json_t *value = NULL;
    if (json_read(kept->text, strlen(kept->text), &value, NULL) != WEIR_OK) {
        return;
    }
    kept->attempts_max = (int)json_integer_value(json_object_get(value, "attempts"));
    const char *stuck_after = json_string_value(json_object_get(value, "stuck_after"));
    if (stuck_after != NULL && duration_parse(stuck_after, &kept->stuck_after_us, NULL) != WEIR_OK) {
        kept->stuck_after_us = 0;
    }
    json_decref(value);
}

static enum weir_status keep_definition(struct node *node, struct arena *arena, int64_t id,
                                        struct kept_definition **ret_kept, struct weir_error *error)
{
    struct kept_definition *kept = &node->definitions[(uint64_t)id % DEFINITIONS_MOST];
    if (kept->id != id) {
        struct definition_text definition;
        enum weir_status status = store_read_definition(node->stores[LOOP_DISPATCH], id, arena, &definition, error);
        if (status != WEIR_OK) {
            return status;
        }
        char *text = strdup(definition.text);
        if (text == NULL) {
            return error_out_of_memory(error);
        }
        free(kept->text);
        *kept = (struct kept_definition){.id = id, .text = text};
        read_hints(kept);
    }
    *ret_kept = kept;
    return WEIR_OK;
}

/* --- starting --- */

/* A start that cannot even be put together is refused like any other. */
static void refuse(struct node *node, const struct claimed_item *item, enum weir_status status,
                   const struct weir_error *error)
{
    bool permanent = weir_status_kind(status) == WEIR_KIND_PERMANENT;
    struct report *report = report_new(REPORT_REFUSED, item->id, item->fence);
    if (report == NULL) {
        return; /* it is asked again after the start's deadline */
    }
    report->permanent = permanent;
    report->spends_attempt = permanent;
    report->delay_us = RETRY_BACKOFF_US;
    text_copy(report->error_code, sizeof report->error_code, weir_status_name(status));
    report->error = strdup(error->message);
    recorder_report(node, report);
}

/* False when the claim is lost meanwhile, or may be: others take it over once the lease is over, so nothing may be sent. */
static bool note_sending(struct node *node, const struct claimed_item *item, const struct kept_definition *kept, int sends)
{
    pthread_mutex_lock(&node->lock);
    struct in_flight *entry = in_flight_find(&node->in_flight, item->id, item->fence);
    bool ours = entry != NULL && lease_is_valid(node);
    if (ours) {
        entry->sends = sends;
        entry->resend_boot_us = time_add(node_now(node), node->settings.start_deadline_us);
        entry->attempts_max = kept->attempts_max > 0 ? kept->attempts_max : node->tuning.attempts_max;
        entry->stuck_after_us = kept->stuck_after_us > 0 ? kept->stuck_after_us : node->tuning.stuck_after_us;
    }
    pthread_mutex_unlock(&node->lock);
    return ours;
}

/* The start could not be sent. It is refused, unless an earlier request may have arrived: then it is tried again later. */
static void not_sent(struct node *node, const struct claimed_item *item, int sends, enum weir_status status,
                     const struct weir_error *error)
{
    pthread_mutex_lock(&node->lock);
    struct in_flight *entry = in_flight_find(&node->in_flight, item->id, item->fence);
    bool may_run = entry != NULL && in_flight_may_run(node, entry, sends);
    if (may_run) {
        entry->resend_boot_us = time_add(node_now(node), node->settings.start_deadline_us);
    }
    pthread_mutex_unlock(&node->lock);
    if (entry != NULL && !may_run) {
        refuse(node, item, status, error);
    }
}

static void send_start(struct node *node, struct arena *arena, const struct claimed_item *item, int sends)
{
    struct weir_error error = {.status = WEIR_OK};
    struct kept_definition *kept = NULL;
    enum weir_status status = keep_definition(node, arena, item->definition_id, &kept, &error);
    if (status == WEIR_OK) {
        struct engine_start start = {
            .workspace = item->workspace,
            .workflow = item->workflow,
            .version = item->version,
            .definition_id = item->definition_id,
            .definition = kept->text,
            .params = item->params,
            .params_length = item->params_length,
            .fence = item->fence,
            .attempt = item->attempts + 1,
            .handovers = item->handovers,
            .running_for_us = item->running_for_us,
            .priority = item->priority,
            .age_us = item->claimed_at_us - item->created_at_us,
            .store_ahead_us = node->store_ahead_us,
            .cancel_requested = item->cancel_requested,
            .steps = item->steps,
            .step_count = item->step_count,
        };
        memcpy(start.id, item->id, sizeof start.id);
        pthread_mutex_lock(&node->start_lock);
        if (note_sending(node, item, kept, sends)) {
            FAILPOINT("before_start");
            status = engine_start(node->engine, &start, &error);
            FAILPOINT("after_start");
        }
        pthread_mutex_unlock(&node->start_lock);
    }
    if (status != WEIR_OK) {
        not_sent(node, item, sends, status, &error);
    }
}

/* This node gets an item back that it held before and lost without hearing of it: what it still does under the old claim
 * must end before the new start. */
static void drop_older_claims(struct node *node, const struct claimed_item *item)
{
    int64_t older;
    do {
        pthread_mutex_lock(&node->lock);
        struct in_flight *entry = in_flight_find_older(&node->in_flight, item->id, item->fence);
        older = entry == NULL ? 0 : entry->fence;
        if (entry != NULL) {
            in_flight_remove(&node->in_flight, item->id, older);
        }
        pthread_mutex_unlock(&node->lock);
        if (older != 0) {
            engine_abandon(node->engine, item->id, older);
        }
    } while (older != 0);
}

/* The claim tells that others wait; else how long it waited tells, unless it waited for something else. */
static void note_demand(struct node *node, const struct claimed_item *item)
{
    int64_t since_us = item->run_at_us > item->created_at_us ? item->run_at_us : item->created_at_us;
    if (!item->handed_over && item->attempts == 0) {
        slot_demand_claimed(&node->slot_demand, item->workspace,
                            item->others_wait ? SLOT_DEMAND_WAITED_US : item->claimed_at_us - since_us);
    }
}

/* What was claimed under `node_id`. If the lease was lost before the claim's answer came, others have it: then the node has
 * another id by now, or none, and nothing may be started. */
static void start_items(struct node *node, int64_t node_id, struct claim_batch *batch, const struct claim_result *result)
{
    int64_t now_us = node_now(node);
    size_t added = 0;
    node->store_ahead_us = result->now_us - now_us; /* the answer took a while: rather too little than too much */
    pthread_mutex_lock(&node->lock);
    bool ours = atomic_load(&node->id) == node_id && !atomic_load(&node->lease_lost);
    for (; added < result->count && ours; added++) {
        const struct claimed_item *item = &result->items[added];
        struct in_flight *entry = in_flight_add(&node->in_flight, item, batch);
        if (entry == NULL) {
            break; /* out of memory */
        }
        int64_t since_us = item->run_at_us > item->created_at_us ? item->run_at_us : item->created_at_us;
        entry->claimed_boot_us = now_us;
        entry->waited_us = item->claimed_at_us > since_us ? item->claimed_at_us - since_us : 0;
        entry->resend_boot_us = time_add(now_us, node->settings.start_deadline_us);
        entry->attempts_max = node->tuning.attempts_max;
        entry->stuck_after_us = node->tuning.stuck_after_us;
    }
    pthread_mutex_unlock(&node->lock);
    if (ours && added < result->count) {
        unkept_add(node, node_id, batch, &result->items[added], result->count - added);
    }
    for (size_t i = 0; i < added; i++) {
        const struct claimed_item *item = &result->items[i];
        struct event event = {.type = EVENT_EXECUTION_DISPATCHING,
                              .execution_id = item->id,
                              .workspace = item->workspace,
                              .workflow = item->workflow,
                              .fence = item->fence,
                              .attempt = item->attempts + 1};
        event_emit(node->events, &event);
        drop_older_claims(node, item);
        note_demand(node, item);
        send_start(node, &batch->arena, item, 1);
    }
}

/* --- unanswered starts: the same ids again --- */

struct unanswered {
    struct node *node;
    int64_t now_us;
    int64_t next_us;
    struct claimed_item items[CLAIM_BATCH_DEFAULT];
    struct claim_batch *batches[CLAIM_BATCH_DEFAULT];
    int sends[CLAIM_BATCH_DEFAULT];
    size_t count;
};

static void collect_unanswered(void *context, struct in_flight *entry)
{
    struct unanswered *due = context;
    if (entry->started || entry->answer_waits || entry->batch == NULL) {
        return;
    }
    if (entry->resend_boot_us > due->now_us || due->count == CLAIM_BATCH_DEFAULT) {
        due->next_us = earlier(due->next_us, entry->resend_boot_us);
        return;
    }
    due->items[due->count] = *entry->item;
    due->batches[due->count] = entry->batch;
    due->sends[due->count] = entry->sends + 1;
    entry->batch->references++;
    due->count++;
}

static int64_t send_again(struct node *node, int64_t now_us)
{
    struct unanswered due = {.node = node, .now_us = now_us, .next_us = TIME_NEVER};
    pthread_mutex_lock(&node->lock);
    in_flight_each_unanswered(&node->in_flight, collect_unanswered, &due);
    pthread_mutex_unlock(&node->lock);
    for (size_t i = 0; i < due.count; i++) {
        struct event event = {.type = EVENT_START_UNKNOWN,
                              .execution_id = due.items[i].id,
                              .workspace = due.items[i].workspace,
                              .fence = due.items[i].fence,
                              .count = due.sends[i]};
        event_emit(node->events, &event);
        send_start(node, &due.batches[i]->arena, &due.items[i], due.sends[i]);
        pthread_mutex_lock(&node->lock);
        claim_batch_release(due.batches[i]);
        pthread_mutex_unlock(&node->lock);
    }
    return due.count == CLAIM_BATCH_DEFAULT ? now_us : due.next_us;
}

/* --- cancels --- */

static enum weir_status pass_requests(struct node *node, struct weir_error *error)
{
    struct arena arena;
    struct node_request *requests = NULL;
    size_t count = 0;
    arena_init(&arena, CLAIM_ARENA_BYTES);
    enum weir_status status =
        store_take_requests(node->stores[LOOP_DISPATCH], atomic_load(&node->id), &arena, &requests, &count, error);
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        engine_cancel(node->engine, requests[i].id, requests[i].fence);
    }
    arena_close(&arena);
    return status;
}

/* --- claiming --- */

static bool may_claim(struct node *node)
{
    return !node->settings.no_dispatch && !atomic_load(&node->paused) && atomic_load(&node->wish) == NODE_RUN &&
           !atomic_load(&node->lease_lost) && lease_is_valid(node) && atomic_load(&node->stop_kind) == 0;
}

/* A claim takes a part of what the engine can hold: while it is started, run and recorded, the next ones follow. One that
 * took all of it would leave the recorder without work until its own comes back, and then the dispatcher. */
enum { CLAIM_PARTS = 3, CLAIM_PART_LEAST = 64 };

/* How many to claim: the engine's room, one batch, and what the breaker lets through. */
static size_t wanted(struct node *node, int64_t now_us)
{
    size_t room = engine_room(node->engine);
    size_t part = (room + engine_running(node->engine)) / CLAIM_PARTS;
    part = part > CLAIM_PART_LEAST ? part : CLAIM_PART_LEAST;
    room = room < part ? room : part;
    size_t batch = node->tuning.claim_batch;
    room = room < batch ? room : batch;
    pthread_mutex_lock(&node->lock);
    int64_t allowed = breaker_allows(&node->breaker, (int64_t)room, now_us);
    pthread_mutex_unlock(&node->lock);
    return allowed > 0 ? (size_t)allowed : 0;
}

/* A claim that took something and left more says what a look would say, for a while. */
static void note_more(struct node *node, bool more)
{
    if (!more) {
        node->more_until_boot_us = 0;
    } else if (node->more_until_boot_us == 0) {
        node->more_until_boot_us = time_add(node_now(node), LOOK_AT_LEAST_US);
    }
}

static enum weir_status claim(struct node *node, size_t limit, size_t *ret_count, bool *ret_more, struct weir_error *error)
{
    struct claim_batch *batch = calloc(1, sizeof *batch);
    struct claim_result result = {0};
    struct claim_options options = {
        .node_id = atomic_load(&node->id), .group = node->group, .limit = limit, .attempts_max = node->tuning.attempts_max};
    if (batch == NULL) {
        return error_out_of_memory(error);
    }
    arena_init(&batch->arena, CLAIM_ARENA_BYTES);
    batch->references = 1;
    enum weir_status status = store_claim(node->stores[LOOP_DISPATCH], &options, &batch->arena, &result, error);
    if (status == WEIR_OK && result.count > 0) {
        FAILPOINT("after_claim");
        node->lost_races = 0;
        node->told_in_vain = false;
        start_items(node, options.node_id, batch, &result);
        if (node->unkept.batch != NULL) {
            status = unkept_give_back(node, error);
            status = status == WEIR_OK ? error_out_of_memory(error) : status; /* the next claim waits a little */
        }
    }
    pthread_mutex_lock(&node->lock);
    claim_batch_release(batch);
    pthread_mutex_unlock(&node->lock);
    *ret_count = result.count;
    *ret_more = status == WEIR_OK && result.more;
    note_more(node, *ret_more && result.count > 0);
    return status;
}

static void lose_race(struct node *node)
{
    struct event event = {.type = EVENT_RACE_LOST, .node = node->name};
    node->lost_races++;
    event_emit(node->events, &event);
}

/* Without a look before it. Else a claim is a probe of the engine, and none shall be in vain; or it wants a lock. */
static bool may_claim_unlooked(struct node *node)
{
    return node_reaches_engine(node) && !node->settings.exclusive && may_claim(node);
}

/* Not for ever: whoever is told of work again and again must still look for cancels and for what has become due. */
static bool may_look_later(struct node *node, int64_t now_us)
{
    if (node->look_boot_us == 0) {
        node->look_boot_us = time_add(now_us, LOOK_LATER_US);
    }
    return now_us < node->look_boot_us;
}

/* The base under all wake-ups, at a random distance (nFlow), so that nodes do not poll in step. */
static int64_t next_poll(struct node *node, int64_t now_us)
{
    int64_t interval_us = node->tuning.poll_interval_us;
    if (now_us >= node->next_poll_boot_us || node->next_poll_boot_us > time_add(now_us, interval_us)) {
        pthread_mutex_lock(&node->lock);
        int64_t half_us = interval_us / 2;
        node->next_poll_boot_us = time_add(now_us, half_us + (int64_t)random_below(&node->random, (uint64_t)half_us + 1));
        pthread_mutex_unlock(&node->lock);
    }
    return node->next_poll_boot_us;
}

/* No room: an answer to a start wakes us, or the record of an end, when it has given some back. The engine hears of that
 * record in a thread of its own, so it may not have let go yet what has ended; nobody wakes us when it has. An open
 * breaker names the time. */
static void await_room(struct node *node, int64_t now_us, int64_t *ret_next_us)
{
    size_t running = engine_running(node->engine);
    atomic_store(&node->awaits_room, true);
    pthread_mutex_lock(&node->lock);
    *ret_next_us = earlier(*ret_next_us, breaker_next(&node->breaker));
    if (running > node->in_flight.count) {
        *ret_next_us = earlier(*ret_next_us, time_add(now_us, ROOM_LOOK_US));
    }
    pthread_mutex_unlock(&node->lock);
}

/* Whoever tells of work is believed: a look before the claim would say the same, and the start would wait for it. Unless
 * the last one told in vain: then his workspace may be full, and looks, which lock nothing, come first until one finds
 * work. So is the last claim, when it left more; where there is no room for that, nothing is asked. The look that sees to
 * everything else need not be at once when all was taken, nor, for a while, when one claim follows the other. */
static enum weir_status claim_unlooked(struct node *node, int64_t now_us, int64_t *ret_next_us, bool *ret_looks_later,
                                       struct weir_error *error)
{
    size_t count = 0;
    bool more = false;
    bool told = atomic_exchange(&node->told_of_work, false);
    bool knows = told ? !node->told_in_vain : now_us < node->more_until_boot_us;
    *ret_looks_later = false;
    if (!knows || !may_claim_unlooked(node)) {
        return WEIR_OK;
    }
    size_t limit = wanted(node, now_us);
    if (limit == 0) {
        *ret_looks_later = !told;
        if (!told) {
            await_room(node, now_us, ret_next_us);
            *ret_next_us = earlier(*ret_next_us, node->more_until_boot_us);
        }
        return WEIR_OK;
    }
    enum weir_status status = claim(node, limit, &count, &more, error);
    node->told_in_vain = told ? count == 0 : node->told_in_vain;
    if (count > 0 && !more && may_look_later(node, now_us)) {
        *ret_looks_later = true;
        *ret_next_us = earlier(*ret_next_us, node->look_boot_us);
    } else if (count > 0 && more && !told) {
        *ret_looks_later = true;
        *ret_next_us = now_us;
    }
    return status;
}

static enum weir_status look_and_claim(struct node *node, int64_t now_us, int64_t *ret_next_us, struct weir_error *error)
{
    struct next_work work;
    size_t count = 0;
    bool more = false;
    enum weir_status status =
        store_next_work(node->stores[LOOP_DISPATCH], atomic_load(&node->id), node->group, &work, error);
    if (status == WEIR_OK && work.requests) {
        status = pass_requests(node, error);
    }
    if (status != WEIR_OK) {
        return status;
    }
    /* What is due already sets no timer: it is ready, and whatever keeps this node from claiming it wakes us at its end. */
    *ret_next_us = earlier(*ret_next_us, work.due_in_us > 0 ? time_add(now_us, work.due_in_us) : TIME_NEVER);
    if (!work.ready) {
        node->lost_races = 0;
    }
    if (!work.ready || !may_claim(node)) {
        return WEIR_OK;
    }
    if (node->settings.exclusive && !lock_hold(node, node->stores[LOOP_DISPATCH], &node->exclusive, now_us)) {
        *ret_next_us = earlier(*ret_next_us, node->exclusive.again_boot_us);
        return WEIR_OK;
    }
    size_t limit = wanted(node, now_us);
    if (limit == 0) {
        await_room(node, now_us, ret_next_us);
        return WEIR_OK;
    }
    status = claim(node, limit, &count, &more, error);
    if (status == WEIR_OK && count == 0) {
        lose_race(node);
    }
    if (more || work.due_in_us == 0) {
        *ret_next_us = now_us; /* also: what was due hid when the next one is */
    }
    return status;
}

/* --- the loop --- */

/* Whoever loses race after race backs off at random: others are faster, or something is marked as ready that nobody can
 * take (rows that were changed by hand). The first two cost nothing. */
static void back_off_from_races(struct node *node, int64_t now_us)
{
    if (node->lost_races <= LOST_RACES_FREE) {
        return;
    }
    int doublings = node->lost_races - LOST_RACES_FREE;
    int64_t most_us = LOST_RACE_FIRST_US << (doublings < LOST_RACE_DOUBLINGS ? doublings : LOST_RACE_DOUBLINGS);
    pthread_mutex_lock(&node->lock);
    int64_t delay_us = most_us / 2 + (int64_t)random_below(&node->random, (uint64_t)most_us / 2 + 1);
    pthread_mutex_unlock(&node->lock);
    node->retry_us[LOOP_DISPATCH] = time_add(now_us, delay_us);
}

int64_t dispatcher_step(struct node *node)
{
    int64_t now_us = node_now(node);
    int64_t next_us;
    struct weir_error error = {.status = WEIR_OK};
    int stop = atomic_load(&node->stop_kind);
    if (loop_is_backing_off(node, LOOP_DISPATCH, now_us, &next_us)) {
        return next_us;
    }
    if (stop != 0) {
        return stop_step(node, now_us, (enum node_stop_kind)(stop - 1)); /* stop.c */
    }
    if (atomic_load(&node->lease_lost)) {
        return TIME_NEVER; /* the heartbeat loop registers anew and wakes us */
    }
    next_us = next_poll(node, now_us);
    bool looks_later = false;
    enum weir_status status = unkept_give_back(node, &error);
    if (status == WEIR_OK) {
        status = claim_unlooked(node, now_us, &next_us, &looks_later, &error);
    }
    if (status == WEIR_OK && !looks_later) {
        node->look_boot_us = 0;
        node->more_until_boot_us = 0;
        status = look_and_claim(node, now_us, &next_us, &error);
    }
    if (status != WEIR_OK) {
        return loop_failed(node, LOOP_DISPATCH, now_us, status, &error);
    }
    loop_succeeded(node, LOOP_DISPATCH);
    next_us = earlier(next_us, send_again(node, now_us));
    back_off_from_races(node, now_us);
    return next_us > node->retry_us[LOOP_DISPATCH] ? next_us : node->retry_us[LOOP_DISPATCH];
}
