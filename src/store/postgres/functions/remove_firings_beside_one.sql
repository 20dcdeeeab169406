-- Removes the waiting firings of a schedule beside the one that its overlap policy lets wait in a workspace. That one is the newest with
-- cancel_running, else the oldest. With queue_all it removes none. Counts them as skipped. The caller has locked the table schedules.
-- Caller: set_schedule().
CREATE OR REPLACE FUNCTION :schema.remove_firings_beside_one(schedule_name text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    removed bigint;
BEGIN
    PERFORM :schema.adopt_firings(s.id, 0, 2147483647) FROM :schema.schedules s WHERE s.name = schedule_name;
    DELETE FROM :schema.schedule_firings f USING :schema.schedules s
    WHERE s.name = schedule_name AND s.overlap <> 'queue_all' AND f.schedule_id = s.id AND f.execution_id IS NULL
      AND EXISTS (SELECT 1 FROM :schema.schedule_firings o
                  WHERE o.schedule_id = f.schedule_id AND o.workspace_id = f.workspace_id AND o.execution_id IS NULL
                    AND CASE WHEN s.overlap = 'cancel_running' THEN o.due_at > f.due_at ELSE o.due_at < f.due_at END);
    GET DIAGNOSTICS removed = ROW_COUNT;
    IF removed > 0 THEN
        UPDATE :schema.schedules s SET skipped = s.skipped + removed WHERE s.name = schedule_name;
    END IF;
END
$$;
