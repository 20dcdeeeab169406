/* Several handles in threads on one store: no overlap, nothing lost, no cap ever passed. Each racer takes the scheduler's
 * role from the others whenever it wants to claim. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "conformance/scene.h"

#define IDLE_US_MOST SECONDS(60)
enum { RACERS = 4, ITEMS = 10000, CAP = 20, LIMIT = 7 };

struct race {
    struct scene *scene;
    _Atomic size_t claimed;
    _Atomic size_t completed;
    _Atomic int failures;
    _Atomic int64_t running; /* as the racers themselves know it */
    _Atomic int64_t running_most;
    _Atomic size_t total;
    const char *handlers; /* of each racer's node, a JSON array; NULL = none */
};

struct racer {
    struct race *race;
    struct store *store;
    struct claimer *claimer;
    int64_t node;
    pthread_t thread;
    struct arena arena;
    char (*ids)[UUID_TEXT_MAX];
    size_t count;
};

static void note_failure(struct race *race, const char *what, enum weir_status status, const struct weir_error *error)
{
    if (atomic_fetch_add(&race->failures, 1) == 0) {
        print_error("%s: %s %s\n", what, weir_status_name(status), error->message);
    }
}

static void note_running(struct race *race, int64_t more)
{
    int64_t running = atomic_fetch_add(&race->running, more) + more;
    int64_t most = atomic_load(&race->running_most);
    while (running > most && !atomic_compare_exchange_weak(&race->running_most, &most, running)) {
    }
}

/* A record of an item that another racer holds for longer than a moment is left out, and is to be repeated (store.h). */
static bool record_all(struct racer *racer, struct record *records, size_t count)
{
    while (count > 0) {
        struct record_summary summary = {0};
        struct weir_error error = {0};
        enum weir_status status = store_record(racer->store, racer->node, records, count, &summary, &error);
        size_t busy = 0;
        for (size_t i = 0; i < count && status == WEIR_OK; i++) {
            if (records[i].status == WEIR_STORE_BUSY) {
                records[busy++] = records[i];
            } else {
                status = records[i].status;
            }
        }
        if (status != WEIR_OK || summary.changed != count - busy) {
            note_failure(racer->race, "record", status, &error);
            return false;
        }
        count = busy;
    }
    return true;
}

/* Completes a claim; an item that was put back once (every 50th) is claimed again. */
static bool finish_claim(struct racer *racer, const struct claim_result *claim)
{
    struct record records[CAP];
    size_t completed = 0;
    for (size_t i = 0; i < claim->count; i++) {
        bool retried = claim->items[i].starts_refused == 0 && claim->items[i].fence % 50 == 0;
        records[i] = scene_record_of(retried ? RECORD_RETRY : RECORD_COMPLETED, &claim->items[i]);
        records[i].dispatched_first = true;
        if (!retried) {
            memcpy(racer->ids[racer->count++], claim->items[i].id, UUID_TEXT_MAX);
            completed++;
        }
    }
    note_running(racer->race, -(int64_t)claim->count); /* before the slots are given back: never too low */
    if (!record_all(racer, records, claim->count)) {
        return false;
    }
    atomic_fetch_add(&racer->race->completed, completed);
    return true;
}

static void *run_racer(void *context)
{
    struct racer *racer = context;
    struct race *race = racer->race;
    int64_t until_us = clock_boot(clock_system()) + IDLE_US_MOST;
    while (atomic_load(&race->completed) < race->total && atomic_load(&race->failures) == 0 &&
           clock_boot(clock_system()) < until_us) {
        struct claim_result claim = {0};
        struct weir_error error = {0};
        arena_reset(&racer->arena);
        enum weir_status status = claimer_claim(racer->claimer, LIMIT, &racer->arena, &claim, &error);
        if (status != WEIR_OK) {
            note_failure(race, "claim", status, &error);
            break;
        }
        if (claim.count == 0) {
            continue;
        }
        until_us = clock_boot(clock_system()) + IDLE_US_MOST;
        note_running(race, (int64_t)claim.count);
        if (!finish_claim(racer, &claim)) {
            break;
        }
    }
    return NULL;
}

static int compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, UUID_TEXT_MAX);
}

