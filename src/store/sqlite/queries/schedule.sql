-- The rounds of the scheduler, its role, and the inboxes of the nodes. Rows of the queue are found by their number.

-- name: read_epoch
SELECT epoch FROM scheduler WHERE partition = 0;

-- Assignments of a set to other nodes; `parameter_rows` has the numbers, nodes, lanes and ranks. An item that another transaction has
-- taken, ended or moved has no row here. A number is used again when the row with the highest one is gone, so lane and rank must be the
-- same. The last column: since when an item that is assigned for the first time could run; 0 = it was assigned before. No counter grows
-- with a record PUT_BACK, but it leaves its code. ?1 own node
-- name: find_assignable
SELECT g.at, CASE WHEN q.starts_refused + q.deferrals + q.interruptions = 0 AND q.error_code IS NULL
                  THEN max(q.run_at, q.created_at) ELSE 0 END
FROM parameter_rows g CROSS JOIN workflow_execution_queue q ON q.number = g.number AND q.lane_id = g.lane_id AND q.rank = g.rank
WHERE q.phase = 0 AND g.node_id <> ?1;

-- Those of the own node. A new item was never assigned, and has no cancel and no signal. Its row is read here as far as the node needs
-- it, because the other columns of claimed_items have their first values. The rows of other items are read by claimed_items. The last
-- column: whether it is new. ?1 own node
-- name: find_own_assignable
SELECT g.at, q.id, q.definition_id, q.has_params, q.created_at, q.run_at, q.priority, w.name, w.weight, q.traceparent,
       q.fence = 0 AND q.interruptions = 0 AND q.signals = 0 AND q.cancel_at IS NULL
FROM parameter_rows g CROSS JOIN workflow_execution_queue q ON q.number = g.number AND q.lane_id = g.lane_id AND q.rank = g.rank
LEFT JOIN workspaces w ON w.id = q.workspace_id
WHERE q.phase = 0 AND g.node_id = ?1;

-- Those that were found, of one node. ?1 node, ?2 its target, ?3 fence, ?4 now
-- name: assign_items
UPDATE workflow_execution_queue
SET status = 'CLAIMED', phase = 2, node_id = ?1, target_id = ?2, fence = ?3, claimed_at = max(?4, created_at)
WHERE number IN (SELECT g.number FROM parameter_rows g);

-- Only a node of the item's target can ask for its outcome. ?1 number, ?2 node, ?3 fence, ?4 now, ?5 lane, ?6 target of the node.
-- name: assign_handed_over
UPDATE workflow_execution_queue SET node_id = ?2, target_id = ?6, fence = ?3, claimed_at = max(?4, created_at), cancel_sent = 1
WHERE number = ?1 AND phase = 2 AND node_id = 0 AND lane_id = ?5 AND (target_id = 0 OR target_id = ?6);

-- The target of a node that takes items, times two, plus one when its engine is of the kind `temporal`.
-- name: node_takes_items
SELECT 2 * target_id + (engine = 'temporal') FROM nodes WHERE id = ?1 AND dead_at IS NULL AND stopped_at IS NULL
  AND recovered_at IS NULL AND desired_state = 'run';

-- Items of a claim for their node, in the order of their numbers in `parameter_rows`. A suspect has made no progress since the last
-- handover (steps_at_handover).
-- name: claimed_items
SELECT q.id, q.definition_id, q.starts_refused, q.interruptions, q.has_params, q.cancel_at, q.created_at, q.run_at, q.dispatched_at,
       q.priority, q.fence, q.claimed_at, w.name, q.deferrals, w.weight, q.traceparent,
       q.starts_refused + q.deferrals + q.interruptions > 0 OR q.error_code IS NOT NULL, q.interruptions_at_park, q.woken_at,
       q.suspicion > 1 AND (SELECT p.ended FROM item_progress p WHERE p.number = q.number) <= q.steps_ended,
       q.handovers > 0, q.signals
FROM parameter_rows g CROSS JOIN workflow_execution_queue q ON q.number = g.number LEFT JOIN workspaces w ON w.id = q.workspace_id;

-- name: read_params
SELECT params FROM execution_params WHERE id = ?1;

-- name: read_steps
SELECT step, status, attempt, failures, exit_code, due_at, output, variables, error_code, error, signal, finished_at
FROM workflow_node_executions WHERE execution_id = ?1;

