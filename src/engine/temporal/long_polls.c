/* Waiting calls (history long polls): they tell of an end at once, and there are few of them. While no more executions run
 * than there are places, each has one. When more run, the calls wait where an end is waited for: for runs of workspaces
 * whose slots others want. Each such workspace gets one before any gets a second, and half of the places are kept for that:
 * a workspace with few slots loses most by a late end. What is left over while the list fails goes to the others. A place
 * of a workspace whose slots no one wants is lent: it is taken back as soon as it is needed, and not kept at its renewal.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/temporal/temporal_internal.h"

/* --- workspaces --- */

static struct waited_workspace **place_of(struct temporal *engine, const char *name)
{
    struct waited_workspace **place = &engine->waited[text_hash(name) % WAITED_BUCKETS];
    while (*place != NULL && strcmp((*place)->name, name) != 0) {
        place = &(*place)->next;
    }
    return place;
}

/* NULL when out of memory: then the list must do. */
static struct waited_workspace *find_or_make(struct temporal *engine, const char *name)
{
    struct waited_workspace **place = place_of(engine, name);
    if (*place == NULL) {
        size_t length = strlen(name) + 1;
        *place = calloc(1, sizeof **place + length);
        if (*place != NULL) {
            (*place)->last = &(*place)->first;
            memcpy((*place)->name, name, length);
        }
    }
    return *place;
}

static void leave_queue(struct waited_workspace *workspace)
{
    struct waited_queue *queue = workspace->queue;
    if (queue == NULL) {
        return;
    }
    *(workspace->turn_previous != NULL ? &workspace->turn_previous->turn_next : &queue->first) = workspace->turn_next;
    *(workspace->turn_next != NULL ? &workspace->turn_next->turn_previous : &queue->last) = workspace->turn_previous;
    workspace->turn_next = workspace->turn_previous = NULL;
    workspace->queue = NULL;
}

/* Into the queue where it belongs, at its end unless it is there already; or away, when nothing is known of it. */
static void settle(struct temporal *engine, struct waited_workspace *workspace)
{
    struct waited_queue *queue = workspace->first == NULL ? NULL
                                 : !workspace->wanted     ? &engine->waited_unwanted
                                 : workspace->polls == 0  ? &engine->waited_none
                                                          : &engine->waited_some;
    if (queue != workspace->queue) {
        leave_queue(workspace);
        if (queue != NULL) {
            workspace->queue = queue;
            workspace->turn_previous = queue->last;
            *(queue->last != NULL ? &queue->last->turn_next : &queue->first) = workspace;
            queue->last = workspace;
        }
    }
    if (!workspace->wanted && workspace->first == NULL && workspace->polls == 0) {
        struct waited_workspace **place = place_of(engine, workspace->name);
        *place = workspace->next;
        free(workspace);
    }
}

static void set_wanted(struct temporal *engine, struct waited_workspace *workspace, bool wanted)
{
    if (workspace->wanted != wanted) {
        workspace->wanted = wanted;
        engine->polls_lent = wanted ? engine->polls_lent - workspace->polls : engine->polls_lent + workspace->polls;
    }
    settle(engine, workspace);
}

void waits_want(struct temporal *engine, const char *name, bool wanted)
{
    struct waited_workspace *workspace = wanted ? find_or_make(engine, name) : *place_of(engine, name);
    if (workspace != NULL) {
        set_wanted(engine, workspace, wanted);
    }
}

void waits_want_nothing(struct temporal *engine)
{
    for (size_t i = 0; i < WAITED_BUCKETS; i++) {
        for (struct waited_workspace *workspace = engine->waited[i], *next; workspace != NULL; workspace = next) {
            next = workspace->next;
            set_wanted(engine, workspace, false);
        }
    }
}

/* --- runs --- */

/* Out of the list in which it is: of those that are waited for, or of the others. */
static void unlink_run(struct run *run)
{
    *run->wait_link = run->wait_next;
    if (run->wait_next != NULL) {
        run->wait_next->wait_link = run->wait_link;
    } else if (run->waits->last == &run->wait_next) {
        run->waits->last = run->wait_link;
    }
    run->wait_next = NULL;
    run->wait_link = NULL;
}

void waits_add(struct temporal *engine, struct run *run)
{
    if (run->waits != NULL) {
        return;
    }
    struct waited_workspace *workspace = find_or_make(engine, run->workspace);
    if (workspace == NULL) {
        return;
    }
    run->waits = workspace;
    run->wait_next = NULL;
    run->wait_link = workspace->last;
    *run->wait_link = run;
    workspace->last = &run->wait_next;
    engine->unpolled++;
    settle(engine, workspace);
}

static void begin_wait(struct temporal *engine, struct run *run)
{
    struct waited_workspace *workspace = run->waits;
    unlink_run(run);
    engine->unpolled--;
    run->wait_next = workspace->polled;
    run->wait_link = &workspace->polled;
    if (run->wait_next != NULL) {
        run->wait_next->wait_link = &run->wait_next;
    }
    workspace->polled = run;
    workspace->polls++;
    engine->polls++;
    engine->polls_lent += !workspace->wanted;
    leave_queue(workspace); /* to its end: others have their turn */
    settle(engine, workspace);
}

/* It is not waited for any more, nor in a list. */
static void end_wait(struct temporal *engine, struct run *run)
{
    struct waited_workspace *workspace = run->waits;
    unlink_run(run);
    run->waits = NULL;
    workspace->polls--;
    engine->polls--;
    engine->polls_lent -= !workspace->wanted;
    settle(engine, workspace);
}

