-- Reading for people: the columns are the keys of the answers.

-- name: read_execution
SELECT * FROM executions WHERE id = ?1;

-- name: read_event_rows
SELECT * FROM execution_events WHERE execution_id = ?1;

-- name: read_step_rows
SELECT step, status, attempt, failures, exit_code, error_code, error,
       strftime('%Y-%m-%dT%H:%M:%S', due_at / 1000000, 'unixepoch') || printf('.%06dZ', due_at % 1000000) AS due_at,
       strftime('%Y-%m-%dT%H:%M:%S', started_at / 1000000, 'unixepoch') || printf('.%06dZ', started_at % 1000000) AS started_at,
       strftime('%Y-%m-%dT%H:%M:%S', finished_at / 1000000, 'unixepoch') || printf('.%06dZ', finished_at % 1000000) AS finished_at,
       (SELECT n.name FROM nodes n WHERE n.id = node_id) AS node, fence, CAST(output AS TEXT) AS output,
       CAST(variables AS TEXT) AS variables
FROM workflow_node_executions WHERE execution_id = ?1 ORDER BY started_at, step;

-- name: read_attempt_rows
SELECT step, attempt, status, exit_code, error_code, error,
       strftime('%Y-%m-%dT%H:%M:%S', started_at / 1000000, 'unixepoch') || printf('.%06dZ', started_at % 1000000) AS started_at,
       strftime('%Y-%m-%dT%H:%M:%S', finished_at / 1000000, 'unixepoch') || printf('.%06dZ', finished_at % 1000000) AS finished_at,
       (SELECT n.name FROM nodes n WHERE n.id = node_id) AS node, fence
FROM workflow_node_attempts WHERE execution_id = ?1 ORDER BY step, attempt;

-- name: list_workspaces
SELECT name, plan, slots_used, slots_max, max_concurrent, weight, json(CASE paused WHEN 1 THEN 'true' ELSE 'false' END) AS paused,
       pending, completed, failed, cancelled,
       strftime('%Y-%m-%dT%H:%M:%S', created_at / 1000000, 'unixepoch') || printf('.%06dZ', created_at % 1000000) AS created_at
FROM workspaces WHERE (?1 IS NULL OR name = ?1) AND name > ?2 ORDER BY name LIMIT ?3;

-- name: list_plans
SELECT name, max_concurrent, weight, (SELECT count(*) FROM workspaces w WHERE w.plan = p.name) AS workspaces
FROM plans p WHERE (?1 IS NULL OR name = ?1) AND name > ?2 ORDER BY name LIMIT ?3;

-- The newest version of each, or all versions of the one that is named. Cursor: the definition's id.
-- name: list_workflows
SELECT d.name AS name, w.name AS workspace, d.version AS version,
       strftime('%Y-%m-%dT%H:%M:%S', d.created_at / 1000000, 'unixepoch') || printf('.%06dZ', d.created_at % 1000000) AS created_at,
       d.definition AS definition, printf('%020d', d.id) AS cursor_key
FROM workflow_definitions d LEFT JOIN workspaces w ON w.id = d.workspace_id
WHERE (?1 IS NULL OR d.name = ?1) AND printf('%020d', d.id) > ?2
  AND (?1 IS NOT NULL
       OR d.version = (SELECT max(v.version) FROM workflow_definitions v WHERE v.name = d.name AND v.workspace_id = d.workspace_id))
ORDER BY d.id LIMIT ?3;

-- ?4 = store time.
-- name: list_nodes
SELECT n.id AS id, n.name AS name, n.executor_group AS executor_group, n.host AS host, n.pid AS pid, n.version AS version,
       n.engine AS engine, json(CASE n.engine_reachable WHEN 1 THEN 'true' ELSE 'false' END) AS engine_reachable,
       n.engine_error AS engine_error, n.wish AS wish,
       CASE WHEN n.stopped_at IS NOT NULL THEN 'stopped' WHEN n.dead_at IS NOT NULL THEN 'dead'
            WHEN n.expires_at <= ?4 THEN 'expired' WHEN n.aside = 'stopping' THEN 'stopping' WHEN n.wish = 'drain' THEN 'draining'
            WHEN n.wish = 'pause' THEN 'paused' ELSE coalesce(n.aside, 'alive') END AS state,
       CASE WHEN n.graceful IS NOT NULL THEN json(CASE n.graceful WHEN 1 THEN 'true' ELSE 'false' END) END AS graceful,
       n.running AS running, n.stuck AS stuck,
       (SELECT count(*) FROM workflow_execution_queue q WHERE q.phase = 2 AND q.node_id = n.id) AS holds,
       strftime('%Y-%m-%dT%H:%M:%S', n.started_at / 1000000, 'unixepoch') || printf('.%06dZ', n.started_at % 1000000) AS started,
       strftime('%Y-%m-%dT%H:%M:%S', n.active_at / 1000000, 'unixepoch') || printf('.%06dZ', n.active_at % 1000000) AS active,
       strftime('%Y-%m-%dT%H:%M:%S', n.expires_at / 1000000, 'unixepoch') || printf('.%06dZ', n.expires_at % 1000000) AS expires,
       strftime('%Y-%m-%dT%H:%M:%S', n.stopped_at / 1000000, 'unixepoch') || printf('.%06dZ', n.stopped_at % 1000000) AS stopped,
       strftime('%Y-%m-%dT%H:%M:%S', n.recovered_at / 1000000, 'unixepoch') || printf('.%06dZ', n.recovered_at % 1000000)
           AS recovered,
       n.boot_id AS boot_id, n.keeper_pid AS keeper_pid, printf('%020d', n.id) AS cursor_key
