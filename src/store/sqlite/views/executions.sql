-- One row per execution, live or ended.
-- Engines know an execution as execution-<id>.
-- pending_reason follows the order of queue/item.h. due_at: when a PENDING or WAITING one may go on by itself. Store time is the wall
-- clock of the reader plus the distance that the last writer has noted. The workspace or the definition of an item may be gone: then its
-- name is NULL. labels and progress are JSON: their texts have no control
-- characters, and a view may not call the functions of JSON.
DROP VIEW IF EXISTS executions;
CREATE VIEW executions AS
SELECT q.id AS id, w.name AS workspace, d.name AS workflow, d.version AS version, q.status AS status,
       CASE
           WHEN q.phase = 2 AND q.node_id <> 0 OR q.phase = 3 THEN NULL
           WHEN q.phase = 2 AND q.target_id <> 0
                AND EXISTS (SELECT 1 FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = g.name
                            AND n.dead_at IS NULL AND n.stopped_at IS NULL
                            AND n.expires_at >
                                CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER) + s.wall_offset)
                AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = g.name
                                AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.target_id IN (0, q.target_id)
                                AND n.expires_at >
                                    CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER) + s.wall_offset)
                THEN 'no_node_for_engine'
           WHEN q.phase = 2 AND q.suspicion >= 4 THEN 'quarantined'
           WHEN q.phase = 2 THEN 'handed_over'
           WHEN q.phase = 1 AND q.due_at > q.run_at AND q.error_code = 'unknown_handler' AND d.handlers <> '[]' AND NOT EXISTS (
                    SELECT 1 FROM nodes n
                    WHERE n.recovered_at IS NULL AND n.executor_group = g.name
                            AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.desired_state = 'run' AND n.not_accepting IS NULL
                            AND n.expires_at >
                                CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER) + s.wall_offset
                            AND NOT EXISTS (SELECT 1 FROM json_each(d.handlers) h
                                            WHERE h.value NOT IN (SELECT o.value FROM json_each(n.handlers) o)))
                THEN 'no_worker'
           WHEN q.phase = 1 AND q.due_at > q.run_at THEN 'backing_off'
           WHEN q.phase = 1 THEN 'scheduled'
           WHEN w.paused = 1 THEN 'workspace_paused'
           WHEN s.queue_paused = 1 OR g.paused = 1 THEN 'queue_paused'
           WHEN NOT EXISTS (SELECT 1 FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = g.name
                            AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.desired_state = 'run' AND n.not_accepting IS NULL
                            AND n.expires_at >
                                CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER) + s.wall_offset)
                THEN 'no_node_in_group'
           WHEN NOT EXISTS (SELECT 1 FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = g.name
                            AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.desired_state = 'run' AND n.not_accepting IS NULL
                            AND (n.engine = 'temporal') = ((q.lane_id >> 31) & 1)
                            AND n.expires_at >
                                CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER) + s.wall_offset)
                THEN 'no_node_for_engine'
           WHEN NOT EXISTS (SELECT 1 FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = g.name
                            AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.desired_state = 'run' AND n.not_accepting IS NULL
                            AND (n.engine = 'temporal') = ((q.lane_id >> 31) & 1) AND n.engine_reachable = 1
                            AND n.expires_at >
                                CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER) + s.wall_offset)
                THEN 'engine_unreachable'
           WHEN d.handlers <> '[]' AND NOT EXISTS (
                    SELECT 1 FROM nodes n
                    WHERE n.recovered_at IS NULL AND n.executor_group = g.name
                            AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.desired_state = 'run' AND n.not_accepting IS NULL
                            AND n.expires_at >
                                CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER) + s.wall_offset
                            AND NOT EXISTS (SELECT 1 FROM json_each(d.handlers) h
                                            WHERE h.value NOT IN (SELECT o.value FROM json_each(n.handlers) o)))
                THEN 'no_worker'
           WHEN NOT EXISTS (SELECT 1 FROM scheduler c WHERE c.node_id <> 0 AND c.lock_awaited_at = 0
                            AND c.expires_at >
                                CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER) + s.wall_offset)
                OR EXISTS (SELECT 1 FROM role_failure f WHERE f.has_role)
                THEN 'no_scheduler'
           WHEN (SELECT count(*) FROM workflow_execution_queue h
                 WHERE h.phase = 2 AND h.lane_id IN (SELECT a.base | q.workspace_id FROM group_lanes a)) >= w.slots_max
                THEN 'workspace_at_capacity'
           WHEN NOT EXISTS (SELECT 1 FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = g.name
                            AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.desired_state = 'run' AND n.not_accepting IS NULL
                            AND (n.engine = 'temporal') = ((q.lane_id >> 31) & 1) AND n.engine_reachable = 1
                            AND n.capacity > n.running
                            AND n.expires_at >
                                CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER) + s.wall_offset
                            AND (d.handlers IS NULL OR d.handlers = '[]'
                                 OR NOT EXISTS (SELECT 1 FROM json_each(d.handlers) h
                                                WHERE h.value NOT IN (SELECT o.value FROM json_each(n.handlers) o))))
                THEN 'nodes_full'
           ELSE 'ready'
       END AS pending_reason,
       q.waiting_for AS waiting_for,
       CASE WHEN q.due_at < 9223372036854775807
            THEN strftime('%Y-%m-%dT%H:%M:%S', q.due_at / 1000000, 'unixepoch') || printf('.%06dZ', q.due_at % 1000000)
       END AS due_at,
       q.priority AS priority,
       strftime('%Y-%m-%dT%H:%M:%S', q.run_at / 1000000, 'unixepoch') || printf('.%06dZ', q.run_at % 1000000) AS run_at,
       q.starts_refused AS starts_refused, q.deferrals AS deferrals, q.handovers AS handovers,
       (SELECT n.name FROM nodes n WHERE n.id = q.node_id) AS node,
       q.fence AS fence, q.error_code AS error_code, q.error AS error,
       strftime('%Y-%m-%dT%H:%M:%S', q.created_at / 1000000, 'unixepoch') || printf('.%06dZ', q.created_at % 1000000) AS created_at,
       strftime('%Y-%m-%dT%H:%M:%S', q.claimed_at / 1000000, 'unixepoch') || printf('.%06dZ', q.claimed_at % 1000000) AS claimed_at,
       strftime('%Y-%m-%dT%H:%M:%S', q.dispatched_at / 1000000, 'unixepoch') || printf('.%06dZ', q.dispatched_at % 1000000)
           AS dispatched_at,
       CASE WHEN q.phase = 2 AND q.stuck_fence = q.fence
            THEN strftime('%Y-%m-%dT%H:%M:%S', q.stuck_at / 1000000, 'unixepoch') || printf('.%06dZ', q.stuck_at % 1000000)
       END AS stuck_since,
       NULL AS finished_at,
       g.name AS executor_group, q.idempotency_key AS idempotency_key, q.retry_of AS retry_of,
       q.traceparent AS traceparent,
       (SELECT b.value FROM execution_labels b WHERE b.execution_id = q.id AND b.name = '') AS business_key,
       (SELECT '{' || coalesce(group_concat('"' || b.name || '":"' || replace(replace(b.value, '\', '\\'), '"', '\"') || '"'), '') || '}'
        FROM execution_labels b WHERE b.execution_id = q.id AND b.name > '') AS labels,
       CASE WHEN q.phase = 2
            THEN (SELECT '[' || coalesce(group_concat('{"step":"' || p.step || '","attempt":' || p.attempt || ',"fraction":'
                         || CASE WHEN p.fraction IS NULL THEN 'null' ELSE printf('%.5g', p.fraction / 10000.0) END || ',"text":'
                         || CASE WHEN p.text = '' THEN 'null'
                                 ELSE '"' || replace(replace(p.text, '\', '\\'), '"', '\"') || '"' END || ',"at":"'
                         || strftime('%Y-%m-%dT%H:%M:%S', p.at / 1000000, 'unixepoch') || printf('.%06dZ', p.at % 1000000)
                         || '"}'), '') || ']'
                  FROM step_progress p WHERE p.execution_id = q.id AND p.fence = q.fence)
            ELSE '[]' END AS progress
FROM workflow_execution_queue q
CROSS JOIN store_state s
LEFT JOIN workspaces w ON w.id = q.workspace_id
LEFT JOIN workflow_definitions d ON d.id = q.definition_id
LEFT JOIN executor_groups g ON g.id = q.lane_id >> 47
UNION ALL
SELECT h.id, w.name, d.name, d.version, h.status, NULL, NULL, NULL, h.priority,
       strftime('%Y-%m-%dT%H:%M:%S', h.run_at / 1000000, 'unixepoch') || printf('.%06dZ', h.run_at % 1000000),
       h.starts_refused, h.deferrals, h.handovers,
       (SELECT n.name FROM nodes n WHERE n.id = h.node_id), h.fence, h.error_code, h.error,
       strftime('%Y-%m-%dT%H:%M:%S', h.created_at / 1000000, 'unixepoch') || printf('.%06dZ', h.created_at % 1000000),
       strftime('%Y-%m-%dT%H:%M:%S', h.claimed_at / 1000000, 'unixepoch') || printf('.%06dZ', h.claimed_at % 1000000),
       strftime('%Y-%m-%dT%H:%M:%S', h.dispatched_at / 1000000, 'unixepoch') || printf('.%06dZ', h.dispatched_at % 1000000),
       NULL, strftime('%Y-%m-%dT%H:%M:%S', h.finished_at / 1000000, 'unixepoch') || printf('.%06dZ', h.finished_at % 1000000),
       g.name, h.idempotency_key, h.retry_of, h.traceparent,
       (SELECT b.value FROM execution_labels b WHERE b.execution_id = h.id AND b.name = ''),
       (SELECT '{' || coalesce(group_concat('"' || b.name || '":"' || replace(replace(b.value, '\', '\\'), '"', '\"') || '"'), '') || '}'
        FROM execution_labels b WHERE b.execution_id = h.id AND b.name > ''), '[]'
FROM workflow_executions h
LEFT JOIN workspaces w ON w.id = h.workspace_id
LEFT JOIN workflow_definitions d ON d.id = h.definition_id
LEFT JOIN executor_groups g ON g.id = h.lane_id >> 47;