void waits_remove(struct temporal *engine, struct run *run)
{
    if (run->waits == NULL) {
        return;
    }
    if (run->poll != NULL) {
        end_wait(engine, run);
        call_forget(run->poll, true);
        return;
    }
    struct waited_workspace *workspace = run->waits;
    unlink_run(run);
    engine->unpolled--;
    run->waits = NULL;
    settle(engine, workspace);
}

void waits_begin_anew(struct temporal *engine)
{
    engine->polls_pause_until_us = temporal_now(engine);
    for (size_t i = 0; i < engine->bucket_count; i++) {
        for (struct run *run = engine->buckets[i]; run != NULL; run = run->next) {
            if (run->poll != NULL) {
                waits_remove(engine, run);
                waits_add(engine, run);
            }
        }
    }
}

/* --- calls --- */

static bool send_poll(struct temporal *engine, struct run *run, struct bytes token);

/* Places may be lent: each execution has one, or the list does not see the ends of those that have none. */
static bool may_lend(const struct temporal *engine)
{
    return atomic_load(&engine->followed) <= engine->polls_now_max || engine->sweep.is_impaired;
}

static void poll_failed(struct temporal *engine, struct run *run, enum look_kind look)
{
    int64_t now_us = temporal_now(engine);
    if (look == LOOK_THROTTLED) {
        engine->polls_now_max = engine->polls / 2 + 1;
        engine->polls_fewer_until_us = time_add(now_us, 60 * MICROSECONDS_PER_SECOND);
    } else if (look == LOOK_NOT_FOUND) {
        start_ask(engine, run);
    }
    engine->polls_pause_until_us = time_add(now_us, MICROSECONDS_PER_SECOND);
}

static void poll_done(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct closing closing = {.kind = CLOSING_NONE};
    if (run == NULL) {
        return;
    }
    enum look_kind look = look_of(result);
    bool is_read = look == LOOK_OK && answer_close_event(result->response, result->response_length, &closing) == WEIR_OK;
    bool goes_on = is_read && closing.kind == CLOSING_NONE;
    /* Nothing yet: the same call again keeps its place, unless others need it more. */
    if (goes_on && (run->waits->wanted || may_lend(engine)) && send_poll(engine, run, closing.token)) {
        closing_close(&closing);
        return;
    }
    end_wait(engine, run);
    if (is_read && !goes_on) {
        coding_keep(engine, &closing, result);
        end_take(engine, run, &closing);
        return;
    }
    closing_close(&closing);
    if (!goes_on) {
        poll_failed(engine, run, look);
    }
    waits_add(engine, run);
}

static bool send_poll(struct temporal *engine, struct run *run, struct bytes token)
{
    bool is_sent = call_send_own(engine, run, &run->poll, METHOD_HISTORY,
                                 message_close_event(engine->namespace_name, run->workflow_id, run->run_id, true, token),
                                 POLL_TIMEOUT_US, poll_done);
    if (!is_sent) {
        engine->polls_pause_until_us = time_add(temporal_now(engine), MICROSECONDS_PER_SECOND);
    }
    return is_sent;
}

/* Waits for the first of the workspace, which goes to the end of its queue. */
static void give_place(struct temporal *engine, struct waited_workspace *workspace)
{
    struct run *run = workspace->first;
    begin_wait(engine, run);
    if (!send_poll(engine, run, (struct bytes){NULL, 0})) {
        end_wait(engine, run);
        waits_add(engine, run);
    }
}

/* One that is lent becomes free. */
static void take_back(struct temporal *engine)
{
    for (size_t i = 0; i < WAITED_BUCKETS; i++) {
        for (const struct waited_workspace *workspace = engine->waited[i]; workspace != NULL; workspace = workspace->next) {
            struct run *run = workspace->wanted ? NULL : workspace->polled;
            if (run != NULL) {
                waits_remove(engine, run);
                waits_add(engine, run);
                return;
            }
        }
    }
}

/* NULL: none has need of a place, or there is none. */
static struct waited_workspace *next_to_wait_for(const struct temporal *engine)
{
    bool lends = may_lend(engine);
    size_t owned = engine->polls - engine->polls_lent;
    size_t seconds_max = lends ? engine->polls_now_max : (engine->polls_now_max + 1) / 2;
    struct waited_workspace *next = owned < engine->polls_now_max ? engine->waited_none.first : NULL;
    next = next == NULL && owned < seconds_max ? engine->waited_some.first : next;
    return next == NULL && lends && engine->polls < engine->polls_now_max ? engine->waited_unwanted.first : next;
}

int64_t waits_step(struct temporal *engine, int64_t now_us)
{
    if (engine->polls_now_max < engine->polls_max && now_us >= engine->polls_fewer_until_us) {
        engine->polls_now_max = engine->polls_max;
    }
    for (;;) {
        struct waited_workspace *next = next_to_wait_for(engine);
        if (next == NULL) {
            return TIME_NEVER;
        }
        if (now_us < engine->polls_pause_until_us) {
            return engine->polls_pause_until_us;
        }
        if (engine->polls >= engine->polls_now_max) {
            take_back(engine);
        }
        give_place(engine, next);
    }
}

void waits_open(struct temporal *engine)
{
    engine->polls_now_max = engine->polls_max;
}

void waits_close(struct temporal *engine)
{
    waits_want_nothing(engine);
    for (size_t i = 0; i < WAITED_BUCKETS; i++) {
        INVARIANT(engine->waited[i] == NULL);
    }
}
