-- Removes the refusal of a time that has its execution, and those of earlier times when this one has settled in all workspaces without a
-- refusal. The caller has locked the row of the schedule. Callers: settle_schedule_firings(),
-- adopt_firings().
CREATE OR REPLACE FUNCTION :schema.end_refusals(of_schedule integer, in_workspace integer, due bigint, was_triggered boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    DELETE FROM :schema.schedule_refusals r WHERE r.schedule_id = of_schedule AND r.due_at = due AND r.workspace_id = in_workspace;
    IF NOT was_triggered AND EXISTS (SELECT 1 FROM :schema.schedule_refusals r WHERE r.schedule_id = of_schedule AND r.due_at < due)
       AND NOT EXISTS (SELECT 1 FROM :schema.schedule_refusals r WHERE r.schedule_id = of_schedule AND r.due_at >= due)
       AND NOT EXISTS (SELECT 1 FROM :schema.schedules s WHERE s.id = of_schedule AND s.expands_at = due)
       AND NOT EXISTS (SELECT 1 FROM :schema.schedule_firings f
                       WHERE f.schedule_id = of_schedule AND f.execution_id IS NULL AND f.due_at = due) THEN
        DELETE FROM :schema.schedule_refusals r WHERE r.schedule_id = of_schedule AND r.due_at < due;
    END IF;
END
$$;
