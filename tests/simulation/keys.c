/* Requests with a key mode, and the effect that docs/design/keys.md gives them.
 *
 * Each key has a fixed use by its number, so that rules hold for all its requests: one_active, replace, debounce, or any
 * mode. The effect of a set is computed from the model before the call, request by request, and compared with the store
 * after it. Nothing else runs meanwhile, because clients are one thread. The rules that do not need the requests are
 * checked after each call of any program:
 *
 *   - Of a one_active key one execution is active at most, unless an operator retried or purged an older one.
 *   - Of a replace or a debounce key one execution at most is PENDING without ever having been claimed.
 *   - No execution is claimed before its start time, so a debounce starts when its window is over.
 *   - An execution has the error code `replaced` only if a request has replaced it. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "queue/limits.h"
#include "simulation/simulation.h"

#define SECOND_US MICROSECONDS_PER_SECOND

enum key_use { USE_ONE_ACTIVE, USE_REPLACE, USE_DEBOUNCE, USE_ANY };

static const enum key_use uses[MODE_KEYS] = {USE_ONE_ACTIVE, USE_ONE_ACTIVE, USE_REPLACE, USE_REPLACE,
                                             USE_DEBOUNCE,   USE_DEBOUNCE,   USE_ANY};

/* --- requests --- */

static enum key_mode draw_mode(struct simulation *simulation, int key)
{
    static const enum key_mode modes[] = {
        [USE_ONE_ACTIVE] = KEY_ONE_ACTIVE, [USE_REPLACE] = KEY_REPLACE, [USE_DEBOUNCE] = KEY_DEBOUNCE};
    int any = (int)draw(simulation, 3);
    return uses[key] == USE_ANY ? modes[any] : modes[uses[key]];
}

/* All requests of a key have the same params: one without a mode is then a repetition, and is not refused. */
void keys_draw(struct simulation *simulation, struct enqueue_request *request, struct request_texts *texts, bool once)
{
    int key = (int)draw(simulation, MODE_KEYS);
    (void)snprintf(texts->key, sizeof texts->key, "m%d", key);
    (void)snprintf(texts->params, sizeof texts->params, "{\"m\":%d}", key);
    request->idempotency_key = texts->key;
    request->params = texts->params;
    request->params_length = strlen(texts->params);
    request->workflow = simulation->profile.is_mixed && key % 2 == 1 ? "abroad" : "flow";
    request->key_mode = draw_mode(simulation, key);
    int64_t window_us = DEBOUNCE_LEAST_US + draw(simulation, 20 * SECOND_US);
    int64_t longer_us = draw(simulation, 3 * window_us);
    if (once) {
        request->key_mode = KEY_ONCE;
    } else if (request->key_mode == KEY_DEBOUNCE) {
        request->run_at_us = 0;
        request->debounce_us = window_us;
        request->debounce_most_us = longer_us % 2 == 0 ? 0 : window_us + longer_us;
    }
}

/* --- what a request must do --- */

static int number_of(const char *key)
{
    return key != NULL && key[0] == 'm' ? key[1] - '0' : -1;
}

