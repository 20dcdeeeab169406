-- Which executions a list or a bulk act is about: their ids in order, one arm for the living and one for the ended, each along
-- its primary key. ?1 from the cursor on (descending from the start: '~'), ?2 workspace or NULL, ?3 state bits, ?4 workflow or
-- NULL, ?5 group or NULL, ?6 error code or NULL, ?7 idempotency key or NULL, ?8 created since, ?9 created before,
-- ?10 id at least, ?11 id below, ?12 finished before, ?13 limit, ?14 0, or 1: only those that another repeats, or 2: only others.
-- ?15 the same for stuck ones, ?16 waiting_for or NULL. ?17 the same for dismissed ones, ?19 version or 0,
-- ?20 node or NULL, ?23 the present time, or 0 without a duration; then ?21 longer than, ?22 shorter than. ?24 a part of the error or NULL.
-- Indexes for ?14: queue_retried, executions_retried.

-- name: live_ids_descending
SELECT id FROM workflow_execution_queue
WHERE id < ?1 AND (?2 IS NULL OR workspace_id = ?2)
  AND (CASE status WHEN 'PENDING' THEN 1 WHEN 'CLAIMED' THEN 2 WHEN 'DISPATCHED' THEN 4 ELSE 8 END) & ?3
  AND (?4 IS NULL OR definition_id IN (SELECT id FROM workflow_definitions WHERE name = ?4))
  AND (?5 IS NULL OR lane_id >> 47 = (SELECT g.id FROM executor_groups g WHERE g.name = ?5))
  AND (?6 IS NULL OR error_code = ?6) AND (?7 IS NULL OR idempotency_key = ?7)
  AND created_at >= ?8 AND created_at < ?9 AND id >= ?10 AND id < ?11 AND ?12 IS NOT NULL AND ?14 <> 1 AND ?17 <> 1
  AND (?15 = 0 OR (?15 = 1) = coalesce(phase = 2 AND stuck_fence = fence, 0)) AND (?16 IS NULL OR waiting_for = ?16)
  AND (?19 = 0 OR (SELECT d.version FROM workflow_definitions d WHERE d.id = definition_id) = ?19)
  AND (?20 IS NULL OR node_id IN (SELECT n.id FROM nodes n WHERE n.name = ?20))
  AND (?23 = 0 OR ?23 - dispatched_at > ?21 AND ?23 - dispatched_at < ?22) AND (?24 IS NULL OR instr(error, ?24) > 0)
ORDER BY id DESC LIMIT ?13;

-- name: live_ids_ascending
SELECT id FROM workflow_execution_queue
WHERE id > ?1 AND (?2 IS NULL OR workspace_id = ?2)
  AND (CASE status WHEN 'PENDING' THEN 1 WHEN 'CLAIMED' THEN 2 WHEN 'DISPATCHED' THEN 4 ELSE 8 END) & ?3
  AND (?4 IS NULL OR definition_id IN (SELECT id FROM workflow_definitions WHERE name = ?4))
  AND (?5 IS NULL OR lane_id >> 47 = (SELECT g.id FROM executor_groups g WHERE g.name = ?5))
  AND (?6 IS NULL OR error_code = ?6) AND (?7 IS NULL OR idempotency_key = ?7)
  AND created_at >= ?8 AND created_at < ?9 AND id >= ?10 AND id < ?11 AND ?12 IS NOT NULL AND ?14 <> 1 AND ?17 <> 1
  AND (?15 = 0 OR (?15 = 1) = coalesce(phase = 2 AND stuck_fence = fence, 0)) AND (?16 IS NULL OR waiting_for = ?16)
  AND (?19 = 0 OR (SELECT d.version FROM workflow_definitions d WHERE d.id = definition_id) = ?19)
  AND (?20 IS NULL OR node_id IN (SELECT n.id FROM nodes n WHERE n.name = ?20))
  AND (?23 = 0 OR ?23 - dispatched_at > ?21 AND ?23 - dispatched_at < ?22) AND (?24 IS NULL OR instr(error, ?24) > 0)
ORDER BY id LIMIT ?13;

