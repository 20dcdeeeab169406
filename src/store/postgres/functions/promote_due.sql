-- Makes the items that are due runnable, PENDING and WAITING ones, at most `most`, the earliest first. Rows that another transaction holds
-- stay for the next round. One row per lane, with the least rank of the items that became runnable. The end of a wait is an event; it has
-- the fence of the claim that was parked, which orders it between that claim and the next one.
-- Locks: the items. Index: queue_waiting. Caller: schedule(), which has checked the epoch.
CREATE OR REPLACE FUNCTION :schema.promote_due(now_us bigint, most integer) RETURNS TABLE (lane bigint, least_rank bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    backoffs uuid[]; -- PENDING ones
    wakes uuid[];    -- WAITING ones
BEGIN
    SELECT array_agg(d.id) FILTER (WHERE d.phase = 1), array_agg(d.id ORDER BY d.due_at) FILTER (WHERE d.phase = 3) INTO backoffs, wakes
    FROM (SELECT q.id, q.due_at, q.phase FROM :schema.workflow_execution_queue q
          WHERE q.due_at <= now_us ORDER BY q.due_at LIMIT most FOR NO KEY UPDATE SKIP LOCKED) d;
    IF backoffs IS NULL AND wakes IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH released AS (
        UPDATE :schema.workflow_execution_queue q SET phase = 0, due_at = NULL WHERE q.id = ANY (backoffs)
        RETURNING q.lane_id, q.rank
    ), woken AS (
        UPDATE :schema.workflow_execution_queue q
        SET status = 'PENDING', phase = 0, due_at = NULL, waiting_for = NULL, woken_at = now_us WHERE q.id = ANY (wakes)
        RETURNING q.lane_id, q.rank, q.id, q.fence
    ), promoted AS (
        SELECT r.lane_id, r.rank, 1 AS phase FROM released r UNION ALL SELECT w.lane_id, w.rank, 3 FROM woken w
    ), lanes AS (
        SELECT p.lane_id, min(p.rank) AS least_rank, (count(*) FILTER (WHERE p.phase = 1))::integer AS waited,
               (count(*) FILTER (WHERE p.phase = 3))::integer AS parked FROM promoted p GROUP BY p.lane_id
    ), news AS (
        INSERT INTO :schema.news (at, kind, lanes, least_rank, runnable, waiting, parked)
        SELECT now_us, 6, array_agg(l.lane_id), array_agg(l.least_rank), array_agg(l.waited + l.parked), array_agg(-l.waited),
               CASE WHEN wakes IS NOT NULL THEN array_agg(-l.parked) END FROM lanes l
        HAVING count(*) > 0
    ), wake AS (
        INSERT INTO :schema.workflow_execution_events (execution_id, at, event, fence)
        SELECT w.id, now_us, 'wake', w.fence FROM woken w
    )
    SELECT l.lane_id, l.least_rank FROM lanes l;
    IF wakes IS NOT NULL AND :schema.stream_is_read(now_us) THEN
        PERFORM :schema.write_stream(now_us, '{wake}', wakes);
    END IF;
END
$$;
