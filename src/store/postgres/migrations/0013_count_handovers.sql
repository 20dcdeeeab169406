-- Which hand-overs count towards poison: those under which a step ran, since a step of it last ended.
ALTER TABLE :schema.workflow_execution_queue
    ADD COLUMN handovers_counted integer NOT NULL DEFAULT 0,
    ADD COLUMN steps_ended integer NOT NULL DEFAULT 0; -- of its steps, at its last hand-over

-- What such a node runs lives on without it, so that its death says nothing of what it held.
ALTER TABLE :schema.nodes ADD COLUMN is_outlived boolean NOT NULL DEFAULT false;
UPDATE :schema.nodes SET is_outlived = true WHERE engine = 'temporal';

-- What a hand-over would count of these items, which the caller has locked.
--   running  the steps that ran under the claim that is lost; NULL = none, or its node's death did not stop them
--   counted  how many hand-overs count then
CREATE FUNCTION :schema.count_handovers(ids uuid[])
RETURNS TABLE (id uuid, node_id bigint, running text, counted integer, ended integer)
LANGUAGE sql STABLE AS $$
    SELECT q.id, q.node_id, s.running,
           CASE WHEN s.ended > q.steps_ended THEN 0 ELSE q.handovers_counted END + CASE WHEN s.running IS NULL THEN 0 ELSE 1 END, s.ended
    FROM :schema.workflow_execution_queue q
    CROSS JOIN LATERAL (
        SELECT (count(*) FILTER (WHERE n.finished_at IS NOT NULL))::integer AS ended,
               left(string_agg(n.step, ', ' ORDER BY n.step)
                    FILTER (WHERE n.status = 'RUNNING' AND n.fence = q.fence
                            AND NOT EXISTS (SELECT 1 FROM :schema.nodes o WHERE o.id = q.node_id AND o.is_outlived)), 200) AS running
        FROM :schema.workflow_node_executions n WHERE n.execution_id = q.id) s
    WHERE q.id = ANY (ids)
$$;
