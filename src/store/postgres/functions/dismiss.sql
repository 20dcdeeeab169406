-- For callers in SQL: a FAILED execution is dealt with, and no dead letter any more. Raises execution_not_found, illegal_state.
-- Locks: those of dismiss_executions().
CREATE OR REPLACE FUNCTION :schema.dismiss(execution_id uuid, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    act record;
BEGIN
    PERFORM :schema.check_act(execution_id, reason);
    SELECT a.outcome, a.detail INTO act FROM :schema.dismiss_executions(ARRAY[execution_id], :schema.actor(), reason) a;
    IF act.outcome <> 'changed' THEN
        PERFORM :schema.refuse_act(execution_id, act.detail, 'only a FAILED one can be dismissed');
    END IF;
END
$$;

REVOKE ALL ON FUNCTION :schema.dismiss(uuid, text) FROM PUBLIC;
