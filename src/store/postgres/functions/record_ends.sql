-- COMPLETED, FAILED, CANCELLED and REFUSED: held items move to the history, in one statement with one row of news. So do the put
-- backs (1, 2, 3) of CLAIMED items and the parks (10) of DISPATCHED ones with a requested cancel: they end CANCELLED. A row that was put
-- back keeps its last fence, so the state decides whether an end is legal; only a start can be refused. dispatched_at stays the first
-- start; one under a later claim is in restarted_at.
--   end_steps ... end_step_errors  the step that ended together with each item, NULL = none
--   stored                         the places with a step that has a row in workflow_node_executions, which record_steps() writes instead
--   has_steps                      whether any execution of the set may have such rows
--
-- places: of the records that took effect; claims: the times of their claims; started: the places of those whose start was not on record.
-- NULL = none. Locks: their rows.
-- Caller: end_items().
CREATE OR REPLACE FUNCTION :schema.record_ends(recorder bigint, now_us bigint, ids uuid[], fences bigint[], kinds integer[],
                                               started_ago bigint[], codes text[], errors text[], end_steps text[],
                                               end_states text[], end_attempts integer[], end_failures integer[],
                                               end_exit_codes integer[], end_began_ago bigint[], end_outputs bytea[], end_variables bytea[],
                                               end_codes text[], end_errors text[], stored integer[], has_steps boolean,
                                               OUT places integer[], OUT started integer[], OUT claims bigint[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    any_other constant boolean := kinds && '{1,2,3,4,7,8,10}';
BEGIN
    WITH ended AS (
        DELETE FROM :schema.workflow_execution_queue q
        USING unnest(ids, fences, kinds, started_ago, codes, errors, end_steps, end_states, end_attempts, end_failures, end_exit_codes,
                     end_began_ago, end_outputs, end_variables, end_codes, end_errors) WITH ORDINALITY
              r (id, fence, kind, started_ago, code, reported, step, step_status, step_attempt, step_failures, step_exit_code,
                 step_began_ago, step_output, step_variables, step_error_code, step_error, n)
        WHERE q.id = ANY (ids) AND q.id = r.id AND q.fence = r.fence AND q.phase + 0 = 2
          AND (r.kind BETWEEN 6 AND 8 OR r.kind BETWEEN 1 AND 4 AND q.status = 'CLAIMED' AND (r.kind = 4 OR q.cancel_at IS NOT NULL)
               OR r.kind = 10 AND (q.status = 'DISPATCHED' OR r.started_ago >= 0) AND q.cancel_at IS NOT NULL)
        RETURNING q.id, q.lane_id, q.definition_id, q.run_at, q.fence, q.node_id, q.created_at, q.claimed_at,
                  q.workspace_id, q.starts_refused, q.deferrals, q.handovers, q.interruptions, q.priority, q.has_params,
                  q.idempotency_key, q.traceparent, q.retry_of, q.error_code, q.error, q.woken_at, q.parked_fence,
                  r.kind, r.code, r.reported, r.n, r.step, r.step_status, r.step_attempt, r.step_failures,
                  r.step_exit_code, r.step_began_ago, r.step_output,
                  r.step_variables, r.step_error_code, r.step_error,
                  r.kind IN (6, 7, 8, 10) AND q.status = 'CLAIMED' AND r.started_ago >= 0 AS is_start, r.started_ago,
                  r.step IS NOT NULL AND (stored IS NULL OR r.n <> ALL (stored)) AS with_step,
                  CASE WHEN r.started_ago >= 0 THEN
                       coalesce(q.dispatched_at,
                                least(greatest(now_us - r.started_ago, q.claimed_at),
                                      CASE WHEN has_steps THEN
                                           (SELECT min(s.started_at) FROM :schema.workflow_node_executions s
                                            WHERE s.execution_id = q.id AND s.fence = q.fence) END))
                       ELSE q.dispatched_at END AS started_at,
                  CASE r.kind WHEN 6 THEN 'COMPLETED' WHEN 4 THEN 'FAILED' WHEN 7 THEN 'FAILED' ELSE 'CANCELLED' END AS end_state
    ), history AS (
        INSERT INTO :schema.workflow_executions
            (id, lane_id, definition_id, run_at, fence, node_id, created_at, claimed_at, dispatched_at, finished_at, workspace_id,
             starts_refused, deferrals, handovers, interruptions, priority, has_params, status, idempotency_key, traceparent, retry_of,
             error_code, error, woken_at, parked_fence, restarted_at,
             step, step_status, step_attempt, step_failures, step_exit_code, step_started_at, step_output, step_variables,
             step_error_code, step_error)
        SELECT e.id, e.lane_id, e.definition_id, e.run_at, e.fence, e.node_id, e.created_at, e.claimed_at,
               e.started_at, now_us, e.workspace_id,
               e.starts_refused + CASE e.kind WHEN 4 THEN 1 ELSE 0 END, e.deferrals, e.handovers, e.interruptions, e.priority,
               e.has_params, e.end_state, e.idempotency_key, e.traceparent, e.retry_of,
               CASE WHEN e.kind <> 6 THEN coalesce(CASE WHEN e.kind <> 10 THEN e.code END, e.error_code) END,
               CASE WHEN e.kind <> 6 THEN coalesce(e.reported, e.error) END, e.woken_at, e.parked_fence,
               CASE WHEN e.is_start AND e.interruptions > 0 AND e.node_id <> 0 THEN greatest(now_us - e.started_ago, e.claimed_at) END,
               CASE WHEN e.with_step THEN e.step END, CASE WHEN e.with_step THEN e.step_status END,
               CASE WHEN e.with_step THEN e.step_attempt END, CASE WHEN e.with_step THEN e.step_failures END,
               CASE WHEN e.with_step AND e.step_exit_code >= 0 THEN e.step_exit_code END,
               CASE WHEN e.with_step AND e.step_began_ago >= 0 THEN greatest(now_us - e.step_began_ago, e.claimed_at, e.started_at)
                    WHEN e.with_step THEN coalesce(e.started_at, now_us) END,
               CASE WHEN e.with_step THEN e.step_output END, CASE WHEN e.with_step THEN e.step_variables END,
               CASE WHEN e.with_step THEN e.step_error_code END, CASE WHEN e.with_step THEN e.step_error END
        FROM ended e
    ), left_set AS (
        SELECT f.node_id, array_agg(f.fence) AS fences, array_agg(f.items) AS items
        FROM (SELECT e.node_id, e.fence, count(*)::integer AS items FROM ended e GROUP BY e.node_id, e.fence) f
        GROUP BY f.node_id
    ), feed AS (
        INSERT INTO :schema.news (at, kind, node_id, lanes, held, completed, failed, cancelled, fences, left_fences)
        SELECT now_us, 4, s.node_id, array_agg(s.lane_id), array_agg(-s.held), array_agg(s.completed),
               array_agg(s.failed) FILTER (WHERE any_other), array_agg(s.held - s.completed - s.failed) FILTER (WHERE any_other),
               (SELECT l.fences FROM left_set l WHERE l.node_id = s.node_id),
               (SELECT l.items FROM left_set l WHERE l.node_id = s.node_id)
        FROM (SELECT e.node_id, e.lane_id, count(*)::integer AS held,
                     (count(*) FILTER (WHERE e.kind = 6))::integer AS completed,
                     (count(*) FILTER (WHERE e.kind IN (4, 7)))::integer AS failed
              FROM ended e GROUP BY e.node_id, e.lane_id) s
        GROUP BY s.node_id
    )
    SELECT array_agg(e.n::integer), array_agg(e.n::integer) FILTER (WHERE e.is_start), array_agg(e.claimed_at)
    INTO places, started, claims FROM ended e;
    IF 4 = ANY (kinds) THEN
        INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence, reason, detail)
        SELECT r.id, now_us, 'refuse', recorder, r.fence, r.code, r.reported
        FROM unnest(ids, fences, kinds, codes, errors) WITH ORDINALITY r (id, fence, kind, code, reported, n)
        WHERE r.kind = 4 AND r.n = ANY (places) ORDER BY r.n;
    END IF;
END
$$;
