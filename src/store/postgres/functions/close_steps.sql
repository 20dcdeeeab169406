-- Closes the unfinished steps of executions that have ended without them. Most were stopped with their execution. A RUNNING one whose node
-- died or gave the execution back was stopped then and there, so it keeps its node, and the time of that event. `fences`: the last fence
-- of each. Locks: the rows of the steps. Callers: move_to_history(), record_events().
CREATE OR REPLACE FUNCTION :schema.close_steps(ids uuid[], fences bigint[], now_us bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE :schema.workflow_node_executions s
    SET status = 'CANCELLED', due_at = NULL, error_code = 'interrupted', finished_at = i.at
    FROM (SELECT o.execution_id, o.step, min(e.at) AS at
          FROM :schema.workflow_node_executions o JOIN :schema.workflow_execution_events e ON e.execution_id = o.execution_id
          WHERE o.execution_id = ANY (ids) AND e.execution_id = ANY (ids) AND o.status = 'RUNNING' AND o.finished_at IS NULL
            AND e.event IN ('hand_over', 'give_back') AND e.at >= o.started_at AND e.fence >= o.fence
          GROUP BY o.execution_id, o.step) i
    WHERE s.execution_id = ANY (ids) AND s.execution_id = i.execution_id AND s.step = i.step;
    UPDATE :schema.workflow_node_executions s
    SET status = 'CANCELLED', due_at = NULL, finished_at = now_us, start_node_id = coalesce(s.start_node_id, s.node_id),
        start_fence = coalesce(s.start_fence, s.fence), node_id = 0, fence = e.fence
    FROM unnest(ids, fences) e (id, fence)
    WHERE s.execution_id = ANY (ids) AND s.execution_id = e.id AND s.finished_at IS NULL;
END
$$;
