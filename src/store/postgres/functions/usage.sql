-- For callers in SQL: the slots of a workspace, used and allowed. delayed: of the pending ones, those before their run_at or in a backoff.
-- pending_max: how many may be pending, 0 = no limit; max_pending: the limit of its own, NULL = that of the plan.
-- oldest_pending_age_us: how long the oldest of the next executions of its lanes waits; NULL without one that could run.
-- NULL = all workspaces that the role may use. Raises workspace_not_found.
CREATE OR REPLACE FUNCTION :schema.usage(workspace text DEFAULT NULL)
RETURNS TABLE (name text, plan text, slots_used integer, slots_max integer, max_concurrent integer, weight integer, paused boolean,
               pending bigint, delayed bigint, waiting bigint, completed bigint, failed bigint, cancelled bigint, created_at timestamptz,
               pending_max integer, max_pending integer, oldest_pending_age_us bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    own constant integer[] := :schema.own_workspaces();
BEGIN
    RETURN QUERY
        WITH mine AS MATERIALIZED (
            SELECT w.* FROM :schema.workspaces w
            WHERE (usage.workspace IS NULL OR w.name = usage.workspace) AND (own IS NULL OR w.id = ANY (own))
        ),
        b AS MATERIALIZED (
            SELECT k.workspace_id, sum(k.held) AS held, sum(k.runnable) AS runnable, sum(k.waiting) AS waiting, sum(k.parked) AS parked,
                   sum(k.completed) AS completed, sum(k.failed) AS failed, sum(k.cancelled) AS cancelled,
                   min(CASE WHEN k.runnable > 0 THEN (
                       SELECT greatest(q.created_at, q.run_at, q.woken_at) FROM :schema.workflow_execution_queue q
                       WHERE q.lane_id = k.lane_id AND q.due_at IS NULL AND q.phase = 0 ORDER BY q.rank, q.id LIMIT 1) END) AS oldest_at
            FROM :schema.lane_books k WHERE k.workspace_id IN (SELECT m.id FROM mine m) GROUP BY k.workspace_id
        )
        SELECT w.name, w.plan, coalesce(b.held, 0)::integer, w.slots_max, w.max_concurrent, w.weight, w.paused,
               coalesce(b.runnable + b.waiting, 0)::bigint, coalesce(b.waiting, 0)::bigint, coalesce(b.parked, 0)::bigint,
               coalesce(b.completed, 0)::bigint, coalesce(b.failed, 0)::bigint, coalesce(b.cancelled, 0)::bigint,
               :schema.time_of(w.created_at), w.pending_max, w.max_pending, (SELECT :schema.store_time()) - b.oldest_at
        FROM mine w LEFT JOIN b ON b.workspace_id = w.id ORDER BY w.name;
    IF NOT FOUND AND usage.workspace IS NOT NULL THEN
        PERFORM :schema.refuse_workspace(usage.workspace);
    END IF;
END
$$;

REVOKE ALL ON FUNCTION :schema.usage(text) FROM PUBLIC;
