-- The two lanes of each executor group, without a workspace: lane_id of a workspace is `base | workspace_id`.
DROP VIEW IF EXISTS group_lanes;
CREATE VIEW group_lanes AS
SELECT id AS group_id, id << 32 AS base FROM executor_groups UNION ALL SELECT id, id << 32 | 2147483648 FROM executor_groups;