FROM nodes n WHERE (?1 IS NULL OR n.name = ?1) AND printf('%020d', n.id) > ?2 ORDER BY n.id LIMIT ?3;

-- name: list_locks
SELECT name, locked_by AS holder, json(CASE WHEN lock_until > ?4 THEN 'true' ELSE 'false' END) AS held,
       strftime('%Y-%m-%dT%H:%M:%S', locked_at / 1000000, 'unixepoch') || printf('.%06dZ', locked_at % 1000000) AS locked_at,
       strftime('%Y-%m-%dT%H:%M:%S', lock_until / 1000000, 'unixepoch') || printf('.%06dZ', lock_until % 1000000) AS lock_until,
       max(0, lock_until - ?4) / 1000000.0 AS seconds_left
FROM shedlock WHERE (?1 IS NULL OR name = ?1) AND name > ?2 ORDER BY name LIMIT ?3;

-- name: list_groups
SELECT name, json(CASE paused WHEN 1 THEN 'true' ELSE 'false' END) AS paused FROM executor_groups
WHERE (?1 IS NULL OR name = ?1) AND name > ?2 ORDER BY name LIMIT ?3;

-- Everything that why needs of one living item. ?2 = store time.
-- name: why_item
SELECT q.status, q.phase, q.node_id, q.rank, q.lane_id, q.run_at, q.due_at, q.attempts, q.deferrals, q.handovers, q.claimed_at,
       q.dispatched_at, q.created_at, w.name, w.plan, w.slots_used, w.slots_max, w.paused, s.queue_paused OR g.paused,
       EXISTS (SELECT 1 FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = l.executor_group AND n.dead_at IS NULL
               AND n.stopped_at IS NULL AND n.expires_at > ?2 AND n.wish = 'run' AND n.aside IS NULL),
       EXISTS (SELECT 1 FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = l.executor_group AND n.dead_at IS NULL
               AND n.stopped_at IS NULL AND n.expires_at > ?2 AND n.wish = 'run' AND n.aside IS NULL AND n.engine_reachable = 1),
       (SELECT n.name FROM nodes n WHERE n.id = q.node_id), l.executor_group, q.workspace_id, q.cancel_at, q.error_code, q.error,
       d.name, d.version, l.runnable, d.attempts_max,
       (SELECT max(n.engine_error) FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = l.executor_group
        AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > ?2 AND n.engine_reachable = 0),
       (SELECT count(*) FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = l.executor_group
        AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > ?2),
       (SELECT min(n.name) FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = l.executor_group
        AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > ?2 AND n.wish IN ('pause', 'drain')
        AND n.aside IS NULL),
       (SELECT min(n.engine_unreachable_at) FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = l.executor_group
        AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > ?2 AND n.engine_reachable = 0),
       o.engine_error, o.engine_unreachable_at,
       (SELECT n.active_at FROM nodes n WHERE n.id = q.node_id AND n.expires_at <= ?2)
FROM workflow_execution_queue q JOIN workspaces w ON w.id = q.workspace_id JOIN lanes l ON l.id = q.lane_id
JOIN executor_groups g ON g.name = l.executor_group JOIN workflow_definitions d ON d.id = q.definition_id
JOIN store_state s ON s.id = 1 LEFT JOIN nodes o ON o.id = q.node_id AND o.engine_reachable = 0
WHERE q.id = ?1;

-- How many go before it, counted up to a bound. Index: queue_runnable.
-- name: place_in_lane
SELECT count(*) FROM (SELECT 1 FROM workflow_execution_queue
                      WHERE lane_id = ?1 AND phase = 0
                        AND (rank, number) < (?2, (SELECT number FROM workflow_execution_queue WHERE id = ?3)) LIMIT ?4);

-- Who has the slots. Index: queue_held, by node.
-- name: slot_holders
SELECT q.id, q.status, n.name, q.claimed_at, q.dispatched_at,
       (SELECT group_concat(e.step, ', ') FROM workflow_node_executions e WHERE e.execution_id = q.id AND e.finished_at IS NULL)
