-- Reading for people: the columns are the keys of the answers.

-- name: read_execution
SELECT * FROM executions WHERE id = ?1;

-- name: execution_lives
SELECT 1 FROM workflow_execution_queue WHERE id = ?1;

-- The workspace is read first, so that an execution of another one takes as long as a missing one. ?1 id, ?2 workspace
-- name: execution_in_workspace
SELECT 1 FROM workspaces w
WHERE w.name = ?2 AND (EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = ?1 AND q.workspace_id = w.id)
                       OR EXISTS (SELECT 1 FROM workflow_executions h WHERE h.id = ?1 AND h.workspace_id = w.id));

-- name: read_event_rows
SELECT * FROM execution_events WHERE execution_id = ?1 LIMIT ?3 OFFSET ?2;

-- name: count_event_rows
SELECT count(*) FROM execution_events WHERE execution_id = ?1;

-- name: read_step_rows
SELECT step, status, attempt, failures, exit_code, error_code, error, due_at, started_at, finished_at, node, fence, output, variables,
       signal
FROM execution_steps WHERE execution_id = ?1 ORDER BY started_at, step;

-- name: read_attempt_rows
SELECT step, attempt, status, exit_code, error_code, error,
       strftime('%Y-%m-%dT%H:%M:%S', started_at / 1000000, 'unixepoch') || printf('.%06dZ', started_at % 1000000) AS started_at,
       strftime('%Y-%m-%dT%H:%M:%S', finished_at / 1000000, 'unixepoch') || printf('.%06dZ', finished_at % 1000000) AS finished_at,
       (SELECT n.name FROM nodes n WHERE n.id = node_id) AS node, fence
FROM workflow_node_attempts WHERE execution_id = ?1 ORDER BY step, attempt;

-- ?4 and ?5: from this name on, and below that one. The index begins at the later one of the cursor and ?4. ?6 the store's time.
-- Only the lanes of the page are sought for their first items, of which the oldest gives the age.
-- name: list_workspaces
WITH page AS MATERIALIZED (
    SELECT w.* FROM workspaces w
    WHERE (?1 IS NULL OR w.name = ?1) AND w.name >= max(?2, ?4) AND w.name < ?5 AND +w.name > ?2 ORDER BY w.name LIMIT ?3
),
c AS MATERIALIZED (
    SELECT k.workspace_id, sum(k.held) AS held, sum(k.runnable + k.waiting) AS pending, sum(k.completed) AS completed,
           sum(k.failed) AS failed, sum(k.cancelled) AS cancelled, sum(k.parked) AS parked,
           min(CASE WHEN k.runnable > 0 THEN (SELECT max(q.created_at, q.run_at, coalesce(q.woken_at, 0)) FROM runnable_items q
                                              WHERE q.lane_id = k.lane_id ORDER BY q.rank, q.number LIMIT 1)
               END) AS oldest_at
    FROM lane_counters k WHERE k.workspace_id IN (SELECT p.id FROM page p) GROUP BY k.workspace_id
)
SELECT w.name AS name, w.plan AS plan, coalesce(c.held, 0) AS slots_used, w.slots_max AS slots_max,
       w.max_concurrent AS max_concurrent, w.weight AS weight, json(CASE w.paused WHEN 1 THEN 'true' ELSE 'false' END) AS paused,
       w.pending_max AS pending_max, w.max_pending AS max_pending,
       coalesce(c.pending, 0) AS pending, coalesce(c.parked, 0) AS waiting, coalesce(c.completed, 0) AS completed,
       coalesce(c.failed, 0) AS failed, coalesce(c.cancelled, 0) AS cancelled, ?6 - c.oldest_at AS oldest_pending_age_us,
       strftime('%Y-%m-%dT%H:%M:%S', w.created_at / 1000000, 'unixepoch') || printf('.%06dZ', w.created_at % 1000000) AS created_at
FROM page w LEFT JOIN c ON c.workspace_id = w.id ORDER BY w.name;

-- name: list_plans
SELECT name, max_concurrent, max_pending, weight, (SELECT count(*) FROM workspaces w WHERE w.plan = p.name) AS workspace_count
FROM plans p WHERE (?1 IS NULL OR name = ?1) AND name > ?2 ORDER BY name LIMIT ?3;

