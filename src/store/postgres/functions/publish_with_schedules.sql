-- Publishes a definition together with its schedules: all of it, or nothing. Returns the answer of publish_definition(), or the refusal of
-- set_definition_schedules(). The schedules are set also when the newest version has the text: so a list of workspaces gets one that was
-- deleted and made again.
--   only_try   all of it is undone, and the answer is what it would have been
-- The table of schedules is locked before any version, as in change_workflow() and remove_workspace(). So two publications of one workflow
-- set their schedules in the order of their versions, and none of these functions waits for another in a circle. Without schedules the lock
-- lets other publications of that kind through.
-- Locks: the table schedules, those of publish_definition(). Caller: publish_definition (queries/settings.sql).
CREATE OR REPLACE FUNCTION :schema.publish_with_schedules(definition_name text, owner text, text_of_it text, new_starts_max integer,
                                           new_executor_group text, new_on_temporal boolean, new_handlers jsonb, actor text, why text,
                                           source_of_it text, new_labels jsonb, with_schedules jsonb, most integer,
                                           only_try boolean DEFAULT false,
                                           OUT status text, OUT definition_id bigint, OUT version integer, OUT unchanged boolean,
                                           OUT schedule text, OUT unknown text,
                                           OUT added text[], OUT changed text[], OUT deleted text[])
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF with_schedules = '[]' THEN
        LOCK TABLE :schema.schedules IN ROW EXCLUSIVE MODE;
    ELSE
        LOCK TABLE :schema.schedules IN SHARE ROW EXCLUSIVE MODE;
    END IF;
    BEGIN
        SELECT p.status, p.definition_id, p.version, p.unchanged INTO status, definition_id, version, unchanged
        FROM :schema.publish_definition(definition_name, owner, text_of_it, new_starts_max, new_executor_group, new_on_temporal,
                                        new_handlers, actor, why, source_of_it, new_labels) p;
        IF status = 'ok' THEN
            SELECT s.status, s.schedule, s.unknown, s.added, s.changed, s.deleted
            INTO status, schedule, unknown, added, changed, deleted
            FROM :schema.workflow_definitions d
            CROSS JOIN LATERAL :schema.set_definition_schedules(definition_name, d.workspace_id, with_schedules, most, actor, why) s
            WHERE d.id = definition_id;
            IF status <> 'ok' OR only_try THEN
                RAISE EXCEPTION 'undo the version' USING ERRCODE = 'triggered_action_exception';
            END IF;
        END IF;
    EXCEPTION WHEN triggered_action_exception THEN
        NULL; -- the answer has the refusal, or the result of the try
    END;
END
$$;
