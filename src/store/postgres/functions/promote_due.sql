-- Makes the items that are due runnable, PENDING and WAITING ones, at most `most`, the earliest first. Rows that another transaction holds
-- stay for the next round. Returns the lanes, and for each the least rank of the items that became runnable; NULL = none. woken_at is the
-- event of the end of a wait.
-- Locks: the items. Index: queue_waiting. Caller: schedule(), which has checked the epoch.
CREATE OR REPLACE FUNCTION :schema.promote_due(now_us bigint, most integer, OUT lanes bigint[], OUT ranks bigint[])
LANGUAGE plpgsql AS $$
DECLARE
    backoffs tid[]; -- PENDING ones
    parked   tid[]; -- WAITING ones
    wakes    uuid[];
BEGIN
    SELECT array_agg(d.at) FILTER (WHERE d.phase = 1), array_agg(d.at) FILTER (WHERE d.phase = 3),
           array_agg(d.id ORDER BY d.due_at) FILTER (WHERE d.phase = 3) INTO backoffs, parked, wakes
    FROM (SELECT q.ctid AS at, q.id, q.due_at, q.phase FROM :schema.workflow_execution_queue q
          WHERE q.due_at <= now_us ORDER BY q.due_at LIMIT most FOR NO KEY UPDATE SKIP LOCKED) d;
    IF backoffs IS NULL AND parked IS NULL THEN
        RETURN;
    END IF;
    WITH released AS (
        UPDATE :schema.workflow_execution_queue q SET phase = 0, due_at = NULL WHERE q.ctid = ANY (backoffs)
        RETURNING q.lane_id, q.rank
    ), woken AS (
        UPDATE :schema.workflow_execution_queue q
        SET status = 'PENDING', phase = 0, due_at = NULL, waiting_for = NULL, woken_at = now_us WHERE q.ctid = ANY (parked)
        RETURNING q.lane_id, q.rank
    ), lane AS (
        SELECT p.lane_id, min(p.rank) AS least_rank, (count(*) FILTER (WHERE p.phase = 1))::integer AS waited,
               (count(*) FILTER (WHERE p.phase = 3))::integer AS parked
        FROM (SELECT r.lane_id, r.rank, 1 AS phase FROM released r UNION ALL SELECT w.lane_id, w.rank, 3 FROM woken w) p
        GROUP BY p.lane_id
    ), feed AS (
        INSERT INTO :schema.news (at, kind, lanes, least_rank, runnable, waiting, parked)
        SELECT now_us, 6, array_agg(l.lane_id), array_agg(l.least_rank), array_agg(l.waited + l.parked), array_agg(-l.waited),
               CASE WHEN wakes IS NOT NULL THEN array_agg(-l.parked) END FROM lane l
        HAVING count(*) > 0
    )
    SELECT array_agg(l.lane_id), array_agg(l.least_rank) INTO lanes, ranks FROM lane l;
    IF wakes IS NOT NULL AND :schema.stream_is_read(now_us) THEN
        PERFORM :schema.write_stream(now_us, '{wake}', wakes);
    END IF;
END
$$;
