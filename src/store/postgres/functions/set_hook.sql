-- Makes or changes a hook. Returns 'ok' and whether it is new. Otherwise nothing was changed: 'illegal_state' (there are `most` hooks),
-- 'workspace_not_found' (unknown = its name).
--   ends                           final states
--   of_workspace, of_workflow      of the executions; NULL = of all
-- Locks: the table hooks SHARE ROW EXCLUSIVE, so that `most` is exact. Caller: set_hook (queries/hooks.sql).
CREATE OR REPLACE FUNCTION :schema.set_hook(hook_name text, ends text[], of_workspace text, of_workflow text, in_workspace text,
                                            starts text, most integer, actor text, why text,
                                            OUT status text, OUT is_new boolean, OUT unknown text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    before jsonb;
BEGIN
    LOCK TABLE :schema.hooks IN SHARE ROW EXCLUSIVE MODE;
    before := :schema.setting_of('hook', hook_name, NULL);
    is_new := before IS NULL;
    unknown := (SELECT u.name FROM unnest(ARRAY[of_workspace, in_workspace]) WITH ORDINALITY u (name, place)
                WHERE u.name IS NOT NULL AND NOT EXISTS (SELECT 1 FROM :schema.workspaces w WHERE w.name = u.name)
                ORDER BY u.place LIMIT 1);
    IF is_new AND (SELECT count(*) FROM :schema.hooks) >= most THEN
        status := 'illegal_state';
    ELSIF unknown IS NOT NULL THEN
        status := 'workspace_not_found';
    ELSE
        INSERT INTO :schema.hooks AS h (name, "on", workspace_id, workflow, start_workspace_id, start_workflow, created_at)
        VALUES (hook_name, ends, (SELECT w.id FROM :schema.workspaces w WHERE w.name = of_workspace), of_workflow,
                (SELECT w.id FROM :schema.workspaces w WHERE w.name = in_workspace), starts, :schema.store_time())
        ON CONFLICT (name) DO UPDATE
        SET "on" = excluded."on", workspace_id = excluded.workspace_id, workflow = excluded.workflow,
            start_workspace_id = excluded.start_workspace_id, start_workflow = excluded.start_workflow, retry_at = 0,
            error_code = NULL, error = NULL;
        PERFORM :schema.record_act(actor, why, 'hook set', hook_name, before, :schema.setting_of('hook', hook_name, NULL), 0);
        status := 'ok';
    END IF;
END
$$;