-- The newest version of each, or all versions of the one that is named, those with the YAML of their authors. Cursor: the definition's id.
-- ?4 a workspace: without it all, else those that it may run.
-- name: list_workflows
SELECT d.name AS name, w.name AS workspace, d.version AS version,
       strftime('%Y-%m-%dT%H:%M:%S', d.created_at / 1000000, 'unixepoch') || printf('.%06dZ', d.created_at % 1000000) AS created_at,
       json(CASE d.state WHEN 1 THEN 'true' ELSE 'false' END) AS disabled, d.definition AS definition,
       CASE WHEN ?1 IS NOT NULL THEN d.source END AS source, printf('%020d', d.id) AS cursor_key
FROM workflow_definitions d LEFT JOIN workspaces w ON w.id = d.workspace_id
WHERE d.state <> 2 AND (?1 IS NULL OR d.name = ?1) AND printf('%020d', d.id) > ?2
  AND (?4 IS NULL OR d.workspace_id = 0 OR w.name = ?4)
  AND (?1 IS NOT NULL
       OR d.version = (SELECT max(v.version) FROM workflow_definitions v WHERE v.name = d.name AND v.workspace_id = d.workspace_id))
ORDER BY d.id LIMIT ?3;

-- ?4 = store time.
-- name: list_nodes
SELECT n.id AS id, n.name AS name, n.executor_group AS executor_group, n.host AS host, n.pid AS pid, n.version AS weir_version,
       n.engine AS engine, t.service AS engine_service, t.namespace AS engine_namespace, t.address AS engine_address,
       json(CASE n.engine_reachable WHEN 1 THEN 'true' ELSE 'false' END) AS engine_reachable,
       n.engine_error AS engine_error,
       strftime('%Y-%m-%dT%H:%M:%S', n.engine_impaired_at / 1000000, 'unixepoch')
           || printf('.%06dZ', n.engine_impaired_at % 1000000) AS engine_impaired_since,
       strftime('%Y-%m-%dT%H:%M:%S', n.dispatch_failed_at / 1000000, 'unixepoch')
           || printf('.%06dZ', n.dispatch_failed_at % 1000000) AS dispatch_failing_since, n.dispatch_error AS dispatch_error,
       strftime('%Y-%m-%dT%H:%M:%S', n.record_failed_at / 1000000, 'unixepoch')
           || printf('.%06dZ', n.record_failed_at % 1000000) AS record_failing_since, n.record_error AS record_error,
       n.desired_state AS desired_state,
       CASE WHEN n.stopped_at IS NOT NULL THEN 'stopped' WHEN n.dead_at IS NOT NULL THEN 'dead'
            WHEN n.expires_at <= ?4 THEN 'expired' WHEN n.not_accepting = 'stopping' THEN 'stopping'
            WHEN n.desired_state = 'drain' THEN CASE WHEN n.drained_at IS NULL THEN 'draining' ELSE 'drained' END
            WHEN n.desired_state = 'pause' THEN 'paused' ELSE coalesce(n.not_accepting, 'alive') END AS state,
       CASE WHEN n.graceful IS NOT NULL THEN json(CASE n.graceful WHEN 1 THEN 'true' ELSE 'false' END) END AS graceful,
       n.running AS running, n.stuck AS stuck,
       (SELECT count(*) FROM workflow_execution_queue q WHERE q.phase = 2 AND q.node_id = n.id) AS holds,
       json(CASE WHEN n.id = (SELECT r.node_id FROM scheduler r) THEN 'true' ELSE 'false' END) AS schedules,
       strftime('%Y-%m-%dT%H:%M:%S', n.started_at / 1000000, 'unixepoch') || printf('.%06dZ', n.started_at % 1000000) AS started_at,
       strftime('%Y-%m-%dT%H:%M:%S', n.active_at / 1000000, 'unixepoch') || printf('.%06dZ', n.active_at % 1000000) AS seen_at,
       strftime('%Y-%m-%dT%H:%M:%S', n.expires_at / 1000000, 'unixepoch') || printf('.%06dZ', n.expires_at % 1000000) AS expires_at,
       strftime('%Y-%m-%dT%H:%M:%S', n.drained_at / 1000000, 'unixepoch') || printf('.%06dZ', n.drained_at % 1000000) AS drained_at,
       strftime('%Y-%m-%dT%H:%M:%S', n.stopped_at / 1000000, 'unixepoch') || printf('.%06dZ', n.stopped_at % 1000000) AS stopped_at,
       strftime('%Y-%m-%dT%H:%M:%S', n.recovered_at / 1000000, 'unixepoch') || printf('.%06dZ', n.recovered_at % 1000000)
           AS recovered_at,
       n.language AS language, n.handlers AS handlers, n.capacity AS capacity,
       n.boot_id AS boot_id, n.keeper_pid AS keeper_pid, printf('%020d', n.id) AS cursor_key
