-- The invariants: a text per problem. They read everything, in parts, in one transaction that sees one state. Only
-- `store check` runs them.

-- The counters: books and news together are the rows, at each commit.
-- name: check_lanes
WITH books AS MATERIALIZED (SELECT * FROM :schema.lane_books), rows AS MATERIALIZED (
    SELECT q.lane_id, count(*) FILTER (WHERE q.phase = 0) AS runnable, count(*) FILTER (WHERE q.phase = 1) AS waiting,
           count(*) FILTER (WHERE q.phase = 2) AS held, count(*) FILTER (WHERE q.phase = 3) AS parked
    FROM :schema.workflow_execution_queue q GROUP BY q.lane_id
)
SELECT format('lane %s: runnable is %s of %s, waiting is %s of %s, held is %s of %s, parked is %s of %s', coalesce(b.lane_id, r.lane_id),
              coalesce(b.runnable, 0), coalesce(r.runnable, 0), coalesce(b.waiting, 0), coalesce(r.waiting, 0), coalesce(b.held, 0),
              coalesce(r.held, 0), coalesce(b.parked, 0), coalesce(r.parked, 0))
FROM books b FULL JOIN rows r ON r.lane_id = b.lane_id
WHERE coalesce(b.runnable, 0) <> coalesce(r.runnable, 0) OR coalesce(b.waiting, 0) <> coalesce(r.waiting, 0)
   OR coalesce(b.held, 0) <> coalesce(r.held, 0) OR coalesce(b.parked, 0) <> coalesce(r.parked, 0)
LIMIT 1000;

-- The sets that nodes hold: claims and news together are the rows, at each commit.
-- name: check_claims
WITH claimed AS MATERIALIZED (
    SELECT c.node_id, c.fence, c.held - coalesce(sum(u.items), 0) AS held
    FROM :schema.claims c
    LEFT JOIN (SELECT n.node_id, e.fence, e.items FROM :schema.news n CROSS JOIN LATERAL unnest(n.fences, n.left_fences) e (fence, items)
               WHERE n.fences IS NOT NULL) u ON u.node_id = c.node_id AND u.fence = c.fence
    GROUP BY c.node_id, c.fence, c.held
), rows AS (
    SELECT q.node_id, q.fence, count(*) AS held FROM :schema.workflow_execution_queue q WHERE q.phase = 2 GROUP BY q.node_id, q.fence
)
SELECT format('claim %s of node %s: holds %s, the rows show %s', coalesce(c.fence, r.fence), coalesce(c.node_id, r.node_id),
              coalesce(c.held, 0), coalesce(r.held, 0))
FROM claimed c FULL JOIN rows r ON r.node_id = c.node_id AND r.fence = c.fence
WHERE coalesce(c.held, 0) <> coalesce(r.held, 0)
UNION ALL
SELECT format('execution %s is held by node %s and in no claim', q.id, q.node_id) FROM :schema.workflow_execution_queue q
WHERE q.phase = 2 AND NOT EXISTS (SELECT 1 FROM :schema.claims c WHERE c.node_id = q.node_id AND c.fence = q.fence AND q.id = ANY (c.ids))
LIMIT 1000;

-- Limits, the books' own columns, and the scheduler's row.
-- name: check_limits
SELECT format('the books of lane %s name workspace %s and group %s', k.lane_id, k.workspace_id, k.group_id)
FROM :schema.books k
WHERE NOT EXISTS (SELECT 1 FROM :schema.group_lanes a WHERE a.group_id = k.group_id AND k.lane_id = a.base | k.workspace_id)
UNION ALL
SELECT format('the scheduler has %s rows', count(*)) FROM :schema.scheduler HAVING count(*) <> 1
UNION ALL
SELECT format('workspace %s: its plan %s does not exist', w.name, w.plan)
FROM :schema.workspaces w WHERE NOT EXISTS (SELECT 1 FROM :schema.plans p WHERE p.name = w.plan)
UNION ALL
SELECT format('workspace %s: slots_max is %s, its plan and its own limit give %s', w.name, w.slots_max,
              coalesce(w.max_concurrent, p.max_concurrent))
FROM :schema.workspaces w JOIN :schema.plans p ON p.name = w.plan
WHERE w.slots_max <> coalesce(w.max_concurrent, p.max_concurrent) OR w.weight <> p.weight
UNION ALL
SELECT format('workspace %s: pending_max is %s, its plan and its own limit give %s', w.name, w.pending_max,
              coalesce(w.max_pending, p.max_pending))
