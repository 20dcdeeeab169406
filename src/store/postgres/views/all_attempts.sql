-- The attempts of all executions, those in the archive too.
CREATE OR REPLACE VIEW :schema.all_attempts AS
SELECT * FROM :schema.workflow_node_attempts
UNION ALL
SELECT * FROM :schema.archived_attempts;
