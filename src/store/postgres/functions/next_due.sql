-- When the next waiting item becomes due; NULL: none waits. Locks: none. Index: queue_waiting. Callers: schedule(), due_again().
CREATE OR REPLACE FUNCTION :schema.next_due() RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT q.due_at FROM :schema.workflow_execution_queue q WHERE q.due_at IS NOT NULL ORDER BY q.due_at LIMIT 1
$$;