-- name: read_definition
SELECT d.id, d.name, d.definition, d.version, w.name
FROM workflow_definitions d LEFT JOIN workspaces w ON w.id = d.workspace_id WHERE d.id = ?1;

-- Items that are due. ?1 now, ?2 limit. Index: queue_waiting.
-- name: due_items
SELECT number, lane_id, rank, phase, id FROM workflow_execution_queue WHERE due_at <= ?1 ORDER BY due_at LIMIT ?2;

-- `parameter_rows` has their numbers. The end of a wait in WAITING gets no event row: the row has its time and the fence of its claim.
-- ?1 now
-- name: promote_items
UPDATE workflow_execution_queue
SET status = 'PENDING', phase = 0, due_at = NULL, waiting_for = NULL, woken_at = CASE phase WHEN 3 THEN ?1 ELSE woken_at END,
    parked_fence = CASE phase WHEN 3 THEN fence ELSE parked_fence END
WHERE number IN (SELECT g.number FROM parameter_rows g);

-- name: next_due
SELECT min(due_at) FROM workflow_execution_queue WHERE due_at IS NOT NULL;

-- The first items of a lane behind (?2 rank, ?3 number), along the primary key of queue_runnable. ?4 limit
-- name: lane_heads
SELECT r.rank, r.number FROM runnable_items r
WHERE r.lane_id = ?1 AND (r.rank, r.number) > (?2, ?3) ORDER BY r.rank, r.number LIMIT ?4;

-- name: workspace_limits
SELECT slots_max, weight, paused FROM workspaces WHERE id = ?1;

-- Facts of the first round.
-- name: queue_is_paused
SELECT queue_paused FROM store_state WHERE id = 1;

-- name: groups
SELECT id, paused FROM executor_groups;

-- ?1 now
-- name: schedulable_nodes
SELECT n.id, coalesce(g.id, 0), n.capacity,
       n.desired_state = 'run' AND n.not_accepting IS NULL AND n.expires_at > ?1, n.target_id, n.engine = 'temporal'
FROM nodes n LEFT JOIN executor_groups g ON g.name = n.executor_group
WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL;

-- For each live node the sets of handlers of which it has all. Nodes with equal handlers are compared once.
-- name: node_handler_sets
WITH live AS MATERIALIZED (
    SELECT id, handlers FROM nodes WHERE recovered_at IS NULL AND dead_at IS NULL AND stopped_at IS NULL AND handlers <> '[]'
      AND EXISTS (SELECT 1 FROM handler_sets)
),
kinds AS MATERIALIZED (SELECT min(id) AS id, handlers FROM live GROUP BY handlers),
offers AS MATERIALIZED (SELECT DISTINCT k.id, o.value AS name FROM kinds k, json_each(k.handlers) o),
served AS MATERIALIZED (
    SELECT o.id, s.id AS set_id FROM handler_sets s, json_each(s.handlers) h JOIN offers o ON o.name = h.value
    GROUP BY o.id, s.id HAVING count(*) = json_array_length(s.handlers)
)
SELECT n.id, s.set_id FROM live n JOIN kinds k ON k.handlers = n.handlers JOIN served s ON s.id = k.id;

-- name: held_by_lane
SELECT lane_id, node_id, count(*) FROM workflow_execution_queue WHERE phase = 2 GROUP BY lane_id, node_id;

-- Lanes that have runnable items, one look into the index for each. Index: queue_runnable.
-- name: runnable_lanes
WITH RECURSIVE l (id) AS (
    SELECT min(lane_id) FROM queue_runnable
    UNION ALL
    SELECT (SELECT min(r.lane_id) FROM queue_runnable r WHERE r.lane_id > l.id) FROM l
    WHERE l.id IS NOT NULL
)
SELECT l.id, b.pass FROM l LEFT JOIN books b ON b.lane_id = l.id
WHERE l.id IS NOT NULL AND EXISTS (SELECT 1 FROM runnable_items i WHERE i.lane_id = l.id);

-- Held items without a node. Index: queue_held.
-- name: handed_over_items
SELECT number, lane_id, suspicion, coalesce(suspected_at, 0), target_id FROM workflow_execution_queue WHERE phase = 2 AND node_id = 0;

