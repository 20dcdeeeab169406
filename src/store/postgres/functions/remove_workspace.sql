-- One transaction of the deletion of a workspace: ends at most `most` of its PENDING and WAITING executions (FAILED, code
-- workspace_deleted), and removes the workspace when none is left. Returns 'ok' and failed; more = some wait still, and the workspace is
-- paused. Otherwise nothing was changed: 'workspace_not_found', 'illegal_state' (executions live: held, waiting), 'store_busy' (other
-- transactions hold those that wait).
--
-- 1. The row of the workspace is locked, so that no setting of it changes meanwhile, and so are its workflows.
-- 2. With at_once, act_gate is locked: rounds that assign at this moment are awaited, and no other round assigns before the commit. A
--    workspace that is paused already needs no lock, so only the first of many transactions stops the rounds. A caller's transaction may
--    stay open, and holds up no round. check_deletion() locks act_gate at its commit, and refuses the commit if an item of the workspace
--    was assigned since step 3. After the commit each assignment is refused until the scheduler has read the act.
-- 3. The items are counted by a statement with a new snapshot, in the books: rounds do not wait for a count of many rows.
-- 4. An enqueue that commits after the count leaves an orphan, which the scheduler ends (fail_orphans()). A firing of a schedule that is
--    inserted meanwhile is removed by the duty of schedules.
-- Items are locked with SKIP LOCKED: a round or an act that holds one may wait for act_gate.
-- Locks: with schedules of its workflows that table, the workspace, its workflows, with at_once the table act_gate EXCLUSIVE, the items.
-- Callers: delete_workspace(), remove_workspace (queries/deletion.sql).
CREATE OR REPLACE FUNCTION :schema.remove_workspace(workspace text, fails_waiting boolean, most integer, actor text, why text,
                                                    at_once boolean, OUT status text, OUT held bigint, OUT waiting bigint,
                                                    OUT failed bigint, OUT more boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    now_us constant bigint := :schema.store_time();
    owner     integer;
    is_paused boolean;
    is_parked boolean; -- some executions are WAITING
    lanes     bigint[];
    ids       uuid[];
    before    jsonb;
BEGIN
    failed := 0;
    more := false;
    IF EXISTS (SELECT 1 FROM :schema.schedules s
               WHERE s.definition_owner = (SELECT w.id FROM :schema.workspaces w WHERE w.name = workspace)) THEN
        LOCK TABLE :schema.schedules IN ROW EXCLUSIVE MODE; -- before any version, see publish_with_schedules()
    END IF;
    SELECT w.id, w.paused INTO owner, is_paused FROM :schema.workspaces w WHERE w.name = workspace FOR UPDATE;
    IF NOT FOUND THEN
        status := 'workspace_not_found';
        RETURN;
    END IF;
    before := :schema.setting_of('workspace', workspace, NULL);
    PERFORM 1 FROM :schema.workflow_definitions d WHERE d.workspace_id = owner ORDER BY d.id FOR NO KEY UPDATE;
    IF at_once AND NOT is_paused THEN
        LOCK TABLE :schema.act_gate IN EXCLUSIVE MODE;
    END IF;
    lanes := ARRAY(SELECT a.base | owner FROM :schema.group_lanes a);
    SELECT coalesce(sum(b.held), 0), coalesce(sum(b.runnable + b.waiting + b.parked), 0), coalesce(sum(b.parked), 0) > 0
    INTO held, waiting, is_parked
    FROM :schema.lane_books b WHERE b.workspace_id = owner;
    IF held > 0 OR waiting > 0 AND NOT fails_waiting THEN
        status := 'illegal_state';
        RETURN;
    ELSIF waiting > 0 THEN
        ids := ARRAY(SELECT q.id FROM :schema.workflow_execution_queue q
                     WHERE q.due_at IS NULL AND q.lane_id = ANY (lanes) AND q.phase = 0 LIMIT most FOR UPDATE SKIP LOCKED);
        ids := ids || ARRAY(SELECT q.id FROM :schema.workflow_execution_queue q
                            WHERE q.due_at IS NOT NULL AND q.waiting_for IS NULL AND q.lane_id = ANY (lanes)
                            LIMIT most - cardinality(ids) FOR UPDATE SKIP LOCKED);
        IF is_parked AND cardinality(ids) < most THEN
            ids := ids || ARRAY(SELECT q.id FROM :schema.workflow_execution_queue q
                                WHERE q.due_at IS NOT NULL AND q.waiting_for IS NOT NULL AND q.workspace_id = owner
                                LIMIT most - cardinality(ids) FOR UPDATE SKIP LOCKED);
        END IF;
        failed := :schema.move_to_history(ids, 'FAILED', 'workspace_deleted',
                                          'its workspace was deleted' || coalesce(' by ' || actor, '') || coalesce(': ' || why, ''),
                                          now_us);
        IF failed = 0 THEN
            status := 'store_busy';
            RETURN;
        END IF;
    END IF;
    more := failed < waiting;
    IF more THEN
        UPDATE :schema.workspaces w SET paused = true WHERE w.id = owner;
    ELSE
        PERFORM :schema.remove_definition_schedules(NULL, owner, '{}', actor, why);
        DELETE FROM :schema.workspaces w WHERE w.id = owner;
        INSERT INTO :schema.deleted_workspaces (id, name, deleted_at) VALUES (owner, workspace, now_us);
        UPDATE :schema.workflow_definitions d SET state = 2 WHERE d.workspace_id = owner;
        DELETE FROM :schema.schedule_firings f WHERE f.schedule_id = ANY (ARRAY(SELECT s.id FROM :schema.schedules s))
                                                 AND f.workspace_id = owner;
        DELETE FROM :schema.schedule_refusals r WHERE r.workspace_id = owner;
    END IF;
    INSERT INTO :schema.news (at, kind, workspaces) VALUES (now_us, 7, ARRAY[owner]);
    PERFORM :schema.notify_news();
    PERFORM :schema.record_act(actor, why, 'workspace delete', workspace, before, :schema.setting_of('workspace', workspace, NULL), failed);
    status := 'ok';
END
$$;
