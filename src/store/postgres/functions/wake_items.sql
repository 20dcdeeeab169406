-- Ends the wait of WAITING items of a set: they are PENDING and runnable, with their rank. The event has the fence of the claim that was
-- parked, which orders it between that claim and the next one. It is a row, because it may have an actor. So the
-- item has no parked_fence then. Locks: their rows, which the caller has locked.
-- Callers: record_signals(), wake_steps(), deliver_signal(), migrate_items(), put_signal(), update_state().
CREATE OR REPLACE FUNCTION :schema.wake_items(now_us bigint, ids uuid[], actor text DEFAULT NULL, why text DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
BEGIN
    WITH woken AS (
        UPDATE :schema.workflow_execution_queue q
        SET status = 'PENDING', phase = 0, due_at = NULL, waiting_for = NULL, woken_at = now_us, parked_fence = NULL
        WHERE q.id = ANY (ids) AND q.phase = 3
        RETURNING q.lane_id, q.rank, q.id, q.fence
    ), event AS (
        INSERT INTO :schema.workflow_execution_events (execution_id, at, event, fence, actor, reason)
        SELECT w.id, now_us, 'wake', w.fence, actor, why FROM woken w
    )
    INSERT INTO :schema.news (at, kind, lanes, least_rank, runnable, parked)
    SELECT now_us, 1, array_agg(l.lane_id), array_agg(l.least_rank), array_agg(l.items), array_agg(-l.items)
    FROM (SELECT w.lane_id, min(w.rank) AS least_rank, count(*)::integer AS items FROM woken w GROUP BY w.lane_id) l
    HAVING count(*) > 0;
    PERFORM :schema.notify_news();
    IF :schema.stream_is_read(now_us) THEN
        PERFORM :schema.write_stream(now_us, '{wake}', ids);
    END IF;
END
$$;
