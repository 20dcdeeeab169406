-- The state of the queue, the groups and the nodes: facts as in queue/scheduler.h. A node without a valid lease accepts
-- nothing.
--   with_state        'queue', 'group', 'nodes', 'node', 'node_handlers', 'nodes_end', in this order; 'node_handlers' per
--                     node and set of handlers of which it has all
--   with_handed_over  'suspects'; 'handed_over' per held item without a node; 'suspect' per held item that may be on trial;
--                     'suspects_end'. Of an item on trial no step has ended since the last handover
--
-- Rows: see schedule(). Locks: none. Index: queue_suspects. Callers: schedule(), schedule_load().
CREATE OR REPLACE FUNCTION :schema.schedule_state(with_state boolean, with_handed_over boolean)
RETURNS TABLE (tag text, n1 bigint, n2 bigint, n3 bigint, n4 bigint, n5 bigint, flag boolean, id uuid)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    now_us constant bigint := :schema.store_time();
BEGIN
    IF with_state THEN
        RETURN QUERY
        SELECT 'queue', NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, s.queue_paused, NULL::uuid
        FROM :schema.store_state s WHERE s.id = 1;
        RETURN QUERY
        SELECT 'group', g.id::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, g.paused, NULL::uuid
        FROM :schema.executor_groups g;
        tag := 'nodes';
        RETURN NEXT;
        RETURN QUERY
        SELECT 'node', n.id, g.id::bigint, n.capacity, n.target_id::bigint, (n.engine = 'temporal')::integer::bigint,
               n.desired_state = 'run' AND n.not_accepting IS NULL AND n.expires_at > now_us, NULL::uuid
        FROM :schema.nodes n JOIN :schema.executor_groups g ON g.name = n.executor_group
        WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL;
        RETURN QUERY
        SELECT 'node_handlers', s.node_id, s.handler_set::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::boolean, NULL::uuid
        FROM :schema.served_sets() s;
        tag := 'nodes_end';
        RETURN NEXT;
    END IF;
    IF with_handed_over THEN
        tag := 'suspects';
        RETURN NEXT;
        RETURN QUERY
        SELECT 'handed_over', q.lane_id, q.suspicion::bigint, coalesce(q.suspected_at, 0), 0::bigint, q.target_id::bigint, NULL::boolean,
               q.id
        FROM :schema.held_items q WHERE q.claim_node = 0
        UNION ALL
        SELECT 'suspect', q.lane_id, q.suspicion::bigint, q.claimed_at, q.node_id, q.target_id::bigint, NULL::boolean, q.id
        FROM :schema.workflow_execution_queue q
        WHERE q.suspicion > 1 AND q.phase = 2 AND q.node_id > 0 AND :schema.is_suspect(q.id, q.suspicion, q.steps_ended);
        tag := 'suspects_end';
        RETURN NEXT;
    END IF;
END
$$;
