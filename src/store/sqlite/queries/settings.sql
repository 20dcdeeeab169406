-- Plans, workspaces, pauses, definitions: data, changed without restart.

-- name: find_plan
SELECT max_concurrent, weight, max_pending FROM plans WHERE name = ?1;

-- name: plan_names
SELECT name FROM plans ORDER BY name LIMIT 1000;

-- name: upsert_plan
INSERT INTO plans (name, max_concurrent, weight, max_pending) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (name) DO UPDATE
SET max_concurrent = excluded.max_concurrent, weight = excluded.weight, max_pending = excluded.max_pending;

-- name: workspaces_of_plan
SELECT id FROM workspaces WHERE plan = ?1;

-- name: read_workspace
SELECT id, plan, max_concurrent, paused, coalesce(max_pending, -1) FROM workspaces WHERE name = ?1;

-- name: insert_workspace
INSERT INTO workspaces (name, plan, slots_max, created_at) VALUES (?1, ?2, 1, ?3) RETURNING id;

-- ?2 plan, ?3 own limit or NULL, ?4 paused, ?5 own limit of pending ones; -1 = none of its own
-- name: update_workspace
UPDATE workspaces SET plan = ?2, max_concurrent = ?3, paused = ?4, max_pending = nullif(?5, -1) WHERE id = ?1;

-- ?1 id, ?2 new name, ?3 old name. The settings before and after, for the record of acts.
-- name: rename_workspace
UPDATE workspaces SET name = ?2 WHERE id = ?1
RETURNING json_object('id', id, 'name', ?3), json_object('id', id, 'name', name);

-- The present name of the workspace that was last renamed from ?1. Index: audit_by_subject.
-- name: renamed_workspace
SELECT w.name FROM audit a CROSS JOIN workspaces w ON w.id = json_extract(a.after, '$.id')
WHERE a.subject = ?1 AND a.act = 'workspace rename' ORDER BY a.seq DESC LIMIT 1;

-- Held items on Temporal with a definition that reads the name of the workspace. ?1 workspace. Index: queue_held.
-- name: held_by_name
SELECT count(*) FROM workflow_execution_queue h JOIN workflow_definitions d ON d.id = h.definition_id
WHERE h.phase = 2 AND h.lane_id IN (SELECT a.base | ?1 FROM group_lanes a) AND d.demand & 1 = 1
  AND d.definition LIKE '%.execution%workspace%';

-- The result of plan and override.
-- name: resolve_workspace
UPDATE workspaces
SET slots_max = coalesce(max_concurrent, (SELECT p.max_concurrent FROM plans p WHERE p.name = workspaces.plan)),
    weight = (SELECT p.weight FROM plans p WHERE p.name = workspaces.plan),
    pending_max = coalesce(max_pending, (SELECT p.max_pending FROM plans p WHERE p.name = workspaces.plan))
WHERE id = ?1;

-- name: pause_queue
UPDATE store_state SET queue_paused = ?1 WHERE id = 1;

-- name: pause_group
UPDATE executor_groups SET paused = ?2 WHERE name = ?1;

-- name: group_names
SELECT name FROM executor_groups ORDER BY name LIMIT 1000;

-- name: newest_definition
SELECT id, version, definition, state FROM workflow_definitions WHERE name = ?1 AND workspace_id = ?2 ORDER BY version DESC LIMIT 1;

-- ?1 JSON array of names, in ascending order
-- name: find_handler_set
SELECT id FROM handler_sets WHERE handlers = ?1;

-- name: insert_handler_set
INSERT INTO handler_sets (id, handlers) VALUES (?1, ?2);

-- name: newest_handler_set
SELECT coalesce(max(id), 0) FROM handler_sets;

-- The newest older version of ?1 that has its text; 0 = none. Deleted ones do not count.
-- name: earlier_definition
SELECT coalesce(max(e.version), 0)
FROM workflow_definitions d
     JOIN workflow_definitions e ON e.name = d.name AND e.workspace_id = d.workspace_id
WHERE d.id = ?1 AND e.version < d.version AND e.definition = d.definition AND e.state <> 2;

-- ?7 = '' when the definition names no group.
-- name: insert_definition
INSERT INTO workflow_definitions (workspace_id, name, version, definition, starts_max, created_at, executor_group, demand,
                                  handlers, state, source, labels)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, nullif(?7, ''), ?8, ?9, ?10, ?11, ?12) RETURNING id;
