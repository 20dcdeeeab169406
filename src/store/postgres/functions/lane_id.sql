-- The id of the lane of a workspace in an executor group, for one demand (lane_id_of() in queue/scheduler.h).
-- Callers: enqueue_one(), insert_items(), migrate_items().
CREATE OR REPLACE FUNCTION :schema.lane_id(group_id integer, workspace_id integer, demand integer) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT (group_id::bigint << 47) | (demand::bigint << 31) | workspace_id::bigint
$$;
