-- For callers in SQL: a workflow takes no more executions and retries; what is in the queue goes on.
-- Without an owner the one of all workspaces is meant.
-- Raises workflow_not_found, workspace_not_found. Locks: those of change_workflow().
CREATE OR REPLACE FUNCTION :schema.disable_workflow(workflow text, owner text DEFAULT NULL, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM :schema.set_workflow_state(workflow, owner, 1, reason);
END
$$;

REVOKE ALL ON FUNCTION :schema.disable_workflow(text, text, text) FROM PUBLIC;
