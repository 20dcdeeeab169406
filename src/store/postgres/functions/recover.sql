-- Declares nodes dead and hands over their items, at most `most` in a call.
--   group_name                NULL = all groups
--   gone                      nodes of the caller's machine without their processes: their lease need not end first
--   silent, silent_beats      nodes without a new heartbeat for their lease, by the clock of the caller, and their numbers of heartbeats
--   watched_server            the server_identity() under which the caller has watched them
--   stale_ids, stale_fences   claims that are too old (stale_claims in queries/nodes.sql)
--   handovers_max             see hand_over()
-- Returns the numbers of items and nodes; more: call again; names: of the first 16 nodes, NULL = none.
--
-- 1. Silent nodes that still have that number of heartbeats, and those of `gone`, are declared dead. No clock of the server decides, since
--    it may be set while nodes run. A restarted, promoted or restored server may lack heartbeats: then the caller watches anew. News of
--    kind 7 stops the scheduler from using the dead nodes; their locks are freed.
-- 2. The items of dead and stopped nodes are found by their claim sets and handed over.
-- 3. A node without items is recovered: no later call reads it.
-- 4. Stale claims are handed over in the same way.
-- 5. The commit wakes the scheduler.
--
-- Several nodes may call this at once. Locks: nodes FOR UPDATE, then items, both with SKIP LOCKED: locked ones are left for the next call,
-- so no call waits. An assignment holds its nodes FOR KEY SHARE, so none to a node that is declared dead here is under way. Caller:
-- recover_items (queries/nodes.sql).
CREATE OR REPLACE FUNCTION :schema.recover(group_name text, gone bigint[], silent bigint[], silent_beats bigint[],
                                           watched_server text, stale_ids uuid[], stale_fences bigint[],
                                           handovers_max integer, most integer, OUT handed_over integer, OUT poisoned integer,
                                           OUT nodes integer, OUT more boolean, OUT names json)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    now_us constant bigint := :schema.store_time();
    dead   bigint[];
    left_by bigint[];
    ids    uuid[];
    stale  record;
BEGIN
    IF watched_server IS DISTINCT FROM :schema.server_identity() THEN
        silent := '{}';
    END IF;
    dead := ARRAY(SELECT n.id FROM :schema.nodes n
                  WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL
                    AND (n.id = ANY (gone) OR n.beats = silent_beats[array_position(silent, n.id)])
                    AND (group_name IS NULL OR n.executor_group = group_name)
                  ORDER BY n.id FOR UPDATE SKIP LOCKED);
    UPDATE :schema.nodes n
    SET dead_at = now_us,
        held_at_death = (SELECT count(*) FROM :schema.held_items q WHERE q.claim_node = n.id)
    WHERE n.id = ANY (dead);
    INSERT INTO :schema.news (at, kind, node_id, workspaces) SELECT now_us, 7, d, '{}' FROM unnest(dead) d;
    nodes := cardinality(dead);
    names := (SELECT json_agg(n.name ORDER BY n.id) FROM :schema.nodes n WHERE n.id = ANY (dead[1:16]));
    IF nodes > 0 THEN
        PERFORM :schema.free_locks_of(dead);
    END IF;
    left_by := ARRAY(SELECT n.id FROM :schema.nodes n
                     WHERE n.recovered_at IS NULL AND (n.dead_at IS NOT NULL OR n.stopped_at IS NOT NULL)
                       AND (group_name IS NULL OR n.executor_group = group_name)
                     ORDER BY n.id LIMIT 100);
    ids := ARRAY(SELECT q.id FROM :schema.claims c CROSS JOIN LATERAL unnest(c.ids) i (id)
                 JOIN :schema.workflow_execution_queue q ON q.id = i.id
                 WHERE c.node_id = ANY (left_by) AND q.fence = c.fence AND q.node_id = c.node_id AND q.phase = 2
                 LIMIT most FOR NO KEY UPDATE OF q SKIP LOCKED);
    handed_over := 0;
    poisoned := 0;
    IF cardinality(ids) > 0 THEN
        SELECT h.handed_over, h.poisoned INTO handed_over, poisoned
        FROM :schema.hand_over(ids, 'its node is gone', handovers_max, now_us, NULL) h;
    END IF;
    UPDATE :schema.nodes n SET recovered_at = now_us
    WHERE n.id = ANY (left_by) AND n.recovered_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM :schema.held_items q WHERE q.claim_node = n.id);
    more := cardinality(ids) = most OR cardinality(left_by) = 100
            OR EXISTS (SELECT 1 FROM :schema.nodes n WHERE n.id = ANY (left_by) AND n.recovered_at IS NULL);
    IF cardinality(stale_ids) > 0 THEN
        ids := ARRAY(SELECT q.id FROM :schema.workflow_execution_queue q JOIN unnest(stale_ids, stale_fences) r (id, fence) ON q.id = r.id
                     WHERE q.fence = r.fence AND q.status = 'CLAIMED' AND q.node_id > 0 FOR NO KEY UPDATE OF q SKIP LOCKED);
        IF cardinality(ids) > 0 THEN
            SELECT h.handed_over, h.poisoned INTO stale FROM :schema.hand_over(ids, 'claimed for too long', handovers_max, now_us, NULL) h;
            handed_over := handed_over + stale.handed_over;
            poisoned := poisoned + stale.poisoned;
        END IF;
    END IF;
    IF nodes + handed_over + poisoned > 0 THEN
        PERFORM :schema.notify_news();
    END IF;
END
$$;
