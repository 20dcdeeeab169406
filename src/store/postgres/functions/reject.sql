-- For callers in SQL: rejects a step that waits for an approval; without a step, the only one that does. The role of the session, or
-- `ROLE for weir.actor`, must be one of `by` of the step. Returns the step.
-- Raises execution_not_found, illegal_state, not_permitted, invalid_argument. Locks: those of decide_step().
CREATE OR REPLACE FUNCTION :schema.reject(execution_id uuid, step text DEFAULT NULL, comment text DEFAULT NULL, reason text DEFAULT NULL)
RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT :schema.decide(execution_id, step, false, comment, reason)
$$;

REVOKE ALL ON FUNCTION :schema.reject(uuid, text, text, text) FROM PUBLIC;
