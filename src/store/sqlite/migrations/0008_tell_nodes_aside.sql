-- A node may claim nothing by its own decision: paused by its program, stopping, or made not to dispatch. Where all nodes of a group
-- are so, no_node_in_group is the reason and not ready. A node of the last version tells nothing of itself, and counts as before.
ALTER TABLE nodes ADD COLUMN aside TEXT CHECK (aside = 'paused' OR aside = 'stopping' OR aside = 'no_dispatch');

-- As before but for that.
DROP VIEW executions;

CREATE VIEW executions AS
SELECT q.id AS id, w.name AS workspace, d.name AS workflow, d.version AS version, q.status AS status,
       CASE
           WHEN q.phase = 2 AND q.node_id <> 0 THEN NULL
           WHEN q.phase = 2 THEN 'handed_over'
           WHEN q.phase = 1 AND q.due_at > q.run_at THEN 'backing_off'
           WHEN q.phase = 1 THEN 'scheduled'
           WHEN w.paused = 1 THEN 'workspace_paused'
           WHEN s.queue_paused = 1 OR g.paused = 1 THEN 'queue_paused'
           WHEN NOT EXISTS (SELECT 1 FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = l.executor_group
                            AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.wish = 'run'
                            AND n.aside IS NULL
                            AND n.expires_at >
                                CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER) + s.wall_offset)
                THEN 'no_node_in_group'
           WHEN NOT EXISTS (SELECT 1 FROM nodes n WHERE n.recovered_at IS NULL AND n.executor_group = l.executor_group
                            AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.wish = 'run'
                            AND n.aside IS NULL
                            AND n.engine_reachable = 1
                            AND n.expires_at >
                                CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER) + s.wall_offset)
                THEN 'engine_unreachable'
           WHEN w.slots_used >= w.slots_max THEN 'workspace_at_capacity'
           ELSE 'ready'
       END AS pending_reason,
       q.priority AS priority,
       strftime('%Y-%m-%dT%H:%M:%S', q.run_at / 1000000, 'unixepoch') || printf('.%06dZ', q.run_at % 1000000) AS run_at,
       q.attempts AS attempts, q.deferrals AS deferrals, q.handovers AS handovers,
       CASE WHEN q.fence > 0 THEN q.id END AS execution_id,
       (SELECT n.name FROM nodes n WHERE n.id = q.node_id) AS node,
       q.fence AS fence, q.error_code AS error_code, q.error AS error,
       strftime('%Y-%m-%dT%H:%M:%S', q.created_at / 1000000, 'unixepoch') || printf('.%06dZ', q.created_at % 1000000) AS created_at,
       strftime('%Y-%m-%dT%H:%M:%S', q.claimed_at / 1000000, 'unixepoch') || printf('.%06dZ', q.claimed_at % 1000000) AS claimed_at,
       strftime('%Y-%m-%dT%H:%M:%S', q.dispatched_at / 1000000, 'unixepoch') || printf('.%06dZ', q.dispatched_at % 1000000)
           AS dispatched_at,
       NULL AS finished_at,
       l.executor_group AS executor_group, q.idempotency_key AS idempotency_key, q.retry_of AS retry_of
FROM workflow_execution_queue q
CROSS JOIN store_state s
CROSS JOIN workspaces w ON w.id = q.workspace_id
CROSS JOIN workflow_definitions d ON d.id = q.definition_id
CROSS JOIN lanes l ON l.id = q.lane_id
CROSS JOIN executor_groups g ON g.name = l.executor_group
UNION ALL
SELECT h.id, w.name, d.name, d.version, h.status, NULL, h.priority,
       strftime('%Y-%m-%dT%H:%M:%S', h.run_at / 1000000, 'unixepoch') || printf('.%06dZ', h.run_at % 1000000),
       h.attempts, h.deferrals, h.handovers, CASE WHEN h.fence > 0 THEN h.id END,
       (SELECT n.name FROM nodes n WHERE n.id = h.node_id), h.fence, h.error_code, h.error,
       strftime('%Y-%m-%dT%H:%M:%S', h.created_at / 1000000, 'unixepoch') || printf('.%06dZ', h.created_at % 1000000),
       strftime('%Y-%m-%dT%H:%M:%S', h.claimed_at / 1000000, 'unixepoch') || printf('.%06dZ', h.claimed_at % 1000000),
       strftime('%Y-%m-%dT%H:%M:%S', h.dispatched_at / 1000000, 'unixepoch') || printf('.%06dZ', h.dispatched_at % 1000000),
       strftime('%Y-%m-%dT%H:%M:%S', h.finished_at / 1000000, 'unixepoch') || printf('.%06dZ', h.finished_at % 1000000),
       l.executor_group, h.idempotency_key, h.retry_of
FROM workflow_executions h
CROSS JOIN workspaces w ON w.id = h.workspace_id
CROSS JOIN workflow_definitions d ON d.id = h.definition_id
CROSS JOIN lanes l ON l.id = h.lane_id;
