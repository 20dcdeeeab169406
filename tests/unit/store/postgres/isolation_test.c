/* Every pair of acts of callers, and of callers and the hot path, in two transactions in a forced order.
 *
 * For each state of an execution, each ordered pair of acts that concern it, each isolation level of the callers and each
 * order of the commits:
 *   1. Both transactions begin and take their snapshots. The first act runs.
 *   2. The second act is sent. It answers, or the server reports that it waits for the first transaction.
 *   3. The commits follow in the order of the case. Where one waits for the other, that order is the only one. In the third
 *      order the first commit comes before the second act, which has an older snapshot.
 *   4. Each committed act must have its effect, no refusal may be unexplained, and the invariants must hold.
 * The hot path runs READ COMMITTED, as nodes run it. Each case has a workspace of its own. */
#include <poll.h>
#include <stdlib.h>

#include "unit/store/postgres/scene.h"

enum { TEXT_SIZE = 2000, WAIT_MS = 20000, WORKSPACE_CAP = 1 };

enum state { PENDING = 1, DELAYED = 2, HELD = 4, FAILED = 8, RUNNING = 16, PARKED = 32, ANY = 63 };

enum effect {
    READS,
    ENQUEUES,
    ENQUEUES_ID,
    CANCELS,
    RELEASES,
    RETRIES,
    PAUSES,
    RESUMES,
    LIMITS,
    PURGES,
    ASSIGNS,
    COMPLETES,
    PUTS_BACK,
    PARKS,
    WAKES,
    DELETES,
    SIGNALS,
    REPORTS,
    FOLDS
};

struct act {
    const char *name;
    unsigned states; /* of the execution, in which the act is tried */
    enum effect effect;
    bool is_hot; /* part of the hot path */
    const char *sql;
};

#define RECORD_WITH(kind, delay, code)                                                                                     \
    "SELECT coalesce(max(r.outcome), 'done') FROM weir.record({node}, ARRAY['{id}'::uuid], ARRAY[{fence}::bigint], "       \
    "ARRAY[" kind "], ARRAY[" delay "::bigint], ARRAY[-1::bigint], '{" code                                                \
    "}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', "                                                           \
    "'{}', '{}', '{}', "                                                                                                   \
    "'{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}') r"
#define RECORD_OF(kind) RECORD_WITH(kind, "0", "")
/* An hour, and an hour later. */
#define PARK_ONE RECORD_WITH("10", "3600000000", "sleep")
#define STEP_WAITS                                                                                                         \
    "WITH step AS (INSERT INTO weir.workflow_node_executions (execution_id, step, status, attempt, failures, started_at, " \
    "node_id, fence, signal) SELECT '{id}', w.step, 'WAITING', 1, 0, weir.store_time(), {node}, {fence}, w.signal FROM "   \
    "(VALUES ('ask', 'go'), ('call', 'callback:call:1:' || repeat('0', 32))) w (step, signal) "                            \
    "RETURNING 1) SELECT count(*) FROM step"
#define WAKE_ALL "SELECT coalesce(cardinality(p.lanes), 0) FROM weir.promote_due(weir.store_time() + 7200000000, 1000) p"
#define ASSIGN_ONE                                                                                                         \
    "SELECT coalesce(sum(cardinality(places)), 0) + coalesce(sum(cardinality(plain)), 0) FROM weir.schedule({node}, "      \
    "{epoch}, 0, false, '{seen}', weir.timeline(), NULL, '0', 0, ARRAY['{id}'::uuid], ARRAY[{node}::bigint], "             \
    "ARRAY[false], false, '{}', '{}', '{}', '{}', 0, '{}', '{1000,500,1000}')"