FROM :schema.workspaces w JOIN :schema.plans p ON p.name = w.plan
WHERE w.pending_max <> coalesce(w.max_pending, p.max_pending)
LIMIT 1000;

-- Living executions. A workspace or a definition may have been deleted under them: the scheduler or the node fails them.
-- name: check_live
SELECT format('execution %s is both in the queue and in the history', q.id)
FROM :schema.workflow_execution_queue q JOIN :schema.workflow_executions h ON h.id = q.id
UNION ALL
SELECT format('execution %s has fence %s, the store gave out %s', q.id, q.fence, f.last_value)
FROM :schema.workflow_execution_queue q JOIN :schema.fences f ON q.fence > f.last_value
UNION ALL
SELECT format('execution %s refers to a row that does not exist, or its columns contradict each other', q.id)
FROM :schema.workflow_execution_queue q
WHERE q.lane_id & 2147483647 <> q.workspace_id
   OR NOT EXISTS (SELECT 1 FROM :schema.executor_groups g WHERE g.id = q.lane_id >> 47)
   OR EXISTS (SELECT 1 FROM :schema.workflow_definitions d WHERE d.id = q.definition_id AND d.demand <> (q.lane_id >> 31 & 65535))
   OR q.has_params <> EXISTS (SELECT 1 FROM :schema.execution_params p WHERE p.id = q.id)
   OR q.status NOT IN ('PENDING', 'CLAIMED', 'DISPATCHED', 'WAITING') OR (q.phase = 2) <> (q.status IN ('CLAIMED', 'DISPATCHED'))
   OR (q.phase = 3) <> (q.status = 'WAITING') OR (q.phase = 3) <> (q.waiting_for IS NOT NULL)
   OR q.phase = 2 AND q.fence = 0
   OR q.phase <> 2 AND q.node_id <> 0
   OR q.phase IN (1, 3) AND q.due_at IS NULL
UNION ALL
SELECT format('ended execution %s refers to a definition that does not exist', h.id) FROM :schema.workflow_executions h
WHERE h.error_code IS DISTINCT FROM 'workspace_not_found'
  AND NOT EXISTS (SELECT 1 FROM :schema.workflow_definitions d WHERE d.id = h.definition_id)
LIMIT 1000;

-- Signals: their numbers. None of them, and no dismissal, is left of a purged execution.
-- name: check_signals
SELECT format('execution %s counts %s signals, the last one is %s', q.id, q.signals, coalesce(m.seq, 0))
FROM :schema.workflow_execution_queue q
LEFT JOIN (SELECT s.execution_id, max(s.seq) AS seq FROM :schema.signals s GROUP BY s.execution_id) m ON m.execution_id = q.id
WHERE q.signals <> coalesce(m.seq, 0) OR q.signals_sent > q.signals
UNION ALL
SELECT format('dismissal of %s belongs to nothing', x.execution_id) FROM :schema.dismissals x
WHERE NOT EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = x.execution_id)
UNION ALL
SELECT format('label %s of %s belongs to nothing', l.name, l.execution_id) FROM :schema.execution_labels l
WHERE NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = l.execution_id)
  AND NOT EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = l.execution_id)
UNION ALL
SELECT format('label %s of %s is in another workspace than its execution', l.name, l.execution_id) FROM :schema.execution_labels l
WHERE EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = l.execution_id AND q.workspace_id <> l.workspace_id)
   OR EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = l.execution_id AND h.workspace_id <> l.workspace_id)
UNION ALL
SELECT format('signal %s of %s belongs to nothing', s.seq, s.execution_id) FROM :schema.signals s
WHERE NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = s.execution_id)
  AND NOT EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = s.execution_id)
LIMIT 1000;

-- Children: the counts of their steps, and that each end and each step that can go on has a note, so that no parent waits for ever.
-- name: check_children
SELECT format('step %s of %s counts %s ends of %s children and %s completed ones, and its rows show %s of %s, and %s', s.step, s.parent_id,
              s.ended, s.planned, s.completed, m.ended, m.planned, m.completed)
FROM :schema.child_steps s
JOIN (SELECT c.parent_id, c.step, count(*) AS planned, count(c.status) AS ended,
             count(CASE c.status WHEN 'COMPLETED' THEN 1 END) AS completed
      FROM :schema.children c GROUP BY c.parent_id, c.step) m ON m.parent_id = s.parent_id AND m.step = s.step
