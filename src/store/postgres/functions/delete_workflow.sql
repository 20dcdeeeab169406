-- For callers in SQL: deletes a workflow; the history keeps its name. Without an owner the one of all workspaces is meant.
-- Raises workflow_not_found, workspace_not_found, illegal_state. Locks: those of change_workflow().
CREATE OR REPLACE FUNCTION :schema.delete_workflow(workflow text, owner text DEFAULT NULL, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM :schema.set_workflow_state(workflow, owner, 2, reason);
END
$$;

REVOKE ALL ON FUNCTION :schema.delete_workflow(text, text, text) FROM PUBLIC;
