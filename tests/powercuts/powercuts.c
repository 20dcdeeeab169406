/* Power cuts: a store works on a recorded file system; then its disk is rebuilt as a power cut leaves it at each place of
 * the record (disk.h), opened by the real store, and every acknowledged act is looked up.
 *
 * 1. A run draws acts by its seed: enqueues alone and in sets, small and large params, claims, parks, signals, decisions,
 *    ends, dismissals, checkpoints of the log. Of every third run some syncs fail.
 * 2. At each operation of the record the power is cut once. What was acknowledged before must be there: each enqueue, each
 *    claim, each end, and the event of each other act. A set is there whole or not at all. An act that was refused with
 *    "nothing was changed" is not there.
 * 3. The store's check must find nothing, and no damaged log may be reported: a power cut alone damages nothing.
 *
 * powercuts [--cuts N] [--seed S] [--processes P] [--without-sync]
 *   --without-sync  takes the product's syncs out; then the exit code is 0 only when lost acts are found
 * A failure prints the seed with which it is replayed. */
#include <glob.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/scene.h"
#include "observe/event.h"
#include "powercuts/recording_vfs.h"

enum {
    ACTS = 60,
    ITEMS_MOST = ACTS * 3,
    SET = 3,
    NOTES_MOST = 8,
    LARGE_BYTES = 40000,
    CHECK_EVERY = 8,
    SYNC_FAILS_ONE_IN = 12,
    PROCESSES_MOST = 64
};
#define NEVER SIZE_MAX

/* Acts of which the event of the execution shows whether they are there. */
enum noted { PARK, SIGNAL, DECISION, DISMISSAL, NOTED };
static const char *const noted_events[NOTED] = {"park", "signal", "approve", "dismiss"};

/* The places in the record at which the acts of an item were acknowledged; NEVER: they were not. */
struct item {
    char id[UUID_TEXT_MAX];
    size_t park_begun; /* before the first call that was to park it */
    bool has_failed;
    size_t noted[NOTED][NOTES_MOST];
    size_t noted_count[NOTED];
    size_t enqueued;
    size_t claimed;
    size_t ended;
    bool is_refused; /* as a failure that changed nothing */
    int set;         /* items of one set are there together */
};

struct run {
    uint64_t seed;
    struct random random;
    struct scene *scene;
    struct disk_trace trace;
    struct item items[ITEMS_MOST];
    size_t item_count;
    struct claimed_item held[ITEMS_MOST];
    size_t held_count;
    int sets;
    bool syncs_fail;
    char path[300];
};

static struct {
    uint64_t seed;
    int64_t cuts;
    int processes;
    bool without_sync;
} options = {.cuts = 10000, .processes = 1};

static size_t alarms;

static void note(void *context, const struct event *event)
{
    (void)context;
    alarms += event->type == EVENT_STORE_LOG_DAMAGED;
}

/* --- the acts --- */

static struct item *item_of(struct run *run, const char *id)
{
    for (size_t i = 0; i < run->item_count; i++) {
        if (strcmp(run->items[i].id, id) == 0) {
            return &run->items[i];
        }
    }
    return NULL;
}

static void enqueue(struct run *run, size_t count)
{
    static char params[LARGE_BYTES + 1];
    struct enqueue_request requests[SET];
    struct enqueue_result results[SET];
    bool is_large = random_below(&run->random, 6) == 0;
    size_t length = is_large ? LARGE_BYTES : 2 + random_below(&run->random, 100);
    memset(params, ' ', sizeof params - 1);
    memcpy(params, "{}", 2);
    run->sets++;
    for (size_t i = 0; i < count; i++) {
        struct item *item = &run->items[run->item_count + i];
        *item = (struct item){.enqueued = NEVER, .claimed = NEVER, .ended = NEVER, .park_begun = NEVER, .set = run->sets};
        (void)snprintf(item->id, sizeof item->id, "0198c2f1-0000-7000-8000-%012zu", run->item_count + i);
        requests[i] = (struct enqueue_request){.workspace = random_below(&run->random, 2) == 0 ? "pro-co" : "big-co",
                                               .workflow = random_below(&run->random, 2) == 0 ? "hello" : "waits",
                                               .id = item->id,
                                               .params = params,
                                               .params_length = length};
    }
    enum weir_status status = store_enqueue(run->scene->store, requests, count, results, &run->scene->error);
    for (size_t i = 0; i < count; i++) {
        struct item *item = &run->items[run->item_count + i];
        item->enqueued = status == WEIR_OK && results[i].status == WEIR_OK ? run->trace.count : NEVER;
        item->is_refused = weir_status_kind(status) == WEIR_KIND_TRANSIENT;
    }
    run->item_count += count;
}

