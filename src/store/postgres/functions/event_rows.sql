-- Inserts the events of records that took effect where the rows lose them: claims that were put back or given back, and dispatches under a
-- later claim. Those of parks and of ends are written with them. A put-back without an event (record_put_backs()) has none
-- of its claim either.
--   done                    the places of the records that took effect
--   ids ... codes           the arguments of record()
--   places ... repeats      the rows before the records; `repeats` see put_back_is_repeated()
-- Locks: none but its own rows. Caller: record_events().
CREATE OR REPLACE FUNCTION :schema.event_rows(now_us bigint, done integer[], ids uuid[], fences bigint[], kinds integer[],
                                                started_ago bigint[], codes text[], places integer[], nodes bigint[], claims bigint[],
                                                interruptions integer[], repeats boolean[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    WITH ended_claim AS (
        SELECT ids[h.place] AS id, kinds[h.place] AS kind, h.node_id, fences[h.place] AS fence, h.claimed_at, h.interruptions,
               started_ago[h.place] AS started_ago,
               NOT h.is_repeated AS is_new
        FROM unnest(places, nodes, claims, interruptions, repeats) h (place, node_id, claimed_at, interruptions, is_repeated)
        WHERE h.place = ANY (done) AND h.node_id <> 0
          AND (codes[h.place] IN ('keeper_lost', 'keeper_lost_alone')) IS NOT TRUE -- hand_over() has written its events
    ), living AS (
        SELECT q.id, q.dispatched_at FROM :schema.workflow_execution_queue q WHERE q.id = ANY (ids)
    )
    INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence)
    SELECT t.id, t.at, t.event, t.node_id, t.fence
    FROM (SELECT s.id, s.claimed_at AS at, 'claim' AS event, s.node_id, s.fence, 1 AS stage
          FROM ended_claim s JOIN living l ON l.id = s.id WHERE s.kind IN (1, 2, 3, 9) AND s.is_new
          UNION ALL
          SELECT s.id, l.dispatched_at, 'dispatch', s.node_id, s.fence, 2
          FROM ended_claim s JOIN living l ON l.id = s.id WHERE s.kind = 9 AND s.interruptions = 0
          UNION ALL
          SELECT s.id, greatest(now_us - s.started_ago, s.claimed_at), 'dispatch', s.node_id, s.fence, 2
          FROM ended_claim s WHERE s.interruptions > 0 AND s.kind = 0) t
    WHERE t.at IS NOT NULL ORDER BY t.id, t.stage;
END
$$;
