-- Reading for people: the columns are the keys of the answers. Each statement sees one state of the store; those that belong
-- together run in one transaction.

-- The setting is one of the connection as well, but not behind a pooler.
-- name: begin_snapshot
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL jit = off;

-- The executions of a page, newest first. $1 ids below, $2 ids from, $3 ids up to, $4 workspace or NULL, $5 state bits, $6 workflow or
-- NULL. $7 group or NULL, $8 error code or NULL, $9 idempotency key or NULL, $10 created since, $11 created before, $12 finished
-- before. $13 limit, $14 retried, $15 stuck, $16 waiting_for or NULL, $17 dismissed, $18 parent or NULL. $19 version or 0, $20 node or
-- NULL, $23 the present time, or 0 without a duration; then $21 longer than, $22 shorter than. $24 a part of the error or NULL, $25 the
-- way of label_walk(), or 0: no labels; $26 their names, $27 and $28 from and up to which value each.
-- name: page_of_executions
SELECT e.id, e.workspace, e.workflow, e.version, e.status, e.pending_reason, e.waiting_for, :schema.rfc3339(e.due_at) AS due_at,
       e.priority, :schema.rfc3339(e.run_at) AS run_at, e.starts_refused, e.deferrals, e.handovers, e.node, e.fence, e.error_code, e.error,
       :schema.rfc3339(e.created_at) AS created_at, :schema.rfc3339(e.claimed_at) AS claimed_at,
       :schema.rfc3339(e.dispatched_at) AS dispatched_at, :schema.rfc3339(e.stuck_since) AS stuck_since,
       :schema.rfc3339(e.finished_at) AS finished_at, e.executor_group, e.idempotency_key, e.retry_of, e.traceparent,
       e.business_key, e.labels, e.progress
FROM :schema.executions e
WHERE e.id = ANY (ARRAY(
    SELECT c.id FROM :schema.choose_executions($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                                               $19, $20, $21, $22, $23, $24) c(id) WHERE $25 = 0 AND $18 IS NULL
    UNION ALL
    SELECT c.id FROM :schema.choose_children($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                                             $19, $20, $21, $22, $23, $24) c(id) WHERE $25 = 0 AND $18 IS NOT NULL
    UNION ALL
    SELECT c.id FROM :schema.choose_labelled($25, false, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
                                             $18, $19, $20, $21, $22, $23, $24, $26, $27, $28) c(id) WHERE $25 <> 0))
ORDER BY e.id DESC;

-- The rows of $1, in the order of the ids there.
-- name: executions_of_ids
SELECT e.id, e.workspace, e.workflow, e.version, e.status, e.pending_reason, e.waiting_for, :schema.rfc3339(e.due_at) AS due_at,
       e.priority, :schema.rfc3339(e.run_at) AS run_at, e.starts_refused, e.deferrals, e.handovers, e.node, e.fence, e.error_code, e.error,
       :schema.rfc3339(e.created_at) AS created_at, :schema.rfc3339(e.claimed_at) AS claimed_at,
       :schema.rfc3339(e.dispatched_at) AS dispatched_at, :schema.rfc3339(e.stuck_since) AS stuck_since,
       :schema.rfc3339(e.finished_at) AS finished_at, e.executor_group, e.idempotency_key, e.retry_of, e.traceparent,
       e.business_key, e.labels, e.progress
FROM :schema.executions e WHERE e.id = ANY ($1) ORDER BY array_position($1, e.id);

-- The same choice, counted: how many were chosen, how many of these but the last of $13 match, and the last of these. $29 pending_reason
-- or NULL.
-- name: count_executions
WITH chosen AS MATERIALIZED (
    SELECT c.id FROM :schema.choose_executions($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                                               $19, $20, $21, $22, $23, $24) c(id) WHERE $25 = 0 AND $18 IS NULL
    UNION ALL
    SELECT c.id FROM :schema.choose_children($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                                             $19, $20, $21, $22, $23, $24) c(id) WHERE $25 = 0 AND $18 IS NOT NULL
    UNION ALL
    SELECT c.id FROM :schema.choose_labelled($25, false, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
                                             $18, $19, $20, $21, $22, $23, $24, $26, $27, $28) c(id) WHERE $25 <> 0
), examined AS MATERIALIZED (SELECT c.id FROM chosen c ORDER BY c.id DESC LIMIT $13 - 1)
SELECT (SELECT count(*) FROM chosen),
       CASE WHEN $29 IS NULL THEN (SELECT count(*) FROM examined)
            ELSE (SELECT count(*) FROM :schema.executions e
                  WHERE e.id = ANY (ARRAY(SELECT c.id FROM examined c)) AND e.pending_reason = $29) END,
       (SELECT c.id FROM examined c ORDER BY c.id LIMIT 1);