FROM nodes n LEFT JOIN engine_targets t ON t.id = n.target_id
WHERE (?1 IS NULL OR n.name = ?1) AND printf('%020d', n.id) > ?2 ORDER BY n.id LIMIT ?3;

-- name: list_locks
SELECT name, locked_by AS holder, json(CASE WHEN lock_until > ?4 THEN 'true' ELSE 'false' END) AS held,
       strftime('%Y-%m-%dT%H:%M:%S', locked_at / 1000000, 'unixepoch') || printf('.%06dZ', locked_at % 1000000) AS locked_at,
       strftime('%Y-%m-%dT%H:%M:%S', lock_until / 1000000, 'unixepoch') || printf('.%06dZ', lock_until % 1000000) AS lock_until,
       max(0, lock_until - ?4) AS left_us
FROM shedlock WHERE (?1 IS NULL OR name = ?1) AND name > ?2 ORDER BY name LIMIT ?3;

-- name: list_groups
SELECT name, json(CASE paused WHEN 1 THEN 'true' ELSE 'false' END) AS paused FROM executor_groups
WHERE (?1 IS NULL OR name = ?1) AND name > ?2 ORDER BY name LIMIT ?3;

-- Everything that why needs of one living item. ?2 = store time.
-- name: why_item
SELECT q.status, q.phase, q.node_id, q.rank, q.lane_id, q.run_at, nullif(q.due_at, 9223372036854775807),
       q.starts_refused, q.deferrals, q.handovers, q.claimed_at,
       q.dispatched_at, q.created_at, w.name, w.plan,
       (SELECT count(*) FROM workflow_execution_queue h
        WHERE h.phase = 2 AND h.lane_id IN (SELECT a.base | q.workspace_id FROM group_lanes a)),
       w.slots_max, w.paused, s.queue_paused OR g.paused,
       EXISTS (SELECT 1 FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = g.name AND n.dead_at IS NULL
               AND n.stopped_at IS NULL AND n.expires_at > ?2 AND n.desired_state = 'run' AND n.not_accepting IS NULL),
       EXISTS (SELECT 1 FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = g.name AND n.dead_at IS NULL
               AND n.stopped_at IS NULL AND n.expires_at > ?2 AND n.desired_state = 'run' AND n.not_accepting IS NULL
               AND n.engine_reachable = 1 AND (n.engine = 'temporal') = ((q.lane_id >> 31) & 1)),
       (SELECT n.name FROM nodes n WHERE n.id = q.node_id), g.name, q.workspace_id, q.cancel_at, q.error_code, q.error,
       d.name, d.version,
       coalesce((SELECT l.runnable FROM lane_counters l WHERE l.lane_id = q.lane_id), 0),
       d.starts_max,
       (SELECT max(n.engine_error) FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = g.name
        AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > ?2 AND n.engine_reachable = 0),
       (SELECT count(*) FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = g.name
        AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > ?2),
       (SELECT min(n.name) FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = g.name
        AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > ?2 AND n.desired_state IN ('pause', 'drain')
        AND n.not_accepting IS NULL),
       (SELECT min(n.engine_unreachable_at) FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = g.name
        AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > ?2 AND n.engine_reachable = 0),
       o.engine_error, o.engine_unreachable_at,
       (SELECT n.active_at FROM nodes n WHERE n.id = q.node_id AND n.expires_at <= ?2),
       r.node_id <> 0 AND r.expires_at > ?2 AND r.lock_awaited_at = 0 AND NOT EXISTS (SELECT 1 FROM role_failure f WHERE f.has_role),
       o.engine_impaired_at, q.suspicion, q.suspected_at,
       q.target_id <> 0
       AND EXISTS (SELECT 1 FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = g.name AND n.dead_at IS NULL
                   AND n.stopped_at IS NULL AND n.expires_at > ?2)
       AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = g.name AND n.dead_at IS NULL
                       AND n.stopped_at IS NULL AND n.expires_at > ?2 AND n.target_id IN (0, q.target_id)),
       t.engine, t.service, t.namespace, t.address,
       CASE q.phase WHEN 2
           THEN coalesce((SELECT max(n.active_at) FROM nodes n WHERE n.executor_group = g.name AND n.target_id = q.target_id),
                         q.claimed_at)
           ELSE coalesce((SELECT max(n.active_at) FROM nodes n WHERE n.executor_group = g.name
                          AND (n.engine = 'temporal') = ((q.lane_id >> 31) & 1)), q.created_at) END,
       EXISTS (SELECT 1 FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = g.name AND n.dead_at IS NULL
               AND n.stopped_at IS NULL AND n.expires_at > ?2 AND n.desired_state = 'run' AND n.not_accepting IS NULL
               AND (n.engine = 'temporal') = ((q.lane_id >> 31) & 1)),
       q.definition_id, CASE WHEN q.phase = 2 AND q.stuck_fence = q.fence THEN q.stuck_at END, q.waiting_for,
       o.record_failed_at, o.record_error