static void claim(struct run *run)
{
    struct claim_request request = {
        .node_id = run->scene->node, .group = "default", .limit = 1 + random_below(&run->random, SET)};
    struct claim_result result = {.count = 0};
    if (claim_through_scheduler(run->scene->store, &request, &run->scene->arena, &result, &run->scene->error) != WEIR_OK) {
        return;
    }
    for (size_t i = 0; i < result.count && run->held_count < ITEMS_MOST; i++) {
        struct item *item = item_of(run, result.items[i].id);
        if (item != NULL) {
            item->claimed = run->trace.count;
            run->held[run->held_count++] = result.items[i];
        }
    }
}

static void end_one(struct run *run)
{
    if (run->held_count == 0) {
        return;
    }
    struct claimed_item held = run->held[--run->held_count];
    bool fails = random_below(&run->random, 3) == 0;
    struct record record = scene_record_of(fails ? RECORD_FAILED : RECORD_COMPLETED, &held);
    struct record_summary summary = {0};
    if (store_record(run->scene->store, run->scene->node, &record, 1, &summary, &run->scene->error) == WEIR_OK &&
        record.status == WEIR_OK) {
        item_of(run, held.id)->ended = run->trace.count;
        item_of(run, held.id)->has_failed = fails;
    }
}

static void note_act(struct run *run, struct item *item, enum noted act, enum weir_status status)
{
    if (status == WEIR_OK && item->noted_count[act] < NOTES_MOST) {
        item->noted[act][item->noted_count[act]++] = run->trace.count;
    }
}

/* In one transaction: a step waits for a signal or for a decision, and its execution parks. */
static void park_one(struct run *run)
{
    if (run->held_count == 0 || strcmp(run->held[run->held_count - 1].workflow, "waits") != 0) {
        return;
    }
    struct claimed_item held = run->held[--run->held_count];
    struct item *item = item_of(run, held.id);
    bool asks = random_below(&run->random, 2) == 0;
    struct step_record step = {.state = STEP_WAITING, .attempt = 1, .exit_code = -1, .due_in_us = -1};
    struct record records[] = {scene_record_of(RECORD_DISPATCHED, &held), scene_record_of(RECORD_STEP, &held),
                               scene_record_of(RECORD_PARKED, &held)};
    struct record_summary summary = {0};
    (void)snprintf(step.step, sizeof step.step, "%s", asks ? "ask" : "pay");
    (void)snprintf(step.signal, sizeof step.signal, "%s", asks ? "go" : "approve:pay");
    records[1].step = &step;
    records[2].delay_us = TIME_NEVER;
    records[2].waiting_for = asks ? WAIT_SIGNAL : WAIT_APPROVAL;
    records[2].signals_seen = held.signals_seen;
    item->park_begun = item->park_begun == NEVER ? run->trace.count : item->park_begun;
    enum weir_status status = store_record(run->scene->store, run->scene->node, records, 3, &summary, &run->scene->error);
    note_act(run, item, PARK, status == WEIR_OK ? records[2].status : status);
}

static void send_one(struct run *run)
{
    if (run->item_count == 0) {
        return;
    }
    struct item *item = &run->items[random_below(&run->random, run->item_count)];
    struct sent_signal sent = {.seq = 0};
    const struct signal_request request = {.id = item->id, .name = "go", .data = "1"};
    const struct approval approval = {.step = "pay", .approved = true};
    if (random_below(&run->random, 2) == 0) {
        note_act(run, item, SIGNAL, store_signal(run->scene->store, &request, &sent, &run->scene->error));
    } else {
        note_act(run, item, DECISION, store_approve(run->scene->store, item->id, &approval, &sent, &run->scene->error));
    }
}

