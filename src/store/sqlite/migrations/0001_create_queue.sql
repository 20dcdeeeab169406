-- The queue on SQLite. Times are microseconds since 1970 in store time; ids are UUIDv7 text. Tables of the specification keep
-- its names. WITHOUT ROWID where the row is found by its own key: one tree instead of two. Checks have no IN with three values
-- or more: for such a list SQLite builds a temporary tree each time that a row is written.

-- One row: the store's clock and its counters.
--   clock: store time = boot clock of the machine + clock_offset. All processes of the machine share it, whatever their wall
--   clocks say; the offset is set by the first process after a boot and never lets time go back below clock_high.
--   wall_offset: store time less the wall clock, as the last writer saw them: for the views, which have no boot clock.
--   fence: grows with every batch of claims and every handover; the only source of fences.
CREATE TABLE store_state (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    boot_id        TEXT    NOT NULL DEFAULT '',
    clock_offset   INTEGER NOT NULL DEFAULT 0,
    clock_high     INTEGER NOT NULL DEFAULT 0,
    wall_offset    INTEGER NOT NULL DEFAULT 0,
    fence          INTEGER NOT NULL DEFAULT 0,
    queue_paused   INTEGER NOT NULL DEFAULT 0 CHECK (queue_paused IN (0, 1))
);
INSERT INTO store_state (id) VALUES (1);

CREATE TABLE plans (
    name           TEXT    NOT NULL PRIMARY KEY,
    max_concurrent INTEGER NOT NULL CHECK (max_concurrent BETWEEN 1 AND 1000000),
    weight         INTEGER NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 1000)
) WITHOUT ROWID;
-- The tiers of the specification.
INSERT INTO plans (name, max_concurrent) VALUES ('free', 1), ('pro', 5), ('enterprise', 20);

-- slots_used is the guarded counter (design 3.3): taken and given back in the transaction of the state change. slots_max and
-- weight are what plan and override amount to, kept here so that a claim reads one row.
CREATE TABLE workspaces (
    id             INTEGER PRIMARY KEY,
    name           TEXT    NOT NULL UNIQUE,
    plan           TEXT    NOT NULL REFERENCES plans (name),
    max_concurrent INTEGER          CHECK (max_concurrent BETWEEN 1 AND 1000000), -- own limit; NULL = the plan's
    slots_max      INTEGER NOT NULL,
    slots_used     INTEGER NOT NULL DEFAULT 0 CHECK (slots_used >= 0),
    weight         INTEGER NOT NULL DEFAULT 1,
    paused         INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    pending        INTEGER NOT NULL DEFAULT 0 CHECK (pending >= 0),
    completed      INTEGER NOT NULL DEFAULT 0,
    failed         INTEGER NOT NULL DEFAULT 0,
    cancelled      INTEGER NOT NULL DEFAULT 0,
    created_at     INTEGER NOT NULL
);
CREATE INDEX workspaces_of_plan ON workspaces (plan);

-- pass: where the group's stride stands; a lane that becomes ready enters here.
CREATE TABLE executor_groups (
    name           TEXT    NOT NULL PRIMARY KEY,
    pass           INTEGER NOT NULL DEFAULT 0,
    paused         INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1))
) WITHOUT ROWID;
INSERT INTO executor_groups (name) VALUES ('default');

-- One row per (group, workspace, limit key): eligibility is decided here, never per item (design 3.4).
-- ready = runnable > 0 and the workspace has a free slot and is not paused.
CREATE TABLE lanes (
    id             INTEGER PRIMARY KEY,
    executor_group TEXT    NOT NULL REFERENCES executor_groups (name),
    workspace_id   INTEGER NOT NULL REFERENCES workspaces (id),
    limit_key      TEXT    NOT NULL DEFAULT '',
    ready          INTEGER NOT NULL DEFAULT 0 CHECK (ready IN (0, 1)),
    pass           INTEGER NOT NULL DEFAULT 0,
    runnable       INTEGER NOT NULL DEFAULT 0 CHECK (runnable >= 0),
    waiting        INTEGER NOT NULL DEFAULT 0 CHECK (waiting >= 0),
    UNIQUE (workspace_id, executor_group, limit_key)
);
CREATE INDEX lanes_ready ON lanes (executor_group, pass, id) WHERE ready = 1;

-- Published definitions never change. workspace_id 0 = every workspace may run it.
CREATE TABLE workflow_definitions (
    id             INTEGER PRIMARY KEY,
    workspace_id   INTEGER NOT NULL DEFAULT 0,
    name           TEXT    NOT NULL,
    version        INTEGER NOT NULL,
    definition     TEXT    NOT NULL,
    attempts_max   INTEGER NOT NULL DEFAULT 0, -- starts; 0 = as the node says
    created_at     INTEGER NOT NULL,
    UNIQUE (name, workspace_id, version)
);

