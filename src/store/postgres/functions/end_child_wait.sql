-- Ends the wait of a start step that is over by its counts.
--   is_settled  it is over now
--   settled     1: its parent got the signal
--   waits       another transaction has locked the row of the parent
-- Locks: those of settle_children(). Caller: advance_child_step().
CREATE OR REPLACE FUNCTION :schema.end_child_wait(now_us bigint, held :schema.child_steps, OUT is_settled boolean, OUT settled integer,
                                                  OUT waits boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    failed constant integer := held.ended - held.completed;
    is_completed constant boolean := CASE WHEN held.problem IS NOT NULL THEN false
                                          WHEN held.waits_for_all OR held.wanted = 0 THEN failed = 0
                                          ELSE held.completed >= held.wanted END;
    sent record;
BEGIN
    settled := 0; waits := false;
    is_settled := CASE WHEN held.problem IS NOT NULL OR held.wanted = 0 THEN true WHEN held.waits_for_all THEN held.ended = held.count
                       ELSE is_completed OR failed > held.count - held.wanted END;
    -- A signal for which no state waits (any more) would stay for ever. The wait is on record with the plan of the action.
    IF is_settled AND (held.plan IS NULL OR EXISTS (SELECT 1 FROM :schema.workflow_node_executions e WHERE e.execution_id = held.parent_id
                                                    AND e.step = 'state' AND e.signal = 'children:' || held.step)) THEN
        SELECT s.* INTO sent FROM :schema.settle_children(now_us, held, is_completed) s;
        is_settled := sent.is_over;
        settled := sent.is_sent::integer;
        waits := NOT sent.is_over;
    END IF;
END
$$;
