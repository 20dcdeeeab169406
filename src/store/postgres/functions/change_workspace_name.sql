-- Gives a workspace another name; its id stays, and so all that refers to it. Returns 'ok' with the settings before and after, for the
-- record of acts. Otherwise nothing was changed: 'workspace_not_found', 'conflict' (another workspace has the name), 'illegal_state' (used
-- executions of Temporal are held, and their workflow ids may have the old name).
--
-- 1. The row of the workspace is locked, so that neither a deletion nor another change of it runs meanwhile.
-- 2. Temporal finds a run by its workflow id, which a definition may make of the name of the workspace. A node that takes an item over
--    under another name would start it a second time. If there is such a definition, act_gate is locked: rounds that assign at this
--    moment are awaited, and no other round assigns before the commit. Then held items of such definitions refuse the rename.
-- 3. The act of the news (kind 7) makes the scheduler forget the old name before it assigns again.
-- Two renames to one name: the unique index makes the later one wait, and it is refused after the commit of the other one.
-- Locks: the workspace, with such a definition the table act_gate EXCLUSIVE. Callers: rename_workspace(), rename_workspace
-- (queries/settings.sql).
CREATE OR REPLACE FUNCTION :schema.change_workspace_name(workspace text, new_name text, actor text, why text,
                                                         OUT status text, OUT before jsonb, OUT after jsonb, OUT used bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    owner   integer;
    by_name bigint[];
    lanes   bigint[];
BEGIN
    used := 0;
    SELECT w.id INTO owner FROM :schema.workspaces w WHERE w.name = workspace FOR UPDATE;
    IF NOT FOUND THEN
        status := 'workspace_not_found';
        RETURN;
    END IF;
    status := 'conflict';
    IF EXISTS (SELECT 1 FROM :schema.workspaces w WHERE w.name = new_name) THEN
        RETURN;
    END IF;
    by_name := ARRAY(SELECT d.id FROM :schema.workflow_definitions d
                     WHERE d.workspace_id IN (0, owner) AND d.demand & 1 = 1 AND d.definition LIKE '%.execution%workspace%');
    IF cardinality(by_name) > 0 THEN
        LOCK TABLE :schema.act_gate IN EXCLUSIVE MODE;
        lanes := ARRAY(SELECT a.base | owner FROM :schema.group_lanes a);
        used := (SELECT count(*) FROM :schema.workflow_execution_queue q
                 WHERE q.due_at IS NULL AND q.lane_id = ANY (lanes) AND q.phase = 2 AND q.definition_id = ANY (by_name));
    END IF;
    IF used > 0 THEN
        status := 'illegal_state';
        RETURN;
    END IF;
    BEGIN
        UPDATE :schema.workspaces w SET name = new_name WHERE w.id = owner;
    EXCEPTION WHEN unique_violation THEN
        RETURN;
    END;
    before := jsonb_build_object('id', owner, 'name', workspace);
    after := jsonb_build_object('id', owner, 'name', new_name);
    INSERT INTO :schema.news (at, kind, workspaces) VALUES (:schema.store_time(), 7, ARRAY[owner]);
    PERFORM :schema.notify_news();
    PERFORM :schema.record_act(actor, why, 'workspace rename', workspace, before, after, 0);
    status := 'ok';
END
$$;
