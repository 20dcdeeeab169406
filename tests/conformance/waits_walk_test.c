/* Random signals, decisions, wakes and dismissals of callers, around nodes that begin waits, consume, park, end and die,
 * from a seed. A model knows each acknowledged signal and each recorded step. The answer of every call must be the one of
 * the model, each claim must bring exactly the signals that no step has consumed, and no execution may stay parked while a
 * signal is there for the step that waits. At the end everything that waits is answered, and must end. */
#include "base/text.h"
#include "conformance/scene.h"
#include "support/seed.h"

enum {
    WALKS = 3,
    WALKS_LONG = 12,
    STEPS = 300,
    ITEMS = 30,
    SIGNALS = 40,
    NODES = 2,
    KEYS = 3,
    CHECK_EVERY = 10,
    ROUNDS = 200
};

enum wait { NAP, ASK, PAY, WAITS };
enum progress { NOT_BEGUN, WAITING, OVER };
static const char *const step_names[WAITS] = {"nap", "ask", "pay"};
static const char *const signal_names[WAITS] = {"wake:nap", "go", "approve:pay"};
static const char *const signal_columns[WAITS] = {"", "go", "approve:pay"};

struct sent {
    enum wait wait;
    int64_t seq;
    int key; /* 0 = none */
    int data;
    bool consumed;
};

struct known_item {
    char id[UUID_TEXT_MAX];
    enum progress steps[WAITS];
    bool woken, decided; /* nap, pay */
    bool ended, failed, dismissed;
    struct sent sent[SIGNALS];
    size_t sent_count;
    /* The last claim of it. Another fence may be the current one. */
    struct claimed_item claim;
    int64_t node;
    bool is_held;
    bool is_parked; /* and nothing has ended its wait since */
    int64_t seen;   /* the number of the last signal that its engine has got */
};

struct walker {
    struct scene *scene;
    struct random random;
    int64_t nodes[NODES];
    struct known_item items[ITEMS];
    size_t count;
    int64_t parks, consumed, ended_by_calls, deaths;
};

static const char *const workspaces[] = {"free-co", "pro-co", "big-co"};

static uint64_t draw(struct walker *walker, uint64_t below)
{
    return random_below(&walker->random, below);
}

static struct known_item *draw_item(struct walker *walker)
{
    return walker->count == 0 ? NULL : &walker->items[draw(walker, walker->count)];
}

/* --- callers --- */

static void enqueue_one(struct walker *walker)
{
    if (walker->count < ITEMS) {
        struct known_item *item = &walker->items[walker->count++];
        *item = (struct known_item){.is_held = false};
        text_copy(item->id, sizeof item->id, scene_enqueue(walker->scene, workspaces[draw(walker, 3)]));
    }
}

static struct sent *find_key(struct known_item *item, int key)
{
    for (size_t i = 0; i < item->sent_count; i++) {
        if (key != 0 && item->sent[i].wait == ASK && item->sent[i].key == key) {
            return &item->sent[i];
        }
    }
    return NULL;
}

static struct sent *first_unused(struct known_item *item, enum wait wait)
{
    for (size_t i = 0; i < item->sent_count; i++) {
        if (item->sent[i].wait == wait && !item->sent[i].consumed) {
            return &item->sent[i];
        }
    }
    return NULL;
}

/* No wait is ever due in a walk, so a signal ends the wait of a parked execution itself, for which its step is named. */
static void end_parked_wait(struct walker *walker, struct known_item *item)
{
    struct sent *sent = first_unused(item, ASK);
    if (item->is_parked && item->steps[ASK] == WAITING) {
        assert_ptr_equal(sent, &item->sent[item->sent_count - 1]);
        sent->consumed = true;
        item->steps[ASK] = OVER;
        item->is_parked = false;
        walker->consumed++;
        walker->ended_by_calls++;
    }
}

static void note_sent(struct known_item *item, enum wait wait, int key, int data, int64_t seq)
{
    for (size_t i = 0; i < item->sent_count; i++) {
        assert_true(item->sent[i].seq < seq);
    }
    item->sent[item->sent_count++] = (struct sent){.wait = wait, .key = key, .data = data, .seq = seq};
}

