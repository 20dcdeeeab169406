-- Decides for a step of the kind `approve` that waits on record (store/signals.h). wanted: the step; NULL = the only one that waits.
-- Returns the outcome:
--   'sent'       `step` has the decision, as the signal `seq`
--   'none'       no such step waits
--   'temporal'   its workflow is one of Temporal
--   'several'    `who` has their names
--   'decided'    `who` has the first decision, with the execution's state and whether the step ended without it
--   'earlier'    the same of another step, without `wanted`; `waiting` has the step that waits. The caller may repeat a call whose answer
--                was lost
--   'late'       its timeout has passed
--   'forbidden'  the actor is not one of `who`, and the attempt is on record
--   a state      that of an ended execution; 'gone' = there is none
--
-- An actor is meant by its whole text, or by the part before "(" or " for ". The data of the signal is the output of the step.
-- Locks: the item, so of two decisions the second finds the first. Callers: decide(), decide_step (queries/signals.sql).
CREATE OR REPLACE FUNCTION :schema.decide_step(item uuid, wanted text, approved boolean, comment text, actor text, why text,
                                               OUT outcome text, OUT seq bigint, OUT step text, OUT who text,
                                               OUT waiting text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    definition bigint;
    lane bigint;
    steps text[];
    allowed json;
BEGIN
    SELECT q.definition_id, q.lane_id INTO definition, lane FROM :schema.workflow_execution_queue q WHERE q.id = item FOR NO KEY UPDATE;
    SELECT array_agg(s.step ORDER BY s.step) INTO steps FROM :schema.workflow_node_executions s
    WHERE s.execution_id = item AND s.status = 'WAITING' AND s.signal LIKE 'approve:%' AND (wanted IS NULL OR s.step = wanted)
      AND NOT EXISTS (SELECT 1 FROM :schema.signals g WHERE g.execution_id = item AND g.name = s.signal AND g.key = 'approval');
    IF steps IS NULL OR (wanted IS NULL AND cardinality(steps) = 1) THEN
        SELECT CASE WHEN steps IS NULL THEN 'decided' ELSE 'earlier' END, substr(g.name, 9), steps[1],
               g.data::jsonb || jsonb_build_object(
                   'state', coalesce((SELECT q.status FROM :schema.workflow_execution_queue q WHERE q.id = item),
                                     (SELECT h.status FROM :schema.workflow_executions h WHERE h.id = item)),
                   'is_unused', g.consumed_at IS NULL AND (definition IS NULL OR EXISTS (
                       SELECT 1 FROM :schema.workflow_node_executions s
                       WHERE s.execution_id = item AND s.step = substr(g.name, 9) AND s.finished_at IS NOT NULL)))
        INTO outcome, step, waiting, who FROM :schema.signals g
        WHERE g.execution_id = item AND g.name LIKE 'approve:%' AND (wanted IS NULL OR g.name = 'approve:' || wanted)
        ORDER BY g.seq DESC LIMIT 1;
        IF outcome IS NULL AND steps IS NULL THEN
            outcome := coalesce(CASE WHEN (lane >> 31) & 1 = 1 THEN 'temporal' WHEN definition IS NOT NULL THEN 'none' END,
                                (SELECT h.status FROM :schema.workflow_executions h WHERE h.id = item), 'gone');
        END IF;
    END IF;
    IF outcome IS NOT NULL THEN
        RETURN;
    ELSIF cardinality(steps) > 1 THEN
        outcome := 'several';
        who := array_to_string(steps, ', ');
        RETURN;
    END IF;
    step := steps[1];
    SELECT d.definition::json #> ARRAY['steps', step, 'approve', 'by'] INTO allowed
    FROM :schema.workflow_definitions d WHERE d.id = definition;
    IF allowed IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM json_array_elements_text(allowed) b (name)
                       WHERE actor = b.name OR starts_with(actor, b.name || '(') OR starts_with(actor, b.name || ' for ')) THEN
        outcome := 'forbidden';
        who := (SELECT string_agg(b.name, ', ') FROM json_array_elements_text(allowed) b (name));
        PERFORM :schema.record_act(actor, why, 'approve refused', item::text, NULL, jsonb_build_object('detail', step), 0);
        RETURN;
    ELSIF EXISTS (SELECT 1 FROM :schema.workflow_node_executions s
                  WHERE s.execution_id = item AND s.step = steps[1] AND s.due_at <= :schema.store_time()) THEN
        outcome := 'late';
        RETURN;
    END IF;
    seq := :schema.deliver_signal(item, 'approve:' || step,
                                  json_build_object('approved', approved, 'by', actor, 'comment', comment, 'at',
                                                    :schema.rfc3339(:schema.store_time()))::text,
                                  'approval', actor, why, CASE WHEN approved THEN 'approve' ELSE 'reject' END, step);
    outcome := 'sent';
END
$$;
