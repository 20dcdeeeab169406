-- The handlers of a definition that no live node of a group has, or all of them when no node has all; [] = a node has all. Also the live
-- nodes of the group, and the node that had all of them last: until its last heartbeat, or until it lost the first of them. NULL: the
-- definition has no handlers. Locks: none.
-- Callers: why_living(), status (queries/read.sql).
CREATE OR REPLACE FUNCTION :schema.missing_worker(definition_id bigint, of_group text) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_build_object(
        'handlers_missing',
        CASE WHEN EXISTS (SELECT 1 FROM :schema.live_workers o WHERE o.executor_group = of_group AND d.handlers <@ o.handlers)
             THEN '[]'
             ELSE coalesce((SELECT jsonb_agg(h.name) FROM jsonb_array_elements_text(d.handlers) h (name)
                            WHERE NOT EXISTS (SELECT 1 FROM :schema.live_workers o
                                              WHERE o.executor_group = of_group AND o.handlers ? h.name)), d.handlers) END,
        'group_nodes', (SELECT coalesce(json_agg(l.name), '[]')
                        FROM (SELECT n.name FROM :schema.nodes n
                              WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL
                                AND n.executor_group = of_group AND n.expires_at > (SELECT :schema.store_time())
                              ORDER BY n.id LIMIT 20) l),
        'no_worker_since', :schema.rfc3339(p.active_at), 'last_worker', p.name, 'last_worker_language', p.language)
    FROM :schema.workflow_definitions d
    LEFT JOIN LATERAL (SELECT n.name, n.language, coalesce((SELECT min(l.value::bigint) FROM jsonb_each_text(n.handlers_left) l
                                                            WHERE d.handlers ? l.key), n.active_at) AS active_at
                       FROM :schema.nodes n
                       WHERE n.executor_group = of_group
                         AND d.handlers <@ (n.handlers || to_jsonb(ARRAY(SELECT jsonb_object_keys(n.handlers_left))))
                       ORDER BY 3 DESC LIMIT 1) p ON true
    WHERE d.id = missing_worker.definition_id AND d.handlers <> '[]'
$$;
