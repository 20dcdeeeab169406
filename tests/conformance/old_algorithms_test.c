/* The checks that weir must pass, run on faithful small copies of the algorithms that it replaces, too: on those they fail.
 * So each check is seen failing, and stays able to fail.
 *
 * The old ones are their published statements, in their order, on one plain SQLite table:
 *   Riven   select the oldest ten PENDING rows and commit; per row count the workspace's running executions, then start;
 *           at capacity and on errors attempts + 1 and back to PENDING; a fresh execution id per attempt; no owner checked
 *   nFlow   strict priority; a dead node's rows go back to be polled again; housekeeping looks at age only
 */
#include <sqlite3.h>

#include "conformance/scene.h"
#include "queue/retry.h"

enum { RUNS_MOST = 64, CLAIMERS = 3, RIVEN_BATCH = 10, RIVEN_ATTEMPTS_MAX = 3 };

struct run {
    char id[UUID_TEXT_MAX];
    char workspace[32];
    char workflow_id[64]; /* the id in the request to the engine */
    struct claimed_item item;
    int claimer;
};

struct contender;

struct contender_operations {
    void (*enqueue)(struct contender *, const char *workspace, int priority, const char *params, const char *key);
    /* The items that a claimer sees before it acts; then those that it takes and starts. */
    void (*look)(struct contender *, int claimer);
    size_t (*take)(struct contender *, int claimer, struct run *runs);
    void (*refused)(struct contender *, const struct run *run);     /* the engine said no */
    void (*lost_answer)(struct contender *, const struct run *run); /* the engine said yes, and nobody heard it */
    void (*dispatched)(struct contender *, const struct run *run);
    void (*ended)(struct contender *, const struct run *run);
    void (*die)(struct contender *, int claimer); /* and its death is found */
    int64_t (*count)(struct contender *, const char *status);
    int64_t (*parked_after)(struct contender *, int64_t age_us); /* parked items that housekeeping leaves */
};

struct contender {
    const struct contender_operations *operations;
    struct scene *scene;
    sqlite3 *old;
    int64_t old_now_us;
    int64_t seen[CLAIMERS][RIVEN_BATCH]; /* Riven: the claimed batch, and how many ran per row's workspace then */
    int64_t running_seen[CLAIMERS][RIVEN_BATCH];
    size_t seen_count[CLAIMERS];
    bool strict_priority;
    int64_t nodes[CLAIMERS];
    int fresh_ids;
};

static int cap_of(const char *workspace)
{
    return strcmp(workspace, "free-co") == 0 ? 1 : 20;
}

/* --- the old ones --- */

static int64_t old_sql(struct contender *contender, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *sql = sqlite3_vmprintf(format, arguments);
    va_end(arguments);
    sqlite3_stmt *statement = NULL;
    int64_t value = -1;
    if (sqlite3_prepare_v2(contender->old, sql, -1, &statement, NULL) != SQLITE_OK) {
        fail_msg("%s: %s", sql, sqlite3_errmsg(contender->old));
    }
    if (sqlite3_step(statement) == SQLITE_ROW) {
        value = sqlite3_column_int64(statement, 0);
    }
    (void)sqlite3_finalize(statement);
    sqlite3_free(sql);
    return value;
}

static void old_enqueue(struct contender *c, const char *workspace, int priority, const char *params, const char *key)
{
    (void)params; /* the request has no field for them */
    (void)key;    /* nor for a key */
    (void)old_sql(c, "INSERT INTO execution_queue (workspace, priority, created_at) VALUES (%Q, %d, %lld)", workspace,
                  priority, (long long)c->old_now_us++);
}

static void old_workspace(struct contender *c, int64_t row, char *to, size_t size)
{
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_prepare_v2(c->old, "SELECT workspace FROM execution_queue WHERE id = ?", -1, &statement, NULL),
                     SQLITE_OK);
    (void)sqlite3_bind_int64(statement, 1, row);
    text_copy(to, size, sqlite3_step(statement) == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : "");
    (void)sqlite3_finalize(statement);
}

