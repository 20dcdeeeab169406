-- Children of executions: their steps, their rows and the outbox (store/children.h).

-- name: has_child_steps
SELECT EXISTS (SELECT 1 FROM child_steps);

-- name: has_child_notes
SELECT EXISTS (SELECT 1 FROM child_notes);

-- A step that waits for children is on record for the first time.
-- name: insert_child_step
INSERT INTO child_steps (parent_id, step, workspace_id) SELECT ?1, ?2, q.workspace_id FROM workflow_execution_queue q WHERE q.id = ?1
ON CONFLICT DO NOTHING;

-- name: insert_child_note
INSERT INTO child_notes (parent_id, step) VALUES (?1, ?2);

-- The note of a step that could not be worked on. ?3 = -1: of no child
-- name: put_back_child_note
INSERT INTO child_notes (parent_id, step, position) VALUES (?1, ?2, nullif(?3, -1));

-- Of a set of ends, before the deletion of their rows; `parameter_rows` has their numbers. Index: children_by_id.
-- name: note_child_ends
INSERT INTO child_notes (parent_id, step, position)
SELECT c.parent_id, c.step, c.position
FROM parameter_rows g CROSS JOIN workflow_execution_queue q ON q.number = g.number CROSS JOIN children c ON c.child_id = q.id;

-- name: note_parent_ends
INSERT INTO child_notes (parent_id, step)
SELECT s.parent_id, s.step
FROM parameter_rows g CROSS JOIN workflow_execution_queue q ON q.number = g.number CROSS JOIN child_steps s ON s.parent_id = q.id;

-- A parent is purged: the duty removes its rows when its children need them no longer.
-- name: purge_children
INSERT INTO child_notes (parent_id, step) SELECT s.parent_id, s.step FROM child_steps s WHERE s.parent_id = ?1;

-- name: read_child_notes
SELECT id, parent_id, step, position FROM child_notes ORDER BY id LIMIT ?1;

-- name: delete_child_notes
DELETE FROM child_notes WHERE id <= ?1;

-- Ends the children in `parameter_rows`, by their positions, but for ends that were counted before. A child without a row, which was
-- purged or erased since, counts as lost.
-- name: end_children
UPDATE children SET status = coalesce((SELECT h.status FROM workflow_executions h WHERE h.id = children.child_id), 'LOST')
WHERE parent_id = ?1 AND step = ?2 AND position IN (SELECT g.number FROM parameter_rows g) AND status IS NULL
RETURNING status;

-- ?3 ends, ?4 of these completed
-- name: count_child_ends
UPDATE child_steps SET ended = ended + ?3, completed = completed + ?4 WHERE parent_id = ?1 AND step = ?2;

-- The last columns: whether the parent lives, whether it is in the history, the problem of the plan. Then: an action brought the
-- plan, and no state waits for it (any more). The wait is on record with the plan. At last whether the plan names the workspace, and the
-- trace context of the parent.
-- name: read_child_step
SELECT s.workflow, s.executor_group, s.default_group, s.priority, s.is_single, s.waits_for_all, s.wanted, s.max_parallel, s.leaves, s.count,
       s.started, s.ended, s.completed, s.cancelled_to, s.is_settled,
       coalesce(s.workspace, (SELECT w.name FROM workspaces w WHERE w.id = s.workspace_id)),
       EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = s.parent_id),
       EXISTS (SELECT 1 FROM workflow_executions h WHERE h.id = s.parent_id), s.problem,
       s.plan IS NOT NULL AND NOT EXISTS (SELECT 1 FROM workflow_node_executions n
                                          WHERE n.execution_id = s.parent_id AND n.step = 'state' AND n.signal = 'children:' || s.step),
       s.workspace IS NOT NULL,
       coalesce((SELECT q.traceparent FROM workflow_execution_queue q WHERE q.id = s.parent_id),
                (SELECT h.traceparent FROM workflow_executions h WHERE h.id = s.parent_id))
FROM child_steps s WHERE s.parent_id = ?1 AND s.step = ?2;

