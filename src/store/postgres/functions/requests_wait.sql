-- Whether a requested cancel or a signal waits for the node to pass it on to its engine. A function in SQL would be planned again in each
-- transaction of its callers, which costs more than the round of an idle scheduler.
-- Locks: none. Indexes: queue_requests, queue_signalled. Callers: schedule(), inbox(), schedule_lone().
CREATE OR REPLACE FUNCTION :schema.requests_wait(of_node bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q
                   WHERE q.node_id = of_node AND q.cancel_at IS NOT NULL AND NOT q.cancel_sent)
           OR EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.node_id = of_node AND q.signals > q.signals_sent);
END
$$;
