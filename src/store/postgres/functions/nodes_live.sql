-- How many nodes of the group live. Locks: none. Callers: why_living(), the status (queries/read.sql).
CREATE OR REPLACE FUNCTION :schema.nodes_live(of_group text) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT count(*) FROM :schema.nodes n
    WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > (SELECT :schema.store_time())
      AND n.executor_group = of_group
$$;
