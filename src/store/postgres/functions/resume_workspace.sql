-- For callers in SQL: resumes a workspace. Locks: those of change_workspace().
CREATE OR REPLACE FUNCTION :schema.resume_workspace(workspace text, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM :schema.check_reason(reason);
    PERFORM :schema.require_workspace(workspace);
    PERFORM :schema.refuse_workspace(workspace)
    WHERE (:schema.change_workspace(workspace, NULL, 0, false, false, actor => :schema.actor(), why => reason)).status <> 'ok';
END
$$;

REVOKE ALL ON FUNCTION :schema.resume_workspace(text, text) FROM PUBLIC;
