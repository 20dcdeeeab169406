-- Whether a requested cancel waits for the node to pass it on to its engine.
-- Locks: none. Index: queue_requests. Callers: schedule(), inbox().
CREATE OR REPLACE FUNCTION :schema.cancel_waits(of_node bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q
                   WHERE q.node_id = of_node AND q.cancel_at IS NOT NULL AND NOT q.cancel_sent)
$$;
