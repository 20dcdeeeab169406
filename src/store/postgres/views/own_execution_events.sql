-- The events of the executions of own_executions.
CREATE OR REPLACE VIEW :schema.own_execution_events WITH (security_barrier = true) AS
SELECT v.* FROM :schema.execution_events v
WHERE (SELECT :schema.own_workspaces()) IS NULL
   OR EXISTS (SELECT 1 FROM :schema.workflow_execution_queue q
              WHERE q.id = v.execution_id AND q.workspace_id = ANY ((SELECT :schema.own_workspaces())::integer[]))
   OR EXISTS (SELECT 1 FROM :schema.workflow_executions h
              WHERE h.id = v.execution_id AND h.workspace_id = ANY ((SELECT :schema.own_workspaces())::integer[]));
