-- Whether a live node of the group of a lane, other than one, accepts work and has all handlers of a definition. Locks: none.
-- Caller: record_put_backs().
CREATE OR REPLACE FUNCTION :schema.has_worker(definition_id bigint, lane_id bigint, but_node bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT 1 FROM :schema.workflow_definitions d
                   JOIN :schema.executor_groups g ON g.id = (has_worker.lane_id >> 47)::integer
                   JOIN :schema.live_workers o ON o.executor_group = g.name
                   WHERE d.id = has_worker.definition_id AND o.id <> but_node AND d.handlers <@ o.handlers)
$$;
