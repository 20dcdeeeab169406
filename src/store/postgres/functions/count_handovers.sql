-- The counters of a handover for these items, which the caller has locked (recover_options.handovers_max, queue/suspicion.h).
--   running    the steps that ran under the lost claim; NULL = none, or the death of its node did not stop them
--   counted    the counted handovers, this one included. It counts when it was the only item of its node, and of the nodes of
--              the machine that the same call found dead: a step may have killed them too
--   suspicion  the deaths under which a step of it ran, this one included
-- Both begin anew when a step has ended since the last handover. Caller: hand_over(),
-- which describes killed_keeper.
CREATE OR REPLACE FUNCTION :schema.count_handovers(ids uuid[], killed_keeper uuid[])
RETURNS TABLE (id uuid, node_id bigint, running text, counted integer, suspicion integer, ended integer)
LANGUAGE sql STABLE AS $$
    SELECT q.id, q.node_id, s.running,
           CASE WHEN s.ended > q.steps_ended THEN 0 ELSE q.handovers_counted END
           + CASE WHEN s.running IS NOT NULL AND d.is_alone THEN 1 ELSE 0 END,
           CASE WHEN s.ended > q.steps_ended THEN 0 ELSE q.suspicion END + CASE WHEN s.running IS NULL THEN 0 ELSE 1 END, s.ended
    FROM :schema.workflow_execution_queue q
    CROSS JOIN LATERAL (
        SELECT (count(*) FILTER (WHERE n.finished_at IS NOT NULL))::integer AS ended,
               left(string_agg(n.step, ', ' ORDER BY n.step)
                    FILTER (WHERE n.status = 'RUNNING' AND n.fence = q.fence
                            AND NOT EXISTS (SELECT 1 FROM :schema.nodes o WHERE o.id = q.node_id AND o.is_outlived)), 200) AS running
        FROM :schema.workflow_node_executions n WHERE n.execution_id = q.id) s
    CROSS JOIN LATERAL (
        SELECT CASE WHEN killed_keeper IS NOT NULL THEN q.id = ANY (killed_keeper)
                    ELSE EXISTS (SELECT 1 FROM :schema.nodes o
                       WHERE o.id = q.node_id AND o.held_at_death = 1
                         AND NOT EXISTS (SELECT 1 FROM :schema.nodes m
                                         WHERE m.dead_at = o.dead_at AND m.boot_id = o.boot_id
                                           AND m.id <> o.id AND m.held_at_death > 0)) END AS is_alone) d
    WHERE q.id = ANY (ids)
$$;