static void dismiss_one(struct run *run)
{
    for (size_t i = 0; i < run->item_count; i++) {
        struct item *item = &run->items[i];
        if (item->has_failed && item->noted_count[DISMISSAL] == 0) {
            const struct execution_filter filter = {.id = item->id};
            struct bulk_result result = {0};
            note_act(run, item, DISMISSAL,
                     store_bulk_one(run->scene->store, BULK_DISMISS, NULL, &filter, &result, &run->scene->error));
            return;
        }
    }
}

static void copy_log_back(struct run *run)
{
    sqlite3 *database = NULL;
    bool truncates = random_below(&run->random, 3) == 0;
    if (sqlite3_open_v2(run->path, &database, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK) {
        /* A read opens the log; before that there is nothing to copy back. */
        (void)sqlite3_exec(database, "PRAGMA synchronous=FULL; SELECT 1 FROM sqlite_schema", NULL, NULL, NULL);
        (void)sqlite3_wal_checkpoint_v2(database, "main",
                                        truncates ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_RESTART, NULL, NULL);
    }
    (void)sqlite3_close(database);
}

static void act(struct run *run)
{
    uint64_t drawn = random_below(&run->random, 18);
    if (drawn < 5) {
        enqueue(run, 1);
    } else if (drawn < 6) {
        enqueue(run, SET);
    } else if (drawn < 8) {
        claim(run);
    } else if (drawn < 11) {
        end_one(run);
    } else if (drawn < 13) {
        park_one(run);
    } else if (drawn < 16) {
        send_one(run);
    } else if (drawn < 17) {
        dismiss_one(run);
    } else {
        copy_log_back(run);
    }
}

/* --- the look-ups --- */

static _Noreturn void lost(const struct run *run, size_t place, const char *what, const char *id)
{
    (void)fprintf(stderr,
                  "power cut before operation %zu of %zu: %s%s%s\n"
                  "replay: powercuts --seed %" PRIu64 " --cuts 1%s\n",
                  place, run->trace.count, what, id != NULL ? " " : "", id != NULL ? id : "", run->seed,
                  options.without_sync ? " --without-sync" : "");
    exit(1);
}

static void check_notes(const struct run *run, size_t place, const json_t *rows, const struct item *item)
{
    for (int act = 0; act < NOTED; act++) {
        char key[UUID_TEXT_MAX + 16];
        json_int_t wanted = 0;
        (void)snprintf(key, sizeof key, "%s %s", noted_events[act], item->id);
        for (size_t i = 0; i < item->noted_count[act]; i++) {
            wanted += item->noted[act][i] <= place;
        }
        if (json_integer_value(json_object_get(rows, key)) < wanted) {
            lost(run, place, "an acknowledged act is gone:", key);
        }
    }
}

static void check_items(struct run *run, size_t place, const json_t *rows)
{
    int there_of_set[ACTS + 1] = {0};
    int of_set[ACTS + 1] = {0};
    for (size_t i = 0; i < run->item_count; i++) {
        const struct item *item = &run->items[i];
        const char *status = json_string_value(json_object_get(rows, item->id));
        of_set[item->set]++;
        there_of_set[item->set] += status != NULL;
        bool is_over = status != NULL && (strcmp(status, "COMPLETED") == 0 || strcmp(status, "FAILED") == 0);
        bool is_held = status != NULL && (strcmp(status, "CLAIMED") == 0 || strcmp(status, "DISPATCHED") == 0);
        if (item->enqueued <= place && status == NULL) {
            lost(run, place, "an acknowledged enqueue is gone:", item->id);
        }
        if (item->is_refused && status != NULL) {
            lost(run, place, "an enqueue that was refused is there:", item->id);
        }
        bool may_be_parked = item->park_begun <= place && status != NULL;
        if (item->claimed <= place && !is_held && !is_over && !may_be_parked) {
            lost(run, place, "an acknowledged claim is gone:", item->id);
        }
        if (item->ended <= place && !is_over) {
            lost(run, place, "an acknowledged end is gone:", item->id);
        }
        check_notes(run, place, rows, item);
    }
    for (int i = 1; i <= run->sets; i++) {
        if (there_of_set[i] != 0 && there_of_set[i] != of_set[i]) {
            lost(run, place, "a set is there in part", NULL);
        }
    }
}

/* The state of each execution by its id, and how often it has an event by "EVENT ID". */
static json_t *read_states(struct run *run, struct driver_under_test *driver, size_t place)
{
    static const char sql[] = "SELECT id, status, NULL FROM executions UNION ALL"
                              " SELECT event || ' ' || execution_id, NULL, count(*) FROM execution_events GROUP BY 1";
    sqlite3 *database = NULL;
    sqlite3_stmt *statement = NULL;
    json_t *states = json_object();
    int code = sqlite3_open_v2(driver->url + strlen("sqlite:"), &database, SQLITE_OPEN_READWRITE, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_prepare_v2(database, sql, -1, &statement, NULL);
    }
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(statement);
        if (code == SQLITE_ROW) {
            const char *status = (const char *)sqlite3_column_text(statement, 1);
            (void)json_object_set_new(states, (const char *)sqlite3_column_text(statement, 0),
                                      status != NULL ? json_string(status)
                                                     : json_integer(sqlite3_column_int64(statement, 2)));
        }
    }
    if (code != SQLITE_DONE) {
        lost(run, place, sqlite3_errmsg(database), NULL);
    }
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(database);
    return states;
}

