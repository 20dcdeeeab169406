-- The reasons (pending_reason in queue/item.h) that hold back all runnable items of a lane, the first that applies.
--   alive, fits, reachable  a live node serves the group; one with an engine of the kind of the lane; and reaches it
--   unserved          no live node of the group has the handlers of the definition; NULL = it needs none, or it is not known.
--   scheduled         a node has the scheduler's role, and its lease is not over.
--   full_up           the workspace uses all its slots.
--   has_room          a node that could run it reported free capacity; NULL = it is not known.
-- The view `executions` calls it with the rights of its reader: it has no operators, and every role may execute it.
-- Callers: the view executions, status (queries/read.sql).
CREATE OR REPLACE FUNCTION :schema.lane_reason(workspace_paused boolean, queue_paused boolean, alive boolean, fits boolean,
                                               reachable boolean, unserved boolean, scheduled boolean, full_up boolean,
                                               has_room boolean)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN workspace_paused THEN 'workspace_paused' WHEN queue_paused THEN 'queue_paused'
            WHEN NOT alive THEN 'no_node_in_group' WHEN NOT fits THEN 'no_node_for_engine' WHEN NOT reachable THEN 'engine_unreachable'
            WHEN unserved THEN 'no_worker' WHEN NOT scheduled THEN 'no_scheduler' WHEN full_up THEN 'workspace_at_capacity'
            WHEN NOT has_room THEN 'nodes_full' ELSE 'ready' END
$$;

GRANT EXECUTE ON FUNCTION :schema.lane_reason(boolean, boolean, boolean, boolean, boolean, boolean, boolean, boolean, boolean) TO PUBLIC;
