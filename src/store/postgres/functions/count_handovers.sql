-- What a handover would count for these items, which the caller has locked (recover_options.handovers_max).
--   running  the steps that ran under the lost claim; NULL = none, or the death of its node did not stop them
--   counted  the counted handovers, this one included
-- Caller: hand_over().
CREATE OR REPLACE FUNCTION :schema.count_handovers(ids uuid[])
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
