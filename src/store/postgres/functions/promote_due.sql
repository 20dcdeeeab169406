-- Makes the items that are due runnable, PENDING and WAITING ones, at most `most`, the earliest first. Rows that another transaction holds
-- stay for the next round. Returns the lane, the rank and the id of each item that became runnable, and when the call is due again; NULL
-- lanes = none, NULL due_us = never. woken_at is the event of the end of a wait.
-- A set of `most` items leaves more of them, so the call is due again at once. The look for the next one would read the entries of the
-- whole set again, because the index has them until the commit.
-- One row of news has 256 lanes at most: a larger one is compressed and stored outside of its page.
-- Locks: the items. Index: queue_waiting. Caller: schedule(), which has checked the epoch.
CREATE OR REPLACE FUNCTION :schema.promote_due(now_us bigint, most integer, OUT lanes bigint[], OUT ranks bigint[], OUT ids uuid[],
                                               OUT due_us bigint)
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
    IF backoffs IS NOT NULL OR parked IS NOT NULL THEN
        WITH released AS (
            UPDATE :schema.workflow_execution_queue q SET phase = 0, due_at = NULL WHERE q.ctid = ANY (backoffs)
            RETURNING q.lane_id, q.rank, q.id
        ), woken AS (
            UPDATE :schema.workflow_execution_queue q
            SET status = 'PENDING', phase = 0, due_at = NULL, waiting_for = NULL, woken_at = now_us WHERE q.ctid = ANY (parked)
            RETURNING q.lane_id, q.rank, q.id
        ), promoted AS (
            SELECT r.lane_id, r.rank, r.id, 1 AS phase FROM released r UNION ALL SELECT w.lane_id, w.rank, w.id, 3 FROM woken w
        ), lane AS (
            SELECT p.lane_id, min(p.rank) AS least_rank, (count(*) FILTER (WHERE p.phase = 1))::integer AS waited,
                   (count(*) FILTER (WHERE p.phase = 3))::integer AS parked, (row_number() OVER () - 1) / 256 AS part
            FROM promoted p GROUP BY p.lane_id
        ), feed AS (
            INSERT INTO :schema.news (at, kind, lanes, least_rank, runnable, waiting, parked)
            SELECT now_us, 6, array_agg(l.lane_id), array_agg(l.least_rank), array_agg(l.waited + l.parked),
                   CASE WHEN backoffs IS NOT NULL THEN array_agg(-l.waited) END,
                   CASE WHEN wakes IS NOT NULL THEN array_agg(-l.parked) END
            FROM lane l GROUP BY l.part
        )
        SELECT array_agg(p.lane_id), array_agg(p.rank), array_agg(p.id) INTO lanes, ranks, ids FROM promoted p;
        IF wakes IS NOT NULL AND :schema.stream_is_read(now_us) THEN
            PERFORM :schema.write_stream(now_us, '{wake}', wakes);
        END IF;
    END IF;
    due_us := CASE WHEN cardinality(lanes) = most THEN now_us ELSE :schema.due_again(now_us) END;
END
$$;
