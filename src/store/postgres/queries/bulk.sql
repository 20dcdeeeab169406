-- Operators' acts. The acts themselves are functions over sets of ids.

-- The executions of an act, in the order of their ids. Each arm goes along one index: living ones, held ones alone (by `claims`), ended
-- ones, FAILED ones alone. At most two have a wanted state, and the others read nothing. The bounds of the id are bare columns, so that
-- a plan for all arguments uses them.
-- $1 behind this id, $2 workspace or NULL, $3 state bits, $4 workflow or NULL, $5 group or NULL, $6 error code or NULL, $7
-- idempotency key or NULL. $8 created since, $9 created before, $10 finished before, $11 limit, $12 from this id on. $13 retried and
-- $14 stuck (as in choose_executions()), $15 waiting_for or NULL, $16 dismissed, $17 up to this id, $18 parent or NULL: its children
-- alone. $19 version or 0, $20 node or NULL, $23 the present time, or 0 without a duration; then $21 longer than, $22 shorter than.
-- $24 a part of the error or NULL, $25 the way of label_walk(), or 0: no labels; $26 their names, $27 and $28 from and up to which value.
-- name: bulk_ids
(SELECT q.id FROM :schema.workflow_execution_queue q
 WHERE q.id > $1 AND q.id >= $12 AND q.id <= $17
   AND ($2::text IS NULL OR q.workspace_id = (SELECT w.id FROM :schema.workspaces w WHERE w.name = $2))
   AND (CASE q.status WHEN 'PENDING' THEN 1 WHEN 'CLAIMED' THEN 2 WHEN 'DISPATCHED' THEN 4 ELSE 8 END) & $3 <> 0
   AND ($4::text IS NULL OR q.definition_id IN (SELECT d.id FROM :schema.workflow_definitions d WHERE d.name = $4))
   AND ($5::text IS NULL OR q.lane_id >> 47 = (SELECT g.id FROM :schema.executor_groups g WHERE g.name = $5))
   AND ($6::text IS NULL OR q.error_code = $6) AND ($7::text IS NULL OR q.idempotency_key = $7)
   AND q.created_at >= $8 AND q.created_at < $9 AND $13 <> 1
   AND ($14 = 0 OR ($14 = 1) = coalesce(q.phase = 2 AND q.stuck_fence = q.fence, false)) AND ($15::text IS NULL OR q.waiting_for = $15)
   AND $16 <> 1
   AND ($19 = 0 OR (SELECT d.version FROM :schema.workflow_definitions d WHERE d.id = q.definition_id) = $19)
   AND ($20::text IS NULL OR q.node_id IN (SELECT n.id FROM :schema.nodes n WHERE n.name = $20))
   AND ($23 = 0 OR $23 - q.dispatched_at > $21 AND $23 - q.dispatched_at < $22)
   AND ($24::text IS NULL OR strpos(q.error, $24) > 0) AND $25 = 0
   AND $18::uuid IS NULL AND $3 & 9 <> 0
 ORDER BY q.id LIMIT $11)
