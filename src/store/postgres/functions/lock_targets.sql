-- Those of the nodes that may be given items: they live and are not paused, draining or stopping. Recovery and the stop of a node wait
-- for the caller's transaction, a heartbeat does not. The newest version of each row is found as in has_epoch().
-- Locks: the nodes FOR KEY SHARE, ascending; with skip_locked a node with a locked row is left out. Caller: assign_items().
CREATE OR REPLACE FUNCTION :schema.lock_targets(nodes bigint[], skip_locked boolean) RETURNS bigint[]
LANGUAGE plpgsql AS $$
BEGIN
    IF skip_locked THEN
        RETURN ARRAY(SELECT t.id
                     FROM (SELECT DISTINCT unnest(nodes) AS id ORDER BY 1) u
                     CROSS JOIN LATERAL (SELECT n.id FROM :schema.nodes n
                                         WHERE n.id BETWEEN u.id AND u.id AND n.dead_at IS NULL AND n.stopped_at IS NULL
                                           AND n.recovered_at IS NULL AND n.desired_state = 'run'
                                         ORDER BY n.id DESC LIMIT 1 FOR KEY SHARE SKIP LOCKED) t);
    END IF;
    RETURN ARRAY(SELECT t.id
                 FROM (SELECT DISTINCT unnest(nodes) AS id ORDER BY 1) u
                 CROSS JOIN LATERAL (SELECT n.id FROM :schema.nodes n
                                     WHERE n.id BETWEEN u.id AND u.id AND n.dead_at IS NULL AND n.stopped_at IS NULL
                                       AND n.recovered_at IS NULL AND n.desired_state = 'run'
                                     ORDER BY n.id DESC LIMIT 1 FOR KEY SHARE) t);
END
$$;