static const struct act acts[] = {
    {"enqueue", ANY, ENQUEUES, false, "SELECT weir.enqueue('{workspace}', 'hello', '{}', 'second-{workspace}')"},
    {"enqueue_id", PENDING, ENQUEUES_ID, false,
     "SELECT weir.enqueue('{workspace}', 'hello', '{}', execution_id => '{other}')"},
    {"try_enqueue", PENDING, ENQUEUES, false,
     "SELECT t.code FROM weir.try_enqueue('{workspace}', 'hello', '{}', 'second-{workspace}') t"},
    {"enqueue_many", PENDING | HELD, ENQUEUES, false,
     "SELECT count(*) FROM weir.enqueue_many('[{\"workspace\": \"{workspace}\", \"workflow\": \"hello\", \"params\": {}, "
     "\"idempotency_key\": \"second-{workspace}\"}]')"},
    {"cancel", PENDING | DELAYED | HELD | RUNNING | PARKED, CANCELS, false, "SELECT weir.cancel('{id}', 'why')"},
    {"release", DELAYED, RELEASES, false, "SELECT weir.release('{id}', 'why')"},
    {"retry", FAILED, RETRIES, false, "SELECT weir.retry('{id}', 'why')"},
    {"pause", PENDING | DELAYED | HELD, PAUSES, false, "SELECT weir.pause_workspace('{workspace}')"},
    {"resume", PENDING, RESUMES, false, "SELECT weir.resume_workspace('{workspace}')"},
    {"limit", PENDING | HELD, LIMITS, false, "SELECT weir.change_workspace('{workspace}', NULL, 2, NULL, false)"},
    {"purge", FAILED, PURGES, false, "SELECT p.outcome FROM weir.purge_items(ARRAY['{id}'::uuid]) p"},
    {"usage", ANY, READS, false, "SELECT u.slots_max FROM weir.usage('{workspace}') u"},
    {"why", ANY, READS, false, "SELECT weir.why('{id}')"},
    {"assign", PENDING, ASSIGNS, true, ASSIGN_ONE},
    {"complete", HELD | RUNNING, COMPLETES, true, RECORD_OF("6")},
    {"put_back", HELD, PUTS_BACK, true, RECORD_OF("3")},
    {"park", RUNNING, PARKS, true, PARK_ONE},
    {"wake", PARKED, WAKES, true, WAKE_ALL},
    {"signal", PENDING | HELD | RUNNING | PARKED, SIGNALS, false, "SELECT weir.signal('{id}', 'go', '1'::jsonb, 'key')"},
    {"call_back", RUNNING | PARKED, REPORTS, true,
     "SELECT c.outcome FROM weir.call_back('{id}', repeat('0', 32), '1', 'digest of 1') c"},
    {"call_back_again", RUNNING | PARKED, REPORTS, true,
     "SELECT c.outcome FROM weir.call_back('{id}', repeat('0', 32), '2', 'digest of 2') c"},
    {"broadcast", PENDING | HELD | RUNNING | PARKED, SIGNALS, false,
     "SELECT s.outcome FROM weir.signal_items(ARRAY['{id}'::uuid], 'go', '1', 'key', 'eve', NULL, NULL) s"},
    {"delete", RUNNING | PARKED, DELETES, false, "SELECT weir.delete_workspace('{workspace}', true)"},
    {"inbox", HELD | RUNNING, READS, true,
     "SELECT count(*) FROM weir.inbox({node}, 0, '00000000-0000-0000-0000-000000000000', 1000)"},
    {"publish_books", ANY, FOLDS, true,
     "SELECT b.has_epoch FROM weir.publish_books({node}, {epoch}, NULL, pg_current_snapshot()::text, '0', 0, 1000, '{}', "
     "'{}') b"},
};
enum { ACT_COUNT = sizeof acts / sizeof acts[0] };

static const char *const levels[] = {"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"};
enum { LEVEL_COUNT = 3 };

enum order { FIRST_COMMITS_FIRST, SECOND_COMMITS_FIRST, FIRST_COMMITS_BEFORE_THE_SECOND_ACT, ORDER_COUNT };

/* One transaction of a case. */
struct party {
    PGconn *connection;
    const struct act *act;
    bool is_committed;
    int committed_at;       /* the place of its commit among all commits */
    char answer[TEXT_SIZE]; /* the first column of the act's answer */
    char sqlstate[6];       /* of the statement that failed */
};

