-- Keeps a signal of an item, and brings it to its step. A WAITING item with a step that waits for the name becomes runnable. The wait of
-- that step ends here if no node has to decide about it (end_wait()). The node of a held one is notified, and the count is ahead of
-- signals_sent until it has read the signal. Any other item gets it with the claim.
-- Returns its number. event, detail: those of the history. is_on_record: it is an act of its own.
-- Locks: the item, which the caller has locked. Callers: send_signal(), decide_step(), call_back().
CREATE OR REPLACE FUNCTION :schema.deliver_signal(item uuid, name text, data text, key text, actor text, why text, event text, detail text,
                                                  is_on_record boolean DEFAULT true)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    now_us constant bigint := :schema.store_time();
    held record;
    awaiting record;
BEGIN
    UPDATE :schema.workflow_execution_queue q
    SET signals = q.signals + 1, signals_sent = CASE q.phase WHEN 2 THEN q.signals_sent ELSE q.signals + 1 END WHERE q.id = item
    RETURNING q.phase, q.node_id, q.fence, q.signals, q.due_at INTO held;
    INSERT INTO :schema.signals (execution_id, seq, name, data, key, sent_at, actor)
    VALUES (item, held.signals, name, data, key, now_us, actor);
    INSERT INTO :schema.workflow_execution_events (execution_id, at, event, fence, actor, reason, detail)
    VALUES (item, now_us, event, held.fence, actor, why, detail);
    IF held.phase = 2 THEN
        PERFORM :schema.notify_nodes(ARRAY[held.node_id]);
    ELSIF held.phase = 3 THEN
        SELECT count(*) AS steps, min(s.step) AS step, bool_and(s.variables IS NULL) AS is_plain INTO awaiting
        FROM :schema.workflow_node_executions s WHERE s.execution_id = item AND s.status = 'WAITING' AND s.signal = name;
        IF awaiting.steps = 1 AND awaiting.is_plain AND held.due_at > now_us AND strpos(name, ':') = 0 THEN
            PERFORM :schema.end_wait(now_us, item, awaiting.step, held.signals, held.fence);
        END IF;
        IF awaiting.steps > 0 THEN
            PERFORM :schema.wake_items(now_us, ARRAY[item]);
        END IF;
    END IF;
    IF is_on_record THEN
        PERFORM :schema.record_act(actor, why, event, item::text, NULL, jsonb_build_object('detail', detail), 0);
    END IF;
    RETURN held.signals;
END
$$;
