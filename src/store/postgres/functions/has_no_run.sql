-- Whether nothing can run of an item, so that a cancel ends it without a node. Nothing runs of one that is PENDING or WAITING. One that was
-- given back or handed over has no node: its steps ended with the former node, and its fence has grown. A start in a service outside may
-- go on there, so such an item waits for a node that asks. Callers: lock_items(), hand_over(), record_give_backs(), stop_node().
CREATE OR REPLACE FUNCTION :schema.has_no_run(phase smallint, node_id bigint, target bigint, lane_id bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT phase <> 2 OR node_id = 0 AND (lane_id >> 31) & 1 = 0
                         AND NOT EXISTS (SELECT 1 FROM :schema.engine_targets t WHERE t.id = target AND t.engine <> 'in_process')
$$;
