-- Raises the refusal of an act on one execution, with the message of the library. Callers: check_act(), all functions of acts on one
-- execution.
CREATE OR REPLACE FUNCTION :schema.refuse_act(execution_id uuid, state text, why text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF state = 'gone' THEN
        PERFORM :schema.refuse('execution_not_found', format('there is no execution %s', execution_id),
                               '`weir list` shows the executions; ended ones are removed after the retention time');
    END IF;
    PERFORM :schema.refuse('illegal_state', format('execution %s is %s: %s', execution_id, state, why), NULL);
END
$$;