/* FOR UPDATE SKIP LOCKED and a commit without a change: the rows stay PENDING and unlocked. */
static void old_look(struct contender *c, int claimer)
{
    sqlite3_stmt *statement = NULL;
    const char *sql =
        c->strict_priority
            ? "SELECT id FROM execution_queue WHERE status = 'PENDING' ORDER BY priority DESC, created_at LIMIT 10"
            : "SELECT id FROM execution_queue WHERE status = 'PENDING' ORDER BY created_at LIMIT 10";
    size_t count = 0;
    assert_int_equal(sqlite3_prepare_v2(c->old, sql, -1, &statement, NULL), SQLITE_OK);
    while (sqlite3_step(statement) == SQLITE_ROW) {
        c->seen[claimer][count++] = sqlite3_column_int64(statement, 0);
    }
    (void)sqlite3_finalize(statement);
    c->seen_count[claimer] = count;
    for (size_t i = 0; i < count; i++) {
        char workspace[32];
        old_workspace(c, c->seen[claimer][i], workspace, sizeof workspace);
        c->running_seen[claimer][i] =
            old_sql(c, "SELECT count(*) FROM execution_queue WHERE workspace = %Q AND status = 'DISPATCHED'", workspace);
    }
}

static size_t old_take(struct contender *c, int claimer, struct run *runs)
{
    size_t count = 0;
    for (size_t i = 0; i < c->seen_count[claimer]; i++) {
        int64_t row = c->seen[claimer][i];
        struct run *run = &runs[count];
        int64_t own = 0;
        old_workspace(c, row, run->workspace, sizeof run->workspace);
        for (size_t k = 0; k < count; k++) {
            own += strcmp(runs[k].workspace, run->workspace) == 0;
        }
        if (c->running_seen[claimer][i] + own >= cap_of(run->workspace)) {
            (void)old_sql(c, "UPDATE execution_queue SET attempts = attempts + 1 WHERE id = %lld",
                          (long long)row); /* waiting for a slot counts as an attempt */
            continue;
        }
        (void)old_sql(c, "UPDATE execution_queue SET status = 'DISPATCHED', execution_id = %d WHERE id = %lld",
                      ++c->fresh_ids, (long long)row);
        (void)snprintf(run->id, sizeof run->id, "%lld", (long long)row);
        (void)snprintf(run->workflow_id, sizeof run->workflow_id, "execution-%d",
                       c->fresh_ids); /* a fresh id for each attempt */
        run->claimer = claimer;
        count++;
    }
    c->seen_count[claimer] = 0;
    return count;
}

/* Attempts are tested before they are counted; neither owner nor version is checked. */
static void old_refused(struct contender *c, const struct run *run)
{
    (void)old_sql(c,
                  "UPDATE execution_queue SET status = CASE WHEN attempts >= %d THEN 'FAILED' ELSE 'PENDING' END,"
                  " attempts = attempts + 1, execution_id = NULL WHERE id = %s",
                  RIVEN_ATTEMPTS_MAX, run->id);
}

/* Started, ended, and only then written down as started. */
static void old_dispatched(struct contender *c, const struct run *run)
{
    (void)old_sql(
        c, "INSERT OR REPLACE INTO execution_queue (id, workspace, status, created_at) VALUES (%s, %Q, 'DISPATCHED', 0)",
        run->id, run->workspace);
}

static void old_ended(struct contender *c, const struct run *run)
{
    (void)old_sql(c, "DELETE FROM execution_queue WHERE id = %s", run->id);
}

/* Recovery: the row goes back to be claimed again, and no counter changes. */
static void old_die(struct contender *c, int claimer)
{
    (void)claimer;
    (void)old_sql(c, "UPDATE execution_queue SET status = 'PENDING', execution_id = NULL WHERE status = 'DISPATCHED'");
}

static int64_t old_count(struct contender *c, const char *status)
{
    return old_sql(c, "SELECT count(*) FROM execution_queue WHERE status = %Q", status);
}

/* next_activation is null and modified is old; whether it has ended is not asked. */
static int64_t old_parked_after(struct contender *c, int64_t age_us)
{
    (void)old_sql(
        c, "INSERT INTO execution_queue (workspace, status, created_at, run_at) VALUES ('big-co', 'manual', 0, NULL)");
    (void)old_sql(c, "DELETE FROM execution_queue WHERE run_at IS NULL AND created_at < %lld",
                  (long long)(age_us - 45 * SECONDS(86400)));
    return old_count(c, "manual");
}

static const struct contender_operations old_operations = {
    .enqueue = old_enqueue,
    .look = old_look,
    .take = old_take,
    .refused = old_refused,
    .lost_answer = old_refused, /* an answer that was lost counts as a refusal */
    .dispatched = old_dispatched,
    .ended = old_ended,
    .die = old_die,
    .count = old_count,
    .parked_after = old_parked_after,
};

