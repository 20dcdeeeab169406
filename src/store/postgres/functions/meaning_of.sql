-- The meaning of a pending_reason for people (PENDING_REASON_LIST in queue/item.h). Caller: why_living().
CREATE OR REPLACE FUNCTION :schema.meaning_of(pending_reason text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE pending_reason
        WHEN 'quarantined' THEN 'nodes died while it ran; it waits for a node without any other execution'
        WHEN 'handed_over' THEN 'its node died or gave it back; another node takes it over with the same ids'
        WHEN 'backing_off' THEN 'its last start was refused; it is tried again when the delay is over'
        WHEN 'scheduled' THEN 'its run_at is in the future'
        WHEN 'workspace_paused' THEN 'its workspace is paused'
        WHEN 'queue_paused' THEN 'the queue is paused'
        WHEN 'no_node_in_group' THEN 'no node of its group accepts work: none is alive, or all are paused, drained or stopping'
        WHEN 'no_node_for_engine'
        THEN 'no node of its group has the engine that it needs or, once it was started, the service to ask; a slot stays taken'
        WHEN 'engine_unreachable' THEN 'no node of its group reaches its engine'
        WHEN 'no_worker' THEN 'no live node of its group has the handlers that it needs; it starts when one comes up'
        WHEN 'no_scheduler' THEN 'no node schedules, so nothing is assigned'
        WHEN 'workspace_at_capacity' THEN 'its workspace uses all the slots of its plan'
        WHEN 'nodes_full' THEN 'no node that could run it has free capacity; it starts when an execution ends there'
        WHEN 'ready' THEN 'nothing holds it back; it starts when its turn comes'
        WHEN 'sleep' THEN 'a step of it sleeps; it uses no slot meanwhile'
        WHEN 'retry' THEN 'a step of it waits for its next attempt; it uses no slot meanwhile'
        WHEN 'signal' THEN 'a step of it waits for a signal; it uses no slot meanwhile'
        WHEN 'approval' THEN 'a step of it waits for an approval; it uses no slot meanwhile'
        WHEN 'child' THEN 'a step of it waits for executions that it has started; it uses no slot meanwhile'
        WHEN 'callback' THEN 'a step of it waits for the report of its function; it uses no slot meanwhile'
        WHEN 'manual' THEN 'its state waits for a person, who moves it on with `weir update`; it uses no slot meanwhile' END
$$;