-- The plan of a step or of an action, and the depth of its children.
-- name: read_child_plan
SELECT coalesce(nullif(o.plan, ''), e.variables),
       1 + coalesce((SELECT s.depth FROM children c JOIN child_steps s ON s.parent_id = c.parent_id AND s.step = c.step
                     WHERE c.child_id = ?1 AND NOT c.is_adopted), 0),
       coalesce((SELECT sum(s.count) FROM child_steps s WHERE s.parent_id = ?1), 0)
FROM child_steps o LEFT JOIN workflow_node_executions e ON e.execution_id = o.parent_id AND e.step = o.step
WHERE o.parent_id = ?1 AND o.step = ?2 AND coalesce(nullif(o.plan, ''), e.variables) IS NOT NULL;

-- The workspace of a step, if it has a limit of pending executions.
-- name: limit_of_child_step
SELECT w.id, w.pending_max FROM child_steps s JOIN workspaces w ON w.id = s.workspace_id AND w.pending_max > 0
WHERE s.parent_id = ?1 AND s.step = ?2;

-- ?3 to ?10 of the plan, ?11 depth, ?12 number of children, ?13 problem, ?14 workspace of the plan or NULL.
-- The parent gives what the plan leaves open.
-- name: fill_child_step
UPDATE child_steps
SET workflow = ?3, executor_group = ?4, is_single = ?6, waits_for_all = ?7, wanted = ?8, max_parallel = ?9, leaves = ?10, depth = ?11,
    count = ?12, problem = ?13, workspace = ?14,
    priority = coalesce(?5, (SELECT p.priority FROM workflow_execution_queue p WHERE p.id = ?1),
                        (SELECT p.priority FROM workflow_executions p WHERE p.id = ?1), 0),
    default_group = (SELECT g.name FROM executor_groups g
                     WHERE g.id = coalesce((SELECT p.lane_id FROM workflow_execution_queue p WHERE p.id = ?1),
                                           (SELECT p.lane_id FROM workflow_executions p WHERE p.id = ?1)) >> 47)
WHERE parent_id = ?1 AND step = ?2;

-- The rows have the plan now, and a claim need not carry it.
-- name: drop_child_plan
UPDATE workflow_node_executions SET variables = NULL WHERE execution_id = ?1 AND step = ?2;

-- name: drop_own_plan
UPDATE child_steps SET plan = '' WHERE parent_id = ?1 AND step = ?2 AND plan IS NOT NULL;

-- name: insert_child
INSERT INTO children (parent_id, step, position, child_id, params, key) VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: next_children
SELECT position, child_id, params, key FROM children WHERE parent_id = ?1 AND step = ?2 AND position >= ?3 ORDER BY position LIMIT ?4;

-- Of children that were enqueued, ?3 to ?4: their executions alone have their params and keys from here on.
-- name: drop_child_params
UPDATE children SET params = NULL, key = NULL
WHERE parent_id = ?1 AND step = ?2 AND position >= ?3 AND position <= ?4 AND (params IS NOT NULL OR key IS NOT NULL);

-- A child was refused with ?4 code and ?5 text, or becomes ?6, an execution that was there before. One that has ended ends the child.
-- name: start_child
UPDATE children
SET params = NULL, key = NULL, child_id = coalesce(?6, child_id), is_adopted = ?6 IS NOT NULL, error_code = ?4, error = ?5,
    status = CASE WHEN ?4 IS NOT NULL THEN 'REFUSED' ELSE (SELECT h.status FROM workflow_executions h WHERE h.id = ?6) END
WHERE parent_id = ?1 AND step = ?2 AND position = ?3;

