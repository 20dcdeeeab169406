-- One row per step of an execution, in its last attempt. These are the rows of workflow_node_executions and of the archive, and the
-- steps that are stored in the history because they ended together with their execution. Where both name one step, the history has its
-- end.
CREATE OR REPLACE VIEW :schema.execution_steps AS
SELECT s.execution_id, s.step, s.status, s.attempt, s.failures, s.exit_code, s.due_at, s.started_at, s.finished_at, s.node_id, s.fence,
       coalesce(s.start_node_id, s.node_id) AS start_node_id, coalesce(s.start_fence, s.fence) AS start_fence, s.output, s.variables,
       s.error_code, s.error, CASE WHEN s.signal NOT LIKE 'children:%' AND s.signal NOT LIKE 'manual:%' THEN s.signal END AS signal
FROM :schema.all_steps s
WHERE NOT EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = s.execution_id AND h.step = s.step)
UNION ALL
SELECT h.id, h.step, h.step_status, h.step_attempt, h.step_failures, h.step_exit_code, NULL, h.step_started_at, h.finished_at, h.node_id,
       h.fence, h.node_id, h.fence, h.step_output, h.step_variables, h.step_error_code, h.step_error,
       NULL::text
FROM :schema.workflow_executions h WHERE h.step IS NOT NULL;