struct trial {
    struct scene *scene;
    PGconn *watch;
    long long epoch;
    int number; /* of the case; names its workspace */
    enum state state;
    const char *level;
    char id[40];
    char other[40]; /* the id that callers give to another execution */
    char fence[24];
    char seen[TEXT_SIZE / 4]; /* the snapshot of the scheduler's last round */
    struct party first;
    struct party second;
};

/* --- statements --- */

static void replace_token(char *text, const char *token, const char *value)
{
    char *at = text;
    while ((at = strstr(at, token)) != NULL) {
        char rest[TEXT_SIZE];
        (void)snprintf(rest, sizeof rest, "%s", at + strlen(token));
        int length = snprintf(at, (size_t)(text + TEXT_SIZE - at), "%s%s", value, rest);
        assert_in_range(length, 0, text + TEXT_SIZE - at - 1);
        at += strlen(value);
    }
}

static const char *fill(const struct trial *trial, const char *sql)
{
    static char text[TEXT_SIZE];
    char value[24];
    (void)snprintf(text, sizeof text, "%s", sql);
    (void)snprintf(value, sizeof value, "w%d", trial->number);
    replace_token(text, "{workspace}", value);
    replace_token(text, "{id}", trial->id);
    replace_token(text, "{other}", trial->other);
    replace_token(text, "{fence}", trial->fence);
    replace_token(text, "{seen}", trial->seen);
    (void)snprintf(value, sizeof value, "%lld", (long long)trial->scene->node);
    replace_token(text, "{node}", value);
    (void)snprintf(value, sizeof value, "%lld", trial->epoch);
    replace_token(text, "{epoch}", value);
    return text;
}

/* Its first value, asked outside of both transactions. */
static const char *look(const struct trial *trial, const char *sql)
{
    return run(trial->watch, "%s", fill(trial, sql));
}

static const char *story_of(const struct trial *trial)
{
    static char text[TEXT_SIZE];
    (void)snprintf(text, sizeof text, "case %d, %s: %s (%s, %s%s) then %s (%s, %s%s)", trial->number, trial->level,
                   trial->first.act->name, trial->first.is_committed ? "committed" : "undone", trial->first.answer,
                   trial->first.sqlstate, trial->second.act->name, trial->second.is_committed ? "committed" : "undone",
                   trial->second.answer, trial->second.sqlstate);
    return text;
}

/* --- the two transactions --- */

static void take_results(struct party *party)
{
    for (PGresult *result = PQgetResult(party->connection); result != NULL; result = PQgetResult(party->connection)) {
        const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        if (code != NULL) {
            (void)snprintf(party->sqlstate, sizeof party->sqlstate, "%s", code);
        } else if (PQntuples(result) > 0) {
            (void)snprintf(party->answer, sizeof party->answer, "%s", PQgetvalue(result, 0, 0));
        } else if (strcmp(PQcmdStatus(result), "COMMIT") == 0) {
            static int commits;
            party->is_committed = true; /* of a failed transaction it is ROLLBACK */
            party->committed_at = ++commits;
        }
        PQclear(result);
    }
}

/* Sends it; true when it has answered, false when the other transaction makes it wait. */
static bool send_until_answered_or_blocked(const struct trial *trial, struct party *party, const char *sql)
{
    char blocked[100];
    (void)snprintf(blocked, sizeof blocked, "SELECT cardinality(pg_blocking_pids(%d)) > 0",
                   PQbackendPID(party->connection));
    assert_int_equal(PQsendQuery(party->connection, sql), 1);
    for (int ms = 0; ms < WAIT_MS; ms++) {
        struct pollfd readable = {.fd = PQsocket(party->connection), .events = POLLIN};
        (void)poll(&readable, 1, 1);
        assert_int_equal(PQconsumeInput(party->connection), 1);
        if (PQisBusy(party->connection) == 0) {
            take_results(party);
            return true;
        }
        if (ms > 0 && strcmp(run(trial->watch, "%s", blocked), "t") == 0) {
            return false;
        }
    }
    fail_msg("%s neither answers nor waits for a lock", sql);
    return false;
}

