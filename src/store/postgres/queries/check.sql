-- What must always be true (design 6): a text per problem. They read everything, in parts, and in one transaction that sees one state;
-- run by store check only.

-- Slots.
-- name: check_slots
WITH held AS (SELECT q.workspace_id, count(*) AS n FROM :schema.workflow_execution_queue q WHERE q.phase = 2 GROUP BY q.workspace_id)
SELECT format('workspace %s: slots_used is %s, %s rows hold a slot', w.name, w.slots_used, coalesce(h.n, 0))
FROM :schema.workspaces w LEFT JOIN held h ON h.workspace_id = w.id WHERE w.slots_used <> coalesce(h.n, 0)
LIMIT 1000;

-- Counts are those of lanes and of the wake-ups that no claim has folded yet.
-- name: check_lanes
WITH books AS MATERIALIZED (SELECT * FROM :schema.lane_books),
wakeups AS MATERIALIZED (SELECT u.lane_id, min(u.least_rank) AS least_rank FROM :schema.lane_wakeups u GROUP BY u.lane_id),
rows AS MATERIALIZED (
    SELECT q.lane_id, count(*) FILTER (WHERE q.phase = 0) AS runnable, count(*) FILTER (WHERE q.phase = 1) AS waiting,
           min(q.rank) FILTER (WHERE q.phase = 0) AS least_rank
    FROM :schema.workflow_execution_queue q GROUP BY q.lane_id
)
SELECT format('lane %s: runnable is %s of %s, waiting is %s of %s', coalesce(b.lane_id, r.lane_id), coalesce(b.runnable, 0),
              coalesce(r.runnable, 0), coalesce(b.waiting, 0), coalesce(r.waiting, 0))
FROM books b FULL JOIN rows r ON r.lane_id = b.lane_id
WHERE coalesce(b.runnable, 0) <> coalesce(r.runnable, 0) OR coalesce(b.waiting, 0) <> coalesce(r.waiting, 0)
UNION ALL
SELECT format('lane %s: ready is false, should be true', l.id)
FROM :schema.lanes l JOIN :schema.workspaces w ON w.id = l.workspace_id LEFT JOIN wakeups u ON u.lane_id = l.id
WHERE NOT l.ready AND l.runnable > 0 AND NOT w.paused AND w.slots_used < w.slots_max AND u.lane_id IS NULL
UNION ALL
SELECT format('lane %s: a claim begins at rank %s, behind its first item (%s)', l.id, l.head_rank, r.least_rank)
FROM :schema.lanes l JOIN rows r ON r.lane_id = l.id LEFT JOIN wakeups u ON u.lane_id = l.id
WHERE r.least_rank < least(l.head_rank, u.least_rank)
LIMIT 1000;

-- Lanes and limits.
-- name: check_limits
SELECT format('lane %s is there %s times', l.id, count(*)) FROM :schema.lanes l GROUP BY l.id HAVING count(*) > 1
UNION ALL
SELECT format('lane %s is not that of its group and workspace', l.id)
FROM :schema.lanes l LEFT JOIN :schema.executor_groups g ON g.name = l.executor_group
WHERE l.id IS DISTINCT FROM :schema.lane_id(g.id, l.workspace_id)
UNION ALL
SELECT format('lane %s is of a workspace that is not there', l.id)
FROM :schema.lanes l WHERE NOT EXISTS (SELECT 1 FROM :schema.workspaces w WHERE w.id = l.workspace_id)
UNION ALL
SELECT format('workspace %s: its plan %s is not there', w.name, w.plan)
FROM :schema.workspaces w WHERE NOT EXISTS (SELECT 1 FROM :schema.plans p WHERE p.name = w.plan)
UNION ALL
SELECT format('workspace %s: slots_max is %s, its plan and override say %s', w.name, w.slots_max,
              coalesce(w.max_concurrent, p.max_concurrent))
FROM :schema.workspaces w JOIN :schema.plans p ON p.name = w.plan
WHERE w.slots_max <> coalesce(w.max_concurrent, p.max_concurrent) OR w.weight <> p.weight
LIMIT 1000;

-- What lives.
-- name: check_live
SELECT format('execution %s is live and ended at once', q.id)
FROM :schema.workflow_execution_queue q JOIN :schema.workflow_executions h ON h.id = q.id
UNION ALL
SELECT format('execution %s has fence %s, the store gave out %s', q.id, q.fence, f.last_value)
FROM :schema.workflow_execution_queue q JOIN :schema.fences f ON q.fence > f.last_value
UNION ALL
SELECT format('execution %s refers to what is not there', q.id) FROM :schema.workflow_execution_queue q
WHERE NOT EXISTS (SELECT 1 FROM :schema.executor_groups g WHERE :schema.lane_id(g.id, q.workspace_id) = q.lane_id)
   OR NOT EXISTS (SELECT 1 FROM :schema.workspaces w WHERE w.id = q.workspace_id)
   OR NOT EXISTS (SELECT 1 FROM :schema.workflow_definitions d WHERE d.id = q.definition_id)
   OR q.has_params <> EXISTS (SELECT 1 FROM :schema.execution_params p WHERE p.id = q.id)
   OR q.phase = 2 AND q.fence = 0
   OR q.phase <> 2 AND q.node_id <> 0
   OR q.phase = 1 AND q.due_at IS NULL
LIMIT 1000;

-- What has ended.
-- name: check_counts
WITH ended AS (
    SELECT h.workspace_id, count(*) FILTER (WHERE h.status = 'COMPLETED') AS completed,
           count(*) FILTER (WHERE h.status = 'FAILED') AS failed, count(*) FILTER (WHERE h.status = 'CANCELLED') AS cancelled
    FROM :schema.workflow_executions h GROUP BY h.workspace_id
)
SELECT format('workspace %s: %s/%s/%s ended rows, counters are %s/%s/%s', w.name, e.completed, e.failed, e.cancelled, w.completed,
              w.failed, w.cancelled)
FROM :schema.workspaces w JOIN ended e ON e.workspace_id = w.id
WHERE w.completed < e.completed OR w.failed < e.failed OR w.cancelled < e.cancelled
LIMIT 1000;

-- name: check_params
SELECT format('params of %s belong to nothing', p.id) FROM :schema.execution_params p
WHERE NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = p.id)
  AND NOT EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = p.id)
LIMIT 1000;

-- name: check_steps
SELECT format('step %s of %s belongs to nothing', s.step, s.execution_id) FROM :schema.workflow_node_executions s
WHERE NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = s.execution_id)
  AND NOT EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = s.execution_id)
LIMIT 1000;

-- name: check_keys
SELECT format('idempotency key %s points to nothing', k.key) FROM :schema.idempotency_keys k
WHERE NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = k.execution_id)
  AND NOT EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = k.execution_id)
LIMIT 1000;

-- name: check_indexes
SELECT format('index %s is not valid', i.indexrelid::regclass) FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :'schema' AND NOT i.indisvalid
LIMIT 1000;
