-- PARKED: DISPATCHED items become WAITING until their delay is over, or until a signal comes. One statement writes the rows, one row of
-- news, and one event for each item. It has the times of the claim that is over, because the row loses them. A record may include the start
-- of a CLAIMED item.
-- Items with a cancel that was requested are left to record_ends(). What was refused before this start is past: neither its error nor its
-- counts are left. A step that waits for its next attempt by a record of an earlier fence may have begun that attempt without a
-- record. Then the interruptions since the last park go on counting (docs/design/waiting.md, 4).
--   codes   what the items wait for: the names of wait_kind (queue/item.h)
--   seen    the number of the last signal that the engine had got
--   starts  microseconds since the engine reported a start that is not on record; NULL or -1 = the start is on record
--
-- places: of the records that took effect; started: of those with a start; signalled: the items with a signal that the engine had not got.
-- NULL = none. A dispatch of a later claim is an event where it is recorded, because the row keeps the first one.
-- Locks: their rows. Caller: park_items().
CREATE OR REPLACE FUNCTION :schema.record_parks(recorder bigint, now_us bigint, ids uuid[], fences bigint[], kinds integer[],
                                                delays bigint[], codes text[], seen bigint[], starts bigint[], OUT places integer[],
                                                OUT started integer[], OUT signalled uuid[])
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    WITH parked AS (
        UPDATE :schema.workflow_execution_queue q
        SET status = 'WAITING', phase = 3, waiting_for = r.code, node_id = 0, target_id = 0, claimed_at = NULL,
            due_at = CASE WHEN r.delay < 0 THEN 9223372036854775807 ELSE now_us + r.delay END, signals_sent = q.signals,
            error_code = NULL, error = NULL, starts_refused = 0, deferrals = 0,
            interruptions = q.interruptions + 1, stuck_at = NULL, woken_at = NULL, parked_fence = q.fence,
            interruptions_at_park = 1 + CASE
                WHEN q.interruptions > q.interruptions_at_park AND EXISTS (
                    SELECT FROM :schema.workflow_node_executions s
                    WHERE s.execution_id = q.id AND s.status = 'WAITING' AND s.fence < q.fence
                      AND (s.error_code IS NOT NULL OR s.step = 'state'))
                THEN q.interruptions_at_park ELSE q.interruptions END,
            dispatched_at = CASE WHEN q.dispatched_at IS NOT NULL THEN q.dispatched_at
                                 ELSE least(greatest(now_us - r.start, q.claimed_at),
                                            (SELECT min(s.started_at) FROM :schema.workflow_node_executions s
                                             WHERE s.execution_id = q.id AND s.fence = q.fence)) END
        FROM unnest(ids, fences, kinds, delays, codes, seen, starts) WITH ORDINALITY r (id, fence, kind, delay, code, seen, start, n),
             :schema.workflow_execution_queue o
        WHERE q.id = ANY (ids) AND o.id = ANY (ids) AND r.kind = 10 AND o.id = r.id AND q.id = r.id AND q.fence = r.fence
          AND (q.status = 'DISPATCHED' OR q.status = 'CLAIMED' AND r.start >= 0) AND q.cancel_at IS NULL
        RETURNING r.n, r.id, r.fence, r.code, q.lane_id, q.due_at, o.node_id, o.claimed_at, o.status = 'CLAIMED' AS is_start,
                  CASE WHEN o.parked_fence IS NOT NULL THEN o.woken_at END AS woken_at,
                  CASE WHEN o.woken_at IS NOT NULL THEN o.parked_fence END AS woken_fence,
                  CASE WHEN o.interruptions = 0 THEN q.dispatched_at
                       WHEN o.status = 'CLAIMED' THEN greatest(now_us - r.start, o.claimed_at) END AS dispatched_at,
                  q.signals > greatest(r.seen, 0) AS is_signalled
    ), event AS (
        INSERT INTO :schema.workflow_execution_events
            (execution_id, at, event, node_id, fence, reason, detail, claimed_at, dispatched_at, woken_at, woken_fence)
        SELECT p.id, now_us, 'park', p.node_id, p.fence, p.code, :schema.rfc3339(nullif(p.due_at, 9223372036854775807)), p.claimed_at,
               p.dispatched_at, p.woken_at, p.woken_fence
        FROM parked p ORDER BY p.n
    ), left_set AS (
        SELECT f.node_id, array_agg(f.fence) AS fences, array_agg(f.items) AS items
        FROM (SELECT p.node_id, p.fence, count(*)::integer AS items FROM parked p GROUP BY p.node_id, p.fence) f
        GROUP BY f.node_id
    ), feed AS (
        INSERT INTO :schema.news (at, kind, node_id, lanes, held, parked, due, fences, left_fences)
        SELECT now_us, 3, s.node_id, array_agg(s.lane_id), array_agg(-s.items), array_agg(s.items), nullif(min(s.due), 9223372036854775807),
               (SELECT l.fences FROM left_set l WHERE l.node_id = s.node_id), (SELECT l.items FROM left_set l WHERE l.node_id = s.node_id)
        FROM (SELECT p.node_id, p.lane_id, count(*)::integer AS items, min(p.due_at) AS due FROM parked p GROUP BY p.node_id, p.lane_id) s
        GROUP BY s.node_id
    )
    SELECT array_agg(p.n::integer), array_agg(p.n::integer) FILTER (WHERE p.is_start), array_agg(p.id) FILTER (WHERE p.is_signalled)
    INTO places, started, signalled FROM parked p;
END
$$;
