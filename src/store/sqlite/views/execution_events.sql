-- The history of each execution, one row per event: from the time stamps of its rows, from the rows of its steps, and from
-- workflow_execution_events.
--
-- The stamps of a queue row describe its present claim. Claim and dispatch of an earlier claim are event rows, written before the
-- stamps are overwritten; a park has both in its own row. A dispatch under a claim that follows a handover is an event row from the
-- start, because dispatched_at keeps the first dispatch.
-- A wake that only the row of its execution has is behind its park, which may have the same time. A row of the history has the start under
-- its last claim apart from the first one (restarted_at).
-- fence and stage order events of equal time: claims by their fences; within one claim: claim, dispatch, steps, event rows, end. The end
-- of a step that a signal has ended, without a node, is behind the signal.
-- Acts of operators have no fence.
DROP VIEW IF EXISTS execution_events;
CREATE VIEW execution_events AS
SELECT e.execution_id AS execution_id,
       strftime('%Y-%m-%dT%H:%M:%S', e.at / 1000000, 'unixepoch') || printf('.%06dZ', e.at % 1000000) AS at,
       e.event AS event, (SELECT n.name FROM nodes n WHERE n.id = e.node_id) AS node,
       nullif(e.fence, 0) AS fence, e.actor AS actor, e.reason AS reason, e.detail AS detail, e.attempt AS attempt
FROM (
    SELECT id AS execution_id, created_at AS at, 'enqueue' AS event, 0 AS node_id, 0 AS fence, NULL AS actor,
           CASE WHEN retry_of IS NOT NULL THEN 'retry_of' END AS reason, retry_of AS detail, NULL AS attempt, 0 AS stage, 0 AS seq
    FROM workflow_execution_queue
    UNION ALL
    SELECT id, created_at, 'enqueue', 0, 0, NULL, CASE WHEN retry_of IS NOT NULL THEN 'retry_of' END, retry_of, NULL, 0, 0
    FROM workflow_executions
    UNION ALL
    SELECT id, claimed_at, 'claim', node_id, fence, NULL, NULL, NULL, NULL, 1, 0 FROM workflow_execution_queue
    WHERE claimed_at IS NOT NULL AND node_id <> 0
    UNION ALL
    SELECT id, claimed_at, 'claim', node_id, fence, NULL, NULL, NULL, NULL, 1, 0 FROM workflow_executions
    WHERE claimed_at IS NOT NULL AND node_id <> 0
    UNION ALL
    SELECT q.id, q.dispatched_at, 'dispatch', q.node_id, q.fence, NULL, NULL, NULL, NULL, 2, 0 FROM workflow_execution_queue q
    WHERE q.dispatched_at IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM workflow_execution_events t
                      WHERE t.execution_id = q.id AND (t.event = 'dispatch' OR t.dispatched_at IS NOT NULL))
    UNION ALL
    SELECT h.id, h.dispatched_at, 'dispatch', h.node_id, h.fence, NULL, NULL, NULL, NULL, 2, 0 FROM workflow_executions h
    WHERE h.dispatched_at IS NOT NULL AND h.restarted_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM workflow_execution_events t
                      WHERE t.execution_id = h.id AND (t.event = 'dispatch' OR t.dispatched_at IS NOT NULL))
    UNION ALL
    SELECT id, restarted_at, 'dispatch', node_id, fence, NULL, NULL, NULL, NULL, 2, 0 FROM workflow_executions
    WHERE restarted_at IS NOT NULL
    UNION ALL
    SELECT id, woken_at, 'wake', 0, parked_fence, NULL, NULL, NULL, NULL, 4, 9223372036854775807 FROM workflow_execution_queue
    WHERE parked_fence IS NOT NULL
    UNION ALL
    SELECT id, woken_at, 'wake', 0, parked_fence, NULL, NULL, NULL, NULL, 4, 9223372036854775807 FROM workflow_executions
    WHERE parked_fence IS NOT NULL
    UNION ALL
    SELECT execution_id, started_at, 'step_start', node_id, fence, NULL, step, NULL, attempt, 3, 0 FROM workflow_node_attempts
    UNION ALL
    SELECT execution_id, finished_at, 'step_end', node_id, fence, NULL, step,
           status || coalesce(': ' || substr(coalesce(error, error_code), 1, 200), ''), attempt, 3, 1 FROM workflow_node_attempts
    UNION ALL
    SELECT s.execution_id, s.started_at, 'step_start', coalesce(s.start_node_id, s.node_id), coalesce(s.start_fence, s.fence), NULL,
           s.step, NULL, s.attempt, 3, 0 FROM workflow_node_executions s
    WHERE NOT EXISTS (SELECT 1 FROM workflow_node_attempts a
                      WHERE a.execution_id = s.execution_id AND a.step = s.step AND a.attempt = s.attempt)
    UNION ALL
    SELECT s.execution_id, s.finished_at, 'step_end', s.node_id, s.fence, NULL, s.step,
           s.status || coalesce(': ' || substr(coalesce(s.error, s.error_code), 1, 200), ''), s.attempt,
           CASE WHEN s.status = 'COMPLETED' AND s.node_id = 0 AND s.start_node_id <> 0 THEN 4 ELSE 3 END, 1
    FROM workflow_node_executions s
    WHERE s.finished_at IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM workflow_node_attempts a
                      WHERE a.execution_id = s.execution_id AND a.step = s.step AND a.attempt = s.attempt)
    UNION ALL
    SELECT id, step_started_at, 'step_start', node_id, fence, NULL, step, NULL, step_attempt, 3, 0 FROM workflow_executions
    WHERE step IS NOT NULL
    UNION ALL
    SELECT id, finished_at, 'step_end', node_id, fence, NULL, step,
           step_status || coalesce(': ' || substr(coalesce(step_error, step_error_code), 1, 200), ''), step_attempt, 3, 1
    FROM workflow_executions WHERE step IS NOT NULL
    UNION ALL
    SELECT execution_id, at, event, node_id, fence, actor, reason, detail, NULL,
           CASE event WHEN 'claim' THEN 1 WHEN 'dispatch' THEN 2 ELSE 4 END, seq FROM workflow_execution_events
    UNION ALL
    SELECT execution_id, claimed_at, 'claim', node_id, fence, NULL, NULL, NULL, NULL, 1, seq FROM workflow_execution_events
    WHERE claimed_at IS NOT NULL
    UNION ALL
    SELECT execution_id, dispatched_at, 'dispatch', node_id, fence, NULL, NULL, NULL, NULL, 2, seq FROM workflow_execution_events
    WHERE dispatched_at IS NOT NULL
    UNION ALL
    SELECT id, finished_at,
           CASE status WHEN 'COMPLETED' THEN 'complete' WHEN 'FAILED' THEN 'fail' ELSE 'cancelled' END,
           node_id, fence, NULL, error_code, error, NULL, 5, 0 FROM workflow_executions
) e
ORDER BY e.execution_id, e.at, e.fence, e.stage, e.attempt, e.seq;
