-- Takes items away from the nodes that hold them. The caller has locked the rows, and calls notify_news().
--   ids, why       the items, and the reason for their events
--   handovers_max  an item with so many counted handovers ends as poison
--   killed_keeper  NULL: the nodes are dead. Else the nodes live, and the keeper of the steps was killed: the ids of the items that alone
--                  had steps there
--
-- Returns the numbers of items that were handed over and that ended as poison.
--
-- 1. Events for the claim and the dispatch are written first, because the rows lose both.
-- 2. count_handovers() computes the counters from the rows before the change.
-- 3. The items get a new fence and no node. A late record of the former node names the old fence and changes nothing. The slot stays taken:
--    the scheduler assigns the items again before new ones.
-- 4. News of kind 5 takes them out of the count of each node, and a claim set without a node lists them.
-- 5. An item with a requested cancel, of which nothing can run any more (has_no_run()), ends as CANCELLED: its group may have no other
--    node.
-- 6. An item that ran alone at too many deaths is moved to the history as poison. It has no node any more, so its end (kind 4) has none.
-- Locks: none beyond those of the caller. Callers: recover(), record_give_backs().
CREATE OR REPLACE FUNCTION :schema.hand_over(ids uuid[], why text, handovers_max integer, now_us bigint, killed_keeper uuid[],
                                             OUT handed_over integer, OUT poisoned integer)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    next_fence constant bigint := nextval(':schema.fences');
    lost uuid[];
    kept uuid[];
    cancelled uuid[];
BEGIN
    PERFORM :schema.write_claim_events(ids);
    WITH before AS MATERIALIZED (
        SELECT c.id, c.node_id, c.running, c.counted, c.suspicion, c.ended FROM :schema.count_handovers(ids, killed_keeper) c
    ), taken AS (
        UPDATE :schema.workflow_execution_queue q
        SET status = 'CLAIMED', node_id = 0, fence = next_fence, handovers = q.handovers + 1, interruptions = q.interruptions + 1,
            handovers_counted = b.counted, steps_ended = b.ended, suspicion = least(b.suspicion, 1000),
            suspected_at = CASE WHEN b.running IS NULL THEN q.suspected_at ELSE now_us END
        FROM before b, :schema.workflow_execution_queue o WHERE q.id = b.id AND o.id = b.id
        RETURNING q.id, b.node_id, o.fence AS left_fence, b.running, b.counted, b.suspicion,
                  b.running IS NOT NULL AND b.counted >= handovers_max AS poison,
                  q.cancel_at IS NOT NULL AND :schema.has_no_run(q.phase, q.node_id, q.target_id, q.lane_id) AS is_cancelled
    ), event AS (
        INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence, reason, detail)
        SELECT t.id, now_us, CASE WHEN t.poison THEN 'poison' ELSE 'hand_over' END, t.node_id, next_fence, why,
               CASE WHEN t.running IS NOT NULL
                    THEN format('%s of %s while it ran %s; suspicion %s', t.counted, handovers_max, t.running, t.suspicion) END
        FROM taken t
    ), feed AS (
        INSERT INTO :schema.news (at, kind, node_id, node_held, fences, left_fences)
        SELECT now_us, 5, f.node_id, -sum(f.items), array_agg(f.fence), array_agg(f.items)
        FROM (SELECT t.node_id, t.left_fence AS fence, count(*)::integer AS items FROM taken t GROUP BY t.node_id, t.left_fence) f
        GROUP BY f.node_id
    ), claim AS (
        INSERT INTO :schema.claims (node_id, fence, at, held, size, ids)
        SELECT 0, next_fence, now_us, count(*), count(*), array_agg(t.id ORDER BY t.id) FROM taken t HAVING count(*) > 0
    )
    SELECT array_agg(t.id) FILTER (WHERE t.poison), array_agg(t.id) FILTER (WHERE NOT t.poison),
           array_agg(t.id) FILTER (WHERE NOT t.poison AND t.is_cancelled),
           count(*) FILTER (WHERE NOT t.poison), count(*) FILTER (WHERE t.poison)
    INTO lost, kept, cancelled, handed_over, poisoned FROM taken t;
    IF kept IS NOT NULL AND :schema.stream_is_read(now_us) THEN
        PERFORM :schema.write_stream(now_us, '{hand_over}', kept);
    END IF;
    IF cancelled IS NOT NULL THEN
        PERFORM :schema.move_to_history(cancelled, 'CANCELLED', NULL, NULL, now_us);
    END IF;
    IF lost IS NOT NULL THEN
        PERFORM :schema.move_to_history(lost, 'FAILED', 'poison',
                                        format('its node died %s times while it ran alone, and no step of it ended in between; '
                                               'it is not tried again', handovers_max), now_us);
    END IF;
END
$$;
