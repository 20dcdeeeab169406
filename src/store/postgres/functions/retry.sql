-- For callers in SQL: enqueues a FAILED or CANCELLED execution again, as a new one and returns its id; the ended one is not changed.
-- Raises execution_not_found, illegal_state, workspace_not_found, workflow_disabled,
-- conflict (it was retried before). Locks: those of retry_executions().
CREATE OR REPLACE FUNCTION :schema.retry(execution_id uuid, reason text DEFAULT NULL) RETURNS uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT :schema.retry_one(execution_id, reason, false, NULL)
$$;

REVOKE ALL ON FUNCTION :schema.retry(uuid, text) FROM PUBLIC;