-- How the executions with labels are found, and where their window ends; read functions/label_walk.sql.
-- name: label_walk
SELECT w.place, w.way, w.window_end FROM :schema.label_walk($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) w;

-- The end of a window of $2 + 1 rows below $1: the nearer one of the queue's and of the history's, or NULL. $3 state bits: FAILED ones
-- alone, of which there may be few, have an index of their own, and so have held ones, which need no window.
-- name: window_descending
SELECT greatest((SELECT q.id FROM :schema.workflow_execution_queue q WHERE $3 & 9 <> 0 AND q.id < $1 ORDER BY q.id DESC LIMIT 1 OFFSET $2),
                (SELECT h.id FROM :schema.workflow_executions h WHERE $3 & 112 NOT IN (0, 32) AND h.id < $1
                 ORDER BY h.id DESC LIMIT 1 OFFSET $2),
                (SELECT f.id FROM :schema.workflow_executions f WHERE $3 & 112 = 32 AND f.status = 'FAILED' AND f.id < $1
                 ORDER BY f.id DESC LIMIT 1 OFFSET $2));

-- The same above $1.
-- name: window_ascending
SELECT least((SELECT q.id FROM :schema.workflow_execution_queue q WHERE $3 & 9 <> 0 AND q.id > $1 ORDER BY q.id LIMIT 1 OFFSET $2),
             (SELECT h.id FROM :schema.workflow_executions h WHERE $3 & 112 NOT IN (0, 32) AND h.id > $1
              ORDER BY h.id LIMIT 1 OFFSET $2),
             (SELECT f.id FROM :schema.workflow_executions f WHERE $3 & 112 = 32 AND f.status = 'FAILED' AND f.id > $1
              ORDER BY f.id LIMIT 1 OFFSET $2));

-- Executions with this beginning of the id: at most two. $1 the first possible id, $2 the last one.
-- name: ids_that_begin
SELECT i.id FROM (
    (SELECT q.id FROM :schema.workflow_execution_queue q WHERE q.id >= $1 AND q.id <= $2 ORDER BY q.id LIMIT 5)
    UNION ALL
    (SELECT h.id FROM :schema.workflow_executions h WHERE h.id >= $1 AND h.id <= $2 ORDER BY h.id LIMIT 5)) i
ORDER BY i.id LIMIT 5;

-- name: read_execution
SELECT e.json FROM (SELECT :schema.execution_json($1) AS json) e WHERE e.json IS NOT NULL;

-- The places in $1, from 1, of executions that have not ended.
-- name: living_executions
SELECT i.place FROM unnest($1::uuid[]) WITH ORDINALITY i (id, place)
WHERE EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = i.id);

-- The workspaces are read first, so that an execution of another one takes as long as a missing one. $1 id, $2 workspaces
-- name: execution_in_workspaces
SELECT count(q.id) + count(h.id) > 0
FROM :schema.workspaces w
LEFT JOIN :schema.workflow_execution_queue q ON q.id = $1 AND q.workspace_id = w.id
LEFT JOIN :schema.workflow_executions h ON h.id = $1 AND h.workspace_id = w.id
WHERE w.name = ANY ($2::text[]);

-- name: read_event_rows
SELECT e.execution_id, :schema.rfc3339(e.at) AS at, e.event, e.node, e.fence, e.actor, e.reason, e.detail, e.attempt
FROM :schema.execution_events e WHERE e.execution_id = $1 LIMIT $3 OFFSET $2;

-- name: count_event_rows
SELECT count(*) FROM :schema.execution_events e WHERE e.execution_id = $1;