-- CLAIMED and DISPATCHED ones alone: there may be few of them beside many that are parked. Index: queue_held.
-- name: held_ids_descending
SELECT id FROM workflow_execution_queue INDEXED BY queue_held
WHERE phase = 2 AND id < ?1 AND (?2 IS NULL OR workspace_id = ?2)
  AND (CASE status WHEN 'CLAIMED' THEN 2 ELSE 4 END) & ?3
  AND (?4 IS NULL OR definition_id IN (SELECT id FROM workflow_definitions WHERE name = ?4))
  AND (?5 IS NULL OR lane_id >> 47 = (SELECT g.id FROM executor_groups g WHERE g.name = ?5))
  AND (?6 IS NULL OR error_code = ?6) AND (?7 IS NULL OR idempotency_key = ?7)
  AND created_at >= ?8 AND created_at < ?9 AND id >= ?10 AND id < ?11 AND ?12 IS NOT NULL AND ?14 <> 1 AND ?17 <> 1
  AND (?15 = 0 OR (?15 = 1) = coalesce(phase = 2 AND stuck_fence = fence, 0)) AND (?16 IS NULL OR waiting_for = ?16)
  AND (?19 = 0 OR (SELECT d.version FROM workflow_definitions d WHERE d.id = definition_id) = ?19)
  AND (?20 IS NULL OR node_id IN (SELECT n.id FROM nodes n WHERE n.name = ?20))
  AND (?23 = 0 OR ?23 - dispatched_at > ?21 AND ?23 - dispatched_at < ?22) AND (?24 IS NULL OR instr(error, ?24) > 0)
ORDER BY id DESC LIMIT ?13;

-- name: held_ids_ascending
SELECT id FROM workflow_execution_queue INDEXED BY queue_held
WHERE phase = 2 AND id > ?1 AND (?2 IS NULL OR workspace_id = ?2)
  AND (CASE status WHEN 'CLAIMED' THEN 2 ELSE 4 END) & ?3
  AND (?4 IS NULL OR definition_id IN (SELECT id FROM workflow_definitions WHERE name = ?4))
  AND (?5 IS NULL OR lane_id >> 47 = (SELECT g.id FROM executor_groups g WHERE g.name = ?5))
  AND (?6 IS NULL OR error_code = ?6) AND (?7 IS NULL OR idempotency_key = ?7)
  AND created_at >= ?8 AND created_at < ?9 AND id >= ?10 AND id < ?11 AND ?12 IS NOT NULL AND ?14 <> 1 AND ?17 <> 1
  AND (?15 = 0 OR (?15 = 1) = coalesce(phase = 2 AND stuck_fence = fence, 0)) AND (?16 IS NULL OR waiting_for = ?16)
  AND (?19 = 0 OR (SELECT d.version FROM workflow_definitions d WHERE d.id = definition_id) = ?19)
  AND (?20 IS NULL OR node_id IN (SELECT n.id FROM nodes n WHERE n.name = ?20))
  AND (?23 = 0 OR ?23 - dispatched_at > ?21 AND ?23 - dispatched_at < ?22) AND (?24 IS NULL OR instr(error, ?24) > 0)
ORDER BY id LIMIT ?13;

-- name: ended_ids_descending
SELECT id FROM workflow_executions
WHERE id < ?1 AND (?2 IS NULL OR workspace_id = ?2)
  AND (CASE status WHEN 'COMPLETED' THEN 16 WHEN 'FAILED' THEN 32 ELSE 64 END) & ?3
  AND (?4 IS NULL OR definition_id IN (SELECT id FROM workflow_definitions WHERE name = ?4))
  AND (?5 IS NULL OR lane_id >> 47 = (SELECT g.id FROM executor_groups g WHERE g.name = ?5))
  AND (?6 IS NULL OR error_code = ?6) AND (?7 IS NULL OR idempotency_key = ?7)
  AND created_at >= ?8 AND created_at < ?9 AND id >= ?10 AND id < ?11 AND finished_at < ?12 AND ?15 <> 1 AND ?16 IS NULL
  AND (?14 = 0 OR (?14 = 1) = (EXISTS (SELECT 1 FROM workflow_execution_queue r WHERE r.retry_of = workflow_executions.id)
                               OR EXISTS (SELECT 1 FROM workflow_executions r WHERE r.retry_of = workflow_executions.id)))
  AND (?17 = 0 OR (?17 = 1) = EXISTS (SELECT 1 FROM dismissals d WHERE d.execution_id = workflow_executions.id))
  AND (?19 = 0 OR (SELECT d.version FROM workflow_definitions d WHERE d.id = definition_id) = ?19)
  AND (?20 IS NULL OR node_id IN (SELECT n.id FROM nodes n WHERE n.name = ?20))
  AND (?23 = 0 OR finished_at - dispatched_at > ?21 AND finished_at - dispatched_at < ?22) AND (?24 IS NULL OR instr(error, ?24) > 0)
ORDER BY id DESC LIMIT ?13;