UNION ALL
(SELECT q.id FROM :schema.workflow_execution_queue q
 WHERE q.id > $1 AND q.id >= $12 AND q.id <= $17
   AND ($2::text IS NULL OR q.workspace_id = (SELECT w.id FROM :schema.workspaces w WHERE w.name = $2))
   AND (CASE q.status WHEN 'PENDING' THEN 1 WHEN 'CLAIMED' THEN 2 WHEN 'DISPATCHED' THEN 4 ELSE 8 END) & $3 <> 0
   AND ($4::text IS NULL OR q.definition_id IN (SELECT d.id FROM :schema.workflow_definitions d WHERE d.name = $4))
   AND ($5::text IS NULL OR q.lane_id >> 47 = (SELECT g.id FROM :schema.executor_groups g WHERE g.name = $5))
   AND ($6::text IS NULL OR q.error_code = $6) AND ($7::text IS NULL OR q.idempotency_key = $7)
   AND q.created_at >= $8 AND q.created_at < $9 AND $13 <> 1
   AND ($14 = 0 OR ($14 = 1) = coalesce(q.phase = 2 AND q.stuck_fence = q.fence, false)) AND ($15::text IS NULL OR q.waiting_for = $15)
   AND $16 <> 1
   AND ($19 = 0 OR (SELECT d.version FROM :schema.workflow_definitions d WHERE d.id = q.definition_id) = $19)
   AND ($20::text IS NULL OR q.node_id IN (SELECT n.id FROM :schema.nodes n WHERE n.name = $20))
   AND ($23 = 0 OR $23 - q.dispatched_at > $21 AND $23 - q.dispatched_at < $22)
   AND ($24::text IS NULL OR strpos(q.error, $24) > 0) AND $25 = 0
   AND $18::uuid IS NULL AND $3 & 9 = 0 AND $3 & 6 <> 0 AND q.id = ANY (ARRAY(SELECT unnest(c.ids) FROM :schema.claims c))
 ORDER BY q.id LIMIT $11)
UNION ALL
(SELECT h.id FROM :schema.workflow_executions h
 WHERE h.id > $1 AND h.id >= $12 AND h.id <= $17
   AND ($2::text IS NULL OR h.workspace_id = (SELECT w.id FROM :schema.workspaces w WHERE w.name = $2))
   AND (CASE h.status WHEN 'COMPLETED' THEN 16 WHEN 'FAILED' THEN 32 ELSE 64 END) & $3 <> 0
   AND ($4::text IS NULL OR h.definition_id IN (SELECT d.id FROM :schema.workflow_definitions d WHERE d.name = $4))
   AND ($5::text IS NULL OR h.lane_id >> 47 = (SELECT g.id FROM :schema.executor_groups g WHERE g.name = $5))
   AND ($6::text IS NULL OR h.error_code = $6) AND ($7::text IS NULL OR h.idempotency_key = $7)
   AND h.created_at >= $8 AND h.created_at < $9 AND h.finished_at < $10 AND $14 <> 1 AND $15::text IS NULL
   AND ($13 = 0 OR ($13 = 1) = (EXISTS (SELECT 1 FROM :schema.workflow_execution_queue r WHERE r.retry_of = h.id)
                                OR EXISTS (SELECT 1 FROM :schema.workflow_executions r WHERE r.retry_of = h.id)))
   AND ($16 = 0 OR ($16 = 1) = EXISTS (SELECT 1 FROM :schema.dismissals d WHERE d.execution_id = h.id))
   AND ($19 = 0 OR (SELECT d.version FROM :schema.workflow_definitions d WHERE d.id = h.definition_id) = $19)
   AND ($20::text IS NULL OR h.node_id IN (SELECT n.id FROM :schema.nodes n WHERE n.name = $20))
   AND ($23 = 0 OR h.finished_at - h.dispatched_at > $21 AND h.finished_at - h.dispatched_at < $22)
   AND ($24::text IS NULL OR strpos(h.error, $24) > 0) AND $25 = 0
   AND $18::uuid IS NULL AND $3 & 112 NOT IN (0, 32)
 ORDER BY h.id LIMIT $11)
