-- Takes a workspace from a role that has it by grant_workspace(). The role stays limited, also without a workspace.
-- For the owner of the schema. Raises workspace_not_found, not_found. Locks: its row.
CREATE OR REPLACE FUNCTION :schema.revoke_workspace(grantee text, workspace text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    granted constant integer := (SELECT w.id FROM :schema.workspaces w WHERE w.name = workspace);
BEGIN
    PERFORM :schema.refuse_workspace(workspace) WHERE granted IS NULL;
    DELETE FROM :schema.workspace_grants g WHERE g.grantee = grantee AND g.workspace_id = granted;
    IF NOT FOUND THEN
        PERFORM :schema.refuse('not_found', format('the role "%s" was not granted the workspace "%s"', grantee, workspace), NULL);
    END IF;
    PERFORM :schema.record_act(:schema.actor(), NULL, 'workspace revoke', workspace, jsonb_build_object('grantee', grantee), NULL, 0);
END
$$;

REVOKE ALL ON FUNCTION :schema.revoke_workspace(text, text) FROM PUBLIC;
