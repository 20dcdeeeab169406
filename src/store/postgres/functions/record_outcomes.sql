-- The outcomes of the records of a set that did not take effect, from their rows now: 'repeated', 'stale_fence', 'not_found' or
-- 'illegal_state' (record()).
--   done                the places of the records that took effect
--   ids, fences, kinds  the arguments of record()
-- Locks: none. Caller: record().
CREATE OR REPLACE FUNCTION :schema.record_outcomes(done integer[], ids uuid[], fences bigint[], kinds integer[])
RETURNS TABLE (place integer, outcome text)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN QUERY
    SELECT r.n::integer,
           CASE WHEN q.id IS NULL THEN 'not_found' WHEN q.fence <> r.fence THEN 'stale_fence'
                WHEN r.kind = 0 AND q.status = 'DISPATCHED' OR r.kind IN (1, 2, 3, 10) AND q.status = 'PENDING'
                     OR r.kind = 10 AND q.status = 'WAITING' THEN 'repeated'
                ELSE 'illegal_state' END
    FROM unnest(ids, fences, kinds) WITH ORDINALITY r (id, fence, kind, n)
    LEFT JOIN (SELECT * FROM :schema.workflow_execution_queue q WHERE q.id = ANY (ids)) q ON q.id = r.id
    WHERE (r.n IN (SELECT unnest(done))) IS NOT TRUE;
END
$$;