static void begin(const struct trial *trial, struct party *party)
{
    (void)run(party->connection, "BEGIN ISOLATION LEVEL %s", party->act->is_hot ? levels[0] : trial->level);
    (void)run(party->connection, "SELECT 1"); /* takes the snapshot of the levels that keep one */
}

static bool is_open(const struct party *party)
{
    return PQtransactionStatus(party->connection) != PQTRANS_IDLE;
}

/* Both acts and both commits. One that has to wait for the other comes after it. The commit of an act waits for a round
 * that assigns. */
static void run_both(struct trial *trial, enum order order)
{
    struct party *first = &trial->first;
    struct party *second = &trial->second;
    begin(trial, first);
    begin(trial, second);
    assert_true(send_until_answered_or_blocked(trial, first, fill(trial, first->act->sql)));
    if (order == FIRST_COMMITS_BEFORE_THE_SECOND_ACT) {
        assert_true(send_until_answered_or_blocked(trial, first, "COMMIT"));
    }
    bool is_answered = send_until_answered_or_blocked(trial, second, fill(trial, second->act->sql));
    if (is_answered && order == SECOND_COMMITS_FIRST) {
        is_answered = send_until_answered_or_blocked(trial, second, "COMMIT");
    }
    bool is_ended = !is_open(first) || send_until_answered_or_blocked(trial, first, "COMMIT");
    if (!is_answered) {
        assert_true(is_ended); /* otherwise they wait for each other */
        take_results(second);
    }
    if (is_open(second)) {
        assert_true(send_until_answered_or_blocked(trial, second, "COMMIT"));
    }
    if (!is_ended) {
        take_results(first);
    }
}

/* --- invariants --- */

static bool is_committed(const struct trial *trial, enum effect effect)
{
    return (trial->first.is_committed && trial->first.act->effect == effect) ||
           (trial->second.is_committed && trial->second.act->effect == effect);
}

/* A caller's transaction may have to begin again above READ COMMITTED. Refusals name what the other act has done. */
static bool is_explained(const struct trial *trial, const struct party *party, const struct party *other)
{
    const char *code = party->sqlstate;
    if (strcmp(code, "") == 0) {
        return true;
    }
    if (strcmp(code, "40001") == 0) {
        return !party->act->is_hot && strcmp(trial->level, levels[0]) != 0;
    }
    switch (party->act->effect) {
    case ASSIGNS: /* an act was committed meanwhile: the round is repeated */
        return strcmp(code, "WR013") == 0 &&
               (other->act->effect == PAUSES || other->act->effect == RESUMES || other->act->effect == LIMITS);
    case SIGNALS:
    case CANCELS: /* it has ended */
        return strcmp(code, "WR014") == 0 &&
               (other->act->effect == COMPLETES || other->act->effect == CANCELS || other->act->effect == DELETES);
    case RELEASES: /* it does not wait for a time */
        return strcmp(code, "WR014") == 0 && (other->act->effect == CANCELS || other->act->effect == RELEASES);
    case RETRIES: /* it is gone, or was retried */
        return (strcmp(code, "WR010") == 0 && other->act->effect == PURGES) ||
               (strcmp(code, "WR013") == 0 && other->act->effect == RETRIES);
    case DELETES: /* it runs, or its row is held; no other level is taken */
        return (strcmp(code, "WR014") == 0 && (trial->state == RUNNING || strcmp(trial->level, levels[0]) != 0)) ||
               (strcmp(code, "WR020") == 0 && (other->act->effect == CANCELS || other->act->effect == WAKES ||
                                               other->act->effect == SIGNALS || other->act->effect == REPORTS));
    case READS:
        return strcmp(code, "WR010") == 0 && other->act->effect == PURGES;
    default:
        return false;
    }
}

static void check_party(const struct trial *trial, const struct party *party, const struct party *other)
{
    if (!is_explained(trial, party, other)) {
        fail_msg("an error without an explanation: %s", story_of(trial));
    }
    if (!party->is_committed && party->sqlstate[0] == '\0') {
        fail_msg("an act was undone without an error: %s", story_of(trial));
    }
}