UNION ALL
(SELECT h.id FROM :schema.workflow_executions h
 WHERE h.id > $1 AND h.id >= $12 AND h.id <= $17
   AND ($2::text IS NULL OR h.workspace_id = (SELECT w.id FROM :schema.workspaces w WHERE w.name = $2))
   AND (CASE h.status WHEN 'COMPLETED' THEN 16 WHEN 'FAILED' THEN 32 ELSE 64 END) & $3 <> 0
   AND ($4::text IS NULL OR h.definition_id IN (SELECT d.id FROM :schema.workflow_definitions d WHERE d.name = $4))
   AND ($5::text IS NULL OR h.lane_id >> 47 = (SELECT g.id FROM :schema.executor_groups g WHERE g.name = $5))
   AND ($6::text IS NULL OR h.error_code = $6) AND ($7::text IS NULL OR h.idempotency_key = $7)
   AND h.created_at >= $8 AND h.created_at < $9 AND h.finished_at < $10 AND $14 <> 1 AND $15::text IS NULL
   AND ($13 = 0 OR ($13 = 1) = (EXISTS (SELECT 1 FROM :schema.workflow_execution_queue r WHERE r.retry_of = h.id)
                                OR EXISTS (SELECT 1 FROM :schema.workflow_executions r WHERE r.retry_of = h.id)))
   AND ($16 = 0 OR ($16 = 1) = EXISTS (SELECT 1 FROM :schema.dismissals d WHERE d.execution_id = h.id))
   AND ($19 = 0 OR (SELECT d.version FROM :schema.workflow_definitions d WHERE d.id = h.definition_id) = $19)
   AND ($20::text IS NULL OR h.node_id IN (SELECT n.id FROM :schema.nodes n WHERE n.name = $20))
   AND ($23 = 0 OR h.finished_at - h.dispatched_at > $21 AND h.finished_at - h.dispatched_at < $22)
   AND ($24::text IS NULL OR strpos(h.error, $24) > 0) AND $25 = 0
   AND $18::uuid IS NULL AND $3 & 112 = 32 AND h.status = 'FAILED'
 ORDER BY h.id LIMIT $11)
UNION ALL
(SELECT q.id FROM :schema.workflow_execution_queue q
 WHERE q.id = ANY (ARRAY(SELECT c.child_id FROM :schema.children c
                       WHERE c.parent_id = $18 AND c.child_id > $1 AND c.child_id >= $12 AND c.child_id <= $17))
   AND ($2::text IS NULL OR q.workspace_id = (SELECT w.id FROM :schema.workspaces w WHERE w.name = $2))
   AND (CASE q.status WHEN 'PENDING' THEN 1 WHEN 'CLAIMED' THEN 2 WHEN 'DISPATCHED' THEN 4 ELSE 8 END) & $3 <> 0
   AND ($4::text IS NULL OR q.definition_id IN (SELECT d.id FROM :schema.workflow_definitions d WHERE d.name = $4))
   AND ($5::text IS NULL OR q.lane_id >> 47 = (SELECT g.id FROM :schema.executor_groups g WHERE g.name = $5))
   AND ($6::text IS NULL OR q.error_code = $6) AND ($7::text IS NULL OR q.idempotency_key = $7)
   AND q.created_at >= $8 AND q.created_at < $9 AND $13 <> 1
   AND ($14 = 0 OR ($14 = 1) = coalesce(q.phase = 2 AND q.stuck_fence = q.fence, false)) AND ($15::text IS NULL OR q.waiting_for = $15)
   AND $16 <> 1
   AND ($19 = 0 OR (SELECT d.version FROM :schema.workflow_definitions d WHERE d.id = q.definition_id) = $19)
   AND ($20::text IS NULL OR q.node_id IN (SELECT n.id FROM :schema.nodes n WHERE n.name = $20))
   AND ($23 = 0 OR $23 - q.dispatched_at > $21 AND $23 - q.dispatched_at < $22)
   AND ($24::text IS NULL OR strpos(q.error, $24) > 0) AND $25 = 0
   AND $18::uuid IS NOT NULL AND $3 & 15 <> 0
 ORDER BY q.id LIMIT $11)
