-- The states of workflows: ended actions, and the children that they start. Found by primary key.

-- The same record again finds its row. ?2 the action of a record, ?3 now, ?4 node, ?5 fence
-- name: insert_action
INSERT INTO workflow_actions
    (execution_id, action, state, outcome, next_state, started_at, finished_at, node_id, fence, variables, error_code, error)
SELECT ?1, ?2 ->> '$.action', ?2 ->> '$.state', ?2 ->> '$.outcome', ?2 ->> '$.next', ?3 - (?2 ->> '$.ran_us'), ?3, ?4, ?5,
       ?2 -> '$.variables', ?2 ->> '$.code', ?2 ->> '$.error'
WHERE true
ON CONFLICT DO NOTHING;

-- ?2 the last action, ?3 how many are kept
-- name: trim_actions
DELETE FROM workflow_actions WHERE execution_id = ?1 AND action <= ?2 - ?3;

-- The plans of an action, each with the step that its children have. The execution may have ended in this transaction. ?2 the action
-- name: insert_action_children
INSERT INTO child_steps (parent_id, step, workspace_id, plan)
SELECT ?1, 'state.' || (?2 ->> '$.action') || '.' || p.key,
       coalesce((SELECT q.workspace_id FROM workflow_execution_queue q WHERE q.id = ?1),
                (SELECT h.workspace_id FROM workflow_executions h WHERE h.id = ?1)), CAST(p.value AS BLOB)
FROM json_each(?2, '$.plans') p WHERE true
ON CONFLICT DO NOTHING;

-- name: note_action_children
INSERT INTO child_notes (parent_id, step)
SELECT ?1, 'state.' || (?2 ->> '$.action') || '.' || p.key FROM json_each(?2, '$.plans') p;

-- The children of an action that is kept no longer, unless one of them may still change it. ?2 the last action, ?3 how many are kept
-- name: trim_children
DELETE FROM children
WHERE parent_id = ?1
  AND step IN (SELECT s.step FROM child_steps s
               WHERE s.parent_id = ?1 AND s.plan IS NOT NULL AND s.is_settled AND CAST(substr(s.step, 7) AS INTEGER) <= ?2 - ?3
                 AND (s.ended = s.count OR s.leaves AND s.started = s.count));

-- Behind trim_children.
-- name: trim_child_steps
DELETE FROM child_steps
WHERE parent_id = ?1 AND plan IS NOT NULL AND is_settled AND CAST(substr(step, 7) AS INTEGER) <= ?2 - ?3
  AND (ended = count OR leaves AND started = count);

-- name: purge_actions
DELETE FROM workflow_actions WHERE execution_id = ?1;

-- Behind the action ?2.
-- name: read_action_rows
SELECT action AS seq, state, outcome, next_state,
       strftime('%Y-%m-%dT%H:%M:%S', started_at / 1000000, 'unixepoch') || printf('.%06dZ', started_at % 1000000) AS started_at,
       strftime('%Y-%m-%dT%H:%M:%S', finished_at / 1000000, 'unixepoch') || printf('.%06dZ', finished_at % 1000000) AS finished_at,
       (SELECT n.name FROM nodes n WHERE n.id = node_id) AS node, fence, actor, variables, error_code, error
FROM workflow_actions WHERE execution_id = ?1 AND action > ?2 ORDER BY action LIMIT ?3;

-- The number of the action before the last ?2, and how many there are before them.
-- name: actions_before
SELECT coalesce(max(a.action), 0), count(*)
FROM workflow_actions a
WHERE a.execution_id = ?1
  AND a.action <= (SELECT b.action FROM workflow_actions b WHERE b.execution_id = ?1 ORDER BY b.action DESC LIMIT 1 OFFSET ?2);

-- The row that an update reads: the definition, the step on record, and the phase. ?1 id
-- name: read_machine
SELECT d.definition, q.phase, q.lane_id, q.rank, q.fence, CAST(s.variables AS TEXT),
       coalesce(s.attempt, 0) + q.interruptions - q.interruptions_at_park, s.attempt
FROM workflow_execution_queue q JOIN workflow_definitions d ON d.id = q.definition_id
LEFT JOIN workflow_node_executions s ON s.execution_id = q.id AND s.step = 'state' AND s.finished_at IS NULL
WHERE q.id = ?1;

-- ?2 attempt, ?3 now, ?4 fence, ?5 machine, ?6 the signal of a manual state
-- name: write_machine
INSERT INTO workflow_node_executions
    (execution_id, step, status, attempt, failures, due_at, started_at, node_id, fence, variables, signal)
VALUES (?1, 'state', 'WAITING', ?2, 0, CASE WHEN ?6 IS NULL THEN ?3 END, ?3, 0, ?4, ?5, ?6)
ON CONFLICT (execution_id, step) DO UPDATE
SET status = 'WAITING', attempt = excluded.attempt, failures = 0, due_at = excluded.due_at, started_at = excluded.started_at,
    node_id = 0, fence = excluded.fence, start_node_id = NULL, start_fence = NULL, variables = excluded.variables,
    signal = excluded.signal, error_code = NULL, error = NULL, exit_code = NULL
WHERE finished_at IS NULL;

-- The wait of the step stays as it is. ?2 attempt, ?3 now, ?4 fence, ?5 machine
-- name: write_variables
INSERT INTO workflow_node_executions
    (execution_id, step, status, attempt, failures, due_at, started_at, node_id, fence, variables)
VALUES (?1, 'state', 'WAITING', ?2, 0, ?3, ?3, 0, ?4, ?5)
ON CONFLICT (execution_id, step) DO UPDATE SET attempt = excluded.attempt, variables = excluded.variables
WHERE finished_at IS NULL;

-- A claim reads steps on record only of an item with an interruption; this one counts as a park, which skips no number.
-- name: mark_updated
UPDATE workflow_execution_queue SET interruptions = 1, interruptions_at_park = 1 WHERE id = ?1 AND interruptions = 0;

-- The wake of a wait names the attempt that waits. ?2 attempt before, ?3 attempt
-- name: move_wake
UPDATE signals SET data = CAST(?3 AS TEXT)
WHERE execution_id = ?1 AND name = 'wake:state' AND data = CAST(?2 AS TEXT) AND consumed_at IS NULL;

-- A manual state keeps a parked item parked, unless its execution has a timeout, which a node knows. ?2 what it waits for
-- name: park_by_hand
UPDATE workflow_execution_queue SET waiting_for = ?2, due_at = 9223372036854775807 WHERE id = ?1 AND phase = 3;

-- ?2 action, ?3 state before, ?4 state, ?5 now, ?6 fence, ?7 actor, ?8 changed variables
-- name: insert_update
INSERT INTO workflow_actions
    (execution_id, action, state, outcome, next_state, started_at, finished_at, node_id, fence, actor, variables)
VALUES (?1, ?2, ?3, 'update', ?4, ?5, ?5, 0, ?6, ?7, ?8);
