-- DISPATCHED: CLAIMED items of the set have started, and not after the first step of this claim. A set of steps may be on record before the
-- start, and durations of two sets differ by the wait of each set. Returns the places of the records that took effect.
-- Locks: their rows. Caller: record().
CREATE OR REPLACE FUNCTION :schema.record_starts(now_us bigint, ids uuid[], fences bigint[], kinds integer[], started_ago bigint[])
RETURNS integer[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    places integer[];
BEGIN
    WITH changed AS (
        UPDATE :schema.workflow_execution_queue q
        SET status = 'DISPATCHED',
            dispatched_at = coalesce(q.dispatched_at,
                                     least(greatest(now_us - r.started_ago, q.claimed_at),
                                           (SELECT min(s.started_at) FROM :schema.workflow_node_executions s
                                            WHERE s.execution_id = q.id AND s.fence = q.fence)))
        FROM unnest(ids, fences, kinds, started_ago) WITH ORDINALITY r (id, fence, kind, started_ago, n)
        WHERE q.id = ANY (ids) AND r.kind = 0 AND q.id = r.id AND q.fence = r.fence AND q.status = 'CLAIMED'
        RETURNING r.n
    )
    SELECT array_agg(c.n::integer) INTO places FROM changed c;
    RETURN places;
END
$$;
