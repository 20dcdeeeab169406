-- The timeline of a workspace's slots (store/slot_timeline.h).

-- Those that hold a slot. ?1 workspace, ?2 limit. Index: queue_held.
-- name: slot_timeline_held
SELECT q.id FROM workspaces w CROSS JOIN group_lanes a CROSS JOIN workflow_execution_queue q INDEXED BY queue_held
    ON q.phase = 2 AND q.lane_id = a.base | w.id
WHERE w.name = ?1 ORDER BY q.id DESC LIMIT ?2;

-- Those that were claimed once and hold no slot. ?1 ids below, ?2 ids from, ?3 workspace, ?4 limit.
-- name: slot_timeline_waiting
SELECT q.id FROM workflow_execution_queue q
WHERE q.id < ?1 AND q.id >= ?2 AND q.workspace_id = (SELECT w.id FROM workspaces w WHERE w.name = ?3) AND q.phase <> 2
  AND q.starts_refused + q.deferrals + q.interruptions > 0
ORDER BY q.id DESC LIMIT ?4;

-- Those that ended. ?1 ids below, ?2 ids from, ?3 workspace, ?4 limit, ?5 finished since.
-- name: slot_timeline_ended
SELECT h.id FROM workflow_executions h
WHERE h.id < ?1 AND h.id >= ?2 AND h.workspace_id = (SELECT w.id FROM workspaces w WHERE w.name = ?3) AND h.finished_at >= ?5
  AND (h.claimed_at IS NOT NULL OR h.starts_refused + h.deferrals + h.interruptions > 0)
ORDER BY h.id DESC LIMIT ?4;

-- The last moves, newest first, in the order of execution_events. An act of a person is none, though its event has the name of one.
-- ?1 id, ?2 events, ?3 moves.
-- name: slot_moves
WITH last AS MATERIALIZED (
    SELECT m.seq, m.at, m.event, m.fence, m.actor, m.claimed_at FROM workflow_execution_events m
    WHERE m.execution_id = ?1 ORDER BY m.seq DESC LIMIT ?2
)
SELECT e.at, e.event
FROM (SELECT seq, at, event, fence FROM last
      WHERE actor IS NULL AND event IN ('claim', 'retry', 'defer', 'put_back', 'park')
      UNION ALL
      SELECT seq, claimed_at, 'claim', fence FROM last WHERE claimed_at IS NOT NULL) e
ORDER BY e.at DESC, e.fence DESC, e.event = 'claim', e.seq DESC LIMIT ?3;
