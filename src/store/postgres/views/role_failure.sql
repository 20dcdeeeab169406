-- Why the live nodes do not schedule: one row, or none. has_role: the node with the scheduler's role fails. Else no node has the role, and
-- one that fails cannot take it. Index: nodes_unrecovered.
CREATE OR REPLACE VIEW :schema.role_failure AS
SELECT n.dispatch_failed_at AS failed_at, n.dispatch_error AS error, n.id = r.node_id AND r.expires_at > t.now_us AS has_role
FROM :schema.scheduler r CROSS JOIN (SELECT :schema.store_time() AS now_us OFFSET 0) t
JOIN :schema.nodes n ON n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > t.now_us
WHERE r.partition = 0 AND n.dispatch_failed_at IS NOT NULL AND (n.id = r.node_id OR r.node_id = 0 OR r.expires_at <= t.now_us)
ORDER BY n.id <> r.node_id, n.dispatch_failed_at LIMIT 1;
