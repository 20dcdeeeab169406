-- Deletion of workspaces and workflows.

-- $1 name, $2 end what waits, $3 at most, $4 actor, $5 why
-- name: remove_workspace
SELECT r.status, r.held, r.waiting, r.failed, r.more FROM :schema.remove_workspace($1, $2, $3, $4, $5, true) r;

-- $1 name, $2 behind this id, $3 at most, $4 actor, $5 why
-- name: erase_history
SELECT e.status, e.erased, e.last_id FROM :schema.erase_history($1, $2, $3, $4, $5) e;

-- $1 name, $2 owner or NULL, $3 state, $4 actor, $5 why
-- name: change_workflow
SELECT c.status, c.living FROM :schema.change_workflow($1, $2, $3, $4, $5) c;

-- Of an owner, or of all workspaces.
-- name: workflow_names_of
SELECT DISTINCT d.name FROM :schema.workflow_definitions d
WHERE d.state <> 2 AND d.workspace_id = coalesce((SELECT w.id FROM :schema.workspaces w WHERE w.name = $1), 0) LIMIT 1000;
