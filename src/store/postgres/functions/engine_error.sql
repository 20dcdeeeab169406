-- The last error of a live node of the group, or of any group (NULL), that does not reach its engine; NULL when all do.
-- Locks: none. Callers: why_living(), status (queries/read.sql).
CREATE OR REPLACE FUNCTION :schema.engine_error(of_group text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT max(n.engine_error) FROM :schema.nodes n
    WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > (SELECT :schema.store_time())
      AND NOT n.engine_reachable AND (of_group IS NULL OR n.executor_group = of_group)
$$;
