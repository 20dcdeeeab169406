-- Since when a node does not reach its engine, by the first of its heartbeats that said so; NULL while it does.
ALTER TABLE :schema.nodes ADD COLUMN engine_unreachable_at bigint;

-- Of the live nodes of the group: since when the first of those that do not reach their engine does not. NULL when all do.
CREATE FUNCTION :schema.engine_unreachable_since(of_group text) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT min(n.engine_unreachable_at) FROM :schema.nodes n
    WHERE n.recovered_at IS NULL AND n.dead_at IS NULL AND n.stopped_at IS NULL AND n.expires_at > (SELECT :schema.store_time())
      AND NOT n.engine_reachable AND n.executor_group = of_group
$$;

-- As before, and with that; both also of what its node has claimed or runs while it does not reach its engine.
CREATE OR REPLACE FUNCTION :schema.why_living(execution_id uuid) RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT json_build_object(
        'id', e.id, 'status', e.status, 'pending_reason', e.pending_reason,
        'because', coalesce(:schema.meaning_of(e.pending_reason),
                            CASE WHEN e.dispatched_at IS NULL THEN 'its node has claimed it and starts it' ELSE 'it is running' END),
        'workspace', e.workspace, 'plan', w.plan, 'workflow', e.workflow, 'version', e.version, 'slots_used', w.slots_used,
        'slots_max', w.slots_max, 'attempts', e.attempts, 'deferrals', e.deferrals, 'handovers', e.handovers,
        'run_at', :schema.rfc3339(e.run_at), 'due_at', :schema.rfc3339(q.due_at), 'claimed_at', :schema.rfc3339(e.claimed_at),
        'dispatched_at', :schema.rfc3339(e.dispatched_at), 'node', e.node, 'executor_group', e.executor_group,
        'cancel_requested', q.cancel_at IS NOT NULL, 'error_code', e.error_code, 'error', e.error,
        'engine_error', CASE WHEN e.pending_reason = 'engine_unreachable' THEN :schema.engine_error(e.executor_group)
                             WHEN e.pending_reason IS NULL THEN n.engine_error END,
        'engine_unreachable_since',
            :schema.rfc3339(CASE WHEN e.pending_reason = 'engine_unreachable' THEN :schema.engine_unreachable_since(e.executor_group)
                                 WHEN e.pending_reason IS NULL THEN n.engine_unreachable_at END),
        'nodes_live', CASE WHEN e.pending_reason = 'no_node_in_group' THEN :schema.nodes_live(e.executor_group) END,
        'paused_node', CASE WHEN e.pending_reason = 'no_node_in_group' THEN :schema.paused_node(e.executor_group) END,
        'waiting_us', (SELECT :schema.store_time()) - q.created_at, 'attempts_max', coalesce(nullif(d.attempts_max, 0), 3),
        'slot_holders', (
            SELECT coalesce(json_agg(h), '[]')
            FROM (SELECT o.id, o.status, n.name AS node,
                         (SELECT string_agg(s.step, ', ' ORDER BY s.step) FROM :schema.workflow_node_executions s
                          WHERE s.execution_id = o.id AND s.finished_at IS NULL) AS steps,
                         (SELECT :schema.store_time()) - coalesce(o.dispatched_at, o.claimed_at) AS running_us
                  FROM :schema.workflow_execution_queue o LEFT JOIN :schema.nodes n ON n.id = o.node_id
                  WHERE o.phase = 2 AND o.workspace_id = q.workspace_id ORDER BY o.claimed_at LIMIT 20) h))
    FROM :schema.executions e
    JOIN :schema.workflow_execution_queue q ON q.id = e.id
    JOIN :schema.workspaces w ON w.id = q.workspace_id
    JOIN :schema.workflow_definitions d ON d.id = q.definition_id
    LEFT JOIN :schema.nodes n ON n.id = q.node_id AND NOT n.engine_reachable
    WHERE e.id = why_living.execution_id AND q.id = why_living.execution_id
$$;
