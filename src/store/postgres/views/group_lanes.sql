-- The lanes that a workspace may have, without it: its lane_id is base | its id (lane_id()).
CREATE OR REPLACE VIEW :schema.group_lanes AS
SELECT g.id AS group_id, (g.id::bigint << 47) | (d.demand::bigint << 31) AS base
FROM :schema.executor_groups g
CROSS JOIN (SELECT 0 AS demand UNION ALL SELECT 1 UNION ALL SELECT 2 * s.id FROM :schema.handler_sets s) d;