/* --- weir --- */

static void weir_enqueue(struct contender *c, const char *workspace, int priority, const char *params, const char *key)
{
    struct enqueue_request request = {.workspace = workspace,
                                      .workflow = "hello",
                                      .priority = priority,
                                      .params = params,
                                      .params_length = params == NULL ? 0 : strlen(params),
                                      .idempotency_key = key};
    (void)scene_enqueue_request(c->scene, &request);
}

static int64_t node_of(struct contender *c, int claimer)
{
    if (c->nodes[claimer] == 0) {
        char name[32];
        (void)snprintf(name, sizeof name, "claimer-%d", claimer);
        c->nodes[claimer] = scene_add_node(c->scene, name, "default");
    }
    return c->nodes[claimer];
}

static void weir_look(struct contender *c, int claimer)
{
    (void)scene_look_as(c->scene, node_of(c, claimer));
}

static size_t weir_take(struct contender *c, int claimer, struct run *runs)
{
    scene_beat(c->scene, node_of(c, claimer));
    struct claim_result claim = scene_claim_as(c->scene, node_of(c, claimer), "default", RIVEN_BATCH);
    for (size_t i = 0; i < claim.count; i++) {
        runs[i] = (struct run){.item = claim.items[i], .claimer = claimer};
        text_copy(runs[i].id, sizeof runs[i].id, claim.items[i].id);
        text_copy(runs[i].workspace, sizeof runs[i].workspace, claim.items[i].workspace);
        (void)snprintf(runs[i].workflow_id, sizeof runs[i].workflow_id, "execution-%s", claim.items[i].id);
    }
    return claim.count;
}

static void weir_record(struct contender *c, const struct run *run, enum record_kind kind)
{
    (void)scene_record_full(c->scene, c->nodes[run->claimer], scene_record_of(kind, &run->item));
}

static void weir_refused(struct contender *c, const struct run *run)
{
    const struct retry_policy policy = {.attempts_max = RIVEN_ATTEMPTS_MAX};
    weir_record(c, run, retry_allows(&policy, run->item.starts_refused + 1) ? RECORD_RETRY : RECORD_REFUSED);
}

/* An unknown outcome keeps its claim; the node asks again, or dies and the next one does. */
static void weir_die(struct contender *c, int claimer)
{
    scene_pass(c->scene, SCENE_LEASE_US + 1);
    c->nodes[claimer] = 0;
    int64_t recoverer = scene_add_node(c->scene, "recoverer", "default");
    struct recover_options options = {.node_id = recoverer, .group = "default", .limit = 100};
    struct recover_result result;
    scene_recover(c->scene, &options, &result);
    for (int i = 0; i < CLAIMERS; i++) {
        c->nodes[i] = 0; /* all of them were silent for so long */
    }
}

static void weir_lost_answer(struct contender *c, const struct run *run)
{
    weir_die(c, run->claimer);
}

static void weir_dispatched(struct contender *c, const struct run *run)
{
    weir_record(c, run, RECORD_DISPATCHED);
}

static void weir_ended(struct contender *c, const struct run *run)
{
    weir_record(c, run, RECORD_COMPLETED);
}

static int64_t weir_count(struct contender *c, const char *status)
{
    return scene_number(c->scene, "SELECT count(*) FROM executions WHERE status = '%s'", status);
}

static int64_t weir_parked_after(struct contender *c, int64_t age_us)
{
    struct enqueue_request parked = {
        .workspace = "big-co", .workflow = "hello", .run_at_us = scene_now(c->scene) + 2 * age_us};
    (void)scene_enqueue_request(c->scene, &parked);
    scene_pass(c->scene, age_us);
    struct execution_filter filter = {.finished_before_us = scene_now(c->scene)};
    struct bulk_result result;
    scene_ok(c->scene, store_bulk(c->scene->store, BULK_PURGE, &filter, "", 100, &result, &c->scene->error));
    return weir_count(c, "PENDING");
}

static const struct contender_operations weir_operations = {
    .enqueue = weir_enqueue,
    .look = weir_look,
    .take = weir_take,
    .refused = weir_refused,
    .lost_answer = weir_lost_answer,
    .dispatched = weir_dispatched,
    .ended = weir_ended,
    .die = weir_die,
    .count = weir_count,
    .parked_after = weir_parked_after,
};

