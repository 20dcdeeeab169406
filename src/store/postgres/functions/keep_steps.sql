-- Copies the finished steps of ended executions to their retries, but from_step and the steps that need it; NULL = all are copied.
-- The step that ended with its execution is in its row of the history. Locks: none. Caller: retry_executions().
CREATE OR REPLACE FUNCTION :schema.keep_steps(firsts uuid[], copies uuid[], from_step text) RETURNS void
LANGUAGE sql VOLATILE AS $$
    INSERT INTO :schema.workflow_node_executions
        (execution_id, step, status, attempt, failures, exit_code, started_at, finished_at, node_id, fence, output, variables)
    SELECT u.id, k.step, k.status, k.attempt, k.failures, k.exit_code, k.started_at, k.finished_at, k.node_id, k.fence, k.output,
           k.variables
    FROM unnest(firsts, copies) u (first_id, id)
    JOIN :schema.workflow_executions h ON h.id = u.first_id
    CROSS JOIN LATERAL (
        SELECT s.step, s.status, s.attempt, s.failures, s.exit_code, s.started_at, s.finished_at, s.node_id, s.fence, s.output,
               s.variables
        FROM :schema.workflow_node_executions s WHERE s.execution_id = h.id
        UNION ALL
        SELECT h.step, h.step_status, h.step_attempt, h.step_failures, h.step_exit_code, h.step_started_at, h.finished_at, h.node_id,
               h.fence, h.step_output, h.step_variables WHERE h.step IS NOT NULL) k
    WHERE k.status IN ('COMPLETED', 'SKIPPED')
      AND NOT EXISTS (
          WITH RECURSIVE again (step) AS (
              SELECT from_step
              UNION
              SELECT s.key
              FROM again a CROSS JOIN :schema.workflow_definitions d
              CROSS JOIN LATERAL json_each(d.definition::json -> 'steps') s
              CROSS JOIN LATERAL json_array_elements_text(s.value -> 'needs') n
              WHERE d.id = h.definition_id AND n = a.step)
          SELECT 1 FROM again a WHERE a.step = k.step)
$$;