WHERE s.ended <> m.ended OR s.completed <> m.completed OR s.planned <> m.planned
UNION ALL
SELECT format('the end of child %s of %s has no note', c.child_id, c.parent_id)
FROM :schema.children c JOIN :schema.child_steps s ON s.parent_id = c.parent_id AND s.step = c.step
WHERE c.position < s.started AND c.status IS NULL
  AND NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = c.child_id)
  AND NOT EXISTS (SELECT 1 FROM :schema.child_notes n CROSS JOIN LATERAL unnest(n.positions) p (position)
                  WHERE n.parent_id = c.parent_id AND n.step = c.step AND p.position = c.position)
UNION ALL
SELECT format('start step %s of %s has no note, and is new, has a plan to be read or is of nothing', s.step, s.parent_id)
FROM :schema.child_steps s
WHERE (s.count IS NULL OR s.rest IS NOT NULL
       OR NOT s.leaves AND NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = s.parent_id)
          AND NOT EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = s.parent_id))
  AND NOT EXISTS (SELECT 1 FROM :schema.child_notes n WHERE n.parent_id = s.parent_id AND n.step = s.step)
LIMIT 1000;

-- Ended executions. A purge removes rows and leaves the counters.
-- name: check_counts
WITH ended AS (
    SELECT h.lane_id, count(*) FILTER (WHERE h.status = 'COMPLETED') AS completed, count(*) FILTER (WHERE h.status = 'FAILED') AS failed,
           count(*) FILTER (WHERE h.status = 'CANCELLED') AS cancelled
    FROM :schema.workflow_executions h GROUP BY h.lane_id
), books AS MATERIALIZED (SELECT * FROM :schema.lane_books)
SELECT format('lane %s: %s/%s/%s ended rows, counters are %s/%s/%s', e.lane_id, e.completed, e.failed, e.cancelled,
              coalesce(b.completed, 0), coalesce(b.failed, 0), coalesce(b.cancelled, 0))
FROM ended e LEFT JOIN books b ON b.lane_id = e.lane_id
WHERE coalesce(b.completed, 0) < e.completed OR coalesce(b.failed, 0) < e.failed OR coalesce(b.cancelled, 0) < e.cancelled
LIMIT 1000;

-- name: check_params
SELECT format('params of %s belong to no execution', p.id) FROM :schema.execution_params p
WHERE NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = p.id)
  AND NOT EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = p.id)
LIMIT 1000;

-- name: check_steps
SELECT format('step %s of %s belongs to no execution', s.step, s.execution_id) FROM :schema.workflow_node_executions s
WHERE NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = s.execution_id)
  AND NOT EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = s.execution_id)
LIMIT 1000;

-- The content of an execution is in the archive or in the tables of daily work, and its row says where.
-- name: check_archive
SELECT format('execution %s is archived without its params', h.id) FROM :schema.workflow_executions h
WHERE h.archived AND h.has_params AND NOT EXISTS (SELECT 1 FROM :schema.archived_params a WHERE a.id = h.id)
UNION ALL
SELECT format('execution %s is archived, and its params are not', p.id) FROM :schema.execution_params p
JOIN :schema.workflow_executions h ON h.id = p.id AND h.archived
UNION ALL
SELECT format('execution %s is archived, and its step %s is not', s.execution_id, s.step) FROM :schema.workflow_node_executions s
JOIN :schema.workflow_executions h ON h.id = s.execution_id AND h.archived
UNION ALL
SELECT format('archived params of %s belong to no archived execution', a.id) FROM :schema.archived_params a
WHERE NOT EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = a.id AND h.archived)
UNION ALL
SELECT format('archived step %s of %s belongs to no archived execution', a.step, a.execution_id) FROM :schema.archived_steps a
WHERE NOT EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = a.execution_id AND h.archived)
LIMIT 1000;

-- name: check_keys
SELECT format('idempotency key %s names no execution of this key', k.key) FROM :schema.idempotency_keys k
WHERE NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q
                  WHERE q.id = k.execution_id AND q.workspace_id = k.workspace_id AND q.idempotency_key = k.key)
  AND NOT EXISTS (SELECT 1 FROM :schema.workflow_executions h
                  WHERE h.id = k.execution_id AND h.workspace_id = k.workspace_id AND h.idempotency_key = k.key)
LIMIT 1000;

-- name: check_indexes
SELECT format('index %s is not valid', i.indexrelid::regclass) FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :'schema' AND NOT i.indisvalid
LIMIT 1000;
