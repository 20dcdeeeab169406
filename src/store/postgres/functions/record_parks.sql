-- PARKED: DISPATCHED items become WAITING until their delay is over, or until a signal comes, with one event each and one row of news.
-- Items with a cancel that was requested are left to record_ends(). What was refused before this start is past: neither its error nor its
-- counts are left.
-- Returns the places of the records that took effect.
--   codes   what the items wait for: the names of wait_kind (queue/item.h)
-- Locks: their rows. Caller: record().
CREATE OR REPLACE FUNCTION :schema.record_parks(recorder bigint, now_us bigint, ids uuid[], fences bigint[], kinds integer[],
                                                delays bigint[], codes text[]) RETURNS integer[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    places integer[];
BEGIN
    WITH parked AS (
        UPDATE :schema.workflow_execution_queue q
        SET status = 'WAITING', phase = 3, waiting_for = r.code, node_id = 0, target_id = 0, claimed_at = NULL,
            due_at = CASE WHEN r.delay < 0 THEN 9223372036854775807 ELSE now_us + r.delay END, signals_sent = q.signals,
            error_code = NULL, error = NULL, starts_refused = 0, deferrals = 0,
            interruptions = q.interruptions + 1, interruptions_at_park = q.interruptions + 1,
            stuck_at = NULL
        FROM unnest(ids, fences, kinds, delays, codes) WITH ORDINALITY r (id, fence, kind, delay, code, n),
             :schema.workflow_execution_queue o
        WHERE q.id = ANY (ids) AND o.id = ANY (ids) AND r.kind = 10 AND o.id = r.id AND q.id = r.id AND q.fence = r.fence
          AND q.status = 'DISPATCHED' AND q.cancel_at IS NULL
        RETURNING r.n, r.id, r.fence, r.code, q.lane_id, q.due_at, o.node_id
    ), event AS (
        INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence, reason, detail)
        SELECT p.id, now_us, 'park', recorder, p.fence, p.code, :schema.rfc3339(nullif(p.due_at, 9223372036854775807))
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
    SELECT array_agg(p.n::integer) INTO places FROM parked p;
    RETURN places;
END
$$;