FROM workflow_execution_queue q CROSS JOIN store_state s CROSS JOIN scheduler r LEFT JOIN workspaces w ON w.id = q.workspace_id
LEFT JOIN executor_groups g ON g.id = q.lane_id >> 47 LEFT JOIN workflow_definitions d ON d.id = q.definition_id
LEFT JOIN nodes o ON o.id = q.node_id AND (o.engine_reachable = 0 OR o.engine_impaired_at IS NOT NULL OR o.record_failed_at IS NOT NULL)
LEFT JOIN engine_targets t ON t.id = q.target_id
WHERE q.id = ?1;

-- The live nodes of a group that could run an item, by their last heartbeat: how many, what they can hold at once and what they run. At
-- last whether one of them has free capacity. ?1 group, ?2 store time, ?3 lane, ?4 definition
-- name: room_of_group
SELECT count(*), coalesce(sum(n.capacity), 0), coalesce(sum(n.running), 0), coalesce(max(n.capacity > n.running), 0)
FROM nodes n LEFT JOIN workflow_definitions d ON d.id = ?4
WHERE n.recovered_at IS NULL AND n.executor_group = ?1 AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.desired_state = 'run'
  AND n.not_accepting IS NULL AND n.expires_at > ?2 AND n.engine_reachable = 1 AND (n.engine = 'temporal') = ((?3 >> 31) & 1)
  AND (d.handlers IS NULL OR d.handlers = '[]'
       OR NOT EXISTS (SELECT 1 FROM json_each(d.handlers) h WHERE h.value NOT IN (SELECT o.value FROM json_each(n.handlers) o)));

-- The targets of the live nodes of a group. ?1 group, ?2 store time.
-- name: targets_of_group
SELECT t.engine, t.service, t.namespace, t.address FROM engine_targets t
WHERE EXISTS (SELECT 1 FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = ?1 AND n.target_id = t.id
              AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > ?2)
ORDER BY t.id LIMIT 20;

-- How many go before it, counted up to a bound. Index: queue_runnable.
-- name: place_in_lane
SELECT count(*) FROM (SELECT 1 FROM runnable_items
                      WHERE lane_id = ?1
                        AND (rank, number) < (?2, (SELECT number FROM workflow_execution_queue WHERE id = ?3)) LIMIT ?4);

-- The holders of the slots of a workspace. Index: queue_held.
-- name: slot_holders
SELECT q.id, q.status, n.name, q.claimed_at, CASE WHEN q.woken_at IS NULL THEN q.dispatched_at END,
       (SELECT group_concat(e.step, ', ') FROM workflow_node_executions e WHERE e.execution_id = q.id AND e.finished_at IS NULL),
       g.name,
       CASE WHEN q.node_id = 0 THEN (SELECT count(*) FROM nodes o WHERE o.recovered_at IS NULL AND o.executor_group = g.name
                                     AND o.dead_at IS NULL AND o.stopped_at IS NULL AND o.expires_at > ?3) END
FROM workflow_execution_queue q LEFT JOIN nodes n ON n.id = q.node_id LEFT JOIN executor_groups g ON g.id = q.lane_id >> 47
WHERE q.phase = 2 AND q.lane_id IN (SELECT a.base | ?1 FROM group_lanes a) ORDER BY q.claimed_at LIMIT ?2;

