-- Pauses a schedule or resumes it. A resumed one is due now, and its next time is computed from there: a time that passed during the pause
-- does not fire, and a due time of a wrong clock does not stay. Returns 'ok' or 'not_found'. Locks: its row.
-- Caller: pause_schedule (queries/schedules.sql).
CREATE OR REPLACE FUNCTION :schema.pause_schedule(schedule_name text, is_paused boolean, actor text, why text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before jsonb;
BEGIN
    PERFORM 1 FROM :schema.schedules s WHERE s.name = schedule_name FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'not_found';
    END IF;
    before := :schema.setting_of('schedule', schedule_name, NULL);
    UPDATE :schema.schedules s
    SET paused = is_paused, retry_at = NULL,
        due_at = CASE WHEN s.paused AND NOT is_paused AND s.due_at IS NOT NULL THEN :schema.store_time() ELSE s.due_at END
    WHERE s.name = schedule_name;
    INSERT INTO :schema.news (at, kind, workspaces) VALUES (:schema.store_time(), 8, '{}');
    PERFORM :schema.notify_news();
    PERFORM :schema.record_act(actor, why, CASE WHEN is_paused THEN 'schedule pause' ELSE 'schedule resume' END, schedule_name, before,
                               :schema.setting_of('schedule', schedule_name, NULL), 0);
    RETURN 'ok';
END
$$;
