-- Pauses a schedule or resumes it. The waiting firings of a paused one are removed and count as skipped, but for triggered ones. A resumed
-- one is due now, and its next time is computed from there. So a time that passed during the pause does not fire, and a due time of a wrong
-- clock does not stay. Returns 'ok' or 'not_found'. Locks: its row. Caller: pause_schedule (queries/schedules.sql).
CREATE OR REPLACE FUNCTION :schema.pause_schedule(schedule_name text, is_paused boolean, actor text, why text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before  jsonb;
    paused_one record;
    removed bigint;
BEGIN
    LOCK TABLE :schema.schedules IN ROW EXCLUSIVE MODE; -- before any row, see set_schedule()
    SELECT s.* INTO paused_one FROM :schema.schedules s WHERE s.name = schedule_name FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'not_found';
    END IF;
    before := :schema.setting_of('schedule', schedule_name, NULL);
    UPDATE :schema.schedules s
    SET paused = is_paused, retry_at = NULL,
        due_at = CASE WHEN s.paused AND NOT is_paused AND s.due_at IS NOT NULL THEN :schema.store_time() ELSE s.due_at END
    WHERE s.name = schedule_name;
    IF is_paused THEN
        PERFORM :schema.adopt_firings(paused_one.id, 0, 2147483647);
        DELETE FROM :schema.schedule_firings f WHERE f.schedule_id = paused_one.id AND f.execution_id IS NULL AND NOT f.is_triggered;
        GET DIAGNOSTICS removed = ROW_COUNT;
        IF paused_one.expands_at IS NOT NULL AND NOT paused_one.expands_triggered THEN
            removed := removed + (SELECT count(*) FROM :schema.workspaces w
                                  WHERE w.plan = paused_one.plan AND w.id > paused_one.expanded_to);
            UPDATE :schema.schedules s SET expands_at = NULL, expanded_to = NULL WHERE s.id = paused_one.id;
        END IF;
        UPDATE :schema.schedules s SET skipped = s.skipped + removed WHERE s.id = paused_one.id AND removed > 0;
    END IF;
    INSERT INTO :schema.news (at, kind, workspaces) VALUES (:schema.store_time(), 8, '{}');
    PERFORM :schema.notify_news();
    PERFORM :schema.record_act(actor, why, CASE WHEN is_paused THEN 'schedule pause' ELSE 'schedule resume' END, schedule_name, before,
                               :schema.setting_of('schedule', schedule_name, NULL), 0);
    RETURN 'ok';
END
$$;
