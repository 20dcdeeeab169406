-- Steps of a set of records that begin to wait for their children: a row and a note for each, and news, because the record of a step
-- brings none. Locks: none but its own rows; the parents are locked. Caller: record_steps().
CREATE OR REPLACE FUNCTION :schema.plan_children(now_us bigint, done integer[], ids uuid[], step_records integer[], steps text[],
                                                 step_states text[], step_signals text[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    WITH planned AS (
        INSERT INTO :schema.child_steps (parent_id, step, workspace_id)
        SELECT q.id, r.step, q.workspace_id
        FROM unnest(step_records, steps, step_states, step_signals) r (place, step, state, signal)
        JOIN :schema.workflow_execution_queue q ON q.id = ids[r.place]
        WHERE q.id = ANY (ids) AND r.place = ANY (done) AND r.state = 'WAITING' AND r.signal = 'children:' || r.step
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
