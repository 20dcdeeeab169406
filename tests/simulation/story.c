/* Invariant 12, the whole of it: the view execution_events has the same events of an execution as the observer.
 *
 * The observer notes each claim, dispatch, way back, hand-over and end as the rows change. At the end the view must tell
 * the very same events, with the same nodes and fences, in the same order; and the runs of steps must lie within the claims
 * of their nodes. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "simulation/simulation.h"

struct noted {
    const char *event;
    int64_t node_id;
    int64_t fence;
};

struct story {
    struct noted *events;
    size_t count;
    size_t capacity;
};

/* --- what was seen --- */

void story_note(struct model_item *item, const char *event, int64_t node_id, int64_t fence)
{
    struct story *story = item->story;
    if (story == NULL) {
        story = item->story = calloc(1, sizeof *story);
        INVARIANT(story != NULL);
    }
    if (story->count == story->capacity) {
        story->capacity = story->capacity == 0 ? 8 : story->capacity * 2;
        story->events = realloc(story->events, story->capacity * sizeof *story->events);
        INVARIANT(story->events != NULL);
    }
    story->events[story->count++] = (struct noted){.event = event, .node_id = node_id, .fence = fence};
}

/* The set with the end may tell the start as well: by the end itself or by a record before it. */
static bool tells_start(const struct simulation *simulation, const struct model_item *item)
{
    bool is = false;
    for (size_t i = 0; i < simulation->record_count && strcmp(simulation->verb, "record") == 0; i++) {
        const struct record *record = &simulation->records[i];
        is = is || ((record->dispatched_first || record->kind == RECORD_DISPATCHED) && record->fence == item->fence &&
                    strcmp(record->id, item->id) == 0);
    }
    return is && item->state == ITEM_CLAIMED;
}

void story_note_end(struct simulation *simulation, struct model_item *item, enum item_state to, bool is_poison)
{
    static const char *const ends[ITEM_STATE_COUNT] = {
        [ITEM_COMPLETED] = "complete", [ITEM_FAILED] = "fail", [ITEM_CANCELLED] = "cancelled"};
    if (tells_start(simulation, item)) {
        story_note(item, "dispatch", item->node_id, item->fence);
    }
    if (is_poison) { /* the last of its handovers */
        INVARIANT(item->story != NULL && item->story->count > 0);
        item->story->events[item->story->count - 1].event = "poison";
    }
    story_note(item, ends[to], item->node_id, item->fence);
}

void story_close(struct model_item *item)
{
    if (item->story != NULL) {
        free(item->story->events);
        free(item->story);
        item->story = NULL;
    }
}

/* --- what is told --- */

struct reading {
    struct simulation *simulation;
    const struct model_item *item;
    struct question *rows;
    struct question *name;
    const char *event, *node, *actor;
    int64_t fence;
    size_t at; /* the next of the noted events */
    int enqueued, ended;
    bool tells_way_back;
};

static void wrong(const struct reading *reading, const char *what)
{
    const struct story *story = reading->item->story;
    const struct noted *next = story != NULL && reading->at < story->count ? &story->events[reading->at] : NULL;
    fail(reading->simulation, EVERYTHING_IS_ON_RECORD,
         "the story of %s (%s) tells of %s by %s under fence %lld, %s; seen was %s by node %lld under %lld",
         reading->item->id, item_state_name(reading->item->state), reading->event,
         reading->node == NULL ? "nobody" : reading->node, (long long)reading->fence, what,
         next == NULL ? "its end" : next->event, next == NULL ? 0 : (long long)next->node_id,
         next == NULL ? 0 : (long long)next->fence);
}

static bool is_node(const struct reading *reading, int64_t node_id)
{
    if (node_id == 0) {
        return reading->node == NULL;
    }
    question_ask_number(reading->name, node_id);
    bool is = question_next(reading->name) && reading->node != NULL &&
              strcmp(question_text(reading->name, 0), reading->node) == 0;
    question_end(reading->name);
    return is;
}

static bool is_next(const struct reading *reading)
{
    const struct noted *next = &reading->item->story->events[reading->at];
    return strcmp(reading->event, next->event) == 0 && reading->fence == next->fence && is_node(reading, next->node_id);
}

/* A put-back or a deferral for the same reason as the one before is no news: neither it nor its claim is told. */
static void pass_over_no_news(struct reading *reading)
{
    const struct story *story = reading->item->story;
    while (reading->tells_way_back && story != NULL && reading->at + 1 < story->count &&
           strcmp(story->events[reading->at].event, "claim") == 0 &&
           (strcmp(story->events[reading->at + 1].event, "put_back") == 0 ||
            strcmp(story->events[reading->at + 1].event, "defer") == 0) &&
           (reading->event == NULL || strcmp(reading->event, "claim") != 0 ||
            reading->fence != story->events[reading->at].fence)) {
        reading->at += 2;
    }
}

