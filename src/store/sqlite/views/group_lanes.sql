-- The lanes that a workspace may have, without it: lane_id of a workspace is `base | workspace_id`.
DROP VIEW IF EXISTS group_lanes;
CREATE VIEW group_lanes AS
SELECT g.id AS group_id, (g.id << 47) | (d.demand << 31) AS base
FROM executor_groups g CROSS JOIN (SELECT 0 AS demand UNION ALL SELECT 1 UNION ALL SELECT 2 * id FROM handler_sets) d;
