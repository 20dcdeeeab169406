-- For "did you mean": the nearest of all workspaces, or of the workflows that the workspace may run, by the status of the refusal.
CREATE OR REPLACE FUNCTION :schema.nearest_name(status text, workspace text, workflow text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE status
        WHEN 'workspace_not_found' THEN
            :schema.nearest(workspace, ARRAY(SELECT w.name FROM :schema.workspaces w ORDER BY w.id LIMIT 1000))
        WHEN 'workflow_not_found' THEN
            :schema.nearest(workflow, ARRAY(
                SELECT DISTINCT d.name FROM :schema.workflow_definitions d
                WHERE d.workspace_id IN (0, (SELECT w.id FROM :schema.workspaces w WHERE w.name = workspace)) LIMIT 1000)) END
$$;
