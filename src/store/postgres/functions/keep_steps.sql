-- Copies the finished steps of ended executions to their retries: those of `steps` that completed, were skipped, or failed as they may
-- (continue_on_error). Not from_step (NULL = none), not those whose undo has begun, and not the steps that need one of these.
-- The step that ended with its execution is in its row of the history. What runs again is found once per execution, so the work grows with
-- the steps, and not with the square of the set. Locks: none. Caller: retry_executions().
CREATE OR REPLACE FUNCTION :schema.keep_steps(firsts uuid[], copies uuid[], from_step text) RETURNS void
LANGUAGE sql VOLATILE AS $$
    WITH ended AS MATERIALIZED (
        SELECT u.first_id, u.id, d.definition::json -> 'steps' AS steps
        FROM unnest(firsts, copies) u (first_id, id) JOIN :schema.workflow_executions h ON h.id = u.first_id
        JOIN :schema.workflow_definitions d ON d.id = h.definition_id
    ), chosen AS MATERIALIZED (
        SELECT e.first_id, e.id, e.steps, ARRAY(
            WITH RECURSIVE again (step) AS (
                SELECT from_step WHERE from_step IS NOT NULL
                UNION
                SELECT left(r.step, -5)
                FROM (SELECT s.step, s.status FROM :schema.all_steps s WHERE s.execution_id = e.first_id
                      UNION ALL
                      SELECT h.step, h.step_status FROM :schema.workflow_executions h WHERE h.id = e.first_id) r
                WHERE r.step LIKE '%.undo' AND r.status <> 'SKIPPED'
                UNION
                SELECT s.key
                FROM again a CROSS JOIN LATERAL json_each(e.steps) s
                CROSS JOIN LATERAL json_array_elements_text(s.value -> 'needs') n
                WHERE n = a.step)
            SELECT a.step FROM again a) AS again
        FROM ended e
    )
    INSERT INTO :schema.workflow_node_executions
        (execution_id, step, status, attempt, failures, exit_code, started_at, finished_at, node_id, fence, output, variables, error_code,
         error)
    SELECT k.id, k.step, k.status, k.attempt, k.failures, k.exit_code, k.started_at, k.finished_at, k.node_id, k.fence, k.output,
           k.variables, k.error_code, k.error
    FROM chosen e CROSS JOIN LATERAL (
        SELECT e.id, s.step, s.status, s.attempt, s.failures, s.exit_code, s.started_at, s.finished_at, s.node_id, s.fence, s.output,
               s.variables, s.error_code, s.error
        FROM :schema.all_steps s WHERE s.execution_id = e.first_id
        UNION ALL
        SELECT e.id, h.step, h.step_status, h.step_attempt, h.step_failures, h.step_exit_code, h.step_started_at, h.finished_at,
               h.node_id, h.fence, h.step_output, h.step_variables, h.step_error_code, h.step_error
        FROM :schema.workflow_executions h WHERE h.id = e.first_id AND h.step IS NOT NULL) k
    WHERE e.steps -> k.step IS NOT NULL
      AND (k.status IN ('COMPLETED', 'SKIPPED') OR k.status = 'FAILED' AND e.steps -> k.step ->> 'continue_on_error' = 'true')
      AND k.step <> ALL (e.again)
$$;
