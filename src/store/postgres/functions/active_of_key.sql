-- The execution of a key that has not ended, and the name of its workflow; no row: it has ended. With `retries` it may be a retry, of
-- which each is found by a unique index. Locks: none. Caller: enqueue_keyed().
CREATE OR REPLACE FUNCTION :schema.active_of_key(execution uuid, retries boolean) RETURNS TABLE (id uuid, workflow text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH RECURSIVE tries (id) AS (
        SELECT execution
        UNION ALL
        SELECT coalesce((SELECT q.id FROM :schema.workflow_execution_queue q WHERE q.retry_of = t.id),
                        (SELECT h.id FROM :schema.workflow_executions h WHERE h.retry_of = t.id))
        FROM tries t WHERE retries AND t.id IS NOT NULL
    )
    SELECT l.id, d.name
    FROM tries t
    JOIN :schema.workflow_execution_queue l ON l.id = t.id
    JOIN :schema.workflow_definitions d ON d.id = l.definition_id LIMIT 1;
END
$$;
