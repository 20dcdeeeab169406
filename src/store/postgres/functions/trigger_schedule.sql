-- Fires a schedule now, also when it is paused. Returns 'ok' and the counts of insert_firings(), or 'not_found'. Locks: its row.
-- Caller: trigger_schedule (queries/schedules.sql).
CREATE OR REPLACE FUNCTION :schema.trigger_schedule(schedule_name text, part integer, most integer, actor text, why text,
                                                    OUT status text, OUT firings bigint, OUT skipped bigint, OUT rest bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_id integer;
    setting  jsonb;
BEGIN
    SELECT s.id INTO found_id FROM :schema.schedules s WHERE s.name = schedule_name FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        status := 'not_found';
        RETURN;
    END IF;
    setting := :schema.setting_of('schedule', schedule_name, NULL);
    SELECT i.firings, i.skipped, i.rest INTO firings, skipped, rest
    FROM :schema.insert_firings(found_id, :schema.store_time(), true, 0, 0, part, most) i;
    INSERT INTO :schema.news (at, kind, workspaces) VALUES (:schema.store_time(), 8, '{}');
    PERFORM :schema.notify_news();
    PERFORM :schema.record_act(actor, why, 'schedule trigger', schedule_name, setting, setting, 0);
    status := 'ok';
END
$$;
