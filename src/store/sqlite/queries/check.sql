-- What must always be true (design 6). Each returns a text per problem; these read everything and are run by store check only.

-- name: check_slots
SELECT printf('workspace %s: slots_used is %d, %d rows hold a slot', w.name, w.slots_used, coalesce(c.n, 0))
FROM workspaces w
LEFT JOIN (SELECT workspace_id AS id, count(*) AS n FROM workflow_execution_queue WHERE phase = 2 GROUP BY 1) c ON c.id = w.id
WHERE w.slots_used <> coalesce(c.n, 0);

-- name: check_pending
SELECT printf('workspace %s: pending is %d, %d rows are', w.name, w.pending, coalesce(c.n, 0))
FROM workspaces w
LEFT JOIN (SELECT workspace_id AS id, count(*) AS n FROM workflow_execution_queue WHERE phase <> 2 GROUP BY 1) c ON c.id = w.id
WHERE w.pending <> coalesce(c.n, 0);

-- name: check_lanes
SELECT printf('lane %d: runnable is %d of %d, waiting is %d of %d', l.id, l.runnable, coalesce(c.r, 0), l.waiting, coalesce(c.w, 0))
FROM lanes l
LEFT JOIN (SELECT lane_id AS id, sum(phase = 0) AS r, sum(phase = 1) AS w FROM workflow_execution_queue GROUP BY 1) c ON c.id = l.id
WHERE l.runnable <> coalesce(c.r, 0) OR l.waiting <> coalesce(c.w, 0);

-- name: check_ready
SELECT printf('lane %d: ready is %d, should be %d', l.id, l.ready,
              l.runnable > 0 AND w.paused = 0 AND w.slots_used < w.slots_max)
FROM lanes l JOIN workspaces w ON w.id = l.workspace_id
WHERE l.ready <> (l.runnable > 0 AND w.paused = 0 AND w.slots_used < w.slots_max);

-- name: check_limits
SELECT printf('workspace %s: slots_max is %d, its plan and override say %d', w.name, w.slots_max,
              coalesce(w.max_concurrent, p.max_concurrent))
FROM workspaces w JOIN plans p ON p.name = w.plan
WHERE w.slots_max <> coalesce(w.max_concurrent, p.max_concurrent) OR w.weight <> p.weight;

-- name: check_both
SELECT printf('execution %s is live and ended at once', q.id) FROM workflow_execution_queue q JOIN workflow_executions h ON h.id = q.id;

-- name: check_references
SELECT printf('execution %s refers to what is not there', q.id) FROM workflow_execution_queue q
WHERE NOT EXISTS (SELECT 1 FROM lanes l WHERE l.id = q.lane_id AND l.workspace_id = q.workspace_id)
   OR NOT EXISTS (SELECT 1 FROM workspaces w WHERE w.id = q.workspace_id)
   OR NOT EXISTS (SELECT 1 FROM workflow_definitions d WHERE d.id = q.definition_id)
   OR q.has_params <> EXISTS (SELECT 1 FROM execution_params p WHERE p.id = q.id)
   OR q.phase = 2 AND q.fence = 0
   OR q.phase <> 2 AND q.node_id <> 0
   OR q.phase = 1 AND q.due_at IS NULL
UNION ALL
SELECT printf('ended execution %s refers to what is not there', h.id) FROM workflow_executions h
WHERE NOT EXISTS (SELECT 1 FROM workspaces w WHERE w.id = h.workspace_id)
   OR NOT EXISTS (SELECT 1 FROM workflow_definitions d WHERE d.id = h.definition_id);

-- name: check_fences
SELECT printf('execution %s has fence %d, the store gave out %d', q.id, q.fence, s.fence)
FROM workflow_execution_queue q JOIN store_state s ON q.fence > s.fence;

-- name: check_counts
SELECT printf('workspace %s: %d/%d/%d ended rows, counters are %d/%d/%d', w.name, c.a, c.b, c.c, w.completed, w.failed, w.cancelled)
FROM workspaces w
JOIN (SELECT workspace_id AS id, sum(status = 'COMPLETED') AS a, sum(status = 'FAILED') AS b, sum(status = 'CANCELLED') AS c
      FROM workflow_executions GROUP BY 1) c ON c.id = w.id
WHERE w.completed < c.a OR w.failed < c.b OR w.cancelled < c.c;

-- name: check_orphans
SELECT printf('params of %s belong to nothing', p.id) FROM execution_params p
WHERE NOT EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = p.id)
  AND NOT EXISTS (SELECT 1 FROM workflow_executions h WHERE h.id = p.id)
UNION ALL
SELECT printf('step %s of %s belongs to nothing', e.step, e.execution_id) FROM workflow_node_executions e
WHERE NOT EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = e.execution_id)
  AND NOT EXISTS (SELECT 1 FROM workflow_executions h WHERE h.id = e.execution_id)
UNION ALL
SELECT printf('idempotency key %s points to nothing', k.key) FROM idempotency_keys k
WHERE NOT EXISTS (SELECT 1 FROM workflow_execution_queue q WHERE q.id = k.execution_id)
  AND NOT EXISTS (SELECT 1 FROM workflow_executions h WHERE h.id = k.execution_id);

-- name: check_integrity
PRAGMA integrity_check(20);
