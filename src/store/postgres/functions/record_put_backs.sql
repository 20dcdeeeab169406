-- RETRY, DEFERRED, PUT_BACK: CLAIMED items become PENDING again, with one event each and one row of news. Items with a cancel that was
-- requested are left to record_ends(). An event is left out when it would repeat the last one, see put_back_is_repeated(). Returns the
-- places of the records that took effect. An item that another node can run is not held up for longer than 1 s
-- (WORKER_ELSEWHERE_US) because this node cannot. Locks: their rows. Caller: record().
CREATE OR REPLACE FUNCTION :schema.record_put_backs(recorder bigint, now_us bigint, ids uuid[], fences bigint[], kinds integer[],
                                                    delays bigint[], codes text[], errors text[]) RETURNS integer[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    places integer[];
BEGIN
    WITH put_back AS (
        UPDATE :schema.workflow_execution_queue q
        SET status = 'PENDING', phase = CASE WHEN r.delay > 0 THEN 1 ELSE 0 END,
            due_at = CASE WHEN r.delay > 1000000 AND r.kind = 2 AND r.code = 'unknown_handler'
                               AND :schema.has_worker(q.definition_id, q.lane_id, q.node_id) THEN now_us + 1000000
                          WHEN r.delay > 0 THEN now_us + r.delay END, node_id = 0, target_id = 0, claimed_at = NULL,
            starts_refused = q.starts_refused + CASE r.kind WHEN 1 THEN 1 ELSE 0 END,
            deferrals = q.deferrals + CASE r.kind WHEN 2 THEN 1 ELSE 0 END,
            error_code = coalesce(r.code, q.error_code), error = coalesce(r.error, q.error)
        FROM unnest(ids, fences, kinds, delays, codes, errors) WITH ORDINALITY r (id, fence, kind, delay, code, error, n),
             :schema.workflow_execution_queue o
        WHERE q.id = ANY (ids) AND o.id = ANY (ids) AND r.kind IN (1, 2, 3) AND o.id = r.id AND q.id = r.id AND q.fence = r.fence
          AND q.status = 'CLAIMED' AND q.cancel_at IS NULL
        RETURNING r.n, r.id, r.fence, r.kind, r.code, r.error, q.phase, q.lane_id, q.rank, q.due_at, o.node_id,
                  :schema.put_back_is_repeated(o.id, r.kind, o.deferrals, o.interruptions, r.code, o.error_code) AS is_repeated
    ), event AS (
        INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence, reason, detail)
        SELECT b.id, now_us, (ARRAY['retry', 'defer', 'put_back'])[b.kind], recorder, b.fence, b.code, b.error
        FROM put_back b WHERE b.is_repeated IS NOT TRUE ORDER BY b.n
    ), left_set AS (
        SELECT f.node_id, array_agg(f.fence) AS fences, array_agg(f.items) AS items
        FROM (SELECT b.node_id, b.fence, count(*)::integer AS items FROM put_back b GROUP BY b.node_id, b.fence) f
        GROUP BY f.node_id
    ), feed AS (
        INSERT INTO :schema.news (at, kind, node_id, lanes, runnable, waiting, held, least_rank, due, fences, left_fences)
        SELECT now_us, 3, s.node_id, array_agg(s.lane_id), array_agg(s.runnable), array_agg(s.waiting), array_agg(-s.held),
               array_agg(s.least_rank), min(s.due), (SELECT l.fences FROM left_set l WHERE l.node_id = s.node_id),
               (SELECT l.items FROM left_set l WHERE l.node_id = s.node_id)
        FROM (SELECT b.node_id, b.lane_id, count(*)::integer AS held, (count(*) FILTER (WHERE b.phase = 0))::integer AS runnable,
                     (count(*) FILTER (WHERE b.phase = 1))::integer AS waiting, min(b.rank) FILTER (WHERE b.phase = 0) AS least_rank,
                     min(b.due_at) AS due
              FROM put_back b GROUP BY b.node_id, b.lane_id) s
        GROUP BY s.node_id
    )
    SELECT array_agg(b.n::integer) INTO places FROM put_back b;
    RETURN places;
END
$$;
