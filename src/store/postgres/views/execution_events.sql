-- The events of each execution, in order, for every reader. The times of its rows are not stored again as events.
-- `stage` orders entries of one time: enqueue, claim, dispatch, steps, other events, end. The end of a step that a signal has ended,
-- without a node, is behind the signal. A wake that only the item's row has is behind its park, which may have the same time.
CREATE OR REPLACE VIEW :schema.execution_events AS
SELECT e.execution_id AS execution_id, :schema.time_of(e.at) AS at, e.event AS event,
       (SELECT n.name FROM :schema.nodes n WHERE n.id = e.node_id) AS node,
       nullif(e.fence, 0) AS fence, e.actor AS actor, e.reason AS reason, e.detail AS detail, e.attempt AS attempt
FROM (
    SELECT id AS execution_id, created_at AS at, 'enqueue' AS event, 0::bigint AS node_id, 0::bigint AS fence, NULL::text AS actor,
           CASE WHEN retry_of IS NOT NULL THEN 'retry_of' END AS reason, retry_of::text AS detail, NULL::integer AS attempt, 0 AS stage,
           0::bigint AS seq FROM :schema.workflow_execution_queue
    UNION ALL
    SELECT id, created_at, 'enqueue', 0, 0, NULL, CASE WHEN retry_of IS NOT NULL THEN 'retry_of' END, retry_of::text, NULL, 0, 0
    FROM :schema.workflow_executions
    UNION ALL
    SELECT id, claimed_at, 'claim', node_id, fence, NULL, NULL, NULL, NULL, 1, 0 FROM :schema.workflow_execution_queue
    WHERE claimed_at IS NOT NULL AND node_id <> 0
    UNION ALL
    SELECT id, claimed_at, 'claim', node_id, fence, NULL, NULL, NULL, NULL, 1, 0 FROM :schema.workflow_executions
    WHERE claimed_at IS NOT NULL AND node_id <> 0
    UNION ALL
    SELECT q.id, q.dispatched_at, 'dispatch', q.node_id, q.fence, NULL, NULL, NULL, NULL, 2, 0 FROM :schema.workflow_execution_queue q
    WHERE q.dispatched_at IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_events t
                      WHERE t.execution_id = q.id AND (t.event = 'dispatch' OR t.dispatched_at IS NOT NULL))
    UNION ALL
    SELECT h.id, h.dispatched_at, 'dispatch', h.node_id, h.fence, NULL, NULL, NULL, NULL, 2, 0 FROM :schema.workflow_executions h
    WHERE h.dispatched_at IS NOT NULL AND h.restarted_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM :schema.all_events t WHERE t.execution_id = h.id AND t.event = 'dispatch')
    UNION ALL
    SELECT id, restarted_at, 'dispatch', node_id, fence, NULL, NULL, NULL, NULL, 2, 0 FROM :schema.workflow_executions
    WHERE restarted_at IS NOT NULL
    UNION ALL
    SELECT id, woken_at, 'wake', 0, parked_fence, NULL, NULL, NULL, NULL, 4, 9223372036854775807 FROM :schema.workflow_execution_queue
    WHERE woken_at IS NOT NULL AND parked_fence IS NOT NULL
    UNION ALL
    SELECT id, woken_at, 'wake', 0, parked_fence, NULL, NULL, NULL, NULL, 4, 9223372036854775807 FROM :schema.workflow_executions
    WHERE woken_at IS NOT NULL AND parked_fence IS NOT NULL
    UNION ALL
    SELECT execution_id, started_at, 'step_start', node_id, fence, NULL, step, NULL, attempt, 3, 0 FROM :schema.all_attempts
    UNION ALL
    SELECT execution_id, finished_at, 'step_end', node_id, fence, NULL, step,
           status || coalesce(': ' || left(coalesce(error, error_code), 200), ''), attempt, 3, 1 FROM :schema.all_attempts
    UNION ALL
    SELECT s.execution_id, s.started_at, 'step_start', s.start_node_id, s.start_fence, NULL, s.step, NULL, s.attempt, 3, 0
    FROM :schema.execution_steps s
    WHERE NOT EXISTS (SELECT 1 FROM :schema.all_attempts a
                      WHERE a.execution_id = s.execution_id AND a.step = s.step AND a.attempt = s.attempt)
    UNION ALL
    SELECT s.execution_id, s.finished_at, 'step_end', s.node_id, s.fence, NULL, s.step,
           s.status || coalesce(': ' || left(coalesce(s.error, s.error_code), 200), ''), s.attempt,
           CASE WHEN s.status = 'COMPLETED' AND s.node_id = 0 AND s.start_node_id <> 0 THEN 4 ELSE 3 END, 1
    FROM :schema.execution_steps s
    WHERE s.finished_at IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM :schema.all_attempts a
                      WHERE a.execution_id = s.execution_id AND a.step = s.step AND a.attempt = s.attempt)
    UNION ALL
    SELECT execution_id, at, event, node_id, fence, actor, reason, detail, NULL,
           CASE event WHEN 'claim' THEN 1 WHEN 'dispatch' THEN 2 ELSE 4 END, seq FROM :schema.all_events
    UNION ALL
    SELECT id, finished_at,
           CASE status WHEN 'COMPLETED' THEN 'complete' WHEN 'FAILED' THEN 'fail' ELSE 'cancelled' END,
           node_id, fence, NULL, error_code, error, NULL, 5, 0 FROM :schema.workflow_executions
) e
ORDER BY e.execution_id, e.stage > 0, e.at, e.fence, e.stage, e.attempt NULLS FIRST, e.seq;