static const char *unless_one(const struct trial *trial, const char *rows, const char *name)
{
    char sql[TEXT_SIZE];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", rows);
    return strcmp(look(trial, sql), "1") == 0 ? NULL : name;
}

static const char *unless_none(const struct trial *trial, const char *rows, const char *name)
{
    char sql[TEXT_SIZE];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", rows);
    return strcmp(look(trial, sql), "0") == 0 ? NULL : name;
}

/* NULL when the committed act has its effect; otherwise the expected effect. */
static const char *effect_missing(const struct trial *trial, const struct party *party)
{
    const char *row = look(
        trial, "SELECT coalesce((SELECT CASE WHEN q.cancel_at IS NOT NULL AND q.phase = 2 THEN 'cancel' ELSE q.phase::text "
               "END FROM weir.workflow_execution_queue q WHERE q.id = '{id}'), (SELECT h.status FROM "
               "weir.workflow_executions h WHERE h.id = '{id}'), 'gone')");
    char state[TEXT_SIZE];
    (void)snprintf(state, sizeof state, "%s", row);
    bool is_ended = strcmp(state, "CANCELLED") == 0 || strcmp(state, "COMPLETED") == 0 || strcmp(state, "FAILED") == 0;
    switch (party->act->effect) {
    case READS:
    case FOLDS:
        return NULL;
    case ENQUEUES:
        return unless_one(trial, "weir.executions WHERE idempotency_key = 'second-{workspace}'",
                          "one execution of the key");
    case ENQUEUES_ID:
        return unless_one(trial, "weir.executions WHERE id = '{other}'", "one execution of the id");
    case CANCELS:
        return is_ended || strcmp(state, "cancel") == 0 ? NULL : "an end, or the request to cancel";
    case RELEASES:
        return is_ended || strcmp(state, "0") == 0 ? NULL : "a runnable execution";
    case RETRIES:
        return unless_one(trial, "weir.executions WHERE retry_of = '{id}'", "one execution that repeats it");
    case LIMITS:
        return unless_one(trial, "weir.workspaces WHERE name = '{workspace}' AND slots_max = 2", "the new limit");
    case PAUSES:
    case RESUMES: {
        bool is_paused = strcmp(look(trial, "SELECT paused FROM weir.workspaces WHERE name = '{workspace}'"), "t") == 0;
        bool is_both = is_committed(trial, PAUSES) && is_committed(trial, RESUMES); /* the later one decides */
        return is_both || is_paused == (party->act->effect == PAUSES) ? NULL : "the workspace paused, or not";
    }
    case PURGES:
        return strcmp(party->answer, "changed") != 0 || strcmp(state, "gone") == 0 ? NULL : "no execution";
    case ASSIGNS:
        return strcmp(party->answer, "1") != 0 || is_ended || strcmp(state, "2") == 0 || strcmp(state, "cancel") == 0
                   ? NULL
                   : "a held execution";
    case COMPLETES:
        return strcmp(party->answer, "done") != 0 || is_ended ? NULL : "an end";
    case PUTS_BACK:
        return strcmp(party->answer, "done") != 0 || is_ended || strcmp(state, "0") == 0 ? NULL : "a put back";
    case PARKS:
        return strcmp(party->answer, "done") != 0 || is_ended || strcmp(state, "3") == 0 ||
                       (strcmp(state, "0") == 0 && (is_committed(trial, SIGNALS) || is_committed(trial, REPORTS)))
                   ? NULL
                   : "a parked execution";
    case SIGNALS: /* it is kept, and ends the wait of its step, whichever comes first */
        if (is_ended && strcmp(party->answer, state) == 0) {
            return NULL; /* a broadcast counts an ended execution as refused, and is no error */
        }
        return unless_one(trial, "weir.signals WHERE execution_id = '{id}' AND name = 'go'", "one signal") != NULL
                   ? "one signal"
               : strcmp(state, "3") == 0 ? "a wait that the signal ends"
                                         : NULL;
    case REPORTS: /* one is kept, and ends the wait of its step; an ended execution takes none */
        if (strcmp(party->answer, "none") == 0) {
            return is_ended ? NULL : "a step that takes the report";
        }
        return unless_one(trial, "weir.signals WHERE execution_id = '{id}' AND name LIKE 'callback:%'", "") != NULL
                   ? "one report"
               : strcmp(state, "3") == 0 ? "a wait that the report ends"
                                         : NULL;
    case WAKES: /* a row that the other transaction held is woken by the next round */
        return is_ended || strcmp(state, "0") == 0 || strcmp(state, "3") == 0 ? NULL : "a runnable execution";
    case DELETES:
        return is_ended ? unless_none(trial, "weir.workspaces WHERE name = '{workspace}'", "no workspace") : "an end";
    default:
        return "an effect that this test knows";
    }
}

