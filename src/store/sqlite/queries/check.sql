-- The invariants. Each returns a text per problem; these read everything and are run by store check only.

-- name: check_books
SELECT printf('lane %d: books and news count %d runnable, %d waiting, %d held, %d parked; the rows are %d, %d, %d, %d', l.id, sum(l.cr),
              sum(l.cw), sum(l.ch), sum(l.cp), sum(l.r), sum(l.w), sum(l.h), sum(l.p))
FROM (SELECT lane_id AS id, runnable AS cr, waiting AS cw, held AS ch, parked AS cp, 0 AS r, 0 AS w, 0 AS h, 0 AS p FROM lane_counters
      UNION ALL
      SELECT lane_id, 0, 0, 0, 0, phase = 0, phase = 1, phase = 2, phase = 3 FROM workflow_execution_queue) l
GROUP BY l.id
HAVING sum(l.cr) <> sum(l.r) OR sum(l.cw) <> sum(l.w) OR sum(l.ch) <> sum(l.h) OR sum(l.cp) <> sum(l.p);

-- Purging lowers no counter.
-- name: check_counts
SELECT printf('lane %d: %d/%d/%d ended rows, books and news count %d/%d/%d', l.id, sum(l.a), sum(l.b), sum(l.c), sum(l.ca), sum(l.cb),
              sum(l.cc))
FROM (SELECT lane_id AS id, completed AS ca, failed AS cb, cancelled AS cc, 0 AS a, 0 AS b, 0 AS c FROM lane_counters
      UNION ALL
      SELECT lane_id, 0, 0, 0, status = 'COMPLETED', status = 'FAILED', status = 'CANCELLED' FROM workflow_executions) l
GROUP BY l.id HAVING sum(l.ca) < sum(l.a) OR sum(l.cb) < sum(l.b) OR sum(l.cc) < sum(l.c);

-- name: check_limits
SELECT printf('workspace %s: slots_max is %d, its plan and override say %d', w.name, w.slots_max,
              coalesce(w.max_concurrent, p.max_concurrent))
FROM workspaces w JOIN plans p ON p.name = w.plan
WHERE w.slots_max <> coalesce(w.max_concurrent, p.max_concurrent) OR w.weight <> p.weight
UNION ALL
SELECT printf('workspace %s: pending_max is %d, its plan and its own limit give %d', w.name, w.pending_max,
              coalesce(w.max_pending, p.max_pending))
FROM workspaces w JOIN plans p ON p.name = w.plan
WHERE w.pending_max <> coalesce(w.max_pending, p.max_pending);

-- name: check_both
SELECT printf('execution %s is live and ended at once', q.id) FROM workflow_execution_queue q JOIN workflow_executions h ON h.id = q.id;

-- name: check_references
SELECT printf('execution %s refers to what is not there', q.id) FROM workflow_execution_queue q
WHERE NOT EXISTS (SELECT 1 FROM executor_groups g WHERE g.id = q.lane_id >> 47)
   OR NOT EXISTS (SELECT 1 FROM workspaces w WHERE w.id = q.workspace_id)
   OR NOT EXISTS (SELECT 1 FROM workflow_definitions d WHERE d.id = q.definition_id)
   OR q.lane_id & 2147483647 <> q.workspace_id
   OR EXISTS (SELECT 1 FROM workflow_definitions d WHERE d.id = q.definition_id AND d.demand <> (q.lane_id >> 31 & 65535))
   OR q.has_params <> EXISTS (SELECT 1 FROM execution_params p WHERE p.id = q.id)
   OR q.status NOT IN ('PENDING', 'CLAIMED', 'DISPATCHED', 'WAITING') OR (q.phase = 2) <> (q.status IN ('CLAIMED', 'DISPATCHED'))
   OR (q.phase = 3) <> (q.status = 'WAITING') OR (q.phase = 3) <> (q.waiting_for IS NOT NULL)
   OR q.phase = 2 AND q.fence = 0
   OR q.phase <> 2 AND q.node_id <> 0
   OR (q.phase IN (1, 3)) = (q.due_at IS NULL)
UNION ALL
SELECT printf('ended execution %s refers to what is not there', h.id) FROM workflow_executions h
WHERE h.error_code IS NOT 'workspace_not_found'
  AND (NOT EXISTS (SELECT 1 FROM workspaces w WHERE w.id = h.workspace_id)
           AND NOT EXISTS (SELECT 1 FROM deleted_workspaces t WHERE t.id = h.workspace_id)
       OR NOT EXISTS (SELECT 1 FROM workflow_definitions d WHERE d.id = h.definition_id))
UNION ALL
SELECT printf('step %s of %s is on record twice', h.step, h.id) FROM workflow_executions h
JOIN workflow_node_executions e ON e.execution_id = h.id AND e.step = h.step;

-- name: check_fences
SELECT printf('execution %s has fence %d, the store gave out %d', q.id, q.fence, s.fence)
FROM workflow_execution_queue q JOIN store_state s ON q.fence > s.fence;

-- The scheduler finds a runnable execution by its entry alone. Entries without a row are what assignments leave.
-- name: check_places
SELECT printf('execution %s is runnable and has no place in its lane', q.id) FROM workflow_execution_queue q
WHERE q.phase = 0
  AND NOT EXISTS (SELECT 1 FROM queue_runnable r WHERE r.lane_id = q.lane_id AND r.rank = q.rank AND r.number = q.number);

