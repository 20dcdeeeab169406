-- The live nodes that accept work, with the handlers that they have, and what they reported with their last heartbeat.
CREATE OR REPLACE VIEW :schema.live_workers AS
SELECT n.id, n.name, n.executor_group, n.handlers, n.engine = 'temporal' AS on_temporal, n.engine_reachable, n.capacity, n.running
FROM :schema.nodes n
WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.desired_state = 'run' AND n.not_accepting IS NULL
  AND n.expires_at > (SELECT :schema.store_time());
