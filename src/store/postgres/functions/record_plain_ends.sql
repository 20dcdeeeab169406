-- The ends that nearly all executions have: COMPLETED, with one step that ended with it at its first attempt. record_ends() has all others.
-- Each column and expression of a statement adds to the price of a row, so this statement has few of them.
--   ids ... end_errors  see record(). No execution of the set that is still held has a row in workflow_node_executions
--
-- Nothing is done if a step of the set has more to store. An item stays for record_ends() if it has another node, no step, a step of a
-- later attempt, or an earlier claim that ran. A row is deleted under the same conditions as there.
--
-- places, started, claims: see record_ends().
-- Locks: the rows. Caller: end_items().
CREATE OR REPLACE FUNCTION :schema.record_plain_ends(recorder bigint, now_us bigint, ids uuid[], fences bigint[], kinds integer[],
                                                     started_ago bigint[], end_steps text[], end_states text[], end_attempts integer[],
                                                     end_failures integer[], end_exit_codes integer[], end_began_ago bigint[],
                                                     end_outputs bytea[], end_variables bytea[], end_codes text[], end_errors text[],
                                                     OUT places integer[], OUT started integer[], OUT claims bigint[])
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    -- A place without a step of an end has no state, no attempt and no failure.
    IF recorder = 0 OR cardinality(end_codes) + cardinality(end_errors) > 0 OR ('COMPLETED' = ALL (end_states)) IS FALSE
       OR 0 <> ANY (end_failures) THEN
        RETURN;
    END IF;
    WITH ended AS (
        DELETE FROM :schema.workflow_execution_queue q
        USING unnest(ids, fences, kinds) WITH ORDINALITY r (id, fence, kind, n)
        WHERE q.id = ANY (ids) AND q.id = r.id AND q.fence = r.fence AND q.phase + 0 = 2
          AND r.kind = 6 AND q.node_id = recorder AND q.interruptions = 0 AND end_attempts[r.n] = 1
        RETURNING q.id, q.lane_id, q.definition_id, q.run_at, q.fence, q.created_at, q.claimed_at, q.workspace_id, q.starts_refused,
                  q.deferrals, q.handovers, q.priority, q.has_params, q.idempotency_key, q.traceparent, q.retry_of, q.woken_at,
                  q.parked_fence, r.n::integer AS n, q.status = 'CLAIMED' AND started_ago[r.n] >= 0 AS is_start,
                  CASE WHEN started_ago[r.n] >= 0 THEN coalesce(q.dispatched_at, greatest(now_us - started_ago[r.n], q.claimed_at))
                       ELSE q.dispatched_at END AS started_at
    ), history AS (
        INSERT INTO :schema.workflow_executions
            (id, lane_id, definition_id, run_at, fence, node_id, created_at, claimed_at, dispatched_at, finished_at, workspace_id,
             starts_refused, deferrals, handovers, interruptions, priority, has_params, status, idempotency_key, traceparent, retry_of,
             woken_at, parked_fence, step, step_status, step_attempt, step_failures, step_exit_code, step_started_at,
             step_output, step_variables)
        SELECT e.id, e.lane_id, e.definition_id, e.run_at, e.fence, recorder, e.created_at, e.claimed_at, e.started_at, now_us,
               e.workspace_id, e.starts_refused, e.deferrals, e.handovers, 0, e.priority, e.has_params, 'COMPLETED',
               e.idempotency_key, e.traceparent, e.retry_of, e.woken_at, e.parked_fence, end_steps[e.n], 'COMPLETED', 1, 0,
               CASE WHEN end_exit_codes[e.n] >= 0 THEN end_exit_codes[e.n] END,
               CASE WHEN end_began_ago[e.n] >= 0 THEN greatest(now_us - end_began_ago[e.n], e.claimed_at, e.started_at)
                    ELSE coalesce(e.started_at, now_us) END, end_outputs[e.n], end_variables[e.n]
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