-- name: ended_ids_ascending
SELECT id FROM workflow_executions
WHERE id > ?1 AND (?2 IS NULL OR workspace_id = ?2)
  AND (CASE status WHEN 'COMPLETED' THEN 16 WHEN 'FAILED' THEN 32 ELSE 64 END) & ?3
  AND (?4 IS NULL OR definition_id IN (SELECT id FROM workflow_definitions WHERE name = ?4))
  AND (?5 IS NULL OR lane_id >> 47 = (SELECT g.id FROM executor_groups g WHERE g.name = ?5))
  AND (?6 IS NULL OR error_code = ?6) AND (?7 IS NULL OR idempotency_key = ?7)
  AND created_at >= ?8 AND created_at < ?9 AND id >= ?10 AND id < ?11 AND finished_at < ?12 AND ?15 <> 1 AND ?16 IS NULL
  AND (?14 = 0 OR (?14 = 1) = (EXISTS (SELECT 1 FROM workflow_execution_queue r WHERE r.retry_of = workflow_executions.id)
                               OR EXISTS (SELECT 1 FROM workflow_executions r WHERE r.retry_of = workflow_executions.id)))
  AND (?17 = 0 OR (?17 = 1) = EXISTS (SELECT 1 FROM dismissals d WHERE d.execution_id = workflow_executions.id))
  AND (?19 = 0 OR (SELECT d.version FROM workflow_definitions d WHERE d.id = definition_id) = ?19)
  AND (?20 IS NULL OR node_id IN (SELECT n.id FROM nodes n WHERE n.name = ?20))
  AND (?23 = 0 OR finished_at - dispatched_at > ?21 AND finished_at - dispatched_at < ?22) AND (?24 IS NULL OR instr(error, ?24) > 0)
ORDER BY id LIMIT ?13;

-- FAILED ones alone: there may be few of them beside many that have completed. Index: executions_failed.
-- name: failed_ids_descending
SELECT id FROM workflow_executions INDEXED BY executions_failed
WHERE status = 'FAILED' AND id < ?1 AND (?2 IS NULL OR workspace_id = ?2)
  AND ?3 & 32
  AND (?4 IS NULL OR definition_id IN (SELECT id FROM workflow_definitions WHERE name = ?4))
  AND (?5 IS NULL OR lane_id >> 47 = (SELECT g.id FROM executor_groups g WHERE g.name = ?5))
  AND (?6 IS NULL OR error_code = ?6) AND (?7 IS NULL OR idempotency_key = ?7)
  AND created_at >= ?8 AND created_at < ?9 AND id >= ?10 AND id < ?11 AND finished_at < ?12 AND ?15 <> 1 AND ?16 IS NULL
  AND (?14 = 0 OR (?14 = 1) = (EXISTS (SELECT 1 FROM workflow_execution_queue r WHERE r.retry_of = workflow_executions.id)
                               OR EXISTS (SELECT 1 FROM workflow_executions r WHERE r.retry_of = workflow_executions.id)))
  AND (?17 = 0 OR (?17 = 1) = EXISTS (SELECT 1 FROM dismissals d WHERE d.execution_id = workflow_executions.id))
  AND (?19 = 0 OR (SELECT d.version FROM workflow_definitions d WHERE d.id = definition_id) = ?19)
  AND (?20 IS NULL OR node_id IN (SELECT n.id FROM nodes n WHERE n.name = ?20))
  AND (?23 = 0 OR finished_at - dispatched_at > ?21 AND finished_at - dispatched_at < ?22) AND (?24 IS NULL OR instr(error, ?24) > 0)
ORDER BY id DESC LIMIT ?13;

-- name: failed_ids_ascending
SELECT id FROM workflow_executions INDEXED BY executions_failed
WHERE status = 'FAILED' AND id > ?1 AND (?2 IS NULL OR workspace_id = ?2)
  AND ?3 & 32
  AND (?4 IS NULL OR definition_id IN (SELECT id FROM workflow_definitions WHERE name = ?4))
  AND (?5 IS NULL OR lane_id >> 47 = (SELECT g.id FROM executor_groups g WHERE g.name = ?5))
  AND (?6 IS NULL OR error_code = ?6) AND (?7 IS NULL OR idempotency_key = ?7)
  AND created_at >= ?8 AND created_at < ?9 AND id >= ?10 AND id < ?11 AND finished_at < ?12 AND ?15 <> 1 AND ?16 IS NULL
  AND (?14 = 0 OR (?14 = 1) = (EXISTS (SELECT 1 FROM workflow_execution_queue r WHERE r.retry_of = workflow_executions.id)
                               OR EXISTS (SELECT 1 FROM workflow_executions r WHERE r.retry_of = workflow_executions.id)))
  AND (?17 = 0 OR (?17 = 1) = EXISTS (SELECT 1 FROM dismissals d WHERE d.execution_id = workflow_executions.id))
  AND (?19 = 0 OR (SELECT d.version FROM workflow_definitions d WHERE d.id = definition_id) = ?19)
  AND (?20 IS NULL OR node_id IN (SELECT n.id FROM nodes n WHERE n.name = ?20))
  AND (?23 = 0 OR finished_at - dispatched_at > ?21 AND finished_at - dispatched_at < ?22) AND (?24 IS NULL OR instr(error, ?24) > 0)