-- The steps that run, or wait for their next attempt. A RUNNING one of an execution without a node was interrupted.
-- name: unfinished_steps
WITH own AS MATERIALIZED (
    SELECT d.definition FROM workflow_execution_queue q JOIN workflow_definitions d ON d.id = q.definition_id WHERE q.id = ?1
)
SELECT e.step,
       CASE WHEN status = 'RUNNING' AND EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = ?1 AND q.phase = 2 AND q.node_id = 0)
            THEN 'INTERRUPTED' ELSE status END AS status, attempt,
       strftime('%Y-%m-%dT%H:%M:%S', started_at / 1000000, 'unixepoch') || printf('.%06dZ', started_at % 1000000) AS started_at,
       strftime('%Y-%m-%dT%H:%M:%S', due_at / 1000000, 'unixepoch') || printf('.%06dZ', due_at % 1000000) AS due_at,
       CASE WHEN signal NOT LIKE 'children:%' AND signal NOT LIKE 'manual:%' THEN signal END AS signal,
       CASE WHEN e.step = 'state' AND json_valid(CAST(variables AS TEXT)) THEN CAST(variables AS TEXT) ->> '$.state' END AS state,
       CASE WHEN signal LIKE 'approve:%' THEN
           (SELECT group_concat(b.value, ', ') FROM own, json_each(own.definition, '$.steps."' || e.step || '".approve.by') b)
       END AS approvers,
       CASE WHEN signal LIKE 'approve:%' THEN
           (SELECT json_extract(own.definition, '$.steps."' || e.step || '".approve.prompt') FROM own) END AS prompt,
       error_code, error,
       (SELECT json_extract(own.definition, '$.steps."' || e.step || '".retry.attempts') FROM own) AS attempts_max,
       w.count AS children_count, w.ended AS children_ended,
       (SELECT c.child_id FROM children c WHERE c.parent_id = ?1 AND c.step = e.step AND c.status IS NULL ORDER BY c.position LIMIT 1)
           AS oldest_child_id
FROM workflow_node_executions e LEFT JOIN child_steps w ON w.parent_id = e.execution_id AND w.step = e.step
WHERE e.execution_id = ?1 AND finished_at IS NULL ORDER BY e.step LIMIT 20;

-- The stuck executions, the longest first. Index: queue_stuck.
-- name: status_stuck
SELECT q.id AS id, w.name AS workspace, d.name AS workflow, n.name AS node,
       strftime('%Y-%m-%dT%H:%M:%S', q.stuck_at / 1000000, 'unixepoch') || printf('.%06dZ', q.stuck_at % 1000000) AS stuck_since
FROM workflow_execution_queue q LEFT JOIN workspaces w ON w.id = q.workspace_id
LEFT JOIN workflow_definitions d ON d.id = q.definition_id LEFT JOIN nodes n ON n.id = q.node_id
WHERE q.stuck_at IS NOT NULL AND q.phase = 2 AND q.stuck_fence = q.fence ORDER BY q.stuck_at LIMIT ?1;

-- ?1 a schedule that was due before is late, and so is one whose firings in parts do not get on. The params of schedules lie before
-- due_at in a row, so only the expression of the index is read. Index: schedules_due.
-- name: status_totals
SELECT queue_paused,
       (SELECT count(*) FROM schedules s
        WHERE (s.expands_at IS NOT NULL OR s.paused = 0 AND s.due_at IS NOT NULL)
          AND CASE WHEN s.expands_at IS NOT NULL THEN coalesce(s.retry_at, 0) ELSE max(s.due_at, coalesce(s.retry_at, 0)) END < ?1
          AND coalesce(s.expands_at, 0) < ?1)
FROM store_state WHERE id = 1;

-- Since when the next item of a lane could run. ?1 lane
-- name: first_of_lane
SELECT max(created_at, run_at, coalesce(woken_at, 0)) FROM runnable_items
WHERE lane_id = ?1 ORDER BY rank, number LIMIT 1;

-- Since when the oldest one of the rows that back off could run. ?1 how many of them are looked at
-- name: oldest_backing_off
SELECT min(since)
FROM (SELECT max(created_at, run_at, coalesce(woken_at, 0)) AS since FROM workflow_execution_queue
      WHERE error_code IS NOT NULL AND due_at IS NOT NULL ORDER BY due_at LIMIT ?1)
HAVING min(since) IS NOT NULL;

-- All workspaces, in the order of their ids.
-- name: status_workspaces
SELECT id, name, plan, slots_max, paused FROM workspaces ORDER BY id;

-- ?1 at most, ?2 = store time
-- name: status_groups
SELECT g.id, g.name, g.paused,
       (SELECT count(*) FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = g.name AND n.dead_at IS NULL
        AND n.stopped_at IS NULL AND n.expires_at > ?2)
FROM executor_groups g ORDER BY g.name LIMIT ?1;

-- The time of the oldest row of the news that is not in the books yet.
-- name: oldest_news
SELECT at FROM news ORDER BY seq LIMIT 1;

