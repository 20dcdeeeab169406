-- Marks FAILED executions of a set as dealt with: they are no dead letters any more. The rows of the history are not changed. A repetition
-- changes nothing. A row per id: 'changed' or 'refused', and its state ('gone' = there is none).
-- Locks: the rows of the history, shared, so that no purge leaves a mark behind. Callers: dismiss(), dismiss_executions (queries/bulk.sql).
CREATE OR REPLACE FUNCTION :schema.dismiss_executions(ids uuid[], actor text, why text, subject text DEFAULT NULL)
RETURNS TABLE (item uuid, outcome text, detail text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us constant bigint := :schema.store_time();
    failed uuid[];
BEGIN
    SELECT array_agg(l.id) INTO failed
    FROM (SELECT h.id FROM :schema.workflow_executions h WHERE h.id = ANY (ids) AND h.status = 'FAILED' ORDER BY h.id FOR KEY SHARE) l;
    IF failed IS NOT NULL THEN
        WITH marked AS (
            INSERT INTO :schema.dismissals (execution_id, at) SELECT f.id, now_us FROM unnest(failed) f (id)
            ON CONFLICT DO NOTHING RETURNING execution_id
        )
        INSERT INTO :schema.workflow_execution_events (execution_id, at, event, actor, reason)
        SELECT m.execution_id, now_us, 'dismiss', actor, why FROM marked m;
        PERFORM :schema.record_act(actor, why, 'dismiss', coalesce(subject, ids[1]::text), NULL, NULL, cardinality(failed));
    END IF;
    RETURN QUERY
    SELECT u.id, CASE WHEN u.id = ANY (failed) THEN 'changed' ELSE 'refused' END, coalesce(q.status, h.status, 'gone')
    FROM unnest(ids) u (id) LEFT JOIN :schema.workflow_execution_queue q ON q.id = u.id
    LEFT JOIN :schema.workflow_executions h ON h.id = u.id;
END
$$;