-- The execution of a key, its workflow and the owner of that, and its newest retry, or itself, with its state if that has ended.
-- ?1 name of a workspace, ?2 key. The aggregate max() chooses the row that the other columns are of.
-- name: find_adoptable
WITH RECURSIVE tries (id, place) AS (
    SELECT k.execution_id, 1 FROM idempotency_keys k WHERE k.workspace_id = (SELECT w.id FROM workspaces w WHERE w.name = ?1) AND k.key = ?2
    UNION ALL
    SELECT coalesce((SELECT q.id FROM workflow_execution_queue q WHERE q.retry_of = t.id),
                    (SELECT h.id FROM workflow_executions h WHERE h.retry_of = t.id)), t.place + 1
    FROM tries t WHERE t.id IS NOT NULL
)
SELECT (SELECT f.id FROM tries f WHERE f.place = 1), d.name, d.workspace_id, t.id, h.status, max(t.place)
FROM tries t
LEFT JOIN workflow_execution_queue q ON q.id = t.id
LEFT JOIN workflow_executions h ON h.id = t.id
JOIN workflow_definitions d ON d.id = coalesce(q.definition_id, h.definition_id);

-- Whether the execution ?2 waits for ?1, or is it.
-- name: waits_for_execution
WITH RECURSIVE waiting (id) AS (
    SELECT ?1
    UNION
    SELECT c.parent_id
    FROM waiting w
    JOIN children c ON c.child_id = w.id
    JOIN child_steps s ON s.parent_id = c.parent_id AND s.step = c.step
    WHERE c.status IS NULL AND NOT s.is_settled
)
SELECT EXISTS (SELECT 1 FROM waiting w WHERE w.id = ?2);

-- ?3 started, ?4 ended, ?5 cancelled up to, ?6 settled, ?7 completed
-- name: move_child_step
UPDATE child_steps SET started = ?3, ended = ?4, cancelled_to = ?5, is_settled = ?6, completed = ?7 WHERE parent_id = ?1 AND step = ?2;

-- name: living_children
SELECT c.position, c.child_id FROM children c
WHERE c.parent_id = ?1 AND c.step = ?2 AND c.position >= ?3 AND c.position < ?4 AND c.status IS NULL ORDER BY c.position LIMIT ?5;

-- The result of a child is the output of its last step.
-- name: child_outcomes
SELECT c.child_id, CASE WHEN c.status = 'COMPLETED' AND h.id IS NULL THEN 'LOST' ELSE c.status END,
       CASE WHEN c.status = 'COMPLETED'
            THEN (SELECT o.output
                  FROM (SELECT s.started_at AS at, s.step, s.output FROM workflow_node_executions s WHERE s.execution_id = c.child_id
                        UNION ALL
                        SELECT x.step_started_at, x.step, x.step_output FROM workflow_executions x
                        WHERE x.id = c.child_id AND x.step IS NOT NULL) o
                  ORDER BY o.at DESC, o.step DESC LIMIT 1) END
FROM children c LEFT JOIN workflow_executions h ON h.id = c.child_id
WHERE c.parent_id = ?1 AND c.step = ?2 ORDER BY c.position;

-- name: first_failed_child
SELECT c.child_id, c.status, coalesce(c.error_code, h.error_code), coalesce(c.error, h.error)
FROM children c LEFT JOIN workflow_executions h ON h.id = c.child_id
WHERE c.parent_id = ?1 AND c.step = ?2 AND c.status IS NOT NULL AND c.status <> 'COMPLETED' ORDER BY c.position LIMIT 1;

-- name: delete_children
DELETE FROM children WHERE parent_id = ?1 AND step = ?2;

-- name: delete_child_step
DELETE FROM child_steps WHERE parent_id = ?1 AND step = ?2;

-- The children of each step by their ends, for people. adopted: those that were there before, and have the key. Index: children_adopted.
-- name: read_child_rows
SELECT s.step, s.workflow, s.count, s.started - s.ended AS open, s.count - s.started AS not_started, s.completed,
       s.ended - s.completed AS not_completed,
       (SELECT count(*) FROM children c WHERE c.parent_id = s.parent_id AND c.step = s.step AND c.is_adopted) AS adopted,
       CASE WHEN s.leaves <> 0 THEN 'true' ELSE 'false' END AS leaves
FROM child_steps s WHERE s.parent_id = ?1 AND s.count IS NOT NULL ORDER BY s.step;

-- The parent that has started a child, at most one.
-- name: read_parent_rows
SELECT c.parent_id AS id, c.step, c.position AS "index" FROM children c WHERE c.child_id = ?1 AND NOT c.is_adopted;
