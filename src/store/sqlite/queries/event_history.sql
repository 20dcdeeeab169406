-- The story of an execution beyond what its row can tell. Nothing of this is run for an execution that is claimed
-- once with steps that succeed at once. Found by primary key.

-- The row's times of the present claim, before they are replaced: after this the claim is over, but not the execution. A dispatch
-- under a claim that followed a handover is on record already.
-- ?1 id, ?2 fence of that claim
-- name: add_claim_events
INSERT INTO workflow_execution_events (execution_id, seq, at, event, node_id, fence)
SELECT q.id, s.seq + 1, q.claimed_at, 'claim', q.node_id, q.fence
FROM workflow_execution_queue q, (SELECT coalesce(max(seq), 0) AS seq FROM workflow_execution_events WHERE execution_id = ?1) s
WHERE q.id = ?1 AND q.fence = ?2 AND q.phase = 2 AND q.node_id <> 0 AND q.claimed_at IS NOT NULL
UNION ALL
SELECT q.id, s.seq + 2, q.dispatched_at, 'dispatch', q.node_id, q.fence
FROM workflow_execution_queue q, (SELECT coalesce(max(seq), 0) AS seq FROM workflow_execution_events WHERE execution_id = ?1) s
WHERE q.id = ?1 AND q.fence = ?2 AND q.status = 'DISPATCHED' AND q.node_id <> 0 AND q.dispatched_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM workflow_execution_events t WHERE t.execution_id = ?1 AND t.event = 'dispatch' AND t.fence = ?2);

-- A dispatch that the row's stamp, which keeps the first one, does not show; once, though a set may bring an end twice. ?1 id, ?2 fence,
-- ?3 when the engine reported it
-- name: add_dispatch_event
INSERT INTO workflow_execution_events (execution_id, seq, at, event, node_id, fence)
SELECT q.id, (SELECT coalesce(max(seq), 0) + 1 FROM workflow_execution_events WHERE execution_id = ?1),
       max(?3, coalesce(q.claimed_at, 0)), 'dispatch', q.node_id, q.fence
FROM workflow_execution_queue q
WHERE q.id = ?1 AND q.fence = ?2 AND q.status = 'CLAIMED' AND q.interruptions > 0 AND q.node_id <> 0
  AND NOT EXISTS (SELECT 1 FROM workflow_execution_events t WHERE t.execution_id = ?1 AND t.event = 'dispatch' AND t.fence = ?2);

-- An attempt that is on record as running while a later one is reported: it ended with the hold of its node. ?1 id, ?2 step,
-- ?3 the later attempt, ?4 now
-- name: keep_interrupted_attempt
INSERT INTO workflow_node_attempts
    (execution_id, step, attempt, status, exit_code, started_at, finished_at, node_id, fence, error_code, error)
SELECT s.execution_id, s.step, s.attempt, 'INTERRUPTED', NULL, s.started_at,
       coalesce((SELECT min(e.at) FROM workflow_execution_events e
                 WHERE e.execution_id = ?1 AND (e.event = 'hand_over' OR e.event = 'give_back') AND e.at >= s.started_at
                   AND e.fence >= coalesce(s.start_fence, s.fence)), ?4),
       coalesce(s.start_node_id, s.node_id), coalesce(s.start_fence, s.fence), NULL, NULL
FROM workflow_node_executions s
WHERE s.execution_id = ?1 AND s.step = ?2 AND s.status = 'RUNNING' AND s.finished_at IS NULL AND s.attempt < ?3
ON CONFLICT DO NOTHING;

-- The attempt of the row is over, and another will follow. ?1 id, ?2 step, ?3 INTERRUPTED or FAILED, ?4 now
-- name: keep_failed_attempt
INSERT INTO workflow_node_attempts
    (execution_id, step, attempt, status, exit_code, started_at, finished_at, node_id, fence, error_code, error)
SELECT s.execution_id, s.step, s.attempt, ?3, s.exit_code, s.started_at, ?4, s.node_id, s.fence, s.error_code, s.error
FROM workflow_node_executions s WHERE s.execution_id = ?1 AND s.step = ?2 AND s.finished_at IS NULL
ON CONFLICT DO NOTHING;

-- Of executions that have ended without their steps: a RUNNING one whose node died or gave the execution back was stopped then, at that
-- node. `parameter_rows` has their ids.
-- name: close_interrupted_steps
UPDATE workflow_node_executions
SET status = 'CANCELLED', due_at = NULL, error_code = 'interrupted',
    finished_at = (SELECT min(e.at) FROM workflow_execution_events e
                   WHERE e.execution_id = g.id AND e.event IN ('hand_over', 'give_back') AND e.at >= workflow_node_executions.started_at
                     AND e.fence >= workflow_node_executions.fence)
FROM parameter_rows g
WHERE workflow_node_executions.execution_id = g.id AND finished_at IS NULL AND workflow_node_executions.status = 'RUNNING'
  AND EXISTS (SELECT 1 FROM workflow_execution_events e
              WHERE e.execution_id = g.id AND e.event IN ('hand_over', 'give_back') AND e.at >= workflow_node_executions.started_at
                AND e.fence >= workflow_node_executions.fence);

-- Of executions that have ended without their steps: the unended ones were stopped with it. `parameter_rows` has the ids and fences. ?1 now
-- name: close_steps
UPDATE workflow_node_executions
SET status = 'CANCELLED', due_at = NULL, finished_at = ?1, start_node_id = coalesce(start_node_id, workflow_node_executions.node_id),
    start_fence = coalesce(start_fence, workflow_node_executions.fence), node_id = 0, fence = g.fence
FROM parameter_rows g
WHERE workflow_node_executions.execution_id = g.id AND finished_at IS NULL;

-- The ends of the last waits of items that are parked again, which their rows will lose. `parameter_rows` has the numbers.
-- name: add_wake_events
INSERT INTO workflow_execution_events (execution_id, seq, at, event, node_id, fence)
SELECT q.id, (SELECT coalesce(max(t.seq), 0) + 1 FROM workflow_execution_events t WHERE t.execution_id = q.id), q.woken_at, 'wake', 0,
       q.parked_fence
FROM parameter_rows g CROSS JOIN workflow_execution_queue q ON q.number = g.number
WHERE q.parked_fence IS NOT NULL;
