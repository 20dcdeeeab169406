-- Publishes a definition: a new version, unless the newest has the same text; then that one keeps its source, too.
-- owner NULL = for every workspace; new_executor_group
-- NULL = the definition names none; else the group is made when there is none of that name. A version of a disabled workflow is disabled.
-- A set of handlers that no version had before is added to handler_sets. 'illegal_state': there are as many as a lane_id can name.
-- Locks: its own rows, the newest version FOR SHARE, for a new set the table handler_sets SHARE ROW EXCLUSIVE.
-- Caller: publish_with_schedules().
CREATE OR REPLACE FUNCTION :schema.publish_definition(definition_name text, owner text, text_of_it text, new_starts_max integer,
                                           new_executor_group text, new_on_temporal boolean, new_handlers jsonb DEFAULT '[]',
                                           actor text DEFAULT NULL, why text DEFAULT NULL, source_of_it text DEFAULT NULL,
                                           new_labels jsonb DEFAULT NULL,
                                           OUT status text, OUT definition_id bigint, OUT version integer, OUT unchanged boolean)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner_id integer := 0;
    newest   record;
    is_new   boolean := false; -- a group or a set of handlers
    set_id   integer := 0;
    before   jsonb;
BEGIN
    status := 'ok';
    unchanged := false;
    IF owner IS NOT NULL THEN
        SELECT w.id INTO owner_id FROM :schema.workspaces w WHERE w.name = owner;
        IF NOT FOUND THEN
            status := 'workspace_not_found';
            RETURN;
        END IF;
    END IF;
    IF new_handlers <> '[]' THEN
        SELECT s.id INTO set_id FROM :schema.handler_sets s WHERE s.handlers = new_handlers;
        IF NOT FOUND THEN
            LOCK TABLE :schema.handler_sets IN SHARE ROW EXCLUSIVE MODE;
            SELECT s.id INTO set_id FROM :schema.handler_sets s WHERE s.handlers = new_handlers;
        END IF;
        IF set_id IS NULL THEN
            SELECT coalesce(max(s.id), 0) + 1 INTO set_id FROM :schema.handler_sets s;
            IF set_id > 32767 THEN -- HANDLER_SET_MOST in queue/scheduler.h
                status := 'illegal_state';
                RETURN;
            END IF;
            INSERT INTO :schema.handler_sets (id, handlers) VALUES (set_id, new_handlers);
            is_new := true;
        END IF;
    END IF;
    -- Another transaction may publish the same name now: its version is waited for, and this one becomes the next.
    LOOP
        SELECT d.id, d.version, d.definition, d.state INTO newest FROM :schema.workflow_definitions d
        WHERE d.name = definition_name AND d.workspace_id = owner_id ORDER BY d.version DESC LIMIT 1 FOR SHARE;
        IF FOUND AND newest.definition = text_of_it AND newest.state <> 2 THEN
            definition_id := newest.id;
            version := newest.version;
            unchanged := true;
            RETURN;
        END IF;
        before := :schema.setting_of('workflow', definition_name, owner);
        INSERT INTO :schema.workflow_definitions AS d
            (workspace_id, name, version, definition, starts_max, created_at, executor_group, demand, handlers, state,
             source, labels)
        VALUES (owner_id, definition_name, coalesce(newest.version, 0) + 1, text_of_it, new_starts_max, :schema.store_time(),
                new_executor_group, 2 * set_id + new_on_temporal::integer, new_handlers, CASE newest.state WHEN 1 THEN 1 ELSE 0 END,
                source_of_it, new_labels)
        ON CONFLICT DO NOTHING
        RETURNING d.id, d.version INTO definition_id, version;
        EXIT WHEN FOUND;
    END LOOP;
    INSERT INTO :schema.executor_groups (name)
    SELECT new_executor_group
    WHERE new_executor_group IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM :schema.executor_groups g WHERE g.name = new_executor_group)
    ON CONFLICT DO NOTHING;
    IF FOUND OR is_new THEN
        INSERT INTO :schema.news (at, kind) VALUES (:schema.store_time(), 8);
    END IF;
    PERFORM :schema.record_act(actor, why, 'workflow apply', coalesce(owner || '/', '') || definition_name, before,
                               :schema.setting_of('workflow', definition_name, owner), 0);
END
$$;
