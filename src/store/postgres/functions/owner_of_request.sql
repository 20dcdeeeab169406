-- The workspace of a request that enqueue_one() is going to accept, or NULL: a name is unknown, or an execution has the given id. The
-- arguments are those of enqueue_one(), which has the refusals. Locks: none. Caller: enqueue_keyed().
CREATE OR REPLACE FUNCTION :schema.owner_of_request(new_id uuid, given boolean, workspace text, workflow text, executor_group text)
RETURNS integer
LANGUAGE sql STABLE AS $$
    SELECT w.id
    FROM :schema.workspaces w
    CROSS JOIN LATERAL (SELECT v.state FROM :schema.workflow_definitions v
                        WHERE v.name = owner_of_request.workflow AND v.workspace_id IN (w.id, 0) AND v.state <> 2
                        ORDER BY v.workspace_id DESC, v.version DESC LIMIT 1) d
    WHERE w.name = owner_of_request.workspace AND d.state = 0
      AND (owner_of_request.executor_group IS NULL
           OR EXISTS (SELECT 1 FROM :schema.executor_groups g WHERE g.name = owner_of_request.executor_group))
      AND NOT (given AND (EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = new_id)
                          OR EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = new_id)))
$$;
