-- For callers in SQL: enqueues a FAILED or CANCELLED execution again, and returns the id of the new one. It keeps the finished steps of the
-- ended one with their outputs. from_step and the steps that need it run again, although they are finished; NULL = none of them.
-- Raises what retry() raises, and invalid_argument (no such step). Locks: those of retry_executions().
CREATE OR REPLACE FUNCTION :schema.retry_from(execution_id uuid, from_step text DEFAULT NULL, reason text DEFAULT NULL) RETURNS uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT :schema.retry_one(execution_id, reason, true, from_step)
$$;

REVOKE ALL ON FUNCTION :schema.retry_from(uuid, text, text) FROM PUBLIC;
