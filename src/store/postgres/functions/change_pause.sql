-- Pauses or resumes a group, or the whole queue (NULL). Returns 'ok' or 'not_found'. Once a pause is committed, nothing more is assigned.
-- Locks: the row of the group or of the store. Caller: change_pause (queries/settings.sql).
CREATE OR REPLACE FUNCTION :schema.change_pause(group_name text, new_paused boolean, actor text DEFAULT NULL, why text DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind    constant text := CASE WHEN group_name IS NULL THEN 'queue' ELSE 'group' END;
    subject constant text := coalesce('group ' || group_name, 'queue');
    before  jsonb;
BEGIN
    IF group_name IS NULL THEN
        PERFORM 1 FROM :schema.store_state s WHERE s.id = 1 FOR NO KEY UPDATE;
    ELSE
        PERFORM 1 FROM :schema.executor_groups g WHERE g.name = group_name FOR NO KEY UPDATE;
    END IF;
    before := :schema.setting_of(kind, group_name, NULL);
    IF group_name IS NULL THEN
        UPDATE :schema.store_state s SET queue_paused = new_paused WHERE s.id = 1;
    ELSE
        UPDATE :schema.executor_groups g SET paused = new_paused WHERE g.name = group_name;
        IF NOT FOUND THEN
            RETURN 'not_found';
        END IF;
    END IF;
    INSERT INTO :schema.news (at, kind, workspaces) VALUES (:schema.store_time(), CASE WHEN new_paused THEN 7 ELSE 8 END, '{}');
    PERFORM :schema.notify_news();
    PERFORM :schema.record_act(actor, why, CASE WHEN new_paused THEN 'pause' ELSE 'resume' END, subject, before,
                               :schema.setting_of(kind, group_name, NULL), 0);
    RETURN 'ok';
END
$$;
