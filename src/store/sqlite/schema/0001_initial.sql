-- The tables of the queue on SQLite.
--
-- Times are microseconds since 1970 in store time. Ids of executions are UUIDv7 text. WITHOUT ROWID where a row is found by its own key:
-- one tree instead of two. Checks use OR instead of IN with three or more values: for such a list SQLite builds a temporary tree each time
-- that a row is written.

-- One row: the clock of the store, its fences and switches.
--   boot_id, clock_offset: store time = boot clock of the machine + clock_offset, valid for this boot of the machine.
--   clock_high: store time never goes back below it, also when the next boot has a wrong wall clock.
--   wall_offset: store time minus wall clock at the last write, for the views, which cannot read the boot clock.
--   fence: the last one given out. One per set of assignments and per handover.
--   views: checksum of the views in this file (store migrate).
CREATE TABLE store_state (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    boot_id        TEXT    NOT NULL DEFAULT '',
    clock_offset   INTEGER NOT NULL DEFAULT 0,
    clock_high     INTEGER NOT NULL DEFAULT 0,
    wall_offset    INTEGER NOT NULL DEFAULT 0,
    fence          INTEGER NOT NULL DEFAULT 0,
    queue_paused   INTEGER NOT NULL DEFAULT 0 CHECK (queue_paused IN (0, 1)),
    views          TEXT    NOT NULL DEFAULT ''
);
INSERT INTO store_state (id) VALUES (1);

-- max_pending: PENDING executions of a workspace; 0 = no limit.
CREATE TABLE plans (
    name           TEXT    NOT NULL PRIMARY KEY,
    max_concurrent INTEGER NOT NULL CHECK (max_concurrent BETWEEN 1 AND 1000000),
    weight         INTEGER NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 1000),
    max_pending    INTEGER NOT NULL DEFAULT 0 CHECK (max_pending BETWEEN 0 AND 1000000000)
) WITHOUT ROWID;
-- The plans of a new store.
INSERT INTO plans (name, max_concurrent) VALUES ('free', 1), ('pro', 5), ('enterprise', 20);

-- slots_max, weight and pending_max are the result of plan and own limits, kept here so that the scheduler and an enqueue read one row.
-- An id is given out once: the history of a deleted workspace keeps it.
CREATE TABLE workspaces (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    name           TEXT    NOT NULL UNIQUE,
    plan           TEXT    NOT NULL REFERENCES plans (name),
    max_concurrent INTEGER          CHECK (max_concurrent BETWEEN 1 AND 1000000), -- own limit; NULL = the plan's
    max_pending    INTEGER          CHECK (max_pending BETWEEN 0 AND 1000000000), -- own limit, 0 = none; NULL = the plan's
    slots_max      INTEGER NOT NULL,
    weight         INTEGER NOT NULL DEFAULT 1,
    pending_max    INTEGER NOT NULL DEFAULT 0, -- 0 = no limit
    paused         INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    created_at     INTEGER NOT NULL
);
CREATE INDEX workspaces_of_plan ON workspaces (plan);

-- The record of each deletion.
CREATE TABLE deleted_workspaces (
    id             INTEGER PRIMARY KEY,        -- that the workspace had
    name           TEXT    NOT NULL,
    deleted_at     INTEGER NOT NULL,
    erased_at      INTEGER                     -- when its history was erased
);
CREATE INDEX deleted_workspaces_by_name ON deleted_workspaces (name);

-- ids: the bits that lane_id has for them.
CREATE TABLE executor_groups (
    id             INTEGER PRIMARY KEY CHECK (id BETWEEN 1 AND 65535),
    name           TEXT    NOT NULL UNIQUE,
    paused         INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1))
);
INSERT INTO executor_groups (name) VALUES ('default');

-- The different sets of handlers that published definitions need: a JSON array of names in ascending order. Never deleted.
CREATE TABLE handler_sets (
    id             INTEGER PRIMARY KEY CHECK (id BETWEEN 1 AND 32767), -- the bits that lane_id has for it
    handlers       TEXT    NOT NULL UNIQUE
);

-- The text of a published definition never changes. workspace_id 0 = every workspace may run it. All versions of a workflow have
-- the same state: 0 published, 1 disabled (it takes no new executions), 2 deleted (kept for the history). Deleted ones may lie
-- below versions that were published later.
CREATE TABLE workflow_definitions (
    id             INTEGER PRIMARY KEY,
    workspace_id   INTEGER NOT NULL DEFAULT 0,
    name           TEXT    NOT NULL,
    version        INTEGER NOT NULL,
    definition     TEXT    NOT NULL,
    executor_group TEXT,                       -- for an enqueue that names none; NULL = the definition names none
    demand         INTEGER NOT NULL DEFAULT 0, -- what it needs of a node: 2 * its row in handler_sets, 1: `temporal`, 0: only steps
    starts_max   INTEGER NOT NULL DEFAULT 0, -- starts; 0 = as the node decides
    state          INTEGER NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 2),
    handlers       TEXT    NOT NULL DEFAULT '[]', -- the handlers that its steps need, a JSON array of names
    created_at     INTEGER NOT NULL,
    source         TEXT,                       -- the YAML that it was published from, with its comments; NULL = it was JSON
    labels         TEXT,                       -- of each execution, a JSON object of texts; NULL = none
    UNIQUE (name, workspace_id, version)
);

