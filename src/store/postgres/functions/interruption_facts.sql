-- The facts that its next node needs of an item that was interrupted or has got signals; NULL for any other item. They are its
-- interruptions at the last park, whether it is a suspect, when it was woken (0: never), whether it was handed over, and the number of its
-- last signal.
-- Locks: none. Caller: assign_items().
CREATE OR REPLACE FUNCTION :schema.interruption_facts(q :schema.workflow_execution_queue) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF q.interruptions = 0 AND q.signals = 0 THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY[q.interruptions_at_park, :schema.is_suspect(q.id, q.suspicion, q.steps_ended)::integer, coalesce(q.woken_at, 0),
                 (q.handovers > 0)::integer, q.signals];
END
$$;