/* Copies of a damaged log that an earlier cut after a failed sync left: the check reports them, too. */
static void remove_copies(const char *folder)
{
    char pattern[320];
    glob_t found;
    (void)snprintf(pattern, sizeof pattern, "%s/weir.db-wal.damaged-*", folder);
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            (void)unlink(found.gl_pathv[i]);
        }
        globfree(&found);
    }
}

static void look_at(struct run *run, struct driver_under_test *driver, const struct disk_image *image, size_t place)
{
    struct event_bus bus = {.count = 0};
    struct store_options open = {.url = driver->url, .clock = &driver->time.clock, .events = &bus};
    struct store *store = NULL;
    struct weir_error error = {.status = WEIR_OK};
    json_t *problems = NULL;
    char shared[320];
    (void)snprintf(shared, sizeof shared, "%s/weir.db-shm", driver->place);
    (void)unlink(shared);
    remove_copies(driver->place);
    disk_image_write(image, driver->url + strlen("sqlite:"));
    (void)event_subscribe(&bus, note, NULL);
    alarms = 0;
    if (store_open(&open, &store, &error) != WEIR_OK) {
        lost(run, place, error.message, NULL);
    }
    json_t *states = read_states(run, driver, place);
    check_items(run, place, states);
    json_decref(states);
    if (alarms > 0 && !run->syncs_fail && !options.without_sync) {
        lost(run, place, "the log is reported as damaged", NULL);
    }
    if (place % CHECK_EVERY == 0) {
        if (store_check(store, &problems, &error) != WEIR_OK) {
            lost(run, place, error.message, NULL);
        }
        if (json_array_size(problems) > 0 && alarms == 0) {
            lost(run, place, json_string_value(json_array_get(problems, 0)), NULL);
        }
        json_decref(problems);
    }
    store_close(store);
}

/* --- a run --- */

static void run_acts(struct run *run, struct disk_image *begin)
{
    static const char waits[] = "{\"name\":\"waits\",\"steps\":{\"ask\":{\"signal\":\"go\"},\"pay\":{\"approve\":{}}}}";
    struct published published;
    void *state = NULL;
    (void)scene_open(&state);
    run->scene = state;
    scene_ok(run->scene, store_publish(run->scene->store, "waits", NULL, waits, NULL, &published, &run->scene->error));
    (void)snprintf(run->path, sizeof run->path, "%s/weir.db", run->scene->driver.place);
    run->scene->driver.time.wall_us = 1767225600000000; /* the same bytes at each replay */
    copy_log_back(run);
    store_close(run->scene->store);
    recording_start(&run->trace, run->path);
    disk_image_read(begin, run->path);
    run->scene->store = driver_open(&run->scene->driver, NULL);
    if (run->syncs_fail) {
        recording_fail_syncs(&run->random, SYNC_FAILS_ONE_IN);
    }
    for (int i = 0; i < ACTS; i++) {
        act(run);
        driver_pass(&run->scene->driver, MICROSECONDS_PER_SECOND / 10);
    }
    recording_stop();
}

