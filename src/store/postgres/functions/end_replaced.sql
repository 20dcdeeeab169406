-- Ends an execution that has not started, and is locked, for a newer request of its key. Locks: none. Caller: enqueue_keyed().
CREATE OR REPLACE FUNCTION :schema.end_replaced(old_id uuid, new_id uuid, actor text, now_us bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO :schema.workflow_execution_events (execution_id, at, event, actor, reason, detail)
    VALUES (old_id, now_us, 'cancel', actor, 'a newer request of its key has replaced it', new_id::text);
    PERFORM :schema.move_to_history(ARRAY[old_id], 'CANCELLED', 'replaced', NULL, now_us);
    PERFORM :schema.notify_news();
END
$$;
