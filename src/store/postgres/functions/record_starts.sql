-- DISPATCHED: CLAIMED items of the set have started. Returns the places of the records that took effect. Locks: their rows. Caller:
-- record().
CREATE OR REPLACE FUNCTION :schema.record_starts(now_us bigint, ids uuid[], fences bigint[], kinds integer[]) RETURNS integer[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    places integer[];
BEGIN
    WITH changed AS (
        UPDATE :schema.workflow_execution_queue q
        SET status = 'DISPATCHED', dispatched_at = coalesce(q.dispatched_at, now_us)
        FROM unnest(ids, fences, kinds) WITH ORDINALITY r (id, fence, kind, n)
        WHERE q.id = ANY (ids) AND r.kind = 0 AND q.id = r.id AND q.fence = r.fence AND q.status = 'CLAIMED'
        RETURNING r.n
    )
    SELECT array_agg(c.n::integer) INTO places FROM changed c;
    RETURN places;
END
$$;
