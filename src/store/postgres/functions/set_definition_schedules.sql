-- Sets the schedules of a definition and removes the others that it owns. Returns 'ok' with the names of those that are new, have changed,
-- or are gone. Otherwise it returns the refusal of set_schedule() with the name of
-- its schedule: then some were changed already, and the caller undoes that. The removals go first, so that their places are free.
--   owner_id         the workspace of the definition, 0 = it is of all workspaces; not its name, which another may have by now
--   with_schedules   a JSON array of the arguments of set_schedule(), by their names
-- Locks: those of set_schedule(). Caller: publish_with_schedules().
CREATE OR REPLACE FUNCTION :schema.set_definition_schedules(of_workflow text, owner_id integer, with_schedules jsonb, most integer,
                                                            actor text, why text, OUT status text, OUT schedule text, OUT unknown text,
                                                            OUT added text[], OUT changed text[], OUT deleted text[])
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    item   jsonb;
    before jsonb;
    stays  text[] := ARRAY(SELECT i.value ->> 'name' FROM jsonb_array_elements(with_schedules) i);
BEGIN
    status := 'ok';
    added := '{}';
    changed := '{}';
    deleted := ARRAY(SELECT s.name FROM :schema.schedules s
                     WHERE s.definition_owner = owner_id AND s.workflow = of_workflow AND s.name <> ALL (stays) ORDER BY s.name);
    PERFORM :schema.remove_definition_schedules(of_workflow, owner_id, stays, actor, why);
    FOR item IN SELECT i.value FROM jsonb_array_elements(with_schedules) i LOOP
        schedule := item ->> 'name';
        before := :schema.setting_of('schedule', schedule, NULL);
        SELECT s.status, s.unknown INTO status, unknown
        FROM :schema.set_schedule(schedule, item ->> 'cron', item ->> 'zone', (item ->> 'every_us')::bigint,
                                  (item ->> 'jitter_us')::bigint, (item ->> 'from_us')::bigint, (item ->> 'until_us')::bigint,
                                  of_workflow, item ->> 'params',
                                  CASE WHEN item ->> 'plan' IS NULL
                                       THEN ARRAY(SELECT w.value FROM jsonb_array_elements_text(item -> 'workspaces') w) END,
                                  item ->> 'plan', item ->> 'overlap', (item ->> 'catch_up_us')::bigint, (item ->> 'due_us')::bigint,
                                  most, actor, why, owner_id) s;
        EXIT WHEN status <> 'ok';
        IF before IS NULL THEN
            added := added || schedule;
        ELSIF before IS DISTINCT FROM :schema.setting_of('schedule', schedule, NULL) THEN
            changed := changed || schedule;
        END IF;
    END LOOP;
END
$$;
