-- GIVEN_BACK: a node that stops gives back its items. The slot stays taken, the fence grows, and the item waits to be assigned to
-- another node. With the code keeper_lost or keeper_lost_alone (queue/suspicion.h) it is handed over, because the keeper of its steps was
-- killed. One with a requested cancel, of which nothing can run any more (has_no_run()), ends as CANCELLED. Returns the places of the
-- records that took effect. Locks: their rows. Caller: record().
CREATE OR REPLACE FUNCTION :schema.record_give_backs(recorder bigint, now_us bigint, ids uuid[], fences bigint[], kinds integer[],
                                                     codes text[], errors text[]) RETURNS integer[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    next_fence constant bigint := nextval(':schema.fences');
    handovers_max constant integer := 5; -- HANDOVERS_MAX in queue/limits.h
    places integer[];
    cancelled uuid[];
    lost uuid[];
    alone uuid[];
    lost_places integer[];
BEGIN
    SELECT array_agg(l.id), array_agg(l.id) FILTER (WHERE l.code = 'keeper_lost_alone'), array_agg(l.n::integer)
    INTO lost, alone, lost_places
    FROM (SELECT q.id, r.code, r.n FROM unnest(ids, fences, kinds, codes) WITH ORDINALITY r (id, fence, kind, code, n)
          JOIN :schema.workflow_execution_queue q ON q.id = r.id
          WHERE q.id = ANY (ids) AND r.kind = 9 AND r.code IN ('keeper_lost', 'keeper_lost_alone') AND q.fence = r.fence
            AND q.phase + 0 = 2 FOR NO KEY UPDATE OF q) l;
    IF lost IS NOT NULL THEN
        PERFORM :schema.hand_over(lost, 'its keeper was killed', handovers_max, now_us, coalesce(alone, '{}'));
    END IF;
    WITH given_back AS (
        UPDATE :schema.workflow_execution_queue q
        SET status = 'CLAIMED', node_id = 0, fence = next_fence, interruptions = q.interruptions + 1
        FROM unnest(ids, fences, kinds, codes, errors) WITH ORDINALITY r (id, fence, kind, code, error, n),
             :schema.workflow_execution_queue o
        WHERE q.id = ANY (ids) AND o.id = ANY (ids) AND r.kind = 9 AND o.id = r.id AND q.id = r.id AND q.fence = r.fence
          AND q.phase + 0 = 2
        RETURNING r.n, r.id, r.fence, r.code, r.error, o.node_id,
                  q.cancel_at IS NOT NULL AND :schema.has_no_run(q.phase, q.node_id, q.target_id, q.lane_id) AS is_cancelled
    ), event AS (
        INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence, reason, detail)
        SELECT b.id, now_us, 'give_back', recorder, b.fence, b.code, b.error FROM given_back b ORDER BY b.n
    ), feed AS (
        INSERT INTO :schema.news (at, kind, node_id, node_held, fences, left_fences)
        SELECT now_us, 5, f.node_id, -sum(f.items), array_agg(f.fence), array_agg(f.items)
        FROM (SELECT b.node_id, b.fence, count(*)::integer AS items FROM given_back b GROUP BY b.node_id, b.fence) f
        GROUP BY f.node_id
    ), claim AS (
        INSERT INTO :schema.claims (node_id, fence, at, held, size, ids)
        SELECT 0, next_fence, now_us, count(*), count(*), array_agg(b.id ORDER BY b.id) FROM given_back b HAVING count(*) > 0
    )
    SELECT array_agg(b.n::integer), array_agg(b.id) FILTER (WHERE b.is_cancelled) INTO places, cancelled FROM given_back b;
    IF cancelled IS NOT NULL THEN
        PERFORM :schema.move_to_history(cancelled, 'CANCELLED', NULL, NULL, now_us);
    END IF;
    RETURN lost_places || places;
END
$$;
