-- Adds an event to the outbox for each execution that has ended in this transaction and each hook that fits. Executions of a workflow
-- that a hook starts have none, so that hooks make no loops. Each caller checks first whether there are hooks.
--   ended  ids; those that are not in the history have no event
-- Locks: none but its own rows. Callers: note_ends(), move_to_history().
CREATE OR REPLACE FUNCTION :schema.write_hook_events(now_us bigint, ended uuid[]) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_nestloop = on SET jit = off AS $$
    INSERT INTO :schema.hook_outbox (hook_id, execution_id, workspace_id, at, params)
    SELECT h.id, e.id, e.workspace_id, now_us,
           json_build_object('hook', h.name, 'id', e.id,
                             'workspace', coalesce((SELECT w.name FROM :schema.workspaces w WHERE w.id = e.workspace_id),
                                                   (SELECT t.name FROM :schema.deleted_workspaces t WHERE t.id = e.workspace_id)),
                             'workflow', d.name, 'version', d.version, 'status', e.status, 'error_code', e.error_code,
                             'error', e.error, 'created_at', :schema.rfc3339(e.created_at),
                             'finished_at', :schema.rfc3339(e.finished_at), 'idempotency_key', e.idempotency_key,
                             'retry_of', e.retry_of)::text
    FROM unnest(ended) WITH ORDINALITY u (id, place)
    JOIN :schema.workflow_executions e ON e.id = u.id
    JOIN :schema.workflow_definitions d ON d.id = e.definition_id
    JOIN :schema.hooks h ON (h.workspace_id IS NULL OR h.workspace_id = e.workspace_id) AND (h.workflow IS NULL OR h.workflow = d.name)
                         AND e.status = ANY (h."on")
    WHERE NOT EXISTS (SELECT 1 FROM :schema.hooks s WHERE s.start_workspace_id = e.workspace_id AND s.start_workflow = d.name)
    ORDER BY u.place, h.id
$$;
