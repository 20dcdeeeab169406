#include "waiting_scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/text.h"
#include "store/bulk.h"
#include "store/schedules.h"
#include "store/signals.h"
#include "support/claiming.h"

enum { MEMORY_MAX = 16 * 1024 * 1024, LISTED = 20 };

static void must(enum weir_status status, const struct weir_error *error)
{
    if (status != WEIR_OK) {
        (void)fprintf(stderr, "the waits for the fuzzer: %s\n", error->message);
        exit(2);
    }
}

static void record(struct store *store, const struct store_scene *scene, struct record *records, size_t count)
{
    struct record_summary summary = {0};
    struct weir_error error = {.status = WEIR_OK};
    must(store_record(store, scene->node, records, count, &summary, &error), &error);
    for (size_t i = 0; i < count; i++) {
        must(records[i].status, &error);
    }
}

static struct record record_of(enum record_kind kind, const struct claimed_item *item, const struct step_record *step)
{
    struct record made = {.kind = kind, .fence = item->fence, .step = step};
    text_copy(made.id, sizeof made.id, item->id);
    return made;
}

/* The item waits, and is parked; the last ones stay with their node. */
static void begin_wait(struct store *store, const struct store_scene *scene, const struct claimed_item *item, int number)
{
    static const struct step_record steps[] = {
        {.step = "nap", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = 3600000000},
        {.step = "ask", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = -1, .signal = "go"},
        {.step = "pay", .state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = -1, .signal = "approve:pay"}};
    static const enum wait_kind kinds[] = {WAIT_SLEEP, WAIT_SIGNAL, WAIT_APPROVAL};
    struct record records[] = {record_of(RECORD_DISPATCHED, item, NULL), record_of(RECORD_STEP, item, &steps[number % 3]),
                               record_of(RECORD_PARKED, item, NULL)};
    records[2].delay_us = number % 3 == 0 ? 3600000000 : TIME_NEVER;
    records[2].waiting_for = kinds[number % 3];
    record(store, scene, records, number < 3 ? 3 : 2);
}

static void fail_and_dismiss(struct store *store, const struct store_scene *scene, const struct claimed_item *item)
{
    struct weir_error error = {.status = WEIR_OK};
    struct bulk_result result = {0};
    const struct execution_filter filter = {.id = item->id};
    struct record end = record_of(RECORD_FAILED, item, NULL);
    end.error_code = "exit_1";
    record(store, scene, &end, 1);
    must(store_bulk_one(store, BULK_DISMISS, NULL, &filter, &result, &error), &error);
}

static void add_schedule(struct store *store)
{
    static const char *const workspaces[] = {"acme"};
    struct weir_error error = {.status = WEIR_OK};
    struct schedule_counts counts = {0};
    const struct schedule_request request = {
        .name = "often", .when.every_us = 60000000, .workflow = "hello", .workspaces = workspaces, .workspace_count = 1};
    const struct schedule_trigger trigger = {.name = "often"};
    must(store_schedule_set(store, &request, NULL, &error), &error);
    must(store_schedule_trigger(store, &trigger, &counts, &error), &error);
}

void waiting_scene_make(const struct store_scene *scene, struct waiting_scene *waiting)
{
    static const char text[] = "{\"name\":\"waits\",\"steps\":{\"nap\":{\"sleep\":\"1h\"},\"ask\":{\"signal\":\"go\"},"
                               "\"pay\":{\"approve\":{}}}}";
    struct weir_error error = {.status = WEIR_OK};
    struct published published = {0};
    struct plan_change plan = {.name = "pro", .max_concurrent = WAITING_IDS};
    struct enqueue_request requests[WAITING_IDS];
    struct enqueue_result results[WAITING_IDS];
    struct claim_result claim = {.count = 0};
    struct sent_signal sent = {.seq = 0};
    struct arena arena;
    struct store *store = store_scene_open(scene);
    INVARIANT(store != NULL);
    arena_init(&arena, MEMORY_MAX);
    must(store_act_as(store, "ann", NULL, &error), &error);
    must(store_set_plan(store, &plan, &error), &error);
    must(store_publish(store, "waits", NULL, text, NULL, &published, &error), &error);
    for (int i = 0; i < WAITING_IDS; i++) {
        requests[i] = (struct enqueue_request){.workspace = "acme", .workflow = "waits", .priority = 10};
    }
    must(store_enqueue(store, requests, WAITING_IDS, results, &error), &error);
    struct claim_request wanted = {.node_id = scene->node, .group = "default", .limit = WAITING_IDS};
    must(claim_through_scheduler(store, &wanted, &arena, &claim, &error), &error);
    INVARIANT(claim.count == WAITING_IDS);
    for (int i = 0; i < WAITING_IDS; i++) {
        text_copy(waiting->ids[i], UUID_TEXT_MAX, claim.items[i].id);
        if (i + 1 < WAITING_IDS) {
            begin_wait(store, scene, &claim.items[i], i);
        }
    }
    fail_and_dismiss(store, scene, &claim.items[WAITING_IDS - 1]);
    const struct signal_request go = {.id = waiting->ids[4], .name = "go", .data = "{\"n\": 1}", .key = "k"};
    must(store_signal(store, &go, &sent, &error), &error);
    struct step_record ended = {
        .step = "ask", .state = STEP_COMPLETED, .attempt = 1, .exit_code = -1, .signal_seq = sent.seq};
    struct record consumed = record_of(RECORD_STEP, &claim.items[4], &ended);
    record(store, scene, &consumed, 1);
    const struct signal_request more = {.id = waiting->ids[3], .name = "go", .data = "2"};
    must(store_signal(store, &more, &sent, &error), &error);
    add_schedule(store);
    arena_close(&arena);
    store_close(store);
}

