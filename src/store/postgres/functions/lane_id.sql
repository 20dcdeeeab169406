-- The id of the lane of a workspace in an executor group (lane_id_of() in queue/scheduler.h).
CREATE OR REPLACE FUNCTION :schema.lane_id(group_id integer, workspace_id integer) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT (group_id::bigint << 32) | workspace_id::bigint
$$;
