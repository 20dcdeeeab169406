-- Records assignments: step 4 of schedule().
--   own_node       the node that schedules
--   ids, nodes     item ids[i] goes to node nodes[i]
--   handed[i]      the item is held without a node (after a handover or a give-back), and a node of its target takes it over
--   skip_locked    leave out rows that another transaction has locked
--   lists_woken    the caller reads `woken`
--
-- 1. lock_targets() locks the nodes FOR KEY SHARE by ascending id, and returns those that live and accept work. Recovery and the stop of a
--    node lock its row FOR UPDATE, so no item goes to a node that is declared dead meanwhile. Items behind one of their lane whose node is
--    missing there are left out: a lane keeps its order over all nodes.
-- 2. With skip_locked, the items that can be locked at once are locked, and the others are left out.
-- 3. One update moves the items under one fence for the whole set. It checks the state of each under its lock: runnable, or held without a
--    node and of the target of its new node, and of the lane's kind of engine. An item that has changed keeps its state.
-- 4. One row of `claims` per node lists its items, so that inbox() finds them without an index on the queue.
-- 5. News of kind 2 has the new holds by lane, so books and news equal the rows. The scheduler does not read its own news.
-- 6. The rows below go back, and the other nodes are notified.
--
-- The update locks the items in the order of the arguments and waits at most lock_timeout, which is below deadlock_timeout. So a cycle with
-- another transaction ends here, and the caller repeats the round with skip_locked.
--
-- Rows, with places in the arguments; other columns are NULL:
--   assigned  n1 fence, n2 time of the claim. places: assigned to other nodes. plain: assigned to own_node, and new in every other respect;
--             list1 definitions, list2 priorities and list3 creation times, in the order of plain. Behind the last one of these, list3 has
--             for each of places when it could run first, 0 = it was assigned before
--   woken     items of own_node that have been parked, and are new in every other respect. list3 has ten numbers for each. They are its
--             place, definition, priority, creation time, and when it could run first. Then its dispatch, interruptions, interruptions at
--             the last park, end of its wait, and last signal. 0 = none. places: those with a signal that no step has consumed
--   taken     place of another item of own_node: n1 definition, n2 starts_refused, n3 interruptions, n4 priority, n5 created, n6 run at,
--             n7 claimed, n8 dispatched, n9 deferrals. flag: cancel requested. trace: its trace context. data: params.
--             list2: of an item that was interrupted or has got signals. Its interruptions at the last park, whether it is a suspect,
--             when it was woken (0: never). Then whether it was handed over, and the number of its last signal. list3 {0}: it was
--             assigned before. No counter grows with a record PUT_BACK, but it leaves its code
--   locked    place: the item could have been assigned, but another transaction has its row. With flag: its node does not live or is
--             locked. With n1 = 1: it is behind such an item of its lane. An item that has no row at all has ended.
-- Locks: nodes FOR KEY SHARE, the items. Caller: schedule(), which has checked the epoch.
CREATE OR REPLACE FUNCTION :schema.assign_items(own_node bigint, ids uuid[], nodes bigint[], handed boolean[], skip_locked boolean,
                                                lists_woken boolean)