UNION ALL
(SELECT h.id FROM :schema.workflow_executions h
 WHERE h.id = ANY (ARRAY(SELECT c.child_id FROM :schema.children c
                       WHERE c.parent_id = $18 AND c.child_id > $1 AND c.child_id >= $12 AND c.child_id <= $17))
   AND ($2::text IS NULL OR h.workspace_id = (SELECT w.id FROM :schema.workspaces w WHERE w.name = $2))
   AND (CASE h.status WHEN 'COMPLETED' THEN 16 WHEN 'FAILED' THEN 32 ELSE 64 END) & $3 <> 0
   AND ($4::text IS NULL OR h.definition_id IN (SELECT d.id FROM :schema.workflow_definitions d WHERE d.name = $4))
   AND ($5::text IS NULL OR h.lane_id >> 47 = (SELECT g.id FROM :schema.executor_groups g WHERE g.name = $5))
   AND ($6::text IS NULL OR h.error_code = $6) AND ($7::text IS NULL OR h.idempotency_key = $7)
   AND h.created_at >= $8 AND h.created_at < $9 AND h.finished_at < $10 AND $14 <> 1 AND $15::text IS NULL
   AND ($13 = 0 OR ($13 = 1) = (EXISTS (SELECT 1 FROM :schema.workflow_execution_queue r WHERE r.retry_of = h.id)
                                OR EXISTS (SELECT 1 FROM :schema.workflow_executions r WHERE r.retry_of = h.id)))
   AND ($16 = 0 OR ($16 = 1) = EXISTS (SELECT 1 FROM :schema.dismissals d WHERE d.execution_id = h.id))
   AND ($19 = 0 OR (SELECT d.version FROM :schema.workflow_definitions d WHERE d.id = h.definition_id) = $19)
   AND ($20::text IS NULL OR h.node_id IN (SELECT n.id FROM :schema.nodes n WHERE n.name = $20))
   AND ($23 = 0 OR h.finished_at - h.dispatched_at > $21 AND h.finished_at - h.dispatched_at < $22)
   AND ($24::text IS NULL OR strpos(h.error, $24) > 0) AND $25 = 0
   AND $18::uuid IS NOT NULL AND $3 & 112 <> 0
 ORDER BY h.id LIMIT $11)
UNION ALL
(SELECT c.id FROM :schema.choose_labelled($25, true, $1, $12, $17, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $13, $14, $15, $16, $18, $19,
                                          $20, $21, $22, $23, $24, $26, $27, $28) c(id)
 WHERE $25 <> 0)
ORDER BY 1 LIMIT $11;

-- The workspace of an act. $1 its id, or 0: that of the name; $2 name
-- name: workspace_of_bulk
SELECT w.id, w.name FROM :schema.workspaces w
WHERE w.id = coalesce(nullif($1, 0), (SELECT n.id FROM :schema.workspaces n WHERE n.name = $2));

-- Of these ids, the executions that wait for this reason. $1 ids, $2 reason
-- name: with_reason
SELECT e.id FROM :schema.executions e WHERE e.id = ANY ($1) AND e.pending_reason = $2 ORDER BY 1;

-- The functions wake the scheduler and the nodes concerned. $1 ids, $2 actor, $3 why, $4 subject.
-- name: cancel_items
SELECT r.item, r.outcome, r.detail FROM :schema.cancel_items($1, $2, $3, $4) r ORDER BY 1;

-- name: release_items
SELECT r.item, r.outcome, r.detail FROM :schema.release_items($1, $2, $3, $4) r ORDER BY 1;

-- $5 kind of the waits or NULL
-- name: wake_steps
SELECT r.item, r.outcome, r.detail, r.waits, r.of_kind, r.timed FROM :schema.wake_steps($1, $2, $3, $5, $4) r ORDER BY 1;

-- name: dismiss_executions
SELECT r.item, r.outcome, r.detail FROM :schema.dismiss_executions($1, $2, $3, $4) r ORDER BY 1;

-- $5 the new ids, at the places of the old ones
-- name: retry_executions
SELECT r.item, r.outcome, r.detail FROM :schema.retry_executions($1, $5, $2, $3, $4, $6, $7) r ORDER BY 1;

-- name: purge_items
SELECT r.item, r.outcome, r.detail FROM :schema.purge_items($1, $2, $3, $4) r ORDER BY 1;

-- $5 version. The second one changes nothing.
-- name: migrate_items
SELECT r.item, r.outcome, r.detail, r.steps FROM :schema.migrate_items($1, $5, $2, $3, $4) r ORDER BY 1;

-- name: migration_outcomes
SELECT r.item, r.outcome, r.detail, r.steps FROM :schema.migration_outcomes($1, $2) r ORDER BY 1;
