-- Since when the first of the live nodes of the group that do not reach their engine does not; NULL when all do.
CREATE OR REPLACE FUNCTION :schema.engine_unreachable_since(of_group text) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT min(n.engine_unreachable_at) FROM :schema.nodes n
    WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > (SELECT :schema.store_time())
      AND NOT n.engine_reachable AND n.executor_group = of_group
$$;