/* --- the checks: true when all is as it must be --- */

#define C(verb, ...) c->operations->verb(c, __VA_ARGS__)

static void enqueue_many(struct contender *c, const char *workspace, int count)
{
    for (int i = 0; i < count; i++) {
        C(enqueue, workspace, 0, NULL, NULL);
    }
}

static size_t claim(struct contender *c, int claimer, struct run *runs)
{
    C(look, claimer);
    return C(take, claimer, runs);
}

static bool two_claimers_never_get_the_same_item(struct contender *c)
{
    struct run first[RUNS_MOST];
    struct run second[RUNS_MOST];
    enqueue_many(c, "big-co", 10);
    C(look, 0);
    C(look, 1);
    size_t a = C(take, 0, first);
    size_t b = C(take, 1, second);
    for (size_t i = 0; i < a; i++) {
        for (size_t k = 0; k < b; k++) {
            if (strcmp(first[i].id, second[k].id) == 0) {
                return false;
            }
        }
    }
    return a + b == 10;
}

static bool two_claimers_never_pass_the_cap(struct contender *c)
{
    struct run runs[RUNS_MOST];
    enqueue_many(c, "free-co", 4);
    C(look, 0);
    C(look, 1);
    size_t started = C(take, 0, runs);
    started += C(take, 1, runs);
    return started == 1;
}

