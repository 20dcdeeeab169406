-- For callers in SQL: why an execution is not running, or its state, as one JSON object. The time at which something held became due is
-- not shown. Raises execution_not_found.
CREATE OR REPLACE FUNCTION :schema.why(execution_id uuid) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer jsonb;
BEGIN
    PERFORM :schema.check_act(execution_id, NULL);
    SELECT l.living::jsonb || coalesce(:schema.place_of(execution_id)::jsonb, '{}')
           || coalesce(:schema.exclusive_lock(l.living ->> 'pending_reason'), '{}')
           || CASE WHEN l.living ->> 'status' IN ('CLAIMED', 'DISPATCHED') THEN '{"due_at": null}' ELSE '{}' END::jsonb
    INTO answer FROM (SELECT :schema.why_living(execution_id) AS living) l;
    IF answer IS NULL THEN
        answer := :schema.execution_json(execution_id)::jsonb || '{"because": "it has ended"}';
    END IF;
    IF answer IS NULL THEN
        PERFORM :schema.refuse('execution_not_found', format('there is no execution %s', execution_id),
                               '`weir list` shows the executions; ended ones are removed after the retention time');
    END IF;
    RETURN answer;
END
$$;

REVOKE ALL ON FUNCTION :schema.why(uuid) FROM PUBLIC;
