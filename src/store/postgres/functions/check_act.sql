-- Raises a refusal when an act has no id, or its reason is too long. Also when the calling role is limited to workspaces of which none has
-- the execution: the refusal is then that of a missing one. Callers: all functions of acts on one execution, why(), result().
CREATE OR REPLACE FUNCTION :schema.check_act(execution_id uuid, reason text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    own constant integer[] := :schema.own_workspaces();
BEGIN
    IF execution_id IS NULL THEN
        PERFORM :schema.refuse('invalid_argument', 'the execution''s id is missing', NULL);
    END IF;
    PERFORM :schema.check_reason(reason);
    IF own IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = execution_id AND q.workspace_id = ANY (own))
       AND NOT EXISTS (SELECT 1 FROM :schema.workflow_executions h WHERE h.id = execution_id AND h.workspace_id = ANY (own)) THEN
        PERFORM :schema.refuse_act(execution_id, 'gone', NULL);
    END IF;
END
$$;
