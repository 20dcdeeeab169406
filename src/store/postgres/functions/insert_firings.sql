-- Inserts a firing of a schedule for each of its workspaces, as its overlap policy allows, and counts the others in the schedule.
--   at         the due time, or the time of a trigger
--   most       firings that may wait in a workspace
-- Returns the number of firings, and of those that were left out or replaced. The caller has locked the row of the schedule, so that two
-- calls see each other's firings. While a schedule is paused, only triggered firings are in the way of a trigger, because only these start.
-- Callers: advance_schedules(), trigger_schedule().
CREATE OR REPLACE FUNCTION :schema.insert_firings(of_schedule integer, at bigint, triggered boolean, most integer,
                                                  OUT firings bigint, OUT skipped bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    policy   text;
    is_paused boolean;
    targets  integer[];
    replaced bigint := 0;
    now_us   constant bigint := :schema.store_time();
BEGIN
    SELECT s.overlap, s.paused,
           coalesce(s.workspaces, ARRAY(SELECT w.id FROM :schema.workspaces w WHERE w.plan = s.plan ORDER BY w.id))
    INTO policy, is_paused, targets FROM :schema.schedules s WHERE s.id = of_schedule;
    DELETE FROM :schema.schedule_firings f
    WHERE f.schedule_id = of_schedule AND f.execution_id IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM :schema.workspaces w WHERE w.id = f.workspace_id);
    PERFORM :schema.adopt_firings(of_schedule);
    IF policy = 'cancel_running' THEN
        DELETE FROM :schema.schedule_firings f WHERE f.schedule_id = of_schedule AND f.execution_id IS NULL;
        GET DIAGNOSTICS replaced = ROW_COUNT;
    END IF;
    INSERT INTO :schema.schedule_firings (schedule_id, workspace_id, due_at, is_triggered, planned_id)
    SELECT of_schedule, t.workspace_id, at, triggered, :schema.make_id(now_us, t.nth)
    FROM unnest(targets) WITH ORDINALITY t (workspace_id, nth)
    WHERE CASE policy
          WHEN 'skip' THEN NOT EXISTS (SELECT 1 FROM :schema.schedule_firings f
                                       WHERE f.schedule_id = of_schedule AND f.workspace_id = t.workspace_id
                                         AND (f.execution_id IS NULL AND (NOT is_paused OR f.is_triggered)
                                              OR EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q WHERE q.id = f.execution_id)))
          WHEN 'queue_one' THEN NOT EXISTS (SELECT 1 FROM :schema.schedule_firings f
                                            WHERE f.schedule_id = of_schedule AND f.workspace_id = t.workspace_id
                                              AND f.execution_id IS NULL AND (NOT is_paused OR f.is_triggered))
          WHEN 'queue_all' THEN (SELECT count(*) FROM :schema.schedule_firings f
                                 WHERE f.schedule_id = of_schedule AND f.workspace_id = t.workspace_id AND f.execution_id IS NULL) < most
          ELSE true END
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS firings = ROW_COUNT;
    skipped := cardinality(targets) - firings + replaced;
    IF skipped > 0 THEN
        UPDATE :schema.schedules s SET skipped = s.skipped + insert_firings.skipped WHERE s.id = of_schedule;
    END IF;
END
$$;
