-- Sets the state of all versions of a workflow: 0 published, 1 disabled, 2 deleted (schema/0001_initial.sql). owner NULL = the workflow of
-- all workspaces. Returns 'ok', 'workspace_not_found', 'workflow_not_found', or 'illegal_state': it is not deleted, because `living`
-- executions of it have not ended. With it go the schedules that it sets.
-- An enqueue that commits after the count keeps its version and runs.
-- The newest version is locked before the others are read, because publish_definition() copies its state.
-- Locks: the versions. Callers: set_workflow_state(), change_workflow (queries/deletion.sql).
CREATE OR REPLACE FUNCTION :schema.change_workflow(workflow text, owner text, new_state integer, actor text DEFAULT NULL,
                                                   why text DEFAULT NULL, OUT status text, OUT living bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner_id integer := 0;
    before   jsonb;
BEGIN
    living := 0;
    IF owner IS NOT NULL THEN
        SELECT w.id INTO owner_id FROM :schema.workspaces w WHERE w.name = owner;
        IF NOT FOUND THEN
            status := 'workspace_not_found';
            RETURN;
        END IF;
    END IF;
    -- Before the versions, see publish_with_schedules(); and only for some, since a caller may keep its transaction open for long.
    IF new_state = 2 AND EXISTS (SELECT 1 FROM :schema.schedules s
                                 WHERE s.definition_owner = owner_id AND s.workflow = change_workflow.workflow) THEN
        LOCK TABLE :schema.schedules IN ROW EXCLUSIVE MODE;
    END IF;
    PERFORM 1 FROM :schema.workflow_definitions d
    WHERE d.name = workflow AND d.workspace_id = owner_id AND d.state <> 2 ORDER BY d.id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        status := 'workflow_not_found';
        RETURN;
    ELSIF new_state = 2 THEN
        SELECT count(*) INTO living FROM :schema.workflow_execution_queue q
        WHERE q.definition_id IN (SELECT d.id FROM :schema.workflow_definitions d WHERE d.name = workflow AND d.workspace_id = owner_id);
        IF living > 0 THEN
            status := 'illegal_state';
            RETURN;
        END IF;
    END IF;
    IF new_state = 2 THEN
        PERFORM :schema.remove_definition_schedules(workflow, owner_id, '{}', actor, why);
    END IF;
    before := :schema.setting_of('workflow', workflow, owner);
    UPDATE :schema.workflow_definitions d SET state = new_state
    WHERE d.name = workflow AND d.workspace_id = owner_id AND d.state NOT IN (2, new_state);
    PERFORM :schema.record_act(actor, why, 'workflow ' || (ARRAY['enable', 'disable', 'delete'])[new_state + 1],
                               coalesce(owner || '/', '') || workflow, before, :schema.setting_of('workflow', workflow, owner), 0);
    status := 'ok';
END
$$;
