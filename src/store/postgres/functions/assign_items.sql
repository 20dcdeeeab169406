-- Records assignments: item ids[i] goes to node nodes[i]; handed[i]: it is held without a node and is taken over. One fence for the
-- whole set. The update finds each row by its primary key and waits for other transactions up to lock_timeout; with skip_locked it takes
-- only rows that it can lock at once.
--
-- Rows, with the place i of the item: is_taken and what the item's node must know; or not is_taken: it could have been taken, but
-- another transaction has its row, or its node does not live. Items without a row are gone.
-- Locks: nodes FOR KEY SHARE, the items. Caller: schedule(), which has checked the epoch.
CREATE OR REPLACE FUNCTION :schema.assign_items(own_node bigint, ids uuid[], nodes bigint[], handed boolean[], skip_locked boolean)
RETURNS TABLE (place integer, is_taken boolean, fence bigint, definition_id bigint, attempts bigint, interruptions bigint,
               priority bigint, created_at bigint, run_at bigint, claimed_at bigint, dispatched_at bigint, cancel_requested boolean,
               deferrals integer, params bytea)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now_us constant bigint := :schema.store_time();
    set_fence constant bigint := nextval(':schema.fences');
    places integer[] := ARRAY(SELECT generate_series(1, cardinality(ids)));
    free_ids uuid[] := ids;
    free_nodes bigint[] := nodes;
    free_handed boolean[] := handed;
    alive bigint[];
    taken integer;
BEGIN
    alive := :schema.lock_targets(nodes, skip_locked);
    IF skip_locked THEN
        SELECT array_agg(l.place), array_agg(l.id), array_agg(l.node), array_agg(l.handed)
        INTO places, free_ids, free_nodes, free_handed
        FROM (SELECT a.place, a.id, a.node, a.handed
              FROM unnest(places, ids, nodes, handed) a (place, id, node, handed)
              JOIN :schema.workflow_execution_queue q ON q.id = a.id
              FOR NO KEY UPDATE OF q SKIP LOCKED) l;
    END IF;
    RETURN QUERY
    WITH taken AS (
        UPDATE :schema.workflow_execution_queue q
        SET status = CASE WHEN a.handed THEN q.status ELSE 'CLAIMED' END, phase = 2, node_id = a.node, fence = set_fence,
            claimed_at = greatest(now_us, q.created_at), cancel_sent = q.cancel_sent OR a.handed
        FROM unnest(places, free_ids, free_nodes, free_handed) a (place, id, node, handed)
        WHERE q.id = a.id AND a.node = ANY (alive)
          AND (NOT a.handed AND q.phase = 0 OR a.handed AND q.phase = 2 AND q.node_id = 0)
        RETURNING a.place, a.handed, q.id, q.lane_id, q.definition_id, q.attempts, q.deferrals, q.interruptions, q.priority,
                  q.created_at, q.run_at, q.claimed_at, q.dispatched_at, q.cancel_at, q.has_params AND q.node_id = own_node AS with_params
    ), news AS (
        INSERT INTO :schema.news (at, kind, node_id, lanes, runnable, held)
        SELECT now_us, 2, own_node, array_agg(l.lane_id), array_agg(-l.items), array_agg(l.items)
        FROM (SELECT t.lane_id, count(*)::integer AS items FROM taken t WHERE NOT t.handed GROUP BY t.lane_id) l
        HAVING count(*) > 0
    )
    SELECT t.place, true, set_fence, t.definition_id, t.attempts::bigint, t.interruptions::bigint, t.priority::bigint, t.created_at,
           t.run_at, t.claimed_at, t.dispatched_at, t.cancel_at IS NOT NULL, t.deferrals,
           CASE WHEN t.with_params THEN (SELECT p.params FROM :schema.execution_params p WHERE p.id = t.id) END
    FROM taken t;
    GET DIAGNOSTICS taken = ROW_COUNT;
    IF taken < cardinality(ids) THEN
        RETURN QUERY
        SELECT a.place::integer, false, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint,
               NULL::bigint, NULL::bigint, NULL::bigint, NULL::boolean, NULL::integer, NULL::bytea
        FROM unnest(ids, handed) WITH ORDINALITY a (id, handed, place)
        JOIN :schema.workflow_execution_queue q ON q.id = a.id
        WHERE NOT a.handed AND q.phase = 0 OR a.handed AND q.phase = 2 AND q.node_id = 0;
    END IF;
    PERFORM :schema.notify_nodes(array_remove(alive, own_node)) WHERE cardinality(array_remove(alive, own_node)) > 0;
END
$$;