/* Nothing is assigned once the commit of a pause has returned. */
static void check_pause(const struct trial *trial, const struct party *pause, const struct party *assignment)
{
    bool is_pair = pause->act->effect == PAUSES && assignment->act->effect == ASSIGNS;
    if (is_pair && pause->is_committed && assignment->is_committed && strcmp(assignment->answer, "1") == 0 &&
        pause->committed_at < assignment->committed_at) {
        fail_msg("an assignment after a pause: %s", story_of(trial));
    }
}

static void check_effects(const struct trial *trial)
{
    const struct party *parties[] = {&trial->first, &trial->second};
    check_pause(trial, &trial->first, &trial->second);
    check_pause(trial, &trial->second, &trial->first);
    for (size_t i = 0; i < 2; i++) {
        const char *missing = parties[i]->is_committed ? effect_missing(trial, parties[i]) : NULL;
        if (missing != NULL) {
            fail_msg("a lost act, no sign of %s: %s", missing, story_of(trial));
        }
    }
    const char *held = look(trial, "SELECT count(*) FROM weir.workflow_execution_queue q JOIN weir.workspaces w ON w.id = "
                                   "q.workspace_id WHERE w.name = '{workspace}' AND q.phase = 2");
    assert_in_range(number(held), 0, WORKSPACE_CAP);
    const char *copies = look(trial, "SELECT count(*) FROM weir.executions WHERE id = '{id}'");
    bool is_purged = is_committed(trial, PURGES);
    if (number(copies) != (is_purged ? 0 : 1)) {
        fail_msg("%s copies of one execution: %s", copies, story_of(trial));
    }
}

/* --- cases --- */

static void make_execution(struct trial *trial)
{
    (void)look(trial, "SELECT weir.change_workspace('{workspace}', NULL, 1, NULL, true)");
    const char *id =
        look(trial, trial->state == DELAYED
                        ? "SELECT weir.enqueue('{workspace}', 'hello', '{}', run_at => now() + interval '1 hour')"
                        : "SELECT weir.enqueue('{workspace}', 'hello', '{}')");
    (void)snprintf(trial->id, sizeof trial->id, "%s", id);
    (void)snprintf(trial->other, sizeof trial->other, "%s", look(trial, "SELECT weir.make_id(weir.store_time(), 1)"));
    (void)snprintf(trial->seen, sizeof trial->seen, "%s", look(trial, "SELECT pg_current_snapshot()"));
    if (trial->state != PENDING && trial->state != DELAYED) {
        assert_string_equal(look(trial, ASSIGN_ONE), "1");
        (void)snprintf(trial->fence, sizeof trial->fence, "%s",
                       look(trial, "SELECT fence FROM weir.workflow_execution_queue WHERE id = '{id}'"));
    }
    if (trial->state == FAILED) {
        assert_string_equal(look(trial, RECORD_OF("7")), "done");
    }
    if (trial->state == RUNNING || trial->state == PARKED) {
        assert_string_equal(look(trial, RECORD_OF("0")), "done");
        assert_string_equal(look(trial, STEP_WAITS), "2");
    }
    if (trial->state == PARKED) {
        assert_string_equal(look(trial, PARK_ONE), "done");
    }
}

static void try_case(struct trial *trial, const struct act *first, const struct act *second, enum order order)
{
    struct scene *scene = trial->scene;
    trial->number++;
    trial->first = (struct party){.connection = scene->a, .act = first};
    trial->second = (struct party){.connection = scene->b, .act = second};
    make_execution(trial);
    run_both(trial, order);
    check_party(trial, &trial->first, &trial->second);
    check_party(trial, &trial->second, &trial->first);
    check_effects(trial);
}

