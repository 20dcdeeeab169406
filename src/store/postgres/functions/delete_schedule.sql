-- Removes a schedule and its firings. Returns 'ok' or 'not_found'. Locks: the removed rows. Caller: delete_schedule
-- (queries/schedules.sql).
CREATE OR REPLACE FUNCTION :schema.delete_schedule(schedule_name text, actor text, why text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    removed_id integer;
    before     jsonb;
BEGIN
    LOCK TABLE :schema.schedules IN ROW EXCLUSIVE MODE; -- before any row, see set_schedule()
    SELECT s.id INTO removed_id FROM :schema.schedules s WHERE s.name = schedule_name FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'not_found';
    END IF;
    before := :schema.setting_of('schedule', schedule_name, NULL);
    DELETE FROM :schema.schedule_firings f WHERE f.schedule_id = removed_id;
    DELETE FROM :schema.schedule_refusals r WHERE r.schedule_id = removed_id;
    DELETE FROM :schema.schedules s WHERE s.id = removed_id;
    PERFORM :schema.record_act(actor, why, 'schedule delete', schedule_name, before, NULL, 0);
    RETURN 'ok';
END
$$;
