-- For callers in SQL: a pending execution never starts; a running one is stopped by its node soon. Raises execution_not_found,
-- illegal_state. Locks: those of cancel_items().
CREATE OR REPLACE FUNCTION :schema.cancel(execution_id uuid, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    act record;
BEGIN
    PERFORM :schema.check_act(execution_id, reason);
    SELECT a.outcome, a.detail INTO act FROM :schema.cancel_items(ARRAY[execution_id], :schema.actor(), reason) a;
    IF act.outcome <> 'changed' THEN
        PERFORM :schema.refuse_act(execution_id, act.detail, 'it has ended and cannot be cancelled');
    END IF;
END
$$;

REVOKE ALL ON FUNCTION :schema.cancel(uuid, text) FROM PUBLIC;
