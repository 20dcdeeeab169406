-- The one execution, if it meets the conditions of choose_executions(); no row = it does not. It is planned as a part of its caller.
-- Locks: none. Caller: choose_labelled().
CREATE OR REPLACE FUNCTION :schema.matching_execution(execution_id uuid, states integer, workflow text, executor_group text,
                                                      error_code text, idempotency_key text, created_since bigint,
                                                      created_before bigint, finished_before bigint, retried integer, stuck integer,
                                                      waiting_for text, version integer, node text, longer_than bigint,
                                                      shorter_than bigint, as_of bigint, error_text text, dismissed integer,
                                                      parent uuid)
RETURNS SETOF uuid
LANGUAGE sql STABLE AS $$
    SELECT q.id FROM :schema.workflow_execution_queue q
    WHERE q.id = $1 AND (CASE q.status WHEN 'PENDING' THEN 1 WHEN 'CLAIMED' THEN 2 WHEN 'DISPATCHED' THEN 4 ELSE 8 END) & $2 <> 0
      AND ($20 IS NULL OR EXISTS (SELECT 1 FROM :schema.children c WHERE c.parent_id = $20 AND c.child_id = q.id))
      AND ($3 IS NULL OR q.definition_id IN (SELECT d.id FROM :schema.workflow_definitions d WHERE d.name = $3))
      AND ($4 IS NULL OR q.lane_id >> 47 = (SELECT g.id FROM :schema.executor_groups g WHERE g.name = $4))
      AND ($5 IS NULL OR q.error_code = $5) AND ($6 IS NULL OR q.idempotency_key = $6)
      AND q.created_at >= $7 AND q.created_at < $8 AND $9 = 9223372036854775807 AND $10 <> 1
      AND ($11 = 0 OR ($11 = 1) = coalesce(q.phase = 2 AND q.stuck_fence = q.fence, false))
      AND ($12 IS NULL OR q.waiting_for = $12)
      AND ($13 = 0 OR (SELECT d.version FROM :schema.workflow_definitions d WHERE d.id = q.definition_id) = $13)
      AND ($14 IS NULL OR q.node_id IN (SELECT n.id FROM :schema.nodes n WHERE n.name = $14))
      AND ($17 = 0 OR $17 - q.dispatched_at > $15 AND $17 - q.dispatched_at < $16)
      AND ($18 IS NULL OR strpos(q.error, $18) > 0) AND $19 <> 1
    UNION ALL
    SELECT h.id FROM :schema.workflow_executions h
    WHERE h.id = $1 AND (CASE h.status WHEN 'COMPLETED' THEN 16 WHEN 'FAILED' THEN 32 ELSE 64 END) & $2 <> 0
      AND ($20 IS NULL OR EXISTS (SELECT 1 FROM :schema.children c WHERE c.parent_id = $20 AND c.child_id = h.id))
      AND ($3 IS NULL OR h.definition_id IN (SELECT d.id FROM :schema.workflow_definitions d WHERE d.name = $3))
      AND ($4 IS NULL OR h.lane_id >> 47 = (SELECT g.id FROM :schema.executor_groups g WHERE g.name = $4))
      AND ($5 IS NULL OR h.error_code = $5) AND ($6 IS NULL OR h.idempotency_key = $6)
      AND h.created_at >= $7 AND h.created_at < $8 AND h.finished_at < $9 AND $11 <> 1 AND $12 IS NULL
      AND ($10 = 0 OR ($10 = 1) = (EXISTS (SELECT 1 FROM :schema.workflow_execution_queue r WHERE r.retry_of = h.id)
                                   OR EXISTS (SELECT 1 FROM :schema.workflow_executions r WHERE r.retry_of = h.id)))
      AND ($13 = 0 OR (SELECT d.version FROM :schema.workflow_definitions d WHERE d.id = h.definition_id) = $13)
      AND ($14 IS NULL OR h.node_id IN (SELECT n.id FROM :schema.nodes n WHERE n.name = $14))
      AND ($17 = 0 OR h.finished_at - h.dispatched_at > $15 AND h.finished_at - h.dispatched_at < $16)
      AND ($18 IS NULL OR strpos(h.error, $18) > 0)
      AND ($19 = 0 OR ($19 = 1) = EXISTS (SELECT 1 FROM :schema.dismissals d WHERE d.execution_id = h.id))
$$;