RETURNS TABLE (tag text, place integer, n1 bigint, n2 bigint, n3 bigint, n4 bigint, n5 bigint, n6 bigint, n7 bigint, n8 bigint,
               n9 bigint, flag boolean, trace text, data bytea, places integer[], plain integer[], list1 bigint[], list2 bigint[],
               list3 bigint[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now_us constant bigint := :schema.store_time(); set_fence constant bigint := nextval(':schema.fences');
    free_places integer[] := ARRAY(SELECT generate_series(1, cardinality(ids)));
    free_ids uuid[] := ids;
    open_nodes bigint[]; free_nodes bigint[];
    free_handed boolean[] := handed;
    targets integer[]; kinds bigint[]; -- of the nodes in alive; kind 1: an engine `temporal`. Others have none, so their items stay
    taken_lanes bigint[]; taken_handed integer[]; handed_fences bigint[];
    alive bigint[]; detailed integer[]; woken bigint[]; woken_places integer[]; signalled integer[]; taken integer;
BEGIN
    alive := :schema.lock_targets(nodes, skip_locked);
    open_nodes := :schema.open_nodes(ids, nodes, handed, alive);
    free_nodes := open_nodes;
    SELECT array_agg(t.target_id ORDER BY a.place), array_agg((t.engine = 'temporal')::integer::bigint ORDER BY a.place)
    INTO targets, kinds
    FROM unnest(alive) WITH ORDINALITY a (id, place)
    CROSS JOIN LATERAL (SELECT n.target_id, n.engine FROM :schema.nodes n WHERE n.id BETWEEN a.id AND a.id
                        ORDER BY n.id DESC LIMIT 1) t;
    IF skip_locked THEN
        SELECT array_agg(l.place), array_agg(l.id), array_agg(l.node), array_agg(l.handed)
        INTO free_places, free_ids, free_nodes, free_handed
        FROM (SELECT a.place, a.id, a.node, a.handed
              FROM unnest(free_places, ids, free_nodes, handed) a (place, id, node, handed)
              JOIN :schema.workflow_execution_queue q ON q.id = a.id
              FOR NO KEY UPDATE OF q SKIP LOCKED) l;
    END IF;
    handed_fences := CASE WHEN true = ANY (handed) THEN :schema.fences_of(ids) END;
    WITH taken AS (
        UPDATE :schema.workflow_execution_queue q
        SET status = CASE WHEN a.handed THEN q.status ELSE 'CLAIMED' END, phase = 2, node_id = a.node,
            target_id = targets[array_position(alive, a.node)], fence = set_fence, claimed_at = greatest(now_us, q.created_at),
            cancel_sent = q.cancel_sent OR a.handed
        FROM unnest(free_places, free_ids, free_nodes, free_handed) a (place, id, node, handed)
        WHERE q.id = a.id AND (q.lane_id >> 31) & 1 = kinds[array_position(alive, a.node)]
          AND (NOT a.handed AND q.phase = 0
               OR a.handed AND q.phase = 2 AND q.node_id = 0 AND (q.target_id = 0 OR q.target_id = targets[array_position(alive, a.node)]))
        RETURNING a.place, a.handed, q.id, q.node_id, q.lane_id, q.definition_id, q.priority, q.created_at,
                  CASE WHEN q.node_id <> own_node THEN greatest(q.run_at, q.created_at)
                       * (q.starts_refused + q.deferrals + q.interruptions = 0 AND q.error_code IS NULL)::integer END AS since,
                  q.node_id = own_node AND NOT a.handed AND q.error_code IS NULL
                  AND q.starts_refused + q.deferrals + q.interruptions = 0 AND NOT q.has_params AND q.run_at = q.created_at
                  AND q.cancel_at IS NULL AND q.traceparent IS NULL AND q.signals = 0 AS is_plain,
                  CASE WHEN lists_woken AND q.interruptions > 0 AND q.node_id = own_node AND NOT a.handed AND q.error_code IS NULL
                            AND q.starts_refused + q.deferrals + q.handovers = 0 AND q.suspicion < 2 AND NOT q.has_params
                            AND q.cancel_at IS NULL AND q.traceparent IS NULL
                       THEN ARRAY[a.place, q.definition_id, q.priority, q.created_at, q.run_at, coalesce(q.dispatched_at, 0),
                                  q.interruptions, q.interruptions_at_park, coalesce(q.woken_at, 0), q.signals] END AS woken
    ), claim AS (
        INSERT INTO :schema.claims (node_id, fence, at, held, size, ids)
        SELECT t.node_id, set_fence, now_us, count(*), count(*), array_agg(t.id ORDER BY t.id) FROM taken t GROUP BY t.node_id
    )
    SELECT count(*), array_agg(t.lane_id) FILTER (WHERE NOT t.handed), array_agg(t.place) FILTER (WHERE t.handed),
           array_agg(t.place) FILTER (WHERE t.since IS NOT NULL),
           array_agg(t.place) FILTER (WHERE NOT t.is_plain AND t.since IS NULL AND t.woken IS NULL),
           array_agg(t.place) FILTER (WHERE t.woken IS NOT NULL), array_agg(t.woken) FILTER (WHERE t.woken IS NOT NULL),
           array_agg(t.place) FILTER (WHERE t.woken[10] > 0), array_agg(t.place) FILTER (WHERE t.is_plain),
           array_agg(t.definition_id) FILTER (WHERE t.is_plain), array_agg(t.priority::bigint) FILTER (WHERE t.is_plain),
           coalesce(array_agg(t.created_at) FILTER (WHERE t.is_plain), '{}') || array_agg(t.since) FILTER (WHERE t.since IS NOT NULL)
    INTO taken, taken_lanes, taken_handed, places, detailed, woken_places, woken, signalled, plain, list1, list2, list3
    FROM taken t;
    IF taken_lanes IS NOT NULL THEN
        INSERT INTO :schema.news (at, kind, node_id, lanes, runnable, held)
        SELECT now_us, 2, own_node, array_agg(l.lane_id), array_agg(-l.items), array_agg(l.items)
        FROM (SELECT t.lane_id, count(*)::integer AS items FROM (SELECT unnest(taken_lanes) AS lane_id) t GROUP BY t.lane_id) l;
    END IF;
    IF taken_handed IS NOT NULL THEN
        INSERT INTO :schema.news (at, kind, fences, left_fences)
        SELECT now_us, 2, array_agg(f.fence), array_agg(f.items)
        FROM (SELECT handed_fences[p] AS fence, count(*)::integer AS items FROM unnest(taken_handed) p GROUP BY 1) f;
    END IF;
    PERFORM :schema.write_stream(now_us, '{claim}',
                                 ARRAY(SELECT ids[p] FROM unnest(places || detailed || woken_places || plain) p ORDER BY p))
    WHERE taken > 0 AND :schema.stream_is_read(now_us);
    tag := 'assigned'; n1 := set_fence; n2 := now_us;
    RETURN NEXT;
    RETURN QUERY SELECT t.* FROM :schema.taken_rows(ids, woken, signalled, detailed) t WHERE woken IS NOT NULL OR detailed IS NOT NULL;
    IF taken < cardinality(ids) THEN
        RETURN QUERY
        SELECT 'locked', a.place::integer, (open_nodes[a.place] = 0)::integer::bigint, NULL::bigint, NULL::bigint, NULL::bigint,
               NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, (a.node = ANY (alive)) IS NOT TRUE, NULL::text,
               NULL::bytea, NULL::integer[], NULL::integer[], NULL::bigint[], NULL::bigint[], NULL::bigint[]
        FROM unnest(ids, handed, nodes) WITH ORDINALITY a (id, handed, node, place)
        JOIN :schema.workflow_execution_queue q ON q.id = a.id
        WHERE NOT a.handed AND q.phase = 0 OR a.handed AND q.phase = 2 AND q.node_id = 0;
    END IF;
    PERFORM :schema.notify_nodes(array_remove(alive, own_node)) WHERE cardinality(array_remove(alive, own_node)) > 0;
END
$$;