static void signal_with(struct walker *walker, struct known_item *item, int key)
{
    int number = (int)draw(walker, 2);
    char data[16], key_text[16];
    (void)snprintf(data, sizeof data, "%d", number);
    (void)snprintf(key_text, sizeof key_text, "k%d", key);
    const struct signal_request request = {.id = item->id, .name = "go", .data = data, .key = key == 0 ? NULL : key_text};
    struct sent_signal sent = {.seq = 0};
    const struct sent *first = find_key(item, key);
    enum weir_status status = store_signal(walker->scene->store, &request, &sent, &walker->scene->error);
    if (first != NULL && first->data != number) {
        assert_int_equal(status, WEIR_IDEMPOTENCY_KEY_REUSED);
    } else if (first != NULL) {
        scene_ok(walker->scene, status);
        assert_true(sent.duplicate);
        assert_int_equal(sent.seq, first->seq);
    } else if (item->ended) {
        assert_int_equal(status, WEIR_ILLEGAL_STATE);
    } else {
        scene_ok(walker->scene, status);
        assert_false(sent.duplicate);
        note_sent(item, ASK, key, number, sent.seq);
        end_parked_wait(walker, item);
    }
}

static void signal_one(struct walker *walker)
{
    struct known_item *item = draw_item(walker);
    int key = (int)draw(walker, KEYS + 1);
    if (item != NULL && item->sent_count + 3 < SIGNALS) { /* room is left for a decision, a wake and the last signal */
        signal_with(walker, item, key);
    }
}

static void decide_one(struct walker *walker, struct known_item *item)
{
    const struct approval approval = {.step = draw(walker, 2) == 0 ? NULL : "pay", .approved = draw(walker, 2) == 0};
    struct sent_signal sent = {.seq = 0};
    enum weir_status status = store_approve(walker->scene->store, item->id, &approval, &sent, &walker->scene->error);
    if (!item->ended && item->steps[PAY] == WAITING && !item->decided) {
        scene_ok(walker->scene, status);
        item->decided = true;
        item->is_parked = false;
        note_sent(item, PAY, 0, approval.approved, sent.seq);
        decide_one(walker, item); /* another caller, too late */
    } else {
        assert_int_equal(status, WEIR_ILLEGAL_STATE);
    }
}

static void wake_one(struct walker *walker, struct known_item *item)
{
    struct scene *scene = walker->scene;
    struct bulk_result result = {0};
    const struct execution_filter filter = {.id = item->id};
    enum weir_status status = store_bulk_one(scene->store, BULK_WAKE, NULL, &filter, &result, &scene->error);
    if (status == WEIR_OK) {
        assert_true(!item->ended && item->steps[NAP] == WAITING && !item->woken);
        assert_string_not_equal(scene_status_of(scene, item->id), "WAITING");
        item->woken = true;
        item->is_parked = false;
        note_sent(item, NAP, 0, 1, scene_number(scene, "SELECT max(seq) FROM signals WHERE execution_id = '%s'", item->id));
        wake_one(walker, item);
    } else {
        assert_int_equal(status, WEIR_ILLEGAL_STATE);
        assert_true(item->ended || item->steps[NAP] != WAITING || item->woken);
    }
}

static void dismiss_one(struct walker *walker, struct known_item *item)
{
    struct bulk_result result = {0};
    const struct execution_filter filter = {.id = item->id};
    enum weir_status status =
        store_bulk_one(walker->scene->store, BULK_DISMISS, NULL, &filter, &result, &walker->scene->error);
    assert_true(status == WEIR_OK || status == WEIR_ILLEGAL_STATE);
    assert_true(item->failed || status != WEIR_OK);
    assert_true(status == WEIR_OK || !item->failed || item->dismissed);
    item->dismissed = item->failed;
}

static void call_one(struct walker *walker)
{
    struct known_item *item = draw_item(walker);
    if (item != NULL) {
        static void (*const calls[])(struct walker *, struct known_item *) = {decide_one, wake_one, dismiss_one};
        calls[draw(walker, 3)](walker, item);
    }
}