/* Two that only read cannot disturb each other, and two of the hot path have one level. What fits any state is tried with
 * what does not. The short form tries each pair on READ COMMITTED and on one of the other levels. */
static bool is_worth_trying(const struct trial *trial, const struct act *first, const struct act *second)
{
    size_t level = 1 + ((size_t)(first - acts) + (size_t)(second - acts)) % 2;
    if (getenv("WEIR_TEST_LONG") == NULL && trial->level != levels[0] && trial->level != levels[level]) {
        return false;
    }
    bool reads_only =
        (first->effect == READS || first->effect == FOLDS) && (second->effect == READS || second->effect == FOLDS);
    bool fits = (first->states & second->states & trial->state) != 0;
    bool deletes = first->effect == DELETES || second->effect == DELETES;
    const struct act *other = first->effect == DELETES ? second : first;
    if (deletes && other->effect != PARKS && other->effect != WAKES && other->effect != CANCELS) {
        return false;
    }
    bool is_special = trial->state == PENDING || first->states != ANY || second->states != ANY;
    bool is_level_seen = trial->level == levels[0] || !first->is_hot || !second->is_hot;
    return fits && is_special && is_level_seen && !reads_only;
}

static void try_all(void **state, enum state of_execution)
{
    struct scene *scene = *state;
    struct trial trial = {.scene = scene, .state = of_execution};
    int64_t epoch = 0;
    ok(take_role(scene->store, scene->node, &epoch, &scene->error));
    trial.epoch = (long long)epoch;
    trial.watch = postgres_server_connect(&server);
    let_records_wait(scene);
    (void)run(scene->a, "ALTER FUNCTION weir.schedule SET lock_timeout = '60s'"); /* the order decides, not the time */
    for (size_t level = 0; level < LEVEL_COUNT; level++) {
        trial.level = levels[level];
        for (size_t pair = 0; pair < (size_t)ACT_COUNT * ACT_COUNT * ORDER_COUNT; pair++) {
            const struct act *first = &acts[pair / ORDER_COUNT / ACT_COUNT];
            const struct act *second = &acts[pair / ORDER_COUNT % ACT_COUNT];
            if (is_worth_trying(&trial, first, second)) {
                try_case(&trial, first, second, (enum order)(pair % ORDER_COUNT));
            }
        }
    }
    print_message("# %d cases\n", trial.number);
    assert_true(trial.number > 100);
    PQfinish(trial.watch); /* scene_close() checks books, news and rows of all cases */
}

static void each_pair_of_acts_on_a_pending_execution_loses_nothing(void **state)
{
    try_all(state, PENDING);
}

static void each_pair_of_acts_on_one_that_waits_for_its_time_loses_nothing(void **state)
{
    try_all(state, DELAYED);
}

static void each_pair_of_acts_on_a_held_execution_loses_nothing(void **state)
{
    try_all(state, HELD);
}

static void each_pair_of_acts_on_a_running_execution_loses_nothing(void **state)
{
    try_all(state, RUNNING);
}

static void each_pair_of_acts_on_a_parked_execution_loses_nothing(void **state)
{
    try_all(state, PARKED);
}

static void each_pair_of_acts_on_a_failed_execution_loses_nothing(void **state)
{
    try_all(state, FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(each_pair_of_acts_on_a_pending_execution_loses_nothing),
        SCENE_TEST(each_pair_of_acts_on_one_that_waits_for_its_time_loses_nothing),
        SCENE_TEST(each_pair_of_acts_on_a_held_execution_loses_nothing),
        SCENE_TEST(each_pair_of_acts_on_a_running_execution_loses_nothing),
        SCENE_TEST(each_pair_of_acts_on_a_parked_execution_loses_nothing),
        SCENE_TEST(each_pair_of_acts_on_a_failed_execution_loses_nothing),
    };
    return cmocka_run_group_tests(tests, scene_open_server, scene_close_server);
}
