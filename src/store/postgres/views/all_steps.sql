-- The steps of all executions that have a row of their own, those in the archive too. A sleep that ended with its execution
-- (record_sleep_ends()) has its end in the row of the history.
CREATE OR REPLACE VIEW :schema.all_steps AS
SELECT s.execution_id, s.step, CASE WHEN h.id IS NULL THEN s.status ELSE 'COMPLETED' END AS status, s.attempt, s.failures, s.exit_code,
       CASE WHEN h.id IS NULL THEN s.due_at END AS due_at, s.started_at,
       CASE WHEN h.id IS NULL THEN s.finished_at ELSE greatest(h.slept_until, s.started_at) END AS finished_at,
       coalesce(h.node_id, s.node_id) AS node_id, coalesce(h.fence, s.fence) AS fence,
       CASE WHEN h.id IS NULL THEN s.start_node_id ELSE coalesce(s.start_node_id, s.node_id) END AS start_node_id,
       CASE WHEN h.id IS NULL THEN s.start_fence ELSE coalesce(s.start_fence, s.fence) END AS start_fence,
       s.output, s.variables, s.error_code, s.error, s.signal
FROM :schema.workflow_node_executions s
LEFT JOIN :schema.workflow_executions h ON h.id = s.execution_id AND h.slept_until IS NOT NULL AND s.finished_at IS NULL
UNION ALL
SELECT * FROM :schema.archived_steps;
