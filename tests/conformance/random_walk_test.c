/* Random verbs with random arguments on one store, from a seed; after each the store's check must find nothing, and what
 * the walker knows must be true: no item is held twice, no fence comes back, no cap is passed by a claim, no terminal state
 * is left, nothing that was accepted is lost. */
#include "conformance/scene.h"
#include "support/seed.h"

enum { WALKS = 4, WALKS_LONG = 12, STEPS = 250, WORKSPACES = 5, NODES = 3, HELD_MOST = 400, CHECK_EVERY = 5 };

static const char *const names[WORKSPACES] = {"free-co", "pro-co", "big-co", "w-one", "w-two"};

struct walker {
    struct scene *scene;
    struct random random;
    int64_t nodes[NODES];
    struct {
        struct claimed_item item;
        int node;
    } held[HELD_MOST]; /* what the nodes believe to hold; some of it is stale */
    size_t held_count;
    int64_t last_fence;
    int64_t accepted;
    int64_t purged;
    int64_t parked;
    int64_t caps[WORKSPACES];
};

static uint64_t draw(struct walker *walker, uint64_t below)
{
    return random_below(&walker->random, below);
}

static void enqueue_some(struct walker *walker)
{
    struct scene *scene = walker->scene;
    struct enqueue_request requests[8];
    struct enqueue_result results[8];
    char keys[8][16];
    size_t count = 1 + draw(walker, 8);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "key-%d", (int)draw(walker, 200));
        requests[i] = (struct enqueue_request){
            .workspace = names[draw(walker, WORKSPACES)],
            .workflow = draw(walker, 20) == 0 ? "no-such" : "hello",
            .idempotency_key = draw(walker, 3) == 0 ? keys[i] : NULL,
            .priority = (int)draw(walker, 3) - 1,
            .run_at_us = draw(walker, 4) == 0 ? scene_now(scene) + (int64_t)draw(walker, 20000000) : 0,
            .group = draw(walker, 5) == 0 ? "batch" : NULL,
        };
    }
    scene_ok(scene, store_enqueue(scene->store, requests, count, results, &scene->error));
    for (size_t i = 0; i < count; i++) {
        walker->accepted += results[i].status == WEIR_OK && !results[i].duplicate;
    }
}

static void claim_some(struct walker *walker)
{
    struct scene *scene = walker->scene;
    int node = (int)draw(walker, NODES);
    int64_t last_fence = walker->last_fence;
    scene->keeps_claimers = draw(walker, 4) > 0; /* some begin anew, with all facts */
    struct claim_result claim =
        scene_claim_as(scene, walker->nodes[node], node == 2 ? "batch" : "default", 1 + draw(walker, 12));
    for (size_t i = 0; i < claim.count; i++) {
        assert_true(claim.items[i].fence > last_fence);
        walker->last_fence = claim.items[i].fence > walker->last_fence ? claim.items[i].fence : walker->last_fence;
        if (walker->held_count < HELD_MOST) {
            walker->held[walker->held_count].item = claim.items[i];
            walker->held[walker->held_count++].node = node;
        }
    }
    for (int w = 0; w < WORKSPACES; w++) {
        size_t fresh = 0;
        for (size_t i = 0; i < claim.count; i++) {
            fresh += !claim.items[i].handed_over && strcmp(claim.items[i].workspace, names[w]) == 0;
        }
        if (fresh > 0) {
            assert_true(scene_held(scene, names[w]) <= walker->caps[w]);
        }
    }
}

