-- Makes waiting items of a set runnable now, before their run_at or the end of their backoff.
-- A row per id: 'changed' or 'refused', and the state of the item ('gone' = there is none).
-- Locks: lock_items(). Callers: release(), release_items (queries/bulk.sql).
CREATE OR REPLACE FUNCTION :schema.release_items(ids uuid[], actor text, why text, subject text DEFAULT NULL)
RETURNS TABLE (item uuid, outcome text, detail text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us constant bigint := :schema.store_time();
    waiting uuid[];
BEGIN
    SELECT array_agg(l.id) INTO waiting FROM :schema.lock_items(ids) l WHERE l.phase = 1;
    IF waiting IS NOT NULL THEN
        WITH released AS (
            UPDATE :schema.workflow_execution_queue q SET phase = 0, due_at = NULL WHERE q.id = ANY (waiting)
            RETURNING q.id, q.lane_id, q.rank
        ), event AS (
            INSERT INTO :schema.workflow_execution_events (execution_id, at, event, actor, reason)
            SELECT r.id, now_us, 'release', actor, why FROM released r
        )
        INSERT INTO :schema.news (at, kind, lanes, runnable, waiting, least_rank)
        SELECT now_us, 1, array_agg(s.lane_id), array_agg(s.n), array_agg(-s.n), array_agg(s.least_rank)
        FROM (SELECT r.lane_id, count(*)::integer AS n, min(r.rank) AS least_rank FROM released r GROUP BY r.lane_id) s;
        PERFORM :schema.notify_news();
        IF :schema.stream_is_read(now_us) THEN
            PERFORM :schema.write_stream(now_us, '{release}', waiting);
        END IF;
        PERFORM :schema.record_act(actor, why, 'release', coalesce(subject, ids[1]::text), NULL, NULL, cardinality(waiting));
    END IF;
    RETURN QUERY
    SELECT u.id, CASE WHEN u.id = ANY (waiting) THEN 'changed' ELSE 'refused' END, coalesce(q.status, h.status, 'gone')
    FROM unnest(ids) u (id) LEFT JOIN :schema.workflow_execution_queue q ON q.id = u.id
    LEFT JOIN :schema.workflow_executions h ON h.id = u.id;
END
$$;
