/* Long polls: history calls that the service answers at the end of a run, or after 20 s.
 *
 * A long poll finds an end at once, but a service allows few of them. While no more runs are followed than there are
 * places, each run has one. When there are more runs, the places go where an end is awaited:
 *
 * 1. A workspace whose slots are wanted, and that has no long poll yet, comes first: with few slots it loses most by a late
 *    end.
 * 2. Then such a workspace may have further long polls, from half of the places; the other half stays free for step 1.
 * 3. A workspace whose slots are not wanted gets a place only on loan: while every run has one, or while the list of
 *    close_sweep.c is impaired. The place is taken back as soon as step 1 or 2 needs it, and is not renewed.
 *
 * Within a step the workspaces take turns. A throttled long poll halves the number of places for a minute.
 *
 * This file must never use more than `max_now` places. A missing long poll only delays the finding of an end.
 *
 * It runs in the engine's loop. */
#include "engine/temporal/long_polls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/temporal/temporal_internal.h"

/* --- workspaces --- */

/* The link to the workspace of this name; it holds NULL when there is none. */
static struct poll_workspace **find_workspace_link(struct temporal *engine, const char *name)
{
    struct poll_workspace **place = &engine->long_polls.workspaces[text_hash(name) % POLL_BUCKETS];
    while (*place != NULL && strcmp((*place)->name, name) != 0) {
        place = &(*place)->next;
    }
    return place;
}

