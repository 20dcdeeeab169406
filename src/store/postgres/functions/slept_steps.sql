-- The sleeps that end together with their execution and need no write of their row: the history has the time of their end (all_steps).
-- Such a sleep is the only step of its execution with a row, at its first attempt, and has neither an output nor an error.
--   ids ... step_signals  see record() and record_events()
-- Returns their places in the arrays of steps, ascending; NULL = none. Locks: none; only the holder of a fence writes its steps.
-- Caller: record_events(), because no other set has an execution that was parked.
CREATE OR REPLACE FUNCTION :schema.slept_steps(ids uuid[], kinds integer[], taken_over boolean[], step_records integer[], steps text[],
                                               step_states text[], step_attempts integer[], step_failures integer[], exit_codes integer[],
                                               outputs bytea[], variables bytea[], step_codes text[], step_errors text[],
                                               step_signals text[])
RETURNS integer[]
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF cardinality(step_records) = 0 OR 6 <> ALL (kinds) OR true <> ALL (taken_over) THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT array_agg(o.entry ORDER BY o.entry)
            FROM (SELECT min(r.n)::integer AS entry
                  FROM :schema.workflow_node_executions s
                  LEFT JOIN unnest(step_records, steps, step_states, step_attempts, step_failures, exit_codes) WITH ORDINALITY
                            r (place, step, state, attempt, failures, exit_code, n)
                    ON ids[r.place] = s.execution_id AND r.step = s.step AND kinds[r.place] = 6 AND taken_over[r.place]
                       AND r.state = 'COMPLETED' AND r.attempt = 1 AND r.failures = 0 AND r.exit_code < 0
                       AND outputs[r.n] IS NULL AND slept_steps.variables[r.n] IS NULL
                       AND step_codes[r.n] IS NULL AND step_errors[r.n] IS NULL AND step_signals[r.n] IS NULL
                  WHERE s.execution_id = ANY (ids)
                  GROUP BY s.execution_id
                  HAVING count(*) = 1 AND bool_and(
                      r.n IS NOT NULL AND s.status = 'WAITING' AND s.attempt = 1 AND s.failures = 0 AND s.due_at IS NOT NULL
                      AND s.exit_code IS NULL AND s.output IS NULL AND s.variables IS NULL AND s.error_code IS NULL AND s.error IS NULL
                      AND s.signal IS NULL)) o);
END
$$;
