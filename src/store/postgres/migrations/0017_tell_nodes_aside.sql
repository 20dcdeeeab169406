-- A node may claim nothing by its own decision: paused by its program, stopping, or made not to dispatch. Where all nodes of a group
-- are so, no_node_in_group is the reason and not ready. A node of the last version tells nothing of itself, and counts as before.
ALTER TABLE :schema.nodes ADD COLUMN aside text CHECK (aside = 'paused' OR aside = 'stopping' OR aside = 'no_dispatch');

-- Groups with a live node that claims.
CREATE OR REPLACE VIEW :schema.served_groups AS
SELECT n.executor_group, bool_or(n.engine_reachable) AS engine_reachable
FROM :schema.nodes n
WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.wish = 'run' AND n.aside IS NULL
  AND n.expires_at > (SELECT :schema.store_time())
GROUP BY n.executor_group;

CREATE OR REPLACE FUNCTION :schema.meaning_of(pending_reason text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE pending_reason
        WHEN 'handed_over' THEN 'its node died; another node takes it over with the same ids'
        WHEN 'backing_off' THEN 'its last start was refused; it is tried again when the delay is over'
        WHEN 'scheduled' THEN 'its run_at is in the future'
        WHEN 'workspace_paused' THEN 'its workspace is paused'
        WHEN 'queue_paused' THEN 'the queue is paused'
        WHEN 'no_node_in_group' THEN 'no node of its executor group claims: none lives, or all stand aside'
        WHEN 'engine_unreachable' THEN 'no node of its group reaches its engine'
        WHEN 'workspace_at_capacity' THEN 'its workspace uses all the slots of its plan'
        WHEN 'ready' THEN 'nothing holds it back; it starts when its turn comes' END
$$;

-- One that `weir node resume` lets claim again; NULL when there is none.
CREATE OR REPLACE FUNCTION :schema.paused_node(of_group text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT min(n.name) FROM :schema.nodes n
    WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > (SELECT :schema.store_time())
      AND n.executor_group = of_group AND n.wish IN ('pause', 'drain')
      AND n.aside IS NULL
$$;
