-- Writes steps into workflow_node_executions: those of the step arrays with a record that took effect, and those of `stored` ends, which
-- have a row already. A final step is never rewritten. A start step that ends keeps its plan, if the duty of children has not read it, so
-- that children that are left start all the same. A node that continues an attempt of another node has not started it. The rows of their
-- items are locked or deleted by this transaction: `ended` are the places of the deleted ones, and `end_claims` the times of their claims.
-- Caller: record().
CREATE OR REPLACE FUNCTION :schema.record_steps(recorder bigint, now_us bigint, done integer[], ids uuid[], fences bigint[],
                                                step_records integer[], steps text[], step_states text[], step_attempts integer[],
                                                step_failures integer[], exit_codes integer[], began_ago bigint[], due_ins bigint[],
                                                step_ends boolean[], outputs bytea[], variables bytea[], step_codes text[],
                                                step_errors text[], step_signals text[], end_steps text[], end_states text[],
                                                end_attempts integer[],
                                                end_failures integer[], end_exit_codes integer[], end_began_ago bigint[],
                                                end_outputs bytea[], end_variables bytea[], end_codes text[], end_errors text[],
                                                stored integer[], ended_ago bigint[], ended integer[], end_claims bigint[])
RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO :schema.workflow_node_executions AS old
        (execution_id, step, status, attempt, failures, exit_code, due_at, started_at, finished_at, node_id, fence, output,
         variables, error_code, error, signal)
    SELECT ids[s.place], s.step, s.state, s.attempt, s.failures, CASE WHEN s.exit_code >= 0 THEN s.exit_code END,
           CASE WHEN s.due_in >= 0 THEN now_us + s.due_in END,
           CASE WHEN e.place IS NOT NULL THEN now_us - greatest(s.began_ago, 0)
                ELSE coalesce((SELECT CASE WHEN s.began_ago < 0 THEN q.dispatched_at
                                           ELSE greatest(now_us - s.began_ago, q.claimed_at, q.dispatched_at) END
                               FROM :schema.workflow_execution_queue q WHERE q.id = ids[s.place]), now_us - greatest(s.began_ago, 0)) END,
           CASE WHEN s.ends AND s.ended_ago > 0 THEN
                greatest(now_us - s.ended_ago,
                         CASE WHEN e.place IS NOT NULL THEN e.claimed_at
                              ELSE (SELECT q.claimed_at FROM :schema.workflow_execution_queue q WHERE q.id = ids[s.place]) END)
                WHEN s.ends THEN now_us END, recorder, fences[s.place], s.output, s.variables, s.code, s.error,
           s.signal
    FROM (SELECT * FROM unnest(step_records, steps, step_states, step_attempts, step_failures, exit_codes, began_ago, due_ins, step_ends,
                               outputs, variables, step_codes, step_errors, step_signals, ended_ago)
          UNION ALL
          SELECT e.n::integer, e.step, e.state, e.attempt, e.failures, e.exit_code, e.began_ago, -1, true, e.output, e.variables,
                 e.code, e.error, NULL, 0
          FROM unnest(end_steps, end_states, end_attempts, end_failures, end_exit_codes, end_began_ago, end_outputs, end_variables,
                      end_codes, end_errors) WITH ORDINALITY
               e (step, state, attempt, failures, exit_code, began_ago, output, variables, code, error, n)
          WHERE stored IS NOT NULL AND e.n = ANY (stored))
         s (place, step, state, attempt, failures, exit_code, began_ago, due_in, ends, output, variables, code, error, signal, ended_ago)
    LEFT JOIN unnest(ended, end_claims) e (place, claimed_at) ON e.place = s.place
    WHERE (s.place IN (SELECT unnest(done))) IS TRUE -- in this form the planner uses a hash and no loop
    ON CONFLICT (execution_id, step) DO UPDATE
    SET status = excluded.status, attempt = excluded.attempt, failures = excluded.failures, exit_code = excluded.exit_code,
        due_at = excluded.due_at, finished_at = CASE WHEN excluded.finished_at < old.started_at THEN old.started_at
                                                     ELSE excluded.finished_at END, node_id = excluded.node_id, fence = excluded.fence,
        output = excluded.output,
        variables = CASE WHEN excluded.finished_at IS NOT NULL AND old.signal = 'children:' || old.step
                         THEN coalesce(excluded.variables, old.variables) ELSE excluded.variables END,
        error_code = excluded.error_code, error = excluded.error, signal = excluded.signal,
        started_at = CASE WHEN excluded.attempt > old.attempt THEN greatest(excluded.started_at, old.started_at) ELSE old.started_at END,
        start_node_id = CASE WHEN excluded.attempt > old.attempt THEN NULL
                             WHEN excluded.fence <> old.fence THEN coalesce(old.start_node_id, old.node_id) ELSE old.start_node_id END,
        start_fence = CASE WHEN excluded.attempt > old.attempt THEN NULL
                           WHEN excluded.fence <> old.fence THEN coalesce(old.start_fence, old.fence) ELSE old.start_fence END
    WHERE old.finished_at IS NULL;
    PERFORM :schema.plan_children(now_us, done, ids, step_records, steps, step_states, step_signals) WHERE cardinality(step_signals) > 0;
END
$$;