static void record_some(struct walker *walker)
{
    struct scene *scene = walker->scene;
    struct record records[6];
    struct record_summary summary = {0};
    static const struct step_record step = {.step = "one", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1};
    size_t count = walker->held_count == 0 ? 0 : 1 + draw(walker, 6);
    for (size_t i = 0; i < count; i++) {
        size_t at = draw(walker, walker->held_count);
        records[i] = scene_record_of((enum record_kind)draw(walker, RECORD_KIND_COUNT), &walker->held[at].item);
        records[i].step = records[i].kind == RECORD_STEP ? &step : NULL;
        records[i].delay_us = draw(walker, 2) == 0 ? 0 : (int64_t)draw(walker, 5000000);
        records[i].dispatched_first = draw(walker, 2) == 0;
        if (draw(walker, 3) == 0) { /* the walker forgets some, so that later ones find them ended */
            walker->held[at] = walker->held[--walker->held_count];
        }
        if (walker->held_count == 0) {
            count = i + 1;
        }
    }
    scene_ok(scene, store_record(scene->store, walker->nodes[0], records, count, &summary, &scene->error));
    for (size_t i = 0; i < count; i++) {
        enum weir_status status = records[i].status;
        assert_true(status == WEIR_OK || status == WEIR_STALE_FENCE || status == WEIR_ILLEGAL_STATE ||
                    status == WEIR_EXECUTION_NOT_FOUND);
        walker->parked += status == WEIR_OK && records[i].kind == RECORD_PARKED;
    }
}

/* Only a started item is parked, which record_some() hits too seldom. */
static void park_some(struct walker *walker)
{
    struct scene *scene = walker->scene;
    struct record records[2];
    struct record_summary summary = {0};
    if (walker->held_count > 0) {
        const struct claimed_item *item = &walker->held[draw(walker, walker->held_count)].item;
        records[0] = scene_record_of(RECORD_DISPATCHED, item);
        records[1] = scene_record_of(RECORD_PARKED, item);
        records[1].delay_us = (int64_t)draw(walker, 5000000);
        scene_ok(scene, store_record(scene->store, walker->nodes[0], records, 2, &summary, &scene->error));
        walker->parked += records[1].status == WEIR_OK;
    }
}

static void act_some(struct walker *walker)
{
    struct scene *scene = walker->scene;
    struct execution_filter filter = {.workspace = names[draw(walker, WORKSPACES)]};
    struct bulk_result result = {0};
    enum bulk_act act = (enum bulk_act)draw(walker, 4);
    if (draw(walker, 2) == 0) {
        filter.states = 1U << draw(walker, ITEM_STATE_COUNT);
    }
    scene_ok(scene, store_bulk(scene->store, act, &filter, "", 1 + draw(walker, 5), &result, &scene->error));
    walker->accepted += act == BULK_RETRY ? (int64_t)result.changed : 0;
    walker->purged += act == BULK_PURGE ? (int64_t)result.changed : 0;
}

static void change_settings(struct walker *walker)
{
    struct scene *scene = walker->scene;
    size_t w = draw(walker, WORKSPACES);
    switch (draw(walker, 4)) {
    case 0:
        walker->caps[w] = 1 + (int64_t)draw(walker, 9);
        scene_cap(scene, names[w], walker->caps[w]);
        break;
    case 1:
        scene_pause_workspace(scene, names[w], draw(walker, 3) == 0);
        break;
    case 2:
        scene_ok(scene, store_set_paused(scene->store, NULL, draw(walker, 4) == 0, &scene->error));
        break;
    default:
        scene_ok(scene, store_set_paused(scene->store, "batch", draw(walker, 3) == 0, &scene->error));
    }
}

static void start_node(struct walker *walker, int node)
{
    walker->nodes[node] = scene_add_node(walker->scene, node == 2 ? "batch-node" : "node", node == 2 ? "batch" : "default");
}

