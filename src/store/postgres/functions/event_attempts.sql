-- Stores attempts of steps that another attempt follows. These are the lost attempts of the attempt arrays, and attempts that were recorded
-- as RUNNING and were interrupted when their node lost the item.
--   done                     the places of the records that took effect
--   attempt_records ...      the lost attempts, see record_events()
--   begun_places ...         the unfinished rows of steps, as they were before the records; NULL = no record of the set has the step
--   followed_by              the attempt that is recorded now
-- Locks: the rows of the steps. Caller: record_events().
CREATE OR REPLACE FUNCTION :schema.event_attempts(recorder bigint, now_us bigint, done integer[], ids uuid[], fences bigint[],
                                                  attempt_records integer[], attempt_steps text[], attempts integer[],
                                                  attempt_states text[], attempt_exit_codes integer[], attempt_codes text[],
                                                  attempt_errors text[], begun_places integer[], begun_steps text[],
                                                  begun_states text[], begun_attempts integer[], followed_by integer[],
                                                  begun_starts bigint[], begun_nodes bigint[],
                                                  begun_fences bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF cardinality(attempt_records) > 0 THEN
        INSERT INTO :schema.workflow_node_attempts
            (execution_id, step, attempt, status, exit_code, started_at, finished_at, node_id, fence, error_code, error)
        SELECT ids[a.place], a.step, a.attempt, a.status, CASE WHEN a.exit_code >= 0 THEN a.exit_code END,
               coalesce(b.started_at, (SELECT o.started_at FROM :schema.workflow_node_executions o
                                       WHERE o.execution_id = ids[a.place] AND o.step = a.step AND o.attempt = a.attempt), now_us),
               now_us, recorder, fences[a.place], a.code, a.error
        FROM unnest(attempt_records, attempt_steps, attempts, attempt_states, attempt_exit_codes, attempt_codes, attempt_errors)
             a (place, step, attempt, status, exit_code, code, error)
        LEFT JOIN unnest(begun_places, begun_steps, begun_attempts, begun_starts) b (place, step, attempt, started_at)
          ON ids[b.place] = ids[a.place] AND b.step = a.step AND b.attempt = a.attempt
        WHERE a.place = ANY (done)
        ON CONFLICT DO NOTHING;
    END IF;
    IF begun_places IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO :schema.workflow_node_attempts
        (execution_id, step, attempt, status, started_at, finished_at, node_id, fence)
    SELECT ids[b.place], b.step, b.attempt, 'INTERRUPTED', b.started_at,
           coalesce((SELECT min(e.at) FROM :schema.workflow_execution_events e
                     WHERE e.execution_id = ids[b.place] AND e.event IN ('hand_over', 'give_back') AND e.at >= b.started_at
                       AND e.fence >= b.fence), now_us),
           b.node_id, b.fence
    FROM unnest(begun_places, begun_steps, begun_states, begun_attempts, followed_by, begun_starts, begun_nodes, begun_fences)
         b (place, step, status, attempt, followed_by, started_at, node_id, fence)
    WHERE b.place = ANY (done) AND b.status = 'RUNNING' AND b.attempt < b.followed_by
    ON CONFLICT DO NOTHING;
END
$$;
