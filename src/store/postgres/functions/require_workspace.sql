-- Raises the refusal of a missing workspace when the calling role may not use it. Callers: pause_workspace(), resume_workspace(),
-- delete_workspace(), set_workflow_state(), rename_workspace().
CREATE OR REPLACE FUNCTION :schema.require_workspace(workspace text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT :schema.may_use_workspace(workspace) THEN
        PERFORM :schema.refuse_workspace(workspace);
    END IF;
END
$$;
