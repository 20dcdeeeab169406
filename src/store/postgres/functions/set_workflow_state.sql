-- Changes the state of a workflow, or raises the refusal of change_workflow(). Callers: disable_workflow(), enable_workflow(),
-- delete_workflow().
CREATE OR REPLACE FUNCTION :schema.set_workflow_state(workflow text, owner text, new_state integer, reason text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer record;
BEGIN
    PERFORM :schema.check_reason(reason);
    PERFORM :schema.require_workspace(owner);
    SELECT c.status, c.living INTO answer FROM :schema.change_workflow(workflow, owner, new_state, :schema.actor(), reason) c;
    IF answer.status = 'workspace_not_found' THEN
        PERFORM :schema.refuse_workspace(owner);
    ELSIF answer.status = 'workflow_not_found' THEN
        PERFORM :schema.refuse(answer.status, format('there is no workflow "%s" of %s', workflow,
                                                     coalesce('workspace "' || owner || '"', 'all workspaces')),
                               '`weir workflow list` shows them, with their owners');
    ELSIF answer.status <> 'ok' THEN
        PERFORM :schema.refuse(answer.status, CASE answer.living WHEN 1 THEN format('1 execution of workflow "%s" has not ended', workflow)
                                              ELSE format('%s executions of workflow "%s" have not ended', answer.living, workflow) END,
                               'disable it, then await or cancel them');
    END IF;
END
$$;
