-- Ends the wait of a step of a WAITING item by its signal `seq`, as the record of a node would end it: with the data as its output. So the
-- next claim begins what follows the step without a record before. Its node would decide the same: no other step waits for the name,
-- nothing is due, and no older signal of the name is kept. With one, nothing is done: the next claim ends the wait by that.
-- fence: that of the item. The step has no node, because none holds the item.
-- Locks: the rows of the step and the signal; the item is locked. Caller: deliver_signal().
CREATE OR REPLACE FUNCTION :schema.end_wait(now_us bigint, item uuid, step text, seq bigint, fence bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    sent record;
BEGIN
    SELECT g.data, EXISTS (SELECT 1 FROM :schema.signals o WHERE o.execution_id = item AND o.name = g.name AND o.seq < g.seq
                                                             AND o.consumed_at IS NULL) AS is_behind INTO sent
    FROM :schema.signals g WHERE g.execution_id = item AND g.seq = seq;
    IF sent.is_behind THEN
        RETURN;
    END IF;
    UPDATE :schema.workflow_node_executions s
    SET status = 'COMPLETED', due_at = NULL, finished_at = now_us, output = convert_to(sent.data, 'UTF8'), signal = NULL,
        start_node_id = coalesce(s.start_node_id, s.node_id), start_fence = coalesce(s.start_fence, s.fence), node_id = 0, fence = fence
    WHERE s.execution_id = item AND s.step = step AND s.status = 'WAITING';
    UPDATE :schema.signals g SET step = step, consumed_at = now_us WHERE g.execution_id = item AND g.seq = seq;
END
$$;
