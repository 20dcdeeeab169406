-- Whether an id is not a UUIDv7; NULL for NULL. Lists and bulk acts use the order of ids, so other ids are refused.
-- Callers: try_enqueue(), read_request().
CREATE OR REPLACE FUNCTION :schema.execution_id_is_wrong(execution_id uuid) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT substr(execution_id::text, 15, 1) <> '7'
$$;
