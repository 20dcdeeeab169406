-- The targets of the live nodes, by executor group. target_id 0: a node that does not know its target yet.
CREATE OR REPLACE VIEW :schema.live_targets AS
SELECT n.executor_group, n.target_id, count(*) AS nodes
FROM :schema.nodes n
WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > (SELECT :schema.store_time())
GROUP BY n.executor_group, n.target_id;
