-- How much of each execution in the queue has ended: a number that only grows. The one step of a workflow with states ends with the
-- execution, so the last action that led to another state counts. Columns: id, number, ended. Indexes: the primary keys.
DROP VIEW IF EXISTS item_progress;
CREATE VIEW item_progress AS
SELECT q.id, q.number,
       (SELECT count(n.finished_at) FROM workflow_node_executions n WHERE n.execution_id = q.id)
       + coalesce((SELECT max(a.action) FROM workflow_actions a
                   WHERE a.execution_id = q.id AND a.outcome IN ('next', 'wait', 'failed')), 0) AS ended
FROM workflow_execution_queue q;
