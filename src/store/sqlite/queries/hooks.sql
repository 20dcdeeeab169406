-- Hooks and the outbox of their events. A list of ends is a JSON array of final states.

-- name: has_hooks
SELECT EXISTS (SELECT 1 FROM hooks);

-- The events of a set of ends, between their insertion into the history and the deletion of their rows; `parameter_rows` has the numbers of
-- the rows. ?1 now
-- name: insert_hook_events
INSERT INTO hook_outbox (hook_id, execution_id, workspace_id, at, params)
SELECT h.id, e.id, e.workspace_id, ?1,
       json_object('hook', h.name, 'id', e.id,
                   'workspace', coalesce((SELECT w.name FROM workspaces w WHERE w.id = e.workspace_id),
                                         (SELECT t.name FROM deleted_workspaces t WHERE t.id = e.workspace_id)),
                   'workflow', d.name, 'version', d.version, 'status', e.status, 'error_code', e.error_code, 'error', e.error,
                   'created_at', strftime('%Y-%m-%dT%H:%M:%S', e.created_at / 1000000, 'unixepoch')
                                 || printf('.%06dZ', e.created_at % 1000000),
                   'finished_at', strftime('%Y-%m-%dT%H:%M:%S', e.finished_at / 1000000, 'unixepoch')
                                  || printf('.%06dZ', e.finished_at % 1000000),
                   'idempotency_key', e.idempotency_key, 'retry_of', e.retry_of)
FROM parameter_rows g CROSS JOIN workflow_execution_queue q ON q.number = g.number
CROSS JOIN workflow_executions e ON e.id = q.id
CROSS JOIN workflow_definitions d ON d.id = e.definition_id
CROSS JOIN hooks h
WHERE (h.workspace_id IS NULL OR h.workspace_id = e.workspace_id) AND (h.workflow IS NULL OR h.workflow = d.name)
  AND EXISTS (SELECT 1 FROM json_each(h."on") o WHERE o.value = e.status)
  AND NOT EXISTS (SELECT 1 FROM hooks s WHERE s.start_workspace_id = e.workspace_id AND s.start_workflow = d.name);

-- name: find_hook
SELECT id FROM hooks WHERE name = ?1;

-- name: count_hooks
SELECT count(*) FROM hooks;

-- name: hook_names
SELECT name FROM hooks ORDER BY name LIMIT 1000;

-- ?1 name, ?2 ends, ?3 workspace or 0, ?4 workflow or NULL, ?5 workspace to start in, ?6 workflow to start, ?7 now
-- name: set_hook
INSERT INTO hooks (name, "on", workspace_id, workflow, start_workspace_id, start_workflow, created_at)
VALUES (?1, ?2, nullif(?3, 0), ?4, ?5, ?6, ?7)
ON CONFLICT (name) DO UPDATE
SET "on" = excluded."on", workspace_id = excluded.workspace_id, workflow = excluded.workflow,
    start_workspace_id = excluded.start_workspace_id, start_workflow = excluded.start_workflow, retry_at = 0, error_code = NULL,
    error = NULL;

-- name: pause_hook
UPDATE hooks SET paused = ?2 WHERE name = ?1;

-- name: delete_hook_events
DELETE FROM hook_outbox WHERE hook_id = ?1;

-- name: delete_hook
DELETE FROM hooks WHERE id = ?1;

-- name: has_hook_events
SELECT EXISTS (SELECT 1 FROM hook_outbox);

-- ?1 now, ?2 limit of all hooks, ?3 executions that may wait in the workspace to start in
-- name: read_hook_events
SELECT o.id, h.id, h.name, o.execution_id, (SELECT w.name FROM workspaces w WHERE w.id = h.start_workspace_id), h.start_workflow,
       o.params,
       coalesce((SELECT sum(b.runnable + b.waiting + b.parked) FROM books b WHERE b.workspace_id = h.start_workspace_id), 0) >= ?3,
       (SELECT e.traceparent FROM workflow_executions e WHERE e.id = o.execution_id)
FROM hooks h CROSS JOIN hook_outbox o
WHERE h.paused = 0 AND h.retry_at <= ?1
  AND o.id IN (SELECT x.id FROM hook_outbox x WHERE x.hook_id = h.id ORDER BY x.at, x.id
               LIMIT max(?2 / max((SELECT count(*) FROM hooks r WHERE r.paused = 0 AND r.retry_at <= ?1), 1), 1))
ORDER BY o.id LIMIT ?2;

-- name: remove_hook_event
DELETE FROM hook_outbox WHERE id = ?1;

-- name: note_hook_success
UPDATE hooks SET error_code = NULL, error = NULL WHERE id = ?1 AND error_code IS NOT NULL;

-- ?1 hook, ?2 when to try again, ?3 code, ?4 error
-- name: note_hook_failure
UPDATE hooks SET retry_at = ?2, error_code = ?3, error = ?4 WHERE id = ?1;

-- Whether events are to be dropped. The time is an upper bound of `at` in the index, so it is computed once for each hook.
-- ?1 those before this time, ?2 events that a hook may have
-- name: has_hook_events_to_drop
SELECT EXISTS (SELECT 1 FROM hooks h CROSS JOIN hook_outbox o ON o.hook_id = h.id
               WHERE o.at < max(?1, coalesce((SELECT x.at + 1 FROM hook_outbox x WHERE x.hook_id = h.id ORDER BY x.at DESC
                                              LIMIT 1 OFFSET ?2), 0)));

-- ?3 limit
-- name: drop_hook_events
DELETE FROM hook_outbox
WHERE id IN (SELECT o.id FROM hooks h CROSS JOIN hook_outbox o ON o.hook_id = h.id
             WHERE o.at < max(?1, coalesce((SELECT x.at + 1 FROM hook_outbox x WHERE x.hook_id = h.id ORDER BY x.at DESC
                                            LIMIT 1 OFFSET ?2), 0))
             LIMIT ?3)
RETURNING hook_id;

-- name: count_dropped_hook_event
UPDATE hooks SET dropped = dropped + 1 WHERE id = ?1;

-- name: erase_hook_events
DELETE FROM hook_outbox WHERE workspace_id IN (SELECT t.id FROM deleted_workspaces t WHERE t.name = ?1);

-- By name. ?1 name or NULL, ?2 behind this cursor, ?3 limit
-- name: list_hooks
SELECT h.name, h."on",
       CASE WHEN h.workspace_id IS NOT NULL
            THEN coalesce((SELECT w.name FROM workspaces w WHERE w.id = h.workspace_id),
                          (SELECT t.name FROM deleted_workspaces t WHERE t.id = h.workspace_id)) END AS workspace,
       h.workflow,
       coalesce((SELECT w.name FROM workspaces w WHERE w.id = h.start_workspace_id),
                (SELECT t.name FROM deleted_workspaces t WHERE t.id = h.start_workspace_id)) AS start_workspace,
       h.start_workflow, iif(h.paused, 'true', 'false') AS paused,
       (SELECT count(*) FROM hook_outbox o WHERE o.hook_id = h.id) AS waiting,
       json(iif(h.workspace_id NOT IN (SELECT w.id FROM workspaces w) OR h.start_workspace_id NOT IN (SELECT w.id FROM workspaces w),
                'true', 'false')) AS workspace_deleted,
       h.dropped, h.error_code, h.error,
       strftime('%Y-%m-%dT%H:%M:%S', h.created_at / 1000000, 'unixepoch') || printf('.%06dZ', h.created_at % 1000000) AS created_at
FROM hooks h WHERE (?1 IS NULL OR h.name = ?1) AND h.name > ?2 ORDER BY h.name LIMIT ?3;
