-- Makes the waiting items that are due runnable, at most `most`, the earliest first. Rows that another transaction holds stay for the
-- next round. One row per lane, with the least rank of the items that became runnable.
-- Locks: the items. Index: queue_waiting. Caller: schedule(), which has checked the epoch.
CREATE OR REPLACE FUNCTION :schema.promote_due(now_us bigint, most integer) RETURNS TABLE (lane bigint, least_rank bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH promoted AS (
        UPDATE :schema.workflow_execution_queue q SET phase = 0, due_at = NULL
        WHERE q.id = ANY (ARRAY(
            SELECT d.id FROM :schema.workflow_execution_queue d
            WHERE d.due_at <= now_us ORDER BY d.due_at LIMIT most FOR NO KEY UPDATE SKIP LOCKED))
        RETURNING q.lane_id, q.rank
    ), lanes AS (
        SELECT p.lane_id, min(p.rank) AS least_rank, count(*)::integer AS items FROM promoted p GROUP BY p.lane_id
    ), news AS (
        INSERT INTO :schema.news (at, kind, lanes, least_rank, runnable, waiting)
        SELECT now_us, 6, array_agg(l.lane_id), array_agg(l.least_rank), array_agg(l.items), array_agg(-l.items) FROM lanes l
        HAVING count(*) > 0
    )
    SELECT l.lane_id, l.least_rank FROM lanes l;
END
$$;