-- One row per execution while it lives. phase says which index holds it: 0 runnable, 1 waiting for due_at, 2 held (CLAIMED or
-- DISPATCHED). CLAIMED -> DISPATCHED changes no index. node_id 0 = nobody (pending, or handed over and waiting for a claim).
-- Equal ranks go in the order of enqueueing, by number and not by id: the entries of queue_runnable, which end with the number, are a
-- third as long. The lanes of a claim lie far apart there, so its pages are most of what a claim writes.
CREATE TABLE workflow_execution_queue (
    number         INTEGER PRIMARY KEY, -- the order of enqueueing
    id             TEXT    NOT NULL UNIQUE,
    lane_id        INTEGER NOT NULL REFERENCES lanes (id),
    workspace_id   INTEGER NOT NULL REFERENCES workspaces (id),
    definition_id  INTEGER NOT NULL REFERENCES workflow_definitions (id),
    status         TEXT    NOT NULL CHECK (status = 'PENDING' OR status = 'CLAIMED' OR status = 'DISPATCHED'),
    phase          INTEGER NOT NULL CHECK (phase = 2 AND status <> 'PENDING' OR (phase = 0 OR phase = 1) AND status = 'PENDING'),
    rank           INTEGER NOT NULL,
    priority       INTEGER NOT NULL,
    run_at         INTEGER NOT NULL,
    due_at         INTEGER,
    attempts       INTEGER NOT NULL DEFAULT 0,
    deferrals      INTEGER NOT NULL DEFAULT 0,
    handovers      INTEGER NOT NULL DEFAULT 0,
    interruptions  INTEGER NOT NULL DEFAULT 0, -- handovers and give-backs: claims under which it may have run before
    fence          INTEGER NOT NULL DEFAULT 0,
    node_id        INTEGER NOT NULL DEFAULT 0,
    has_params     INTEGER NOT NULL DEFAULT 0,
    cancel_at      INTEGER,                    -- when its cancel was asked for
    cancel_sent    INTEGER NOT NULL DEFAULT 0, -- the node has it
    created_at     INTEGER NOT NULL,
    claimed_at     INTEGER,
    dispatched_at  INTEGER,
    idempotency_key TEXT,
    retry_of       TEXT,
    error_code     TEXT,
    error          TEXT
);
CREATE INDEX queue_runnable ON workflow_execution_queue (lane_id, rank) WHERE phase = 0;
CREATE INDEX queue_waiting ON workflow_execution_queue (due_at, lane_id) WHERE phase = 1;
CREATE INDEX queue_held ON workflow_execution_queue (node_id, lane_id) WHERE phase = 2;
CREATE INDEX queue_requests ON workflow_execution_queue (node_id) WHERE cancel_at IS NOT NULL AND cancel_sent = 0;

-- The history: one row per execution after it has ended. Terminal rows are never rewritten.
CREATE TABLE workflow_executions (
    id             TEXT    NOT NULL PRIMARY KEY,
    lane_id        INTEGER NOT NULL,
    workspace_id   INTEGER NOT NULL,
    definition_id  INTEGER NOT NULL,
    status         TEXT    NOT NULL CHECK (status = 'COMPLETED' OR status = 'FAILED' OR status = 'CANCELLED'),
    priority       INTEGER NOT NULL,
    run_at         INTEGER NOT NULL,
    attempts       INTEGER NOT NULL,
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
    retry_of       TEXT,
    error_code     TEXT,
    error          TEXT
) WITHOUT ROWID;
CREATE INDEX executions_failed ON workflow_executions (id) WHERE status = 'FAILED';
CREATE UNIQUE INDEX executions_retried ON workflow_executions (retry_of) WHERE retry_of IS NOT NULL;
CREATE UNIQUE INDEX queue_retried ON workflow_execution_queue (retry_of) WHERE retry_of IS NOT NULL;

-- Payloads stay where the enqueue put them, byte for byte, and no transition rewrites them. No row = {}.
CREATE TABLE execution_params (
    id             TEXT    NOT NULL PRIMARY KEY,
    params         BLOB    NOT NULL
) WITHOUT ROWID;

CREATE TABLE idempotency_keys (
    workspace_id   INTEGER NOT NULL,
    key            TEXT    NOT NULL,
    execution_id   TEXT    NOT NULL,
    PRIMARY KEY (workspace_id, key)
) WITHOUT ROWID;

-- One row per step of an execution; attempt is its last.
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
    output         BLOB,
    variables      BLOB,
    error_code     TEXT,
    error          TEXT,
    PRIMARY KEY (execution_id, step)
) WITHOUT ROWID;

-- What the time stamps of a row cannot tell: retry, defer, release, hand over, recovery, cancel, an operator's act.
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
    PRIMARY KEY (execution_id, seq)
) WITHOUT ROWID;

-- nFlow's registry of executors, with leases.
CREATE TABLE nodes (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    name           TEXT    NOT NULL,
    executor_group TEXT    NOT NULL,
    host           TEXT    NOT NULL,
    boot_id        TEXT    NOT NULL,
    pid            INTEGER NOT NULL,
    keeper_pid     INTEGER NOT NULL,
    version        TEXT    NOT NULL,
    engine         TEXT    NOT NULL,
    engine_reachable INTEGER NOT NULL DEFAULT 1,
    wish           TEXT    NOT NULL DEFAULT 'run' CHECK (wish = 'run' OR wish = 'pause' OR wish = 'drain' OR wish = 'stop'),
    running        INTEGER NOT NULL DEFAULT 0,
    stuck          INTEGER NOT NULL DEFAULT 0,
    lease          INTEGER NOT NULL,
    started_at     INTEGER NOT NULL,
    active_at      INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL,
    stopped_at     INTEGER,
    graceful       INTEGER,                    -- of a stopped node: 1 when nothing had to be interrupted
    dead_at        INTEGER,
    recovered_at   INTEGER
);
CREATE INDEX nodes_unrecovered ON nodes (expires_at) WHERE recovered_at IS NULL;

CREATE TABLE shedlock (
    name           VARCHAR(64)  NOT NULL PRIMARY KEY,
    lock_until     INTEGER      NOT NULL,
    locked_at      INTEGER      NOT NULL,
    locked_by      VARCHAR(255) NOT NULL
) WITHOUT ROWID;