-- One row per execution until it ends.
--   lane_id: executor group * 2^47 + demand of the definition * 2^31 + workspace. A lane is the queue of one workspace in one group
--     for one demand.
--   phase: 0 runnable, 1 PENDING until due_at, 2 held (CLAIMED or DISPATCHED), 3 WAITING until due_at. CLAIMED -> DISPATCHED changes no
--     index.
--   node_id: the node that holds it; 0 = none (pending, or handed over and not yet assigned again).
-- Items of equal rank are ordered by number.
CREATE TABLE workflow_execution_queue (
    number         INTEGER PRIMARY KEY,        -- order of enqueueing
    id             TEXT    NOT NULL UNIQUE,
    lane_id        INTEGER NOT NULL,
    workspace_id   INTEGER NOT NULL,
    definition_id  INTEGER NOT NULL,
    status         TEXT    NOT NULL CHECK (status = 'PENDING' OR status = 'CLAIMED' OR status = 'DISPATCHED' OR status = 'WAITING'),
    phase          INTEGER NOT NULL CHECK (phase = 2 AND (status = 'CLAIMED' OR status = 'DISPATCHED') OR
                                           (phase = 0 OR phase = 1) AND status = 'PENDING' OR phase = 3 AND status = 'WAITING'),
    waiting_for    TEXT    CHECK ((waiting_for IS NULL) = (phase <> 3)), -- of phase 3: the name of a wait_kind (queue/item.h)
    rank           INTEGER NOT NULL,
    priority       INTEGER NOT NULL,
    run_at         INTEGER NOT NULL,
    due_at         INTEGER,                    -- of phases 1 and 3, else NULL; 9223372036854775807 = only a signal ends the wait
    starts_refused INTEGER NOT NULL DEFAULT 0,
    deferrals      INTEGER NOT NULL DEFAULT 0,
    handovers      INTEGER NOT NULL DEFAULT 0,
    handovers_counted INTEGER NOT NULL DEFAULT 0, -- deaths of a node that held nothing else: they count towards poison
    suspicion      INTEGER NOT NULL DEFAULT 0, -- deaths under which a step of it ran (queue/suspicion.h)
    suspected_at   INTEGER,                    -- the last of them
    steps_ended    INTEGER NOT NULL DEFAULT 0, -- number of its ended steps at the last handover
    interruptions  INTEGER NOT NULL DEFAULT 0, -- handovers, give-backs and parks: claims under which it has run before
    interruptions_at_park INTEGER NOT NULL DEFAULT 0, -- at the last park, it included, less those with attempts off record; 0 = never
    woken_at       INTEGER,                    -- the end of its last wait in WAITING
    parked_fence   INTEGER,                    -- of the last claim that was parked, if the end of that wait is on record here alone
    fence          INTEGER NOT NULL DEFAULT 0,
    node_id        INTEGER NOT NULL DEFAULT 0,
    target_id      INTEGER NOT NULL DEFAULT 0, -- of phase 2: the target of the node that it was assigned to first; 0 = none
    has_params     INTEGER NOT NULL DEFAULT 0,
    cancel_at      INTEGER,                    -- when a cancel was requested
    cancel_sent    INTEGER NOT NULL DEFAULT 0, -- 1 = its node has the request
    signals        INTEGER NOT NULL DEFAULT 0, -- the number of its last signal
    signals_sent   INTEGER NOT NULL DEFAULT 0, -- that of the last one which its node has, or gets with the claim
    created_at     INTEGER NOT NULL,
    claimed_at     INTEGER,
    dispatched_at  INTEGER,
    stuck_at       INTEGER,                    -- since when it runs longer than expected, under the fence stuck_fence only
    stuck_fence    INTEGER,
    idempotency_key TEXT,
    traceparent    TEXT,                       -- the W3C trace context of the request
    retry_of       TEXT,
    error_code     TEXT,
    error          TEXT
);
-- The conditions of the next three name no column that an assignment changes, so it need not look at them.
CREATE INDEX queue_waiting ON workflow_execution_queue (due_at) WHERE due_at IS NOT NULL;
-- Those of them that are PENDING, by their workspace: for its deletion, for max_pending, and for its list in the order of the queue.
-- WAITING ones have no entry. Those of one set belong to hundreds of lanes, so each park and each wake would write a page of this index.
-- The deletion of a workspace finds them along queue_waiting.
CREATE INDEX queue_delayed ON workflow_execution_queue (lane_id, due_at) WHERE due_at IS NOT NULL AND waiting_for IS NULL;
-- Of the items that are due later, those with a backoff. A park removes the error of an earlier start, so parked rows are not among them.
CREATE INDEX queue_backing_off ON workflow_execution_queue (due_at) WHERE error_code IS NOT NULL AND due_at IS NOT NULL;
CREATE INDEX queue_requests ON workflow_execution_queue (cancel_at) WHERE cancel_at IS NOT NULL AND cancel_sent = 0;
CREATE INDEX queue_signalled ON workflow_execution_queue (number) WHERE signals > signals_sent;
-- By lane, because the slots of one workspace are counted here. The inbox of a node reads the whole index, which has no more
-- entries than all nodes hold items.
CREATE INDEX queue_held ON workflow_execution_queue (lane_id, node_id, fence) WHERE phase = 2;
-- Items that a node put back for want of a handler; store_node_handlers() looks for those that it can serve.
CREATE INDEX queue_unserved ON workflow_execution_queue (definition_id) WHERE error_code = 'unknown_handler' AND due_at IS NOT NULL;
-- Suspects that may be on trial: the condition as above.
CREATE INDEX queue_suspects ON workflow_execution_queue (suspicion) WHERE suspicion > 1;
CREATE INDEX queue_stuck ON workflow_execution_queue (stuck_at) WHERE stuck_at IS NOT NULL;
CREATE UNIQUE INDEX queue_retried ON workflow_execution_queue (retry_of) WHERE retry_of IS NOT NULL;

