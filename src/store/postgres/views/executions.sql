-- One row per execution, living or ended, for every reader; a view reads with the rights of its owner, so its readers need no
-- right on the tables. pending_reason is computed in the time of the store. due_at: when a PENDING or WAITING one
-- may go on by itself.
-- A deleted workspace, definition or group of an execution is shown as NULL.
-- Slots in use are counted in two parts: the books by index, and the news, which are few and summed up once.
CREATE OR REPLACE VIEW :schema.executions AS
SELECT q.id AS id, w.name AS workspace, d.name AS workflow, d.version AS version, q.status AS status,
       CASE
           WHEN q.phase = 2 AND q.node_id <> 0 OR q.phase = 3 THEN NULL
           WHEN q.phase = 2 AND q.target_id <> 0 AND EXISTS (SELECT 1 FROM :schema.live_targets t WHERE t.executor_group = g.name)
                AND NOT EXISTS (SELECT 1 FROM :schema.live_targets t
                                WHERE t.executor_group = g.name AND (t.target_id = 0 OR t.target_id = q.target_id))
                THEN 'no_node_for_engine'
           WHEN q.phase = 2 AND q.suspicion >= 4 THEN 'quarantined'
           WHEN q.phase = 2 THEN 'handed_over'
           WHEN q.phase = 1 AND q.due_at > q.run_at AND q.error_code = 'unknown_handler' AND m.is_unserved THEN 'no_worker'
           WHEN q.phase = 1 AND q.due_at > q.run_at THEN 'backing_off'
           WHEN q.phase = 1 THEN 'scheduled'
           ELSE :schema.lane_reason(w.paused, s.queue_paused OR g.paused,
                                    EXISTS (SELECT 1 FROM :schema.served_groups o WHERE o.executor_group = g.name),
                                    a.executor_group IS NOT NULL, a.engine_reachable, m.is_unserved, r.scheduled,
                                    coalesce(b.held, 0) + coalesce(n.held, 0) >= w.slots_max, coalesce(m.has_room, a.has_room))
       END AS pending_reason,
       q.waiting_for AS waiting_for, :schema.time_of(nullif(q.due_at, 9223372036854775807)) AS due_at,
       q.priority::integer AS priority, :schema.time_of(q.run_at) AS run_at,
       q.starts_refused AS starts_refused, q.deferrals AS deferrals, q.handovers AS handovers,
       (SELECT o.name FROM :schema.nodes o WHERE o.id = q.node_id) AS node,
       q.fence AS fence, q.error_code AS error_code, q.error AS error,
       :schema.time_of(q.created_at) AS created_at, :schema.time_of(q.claimed_at) AS claimed_at,
       :schema.time_of(q.dispatched_at) AS dispatched_at,
       CASE WHEN q.phase = 2 AND q.stuck_fence = q.fence THEN :schema.time_of(q.stuck_at) END AS stuck_since,
       NULL::timestamptz AS finished_at,
       g.name AS executor_group, q.idempotency_key AS idempotency_key, q.retry_of AS retry_of,
       q.traceparent AS traceparent,
       (SELECT c.value FROM :schema.execution_labels c WHERE c.execution_id = q.id AND c.name = '') AS business_key,
       (SELECT coalesce(jsonb_object_agg(c.name, c.value), '{}') FROM :schema.execution_labels c
        WHERE c.execution_id = q.id AND c.name > '') AS labels,
       CASE WHEN q.phase = 2
            THEN (SELECT coalesce(jsonb_agg(jsonb_build_object(
                             'step', p.step, 'attempt', p.attempt, 'fraction', (p.fraction / 10000.0)::double precision,
                             'text', nullif(p.text, ''),
                             'at', to_char(:schema.time_of(p.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
                         ORDER BY p.step), '[]')
                  FROM :schema.step_progress p WHERE p.execution_id = q.id AND p.fence = q.fence)
            ELSE '[]' END AS progress
FROM :schema.workflow_execution_queue q
CROSS JOIN :schema.store_state s
CROSS JOIN (SELECT l.node_id <> 0 AND l.lock_awaited_at = 0 AND l.expires_at > (SELECT :schema.store_time())
                   AND NOT EXISTS (SELECT 1 FROM :schema.role_failure f WHERE f.has_role) AS scheduled
            FROM :schema.scheduler l WHERE l.partition = 0) r
LEFT JOIN :schema.workspaces w ON w.id = q.workspace_id
LEFT JOIN :schema.workflow_definitions d ON d.id = q.definition_id
LEFT JOIN :schema.executor_groups g ON g.id = (q.lane_id >> 47)::integer
LEFT JOIN :schema.served_groups a ON a.executor_group = g.name AND a.on_temporal = ((q.lane_id >> 31) & 1 = 1)
LEFT JOIN LATERAL (SELECT count(*) = 0 AS is_unserved, bool_or(o.engine_reachable AND o.capacity > o.running) AS has_room
                   FROM :schema.live_workers o
                   WHERE q.phase < 2 AND d.handlers <> '[]' AND o.executor_group = g.name AND d.handlers <@ o.handlers
                   HAVING q.phase < 2 AND d.handlers <> '[]') m ON true
LEFT JOIN LATERAL (SELECT sum(k.held) AS held FROM :schema.books k WHERE q.phase = 0 AND k.workspace_id = q.workspace_id) b ON true
LEFT JOIN (SELECT (u.lane_id & 2147483647)::integer AS workspace_id, sum(u.held) AS held
           FROM :schema.news f CROSS JOIN LATERAL unnest(f.lanes, f.held) u (lane_id, held)
           WHERE f.held IS NOT NULL GROUP BY 1) n ON n.workspace_id = q.workspace_id
WHERE s.id = 1
UNION ALL
SELECT h.id, w.name, d.name, d.version, h.status, NULL, NULL, NULL, h.priority::integer, :schema.time_of(h.run_at),
       h.starts_refused, h.deferrals, h.handovers,
       (SELECT o.name FROM :schema.nodes o WHERE o.id = h.node_id), h.fence, h.error_code, h.error,
       :schema.time_of(h.created_at), :schema.time_of(h.claimed_at), :schema.time_of(h.dispatched_at), NULL,
       :schema.time_of(h.finished_at), g.name, h.idempotency_key, h.retry_of, h.traceparent,
       (SELECT c.value FROM :schema.execution_labels c WHERE c.execution_id = h.id AND c.name = ''),
       (SELECT coalesce(jsonb_object_agg(c.name, c.value), '{}') FROM :schema.execution_labels c
        WHERE c.execution_id = h.id AND c.name > ''), '[]'
FROM :schema.workflow_executions h
LEFT JOIN :schema.workspaces w ON w.id = h.workspace_id
LEFT JOIN :schema.workflow_definitions d ON d.id = h.definition_id
LEFT JOIN :schema.executor_groups g ON g.id = (h.lane_id >> 47)::integer;
