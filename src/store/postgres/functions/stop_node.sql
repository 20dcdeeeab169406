-- A node stops: gives back at most `most` of its items, and returns their number. They keep their slots and wait for another node;
-- those with a requested cancel, of which nothing can run any more (has_no_run()), end as CANCELLED. The
-- call that finds fewer items marks the node as stopped and recovered.
-- Locks: the node FOR UPDATE, so that no assignment to it is under way; then its items by ascending id. Caller: stop_node
-- (queries/nodes.sql).
CREATE OR REPLACE FUNCTION :schema.stop_node(leaver bigint, is_graceful boolean, most integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    now_us constant bigint := :schema.store_time();
    next_fence bigint;
    ids uuid[];
    cancelled uuid[];
BEGIN
    PERFORM 1 FROM :schema.nodes n WHERE n.id = leaver FOR UPDATE;
    ids := ARRAY(SELECT q.id FROM :schema.claims c CROSS JOIN LATERAL unnest(c.ids) i (id)
                 JOIN :schema.workflow_execution_queue q ON q.id = i.id
                 WHERE c.node_id = leaver AND q.fence = c.fence AND q.node_id = c.node_id AND q.phase = 2
                 ORDER BY q.id LIMIT most FOR NO KEY UPDATE OF q);
    IF cardinality(ids) > 0 THEN
        PERFORM :schema.write_claim_events(ids);
        next_fence := nextval(':schema.fences');
        INSERT INTO :schema.claims (node_id, fence, at, held, size, ids)
        VALUES (0, next_fence, now_us, cardinality(ids), cardinality(ids), ids);
        WITH given_back AS (
            UPDATE :schema.workflow_execution_queue q
            SET status = 'CLAIMED', node_id = 0, fence = next_fence, interruptions = q.interruptions + 1
            FROM :schema.workflow_execution_queue o WHERE q.id = ANY (ids) AND o.id = q.id
            RETURNING o.fence
        )
        INSERT INTO :schema.news (at, kind, node_id, node_held, fences, left_fences)
        SELECT now_us, 5, leaver, -sum(f.items), array_agg(f.fence), array_agg(f.items)
        FROM (SELECT b.fence, count(*)::integer AS items FROM given_back b GROUP BY b.fence) f;
        INSERT INTO :schema.workflow_execution_events (execution_id, at, event, node_id, fence, reason)
        SELECT i, now_us, 'give_back', leaver, next_fence, 'its node stops' FROM unnest(ids) i;
        IF :schema.stream_is_read(now_us) THEN
            PERFORM :schema.write_stream(now_us, '{give_back}', ids);
        END IF;
        cancelled := ARRAY(SELECT q.id FROM :schema.workflow_execution_queue q
                           WHERE q.id = ANY (ids) AND q.cancel_at IS NOT NULL
                             AND :schema.has_no_run(q.phase, q.node_id, q.target_id, q.lane_id));
        IF cardinality(cancelled) > 0 THEN
            PERFORM :schema.move_to_history(cancelled, 'CANCELLED', NULL, NULL, now_us);
        END IF;
    END IF;
    IF cardinality(ids) < most THEN
        UPDATE :schema.nodes n SET stopped_at = now_us, active_at = now_us, expires_at = now_us, graceful = is_graceful
        WHERE n.id = leaver AND n.stopped_at IS NULL AND n.dead_at IS NULL;
        UPDATE :schema.nodes n SET recovered_at = now_us WHERE n.id = leaver AND n.recovered_at IS NULL;
        INSERT INTO :schema.news (at, kind, node_id, workspaces) VALUES (now_us, 7, leaver, '{}');
    END IF;
    PERFORM :schema.notify_news();
    RETURN cardinality(ids);
END
$$;
