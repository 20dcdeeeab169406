-- Removes a schedule with its firings and refusals, and puts that on record. Locks: the removed rows; the caller has locked the table, see
-- set_schedule(). Callers: delete_schedule(), remove_definition_schedules().
CREATE OR REPLACE FUNCTION :schema.remove_schedule(schedule_id integer, actor text, why text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    schedule_name text;
    before        jsonb;
BEGIN
    -- Before its firings: whoever adds some has the schedule locked, and they are there when that has ended.
    SELECT s.name INTO schedule_name FROM :schema.schedules s WHERE s.id = schedule_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    before := :schema.setting_of('schedule', schedule_name, NULL);
    DELETE FROM :schema.schedule_firings f WHERE f.schedule_id = remove_schedule.schedule_id;
    DELETE FROM :schema.schedule_refusals r WHERE r.schedule_id = remove_schedule.schedule_id;
    DELETE FROM :schema.schedules s WHERE s.id = schedule_id;
    PERFORM :schema.record_act(actor, why, 'schedule delete', schedule_name, before, NULL, 0);
END
$$;
