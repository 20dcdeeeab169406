-- The counters of a handover, for items that the caller has locked (queue/suspicion.h).
--   ids            the items
--   killed_keeper  see hand_over()
-- Returns per item:
--   running    the steps that ran under the lost claim; NULL: none ran, or the death of the node did not stop them
--   counted    the counted handovers, this one included
--   suspicion  the deaths of nodes under which a step of the item ran, this one included
--   ended      the steps that have ended (steps_ended_of())
--
-- 1. A step counts as running if its row is RUNNING under the present fence. A node that its steps outlive (is_outlived) stops none.
-- 2. The handover counts if the item was the only one of its node, and of the nodes of the same machine that the same call found dead. Else
--    another item may have killed them.
-- 3. If a step has ended since the last handover, both counters begin anew: an execution that makes progress is no poison.
-- Locks: none. Caller: hand_over().
CREATE OR REPLACE FUNCTION :schema.count_handovers(ids uuid[], killed_keeper uuid[])
RETURNS TABLE (id uuid, node_id bigint, running text, counted integer, suspicion integer, ended integer)
LANGUAGE sql STABLE AS $$
    SELECT q.id, q.node_id, s.running,
           CASE WHEN s.ended > q.steps_ended THEN 0 ELSE q.handovers_counted END
           + CASE WHEN s.running IS NOT NULL AND d.is_alone THEN 1 ELSE 0 END,
           CASE WHEN s.ended > q.steps_ended THEN 0 ELSE q.suspicion END + CASE WHEN s.running IS NULL THEN 0 ELSE 1 END, s.ended
    FROM :schema.workflow_execution_queue q
    CROSS JOIN LATERAL (
        SELECT :schema.steps_ended_of(q.id) AS ended,
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
