-- Why a living execution is not running, or its state; NULL when none of this id lives. One statement, so that it shows one state of
-- the store. In plpgsql for the reason of execution_json(). The slots in use are counted by rows. Indexes: the primary keys. Callers:
-- why(), why_living (queries/read.sql).
CREATE OR REPLACE FUNCTION :schema.why_living(execution_id uuid) RETURNS json
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
BEGIN
    RETURN (SELECT (jsonb_build_object(
        'id', e.id, 'status', e.status, 'pending_reason', e.pending_reason, 'waiting_for', e.waiting_for,
        'because', coalesce(:schema.meaning_of(coalesce(e.pending_reason, e.waiting_for)),
                            CASE WHEN s.active_at IS NOT NULL
                                 THEN 'its node is silent; the next node of its executor group that lives takes it over'
                                 WHEN q.status = 'CLAIMED' THEN 'its node has claimed it and starts it'
                                 WHEN e.stuck_since IS NOT NULL THEN 'it is stuck: it runs longer than its stuck_after'
                                 ELSE 'it is running' END),
        'workspace', e.workspace, 'plan', w.plan, 'workflow', e.workflow, 'version', e.version,
        'slots_used', (SELECT count(*) FROM :schema.held_items o WHERE o.workspace_id = q.workspace_id),
        'slots_max', w.slots_max, 'starts_refused', e.starts_refused, 'deferrals', e.deferrals, 'handovers', e.handovers,
        'suspicion', q.suspicion, 'suspected_at', :schema.rfc3339(q.suspected_at),
        'run_at', :schema.rfc3339(e.run_at), 'due_at', :schema.rfc3339(nullif(q.due_at, 9223372036854775807)),
        'claimed_at', :schema.rfc3339(e.claimed_at),
        'dispatched_at', :schema.rfc3339(e.dispatched_at), 'stuck_since', :schema.rfc3339(e.stuck_since),
        'unfinished_steps', :schema.unfinished_steps(e.id), 'node', e.node, 'executor_group', e.executor_group,
        'cancel_requested', q.cancel_at IS NOT NULL, 'error_code', e.error_code, 'error', e.error,
        'engine_error', CASE WHEN e.pending_reason = 'engine_unreachable' THEN :schema.engine_error(e.executor_group)
                             WHEN e.pending_reason IS NULL THEN n.engine_error END,
        'engine_unreachable_since',
            :schema.rfc3339(CASE WHEN e.pending_reason = 'engine_unreachable' THEN :schema.engine_unreachable_since(e.executor_group)
                                 WHEN e.pending_reason IS NULL THEN n.engine_unreachable_at END),
        'engine_impaired_since', CASE WHEN e.pending_reason IS NULL THEN :schema.rfc3339(n.engine_impaired_at) END,
        'record_failing_since', CASE WHEN e.pending_reason IS NULL THEN :schema.rfc3339(n.record_failed_at) END,
        'record_error', CASE WHEN e.pending_reason IS NULL THEN n.record_error END,
        'target', CASE WHEN q.phase = 2 THEN :schema.target_text(q.target_id) END,
        'engine_needed', CASE WHEN e.pending_reason = 'no_node_for_engine'
                              THEN CASE (q.lane_id >> 31) & 1 WHEN 1 THEN 'temporal' ELSE 'in_process' END END,
        'no_node_since', CASE WHEN e.pending_reason = 'no_node_for_engine'
                              THEN :schema.rfc3339(coalesce((SELECT max(o.active_at) FROM :schema.nodes o
                                                             WHERE o.executor_group = e.executor_group
                                                               AND CASE q.phase WHEN 2 THEN o.target_id = q.target_id
                                                                   ELSE (o.engine = 'temporal') = ((q.lane_id >> 31) & 1 = 1) END),
                                                            q.claimed_at, q.created_at)) END,
        'group_targets', CASE WHEN e.pending_reason = 'no_node_for_engine'
                              THEN (SELECT json_agg(:schema.target_text(t.target_id) ORDER BY t.target_id) FROM :schema.live_targets t
                                    WHERE t.executor_group = e.executor_group AND t.target_id <> 0) END,
        'node_silent_since', CASE WHEN e.pending_reason IS NULL THEN :schema.rfc3339(s.active_at) END,
        'nodes_live', CASE WHEN e.pending_reason IN ('no_node_in_group', 'handed_over', 'quarantined')
                                OR (e.pending_reason IS NULL AND s.active_at IS NOT NULL)
                           THEN :schema.nodes_live(e.executor_group) END,
        'full_nodes', CASE WHEN e.pending_reason = 'nodes_full'
                           THEN (SELECT json_build_object('nodes', count(*), 'capacity', coalesce(sum(o.capacity), 0)::bigint,
                                                          'running', coalesce(sum(o.running), 0)::bigint)
                                 FROM :schema.live_workers o
                                 WHERE o.executor_group = e.executor_group AND o.on_temporal = ((q.lane_id >> 31) & 1 = 1)
                                   AND o.engine_reachable AND d.handlers <@ o.handlers) END,
        'paused_node', CASE WHEN e.pending_reason = 'no_node_in_group' THEN :schema.paused_node(e.executor_group) END,
        'scheduler_since', CASE WHEN e.pending_reason = 'no_scheduler'
                                THEN :schema.rfc3339(nullif(CASE WHEN f.has_role THEN f.failed_at
                                                                 WHEN r.lock_awaited_at > 0 THEN r.lock_awaited_at
                                                                 WHEN r.node_id = 0 THEN r.since ELSE r.expires_at END, 0)) END,
        'scheduler_node', CASE WHEN e.pending_reason = 'no_scheduler' THEN (SELECT l.name FROM :schema.nodes l WHERE l.id = r.node_id) END,
        'scheduler_error', CASE WHEN e.pending_reason = 'no_scheduler' THEN f.error END,
        'scheduler_why', CASE WHEN e.pending_reason <> 'no_scheduler' THEN NULL WHEN f.has_role THEN 'its rounds fail'
                              WHEN r.lock_awaited_at > 0 THEN 'awaits the lock' WHEN r.node_id <> 0 THEN 'lease over'
                              ELSE coalesce(r.why, 'free') END,
        'waiting_us', (SELECT :schema.store_time()) - q.created_at, 'starts_max', coalesce(nullif(d.starts_max, 0), 3),
        'slot_holders', (
            SELECT coalesce(json_agg(h), '[]')
            FROM (SELECT o.id, o.status, n.name AS node, g.name AS executor_group,
                         CASE WHEN o.claim_node = 0 THEN :schema.nodes_live(g.name) END AS nodes_live,
                         (SELECT string_agg(s.step, ', ' ORDER BY s.step) FROM :schema.workflow_node_executions s
                          WHERE s.execution_id = o.id AND s.finished_at IS NULL) AS step_names,
                         (SELECT :schema.store_time()) -
                             CASE WHEN o.woken_at IS NULL THEN coalesce(o.dispatched_at, o.claimed_at) ELSE o.claimed_at END AS running_us
                  FROM :schema.held_items o LEFT JOIN :schema.nodes n ON n.id = o.node_id
                  LEFT JOIN :schema.executor_groups g ON g.id = (o.lane_id >> 47)::integer
                  WHERE o.workspace_id = q.workspace_id ORDER BY o.claimed_at LIMIT 20) h))
        || coalesce(CASE WHEN q.phase <> 3 AND (e.dispatched_at IS NULL OR coalesce(q.node_id, 0) = 0)
                         THEN :schema.missing_worker(q.definition_id, e.executor_group) END::jsonb, '{}'))::json
    FROM :schema.executions e
    JOIN :schema.workflow_execution_queue q ON q.id = e.id
    JOIN :schema.scheduler r ON r.partition = 0
    LEFT JOIN :schema.role_failure f ON true
    LEFT JOIN :schema.workspaces w ON w.id = q.workspace_id
    LEFT JOIN :schema.workflow_definitions d ON d.id = q.definition_id
    LEFT JOIN :schema.nodes n ON n.id = q.node_id
        AND (NOT n.engine_reachable OR n.engine_impaired_at IS NOT NULL OR n.record_failed_at IS NOT NULL)
    LEFT JOIN :schema.nodes s ON s.id = q.node_id AND s.expires_at <= (SELECT :schema.store_time())
    WHERE e.id = why_living.execution_id AND q.id = why_living.execution_id);
END
$$;
