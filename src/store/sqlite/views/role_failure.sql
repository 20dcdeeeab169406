-- One row, of a node that fails to schedule, else NULLs. has_role: it has the scheduler's role, whose lease may be over. Else it has not,
-- and matters only while no node has the role. Its other columns are of the row with the maximum. Reads no clock.
-- Index: nodes_unrecovered.
DROP VIEW IF EXISTS role_failure;
CREATE VIEW role_failure AS
SELECT max(n.id = r.node_id) AS has_role, n.dispatch_failed_at AS failed_at, n.dispatch_error AS error
FROM scheduler r CROSS JOIN nodes n
WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.dispatch_failed_at IS NOT NULL;
