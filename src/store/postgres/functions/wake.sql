-- For callers in SQL: the steps of an execution that sleep or wait for their next attempt go on now. waiting_for: only waits of this kind;
-- 'signal', 'callback' and 'child' end waits with a timeout, as if that had come. Only a decision ends the wait for an approval.
-- Raises execution_not_found, illegal_state, invalid_argument.
-- Locks: those of wake_steps().
CREATE OR REPLACE FUNCTION :schema.wake(execution_id uuid, waiting_for text DEFAULT NULL, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    act record;
BEGIN
    PERFORM :schema.check_act(execution_id, reason);
    IF waiting_for = 'approval' THEN
        PERFORM :schema.refuse('invalid_argument', 'a wake cannot end the wait for an approval',
                               'decide with weir.approve() or weir.reject()');
    ELSIF waiting_for = 'manual' THEN
        PERFORM :schema.refuse('invalid_argument', 'a wake cannot end the wait for a person in a manual state',
                               'move the execution on with weir.update()');
    ELSIF waiting_for NOT IN ('sleep', 'retry', 'signal', 'callback', 'child') THEN
        PERFORM :schema.refuse('invalid_argument', format('"%s" is not a kind of wait', left(waiting_for, 64)),
                               'waiting_for is sleep, retry, signal, callback or child');
    END IF;
    SELECT a.outcome, a.detail, a.waits, a.of_kind, a.timed INTO act
    FROM :schema.wake_steps(ARRAY[execution_id], :schema.actor(), reason, waiting_for) a;
    IF act.outcome = 'refused' THEN
        PERFORM :schema.refuse_act(execution_id, act.detail, 'it has ended, so nothing of it waits');
    ELSIF act.outcome <> 'changed' THEN
        PERFORM :schema.refuse_act(execution_id, act.detail,
            CASE WHEN act.outcome = 'temporal'
                 THEN 'its workflow is one of Temporal, which keeps its timers; `weir signal` and `weir temporal update` reach it'
                 WHEN act.timed > 0 THEN 'it was woken already'
                 WHEN act.of_kind > 0 THEN 'its steps wait without a timeout, and a wake does not send what they wait for'
                 WHEN act.waits = 0 THEN 'none of its steps sleeps or waits for its next attempt'
                 WHEN waiting_for IS NOT NULL THEN 'none of its steps has a wait of this kind'
                 ELSE 'its steps wait for signals, reports, approvals or children, and a wake does not bring them' END);
    END IF;
END
$$;

REVOKE ALL ON FUNCTION :schema.wake(uuid, text, text) FROM PUBLIC;