static void assert_each_once(struct racer *racers, size_t total)
{
    char(*all)[UUID_TEXT_MAX] = calloc(total, UUID_TEXT_MAX);
    size_t count = 0;
    assert_non_null(all);
    for (int i = 0; i < RACERS; i++) {
        assert_true(count + racers[i].count <= total);
        memcpy(all + count, racers[i].ids, racers[i].count * UUID_TEXT_MAX);
        count += racers[i].count;
    }
    assert_int_equal(count, total);
    qsort(all, count, UUID_TEXT_MAX, compare_ids);
    for (size_t i = 1; i < count; i++) {
        assert_string_not_equal(all[i - 1], all[i]);
    }
    free(all);
}

static void open_racers(struct race *race, struct racer *racers)
{
    for (int i = 0; i < RACERS; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "racer-%d", i);
        racers[i] = (struct racer){.race = race, .node = scene_add_node(race->scene, name, "default")};
        if (race->handlers != NULL) {
            bool more = false;
            const struct node_handlers handlers = {.names = race->handlers};
            scene_ok(race->scene,
                     store_node_handlers(race->scene->store, racers[i].node, &handlers, &more, &race->scene->error));
        }
        racers[i].ids = calloc(race->total, UUID_TEXT_MAX);
        arena_init(&racers[i].arena, 1 << 20);
        if (i % 2 == 0) {
            scene_ok(race->scene, store_open_again(race->scene->store, &racers[i].store, &race->scene->error));
        } else {
            racers[i].store = driver_open(&race->scene->driver, NULL);
        }
        scene_ok(race->scene, claimer_open(racers[i].store, racers[i].node, &racers[i].claimer, &race->scene->error));
    }
}

static void close_racers(struct racer *racers)
{
    struct scene *scene = racers[0].race->scene;
    for (int i = 0; i < RACERS; i++) {
        scene_ok(scene, claimer_publish(racers[i].claimer, &scene->error));
        claimer_close(racers[i].claimer);
        store_close(racers[i].store);
        arena_close(&racers[i].arena);
        free(racers[i].ids);
    }
}

/* Four dispatchers on one workspace with 10,000 items and 20 slots. */
static void racers_never_overlap_lose_nothing_and_never_pass_the_cap(void **state)
{
    struct scene *scene = *state;
    struct race race = {.scene = scene, .total = ITEMS};
    struct racer racers[RACERS];
    scene_enqueue_many(scene, "big-co", ITEMS);
    driver_guard_caps(&scene->driver);
    open_racers(&race, racers);
    for (int i = 0; i < RACERS; i++) {
        assert_int_equal(pthread_create(&racers[i].thread, NULL, run_racer, &racers[i]), 0);
    }
    for (int i = 0; i < RACERS; i++) {
        assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
    }
    assert_int_equal(race.failures, 0);
    assert_int_equal(race.completed, ITEMS);
    assert_true(race.running_most <= CAP);
    assert_each_once(racers, ITEMS);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions WHERE status = 'COMPLETED'"), ITEMS);
    close_racers(racers);
}

struct enqueuer {
    struct race *race;
    struct store *store;
    pthread_t thread;
    int number;
};

static void *run_enqueuer(void *context)
{
    struct enqueuer *enqueuer = context;
    for (int i = 0; i < 250; i++) {
        char key[32];
        struct weir_error error = {0};
        struct enqueue_result result;
        (void)snprintf(key, sizeof key, "key-%d", i); /* the same keys from every thread */
        struct enqueue_request request = {
            .workspace = i % 2 == 0 ? "pro-co" : "big-co", .workflow = "hello", .idempotency_key = key};
        enum weir_status status = store_enqueue(enqueuer->store, &request, 1, &result, &error);
        if (status != WEIR_OK || result.status != WEIR_OK) {
            note_failure(enqueuer->race, "enqueue", status != WEIR_OK ? status : result.status,
                         status != WEIR_OK ? &error : &result.error);
            break;
        }
    }
    return NULL;
}

