-- The execution that a child with a known key becomes: that of the key, or its newest retry. Params are not compared, because the key names
-- the work. The child waits for it, or takes its end.
--   owner  the name of the workspace of the children
-- Returns its id, 'ok', and its state if it has ended; or a refusal. It is refused if it is of another workflow, or waits for this parent
-- itself: each would wait for ever. In a workspace that the step names it must be of a workflow of all workspaces, and the refusal shows
-- nothing of that workspace.
-- Its row is locked, so an end after this finds the child. Locks: that row, FOR KEY SHARE. Caller: start_children().
CREATE OR REPLACE FUNCTION :schema.adopt_child(held :schema.child_steps, owner text, key text, OUT id uuid, OUT state text,
                                               OUT code text, OUT message text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    first record;
    newest uuid;
    lives boolean;
BEGIN
    SELECT k.execution_id, d.name, d.workspace_id INTO first
    FROM :schema.idempotency_keys k
    LEFT JOIN :schema.workflow_execution_queue q ON q.id = k.execution_id
    LEFT JOIN :schema.workflow_executions h ON h.id = k.execution_id
    LEFT JOIN :schema.workflow_definitions d ON d.id = coalesce(q.definition_id, h.definition_id)
    WHERE k.workspace_id = (SELECT w.id FROM :schema.workspaces w WHERE w.name = owner) AND k.key = adopt_child.key;
    IF first.name IS NULL THEN
        RAISE lock_not_available USING MESSAGE = 'the execution of the key was purged at this moment';
    END IF;
    IF first.name <> held.workflow OR held.workspace IS NOT NULL AND first.workspace_id <> 0 THEN
        code := 'idempotency_key_reused';
        message := CASE WHEN held.workspace IS NOT NULL THEN 'the key of the child is in use for another workflow'
                        ELSE format('the key "%s" belongs to execution %s of another workflow', key, first.execution_id) END;
        RETURN;
    END IF;
    WITH RECURSIVE tries (id, place) AS (
        SELECT first.execution_id, 1
        UNION ALL
        SELECT coalesce((SELECT q.id FROM :schema.workflow_execution_queue q WHERE q.retry_of = t.id),
                        (SELECT h.id FROM :schema.workflow_executions h WHERE h.retry_of = t.id)), t.place + 1
        FROM tries t WHERE t.id IS NOT NULL
    )
    SELECT t.id INTO newest FROM tries t WHERE t.id IS NOT NULL ORDER BY t.place DESC LIMIT 1;
    PERFORM 1 FROM :schema.workflow_execution_queue q WHERE q.id = newest FOR KEY SHARE;
    lives := FOUND;
    IF lives AND newest IN (
        WITH RECURSIVE waiting (id) AS (
            SELECT held.parent_id
            UNION
            SELECT c.parent_id
            FROM waiting w
            JOIN :schema.children c ON c.child_id = w.id
            JOIN :schema.child_steps s ON s.parent_id = c.parent_id AND s.step = c.step
            WHERE c.status IS NULL AND NOT s.is_settled
        )
        SELECT w.id FROM waiting w)
    THEN
        code := 'illegal_state';
        message := format('the execution of the key, %s, waits for this one itself', newest);
        RETURN;
    END IF;
    id := newest;
    code := 'ok';
    state := CASE WHEN NOT lives THEN coalesce((SELECT h.status FROM :schema.workflow_executions h WHERE h.id = newest), 'LOST') END;
END
$$;
