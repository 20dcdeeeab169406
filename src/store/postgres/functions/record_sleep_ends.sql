-- The ends of executions that slept once: COMPLETED, with one step that ended with them at its first attempt, and with a sleep whose row
-- is not written again. As record_plain_ends(), it has few columns and look-ups; record_ends() has all other ends.
--   sleeps            places of sleeps in the arrays of steps (slept_steps())
--   step_records, ended_ago  see record()
--   ids ... end_errors       likewise
--
-- slept_until is the end of the sleep, bounded as in record_steps().
-- places, started, claims: see record_ends().
-- Locks: the rows. Caller: end_items().
CREATE OR REPLACE FUNCTION :schema.record_sleep_ends(recorder bigint, now_us bigint, ids uuid[], fences bigint[], sleeps integer[],
                                                     step_records integer[], ended_ago bigint[], started_ago bigint[], end_steps text[],
                                                     end_states text[], end_attempts integer[], end_failures integer[],
                                                     end_exit_codes integer[], end_began_ago bigint[], end_outputs bytea[],
                                                     end_variables bytea[], end_codes text[], end_errors text[],
                                                     OUT places integer[], OUT started integer[], OUT claims bigint[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    own_ids constant uuid[] := ARRAY(SELECT ids[step_records[e]] FROM unnest(sleeps) e);
BEGIN
    WITH ended AS (
        DELETE FROM :schema.workflow_execution_queue q
        USING unnest(own_ids, sleeps) r (id, entry)
        WHERE q.id = ANY (own_ids) AND q.id = r.id AND q.fence = fences[step_records[r.entry]] AND q.phase + 0 = 2
          AND q.node_id = recorder AND q.dispatched_at IS NOT NULL
          AND end_states[step_records[r.entry]] = 'COMPLETED' AND end_attempts[step_records[r.entry]] = 1
          AND end_failures[step_records[r.entry]] = 0
          AND end_codes[step_records[r.entry]] IS NULL AND end_errors[step_records[r.entry]] IS NULL
        RETURNING q.id, q.lane_id, q.definition_id, q.run_at, q.fence, q.created_at, q.claimed_at, q.workspace_id, q.starts_refused,
                  q.deferrals, q.handovers, q.interruptions, q.priority, q.has_params, q.idempotency_key, q.traceparent, q.retry_of,
                  q.woken_at, q.parked_fence, q.dispatched_at, step_records[r.entry] AS n,
                  q.status = 'CLAIMED' AND started_ago[step_records[r.entry]] >= 0 AS is_start, coalesce(ended_ago[r.entry], 0) AS ended_ago
    ), history AS (
        INSERT INTO :schema.workflow_executions
            (id, lane_id, definition_id, run_at, fence, node_id, created_at, claimed_at, dispatched_at, finished_at, workspace_id,
             starts_refused, deferrals, handovers, interruptions, priority, has_params, status, idempotency_key, traceparent, retry_of,
             woken_at, parked_fence, restarted_at, slept_until, step, step_status, step_attempt, step_failures, step_exit_code,
             step_started_at, step_output, step_variables)
        SELECT e.id, e.lane_id, e.definition_id, e.run_at, e.fence, recorder, e.created_at, e.claimed_at, e.dispatched_at, now_us,
               e.workspace_id, e.starts_refused, e.deferrals, e.handovers, e.interruptions, e.priority, e.has_params, 'COMPLETED',
               e.idempotency_key, e.traceparent, e.retry_of, e.woken_at, e.parked_fence,
               CASE WHEN e.is_start THEN greatest(now_us - started_ago[e.n], e.claimed_at) END,
               CASE WHEN e.ended_ago > 0 THEN greatest(now_us - e.ended_ago, e.claimed_at) ELSE now_us END,
               end_steps[e.n], 'COMPLETED', 1, 0, CASE WHEN end_exit_codes[e.n] >= 0 THEN end_exit_codes[e.n] END,
               CASE WHEN end_began_ago[e.n] >= 0 THEN greatest(now_us - end_began_ago[e.n], e.claimed_at, e.dispatched_at)
                    ELSE e.dispatched_at END, end_outputs[e.n], end_variables[e.n]
        FROM ended e
    ), feed AS (
        INSERT INTO :schema.news (at, kind, node_id, lanes, held, completed, fences, left_fences)
        SELECT now_us, 4, recorder, l.lanes, l.left_slots, l.completed, f.fences, f.items
        FROM (SELECT array_agg(c.fence) AS fences, array_agg(c.items) AS items
              FROM (SELECT e.fence, count(*)::integer AS items FROM ended e GROUP BY e.fence) c) f,
             (SELECT array_agg(c.lane_id) AS lanes, array_agg(-c.items) AS left_slots, array_agg(c.items) AS completed
              FROM (SELECT e.lane_id, count(*)::integer AS items FROM ended e GROUP BY e.lane_id) c) l
        WHERE l.lanes IS NOT NULL
    )
    SELECT array_agg(e.n), array_agg(e.n) FILTER (WHERE e.is_start), array_agg(e.claimed_at)
    INTO places, started, claims FROM ended e;
END
$$;