ORDER BY id LIMIT ?13;

-- The children of an execution alone: ?18 parent. Several of them may be one execution. Index: children_of_parent.
-- name: live_children_descending
SELECT DISTINCT c.child_id FROM children c INDEXED BY children_of_parent CROSS JOIN workflow_execution_queue e ON e.id = c.child_id
WHERE c.parent_id = ?18 AND c.child_id < ?1 AND (?2 IS NULL OR workspace_id = ?2)
  AND (CASE e.status WHEN 'PENDING' THEN 1 WHEN 'CLAIMED' THEN 2 WHEN 'DISPATCHED' THEN 4 ELSE 8 END) & ?3
  AND (?4 IS NULL OR definition_id IN (SELECT id FROM workflow_definitions WHERE name = ?4))
  AND (?5 IS NULL OR lane_id >> 47 = (SELECT g.id FROM executor_groups g WHERE g.name = ?5))
  AND (?6 IS NULL OR e.error_code = ?6) AND (?7 IS NULL OR idempotency_key = ?7)
  AND created_at >= ?8 AND created_at < ?9 AND c.child_id >= ?10 AND c.child_id < ?11 AND ?12 IS NOT NULL AND ?14 <> 1 AND ?17 <> 1
  AND (?15 = 0 OR (?15 = 1) = coalesce(phase = 2 AND stuck_fence = fence, 0)) AND (?16 IS NULL OR waiting_for = ?16)
  AND (?19 = 0 OR (SELECT d.version FROM workflow_definitions d WHERE d.id = e.definition_id) = ?19)
  AND (?20 IS NULL OR e.node_id IN (SELECT n.id FROM nodes n WHERE n.name = ?20))
  AND (?23 = 0 OR ?23 - e.dispatched_at > ?21 AND ?23 - e.dispatched_at < ?22) AND (?24 IS NULL OR instr(e.error, ?24) > 0)
ORDER BY c.child_id DESC LIMIT ?13;

-- name: ended_children_descending
SELECT DISTINCT c.child_id FROM children c INDEXED BY children_of_parent CROSS JOIN workflow_executions e ON e.id = c.child_id
WHERE c.parent_id = ?18 AND c.child_id < ?1 AND (?2 IS NULL OR workspace_id = ?2)
  AND (CASE e.status WHEN 'COMPLETED' THEN 16 WHEN 'FAILED' THEN 32 ELSE 64 END) & ?3
  AND (?4 IS NULL OR definition_id IN (SELECT id FROM workflow_definitions WHERE name = ?4))
  AND (?5 IS NULL OR lane_id >> 47 = (SELECT g.id FROM executor_groups g WHERE g.name = ?5))
  AND (?6 IS NULL OR e.error_code = ?6) AND (?7 IS NULL OR idempotency_key = ?7)
  AND created_at >= ?8 AND created_at < ?9 AND c.child_id >= ?10 AND c.child_id < ?11 AND finished_at < ?12 AND ?15 <> 1 AND ?16 IS NULL
  AND (?14 = 0 OR (?14 = 1) = (EXISTS (SELECT 1 FROM workflow_execution_queue r WHERE r.retry_of = e.id)
                               OR EXISTS (SELECT 1 FROM workflow_executions r WHERE r.retry_of = e.id)))
  AND (?17 = 0 OR (?17 = 1) = EXISTS (SELECT 1 FROM dismissals d WHERE d.execution_id = e.id))
  AND (?19 = 0 OR (SELECT d.version FROM workflow_definitions d WHERE d.id = e.definition_id) = ?19)
  AND (?20 IS NULL OR e.node_id IN (SELECT n.id FROM nodes n WHERE n.name = ?20))
  AND (?23 = 0 OR e.finished_at - e.dispatched_at > ?21 AND e.finished_at - e.dispatched_at < ?22)
  AND (?24 IS NULL OR instr(e.error, ?24) > 0)
ORDER BY c.child_id DESC LIMIT ?13;

