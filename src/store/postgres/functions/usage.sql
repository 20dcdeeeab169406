-- For callers in SQL: the slots of a workspace, used and allowed. delayed: of the pending ones, those before their run_at or in a backoff.
-- pending_max: how many may be pending, 0 = no limit; max_pending: the limit of its own, NULL = that of the plan.
-- NULL = all workspaces that the role may use. Raises workspace_not_found.
CREATE OR REPLACE FUNCTION :schema.usage(workspace text DEFAULT NULL)
RETURNS TABLE (name text, plan text, slots_used integer, slots_max integer, max_concurrent integer, weight integer, paused boolean,
               pending bigint, delayed bigint, waiting bigint, completed bigint, failed bigint, cancelled bigint, created_at timestamptz,
               pending_max integer, max_pending integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    own constant integer[] := :schema.own_workspaces();
BEGIN
    RETURN QUERY
        SELECT w.name, w.plan, coalesce(b.held, 0)::integer, w.slots_max, w.max_concurrent, w.weight, w.paused,
               coalesce(b.runnable + b.waiting, 0), coalesce(b.waiting, 0), coalesce(b.parked, 0), coalesce(b.completed, 0),
               coalesce(b.failed, 0), coalesce(b.cancelled, 0), :schema.time_of(w.created_at),
               w.pending_max, w.max_pending
        FROM :schema.workspaces w LEFT JOIN :schema.workspace_books b ON b.workspace_id = w.id
        WHERE (usage.workspace IS NULL OR w.name = usage.workspace) AND (own IS NULL OR w.id = ANY (own))
        ORDER BY w.name;
    IF NOT FOUND AND usage.workspace IS NOT NULL THEN
        PERFORM :schema.refuse_workspace(usage.workspace);
    END IF;
END
$$;

REVOKE ALL ON FUNCTION :schema.usage(text) FROM PUBLIC;