-- The runnable items of each lane in the order of the lane. An assignment leaves its entry. The entries of one set lie on as many pages
-- as it has lanes, so deleting them at once would be most of the bytes of a drain. The books delete them (forget_assigned), many of a
-- lane at a time. An entry counts only with its row: readers use the view runnable_items.
CREATE TABLE queue_runnable (
    lane_id        INTEGER NOT NULL,
    rank           INTEGER NOT NULL,
    number         INTEGER NOT NULL,
    PRIMARY KEY (lane_id, rank, number)
) WITHOUT ROWID;
CREATE TRIGGER queue_enqueued AFTER INSERT ON workflow_execution_queue WHEN NEW.phase = 0
BEGIN
    INSERT OR IGNORE INTO queue_runnable (lane_id, rank, number) VALUES (NEW.lane_id, NEW.rank, NEW.number);
END;
-- The entry of an item that is put back may still be there. Each statement that makes an item runnable names due_at. An assignment does
-- not, and so runs no trigger.
CREATE TRIGGER queue_returned AFTER UPDATE OF due_at, lane_id, rank ON workflow_execution_queue WHEN NEW.phase = 0
BEGIN
    INSERT OR IGNORE INTO queue_runnable (lane_id, rank, number) VALUES (NEW.lane_id, NEW.rank, NEW.number);
END;

-- The history: one row per ended execution. The columns step_* hold the step that ended together with the execution when it has
-- no row in workflow_node_executions. woken_at, parked_fence: the end of its last wait in WAITING, as in the queue. restarted_at: the start
-- under its last claim, if that is neither the first start nor an event row. A row is never rewritten, but for the move of its content to
-- the archive and back.
CREATE TABLE workflow_executions (
    id             TEXT    NOT NULL PRIMARY KEY,
    lane_id        INTEGER NOT NULL,
    workspace_id   INTEGER NOT NULL,
    definition_id  INTEGER NOT NULL,
    status         TEXT    NOT NULL CHECK (status = 'COMPLETED' OR status = 'FAILED' OR status = 'CANCELLED'),
    priority       INTEGER NOT NULL,
    run_at         INTEGER NOT NULL,
    starts_refused INTEGER NOT NULL,
    deferrals      INTEGER NOT NULL,
    handovers      INTEGER NOT NULL,
    interruptions  INTEGER NOT NULL,
    fence          INTEGER NOT NULL,
    node_id        INTEGER NOT NULL,
    has_params     INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    claimed_at     INTEGER,
    dispatched_at  INTEGER,
    finished_at    INTEGER NOT NULL,
    idempotency_key TEXT,
    traceparent    TEXT,
    retry_of       TEXT,
    error_code     TEXT,
    error          TEXT,
    step           TEXT,
    step_status    TEXT,
    step_attempt   INTEGER,
    step_failures  INTEGER,
    step_exit_code INTEGER,
    step_started_at INTEGER,
    step_output    BLOB,
    step_variables BLOB,
    step_error_code TEXT,
    step_error     TEXT,
    woken_at       INTEGER,
    parked_fence   INTEGER,
    restarted_at   INTEGER,
    archived       INTEGER NOT NULL DEFAULT 0 CHECK (archived IN (0, 1)) -- 1 = its content is in the archive
) WITHOUT ROWID;
CREATE INDEX executions_failed ON workflow_executions (id) WHERE status = 'FAILED';
CREATE UNIQUE INDEX executions_retried ON workflow_executions (retry_of) WHERE retry_of IS NOT NULL;

-- Payloads stay where the enqueue wrote them, byte for byte; no transition rewrites them. No row = {}.
CREATE TABLE execution_params (
    id             TEXT    NOT NULL PRIMARY KEY,
    params         BLOB    NOT NULL
) WITHOUT ROWID;

