-- When the next waiting item becomes due; NULL: none waits. In plpgsql for the reason of requests_wait().
-- Locks: none. Index: queue_waiting. Callers: schedule(), due_again().
CREATE OR REPLACE FUNCTION :schema.next_due() RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT q.due_at FROM :schema.workflow_execution_queue q WHERE q.due_at IS NOT NULL ORDER BY q.due_at LIMIT 1);
END
$$;
