-- The same as choose_executions() for the children of one execution, which are few: each arm reads all of them by the primary key.
-- Locks: none. Callers: page_of_executions, count_executions (queries/read.sql).
CREATE OR REPLACE FUNCTION :schema.choose_children(below uuid, first uuid, last uuid, workspace text, states integer, workflow text,
                                                   executor_group text, error_code text, idempotency_key text, created_since bigint,
                                                   created_before bigint, finished_before bigint, most bigint, retried integer,
                                                   stuck integer, waiting_for text, dismissed integer, parent uuid, version integer,
                                                   node text, longer_than bigint, shorter_than bigint, as_of bigint, error_text text)
RETURNS SETOF uuid
LANGUAGE sql STABLE AS $$
    SELECT i.id FROM (
        (SELECT q.id FROM :schema.workflow_execution_queue q
         WHERE q.id = ANY (ARRAY(SELECT c.child_id FROM :schema.children c
                               WHERE c.parent_id = $18 AND c.child_id < $1 AND c.child_id >= $2 AND c.child_id <= $3))
           AND ($4 IS NULL OR q.workspace_id = (SELECT w.id FROM :schema.workspaces w WHERE w.name = $4))
           AND (CASE q.status WHEN 'PENDING' THEN 1 WHEN 'CLAIMED' THEN 2 WHEN 'DISPATCHED' THEN 4 ELSE 8 END) & $5 <> 0
           AND ($6 IS NULL OR q.definition_id IN (SELECT d.id FROM :schema.workflow_definitions d WHERE d.name = $6))
           AND ($7 IS NULL OR q.lane_id >> 47 = (SELECT g.id FROM :schema.executor_groups g WHERE g.name = $7))
           AND ($8 IS NULL OR q.error_code = $8) AND ($9 IS NULL OR q.idempotency_key = $9)
           AND q.created_at >= $10 AND q.created_at < $11 AND $12 = 9223372036854775807 AND $14 <> 1
           AND ($15 = 0 OR ($15 = 1) = coalesce(q.phase = 2 AND q.stuck_fence = q.fence, false))
           AND ($16 IS NULL OR q.waiting_for = $16) AND $17 <> 1 AND $18 IS NOT NULL AND $5 & 15 <> 0
           AND ($19 = 0 OR (SELECT d.version FROM :schema.workflow_definitions d WHERE d.id = q.definition_id) = $19)
           AND ($20 IS NULL OR q.node_id IN (SELECT n.id FROM :schema.nodes n WHERE n.name = $20))
           AND ($23 = 0 OR $23 - q.dispatched_at > $21 AND $23 - q.dispatched_at < $22) AND ($24 IS NULL OR strpos(q.error, $24) > 0)
         ORDER BY q.id DESC LIMIT $13)
        UNION ALL
        (SELECT h.id FROM :schema.workflow_executions h
         WHERE h.id = ANY (ARRAY(SELECT c.child_id FROM :schema.children c
                               WHERE c.parent_id = $18 AND c.child_id < $1 AND c.child_id >= $2 AND c.child_id <= $3))
           AND ($4 IS NULL OR h.workspace_id = (SELECT w.id FROM :schema.workspaces w WHERE w.name = $4))
           AND (CASE h.status WHEN 'COMPLETED' THEN 16 WHEN 'FAILED' THEN 32 ELSE 64 END) & $5 <> 0
           AND ($6 IS NULL OR h.definition_id IN (SELECT d.id FROM :schema.workflow_definitions d WHERE d.name = $6))
           AND ($7 IS NULL OR h.lane_id >> 47 = (SELECT g.id FROM :schema.executor_groups g WHERE g.name = $7))
           AND ($8 IS NULL OR h.error_code = $8) AND ($9 IS NULL OR h.idempotency_key = $9) AND $18 IS NOT NULL AND $5 & 112 <> 0
           AND h.created_at >= $10 AND h.created_at < $11 AND h.finished_at < $12 AND $15 <> 1 AND $16 IS NULL
           AND ($14 = 0 OR ($14 = 1) = (EXISTS (SELECT 1 FROM :schema.workflow_execution_queue r WHERE r.retry_of = h.id)
                                        OR EXISTS (SELECT 1 FROM :schema.workflow_executions r WHERE r.retry_of = h.id)))
           AND ($17 = 0 OR ($17 = 1) = EXISTS (SELECT 1 FROM :schema.dismissals d WHERE d.execution_id = h.id))
           AND ($19 = 0 OR (SELECT d.version FROM :schema.workflow_definitions d WHERE d.id = h.definition_id) = $19)
           AND ($20 IS NULL OR h.node_id IN (SELECT n.id FROM :schema.nodes n WHERE n.name = $20))
           AND ($23 = 0 OR h.finished_at - h.dispatched_at > $21 AND h.finished_at - h.dispatched_at < $22)
           AND ($24 IS NULL OR strpos(h.error, $24) > 0)
         ORDER BY h.id DESC LIMIT $13)) i
    ORDER BY i.id DESC LIMIT $13
$$;
