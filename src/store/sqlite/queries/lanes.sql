-- Lanes and slots: written once per set (see lane_changes.h).

-- name: change_lane
UPDATE lanes SET runnable = runnable + ?2, waiting = waiting + ?3 WHERE id = ?1;

-- name: read_slots
SELECT slots_used, slots_max, paused FROM workspaces WHERE id = ?1;

-- name: change_workspace
UPDATE workspaces
SET slots_used = slots_used + ?2, pending = pending + ?3,
    completed = completed + ?4, failed = failed + ?5, cancelled = cancelled + ?6
WHERE id = ?1;

-- Only for a workspace with a free slot that is not paused. A lane becomes ready where its group's stride stands, so it cannot have
-- saved up turns.
-- name: open_lanes
UPDATE lanes
SET ready = 1, pass = max(pass, (SELECT g.pass FROM executor_groups g WHERE g.name = lanes.executor_group))
WHERE workspace_id = ?1 AND ready = 0 AND runnable > 0;

-- ?2 whether the workspace is full or paused.
-- name: close_lanes
UPDATE lanes
SET ready = 0
WHERE workspace_id = ?1 AND ready = 1
  AND (?2 OR runnable = 0);
