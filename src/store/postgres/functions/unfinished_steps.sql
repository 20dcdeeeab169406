-- The steps of a living execution that run, or wait for their next attempt, as a JSON array. Index: the primary key. Callers: why_living(),
-- status (queries/read.sql).
CREATE OR REPLACE FUNCTION :schema.unfinished_steps(execution_id uuid) RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(json_agg(s), '[]')
    FROM (SELECT o.step, o.status, o.attempt, :schema.rfc3339(o.started_at) AS started_at,
                 :schema.rfc3339(o.due_at) AS due_at, o.signal
          FROM :schema.workflow_node_executions o
          WHERE o.execution_id = unfinished_steps.execution_id AND o.finished_at IS NULL ORDER BY o.step LIMIT 20) s
$$;
