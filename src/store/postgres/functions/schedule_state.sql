-- What the scheduler knows of the queue, the groups and the nodes: facts as in queue/scheduler.h. A node whose lease is over accepts
-- nothing, whatever its row says.
--   with_state        'queue', 'group', 'nodes', 'node', 'nodes_end', in this order
--   with_handed_over  'handed_over' per held item without a node
-- Rows: see schedule(). Locks: none. Callers: schedule(), schedule_load().
CREATE OR REPLACE FUNCTION :schema.schedule_state(with_state boolean, with_handed_over boolean)
RETURNS TABLE (tag text, n1 bigint, n2 bigint, n3 bigint, flag boolean, id uuid)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    now_us constant bigint := :schema.store_time();
BEGIN
    IF with_state THEN
        RETURN QUERY
        SELECT 'queue', NULL::bigint, NULL::bigint, NULL::bigint, s.queue_paused, NULL::uuid FROM :schema.store_state s WHERE s.id = 1;
        RETURN QUERY
        SELECT 'group', g.id::bigint, NULL::bigint, NULL::bigint, g.paused, NULL::uuid FROM :schema.executor_groups g;
        tag := 'nodes';
        RETURN NEXT;
        RETURN QUERY
        SELECT 'node', n.id, g.id::bigint, n.capacity,
               n.wish = 'run' AND n.aside IS NULL AND n.expires_at > now_us, NULL::uuid
        FROM :schema.nodes n JOIN :schema.executor_groups g ON g.name = n.executor_group
        WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL;
        tag := 'nodes_end';
        RETURN NEXT;
    END IF;
    IF with_handed_over THEN
        RETURN QUERY
        SELECT 'handed_over', q.lane_id, NULL::bigint, NULL::bigint, NULL::boolean, q.id
        FROM :schema.held_items q WHERE q.claim_node = 0;
    END IF;
END
$$;
