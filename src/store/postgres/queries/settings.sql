-- Plans, workspaces, pauses, definitions. The last two parameters of a change are the actor and the reason, NULL = none.

-- name: change_plan
SELECT c.status, c.before, c.after FROM :schema.change_plan($1, $2, $3, $4, $5, $6) c;

-- name: plan_names
SELECT name FROM :schema.plans ORDER BY name LIMIT 1000;

-- $2 plan or NULL, $3 limit, $4 paused: -1 = leave, $5 make it, $6 limit of pending ones
-- name: change_workspace
SELECT c.status, c.before, c.after
FROM :schema.change_workspace($1, $2, $3, CASE $4 WHEN -1 THEN NULL ELSE $4 = 1 END, $5, $6, $7, $8) c;

-- $1 name, $2 new name
-- name: rename_workspace
SELECT c.status, c.before, c.after, c.used FROM :schema.change_workspace_name($1, $2, $3, $4) c;

-- name: renamed_workspace
SELECT :schema.renamed_workspace($1);

-- name: change_pause
SELECT :schema.change_pause($1, $2, $3, $4);

-- name: group_names
SELECT name FROM :schema.executor_groups ORDER BY name LIMIT 1000;

-- $5 = '' when the definition names no group. $14 = 1: nothing is changed.
-- name: publish_definition
SELECT p.status, p.definition_id, p.version, p.unchanged, p.schedule, p.unknown, array_to_json(p.added), array_to_json(p.changed),
       array_to_json(p.deleted)
FROM :schema.publish_with_schedules($1, $2, $3, $4, nullif($5, ''), $6 <> 0, $7::jsonb, $8, $9, $10, $11::jsonb, $12::jsonb, $13,
                                    $14 <> 0) p;

-- The newest older version of $1 that has its text; 0 = none. Deleted ones do not count.
-- name: earlier_definition
SELECT coalesce(max(e.version), 0)
FROM :schema.workflow_definitions d
     JOIN :schema.workflow_definitions e ON e.name = d.name AND e.workspace_id = d.workspace_id
WHERE d.id = $1 AND e.version < d.version AND e.definition = d.definition AND e.state <> 2;

-- name: read_definition
SELECT d.id, d.name, d.definition, d.version, w.name
FROM :schema.workflow_definitions d LEFT JOIN :schema.workspaces w ON w.id = d.workspace_id WHERE d.id = $1;