-- name: status_nodes
SELECT count(*), coalesce(sum(running), 0),
       (SELECT count(*) FROM workflow_execution_queue q WHERE q.stuck_at IS NOT NULL AND q.phase = 2 AND q.stuck_fence = q.fence),
       coalesce(min(engine_reachable), 1),
       coalesce(max(CASE engine_reachable WHEN 0 THEN engine_error END), max(engine_error)), min(engine_impaired_at),
       min(engine_unreachable_at)
FROM nodes WHERE recovered_at IS NULL AND stopped_at IS NULL AND dead_at IS NULL AND expires_at > ?1;

-- The handlers of a definition that no live node of a group has, or all of them when no node has all. Also the node that had
-- them last: until its last heartbeat, or until it lost the first of them. ?1 definition, ?2 group, ?3 store time
-- name: missing_worker
WITH w AS (
    SELECT CASE WHEN EXISTS (SELECT 1 FROM nodes n
                             WHERE n.recovered_at IS NULL AND n.executor_group = ?2 AND n.dead_at IS NULL AND n.stopped_at IS NULL
                               AND n.desired_state = 'run' AND n.not_accepting IS NULL AND n.expires_at > ?3
                               AND NOT EXISTS (SELECT 1 FROM json_each(d.handlers) h
                                               WHERE h.value NOT IN (SELECT o.value FROM json_each(n.handlers) o)))
                THEN '[]'
                ELSE coalesce(nullif((SELECT json_group_array(h.value) FROM json_each(d.handlers) h
                                      WHERE NOT EXISTS (SELECT 1 FROM nodes n, json_each(n.handlers) o
                                                        WHERE n.recovered_at IS NULL AND n.executor_group = ?2 AND n.dead_at IS NULL
                                                          AND n.stopped_at IS NULL AND n.desired_state = 'run'
                                                          AND n.not_accepting IS NULL AND n.expires_at > ?3 AND o.value = h.value)),
                                     '[]'), d.handlers) END AS handlers_missing,
           (SELECT json_group_array(l.name) FROM (SELECT n.name FROM nodes n
            WHERE n.recovered_at IS NULL AND n.executor_group = ?2 AND n.dead_at IS NULL AND n.stopped_at IS NULL
              AND n.expires_at > ?3 ORDER BY n.id LIMIT 20) l) AS group_nodes,
           (SELECT k.had_at FROM handler_nodes k WHERE k.definition_id = d.id AND k.node_id = p.id) AS had_at,
           p.name AS last_worker, p.language AS last_worker_language
    FROM workflow_definitions d
    LEFT JOIN nodes p ON p.id = (
        SELECT k.node_id FROM handler_nodes k WHERE k.definition_id = d.id AND k.executor_group = ?2
        ORDER BY k.had_at DESC LIMIT 1)
    WHERE d.id = ?1 AND d.handlers <> '[]'
)
SELECT handlers_missing, group_nodes,
       strftime('%Y-%m-%dT%H:%M:%S', had_at / 1000000, 'unixepoch') || printf('.%06dZ', had_at % 1000000) AS no_worker_since,
       last_worker, last_worker_language
FROM w;

