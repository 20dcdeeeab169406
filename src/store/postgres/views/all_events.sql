-- The events of all executions, those in the archive too.
CREATE OR REPLACE VIEW :schema.all_events AS
SELECT * FROM :schema.workflow_execution_events
UNION ALL
SELECT * FROM :schema.archived_events;
