-- The id of the lane of a workspace in an executor group, for one kind of engine (lane_id_of() in queue/scheduler.h).
-- Callers: enqueue_one(), insert_items(), check_limits (queries/check.sql).
CREATE OR REPLACE FUNCTION :schema.lane_id(group_id integer, workspace_id integer, on_temporal boolean) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT (group_id::bigint << 32) | (on_temporal::integer::bigint << 31) | workspace_id::bigint
$$;