-- Workflows whose items wait because no live node has their handlers, the most waiting first. ?1 store time, ?2 how many of the waiting
-- rows are looked at, ?3 at most
-- name: status_unserved
WITH c AS MATERIALIZED (SELECT lane_id, group_id, runnable FROM lane_counters WHERE runnable > 0 AND (lane_id >> 32) & 32767 <> 0),
lacking AS MATERIALIZED (
    SELECT t.group_id, t.set_id
    FROM (SELECT DISTINCT group_id, (lane_id >> 32) & 32767 AS set_id FROM c WHERE runnable > 0 AND (lane_id >> 32) & 32767 <> 0) t
    JOIN handler_sets s ON s.id = t.set_id JOIN executor_groups g ON g.id = t.group_id
    WHERE NOT EXISTS (SELECT 1 FROM nodes n
                      WHERE n.recovered_at IS NULL AND n.executor_group = g.name AND n.dead_at IS NULL AND n.stopped_at IS NULL
                        AND n.desired_state = 'run' AND n.not_accepting IS NULL AND n.expires_at > ?1
                        AND NOT EXISTS (SELECT 1 FROM json_each(s.handlers) h
                                        WHERE h.value NOT IN (SELECT o.value FROM json_each(n.handlers) o)))
),
w AS MATERIALIZED (
    SELECT definition_id, lane_id >> 47 AS group_id, count(*) AS waiting
    FROM (SELECT * FROM (SELECT definition_id, lane_id, due_at > run_at AND error_code = 'unknown_handler' AS lacks
                         FROM workflow_execution_queue WHERE error_code IS NOT NULL AND due_at IS NOT NULL ORDER BY due_at LIMIT ?2)
          UNION ALL
          SELECT * FROM (SELECT q.definition_id, q.lane_id, 1 FROM lacking k
                         JOIN c ON c.group_id = k.group_id AND (c.lane_id >> 32) & 32767 = k.set_id AND c.runnable > 0
                         CROSS JOIN runnable_items q ON q.lane_id = c.lane_id LIMIT ?2))
    WHERE lacks GROUP BY definition_id, group_id
),
u AS MATERIALIZED (
    SELECT d.name AS workflow, g.name AS executor_group, w.waiting AS waiting,
    CASE WHEN EXISTS (SELECT 1 FROM nodes n
                         WHERE n.recovered_at IS NULL AND n.executor_group = g.name AND n.dead_at IS NULL AND n.stopped_at IS NULL
                           AND n.desired_state = 'run' AND n.not_accepting IS NULL AND n.expires_at > ?1
                           AND NOT EXISTS (SELECT 1 FROM json_each(d.handlers) h
                                           WHERE h.value NOT IN (SELECT o.value FROM json_each(n.handlers) o)))
            THEN '[]'
            ELSE coalesce(nullif((SELECT json_group_array(h.value) FROM json_each(d.handlers) h
                                  WHERE NOT EXISTS (SELECT 1 FROM nodes n, json_each(n.handlers) o
                                                    WHERE n.recovered_at IS NULL AND n.executor_group = g.name AND n.dead_at IS NULL
                                                      AND n.stopped_at IS NULL AND n.desired_state = 'run'
                                                      AND n.not_accepting IS NULL AND n.expires_at > ?1 AND o.value = h.value)),
                                 '[]'), d.handlers) END AS handlers_missing,
       (SELECT json_group_array(l.name) FROM (SELECT n.name FROM nodes n
        WHERE n.recovered_at IS NULL AND n.executor_group = g.name AND n.dead_at IS NULL AND n.stopped_at IS NULL
          AND n.expires_at > ?1 ORDER BY n.id LIMIT 20) l) AS group_nodes,
       (SELECT k.had_at FROM handler_nodes k WHERE k.definition_id = d.id AND k.node_id = p.id) AS had_at,
       p.name AS last_worker, p.language AS last_worker_language
    FROM w JOIN workflow_definitions d ON d.id = w.definition_id JOIN executor_groups g ON g.id = w.group_id
    LEFT JOIN nodes p ON p.id = (
        SELECT k.node_id FROM handler_nodes k WHERE k.definition_id = d.id AND k.executor_group = g.name
        ORDER BY k.had_at DESC LIMIT 1)
    WHERE d.handlers <> '[]'
)
SELECT workflow, executor_group, waiting, handlers_missing, group_nodes,
       strftime('%Y-%m-%dT%H:%M:%S', had_at / 1000000, 'unixepoch') || printf('.%06dZ', had_at % 1000000) AS no_worker_since,
       last_worker, last_worker_language
FROM u WHERE handlers_missing <> '[]' ORDER BY waiting DESC, workflow LIMIT ?3;

