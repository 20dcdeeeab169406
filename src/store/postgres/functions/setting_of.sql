-- The present value of a setting, as the record of acts keeps it; NULL: there is none. owner: the workspace of a workflow, or NULL.
-- The caller has locked the row. Callers: the functions of acts.
CREATE OR REPLACE FUNCTION :schema.setting_of(kind text, key text, owner text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE kind
    WHEN 'queue' THEN (SELECT jsonb_build_object('paused', s.queue_paused) FROM :schema.store_state s WHERE s.id = 1)
    WHEN 'group' THEN (SELECT jsonb_build_object('paused', g.paused) FROM :schema.executor_groups g WHERE g.name = key)
    WHEN 'plan' THEN (SELECT jsonb_build_object('max_concurrent', p.max_concurrent, 'weight', p.weight, 'max_pending', p.max_pending)
                      FROM :schema.plans p WHERE p.name = key)
    WHEN 'workspace' THEN (SELECT jsonb_build_object('plan', w.plan, 'max_concurrent', w.max_concurrent, 'paused', w.paused,
                                                     'max_pending', w.max_pending)
                           FROM :schema.workspaces w WHERE w.name = key)
    WHEN 'token' THEN (SELECT jsonb_build_object('id', t.id, 'role', t.role, 'workspaces', :schema.workspace_names(t.workspaces),
                                                 'expires_at', to_char(:schema.time_of(t.expires_at) AT TIME ZONE 'UTC',
                                                                       'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
                       FROM :schema.tokens t WHERE t.name = key AND t.revoked_at IS NULL)
    WHEN 'hook' THEN (SELECT jsonb_build_object('on', h."on",
                                                'workspace', (SELECT w.name FROM :schema.workspaces w WHERE w.id = h.workspace_id),
                                                'workflow', h.workflow,
                                                'start_workspace', (SELECT w.name FROM :schema.workspaces w
                                                                    WHERE w.id = h.start_workspace_id),
                                                'start_workflow', h.start_workflow, 'paused', h.paused)
                      FROM :schema.hooks h WHERE h.name = key)
    WHEN 'schedule' THEN (SELECT jsonb_build_object('cron', s.cron, 'zone', s.zone, 'every_us', s.every,
                                                    'jitter_us', s.jitter,
                                                    'starts_at', to_char(:schema.time_of(s.starts_at) AT TIME ZONE 'UTC',
                                                                         'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                                                    'ends_at', to_char(:schema.time_of(s.ends_at) AT TIME ZONE 'UTC',
                                                                       'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                                                    'workflow', s.workflow, 'params', s.params,
                                                    'workspaces', :schema.workspace_names(s.workspaces), 'plan', s.plan,
                                                    'overlap', s.overlap, 'catch_up_us', s.catch_up,
                                                    'paused', s.paused,
                                                    'definition_name', :schema.definition_of_schedule(s.definition_owner, s.workflow))
                          FROM :schema.schedules s WHERE s.name = key)
    WHEN 'workflow' THEN (SELECT jsonb_build_object('version', d.version, 'state',
                                                    (ARRAY['published', 'disabled', 'deleted'])[d.state + 1])
                          FROM :schema.workflow_definitions d
                          WHERE d.name = key AND d.workspace_id = CASE WHEN owner IS NULL THEN 0
                              ELSE (SELECT w.id FROM :schema.workspaces w WHERE w.name = owner) END
                          ORDER BY d.version DESC LIMIT 1)
    END;
END
$$;
