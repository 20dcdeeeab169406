-- The time at which the first of the live nodes of the group lost its engine, if it has not reached it since; NULL: all nodes reach theirs.
-- Locks: none. Caller: why_living().
CREATE OR REPLACE FUNCTION :schema.engine_unreachable_since(of_group text) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT min(n.engine_unreachable_at) FROM :schema.nodes n
    WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > (SELECT :schema.store_time())
      AND NOT n.engine_reachable AND n.executor_group = of_group
$$;
