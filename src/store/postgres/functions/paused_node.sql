-- The name of a live node of the group that `weir node resume` lets accept work again; NULL when there is none.
-- Locks: none. Caller: why_living().
CREATE OR REPLACE FUNCTION :schema.paused_node(of_group text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT min(n.name) FROM :schema.nodes n
    WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > (SELECT :schema.store_time())
      AND n.executor_group = of_group AND n.desired_state IN ('pause', 'drain')
      AND n.not_accepting IS NULL
$$;
