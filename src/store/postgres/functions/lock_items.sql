-- Locks the living items of a set for an act, in the order of their ids, and returns them as they are then. Callers: cancel_items(),
-- release_items(), migrate_items(), wake_steps().
--   has_no_run  see has_no_run()
CREATE OR REPLACE FUNCTION :schema.lock_items(ids uuid[]) RETURNS TABLE (id uuid, phase smallint, node_id bigint, has_run boolean,
                                                                    has_no_run boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT q.id, q.phase, q.node_id, q.interruptions > 0,
           :schema.has_no_run(q.phase, q.node_id, q.target_id, q.lane_id) FROM :schema.workflow_execution_queue q
    WHERE q.id = ANY (ids) ORDER BY q.id FOR NO KEY UPDATE;
END
$$;