-- Held items that may be on trial: none of which a step has ended since the last handover. Indexes: queue_suspects, and the primary key
-- of the steps.
-- name: suspects
SELECT q.number, q.lane_id, q.suspicion, q.claimed_at, q.node_id, q.target_id FROM workflow_execution_queue q
WHERE q.suspicion > 1 AND q.phase = 2 AND q.node_id > 0
  AND (SELECT p.ended FROM item_progress p WHERE p.number = q.number) <= q.steps_ended;

-- Items of a lane without a workspace: those that no node holds. ?1 lane, ?2 limit. Indexes: queue_runnable, queue_held.
-- name: orphan_items
SELECT id FROM runnable_items WHERE lane_id = ?1
UNION ALL
SELECT id FROM workflow_execution_queue WHERE phase = 2 AND lane_id = ?1 AND node_id = 0
LIMIT ?2;

-- The role. ?1 now. The last column: whether the role is free, also by the death of its holder.
-- name: read_role
SELECT s.epoch, s.node_id, coalesce(n.name, ''), s.since, s.expires_at,
       (SELECT count(*) FROM scheduler_takeovers t WHERE t.at > ?1 - 3600000000),
       s.node_id = 0 OR s.expires_at <= ?1 OR n.id IS NULL OR n.dead_at IS NOT NULL OR n.stopped_at IS NOT NULL
FROM scheduler s LEFT JOIN nodes n ON n.id = s.node_id WHERE s.partition = 0;

-- name: why_of_role
SELECT r.why, r.lock_awaited_at, f.failed_at, f.error, f.has_role FROM scheduler r LEFT JOIN role_failure f WHERE r.partition = 0;

-- A node that lost its own lease cannot schedule.
-- name: node_may_schedule
SELECT 1 FROM nodes WHERE id = ?1 AND dead_at IS NULL AND stopped_at IS NULL AND recovered_at IS NULL;

-- ?1 node, ?2 now, ?3 lease, ?4 why. A holder that takes it anew keeps its time.
-- name: take_role
UPDATE scheduler
SET epoch = epoch + 1, since = CASE WHEN node_id = ?1 THEN since ELSE ?2 END, node_id = ?1, expires_at = ?2 + ?3, why = ?4,
    lock_awaited_at = 0
WHERE partition = 0;

-- A store that is restored from a backup gives no fence out a second time. ?1 now
-- name: raise_fence
UPDATE store_state SET fence = max(fence, ?1) WHERE id = 1;

-- name: note_takeover
INSERT INTO scheduler_takeovers (epoch, at, node_id, why) SELECT epoch, ?1, node_id, why FROM scheduler WHERE partition = 0;

-- name: forget_takeovers
DELETE FROM scheduler_takeovers WHERE epoch <= (SELECT epoch - 100 FROM scheduler WHERE partition = 0);

-- ?3 now, ?4 lease, ?5 whether it awaits the lock
-- name: renew_role
UPDATE scheduler
SET expires_at = ?3 + ?4, lock_awaited_at = CASE WHEN NOT ?5 THEN 0 WHEN lock_awaited_at = 0 THEN ?3 ELSE lock_awaited_at END
WHERE partition = 0 AND node_id = ?1 AND epoch = ?2;

-- name: leave_role
UPDATE scheduler SET node_id = 0, since = ?3, expires_at = ?3, lock_awaited_at = 0, why = 'left'
WHERE partition = 0 AND node_id = ?1 AND epoch = ?2;

-- The inbox. Nodes record a start themselves, so they know the DISPATCHED ones. ?1 node, ?2 fence, ?3 id, ?4 limit.
-- Index: queue_held, all of it.
-- name: inbox_items
SELECT number FROM workflow_execution_queue INDEXED BY queue_held
WHERE phase = 2 AND node_id = ?1 AND fence >= ?2 AND (fence > ?2 OR id > ?3) AND status = 'CLAIMED'
ORDER BY fence, id LIMIT ?4;

-- name: has_requests
SELECT EXISTS (SELECT 1 FROM workflow_execution_queue WHERE node_id = ?1 AND cancel_at IS NOT NULL AND cancel_sent = 0)
       OR EXISTS (SELECT 1 FROM workflow_execution_queue WHERE node_id = ?1 AND signals > signals_sent);

-- name: take_requests
UPDATE workflow_execution_queue SET cancel_sent = 1
WHERE node_id = ?1 AND cancel_at IS NOT NULL AND cancel_sent = 0
RETURNING id, fence;
