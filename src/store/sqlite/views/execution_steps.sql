-- One row per step of an execution: rows of workflow_node_executions, and steps that ended together with their execution, which
-- are columns of its history row.
DROP VIEW IF EXISTS execution_steps;
CREATE VIEW execution_steps AS
SELECT s.execution_id AS execution_id, s.step AS step, s.status AS status, s.attempt AS attempt, s.failures AS failures,
       s.exit_code AS exit_code, s.error_code AS error_code, s.error AS error,
       strftime('%Y-%m-%dT%H:%M:%S', s.due_at / 1000000, 'unixepoch') || printf('.%06dZ', s.due_at % 1000000) AS due_at,
       strftime('%Y-%m-%dT%H:%M:%S', s.started_at / 1000000, 'unixepoch') || printf('.%06dZ', s.started_at % 1000000) AS started_at,
       strftime('%Y-%m-%dT%H:%M:%S', s.finished_at / 1000000, 'unixepoch') || printf('.%06dZ', s.finished_at % 1000000) AS finished_at,
       (SELECT n.name FROM nodes n WHERE n.id = s.node_id) AS node, s.fence AS fence, CAST(s.output AS TEXT) AS output,
       CAST(s.variables AS TEXT) AS variables,
       CASE WHEN s.signal NOT LIKE 'children:%' AND s.signal NOT LIKE 'manual:%' THEN s.signal END AS signal
FROM workflow_node_executions s
UNION ALL
SELECT h.id, h.step, h.step_status, h.step_attempt, h.step_failures, h.step_exit_code, h.step_error_code, h.step_error, NULL,
       strftime('%Y-%m-%dT%H:%M:%S', h.step_started_at / 1000000, 'unixepoch') || printf('.%06dZ', h.step_started_at % 1000000),
       strftime('%Y-%m-%dT%H:%M:%S', h.finished_at / 1000000, 'unixepoch') || printf('.%06dZ', h.finished_at % 1000000),
       (SELECT n.name FROM nodes n WHERE n.id = h.node_id), h.fence, CAST(h.step_output AS TEXT), CAST(h.step_variables AS TEXT),
       NULL
FROM workflow_executions h WHERE h.step IS NOT NULL;
