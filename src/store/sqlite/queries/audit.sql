-- The record of acts.

-- ?1 time, ?2 actor, ?3 act, ?4 subject, ?5 reason, ?6 before and ?7 after: JSON or '', ?8 affected executions
-- name: insert_act
INSERT INTO audit (at, actor, act, subject, reason, before, after, affected)
VALUES (?1, ?2, ?3, ?4, ?5, nullif(?6, ''), nullif(?7, ''), ?8);

-- An act that changes no setting. ?6 detail or NULL
-- name: note_act
INSERT INTO audit (at, actor, act, subject, reason, after)
VALUES (?1, ?2, ?3, ?4, ?5, CASE WHEN ?6 IS NOT NULL THEN json_object('detail', ?6) END);

-- The present value of a setting as a JSON object; NULL: there is none. ?1 kind, ?2 name, ?3 workspace that owns it or NULL, ?4 now
-- name: read_setting
SELECT CASE ?1
WHEN 'queue' THEN (SELECT json_object('paused', json(iif(s.queue_paused, 'true', 'false'))) FROM store_state s WHERE s.id = 1)
WHEN 'group' THEN (SELECT json_object('paused', json(iif(g.paused, 'true', 'false'))) FROM executor_groups g WHERE g.name = ?2)
WHEN 'plan' THEN (SELECT json_object('max_concurrent', p.max_concurrent, 'weight', p.weight,
                                     'max_pending', p.max_pending) FROM plans p WHERE p.name = ?2)
WHEN 'workspace' THEN (SELECT json_object('plan', w.plan, 'max_concurrent', w.max_concurrent, 'paused',
                                          json(iif(w.paused, 'true', 'false')), 'max_pending', w.max_pending)
                       FROM workspaces w WHERE w.name = ?2)
WHEN 'workflow' THEN (SELECT json_object('version', d.version, 'state',
                                         CASE d.state WHEN 0 THEN 'published' WHEN 1 THEN 'disabled' ELSE 'deleted' END)
                      FROM workflow_definitions d
                      WHERE d.name = ?2 AND d.workspace_id = CASE WHEN ?3 IS NULL THEN 0
                                                             ELSE (SELECT w.id FROM workspaces w WHERE w.name = ?3) END
                      ORDER BY d.version DESC LIMIT 1)
WHEN 'node' THEN (SELECT json_object('desired_state', n.desired_state) FROM nodes n
                  WHERE (n.name = ?2 OR CAST(n.id AS TEXT) = ?2) AND n.stopped_at IS NULL AND n.dead_at IS NULL
                  ORDER BY n.id DESC LIMIT 1)
WHEN 'execution' THEN (SELECT json_object('status', e.status) FROM workflow_executions e WHERE e.id = ?2)
WHEN 'token' THEN (SELECT json_object('id', t.id, 'role', t.role,
                                      'workspaces', json(CASE WHEN t.workspaces IS NOT NULL THEN
                                          (SELECT json_group_array(w.name) FROM json_each(t.workspaces) i
                                           JOIN workspaces w ON w.id = i.value) END),
                                      'expires_at', strftime('%Y-%m-%dT%H:%M:%SZ', t.expires_at / 1000000, 'unixepoch'))
                   FROM tokens t WHERE t.name = ?2 AND t.revoked_at IS NULL)
WHEN 'hook' THEN (SELECT json_object('on', json(h."on"), 'workspace', (SELECT w.name FROM workspaces w WHERE w.id = h.workspace_id),
                                     'workflow', h.workflow,
                                     'start_workspace', (SELECT w.name FROM workspaces w WHERE w.id = h.start_workspace_id),
                                     'start_workflow', h.start_workflow, 'paused', json(iif(h.paused, 'true', 'false')))
                  FROM hooks h WHERE h.name = ?2)
WHEN 'schedule' THEN (SELECT json_object('cron', s.cron, 'zone', s.zone, 'every_us', s.every,
                                         'jitter_us', s.jitter, 'starts_at',
                                         strftime('%Y-%m-%dT%H:%M:%SZ', s.starts_at / 1000000, 'unixepoch'), 'ends_at',
                                         strftime('%Y-%m-%dT%H:%M:%SZ', s.ends_at / 1000000, 'unixepoch'), 'workflow', s.workflow,
                                         'params', s.params, 'workspaces',
                                         json(CASE WHEN s.workspaces IS NOT NULL THEN
                                              (SELECT json_group_array(w.name) FROM json_each(s.workspaces) i
                                               JOIN workspaces w ON w.id = i.value) END),
                                         'plan', s.plan, 'overlap', s.overlap, 'catch_up_us', s.catch_up,
                                         'paused', json(iif(s.paused, 'true', 'false')),
                                         'definition_name', CASE WHEN s.definition_owner IS NOT NULL
                                             THEN coalesce((SELECT w.name || '/' FROM workspaces w WHERE w.id = s.definition_owner), '')
                                                  || s.workflow END)
                      FROM schedules s WHERE s.name = ?2)
WHEN 'lock' THEN (SELECT json_object('holder', l.locked_by) FROM shedlock l WHERE l.name = ?2 AND l.lock_until > ?4)
END;

-- Newest first. ?1 subject or NULL, ?2 below this number, ?3 limit, ?4 since, ?5 part of the actor or NULL, ?6 act or NULL
-- name: list_audit
SELECT strftime('%Y-%m-%dT%H:%M:%S', a.at / 1000000, 'unixepoch') || printf('.%06dZ', a.at % 1000000) AS at,
       a.actor, a.act, a.subject, a.reason, a.before, a.after, a.affected, CAST(a.seq AS TEXT) AS cursor_key
FROM audit a
WHERE (?1 IS NULL OR a.subject = ?1) AND a.seq < ?2 AND a.at >= ?4 AND (?5 IS NULL OR instr(a.actor, ?5) > 0)
  AND (?6 IS NULL OR a.act = ?6 OR substr(a.act, 1, length(?6) + 1) = ?6 || ' ')
ORDER BY a.seq DESC LIMIT ?3;

-- Whether purge_audit has something to do. ?1 before this time
-- name: has_old_acts
SELECT EXISTS (SELECT 1 FROM audit a WHERE a.at < ?1);

-- The newest pause of a subject stays, because `status` names its actor. ?1 before this time, ?2 limit
-- name: purge_audit
DELETE FROM audit WHERE seq IN (
    SELECT a.seq FROM audit a
    WHERE a.at < ?1
      AND NOT (a.act IN ('pause', 'workspace pause')
               AND NOT EXISTS (SELECT 1 FROM audit b WHERE b.subject = a.subject AND b.seq > a.seq
                                                       AND b.act IN ('pause', 'resume', 'workspace pause', 'workspace resume')))
    ORDER BY a.at LIMIT ?2);