/* Returns the cuts made, at most `most`. */
static int64_t run_once(uint64_t seed, int64_t most)
{
    struct run run = {.seed = seed};
    struct disk_image begin = {.files = {{.bytes = NULL}}};
    struct disk_image after = {.files = {{.bytes = NULL}}};
    struct driver_under_test crashed;
    struct disk disk;
    int64_t cuts = 0;
    random_seed(&run.random, seed);
    run.syncs_fail = random_below(&run.random, 3) == 0;
    run_acts(&run, &begin);
    driver_make(&crashed);
    disk_open(&disk, &run.trace, &begin);
    disk.ignores_syncs = options.without_sync;
    while (disk.place < run.trace.count && cuts < most) {
        disk_advance(&disk, &run.random);
        disk_cut(&disk, &run.random, &after);
        look_at(&run, &crashed, &after, disk.place);
        cuts++;
    }
    void *state = run.scene;
    disk_close(&disk);
    disk_image_free(&begin);
    disk_image_free(&after);
    disk_trace_free(&run.trace);
    driver_remove(&crashed);
    store_close(run.scene->store);
    run.scene->store = driver_open(&run.scene->driver, NULL);
    (void)scene_close(&state);
    return cuts;
}

/* --- the program --- */

static int run_process(int process)
{
    int64_t share = options.cuts / options.processes;
    int64_t cuts = 0;
    uint64_t runs = 0;
    while (cuts < share) {
        uint64_t seed = options.seed + (uint64_t)process + runs * (uint64_t)options.processes;
        int64_t made = run_once(seed, options.cuts == 1 ? INT64_MAX : share - cuts);
        cuts += made;
        runs++;
    }
    (void)fprintf(stderr, "process %d: %" PRId64 " power cuts in %" PRIu64 " runs\n", process, cuts, runs);
    return 0;
}

static bool read_options(int count, char **words)
{
    for (int i = 1; i < count; i++) {
        bool has_value = i + 1 < count;
        if (strcmp(words[i], "--without-sync") == 0) {
            options.without_sync = true;
        } else if (strcmp(words[i], "--cuts") == 0 && has_value) {
            options.cuts = strtoll(words[++i], NULL, 10);
        } else if (strcmp(words[i], "--seed") == 0 && has_value) {
            options.seed = strtoull(words[++i], NULL, 10);
        } else if (strcmp(words[i], "--processes") == 0 && has_value) {
            options.processes = (int)strtol(words[++i], NULL, 10); /* 0 when it is no number, which is refused */
        } else {
            return false;
        }
    }
    return options.cuts > 0 && options.processes > 0 && options.processes <= PROCESSES_MOST &&
           options.cuts >= options.processes;
}

int main(int count, char **words)
{
    struct random random;
    random_seed_from_system(&random);
    options.seed = random_next(&random) >> 1;
    if (!read_options(count, words)) {
        (void)fprintf(stderr, "usage: powercuts [--cuts N] [--seed S] [--processes P] [--without-sync]\n");
        return 2;
    }
    (void)fprintf(stderr, "powercuts --seed %" PRIu64 " --cuts %" PRId64 " --processes %d\n", options.seed, options.cuts,
                  options.processes);
    recording_vfs_install();
    for (int i = 0; i < options.processes; i++) {
        pid_t child = fork();
        if (child == 0) {
            exit(run_process(i));
        }
        if (child < 0) {
            perror("fork");
            return 2;
        }
    }
    int failed = 0;
    for (int i = 0; i < options.processes; i++) {
        int status = 0;
        (void)wait(&status);
        failed += status != 0;
    }
    if (options.without_sync) {
        (void)fprintf(stderr, failed > 0 ? "without syncs acts are lost, and it was seen\n"
                                         : "without syncs nothing was seen to be lost: this test is blind\n");
        return failed > 0 ? 0 : 1;
    }
    return failed > 0;
}
