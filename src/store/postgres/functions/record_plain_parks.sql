-- The parks that nearly all executions have: the first one of an item, with its start, and with one step that begins to wait and has
-- nothing else to store. One statement writes the row, the step and the event of each. record_parks() and record_steps() have all others:
-- they read the row of an item twice, look for its steps, and probe for a row of each step.
--   ids ... starts            see record_parks()
--   step_records ... step_signals  see record()
--
-- No step of these executions is on record, so each row of a step is new. The claim is the first one. Its time is that of its set in
-- claims. An item of a set whose time was changed stays for record_parks(). So does one with a step that waits for its children, because
-- record_steps() plans them.
-- places, signalled: see record_parks(); each of the places is with a start. written: step_records, with NULL for each step that was
-- written here.
-- Locks: the rows. Caller: park_items().
CREATE OR REPLACE FUNCTION :schema.record_plain_parks(recorder bigint, now_us bigint, ids uuid[], fences bigint[], kinds integer[],
                                                      delays bigint[], codes text[], seen bigint[], starts bigint[],
                                                      step_records integer[], steps text[], step_states text[], step_attempts integer[],
                                                      step_failures integer[], exit_codes integer[], began_ago bigint[], due_ins bigint[],
                                                      outputs bytea[], variables bytea[], step_codes text[], step_errors text[],
                                                      step_signals text[], OUT places integer[], OUT signalled uuid[],
                                                      OUT written integer[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    on_record uuid[];
    sets record;
BEGIN
    written := step_records;
    IF recorder = 0 OR cardinality(step_records) = 0 OR cardinality(starts) = 0 THEN
        RETURN;
    END IF;
    on_record := ARRAY(SELECT s.execution_id FROM :schema.workflow_node_executions s WHERE s.execution_id = ANY (ids));
    SELECT array_agg(c.fence) AS fences, array_agg(c.at) AS times INTO sets
    FROM :schema.claims c WHERE c.node_id = recorder AND c.fence = ANY (ARRAY(SELECT DISTINCT unnest(fences)));
    WITH step AS ( -- of the places with this step alone
        SELECT s.place, s.step, s.began_ago, s.due_in, s.signal
        FROM unnest(step_records, steps, step_states, step_attempts, step_failures, exit_codes, began_ago, due_ins, step_signals)
             WITH ORDINALITY s (place, step, state, attempt, failures, exit_code, began_ago, due_in, signal, n)
        WHERE s.state = 'WAITING' AND s.attempt = 1 AND s.failures = 0 AND s.exit_code < 0
          AND (s.signal = 'children:' || s.step) IS NOT TRUE AND outputs[s.n] IS NULL AND record_plain_parks.variables[s.n] IS NULL
          AND step_codes[s.n] IS NULL AND step_errors[s.n] IS NULL
          AND step_records[s.n - 1] IS DISTINCT FROM s.place AND step_records[s.n + 1] IS DISTINCT FROM s.place
    ), parked AS (
        UPDATE :schema.workflow_execution_queue q
        SET status = 'WAITING', phase = 3, waiting_for = r.code, node_id = 0, target_id = 0, claimed_at = NULL,
            due_at = CASE WHEN r.delay < 0 THEN 9223372036854775807 ELSE now_us + r.delay END, signals_sent = q.signals,
            error_code = NULL, error = NULL, starts_refused = 0, deferrals = 0, interruptions = 1, interruptions_at_park = 1,
            stuck_at = NULL, woken_at = NULL, parked_fence = q.fence, dispatched_at = greatest(now_us - r.start, q.claimed_at)
        FROM unnest(ids, fences, kinds, delays, codes, seen, starts) WITH ORDINALITY r (id, fence, kind, delay, code, seen, start, n),
             step s, unnest(sets.fences, sets.times) c (fence, at)
        WHERE q.id = ANY (ids) AND r.kind = 10 AND q.id = r.id AND q.fence = r.fence AND s.place = r.n AND c.fence = r.fence
          AND q.status = 'CLAIMED' AND q.node_id = recorder AND r.start >= 0 AND q.cancel_at IS NULL AND q.interruptions = 0
          AND q.dispatched_at IS NULL AND q.parked_fence IS NULL AND q.claimed_at = greatest(c.at, q.created_at)
          AND (r.id IN (SELECT unnest(on_record))) IS NOT TRUE
        RETURNING r.n::integer AS n, r.id, r.fence, r.code, q.lane_id, q.due_at, greatest(c.at, q.created_at) AS claimed_at,
                  q.dispatched_at, q.signals > greatest(r.seen, 0) AS is_signalled, s.step, s.began_ago, s.due_in, s.signal
    ), step_row AS (
        INSERT INTO :schema.workflow_node_executions
            (execution_id, step, status, attempt, failures, due_at, started_at, node_id, fence, signal)
        SELECT p.id, p.step, 'WAITING', 1, 0, CASE WHEN p.due_in >= 0 THEN now_us + p.due_in END,
               CASE WHEN p.began_ago < 0 THEN p.dispatched_at ELSE greatest(now_us - p.began_ago, p.dispatched_at) END, recorder, p.fence,
               p.signal
        FROM parked p
    ), event AS (
        INSERT INTO :schema.workflow_execution_events
            (execution_id, at, event, node_id, fence, reason, detail, claimed_at, dispatched_at)
        SELECT p.id, now_us, 'park', recorder, p.fence, p.code, :schema.rfc3339(nullif(p.due_at, 9223372036854775807)), p.claimed_at,
               p.dispatched_at
        FROM parked p ORDER BY p.n
    ), feed AS (
        INSERT INTO :schema.news (at, kind, node_id, lanes, held, parked, due, fences, left_fences)
        SELECT now_us, 3, recorder, array_agg(s.lane_id), array_agg(-s.items), array_agg(s.items),
               nullif(min(s.due), 9223372036854775807), f.fences, f.items
        FROM (SELECT array_agg(c.fence) AS fences, array_agg(c.items) AS items
              FROM (SELECT p.fence, count(*)::integer AS items FROM parked p GROUP BY p.fence) c) f,
             (SELECT p.lane_id, count(*)::integer AS items, min(p.due_at) AS due FROM parked p GROUP BY p.lane_id) s
        GROUP BY f.fences, f.items
    )
    SELECT array_agg(p.n), array_agg(p.id) FILTER (WHERE p.is_signalled) INTO places, signalled FROM parked p;
    IF cardinality(places) = cardinality(step_records) THEN
        written := '{}';
    ELSIF places IS NOT NULL THEN
        written := ARRAY(SELECT CASE WHEN (r.place IN (SELECT unnest(places))) IS NOT TRUE THEN r.place END
                         FROM unnest(step_records) WITH ORDINALITY r (place, n) ORDER BY r.n);
    END IF;
END
$$;