-- Waiting items, by the reason that holds them back (queue/item.h). ?1 = store time; ?2 = how many of the waiting rows are looked at:
-- beyond it a row that backs off counts as scheduled. ?3 lanes by their kind (status_sums.h), ?4 items that wait for a time. Of the queue
-- only indexes are read.
-- name: status_reasons
WITH lanes AS MATERIALIZED (
    SELECT value ->> 0 AS group_id, value ->> 1 AS on_temporal, value ->> 2 AS set_id, value ->> 3 AS paused, value ->> 4 AS is_full,
           value ->> 5 AS runnable FROM json_each(?3)
),
backing_off AS MATERIALIZED (
    SELECT definition_id, lane_id >> 47 AS group_id, error_code IS 'unknown_handler' AS lacks, count(*) AS n
    FROM (SELECT due_at, run_at, definition_id, lane_id, error_code FROM workflow_execution_queue
          WHERE error_code IS NOT NULL AND due_at IS NOT NULL ORDER BY due_at LIMIT ?2)
    WHERE due_at > run_at GROUP BY definition_id, group_id, lacks
),
unserved AS MATERIALIZED (
    SELECT coalesce(sum(b.n), 0) AS n
    FROM backing_off b JOIN workflow_definitions d ON d.id = b.definition_id JOIN executor_groups g ON g.id = b.group_id
    WHERE b.lacks AND d.handlers <> '[]'
      AND NOT EXISTS (SELECT 1 FROM nodes n
                      WHERE n.recovered_at IS NULL AND n.executor_group = g.name AND n.dead_at IS NULL AND n.stopped_at IS NULL
                        AND n.desired_state = 'run' AND n.not_accepting IS NULL AND n.expires_at > ?1
                        AND NOT EXISTS (SELECT 1 FROM json_each(d.handlers) h
                                        WHERE h.value NOT IN (SELECT o.value FROM json_each(n.handlers) o)))
),
sets AS MATERIALIZED (
    SELECT t.group_id, t.set_id, count(n.id) AS nodes, coalesce(max(n.engine_reachable AND n.capacity > n.running), 0) AS has_room
    FROM (SELECT DISTINCT group_id, set_id FROM lanes WHERE set_id <> 0) t
    JOIN handler_sets s ON s.id = t.set_id JOIN executor_groups g ON g.id = t.group_id
    LEFT JOIN nodes n ON n.recovered_at IS NULL AND n.executor_group = g.name AND n.dead_at IS NULL AND n.stopped_at IS NULL
                         AND n.desired_state = 'run' AND n.not_accepting IS NULL AND n.expires_at > ?1
                         AND NOT EXISTS (SELECT 1 FROM json_each(s.handlers) h
                                         WHERE h.value NOT IN (SELECT o.value FROM json_each(n.handlers) o))
    GROUP BY t.group_id, t.set_id
),
live AS MATERIALIZED (
    SELECT DISTINCT n.executor_group AS name, n.target_id FROM nodes n
    WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > ?1
),
handed AS (
    SELECT CASE WHEN q.target_id <> 0 AND EXISTS (SELECT 1 FROM live l WHERE l.name = g.name)
                     AND NOT EXISTS (SELECT 1 FROM live l WHERE l.name = g.name AND l.target_id IN (0, q.target_id))
                THEN 'no_node_for_engine' ELSE 'handed_over' END AS reason
    FROM workflow_execution_queue q LEFT JOIN executor_groups g ON g.id = q.lane_id >> 47 WHERE q.phase = 2 AND q.node_id = 0
),
served AS MATERIALIZED (
    SELECT n.executor_group AS name, n.engine = 'temporal' AS on_temporal, max(n.engine_reachable) AS reaches,
           max(n.engine_reachable AND n.capacity > n.running) AS has_room
    FROM nodes n
    WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > ?1 AND n.desired_state = 'run'
      AND n.not_accepting IS NULL
    GROUP BY n.executor_group, on_temporal
)
SELECT reason, sum(n) FROM (
    SELECT CASE
               WHEN l.paused = 1 THEN 'workspace_paused'
               WHEN s.queue_paused = 1 OR g.paused = 1 THEN 'queue_paused'
               WHEN NOT EXISTS (SELECT 1 FROM served o WHERE o.name = g.name) THEN 'no_node_in_group'
               WHEN v.name IS NULL THEN 'no_node_for_engine'
               WHEN v.reaches = 0 THEN 'engine_unreachable'
               WHEN k.nodes = 0 THEN 'no_worker'
               WHEN r.node_id = 0 OR r.expires_at <= ?1 OR r.lock_awaited_at > 0 OR EXISTS (SELECT 1 FROM role_failure f WHERE f.has_role)
                   THEN 'no_scheduler'
               WHEN l.is_full THEN 'workspace_at_capacity'
               WHEN coalesce(k.has_room, v.has_room) = 0 THEN 'nodes_full'
               ELSE 'ready'
           END AS reason, l.runnable AS n
    FROM lanes l CROSS JOIN store_state s CROSS JOIN scheduler r LEFT JOIN executor_groups g ON g.id = l.group_id
    LEFT JOIN served v ON v.name = g.name AND v.on_temporal = l.on_temporal
    LEFT JOIN sets k ON k.group_id = l.group_id AND k.set_id = l.set_id
    UNION ALL SELECT 'no_worker', n FROM unserved
    UNION ALL SELECT 'backing_off', (SELECT coalesce(sum(n), 0) FROM backing_off) - n FROM unserved
    UNION ALL SELECT 'scheduled', ?4 - (SELECT coalesce(sum(n), 0) FROM backing_off)
    UNION ALL SELECT reason, count(*) FROM handed GROUP BY reason
) GROUP BY reason;
