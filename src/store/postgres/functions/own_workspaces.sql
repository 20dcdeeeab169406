-- The workspaces to which the calling role is limited; NULL: it is not limited. The role is the one of SET ROLE, else that of the session,
-- because a function with the rights of its owner has another current_user. A role is limited when it, or a role that it is a member of,
-- was named in grant_workspace(). A role that can read the tables (a node, the owner) has no use for a limit, and has none.
-- Locks: none. Callers: check_act(), usage(), enqueue_many(), enqueue_answer(), grant_workspace(), hint_with_nearest(),
-- may_use_workspace(), rename_workspace(), renamed_workspace(), the view own_executions, the view own_execution_events.
CREATE OR REPLACE FUNCTION :schema.own_workspaces() RETURNS integer[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    caller constant name := coalesce(nullif(current_setting('role'), 'none')::name, session_user);
BEGIN
    IF NOT EXISTS (SELECT 1 FROM :schema.workspace_grants)
       OR has_table_privilege(caller, (SELECT s.tableoid FROM :schema.store_state s WHERE s.id = 1), 'SELECT')
       OR NOT EXISTS (SELECT 1 FROM :schema.workspace_grants g JOIN pg_roles r ON r.rolname = g.grantee
                      WHERE g.workspace_id = 0 AND pg_has_role(caller, r.oid, 'MEMBER')) THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(SELECT DISTINCT g.workspace_id FROM :schema.workspace_grants g JOIN pg_roles r ON r.rolname = g.grantee
                 WHERE g.workspace_id <> 0 AND pg_has_role(caller, r.oid, 'MEMBER'));
END
$$;

REVOKE ALL ON FUNCTION :schema.own_workspaces() FROM PUBLIC;
