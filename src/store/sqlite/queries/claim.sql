-- Claim. Cost depends on the batch, never on the backlog or the number of workspaces.

-- One row: is there anything to do? Indexes: lanes_ready, queue_held (node 0), queue_waiting, queue_requests.
-- ?1 node, ?2 group
-- name: next_work
SELECT
    EXISTS (SELECT 1 FROM lanes WHERE executor_group = ?2 AND ready = 1),
    EXISTS (SELECT 1 FROM workflow_execution_queue q JOIN lanes l ON l.id = q.lane_id
            WHERE q.phase = 2 AND q.node_id = 0 AND l.executor_group = ?2),
    (SELECT min(due_at) FROM workflow_execution_queue WHERE phase = 1),
    EXISTS (SELECT 1 FROM workflow_execution_queue WHERE node_id = ?1 AND cancel_at IS NOT NULL AND cancel_sent = 0),
    s.queue_paused OR coalesce((SELECT g.paused FROM executor_groups g WHERE g.name = ?2), 0),
    coalesce((SELECT n.wish = 'run' AND n.dead_at IS NULL AND n.stopped_at IS NULL FROM nodes n WHERE n.id = ?1), 0)
FROM store_state s WHERE s.id = 1;

-- Scheduled items whose time has come become runnable. Index: queue_waiting.
-- name: due_items
SELECT id, lane_id, workspace_id FROM workflow_execution_queue WHERE phase = 1 AND due_at <= ?1 ORDER BY due_at LIMIT ?2;

-- name: promote_item
UPDATE workflow_execution_queue SET phase = 0, due_at = NULL WHERE id = ?1;

-- Taken over from dead nodes, oldest lane first. ?1 node, ?2 fence, ?3 now, ?4 group, ?5 limit. Index: queue_held.
-- name: claim_handed_over
UPDATE workflow_execution_queue SET node_id = ?1, fence = ?2, claimed_at = ?3, cancel_sent = 1
WHERE id IN (SELECT q.id FROM workflow_execution_queue q JOIN lanes l ON l.id = q.lane_id
             WHERE q.phase = 2 AND q.node_id = 0 AND l.executor_group = ?4 LIMIT ?5)
RETURNING id, rank, definition_id, attempts, interruptions, has_params, cancel_at, created_at, run_at, dispatched_at, workspace_id, number,
          priority;

-- ?1 group, ?2 limit. Index: lanes_ready.
-- name: ready_lanes
SELECT l.id, l.workspace_id, l.pass, w.weight, w.slots_max - w.slots_used, l.runnable, w.name,
       NOT EXISTS (SELECT 1 FROM lanes o WHERE o.workspace_id = l.workspace_id AND o.id <> l.id)
FROM lanes l JOIN workspaces w ON w.id = l.workspace_id
WHERE l.executor_group = ?1 AND l.ready = 1
ORDER BY l.pass, l.id LIMIT ?2;

-- The head of one lane, and the mark on each of its items. Two statements and no RETURNING, here and for whatever runs once per
-- item: RETURNING builds a temporary tree each time, which costs more than the change itself. The writer is alone, so nothing
-- comes between the two. ?1 lane, ?2 limit. Index: queue_runnable.
-- name: lane_head
SELECT id, rank, definition_id, attempts, interruptions, has_params, cancel_at, created_at, run_at, dispatched_at, workspace_id, number,
       priority
FROM workflow_execution_queue WHERE lane_id = ?1 AND phase = 0 ORDER BY rank, number LIMIT ?2;

-- ?1 number of the row, ?2 node, ?3 fence, ?4 now
-- name: claim_item
UPDATE workflow_execution_queue SET status = 'CLAIMED', phase = 2, node_id = ?2, fence = ?3, claimed_at = ?4
WHERE number = ?1 AND phase = 0;

-- After its turns: where the lane stands. ?2 pass, ?3 taken, ?4 whether its workspace has a slot left. A lane that ran dry is not
-- ready, nor is one of a full workspace.
-- name: charge_lane
UPDATE lanes SET pass = ?2, runnable = runnable - ?3, ready = (runnable > ?3 AND ?4) WHERE id = ?1;

-- name: advance_group
UPDATE executor_groups SET pass = max(pass, ?2) WHERE name = ?1;

-- name: workspace_name
SELECT name FROM workspaces WHERE id = ?1;

-- name: read_params
SELECT params FROM execution_params WHERE id = ?1;

-- name: read_steps
SELECT step, status, attempt, failures, exit_code, due_at, output, variables, error_code, error
FROM workflow_node_executions WHERE execution_id = ?1;

-- name: read_definition
SELECT d.id, d.name, d.definition, d.version, w.name
FROM workflow_definitions d LEFT JOIN workspaces w ON w.id = d.workspace_id WHERE d.id = ?1;

-- name: take_requests
UPDATE workflow_execution_queue SET cancel_sent = 1
WHERE node_id = ?1 AND cancel_at IS NOT NULL AND cancel_sent = 0
RETURNING id, fence;
