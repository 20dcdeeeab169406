-- Fires a schedule, also when it is paused.
--   in_workspaces  names, {} = all of the schedule, or with a time those in which it was refused
--   at, key        a time that has passed, and the key of its executions; 0 and NULL = now
--   part, most     firings of a part, and firings that may wait in a workspace
--   arguments      for the record: JSON or NULL
-- Returns 'ok' and the counts of insert_firings(), or 'not_found'. 'workspace_not_found': unknown = its name. 'invalid_argument': the
-- schedule does not start executions in the workspace `unknown`. 'illegal_state': firings of another time are inserted in parts.
-- Locks: its row. Caller: trigger_schedule (queries/schedules.sql).
CREATE OR REPLACE FUNCTION :schema.trigger_schedule(schedule_name text, in_workspaces text[], at bigint, key text, part integer,
                                                    most integer, actor text, why text, arguments text, OUT status text,
                                                    OUT unknown text, OUT firings bigint, OUT skipped bigint, OUT existing bigint,
                                                    OUT rest bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    s       record;
    ids     integer[];
BEGIN
    LOCK TABLE :schema.schedules IN ROW EXCLUSIVE MODE; -- before any row, see set_schedule()
    SELECT x.* INTO s FROM :schema.schedules x WHERE x.name = schedule_name FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        status := 'not_found';
        RETURN;
    ELSIF s.expands_at IS NOT NULL THEN
        status := 'illegal_state';
        RETURN;
    END IF;
    IF cardinality(in_workspaces) > 0 THEN
        unknown := (SELECT u.name FROM unnest(in_workspaces) WITH ORDINALITY u (name, place)
                    WHERE NOT EXISTS (SELECT 1 FROM :schema.workspaces w WHERE w.name = u.name) ORDER BY u.place LIMIT 1);
        IF unknown IS NOT NULL THEN
            status := 'workspace_not_found';
            RETURN;
        END IF;
        unknown := (SELECT w.name FROM :schema.workspaces w
                    WHERE w.name = ANY (in_workspaces)
                      AND CASE WHEN s.workspaces IS NULL THEN w.plan <> s.plan ELSE w.id <> ALL (s.workspaces) END LIMIT 1);
        IF unknown IS NOT NULL THEN
            status := 'invalid_argument';
            RETURN;
        END IF;
        ids := ARRAY(SELECT w.id FROM :schema.workspaces w WHERE w.name = ANY (in_workspaces));
    END IF;
    SELECT i.firings, i.skipped, i.existing, i.rest INTO firings, skipped, existing, rest
    FROM :schema.insert_firings(s.id, CASE WHEN at = 0 THEN :schema.store_time() ELSE at END, true, ids,
                                at <> 0 AND ids IS NULL, key, 0, 0, part, most) i;
    INSERT INTO :schema.news (at, kind, workspaces) VALUES (:schema.store_time(), 8, '{}');
    PERFORM :schema.notify_news();
    PERFORM :schema.record_act(actor, why, 'schedule trigger', schedule_name, NULL, arguments::jsonb, firings + rest);
    status := 'ok';
END
$$;
