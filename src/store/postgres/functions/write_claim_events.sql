-- Writes the events `claim` and `dispatch` of items with rows that are about to lose them. A dispatch under a claim that followed a
-- handover has its event already. The caller has locked the rows. Callers: hand_over(), stop_node().
CREATE OR REPLACE FUNCTION :schema.write_claim_events(ids uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence)
    SELECT q.id, t.at, t.event, q.node_id, q.fence
    FROM :schema.workflow_execution_queue q
    CROSS JOIN LATERAL (
        VALUES ('claim', q.claimed_at),
               ('dispatch', CASE WHEN q.status = 'DISPATCHED'
                                  AND NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_events d
                                                  WHERE d.execution_id = q.id AND d.event = 'dispatch' AND d.fence = q.fence)
                                 THEN q.dispatched_at END)) t (event, at)
    WHERE q.id = ANY (ids) AND q.node_id <> 0 AND t.at IS NOT NULL;
END
$$;