/* --- nodes --- */

/* The signals that come with a claim or a request: those of the model that no step has consumed, in their order. */
static void compare_signals(struct known_item *item, const struct signal_record *signals, size_t count)
{
    size_t at = 0;
    for (size_t i = 0; i < item->sent_count; i++) {
        const struct sent *sent = &item->sent[i];
        if (!sent->consumed && (sent->wait != NAP || item->steps[NAP] == WAITING)) {
            assert_true(at < count);
            assert_int_equal(signals[at].seq, sent->seq);
            assert_string_equal(signals[at++].name, signal_names[sent->wait]);
        }
        item->seen = sent->seq;
    }
    assert_int_equal(at, count);
}

static struct known_item *find_item(struct walker *walker, const char *id)
{
    for (size_t i = 0; i < walker->count; i++) {
        if (strcmp(walker->items[i].id, id) == 0) {
            return &walker->items[i];
        }
    }
    fail_msg("%s is not known", id);
    return NULL;
}

static enum weir_status record_one(struct walker *walker, struct known_item *item, struct record record)
{
    return scene_record_full(walker->scene, item->node, record);
}

static void claim_some(struct walker *walker)
{
    int64_t node = walker->nodes[draw(walker, NODES)];
    struct claim_result claim = scene_claim_as(walker->scene, node, "default", 1 + draw(walker, 6));
    for (size_t i = 0; i < claim.count; i++) {
        struct known_item *item = find_item(walker, claim.items[i].id);
        assert_false(item->ended);
        assert_true(claim.items[i].fence > item->claim.fence);
        compare_signals(item, claim.items[i].signals, claim.items[i].signal_count);
        item->claim = claim.items[i];
        item->node = node;
        item->is_held = true;
        item->is_parked = false;
        (void)record_one(walker, item, scene_record_of(RECORD_DISPATCHED, &item->claim));
    }
}

static void take_requests(struct walker *walker)
{
    struct scene *scene = walker->scene;
    int64_t node = walker->nodes[draw(walker, NODES)];
    struct node_request *requests = NULL;
    size_t count = 0;
    bool more = false;
    scene_ok(scene, store_take_requests(scene->store, node, &scene->arena, &requests, &count, &more, &scene->error));
    for (size_t i = 0; i < count; i++) {
        struct known_item *item = find_item(walker, requests[i].id);
        if (item->claim.fence == requests[i].fence) {
            compare_signals(item, requests[i].signals, requests[i].signal_count);
        }
    }
    for (size_t i = 0; i < walker->count && !more; i++) {
        const struct known_item *item = &walker->items[i];
        bool is_here = item->is_held && item->node == node && item->sent_count > 0;
        assert_true(!is_here || item->seen == item->sent[item->sent_count - 1].seq);
    }
}

/* NULL: its engine has none. Signals have their order, so without the first one it has none of the others. */
static struct sent *first_for(struct known_item *item, enum wait wait)
{
    struct sent *sent = first_unused(item, wait);
    return sent != NULL && sent->seq <= item->seen ? sent : NULL;
}

/* Begins the wait, or ends it with the first signal for it. A record under an old fence must change nothing. */
static void go_on(struct walker *walker, struct known_item *item, enum wait wait)
{
    struct step_record step = {.state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = SECONDS(3600)};
    struct record record = scene_record_of(RECORD_STEP, &item->claim);
    struct sent *sent = first_for(item, wait);
    text_copy(step.step, sizeof step.step, step_names[wait]);
    text_copy(step.signal, sizeof step.signal, signal_columns[wait]);
    record.step = &step;
    if (item->steps[wait] == WAITING && sent != NULL) {
        step.state = STEP_COMPLETED;
        step.signal_seq = sent->seq;
        step.due_in_us = 0;
        step.signal[0] = '\0';
    } else if (item->steps[wait] != NOT_BEGUN) {
        return;
    }
    if (record_one(walker, item, record) != WEIR_OK) {
        assert_false(item->is_held);
        return;
    }
    item->steps[wait] = step.state == STEP_WAITING ? WAITING : OVER;
    if (step.state == STEP_COMPLETED) {
        sent->consumed = true;
        walker->consumed++;
        assert_int_equal(record_one(walker, item, record), WEIR_OK); /* a lost answer: the same record again */
    }
}