static void act_on_waits(struct store *store, const struct waiting_scene *waiting)
{
    static const enum bulk_act acts[] = {BULK_WAKE, BULK_DISMISS, BULK_RETRY};
    const struct approval approval = {.approved = true};
    const struct act_order order = {.keeps_finished = true};
    for (int i = 0; i < WAITING_IDS; i++) {
        struct weir_error error = {.status = WEIR_OK};
        struct sent_signal sent = {.seq = 0};
        struct bulk_result result = {0};
        const struct execution_filter filter = {.id = waiting->ids[i]};
        const struct signal_request go = {.id = waiting->ids[i], .name = "go", .key = "k"};
        json_t *answer = NULL;
        (void)!store_show(store, waiting->ids[i], &answer, &error);
        json_decref(answer);
        answer = NULL;
        (void)!store_why(store, waiting->ids[i], &answer, &error);
        json_decref(answer);
        (void)!store_approve(store, waiting->ids[i], &approval, &sent, &error);
        (void)!store_signal(store, &go, &sent, &error);
        for (size_t k = 0; k < sizeof acts / sizeof acts[0]; k++) {
            (void)!store_bulk_ordered(store, acts[k], &order, &filter, "", 1, &result, &error);
        }
    }
}

static void do_schedule_duty(struct store *store, struct arena *arena)
{
    struct weir_error error = {.status = WEIR_OK};
    struct due_schedules due = {.count = 0};
    struct schedule_firings firings = {.count = 0};
    if (store_read_due_schedules(store, arena, &due, &error) == WEIR_OK && due.count > 0) {
        struct schedule_advance advance = {.id = due.schedules[0].id,
                                           .due_us = due.schedules[0].due_us,
                                           .continues_us = due.schedules[0].expands_us,
                                           .next_us = TIME_NEVER};
        (void)!store_advance_schedule(store, &advance, &error);
    }
    if (store_read_schedule_firings(store, arena, &firings, &error) == WEIR_OK && firings.count > 0) {
        struct schedule_outcome outcome = {.schedule_id = firings.firings[0].schedule_id,
                                           .workspace_id = firings.firings[0].workspace_id,
                                           .due_us = firings.firings[0].due_us,
                                           .is_dropped = true};
        (void)!store_settle_schedule_firings(store, &outcome, 1, &error);
    }
}

void waiting_scene_read(struct store *store, const struct store_scene *scene, const struct waiting_scene *waiting)
{
    struct weir_error error = {.status = WEIR_OK};
    struct node_request *requests = NULL;
    struct claim_result claim = {.count = 0};
    size_t count = 0;
    bool more = false;
    struct arena arena;
    arena_init(&arena, MEMORY_MAX);
    for (int kind = LIST_HOOKS; kind <= LIST_AUDIT; kind++) {
        struct list_options options = {.kind = (enum store_list_kind)kind, .limit = LISTED};
        json_t *answer = NULL;
        (void)!store_list(store, &options, &answer, &error);
        json_decref(answer);
    }
    (void)!store_take_requests(store, scene->node, &arena, &requests, &count, &more, &error);
    act_on_waits(store, waiting);
    do_schedule_duty(store, &arena);
    struct claim_request wanted = {.node_id = scene->node, .group = "default", .limit = WAITING_IDS};
    (void)!claim_through_scheduler(store, &wanted, &arena, &claim, &error);
    arena_close(&arena);
}