static bool a_full_workspace_holds_nobody_up(struct contender *c)
{
    struct run runs[RUNS_MOST];
    enqueue_many(c, "free-co", 30);
    (void)claim(c, 0, runs);
    enqueue_many(c, "big-co", 1);
    for (int cycle = 0; cycle < 3; cycle++) {
        size_t count = claim(c, 0, runs);
        for (size_t i = 0; i < count; i++) {
            if (strcmp(runs[i].workspace, "big-co") == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool waiting_for_a_slot_is_no_attempt(struct contender *c)
{
    struct run holder[RUNS_MOST];
    struct run waiting[RUNS_MOST];
    enqueue_many(c, "free-co", 2);
    (void)claim(c, 0, holder);
    for (int i = 0; i < 100; i++) {
        (void)claim(c, 0, waiting);
    }
    C(ended, &holder[0]);
    if (claim(c, 0, waiting) != 1) {
        return false;
    }
    C(refused, &waiting[0]);
    return C(count, "PENDING") == 1 && C(count, "FAILED") == 0;
}

static bool three_attempts_are_three_starts(struct contender *c)
{
    struct run runs[RUNS_MOST];
    int starts = 0;
    enqueue_many(c, "big-co", 1);
    while (starts < 10 && claim(c, 0, runs) == 1) {
        starts++;
        C(refused, &runs[0]);
    }
    return starts == 3 && C(count, "FAILED") == 1;
}

static bool every_attempt_starts_the_same_workflow_id(struct contender *c)
{
    struct run first[RUNS_MOST];
    struct run second[RUNS_MOST];
    enqueue_many(c, "big-co", 1);
    (void)claim(c, 0, first);
    C(refused, &first[0]);
    return claim(c, 0, second) == 1 && strcmp(first[0].workflow_id, second[0].workflow_id) == 0;
}

/* The engine refuses an id that it knows: two ids are two runs. */
static bool a_lost_answer_is_one_run(struct contender *c)
{
    struct run first[RUNS_MOST];
    struct run second[RUNS_MOST];
    enqueue_many(c, "big-co", 1);
    (void)claim(c, 0, first);
    C(lost_answer, &first[0]);
    return claim(c, 1, second) == 1 && strcmp(first[0].workflow_id, second[0].workflow_id) == 0;
}

static bool an_end_before_the_start_is_on_record_frees_the_slot(struct contender *c)
{
    struct run runs[RUNS_MOST];
    enqueue_many(c, "free-co", 2);
    if (claim(c, 0, runs) != 1) {
        return false;
    }
    C(ended, &runs[0]);
    C(dispatched, &runs[0]);
    return claim(c, 0, runs) == 1;
}

/* A step of it runs. The old queues know of no steps. */
static void begin_step(struct contender *c, const struct run *run)
{
    C(dispatched, run);
    if (c->scene != NULL) {
        struct step_record step = {.step = "one", .state = STEP_RUNNING, .attempt = 1, .exit_code = -1};
        struct record record = scene_record_of(RECORD_STEP, &run->item);
        record.step = &step;
        (void)scene_record_full(c->scene, c->nodes[run->claimer], record);
    }
}

/* weir lets an item that may be the killer wait for a node of its own. */
static size_t claim_in_time(struct contender *c, struct run *runs)
{
    enum { CLAIMS_MOST = 400 };
    size_t count = claim(c, 0, runs);
    for (int i = 0; count == 0 && c->scene != NULL && i < CLAIMS_MOST && C(count, "FAILED") == 0; i++) {
        scene_pass(c->scene, SCENE_LEASE_US / 2);
        scene_beat(c->scene, c->nodes[0]);
        count = claim(c, 0, runs);
    }
    return count;
}

static bool an_item_that_kills_its_node_comes_to_an_end(struct contender *c)
{
    struct run runs[RUNS_MOST];
    enqueue_many(c, "big-co", 1);
    for (int death = 0; death < 20 && claim_in_time(c, runs) == 1; death++) {
        begin_step(c, &runs[0]);
        C(die, 0);
    }
    return C(count, "FAILED") == 1;
}

static bool a_late_writer_changes_nothing(struct contender *c)
{
    struct run old[RUNS_MOST];
    struct run new[RUNS_MOST];
    enqueue_many(c, "big-co", 1);
    (void)claim(c, 0, old);
    C(die, 0);
    if (claim(c, 1, new) != 1) {
        return false;
    }
    C(dispatched, &new[0]);
    if (c->scene != NULL) {
        c->nodes[0] = c->nodes[1]; /* from any node: the fence is old */
    }
    C(refused, &old[0]);
    return C(count, "DISPATCHED") == 1;
}

/* A dead node's execution may still run in its engine: its slot must not be given to another one. */
static bool a_dead_nodes_slot_is_not_given_away(struct contender *c)
{
    struct run first[RUNS_MOST];
    struct run second[RUNS_MOST];
    C(enqueue, "free-co", 0, NULL, NULL);
    (void)claim(c, 0, first);
    C(enqueue, "free-co", 100, NULL, NULL); /* would go first if the slot were free */
    c->strict_priority = true;
    C(die, 0);
    size_t count = claim(c, 1, second);
    return count == 1 && strcmp(first[0].id, second[0].id) == 0;
}

/* An item of high priority arrives every ten minutes and takes the only slot, faster than they end: the low one starts
 * within four hours. */
static bool a_low_priority_is_not_starved(struct contender *c)
{
    struct run runs[RUNS_MOST];
    char low[UUID_TEXT_MAX];
    c->strict_priority = true;
    C(enqueue, "free-co", 0, NULL, NULL);
    if (claim(c, 0, runs) != 1) {
        return false;
    }
    C(refused, &runs[0]); /* so its id is known, and it waits again */
    text_copy(low, sizeof low, runs[0].id);
    for (int i = 0; i < 24; i++) {
        C(enqueue, "free-co", 1, NULL, NULL);
        C(enqueue, "free-co", 1, NULL, NULL);
        if (c->scene != NULL) {
            scene_pass(c->scene, SECONDS(600));
            c->nodes[0] = 0;
        }
        if (claim(c, 0, runs) == 1) {
            if (strcmp(runs[0].id, low) == 0) {
                return true;
            }
            C(ended, &runs[0]);
        }
    }
    return false;
}

static bool housekeeping_leaves_what_waits(struct contender *c)
{
    return c->operations->parked_after(c, 46 * SECONDS(86400)) == 1;
}

static bool the_same_key_is_one_item(struct contender *c)
{
    C(enqueue, "big-co", 0, "{\"a\":1}", "order-1");
    C(enqueue, "big-co", 0, "{\"a\":1}", "order-1");
    return C(count, "PENDING") == 1;
}

static bool what_was_enqueued_is_what_is_started(struct contender *c)
{
    struct run runs[RUNS_MOST] = {0};
    C(enqueue, "big-co", 0, "{\"a\":1}", NULL);
    return claim(c, 0, runs) == 1 && runs[0].item.params != NULL && strcmp(runs[0].item.params, "{\"a\":1}") == 0;
}

/* --- running them --- */

static const struct {
    const char *name;
    bool (*check)(struct contender *);
} checks[] = {
    {"two_claimers_never_get_the_same_item", two_claimers_never_get_the_same_item},
    {"two_claimers_never_pass_the_cap", two_claimers_never_pass_the_cap},
    {"a_full_workspace_holds_nobody_up", a_full_workspace_holds_nobody_up},
    {"waiting_for_a_slot_is_no_attempt", waiting_for_a_slot_is_no_attempt},
    {"three_attempts_are_three_starts", three_attempts_are_three_starts},
    {"every_attempt_starts_the_same_workflow_id", every_attempt_starts_the_same_workflow_id},
    {"a_lost_answer_is_one_run", a_lost_answer_is_one_run},
    {"an_end_before_the_start_is_on_record_frees_the_slot", an_end_before_the_start_is_on_record_frees_the_slot},
    {"an_item_that_kills_its_node_comes_to_an_end", an_item_that_kills_its_node_comes_to_an_end},
    {"a_late_writer_changes_nothing", a_late_writer_changes_nothing},
    {"a_dead_nodes_slot_is_not_given_away", a_dead_nodes_slot_is_not_given_away},
    {"a_low_priority_is_not_starved", a_low_priority_is_not_starved},
    {"housekeeping_leaves_what_waits", housekeeping_leaves_what_waits},
    {"the_same_key_is_one_item", the_same_key_is_one_item},
    {"what_was_enqueued_is_what_is_started", what_was_enqueued_is_what_is_started},
};
enum { CHECKS = sizeof checks / sizeof checks[0] };

static bool check_old(size_t i)
{
    struct contender contender = {.operations = &old_operations};
    assert_int_equal(sqlite3_open(":memory:", &contender.old), SQLITE_OK);
    (void)old_sql(&contender,
                  "CREATE TABLE execution_queue (id INTEGER PRIMARY KEY, workspace TEXT, status TEXT DEFAULT 'PENDING',"
                  " priority INTEGER DEFAULT 0, created_at INTEGER, run_at INTEGER, attempts INTEGER DEFAULT 0,"
                  " execution_id INTEGER)");
    bool passed = checks[i].check(&contender);
    (void)sqlite3_close(contender.old);
    return passed;
}

static bool check_weir(size_t i)
{
    void *state = NULL;
    struct contender contender = {.operations = &weir_operations};
    (void)scene_open(&state);
    contender.scene = state;
    contender.scene->keeps_claimers = true; /* what a claimer has seen is what it acts on */
    bool passed = checks[i].check(&contender);
    (void)scene_close(&state);
    return passed;
}

static void the_old_algorithms_fail_every_check(void **state)
{
    (void)state;
    for (size_t i = 0; i < CHECKS; i++) {
        if (check_old(i)) {
            fail_msg("%s does not see the old defect", checks[i].name);
        }
    }
}

static void weir_passes_every_check(void **state)
{
    (void)state;
    for (size_t i = 0; i < CHECKS; i++) {
        if (!check_weir(i)) {
            fail_msg("%s", checks[i].name);
        }
    }
}

/* nFlow: min x 2^(retries + 1), at most max. */
static int64_t old_retry_delay(const struct retry_policy *policy, int attempts_made, struct random *random)
{
    (void)random;
    int64_t delay_us = policy->backoff_us << (attempts_made + 1);
    return delay_us < policy->max_us ? delay_us : policy->max_us;
}

/* Whether the retries of a thousand that failed together are spread over a fifth of their shortest delay. */
static bool spreads(int64_t (*delay_of)(const struct retry_policy *policy, int attempts_made, struct random *random))
{
    struct retry_policy policy = {.attempts_max = 18, .backoff_us = SECONDS(60), .factor = 2, .max_us = SECONDS(86400)};
    struct random random;
    int64_t least_us = INT64_MAX;
    int64_t most_us = 0;
    random_seed(&random, 1);
    for (int job = 0; job < 1000; job++) {
        int64_t delay_us = delay_of(&policy, 1, &random);
        least_us = delay_us < least_us ? delay_us : least_us;
        most_us = delay_us > most_us ? delay_us : most_us;
    }
    return most_us - least_us >= SECONDS(60) * 19 / 100;
}

static void old_backoff_comes_back_all_at_once_and_ours_does_not(void **state)
{
    (void)state;
    assert_false(spreads(old_retry_delay));
    assert_true(spreads(retry_delay));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_old_algorithms_fail_every_check),
        cmocka_unit_test(weir_passes_every_check),
        cmocka_unit_test(old_backoff_comes_back_all_at_once_and_ours_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
