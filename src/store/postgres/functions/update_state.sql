-- Moves an execution that no node holds to another state, and sets variables (store/states.h). wanted: the state; NULL = it stays.
-- changes: a JSON object, NULL = none. if_state: the state that it must be in; NULL = any. The rules are those of store/state_update.c.
-- Returns the outcome:
--   'updated'   `state` is the present one, `action` the number of the update
--   'held'      a node has it
--   'no_states', 'unknown_state', 'unknown_variable', 'wrong_type', 'too_large'
--               `name` is at fault. `names` has those of the definition, or the type.
--   'other_state' `name` is the present one.
--   a state     of an ended execution; 'gone' = there is none
-- Locks: the item. Callers: update(), update_state (queries/states.sql).
CREATE OR REPLACE FUNCTION :schema.update_state(item uuid, wanted text, changes text, if_state text, actor text, why text,
                                                OUT outcome text, OUT action integer, OUT state text, OUT name text, OUT names text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    all_most constant integer := 131072; -- STATE_VARIABLES_BYTES_MAX in queue/limits.h
    shown_most constant integer := 8192; -- STATE_CHANGES_BYTES_MAX
    kept_most constant integer := 1000;  -- ACTIONS_KEPT_MOST
    now_us constant bigint := :schema.store_time();
    held :schema.workflow_execution_queue;
    definition json;
    machine json;
    changed text;
    bytes bigint;
    before text;
    is_manual boolean;
BEGIN
    SELECT q.* INTO held FROM :schema.workflow_execution_queue q WHERE q.id = item FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        outcome := coalesce((SELECT h.status FROM :schema.workflow_executions h WHERE h.id = item), 'gone');
        RETURN;
    END IF;
    SELECT d.definition::json INTO definition FROM :schema.workflow_definitions d WHERE d.id = held.definition_id;
    SELECT convert_from(s.variables, 'UTF8')::json, s.attempt INTO machine, action FROM :schema.workflow_node_executions s
    WHERE s.execution_id = item AND s.step = 'state' AND s.finished_at IS NULL;
    before := coalesce(machine ->> 'state', definition ->> 'initial');
    SELECT p.* INTO outcome, name, names FROM :schema.update_problem(definition, wanted, if_state, before, changes::json) p;
    IF outcome IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT u.variables, u.bytes INTO changed, bytes FROM :schema.updated_variables(definition, machine, changes::json) u;
    IF bytes > all_most THEN
        outcome := 'too_large';
        RETURN;
    ELSIF held.phase = 2 THEN
        outcome := 'held';
        RETURN;
    END IF;
    state := coalesce(wanted, before);
    action := coalesce(action, 0) + held.interruptions - held.interruptions_at_park + 1;
    is_manual := coalesce(definition #>> ARRAY['states', state, 'type'] = 'manual', false);
    machine := '{"state":' || to_json(state)::text || ',"variables":' || changed || coalesce((
        SELECT string_agg(',' || to_json(o.key)::text || ':' || o.value::text, '') FROM json_each(machine) o
        WHERE o.key NOT IN ('state', 'variables') AND (wanted IS NULL OR o.key NOT IN ('signal', 'in_a_row'))), '') || '}';
    UPDATE :schema.signals g SET data = action::text -- the wake of a wait names the attempt that waits
    FROM :schema.workflow_node_executions o
    WHERE wanted IS NULL AND o.execution_id = item AND o.step = 'state' AND g.execution_id = item AND g.name = 'wake:state'
      AND g.consumed_at IS NULL AND g.data = o.attempt::text;
    INSERT INTO :schema.workflow_node_executions AS old
        (execution_id, step, status, attempt, failures, due_at, started_at, node_id, fence, variables, signal)
    VALUES (item, 'state', 'WAITING', action, 0, CASE WHEN wanted IS NULL OR NOT is_manual THEN now_us END, now_us, 0, held.fence,
            convert_to(machine::text, 'UTF8'), CASE WHEN wanted IS NOT NULL AND is_manual THEN 'manual:state' END)
    ON CONFLICT (execution_id, step) DO UPDATE
    SET status = CASE WHEN wanted IS NULL THEN old.status ELSE 'WAITING' END, attempt = excluded.attempt, variables = excluded.variables,
        failures = CASE WHEN wanted IS NULL THEN old.failures ELSE 0 END,
        due_at = CASE WHEN wanted IS NULL THEN old.due_at ELSE excluded.due_at END,
        started_at = CASE WHEN wanted IS NULL THEN old.started_at ELSE now_us END,
        signal = CASE WHEN wanted IS NULL THEN old.signal ELSE excluded.signal END,
        node_id = CASE WHEN wanted IS NULL THEN old.node_id ELSE 0 END, fence = CASE WHEN wanted IS NULL THEN old.fence ELSE held.fence END,
        start_node_id = CASE WHEN wanted IS NULL THEN old.start_node_id END,
        start_fence = CASE WHEN wanted IS NULL THEN old.start_fence END,
        exit_code = CASE WHEN wanted IS NULL THEN old.exit_code END,
        error_code = CASE WHEN wanted IS NULL THEN old.error_code END, error = CASE WHEN wanted IS NULL THEN old.error END
    WHERE old.finished_at IS NULL;
    INSERT INTO :schema.workflow_actions
        (execution_id, action, state, outcome, next_state, started_at, finished_at, node_id, fence, actor, variables)
    VALUES (item, action, before, 'update', state, now_us, now_us, 0, held.fence, actor,
            CASE WHEN octet_length(changes) <= shown_most THEN changes
                 ELSE (SELECT json_agg(c.key)::text FROM json_each(changes::json) c) END);
    DELETE FROM :schema.workflow_actions o WHERE o.execution_id = item AND o.action <= update_state.action - kept_most;
    -- A claim reads steps on record only of an item with an interruption; this one counts as a park, which skips no number.
    UPDATE :schema.workflow_execution_queue q SET interruptions = 1, interruptions_at_park = 1 WHERE q.id = item AND q.interruptions = 0;
    INSERT INTO :schema.workflow_execution_events (execution_id, at, event, fence, actor, reason, detail)
    VALUES (item, now_us, 'update', held.fence, actor, why, state);
    -- The time of a timeout of the execution is known to a node, which parks it again.
    IF wanted IS NOT NULL AND held.phase = 3 AND is_manual AND definition -> 'timeout' IS NULL THEN
        UPDATE :schema.workflow_execution_queue q SET waiting_for = 'manual', due_at = 9223372036854775807 WHERE q.id = item;
    ELSIF wanted IS NOT NULL AND held.phase = 3 THEN
        PERFORM :schema.wake_items(now_us, ARRAY[item], actor, why);
    END IF;
    PERFORM :schema.record_act(actor, why, 'update', item::text, NULL, jsonb_build_object('detail', state), 0);
    outcome := 'updated';
END
$$;