static int find_workspace(const struct simulation *simulation, const char *name)
{
    for (int i = 0; i < simulation->profile.workspaces; i++) {
        if (strcmp(simulation->workspaces[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* An execution that the model has, or that a request before this one in the set makes. */
struct candidate {
    bool is_known;
    bool has_not_started;
    int64_t run_at_us;
    struct expected_enqueue *of_set; /* NULL = of the model */
};

static struct candidate find_candidate(struct simulation *simulation, const char *id)
{
    for (size_t i = 0; i < simulation->expected_count; i++) {
        struct expected_enqueue *before = &simulation->expected[i];
        if (before->is_new && strcmp(before->request->id, id) == 0) {
            return (struct candidate){
                .is_known = true, .has_not_started = true, .run_at_us = before->run_at_us, .of_set = before};
        }
    }
    const struct model_item *item = id[0] == '\0' ? NULL : observer_find(simulation, id);
    if (item == NULL || item->place == PLACE_PURGED) {
        return (struct candidate){.is_known = false};
    }
    bool has_attempt = item->hand_overs > 0 || item->give_backs > 0 || item->parks > 0;
    return (struct candidate){.is_known = true,
                              .has_not_started = item->place == PLACE_LIVE && item->state == ITEM_PENDING && !has_attempt,
                              .run_at_us = item->run_at};
}

/* The execution or the last of its retries, while it has not ended; NULL: it has. */
static const char *living_try(struct simulation *simulation, const char *id)
{
    const struct candidate candidate = find_candidate(simulation, id);
    const struct model_item *item = observer_find(simulation, id);
    if (candidate.of_set != NULL) {
        return id;
    }
    while (item != NULL && item->place == PLACE_ENDED && item->retry != 0) {
        item = &simulation->items[item->retry - 1];
    }
    return item != NULL && item->place == PLACE_LIVE ? item->id : NULL;
}

static int64_t least(int64_t left, int64_t right)
{
    return left < right ? left : right;
}

/* The start time of a new execution, and the first request of its debounce. */
static int64_t start_of(struct model_key *key, const struct enqueue_request *request, const struct candidate *old,
                        int64_t now_us)
{
    bool was_due = old->has_not_started && old->run_at_us <= now_us;
    if (request->key_mode != KEY_DEBOUNCE) {
        key->first_us = 0;
        return request->run_at_us != 0 ? request->run_at_us : was_due ? old->run_at_us : now_us;
    }
    bool goes_on = old->has_not_started && key->first_us != 0;
    int64_t most_us = request->debounce_most_us == 0 ? DEBOUNCE_WINDOWS * request->debounce_us : request->debounce_most_us;
    key->first_us = goes_on ? key->first_us : now_us;
    return goes_on && was_due ? old->run_at_us : least(now_us + request->debounce_us, key->first_us + most_us);
}

static void expect_one(struct simulation *simulation, struct model_key *key, struct expected_enqueue *expected)
{
    const struct enqueue_request *request = expected->request;
    const struct model_item *itself = observer_find(simulation, request->id);
    struct candidate old = find_candidate(simulation, key->id);
    const char *active = request->key_mode == KEY_ONE_ACTIVE && old.is_known ? living_try(simulation, key->id) : NULL;
    expected->is_new = false;
    if (request->key_mode == KEY_ONCE && old.is_known) {
        text_copy(expected->answer, sizeof expected->answer, key->id);
    } else if (itself != NULL) {
        text_copy(expected->answer, sizeof expected->answer, request->id);
    } else if (active != NULL) {
        text_copy(expected->answer, sizeof expected->answer, active);
    } else {
        expected->is_new = true;
        text_copy(expected->answer, sizeof expected->answer, request->id);
        old.has_not_started = old.has_not_started && request->key_mode != KEY_ONE_ACTIVE;
        expected->run_at_us = start_of(key, request, &old, simulation->expected_at_us);
        if (old.has_not_started) {
            text_copy(expected->replaces, sizeof expected->replaces, key->id);
            if (old.of_set != NULL) {
                old.of_set->is_replaced_again = true;
            }
        }
        text_copy(key->id, sizeof key->id, request->id);
    }
}

void keys_expect(struct simulation *simulation, const struct enqueue_request *requests, size_t count)
{
    struct model_key keys[WORKSPACES_MOST][MODE_KEYS];
    simulation->expected_count = 0;
    if (!simulation->profile.is_keyed) {
        return;
    }
    for (int i = 0; i < WORKSPACES_MOST; i++) {
        memcpy(keys[i], simulation->workspaces[i].keys, sizeof keys[i]);
    }
    simulation->expected_at_us = observer_store_time(simulation);
    for (size_t i = 0; i < count; i++) {
        struct expected_enqueue *expected = &simulation->expected[i];
        *expected = (struct expected_enqueue){.request = &requests[i],
                                              .key = number_of(requests[i].idempotency_key),
                                              .workspace = find_workspace(simulation, requests[i].workspace)};
        if (expected->key >= 0) {
            expect_one(simulation, &keys[expected->workspace][expected->key], expected);
        }
        simulation->expected_count = i + 1;
    }
}

/* --- what it did --- */

static const struct expected_enqueue *expected_of(const struct simulation *simulation, const char *id)
{
    for (size_t i = 0; i < simulation->expected_count; i++) {
        if (simulation->expected[i].key >= 0 && strcmp(simulation->expected[i].request->id, id) == 0) {
            return &simulation->expected[i];
        }
    }
    return NULL;
}

static void check_new(struct simulation *simulation, const struct expected_enqueue *expected, int64_t spent_us)
{
    const struct model_item *item = observer_find(simulation, expected->request->id);
    const struct model_item *old = expected->replaces[0] == '\0' ? NULL : observer_find(simulation, expected->replaces);
    const char *mode = key_mode_name(expected->request->key_mode);
    const char *key = expected->request->idempotency_key;
    INVARIANT(item != NULL);
    if (item->run_at < expected->run_at_us || item->run_at > expected->run_at_us + spent_us) {
        fail(simulation, ONE_ITEM_PER_KEY, "%s of the key %s (%s) starts %lld us after its time", item->id, key, mode,
             (long long)(item->run_at - expected->run_at_us));
    } else if (expected->is_replaced_again != (item->place == PLACE_ENDED)) {
        fail(simulation, ONE_ITEM_PER_KEY, "%s of the key %s (%s) is %s", item->id, key, mode,
             item_state_name(item->state));
    } else if (old != NULL && (old->place != PLACE_ENDED || strcmp(old->error_code, "replaced") != 0)) {
        fail(simulation, ONE_ITEM_PER_KEY, "%s was not replaced by %s, which has its key %s (%s)", old->id, item->id, key,
             mode);
    }
}

static void check_answer(struct simulation *simulation, const struct expected_enqueue *expected,
                         const struct enqueue_result *result)
{
    if (result->status != WEIR_OK || strcmp(result->id, expected->answer) != 0 || result->duplicate == expected->is_new ||
        result->replaced != (expected->replaces[0] != '\0')) {
        fail(simulation, ONE_ITEM_PER_KEY, "%s of the key %s answered %s %s%s%s, and not %s%s",
             key_mode_name(expected->request->key_mode), expected->request->idempotency_key,
             weir_status_name(result->status), result->id, result->duplicate ? ", a duplicate" : "",
             result->replaced ? ", replaced" : "", expected->answer, expected->is_new ? " as new" : "");
    }
}

/* The keys as the store has them by now. */
static void move_keys(struct simulation *simulation, int64_t now_us)
{
    for (size_t i = 0; i < simulation->expected_count; i++) {
        const struct expected_enqueue *expected = &simulation->expected[i];
        if (expected->key >= 0 && expected->is_new) {
            struct model_key *key = &simulation->workspaces[expected->workspace].keys[expected->key];
            bool goes_on = expected->replaces[0] != '\0' && key->first_us != 0;
            key->first_us = expected->request->key_mode != KEY_DEBOUNCE ? 0 : goes_on ? key->first_us : now_us;
            text_copy(key->id, sizeof key->id, expected->request->id);
        }
    }
}

void keys_check(struct simulation *simulation, enum weir_status status, const struct enqueue_result *results)
{
    bool was_committed = status == WEIR_OK;
    int64_t spent_us = simulation->expected_count == 0 ? 0 : observer_store_time(simulation) - simulation->expected_at_us;
    for (size_t i = 0; i < simulation->expected_count; i++) {
        const struct expected_enqueue *expected = &simulation->expected[i];
        was_committed = was_committed || (expected->key >= 0 && expected->is_new &&
                                          observer_find(simulation, expected->request->id) != NULL);
    }
    for (size_t i = 0; i < simulation->expected_count && was_committed; i++) {
        const struct expected_enqueue *expected = &simulation->expected[i];
        if (expected->key >= 0 && expected->is_new && observer_find(simulation, expected->request->id) == NULL) {
            fail(simulation, ONE_ITEM_PER_KEY, "the request of %s for the key %s made no execution",
                 key_mode_name(expected->request->key_mode), expected->request->idempotency_key);
        }
    }
    for (size_t i = 0; i < simulation->expected_count && was_committed && !failed(simulation); i++) {
        const struct expected_enqueue *expected = &simulation->expected[i];
        if (expected->key >= 0 && expected->is_new) {
            check_new(simulation, expected, spent_us);
        }
        if (expected->key >= 0 && status == WEIR_OK) {
            check_answer(simulation, expected, &results[i]);
        }
    }
    if (was_committed) {
        move_keys(simulation, simulation->expected_at_us);
    }
    simulation->expected_count = 0;
}

/* --- the executions of a key --- */

static struct model_key *key_of(struct simulation *simulation, const struct model_item *item)
{
    return &simulation->workspaces[item->workspace].keys[item->mode_key];
}

static bool has_active(const struct simulation *simulation, int workspace, int key, const struct model_item *except)
{
    for (size_t i = 0; i < simulation->item_count; i++) {
        const struct model_item *item = &simulation->items[i];
        if (item != except && item->mode_key == key && item->workspace == workspace && item->place == PLACE_LIVE) {
            return true;
        }
    }
    return false;
}

/* Whether the key names the execution, or one of which it is a retry. */
static bool is_behind_key(struct simulation *simulation, const struct model_key *key, const struct model_item *item)
{
    const struct model_item *other = key->id[0] == '\0' ? NULL : observer_find(simulation, key->id);
    while (other != NULL && other != item && other->place != PLACE_PURGED && other->retry != 0) {
        other = &simulation->items[other->retry - 1];
    }
    return other == item;
}

void keys_note_item(struct simulation *simulation, struct model_item *item, const char *retry_of)
{
    const struct expected_enqueue *expected = expected_of(simulation, item->id);
    struct model_item *first = retry_of == NULL ? NULL : observer_find(simulation, retry_of);
    item->is_retry = retry_of != NULL;
    if (expected != NULL) {
        item->mode_key = expected->key;
        text_copy(item->key, sizeof item->key, expected->request->idempotency_key);
        key_of(simulation, item)->is_touched = true;
    }
    if (first == NULL) {
        return;
    }
    first->retry = (size_t)(item - simulation->items) + 1;
    item->mode_key = first->mode_key;
    if (item->mode_key >= 0) {
        struct model_key *key = key_of(simulation, item);
        key->is_touched = true;
        key->is_disturbed = key->is_disturbed || !is_behind_key(simulation, key, item) ||
                            has_active(simulation, item->workspace, item->mode_key, item);
    }
}

void keys_note_move(struct simulation *simulation, const struct model_item *item)
{
    if (item->mode_key >= 0) {
        key_of(simulation, item)->is_touched = true;
    }
}

void keys_note_end(struct simulation *simulation, const struct model_item *item)
{
    bool is_replaced = false;
    for (size_t i = 0; i < simulation->expected_count; i++) {
        is_replaced = is_replaced || strcmp(simulation->expected[i].replaces, item->id) == 0;
    }
    if (strcmp(item->error_code, "replaced") == 0 && !is_replaced) {
        fail(simulation, ONE_ITEM_PER_KEY, "%s was replaced though no request replaces it", item->id);
    }
    keys_note_move(simulation, item);
}

/* A purge forgets the key that names the execution, and hides the retries behind it. */
void keys_note_purge(struct simulation *simulation, const struct model_item *item)
{
    if (item->mode_key < 0) {
        return;
    }
    struct model_key *key = key_of(simulation, item);
    key->is_disturbed = key->is_disturbed || has_active(simulation, item->workspace, item->mode_key, item);
    if (strcmp(key->id, item->id) == 0) {
        key->id[0] = '\0';
        key->first_us = 0;
    }
}

static void check_key(struct simulation *simulation, int workspace, int number)
{
    struct model_key *key = &simulation->workspaces[workspace].keys[number];
    const struct model_item *active = NULL;
    const struct model_item *unclaimed = NULL;
    for (size_t i = 0; i < simulation->item_count; i++) {
        const struct model_item *item = &simulation->items[i];
        if (item->mode_key != number || item->workspace != workspace || item->place != PLACE_LIVE) {
            continue;
        }
        if (uses[number] == USE_ONE_ACTIVE && active != NULL && !key->is_disturbed) {
            fail(simulation, ONE_ITEM_PER_KEY, "%s and %s of the one_active key m%d are active", active->id, item->id,
                 number);
        }
        active = item;
        if (item->state != ITEM_PENDING || item->claims > 0 || item->is_retry) {
            continue;
        }
        if ((uses[number] == USE_REPLACE || uses[number] == USE_DEBOUNCE) && unclaimed != NULL) {
            fail(simulation, ONE_ITEM_PER_KEY, "%s and %s of the key m%d are PENDING, and only the newest may be",
                 unclaimed->id, item->id, number);
        }
        unclaimed = item;
    }
    key->is_disturbed = key->is_disturbed && active != NULL;
}

void check_keys(struct simulation *simulation)
{
    for (int workspace = 0; workspace < simulation->profile.workspaces && simulation->profile.is_keyed; workspace++) {
        for (int number = 0; number < MODE_KEYS; number++) {
            struct model_key *key = &simulation->workspaces[workspace].keys[number];
            if (key->is_touched) {
                key->is_touched = false;
                check_key(simulation, workspace, number);
            }
        }
    }
}
