-- Executor groups with a live node that accepts work, by the kind of its engine. has_room: one of them reaches its engine and reported
-- free capacity.
CREATE OR REPLACE VIEW :schema.served_groups AS
SELECT n.executor_group, n.engine = 'temporal' AS on_temporal, bool_or(n.engine_reachable) AS engine_reachable,
       bool_or(n.engine_reachable AND n.capacity > n.running) AS has_room
FROM :schema.nodes n
WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.desired_state = 'run' AND n.not_accepting IS NULL
  AND n.expires_at > (SELECT :schema.store_time())
GROUP BY n.executor_group, n.engine = 'temporal';