/* Enqueuers with the same keys beside racers: each key is one item, and each item runs once. */
static void the_same_keys_from_many_threads_are_one_item_each(void **state)
{
    struct scene *scene = *state;
    struct race race = {.scene = scene, .total = 250};
    struct racer racers[RACERS];
    struct enqueuer enqueuers[3];
    driver_guard_caps(&scene->driver);
    open_racers(&race, racers);
    for (int i = 0; i < 3; i++) {
        enqueuers[i] = (struct enqueuer){.race = &race, .store = driver_open(&scene->driver, NULL), .number = i};
        assert_int_equal(pthread_create(&enqueuers[i].thread, NULL, run_enqueuer, &enqueuers[i]), 0);
    }
    for (int i = 0; i < RACERS; i++) {
        assert_int_equal(pthread_create(&racers[i].thread, NULL, run_racer, &racers[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(enqueuers[i].thread, NULL), 0);
        store_close(enqueuers[i].store);
    }
    for (int i = 0; i < RACERS; i++) {
        assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
    }
    assert_int_equal(race.failures, 0);
    assert_int_equal(scene_number(scene, "SELECT count(*) FROM executions"), 250);
    assert_each_once(racers, 250);
    close_racers(racers);
}

static void run_beside_racers(struct race *race, struct racer *racers, void (*act)(struct race *race))
{
    open_racers(race, racers);
    for (int i = 0; i < RACERS; i++) {
        assert_int_equal(pthread_create(&racers[i].thread, NULL, run_racer, &racers[i]), 0);
    }
    act(race);
    for (int i = 0; i < RACERS; i++) {
        assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
    }
    assert_int_equal(race->failures, 0);
}

/* Cancels from the newest to the oldest, until nothing is left. */
static void cancel_some(struct race *race)
{
    struct scene *scene = race->scene;
    int64_t until_us = clock_boot(clock_system()) + IDLE_US_MOST;
    struct store *store = driver_open(&scene->driver, NULL);
    while (scene_number(scene, "SELECT count(*) FROM workflow_execution_queue") > 0 && race->failures == 0 &&
           clock_boot(clock_system()) < until_us) {
        struct weir_error error = {0};
        struct bulk_result result = {0};
        json_t *page = NULL;
        struct list_options newest = {.kind = LIST_EXECUTIONS, .filter = {.states = 1U << ITEM_PENDING}, .limit = 5};
        enum weir_status status = store_list(store, &newest, &page, &error);
        const json_t *items = json_object_get(page, "items");
        for (size_t i = 0; status == WEIR_OK && i < json_array_size(items); i++) {
            struct execution_filter filter = {.id = json_text_at(json_array_get(items, i), "id")};
            status = store_bulk(store, BULK_CANCEL, &filter, "", 1, &result, &error);
        }
        json_decref(page);
        if (status != WEIR_OK) {
            note_failure(race, "cancel", status, &error);
        }
    }
    store_close(store);
    atomic_store(&race->total, 0); /* the racers stop */
}

/* An item is assigned or cancelled, never both, and never neither. */
static void cancels_and_claims_share_the_items(void **state)
{
    enum { SHARED = 3000 };
    struct scene *scene = *state;
    struct race race = {.scene = scene, .total = SHARED};
    struct racer racers[RACERS];
    scene_enqueue_many(scene, "big-co", SHARED);
    driver_guard_caps(&scene->driver);
    run_beside_racers(&race, racers, cancel_some);
    int64_t completed = scene_number(scene, "SELECT count(*) FROM executions WHERE status = 'COMPLETED'");
    int64_t cancelled = scene_number(scene, "SELECT count(*) FROM executions WHERE status = 'CANCELLED'");
    assert_int_equal(completed + cancelled, SHARED);
    assert_int_equal(race.completed, completed);
    assert_each_once(racers, (size_t)completed);
    close_racers(racers);
}

/* Forth and back between two versions of different lanes, the oldest first: those are claimed next. */
static void migrate_some(struct race *race)
{
    struct scene *scene = race->scene;
    int64_t until_us = clock_boot(clock_system()) + IDLE_US_MOST;
    struct store *store = driver_open(&scene->driver, NULL);
    for (int version = 2;
         atomic_load(&race->completed) < race->total && race->failures == 0 && clock_boot(clock_system()) < until_us;
         version = 3 - version) {
        struct weir_error error = {0};
        struct bulk_result result = {0};
        const struct act_order order = {.to_version = version};
        const struct execution_filter filter = {.workflow = "hello", .states = 1U << ITEM_PENDING};
        enum weir_status status = store_bulk_ordered(store, BULK_MIGRATE, &order, &filter, "", 25, &result, &error);
        if (status != WEIR_OK) {
            note_failure(race, "migrate", status, &error);
        }
    }
    store_close(store);
}

/* An item is assigned with one of both versions, once, and is in the books of its lane. */
static void migrations_beside_claims(void **state)
{
    enum { SHARED = 1000 };
    struct scene *scene = *state;
    struct published published = {0};
    struct race race = {.scene = scene, .total = SHARED};
    struct racer racers[RACERS];
    scene_enqueue_many(scene, "big-co", SHARED);
    scene_ok(scene,
             store_publish(scene->store, "hello", NULL, "{\"name\":\"hello\",\"steps\":{\"one\":{\"handler\":\"greet\"}}}",
                           NULL, &published, &scene->error));
    driver_guard_caps(&scene->driver);
    race.handlers = "[\"greet\"]";
    run_beside_racers(&race, racers, migrate_some);
    assert_each_once(racers, SHARED);
    assert_true(scene_number(scene, "SELECT count(*) FROM execution_events WHERE event = 'migrate'") > 0);
    close_racers(racers);
}

static void sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static int64_t last_fence(struct scene *scene)
{
    return scene_number(scene, "SELECT coalesce(max(fence), 0) FROM executions WHERE workspace = 'big-co'");
}

static void pause_and_resume(struct race *race)
{
    struct scene *scene = race->scene;
    for (int i = 0; i < 30 && race->failures == 0; i++) {
        scene_pause_workspace(scene, "big-co", true);
        int64_t fence = last_fence(scene);
        sleep_ms(5);
        if (last_fence(scene) > fence) {
            note_failure(race, "an item was assigned after its workspace was paused", WEIR_FAILED, &scene->error);
        }
        scene_pause_workspace(scene, "big-co", false);
        sleep_ms(5);
    }
}

/* Each assignment has a fence of its own, higher than all before it. */
static void a_pause_that_has_returned_stops_every_assignment(void **state)
{
    struct scene *scene = *state;
    struct race race = {.scene = scene, .total = ITEMS / 4};
    struct racer racers[RACERS];
    scene_enqueue_many(scene, "big-co", ITEMS / 4);
    run_beside_racers(&race, racers, pause_and_resume);
    assert_int_equal(race.completed, ITEMS / 4);
    close_racers(racers);
}

enum { LOCKERS = 4, LOCK_ROUNDS = 50 };

struct locker {
    struct race *race;
    struct store *store;
    pthread_barrier_t *together;
    pthread_t thread;
    int number;
};

/* All find the lock free at once and try to take it: a caller that looked before another one wrote must not have it as
 * well. */
static void *run_locker(void *context)
{
    struct locker *locker = context;
    char holder[32];
    (void)snprintf(holder, sizeof holder, "holder-%d", locker->number);
    struct lock_request request = {.name = "duty", .holder = holder, .at_most_us = SECONDS(60), .at_least_us = 0};
    for (int i = 0; i < LOCK_ROUNDS; i++) {
        struct weir_error error = {0};
        (void)pthread_barrier_wait(locker->together);
        enum weir_status status = store_lock(locker->store, &request, &error);
        if (status == WEIR_OK) {
            atomic_fetch_add(&locker->race->running, 1);
        } else if (status != WEIR_CONFLICT) {
            note_failure(locker->race, "lock", status, &error);
        }
        (void)pthread_barrier_wait(locker->together);
        if (atomic_load(&locker->race->running) != 1) {
            note_failure(locker->race, "not exactly one holds the lock", status, &error);
        }
        (void)pthread_barrier_wait(locker->together);
        if (status == WEIR_OK) {
            atomic_fetch_sub(&locker->race->running, 1);
            status = store_unlock(locker->store, &request, &error);
            if (status != WEIR_OK) {
                note_failure(locker->race, "unlock", status, &error);
            }
        }
    }
    return NULL;
}

static void a_lock_is_held_by_one_thread_at_a_time(void **state)
{
    struct scene *scene = *state;
    struct race race = {.scene = scene};
    struct locker lockers[LOCKERS];
    pthread_barrier_t together;
    assert_int_equal(pthread_barrier_init(&together, NULL, LOCKERS), 0);
    for (int i = 0; i < LOCKERS; i++) {
        lockers[i] =
            (struct locker){.race = &race, .store = driver_open(&scene->driver, NULL), .together = &together, .number = i};
    }
    for (int i = 0; i < LOCKERS; i++) {
        assert_int_equal(pthread_create(&lockers[i].thread, NULL, run_locker, &lockers[i]), 0);
    }
    for (int i = 0; i < LOCKERS; i++) {
        assert_int_equal(pthread_join(lockers[i].thread, NULL), 0);
        store_close(lockers[i].store);
    }
    (void)pthread_barrier_destroy(&together);
    assert_int_equal(race.failures, 0);
}

/* Shows every claimed execution over and over, while the racers end them. */
struct looker {
    struct race *race;
    struct store *store;
    pthread_t thread;
    char (*ids)[UUID_TEXT_MAX];
    size_t count;
    size_t looks;
};

static void *run_looker(void *context)
{
    struct looker *looker = context;
    struct race *race = looker->race;
    while (atomic_load(&race->completed) < race->total && atomic_load(&race->failures) == 0) {
        struct list_options newest = {.kind = LIST_EXECUTIONS, .limit = 3};
        const char *id = looker->ids[atomic_load(&race->completed) % looker->count];
        struct weir_error error = {0};
        json_t *execution = NULL;
        json_t *why = NULL;
        json_t *page = NULL;
        enum weir_status status = store_show(looker->store, id, &execution, &error);
        if (status == WEIR_OK) {
            status = store_why(looker->store, id, &why, &error);
        }
        if (status == WEIR_OK) {
            status = store_list(looker->store, &newest, &page, &error);
        }
        if (status != WEIR_OK) {
            note_failure(race, "look", status, &error);
        } else if (json_array_size(json_object_get(page, "items")) != 3) {
            note_failure(race, "the page is not full", status, &error);
        }
        looker->looks++;
        json_decref(execution);
        json_decref(why);
        json_decref(page);
    }
    return NULL;
}

/* Moving to the history is one step for each reader: an execution is never there twice, and never nowhere. */
static void an_execution_is_seen_once_while_it_ends(void **state)
{
    enum { LOOKED_AT = 2000 };
    struct scene *scene = *state;
    struct race race = {.scene = scene, .total = LOOKED_AT};
    struct racer racers[RACERS];
    struct looker looker = {.race = &race, .store = driver_open(&scene->driver, NULL), .count = LOOKED_AT};
    looker.ids = calloc(LOOKED_AT, UUID_TEXT_MAX);
    assert_non_null(looker.ids);
    for (size_t i = 0; i < LOOKED_AT; i++) {
        memcpy(looker.ids[i], scene_enqueue(scene, "big-co"), UUID_TEXT_MAX);
    }
    open_racers(&race, racers);
    assert_int_equal(pthread_create(&looker.thread, NULL, run_looker, &looker), 0);
    assert_int_equal(pthread_create(&racers[0].thread, NULL, run_racer, &racers[0]), 0);
    assert_int_equal(pthread_join(racers[0].thread, NULL), 0);
    assert_int_equal(pthread_join(looker.thread, NULL), 0);
    assert_int_equal(race.failures, 0);
    assert_int_equal(race.completed, LOOKED_AT);
    assert_true(looker.looks > 0);
    close_racers(racers);
    store_close(looker.store);
    free(looker.ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(racers_never_overlap_lose_nothing_and_never_pass_the_cap),
        SCENE_TEST(cancels_and_claims_share_the_items),
        SCENE_TEST(migrations_beside_claims),
        SCENE_TEST(a_pause_that_has_returned_stops_every_assignment),
        SCENE_TEST(the_same_keys_from_many_threads_are_one_item_each),
        SCENE_TEST(an_execution_is_seen_once_while_it_ends),
        SCENE_TEST(a_lock_is_held_by_one_thread_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
