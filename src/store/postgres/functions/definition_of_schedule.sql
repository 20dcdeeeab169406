-- The definition that owns a schedule, as its workspace and its name; NULL: none owns it. One that was deleted owns none, so that a
-- schedule which was set beside the deletion can be deleted by hand. owner: schedules.definition_owner.
-- Callers: the functions and queries of schedules, setting_of().
CREATE OR REPLACE FUNCTION :schema.definition_of_schedule(owner integer, workflow text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN owner = 0 THEN workflow
                ELSE (SELECT w.name || '/' || workflow FROM :schema.workspaces w WHERE w.id = owner) END
    WHERE EXISTS (SELECT 1 FROM :schema.workflow_definitions d
                  WHERE d.name = workflow AND d.workspace_id = owner AND d.state <> 2)
$$;
