-- For callers in SQL: enqueues a FAILED or CANCELLED execution again, as a new one and returns its id; the ended one is not changed.
-- Raises execution_not_found, illegal_state, workspace_not_found, workflow_disabled,
-- conflict (it was retried before). Locks: those of retry_items().
CREATE OR REPLACE FUNCTION :schema.retry(execution_id uuid, reason text DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    new_id constant uuid := :schema.make_id(:schema.store_time(), 0);
    act    record;
BEGIN
    PERFORM :schema.check_act(execution_id, reason);
    SELECT a.outcome, a.detail INTO act FROM :schema.retry_items(ARRAY[execution_id], ARRAY[new_id], :schema.actor(), reason) a;
    IF act.outcome = 'retried' THEN
        PERFORM :schema.refuse('conflict', format('execution %s is retried: it was retried already, as %s', execution_id, act.detail),
                               NULL);
    ELSIF act.outcome IN ('workspace_not_found', 'workflow_disabled') THEN
        PERFORM :schema.refuse(act.outcome, format('execution %s is %s: its %s, so it cannot be retried', execution_id, act.detail,
                                                   CASE act.outcome WHEN 'workflow_disabled' THEN 'workflow is disabled or deleted'
                                                        ELSE 'workspace is deleted' END), NULL);
    ELSIF act.outcome <> 'changed' THEN
        PERFORM :schema.refuse_act(execution_id, act.detail,
                                   CASE WHEN act.detail = 'COMPLETED' THEN 'only a FAILED or CANCELLED one can be retried'
                                        ELSE 'it has not ended' END);
    END IF;
    RETURN new_id;
END
$$;

REVOKE ALL ON FUNCTION :schema.retry(uuid, text) FROM PUBLIC;
