-- For callers in SQL: an execution that waits for its run_at or backs off may start now. Raises execution_not_found, illegal_state.
-- Locks: those of release_items().
CREATE OR REPLACE FUNCTION :schema.release(execution_id uuid, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    act record;
BEGIN
    PERFORM :schema.check_act(execution_id, reason);
    SELECT a.outcome, a.detail INTO act FROM :schema.release_items(ARRAY[execution_id], :schema.actor(), reason) a;
    IF act.outcome <> 'changed' THEN
        PERFORM :schema.refuse_act(execution_id, act.detail,
                                   CASE WHEN act.detail IN ('PENDING', 'CLAIMED', 'DISPATCHED', 'WAITING')
                                        THEN 'only a PENDING one that waits for its run_at or a backoff can be released'
                                        WHEN act.detail = 'COMPLETED' THEN 'it has ended'
                                        ELSE 'it has ended; weir retry runs it again' END);
    END IF;
END
$$;

REVOKE ALL ON FUNCTION :schema.release(uuid, text) FROM PUBLIC;
