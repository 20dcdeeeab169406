-- Closes the unfinished steps of executions that have ended without them: they were stopped with their execution. `fences`: the last
-- fence of each. Callers: move_to_history(), record_events().
CREATE OR REPLACE FUNCTION :schema.close_steps(ids uuid[], fences bigint[], now_us bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE :schema.workflow_node_executions s
    SET status = 'CANCELLED', due_at = NULL, finished_at = now_us, start_node_id = coalesce(s.start_node_id, s.node_id),
        start_fence = coalesce(s.start_fence, s.fence), node_id = 0, fence = e.fence
    FROM unnest(ids, fences) e (id, fence)
    WHERE s.execution_id = ANY (ids) AND s.execution_id = e.id AND s.finished_at IS NULL;
END
$$;
