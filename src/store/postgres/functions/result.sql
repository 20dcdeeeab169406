-- For callers in SQL: the result of a COMPLETED execution: the output of its last step, or the result that complete() or Temporal
-- reported. NULL = it has none. Raises execution_not_found, illegal_state. Locks: none.
CREATE OR REPLACE FUNCTION :schema.result(execution_id uuid) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    ended record;
BEGIN
    PERFORM :schema.check_act(execution_id, NULL);
    SELECT e.status, coalesce(': ' || e.error_code, '') || coalesce(': ' || e.error, '') AS why INTO ended
    FROM :schema.executions e WHERE e.id = execution_id;
    IF NOT FOUND THEN
        PERFORM :schema.refuse('execution_not_found', format('there is no execution %s', execution_id),
                               '`weir list` shows the executions; ended ones are removed after the retention time');
    ELSIF ended.status <> 'COMPLETED' THEN
        PERFORM :schema.refuse('illegal_state', format('execution %s is %s and has no result%s', execution_id, ended.status, ended.why),
                               NULL);
    END IF;
    RETURN (SELECT convert_from(s.output, 'UTF8')::jsonb FROM :schema.execution_steps s WHERE s.execution_id = result.execution_id
            ORDER BY s.started_at DESC, s.step DESC LIMIT 1);
END
$$;

REVOKE ALL ON FUNCTION :schema.result(uuid) FROM PUBLIC;