static void park_one(struct walker *walker, struct known_item *item)
{
    static const enum wait_kind kinds[WAITS] = {WAIT_SLEEP, WAIT_SIGNAL, WAIT_APPROVAL};
    struct record record = scene_record_of(RECORD_PARKED, &item->claim);
    bool waits = false;
    if (item->steps[ASK] == NOT_BEGUN && first_unused(item, ASK) == NULL) {
        go_on(walker, item, ASK); /* or few parked ones would wait for a signal */
    }
    for (int wait = WAITS - 1; wait >= 0; wait--) {
        if (item->steps[wait] == WAITING) {
            waits = true;
            record.waiting_for = kinds[wait];
            if (first_for(item, (enum wait)wait) != NULL) {
                return; /* its engine has the end of this wait */
            }
        }
    }
    record.delay_us = item->steps[NAP] == WAITING ? SECONDS(3600) : TIME_NEVER;
    record.signals_seen = item->seen;
    if (waits && record_one(walker, item, record) == WEIR_OK) {
        walker->parks++;
        item->is_held = false;
        item->is_parked = item->sent_count == 0 || item->seen == item->sent[item->sent_count - 1].seq;
        if (item->steps[ASK] == WAITING && item->sent_count + 3 < SIGNALS && draw(walker, 2) == 0) {
            signal_with(walker, item, 0); /* before the next claim */
        }
    }
}

static void end_one(struct walker *walker, struct known_item *item)
{
    enum record_kind kind = draw(walker, 3) == 0 ? RECORD_FAILED : RECORD_COMPLETED;
    if (item->steps[NAP] == OVER && item->steps[ASK] == OVER && item->steps[PAY] == OVER &&
        record_one(walker, item, scene_record_of(kind, &item->claim)) == WEIR_OK) {
        item->is_held = false;
        item->ended = true;
        item->failed = kind == RECORD_FAILED;
    }
}

static void run_one(struct walker *walker)
{
    struct known_item *item = draw_item(walker);
    if (item == NULL || item->claim.fence == 0 || item->ended || (!item->is_held && draw(walker, 4) > 0)) {
        return; /* one that is not held has a stale claim: seldom */
    }
    switch (draw(walker, 8)) {
    case 0:
    case 1:
    case 2:
        if (item->is_held) {
            park_one(walker, item);
        }
        break;
    case 3:
        if (item->is_held) {
            end_one(walker, item);
        }
        break;
    default:
        go_on(walker, item, (enum wait)draw(walker, WAITS));
    }
}

static void kill_one(struct walker *walker)
{
    struct scene *scene = walker->scene;
    size_t dead = draw(walker, NODES);
    const struct recover_options options = {.node_id = walker->nodes[1 - dead], .group = "default", .limit = 500};
    struct recover_result result = {0};
    for (int i = 0; i < 3; i++) {
        scene_pass(scene, SCENE_LEASE_US / 2);
        scene_beat(scene, walker->nodes[1 - dead]);
    }
    scene_recover(scene, &options, &result);
    for (size_t i = 0; i < walker->count; i++) {
        if (walker->items[i].is_held && walker->items[i].node == walker->nodes[dead]) {
            walker->items[i].is_held = false;
        }
    }
    walker->nodes[dead] = scene_add_node(scene, "node", "default");
    walker->deaths++;
}

/* --- judgement --- */