-- name: read_step_rows
SELECT s.step, s.status, s.attempt, s.failures, s.exit_code, s.error_code, s.error, :schema.rfc3339(s.due_at) AS due_at,
       :schema.rfc3339(s.started_at) AS started_at, :schema.rfc3339(s.finished_at) AS finished_at,
       (SELECT n.name FROM :schema.nodes n WHERE n.id = s.node_id) AS node, s.fence, s.output, s.variables, s.signal
FROM :schema.execution_steps s WHERE s.execution_id = $1 ORDER BY s.started_at, s.step;

-- name: read_attempt_rows
SELECT a.step, a.attempt, a.status, a.exit_code, a.error_code, a.error, :schema.rfc3339(a.started_at) AS started_at,
       :schema.rfc3339(a.finished_at) AS finished_at, (SELECT n.name FROM :schema.nodes n WHERE n.id = a.node_id) AS node, a.fence
FROM :schema.all_attempts a WHERE a.execution_id = $1 ORDER BY a.step, a.attempt;

-- name: read_params
SELECT params FROM :schema.all_params WHERE id = $1;

-- Lists by name: $1 one name or NULL, $2 behind this cursor, $3 limit.
-- $4 and $5: from this name on, and below that one.
-- Only the lanes of the page are sought for their first items, of which the oldest gives the age.
-- name: list_workspaces
WITH page AS MATERIALIZED (
    SELECT w.* FROM :schema.workspaces w
    WHERE ($1 IS NULL OR w.name = $1) AND w.name > $2 AND w.name >= $4 AND w.name < $5 ORDER BY w.name LIMIT $3
),
b AS MATERIALIZED (
    SELECT k.workspace_id, sum(k.held) AS held, sum(k.runnable + k.waiting) AS pending, sum(k.parked) AS parked,
           sum(k.completed) AS completed, sum(k.failed) AS failed, sum(k.cancelled) AS cancelled,
           min(CASE WHEN k.runnable > 0 THEN (
               SELECT greatest(q.created_at, q.run_at, q.woken_at) FROM :schema.workflow_execution_queue q
               WHERE q.lane_id = k.lane_id AND q.due_at IS NULL AND q.phase = 0 ORDER BY q.rank, q.id LIMIT 1) END) AS oldest_at
    FROM :schema.lane_books k WHERE k.workspace_id IN (SELECT p.id FROM page p) GROUP BY k.workspace_id
)
SELECT w.name, w.plan, coalesce(b.held, 0)::bigint AS slots_used, w.slots_max, w.max_concurrent, w.weight, w.paused, w.pending_max,
       w.max_pending,
       coalesce(b.pending, 0)::bigint AS pending, coalesce(b.parked, 0)::bigint AS waiting,
       coalesce(b.completed, 0)::bigint AS completed, coalesce(b.failed, 0)::bigint AS failed,
       coalesce(b.cancelled, 0)::bigint AS cancelled, (SELECT :schema.store_time()) - b.oldest_at AS oldest_pending_age_us,
       :schema.rfc3339(w.created_at) AS created_at
FROM page w LEFT JOIN b ON b.workspace_id = w.id ORDER BY w.name;

-- name: list_plans
SELECT p.name, p.max_concurrent, p.max_pending, p.weight,
       (SELECT count(*) FROM :schema.workspaces w WHERE w.plan = p.name) AS workspace_count
FROM :schema.plans p WHERE ($1 IS NULL OR p.name = $1) AND p.name > $2 ORDER BY p.name LIMIT $3;

-- The newest version of each, or all versions of the one that is named, those with the YAML of their authors. Cursor: the definition's id.
-- $4 a workspace: without it all, else those that it may run.
-- name: list_workflows
SELECT d.name, w.name AS workspace, d.version, :schema.rfc3339(d.created_at) AS created_at, d.state = 1 AS disabled, d.definition,
       CASE WHEN $1 IS NOT NULL THEN d.source END AS source, lpad(d.id::text, 20, '0') AS cursor_key
FROM :schema.workflow_definitions d LEFT JOIN :schema.workspaces w ON w.id = d.workspace_id
WHERE d.state <> 2 AND ($1 IS NULL OR d.name = $1) AND lpad(d.id::text, 20, '0') COLLATE "C" > $2
  AND ($4 IS NULL OR d.workspace_id = 0 OR w.name = $4)
  AND ($1 IS NOT NULL OR d.version = (SELECT max(v.version) FROM :schema.workflow_definitions v
                                      WHERE v.name = d.name AND v.workspace_id = d.workspace_id))