-- The labels of executions, and their business keys under the empty name (store/labels.h). Written by the enqueue alone: a row stays
-- when its execution moves to the history, and goes with it. The index serves a filter newest first.
CREATE TABLE execution_labels (
    execution_id   TEXT    NOT NULL,
    name           TEXT    NOT NULL,
    value          TEXT    NOT NULL,
    workspace_id   INTEGER NOT NULL,
    PRIMARY KEY (execution_id, name)
) WITHOUT ROWID;
CREATE INDEX labels_by_value ON execution_labels (workspace_id, name, value, execution_id);

-- The signals of executions (store/signals.h), numbered from 1. data: JSON. step, consumed_at: which step has consumed it, and when.
CREATE TABLE signals (
    execution_id   TEXT    NOT NULL,
    seq            INTEGER NOT NULL,
    name           TEXT    NOT NULL,
    data           TEXT    NOT NULL,
    key            TEXT,
    sent_at        INTEGER NOT NULL,
    actor          TEXT,
    step           TEXT,
    consumed_at    INTEGER CHECK ((consumed_at IS NULL) = (step IS NULL)),
    PRIMARY KEY (execution_id, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX signals_by_key ON signals (execution_id, name, key) WHERE key IS NOT NULL;

-- The FAILED executions that were dealt with without a retry.
CREATE TABLE dismissals (
    execution_id   TEXT    NOT NULL PRIMARY KEY,
    at             INTEGER NOT NULL
) WITHOUT ROWID;

-- Start steps (store/children.h), and the children of one action of a state. The plan of a new one is in the variables of its step, and
-- `count` is NULL until it was read. wanted: completed children that end the wait; waits_for_all: it needs the end of each. started:
-- children with a position below it were enqueued or refused. ended, completed: of these. cancelled_to: likewise, those that were
-- cancelled with the parent. is_settled: the wait is over. problem: the code of the failure of a plan that makes no children.
CREATE TABLE child_steps (
    parent_id      TEXT    NOT NULL,
    step           TEXT    NOT NULL,
    workspace_id   INTEGER NOT NULL, -- of the parent
    workspace      TEXT,             -- where the children start; NULL = in that of the parent
    workflow       TEXT,
    executor_group TEXT,
    default_group  TEXT,
    priority       INTEGER NOT NULL DEFAULT 0,
    is_single      INTEGER NOT NULL DEFAULT 0,
    waits_for_all  INTEGER NOT NULL DEFAULT 0,
    wanted         INTEGER NOT NULL DEFAULT 0,
    max_parallel   INTEGER NOT NULL DEFAULT 0,
    leaves         INTEGER NOT NULL DEFAULT 0,
    depth          INTEGER NOT NULL DEFAULT 1,
    count          INTEGER,
    started        INTEGER NOT NULL DEFAULT 0,
    ended          INTEGER NOT NULL DEFAULT 0,
    completed      INTEGER NOT NULL DEFAULT 0,
    cancelled_to   INTEGER NOT NULL DEFAULT 0,
    is_settled     INTEGER NOT NULL DEFAULT 0,
    problem        TEXT,
    plan           BLOB,                       -- of an action of a state, in place of the variables; '' = it was read
    PRIMARY KEY (parent_id, step)
) WITHOUT ROWID;

-- The children of a start step, in the order of its items. status: how the child has ended, REFUSED = it was not enqueued, LOST = its row
-- was gone before its end was counted. key: its idempotency key, until it is enqueued. is_adopted: the execution was there before, so it
-- may be a child of several rows, and at most one of them has started it.
CREATE TABLE children (
    parent_id      TEXT    NOT NULL,
    step           TEXT    NOT NULL,
    position       INTEGER NOT NULL,
    child_id       TEXT    NOT NULL,
    params         BLOB,
    status         TEXT,
    error_code     TEXT,
    error          TEXT,
    key            TEXT,
    is_adopted     INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (parent_id, step, position)
) WITHOUT ROWID;
CREATE INDEX children_by_id ON children (child_id);
CREATE INDEX children_of_parent ON children (parent_id, child_id);
CREATE INDEX children_adopted ON children (parent_id, step) WHERE is_adopted; -- counted for people

-- The outbox of children: what has happened to a start step since it was looked at last. position: this child has ended; NULL: the step is
-- new, can go on, or its parent has ended or was purged.
CREATE TABLE child_notes (
    id             INTEGER PRIMARY KEY,
    parent_id      TEXT    NOT NULL,
    step           TEXT    NOT NULL,
    position       INTEGER
);

-- first_at: when the first request of a debounce came that has not started yet; NULL in the other modes.
CREATE TABLE idempotency_keys (
    workspace_id   INTEGER NOT NULL,
    key            TEXT    NOT NULL,
    execution_id   TEXT    NOT NULL,
    first_at       INTEGER,
    PRIMARY KEY (workspace_id, key)
) WITHOUT ROWID;

-- One row per step that was recorded before its execution ended; attempt is its last one.
-- start_node_id, start_fence: of the start of the attempt, when another node wrote the row since.
-- A table with rowids, because its key is an index without outputs. Else each look-up beside a large output reads all of it.
CREATE TABLE workflow_node_executions (
    execution_id   TEXT    NOT NULL,
    step           TEXT    NOT NULL,
    status         TEXT    NOT NULL,
    attempt        INTEGER NOT NULL,
    failures       INTEGER NOT NULL,
    exit_code      INTEGER,
    due_at         INTEGER,
    started_at     INTEGER NOT NULL,
    finished_at    INTEGER,
    node_id        INTEGER NOT NULL,
    fence          INTEGER NOT NULL,
    start_node_id  INTEGER,
    start_fence    INTEGER,
    output         BLOB,
    variables      BLOB,
    error_code     TEXT,
    error          TEXT,
    signal         TEXT,                       -- the name of the signal that the step waits for
    PRIMARY KEY (execution_id, step)
);

-- Attempts of a step that were followed by another one: FAILED, or INTERRUPTED together with their node.
CREATE TABLE workflow_node_attempts (
    execution_id   TEXT    NOT NULL,
    step           TEXT    NOT NULL,
    attempt        INTEGER NOT NULL,
    status         TEXT    NOT NULL CHECK (status = 'FAILED' OR status = 'INTERRUPTED'),
    exit_code      INTEGER,
    started_at     INTEGER NOT NULL,
    finished_at    INTEGER NOT NULL,
    node_id        INTEGER NOT NULL,
    fence          INTEGER NOT NULL,
    error_code     TEXT,
    error          TEXT,
    PRIMARY KEY (execution_id, step, attempt)
) WITHOUT ROWID;

-- The ended actions of workflows with states (docs/design/states.md): an attempt of the step `state`, or an update by `actor`. The last
-- ACTIONS_KEPT_MOST of an execution. variables: the changed ones, a JSON object, or a list of their names.
CREATE TABLE workflow_actions (
    execution_id   TEXT    NOT NULL,
    action         INTEGER NOT NULL,
    state          TEXT    NOT NULL,
    outcome        TEXT    NOT NULL,
    next_state     TEXT,
    started_at     INTEGER NOT NULL,
    finished_at    INTEGER NOT NULL,
    node_id        INTEGER NOT NULL,
    fence          INTEGER NOT NULL,
    actor          TEXT,
    variables      TEXT,
    error_code     TEXT,
    error          TEXT,
    PRIMARY KEY (execution_id, action)
) WITHOUT ROWID;

-- The output of attempts, in chunks (queue/log_lines.h). It has a retention of its own, by written_at.
--   position: orders the chunks of an attempt; output_offset: bytes that the program had written before this chunk;
--   output_bytes: bytes of the program in it.
CREATE TABLE workflow_node_logs (
    execution_id   TEXT    NOT NULL,
    step           TEXT    NOT NULL,
    attempt        INTEGER NOT NULL,
    position       INTEGER NOT NULL,
    written_at     INTEGER NOT NULL,
    output_offset  INTEGER NOT NULL,
    output_bytes   INTEGER NOT NULL,
    lines          BLOB    NOT NULL,
    PRIMARY KEY (execution_id, step, attempt, position)
) WITHOUT ROWID;
CREATE INDEX logs_written ON workflow_node_logs (written_at);

-- The last report of progress of each step whose handler makes any (store/progress.h). It counts while the execution is held under this
-- fence. fraction: of 10,000, NULL = unknown.
CREATE TABLE step_progress (
    execution_id   TEXT    NOT NULL,
    step           TEXT    NOT NULL,
    attempt        INTEGER NOT NULL,
    fence          INTEGER NOT NULL,
    at             INTEGER NOT NULL,
    fraction       INTEGER,
    text           TEXT    NOT NULL,
    PRIMARY KEY (execution_id, step)
) WITHOUT ROWID;

-- Events that the time stamps of a row cannot express: retry, defer, release, handover, cancel, acts of operators.
-- claimed_at, dispatched_at: of a park, the claim that it ends and its start. Other claims that are over have events of their own.
CREATE TABLE workflow_execution_events (
    execution_id   TEXT    NOT NULL,
    seq            INTEGER NOT NULL,
    at             INTEGER NOT NULL,
    event          TEXT    NOT NULL,
    node_id        INTEGER NOT NULL DEFAULT 0,
    fence          INTEGER NOT NULL DEFAULT 0,
    actor          TEXT,
    reason         TEXT,
    detail         TEXT,
    claimed_at     INTEGER,
    dispatched_at  INTEGER,
    PRIMARY KEY (execution_id, seq)
) WITHOUT ROWID;

-- The acts of people and programs, each inserted in the transaction of the act. before, after: the changed setting as a JSON object,
-- NULL = there is or was none. affected: the number of executions. seq is never given out again, because cursors name it.
CREATE TABLE audit (
    seq            INTEGER PRIMARY KEY AUTOINCREMENT,
    at             INTEGER NOT NULL,
    actor          TEXT    NOT NULL,
    act            TEXT    NOT NULL,
    subject        TEXT    NOT NULL,
    reason         TEXT,
    before         TEXT,
    after          TEXT,
    affected       INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX audit_by_subject ON audit (subject, seq);
CREATE INDEX audit_by_time ON audit (at);

-- The tokens of the HTTP API. hash: SHA-256 of the secret, which is stored nowhere. workspaces: a JSON array of ids; NULL = all.
CREATE TABLE tokens (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    name           TEXT    NOT NULL,
    hash           BLOB    NOT NULL CHECK (length(hash) = 32),
    role           TEXT    NOT NULL CHECK (role = 'read' OR role = 'enqueue' OR role = 'operate' OR role = 'admin'),
    workspaces     TEXT,
    created_at     INTEGER NOT NULL,
    created_by     TEXT    NOT NULL,
    expires_at     INTEGER,                    -- NULL = never
    revoked_at     INTEGER,
    last_used_at   INTEGER,
    max_body_bytes INTEGER,                    -- of one request; NULL = the limits of the server alone
    rate           INTEGER                     -- requests per second; NULL = the limit of the server alone
);
CREATE UNIQUE INDEX tokens_by_name ON tokens (name) WHERE revoked_at IS NULL;

-- Hooks: the end of an execution that fits enqueues an execution of start_workflow (store/hooks.h). on: a JSON array of final states.
-- workspace_id, workflow: of the executions; NULL = of all. retry_at: its events wait until then, after a refused enqueue, whose error
-- follows. dropped: events that were never enqueued.
CREATE TABLE hooks (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    name           TEXT    NOT NULL UNIQUE,
    "on"           TEXT    NOT NULL,
    workspace_id   INTEGER,
    workflow       TEXT,
    start_workspace_id INTEGER NOT NULL,
    start_workflow TEXT    NOT NULL,
    paused         INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    created_at     INTEGER NOT NULL,
    retry_at       INTEGER NOT NULL DEFAULT 0,
    dropped        INTEGER NOT NULL DEFAULT 0,
    error_code     TEXT,
    error          TEXT
);

-- Events of hooks that are not yet enqueued, each inserted in the transaction that ended its execution. workspace_id: of the execution.
CREATE TABLE hook_outbox (
    id             INTEGER PRIMARY KEY,
    hook_id        INTEGER NOT NULL,
    execution_id   TEXT    NOT NULL,
    workspace_id   INTEGER NOT NULL,
    at             INTEGER NOT NULL,
    params         TEXT    NOT NULL
);
CREATE INDEX hook_outbox_by_hook ON hook_outbox (hook_id, at);

-- Schedules: executions at the times of a calendar (store/schedules.h). cron and its zone, or every: when. starts_at, ends_at: the times
-- from and until which it fires. workspaces: a JSON array of ids; or those of a plan. due_at: the next time; NULL = none is left.
-- fired: firings that became executions. skipped: those that the overlap policy left out. dropped: those that were too old. refused: those
-- that could not be enqueued; refused_at and what follows it: the last one of these. last_due_at, last_execution_id, fired_at: of the last
-- execution.
CREATE TABLE schedules (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    name           TEXT    NOT NULL UNIQUE,
    cron           TEXT,
    zone           TEXT,
    every          INTEGER,
    jitter         INTEGER NOT NULL,
    starts_at      INTEGER,
    ends_at        INTEGER,
    workflow       TEXT    NOT NULL,
    params         TEXT    NOT NULL,
    workspaces     TEXT,
    plan           TEXT,
    definition_owner INTEGER, -- the workspace of the definition that sets it, 0 = it is of all workspaces; NULL = a user sets it
    overlap        TEXT    NOT NULL,
    catch_up       INTEGER NOT NULL,
    paused         INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    created_at     INTEGER NOT NULL,
    due_at         INTEGER,
    retry_at       INTEGER, -- not read before; NULL = from due_at on
    expands_at     INTEGER, -- the time with firings in parts; NULL = none
    expanded_to    INTEGER, -- the last workspace that has its firing of that time
    expands_triggered INTEGER NOT NULL DEFAULT 0,
    expands_refused INTEGER NOT NULL DEFAULT 0, -- 1 = only where that time was refused
    fired          INTEGER NOT NULL DEFAULT 0,
    skipped        INTEGER NOT NULL DEFAULT 0,
    dropped        INTEGER NOT NULL DEFAULT 0,
    refused        INTEGER NOT NULL DEFAULT 0,
    last_due_at    INTEGER,
    last_execution_id TEXT,
    fired_at       INTEGER,
    refused_at     INTEGER,
    error_code     TEXT,
    error          TEXT,
    CHECK ((cron IS NULL) <> (every IS NULL)),
    CHECK ((workspaces IS NULL) <> (plan IS NULL))
);
CREATE INDEX schedules_of_definition ON schedules (definition_owner, workflow) WHERE definition_owner IS NOT NULL;
CREATE INDEX schedules_due ON schedules
    (CASE WHEN expands_at IS NOT NULL THEN coalesce(retry_at, 0) ELSE max(due_at, coalesce(retry_at, 0)) END)
WHERE expands_at IS NOT NULL OR paused = 0 AND due_at IS NOT NULL;

-- Due times of schedules, one row for each workspace, inserted in the transaction that moves due_at behind them. planned_id: the
-- id of the execution, fixed here, so that a settlement that was lost is found. execution_id: NULL = it waits to be enqueued. Of rows with
-- an execution only the last one of a schedule and workspace is kept. created_at: the age of one that waits counts from there.
CREATE TABLE schedule_firings (
    schedule_id    INTEGER NOT NULL,
    workspace_id   INTEGER NOT NULL,
    due_at         INTEGER NOT NULL,
    is_triggered   INTEGER NOT NULL DEFAULT 0,
    created_at     INTEGER NOT NULL,
    planned_id     TEXT    NOT NULL,
    execution_id   TEXT,
    PRIMARY KEY (schedule_id, workspace_id, due_at)
) WITHOUT ROWID;
CREATE INDEX schedule_firings_waiting ON schedule_firings (schedule_id, workspace_id, due_at) WHERE execution_id IS NULL;

-- The workspaces in which the last time of a schedule was refused, until a later time or a trigger succeeds.
CREATE TABLE schedule_refusals (
    schedule_id    INTEGER NOT NULL,
    due_at         INTEGER NOT NULL,
    workspace_id   INTEGER NOT NULL,
    PRIMARY KEY (schedule_id, due_at, workspace_id)
) WITHOUT ROWID;
CREATE INDEX schedule_refusals_of_workspace ON schedule_refusals (workspace_id);

-- Where nodes run executions (engine_target in queue/engine_target.h). service: its identity, whatever its address; address: where it was
-- reached last, for people.
CREATE TABLE engine_targets (
    id             INTEGER PRIMARY KEY,
    engine         TEXT    NOT NULL,
    service        TEXT    NOT NULL,
    namespace      TEXT    NOT NULL,
    address        TEXT    NOT NULL,
    UNIQUE (engine, service, namespace)
);

-- nFlow's registry of executors, with leases.
CREATE TABLE nodes (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    name           TEXT    NOT NULL,
    executor_group TEXT    NOT NULL,
    host           TEXT    NOT NULL,
    boot_id        TEXT    NOT NULL,
    pid            INTEGER NOT NULL,
    keeper_pid     INTEGER NOT NULL,
    life           TEXT    NOT NULL DEFAULT '', -- names a file that proves on which machine it runs
    version        TEXT    NOT NULL,
    engine         TEXT    NOT NULL,
    language       TEXT,                       -- of its handlers, like 'python 3.11' or 'HTTP'; NULL = C
    handlers       TEXT    NOT NULL DEFAULT '[]', -- the handlers that it has, a JSON array of names
    handlers_left  TEXT    NOT NULL DEFAULT '{}', -- those that it had, with the times at which it lost them: a JSON object
    engine_reachable INTEGER NOT NULL DEFAULT 1,
    engine_error   TEXT,                       -- last error of the engine while it is unreachable, else NULL
    engine_unreachable_at INTEGER,             -- the first heartbeat that reported it, else NULL
    engine_impaired_at INTEGER,                -- the first heartbeat that reported it, else NULL
    dispatch_failed_at INTEGER,                -- since when each step of its dispatch loop fails, else NULL
    dispatch_error TEXT,                       -- the error of the last one
    record_failed_at INTEGER,                  -- since when it holds a record that the store refuses, else NULL
    record_error   TEXT,                       -- the last error
    is_outlived    INTEGER NOT NULL DEFAULT 0, -- 1 = executions of its engine outlive the node
    desired_state  TEXT    NOT NULL DEFAULT 'run' -- by an operator
        CHECK (desired_state = 'run' OR desired_state = 'pause' OR desired_state = 'drain' OR desired_state = 'stop'),
    drained_at     INTEGER,                    -- the first heartbeat of a draining node that held nothing, else NULL
    not_accepting  TEXT    -- by the node's own decision
        CHECK (not_accepting = 'paused' OR not_accepting = 'stopping'),
    capacity       INTEGER NOT NULL DEFAULT 0, -- items that it can hold at once
    target_id      INTEGER NOT NULL DEFAULT 0, -- 0 = not known yet
    running        INTEGER NOT NULL DEFAULT 0,
    stuck          INTEGER NOT NULL DEFAULT 0,
    lease          INTEGER NOT NULL,
    beats          INTEGER NOT NULL DEFAULT 0, -- its heartbeats
    started_at     INTEGER NOT NULL,
    active_at      INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL,
    stopped_at     INTEGER,
    graceful       INTEGER,                    -- of a stopped node: 1 = nothing was interrupted
    dead_at        INTEGER,
    held_at_death  INTEGER,                    -- items that it held at dead_at
    recovered_at   INTEGER
);
CREATE INDEX nodes_unrecovered ON nodes (expires_at) WHERE recovered_at IS NULL;

-- The role of the scheduler: one row. node_id 0 = free. Each takeover increments the epoch.
CREATE TABLE scheduler (
    partition      INTEGER PRIMARY KEY CHECK (partition = 0),
    epoch          INTEGER NOT NULL DEFAULT 0,
    node_id        INTEGER NOT NULL DEFAULT 0,
    since          INTEGER NOT NULL DEFAULT 0,
    expires_at     INTEGER NOT NULL DEFAULT 0,
    lock_awaited_at INTEGER NOT NULL DEFAULT 0, -- since when it awaits the lock of dispatch.exclusive with work to do; 0: it does not
    why            TEXT                         -- why the role changed hands last
);
INSERT INTO scheduler (partition) VALUES (0);

-- The last 100 takeovers.
CREATE TABLE scheduler_takeovers (
    epoch          INTEGER PRIMARY KEY,
    at             INTEGER NOT NULL,
    node_id        INTEGER NOT NULL,
    why            TEXT
);

-- Every change of the queue, written in its own transaction: at most a few rows per transaction. Never updated; rows are deleted
-- only when they are folded into the books. books + news = rows of the queue, always. seq is never used twice.
--   kind         1 enqueued, 2 assigned, 3 put_back, 4 ended, 5 handed_over, 6 promoted, 7 act, 8 state
--   node_id      the node that held the rows (3, 4, 5)
--   lanes        changes of the lane counters as JSON. An array per lane:
--                [lane, runnable, least_rank, held, completed, waiting, failed, cancelled, node_held, parked].
--                node_held: change of the number of items that node_id holds. least_rank: of the rows that became runnable.
--                Zeros at the end are left out.
--   due          earliest due_at of the rows that began to wait
--   workspaces   JSON array of ids with changed limits (7); NULL there = limits of any workspace may have changed
CREATE TABLE news (
    seq            INTEGER PRIMARY KEY AUTOINCREMENT,
    kind           INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 8),
    node_id        INTEGER NOT NULL DEFAULT 0,
    at             INTEGER NOT NULL,
    lanes          TEXT    NOT NULL,
    due            INTEGER,
    workspaces     TEXT
);
CREATE INDEX news_acts ON news (seq) WHERE kind = 7;

-- The stream: changes of executions in the order of their commits. Entries are written while written_until lies ahead, which
-- readers renew. since: when the stream began; it is another one after each interruption. purged_to: the last removed position.
CREATE TABLE stream_state (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    written_until  INTEGER NOT NULL DEFAULT 0,
    since          INTEGER NOT NULL DEFAULT 0,
    purged_to      INTEGER NOT NULL DEFAULT 0
);
INSERT INTO stream_state (id) VALUES (1);

CREATE TABLE stream_entries (
    position       INTEGER PRIMARY KEY AUTOINCREMENT,
    at             INTEGER NOT NULL,
    kind           TEXT    NOT NULL, -- of the event, as in execution_events
    workspace_id   INTEGER NOT NULL,
    execution_id   TEXT    NOT NULL
);

-- The history (docs/design/history.md): a row for each minute of the last hour and, folded, for ten minutes of a day. at: the end of its
-- interval; span: its length. facts: queue/history.h.
CREATE TABLE history (
    folded         INTEGER NOT NULL,
    at             INTEGER NOT NULL,
    span           INTEGER NOT NULL,
    facts          BLOB    NOT NULL,
    PRIMARY KEY (at, folded)
);

-- Counters per lane, without the news. runnable, waiting, held and parked count rows of the queue, by phase. completed, failed and
-- cancelled count all that ended; purging does not lower them. pass: position of the lane in the stride of the scheduler; NULL = it was
-- never served.
CREATE TABLE books (
    lane_id        INTEGER PRIMARY KEY,
    workspace_id   INTEGER NOT NULL,
    group_id       INTEGER NOT NULL,
    runnable       INTEGER NOT NULL DEFAULT 0,
    waiting        INTEGER NOT NULL DEFAULT 0,
    held           INTEGER NOT NULL DEFAULT 0,
    parked         INTEGER NOT NULL DEFAULT 0,
    completed      INTEGER NOT NULL DEFAULT 0,
    failed         INTEGER NOT NULL DEFAULT 0,
    cancelled      INTEGER NOT NULL DEFAULT 0,
    pass           INTEGER
);
CREATE INDEX books_of_workspace ON books (workspace_id);

CREATE TABLE shedlock (
    name           VARCHAR(64)  NOT NULL PRIMARY KEY,
    lock_until     INTEGER      NOT NULL,
    locked_at      INTEGER      NOT NULL,
    locked_by      VARCHAR(255) NOT NULL
) WITHOUT ROWID;

-- The archive of the store (store/archive.h), one row. store_id: also in the file of the archive, so that the file of another store is
-- refused. made: how often the file was made; a reader that has attached an older one attaches it again. lost_at: when the file was
-- missing although it had been made.
CREATE TABLE archive_state (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    store_id       TEXT    NOT NULL,
    made           INTEGER NOT NULL DEFAULT 0,
    moved          INTEGER NOT NULL DEFAULT 0, -- executions, in all
    moved_at       INTEGER,
    lost_at        INTEGER
);
INSERT INTO archive_state (id, store_id) VALUES (1, lower(hex(randomblob(16))));
