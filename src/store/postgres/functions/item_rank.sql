-- The place of an item in its lane (item_rank() in queue/item.h): its time, one hour earlier for each level of priority.
-- Callers: enqueue_one(), insert_items(), retry_executions().
CREATE OR REPLACE FUNCTION :schema.item_rank(run_at bigint, priority integer) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT least(run_at, 9223371676854775807) - priority * 3600000000
$$;