static void check_walk(struct walker *walker)
{
    struct scene *scene = walker->scene;
    int64_t sent = 0, consumed = 0, dismissed = 0, over = 0;
    for (size_t i = 0; i < walker->count; i++) {
        const struct known_item *item = &walker->items[i];
        sent += (int64_t)item->sent_count;
        dismissed += item->dismissed;
        for (int wait = 0; wait < WAITS; wait++) {
            over += item->steps[wait] == OVER;
        }
        for (size_t k = 0; k < item->sent_count; k++) {
            consumed += item->sent[k].consumed;
        }
    }
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), walker->count);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM signals"), sent);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM signals WHERE consumed_at IS NOT NULL"), consumed);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM dismissals"), dismissed);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM workflow_node_executions WHERE status = 'COMPLETED'"), over);
    assert_int_equal(scene_number(scene,
                                  "SELECT count(*) FROM workflow_execution_queue q"
                                  " JOIN workflow_node_executions n ON n.execution_id = q.id AND n.status = 'WAITING'"
                                  " JOIN signals s ON s.execution_id = q.id AND s.consumed_at IS NULL"
                                  "  AND (s.name = n.signal OR s.name = 'wake:' || n.step)"
                                  " WHERE q.status = 'WAITING'"),
                     0);
    scene_check(scene);
}

static void answer_all(struct walker *walker)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t living = 0;
        claim_some(walker);
        take_requests(walker);
        for (size_t i = 0; i < walker->count; i++) {
            struct known_item *item = &walker->items[i];
            living += !item->ended;
            for (int wait = 0; wait < WAITS && item->is_held; wait++) {
                go_on(walker, item, (enum wait)wait);
            }
            if (item->is_held) {
                end_one(walker, item);
            }
            if (!item->ended && item->steps[NAP] == WAITING && !item->woken) {
                wake_one(walker, item);
            }
            if (!item->ended && item->steps[PAY] == WAITING && !item->decided) {
                decide_one(walker, item);
            }
            if (!item->ended && item->steps[ASK] == WAITING && first_unused(item, ASK) == NULL) {
                signal_with(walker, item, 0);
            }
        }
        if (living == 0) {
            return;
        }
    }
    fail_msg("after %d rounds there are executions without an end", ROUNDS);
}

static void walk(struct walker *walker)
{
    static void (*const acts[])(struct walker *) = {enqueue_one, signal_one,    call_one, claim_some,
                                                    claim_some,  take_requests, run_one,  run_one,
                                                    run_one,     run_one,       run_one,  run_one};
    for (int step = 0; step < STEPS; step++) {
        if (draw(walker, 60) == 0) {
            kill_one(walker);
        } else {
            acts[draw(walker, sizeof acts / sizeof acts[0])](walker);
        }
        if (step % CHECK_EVERY == 0) {
            check_walk(walker);
        }
    }
    answer_all(walker);
    check_walk(walker);
}

static void random_answers_to_waits_are_used_once(void **state)
{
    static const char definition[] =
        "{\"name\":\"hello\",\"steps\":{\"nap\":{\"sleep\":\"1h\"},\"ask\":{\"signal\":\"go\"},"
        "\"pay\":{\"approve\":{}}}}";
    (void)state;
    struct random seeds;
    test_seed(&seeds, "waits walk");
    int64_t parks = 0, consumed = 0, ended_by_calls = 0, deaths = 0;
    for (int i = 0; i < (test_is_long() ? WALKS_LONG : WALKS); i++) {
        void *scene_state = NULL;
        struct published published;
        struct walker *walker = calloc(1, sizeof *walker);
        assert_non_null(walker);
        (void)scene_open(&scene_state);
        walker->scene = scene_state;
        random_seed(&walker->random, random_next(&seeds));
        scene_ok(walker->scene,
                 store_publish(walker->scene->store, "hello", NULL, definition, NULL, &published, &walker->scene->error));
        for (int node = 0; node < NODES; node++) {
            walker->nodes[node] = scene_add_node(walker->scene, "node", "default");
        }
        walk(walker);
        parks += walker->parks;
        consumed += walker->consumed;
        ended_by_calls += walker->ended_by_calls;
        deaths += walker->deaths;
        (void)scene_close(&scene_state);
        free(walker);
    }
    print_message("# %lld parks, %lld signals consumed, %lld of them by their own calls, %lld deaths\n", (long long)parks,
                  (long long)consumed, (long long)ended_by_calls, (long long)deaths);
    assert_true(parks > 0 && consumed > ended_by_calls && ended_by_calls > 0 && deaths > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_answers_to_waits_are_used_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
