-- Operators' acts, one item at a time inside one transaction per chunk.

-- name: ask_cancel
UPDATE workflow_execution_queue SET cancel_at = ?2, cancel_sent = 0 WHERE id = ?1 AND cancel_at IS NULL;

-- name: release_item
UPDATE workflow_execution_queue SET phase = 0, due_at = NULL WHERE id = ?1 AND phase = 1;

-- The columns that a retry copies, whether the workspace exists, and the state of the workflow.
-- name: read_ended
SELECT h.status, h.workspace_id, h.definition_id, g.name, h.priority, h.idempotency_key, p.params, h.lane_id,
       EXISTS (SELECT 1 FROM workspaces w WHERE w.id = h.workspace_id),
       coalesce((SELECT d.state FROM workflow_definitions d WHERE d.id = h.definition_id), 2), h.traceparent
FROM workflow_executions h JOIN executor_groups g ON g.id = h.lane_id >> 47 LEFT JOIN execution_params p ON p.id = h.id WHERE h.id = ?1;

-- name: find_retry
SELECT id FROM workflow_execution_queue WHERE retry_of = ?1 UNION ALL SELECT id FROM workflow_executions WHERE retry_of = ?1;

-- name: purge_execution
DELETE FROM workflow_executions WHERE id = ?1 RETURNING workspace_id, idempotency_key;

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