-- name: live_children_ascending
SELECT DISTINCT c.child_id FROM children c INDEXED BY children_of_parent CROSS JOIN workflow_execution_queue e ON e.id = c.child_id
WHERE c.parent_id = ?18 AND c.child_id > ?1 AND (?2 IS NULL OR workspace_id = ?2)
  AND (CASE e.status WHEN 'PENDING' THEN 1 WHEN 'CLAIMED' THEN 2 WHEN 'DISPATCHED' THEN 4 ELSE 8 END) & ?3
  AND (?4 IS NULL OR definition_id IN (SELECT id FROM workflow_definitions WHERE name = ?4))
  AND (?5 IS NULL OR lane_id >> 47 = (SELECT g.id FROM executor_groups g WHERE g.name = ?5))
  AND (?6 IS NULL OR e.error_code = ?6) AND (?7 IS NULL OR idempotency_key = ?7)
  AND created_at >= ?8 AND created_at < ?9 AND c.child_id >= ?10 AND c.child_id < ?11 AND ?12 IS NOT NULL AND ?14 <> 1 AND ?17 <> 1
  AND (?15 = 0 OR (?15 = 1) = coalesce(phase = 2 AND stuck_fence = fence, 0)) AND (?16 IS NULL OR waiting_for = ?16)
  AND (?19 = 0 OR (SELECT d.version FROM workflow_definitions d WHERE d.id = e.definition_id) = ?19)
  AND (?20 IS NULL OR e.node_id IN (SELECT n.id FROM nodes n WHERE n.name = ?20))
  AND (?23 = 0 OR ?23 - e.dispatched_at > ?21 AND ?23 - e.dispatched_at < ?22) AND (?24 IS NULL OR instr(e.error, ?24) > 0)
ORDER BY c.child_id LIMIT ?13;

-- name: ended_children_ascending
SELECT DISTINCT c.child_id FROM children c INDEXED BY children_of_parent CROSS JOIN workflow_executions e ON e.id = c.child_id
WHERE c.parent_id = ?18 AND c.child_id > ?1 AND (?2 IS NULL OR workspace_id = ?2)
  AND (CASE e.status WHEN 'COMPLETED' THEN 16 WHEN 'FAILED' THEN 32 ELSE 64 END) & ?3
  AND (?4 IS NULL OR definition_id IN (SELECT id FROM workflow_definitions WHERE name = ?4))
  AND (?5 IS NULL OR lane_id >> 47 = (SELECT g.id FROM executor_groups g WHERE g.name = ?5))
  AND (?6 IS NULL OR e.error_code = ?6) AND (?7 IS NULL OR idempotency_key = ?7)
  AND created_at >= ?8 AND created_at < ?9 AND c.child_id >= ?10 AND c.child_id < ?11 AND finished_at < ?12 AND ?15 <> 1 AND ?16 IS NULL
  AND (?14 = 0 OR (?14 = 1) = (EXISTS (SELECT 1 FROM workflow_execution_queue r WHERE r.retry_of = e.id)
                               OR EXISTS (SELECT 1 FROM workflow_executions r WHERE r.retry_of = e.id)))
  AND (?17 = 0 OR (?17 = 1) = EXISTS (SELECT 1 FROM dismissals d WHERE d.execution_id = e.id))
  AND (?19 = 0 OR (SELECT d.version FROM workflow_definitions d WHERE d.id = e.definition_id) = ?19)
  AND (?20 IS NULL OR e.node_id IN (SELECT n.id FROM nodes n WHERE n.name = ?20))
  AND (?23 = 0 OR e.finished_at - e.dispatched_at > ?21 AND e.finished_at - e.dispatched_at < ?22)
  AND (?24 IS NULL OR instr(e.error, ?24) > 0)
ORDER BY c.child_id LIMIT ?13;

-- The end of a window: the last of the ?2 rows of an arm behind ?1. No row: the arm has no more than that.
-- name: live_window_descending
SELECT id FROM workflow_execution_queue WHERE id < ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2 - 1;

-- name: live_window_ascending
SELECT id FROM workflow_execution_queue WHERE id > ?1 ORDER BY id LIMIT 1 OFFSET ?2 - 1;

-- name: ended_window_descending
SELECT id FROM workflow_executions WHERE id < ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2 - 1;

-- name: ended_window_ascending
SELECT id FROM workflow_executions WHERE id > ?1 ORDER BY id LIMIT 1 OFFSET ?2 - 1;

-- name: failed_window_descending
SELECT id FROM workflow_executions INDEXED BY executions_failed WHERE status = 'FAILED' AND id < ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2 - 1;

-- name: failed_window_ascending
SELECT id FROM workflow_executions INDEXED BY executions_failed WHERE status = 'FAILED' AND id > ?1 ORDER BY id LIMIT 1 OFFSET ?2 - 1;
