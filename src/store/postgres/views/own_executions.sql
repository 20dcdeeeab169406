-- The executions of the workspaces that the reader may use (own_workspaces()). A barrier: no function of the reader sees another row.
CREATE OR REPLACE VIEW :schema.own_executions WITH (security_barrier = true) AS
SELECT e.* FROM :schema.executions e
WHERE (SELECT :schema.own_workspaces()) IS NULL
   OR e.workspace = ANY (ARRAY(SELECT w.name FROM :schema.workspaces w WHERE w.id = ANY ((SELECT :schema.own_workspaces())::integer[])));
