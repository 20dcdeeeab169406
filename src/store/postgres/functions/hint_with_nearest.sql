-- The hint of a refusal, by its status. workspace_not_found: the new name of a workspace that was renamed, or the nearest of those that the
-- calling role may use. Otherwise the nearest of the workflows that the workspace may run, or of the executor groups (`not_found`).
-- Callers: try_enqueue(), enqueue_many(), refuse_workspace().
CREATE OR REPLACE FUNCTION :schema.hint_with_nearest(status text, workspace text, workflow text, executor_group text, hint text)
RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE status
        WHEN 'workspace_not_found' THEN
            coalesce('the workspace was renamed to "' || :schema.renamed_workspace(workspace) || '"',
                     'did you mean "' || :schema.nearest(workspace, ARRAY(
                         SELECT w.name FROM :schema.workspaces w CROSS JOIN (SELECT :schema.own_workspaces() AS ids OFFSET 0) o
                         WHERE o.ids IS NULL OR w.id = ANY (o.ids) ORDER BY w.id LIMIT 1000)) || '"?', hint)
        WHEN 'workflow_not_found' THEN
            coalesce('did you mean "' || :schema.nearest(workflow, ARRAY(
                SELECT DISTINCT d.name FROM :schema.workflow_definitions d
                WHERE d.state <> 2
                  AND d.workspace_id IN (0, (SELECT w.id FROM :schema.workspaces w WHERE w.name = workspace)) LIMIT 1000)) || '"?', hint)
        WHEN 'not_found' THEN
            coalesce('did you mean "' || :schema.nearest(executor_group, ARRAY(
                SELECT g.name FROM :schema.executor_groups g ORDER BY g.name LIMIT 1000)) || '"? ', '') || hint
        ELSE hint END
$$;
