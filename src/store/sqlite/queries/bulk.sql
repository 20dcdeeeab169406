-- Operators' acts, one item at a time inside one transaction per chunk.

-- name: ask_cancel
UPDATE workflow_execution_queue SET cancel_at = ?2, cancel_sent = 0 WHERE id = ?1 AND cancel_at IS NULL;

-- name: release_item
UPDATE workflow_execution_queue SET phase = 0, due_at = NULL WHERE id = ?1 AND phase = 1;

-- The columns that a retry copies, whether the workspace exists, the state of the workflow, and whether it has the step ?2, or any
-- steps where ?2 is ''.
-- name: read_ended
SELECT h.status, h.workspace_id, h.definition_id, g.name, h.priority, h.idempotency_key, p.params, h.lane_id,
       EXISTS (SELECT 1 FROM workspaces w WHERE w.id = h.workspace_id),
       coalesce((SELECT d.state FROM workflow_definitions d WHERE d.id = h.definition_id), 2), h.traceparent,
       EXISTS (SELECT 1 FROM workflow_definitions d, json_each(d.definition, '$.steps') s
               WHERE d.id = h.definition_id AND ?2 IN ('', s.key))
FROM workflow_executions h JOIN executor_groups g ON g.id = h.lane_id >> 47 LEFT JOIN execution_params p ON p.id = h.id WHERE h.id = ?1;

-- Copies the finished steps of the execution ?1 to ?2: those of `steps` of the definition ?4 that completed, were skipped, or failed as
-- they may (continue_on_error). Not the step ?3, not those whose undo has begun, and not the steps that need one of these. The step that
-- ended with its execution is in its row of the history.
-- name: keep_steps
INSERT INTO workflow_node_executions
    (execution_id, step, status, attempt, failures, exit_code, started_at, finished_at, node_id, fence, output, variables, error_code,
     error)
WITH recorded AS MATERIALIZED (
    SELECT s.step, s.status, s.attempt, s.failures, s.exit_code, s.started_at, s.finished_at, s.node_id, s.fence, s.output, s.variables,
           s.error_code, s.error
    FROM workflow_node_executions s WHERE s.execution_id = ?1
    UNION ALL
    SELECT h.step, h.step_status, h.step_attempt, h.step_failures, h.step_exit_code, h.step_started_at, h.finished_at, h.node_id,
           h.fence, h.step_output, h.step_variables, h.step_error_code, h.step_error
    FROM workflow_executions h WHERE h.id = ?1 AND h.step IS NOT NULL)
SELECT ?2, k.step, k.status, k.attempt, k.failures, k.exit_code, k.started_at, k.finished_at, k.node_id, k.fence, k.output, k.variables,
       k.error_code, k.error
FROM recorded k, workflow_definitions d, json_each(d.definition, '$.steps') own
WHERE d.id = ?4 AND own.key = k.step
  AND (k.status IN ('COMPLETED', 'SKIPPED') OR k.status = 'FAILED' AND json_type(own.value, '$.continue_on_error') = 'true')
  AND k.step NOT IN (
      WITH RECURSIVE again (step) AS (
          VALUES (coalesce(?3, ''))
          UNION
          SELECT substr(r.step, 1, length(r.step) - 5) FROM recorded r WHERE r.step LIKE '%.undo' AND r.status <> 'SKIPPED'
          UNION
          SELECT p.key FROM again a, workflow_definitions w, json_each(w.definition, '$.steps') p, json_each(p.value, '$.needs') n
          WHERE w.id = ?4 AND n.value = a.step)
      SELECT a.step FROM again a);

-- name: mark_kept
UPDATE workflow_execution_queue SET interruptions = 1, interruptions_at_park = 1 WHERE id = ?1;

-- name: find_retry
SELECT id FROM workflow_execution_queue WHERE retry_of = ?1 UNION ALL SELECT id FROM workflow_executions WHERE retry_of = ?1;

-- name: purge_execution
DELETE FROM workflow_executions WHERE id = ?1 RETURNING workspace_id, idempotency_key;

-- ?2 now. No row: it is marked already, or has not failed.
-- name: dismiss_execution
INSERT INTO dismissals (execution_id, at) SELECT h.id, ?2 FROM workflow_executions h WHERE h.id = ?1 AND h.status = 'FAILED'
ON CONFLICT DO NOTHING;

-- name: is_dismissed
SELECT 1 FROM dismissals WHERE execution_id = ?1;

-- name: purge_dismissal
DELETE FROM dismissals WHERE execution_id = ?1;

-- name: purge_params
DELETE FROM execution_params WHERE id = ?1;

-- name: purge_steps
DELETE FROM workflow_node_executions WHERE execution_id = ?1;

-- name: purge_attempts
DELETE FROM workflow_node_attempts WHERE execution_id = ?1;

-- name: purge_logs_of
DELETE FROM workflow_node_logs WHERE execution_id = ?1;

-- name: purge_events
DELETE FROM workflow_execution_events WHERE execution_id = ?1;

-- name: purge_key
DELETE FROM idempotency_keys WHERE workspace_id = ?1 AND key = ?2 AND execution_id = ?3;

-- name: reason_of
SELECT pending_reason FROM executions WHERE id = ?1;