/* NULL when out of memory: then the list finds the ends. */
static struct poll_workspace *find_or_add_workspace(struct temporal *engine, const char *name)
{
    struct poll_workspace **place = find_workspace_link(engine, name);
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

/* Takes it out of its queue. */
static void unlink_workspace(struct poll_workspace *workspace)
{
    struct poll_queue *queue = workspace->queue;
    if (queue == NULL) {
        return;
    }
    *(workspace->turn_previous != NULL ? &workspace->turn_previous->turn_next : &queue->first) = workspace->turn_next;
    *(workspace->turn_next != NULL ? &workspace->turn_next->turn_previous : &queue->last) = workspace->turn_previous;
    workspace->turn_next = workspace->turn_previous = NULL;
    workspace->queue = NULL;
}

/* Puts it at the end of the queue where it belongs, unless it is in that queue. Frees a workspace without runs and need. */
static void requeue_workspace(struct temporal *engine, struct poll_workspace *workspace)
{
    struct poll_queue *queue = workspace->first == NULL ? NULL
                               : !workspace->wanted     ? &engine->long_polls.unwanted
                               : workspace->polls == 0  ? &engine->long_polls.without_poll
                                                        : &engine->long_polls.with_poll;
    if (queue != workspace->queue) {
        unlink_workspace(workspace);
        if (queue != NULL) {
            workspace->queue = queue;
            workspace->turn_previous = queue->last;
            *(queue->last != NULL ? &queue->last->turn_next : &queue->first) = workspace;
            queue->last = workspace;
        }
    }
    if (!workspace->wanted && workspace->first == NULL && workspace->polls == 0) {
        struct poll_workspace **place = find_workspace_link(engine, workspace->name);
        *place = workspace->next;
        free(workspace);
    }
}

/* The places of a workspace are lent while its slots are not wanted. */
static void mark_wanted(struct temporal *engine, struct poll_workspace *workspace, bool wanted)
{
    if (workspace->wanted != wanted) {
        workspace->wanted = wanted;
        engine->long_polls.lent =
            wanted ? engine->long_polls.lent - workspace->polls : engine->long_polls.lent + workspace->polls;
    }
    requeue_workspace(engine, workspace);
}

void long_poll_want_slots(struct temporal *engine, const char *name, bool wanted)
{
    INVARIANT(name != NULL);
    struct poll_workspace *workspace = wanted ? find_or_add_workspace(engine, name) : *find_workspace_link(engine, name);
    if (workspace != NULL) {
        mark_wanted(engine, workspace, wanted);
    }
}

void long_poll_want_no_slots(struct temporal *engine)
{
    INVARIANT(engine != NULL);
    for (size_t i = 0; i < POLL_BUCKETS; i++) {
        for (struct poll_workspace *workspace = engine->long_polls.workspaces[i], *next; workspace != NULL;
             workspace = next) {
            next = workspace->next;
            mark_wanted(engine, workspace, false);
        }
    }
}

/* --- runs --- */

/* Takes the run out of its list: that of the polled runs, or of the other ones. */
static void unlink_run(struct run *run)
{
    *run->poll_link = run->poll_next;
    if (run->poll_next != NULL) {
        run->poll_next->poll_link = run->poll_link;
    } else if (run->poll_workspace->last == &run->poll_next) {
        run->poll_workspace->last = run->poll_link;
    }
    run->poll_next = NULL;
    run->poll_link = NULL;
}

void long_poll_add_run(struct temporal *engine, struct run *run)
{
    INVARIANT(run != NULL && run->state == RUN_FOLLOWED);
    if (run->poll_workspace != NULL) {
        return;
    }
    struct poll_workspace *workspace = find_or_add_workspace(engine, run->workspace);
    if (workspace == NULL) {
        return;
    }
    run->poll_workspace = workspace;
    run->poll_next = NULL;
    run->poll_link = workspace->last;
    *run->poll_link = run;
    workspace->last = &run->poll_next;
    engine->long_polls.unpolled++;
    requeue_workspace(engine, workspace);
}

/* The run moves to the list of polled runs. */
static void take_poll_place(struct temporal *engine, struct run *run)
{
    INVARIANT(run->poll_workspace != NULL && run->poll == NULL && engine->long_polls.unpolled > 0);
    struct poll_workspace *workspace = run->poll_workspace;
    unlink_run(run);
    engine->long_polls.unpolled--;
    run->poll_next = workspace->polled;
    run->poll_link = &workspace->polled;
    if (run->poll_next != NULL) {
        run->poll_next->poll_link = &run->poll_next;
    }
    workspace->polled = run;
    workspace->polls++;
    engine->long_polls.count++;
    engine->long_polls.lent += !workspace->wanted;
    unlink_workspace(workspace); /* to its end: the other workspaces have their turn */
    requeue_workspace(engine, workspace);
}

/* The run has no long poll any more, and is in no list. */
static void release_poll_place(struct temporal *engine, struct run *run)
{
    INVARIANT(run->poll_workspace != NULL && run->poll_workspace->polls > 0 && engine->long_polls.count > 0);
    struct poll_workspace *workspace = run->poll_workspace;
    unlink_run(run);
    run->poll_workspace = NULL;
    workspace->polls--;
    engine->long_polls.count--;
    engine->long_polls.lent -= !workspace->wanted;
    requeue_workspace(engine, workspace);
}

void long_poll_remove_run(struct temporal *engine, struct run *run)
{
    INVARIANT(run != NULL);
    if (run->poll_workspace == NULL) {
        return;
    }
    if (run->poll != NULL) {
        release_poll_place(engine, run);
        call_detach(run->poll, true);
        return;
    }
    struct poll_workspace *workspace = run->poll_workspace;
    unlink_run(run);
    engine->long_polls.unpolled--;
    run->poll_workspace = NULL;
    requeue_workspace(engine, workspace);
}

void long_poll_restart_all(struct temporal *engine)
{
    INVARIANT(engine != NULL);
    engine->long_polls.paused_until_us = temporal_now(engine);
    for (size_t i = 0; i < engine->runs.bucket_count; i++) {
        for (struct run *run = engine->runs.buckets[i]; run != NULL; run = run->next) {
            if (run->poll != NULL) {
                long_poll_remove_run(engine, run);
                long_poll_add_run(engine, run);
            }
        }
    }
}

/* --- calls --- */

static bool send_long_poll(struct temporal *engine, struct run *run, struct bytes token);

/* Places may be lent while every run has one, or while the list does not show the ends of the other runs. */
static bool may_lend_places(const struct temporal *engine)
{
    return atomic_load(&engine->followed) <= engine->long_polls.max_now || engine->sweep.is_impaired;
}

/* Throttling reduces the places; an unknown workflow is described. New long polls pause for a moment. */
static void handle_poll_failure(struct temporal *engine, struct run *run, enum reply_kind reply)
{
    int64_t now_us = temporal_now(engine);
    if (reply == REPLY_THROTTLED) {
        engine->long_polls.max_now = engine->long_polls.count / 2 + 1;
        engine->long_polls.reduced_until_us = time_add(now_us, POLL_REDUCED_US);
    } else if (reply == REPLY_NOT_FOUND) {
        starts_describe_run(engine, run);
    }
    engine->long_polls.paused_until_us = time_add(now_us, POLL_PAUSE_US);
}

static void handle_poll_answer(struct temporal *engine, struct run *run, const struct grpc_result *result)
{
    struct close_event closing = {.kind = CLOSE_NONE};
    if (run == NULL) {
        return;
    }
    enum reply_kind reply = outcome_classify_reply(result);
    bool is_read = reply == REPLY_OK && decode_close_event(result->response, result->response_length, &closing) == WEIR_OK;
    bool goes_on = is_read && closing.kind == CLOSE_NONE;
    /* The run is open: the next call keeps the place, unless the place is lent and needed. */
    if (goes_on && (run->poll_workspace->wanted || may_lend_places(engine)) && send_long_poll(engine, run, closing.token)) {
        close_event_close(&closing);
        return;
    }
    release_poll_place(engine, run);
    if (is_read && !goes_on) {
        coding_keep_payloads(engine, &closing, result);
        closing_take_event(engine, run, &closing);
        return;
    }
    close_event_close(&closing);
    if (!goes_on) {
        handle_poll_failure(engine, run, reply);
    }
    long_poll_add_run(engine, run);
}

static bool send_long_poll(struct temporal *engine, struct run *run, struct bytes token)
{
    bool is_sent =
        call_send_and_free(engine, run, &run->poll, METHOD_HISTORY,
                           encode_close_event(engine->namespace_name, run->workflow_id, run->run_id, true, token),
                           POLL_TIMEOUT_US, handle_poll_answer);
    if (!is_sent) {
        engine->long_polls.paused_until_us = time_add(temporal_now(engine), POLL_PAUSE_US);
    }
    return is_sent;
}

/* Polls the first run of the workspace, which goes to the end of its queue. */
static void poll_first_run(struct temporal *engine, struct poll_workspace *workspace)
{
    struct run *run = workspace->first;
    take_poll_place(engine, run);
    if (!send_long_poll(engine, run, (struct bytes){NULL, 0})) {
        release_poll_place(engine, run);
        long_poll_add_run(engine, run);
    }
}

/* Frees one lent place. */
static void reclaim_lent_place(struct temporal *engine)
{
    for (size_t i = 0; i < POLL_BUCKETS; i++) {
        for (const struct poll_workspace *workspace = engine->long_polls.workspaces[i]; workspace != NULL;
             workspace = workspace->next) {
            struct run *run = workspace->wanted ? NULL : workspace->polled;
            if (run != NULL) {
                long_poll_remove_run(engine, run);
                long_poll_add_run(engine, run);
                return;
            }
        }
    }
}

/* Steps 1 to 3. NULL: no workspace needs a place, or no place is free. */
static struct poll_workspace *choose_workspace(const struct temporal *engine)
{
    bool lends = may_lend_places(engine);
    size_t owned = engine->long_polls.count - engine->long_polls.lent;
    size_t seconds_max = lends ? engine->long_polls.max_now : (engine->long_polls.max_now + 1) / 2;
    struct poll_workspace *next = owned < engine->long_polls.max_now ? engine->long_polls.without_poll.first : NULL;
    next = next == NULL && owned < seconds_max ? engine->long_polls.with_poll.first : next;
    return next == NULL && lends && engine->long_polls.count < engine->long_polls.max_now
               ? engine->long_polls.unwanted.first
               : next;
}

int64_t long_poll_step(struct temporal *engine, int64_t now_us)
{
    INVARIANT(engine->long_polls.lent <= engine->long_polls.count);
    if (atomic_load(&engine->admitted) == 0) {
        return TIME_NEVER;
    }
    if (engine->long_polls.max_now < engine->long_polls.max && now_us >= engine->long_polls.reduced_until_us) {
        engine->long_polls.max_now = engine->long_polls.max;
    }
    for (;;) {
        struct poll_workspace *next = choose_workspace(engine);
        if (next == NULL) {
            return TIME_NEVER;
        }
        if (now_us < engine->long_polls.paused_until_us) {
            return engine->long_polls.paused_until_us;
        }
        if (engine->long_polls.count >= engine->long_polls.max_now) {
            reclaim_lent_place(engine);
        }
        poll_first_run(engine, next);
    }
}

void long_poll_init(struct long_polls *polls, size_t max)
{
    INVARIANT(polls != NULL);
    polls->max = max;
    polls->max_now = max;
}

void long_poll_close(struct temporal *engine)
{
    long_poll_want_no_slots(engine);
    for (size_t i = 0; i < POLL_BUCKETS; i++) {
        INVARIANT(engine->long_polls.workspaces[i] == NULL);
    }
}
