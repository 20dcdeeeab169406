-- Record: what engines reported. Every statement is conditional on the fence (design 3.5). Found by primary key.

-- name: find_item
SELECT status, fence, lane_id, workspace_id, phase, attempts, cancel_at, node_id, dispatched_at, handovers, error_code,
       interruptions
FROM workflow_execution_queue WHERE id = ?1;

-- name: ended_status
SELECT status FROM workflow_executions WHERE id = ?1;

-- name: dispatch_item
UPDATE workflow_execution_queue SET status = 'DISPATCHED', dispatched_at = coalesce(dispatched_at, ?3)
WHERE id = ?1 AND fence = ?2 AND status = 'CLAIMED';

-- Back to PENDING. ?3 phase, ?4 due, ?5 attempts, ?6 deferrals, ?7 code, ?8 error
-- name: put_back_item
UPDATE workflow_execution_queue
SET status = 'PENDING', phase = ?3, due_at = ?4, node_id = 0, claimed_at = NULL,
    attempts = attempts + ?5, deferrals = deferrals + ?6,
    error_code = coalesce(?7, error_code), error = coalesce(?8, error)
WHERE id = ?1 AND fence = ?2 AND status = 'CLAIMED';

-- Running work that its node gives back: the slot stays taken, the next claim takes it over. ?3 the new fence
-- name: give_back_item
UPDATE workflow_execution_queue
SET status = 'CLAIMED', node_id = 0, fence = ?3, interruptions = interruptions + 1
WHERE id = ?1 AND fence = ?2 AND phase = 2;

-- May this row be ended? ?3 which it must be: 0 pending, 1 held, 2 CLAIMED.
-- name: may_end_item
SELECT number, workspace_id FROM workflow_execution_queue
WHERE id = ?1 AND fence = ?2 AND CASE ?3 WHEN 0 THEN phase <> 2 WHEN 1 THEN phase = 2 ELSE status = 'CLAIMED' END;

-- The move to the history, in one statement each way. ?1 number of the row, ?2 status, ?3 now, ?4 code, ?5 error, ?6 dispatched in
-- the same set, ?7 attempts to add.
-- name: end_item
INSERT INTO workflow_executions
    (id, lane_id, workspace_id, definition_id, status, priority, run_at, attempts, deferrals, handovers, interruptions, fence,
     node_id, has_params, created_at, claimed_at, dispatched_at, finished_at, idempotency_key, retry_of, error_code, error)
SELECT id, lane_id, workspace_id, definition_id, ?2, priority, run_at, attempts + ?7, deferrals, handovers, interruptions, fence,
       node_id, has_params, created_at, claimed_at, CASE WHEN ?6 THEN coalesce(dispatched_at, ?3) ELSE dispatched_at END, ?3,
       idempotency_key, retry_of, CASE WHEN ?2 = 'COMPLETED' THEN NULL ELSE coalesce(?4, error_code) END,
       CASE WHEN ?2 = 'COMPLETED' THEN NULL ELSE coalesce(?5, error) END
FROM workflow_execution_queue WHERE number = ?1;

-- name: delete_item
DELETE FROM workflow_execution_queue WHERE number = ?1;

-- name: holds_item
SELECT 1 FROM workflow_execution_queue WHERE id = ?1 AND fence = ?2 AND phase = 2;

-- A final step is never rewritten. A later attempt begins anew; who goes on with one that another node has begun is not who started
-- it. ?3 status, ?4 attempt, ?5 failures, ?6 exit code, ?7 due, ?8 now, ?9 final, ?10 node,
-- ?11 fence, ?12 output, ?13 variables, ?14 code, ?15 error
-- name: write_step
INSERT INTO workflow_node_executions
    (execution_id, step, status, attempt, failures, exit_code, due_at, started_at, finished_at, node_id, fence, output, variables,
     error_code, error)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, CASE WHEN ?9 THEN ?8 END, ?10, ?11, ?12, ?13, ?14, ?15)
ON CONFLICT (execution_id, step) DO UPDATE
SET status = excluded.status, attempt = excluded.attempt, failures = excluded.failures, exit_code = excluded.exit_code,
    due_at = excluded.due_at, finished_at = excluded.finished_at, node_id = excluded.node_id, fence = excluded.fence,
    output = excluded.output, variables = excluded.variables, error_code = excluded.error_code, error = excluded.error,
    started_at = CASE WHEN excluded.attempt > attempt THEN excluded.started_at ELSE started_at END,
    start_node_id = CASE WHEN excluded.attempt > attempt THEN NULL WHEN fence <> excluded.fence THEN coalesce(start_node_id, node_id)
                         ELSE start_node_id END,
    start_fence = CASE WHEN excluded.attempt > attempt THEN NULL WHEN fence <> excluded.fence THEN coalesce(start_fence, fence)
                       ELSE start_fence END
WHERE workflow_node_executions.finished_at IS NULL;

-- name: insert_event
INSERT INTO workflow_execution_events (execution_id, seq, at, event, node_id, fence, actor, reason, detail)
VALUES (?1, (SELECT coalesce(max(seq), 0) + 1 FROM workflow_execution_events WHERE execution_id = ?1), ?2, ?3, ?4, ?5, ?6, ?7, ?8);
