-- Whether the calling role may use the workspace. To a limited role (own_workspaces()) a workspace of another one and a missing one are the
-- same, and false; to any other role all are true. Callers: require_workspace(), try_enqueue().
CREATE OR REPLACE FUNCTION :schema.may_use_workspace(workspace text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT o.ids IS NULL OR EXISTS (SELECT 1 FROM :schema.workspaces w WHERE w.name = workspace AND w.id = ANY (o.ids))
    FROM (SELECT :schema.own_workspaces() AS ids OFFSET 0) o
$$;
