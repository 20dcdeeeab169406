-- Enqueue. Hot: one insert with one index per item and its place in the lane, and one row of news per set.

-- name: find_workspace
SELECT id, paused, pending_max FROM workspaces WHERE name = ?1;

-- PENDING executions of a workspace, counted up to ?2. ?1 workspace. Indexes: queue_runnable, queue_delayed.
-- name: count_pending
SELECT count(*)
FROM (SELECT 1 FROM runnable_items r WHERE r.lane_id IN (SELECT a.base | ?1 FROM group_lanes a)
      UNION ALL
      SELECT 1 FROM workflow_execution_queue w
      WHERE w.due_at IS NOT NULL AND w.waiting_for IS NULL AND w.lane_id IN (SELECT a.base | ?1 FROM group_lanes a)
      LIMIT ?2);

-- Names for "did you mean".
-- name: workspace_names
SELECT name FROM workspaces ORDER BY id LIMIT 1000;

-- The newest version that the workspace may run: its own before everybody's, also a disabled one. Index: the unique one, by name.
-- name: find_definition
SELECT id, executor_group, demand, state, workspace_id, has_labels FROM (
    SELECT id, executor_group, demand, state, workspace_id, labels IS NOT NULL AS has_labels FROM workflow_definitions
    WHERE name = ?1 AND workspace_id = ?2 AND state <> 2 ORDER BY version DESC LIMIT 1)
UNION ALL
SELECT id, executor_group, demand, state, workspace_id, has_labels FROM (
    SELECT id, executor_group, demand, state, workspace_id, labels IS NOT NULL AS has_labels FROM workflow_definitions
    WHERE name = ?1 AND workspace_id = 0 AND state <> 2 ORDER BY version DESC LIMIT 1)
LIMIT 1;

-- name: definition_exists_elsewhere
SELECT 1 FROM workflow_definitions WHERE name = ?1 AND state <> 2 LIMIT 1;

-- name: workflow_names
SELECT DISTINCT name FROM workflow_definitions WHERE workspace_id IN (?1, 0) AND state <> 2 LIMIT 1000;

-- name: find_group
SELECT id FROM executor_groups WHERE name = ?1;

-- name: insert_group
INSERT INTO executor_groups (name) VALUES (?1) ON CONFLICT DO NOTHING;

-- name: find_key
SELECT k.execution_id,
       coalesce(q.definition_id, h.definition_id),
       coalesce(dq.name, dh.name),
       p.params, coalesce(h.archived, 0)
FROM idempotency_keys k
LEFT JOIN workflow_execution_queue q ON q.id = k.execution_id
LEFT JOIN workflow_executions h ON h.id = k.execution_id
LEFT JOIN workflow_definitions dq ON dq.id = q.definition_id
LEFT JOIN workflow_definitions dh ON dh.id = h.definition_id
LEFT JOIN execution_params p ON p.id = k.execution_id
WHERE k.workspace_id = ?1 AND k.key = ?2;

-- name: insert_key
INSERT INTO idempotency_keys (workspace_id, key, execution_id) VALUES (?1, ?2, ?3);

-- Modes of keys. The execution of the key: whether it can be replaced, because it has no attempt, its start
-- time, and its workflow while it has not ended.
-- name: find_replaceable
SELECT k.execution_id, k.first_at, q.run_at, q.status = 'PENDING' AND q.phase < 2 AND q.interruptions = 0, d.name
FROM idempotency_keys k LEFT JOIN workflow_execution_queue q ON q.id = k.execution_id
LEFT JOIN workflow_definitions d ON d.id = q.definition_id
WHERE k.workspace_id = ?1 AND k.key = ?2;

-- The living one among an execution and its retries, each of which is found by a unique index.
-- name: find_living_try
WITH RECURSIVE tries (id) AS (
    SELECT ?1
    UNION ALL
    SELECT coalesce((SELECT q.id FROM workflow_execution_queue q WHERE q.retry_of = t.id),
                    (SELECT h.id FROM workflow_executions h WHERE h.retry_of = t.id))
    FROM tries t WHERE t.id IS NOT NULL
)
SELECT l.id, d.name FROM tries t JOIN workflow_execution_queue l ON l.id = t.id
JOIN workflow_definitions d ON d.id = l.definition_id LIMIT 1;

-- The key goes to another execution.
-- name: move_key
UPDATE idempotency_keys SET execution_id = ?3, first_at = ?4 WHERE workspace_id = ?1 AND key = ?2;

-- The workspace of this id, if it is known already (a lost answer is repeated)?
-- name: workspace_of_id
SELECT workspace_id FROM workflow_execution_queue WHERE id = ?1 UNION ALL SELECT workspace_id FROM workflow_executions WHERE id = ?1;

-- name: insert_item
INSERT INTO workflow_execution_queue
    (id, lane_id, workspace_id, definition_id, status, phase, rank, priority, run_at, due_at, has_params, created_at,
     idempotency_key, retry_of, traceparent)
VALUES (?1, ?2, ?3, ?4, 'PENDING', ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14);

-- name: insert_params
INSERT INTO execution_params (id, params) VALUES (?1, ?2);
