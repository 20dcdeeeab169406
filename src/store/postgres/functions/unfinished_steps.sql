-- The steps of a living execution that run, or wait for their next attempt, as a JSON array. A RUNNING one of an execution without a node
-- was interrupted. Index: the primary key. Callers: why_living(), status (queries/read.sql).
CREATE OR REPLACE FUNCTION :schema.unfinished_steps(execution_id uuid) RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH own AS MATERIALIZED (
        SELECT d.definition::json -> 'steps' AS steps
        FROM :schema.workflow_execution_queue q JOIN :schema.workflow_definitions d ON d.id = q.definition_id
        WHERE q.id = unfinished_steps.execution_id
    )
    SELECT coalesce(json_agg(s), '[]')
    FROM (SELECT o.step,
                 CASE WHEN o.status = 'RUNNING'
                           AND EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q
                                       WHERE q.id = o.execution_id AND q.phase = 2 AND q.node_id = 0)
                      THEN 'INTERRUPTED' ELSE o.status END AS status, o.attempt, :schema.rfc3339(o.started_at) AS started_at,
                 :schema.rfc3339(o.due_at) AS due_at,
                 CASE WHEN o.signal NOT LIKE 'children:%' AND o.signal NOT LIKE 'manual:%' THEN o.signal END AS signal,
                 CASE WHEN o.step = 'state'
                      THEN substring(convert_from(o.variables, 'UTF8') FROM '^\{"state": ?"([^"]*)"') END AS state,
                 o.error_code, o.error,
                 (SELECT (own.steps #>> ARRAY[o.step, 'retry', 'attempts'])::integer FROM own) AS attempts_max,
                 w.count AS children_count, w.ended AS children_ended,
                 (SELECT c.child_id FROM :schema.children c
                  WHERE c.parent_id = o.execution_id AND c.step = o.step AND c.status IS NULL
                  ORDER BY c.position LIMIT 1) AS oldest_child_id,
                 CASE WHEN o.signal LIKE 'approve:%' THEN
                     (SELECT string_agg(b.name, ', ')
                      FROM own, json_array_elements_text(own.steps #> ARRAY[o.step, 'approve', 'by']) b (name)) END AS approvers,
                 CASE WHEN o.signal LIKE 'approve:%' THEN
                     (SELECT own.steps #>> ARRAY[o.step, 'approve', 'prompt'] FROM own) END AS prompt
          FROM :schema.workflow_node_executions o
          LEFT JOIN :schema.child_steps w ON w.parent_id = o.execution_id AND w.step = o.step
          WHERE o.execution_id = unfinished_steps.execution_id AND o.finished_at IS NULL ORDER BY o.step LIMIT 20) s
$$;
