-- The actions of all executions, those in the archive too.
CREATE OR REPLACE VIEW :schema.all_actions AS
SELECT * FROM :schema.workflow_actions
UNION ALL
SELECT * FROM :schema.archived_actions;
