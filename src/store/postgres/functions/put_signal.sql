-- Sends an execution a signal of the store itself: no limit, no event, no act. `held` is its row, which the caller has locked.
-- Locks: none but its own rows. Caller: settle_children().
CREATE OR REPLACE FUNCTION :schema.put_signal(now_us bigint, held :schema.workflow_execution_queue, name text, data text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
BEGIN
    INSERT INTO :schema.signals (execution_id, seq, name, data, sent_at) VALUES (held.id, held.signals + 1, name, data, now_us);
    UPDATE :schema.workflow_execution_queue q
    SET signals = q.signals + 1, signals_sent = CASE q.phase WHEN 2 THEN q.signals_sent ELSE q.signals + 1 END WHERE q.id = held.id;
    IF held.phase = 2 THEN
        PERFORM :schema.notify_nodes(ARRAY[held.node_id]);
    ELSIF held.phase = 3 AND EXISTS (SELECT 1 FROM :schema.workflow_node_executions s
                                     WHERE s.execution_id = held.id AND s.status = 'WAITING' AND s.signal = name) THEN
        PERFORM :schema.wake_items(now_us, ARRAY[held.id]);
    END IF;
END
$$;
