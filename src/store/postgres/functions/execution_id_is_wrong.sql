-- Whether an id is not a UUIDv7, or of a time more than a day ahead (ID_AHEAD_MOST_US in queue/limits.h); NULL for NULL. Lists and bulk
-- acts use the order of ids, so other ids are refused, and one of years to come would hide the executions of other workspaces.
-- Callers: try_enqueue(), read_request().
CREATE OR REPLACE FUNCTION :schema.execution_id_is_wrong(execution_id uuid) RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT substr(execution_id::text, 15, 1) <> '7'
           OR ('x' || left(replace(execution_id::text, '-', ''), 12))::bit(48)::bigint > (:schema.store_time() + 86400000000) / 1000
$$;
