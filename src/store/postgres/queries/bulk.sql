-- Operators' acts. The acts themselves are functions over sets of ids (migrations/0002).

-- Which executions an act is about, in the order of their ids. Two arms, one for the living and one for the ended, each along its
-- primary key, and not at all when none of its states is asked for: retention would read a whole backlog. $1 behind this id, $2 workspace
-- or NULL, $3 state bits, $4 workflow or NULL, $5 group or NULL, $6 error code or NULL, $7 idempotency key or NULL, $8 created since,
-- $9 created before, $10 finished before, $11 limit, $12 one id or NULL
-- name: bulk_ids
(SELECT q.id FROM :schema.workflow_execution_queue q
 WHERE q.id > $1 AND ($12::uuid IS NULL OR q.id = $12)
   AND ($2::text IS NULL OR q.workspace_id = (SELECT w.id FROM :schema.workspaces w WHERE w.name = $2))
   AND $3 & 7 <> 0 AND (CASE q.status WHEN 'PENDING' THEN 1 WHEN 'CLAIMED' THEN 2 ELSE 4 END) & $3 <> 0
   AND ($4::text IS NULL OR q.definition_id IN (SELECT d.id FROM :schema.workflow_definitions d WHERE d.name = $4))
   AND ($5::text IS NULL OR q.lane_id >> 32 = (SELECT g.id FROM :schema.executor_groups g WHERE g.name = $5))
   AND ($6::text IS NULL OR q.error_code = $6) AND ($7::text IS NULL OR q.idempotency_key = $7)
   AND q.created_at >= $8 AND q.created_at < $9
 ORDER BY q.id LIMIT $11)
UNION ALL
(SELECT h.id FROM :schema.workflow_executions h
 WHERE h.id > $1 AND ($12::uuid IS NULL OR h.id = $12)
   AND ($2::text IS NULL OR h.workspace_id = (SELECT w.id FROM :schema.workspaces w WHERE w.name = $2))
   AND $3 & 56 <> 0 AND (CASE h.status WHEN 'COMPLETED' THEN 8 WHEN 'FAILED' THEN 16 ELSE 32 END) & $3 <> 0
   AND ($4::text IS NULL OR h.definition_id IN (SELECT d.id FROM :schema.workflow_definitions d WHERE d.name = $4))
   AND ($5::text IS NULL OR h.lane_id >> 32 = (SELECT g.id FROM :schema.executor_groups g WHERE g.name = $5))
   AND ($6::text IS NULL OR h.error_code = $6) AND ($7::text IS NULL OR h.idempotency_key = $7)
   AND h.created_at >= $8 AND h.created_at < $9 AND h.finished_at < $10
 ORDER BY h.id LIMIT $11)
ORDER BY 1 LIMIT $11;

-- Those that wait for this reason. $1 ids, $2 reason
-- name: with_reason
SELECT e.id FROM :schema.executions e WHERE e.id = ANY ($1) AND e.pending_reason = $2 ORDER BY 1;

-- These tell the nodes of the groups, as the functions for callers in SQL do: else a running one is stopped, and a waiting one
-- started, at the next poll. The groups are read as they were before the act, which no act changes.
-- $1 ids, $2 actor, $3 why. What had not started is CANCELLED already, and nobody needs to hear of it.
-- name: cancel_items
WITH acts AS MATERIALIZED (SELECT r.item, r.outcome, r.detail FROM :schema.cancel_items($1, $2, $3) r), told AS MATERIALIZED (
    SELECT :schema.notify_work(g.name) FROM :schema.executor_groups g
    WHERE g.id IN (SELECT q.lane_id >> 32 FROM acts a JOIN :schema.workflow_execution_queue q ON q.id = a.item
                   WHERE a.outcome = 'changed' AND a.detail <> 'CANCELLED')
)
SELECT a.item, a.outcome, a.detail FROM acts a WHERE (SELECT count(*) FROM told) >= 0 ORDER BY 1;

-- name: release_items
WITH acts AS MATERIALIZED (SELECT r.item, r.outcome, r.detail FROM :schema.release_items($1, $2, $3) r), told AS MATERIALIZED (
    SELECT :schema.notify_work(g.name) FROM :schema.executor_groups g
    WHERE g.id IN (SELECT q.lane_id >> 32 FROM acts a JOIN :schema.workflow_execution_queue q ON q.id = a.item
                   WHERE a.outcome = 'changed')
)
SELECT a.item, a.outcome, a.detail FROM acts a WHERE (SELECT count(*) FROM told) >= 0 ORDER BY 1;

-- $4 the new ids, which go to the groups of the old ones
-- name: retry_items
WITH acts AS MATERIALIZED (SELECT r.item, r.outcome, r.detail FROM :schema.retry_items($1, $4, $2, $3) r), told AS MATERIALIZED (
    SELECT :schema.notify_work(g.name) FROM :schema.executor_groups g
    WHERE g.id IN (SELECT h.lane_id >> 32 FROM acts a JOIN :schema.workflow_executions h ON h.id = a.item
                   WHERE a.outcome = 'changed')
)
SELECT a.item, a.outcome, a.detail FROM acts a WHERE (SELECT count(*) FROM told) >= 0 ORDER BY 1;

-- name: purge_items
SELECT r.item, r.outcome, r.detail FROM :schema.purge_items($1) r ORDER BY 1;
