-- The row of the view `executions` as JSON answers show it; NULL when there is no such execution. In plpgsql, which keeps its plan: the
-- plan of the view takes ten times as long as its execution. Callers: why(), read_execution (queries/read.sql).
CREATE OR REPLACE FUNCTION :schema.execution_json(execution_id uuid) RETURNS json
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
    RETURN (SELECT json_build_object(
        'id', e.id, 'workspace', e.workspace, 'workflow', e.workflow, 'version', e.version, 'status', e.status,
        'pending_reason', e.pending_reason, 'waiting_for', e.waiting_for, 'due_at', :schema.rfc3339(e.due_at), 'priority', e.priority,
        'run_at', :schema.rfc3339(e.run_at), 'starts_refused', e.starts_refused, 'deferrals', e.deferrals, 'handovers', e.handovers,
        'node', e.node, 'fence', e.fence,
        'error_code', e.error_code, 'error', e.error, 'created_at', :schema.rfc3339(e.created_at),
        'claimed_at', :schema.rfc3339(e.claimed_at), 'dispatched_at', :schema.rfc3339(e.dispatched_at),
        'stuck_since', :schema.rfc3339(e.stuck_since), 'finished_at', :schema.rfc3339(e.finished_at),
        'executor_group', e.executor_group, 'idempotency_key', e.idempotency_key,
        'retry_of', e.retry_of, 'traceparent', e.traceparent, 'business_key', e.business_key, 'labels', e.labels, 'progress', e.progress)
    FROM :schema.executions e WHERE e.id = execution_json.execution_id);
END
$$;
