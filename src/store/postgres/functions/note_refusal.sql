-- Notes that a time of a schedule was refused in a workspace. Refusals of earlier times are no longer those of the last one; a triggered
-- time is none of the schedule's. The caller has locked the row of the schedule. Caller: settle_schedule_firings().
CREATE OR REPLACE FUNCTION :schema.note_refusal(of_schedule integer, in_workspace integer, due bigint, was_triggered boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF NOT was_triggered THEN
        DELETE FROM :schema.schedule_refusals r WHERE r.schedule_id = of_schedule AND r.due_at < due;
    END IF;
    INSERT INTO :schema.schedule_refusals (schedule_id, due_at, workspace_id)
    SELECT of_schedule, due, in_workspace
    WHERE NOT EXISTS (SELECT 1 FROM :schema.schedule_refusals r WHERE r.schedule_id = of_schedule AND r.due_at > due)
    ON CONFLICT DO NOTHING;
END
$$;
