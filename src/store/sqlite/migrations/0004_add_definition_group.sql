-- The executor group where an enqueue that names none goes; NULL: the definition names none. It belongs to the version.
ALTER TABLE workflow_definitions ADD COLUMN executor_group TEXT;
