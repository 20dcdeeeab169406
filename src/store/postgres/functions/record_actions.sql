-- Writes the actions of states that records of a set end (docs/design/states.md), each once, and keeps the last 1,000 of an execution. The
-- plans of their children become rows of child_steps with notes, for the duty of children. The execution may have ended in this
-- transaction. The children of older actions go when they have ended: a machine may run for years, and its children have a limit.
--   done                     the places of the records that took effect
--   action_records, actions  the place of the record of each action, and the action as JSON
-- Locks: none but its own rows; the items are locked or deleted. Caller: record().
CREATE OR REPLACE FUNCTION :schema.record_actions(recorder bigint, now_us bigint, done integer[], ids uuid[], fences bigint[],
                                                  action_records integer[], actions text[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    kept_most constant integer := 1000; -- ACTIONS_KEPT_MOST in queue/limits.h
BEGIN
    INSERT INTO :schema.workflow_actions
        (execution_id, action, state, outcome, next_state, started_at, finished_at, node_id, fence, variables, error_code, error)
    SELECT ids[a.place], (a.ended ->> 'action')::integer, a.ended ->> 'state', a.ended ->> 'outcome', a.ended ->> 'next',
           now_us - (a.ended ->> 'ran_us')::bigint, now_us, recorder, fences[a.place], (a.ended -> 'variables')::text, a.ended ->> 'code',
           a.ended ->> 'error'
    FROM (SELECT u.place, u.action::json AS ended FROM unnest(action_records, actions) u (place, action) WHERE u.place = ANY (done)) a
    ON CONFLICT DO NOTHING;
    DELETE FROM :schema.workflow_actions o
    USING unnest(action_records, actions) u (place, action)
    WHERE o.execution_id = ANY (ids) AND o.execution_id = ids[u.place] AND o.action <= (u.action::json ->> 'action')::integer - kept_most;
    WITH old AS (
        SELECT s.parent_id, s.step FROM unnest(action_records, actions) u (place, action)
        JOIN :schema.child_steps s ON s.parent_id = ids[u.place]
        WHERE u.place = ANY (done) AND strpos(u.action, '"plans":') > 0 AND s.is_settled
          AND (s.ended = s.count OR s.leaves AND s.started = s.count)
          AND CASE WHEN s.plan IS NOT NULL THEN split_part(s.step, '.', 2)::integer END
              <= (u.action::json ->> 'action')::integer - kept_most
    ), gone AS (
        DELETE FROM :schema.children c USING old o WHERE c.parent_id = o.parent_id AND c.step = o.step
    )
    DELETE FROM :schema.child_steps s USING old o WHERE s.parent_id = o.parent_id AND s.step = o.step;
    WITH planned AS (
        INSERT INTO :schema.child_steps (parent_id, step, workspace_id, plan)
        SELECT i.id, 'state.' || (i.ended ->> 'action') || '.' || (p.n - 1),
               coalesce((SELECT q.workspace_id FROM :schema.workflow_execution_queue q WHERE q.id = i.id),
                        (SELECT h.workspace_id FROM :schema.workflow_executions h WHERE h.id = i.id)), convert_to(p.plan::text, 'UTF8')
        FROM (SELECT ids[u.place] AS id, u.action::json AS ended FROM unnest(action_records, actions) u (place, action)
              WHERE u.place = ANY (done)) i
        CROSS JOIN LATERAL json_array_elements(i.ended -> 'plans') WITH ORDINALITY p (plan, n)
        ON CONFLICT DO NOTHING
        RETURNING parent_id, step
    )
    INSERT INTO :schema.child_notes (parent_id, step) SELECT p.parent_id, p.step FROM planned p;
    IF FOUND THEN
        INSERT INTO :schema.news (at, kind) VALUES (now_us, 8);
        PERFORM :schema.notify_news();
    END IF;
END
$$;