static void trouble_nodes(struct walker *walker)
{
    struct scene *scene = walker->scene;
    int node = (int)draw(walker, NODES);
    struct recover_options options = {.node_id = walker->nodes[0],
                                      .group = draw(walker, 2) == 0 ? "default" : "batch",
                                      .stale_claim_us = draw(walker, 3) == 0 ? SECONDS(5) : 0,
                                      .limit = 1 + draw(walker, 9)};
    struct recover_result result = {0};
    switch (draw(walker, 4)) {
    case 0:
        scene_ok(scene, store_node_stop(scene->store, walker->nodes[node], true, &scene->error));
        start_node(walker, node);
        break;
    case 1: /* dies: time passes, the others beat */
        scene_pass(scene, SCENE_LEASE_US + 1);
        start_node(walker, node);
        break;
    case 2:
        scene_pass(scene, (int64_t)draw(walker, 3000000));
        break;
    default:
        scene_recover(scene, &options, &result);
    }
    for (int i = 0; i < NODES; i++) {
        struct node_beat beat = {.engine_reachable = true};
        if (store_node_beat(scene->store, walker->nodes[i], &beat, &scene->error) != WEIR_OK) {
            start_node(walker, i);
        }
    }
}

static void assert_no_item_is_lost(struct walker *walker)
{
    assert_int_equal(scene_number(walker->scene, "SELECT count(*) FROM executions"), walker->accepted - walker->purged);
}

/* A WAITING one has a reason, a time and no node; each park was followed by one wake, or by the end of a cancel. */
static void assert_parked_ones_are_whole(struct walker *walker)
{
    assert_int_equal(scene_number(walker->scene, "SELECT count(*) FROM executions WHERE (status = 'WAITING') <>"
                                                 " (waiting_for IS NOT NULL) OR (status = 'WAITING' AND"
                                                 " (node IS NOT NULL OR due_at IS NULL OR pending_reason IS NOT NULL))"),
                     0);
    assert_int_equal(scene_number(walker->scene,
                                  "SELECT count(*) FROM (SELECT count(CASE e.event WHEN 'park' THEN 1 END)"
                                  "  - count(CASE e.event WHEN 'wake' THEN 1 END) AS open, max(x.status) AS status"
                                  "  FROM execution_events e JOIN executions x ON x.id = e.execution_id"
                                  "  GROUP BY e.execution_id) o"
                                  " WHERE open NOT IN (0, 1) OR (open = 0 AND status = 'WAITING')"
                                  " OR (open = 1 AND status <> 'WAITING' AND status <> 'CANCELLED')"),
                     0);
}

static void walk(struct walker *walker)
{
    static void (*const acts[])(struct walker *) = {enqueue_some, enqueue_some, claim_some, claim_some,      record_some,
                                                    record_some,  park_some,    act_some,   change_settings, trouble_nodes};
    for (int step = 0; step < STEPS; step++) {
        acts[draw(walker, sizeof acts / sizeof acts[0])](walker);
        if (step % CHECK_EVERY == 0) {
            scene_check(walker->scene);
            assert_no_item_is_lost(walker);
            assert_parked_ones_are_whole(walker);
        }
    }
    assert_no_item_is_lost(walker);
    assert_parked_ones_are_whole(walker);
}

static void random_verbs_leave_the_store_whole(void **state)
{
    (void)state;
    struct random seeds;
    test_seed(&seeds, "random walk");
    int walks = test_is_long() ? WALKS_LONG : WALKS;
    int64_t parked = 0;
    for (int i = 0; i < walks; i++) {
        void *scene_state = NULL;
        struct walker *walker = calloc(1, sizeof *walker);
        static const int64_t caps[WORKSPACES] = {1, 5, 20, 5, 5};
        assert_non_null(walker);
        (void)scene_open(&scene_state);
        walker->scene = scene_state;
        scene_workspace(walker->scene, "w-one", "pro");
        scene_workspace(walker->scene, "w-two", "pro");
        memcpy(walker->caps, caps, sizeof caps);
        random_seed(&walker->random, random_next(&seeds));
        for (int node = 0; node < NODES; node++) {
            start_node(walker, node);
        }
        walk(walker);
        parked += walker->parked;
        (void)scene_close(&scene_state);
        free(walker);
    }
    assert_true(parked > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_verbs_leave_the_store_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