-- name: check_signals
SELECT printf('execution %s counts %d signals, the last one is %d', q.id, q.signals,
              (SELECT coalesce(max(s.seq), 0) FROM signals s WHERE s.execution_id = q.id))
FROM workflow_execution_queue q
WHERE q.signals <> (SELECT coalesce(max(s.seq), 0) FROM signals s WHERE s.execution_id = q.id) OR q.signals_sent > q.signals
UNION ALL
SELECT printf('signal %d of %s belongs to nothing', s.seq, s.execution_id) FROM signals s
WHERE NOT EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = s.execution_id)
  AND NOT EXISTS (SELECT 1 FROM workflow_executions h WHERE h.id = s.execution_id);

-- name: check_orphans
SELECT printf('dismissal of %s belongs to nothing', x.execution_id) FROM dismissals x
WHERE NOT EXISTS (SELECT 1 FROM workflow_executions h WHERE h.id = x.execution_id)
UNION ALL
SELECT printf('params of %s belong to nothing', p.id) FROM execution_params p
WHERE NOT EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = p.id)
  AND NOT EXISTS (SELECT 1 FROM workflow_executions h WHERE h.id = p.id)
UNION ALL
SELECT printf('step %s of %s belongs to nothing', e.step, e.execution_id) FROM workflow_node_executions e
WHERE NOT EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = e.execution_id)
  AND NOT EXISTS (SELECT 1 FROM workflow_executions h WHERE h.id = e.execution_id)
UNION ALL
SELECT printf('label %s of %s belongs to nothing', l.name, l.execution_id) FROM execution_labels l
WHERE NOT EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = l.execution_id)
  AND NOT EXISTS (SELECT 1 FROM workflow_executions h WHERE h.id = l.execution_id)
UNION ALL
SELECT printf('label %s of %s is in another workspace than its execution', l.name, l.execution_id) FROM execution_labels l
WHERE EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = l.execution_id AND q.workspace_id <> l.workspace_id)
   OR EXISTS (SELECT 1 FROM workflow_executions h WHERE h.id = l.execution_id AND h.workspace_id <> l.workspace_id)
UNION ALL
SELECT printf('idempotency key %s names no execution of this key', k.key) FROM idempotency_keys k
WHERE NOT EXISTS (SELECT 1 FROM workflow_execution_queue q
                  WHERE q.id = k.execution_id AND q.workspace_id = k.workspace_id AND q.idempotency_key = k.key)
  AND NOT EXISTS (SELECT 1 FROM workflow_executions h
                  WHERE h.id = k.execution_id AND h.workspace_id = k.workspace_id AND h.idempotency_key = k.key);

-- The content of an execution is in the archive or here, and its row says where. On the reading connection, where the names of the
-- tables stand for both files.
-- name: check_archive
SELECT printf('execution %s is archived without its params', h.id) FROM main.workflow_executions h
WHERE h.archived = 1 AND h.has_params = 1 AND NOT EXISTS (SELECT 1 FROM execution_params p WHERE p.id = h.id)
UNION ALL
SELECT printf('execution %s is archived, and its params are not', p.id) FROM main.execution_params p
JOIN main.workflow_executions h ON h.id = p.id AND h.archived = 1
UNION ALL
SELECT printf('execution %s is archived, and its step %s is not', s.execution_id, s.step) FROM main.workflow_node_executions s
JOIN main.workflow_executions h ON h.id = s.execution_id AND h.archived = 1;

-- Children: the counts of their steps, and that each end and each step that can go on has a note, so that no parent waits for ever.
-- name: check_children
SELECT printf('step %s of %s counts %s ends of children and %s completed ones, and its rows show %s and %s', s.step, s.parent_id, s.ended,
              s.completed, m.ended, m.completed)
FROM child_steps s
JOIN (SELECT c.parent_id, c.step, count(c.status) AS ended, count(CASE c.status WHEN 'COMPLETED' THEN 1 END) AS completed
      FROM children c GROUP BY c.parent_id, c.step) m ON m.parent_id = s.parent_id AND m.step = s.step
WHERE s.ended <> m.ended OR s.completed <> m.completed
UNION ALL
SELECT printf('the end of child %s of %s has no note', c.child_id, c.parent_id)
FROM children c JOIN child_steps s ON s.parent_id = c.parent_id AND s.step = c.step
WHERE c.position < s.started AND c.status IS NULL
  AND NOT EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = c.child_id)
  AND NOT EXISTS (SELECT 1 FROM child_notes n WHERE n.parent_id = c.parent_id AND n.step = c.step AND n.position = c.position)
UNION ALL
SELECT printf('start step %s of %s has no note, and is new or of nothing', s.step, s.parent_id)
FROM child_steps s
WHERE (s.count IS NULL
       OR NOT s.leaves AND NOT EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = s.parent_id)
          AND NOT EXISTS (SELECT 1 FROM workflow_executions h WHERE h.id = s.parent_id))
  AND NOT EXISTS (SELECT 1 FROM child_notes n WHERE n.parent_id = s.parent_id AND n.step = s.step)
LIMIT 1000;

-- name: check_integrity
PRAGMA integrity_check(20);
