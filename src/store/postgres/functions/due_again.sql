-- When promote_due() is to be called again after a call: as next_due(), but 100 ms after `now_us` if every item that is due is locked by
-- another transaction. Else the scheduler would call it again and again until that transaction ends.
-- Locks: one item that is due. Index: queue_waiting. Caller: promote_due().
CREATE OR REPLACE FUNCTION :schema.due_again(now_us bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    due_us constant bigint := :schema.next_due();
BEGIN
    IF due_us <= now_us THEN
        PERFORM 1 FROM :schema.workflow_execution_queue q WHERE q.due_at <= now_us ORDER BY q.due_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN now_us + 100000;
        END IF;
    END IF;
    RETURN due_us;
END
$$;