ORDER BY d.id LIMIT $3;

-- name: list_nodes
SELECT n.id, n.name, n.executor_group, n.host, n.pid, n.version AS weir_version, n.engine, t.service AS engine_service,
       t.namespace AS engine_namespace, t.address AS engine_address, n.engine_reachable, n.engine_error,
       :schema.rfc3339(n.engine_impaired_at) AS engine_impaired_since,
       :schema.rfc3339(n.dispatch_failed_at) AS dispatch_failing_since, n.dispatch_error,
       :schema.rfc3339(n.record_failed_at) AS record_failing_since, n.record_error, n.desired_state,
       CASE WHEN n.stopped_at IS NOT NULL THEN 'stopped' WHEN n.dead_at IS NOT NULL THEN 'dead'
            WHEN n.expires_at <= (SELECT :schema.store_time()) THEN 'expired' WHEN n.not_accepting = 'stopping' THEN 'stopping'
            WHEN n.desired_state = 'drain' THEN CASE WHEN n.drained_at IS NULL THEN 'draining' ELSE 'drained' END
            WHEN n.desired_state = 'pause' THEN 'paused'
            ELSE coalesce(n.not_accepting, 'alive') END AS state,
       n.graceful, n.running, n.stuck,
       (SELECT count(*) FROM :schema.held_items q WHERE q.claim_node = n.id) AS holds,
       EXISTS (SELECT 1 FROM :schema.scheduler s WHERE s.node_id = n.id) AS schedules,
       :schema.rfc3339(n.started_at) AS started_at, :schema.rfc3339(n.active_at) AS seen_at, :schema.rfc3339(n.expires_at) AS expires_at,
       :schema.rfc3339(n.drained_at) AS drained_at,
       :schema.rfc3339(n.stopped_at) AS stopped_at, :schema.rfc3339(n.recovered_at) AS recovered_at,
       n.language, n.handlers, n.capacity, n.boot_id, n.keeper_pid, lpad(n.id::text, 20, '0') AS cursor_key
FROM :schema.nodes n LEFT JOIN :schema.engine_targets t ON t.id = n.target_id
WHERE ($1 IS NULL OR n.name = $1) AND lpad(n.id::text, 20, '0') COLLATE "C" > $2 ORDER BY n.id LIMIT $3;

-- shedlock keeps UTC without a zone.
-- name: list_locks
SELECT l.name, l.locked_by AS holder, l.lock_until > t.now AS held, :schema.rfc3339(l.locked_at AT TIME ZONE 'UTC') AS locked_at,
       :schema.rfc3339(l.lock_until AT TIME ZONE 'UTC') AS lock_until,
       (greatest(0, extract(epoch FROM l.lock_until - t.now)) * 1000000)::bigint AS left_us
FROM :schema.shedlock l CROSS JOIN (SELECT :schema.time_of(:schema.store_time()) AT TIME ZONE 'UTC' AS now) t
WHERE ($1 IS NULL OR l.name = $1) AND l.name COLLATE "C" > $2 ORDER BY l.name COLLATE "C" LIMIT $3;

-- name: list_groups
SELECT g.name, g.paused FROM :schema.executor_groups g WHERE ($1 IS NULL OR g.name = $1) AND g.name > $2 ORDER BY g.name LIMIT $3;

-- One statement shows one state of the store. NULL: the execution is not in the queue.
-- name: why_living
SELECT :schema.why_living($1), :schema.place_of($1);

