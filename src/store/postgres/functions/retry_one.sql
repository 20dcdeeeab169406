-- retry_executions() of one execution for callers in SQL, with the refusals of the library. Callers: retry(), retry_from().
CREATE OR REPLACE FUNCTION :schema.retry_one(execution_id uuid, reason text, keeps_finished boolean, from_step text) RETURNS uuid
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    new_id constant uuid := :schema.make_id(:schema.store_time(), 0);
    act    record;
BEGIN
    PERFORM :schema.check_act(execution_id, reason);
    SELECT a.outcome, a.detail INTO act
    FROM :schema.retry_executions(ARRAY[execution_id], ARRAY[new_id], :schema.actor(), reason, NULL, keeps_finished, from_step) a;
    IF act.outcome = 'retried' THEN
        PERFORM :schema.refuse('conflict', format('execution %s is retried: it was retried already, as %s', execution_id, act.detail),
                               NULL);
    ELSIF act.outcome IN ('workspace_not_found', 'workflow_disabled') THEN
        PERFORM :schema.refuse(act.outcome, format('execution %s is %s: its %s, so it cannot be retried', execution_id, act.detail,
                                                   CASE act.outcome WHEN 'workflow_disabled' THEN 'workflow is disabled or deleted'
                                                        ELSE 'workspace is deleted' END), NULL);
    ELSIF act.outcome = 'invalid_argument' THEN
        PERFORM :schema.refuse('invalid_argument',
                               format('execution %s is %s: its workflow has no such step to begin from; one on Temporal has no steps',
                                      execution_id, act.detail), NULL);
    ELSIF act.outcome <> 'changed' THEN
        PERFORM :schema.refuse_act(execution_id, act.detail,
                                   CASE WHEN act.detail = 'COMPLETED' THEN 'only a FAILED or CANCELLED one can be retried'
                                        ELSE 'it has not ended' END);
    END IF;
    RETURN new_id;
END
$$;
