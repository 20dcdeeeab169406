-- The params of all executions, those in the archive too.
CREATE OR REPLACE VIEW :schema.all_params AS
SELECT * FROM :schema.execution_params
UNION ALL
SELECT * FROM :schema.archived_params;