-- The counters, from the books and the news; of the queue only indexes. The books lag behind the oldest news that they lack. $1 how many
-- workspaces, $2 how many of the waiting rows are read: beyond it a row that backs off counts as scheduled; $3 how many groups,
-- $4 workflows without a worker, $5 stuck executions, $6 lanes of each group whose first items are read for their age: those with the most
-- runnable items. A look at every lane would take a seek for each workspace. $7 age of a due time of a late schedule.
-- name: status
WITH books AS MATERIALIZED (SELECT * FROM :schema.lane_books),
usage AS MATERIALIZED (
    SELECT b.workspace_id, sum(b.runnable + b.waiting)::bigint AS pending, sum(b.waiting)::bigint AS delayed, sum(b.held)::bigint AS held,
           sum(b.parked)::bigint AS waiting,
           sum(b.completed)::bigint AS completed, sum(b.failed)::bigint AS failed, sum(b.cancelled)::bigint AS cancelled
    FROM books b GROUP BY b.workspace_id
),
now AS MATERIALIZED (SELECT :schema.store_time() AS us),
role AS MATERIALIZED (
    SELECT s.*, s.node_id <> 0 AND s.expires_at > s.now_us
                AND EXISTS (SELECT 1 FROM :schema.scheduler r WHERE r.partition = 0 AND r.lock_awaited_at = 0)
                AND f.has_role IS NOT TRUE AS scheduled,
           f.failed_at, f.error,
           coalesce(s.now_us - (SELECT f.at FROM :schema.news f WHERE f.lanes IS NOT NULL ORDER BY f.xid, f.seq LIMIT 1), 0) AS lag_us,
           (SELECT r.why FROM :schema.scheduler r WHERE r.partition = 0) AS why,
           (SELECT r.lock_awaited_at FROM :schema.scheduler r WHERE r.partition = 0) AS lock_awaited_at
    FROM :schema.role_state() s LEFT JOIN :schema.role_failure f ON true
),
backing_off AS MATERIALIZED (
    SELECT f.definition_id, (f.lane_id >> 47)::integer AS group_id, f.error_code IS NOT DISTINCT FROM 'unknown_handler' AS lacks,
           count(*) AS n, min(greatest(f.created_at, f.run_at, f.woken_at)) AS since
    FROM (SELECT q.due_at, q.run_at, q.created_at, q.woken_at, q.definition_id, q.lane_id, q.error_code
          FROM :schema.workflow_execution_queue q
          WHERE q.error_code IS NOT NULL AND q.due_at IS NOT NULL ORDER BY q.due_at LIMIT $2) f
    WHERE f.due_at > f.run_at GROUP BY f.definition_id, (f.lane_id >> 47), lacks
),
sets AS MATERIALIZED (
    SELECT t.group_id, t.set_id, count(o.id) = 0 AS is_lacking,
           coalesce(bool_or(o.engine_reachable AND o.capacity > o.running), false) AS has_room
    FROM (SELECT DISTINCT b.group_id, (b.lane_id >> 32 & 32767)::integer AS set_id FROM books b
          WHERE b.runnable > 0 AND b.lane_id >> 32 & 32767 <> 0) t
    JOIN :schema.handler_sets s ON s.id = t.set_id JOIN :schema.executor_groups g ON g.id = t.group_id
    LEFT JOIN :schema.live_workers o ON o.executor_group = g.name AND s.handlers <@ o.handlers
    GROUP BY t.group_id, t.set_id
),
lacking AS MATERIALIZED (SELECT k.group_id, k.set_id FROM sets k WHERE k.is_lacking),
runnable_unserved AS MATERIALIZED (
    SELECT q.definition_id, b.group_id, count(*) AS n
    FROM (SELECT b.lane_id, b.group_id FROM books b
          JOIN lacking k ON k.group_id = b.group_id AND k.set_id = (b.lane_id >> 32 & 32767)::integer WHERE b.runnable > 0) b
    CROSS JOIN LATERAL (SELECT r.definition_id FROM :schema.workflow_execution_queue r
                        WHERE r.lane_id = b.lane_id AND r.due_at IS NULL AND r.phase = 0 ORDER BY r.rank, r.id LIMIT $2) q
    GROUP BY q.definition_id, b.group_id
),
unserved AS MATERIALIZED (
    SELECT d.id AS definition_id, d.name AS workflow, g.name AS executor_group, b.n
    FROM backing_off b JOIN :schema.workflow_definitions d ON d.id = b.definition_id JOIN :schema.executor_groups g ON g.id = b.group_id
    WHERE b.lacks AND d.handlers <> '[]'
      AND NOT EXISTS (SELECT 1 FROM :schema.live_workers o WHERE o.executor_group = g.name AND d.handlers <@ o.handlers)
),
waits AS MATERIALIZED (
    SELECT (SELECT coalesce(sum(b.n), 0) FROM backing_off b) AS backing_off, (SELECT coalesce(sum(u.n), 0) FROM unserved u) AS no_worker
),
live_targets AS MATERIALIZED (SELECT t.executor_group, t.target_id FROM :schema.live_targets t),
handed AS (
    SELECT g.name, q.target_id, q.suspicion >= 4 AS is_quarantined, count(*) AS n
    FROM :schema.held_items q LEFT JOIN :schema.executor_groups g ON g.id = (q.lane_id >> 47)::integer
    WHERE q.claim_node = 0 GROUP BY g.name, q.target_id, is_quarantined
),
served AS MATERIALIZED (SELECT * FROM :schema.served_groups),
reasons AS (
    SELECT :schema.lane_reason(w.paused, s.queue_paused OR g.paused,
                               EXISTS (SELECT 1 FROM served o WHERE o.executor_group = g.name), a.executor_group IS NOT NULL,
                               a.engine_reachable, k.is_lacking, r.scheduled, u.held >= w.slots_max,
                               coalesce(k.has_room, a.has_room)) AS reason, b.runnable AS n
    FROM books b JOIN usage u ON u.workspace_id = b.workspace_id CROSS JOIN :schema.store_state s CROSS JOIN role r
    LEFT JOIN :schema.workspaces w ON w.id = b.workspace_id LEFT JOIN :schema.executor_groups g ON g.id = b.group_id
    LEFT JOIN served a ON a.executor_group = g.name AND a.on_temporal = ((b.lane_id >> 31) & 1 = 1)
    LEFT JOIN sets k ON k.group_id = b.group_id AND k.set_id = (b.lane_id >> 32 & 32767)::integer
    WHERE b.runnable > 0
    UNION ALL SELECT 'no_worker', f.no_worker FROM waits f
    UNION ALL SELECT 'backing_off', f.backing_off - f.no_worker FROM waits f
    UNION ALL SELECT 'scheduled', (SELECT coalesce(sum(b.waiting), 0) FROM books b) - f.backing_off FROM waits f
    UNION ALL
    SELECT CASE WHEN h.target_id <> 0 AND EXISTS (SELECT 1 FROM live_targets t WHERE t.executor_group = h.name)
                     AND NOT EXISTS (SELECT 1 FROM live_targets t WHERE t.executor_group = h.name AND t.target_id IN (0, h.target_id))
                THEN 'no_node_for_engine' WHEN h.is_quarantined THEN 'quarantined' ELSE 'handed_over' END, h.n
    FROM handed h
),
totals AS (
    SELECT coalesce(sum(u.held), 0) AS slots_used, coalesce(sum(u.waiting), 0) AS waiting, coalesce(sum(u.completed), 0) AS completed,
           coalesce(sum(u.failed), 0) AS failed,
           coalesce(sum(u.cancelled), 0) AS cancelled, (SELECT count(*) FROM :schema.workspaces) AS workspace_count
    FROM usage u
),
live AS (
    SELECT count(*) AS nodes, coalesce(sum(n.running), 0) AS running,
           (SELECT count(*) FROM :schema.workflow_execution_queue q
            WHERE q.stuck_at IS NOT NULL AND q.phase = 2 AND q.stuck_fence = q.fence) AS stuck,
           coalesce(bool_and(n.engine_reachable), true) AS engine_reachable, min(n.engine_impaired_at) AS impaired_at,
           min(n.engine_unreachable_at) AS unreachable_at, max(n.engine_error) AS engine_error
    FROM :schema.nodes n
    WHERE n.recovered_at IS NULL AND n.stopped_at IS NULL AND n.dead_at IS NULL AND n.expires_at > (SELECT us FROM now)
),
pressed AS (
    SELECT w.id, w.name, w.plan, w.slots_max, w.paused, coalesce(u.held, 0) AS slots_used, coalesce(u.pending, 0) AS pending,
           coalesce(u.delayed, 0) AS delayed, coalesce(u.waiting, 0) AS waiting, coalesce(u.completed, 0) AS completed,
           coalesce(u.failed, 0) AS failed,
           coalesce(u.cancelled, 0) AS cancelled
    FROM :schema.workspaces w LEFT JOIN usage u ON u.workspace_id = w.id
    ORDER BY coalesce(u.pending, 0) * 1.0 / w.slots_max DESC, w.name LIMIT $1
)
SELECT json_build_object(
    'pending', (SELECT coalesce(sum(b.runnable + b.waiting), 0) FROM books b), 'waiting', t.waiting, 'slots_used', t.slots_used,
    'completed', t.completed,
    'failed', t.failed, 'cancelled', t.cancelled, 'workspace_count', t.workspace_count,
    'scheduler', (SELECT json_build_object(
        'node', CASE WHEN r.node_id <> 0 THEN r.node END, 'node_id', nullif(r.node_id, 0), 'epoch', r.epoch,
        'taken_at', :schema.rfc3339(nullif(r.since, 0)), 'expires_at', CASE WHEN r.node_id <> 0 THEN :schema.rfc3339(r.expires_at) END,
        'lag_us', greatest(r.lag_us, 0), 'takeovers_hour', r.takeovers_hour, 'is_free', r.is_free OR r.expires_at <= r.now_us, 'why', r.why,
        'lock_awaited_since', CASE WHEN NOT r.is_free AND r.expires_at > r.now_us
                                   THEN :schema.rfc3339(nullif(r.lock_awaited_at, 0)) END,
        'failing_since', :schema.rfc3339(r.failed_at), 'error', r.error) FROM role r),
    'archive', (SELECT json_build_object('moved', a.moved, 'moved_at', :schema.rfc3339(a.moved_at), 'bytes', (
                    SELECT coalesce(sum(pg_total_relation_size(i.inhrelid)), 0)::bigint FROM pg_inherits i
                    WHERE i.inhparent IN (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                                          WHERE n.nspname = :'schema' AND c.relname LIKE 'archived\_%' AND c.relkind = 'p')),
                'problem', NULL) FROM :schema.archive_state a WHERE a.id = 1),
    'queue_paused', (SELECT s.queue_paused FROM :schema.store_state s WHERE s.id = 1),
    'schedules_late', (SELECT count(*) FROM :schema.schedules s
                       WHERE (s.expands_at IS NOT NULL OR NOT s.paused AND s.due_at IS NOT NULL)
                         AND CASE WHEN s.expands_at IS NOT NULL THEN coalesce(s.retry_at, 0) ELSE greatest(s.due_at, s.retry_at) END
                             < (SELECT us FROM now) - $7
                         AND coalesce(s.expands_at, 0) < (SELECT us FROM now) - $7),
    'nodes', l.nodes, 'running', l.running, 'stuck', l.stuck, 'engine_reachable', l.engine_reachable,
    'engine_error', coalesce(:schema.engine_error(NULL), l.engine_error), 'engine_impaired_since', :schema.rfc3339(l.impaired_at),
    'engine_unreachable_since', :schema.rfc3339(l.unreachable_at),
    'server', json_build_object(
        'server_version', current_setting('server_version'), 'notifications_percent', (pg_notification_queue_usage() * 100)::integer,
        'fsync', current_setting('fsync')::boolean,
        'full_page_writes', current_setting('full_page_writes')::boolean,
        'synchronous_commit', current_setting('synchronous_commit'),
        'synchronous_standby_names', current_setting('synchronous_standby_names')),
    'pending_reasons', (SELECT json_object_agg(r.reason, r.n) FROM (SELECT r.reason, sum(r.n) AS n FROM reasons r GROUP BY r.reason) r),
    'no_worker', (
        SELECT coalesce(json_agg(jsonb_build_object('workflow', u.workflow, 'executor_group', u.executor_group, 'waiting', u.n)
                                 || :schema.missing_worker(u.definition_id, u.executor_group)::jsonb), '[]')
        FROM (SELECT a.definition_id, a.workflow, a.executor_group, sum(a.n)::bigint AS n
              FROM (SELECT * FROM unserved
                    UNION ALL SELECT r.definition_id, d.name, g.name, r.n FROM runnable_unserved r
                    JOIN :schema.workflow_definitions d ON d.id = r.definition_id JOIN :schema.executor_groups g ON g.id = r.group_id) a
              GROUP BY a.definition_id, a.workflow, a.executor_group ORDER BY n DESC, a.workflow LIMIT $4) u),
    'stuck_executions', (
        SELECT coalesce(json_agg(s), '[]')
        FROM (SELECT q.id, w.name AS workspace, d.name AS workflow, n.name AS node, :schema.rfc3339(q.stuck_at) AS stuck_since,
                     :schema.unfinished_steps(q.id) AS unfinished_steps
              FROM :schema.workflow_execution_queue q LEFT JOIN :schema.workspaces w ON w.id = q.workspace_id
              LEFT JOIN :schema.workflow_definitions d ON d.id = q.definition_id LEFT JOIN :schema.nodes n ON n.id = q.node_id
              WHERE q.stuck_at IS NOT NULL AND q.phase = 2 AND q.stuck_fence = q.fence ORDER BY q.stuck_at LIMIT $5) s),
    'oldest_pending_age_us', coalesce((SELECT us FROM now) - least(
        (SELECT min(h.since) FROM (SELECT k.lane_id FROM books k WHERE k.runnable > 0 ORDER BY k.runnable DESC, k.lane_id LIMIT $6) l
         CROSS JOIN LATERAL (SELECT greatest(q.created_at, q.run_at, q.woken_at) AS since FROM :schema.workflow_execution_queue q
                             WHERE q.lane_id = l.lane_id AND q.due_at IS NULL AND q.phase = 0 ORDER BY q.rank, q.id LIMIT 1) h),
        (SELECT min(f.since) FROM backing_off f)), 0),
    'workspaces', (
        SELECT coalesce(json_agg(json_build_object(
            'name', p.name, 'plan', p.plan, 'slots_used', p.slots_used, 'slots_max', p.slots_max, 'paused', p.paused,
            'pending', p.pending, 'completed', p.completed, 'failed', p.failed, 'cancelled', p.cancelled, 'delayed', p.delayed,
            'waiting', p.waiting,
            'oldest_pending_age_us', (
                SELECT max((SELECT us FROM now) - h.since) FROM books b
                CROSS JOIN LATERAL (SELECT greatest(q.created_at, q.run_at, q.woken_at) AS since FROM :schema.workflow_execution_queue q
                                    WHERE q.lane_id = b.lane_id AND q.due_at IS NULL AND q.phase = 0
                                    ORDER BY q.rank, q.id LIMIT 1) h
                WHERE b.workspace_id = p.id))
            ORDER BY p.pending * 1.0 / p.slots_max DESC, p.name), '[]')
        FROM pressed p),
    'executor_groups', (
        SELECT coalesce(json_agg(json_build_object(
            'name', g.name, 'paused', g.paused, 'pending', coalesce(b.pending, 0), 'oldest_pending_age_us', o.oldest,
            'slots_used', coalesce(b.held, 0), 'nodes_live', :schema.nodes_live(g.name))
            ORDER BY g.name), '[]')
        FROM (SELECT e.id, e.name, e.paused FROM :schema.executor_groups e ORDER BY e.name LIMIT $3) g
        LEFT JOIN (SELECT k.group_id, sum(k.runnable + k.waiting) AS pending, sum(k.held) AS held FROM books k GROUP BY k.group_id) b
             ON b.group_id = g.id
        LEFT JOIN (SELECT l.group_id, max((SELECT us FROM now) - h.since) AS oldest
                   FROM (SELECT k.lane_id, k.group_id,
                                row_number() OVER (PARTITION BY k.group_id ORDER BY k.runnable DESC, k.lane_id) AS place
                         FROM books k WHERE k.runnable > 0) l
                   CROSS JOIN LATERAL (SELECT greatest(q.created_at, q.run_at, q.woken_at) AS since FROM :schema.workflow_execution_queue q
                                       WHERE q.lane_id = l.lane_id AND q.due_at IS NULL AND q.phase = 0
                                       ORDER BY q.rank, q.id LIMIT 1) h
                   WHERE l.place <= $6 GROUP BY l.group_id) o ON o.group_id = g.id),
    'now_at', (SELECT :schema.rfc3339(us) FROM now))
FROM totals t CROSS JOIN live l;
