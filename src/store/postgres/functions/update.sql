-- For callers in SQL: moves an execution whose workflow has states to another state, and sets variables, while no node holds it.
-- state: NULL = it stays. variables: a JSON object, NULL = none. if_state: only while this is the present state.
-- Returns the number of the update in the history of actions.
-- Raises execution_not_found, illegal_state, conflict (a node holds it, another state), invalid_argument. Locks: those of update_state().
CREATE OR REPLACE FUNCTION :schema.update(execution_id uuid, state text DEFAULT NULL, variables jsonb DEFAULT NULL,
                                          reason text DEFAULT NULL, if_state text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    problem text;
    done record;
BEGIN
    PERFORM :schema.check_act(execution_id, reason);
    IF state IS NULL AND variables IS NULL THEN
        PERFORM :schema.refuse('invalid_argument', 'an update needs a state or variables', NULL);
    ELSIF jsonb_typeof(variables) <> 'object' THEN
        PERFORM :schema.refuse('invalid_argument', 'the variables must be a JSON object of names and values', NULL);
    END IF;
    problem := :schema.json_problem(jsonb_build_array(variables)::text, false);
    IF problem IS NOT NULL THEN
        PERFORM :schema.refuse('invalid_argument', 'the variables are ' || problem, NULL);
    END IF;
    SELECT * INTO done FROM :schema.update_state(execution_id, state, variables::text, if_state, :schema.actor(), reason);
    IF done.outcome = 'held' THEN
        PERFORM :schema.refuse('conflict', format('a node holds execution %s, and its handler decides about the state', execution_id),
                               'repeat it when the execution is WAITING or PENDING');
    ELSIF done.outcome = 'no_states' THEN
        PERFORM :schema.refuse('illegal_state', format('the workflow of execution %s has no states', execution_id), NULL);
    ELSIF done.outcome = 'unknown_state' THEN
        PERFORM :schema.refuse('invalid_argument', format('the workflow of execution %s has no state "%s"', execution_id, done.name),
                               'its states are: ' || left(done.names, 200));
    ELSIF done.outcome = 'other_state' THEN
        PERFORM :schema.refuse('conflict', format('execution %s is in the state "%s", and the update is for another', execution_id,
                                                  done.name), 'it may have been updated already');
    ELSIF done.outcome = 'unknown_variable' THEN
        PERFORM :schema.refuse('invalid_argument', format('the workflow of execution %s has no variable "%s"', execution_id, done.name),
                               CASE WHEN done.names IS NULL THEN 'it has none' ELSE 'its variables are: ' || left(done.names, 200) END);
    ELSIF done.outcome = 'wrong_type' THEN
        PERFORM :schema.refuse('invalid_argument', format('the variable "%s" must be of the type %s', done.name, done.names), NULL);
    ELSIF done.outcome = 'too_large' THEN
        PERFORM :schema.refuse('invalid_argument', 'the variables are too long: one has at most 32768 bytes, all have 131072', NULL);
    ELSIF done.outcome <> 'updated' THEN
        PERFORM :schema.refuse_act(execution_id, done.outcome, 'it has ended and takes no update');
    END IF;
    RETURN done.action;
END
$$;

REVOKE ALL ON FUNCTION :schema.update(uuid, text, jsonb, text, text) FROM PUBLIC;