static void check_next(struct reading *reading)
{
    pass_over_no_news(reading);
    if (reading->item->story == NULL || reading->at == reading->item->story->count || !is_next(reading)) {
        wrong(reading, "which is not what happened next");
        return;
    }
    reading->tells_way_back = reading->tells_way_back || strcmp(reading->event, "put_back") == 0 ||
                              strcmp(reading->event, "retry") == 0 || strcmp(reading->event, "defer") == 0;
    reading->at++;
}

/* Only the holder of the execution starts a step of it. An update begins a state without a node. */
static void check_step_start(struct reading *reading)
{
    const struct story *story = reading->item->story;
    if (reading->node == NULL && reading->item->machine.action > 0) {
        return;
    }
    size_t claim = reading->at;
    while (claim > 0 && strcmp(story->events[claim - 1].event, "claim") != 0) {
        claim--;
    }
    if (claim == 0 || story->events[claim - 1].fence != reading->fence ||
        !is_node(reading, story->events[claim - 1].node_id)) {
        wrong(reading, "who does not hold it");
    }
}

static bool is_one_of(const char *event, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(event, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void check_event(struct reading *reading)
{
    static const char *const ends[] = {"complete", "fail", "cancelled"};
    static const char *const moves[] = {"claim",  "dispatch", "retry", "defer",     "put_back", "give_back", "hand_over",
                                        "poison", "complete", "fail",  "cancelled", "park",     "wake"};
    if (reading->actor != NULL) { /* an operator's act: no move of the item, except the wake of a parked one */
        const struct story *story = reading->item->story;
        bool moves_it = strcmp(reading->event, "wake") == 0 && story != NULL && reading->at < story->count &&
                        strcmp(story->events[reading->at].event, "wake") == 0;
        if (moves_it) {
            check_next(reading);
        }
        return;
    }
    reading->enqueued += strcmp(reading->event, "enqueue") == 0;
    reading->ended += is_one_of(reading->event, ends, sizeof ends / sizeof ends[0]);
    if (reading->enqueued != 1) {
        wrong(reading, "before its enqueue");
    } else if (is_one_of(reading->event, moves, sizeof moves / sizeof moves[0])) {
        check_next(reading);
    } else if (strcmp(reading->event, "step_start") == 0) {
        check_step_start(reading);
    }
}

static void read_story(struct reading *reading)
{
    question_ask_text(reading->rows, reading->item->id);
    while (!failed(reading->simulation) && question_next(reading->rows)) {
        reading->event = question_text(reading->rows, 0);
        reading->node = question_text(reading->rows, 1);
        reading->fence = question_number(reading->rows, 2);
        reading->actor = question_text(reading->rows, 3);
        check_event(reading);
    }
    reading->event = NULL;
    pass_over_no_news(reading);
    reading->event = "nothing more";
    reading->node = NULL;
    reading->fence = 0;
    if (!failed(reading->simulation) && (reading->ended != 1 || reading->enqueued != 1 || reading->item->story == NULL ||
                                         reading->at != reading->item->story->count)) {
        wrong(reading, "and has not one end");
    }
    question_end(reading->rows);
}

/* Each attempt of a step is told once, and ends at most once; of what was taken over each ends. */
static void check_steps(struct simulation *simulation)
{
    static const char odd[] =
        "SELECT execution_id, reason, attempt, starts, ends FROM"
        " (SELECT e.execution_id, e.reason, e.attempt, count(CASE e.event WHEN 'step_start' THEN 1 END) AS starts,"
        "   count(CASE e.event WHEN 'step_end' THEN 1 END) AS ends, max(h.interruptions) AS interruptions"
        "  FROM execution_events e JOIN workflow_executions h ON h.id = e.execution_id"
        "  WHERE e.event = 'step_start' OR e.event = 'step_end' GROUP BY e.execution_id, e.reason, e.attempt) s"
        " WHERE starts <> 1 OR ends > 1 OR (interruptions > 0 AND ends <> 1) LIMIT 1";
    struct question *rows = question_prepare(simulation, odd);
    question_ask(rows);
    if (question_next(rows)) {
        fail(simulation, EVERYTHING_IS_ON_RECORD, "attempt %lld of %s of %s is told with %lld starts and %lld ends",
             (long long)question_number(rows, 2), question_text(rows, 1), question_text(rows, 0),
             (long long)question_number(rows, 3), (long long)question_number(rows, 4));
    }
    question_close(rows);
}

void check_story(struct simulation *simulation)
{
    struct question *rows =
        question_prepare(simulation, "SELECT event, node, fence, actor FROM execution_events WHERE execution_id = $1");
    struct question *name = question_prepare(simulation, "SELECT name FROM nodes WHERE id = $1");
    /* Where the server's clock was set, the view cannot have the order. */
    bool has_order = simulation->profile.clock_step == 0;
    for (size_t i = 0; i < simulation->item_count && !failed(simulation) && has_order; i++) {
        if (simulation->items[i].place == PLACE_ENDED) {
            struct reading one = {.simulation = simulation, .item = &simulation->items[i], .rows = rows, .name = name};
            read_story(&one);
        }
    }
    question_close(rows);
    question_close(name);
    if (!failed(simulation)) {
        check_steps(simulation);
    }
}
