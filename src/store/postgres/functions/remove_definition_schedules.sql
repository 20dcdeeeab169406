-- Removes the schedules that a definition owns, but for those with these names. workflow NULL: those of all definitions of the workspace.
-- owner: the workspace of the definition, 0 = it is of all workspaces.
-- Locks: the removed rows; the caller has locked the table, see set_schedule().
-- Callers: set_definition_schedules(), change_workflow(), remove_workspace().
CREATE OR REPLACE FUNCTION :schema.remove_definition_schedules(of_workflow text, owner integer, stays text[], actor text, why text)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    gone record;
BEGIN
    FOR gone IN
        SELECT s.id FROM :schema.schedules s
        WHERE s.definition_owner = owner AND (of_workflow IS NULL OR s.workflow = of_workflow) AND s.name <> ALL (stays)
        ORDER BY s.id -- as settle_schedule_firings() locks them
    LOOP
        PERFORM :schema.remove_schedule(gone.id, actor, why);
    END LOOP;
END
$$;