FROM workflow_execution_queue q LEFT JOIN nodes n ON n.id = q.node_id
WHERE q.phase = 2 AND q.workspace_id = ?1 ORDER BY q.claimed_at LIMIT ?2;

-- name: status_totals
SELECT coalesce(sum(pending), 0), coalesce(sum(slots_used), 0), coalesce(sum(completed), 0), coalesce(sum(failed), 0),
       coalesce(sum(cancelled), 0), count(*), (SELECT queue_paused FROM store_state WHERE id = 1)
FROM workspaces;

-- The oldest that waits: ids begin with their time. Walks over held rows only.
-- name: oldest_pending
SELECT created_at FROM workflow_execution_queue WHERE phase <> 2 ORDER BY id LIMIT 1;

-- By pressure: what waits per slot.
-- name: status_workspaces
SELECT w.name AS name, w.plan AS plan, w.slots_used AS slots_used, w.slots_max AS slots_max,
       json(CASE w.paused WHEN 1 THEN 'true' ELSE 'false' END) AS paused, w.pending AS pending, w.completed AS completed,
       w.failed AS failed, w.cancelled AS cancelled,
       (SELECT coalesce(sum(l.waiting), 0) FROM lanes l WHERE l.workspace_id = w.id) AS waiting,
       (SELECT max(?2 - q.created_at) FROM lanes l JOIN workflow_execution_queue q
          ON q.id = (SELECT h.id FROM workflow_execution_queue h WHERE h.lane_id = l.id AND h.phase = 0 ORDER BY h.rank, h.id LIMIT 1)
        WHERE l.workspace_id = w.id) AS oldest_pending_age_us
FROM workspaces w ORDER BY w.pending * 1.0 / w.slots_max DESC, w.name LIMIT ?1;

-- name: status_groups
WITH books AS MATERIALIZED (
    SELECT l.executor_group AS name, sum(l.runnable + l.waiting) AS pending,
           max(CASE WHEN l.runnable > 0 THEN ?2 - (SELECT h.created_at FROM workflow_execution_queue h
               WHERE h.lane_id = l.id AND h.phase = 0 ORDER BY h.rank, h.number LIMIT 1) END) AS oldest
    FROM lanes l GROUP BY l.executor_group
)
SELECT g.name AS name, json(CASE g.paused WHEN 1 THEN 'true' ELSE 'false' END) AS paused, coalesce(b.pending, 0) AS pending,
       b.oldest AS oldest_pending_age_us
FROM executor_groups g LEFT JOIN books b ON b.name = g.name ORDER BY g.name LIMIT ?1;

-- name: status_nodes
SELECT count(*), coalesce(sum(running), 0), coalesce(sum(stuck), 0), coalesce(min(engine_reachable), 1),
       max(CASE engine_reachable WHEN 0 THEN engine_error END)
FROM nodes WHERE recovered_at IS NULL AND stopped_at IS NULL AND dead_at IS NULL AND expires_at > ?1;

-- What waits, by the reason that holds it back (queue/item.h). ?1 = store time; ?2 = how many of the waiting rows are looked at:
-- beyond it a row that backs off counts as scheduled. Reads lanes and nodes, and of the queue only indexes.
-- name: status_reasons
WITH backing_off AS (
    SELECT count(*) AS n FROM (SELECT due_at, run_at FROM workflow_execution_queue WHERE phase = 1 ORDER BY due_at LIMIT ?2)
    WHERE due_at > run_at
)
SELECT reason, sum(n) FROM (
    SELECT CASE
               WHEN w.paused = 1 THEN 'workspace_paused'
               WHEN s.queue_paused = 1 OR g.paused = 1 THEN 'queue_paused'
               WHEN NOT EXISTS (SELECT 1 FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = l.executor_group
                                AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > ?1
                                AND n.wish = 'run' AND n.aside IS NULL) THEN 'no_node_in_group'
               WHEN NOT EXISTS (SELECT 1 FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = l.executor_group
                                AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > ?1
                                AND n.wish = 'run' AND n.aside IS NULL AND n.engine_reachable = 1) THEN 'engine_unreachable'
               WHEN w.slots_used >= w.slots_max THEN 'workspace_at_capacity'
               ELSE 'ready'
           END AS reason, l.runnable AS n
    FROM lanes l JOIN workspaces w ON w.id = l.workspace_id JOIN executor_groups g ON g.name = l.executor_group
    CROSS JOIN store_state s WHERE l.runnable > 0
    UNION ALL SELECT 'backing_off', n FROM backing_off
    UNION ALL SELECT 'scheduled', (SELECT coalesce(sum(waiting), 0) FROM lanes) - n FROM backing_off
    UNION ALL SELECT 'handed_over', count(*) FROM workflow_execution_queue WHERE phase = 2 AND node_id = 0
) GROUP BY reason;
