-- For callers in SQL: a disabled workflow takes executions again. Without an owner the one of all workspaces is meant.
-- Raises workflow_not_found, workspace_not_found. Locks: those of change_workflow().
CREATE OR REPLACE FUNCTION :schema.enable_workflow(workflow text, owner text DEFAULT NULL, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM :schema.set_workflow_state(workflow, owner, 0, reason);
END
$$;

REVOKE ALL ON FUNCTION :schema.enable_workflow(text, text, text) FROM PUBLIC;
