-- The steps of all executions that have a row of their own, those in the archive too.
CREATE OR REPLACE VIEW :schema.all_steps AS
SELECT * FROM :schema.workflow_node_executions
UNION ALL
SELECT * FROM :schema.archived_steps;
